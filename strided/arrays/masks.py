"""Fast paths for reading and writing the elements that a large mask selects.

- ``a[mask]`` with many elements: a few rows at a time are converted, and the elements selected from them.
- ``a[mask] = x``: the offsets of a block are computed, and the selected ones are written. Blocks of packed elements of
  which many are selected are converted instead.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from strided.arrays import blocks
from strided.arrays.base import Array, ArrayBase
from strided.runtime import limits
from strided.runtime.threads import get_num_threads, run
from strided.transfer.gather_scatter import offsets_at

#: Bytes of values converted at a time, and the sparsest mask for that: one element in this many.
_BAND_BYTES = 1 << 20
_SPARSE = 24
#: Elements whose offsets are computed at a time.
_OFFSETS = 1 << 18
#: Packed elements are converted for masks up to this many times as sparse as for index arrays: the whole mask is
#: searched in either case, and that takes as long as a conversion.
_PACKED = 8


def gather(array: ArrayBase, mask: npt.NDArray[np.bool_]) -> Array | None:
    """The elements where a mask of the array's shape is true; None if there are too few of them."""
    count = int(np.count_nonzero(mask))
    if not mask.ndim or count * _SPARSE < mask.size or mask.size < limits.current.loading_elements:
        return None
    out = np.empty(count, array.dtype)
    tile, _ = blocks.tile_edges_of(array._map)[0]
    rows = max(1, _BAND_BYTES * array.shape[0] // max(1, array.nbytes) // tile) * tile
    starts = range(0, array.shape[0], rows)
    ends = np.cumsum([np.count_nonzero(mask[k : k + rows]) for k in starts])

    def task(band: int, start: int) -> None:
        size = min(rows, array.shape[0] - start)
        values = array._with_map(array._map.sliced(0, start, 1, size)).to_numpy()
        chosen = values[mask[start : start + size]]
        out[ends[band] - len(chosen) : ends[band]] = chosen

    run(task, enumerate(starts), threads=get_num_threads())
    return out


def put(array: ArrayBase, mask: npt.NDArray[np.bool_], values: Array) -> None:
    """Write values (one for all, or one for each element of the array) to the elements that a mask selects.

    Unlike `scatter`, for any array.
    """
    if array.size < limits.current.loading_elements or array._map.is_spread:
        array[mask] = values[mask] if values.ndim else values
        return
    array._memory.begin_writing()
    scatter(array, mask, values)


def scatter(array: ArrayBase, mask: npt.NDArray[np.bool_], values: Array) -> None:
    """Write values to the elements where a mask of the array's shape is true, and to no others.

    Parameters
    ----------
    array : ArrayBase
        It must not be broadcast.
    mask : ndarray of bool
    values : ndarray
        Of the array's dtype: one for all, one for each element of the array, or one for each selected element.
    """
    # Copy what shares memory with the array, before that is written.
    mask, values = (x.copy() if np.may_share_memory(x, array._memory.buffer) else x for x in (mask, values))
    put_chosen = _put_at_offsets if array._memory.bits >= 8 else _put_packed
    put_chosen(array, mask, values, in_turn=values.ndim == 1 and values.shape != mask.shape)


def _put_at_offsets(array: ArrayBase, mask: npt.NDArray[np.bool_], values: Array, *, in_turn: bool) -> None:
    """`scatter` at computed offsets; `in_turn` if there is one value for each selected element."""
    pieces = list(blocks.run_boxes(mask.shape, _OFFSETS))
    ends = np.cumsum([np.count_nonzero(mask[box]) for box in pieces]) if in_turn else None

    def task(number: int) -> None:
        box = pieces[number]
        chosen = np.flatnonzero(mask[box])
        if not chosen.size:
            return
        part = blocks.part(array, box)
        if chosen.size * _SPARSE < part.size:
            offsets = offsets_at(part._map, np.unravel_index(chosen, part.shape), chosen.shape)
        else:
            every = offsets_at(part._map, np.ix_(*map(np.arange, part.shape)), part.shape)
            offsets = every.reshape(-1)[chosen]
        if ends is not None:
            own = values[ends[number] - chosen.size : ends[number]]
        else:
            own = values[box].reshape(-1)[chosen] if values.ndim else np.broadcast_to(values, chosen.size)
        part._scatter(offsets, own)

    # Two threads must not write to the same byte.
    run(task, ((k,) for k in range(len(pieces))), threads=get_num_threads() if array._memory.bits >= 8 else 1)


def _put_packed(array: ArrayBase, mask: npt.NDArray[np.bool_], values: Array, *, in_turn: bool) -> None:
    """`scatter` of packed elements: blocks with many selected elements are converted; others by `_put_at_offsets`."""
    cuts = blocks.tile_cuts(array._map, blocks.BLOCK_BYTES // array.itemsize)
    if in_turn and not blocks.are_runs(cuts):
        every = np.empty(mask.shape, values.dtype)
        every[mask] = values
        values, in_turn = every, False
    done = 0
    for box in blocks.boxes(cuts):
        part, chosen = blocks.part(array, box), mask[box]
        count = int(np.count_nonzero(chosen))
        own = values[done : done + count] if in_turn else values[box] if values.ndim else values
        done += count
        if not count:
            continue
        if not part._is_sooner_converted(count * _PACKED):
            _put_at_offsets(part, chosen, own, in_turn=in_turn)
        elif in_turn:
            part._set_converted(partial(np.place, mask=chosen, vals=own))
        else:
            part._set_converted(partial(np.copyto, src=own, where=chosen))
