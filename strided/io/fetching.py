"""Values of an array whose bytes are fetched when they are asked for, from a file or another machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.classify import Outer
from strided.arrays.layout_array import LayoutArray
from strided.io.sparse_pages import affordable, element_ranges, map_ranges
from strided.runtime.aliases import Table
from strided.transfer import copy as transfer

#: Gives a view of a blank array with some ranges of its bytes fetched.
Fetch = Callable[[LayoutArray, Table], LayoutArray]


def values_at(blank: LayoutArray, key: Any, selected: Outer | int, fetch: Fetch, gap: int) -> Any:
    """The values of a key that selects one element, at an offset, or elements by arrays of indices.

    Up to `gap` bytes between two of them are fetched, too.
    """
    if isinstance(selected, int):
        offsets: Table = np.array([selected])
    else:
        offsets = transfer.offsets_at(blank.address_map, selected.arrays, selected.shape)
    return fetch(blank, element_ranges(offsets, blank.region.storage, gap))[key]


def values_of(view: LayoutArray, fetch: Fetch, gap: int) -> npt.NDArray[Any]:
    """All values of a view as a new ndarray, in parts that memory has room for."""
    out = np.empty(view.shape, view.dtype)
    for box in affordable([tuple(slice(0, n) for n in view.shape)], [view]):
        key: Any = (*box, ...)
        part = view[key]
        fetch(part, map_ranges(part.address_map, part.region.storage, gap)).to_numpy(out=out[key])
    return out
