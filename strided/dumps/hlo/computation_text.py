"""Read the computations in HLO text, including those printed inside instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from strided.dumps.hlo.attributes import CALLEE_NAMES
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.lexer import inside, read_attributes, single_end, split_list, trimmed
from strided.dumps.hlo.line_state import LineState
from strided.dumps.hlo.module_builder import BODY, Mark, ModuleBuilder, RepeatedNameError
from strided.dumps.hlo.operands import unnested
from strided.dumps.hlo.statements import (
    CONTINUATION,
    STATEMENT_START,
    End,
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
)
from strided.errors import DumpError

#: The deepest nesting of bodies that is read; deeper ones stay text.
_MAX_BODIES = 32


class _Begin(NamedTuple):
    """Where statements begin: their line, the number of instructions before them, and the state of the module there."""

    position: int
    found: int
    mark: Mark


@dataclass(slots=True)
class _Open:
    """A computation whose lines are being read.

    Attributes
    ----------
    opening : str
        The text before its brace.
    first : int
        The line on which it opens.
    mark : Mark
        The state of the module before it.
    found : list of TextInstruction
    last : _Begin or None
        Where the last statements begin, which may continue; None after a plain line.
    is_tried : bool
        Whether reading it token by token was tried.
    is_closed : bool
    """

    opening: str
    first: int
    mark: Mark
    found: list[TextInstruction] = field(default_factory=list)
    last: _Begin | None = None
    is_tried: bool = False
    is_closed: bool = False


class ComputationReader:
    """Reads computations into a module: line by line if they are as XLA prints them, else token by token.

    Lines count from 0.
    """

    def __init__(self, groups: LineGroups, module: ModuleBuilder, path: str | None) -> None:
        self._groups, self._lines, self._path = groups, groups.lines, path
        self._module = module

    def read_computation(self, opening: str, first: int) -> int:
        """Read the computation whose brace opens on line `first`; return the line after it."""
        lines, part = self._lines, _Open(opening, first, self._module.mark())
        position = first + 1
        while (position := self._read_plain(part, position)) < len(lines):
            position = self._read_line(part, position)
            if part.is_closed:
                return position
        words = f"the text ends inside the computation that begins on line {first + 1}"
        raise DumpError(words, path=self._path, line=len(lines), column=len(lines[-1]) + 1)

    def _read_plain(self, part: _Open, position: int) -> int:
        """Read lines from `position` as long as they are as XLA prints them; return the first that is not."""
        lines, add, first = self._lines, part.found.append, position
        while position < len(lines):
            line = lines[position]
            if (matched := match_plain_line(line)) is None:
                break
            add(TextInstruction(matched, line, position + 1))
            position += 1
        if position > first:
            part.last = None
        return position

    def _read_line(self, part: _Open, position: int) -> int:
        """Read a line of a computation and its continuation lines; return the next line."""
        line = self._lines[position]
        matched = match_line(line)
        if matched is not None and is_whole(line) and is_alone(matched, line):
            part.last = self._begin(part, position)
            part.found += self._taken(TextInstruction(matched, line, position + 1), matched)
            return position + 1
        if not line.strip():
            return position + 1
        if (end := end_of(line)) is not None:
            return self._read_end(part, position, end)
        if not line[0].isspace() and (opening_of(line) or "").strip():
            self._module.leave(part.first, "a computation without a closing brace")
            self._close(part, {})
            return position
        return self._read_statements(part, position)

    def _read_end(self, part: _Open, position: int, end: End) -> int:
        """Read a line with the brace that ends the computation; return the line to continue with."""
        if end.opening is None and self._groups.ends_later(position):
            if (after := self._read_by_token(part)) is not None:
                return after
        self._close(part, end.attributes)
        return position + 1 if end.opening is None else self._groups.go_on(position, end.opening)

    def _close(self, part: _Open, attributes: dict[str, str]) -> None:
        self._module.add(part.opening, part.found, attributes, part.first)
        part.is_closed = True

    def _read_statements(self, part: _Open, position: int) -> int:
        """Gather and read the lines of statements, or the continuation of the last ones; return the next line."""
        if part.found and CONTINUATION.match(self._groups.token_line(position)):
            if (after := self._read_again(part, position)) is not None:
                return after
            if (after := self._read_by_token(part)) is not None:
                return after
        part.last = self._begin(part, position)
        text, end, whole = self._groups.gather(position, inner=True)
        if whole:
            part.found += self._statements(text, position, 0)
            return end
        if (after := self._read_by_token(part)) is not None:  # brackets may match in the whole computation
            return after
        self._leave_open(part, position)
        return position + 1

    def _taken(self, instruction: TextInstruction, matched: re.Match[str]) -> Iterator[TextInstruction]:
        """The instructions nested in the operands of an instruction, then itself."""
        if not are_names(matched, instruction.text):
            yield from self._unnested(instruction)
        yield instruction
        self._module.check(instruction)

    def _begin(self, part: _Open, position: int) -> _Begin:
        return _Begin(position, len(part.found), self._module.mark())

    def _read_again(self, part: _Open, position: int) -> int | None:
        """Read the statements that continue at `position` again; return the next line, or None if they are cut off."""
        # After a plain line, that is the instruction on it.
        last = part.last or _Begin(part.found[-1].line - 1, len(part.found) - 1, self._module.mark())
        text, end, whole = self._groups.gather(last.position, inner=True)
        if not whole or end <= position:
            return None
        del part.found[last.found :]
        self._module.forget(last.mark)
        part.last = last
        part.found += self._statements(text, last.position, 0)
        return end

    def _read_by_token(self, part: _Open) -> int | None:
        """Read the whole computation again, token by token; return the next line.

        None if it is damaged, which is determined only once.
        """
        if part.is_tried:
            return None
        part.is_tried = True
        text, end, whole = self._groups.gather(part.first, single=True)
        if not whole:
            return None
        module, mark = self._module, part.mark
        unread, computations = module.unread[mark.unread :], module.computations[mark.computations :]
        module.forget(mark)
        try:
            if self.read_block(text, part.first) and len(module.unread) == mark.unread:
                part.is_closed = True
                return end
        except RepeatedNameError:
            pass  # reading by lines locates the damage better
        module.forget(mark)
        module.unread += unread
        module.computations += computations
        return None

    def _leave_open(self, part: _Open, position: int) -> None:
        """Keep a line with unclosed brackets as text, and also as an instruction if it is cut after its operands."""
        line, state = self._lines[position], LineState()
        state.feed(line)
        is_stray = state.broken and not state.depth  # a bracket closes that was never opened
        matched = None if is_stray else match_line(line)
        if matched is not None:
            part.found.append(TextInstruction(matched, line, position + 1))
        self._module.leave(position, "an instruction whose brackets do not close" if matched else "no instruction")

    def _statements(self, text: str, first: int, depth: int) -> Iterator[TextInstruction]:
        line, counted = first, 0
        for start, stop in split_statements(text):
            statement = text[start:stop].strip()
            line, counted = line + text.count("\n", counted, start), start
            matched = match_statement(statement)
            if matched is None:
                if trimmed(statement):
                    self._module.leave(line, "no instruction", statement)
                continue
            instruction = TextInstruction(matched, matched.string, line + 1)
            yield from self._taken(instruction, matched)
            self.read_bodies(instruction, depth)

    def _unnested(self, instruction: TextInstruction) -> list[TextInstruction]:
        """The instructions nested in the operands, with new names."""
        try:
            return unnested(instruction, lambda opcode: self._module.anonymous.unique(f"{opcode}.anon"))
        except DumpError as error:
            self._module.leave(instruction.line - 1, str(error))
            return []

    def read_bodies(self, instruction: TextInstruction, depth: int) -> None:
        """Read the computations printed in place of their names: ``calls={ ROOT x = ... }``."""
        for key, value in instruction.written_attributes.items():
            if key not in CALLEE_NAMES or not value.startswith("{") or "=" not in value:
                continue
            content = inside(value)
            parts = [content] if STATEMENT_START.match(content) else [inside(part) for part in split_list(content)]
            if depth >= _MAX_BODIES:
                self._module.leave(instruction.line - 1, f"bodies that nest deeper than {_MAX_BODIES}")
                return
            bodies = instruction.bodies = instruction.bodies or {}
            found = (self._body(instruction, part, depth) for part in parts)
            bodies[key] = [body for body in found if body is not None]

    def _body(self, caller: TextInstruction, text: str, depth: int) -> Computation | None:
        line = caller.line - 1 + caller.text.count("\n", 0, max(caller.text.find(text), 0))
        found = tuple(self._statements(text, line, depth + 1))
        if not found:
            self._module.leave(line, "a computation without instructions")
            return None
        return self._module.keep(BODY, found)

    def read_block(self, text: str, first: int) -> bool:
        """Read whole computations, wherever their lines end; return False if the text has none."""
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
            self._module.add(trimmed(head), list(self._statements(text[brace:end], line, 0)), attributes, line)
        return True
