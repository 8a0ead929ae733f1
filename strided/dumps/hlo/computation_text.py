"""The computations in HLO text: their instructions, and the computations printed inside those."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from strided.dumps.hlo.attributes import CALLEE_NAMES
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import Unparsed
from strided.dumps.hlo.lexer import inside, is_value, read_attributes, single_end, split_list, trimmed
from strided.dumps.hlo.line_state import LineState
from strided.dumps.hlo.names import NameUniquer
from strided.dumps.hlo.operands import unnested
from strided.dumps.hlo.quoting import unescape
from strided.dumps.hlo.statements import (
    CONTINUATION,
    OPENING,
    STATEMENT_START,
    LineGroups,
    end_of,
    next_body,
    opening_of,
    split_statements,
)
from strided.dumps.hlo.text_instruction import (
    TextInstruction,
    are_names,
    is_alone,
    is_whole,
    match_line,
    match_plain_line,
    match_statement,
    undefined_names,
)
from strided.dumps.hlo.tuple_elements import with_tuple_elements
from strided.errors import DumpError, NotationError
from strided.layout import AnyShape
from strided.layout.parser import parse_prefix

#: XLA's name for computations printed inside their callers.
BODY = "_"

#: Attributes behind the brace that ends a computation.
_OF_COMPUTATIONS = ("execution_thread", "backend_config")

#: Limit of nested bodies: deeper ones stay text.
_MAX_BODIES = 32


def are_alike(one: AnyShape | None, other: AnyShape | None) -> bool:
    """Whether two shapes have the same element types and sizes, whatever their layouts; also if one is not known."""
    return one is None or other is None or one.text(layout=False) == other.text(layout=False)


class RepeatedNameError(DumpError):
    """A name that is defined a second time."""


class _Mark(NamedTuple):
    """A line, and how much had been read before it."""

    position: int
    found: int
    unread: int
    computations: int
    anonymous: int


class ComputationReader:
    """Collects the computations of one module. Lines count from 0 here and from 1 in results."""

    def __init__(self, groups: LineGroups, path: str | None) -> None:
        self._groups, self.lines, self._path = groups, groups.lines, path
        self.computations: list[Computation] = []
        self.entry: Computation | None = None  # the one that says so
        self.unread: list[Unparsed] = []
        self._named: set[str] = set()
        self._anonymous = NameUniquer()
        self._by_token: _Mark | None = None  # where the last computation begins that was tried by tokens

    def read_computation(self, opening: str, first: int) -> int:
        """Read the computation whose brace opens on line `first`; returns the line after it."""
        lines, found = self.lines, list[TextInstruction]()
        mark = self._mark(found, first)
        before: _Mark | None = None  # where the last statements began, None after a plain line
        position = first + 1
        while position < len(lines):
            if (plain_end := self._read_plain(found, position)) > position:
                position, before = plain_end, None
                if position == len(lines):
                    break
            line = lines[position]
            matched = match_line(line)
            if matched is not None and is_whole(line) and is_alone(matched, line):
                before = self._mark(found, position)
                found += self._taken(TextInstruction(matched, line, position + 1), matched)
                position += 1
            elif not line.strip():
                position += 1
            elif (end := end_of(line)) is not None:
                if end.opening is None and self._groups.ends_later(position):
                    if (after := self._read_by_token(mark)) is not None:
                        return after
                self._add(opening, found, end.attributes, first)
                return position + 1 if end.opening is None else self._groups.go_on(position, end.opening)
            elif not line[0].isspace() and (opening_of(line) or "").strip():
                self.leave(first, "a computation without a closing brace")
                self._add(opening, found, {}, first)
                return position
            else:
                if found and CONTINUATION.match(self._groups.token_line(position)):  # it continues what was read
                    before = before or self._mark(found[:-1], found[-1].line - 1)
                    if (after := self._read_again(found, before, position)) is not None:
                        position = after
                        continue
                    if (after := self._read_by_token(mark)) is not None:
                        return after
                before = self._mark(found, position)
                after = self._read_statements(found, position)
                if after is None:  # brackets do not close here: perhaps they do in all of the computation
                    if (after := self._read_by_token(mark)) is not None:
                        return after
                    self._leave_open(found, position)
                    after = position + 1
                position = after
        words = f"the text ends inside the computation that begins on line {first + 1}"
        raise DumpError(words, path=self._path, line=len(lines), column=len(lines[-1]) + 1)

    def _read_plain(self, found: list[TextInstruction], position: int) -> int:
        """Add the lines from `position` on that are as XLA prints them; returns the first that is not."""
        lines, add = self.lines, found.append
        while position < len(lines):
            line = lines[position]
            if (matched := match_plain_line(line)) is None:
                break
            add(TextInstruction(matched, line, position + 1))
            position += 1
        return position

    def _taken(self, instruction: TextInstruction, matched: re.Match[str]) -> Iterator[TextInstruction]:
        """The instructions nested in the operands of an instruction, then itself."""
        if not are_names(matched, instruction.text):
            yield from self._unnested(instruction)
        yield instruction
        self.check(instruction)

    def _mark(self, found: list[TextInstruction], position: int) -> _Mark:
        return _Mark(position, len(found), len(self.unread), len(self.computations), len(self._anonymous))

    def _read_again(self, found: list[TextInstruction], before: _Mark, position: int) -> int | None:
        """Read again the statements that go on at `position`; returns the next line, or None if cut off."""
        text, end, whole = self._groups.gather(before.position, inner=True)
        if not whole or end <= position:
            return None
        del found[before.found :], self.unread[before.unread :], self.computations[before.computations :]
        self._anonymous.forget(before.anonymous)
        found += self._statements(text, before.position, 0)
        return end

    def _read_by_token(self, mark: _Mark) -> int | None:
        """Read the computation that opens on the line of `mark` by tokens; returns the next line.

        What was read since `mark` is forgotten. None if the computation is damaged, as told the first time it is tried.
        """
        if mark is self._by_token:
            return None
        self._by_token = mark
        text, end, whole = self._groups.gather(mark.position, single=True)
        if not whole:
            return None
        unread, computations = self.unread[mark.unread :], self.computations[mark.computations :]
        self._forget(mark)
        try:
            if self.read_block(text, mark.position) and len(self.unread) == mark.unread:
                return end
        except RepeatedNameError:
            pass  # lines tell better where the damage is
        self._forget(mark)
        self.unread += unread
        self.computations += computations
        return None

    def _forget(self, mark: _Mark) -> None:
        """Forget what was read since `mark`."""
        for computation in self.computations[mark.computations :]:
            self._named.discard(computation.name)
            if computation is self.entry:
                self.entry = None
        del self.unread[mark.unread :], self.computations[mark.computations :]
        self._anonymous.forget(mark.anonymous)

    def _read_statements(self, found: list[TextInstruction], position: int) -> int | None:
        """Add the statements on this line to `found`; returns the next line, or None if their brackets do not close."""
        text, end, whole = self._groups.gather(position, inner=True)
        if not whole:
            return None
        found += self._statements(text, position, 0)
        return end

    def _leave_open(self, found: list[TextInstruction], position: int) -> None:
        """Keep a line whose brackets do not close as text; as an instruction too, if it is cut behind its operands."""
        state = LineState()
        state.feed(self.lines[position])
        is_stray = state.broken and not state.depth  # a bracket closed although none was open at all
        matched = None if is_stray else match_line(self.lines[position])
        if matched is not None:
            found.append(TextInstruction(matched, self.lines[position], position + 1))
        self.leave(position, "an instruction whose brackets do not close" if matched else "no instruction")

    def _statements(self, text: str, first: int, depth: int) -> Iterator[TextInstruction]:
        line, counted = first, 0
        for start, stop in split_statements(text):
            statement = text[start:stop].strip()
            line, counted = line + text.count("\n", counted, start), start
            matched = match_statement(statement)
            if matched is None:
                if trimmed(statement):
                    self.leave(line, "no instruction", statement)
                continue
            instruction = TextInstruction(matched, matched.string, line + 1)
            yield from self._taken(instruction, matched)
            self.read_bodies(instruction, depth)

    def _unnested(self, instruction: TextInstruction) -> list[TextInstruction]:
        """The instructions nested in the operands, now with names."""
        try:
            return unnested(instruction, lambda opcode: self._anonymous.unique(f"{opcode}.anon"))
        except DumpError as error:
            self.leave(instruction.line - 1, str(error))
            return []

    def read_bodies(self, instruction: TextInstruction, depth: int) -> None:
        """Read the computations printed in place of their names: ``calls={ ROOT x = ... }``."""
        for key, value in instruction.written_attributes.items():
            if key not in CALLEE_NAMES or not value.startswith("{") or "=" not in value:
                continue
            content = inside(value)
            parts = [content] if STATEMENT_START.match(content) else [inside(part) for part in split_list(content)]
            if depth >= _MAX_BODIES:
                self.leave(instruction.line - 1, f"bodies that nest deeper than {_MAX_BODIES}")
                return
            bodies = instruction.bodies = instruction.bodies or {}
            found = (self._body(instruction, part, depth) for part in parts)
            bodies[key] = [body for body in found if body is not None]

    def _body(self, caller: TextInstruction, text: str, depth: int) -> Computation | None:
        line = caller.line - 1 + caller.text.count("\n", 0, max(caller.text.find(text), 0))
        found = tuple(self._statements(text, line, depth + 1))
        if not found:
            self.leave(line, "a computation without instructions")
            return None
        return self.keep(BODY, found)

    def read_block(self, text: str, first: int) -> bool:
        """Read whole computations, wherever their lines end; returns False if the text is none."""
        start, blocks = 0, []
        while (body := next_body(text, start)) is not None:
            brace, end = body
            attributes, after = read_attributes(text, end, single_end)
            blocks.append((text[start:brace], brace + 1, end - 1, attributes))
            start = after
        if not blocks or trimmed(text[start:]) or any(opening_of(trimmed(head) + "{") is None for head, *_ in blocks):
            return False
        line, counted = first, 0
        for head, brace, end, attributes in blocks:
            line, counted = line + text.count("\n", counted, brace), brace
            self._add(trimmed(head), list(self._statements(text[brace:end], line, 0)), attributes, line)
        return True

    def _add(self, opening: str, found: list[TextInstruction], attributes: dict[str, str], first: int) -> None:
        if not found:
            self.leave(first, "a computation without instructions")
            return
        matched = OPENING.match(opening)
        assert matched is not None  # at least the empty beginning
        entry, name = matched.groups("")
        if entry and self.entry is not None:
            raise self._twice("a second ENTRY", first + 1)
        if name and name in self._named:
            raise self._twice(f"a second computation {name!r}", first + 1)
        for key, value in attributes.items():
            if key not in _OF_COMPUTATIONS or not is_value(value):
                # Where the brace is that ends it is not known, but what follows the last instruction does not come out.
                self.leave(found[-1].line - 1, f"no attribute of a computation: {key}={value[:60]}")
        config = attributes.get("backend_config")
        computation = self.keep(name, found, signature=opening.strip())
        computation.execution_thread = unescape(attributes.get("execution_thread", ""))
        computation.backend_config = config if config is None or config.startswith("{") else unescape(config)
        self._named.add(name)
        if entry:
            self.entry = computation

    def keep(self, name: str, found: Sequence[TextInstruction], *, signature: str = "") -> Computation:
        """Add a computation to the module, and check the names in it. DumpError for a name that is defined twice."""
        names = {instruction.name for instruction in found}
        if len(names) < len(found):
            counts = Counter(instruction.name for instruction in found)
            twice = [instruction for instruction in found if counts[instruction.name] > 1][-1]
            raise self._twice(f"a second instruction {twice.name!r}", twice.line)
        if len(roots := [instruction for instruction in found if instruction.is_root]) > 1:
            raise self._twice("a second ROOT", roots[1].line)
        if undefined := list(undefined_names(found, names)):
            found, undefined = with_tuple_elements(found, undefined)
        computation = Computation(name, tuple(found), signature=signature)
        self.computations.append(computation)
        self._check_parameters(found)
        if not roots:
            self._check_last(found[-1], signature)
        if undefined:
            told = self._told_since(found[0].line)
            for instruction, operand in undefined:
                if instruction.line not in told:
                    self.leave(instruction.line - 1, f"no instruction {operand[:60]!r}")
        return computation

    def _told_since(self, line: int) -> set[int | None]:
        """The lines from `line` on that are in `unread`; of what was read last, so that only its end is looked at."""
        told = set[int | None]()
        for count, part in enumerate(reversed(self.unread)):
            if (part.line or 0) >= line:
                told.add(part.line)
            elif count:  # the very last may be the line above, which opens the computation
                break
        return told

    def _check_parameters(self, found: Sequence[TextInstruction]) -> None:
        numbers = set[int]()
        for instruction in found:
            if instruction.opcode != "parameter":
                continue
            number = instruction.parameter_number
            if number is None or number < 0 or number in numbers:
                reason = "no parameter number" if number is None or number < 0 else f"a second parameter {number}"
                self.leave(instruction.line - 1, reason)
            else:
                numbers.add(number)

    def _check_last(self, last: TextInstruction, signature: str) -> None:
        """Tell of a computation whose last instruction, none being marked ROOT, has not the shape of its signature."""
        _, arrow, text = signature.rpartition("->")
        try:
            result = parse_prefix(text)[0] if arrow else None
        except NotationError:
            return
        if not are_alike(result, last.written_shape):
            self.leave(last.line - 1, "no ROOT, and not what the computation gives")

    def check(self, instruction: TextInstruction) -> None:
        if instruction.shape_text is not None and instruction.written_shape is None:
            self.leave(instruction.line - 1, f"no shape: {instruction.shape_text[:60]}")
        if instruction.holds_another:
            self.leave(instruction.line - 1, "another instruction begins inside its brackets")
        for fault in instruction.faults():
            self.leave(instruction.line - 1, fault)

    def leave(self, position: int, reason: str, text: str | None = None) -> None:
        self.unread.append(Unparsed(position + 1, self.lines[position] if text is None else text, reason))

    def _twice(self, words: str, line: int | None) -> DumpError:
        return RepeatedNameError(words, path=self._path, line=line, column=1)
