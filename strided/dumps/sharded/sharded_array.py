"""A global array in the buffers of many devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from strided.arrays import overlap
from strided.arrays.base import Array
from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray, map_array
from strided.dumps.sharded.replicas import ReplicaReport, compare_tiles, window_text
from strided.dumps.sharding.sharding import DeviceSlices, Index, Sharding
from strided.errors import DumpError, LayoutError, UnsupportedError, naming_in_size_errors
from strided.layout import Layout, Shape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import layout_of
from strided.runtime.argument_checks import whole
from strided.runtime.cache import BoundedCache
from strided.transfer.chunks import Cell, cells_of
from strided.wording import counted

#: The most shards that stay open: each mapped file takes a descriptor, of which some systems allow only 256.
MOST_OPEN = 128

#: The most tiles that a notebook lists.
_SHOWN = 32


class ShardedArray(GridArray):
    """A global array in per-device buffers, as returned by `strided.assemble`.

    ``a[key]`` is an ndarray or a scalar, for any NumPy index. ``np.asarray(a)`` and `to_numpy` read everything, and
    `to_layout` does so in another layout.

    Attributes
    ----------
    sharding : Sharding
    shape, shard_shape : tuple of int
        The shapes of the global array and of every buffer.
    dtype : dtype
    missing : tuple of tuple of slice
        The tiles that none of the given devices holds; reading them raises DumpError.
    """

    sharding: Sharding
    shape: tuple[int, ...]
    shard_shape: tuple[int, ...]

    def __init__(
        self,
        shards: Mapping[int, Any],
        sharding: Sharding,
        shape: tuple[int, ...],
        xla: Shape | None,
        open_file: Callable[[Any, Shape], LayoutArray | Array] = map_array,
    ) -> None:
        self.sharding, self.shape = sharding, shape
        self._slices: DeviceSlices = sharding.slices(shape)
        self.shard_shape = sharding.shard_shape(shape)
        self._counts = sharding.tile_counts or (1,) * len(shape)
        self._xla = None if xla is None else shard_of(xla, self.shard_shape)
        self._given = dict(shards)
        self._open_file = open_file
        self._opened = BoundedCache[int, "LayoutArray | Array"](MOST_OPEN)
        self._holders = holders_of(sharding, len(shape), self._given)
        self.dtype: np.dtype[Any] = self._dtype()
        if xla is None:  # all are arrays, which are checked at once
            for device in self._given:
                self.shard(device)
        self.missing: tuple[Index, ...] = tuple(index for cell, index in self._tiles() if cell not in self._holders)

    def _dtype(self) -> np.dtype[Any]:
        if self._xla is not None:
            return self._xla.dtype
        if not self._given:
            raise DumpError("no shards were given")
        return self._open(next(iter(self._given.values()))).dtype

    def _tiles(self) -> Iterator[tuple[Cell, Index]]:
        """The coordinates of each tile with elements, and its slice of the array."""
        for cell in cells_of(self.shape, self.shard_shape):
            yield cell, self._slices.of_tile(cell)

    # ---- the shards -------------------------------------------------------------------------------------------------

    def shard(self, device: SupportsIndex) -> LayoutArray | Array:
        """A device's whole buffer as an array, including the padding of a short shard.

        Raises
        ------
        KeyError
            The device has no buffer.
        BufferSizeError
            Raw bytes do not have the size of a shard.
        DumpError
            The buffer has another shape or dtype than a shard.
        """
        device = whole(device, "the number of a device")
        if (known := self._opened.get(device)) is not None:
            return known
        if device not in self._given:
            raise KeyError(f"no shard was given for device {device}")
        with naming_in_size_errors(f"the shard of device {device}"):
            opened = self._open(self._given[device])
        return self._opened.keep(device, self._checked(device, opened))

    def _open(self, given: Any) -> LayoutArray | Array:
        if isinstance(given, (LayoutArray, np.ndarray)) and not _is_raw(given, self._xla):
            return given
        if isinstance(given, np.generic):
            return np.asarray(given)
        if self._xla is None:
            raise DumpError(
                "raw buffers and files need a shape with an element type, such as bf16[8,128]{1,0:T(8,128)}"
            )
        if isinstance(given, (str, os.PathLike)):
            return self._open_file(given, self._xla)
        return LayoutArray(given, self._xla)

    def _checked(self, device: int, found: LayoutArray | Array) -> LayoutArray | Array:
        index = self._slices[device]
        short = () if index is None else tuple(s.stop - s.start for s in index)
        if found.shape not in (self.shard_shape, short):
            raise DumpError(f"the shard of device {device} has the shape {found.shape}, not {self.shard_shape}")
        if found.dtype != self.dtype:
            raise DumpError(f"the shard of device {device} holds {found.dtype}, not {self.dtype}")
        return found

    def _tile(self, cell: Cell) -> LayoutArray | Array:
        """A tile's buffer, from the first device that holds it."""
        if cell not in self._holders:
            box = window_text(self._slices.of_tile(cell))
            grid = self.sharding.grid
            device = self.sharding.device or 0 if grid is None else grid.device_in(cell)
            raise DumpError(f"no shard holds {box} of the array; that of device {device} would")
        return self.shard(self._holders[cell][0])

    def _may_share(self, out: Array) -> bool:
        in_memory = (cell for cell, _ in self._tiles() if not self._is_to_be_opened(cell))
        return any(overlap.may_share(self._tile(cell), out) for cell in in_memory)

    def _is_to_be_opened(self, cell: Cell) -> bool:
        """Whether a tile is in a file that is not open yet, whose memory cannot be shared with an output."""
        if cell not in self._holders:
            return False  # so that a missing tile is refused before anything is written
        device = self._holders[cell][0]
        return isinstance(self._given[device], (str, os.PathLike)) and self._opened.get(device) is None

    def compare_replicas(self) -> ReplicaReport:
        """Compare the replicas of each tile bit by bit, except padding.

        >>> copies = {0: np.arange(3), 1: np.array([0, 7, 2])}
        >>> a = ShardedArray(copies, Sharding.parse("{replicated}"), (3,), None)
        >>> print(a.compare_replicas())
        1 of 1 tiles differ between their copies
          device 1 differs from device 0 in 1 element of [0:3], first at [1]: 7 instead of 1
        """
        tiles = []
        for cell, devices in sorted(self._holders.items()):
            index = self._slices.of_tile(cell)
            if len(devices) > 1 and all(s.start < s.stop for s in index):
                tiles.append((index, devices))
        return compare_tiles(tiles, lambda device, size: self.shard(device)[tuple(map(slice, size))])

    def to_layout(self, layout: str | Layout | None = None) -> LayoutArray:
        """All values as one array in a layout, with zeros as padding.

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

    def __repr__(self) -> str:
        missing = f", {counted(len(self.missing), 'tile')} missing" if self.missing else ""
        shards = counted(len(self._given), "shard")
        return f"<ShardedArray {self.dtype}{list(self.shape)} as {self.sharding}, {shards}{missing}>"

    def __str__(self) -> str:
        return repr(self) if self.missing else super().__str__()

    def _repr_html_(self) -> str:
        from strided.pictures.html import Section, card, layout_section, table  # only notebooks need them

        rows: list[tuple[str, object]] = [
            ("sharding", self.sharding),
            ("shard", list(self.shard_shape) if self._xla is None else self._xla),
            ("given", counted(len(self._given), "shard")),
        ]
        if self.missing:
            rows.append(("missing", counted(len(self.missing), "tile")))
        tiles = list(self._tiles())
        shown = [
            (window_text(index), ", ".join(map(str, self._holders.get(cell, ()))) or "missing")
            for cell, index in tiles[:_SHOWN]
        ]
        listed = table(("tile", "devices"), shown, len(tiles) - len(shown))
        sections = [Section("tiles", listed, is_open=len(tiles) <= 8)]
        if self._xla is not None:
            sections += layout_section(self._xla, "layout of a shard")
        return card("ShardedArray", f"{self.dtype}{list(self.shape)}", rows, sections)


def holders_of(sharding: Sharding, rank: int, given: Collection[int]) -> dict[Cell, tuple[int, ...]]:
    """The given devices that hold each tile of an array of this rank."""
    if any(device < 0 for device in given):
        raise DumpError(f"{sharding} has no device {min(given)}")
    if sharding.grid is None:
        if given and sharding.num_devices is not None and max(given) >= sharding.num_devices:
            raise DumpError(f"{sharding} of {counted(sharding.num_devices, 'device')} has no device {max(given)}")
        holding = [device for device in given if sharding.device in (None, device)]
        if not holding and given:
            raise DumpError(f"{sharding}: none of the devices {sorted(given)} holds anything")
        return {(0,) * rank: tuple(holding)} if holding else {}
    found: dict[Cell, list[int]] = {}
    for device in sorted(given):
        cell = sharding.grid.cell_of(device)
        if cell is None:
            raise DumpError(f"{sharding} has no device {device}")
        found.setdefault(cell[:rank], []).append(device)
    return {cell: tuple(devices) for cell, devices in found.items()}


def with_layout(name: str, dims: tuple[int, ...], layout: str | Layout | None) -> Shape:
    """A shape of an element type, dimensions and a layout (default row-major)."""
    return Shape(name, dims, None if layout is None else layout_of(layout))


def shard_of(xla: Shape, dims: tuple[int, ...]) -> Shape:
    """The shape of every device's buffer: that of the array, with the dimensions of a shard."""
    if xla.layout is None:
        raise UnsupportedError(f"{xla} holds no values")
    try:
        return replace(xla, dimensions=dims)
    except LayoutError as error:
        raise LayoutError(f"the shards of {xla} have no such layout: {error}") from error


def _is_raw(given: LayoutArray | Array, xla: Shape | None) -> bool:
    """Whether an ndarray is a raw buffer rather than values."""
    if isinstance(given, LayoutArray) or xla is None or given.dtype != np.uint8 or given.ndim != 1:
        return False
    # The values of a short shard, of one dimension, are as long as no buffer.
    return xla != Shape("u8", xla.dimensions) or len(xla.dimensions) != 1 or given.size >= xla.byte_size
