"""An array whose elements lie in the buffers of many devices.

A read touches only the tiles that it needs, and copies each from its shard's layout straight into its place in the
result, with all threads. The padding of short shards is never read.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.keys import Selection, Span, index_arrays, normalise
from strided.arrays.layout_array import LayoutArray, map_array
from strided.dumps.sharded.replicas import ReplicaReport, compare_tiles
from strided.dumps.sharding.sharding import DeviceSlices, Index, Sharding
from strided.errors import DumpError, LayoutError, UnsupportedError
from strided.layout import Layout, Shape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import layout_of

Array = npt.NDArray[Any]

#: A tile: its coordinates in the grid.
Cell = tuple[int, ...]


class ShardedArray:
    """A global array whose elements lie in per-device buffers. Made by `strided.assemble`.

    ``a[key]`` is an ndarray or a scalar, for every key that NumPy takes. ``np.asarray(a)`` and `to_numpy` read
    everything, `to_layout` into another layout.

    Attributes
    ----------
    sharding : Sharding
    shape, shard_shape : tuple of int
        Of the global array, and of every buffer.
    dtype : dtype
    missing : tuple of tuple of slice
        The tiles that no given device holds; reading them raises DumpError.
    """

    def __init__(
        self, shards: Mapping[int, Any], sharding: Sharding, shape: tuple[int, ...], xla: Shape | None
    ) -> None:
        self.sharding, self.shape = sharding, shape
        self._slices: DeviceSlices = sharding.slices(shape)
        self.shard_shape = sharding.shard_shape(shape)
        self._counts = sharding.tile_counts or (1,) * len(shape)
        self._xla = None if xla is None else _shard_of(xla, self.shard_shape)
        self._given = dict(shards)
        self._opened: dict[int, LayoutArray | Array] = {}
        self._holders = holders_of(sharding, self._counts, self._given)
        self.dtype: np.dtype[Any] = self._dtype()
        self.missing: tuple[Index, ...] = tuple(index for cell, index in self._tiles() if cell not in self._holders)

    def _dtype(self) -> np.dtype[Any]:
        if self._xla is not None:
            return self._xla.dtype
        if not self._given:
            raise DumpError("no shards were given")
        return self.shard(next(iter(self._given))).dtype

    def _tiles(self) -> Iterator[tuple[Cell, Index]]:
        """The tiles that hold elements: coordinates, and slice of the array."""
        for cell in itertools.product(*map(range, self._counts)):
            index = self._slices.of_tile(cell)
            if all(s.start < s.stop for s in index):
                yield cell, index

    # ---- the shards -------------------------------------------------------------------------------------------------

    def shard(self, device: int) -> LayoutArray | Array:
        """The whole buffer of one device as an array, with the padding of a short shard.

        Raises
        ------
        KeyError
            No buffer was given for the device.
        DumpError
            The buffer has another shape or dtype than a shard.
        """
        if device not in self._opened:
            if device not in self._given:
                raise KeyError(f"no shard was given for device {device}")
            self._opened[device] = self._checked(device, self._open(self._given[device]))
        return self._opened[device]

    def _open(self, given: Any) -> LayoutArray | Array:
        if isinstance(given, (LayoutArray, np.ndarray)) and not _is_raw(given, self._xla):
            return given
        if self._xla is None:
            raise DumpError(
                "raw buffers and files need a shape with an element type, such as bf16[8,128]{1,0:T(8,128)}"
            )
        if isinstance(given, (str, os.PathLike)):
            return map_array(given, self._xla)
        return LayoutArray(given, self._xla)

    def _checked(self, device: int, found: LayoutArray | Array) -> LayoutArray | Array:
        index = self._slices[device]
        short = () if index is None else tuple(s.stop - s.start for s in index)
        if found.shape not in (self.shard_shape, short):
            raise DumpError(f"the shard of device {device} has the shape {found.shape}, not {self.shard_shape}")
        if self._xla is not None and found.dtype != self._xla.dtype:
            raise DumpError(f"the shard of device {device} holds {found.dtype}, not {self._xla.dtype}")
        return found

    def _tile(self, cell: Cell) -> LayoutArray | Array:
        """The tile's buffer, from the first device that holds it."""
        if cell not in self._holders:
            raise DumpError(f"no shard holds {_shown(self._slices.of_tile(cell))} of the array")
        return self.shard(self._holders[cell][0])

    def compare_replicas(self) -> ReplicaReport:
        """Whether the copies of each tile agree bit for bit, padding aside.

        >>> copies = {0: np.arange(3), 1: np.array([0, 7, 2])}
        >>> a = ShardedArray(copies, Sharding.parse("{replicated}"), (3,), None)
        >>> print(a.compare_replicas())
        1 of 1 tiles differ between their copies
          device 1 differs from device 0 in 1 element of [0:3], first at [1]: 7 instead of 1
        """
        tiles = []
        for cell, devices in sorted(self._holders.items()):
            index = self._slices.of_tile(cell)
            own = tuple(slice(0, s.stop - s.start) for s in index)
            if len(devices) > 1 and all(s.stop for s in own):
                tiles.append((index, {device: self.shard(device)[own] for device in devices}))
        return compare_tiles(tiles)

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def to_numpy(self, out: Array | None = None) -> Array:
        """All values, in `out` if it is given.

        Raises
        ------
        ValueError
            `out` has another shape or dtype.
        DumpError
            No device holds some tile.
        """
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif not isinstance(out, np.ndarray) or out.shape != self.shape or out.dtype != self.dtype:
            raise ValueError(f"out must be an ndarray {self.dtype}{list(self.shape)}")
        self._fill(out)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("shards cannot become an ndarray without a copy")
        values = self.to_numpy()
        cast = values if dtype is None else values.astype(dtype, copy=False)
        # Read-only, because writes would reach no shard.
        if cast is values and not copy:
            cast.flags.writeable = False
        return cast

    def to_layout(self, layout: str | Layout | None = None) -> LayoutArray:
        """All values in one layout, with zeros as padding.

        >>> halves = {0: np.array([[1], [2]], np.uint8), 1: np.array([[3], [4]], np.uint8)}
        >>> a = ShardedArray(halves, Sharding.parse("{devices=[1,2]<=[2]}"), (2, 2), None)
        >>> a.to_layout("{0,1}").buffer.tolist()
        [1, 2, 3, 4]
        """
        name = self._xla.element_type if self._xla is not None else element_type_of_dtype(self.dtype).name
        shape = with_layout(name, self.shape, layout)
        out = LayoutArray(np.zeros(shape.buffer_byte_size, np.uint8), shape)
        self._fill(out)
        return out

    def _fill(self, out: Array | LayoutArray) -> None:
        for cell, index in self._tiles():
            _copy(self._tile(cell), tuple(slice(0, s.stop - s.start) for s in index), out, index)

    def __getitem__(self, key: Any) -> Any:
        selection = normalise(key, self.shape)
        if selection.is_element:
            index = [int(i) for i in selection.items]  # type: ignore[arg-type]
            cell = tuple(i // step for i, step in zip(index, self.shard_shape, strict=True))
            return self._tile(cell)[tuple(i % step for i, step in zip(index, self.shard_shape, strict=True))]
        return self._basic(selection) if selection.is_basic else self._gathered(selection)

    def _basic(self, selection: Selection) -> Any:
        """What spans and integers select: for each tile that has part of it, one copy."""
        axes = [item for item in selection.items if item is not None]
        spans = [item if isinstance(item, Span) else Span(int(item), 1, 1) for item in axes]  # type: ignore[arg-type]
        out = np.empty([span.size for span in spans], self.dtype)
        parts = [list(_parts(*three)) for three in zip(spans, self.shard_shape, self.shape, strict=True)]
        for chosen in itertools.product(*parts):
            cell, local, place = tuple(zip(*chosen, strict=True)) or ((), (), ())
            _copy(self._tile(cell), local, out, place)
        shown = out[(*(slice(None) if isinstance(item, Span) else 0 for item in axes), ...)]
        kept = [item for item in selection.items if item is None or isinstance(item, Span)]
        return shown[tuple(None if item is None else slice(None) for item in kept)] if kept else shown

    def _gathered(self, selection: Selection) -> Array:
        """What index arrays select, tile by tile."""
        shape, arrays = index_arrays(selection)
        indices = [np.broadcast_to(np.asarray(a, np.intp), shape).reshape(-1) for a in arrays]
        steps = [max(step, 1) for step in self.shard_shape]
        cells = [index // step for index, step in zip(indices, steps, strict=True)]
        number = np.ravel_multi_index(cells, self._counts) if cells else np.zeros(math.prod(shape), np.intp)
        out = np.empty(math.prod(shape), self.dtype)
        for one in np.unique(number):
            here = np.flatnonzero(number == one)
            cell = tuple(int(k) for k in np.unravel_index(one, self._counts)) if cells else ()
            local = tuple(index[here] - k * step for index, k, step in zip(indices, cell, steps, strict=True))
            out[here] = np.asarray(self._tile(cell)[local])
        return out.reshape(shape)

    def __repr__(self) -> str:
        missing = f", {len(self.missing)} tiles missing" if self.missing else ""
        return f"<ShardedArray {self.dtype}{list(self.shape)} as {self.sharding}, {len(self._given)} shards{missing}>"


def holders_of(sharding: Sharding, counts: tuple[int, ...], given: Mapping[int, Any]) -> dict[Cell, tuple[int, ...]]:
    """The devices, out of those given, that hold each tile."""
    if sharding.grid is None:
        holding = [device for device in given if sharding.device in (None, device)]
        if not holding and given:
            raise DumpError(f"{sharding}: none of the devices {sorted(given)} holds anything")
        return {(0,) * len(counts): tuple(holding)} if holding else {}
    found: dict[Cell, list[int]] = {}
    for device in sorted(given):
        cell = sharding.grid.cell_of(device)
        if cell is None:
            raise DumpError(f"{sharding} has no device {device}")
        found.setdefault(cell[: len(counts)], []).append(device)
    return {cell: tuple(devices) for cell, devices in found.items()}


def with_layout(name: str, dims: tuple[int, ...], layout: str | Layout | None) -> Shape:
    return Shape(name, dims, None if layout is None else layout_of(layout))


def _shard_of(xla: Shape, dims: tuple[int, ...]) -> Shape:
    if xla.layout is None:
        raise UnsupportedError(f"{xla} holds no values")
    try:
        return replace(xla, dimensions=dims)
    except LayoutError as error:
        raise LayoutError(f"the shards of {xla} have no such layout: {error}") from error


def _is_raw(given: LayoutArray | Array, xla: Shape | None) -> bool:
    """Whether an ndarray is a raw buffer rather than the values themselves."""
    if isinstance(given, LayoutArray) or xla is None:
        return False
    return given.dtype == np.uint8 and given.ndim == 1 and (xla.dtype != np.uint8 or xla.rank != 1 or bool(xla.layout))


def _parts(span: Span, step: int, size: int) -> Iterator[tuple[int, slice, slice]]:
    """The tiles of one axis that a span touches: number, slice of the tile, and where that goes in the result."""
    start, stride, count = span
    done = 0
    while done < count and step:
        tile = (start + done * stride) // step
        low, high = tile * step, min((tile + 1) * step, size)
        first = start + done * stride
        room = (high - 1 - first) // stride if stride > 0 else (first - low) // -stride
        taken = min(count - done, room + 1)
        last = first + (taken - 1) * stride - low
        stop = last + (1 if stride > 0 else -1)
        yield tile, slice(first - low, None if stop < 0 else stop, stride), slice(done, done + taken)
        done += taken


def _copy(tile: LayoutArray | Array, local: Any, out: Array | LayoutArray, place: Any) -> None:
    """Copy one box of a tile into its place."""
    source = tile[local] if local else tile
    if isinstance(source, LayoutArray) and isinstance(out, np.ndarray):
        source.to_numpy(out=out[(*place, ...)])  # the dots keep a 0-d array an array
    else:
        out[(*place, ...)] = source


def _shown(index: Index) -> str:
    return f"[{', '.join(f'{s.start}:{s.stop}' for s in index)}]"
