"""Lexer for XLA's text of shapes and shardings. Takes linear time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from strided.errors import LayoutError, NotationError

T = TypeVar("T")

# XLA's lexer ends at a NUL, even in a comment.
_BLANK = re.compile(r"(?:[ \t\r\n]+|/\*[^\0]*?\*/|//[^\n\r\0]*)*")
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|-?[0-9]+|<=|[()\[\]{},:*?#+~=]")
# Nearly all lists of integers, up to the bracket or colon that follows; 18 digits do not overflow.
_PLAIN_INTEGERS = re.compile(r"[0-9]{1,18}(?:,[0-9]{1,18})*(?=[\])}:])")
# Matched only where a string may stand: matching it at every quote would take quadratic time.
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class Lexer:
    """The tokens of a text, one at a time.

    `token` is the next token, which begins at `start`: "" at the end of the text, NUL at a character that begins no
    token. The token before it ends at `end`. `slips` lists errors that XLA does not notice, with their positions; a
    strict lexer raises instead.

    >>> lexer = Lexer("<=8 // devices")
    >>> lexer.take("<="), lexer.integer(), lexer.token
    (True, 8, '')
    """

    def __init__(self, text: str, position: int = 0, *, strict: bool = False) -> None:
        self.text, self.strict = text, strict
        self.slips: list[tuple[str, int]] = []
        self.go_to(position)

    def go_to(self, position: int) -> None:
        """Go to `position`."""
        self.end = position
        self.token, self.start, self._next = self._read(position)

    def _read(self, position: int) -> tuple[str, int, int]:
        found, start = _TOKEN.match(self.text, position), position
        if found is None:
            blank = _BLANK.match(self.text, position)
            start = blank.end() if blank else position
            found = _TOKEN.match(self.text, start)
        if found is None:
            return ("" if start == len(self.text) else "\0"), start, start
        return found.group(), start, found.end()

    def advance(self) -> str:
        """Go past the next token and return it."""
        left, self.end = self.token, self._next
        self.token, self.start, self._next = self._read(self._next)
        return left

    def peek(self) -> str:
        """The token after the next one."""
        return self._read(self._next)[0]

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise NotationError at `position`, by default at the next token. If there was a slip, report that instead."""
        found = f", found {self.shown()}" if position is None else ""
        if self.slips:
            message, position, found = *self.slips[0], ""
        raise NotationError(message + found, text=self.text, position=self.start if position is None else position)

    def shown(self) -> str:
        """The next token as messages show it."""
        if self.token == "":
            return "the end"
        if self.token == "\0":
            return repr(self.text[self.start])
        return repr(self.token if len(self.token) <= 40 else self.token[:40] + "...")

    def slip(self, message: str, position: int | None = None) -> None:
        """Note an error that XLA does not notice; a strict lexer raises NotationError."""
        if self.strict:
            self.fail(message, position)
        found = f", found {self.shown()}" if position is None else ""
        self.slips.append((message + found, self.start if position is None else position))

    def build(self, position: int, make: Callable[..., T], *arguments: object) -> T:
        """Call `make` and return its value; a LayoutError becomes a NotationError at `position`."""
        try:
            return make(*arguments)
        except LayoutError as error:
            self.fail(str(error), position)

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def take(self, token: str) -> bool:
        """Go past `token` and return True; return False if another one comes next."""
        if self.token != token:
            return False
        self.advance()
        return True

    def expect(self, token: str, wanted: str = "") -> None:
        """Go past `token`, or fail; `wanted` describes it in the message."""
        if not self.take(token):
            self.fail(f"expected {wanted or repr(token)}")

    @property
    def word(self) -> str:
        """The next word, with an ``=`` that follows directly; "" if no word comes next."""
        if not (self.token[:1].isalpha() or self.token[:1] == "_"):
            return ""
        return f"{self.token}=" if self.text.startswith("=", self._next) else self.token

    def take_word(self) -> str:
        """Go past the next word and return it."""
        word = self.word
        if word:
            self.go_to(self.start + len(word))
        return word

    def string(self, wanted: str) -> str:
        """Read a quoted string and return its unescaped content."""
        found = _STRING.match(self.text, self.start)
        if found is None:
            self.fail(f"expected {wanted}")
        self.go_to(found.end())
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), found.group()[1:-1])

    def is_integer(self) -> bool:
        """Whether an integer comes next."""
        return self.token.lstrip("-").isdigit()

    def integer(self) -> int | None:
        """Read a 64-bit integer; None if none comes next. One of 2**63 or more wraps around as in XLA: a slip."""
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

    def required_integer(self, wanted: str) -> int:
        """`integer`, or fail; `wanted` describes it in the message."""
        value = self.integer()
        if value is None:
            self.fail(f"{wanted} should fit 64 bits" if self.is_integer() else f"expected {wanted}")
        return value

    def listed(self, read: Callable[[], T]) -> list[T]:
        """One or more comma-separated values."""
        values = [read()]
        while self.take(","):
            values.append(read())
        return values

    def bracketed(self, brackets: str, read: Callable[[], T], wanted: str = "") -> list[T]:
        """Comma-separated values between two brackets, possibly none; `wanted` describes the opening bracket."""
        opening, closing = brackets[0], brackets[1]
        self.expect(opening, wanted)
        if self.take(closing):
            return []
        values = self.listed(read)
        self.expect(closing, f"',' or {closing!r}")
        return values

    def plain_integers(self) -> list[int]:
        """Fast path of `integers` for integers without blanks or signs, up to a bracket or colon; [] for other text."""
        found = _PLAIN_INTEGERS.match(self.text, self.start)
        if found is None:
            return []
        self.go_to(found.end())
        return list(map(int, found.group().split(",")))

    def integers(self, wanted: str) -> list[int]:
        """One or more comma-separated integers."""
        return self.plain_integers() or self.listed(lambda: self.required_integer(wanted))
