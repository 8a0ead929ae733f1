"""Track what is open at the end of a line of HLO text: brackets, a string, a comment."""

from __future__ import annotations

import re

from strided.dumps.hlo.lexer import CLOSER, STRING

#: The pieces of a line: strings and comments, terminated or not, brackets, and others.
_PIECE = re.compile(
    rf"""(?P<string>{STRING}|'[^'(){{}}\[\]]*+')|(?P<quote>")"""
    r"""|(?P<comment>/\*.*?\*/|(?<!:)//.*+)|(?P<begun>/\*)|(?P<bracket>[(){}\[\]])|(?P<rest>[^\s"'/(){}\[\]]++|['/])"""
)
_STRING_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"')
#: What begins a string or comment, and brackets; most lines need only the latter.
_ASIDE, _BRACKET = re.compile("[\"'/]"), re.compile(r"[(){}\[\]]")


class LineState:
    """Follows brackets, strings and comments from line to line.

    >>> lines = LineState()
    >>> lines.feed("a = f32[2] add(b,"), lines.whole, lines.feed("c)"), lines.whole
    (None, False, None, True)
    """

    __slots__ = ("_expected", "_in_string", "broken", "comment", "last")

    def __init__(self) -> None:
        self._expected: list[str] = []
        self._in_string = False
        self.comment: str | None = None  # the text after an open comment's ``/*``
        self.broken = False  # a bracket was closed that was not open
        self.last = ""  # the last character that was neither blank nor comment

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self._expected)

    @property
    def whole(self) -> bool:
        """Whether nothing is open."""
        return not (self._expected or self._in_string or self.comment is not None or self.broken)

    def feed(self, line: str) -> None:
        """Process another line (without its line end)."""
        position = self._finish(line)
        if position < 0:
            return
        if _ASIDE.search(line, position) is None:
            for bracket in _BRACKET.findall(line, position):
                self._turn(bracket)
                if self.broken:
                    return
            self.last = line[position:].rstrip()[-1:] or self.last
            return
        for piece in _PIECE.finditer(line, position):
            kind = piece.lastgroup
            if kind == "bracket":
                self._turn(piece[0])
                if self.broken:
                    return
            elif kind == "quote":
                self._in_string = True
                return
            elif kind == "begun":
                self.comment = line[piece.end() :]
                return
            if kind != "comment":
                self.last = line[piece.end() - 1]

    def _finish(self, line: str) -> int:
        """Where the open string or comment ends, or -1 if it continues."""
        position = 0
        if self._in_string:
            found = _STRING_END.match(line)
            position = found.end() if found else -1
            self.last = '"'
        elif self.comment is not None:
            end = line.find("*/")
            position = end + 2 if end >= 0 else -1
        if position >= 0:
            self._in_string, self.comment = False, None
        return position

    def _turn(self, bracket: str) -> None:
        if bracket in CLOSER:
            self._expected.append(CLOSER[bracket])
        elif not self._expected or self._expected[-1] != bracket:
            self.broken = True
        else:
            self._expected.pop()
