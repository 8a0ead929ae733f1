"""HLO text, read in two speeds.

XLA prints an instruction on a line of its own::

    [ROOT ][%]name = shape opcode(operands){, attribute=value}

so the reader goes by lines: one regular expression takes name, shape, opcode and the place of the operands, a count of
brackets and quotes says that the line is whole, and everything behind the opening parenthesis stays text until somebody
asks. Lines that do not fit are gathered until their brackets close and taken apart token by token: so come in programs
written by hand, on one line or over many, and bodies printed inside their callers.

What is no statement even then is kept as it stands (`Module.unread`) and counted in one DumpWarning. Text that ends
before its computation does, and text without any computation, is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from strided.dumps.hlo.asynchronous import unfold
from strided.dumps.hlo.header import TABLES, Unparsed
from strided.dumps.hlo.lexer import Gatherer, inside, read_attributes, split_list, trimmed, unescape
from strided.dumps.hlo.module import Computation, Module
from strided.dumps.hlo.names import NameUniquer, rename
from strided.dumps.hlo.operands import unnested, with_parameters
from strided.dumps.hlo.shapes import shape_of
from strided.dumps.hlo.statements import (
    OPENING,
    STATEMENT_START,
    end_of,
    indent_of,
    next_body,
    opening_of,
    split_statements,
)
from strided.dumps.hlo.text_header import TextHeader
from strided.dumps.hlo.text_instruction import (
    CALLEES,
    NAME,
    UNFINISHED,
    TextInstruction,
    are_names,
    is_alone,
    is_whole,
    match_line,
    match_plain_line,
    match_statement,
    undefined_names,
)
from strided.errors import DumpError

_HEADER = re.compile(r"\s*+HloModule\b\s*+([^\s,]*+)")
#: What no statement and no computation begins with, so that it goes on with what stands before.
_CONTINUATION = re.compile(r"[,<({\[]|->|=|T\(")
#: The end of what a name or a computation must follow.
_HEAD_ALONE = re.compile(rf"(?:^|\s)(?:HloModule|ENTRY(?:\s++%?{NAME})?)\Z")

#: XLA's name for computations that stand inside their callers.
_BODY = "_"
#: The line between modules in files of XLA's tests.
_DIVIDER = "// -----"

#: Bodies inside bodies inside bodies: deeper ones stay text.
_MAX_BODIES = 32


def read_text(text: str, path: str | None = None, index: int | None = None) -> Module:
    """The module in HLO text; the one at `index`, from 0, of several.

    Raises
    ------
    DumpError
        Text that holds no computation, ends inside one, or defines a name twice; line and column say where. Several
        modules without an `index`, or one that there is not.

    >>> module = read_text("HloModule m\\n\\nENTRY e {\\n  ROOT p = f32[2]{0} parameter(0)\\n}\\n")
    >>> print(module.entry.root.shape)
    f32[2]{0}
    """
    return read_lines((text.replace("\r\n", "\n") if "\r" in text else text).split("\n"), path, index)


def read_lines(lines: list[str], path: str | None = None, index: int | None = None) -> Module:
    """The same of a text's lines, for those who need not keep the text."""
    # Characters that may still be gathered. Lines that turn out to belong together are gathered twice at most; text
    # whose brackets never close would be gathered again from every line.
    patience = 4 * (sum(map(len, lines)) + len(lines)) + 100_000
    may_fold = any("async-" in line or "async_execution_thread" in line for line in lines)
    try:
        readers = _read_all(_Reader(lines, path, 0, patience, divided=False, may_fold=may_fold))
    except _TwiceError:  # XLA's tests divide files that their tools take apart
        if not any(_DIVIDER in line for line in lines):
            raise
        readers = _read_all(_Reader(lines, path, 0, patience, divided=True, may_fold=may_fold))
    count = len(readers)
    if index is None and count > 1:
        words = f"this text holds {count} modules: index=0 to index={count - 1} picks one"
        raise DumpError(words, path=path, line=readers[1].start + 1, column=1)
    if not 0 <= (index or 0) < count:
        raise DumpError(f"there is no module {index}: this text holds {count}", path=path)
    return readers[index or 0].module()


class _TwiceError(DumpError):
    """A name that is defined a second time."""


def _read_all(first: _Reader) -> list[_Reader]:
    """All modules of a text, one reader each."""
    readers = [first]
    while (position := readers[-1].read()) < len(first.lines):
        patience, divided, may_fold = readers[-1].patience, first.divided, first.may_fold
        readers.append(_Reader(first.lines, first.path, position, patience, divided=divided, may_fold=may_fold))
    return readers


class _Mark(NamedTuple):
    """A line, and how much had been read before it."""

    position: int
    found: int
    unread: int
    computations: int
    anonymous: int


class _Reader:
    """The state of one pass over the lines. Lines count from 0 here and from 1 in everything that is handed out."""

    def __init__(
        self, lines: list[str], path: str | None, start: int, patience: int, *, divided: bool, may_fold: bool
    ) -> None:
        self.lines, self.path, self.start, self.divided, self.may_fold = lines, path, start, divided, may_fold
        self.name: str | None = None
        self.attributes: dict[str, str] = {}
        self.tables: dict[str, list[str]] = {}
        self.computations: list[Computation] = []
        self.entry: Computation | None = None
        self.named: set[str] = set()
        self.single: Computation | None = None
        self.unread: list[Unparsed] = []
        self.anonymous = NameUniquer()
        self.patience = patience

    # ---- above and between computations -----------------------------------------------------------------------------

    def read(self) -> int:
        """Read one module; gives the line on which the next one begins, or the number of lines."""
        table: list[str] | None = None
        position = self.start
        while position < len(self.lines):
            line = self.lines[position]
            word = line.strip()
            if table is not None and word[:1].isdigit():
                table.append(line)
                position += 1
            elif not word or word in TABLES:
                table = self.tables.setdefault(word, []) if word else None
                position += 1
            elif position > self.start and self._begins_module(word):
                return position
            elif word[0] == "#":  # a comment of the tools that run XLA's tests
                position += 1
            else:
                table = None
                position = self._read_top(position)
        return position

    def _begins_module(self, word: str) -> bool:
        """Whether a line that is not the first begins another module: a second header, or a line between modules."""
        if word.startswith(_DIVIDER):
            return self.divided and bool(self.computations)
        return (self.name is not None or bool(self.computations)) and _HEADER.match(word) is not None

    def _read_top(self, position: int) -> int:
        line = self.lines[position]
        if (opening := opening_of(line)) is not None:
            return self._read_computation(opening, position)
        text, end, whole = self._gather(position)
        if header := _HEADER.match(text):
            self._read_header(header, text, position, whole)
            return end
        if self._read_block(text, position) or not trimmed(text):
            return end
        self._leave(position, "neither a computation nor a part of the header")
        return position + 1

    def _read_header(self, header: re.Match[str], text: str, position: int, whole: bool) -> None:
        self.name = header[1]
        self.attributes, rest = read_attributes(text, header.end())
        if not whole:
            self._leave(position, "a header whose brackets do not close")
        elif trimmed(text[rest:]) and not self._read_block(text[rest:], position + text.count("\n", 0, rest)):
            self._leave(position, "a header that goes on behind its attributes")

    def module(self) -> Module:
        if (not self.computations or self.unread) and not self._read_single() and not self.computations:
            line = next((n for n, text in enumerate(self.lines[self.start :], self.start) if text.strip()), self.start)
            column = len(self.lines[line]) - len(self.lines[line].lstrip()) + 1
            raise DumpError("no HLO computation in this text", path=self.path, line=line + 1, column=column)
        entry = self.entry or self.computations[-1]
        folded = {body for body in unfold(self.computations) if body is not entry} if self.may_fold else set()
        renamed = rename(sorted(self.computations, key=lambda one: one is not self.single))
        module = Module(
            f"module_{entry.name}" if self.name is None else self.name,
            TextHeader(self.attributes, self.tables),
            [computation for computation in self.computations if computation not in folded],
            entry,
            renamed=renamed,
            unread=self.unread,
            path=self.path,
        )
        for body in folded:
            body.module = module
        return module

    def _read_single(self) -> bool:
        """Whether the text is one instruction on its own: the whole entry, with parameters for its operands."""
        if self.name is not None or self.entry is not None:
            return False
        found = with_parameters(trimmed("\n".join(self.lines[self.start :])), self.start + 1)
        if found is None:
            return False
        self.unread, self.computations, self.entry = [], [], None
        self._check(found[-1])
        self._read_bodies(found[-1], 0)
        self.name, self.attributes = _BODY, {"is_scheduled": "true"}
        self.single = self._keep(Computation(_BODY, tuple(found), signature=f"ENTRY %{_BODY}"), found)
        return True

    # ---- computations -----------------------------------------------------------------------------------------------

    def _read_computation(self, opening: str, first: int) -> int:
        """The computation whose brace opens on line `first`; gives the line behind it."""
        lines, found = self.lines, list[TextInstruction]()
        mark, stray = self._mark(found, first), False
        before: _Mark | None = None  # where the last statements began, if not on a plain line
        position = first + 1
        while position < len(lines):
            line = lines[position]
            plain = match_plain_line(line)
            if plain is not None:
                instruction = TextInstruction(plain, line, position + 1)
                if instruction.shape_text is None or instruction.written_shape is not None:
                    found.append(instruction)
                    position += 1
                    before = None
                    continue
            matched = match_line(line)
            if matched is not None and is_whole(line) and is_alone(matched, line):
                before = self._mark(found, position)
                found += self._taken(TextInstruction(matched, line, position + 1), matched)
                position += 1
            elif not line.strip():
                position += 1
            elif (end := end_of(line)) is not None:
                self._add(opening, found, end, first)
                return position + 1
            elif not line[0].isspace() and (opening_of(line) or "").strip():
                self._leave(first, "a computation without a closing brace")
                self._add(opening, found, {}, first)
                return position
            else:
                if found and _CONTINUATION.match(line.lstrip()):  # it goes on with what stands before
                    before = before or self._mark(found[:-1], (found[-1].line or 1) - 1)
                    if (after := self._read_again(found, before, position)) is not None:
                        position = after
                        continue
                before = self._mark(found, position)
                after = self._read_statements(found, position)
                if after is None:  # a bracket closes that nobody opened: perhaps the computation's
                    block_end = None if stray else self._read_by_token(first, mark)
                    if block_end is not None:
                        return block_end
                    stray = True
                    self._leave(position, "no instruction")
                    after = position + 1
                position = after
        raise self._cut(first)

    def _taken(self, instruction: TextInstruction, matched: re.Match[str]) -> Iterator[TextInstruction]:
        """An instruction behind those that stand in the place of its operands."""
        if not are_names(matched, instruction.text):
            yield from self._unnested(instruction)
        yield instruction
        self._check(instruction)

    def _mark(self, found: list[TextInstruction], position: int) -> _Mark:
        return _Mark(position, len(found), len(self.unread), len(self.computations), len(self.anonymous))

    def _read_again(self, found: list[TextInstruction], before: _Mark, position: int) -> int | None:
        """Statements that began at a mark and go on at `position`, whole; None where they do not."""
        text, end, whole = self._gather(before.position, inner=True)
        if not whole or end <= position:
            return None
        del found[before.found :], self.unread[before.unread :], self.computations[before.computations :]
        self.anonymous.forget(before.anonymous)
        found += self._statements(text, before.position, 0)
        return end

    def _read_by_token(self, first: int, mark: _Mark) -> int | None:
        """The computation that opens on line `first`, wherever its lines end; None where it is no whole one.

        `mark` says how much had been read before it: what came of its lines since then is forgotten.
        """
        text, end, whole = self._gather(first)
        unread, computations = self.unread[mark.unread :], self.computations[mark.computations :]
        del self.unread[mark.unread :], self.computations[mark.computations :]
        self.anonymous.forget(mark.anonymous)
        if whole and self._read_block(text, first):
            return end
        self.unread += unread
        self.computations += computations
        return None

    def _read_statements(self, found: list[TextInstruction], position: int) -> int | None:
        """The statements that begin on this line, onto `found`; the line behind, None where the computation ends."""
        text, end, whole = self._gather(position, inner=True)
        if not whole:
            state = Gatherer()
            state.feed(self.lines[position])
            if state.closed_too_often:
                return None
            matched = match_line(self.lines[position])
            if matched is not None:
                found.append(TextInstruction(matched, self.lines[position], position + 1))
            self._leave(position, "an instruction whose brackets do not close" if matched else "no instruction")
            return position + 1
        found += self._statements(text, position, 0)
        return end

    def _statements(self, text: str, first: int, depth: int) -> Iterator[TextInstruction]:
        line, counted = first, 0
        for start, stop in split_statements(text):
            statement = text[start:stop].strip()
            line, counted = line + text.count("\n", counted, start), start
            matched = match_statement(statement)
            if matched is None:
                if trimmed(statement):
                    self._leave(line, "no instruction", statement)
                continue
            instruction = TextInstruction(matched, matched.string, line + 1)
            yield from self._taken(instruction, matched)
            self._read_bodies(instruction, depth)

    def _unnested(self, instruction: TextInstruction) -> list[TextInstruction]:
        """The instructions that stand in the place of operands, which are named from now on."""
        try:
            return unnested(instruction, lambda opcode: self.anonymous.unique(f"{opcode}.anon"))
        except DumpError as error:
            self._leave((instruction.line or 1) - 1, str(error))
            return []

    def _read_bodies(self, instruction: TextInstruction, depth: int) -> None:
        """Computations that stand in braces where their names should: ``calls={ ROOT x = ... }``."""
        for key, value in instruction.written_attributes.items():
            if key not in CALLEES or not value.startswith("{") or "=" not in value:
                continue
            content = inside(value)
            parts = [content] if STATEMENT_START.match(content) else [inside(part) for part in split_list(content)]
            if depth >= _MAX_BODIES:
                self._leave((instruction.line or 1) - 1, f"bodies that nest deeper than {_MAX_BODIES}")
                return
            bodies = instruction.bodies = instruction.bodies or {}
            found = (self._body(instruction, part, depth) for part in parts)
            bodies[key] = [body for body in found if body is not None]

    def _body(self, caller: TextInstruction, text: str, depth: int) -> Computation | None:
        line = (caller.line or 1) - 1 + caller.text.count("\n", 0, max(caller.text.find(text), 0))
        found = tuple(self._statements(text, line, depth + 1))
        if not found:
            self._leave(line, "a computation without instructions")
            return None
        return self._keep(Computation(_BODY, found), found)

    def _read_block(self, text: str, first: int) -> bool:
        """Whole computations, wherever their lines end; False where the text is none."""
        start, blocks = 0, []
        while (body := next_body(text, start)) is not None:
            brace, end = body
            attributes, after = read_attributes(text, end)
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
            self._leave(first, "a computation without instructions")
            return
        matched = OPENING.match(opening)
        is_entry, name = (bool(matched[1]), matched[2] or "") if matched else (False, "")
        thread = unescape(attributes.get("execution_thread", ""))
        computation = Computation(name, tuple(found), signature=opening.strip(), execution_thread=thread)
        if is_entry:
            if self.entry is not None:
                raise self._twice("a second ENTRY", first + 1)
            self.entry = computation
        if name:
            if name in self.named:
                raise self._twice(f"a second computation {name!r}", first + 1)
            self.named.add(name)
        self._keep(computation, found)

    def _keep(self, computation: Computation, found: Sequence[TextInstruction]) -> Computation:
        """Add a computation to the module, and check the names in it.

        Raises
        ------
        DumpError
            A name that is defined twice.
        """
        names = {instruction.name for instruction in found}
        if len(names) < len(found):
            counts = Counter(instruction.name for instruction in found)
            twice = [instruction for instruction in found if counts[instruction.name] > 1][-1]
            raise self._twice(f"a second instruction {twice.name!r}", twice.line)
        if len(roots := [instruction for instruction in found if instruction.is_root]) > 1:
            raise self._twice("a second ROOT", roots[1].line)
        self.computations.append(computation)
        if undefined := list(undefined_names(found, names)):
            told = {part.line for part in self.unread}
            for instruction, name in undefined:
                if instruction.line not in told:
                    self._leave((instruction.line or 1) - 1, f"no instruction {name[:60]!r}")
        return computation

    # ---- lines ------------------------------------------------------------------------------------------------------

    def _gather(self, position: int, *, inner: bool = False) -> tuple[str, int, bool]:
        """The lines from `position` on that belong together: text, the line behind, whether all brackets close."""
        lines, state, end = self.lines, Gatherer(), position
        indent = indent_of(lines[position])
        while end < len(lines) and self.patience > 0:
            state.feed(lines[end])
            self.patience -= len(lines[end]) + 1
            end += 1
            if state.broken:
                break
            if state.whole and state.last not in UNFINISHED:
                if not self._goes_on(position, end, inner):
                    return "\n".join(lines[position:end]), end, True
            elif inner and self._is_damage(end, indent, state):
                break
        return lines[position], position + 1, False

    def _goes_on(self, position: int, end: int, inner: bool) -> bool:
        """Whether line `end` goes on with a statement whose brackets are closed so far."""
        after = end
        while after < len(self.lines) and not self.lines[after].strip():
            after += 1
        self.patience -= after - end
        following = self.lines[after].strip() if after < len(self.lines) else ""
        if not following or _CONTINUATION.match(following):
            return bool(following)
        last = next((line for line in reversed(self.lines[max(position, end - 9) : end]) if line.strip()), "")
        if inner and trimmed(last).endswith("ROOT"):
            return True
        if inner and (STATEMENT_START.match(following) or following[0] == "}"):
            return False
        so_far = "\n".join(self.lines[position:end])
        self.patience -= len(so_far)
        if not inner:
            return _HEAD_ALONE.search(trimmed(so_far)) is not None
        start, stop = max(split_statements(so_far), default=(0, 0))
        last = so_far[start:stop]
        return bool(STATEMENT_START.match(last)) and match_statement(last) is None

    def _is_damage(self, position: int, indent: int, state: Gatherer) -> bool:
        """Whether line `position`, in the midst of a statement that began at `indent`, shows that the statement is cut.

        So does a whole instruction that stands no deeper, and a brace that ends the computation. A brace may also end
        a list of bodies: then the computation goes on behind it.
        """
        if position >= len(self.lines):
            return False
        line = self.lines[position]
        if state.comment is not None and not state.comment.startswith("index="):
            return False
        if (matched := match_line(line)) is not None:
            shape = matched[4]  # a string may hold other languages of this look, but hardly their shapes
            return len(matched[1]) <= indent and shape is not None and shape_of(shape) is not None and is_whole(line)
        if end_of(line) is None or indent_of(line) >= indent:
            return False
        behind = (self.lines[n] for n in range(position + 1, len(self.lines)))
        following = next((text for text in behind if text.strip()), "")
        return state.depth != 1 or (match_line(following) is None and end_of(following) is None)

    def _check(self, instruction: TextInstruction) -> None:
        if instruction.shape_text is not None and instruction.written_shape is None:
            self._leave((instruction.line or 1) - 1, f"no shape: {instruction.shape_text[:60]}")

    def _leave(self, position: int, reason: str, text: str | None = None) -> None:
        self.unread.append(Unparsed(position + 1, self.lines[position] if text is None else text, reason))

    def _twice(self, words: str, line: int | None) -> DumpError:
        return _TwiceError(words, path=self.path, line=line, column=1)

    def _cut(self, first: int) -> DumpError:
        return DumpError(
            f"the text ends inside the computation that begins on line {first + 1}",
            path=self.path,
            line=len(self.lines),
            column=len(self.lines[-1]) + 1,
        )
