"""Arguments for NumPy's functions: layout arrays are converted to ndarrays, and written back afterwards.

A strided array becomes an ndarray on its own memory, any other array a converted copy. Views of one buffer become views
of one copy, so that NumPy sees which elements they share. What NumPy writes to a copy is written back to the buffer;
results that are views of a copy are made read-only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from strided.arrays import masks
from strided.arrays.base import Array, ArrayBase
from strided.arrays.index_ranges import IndexRanges, index_ranges_of
from strided.arrays.keys import IndexRange
from strided.transfer.flat_memory import address_of


class Arguments:
    """Arguments of one call.

    Parameters
    ----------
    given : objects
        The arguments, or lists, tuples and dicts of them.
    may_write : function of an array, optional
        Whether NumPy may write to the ndarray of an array; by default it always may.
    in_part : bool
        Whether NumPy writes only some elements. Then only these are written back, because other threads may have
        written to the others in the meantime.
    """

    def __init__(
        self, *given: Any, may_write: Callable[[ArrayBase], bool] = lambda array: True, in_part: bool = False
    ) -> None:
        self._ndarrays: dict[int, tuple[ArrayBase, Array]] = {}
        apart = []
        for array in {id(x): x for x in arrays_in(given)}.values():
            if array.is_strided:
                self._ndarrays[id(array)] = array, array._as_strided()
            else:
                apart.append(array)
        if len(apart) > 1:
            for group in _grouped_by_buffer(apart):
                for array, values in _converted_together(group):
                    self._ndarrays[id(array)] = array, values
        elif apart:
            self._ndarrays[id(apart[0])] = apart[0], apart[0].to_numpy()
        for array, values in self._ndarrays.values():
            # As in NumPy, views of a read-only array are read-only.
            if not (array._memory.buffer.flags.writeable and may_write(array)):
                values.flags.writeable = False
        self._arrays = {id(values): array for array, values in self._ndarrays.values()}
        self._before: dict[int, Array] = {}
        if in_part:
            for key, (array, values) in self._ndarrays.items():
                if values.flags.writeable and not array.is_strided:
                    self._before[key] = values.copy()

    def to_ndarray(self, x: Any) -> Any:
        """An argument for NumPy: layout arrays in it are replaced by their ndarrays."""
        return with_each(x, lambda array: self._ndarrays[id(array)][1])

    def from_ndarray(self, result: Any) -> Any:
        """A result of NumPy: ndarrays that were passed in are replaced by their layout arrays."""
        if type(result) is tuple:
            return tuple(self.from_ndarray(item) for item in result)
        return self._arrays.get(id(result), result)

    def mark_dirty(self, result: Any = ...) -> None:
        """Mark the files behind strided arrays as changed, because their ndarrays may be written to.

        With a result, mark only the files of arrays that it may be a view of.
        """
        for array, values in self._ndarrays.values():
            file = array._memory.file
            if file is not None and array.is_strided and array.size and (result is ... or _may_hold(result, values)):
                file.mark_dirty()

    def write_back(self, *arrays: Any) -> None:
        """Write the converted copies of these arrays back to their buffers."""
        for array in arrays:
            found = self._ndarrays.get(id(array))
            if found is None or found[0].is_strided:
                continue
            given, values = found
            before = self._before.get(id(array))
            changed = None if before is None else _changed(before, values)
            if changed is None or changed.all():
                given[...] = values
            else:
                masks.put(given, changed, values)

    def protect(self, result: Any) -> None:
        """Make results that are views of a copy read-only, because writes to them would not reach a buffer."""
        if isinstance(result, (tuple, list)):
            for item in result:
                self.protect(item)
        elif isinstance(result, np.ndarray):
            copies = (values for array, values in self._ndarrays.values() if not array.is_strided)
            if any(np.may_share_memory(result, values) for values in copies):
                # Do not read the flag first: for results of `np.broadcast_arrays` reading it warns.
                result.flags.writeable = False


def is_writeable(x: Any) -> bool:
    """Whether an object is a writeable layout array."""
    return isinstance(x, ArrayBase) and bool(x._memory.buffer.flags.writeable)


def arrays_in(x: Any, types: Any = ArrayBase) -> list[Any]:
    """The arrays in an argument: the argument itself, or those in nested lists, tuples and dicts."""
    if isinstance(x, types):
        return [x]
    found: list[Any] = []
    if type(x) in (list, tuple, dict):
        for item in x.values() if type(x) is dict else x:
            found += arrays_in(item, types)
    return found


def with_each(x: Any, change: Callable[[Any], Any], types: Any = ArrayBase) -> Any:
    """An argument with `change` applied to all arrays in it, also in nested lists, tuples and dicts."""
    if isinstance(x, types):
        return change(x)
    if type(x) in (list, tuple):
        return type(x)([with_each(item, change, types) for item in x])
    return {name: with_each(item, change, types) for name, item in x.items()} if type(x) is dict else x


def _grouped_by_buffer(arrays: list[ArrayBase]) -> Iterator[list[ArrayBase]]:
    """The arrays, grouped by buffer."""
    groups: dict[Any, list[ArrayBase]] = {}
    for array in arrays:
        memory = array._memory
        key = address_of(memory.buffer), memory.spec, memory.dtype, memory.bits, memory.bitorder
        groups.setdefault(key, []).append(array)
    yield from groups.values()


def _converted_together(arrays: list[ArrayBase]) -> Iterator[tuple[ArrayBase, Array]]:
    """Views of one buffer with their values: views of a common copy, unless that is larger than separate copies."""
    if len(arrays) == 1:
        yield arrays[0], arrays[0].to_numpy()
        return
    known = [(array, index_ranges_of(array)) for array in arrays]
    together = [(array, found) for array, found in known if found is not None]
    if len(together) > 1:
        first, form = together[0]
        spans = [_hull([found.dimensions[d] for _, found in together]) for d in range(len(form.dimensions))]
        if math.prod(span.size for span in spans) <= sum(array.size for array, _ in together):
            # In the order of the first view's axes, so that its values are contiguous.
            axes = [d for d in form.axes if d is not None]
            axes += [d for d in range(len(spans)) if d not in axes]
            map_ = first.spec.address_map
            for d, span in enumerate(spans):
                map_ = map_.sliced(d, *span)
            values = first._with_map(map_.transposed(axes)).to_numpy().transpose(np.argsort(axes))
            for array, found in together:
                yield array, _view_in(values, spans, found, array.shape)
            known = [(array, found) for array, found in known if found is None]
    for array, _ in known:
        yield array, array.to_numpy()


def _hull(ranges: Sequence[IndexRange]) -> IndexRange:
    """The smallest range that contains all of these."""
    ends = [at for r in ranges for at in (r.start, r.start + r.step * (r.size - 1))]
    low, high = min(ends), max(ends)
    step = math.gcd(*(at - low for at in ends), *(r.step for r in ranges if r.size > 1)) or 1
    return IndexRange(low, step, (high - low) // step + 1)


def _view_in(values: Array, spans: Sequence[IndexRange], view: IndexRanges, shape: tuple[int, ...]) -> Array:
    """The view with these index ranges as a view of `values`, which are the elements at the indices `spans`."""
    offset = sum(
        (r.start - span.start) // span.step * stride
        for r, span, stride in zip(view.dimensions, spans, values.strides, strict=True)
    )
    strides = [0 if d is None else view.dimensions[d].step // spans[d].step * values.strides[d] for d in view.axes]
    # NumPy's `as_strided` does not support the types of ml_dtypes.
    return np.ndarray(shape, values.dtype, values.ravel("K").view(np.uint8), offset, strides)


def _changed(before: Array, now: Array) -> Any:
    """A mask of the elements whose bits differ between two arrays of the same shape and dtype."""
    if before.itemsize == 16:
        first, second = before.view(np.complex128), now.view(np.complex128)
        return _changed(first.real, second.real) | _changed(first.imag, second.imag)
    bits = f"u{before.itemsize}"
    return before.view(bits) != now.view(bits)


def _may_hold(result: Any, memory: Array) -> bool:
    """Whether a result may be a view of an array's memory, or contain one."""
    if isinstance(result, np.ndarray):
        return result.dtype.hasobject or bool(np.may_share_memory(result, memory))
    if isinstance(result, (tuple, list)):
        return any(_may_hold(item, memory) for item in result)
    return not isinstance(result, (np.generic, np.dtype, int, float, complex, str, bytes, type(None)))
