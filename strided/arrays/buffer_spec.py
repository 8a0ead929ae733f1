"""What an array must know about the buffer that it wraps: a small protocol, which XLA's `Shape` implements."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.errors import UnsupportedError
from strided.layout import Shape
from strided.layout.element_types import element_type
from strided.layout.parser import array_shape

#: Bits of elements in whole bytes that conversions move.
_WIDTHS = (8, 16, 32, 64, 128)


@runtime_checkable
class BufferSpec(Protocol):
    """The elements of a buffer: how many, of which type, and where each of them lies.

    A spec is a value: hashable, picklable, and equal to specs that say the same. ``str(spec)`` is its name in messages
    and reprs.
    """

    def __hash__(self) -> int: ...

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the whole array, in elements."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values in NumPy."""

    @property
    def element_bits(self) -> int:
        """Bits of one element in the buffer: those of a dtype of 1 to 16 bytes, or 1, 2 or 4 for one of one byte."""

    @property
    def slots(self) -> int:
        """Elements that the buffer has room for, padding included."""

    @property
    def buffer_byte_size(self) -> int:
        """Bytes of the buffer. Those that the slots do not take come before them."""

    @property
    def address_map(self) -> AddressMap:
        """Maps an index to a slot; every access must return the same object."""

    @property
    def padding_maps(self) -> tuple[AddressMap, ...] | None:
        """Maps onto the slots that hold no element, each slot once. None if unknown: all slots are then filled."""

    @property
    def padding_value(self) -> Any:
        """What new buffers hold in their padding: a number, or a `PaddingValue`."""


def prefix_bytes(spec: BufferSpec) -> int:
    """Bytes of a buffer before its slots."""
    return spec.buffer_byte_size - -(-spec.slots * spec.element_bits // 8)


def spec_of(given: Any) -> BufferSpec:
    """The spec for text, a shape or a spec.

    Raises
    ------
    NotationError
        The text is not a shape.
    UnsupportedError
        The shape is not that of one array, or its elements have a width that cannot be read.
    TypeError
        Neither text, nor a shape, nor a spec.
    """
    # Text and shapes are recognised first: testing for the protocol takes long, and would compute addresses.
    if isinstance(given, (str, Shape)) or not isinstance(given, BufferSpec):
        return _readable(array_shape(given))
    bits, dtype = given.element_bits, given.dtype
    if not (bits == 8 * dtype.itemsize and bits in _WIDTHS) and not (bits in (1, 2, 4) and dtype.itemsize == 1):
        raise UnsupportedError(f"{given} has {bits}-bit elements; {dtype} cannot be read at that width")
    return given


def _readable(shape: Shape) -> Shape:
    """The shape, if ``E(n)`` is the width of its type in memory or a packing of it; UnsupportedError if not."""
    kind, bits = element_type(shape.element_type), shape.element_bits
    if bits != kind.storage_bits and not (bits == kind.bits and bits in (1, 2, 4)):
        packed = f" or packed, E({kind.bits})" if kind.bits in (1, 2, 4) else ""
        raise UnsupportedError(
            f"{shape} asks for {bits}-bit elements; {kind.name} is read in {kind.storage_bits} bits{packed}"
        )
    return shape
