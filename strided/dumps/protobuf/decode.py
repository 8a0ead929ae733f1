"""Decode protobuf messages by XLA's field names; undeclared fields are skipped.

`decode` returns a whole message as a dict of numbers, text, further dicts, and lists of these. Shapes become
`strided.Shape`; literals and shardings, which have readers of their own, stay bytes.

`Fields` decodes on demand and knows the offset of each field: for large messages, and for errors with a position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from strided.dumps.protobuf import schema
from strided.dumps.protobuf.schema import FieldType
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import MAX_DEPTH, Field, fields, join, merged
from strided.errors import DumpError

#: A decoded message: the values of its fields by name.
Message: TypeAlias = Mapping[str, Any]

#: Messages that `decode` leaves as bytes.
_OPAQUE = frozenset(("LiteralProto", "OpSharding", "HloModuleProto", "OriginalValueProto"))
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NUMBERS = frozenset(("int32", "int64", "uint32", "uint64", "bool"))
#: Types whose varints are not truncated to 32 bits.
_LONG = frozenset(("int64", "uint64", "bool"))


@cache
def _by_number(message: str) -> dict[int, FieldType]:
    return {declared.number: declared for declared in schema.messages()[message].values()}


@cache
def _singular_messages(message: str) -> frozenset[int]:
    """The numbers of the singular message fields."""
    kinds = schema.messages()
    return frozenset(number for number, one in _by_number(message).items() if one.type in kinds and not one.repeated)


class Fields(dict[str, list[Field]]):
    """The declared fields of a message by name, in wire order; absent fields are empty lists.

    `at` is the byte of the file where the message begins, for errors.

    >>> Fields("SourceTarget", memoryview(bytes([8, 3, 8, 4]))).integer("source")
    4
    """

    at: int

    def __init__(self, message: str, view: memoryview, at: int = 0) -> None:
        super().__init__()
        self.at, self._declared = at, schema.messages()[message]
        declared = _by_number(message)
        for field in fields(view, message, at):
            if field.number in declared:
                self.setdefault(declared[field.number].name, []).append(field)

    def __missing__(self, name: str) -> list[Field]:
        return []

    def integer(self, name: str) -> int:
        """The last value of an integer field, or 0."""
        found, declared = self.get(name), self._declared[name]
        return _cut(declared.type, found[-1].integer(declared.wanted)) if found else 0

    def integers(self, name: str) -> list[int]:
        """All values of a repeated integer field."""
        declared = self._declared[name]
        return [_cut(declared.type, value) for field in self[name] for value in field.integers(declared.wanted)]

    def text(self, name: str) -> str:
        """The last value of a string field, or ""."""
        return self[name][-1].text(self._declared[name].wanted) if name in self else ""

    def decoded(self, name: str) -> dict[str, Any]:
        """A singular message field, merged and decoded; empty if absent."""
        return decode(self._declared[name].type, *self.merged(name))

    def message(self, name: str) -> Fields:
        """A singular message field, merged; empty if absent."""
        return Fields(self._declared[name].type, *self.merged(name))

    def merged(self, name: str) -> tuple[memoryview, int]:
        """The merged payload of a singular message field, and the byte where it begins."""
        if name not in self:
            return memoryview(b""), self.at
        wanted = self._declared[name].wanted
        return merged([field.view(wanted) for field in self[name]]), self[name][0].at

    def messages(self, name: str) -> Iterator[Fields]:
        """The messages of a repeated field."""
        declared = self._declared[name]
        return (Fields(declared.type, field.view(declared.wanted), field.at) for field in self[name])


@cache
def enum_names(enum: str) -> dict[int, str]:
    """The names of an enum's values by number.

    >>> enum_names("FftType")[2]
    'RFFT'
    """
    return {number: name for name, number in schema.enums()[enum].items()}


def decode(message: str, view: memoryview, at: int = 0, depth: int = 0) -> dict[str, Any]:
    """Decode a message: repeated fields become lists, absent ones are left out, singular messages are merged.

    DumpError for an invalid message.

    >>> decode("SourceTarget", memoryview(bytes([8, 3, 16, 4])))
    {'source': 3, 'target': 4}
    """
    if depth > MAX_DEPTH:
        raise DumpError(f"{message}: messages nested more than {MAX_DEPTH} deep", position=at)
    known, singular = _by_number(message), _singular_messages(message)
    found: dict[str, Any] = {}
    messages: dict[int, Field] = {}  # the singular ones, by their numbers
    for field in fields(view, message, at):
        declared = known.get(field.number)
        if declared is None:
            continue
        if field.number in singular:
            join(messages, field, declared.wanted)
        elif not declared.repeated:
            found[declared.name] = _value(declared, field, depth)
        elif declared.type in _NUMBERS or declared.type in schema.enums():
            values = field.integers(declared.wanted)
            is_long = declared.type in _LONG
            found.setdefault(declared.name, []).extend(
                values if is_long else (_cut(declared.type, value) for value in values)
            )
        else:
            found.setdefault(declared.name, []).append(_value(declared, field, depth))
    for number, field in messages.items():
        declared = known[number]
        found[declared.name] = _value(declared, field, depth)
    return found


def _value(declared: FieldType, field: Field, depth: int) -> Any:
    kind, wanted = declared.type, declared.wanted
    if kind == "string":
        return field.text(wanted)
    if kind in ("uint32", "uint64"):
        return _cut(kind, field.unsigned(wanted))
    if kind in _LONG:
        return field.integer(wanted)
    if kind in _NUMBERS or kind in schema.enums():
        return _cut(kind, field.integer(wanted))
    if kind in _FLOATS:
        number = _FLOATS[kind]
        if not isinstance(field.value, memoryview) or len(field.value) != number.size:
            raise DumpError(f"{wanted} should hold a {kind}", position=field.at)
        return number.unpack(field.value)[0]
    view = field.view(wanted)
    if kind == "ShapeProto":
        return read_shape(view, field.at)
    if kind == "bytes" or kind in _OPAQUE:
        return view
    return decode(kind, view, field.at, depth + 1)


def _cut(kind: str, number: int) -> int:
    """A varint's number in this type: protobuf keeps only the low 32 bits for 32-bit types."""
    if kind in _LONG:
        return number
    return number & 0xFFFFFFFF if kind == "uint32" else (number + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
