"""Find where statements and computations begin and end, and which lines belong together.

::

    computation = ["ENTRY"] ["%"] [name] [signature] "{" {statement} "}" attributes
    statement   = ["ROOT"] ["%"] name "=" ...                     up to the next one, or the brace that ends them all
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from strided.dumps.hlo.lexer import COMMENT, closing, read_attributes, single_end, skip_space, trimmed, without_comments
from strided.dumps.hlo.line_state import LineState
from strided.dumps.hlo.text_instruction import (
    NAME,
    UNFINISHED,
    is_whole,
    match_line,
    match_statement,
    shape_of,
)

#: The optional text before a signature. ``ENTRY.1`` is a name.
OPENING = re.compile(rf"\s*+(ENTRY(?![\w.\-])\s*+)?%?({NAME})?\s*+")
_SPACE = r"(?:\s|/\*.*?\*/|//[^\n]*+|(?!))"
_START = rf"(?:ROOT(?:{_SPACE}++|(?=%)))?%?{NAME}{_SPACE}*+=(?!=)"
STATEMENT_START = re.compile(rf"\s*+{_START}", re.DOTALL)
#: An equals sign, except in a bounded size, ``<=8``, and in XLA's comments, ``/*index=5*/``.
_EQUALS = re.compile(r"(?<!<)(?<!/\*index)=")
#: Brackets without a statement, string or comment inside, such as those of shapes, are skipped as a whole.
_PLAIN = r"""[^(){}\[\]"'/=]*+"""
_BRACKETS = rf"\[{_PLAIN}\]|\({_PLAIN}\)|\{{{_PLAIN}(?:\({_PLAIN}\){_PLAIN}|(?!))*+\}}"
#: A number ends with its digits: in ``index=0ROOT y = ...``, another statement follows.
_NUMBER = "(?<==)-?[0-9]++(?=[A-Za-z_%])"
_PIECE = re.compile(
    rf'(?P<passive>"[^"\\]*+(?:\\.[^"\\]*+)*+"?|{_BRACKETS})|'
    rf"(?P<comment>{COMMENT})|(?P<number>{_NUMBER})|(?P<start>{_START})|(?P<bracket>[({{\[])|(?P<word>{NAME}|\S)",
    re.DOTALL,
)

#: Beginnings of lines that continue the previous one.
CONTINUATION = re.compile(r"[,<({\[]|->|=|T\(")
#: The end of a text that must be followed by a name or a computation.
_HEAD_ALONE = re.compile(rf"(?<![\w.%\-])(?:HloModule|ENTRY(?:\s++%?{NAME})?)\Z")

#: The result of a search for a token in no lines.
_NO_SEARCH = (0, -1, "")

#: The most parts of one line that are read separately: a header, source tables, computations.
_MAX_PARTS = 16
#: Lines to search at a time.
_BATCH = 1 << 12


def opening_of(line: str) -> str | None:
    """The text before the brace that opens a computation at the end of `line`; None if there is none."""
    line = line.rstrip()
    if not line.endswith("{"):
        return None
    matched = OPENING.match(line)
    assert matched is not None  # at least the empty beginning
    rest = line[matched.end() : -1].strip()
    return line[:-1].rstrip() if not rest or _is_signature(rest) else None


def _is_signature(text: str) -> bool:
    """Whether a text is only a signature: statements of computations after it would have an equals sign."""
    return text[0] == "(" and "->" in text and not (_EQUALS.search(text) and _EQUALS.search(without_comments(text)))


class End(NamedTuple):
    """The attributes after a computation's closing brace, and where another one begins on the same line, or None."""

    attributes: dict[str, str]
    opening: int | None


def end_of(line: str) -> End | None:
    """What follows a computation's closing brace on its line; None if the line has no such brace.

    >>> end_of('}, execution_thread="t"')
    End(attributes={'execution_thread': '"t"'}, opening=None)
    >>> end_of('}, execution_thread="t" ENTRY e {')
    End(attributes={'execution_thread': '"t"'}, opening=24)
    """
    start = indent_of(line)
    if not line.startswith("}", start):
        return None
    attributes, end = read_attributes(line, start + 1, single_end)
    end = skip_space(line, end)
    if (opening_of(line[end:]) or "").strip():
        return End(attributes, end)
    attributes, end = read_attributes(line, start + 1)  # nothing opens: the last value takes the rest of the line
    return None if trimmed(line[end:]) else End(attributes, None)


def indent_of(line: str) -> int:
    """The number of leading blanks of a line."""
    return len(line) - len(line.lstrip())


def next_body(text: str, start: int) -> tuple[int, int] | None:
    """The start and end of the next braces around statements; those of layouts in a signature do not count."""
    position = start
    while piece := _PIECE.search(text, position):
        position = piece.end()
        if piece.lastgroup == "bracket":
            end = closing(text, piece.start())
            if end < 0:
                return None
            if piece[0] == "{" and STATEMENT_START.match(trimmed(text[position : end - 1])):
                return piece.start(), end
            position = end
    return None


def split_statements(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each statement, which begins at a ``name =`` outside brackets and not after a comma."""
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


def is_one_statement(text: str) -> bool:
    """Whether a text is exactly one statement.

    >>> is_one_statement("a = f32[] add(b,\\n  c)"), is_one_statement("a = f32[] add(b, c), x=1\\nb = f32[] iota()")
    (True, False)
    """
    lines = text.split("\n")
    _, end, whole = LineGroups(lines).gather(0, inner=True)
    return whole and end == len(lines) and len(list(split_statements(text))) == 1


class LineGroups:
    """The lines of a text, and which of them belong together. Lines count from 0."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._token_line = _NO_SEARCH  # the lines of the last search for a token, and its result
        self._begun: dict[int, tuple[str, int]] = {}  # partly read lines: the whole line, and the number of parts
        # Characters that may still be gathered. Lines that belong together are gathered at most twice, but text whose
        # brackets never close would be gathered again from every line.
        self.patience = 4 * (sum(map(len, lines)) + len(lines)) + 100_000

    def may_go_on(self, position: int) -> bool:
        """Whether another part of a line may be read separately: each part takes as long as the whole line."""
        return self._begun.get(position, ("", 0))[1] < _MAX_PARTS

    def go_on(self, position: int, place: int) -> int:
        """Replace a line's text before `place` by blanks, to continue there; return the line's number."""
        line = self.lines[position]
        whole, count = self._begun.get(position, (line, 0))
        self._begun[position] = whole, count + 1
        self.lines[position] = " " * place + line[place:]
        self._token_line = _NO_SEARCH
        return position

    def restore(self) -> None:
        """Undo all changes of `go_on`."""
        for position, (line, _) in self._begun.items():
            self.lines[position] = line
        self._begun, self._token_line = {}, _NO_SEARCH

    def mention(self, word: str) -> bool:
        """Whether any line contains `word`."""
        batches = (self.lines[k : k + _BATCH] for k in range(0, len(self.lines), _BATCH))
        return any(word in "\n".join(batch) for batch in batches)

    def ends_later(self, position: int) -> bool:
        """Whether comments or attributes after the closing brace at the start of a line continue below."""
        if rest := self.lines[position].strip()[1:]:
            state = LineState()
            state.feed(rest)
            if not state.whole or state.last in UNFINISHED:
                return not state.broken
        return self.token_line(position + 1).startswith(",")

    def token_line(self, position: int) -> str:
        """The first line from `position` that has more than blanks and comments, without these; "" if there is none."""
        if position < len(self.lines) and "/" not in (line := self.lines[position]) and (bare := line.strip()):
            return bare  # the usual case
        first, last, bare = self._token_line
        if first <= position <= last:  # many lines of comments have the same next token
            return bare
        state, bare, number = LineState(), "", position
        while number < len(self.lines) and self.patience > 0:
            line = self.lines[number]
            self.patience -= len(line) + 1
            bare = trimmed(line if state.comment is None else line.partition("*/")[2])
            if bare:
                break
            state.feed(line)
            number += 1
        self._token_line = position, number, bare
        return bare

    def gather(self, position: int, *, inner: bool = False, single: bool = False) -> tuple[str, int, bool]:
        """Gather the lines from `position` that belong together: their text, the next line, whether brackets close.

        They may be part of a computation (`inner`), at most one computation (`single`), or anything.
        """
        lines, state, end = self.lines, LineState(), position
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
            elif (inner and self._is_damage(end, indent, state)) or (single and self._cuts_off(end, state)):
                break
        return lines[position], position + 1, False

    def _goes_on(self, position: int, end: int, inner: bool) -> bool:
        """Whether line `end` continues a statement although its brackets are closed."""
        following = self.token_line(end)
        if not following or CONTINUATION.match(following):
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

    def _cuts_off(self, position: int, state: LineState) -> bool:
        """Whether the computation is cut off before line `position`: that opens another one, or a comment is cut off.

        Only a named one at the beginning of the line counts: bodies inside callers have no name. Only XLA's numbering
        comments count, which it never breaks.
        """
        if state.comment is not None:
            return state.comment.startswith("index=")
        line = self.lines[position] if position < len(self.lines) else ""
        return not line[:1].isspace() and bool((opening_of(line) or "").strip())

    def _is_damage(self, position: int, indent: int, state: LineState) -> bool:
        """Whether line `position`, inside a statement that began at `indent`, shows that the statement is cut off.

        Signs are a complete instruction that is indented no deeper, and the computation's closing brace, unless that
        ends a list of bodies, after which the computation continues.
        """
        if position >= len(self.lines):
            return False
        line = self.lines[position]
        if state.comment is not None and not state.comment.startswith("index="):
            return False
        if (matched := match_line(line)) is not None:
            shape = matched[3]  # a string may hold similar text of another language, but hardly XLA's shapes
            return indent_of(line) <= indent and shape is not None and shape_of(shape) is not None and is_whole(line)
        if end_of(line) is None or indent_of(line) >= indent:
            return False
        behind = (self.lines[n] for n in range(position + 1, len(self.lines)))
        following = next((text for text in behind if text.strip()), "")
        return match_line(following) is None and end_of(following) is None
