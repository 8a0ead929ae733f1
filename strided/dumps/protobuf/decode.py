"""Protobuf messages as dictionaries: all of one by the names of its fields, or its undecoded fields by number.

`decode` gives the fields that a message holds, by their names in XLA's declarations: numbers, text, more dictionaries,
lists of these. Shapes come as `strided.Shape`, literals and shardings as the bytes of their messages, which have
readers of their own. Undeclared fields are skipped.

`Fields` decodes on demand and knows the byte where each field lies: for readers of large messages, and of messages
whose errors name the place.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from strided.dumps.protobuf import schema
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import MAX_DEPTH, Field, fields, merged
from strided.errors import DumpError

#: Messages that are left undecoded.
_OPAQUE = frozenset(("LiteralProto", "OpSharding", "HloModuleProto"))
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NUMBERS = frozenset(("int32", "int64", "uint32", "uint64", "bool"))


class Fields(dict[int, list[Field]]):
    """The fields of one message by number, in the order of the wire; absent ones are empty lists.

    Parameters
    ----------
    view : memoryview
    wanted : str
        Name of the message, for errors.
    at : int
        Byte of the file where it begins, for errors.

    >>> Fields(memoryview(bytes([8, 3, 8, 4])), "SourceTarget").integer(1, "SourceTarget.source")
    4
    """

    def __init__(self, view: memoryview, wanted: str, at: int = 0) -> None:
        super().__init__()
        for field in fields(view, wanted, at):
            self.setdefault(field.number, []).append(field)

    def __missing__(self, number: int) -> list[Field]:
        return []

    def integer(self, number: int, wanted: str) -> int:
        """The last value of an integer field, or 0."""
        return self[number][-1].integer(wanted) if number in self else 0

    def integers(self, number: int, wanted: str) -> list[int]:
        """All values of a repeated integer field."""
        return [value for field in self[number] for value in field.integers(wanted)]

    def text(self, number: int, wanted: str) -> str:
        """The last value of a string field, or ""."""
        return self[number][-1].text(wanted) if number in self else ""

    def message(self, number: int, wanted: str) -> tuple[memoryview, int]:
        """The payload of a singular message field that is there, its occurrences merged, and where it begins."""
        return merged([field.view(wanted) for field in self[number]]), self[number][0].at


class _Reader(NamedTuple):
    name: str
    type: str
    repeated: bool


@cache
def _readers(message: str) -> dict[int, _Reader]:
    return {
        field.number: _Reader(name, field.type, field.repeated) for name, field in schema.messages()[message].items()
    }


@cache
def enum_names(enum: str) -> dict[int, str]:
    """Names of an enumeration's values, by number.

    >>> enum_names("FftType")[2]
    'RFFT'
    """
    return {number: name for name, number in schema.enums()[enum].items()}


def decode(message: str, view: memoryview, at: int = 0, depth: int = 0) -> dict[str, Any]:
    """The fields of one message by their names; repeated ones as lists, absent ones left out.

    Raises
    ------
    DumpError
        Bytes that are no such message.

    >>> decode("SourceTarget", memoryview(bytes([8, 3, 16, 4])))
    {'source': 3, 'target': 4}
    """
    if depth > MAX_DEPTH:
        raise DumpError(f"{message}: messages nested more than {MAX_DEPTH} deep", position=at)
    readers = _readers(message)
    found: dict[str, Any] = {}
    for field in fields(view, message, at):
        reader = readers.get(field.number)
        if reader is None:
            continue
        name = reader.name
        if not reader.repeated:
            found[name] = _value(reader, field, f"{message}.{name}", depth)
        elif reader.type in _NUMBERS or reader.type in schema.enums():
            found.setdefault(name, []).extend(field.integers(f"{message}.{name}"))
        else:
            found.setdefault(name, []).append(_value(reader, field, f"{message}.{name}", depth))
    return found


def _value(reader: _Reader, field: Field, wanted: str, depth: int) -> Any:
    kind = reader.type
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
