"""Quote and escape strings in HLO text, and the reverse, as XLA does."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_ESCAPES = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}


def quote(value: str | bytes | memoryview) -> str:
    r"""Text quoted as XLA prints it.

    >>> print(quote('a"b'))
    "a\"b"
    """
    return f'"{escape(value)}"'


def unquote(text: str) -> str:
    r"""Unquoted and unescaped text; text without quotes is unchanged.

    >>> print(unquote(r'"a\"b"'), unquote(r'{"a":"\n"}'))
    a"b {"a":"\n"}
    """
    return unescape(text) if text[:1] in ('"', "'") else text


def unescape(text: str) -> str:
    r"""Decode C escapes, and remove surrounding quotes.

    Octal escapes are bytes of UTF-8; invalid ones become ``\xff``.

    >>> unescape(r'"caf\303\251\n"')
    'café\n'
    """
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_byte_of, as_bytes(text)).decode("utf-8", "backslashreplace")


def _byte_of(found: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = found.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if hexadecimal is not None:
        return bytes((int(hexadecimal, 16),))
    return _ESCAPED.get(letter, letter)


def as_bytes(value: str | bytes | memoryview) -> bytes:
    """Encode text as UTF-8; bytes are unchanged."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def escape(value: str | bytes | memoryview) -> str:
    r"""Text as XLA prints it between quotes: with C escapes, and three octal digits for unprintable or non-ASCII bytes.

    >>> escape('a"é')
    'a\\"\\303\\251'
    """
    data = as_bytes(value)
    if data.isascii() and (text := data.decode()).isprintable() and not any(c in text for c in "\\\"'"):
        return text
    return "".join(_ESCAPES.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\{b:03o}") for b in data)
