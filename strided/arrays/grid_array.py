"""An array in a grid of tiles of equal shape, each an array of its own.

A read accesses only the tiles that it needs, and copies each from its layout directly to its place in the result, with
all threads. Elements of a tile beyond the edge of the array are never read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from strided.arrays import formatting
from strided.arrays.base import Array, as_converted, refuse_unlike
from strided.arrays.keys import IndexRange, Selection, index_arrays, length_of, normalise
from strided.arrays.layout_array import LayoutArray
from strided.transfer.chunks import Cell


class GridArray:
    """Base class of read access to an array in tiles; subclasses provide the tiles.

    ``a[key]`` is an ndarray or a scalar, for every key that NumPy accepts. ``np.asarray(a)`` and `to_numpy` read all
    elements.

    Attributes
    ----------
    shape, shard_shape : tuple of int
        Shapes of the array and of each tile.
    dtype : dtype
    """

    shape: tuple[int, ...]
    shard_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _counts: tuple[int, ...]

    def _tile(self, cell: Cell) -> LayoutArray | Array:
        """A tile as an array, including elements beyond the edge."""
        raise NotImplementedError

    def _tiles(self) -> Iterator[tuple[Cell, tuple[slice, ...]]]:
        """The tiles that contain elements: the index in the grid, and the slices of the array."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, without padding."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return length_of(self.shape)

    def __contains__(self, value: Any) -> bool:
        """Whether any element equals a value, as for an ndarray; read tile by tile."""
        if np.ndim(value):
            return value in self.to_numpy()
        for cell, index in self._tiles():
            inside: Any = (*(slice(0, s.stop - s.start) for s in index), ...)
            if value in np.asarray(self._tile(cell)[inside]):
                return True
        return False

    def to_numpy(self, out: Array | None = None) -> Array:
        """All values as an ndarray, by default a new one.

        Raises
        ------
        ValueError
            `out` has another shape or dtype.
        DumpError
            A tile is missing.
        """
        if out is None:
            out = np.empty(self.shape, self.dtype)
        else:
            refuse_unlike(out, self.shape, self.dtype)
            if self._may_share(out):
                out[...] = self.to_numpy()  # otherwise a tile might be overwritten before it is read
                return out
        self._fill(out)
        return out

    def _may_share(self, out: Array) -> bool:
        """Whether a tile may share memory with an ndarray. False here: tiles are read from files."""
        return False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("tiles cannot become an ndarray without a copy")
        return as_converted(self.to_numpy(), dtype, copy)

    def _fill(self, out: Array | LayoutArray) -> None:
        for cell, index in self._tiles():
            _copy(self._tile(cell), tuple(slice(0, s.stop - s.start) for s in index), out, index)

    def __str__(self) -> str:
        return formatting.text(self)  # type: ignore[arg-type]  # it uses only what this class has

    def __getitem__(self, key: Any) -> Any:
        selection = normalise(key, self.shape)
        if selection.is_element:
            index = [int(i) for i in selection.items]  # type: ignore[arg-type]
            cell = tuple(i // step for i, step in zip(index, self.shard_shape, strict=True))
            return self._tile(cell)[tuple(i % step for i, step in zip(index, self.shard_shape, strict=True))]
        return self._basic(selection) if selection.is_basic else self._gathered(selection)

    def _basic(self, selection: Selection) -> Any:
        """A basic selection, with one copy for each tile that contains a part of it."""
        axes = [item for item in selection.items if item is not None]
        spans = [item if isinstance(item, IndexRange) else IndexRange(int(item), 1, 1) for item in axes]  # type: ignore[arg-type]
        out = np.empty([span.size for span in spans], self.dtype)
        if out.size:  # otherwise another dimension may have any number of tiles
            self._copy_parts(spans, out)
        shown = out[(*(slice(None) if isinstance(item, IndexRange) else 0 for item in axes), ...)]
        kept = [item for item in selection.items if item is None or isinstance(item, IndexRange)]
        return shown[tuple(None if item is None else slice(None) for item in kept)] if kept else shown

    def _copy_parts(self, spans: Sequence[IndexRange], out: Array) -> None:
        """Copy the elements in a range of each dimension, tile by tile."""
        parts = [list(_parts(*three)) for three in zip(spans, self.shard_shape, self.shape, strict=True)]
        for chosen in itertools.product(*parts):
            cell, local, place = tuple(zip(*chosen, strict=True)) or ((), (), ())
            _copy(self._tile(cell), local, out, place)

    def _gathered(self, selection: Selection) -> Array:
        """The elements that index arrays select, read tile by tile."""
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


def _parts(span: IndexRange, step: int, size: int) -> Iterator[tuple[int, slice, slice]]:
    """The tiles of an axis that contain a part of a range: number, slice of the tile, and slice of the result."""
    start, stride, count = span
    done = 0
    while done < count and step:
        tile = (start + done * stride) // step
        low, high = tile * step, min((tile + 1) * step, size)
        first = start + done * stride
        room = (high - 1 - first) // stride if stride > 0 else (first - low) // -stride
        taken = min(count - done, room + 1)
        yield tile, IndexRange(first - low, stride, taken).as_slice(), slice(done, done + taken)
        done += taken


def _copy(tile: LayoutArray | Array, local: Any, out: Array | LayoutArray, place: Any) -> None:
    """Copy a box of a tile to its place in the result."""
    source = tile[local] if local else tile
    if isinstance(source, LayoutArray) and isinstance(out, np.ndarray):
        source.to_numpy(out=out[(*place, ...)])  # the dots keep a 0-d array an array
    else:
        out[(*place, ...)] = source
