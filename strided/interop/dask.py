"""dask: arrays in a layout as dask arrays, whose chunks are views.

`dask.array.from_array` takes a LayoutArray like any array, but recent versions copy it, even if it is a mapped file.
The `from_array` here passes an object that dask does not copy: chunks are views, reductions of them stream, and
workers in other processes map the file themselves.

Importing this module registers LayoutArray as a chunk type with dask, so that both can be mixed in expressions. It is
imported automatically when a LayoutArray first meets a dask array.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.arrays.blocks import tile_block, tile_edges_of
from strided.arrays.layout_array import LayoutArray
from strided.runtime.missing import advising

with advising(__name__, "strided[dask]"):
    import dask
    import dask.array as da
    from dask.array.dispatch import percentile_lookup
    from dask.utils import parse_bytes

da.register_chunk_type(LayoutArray)


@percentile_lookup.register(LayoutArray)  # type: ignore[untyped-decorator]
def _percentile(a: LayoutArray, *args: Any, **options: Any) -> Any:
    """Percentiles of a chunk's values."""
    return percentile_lookup.dispatch(np.ndarray)(np.asarray(a), *args, **options)


@dataclass(frozen=True, slots=True, eq=False)
class _ArrayLike:
    """An array-like from which dask reads chunks without copying or converting the whole."""

    array: LayoutArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        return self.array.chunk_shape

    def __getitem__(self, key: Any) -> Any:
        array, file = self.array, self.array.file
        if file is not None and file.mode == "r":
            # Each chunk has its own mapping, whose pages are freed with it: memory stays bounded even if mapped pages
            # are counted, as by workers of dask.distributed.
            anew = array._mapped_anew("r")
            array = array if anew is None else anew
        return array[key]

    def __dask_tokenize__(self) -> Any:
        return self.array.__dask_tokenize__()


def from_array(array: LayoutArray, chunks: Any = None, **options: Any) -> da.Array:
    """A dask array of an array in a layout, without copying or reading it.

    Parameters
    ----------
    array : LayoutArray
    chunks : optional
        As for `dask.array.from_array`. The default is whole tiles that are contiguous in the buffer, of about dask's
        ``array.chunk-size`` in bytes of values.
    **options
        Further arguments of `dask.array.from_array`: ``name``, ``lock``, ``inline_array``.

    Returns
    -------
    dask.array.Array
        Its chunks are views of `array`.

    Raises
    ------
    TypeError
        Not a `LayoutArray`.
    """
    if not isinstance(array, LayoutArray):
        raise TypeError(f"array must be a LayoutArray, not {type(array).__name__}")
    cut = tile_chunks(array) if chunks is None else chunks
    meta = array[(slice(0, 0),) * array.ndim] if array.ndim else None
    return da.from_array(_ArrayLike(array), cut, asarray=False, meta=meta, **options)


def tile_chunks(array: LayoutArray, limit_bytes: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Sizes of chunks along every axis: chunks begin on tile edges, and are contiguous in the buffer if possible.

    Parameters
    ----------
    array : LayoutArray
    limit_bytes : int, optional
        About how many bytes of values a chunk has; the default is dask's ``array.chunk-size``. Tiles are never cut.
    """
    limit: int = parse_bytes(dask.config.get("array.chunk-size")) if limit_bytes is None else limit_bytes
    block = tile_block(array.address_map, max(1, limit // array.itemsize))
    found = []
    for n, step, (_, first) in zip(array.shape, block, tile_edges_of(array.address_map), strict=True):
        # If a view begins inside a tile, the rest of that tile belongs to the first chunk.
        edges = [0, *range(first + step, n, step), n]
        found.append(tuple(stop - start for start, stop in itertools.pairwise(edges)))
    return tuple(found)
