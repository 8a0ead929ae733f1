"""Values into a layout: the memory of a new array, or of one that is there already."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from strided.arrays import padding
from strided.arrays.base import Array, ArrayBase, LayoutBuffer
from strided.arrays.buffers import cut, flat_bytes, stored_bits
from strided.errors import LayoutError
from strided.files.mapping import mapping_behind
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import array_shape, parse
from strided.transfer import copy as transfer


def wrap(
    buffer: Any, shape: str | AnyShape, offset: int = 0, bitorder: str = "little", allow_excess: bool = False
) -> LayoutBuffer:
    """A buffer as the memory of an array of a shape; errors as for LayoutArray."""
    return _wrapped(buffer, _readable(shape), offset, bitorder, allow_excess)


def _readable(shape: str | AnyShape) -> Shape:
    """The shape of one array, checked to be one that can be read."""
    parsed = array_shape(shape)
    stored_bits(parsed)
    return parsed


def _wrapped(buffer: Any, shape: Shape, offset: int, bitorder: str, allow_excess: bool) -> LayoutBuffer:
    if bitorder not in ("little", "big"):
        raise ValueError(f'bitorder must be "little" or "big", not {bitorder!r}')
    memory = flat_bytes(buffer)
    own = cut(memory, shape, offset, allow_excess)
    excess = memory.size - offset - own.size
    return LayoutBuffer(own, shape, shape.dtype, shape.element_bits, bitorder, excess, mapping_behind(memory))


def shape_for(
    dimensions: tuple[int, ...], dtype: np.dtype[Any], layout: str | Layout | Shape | None, name: str | None
) -> Shape:
    """The shape of values to be laid out: that of their dtype, or of the element type called `name`.

    Raises
    ------
    LayoutError
        The layout is a shape of other dimensions or of another element type.
    UnsupportedError
        XLA has no element type for the dtype.
    """
    if layout is not None and not isinstance(layout, (str, Layout, Shape)):
        raise TypeError(f"layout must be text, a Layout or a Shape, not {type(layout).__name__}")
    return _shape_for(dimensions, dtype, layout, name)


@lru_cache(maxsize=512)
def _shape_for(
    dimensions: tuple[int, ...], dtype: np.dtype[Any], layout: str | Layout | Shape | None, name: str | None
) -> Shape:
    """The same, kept: conversions of small arrays would spend most of their time on making it again."""
    wanted = parse(layout) if isinstance(layout, str) else layout
    if wanted is None or isinstance(wanted, Layout):
        return _readable(Shape(name or element_type_of_dtype(dtype).name, dimensions, wanted))
    shape = _readable(wanted)
    if shape.dimensions != dimensions:
        raise LayoutError(f"{shape} has not the dimensions of the array, {list(dimensions)}")
    if name is not None and name != shape.element_type:
        raise LayoutError(f"{shape} is not of the element type {name}")
    return shape


def encode(
    values: Array | ArrayBase, shape: Shape, fill: Any = None, out: Any = None, bitorder: str = "little"
) -> LayoutBuffer:
    """Values in a new buffer of a shape, or in `out`; what `fill` says in the padding.

    Raises
    ------
    ValueError
        `out` is read-only, holds another shape, or overlaps the values.
    BufferSizeError
        `out` is too short.
    """
    memory = _target(shape, out, bitorder)
    if not memory.buffer.flags.writeable:
        raise ValueError("out is read-only")
    scalar = _scalar(shape, fill)
    target = transfer.Region(memory.buffer, shape.address_map, memory.bits, bitorder == "little")
    if isinstance(values, ArrayBase) and values.dtype == memory.dtype:
        source = values.region
    else:
        source = transfer.region_of_ndarray(cast(values, memory.dtype))
    if transfer.may_overlap(source, target):
        raise ValueError("out overlaps the values that are to be laid out")
    if scalar is not None:
        padding.fill_padding(memory.buffer, shape, memory.bits, bitorder, scalar)
    transfer.copy(source, target)
    return memory


def _scalar(shape: Shape, fill: Any) -> Any:
    """What goes into the padding, as a 0-d array; None where nothing does."""
    layout = shape.layout
    assert layout is not None
    if fill is not None:
        return padding.padding_scalar(fill, shape.dtype)
    return None if shape.expansion.padding_maps == () else padding.padding_scalar(layout.padding_value, shape.dtype)


def _target(shape: Shape, out: Any, bitorder: str) -> LayoutBuffer:
    if isinstance(out, ArrayBase):
        if out.is_view or out.xla_shape != shape or out.bitorder != bitorder:
            raise ValueError(f"out holds {out.xla_shape}, not {shape}")
        return out._memory
    if out is not None:
        return _wrapped(out, shape, 0, bitorder, True)
    assert shape.layout is not None
    buffer = transfer.empty_aligned(shape.buffer_byte_size)
    buffer[: shape.layout.dynamic_shape_metadata_prefix_bytes] = 0
    buffer[-1:] = 0  # its last bits may belong to no slot at all
    return _wrapped(buffer, shape, 0, bitorder, True)


def cast(value: Any, dtype: np.dtype[Any]) -> Array:
    """Values cast as NumPy casts what is assigned to an array of a type."""
    if isinstance(value, ArrayBase):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value
    found = np.empty(np.shape(value), dtype)
    found[...] = value
    return found
