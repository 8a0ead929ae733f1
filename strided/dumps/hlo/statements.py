"""Where statements and computations begin and end, regardless of lines.

::

    computation = ["ENTRY"] ["%"] [name] [signature] "{" {statement} "}" attributes
    statement   = ["ROOT"] ["%"] name "=" ...                     up to the next one, or the brace that ends them all
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strided.dumps.hlo.lexer import closing, read_attributes, trimmed
from strided.dumps.hlo.text_instruction import NAME

OPENING = re.compile(rf"\s*+(ENTRY\b\s*+)?%?({NAME})?\s*+")
_SPACE = r"(?:\s|/\*.*?\*/|//[^\n]*+)"
_START = rf"(?:ROOT{_SPACE}++)?%?{NAME}{_SPACE}*+=(?!=)"
STATEMENT_START = re.compile(rf"\s*+{_START}", re.DOTALL)
_PIECE = re.compile(
    r'(?P<passive>"[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?P<comment>/\*.*?(?:\*/|\Z)|(?<!:)//[^\n]*+)'
    rf"|(?P<start>{_START})|(?P<bracket>[({{\[])|(?P<word>{NAME}|\S)",
    re.DOTALL,
)


def opening_of(line: str) -> str | None:
    """The text before the brace that opens a computation at the end of `line`; None if none opens."""
    line = line.rstrip()
    if not line.endswith("{"):
        return None
    matched = OPENING.match(line)
    rest = line[matched.end() : -1].strip() if matched else "?"
    return line[:-1].rstrip() if not rest or (rest[0] == "(" and "->" in rest) else None


def end_of(line: str) -> dict[str, str] | None:
    """The attributes after the brace that ends a computation; None if the line is something else."""
    text = line.lstrip()
    if not text.startswith("}"):
        return None
    attributes, end = read_attributes(text, 1)
    return attributes if not trimmed(text[end:]) else None


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def next_body(text: str, start: int) -> tuple[int, int] | None:
    """Where the next braces around statements open, and the place after them; layouts in a signature do not count."""
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
    """Where each statement begins and ends: at ``name =`` outside brackets and not after a comma."""
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
