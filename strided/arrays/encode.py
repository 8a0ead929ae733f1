"""Encoding: writes values in a layout, to a new or an existing buffer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

from strided.arrays import blocks, padding
from strided.arrays.base import Array, ArrayBase, LayoutBuffer
from strided.arrays.buffer_spec import BufferSpec, prefix_bytes, spec_of
from strided.arrays.buffers import extent, flat_bytes
from strided.errors import LayoutError
from strided.files.magic import HEAD_BYTES
from strided.files.mapping import mapping_behind
from strided.layout import Layout, Shape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import parse
from strided.transfer import copy as transfer

#: The least size of a cast that threads share.
_SHARED_CAST_BYTES = 1 << 20


def wrap(
    buffer: Any, spec: BufferSpec, offset: SupportsIndex = 0, bitorder: str = "little", allow_excess: bool = False
) -> LayoutBuffer:
    """The LayoutBuffer of any buffer; errors as for LayoutArray."""
    if bitorder not in ("little", "big"):
        raise ValueError(f'bitorder must be "little" or "big", not {bitorder!r}')
    memory = flat_bytes(buffer)
    if memory.size == spec.buffer_byte_size and type(offset) is int and not offset:
        start, stop = prefix_bytes(spec), memory.size
    else:
        start, stop = extent(memory.size, spec, offset, allow_excess, memory[:HEAD_BYTES].tobytes())
    own = memory if stop - start == memory.size else memory[start:stop]
    behind = mapping_behind(memory)
    return LayoutBuffer(own, spec, spec.dtype, spec.element_bits, bitorder, memory.size - stop, behind)


def spec_for(
    dimensions: tuple[int, ...], dtype: np.dtype[Any], layout: str | Layout | BufferSpec | None, name: str | None
) -> BufferSpec:
    """The spec of values to be encoded, with the element type of their dtype, or that called `name`.

    Raises
    ------
    LayoutError
        The layout is a shape or spec with other dimensions or another element type.
    UnsupportedError
        XLA has no element type for the dtype.
    """
    if layout is not None and not isinstance(layout, (str, Layout, Shape, BufferSpec)):
        raise TypeError(f"layout must be text, a Layout, a Shape or a BufferSpec, not {type(layout).__name__}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"element_type must be XLA's name, such as 's4', not {type(name).__name__}")
    return _spec_for(dimensions, dtype, layout, name)


@lru_cache(maxsize=512)
def _spec_for(
    dimensions: tuple[int, ...], dtype: np.dtype[Any], layout: str | Layout | BufferSpec | None, name: str | None
) -> BufferSpec:
    """`spec_for`, cached because it would take most of the time of a small conversion."""
    wanted = parse(layout) if isinstance(layout, str) else layout
    if wanted is None or isinstance(wanted, Layout):
        return _laid_out(name or element_type_of_dtype(dtype).name, dimensions, wanted)
    spec = spec_of(wanted)
    if spec.dimensions != dimensions:
        raise LayoutError(f"{spec} does not have the dimensions of the array, {list(dimensions)}")
    if name is not None and name != (
        spec.element_type if isinstance(spec, Shape) else element_type_of_dtype(spec.dtype).name
    ):
        raise LayoutError(f"{spec} is not of the element type {name}")
    return spec


@lru_cache(maxsize=512)
def _laid_out(name: str, dimensions: tuple[int, ...], layout: Layout | None) -> BufferSpec:
    """The spec of a layout, cached: the same object is fast to compare."""
    return spec_of(Shape(name, dimensions, layout))


def encode(
    values: Array | ArrayBase, spec: BufferSpec, fill: Any = None, out: Any = None, bitorder: str = "little"
) -> LayoutBuffer:
    """Write values to a new buffer, or to `out`, with `fill` in the padding.

    Raises
    ------
    ValueError
        `out` is read-only, is an array of another spec, or overlaps the values, also with padding that is filled.
    BufferSizeError
        `out` is too short.
    """
    memory = _target(spec, out, bitorder)
    target, scalar = memory.region, _scalar(spec, fill)
    if not target.buffer.flags.writeable:
        raise ValueError("out is read-only")
    if isinstance(values, ArrayBase) and values.dtype == memory.dtype:
        source = values.region
    else:
        source = transfer.region_of_ndarray(cast(values, memory.dtype))
    # Padding is filled before the values are read, so they must not lie in it.
    written = target if scalar is None else transfer.region_of_ndarray(memory.buffer)
    if out is not None and transfer.may_overlap(source, written):
        raise ValueError("out overlaps the values that are to be laid out: write to other memory, or copy them first")
    memory.begin_writing()
    if scalar is not None:
        padding.fill_padding(memory, scalar)
    elif fill is None and spec.padding_maps == () and spec.slots * memory.bits % 8:
        memory.buffer[-1] = 0  # the last bits belong to no slot
    transfer.copy(source, target)
    return memory


def _scalar(spec: BufferSpec, fill: Any) -> Any:
    """The value for the padding as a 0-d array; None if it is not filled."""
    if fill is not None:
        return padding.padding_scalar(fill, spec.dtype)
    return None if spec.padding_maps == () else padding.padding_scalar(spec.padding_value, spec.dtype)


def _target(spec: BufferSpec, out: Any, bitorder: str) -> LayoutBuffer:
    if isinstance(out, ArrayBase):
        memory = out._memory
        is_other = memory.spec is not spec and memory.spec != spec
        if is_other or out.is_view or memory.bitorder != bitorder:
            raise ValueError(f"out holds {memory.spec}, not {spec}")
        return memory
    if out is None:
        out = transfer.empty_aligned(spec.buffer_byte_size)
        out[: prefix_bytes(spec)] = 0
        out[-1:] = 0  # the last bits may belong to no slot
    return wrap(out, spec, 0, bitorder, True)


def shape_of(value: Any) -> tuple[int, ...]:
    """`np.shape` of a value, without calling ``__array_function__``: NumPy does not call it in assignments."""
    try:
        shape: tuple[int, ...] = value.shape
    except AttributeError:
        shape = np.asarray(value).shape
    return shape


def cast(value: Any, dtype: np.dtype[Any]) -> Array:
    """Values cast to a dtype as in assignment. Of a subclass of ndarray, the memory counts."""
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return np.asarray(value)
    if isinstance(value, ArrayBase):
        return cast(value.to_numpy(), dtype)
    if dtype.names is not None and not isinstance(value, np.ndarray):
        return np.array(value, dtype)  # tuples are structured elements
    # A class that is assigned may have an attribute `shape`, but NumPy treats it as a scalar.
    found = np.empty(() if isinstance(value, type) else shape_of(value), dtype)
    is_number = type(value) is np.ndarray and value.dtype.kind in "biufcV"
    if not is_number or not found.ndim or found.nbytes < _SHARED_CAST_BYTES:
        found[...] = value
        return found
    elements = max(1, blocks.BLOCK_BYTES // max(dtype.itemsize, value.itemsize))
    blocks.run_all(lambda box: found.__setitem__(box, value[box]), blocks.run_boxes(found.shape, elements))
    return found


def cast_as_array(value: Any, dtype: np.dtype[Any]) -> Array:
    """`cast` with NumPy scalars cast like arrays, as NumPy does in some assignments."""
    return cast(as_array(value), dtype)


def as_array(value: Any) -> Any:
    """A value; NumPy scalars as 0-d arrays, whose casts do not check that the value fits."""
    return np.asarray(value) if isinstance(value, np.generic) else value
