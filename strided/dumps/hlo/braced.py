"""Values that XLA prints without quotes because they look like JSON objects, and sorting their keys."""

from __future__ import annotations

import re

from strided.dumps.hlo.lexer import CLOSER, STRING

#: Objects and lists nested deeper than this are not sorted.
MAX_DEPTH = 100

#: A complete string, an unclosed quote, or a brace.
_PIECE = re.compile(rf'{STRING}|["{{}}]')
#: Blanks and comments, which may surround an object. For ``(?!)`` see `lexer.BLANKS`.
_BLANKS = re.compile(r"(?:[ \t\r\n]|/\*.*?\*/|//[^\r\n]*+|(?!))*+", re.DOTALL)

#: A token of JSON: punctuation, a string, or a number or name.
_WORD = re.compile(rf"\s*+([{{}}\[\]:,]|({STRING}|[+\-ftn\d](?:[^\s,:{{}}\[\]\\]|\\.)*+))", re.ASCII | re.DOTALL)


def is_json_object(text: str) -> bool:
    """Whether XLA prints a value without quotes: matching braces enclose all of it, not counting those in strings.

    >>> is_json_object('{"a":"}"}'), is_json_object("{} {}"), is_json_object("{")
    (True, False, False)
    """
    start, depth = _end_of_blanks(text, 0), 0
    for piece in _PIECE.finditer(text, start) if text.startswith("{", start) else ():
        if piece[0] == '"':
            return False
        depth += {"{": 1, "}": -1}.get(piece[0], 0)
        if not depth:
            return _end_of_blanks(text, piece.end()) == len(text)
    return False


def _end_of_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def sorted_json(text: str) -> str:
    """JSON with sorted keys and without blanks; other text unchanged.

    >>> sorted_json('{"b": [2, {"d": 1, "c": 0}], "a": "x"}')
    '{"a":"x","b":[2,{"c":0,"d":1}]}'
    >>> sorted_json("{b a}")
    '{b a}'
    """
    try:
        found, end = _value(text, 0, 0)
    except ValueError:
        return text
    return found if not text[end:].strip() else text


def _value(text: str, at: int, depth: int) -> tuple[str, int]:
    """A value and the position after it; ValueError if there is none."""
    word = _word(text, at)
    opening = word[1]
    if word[2]:
        return opening, word.end()
    if opening not in "{[" or depth == MAX_DEPTH:
        raise ValueError
    parts, closing, at = [], CLOSER[opening], word.end()
    while (word := _word(text, at))[1] != closing:
        key = ""
        if opening == "{":
            colon = _word(text, word.end())
            if not word[2] or colon[1] != ":":
                raise ValueError
            key, at = f"{word[1]}:", colon.end()
        value, at = _value(text, at, depth + 1)
        parts.append(key + value)
        if (word := _word(text, at))[1] == ",":
            at = word.end()
    return f"{opening}{','.join(sorted(parts) if opening == '{' else parts)}{closing}", word.end()


def _word(text: str, at: int) -> re.Match[str]:
    found = _WORD.match(text, at)
    if found is None:
        raise ValueError
    return found
