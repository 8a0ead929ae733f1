"""Protobuf messages as dictionaries, by the names that XLA declares; undeclared fields are skipped.

`decode` gives a whole message: numbers, text, more dictionaries, lists of these. Shapes come as `strided.Shape`,
literals and shardings as bytes, because they have readers of their own.

`Fields` decodes on demand and knows the byte at which each field lies: for large messages, and for errors that name
the place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from strided.dumps.protobuf import schema
from strided.dumps.protobuf.schema import FieldType
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import MAX_DEPTH, Field, fields, merged
from strided.errors import DumpError

#: A decoded message: the values of its fields by their names.
Message: TypeAlias = Mapping[str, Any]

#: Messages that are left undecoded.
_OPAQUE = frozenset(("LiteralProto", "OpSharding", "HloModuleProto", "OriginalValueProto"))
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NUMBERS = frozenset(("int32", "int64", "uint32", "uint64", "bool"))


@cache
def _by_number(message: str) -> dict[int, FieldType]:
    return {declared.number: declared for declared in schema.messages()[message].values()}


class Fields(dict[str, list[Field]]):
    """The declared fields of one message by name, in the order of the wire; absent ones are empty lists.

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
        found = self.get(name)
        return found[-1].integer(self._declared[name].wanted) if found else 0

    def integers(self, name: str) -> list[int]:
        """All values of a repeated integer field."""
        return [value for field in self[name] for value in field.integers(self._declared[name].wanted)]

    def text(self, name: str) -> str:
        """The last value of a string field, or ""."""
        return self[name][-1].text(self._declared[name].wanted) if name in self else ""

    def decoded(self, name: str) -> dict[str, Any]:
        """The last occurrence of a message field, decoded as a whole; empty if it is absent."""
        if name not in self:
            return {}
        declared, last = self._declared[name], self[name][-1]
        return decode(declared.type, last.view(declared.wanted), last.at)

    def message(self, name: str) -> Fields:
        """A singular message field, its occurrences merged; empty if it is absent."""
        declared = self._declared[name]
        payload = merged([field.view(declared.wanted) for field in self[name]])
        return Fields(declared.type, payload, self[name][0].at if name in self else self.at)

    def messages(self, name: str) -> Iterator[Fields]:
        """The messages of a repeated field."""
        declared = self._declared[name]
        return (Fields(declared.type, field.view(declared.wanted), field.at) for field in self[name])


@cache
def enum_names(enum: str) -> dict[int, str]:
    """Names of an enumeration's values, by number.

    >>> enum_names("FftType")[2]
    'RFFT'
    """
    return {number: name for name, number in schema.enums()[enum].items()}


def decode(message: str, view: memoryview, at: int = 0, depth: int = 0) -> dict[str, Any]:
    """The fields of one message by their names; repeated ones as lists, absent ones left out.

    DumpError for bytes that are no such message.

    >>> decode("SourceTarget", memoryview(bytes([8, 3, 16, 4])))
    {'source': 3, 'target': 4}
    """
    if depth > MAX_DEPTH:
        raise DumpError(f"{message}: messages nested more than {MAX_DEPTH} deep", position=at)
    known = _by_number(message)
    found: dict[str, Any] = {}
    for field in fields(view, message, at):
        declared = known.get(field.number)
        if declared is None:
            continue
        if not declared.repeated:
            found[declared.name] = _value(declared, field, depth)
        elif declared.type in _NUMBERS or declared.type in schema.enums():
            found.setdefault(declared.name, []).extend(field.integers(declared.wanted))
        else:
            found.setdefault(declared.name, []).append(_value(declared, field, depth))
    return found


def _value(declared: FieldType, field: Field, depth: int) -> Any:
    kind, wanted = declared.type, declared.wanted
    if kind == "string":
        return field.text(wanted)
    if kind in ("uint32", "uint64"):
        return field.unsigned(wanted)
    if kind in _NUMBERS or kind in schema.enums():
        return field.integer(wanted)
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
