"""Tokens of XLA's shape text, one at a time."""

from __future__ import annotations

import re
from typing import NoReturn

from strided.errors import NotationError

# A NUL ends the text for XLA's lexer, in a comment too.
_BLANK = re.compile(r"(?:[ \t\r\n]+|/\*[^\0]*?\*/|//[^\n\0]*)*")
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|-?[0-9]+|<=|[()\[\]{},:*?#+~]")


class Scanner:
    """Tokens of a text, one at a time. `token` is "" at the end, and at a character that begins no token."""

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.end = pos  # after the token before this one
        self.slips: list[tuple[str, int]] = []
        self.token, self.start, self._next = "", pos, pos
        self.advance()

    def advance(self) -> str:
        """Go on to the next token; the one left behind."""
        left, self.end = self.token, self._next
        self.token, self.start, self._next = self._read(self._next)
        return left

    def _read(self, pos: int) -> tuple[str, int, int]:
        blank = _BLANK.match(self.text, pos)
        start = blank.end() if blank else pos
        found = _TOKEN.match(self.text, start)
        if found is None:
            return ("" if start == len(self.text) else "\0"), start, start
        return found.group(), start, found.end()

    def peek(self) -> str:
        """The token after this one."""
        return self._read(self._next)[0]

    def is_integer(self) -> bool:
        return self.token[-1:].isdigit() and (self.token[0].isdigit() or self.token[0] == "-")

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Refuse the text; if something was already off before, that is what is wrong."""
        found = f", found {self.shown()}" if position is None else ""
        if self.slips:
            message, position, found = *self.slips[0], ""
        raise NotationError(message + found, text=self.text, position=self.start if position is None else position)

    def shown(self) -> str:
        if self.token == "":
            return "the end"
        if self.token == "\0":
            return repr(self.text[self.start])
        return repr(self.token if len(self.token) <= 40 else self.token[:40] + "...")

    def slip(self, message: str, position: int | None = None) -> None:
        """Something that XLA lets pass."""
        found = f", found {self.shown()}" if position is None else ""
        self.slips.append((message + found, self.start if position is None else position))

    def take(self, token: str) -> bool:
        """Whether this is the token; if so, go on."""
        if self.token != token:
            return False
        self.advance()
        return True

    def expect(self, token: str, what: str) -> None:
        if not self.take(token):
            self.fail(f"expected {token!r} {what}")

    def integer(self) -> int | None:
        """A 64-bit integer; None, and nothing read, where there is none."""
        if not self.is_integer():
            return None
        digits = self.token.lstrip("-").lstrip("0") or "0"
        value = int(digits) if len(digits) <= 20 else 2**64
        value = -value if self.token[0] == "-" else value
        if not -(2**63) <= value < 2**64:
            return None
        if value >= 2**63:
            self.slip(f"{self.shown()} does not fit a signed 64-bit integer", self.start)
            value -= 2**64
        self.advance()
        return value

    def required_integer(self, what: str) -> int:
        value = self.integer()
        if value is None:
            big = self.is_integer()
            self.fail(f"{what} does not fit 64 bits" if big else f"expected {what}")
        return value
