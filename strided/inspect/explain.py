"""Explain where an element lies, and what lies at a byte.

Tiles split an index into parts. An explanation lists the parts with their strides: the sum of value times stride is
the offset.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, SupportsIndex

import numpy as np

from strided.addressing.index_expr import Combined, Coordinate, IndexExpr, Quotient, Remainder, Zero, evaluate
from strided.arrays.buffer_spec import prefix_bytes
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape
from strided.runtime.argument_checks import whole
from strided.wording import wrapped


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an index.

    Attributes
    ----------
    expression : str
        How it is computed, as in ``"d0 // 8"``, where ``d0`` is the index in dimension 0.
    value : int
        Its value for this element, from 0 to ``size - 1``.
    size : int
        Number of possible values.
    stride : int
        Elements from one value to the next.
    """

    expression: str
    value: int
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What lies in one slot of a buffer, and why; its text is a table of the parts.

    Attributes
    ----------
    shape : Shape
    index : tuple of int or None
        Index of the element; None for padding.
    padding_of : int or None
        For padding, the dimension whose end the slot is beyond. The rank of the array if there is none: after the last
        tile, or in a dimension that only the tile has.
    parts : tuple of Part
        The parts of the index; the sum of value times stride is the offset.
    offset : int
        Elements from the start of the buffer.
    byte, bit : int
        Where the slot starts in the buffer, including a prefix of dynamic sizes. `bit` counts from the least
        significant bit; it is 0 unless elements are packed.
    bits : int
        Size of a slot, in bits.
    """

    shape: Shape
    index: tuple[int, ...] | None
    padding_of: int | None
    parts: tuple[Part, ...]
    offset: int
    byte: int
    bit: int
    bits: int

    @property
    def place(self) -> str:
        """The bytes or bits of the slot, in words."""
        if self.bits < 8:
            last = self.bit + self.bits - 1
            return f"byte {self.byte}, " + (f"bits {self.bit} to {last}" if last > self.bit else f"bit {self.bit}")
        count = self.bits // 8
        return f"byte {self.byte}" if count == 1 else f"bytes {self.byte} to {self.byte + count - 1}"

    @property
    def subject(self) -> str:
        """The content of the slot, in words."""
        if self.index is not None:
            return f"element [{', '.join(map(str, self.index))}]"
        if self.padding_of is None or self.padding_of >= self.shape.rank:
            return "padding, beyond every dimension"
        return f"padding of dimension {self.padding_of}, which ends at {self.shape.dimensions[self.padding_of]}"

    def __repr__(self) -> str:
        return f"<Explanation: {self.shape}, {self.subject}: offset {self.offset}, {self.place}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, width: SupportsIndex = 80) -> str:
        """The explanation as text, in at most `width` columns unless the shape or the table of parts is wider."""
        width = whole(width, "width")
        said = f"  {self.subject}: offset {self.offset}, {self.place}"
        lines = [f"{self.shape}", *wrapped(said, width)]
        if self.parts:
            rows = [("part", "value", "of", "x stride", "")]
            rows += [
                (p.expression, str(p.value), str(p.size), str(p.stride), str(p.value * p.stride)) for p in self.parts
            ]
            widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
            gap = "  " if 2 * len(widths) + sum(widths) <= width else " "
            for row in rows:
                cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
                lines.append("  " + gap.join(cells).rstrip())
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The explanation in types that JSON has.

        >>> found = explain("s4[4,4]{1,0:E(4)}", (1, 3)).to_dict()
        >>> found["index"], found["offset"], found["byte"], found["bit"]
        ([1, 3], 7, 3, 4)
        >>> found["parts"][0]
        {'expression': 'd0', 'value': 1, 'size': 4, 'stride': 4}
        """
        return {
            "shape": str(self.shape),
            "index": None if self.index is None else list(self.index),
            "padding_of": self.padding_of,
            "offset": self.offset,
            "byte": self.byte,
            "bit": self.bit,
            "bits": self.bits,
            "parts": list(map(asdict, self.parts)),
        }


def explain(shape: AnyShape | str, index: Sequence[SupportsIndex] | SupportsIndex) -> Explanation:
    """Explain where the element at an index lies.

    Parameters
    ----------
    shape : str or Shape
    index : int or sequence of int
        One integer for each dimension; negative ones are out of bounds.

    Raises
    ------
    IndexError
        The index is out of bounds, or does not have one integer for each dimension.
    NotationError, LayoutError, UnsupportedError
        The shape is not an array's, or has no addresses.

    >>> print(explain("bf16[17,300]{1,0:T(8,128)(2,1)}", (9, 200)))
    bf16[17,300]{1,0:T(8,128)(2,1)}
      element [9, 200]: offset 4241, bytes 8482 to 8483
      part         value   of  x stride
      d0 // 8          1    3      3072  3072
      d1 // 128        1    3      1024  1024
      d0 % 8 // 2      0    4       256     0
      d1 % 128        72  128         2   144
      d0 % 2           1    2         1     1
    """
    shape = array_shape(shape)
    try:
        numbers = [operator.index(i) for i in (index if isinstance(index, Sequence) else (index,))]
    except TypeError:
        raise IndexError(f"an element's index is one integer for each dimension, not {index!r}") from None
    offset = int(shape.offset_of(numbers))
    return _explanation(shape, offset)


def explain_byte(shape: AnyShape | str, byte: SupportsIndex, bit: SupportsIndex = 0) -> Explanation:
    """Explain what lies at a byte of the buffer, or at a bit of that byte.

    Parameters
    ----------
    shape : str or Shape
    byte : int
        Counted from the start of the buffer, including a prefix of dynamic sizes.
    bit : int, optional
        0 to 7, counted from the least significant bit.

    Raises
    ------
    IndexError
        The byte is outside the buffer, or in a prefix of dynamic sizes, or the bit is not 0 to 7.
    TypeError
        The byte or the bit is no integer.
    NotationError, LayoutError, UnsupportedError
        As for `explain`.

    >>> print(explain_byte("f32[3,5]{1,0:T(2,2)}", 36).subject)
    padding of dimension 1, which ends at 5
    """
    shape = array_shape(shape)
    _ = shape.address_map  # raises UnsupportedError for a split layout
    try:
        byte, bit = operator.index(byte), operator.index(bit)
    except TypeError:
        raise TypeError(f"byte and bit are integers, not {byte!r} and {bit!r}") from None
    if not 0 <= byte < shape.buffer_byte_size or not 0 <= bit < 8:
        place = f"byte {byte}, bit {bit}" if bit else f"byte {byte}"
        raise IndexError(f"{place} is outside a buffer of {shape.buffer_byte_size} bytes")
    if byte < (front := prefix_bytes(shape)):
        raise IndexError(f"byte {byte} is in the prefix of {front} bytes that holds the array's dynamic sizes")
    return _explanation(shape, ((byte - front) * 8 + bit) // shape.element_bits)


def _explanation(shape: Shape, offset: int) -> Explanation:
    expansion = shape.expansion
    coordinates, over = expansion.coordinates_at(np.array([offset]))
    padding_of = int(over[0]) if over[0] >= 0 else None
    index = None if padding_of is not None else tuple(int(c[0]) for c in coordinates)
    parts = []
    rest = offset
    for expr, size, stride in zip(expansion.exprs, expansion.bounds, expansion.strides, strict=True):
        value, rest = divmod(rest, stride)
        if index is not None:
            value = int(evaluate(expr, index))
        if size > 1:
            text = expression(expr)
            is_of_tile_alone = index is None and "d" not in text  # of no dimension: 0 for every element
            parts.append(Part("-" if is_of_tile_alone else text, value, size, stride))
    bits = shape.element_bits
    byte, bit = divmod(offset * bits, 8)
    return Explanation(shape, index, padding_of, tuple(parts), offset, prefix_bytes(shape) + byte, bit, bits)


def expression(expr: IndexExpr) -> str:
    """An index expression as Python code, where ``d0`` is the index in dimension 0.

    >>> expression(Remainder(Remainder(Coordinate(0), 8), 2))
    'd0 % 2'
    """
    match expr:
        case Coordinate(dimension):
            return f"d{dimension}"
        case Quotient(Quotient(of, inner), outer):
            return expression(Quotient(of, inner * outer))
        case Quotient(of, 1):
            return expression(of)
        case Remainder(Remainder(of, outer), inner) if outer % inner == 0:
            return expression(Remainder(of, inner))
        case Quotient(of, divisor):
            return f"{expression(of)} // {divisor}"
        case Remainder(of, divisor):
            return f"{expression(of)} % {divisor}"
        case Combined(major, minor, size):
            return f"({expression(major)} * {size} + {expression(minor)})"
        case Zero():
            return "0"
