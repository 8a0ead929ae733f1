"""Buffers as flat bytes, and whether their size fits a layout."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.errors import BufferSizeError, UnsupportedError
from strided.files.magic import HEAD_BYTES, format_of
from strided.layout import Shape
from strided.layout.element_types import element_type

Bytes: TypeAlias = npt.NDArray[np.uint8]

_BYTE = np.dtype(np.uint8)
#: Sizes that allocators and file systems round buffers up to, in bytes.
GRANULES = (512, 1024, 4096)


def flat_bytes(buffer: Any) -> Bytes:
    """Any contiguous buffer as an array of bytes on the same memory, read-only where the buffer is.

    Raises
    ------
    TypeError
        No buffer.
    UnsupportedError
        An array whose elements do not lie one after another.

    >>> flat_bytes(np.array([1, 2], np.int16)).tolist()
    [1, 0, 2, 0]
    """
    if isinstance(buffer, np.ndarray):
        if buffer.dtype.hasobject:
            raise TypeError(f"a buffer of dtype {buffer.dtype} holds references, not data")
        if not buffer.flags.c_contiguous:
            raise UnsupportedError("the buffer's elements do not lie one after another; copy it first")
        flat = np.asarray(buffer).ravel()
        return flat if flat.dtype is _BYTE else flat.view(_BYTE)
    try:
        memory = memoryview(buffer)
    except (TypeError, BufferError):
        raise TypeError(f"{type(buffer).__name__} has no buffer; give bytes, an ndarray or the like") from None
    if not memory.c_contiguous:
        raise UnsupportedError("the buffer's elements do not lie one after another; copy it first")
    if memory.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(memory, np.uint8)


def stored_bits(shape: Shape) -> int:
    """Bits of one element in the buffer, checked to be a width that can be read.

    Raises
    ------
    UnsupportedError
        The layout's ``E(n)`` is neither the width of the type in memory nor a packing of it.
    """
    kind, bits = element_type(shape.element_type), shape.element_bits
    if bits != kind.storage_bits and not (bits == kind.bits and bits in (1, 2, 4)):
        packed = f" or packed, E({kind.bits})" if kind.bits in (1, 2, 4) else ""
        raise UnsupportedError(
            f"{shape} asks for {bits} bits an element; {kind.name} is read in {kind.storage_bits} bits{packed}"
        )
    return bits


def cut(memory: Bytes, shape: Shape, offset: int, allow_excess: bool) -> Bytes:
    """The bytes of `memory` that belong to an array of a shape.

    They start `offset` bytes in, behind the metadata prefix that ``M(n)`` announces.

    Raises
    ------
    BufferSizeError
        As `extent`.
    """
    head = b"" if memory.size == shape.buffer_byte_size else memory[:HEAD_BYTES].tobytes()
    start, stop = extent(memory.size, shape, offset, allow_excess, head)
    return memory if (start, stop) == (0, memory.size) else memory[start:stop]


def extent(size: int, shape: Shape, offset: int, allow_excess: bool, head: bytes) -> tuple[int, int]:
    """The bytes, from and to, that belong to an array of a shape in a buffer of `size` bytes that begins with `head`.

    Raises
    ------
    BufferSizeError
        Too few bytes. More than rounding up to a granule explains, or what begins as another format does and is longer
        than the array: unless `allow_excess` or an offset is given.
    """
    prefix = 0 if shape.layout is None else shape.layout.dynamic_shape_metadata_prefix_bytes
    needed, have = shape.buffer_byte_size, size - offset
    if not 0 <= offset <= size:
        raise BufferSizeError(f"offset {offset} is outside a buffer of {size} bytes", actual=size)
    if have != needed and not (offset or allow_excess) and (found := format_of(head, size)) is not None:
        raise BufferSizeError(
            f"{shape} takes {needed} bytes, but the buffer has {have} and begins as {found.name} does: {found.advice}"
            + (". allow_excess=True takes the bytes as they are" if have > needed else ""),
            actual=have,
            needed=needed,
        )
    if have < needed:
        raise BufferSizeError(_too_short(shape, have, needed, prefix), actual=have, needed=needed)
    if have > needed and not (offset or allow_excess or _is_explained(shape, have, needed, prefix)):
        raise BufferSizeError(
            f"{shape} takes {needed} bytes, but the buffer has {have}: {have - needed} too many for padding. "
            "Check the shape; give an offset if the array lies inside a larger buffer, or allow_excess=True",
            actual=have,
            needed=needed,
        )
    return offset + prefix, offset + needed


def _is_explained(shape: Shape, have: int, needed: int, prefix: int) -> bool:
    """Whether a buffer is longer than needed as allocators make it."""
    if any(have <= -(-needed // granule) * granule for granule in GRANULES):
        return True
    # The CPU runtime reports packed elements with one byte each, and allocates as much.
    return shape.element_bits < 8 and have == prefix + shape.expansion.address_elements


def _too_short(shape: Shape, have: int, needed: int, prefix: int) -> str:
    message = f"{shape} takes {needed} bytes, but the buffer has {have}"
    if prefix:
        message += f" (M({prefix}) puts {prefix} bytes of metadata in front of the data)"
    if needed - prefix > shape.byte_size:
        message += (
            f". XLA allocates {shape.byte_size} bytes for it, counting by the first tile alone, "
            "but a later tile pads again and its addresses reach further"
        )
    elif have == shape.unpadded_byte_size:
        message += ". That is the size without padding: the data are row-major, or of another layout without tiles"
    return message
