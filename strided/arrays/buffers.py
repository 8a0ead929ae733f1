"""Buffers as flat bytes, and checks of their size."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from strided.arrays.buffer_spec import BufferSpec, prefix_bytes
from strided.errors import BufferSizeError, UnsupportedError
from strided.escape import visible
from strided.files.magic import format_of
from strided.layout import Shape
from strided.layout.element_types import element_type
from strided.runtime.aliases import Bytes
from strided.runtime.argument_checks import holds_references, whole

_BYTE = np.dtype(np.uint8)
#: Units to which allocators and file systems round up sizes, in bytes.
GRANULES = (512, 1024, 4096)


def flat_bytes(buffer: Any) -> Bytes:
    """Any contiguous buffer as an array of bytes on the same memory, read-only if the buffer is.

    Raises
    ------
    TypeError
        The object is not a buffer.
    UnsupportedError
        The buffer is not contiguous.

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
        advice = "give bytes, an ndarray or the like"
        if isinstance(buffer, (str, os.PathLike)):
            advice = "strided.open opens a file; a buffer comes first, then its shape"
        elif isinstance(getattr(buffer, "buffer", None), np.ndarray):  # a LayoutArray
            advice = "its attribute `buffer` is one"
        raise TypeError(f"{type(buffer).__name__} is no buffer; {advice}") from None
    if holds_references(memory):
        raise TypeError(f"a buffer of format {memory.format!r} holds references, not data")
    if not memory.c_contiguous:
        raise UnsupportedError("the buffer's elements do not lie one after another; copy it first")
    if memory.nbytes == 0:  # which `frombuffer` refuses
        empty = np.empty(0, np.uint8)
        empty.flags.writeable = not memory.readonly
        return empty
    return np.frombuffer(memory, np.uint8)


def extent(
    size: int, spec: BufferSpec, offset: SupportsIndex, allow_excess: bool, head: bytes, name: str = ""
) -> tuple[int, int]:
    """Start and stop of an array's bytes in a buffer of `size` bytes that begins with `head`.

    `name` is the name of its file, if any.

    Raises
    ------
    BufferSizeError
        There are too few bytes; or, unless `allow_excess` or an offset is given, more than rounding up to a granule
        explains; or the size differs from the array's and the buffer begins as another format does.
    UnsupportedError
        A split layout.
    """
    offset = whole(offset, "offset")
    spec.address_map  # noqa: B018  # raises for a split layout
    where = f"{visible(name)}: " if name else ""
    prefix, needed, have = prefix_bytes(spec), spec.buffer_byte_size, size - offset
    if not 0 <= offset <= size:
        raise BufferSizeError(f"{where}offset {offset} is outside a buffer of {size} bytes", actual=size)
    message = f"{where}{spec} takes {needed} bytes, but the buffer has {have}"
    if have != needed and not (offset or allow_excess) and (found := format_of(head, size)) is not None:
        message += f" and begins as {found.name} does: {found.advice}"
        message += ". allow_excess=True takes the bytes as they are" if have > needed else ""
        raise BufferSizeError(message, actual=have, needed=needed, found_format=found.name)
    if have < needed:
        message += f" (M({prefix}) puts {prefix} bytes of metadata in front of the data)" if prefix else ""
        raise _too_short(message, spec, have, needed, prefix)
    if have > needed and not (offset or allow_excess or _is_explained(spec, have, needed, prefix)):
        message += (
            f": {have - needed} too many for padding. "
            "Check the shape; give offset= if the array lies inside a larger buffer, or allow_excess=True"
        )
        raise BufferSizeError(message, actual=have, needed=needed)
    return offset + prefix, offset + needed


def _is_explained(spec: BufferSpec, have: int, needed: int, prefix: int) -> bool:
    """Whether the excess bytes are explained by an allocator's rounding."""
    if any(have <= -(-needed // granule) * granule for granule in GRANULES):
        return True
    # The CPU runtime allocates one byte for each packed element.
    return spec.element_bits < 8 and have == prefix + spec.slots


def _too_short(message: str, spec: BufferSpec, have: int, needed: int, prefix: int) -> BufferSizeError:
    """The error for a buffer that is too short: `message`, and a possible explanation of the size."""
    packed = None
    if isinstance(spec, Shape) and needed - prefix > spec.byte_size:
        message += (
            f". XLA allocates {spec.byte_size} bytes for it, counting by the first tile alone, "
            "but a later tile pads again and its addresses reach further"
        )
    elif prefix and have == needed - prefix:
        message += f". They are all that is missing: leave M({prefix}) out"
    elif have == -(-math.prod(spec.dimensions) * spec.element_bits // 8):
        message += ". That is the size without padding: the data are row-major, or of another layout without tiles"
    elif (packed := _packed_bits(spec, have - prefix)) is not None:
        message += f". That is the size of packed elements: write E({packed}) into the layout"
    return BufferSizeError(message, actual=have, needed=needed, packed_bits=packed)


def _packed_bits(spec: BufferSpec, have: int) -> int | None:
    """The bits of packed elements with which the shape would have `have` bytes; None if there are none."""
    if not isinstance(spec, Shape) or spec.layout is None:
        return None
    kind = element_type(spec.element_type)
    if kind.bits not in (1, 2, 4) or kind.bits >= spec.element_bits:
        return None
    packed = spec.with_layout(replace(spec.layout, element_size_in_bits=kind.bits))
    return kind.bits if have == packed.buffer_byte_size - prefix_bytes(packed) else None
