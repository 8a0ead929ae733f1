"""``np.concatenate`` and similar functions: each layout array is converted directly to its place in the result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from strided.arrays.base import Array, ArrayBase
from strided.arrays.blocks import memory_order
from strided.runtime import limits
from strided.transfer.flat_memory import empty_aligned


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.concatenate`; NotImplemented if arrays must be cast, NumPy would raise, or this would not be faster."""
    if out is not None or dtype is not None or casting != "same_kind" or not _are_alike(arrays, axis):
        return NotImplemented
    first = arrays[0]
    if isinstance(axis, bool) or not -first.ndim <= operator.index(axis) < first.ndim:
        return NotImplemented
    along = operator.index(axis) % first.ndim
    others = {(*x.shape[:along], *x.shape[along + 1 :]) for x in arrays}
    if len(others) > 1 or not _are_worth_a_call_each(arrays):
        return NotImplemented
    order = _order_of(arrays, along)
    if not any(_is_converted(x, order) for x in arrays):
        return NotImplemented
    count = sum(x.shape[along] for x in arrays)
    result = _empty((*first.shape[:along], count, *first.shape[along + 1 :]), first.dtype, order)
    start = 0
    for x in arrays:
        stop = start + x.shape[along]
        np.copyto(result[(slice(None),) * along + (slice(start, stop),)], x)
        start = stop
    return result


def _stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    if not _are_alike(arrays, axis) or len({x.shape for x in arrays}) > 1 or not _are_worth_a_call_each(arrays):
        return NotImplemented
    along = normalize_axis_index(operator.index(axis), arrays[0].ndim + 1)
    key = (*[slice(None)] * along, None)
    return _concatenate([x[key] for x in arrays], along, out, dtype=dtype, casting=casting)


def _are_alike(arrays: Any, axis: Any) -> bool:
    """Whether these are arrays of the same dtype and number of dimensions, and `axis` is an integer."""
    if not _are_arrays(arrays) or not arrays or not hasattr(type(axis), "__index__"):
        return False
    return len({(x.dtype, x.ndim) for x in arrays}) == 1 and arrays[0].ndim > 0


def _are_arrays(arrays: Any) -> bool:
    """Whether this is a list or tuple of only layout arrays and ndarrays."""
    if type(arrays) not in (list, tuple):
        return False
    return all(isinstance(x, ArrayBase) or type(x) is np.ndarray for x in arrays)


def _are_worth_a_call_each(arrays: Sequence[Any]) -> bool:
    """Whether arrays are large enough to convert each one: small views of one buffer are faster read together."""
    in_layout = [x for x in arrays if isinstance(x, ArrayBase)]
    if sum(x.nbytes for x in arrays) < limits.current.joined_bytes:
        return False
    are_large = sum(x.nbytes for x in in_layout) >= limits.current.joined_part_bytes * len(in_layout)
    return are_large or len({id(x._memory) for x in in_layout}) == len(in_layout)


def _is_converted(x: Any, order: Sequence[int]) -> bool:
    """Whether a layout array needs a conversion, since it has no strides or another order of axes in memory."""
    return isinstance(x, ArrayBase) and not (x.is_strided and memory_order(x._as_strided().strides) == order)


def _order_of(arrays: Sequence[Any], along: int) -> list[int]:
    """The order of axes in memory, major first, of NumPy's result."""
    return memory_order(np.concatenate([_small(x) for x in arrays], along).strides)


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any], order: Sequence[int]) -> Array:
    """A new ndarray with this order of axes in memory."""
    flat = empty_aligned(math.prod(shape) * dtype.itemsize).view(dtype)
    return flat.reshape([shape[k] for k in order]).transpose(np.argsort(order))


def _small(x: Any) -> Array:
    """An ndarray of sizes of at most 2 with the order of axes in memory of `x`."""
    in_rows = isinstance(x, ArrayBase) and not x.is_strided  # converted values are row-major
    order = range(x.ndim) if in_rows else memory_order(x.strides)
    return np.empty([min(2, x.shape[k]) for k in order], np.int8).transpose(np.argsort(order))


def _by_numpys_own(function: Any) -> Callable[..., Any]:
    """Implements a function by NumPy's own implementation, which calls those above with views."""

    def own(arrays: Any, *rest: Any, **named: Any) -> Any:
        if not _are_arrays(arrays) or not _are_worth_a_call_each(arrays):
            return NotImplemented
        return function._implementation(arrays, *rest, **named)

    return own


#: NumPy's functions and their implementations if one of the arrays is a layout array.
JOINING_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: _concatenate,
    np.stack: _stack,
    **{function: _by_numpys_own(function) for function in (np.vstack, np.hstack, np.dstack)},
}
