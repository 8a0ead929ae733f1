r"""Convert protobuf's text form to its wire form.

XLA writes snapshots as text if ``xla_dump_hlo_as_text`` is set::

    arguments {
      shape { element_type: S4 dimensions: 3 }
      s4s: "\007\002\017"
    }

Fields are ``name: value`` or ``name { ... }`` (also ``name: <...>``). Values are numbers, names of enumerators,
``true`` and ``false``, adjacent quoted strings, or a list of such values in brackets; ``#`` begins a comment, ``;`` and
``,`` may separate fields. Undeclared fields are skipped. One reader of the wire form then serves both; a run of one
repeated number becomes one packed field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.dumps.protobuf import schema, wire
from strided.dumps.protobuf.schema import FieldType
from strided.dumps.protobuf.varints import encode_varints
from strided.errors import DumpError

# Possessive quantifiers keep these patterns from backtracking. For ``(?!)`` see `dumps.hlo.lexer.BLANKS`.
_SPACE = r"(?:[\s;,]++|#[^\n]*+)*+"
_SCALAR = r"[-+.\w]++"
_STRING = r"""(?:"(?:[^"\\\n]++|\\[^\n])*+"|'(?:[^'\\\n]++|\\[^\n])*+')"""

_FIELD = re.compile(
    rf"(?P<close>[}}>])|(?P<name>[A-Za-z_]\w*+){_SPACE}(?P<colon>:)?+{_SPACE}(?P<open>[{{<\[])?+", re.ASCII
)
_ITEM = re.compile(rf"{_SPACE}(?P<value>{_SCALAR}|{_STRING}(?:{_SPACE}{_STRING}|(?!))*+)", re.ASCII)
_SKIP = re.compile(_SPACE)
_LIST_END = re.compile(rf"{_SPACE}\]")
_STRINGS = re.compile(_STRING)
_BODY = re.compile(r"(?:[^\\]++|\\(?:[0-3][0-7]{0,2}|[4-7][0-7]?(?![0-7])|x[0-9a-fA-F]{2}|[abfnrtv\\'\"])|(?!))*+")

_NUMBERS: dict[str, np.dtype[Any]] = {
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
_BOOLS = {"true": 1, "True": 1, "t": 1, "1": 1, "false": 0, "False": 0, "f": 0, "0": 0}
_CLOSES = {"{": "}", "<": ">"}


@dataclass(slots=True)
class _Frame:
    """A message that is being read; `fields` is None inside an undeclared field."""

    message: str
    fields: dict[str, FieldType] | None
    number: int
    close: str
    pieces: list[bytes] = field(default_factory=list)


def encode(text: str, message: str) -> bytes:
    """Convert the text form of a message, named as in the schema, to the wire form.

    DumpError, with line and column, for invalid text.

    >>> encode('element_type: F32 dimensions: [2, 3]', "ShapeProto").hex()
    '100b1a020203'
    """
    return _Reader(text).read(message)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def read(self, message: str) -> bytes:
        stack = [_Frame(message, schema.messages()[message], 0, "")]
        while True:
            self.position = start = _SKIP.match(self.text, self.position).end()  # type: ignore[union-attr]
            if start == len(self.text):
                break
            match = _FIELD.match(self.text, start)
            if match is None:
                raise self.error(f"expected a field of {stack[-1].message}", start)
            self.position = match.end()
            if match["close"]:
                self._leave(stack, match["close"], start)
            else:
                self._field(stack, match)
        if len(stack) > 1:
            raise self.error(f"expected {stack[-1].close!r} at the end of {stack[-1].message}, found the end", start)
        return b"".join(stack[0].pieces)

    def error(self, words: str, position: int) -> DumpError:
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return DumpError(words, line=line, column=column)

    def _leave(self, stack: list[_Frame], close: str, start: int) -> None:
        frame = stack[-1]
        if close != frame.close:
            raise self.error(f"expected a field of {frame.message}, found {close!r}", start)
        stack.pop()
        if frame.fields is not None:
            stack[-1].pieces.append(wire.bytes_field(frame.number, b"".join(frame.pieces)))

    def _field(self, stack: list[_Frame], match: re.Match[str]) -> None:
        frame, name, opening = stack[-1], match["name"], match["open"]
        known = None if frame.fields is None else frame.fields.get(name)
        if opening and opening != "[":
            if known is not None and known.type not in schema.messages():
                raise self.error(f"{known.wanted} is of type {known.type}, no message", match.start())
            if len(stack) > wire.MAX_DEPTH:
                raise self.error(f"messages nested more than {wire.MAX_DEPTH} deep", match.start())
            inner, number = (name, 0) if known is None else (known.type, known.number)
            fields = None if known is None else schema.messages()[known.type]
            stack.append(_Frame(inner, fields, number, _CLOSES[opening]))
            return
        if not match["colon"]:
            raise self.error(f"expected ':' after {name!r}", match.end("name"))
        if known is not None and known.type in schema.messages():
            raise self.error(f"{known.wanted} is a message, expected '{{'", match.end("name"))
        items = self._list(name) if opening else self._run(name, known)
        if known is not None:
            frame.pieces.append(self._payload(known, items, match.start()))

    def _item(self, name: str) -> str:
        match = _ITEM.match(self.text, self.position)
        if match is None:
            raise self.error(f"expected a value for {name!r}", self.position)
        self.position = match.end()
        return match["value"]

    def _list(self, name: str) -> list[str]:
        items = []
        while not (end := _LIST_END.match(self.text, self.position)):
            items.append(self._item(name))
        self.position = end.end()
        return items

    def _run(self, name: str, known: FieldType | None) -> list[str]:
        """The value, or all consecutive values of a repeated number."""
        items = [self._item(name)]
        if known is not None and known.repeated and (known.type in _NUMBERS or known.type == "bool"):
            more, value = _run_patterns(name)
            run = more.match(self.text, self.position)
            assert run is not None  # it matches the empty run
            self.position = run.end()
            items += value.findall(run[0])
        return items

    def _payload(self, known: FieldType, items: list[str], position: int) -> bytes:
        try:
            if known.type in ("string", "bytes"):
                return b"".join(wire.bytes_field(known.number, _unescape(item)) for item in items)
            values = _numbers(known.type, items)
        except (ValueError, OverflowError, KeyError):
            shown = items[0] if len(items) == 1 else f"{items[0]} ..."
            raise self.error(f"{known.wanted}: expected {known.type}, found {shown[:60]}", position) from None
        if values.dtype.kind == "f":
            packed = values.tobytes()
            if not known.repeated:
                kind = wire.FIXED32 if values.itemsize == 4 else wire.FIXED64
                return wire.tag(known.number, kind) + packed[-values.itemsize :]
        elif not known.repeated:
            return wire.tag(known.number, wire.VARINT) + wire.varint(int(values[-1])) if values.size else b""
        else:
            packed = encode_varints(values)
        return wire.bytes_field(known.number, packed) if values.size else b""


@cache
def _run_patterns(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns for a run of one field's values, and for one of them. Comments end a run."""
    run = rf"(?:[\s;,]++{name}\s*+:\s*+{_SCALAR}(?![^\s;,#}}>])|(?!))*+"
    return re.compile(run, re.ASCII), re.compile(rf"{name}\s*+:\s*+({_SCALAR})", re.ASCII)


def _numbers(type_name: str, items: list[str]) -> npt.NDArray[Any]:
    if type_name == "bool":
        return np.array([_BOOLS[item] for item in items], np.int64)
    dtype = _NUMBERS.get(type_name)
    if dtype is None:
        names = schema.enums()[type_name]
        return np.array([names[item] if item in names else _integer(item) for item in items], np.int32)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # becomes infinity, as in protobuf
            return np.array([_float(item) for item in items]).astype(dtype.newbyteorder("<"))
    return np.array([_integer(item) for item in items], dtype)


def _integer(item: str) -> int:
    if "_" in item or len(item) > 70:  # accepted by int(), but not by protobuf
        raise ValueError
    digits = item.lstrip("-")
    return int(item, 8 if digits.startswith("0") and digits.isdigit() else 0)


def _float(item: str) -> float:
    if "_" in item:
        raise ValueError
    try:
        return float(item)
    except ValueError:
        return float(item.removesuffix("f").removesuffix("F"))


def _unescape(item: str) -> bytes:
    """The bytes of one or more quoted strings."""
    pieces = []
    for quoted in _STRINGS.findall(item):
        body = quoted[1:-1]
        raw = body.encode("utf-8", "surrogateescape")
        if "\\" in body:
            if not _BODY.fullmatch(body):
                raise ValueError
            raw = raw.decode("unicode_escape").encode("latin-1")
        pieces.append(raw)
    if not pieces:
        raise ValueError
    return b"".join(pieces)
