"""Work, counted: the lines of this package that run, and the steps that regular expressions take.

A clock tells of the machine, too; a count is the same everywhere. Lines are counted by Python's tracing. What a
regular expression does inside one call is seen by nobody, so every pattern of the package is followed by a `Machine` of
our own, which goes through the text as Python's does, backtracking included, and must come to the same end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import BuiltinMethodType
from typing import Any

Ends = Iterator[int]

_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s", op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


class Machine:
    """One pattern, followed step by step."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.flags, self.steps, self.text = pattern.flags, 0, ""
        self.is_ascii = isinstance(pattern.pattern, bytes) or bool(pattern.flags & re.ASCII)
        self.tree = list(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
        self._fits = cache(self._fits_anew)
        self._groups: dict[int | None, str] = {}

    def end_of(self, text: str, position: int, *, whole: bool) -> int | None:
        """Where a match that begins at `position` ends."""
        self.text, self._groups = text, {}
        ends = self._sequence(self.tree, 0, position)
        return next((end for end in ends if not whole or end == len(text)), None)

    def _sequence(self, items: Any, k: int, position: int) -> Ends:
        if k == len(items):
            yield position
            return
        for end in self._one(*items[k], position):
            yield from self._sequence(items, k + 1, end)

    def _one(self, code: Any, argument: Any, position: int) -> Ends:
        self.steps += 1
        if code in _SINGLE:
            if position < len(self.text) and self._fits(code, _frozen(argument), self.text[position]):
                yield position + 1
        elif code is op.BRANCH:
            for branch in argument[1]:
                yield from self._sequence(branch, 0, position)
        elif code is op.SUBPATTERN:
            for end in self._sequence(argument[3], 0, position):
                self._groups[argument[0]] = self.text[position:end]
                yield end
        elif code is op.GROUPREF:
            taken = self._groups.get(argument)
            self.steps += len(taken or "")
            if taken is not None and self.text.startswith(taken, position):
                yield position + len(taken)
        elif code is op.ATOMIC_GROUP:
            yield from self._first(argument, position)
        elif code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            yield from self._repeat(code, *argument, position)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            direction, items = argument
            start = position if direction > 0 else position - items.getwidth()[0]
            found = start >= 0 and any(True for _ in self._first(items, start))
            if found == (code is op.ASSERT):
                yield position
        elif code is op.AT:
            if self._stands_at(argument, position):
                yield position
        elif code is not op.FAILURE:
            raise NotImplementedError(code)

    def _first(self, items: Any, position: int) -> Ends:
        for end in self._sequence(items, 0, position):
            yield end
            return

    def _repeat(self, code: Any, least: int, most: Any, items: Any, position: int) -> Ends:
        if len(items) == 1 and items[0][0] in _SINGLE:
            yield from self._run(code, least, most, items[0], position)
        elif code is op.POSSESSIVE_REPEAT:
            count = 0
            while count < most and (end := next(self._sequence(items, 0, position), position)) != position:
                position, count = end, count + 1
            if count >= least:
                yield position
        else:
            lazy = code is op.MIN_REPEAT
            if lazy and not least:
                yield position
            open_ends = [(position, self._sequence(items, 0, position))]
            while open_ends:
                start, ends = open_ends[-1]
                end = next(ends, None) if len(open_ends) <= most else None
                if end is None or end == start:
                    open_ends.pop()
                    if not lazy and len(open_ends) >= least:
                        yield start
                    continue
                if lazy and len(open_ends) >= least:
                    yield end
                open_ends.append((end, self._sequence(items, 0, end)))

    def _run(self, code: Any, least: int, most: Any, item: Any, position: int) -> Ends:
        """A repetition of one character."""
        kind, argument, stop = item[0], _frozen(item[1]), position
        while stop < len(self.text) and stop - position < most:
            self.steps += 1
            if code is op.MIN_REPEAT and stop - position >= least:
                yield stop
            if not self._fits(kind, argument, self.text[stop]):
                break
            stop += 1
        else:
            if code is op.MIN_REPEAT and stop - position >= least:
                yield stop
        if code is op.POSSESSIVE_REPEAT and stop - position >= least:
            yield stop
        if code is op.MAX_REPEAT:
            for end in range(stop, position + least - 1, -1):
                self.steps += 1
                yield end

    def _fits_anew(self, code: Any, argument: Any, character: str) -> bool:
        if code is op.LITERAL:
            return ord(character) == argument
        if code is op.NOT_LITERAL:
            return ord(character) != argument
        if code is op.ANY:
            return character != "\n" or bool(self.flags & re.DOTALL)
        negated = argument[0][0] is op.NEGATE
        return negated != any(self._is_in(kind, value, character) for kind, value in argument[negated:])

    def _is_in(self, kind: Any, value: Any, character: str) -> bool:
        if kind is op.RANGE:
            return bool(value[0] <= ord(character) <= value[1])
        if kind is op.CATEGORY:
            return re.match(_CATEGORIES[value], character, re.ASCII if self.is_ascii else 0) is not None
        return self._fits_anew(kind, value, character)

    def _stands_at(self, place: Any, position: int) -> bool:
        text = self.text
        if place is op.AT_BEGINNING_STRING or (place is op.AT_BEGINNING and not self.flags & re.MULTILINE):
            return position == 0
        if place is op.AT_BEGINNING:
            return position == 0 or text[position - 1] == "\n"
        if place is op.AT_END_STRING:
            return position == len(text)
        if place is op.AT_END:
            line_end = bool(self.flags & re.MULTILINE) or position == len(text) - 1
            return position == len(text) or (line_end and text[position] == "\n")
        sides = [
            0 <= k < len(text) and self._is_in(op.CATEGORY, op.CATEGORY_WORD, text[k]) for k in (position - 1, position)
        ]
        return (sides[0] != sides[1]) == (place is op.AT_BOUNDARY)


def _frozen(argument: Any) -> Any:
    return tuple(argument) if isinstance(argument, list) else argument


_machine = cache(Machine)


class Counted:
    """A pattern that counts its steps, with the methods that the package uses."""

    def __init__(self, pattern: re.Pattern[Any], add: Callable[[int], None]) -> None:
        self.pattern, self._add, self._machine = pattern.pattern, add, _machine(pattern)
        self._real = pattern

    def _follow(self, text: Any, position: int, *, search: bool = False, whole: bool = False) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            method = self._real.fullmatch if whole else self._real.search if search else self._real.match
            readable = text if isinstance(text, str) else str(text, "latin-1")
            position = min(position, len(readable))
            found, machine = method(text, position), self._machine
            last = found.start() if found else len(readable) if search else position
            machine.steps = 0
            ends = [machine.end_of(readable, start, whole=whole) for start in range(position, last + 1)]
            assert ends[-1:] == [found.end() if found else None], (self.pattern, text, position)
            assert not any(end is not None for end in ends[:-1]), (self.pattern, text, position)
            self._add(machine.steps)
            return found
        finally:
            sys.settrace(tracer)

    def match(self, text: Any, position: int = 0) -> Any:
        return self._follow(text, position)

    def fullmatch(self, text: Any, position: int = 0) -> Any:
        return self._follow(text, position, whole=True)

    def search(self, text: Any, position: int = 0) -> Any:
        return self._follow(text, position, search=True)

    def finditer(self, text: Any, position: int = 0) -> Iterator[Any]:
        while position <= len(text) and (found := self.search(text, position)):
            yield found
            position = found.end() + (found.end() == found.start())

    def findall(self, text: Any, position: int = 0) -> list[Any]:
        for _ in self.finditer(text, position):
            pass
        return self._real.findall(text, position)

    def sub(self, new: Any, text: Any) -> Any:
        for _ in self.finditer(text):
            pass
        return self._real.sub(new, text)


@contextmanager
def _followed(add: Callable[[int], None]) -> Iterator[None]:
    """Within this, the patterns of the package are `Counted`, those that it compiles meanwhile too."""
    made: dict[re.Pattern[Any], Counted] = {}

    def counted(value: Any) -> Any:
        if isinstance(value, re.Pattern):
            return made.setdefault(value, Counted(value, add))
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, re.Pattern):
            return getattr(counted(value.__self__), value.__name__)
        if type(value) in (list, tuple):
            parts = [counted(part) for part in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else type(value)(parts)
        return value

    def compile_counted(*given: Any) -> Any:
        pattern = real_compile(*given)
        return counted(pattern) if sys._getframe(1).f_globals["__name__"].startswith("strided") else pattern

    changed: list[tuple[Any, str, Any]] = []
    kept = [m for name, m in sorted(sys.modules.items()) if name.startswith("strided") and m is not None]
    real_compile = re.compile
    try:
        for module in kept:
            for name, value in list(vars(module).items()):
                if hasattr(value, "cache_clear") and not isinstance(value, type):
                    value.cache_clear()
                if not name.startswith("__") and (other := counted(value)) is not value:
                    changed.append((module, name, value))
                    setattr(module, name, other)
        re.compile = compile_counted  # type: ignore[assignment]
        yield
    finally:
        re.compile = real_compile
        for module, name, value in changed:
            setattr(module, name, value)
        for module in kept:
            for value in vars(module).values():
                if hasattr(value, "cache_clear") and not isinstance(value, type):
                    value.cache_clear()


def steps(work: Callable[[], object]) -> int:
    """Lines of the package that `work` runs, and steps of its regular expressions."""
    count = 0

    def add(more: int) -> None:
        nonlocal count
        count += more

    def lines(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return lines

    def calls(frame: Any, event: str, argument: Any) -> Any:
        return lines if frame.f_globals.get("__name__", "").startswith("strided") else None

    before = sys.gettrace()
    with _followed(add):
        sys.settrace(calls)
        try:
            work()
        finally:
            sys.settrace(before)
    return count


def check_linear(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """Hold that four times the size is about four times the work: what twice the size adds at most doubles.

    `work` makes what is to be done of a size; making it is not counted.
    """
    first, second, third = (steps(work(n)) for n in (size, 2 * size, 4 * size))
    # Twice the size adds d and four times the size adds 2 d to that: of a square it would be 4 d.
    assert third - second <= 2.6 * (second - first) + 1500, (
        f"steps at {size}, twice, four times: {first, second, third}"
    )
