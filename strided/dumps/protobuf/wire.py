"""Read and write protobuf's wire format, with bounds checks.

A message is a run of fields. Each field begins with a tag, the varint ``number << 3 | kind``, and holds

==========  ===  ==========================================================================
kind        n    payload
==========  ===  ==========================================================================
`VARINT`    0    seven bits a byte, low bits first, the top bit set on all bytes but the last
`FIXED64`   1    eight bytes, little endian
`BYTES`     2    a varint length, then the bytes: text, a message, or packed numbers
`FIXED32`   5    four bytes, little endian
==========  ===  ==========================================================================

Every length is checked against the bytes that remain; a DumpError names what was wanted, at which byte, and how many
bytes remained. Payloads are memoryviews of the data, or `FileBytes` of a file that is not mapped: nothing is read
before it is accessed. Reading a message is one loop::

    for field in fields(view, "TileProto", at):
        if field.number == 1:
            dimensions += field.integers("TileProto.dimensions")

If a singular field occurs twice, the last number or text wins, and messages merge: their payloads are concatenated
(`join`, `merged`). That is up to the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from strided.dumps.protobuf.file_bytes import View, loaded
from strided.errors import DumpError
from strided.runtime.argument_checks import holds_references

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_KINDS = {VARINT: "a varint", FIXED64: "eight bytes", BYTES: "a run of bytes", FIXED32: "four bytes"}

#: The deepest nesting of messages: protobuf's own limit.
MAX_DEPTH = 100

_MASK64 = (1 << 64) - 1

Buffer: TypeAlias = bytes | bytearray | memoryview

_V = TypeVar("_V", bound=View)


class Field(NamedTuple):
    """A field of a message.

    `value` is the unsigned 64-bit number of a varint, or the payload of other kinds; it begins at byte `at` of the
    file.
    """

    number: int
    kind: int
    value: Any
    at: int

    def _refuse(self, wanted: str, expected: str) -> DumpError:
        found = _KINDS[self.kind]
        return DumpError(f"{wanted} (field {self.number}) should hold {expected}, found {found}", position=self.at)

    def unsigned(self, wanted: str) -> int:
        """The number of a varint field, 0 to 2**64 - 1."""
        if self.kind != VARINT:
            raise self._refuse(wanted, "a varint")
        return int(self.value)

    def integer(self, wanted: str) -> int:
        """The number of an int64 (or int32, enum, bool) field, with its sign."""
        return signed(self.unsigned(wanted))

    def view(self, wanted: str) -> Any:
        """The payload of a bytes or message field, not copied: a memoryview or FileBytes."""
        if self.kind != BYTES:
            raise self._refuse(wanted, "a run of bytes")
        return memoryview(self.value) if isinstance(self.value, bytearray) else self.value

    def text(self, wanted: str) -> str:
        """The text of a string field; invalid UTF-8 becomes ``\\xff``."""
        return str(loaded(self.view(wanted)), "utf-8", "backslashreplace")

    def integers(self, wanted: str) -> list[int]:
        """The numbers of one occurrence of a repeated int64 (int32, enum, bool) field, packed or not."""
        if self.kind == VARINT:
            return [signed(self.value)]
        payload, numbers, position = self.view(wanted), [], 0
        while position < len(payload):
            number, position = read_varint(payload, position, wanted, self.at)
            numbers.append(signed(number))
        return numbers


def as_view(data: Any) -> memoryview:
    """The bytes of any contiguous buffer (bytes, mmap, ndarray, ...) as a flat memoryview.

    >>> from array import array
    >>> as_view(array("H", [1, 2])).nbytes
    4
    """
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"expected bytes or another contiguous buffer, not {type(data).__name__}") from None
    if holds_references(view):
        raise TypeError(f"expected a buffer of data; this {type(data).__name__} holds references to Python objects")
    if not view.c_contiguous:
        raise TypeError(f"expected a contiguous buffer; this {type(data).__name__} has gaps or another order")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def fields(view: View, wanted: str, at: int = 0) -> Iterator[Field]:
    """The fields of a message, in wire order.

    Parameters
    ----------
    view : memoryview or FileBytes
        Exactly the bytes of the message.
    wanted : str
        The message's name, for errors.
    at : int
        Byte of the file where `view` begins, for errors and `Field.at`.

    Raises
    ------
    DumpError
        Invalid bytes, or a length beyond the end.

    >>> [(field.number, field.kind, field.value) for field in fields(memoryview(bytes([8, 150, 1])), "Example")]
    [(1, 0, 150)]
    """
    position, size = 0, len(view)
    new = tuple.__new__  # NamedTuple's constructor takes twice as long
    while position < size:
        tag_at = position
        tag = view[position]
        position += 1
        if tag > 0x7F:
            tag, position = read_varint(view, tag_at, f"the tag of a field of {wanted}", at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29 or kind not in _KINDS:
            raise DumpError(
                f"expected a field of {wanted}, found the tag {tag} (field {number}, wire type {kind})",
                position=at + tag_at,
            )
        if kind == VARINT:
            if position < size and view[position] < 0x80:
                yield new(Field, (number, kind, view[position], at + position))
                position += 1
                continue
            value, end = read_varint(view, position, f"field {number} of {wanted}", at)
            yield new(Field, (number, kind, value, at + position))
            position = end
            continue
        if kind == BYTES:
            if position < size and view[position] < 0x80:
                length = view[position]
                position += 1
            else:
                length, position = read_varint(view, position, f"the length of field {number} of {wanted}", at)
        else:
            length = 8 if kind == FIXED64 else 4
        if length > size - position:
            raise _short(f"field {number} of {wanted}", length, at + position, size - position)
        yield new(Field, (number, kind, view[position : position + length], at + position))
        position += length


def read_varint(view: View, position: int, wanted: str, at: int = 0) -> tuple[int, int]:
    """The varint at `position` (unsigned, 64 bits), and its end.

    DumpError if it is incomplete, or longer than ten bytes.

    >>> read_varint(memoryview(bytes([150, 1])), 0, "an example")
    (150, 2)
    """
    value = 0
    for shift in range(0, 70, 7):
        if position + shift // 7 >= len(view):
            remained = max(len(view) - position, 0)
            raise DumpError(f"{wanted}: expected a varint, {_count(remained)} remained", position=at + position)
        byte = view[position + shift // 7]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, position + shift // 7 + 1
    raise DumpError(f"{wanted}: expected a varint, found more than ten bytes of one", position=at + position)


def take(view: _V, position: int, size: int, wanted: str, at: int = 0) -> _V:
    """`size` bytes from `position`, not copied. DumpError if fewer remain."""
    remained = len(view) - position
    if not 0 <= size <= remained:
        raise _short(wanted, size, at + position, max(remained, 0))
    return cast(_V, view[position : position + size])


def merged(payloads: list[_V]) -> _V | memoryview:
    """The payload of a singular message field with its occurrences merged."""
    return payloads[0] if len(payloads) == 1 else memoryview(b"".join(map(loaded, payloads)))


def join(found: dict[int, Field], field: Field, wanted: str) -> None:
    """Put a singular message field into `found` by its number, appended to earlier occurrences of it.

    Occurrences are joined at once, so that very many in a hostile message take no more memory than their bytes.

    >>> found = {}
    >>> for field in fields(memoryview(bytes.fromhex("0a0101" "0a0102")), "Example"):
    ...     join(found, field, "an example")
    >>> bytes(found[1].view("an example")).hex()
    '0102'
    """
    first = found.setdefault(field.number, field)
    if first is field:
        return
    if not isinstance(first.value, bytearray):
        first = found[field.number] = first._replace(value=bytearray(loaded(first.view(wanted))))
    first.value.extend(loaded(field.view(wanted)))


def signed(value: int) -> int:
    """An unsigned 64-bit number as two's complement.

    >>> signed(2**64 - 1)
    -1
    """
    return value - (1 << 64) if value >> 63 else value


def _short(wanted: str, size: int, position: int, remained: int) -> DumpError:
    return DumpError(f"{wanted} should be {size} bytes long, {_count(remained)} remained", position=position)


def _count(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes"


# ---- writing --------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A number as a varint; a negative one as its 64-bit two's complement.

    >>> varint(150).hex(), len(varint(-1))
    ('9601', 10)
    """
    value &= _MASK64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    """A field's tag.

    >>> tag(2, BYTES).hex()
    '12'
    """
    return varint(number << 3 | kind)


def integer_field(number: int, value: int) -> bytes:
    """A varint field; empty for 0, as in proto3.

    >>> integer_field(7, 4).hex(), integer_field(7, 0)
    ('3804', b'')
    """
    return tag(number, VARINT) + varint(value) if value else b""


def bytes_field(number: int, payload: Buffer) -> bytes:
    """A field of bytes, UTF-8 text or a message, even if empty.

    >>> bytes_field(1, b"ab").hex()
    '0a026162'
    """
    return b"".join((bytes_head(number, len(payload)), payload))


def bytes_head(number: int, size: int) -> bytes:
    """The tag and length before a payload of `size` bytes."""
    return tag(number, BYTES) + varint(size)


def integers_field(number: int, values: tuple[int, ...] | list[int]) -> bytes:
    """A packed repeated varint field; empty without values.

    >>> integers_field(1, (1, 0)).hex()
    '0a020100'
    """
    return bytes_field(number, b"".join(map(varint, values))) if values else b""
