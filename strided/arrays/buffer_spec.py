"""The protocol of what an array must know about the buffer that it wraps. XLA's `Shape` implements it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.errors import UnsupportedError
from strided.layout import Shape
from strided.layout.element_types import element_type
from strided.layout.parser import array_shape

#: Widths of elements in bits that conversions support, packed ones aside.
_WIDTHS = (8, 16, 32, 64, 128)


@runtime_checkable
class BufferSpec(Protocol):
    """The elements of a buffer: how many there are, of which type, and where they lie.

    A spec is a value: hashable, picklable, and equal to specs with the same content. ``str(spec)`` is its name in
    messages and reprs.
    """

    def __hash__(self) -> int: ...

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the whole array, in elements."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the values."""

    @property
    def element_bits(self) -> int:
        """Bits of one element in the buffer: those of the dtype (1 to 16 bytes), or 1, 2 or 4 if its size is 1 byte."""

    @property
    def slots(self) -> int:
        """Number of slots of the buffer, padding included."""

    @property
    def buffer_byte_size(self) -> int:
        """Bytes of the buffer. Bytes that are not slots come before the slots."""

    @property
    def address_map(self) -> AddressMap:
        """The map from index to slot; every access must return the same object."""

    @property
    def padding_maps(self) -> tuple[AddressMap, ...] | None:
        """Maps onto the slots that hold no element, each slot once. None if unknown; fills then set all slots."""

    @property
    def padding_value(self) -> Any:
        """What the padding of new buffers contains: a number, or a `PaddingValue`."""


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
        The shape is not that of one array, or its elements have an unsupported width.
    TypeError
        `given` is neither text, nor a shape, nor a spec.
    """
    # Check for text and shapes first: the isinstance check of the protocol is slow, and would compute addresses.
    if isinstance(given, (str, Shape)) or not isinstance(given, BufferSpec):
        return _readable(array_shape(given))
    bits, dtype = given.element_bits, given.dtype
    if not (bits == 8 * dtype.itemsize and bits in _WIDTHS) and not (bits in (1, 2, 4) and dtype.itemsize == 1):
        raise UnsupportedError(f"{given} has {bits}-bit elements; {dtype} cannot be read at that width")
    return given


def _readable(shape: Shape) -> Shape:
    """The shape; UnsupportedError unless ``E(n)`` is the width of its type, unpacked or packed."""
    kind, bits = element_type(shape.element_type), shape.element_bits
    if bits != kind.storage_bits and not (bits == kind.bits and bits in (1, 2, 4)):
        packed = f" or packed, E({kind.bits})" if kind.bits in (1, 2, 4) else ""
        raise UnsupportedError(
            f"{shape} asks for {bits}-bit elements; {kind.name} is read in {kind.storage_bits} bits{packed}"
        )
    return shape
