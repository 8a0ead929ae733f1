"""``np.concatenate`` and its like of arrays in a layout: each is converted straight to its place in the result."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from strided.arrays.base import Array, ArrayBase
from strided.runtime import limits


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """What NumPy gives; NotImplemented for what has to be cast or is refused, and for small results."""
    if out is not None or dtype is not None or casting != "same_kind" or not _are_alike(arrays, axis):
        return NotImplemented
    first = arrays[0]
    if isinstance(axis, bool) or not -first.ndim <= operator.index(axis) < first.ndim:
        return NotImplemented
    along = operator.index(axis) % first.ndim
    others = {(*x.shape[:along], *x.shape[along + 1 :]) for x in arrays}
    if len(others) > 1 or sum(x.nbytes for x in arrays) < limits.current.direct_bytes:
        return NotImplemented
    count = sum(x.shape[along] for x in arrays)
    result = _in_order_of(arrays, (*first.shape[:along], count, *first.shape[along + 1 :]), along)
    start = 0
    for x in arrays:
        stop = start + x.shape[along]
        np.copyto(result[(slice(None),) * along + (slice(start, stop),)], x)
        start = stop
    return result


def _stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    if not _are_alike(arrays, axis) or len({x.shape for x in arrays}) > 1:
        return NotImplemented
    along = normalize_axis_index(operator.index(axis), arrays[0].ndim + 1)
    return _concatenate([np.expand_dims(x, along) for x in arrays], along, out, dtype=dtype, casting=casting)


def _are_alike(arrays: Any, axis: Any) -> bool:
    """Whether they are arrays of one dtype and number of dimensions, and an axis is given."""
    if type(arrays) not in (list, tuple) or not arrays or not hasattr(type(axis), "__index__"):
        return False
    if not all(isinstance(x, ArrayBase) or type(x) is np.ndarray for x in arrays):
        return False
    return len({(x.dtype, x.ndim) for x in arrays}) == 1 and arrays[0].ndim > 0


def _in_order_of(arrays: Sequence[Any], shape: tuple[int, ...], along: int) -> Array:
    """A new ndarray whose axes lie in memory in the order in which NumPy puts those of the arrays together."""
    order = _falling(np.concatenate([_small(x) for x in arrays], along).strides)
    made = np.empty([shape[k] for k in order], arrays[0].dtype)
    return made.transpose(np.argsort(order))


def _small(x: Any) -> Array:
    """An ndarray of up to two indices along each axis, whose axes lie in memory in the order of those of an array."""
    in_rows = isinstance(x, ArrayBase) and not x.is_strided  # as its converted values are
    order = range(x.ndim) if in_rows else _falling(x.strides)
    return np.empty([min(2, x.shape[k]) for k in order], np.int8).transpose(np.argsort(order))


def _falling(strides: Sequence[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda k: -abs(strides[k]))


def _by_numpys_own(function: Any) -> Callable[..., Any]:
    """A function that NumPy puts together from those above and views."""
    return lambda *args, **kwargs: function._implementation(*args, **kwargs)


#: Each of these functions of NumPy's, as it is carried out where one of the arrays is in a layout.
JOINING_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: _concatenate,
    np.stack: _stack,
    **{function: _by_numpys_own(function) for function in (np.vstack, np.hstack, np.dstack)},
}
