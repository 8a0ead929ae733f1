"""Arrays in a layout where NumPy wants ndarrays: handed over, and written back afterwards.

`Arguments` turns every array in a layout among some arguments into an ndarray: its own memory where the layout is plain
strides, a converted copy where it is not. Views of one buffer are views of one copy, so that NumPy sees which elements
they have in common. What NumPy wrote to a copy goes back to the buffer, and what it returns of one is read-only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from strided.arrays.base import Array, ArrayBase
from strided.arrays.index_ranges import IndexRange, IndexRanges, index_ranges_of


class Arguments:
    """Arguments of one call.

    Parameters
    ----------
    given : objects
        The arguments; lists, tuples and dicts of arguments.
    may_write : function of an array, optional
        Whether NumPy may write to what it gets for it; without, it may.
    """

    def __init__(self, *given: Any, may_write: Callable[[ArrayBase], bool] = lambda array: True) -> None:
        arrays = list({id(x): x for x in _arrays_in(given)}.values())
        self._handed: dict[int, tuple[ArrayBase, Array]] = {}
        for array in arrays:
            if array.is_strided:
                self._handed[id(array)] = array, array._as_strided()
        apart = [x for x in arrays if not x.is_strided]
        if len(apart) > 1:
            for group in _of_one_buffer(apart):
                for array, values in _converted_together(group):
                    self._handed[id(array)] = array, values
        elif apart:
            self._handed[id(apart[0])] = apart[0], apart[0].to_numpy()
        for array, values in self._handed.values():
            # As in NumPy, views of a read-only array are read-only, and nothing is written to it.
            if not (array._memory.buffer.flags.writeable and may_write(array)):
                values.flags.writeable = False
        self._given = {id(values): array for array, values in self._handed.values()}

    def handed(self, x: Any) -> Any:
        """An argument for NumPy: arrays become ndarrays, also within lists, tuples and dicts."""
        if isinstance(x, ArrayBase):
            return self._handed[id(x)][1]
        if type(x) in (list, tuple):
            return type(x)(self.handed(item) for item in x)
        if type(x) is dict:
            return {name: self.handed(item) for name, item in x.items()}
        return x

    def returned(self, result: Any) -> Any:
        """What NumPy returned, with the array in a layout where it returned the ndarray that it got for it."""
        if type(result) is tuple:
            return tuple(self.returned(item) for item in result)
        return self._given.get(id(result), result)

    def touch(self) -> None:
        """Remember of files that their bytes may be changed: NumPy writes to what it was given, or others do."""
        for array, _ in self._handed.values():
            if array.is_strided and array.file is not None and array.size:
                array.file.touch()

    def touch_shared(self, result: Any) -> None:
        """The same of arrays that a result may be a view of."""
        for array, values in self._handed.values():
            if array.is_strided and array.file is not None and array.size and _may_hold(result, values):
                array.file.touch()

    def write_back(self, *arrays: Any) -> None:
        """Write what NumPy put into the copies of these arrays to their buffers."""
        for array in arrays:
            given, values = self._handed.get(id(array), (None, None))
            if given is not None and not given.is_strided:
                given[...] = values

    def protect(self, result: Any) -> None:
        """Make what NumPy returned of a copy read-only: what is written there would reach no buffer."""
        if isinstance(result, (tuple, list)):
            for item in result:
                self.protect(item)
        elif isinstance(result, np.ndarray) and result.flags.writeable:
            copies = (values for array, values in self._handed.values() if not array.is_strided)
            if any(np.may_share_memory(result, values) for values in copies):
                result.flags.writeable = False


def _arrays_in(x: Any) -> Iterator[ArrayBase]:
    if isinstance(x, ArrayBase):
        yield x
    elif type(x) in (list, tuple):
        for item in x:
            yield from _arrays_in(item)
    elif type(x) is dict:
        for item in x.values():
            yield from _arrays_in(item)


def _of_one_buffer(arrays: list[ArrayBase]) -> Iterator[list[ArrayBase]]:
    """The arrays, those on the same buffer together."""
    groups: dict[Any, list[ArrayBase]] = {}
    for array in arrays:
        memory = array._memory
        start = memory.buffer.__array_interface__["data"][0]
        groups.setdefault((start, memory.spec, memory.dtype, memory.bits, memory.bitorder), []).append(array)
    yield from groups.values()


def _converted_together(arrays: list[ArrayBase]) -> Iterator[tuple[ArrayBase, Array]]:
    """Views of one buffer with their values: views of one copy, unless that would be more than all of them."""
    known = [(array, index_ranges_of(array)) for array in arrays]
    together = [(array, found) for array, found in known if found is not None]
    if len(together) > 1:
        first, form = together[0]
        spans = [_hull([found.dimensions[d] for _, found in together]) for d in range(len(form.dimensions))]
        if math.prod(n for _, _, n in spans) <= sum(array.size for array, _ in together):
            # Axes as the first view has them, so that it is contiguous.
            axes = [d for d in form.axes if d is not None]
            axes += [d for d in range(len(spans)) if d not in axes]
            map_ = first.spec.address_map
            for d, span in enumerate(spans):
                map_ = map_.sliced(d, *span)
            values = first._with_map(map_.transposed(axes)).to_numpy().transpose(np.argsort(axes))
            for array, found in together:
                yield array, _seen(values, spans, found, array.shape)
            known = [(array, found) for array, found in known if found is None]
    for array, _ in known:
        yield array, array.to_numpy()


def _hull(progressions: Sequence[IndexRange]) -> tuple[int, int, int]:
    """Start, step and size of the closest progression that holds all of some."""
    ends = [at for p in progressions for at in (p.start, p.start + p.step * (p.size - 1))]
    low, high = min(ends), max(ends)
    step = math.gcd(*(at - low for at in ends), *(p.step for p in progressions if p.size > 1)) or 1
    return low, step, (high - low) // step + 1


def _seen(values: Array, spans: list[tuple[int, int, int]], view: IndexRanges, shape: tuple[int, ...]) -> Array:
    """A view of a buffer as the same view of values at the indices `spans` of every dimension."""
    offset, strides = 0, []
    for (start, _, _), (low, step, _), stride in zip(view.dimensions, spans, values.strides, strict=True):
        offset += (start - low) // step * stride
    for d in view.axes:
        strides.append(0 if d is None else view.dimensions[d].step // spans[d][1] * values.strides[d])
    # Not by `as_strided`, which does not know the types of ml_dtypes.
    return np.ndarray(shape, values.dtype, values.ravel("K").view(np.uint8), offset, strides)


def _may_hold(result: Any, memory: Array) -> bool:
    """Whether something may lead to the memory of an array."""
    if isinstance(result, np.ndarray):
        return result.dtype.hasobject or bool(np.may_share_memory(result, memory))
    if isinstance(result, (tuple, list)):
        return any(_may_hold(item, memory) for item in result)
    return not isinstance(result, (np.generic, np.dtype, int, float, complex, str, bytes, type(None)))
