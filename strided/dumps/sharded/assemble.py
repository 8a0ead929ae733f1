"""Combine per-device buffers into a global array, and split an array into per-device buffers.

A sharding cuts the global array into tiles of equal shape; each lies on one device, or is replicated on several, in a
buffer with its own layout. `assemble` combines the buffers into a `ShardedArray`; `shard` is the reverse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.arrays.padding import padding_scalar
from strided.dumps.sharded.sharded_array import ShardedArray, holders_of, with_layout
from strided.dumps.sharding.sharding import Index, Sharding, as_sharding
from strided.errors import UnsupportedError
from strided.layout import BufferShape, Layout, Shape, TupleShape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import parse
from strided.runtime.argument_checks import whole
from strided.wording import counted

__all__ = ["ShardedArray", "assemble", "shard"]

#: The most devices that `shard` makes buffers for; a text may name 2^60.
_MOST_DEVICES = 1 << 20


def assemble(
    shards: Sequence[Any] | Mapping[int, Any], sharding: Sharding | str, shape: Shape | str | Sequence[SupportsIndex]
) -> ShardedArray:
    """Combine the buffers of many devices into one global array.

    Parameters
    ----------
    shards : sequence, or mapping of device number to shard
        LayoutArrays, ndarrays, raw buffers or paths of raw dumps, which are mapped on demand. A device may be missing
        if others hold replicas or its part is not read.
    sharding : Sharding or str
    shape : Shape, str, or sequence of int
        The shape of the global array. Raw buffers also need an element type and the layout of the shards:
        ``"bf16[8,4096]{1,0:T(8,128)(2,1)}"``.

    Returns
    -------
    ShardedArray

    Raises
    ------
    UnsupportedError
        A sharding that does not determine where data lie (manual, unknown), has partial sums, or is a tuple.
    DumpError
        Shards of a wrong shape or dtype, or of devices that hold nothing; raised for files when they are opened.
    NotationError
        The text is not a valid sharding or shape.
    LayoutError
        The array's rank differs from the number of dimensions that the sharding cuts.
    TypeError
        A single path or buffer instead of a sequence or mapping of shards; an invalid `shape`.

    >>> left, right = np.array([[0, 1], [4, 5]]), np.array([[2, 3], [6, 7]])
    >>> assemble([left, right], "{devices=[1,2]<=[2]}", (2, 4))[1, ::-1]
    array([7, 6, 5, 4])
    """
    sharding = as_sharding(sharding)
    check_whole(sharding)
    xla = parse(shape) if isinstance(shape, str) else shape
    if isinstance(xla, Shape):
        dims, element = xla.dimensions, xla
    elif isinstance(xla, Sequence) and not isinstance(xla, (bytes, bytearray, memoryview)):
        dims, element = tuple(whole(size, "the size of a dimension") for size in xla), None
    elif isinstance(xla, (TupleShape, BufferShape, Layout)):
        raise UnsupportedError(f"{xla} is not the shape of one array")
    else:
        raise TypeError(f"shape must be text, a Shape or a sequence of sizes, not {type(xla).__name__}")
    if isinstance(shards, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise TypeError(f"expected a sequence or mapping of shards, not one {type(shards).__name__}: put it in a list")
    if not isinstance(shards, Iterable):
        raise TypeError(f"expected a sequence or mapping of shards, not {type(shards).__name__}")
    given = dict(shards) if isinstance(shards, Mapping) else dict(enumerate(shards))
    return ShardedArray(
        {whole(device, "the number of a device"): one for device, one in given.items()}, sharding, dims, element
    )


def shard(
    array: Any,
    sharding: Sharding | str,
    layout: str | Layout | None = None,
    *,
    num_devices: SupportsIndex | None = None,
    padding: Any = None,
    element_type: str | None = None,
) -> dict[int, LayoutArray]:
    """Split an array into per-device buffers, by device number; the reverse of `assemble`.

    Parameters
    ----------
    array : array_like or LayoutArray
    sharding : Sharding or str
    layout : str or Layout, optional
        The layout of every shard; by default row-major.
    num_devices : int, optional
        The number of devices, if the sharding does not say ({replicated}).
    padding : scalar, PaddingValue or str, optional
        Fills short shards and the layout's padding, as for `LayoutArray.from_numpy`; by default zero.
    element_type : str, optional
        XLA's name, for types that NumPy lacks, such as "s4".

    Returns
    -------
    dict of int to LayoutArray
        Devices that hold replicas share a buffer.

    Raises
    ------
    UnsupportedError
        As for `assemble`; also a dtype that XLA lacks, or more than a million devices.
    LayoutError, NotationError
        As for `assemble`; also too few devices, or a layout that is invalid or does not fit.
    TypeError
        The number of devices is unknown.

    >>> [one.to_numpy().tolist() for one in shard(np.arange(5), "{devices=[4]<=[4]}", padding=-1).values()]
    [[0, 1], [2, 3], [4, -1], [-1, -1]]
    """
    sharding = as_sharding(sharding)
    values = array if isinstance(array, LayoutArray) else np.asarray(array)
    tiles = tiles_of(sharding, values.shape, num_devices)
    shape = shape_of_shards(values, sharding, layout, element_type)
    found: dict[int, LayoutArray] = {}
    for owners, where in tiles:
        found.update(dict.fromkeys(owners, laid_out(values, where, shape, padding)))
    return dict(sorted(found.items()))


def tiles_of(
    sharding: Sharding, dims: tuple[int, ...], num_devices: SupportsIndex | None = None
) -> list[tuple[tuple[int, ...], Index]]:
    """The tiles of an array: the devices that hold each, and its slice. Errors as for `shard`."""
    check_whole(sharding)
    slices = sharding.slices(dims, num_devices)
    devices = [sharding.device] if sharding.device is not None else range(len(slices))
    if len(devices) > _MOST_DEVICES:
        raise UnsupportedError(f"{sharding}: too many buffers, one for each of {counted(len(devices), 'device')}")
    return [(owners, slices.of_tile(cell)) for cell, owners in holders_of(sharding, len(dims), devices).items()]


def shape_of_shards(
    values: Any, sharding: Sharding, layout: str | Layout | None = None, element_type: str | None = None
) -> Shape:
    """The shape of every device's buffer. Errors as for `shard`."""
    name = element_type_of_dtype(values.dtype).name if element_type is None else element_type
    return with_layout(name, sharding.shard_shape(values.shape), layout)


def laid_out(values: Any, where: Index, shape: Shape, padding: Any = None) -> LayoutArray:
    """A tile of an array as a device's buffer, padded to this shape."""
    part = values[where] if values.shape else values
    if part.shape == shape.dimensions:
        return LayoutArray.from_numpy(part, shape, padding)
    fill = padding_scalar("zero" if padding is None else padding, shape.dtype)
    if fill is None:  # undefined contents
        fill = np.zeros((), shape.dtype)
    laid = LayoutArray.from_numpy(np.broadcast_to(fill, shape.dimensions), shape, padding)
    if part.size:
        laid[tuple(slice(0, size) for size in part.shape)] = part
    return laid


def check_whole(sharding: Sharding) -> None:
    """UnsupportedError for a sharding that does not determine which part of an array each device holds."""
    if sharding.kind == "tuple":
        raise UnsupportedError("a tuple has a sharding for each leaf: take one of its elements")
    if sharding.kind in ("manual", "unknown") or "manual" in sharding.subgroups:
        raise UnsupportedError(f"{sharding} does not say which part of one array a device holds")
    if sharding.kind == "unreduced" or "unreduced" in sharding.subgroups:
        raise UnsupportedError(f"{sharding}: the devices hold partial sums; their sum is the array")
