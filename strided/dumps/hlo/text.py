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
from collections.abc import Iterator
from functools import partial

from strided.dumps.hlo import header as hlo_header
from strided.dumps.hlo.header import TABLES, Unread
from strided.dumps.hlo.instruction import CALLEES
from strided.dumps.hlo.lines import NAME, TextInstruction, is_whole, match_line, match_statement
from strided.dumps.hlo.module import Computation, Module
from strided.dumps.hlo.shapes import shape_of
from strided.dumps.hlo.syntax import Gatherer, closing, inside, read_attributes, split_list, trimmed, unescape
from strided.errors import DumpError

_HEADER = re.compile(r"\s*+HloModule\b\s*+([^\s,]*+)")
_OPENING = re.compile(rf"\s*+(ENTRY\b\s*+)?%?({NAME})?\s*+")
_STATEMENT_START = re.compile(rf"\s*+(?:ROOT\s++)?%?{NAME}\s*+=(?!=)")
_PIECE = re.compile(
    r'(?P<passive>"[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?P<comment>/\*.*?(?:\*/|\Z)|(?<!:)//[^\n]*+)'
    rf"|(?P<start>(?:ROOT\s++)?%?{NAME}\s*+=(?!=))|(?P<bracket>[({{\[])|(?P<word>{NAME}|\S)",
    re.DOTALL,
)

#: Bodies inside bodies inside bodies: deeper ones stay text.
_MAX_BODIES = 32


def read_text(text: str, path: str | None = None) -> Module:
    """The module in HLO text.

    Raises
    ------
    DumpError
        Text that holds no computation, or ends inside one; line and column say where.

    >>> module = read_text("HloModule m\\n\\nENTRY e {\\n  ROOT p = f32[2]{0} parameter(0)\\n}\\n")
    >>> print(module.entry.root.shape)
    f32[2]{0}
    """
    return _Reader(text, path).read()


class _Reader:
    """The state of one pass over the lines. Lines count from 0 here and from 1 in everything that is handed out."""

    def __init__(self, text: str, path: str | None) -> None:
        self.lines = (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")
        self.path = path
        self.name: str | None = None
        self.attributes: dict[str, str] = {}
        self.tables: dict[str, list[str]] = {}
        self.computations: list[Computation] = []
        self.entry: Computation | None = None
        self.unread: list[Unread] = []
        self.bodies_of: Counter[str] = Counter()
        # Characters that may still be gathered. Lines that turn out to belong together are gathered twice at most; text
        # whose brackets never close would be gathered again from every line.
        self.patience = 4 * len(text) + 100_000

    # ---- above and between computations -----------------------------------------------------------------------------

    def read(self) -> Module:
        table: list[str] | None = None
        position = 0
        while position < len(self.lines):
            line = self.lines[position]
            word = line.strip()
            if table is not None and word[:1].isdigit():
                table.append(line)
                position += 1
            elif not word or word in TABLES:
                table = self.tables.setdefault(word, []) if word else None
                position += 1
            else:
                table = None
                position = self._read_top(position)
        return self._module()

    def _read_top(self, position: int) -> int:
        line = self.lines[position]
        if (opening := _opening(line)) is not None:
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
        if self.name is not None:
            self._leave(position, "the header of a second module")
            return
        self.name = header[1]
        self.attributes, rest = read_attributes(text, header.end())
        if not whole:
            self._leave(position, "a header whose brackets do not close")
        elif trimmed(text[rest:]) and not self._read_block(text[rest:], position + text.count("\n", 0, rest)):
            self._leave(position, "a header that goes on behind its attributes")

    def _module(self) -> Module:
        if not self.computations:
            line = next((n for n, text in enumerate(self.lines) if text.strip()), 0)
            column = len(self.lines[line]) - len(self.lines[line].lstrip()) + 1
            raise DumpError("no HLO computation in this text", path=self.path, line=line + 1, column=column)
        return Module(
            self.name or "",
            self.attributes,
            self.computations,
            self.entry or self.computations[-1],
            read_tables=partial(hlo_header.source_tables, self.tables),
            unread=self.unread,
            path=self.path,
        )

    # ---- computations -----------------------------------------------------------------------------------------------

    def _read_computation(self, opening: str, first: int) -> int:
        """The computation whose brace opens on line `first`; gives the line behind it."""
        lines, found = self.lines, list[TextInstruction]()
        mark, stray = (len(self.unread), len(self.computations)), False
        position = first + 1
        while position < len(lines):
            line = lines[position]
            matched = match_line(line)
            if matched is not None and is_whole(line):
                position += 1
                found.append(TextInstruction(matched, line, position))
                self._check(found[-1])
                if line.find(" = ", matched.end()) > 0:
                    self._read_bodies(found[-1], 0)
            elif not line.strip():
                position += 1
            elif (end := _end(line)) is not None:
                self._add(opening, found, end, first)
                return position + 1
            elif not line[0].isspace() and (_opening(line) or "").strip():
                self._leave(first, "a computation without a closing brace")
                self._add(opening, found, {}, first)
                return position
            else:
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

    def _read_by_token(self, first: int, mark: tuple[int, int]) -> int | None:
        """The computation that opens on line `first`, wherever its lines end; None where it is no whole one.

        `mark` says how much had been read before it: what came of its lines since then is forgotten.
        """
        text, end, whole = self._gather(first)
        unread, computations = self.unread[mark[0] :], self.computations[mark[1] :]
        del self.unread[mark[0] :], self.computations[mark[1] :]
        if whole and self._read_block(text, first):
            return end
        self.unread += unread
        self.computations += computations
        return None

    def _read_statements(self, found: list[TextInstruction], position: int) -> int | None:
        """The statements that begin on this line, onto `found`; the line behind, None where the computation ends."""
        if found and self.lines[position].lstrip().startswith(","):  # it goes on with the line before
            before = (found[-1].line or 1) - 1
            text, end, whole = self._gather(before, inner=True)
            if whole and end > position:
                found.pop()
                found += self._statements(text, before, 0)
                return end
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
        for start, stop in _split_statements(text):
            statement = text[start:stop].strip()
            line, counted = line + text.count("\n", counted, start), start
            matched = match_statement(statement)
            if matched is None:
                if trimmed(statement):
                    self._leave(line, "no instruction", statement)
                continue
            instruction = TextInstruction(matched, matched.string, line + 1)
            self._check(instruction)
            self._read_bodies(instruction, depth)
            yield instruction

    def _read_bodies(self, instruction: TextInstruction, depth: int) -> None:
        """Computations that stand in braces where their names should: ``calls={ ROOT x = ... }``."""
        for key in CALLEES:
            value = instruction.attributes.get(key, "")
            if not value.startswith("{") or "=" not in value:
                continue
            content = inside(value)
            parts = [content] if _STATEMENT_START.match(content) else [inside(part) for part in split_list(content)]
            if depth >= _MAX_BODIES:
                self._leave((instruction.line or 1) - 1, f"bodies that nest deeper than {_MAX_BODIES}")
                return
            bodies = instruction.bodies = instruction.bodies or {}
            found = (self._body(instruction, key, part, depth) for part in parts)
            bodies[key] = [body for body in found if body is not None]

    def _body(self, caller: TextInstruction, key: str, text: str, depth: int) -> Computation | None:
        name = f"{caller.name}.{key}"
        count = self.bodies_of[name]
        self.bodies_of[name] += 1
        line = (caller.line or 1) - 1 + caller.text.count("\n", 0, max(caller.text.find(text), 0))
        found = tuple(self._statements(text, line, depth + 1))
        if not found:
            self._leave(line, "a computation without instructions")
            return None
        computation = Computation(f"{name}.{count}" if count else name, found)
        self.computations.append(computation)
        return computation

    def _read_block(self, text: str, first: int) -> bool:
        """Whole computations, wherever their lines end; False where the text is none."""
        start, blocks = 0, []
        while (body := _next_body(text, start)) is not None:
            brace, end = body
            attributes, after = read_attributes(text, end)
            blocks.append((text[start:brace], brace + 1, end - 1, attributes))
            start = after
        if not blocks or trimmed(text[start:]) or any(_opening(trimmed(head) + "{") is None for head, *_ in blocks):
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
        matched = _OPENING.match(opening)
        is_entry, name = (bool(matched[1]), matched[2] or "") if matched else (False, "")
        thread = unescape(attributes.get("execution_thread", ""))
        computation = Computation(name, tuple(found), signature=opening.strip(), execution_thread=thread)
        self.computations.append(computation)
        if is_entry:
            self.entry = computation

    # ---- lines ------------------------------------------------------------------------------------------------------

    def _gather(self, position: int, *, inner: bool = False) -> tuple[str, int, bool]:
        """The lines from `position` on that belong together: text, the line behind, whether all brackets close."""
        lines, state, end = self.lines, Gatherer(), position
        indent = _indent(lines[position])
        while end < len(lines) and self.patience > 0:
            state.feed(lines[end])
            self.patience -= len(lines[end]) + 1
            end += 1
            if state.broken:
                break
            if state.whole and state.last not in (",", "=") and not self._goes_on(position, end, inner):
                return "\n".join(lines[position:end]), end, True
            if inner and self._is_damage(end, indent, state):
                break
        return lines[position], position + 1, False

    def _goes_on(self, position: int, end: int, inner: bool) -> bool:
        """Whether line `end` goes on with a statement whose brackets are closed so far."""
        following = self.lines[end].strip() if end < len(self.lines) else ""
        if not following or following[0] == ",":
            return bool(following)
        if not inner or _STATEMENT_START.match(following) or following[0] == "}":
            return False
        so_far = "\n".join(self.lines[position:end])
        return bool(_STATEMENT_START.match(so_far)) and match_statement(so_far) is None

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
        if _end(line) is None or _indent(line) >= indent:
            return False
        behind = (self.lines[n] for n in range(position + 1, len(self.lines)))
        following = next((text for text in behind if text.strip()), "")
        return state.depth != 1 or (match_line(following) is None and _end(following) is None)

    def _check(self, instruction: TextInstruction) -> None:
        if instruction.shape_text is not None and instruction.shape is None:
            self._leave((instruction.line or 1) - 1, f"no shape: {instruction.shape_text[:60]}")

    def _leave(self, position: int, reason: str, text: str | None = None) -> None:
        self.unread.append(Unread(position + 1, self.lines[position] if text is None else text, reason))

    def _cut(self, first: int) -> DumpError:
        return DumpError(
            f"the text ends inside the computation that begins on line {first + 1}",
            path=self.path,
            line=len(self.lines),
            column=len(self.lines[-1]) + 1,
        )


def _opening(line: str) -> str | None:
    """What stands before the brace that opens a computation at the end of `line`; None where none opens."""
    line = line.rstrip()
    if not line.endswith("{"):
        return None
    matched = _OPENING.match(line)
    rest = line[matched.end() : -1].strip() if matched else "?"
    return line[:-1].rstrip() if not rest or (rest[0] == "(" and "->" in rest) else None


def _end(line: str) -> dict[str, str] | None:
    """The attributes behind the brace that ends a computation; None where the line is something else."""
    text = line.lstrip()
    if not text.startswith("}"):
        return None
    attributes, end = read_attributes(text, 1)
    return attributes if not trimmed(text[end:]) else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _next_body(text: str, start: int) -> tuple[int, int] | None:
    """Where the next braces around statements open, and the place behind them; a signature's layouts are none."""
    position = start
    while piece := _PIECE.search(text, position):
        position = piece.end()
        if piece.lastgroup == "bracket":
            end = closing(text, piece.start())
            if end < 0:
                return None
            if piece[0] == "{" and _STATEMENT_START.match(trimmed(text[position : end - 1])):
                return piece.start(), end
            position = end
    return None


def _split_statements(text: str) -> Iterator[tuple[int, int]]:
    """Where each statement begins and ends: at ``name =`` outside of brackets and not behind a comma."""
    begin, end, position = -1, 0, 0
    while piece := _PIECE.search(text, position):
        kind, position = piece.lastgroup, piece.end()
        if kind == "comment":
            continue
        if begin < 0:
            begin = piece.start()
        elif kind == "start" and text[end - 1] not in (",", "="):
            yield begin, end
            begin = piece.start()
        if kind == "bracket":
            closed = closing(text, piece.start())
            position = closed if closed > 0 else len(text)
        end = position
    if begin >= 0:
        yield begin, end
