"""Tokens of a sharding's text: bounded, in linear time, and every refusal shows the place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from strided.errors import LayoutError, NotationError

T = TypeVar("T")

_BLANKS = re.compile(r"(?:[ \t\n\r]+|//[^\n]*|/\*[^\x00]*?\*/)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*=?")
_INTEGER = re.compile(r"-?[0-9]+")
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class Scanner:
    """Reads tokens of one text from left to right; every refusal shows the place."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def error(self, message: str, position: int | None = None) -> NotationError:
        return NotationError(message, text=self.text, position=self.position if position is None else position)

    def expected(self, wanted: str) -> NotationError:
        self.skip()
        found = self.text[self.position : self.position + 1]
        return self.error(f"expected {wanted}, found {found!r}" if found else f"expected {wanted}, found the end")

    def skip(self) -> None:
        match = _BLANKS.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def take(self, token: str) -> bool:
        """Whether `token` comes next; it is then behind us."""
        self.skip()
        if not self.text.startswith(token, self.position):
            return False
        self.position += len(token)
        return True

    def need(self, token: str, wanted: str = "") -> None:
        if not self.take(token):
            raise self.expected(wanted or f"'{token}'")

    def word(self) -> str:
        """The next word, with the ``=`` that touches it; empty where there is none."""
        self.skip()
        match = _WORD.match(self.text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match.group()

    def integer(self, wanted: str) -> int:
        self.skip()
        match = _INTEGER.match(self.text, self.position)
        if match is None:
            raise self.expected(wanted)
        digits = match.group().lstrip("-0")
        value = int(match.group()) if len(digits) < 20 else 1 << 64
        if not -(1 << 63) <= value < 1 << 63:
            raise self.error(f"{wanted} should fit 64 bits")
        self.position = match.end()
        return value

    def integers(self, wanted: str) -> list[int]:
        """One or more integers with commas between them."""
        values = [self.integer(wanted)]
        while self.take(","):
            values.append(self.integer(wanted))
        return values

    def string(self, wanted: str) -> str:
        self.skip()
        match = _STRING.match(self.text, self.position)
        if match is None:
            raise self.expected(wanted)
        self.position = match.end()
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match.group()[1:-1])

    def at(self, position: int, make: Callable[..., T], *arguments: Any) -> T:
        """The value that `make` gives; what it refuses is wrong at `position`."""
        try:
            return make(*arguments)
        except LayoutError as error:
            raise self.error(str(error), position) from error

    def metadata(self) -> tuple[str, ...]:
        """The records of ``metadata={...}`` or ``metadata={{...}, {...}}``, from the first brace on, as text."""
        self.need("{")
        if not self.take("{"):
            return tuple(filter(None, [self._record()]))
        records = [self._record()]
        while self.take(","):
            self.need("{", "'{' to open the next record")
            records.append(self._record())
        self.need("}", "',' or '}' after a record of the metadata")
        return tuple(filter(None, records))

    def _record(self) -> str:
        """The text up to the brace that closes a record: names and values, divided by blanks or commas."""
        start, seen = self.position, set[str]()
        while not self.take("}"):
            if seen:
                self.take(",")
            self.skip()
            at = self.position
            name = self.word()
            if name in seen:
                raise self.error(f"{name} stands twice", at)
            if not name.endswith("="):
                self.position = at
                raise self.expected("name=value or '}'")
            seen.add(name)
            self._value()
        return self.text[start : self.position - 1].strip()

    def _value(self) -> None:
        """Step over a value of a record: a string, a number, true or false, or numbers in braces."""
        self.skip()
        at = self.position
        if self.text.startswith(("'", '"'), at):
            self.string("a string")
        elif self.take("{"):
            if not self.take("}"):
                self.integers("a number")
                self.need("}", "',' or '}'")
        elif self.word() not in ("true", "false"):
            self.position = at
            self.integer("a string or a number")
