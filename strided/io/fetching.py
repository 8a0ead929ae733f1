"""Arrays whose bytes are fetched on use, from a file or another machine."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.classify import Copy, Outer, indexed
from strided.arrays.layout_array import LayoutArray
from strided.io.sparse_pages import affordable, element_ranges, map_ranges
from strided.layout import Layout, Shape
from strided.runtime.aliases import Table
from strided.transfer import copy as transfer


class FetchedArray:
    """Base class of read-only arrays that are not in memory; a subclass fetches ranges of bytes.

    `layout` and `xla_shape` are those of the whole array. `blank` is the same view of an array of zeros that takes no
    memory; it provides the addresses.
    """

    #: Gaps between two runs of at most this size are fetched with them.
    _gap_bytes: ClassVar[int]

    xla_shape: Shape
    shape: tuple[int, ...]
    size: int
    dtype: np.dtype[Any]
    blank: LayoutArray

    def __init__(self, blank: LayoutArray) -> None:
        self.blank, self.xla_shape = blank, blank.xla_shape
        self.shape, self.size, self.dtype = blank.shape, blank.size, blank.dtype

    def _fetched(self, view: LayoutArray, ranges: Table) -> LayoutArray:
        """A view like `view`, of memory into which these ranges of bytes were fetched."""
        raise NotImplementedError

    def _view(self, map_: AddressMap) -> Any:
        """The result of basic indexing, whose elements have the addresses of `map_`: here their values."""
        return self._values_of(self.blank._with_map(map_))

    @property
    def layout(self) -> Layout:
        """The layout of the file."""
        return self.blank.layout

    def __getitem__(self, key: Any) -> Any:
        selected = indexed(self.blank.address_map, key)
        if isinstance(selected, AddressMap):
            return self._view(selected)
        if isinstance(selected, Copy):
            return self._values_of(self.blank._with_map(selected.map))
        return self._values_at(key, selected)

    def to_numpy(self) -> npt.NDArray[Any]:
        """All values as a new ndarray."""
        return self._values_of(self.blank)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the values are fetched: there is no ndarray without a copy")
        return self.to_numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def _ranges_of(self, view: LayoutArray) -> Table:
        return map_ranges(view.address_map, view.region.storage, self._gap_bytes)

    def _values_of(self, view: LayoutArray) -> npt.NDArray[Any]:
        """All values of a view as a new ndarray, fetched in parts of bounded size."""
        out = np.empty(view.shape, view.dtype)
        for box in affordable([tuple(slice(0, n) for n in view.shape)], [view]):
            key: Any = (*box, ...)
            part = view[key]
            self._fetched(part, self._ranges_of(part)).to_numpy(out=out[key])
        return out

    def _values_at(self, key: Any, selected: Outer | int) -> Any:
        """The values of a key that selects one element (an offset), or elements by index arrays."""
        if isinstance(selected, int):
            offsets: Table = np.array([selected])
        else:
            offsets = transfer.offsets_at(self.blank.address_map, selected.arrays, selected.shape)
        found = self._fetched(self.blank, element_ranges(offsets, self.blank.region.storage, self._gap_bytes))
        if isinstance(selected, int):
            return found[key]
        # Not `found[key]`: some ways to take many elements read others, too, which were not fetched.
        out = np.empty(selected.shape, found.dtype)
        transfer.gather_at(found.region, selected.arrays, out)
        return out
