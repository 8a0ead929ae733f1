"""NumPy's reductions of large arrays: sums, extremes and their indices, counts, means and variances.

`stream` does what NumPy's function does, block by block. NumPy itself, asked with a stand-in of one element, gives the
dtype of the result and refuses wrong arguments. Single precision is added as such within a block, and in double
precision across blocks; for shorter types see `wide_sums`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from strided.arrays import wide_sums
from strided.arrays.base import Array, ArrayBase, broadcasts
from strided.arrays.block_reduce import Partial, Reduction, reduced
from strided.arrays.blocks import Box
from strided.layout.element_types import is_builtin

#: Arrays of at least this many bytes of values are read block by block; of smaller ones NumPy reduces a converted copy.
STREAM_BYTES = 1 << 24

Axes = tuple[int, ...]


def streams(array: Any) -> bool:
    """Whether something is an array in a layout too large to be converted as a whole."""
    return isinstance(array, ArrayBase) and array.nbytes >= STREAM_BYTES and array.size > 0 and array.ndim > 0


class ReductionCall(NamedTuple):
    """The arguments of a reduction.

    Attributes
    ----------
    array : ArrayBase
    axes : tuple of int
        Axes that are reduced, normalised.
    dtype : numpy.dtype
        Dtype of NumPy's result.
    work : numpy.dtype
        Dtype in which the elements of a block are added.
    where : True or mask
    initial : scalar or None
    ddof : float
    """

    array: ArrayBase
    axes: Axes
    dtype: np.dtype[Any]
    work: np.dtype[Any]
    where: Any
    initial: Any
    ddof: float

    @property
    def itemsize(self) -> int:
        """Bytes of an element while it is added."""
        return self.work.itemsize if wide_sums.wide(self.array.dtype) else self.array.itemsize

    def reduced(self, reduction: Reduction) -> Partial:
        """The partial result of the whole array."""
        return reduced(self.array, self.axes, reduction, self.where)


def stream(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of NumPy's reductions for a large array; NotImplemented if NumPy itself must be called.

    Raises
    ------
    TypeError, ValueError
        As NumPy does.
    """
    implementation = IMPLEMENTATIONS.get(function)
    if implementation is None or not streams(args[0] if args else kwargs.get("a")):
        return NotImplemented
    try:
        bound = wide_sums.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return NotImplemented
    given = {name: value for name, value in bound.items() if value is not np._NoValue}
    array, axis, out = given.pop("a"), given.pop("axis", None), given.pop("out", None)
    where = given.pop("where", True)
    if "ddof" in given and "correction" in given:
        return function(array.stand_in(), axis=axis, **given)  # refused
    ddof = given.pop("correction", given.pop("ddof", 0))
    is_usual = (axis is None or isinstance(axis, int | np.integer) or (isinstance(axis, tuple) and axis)) and (
        out is None or isinstance(out, np.ndarray | ArrayBase)
    )
    has_numbers = array.dtype.isbuiltin == 2 or array.dtype.kind not in "SUV"
    if (
        not is_usual
        or not has_numbers
        or "mean" in given
        or not _fits(where, array.shape)
        or not isinstance(ddof, (int, float))
    ):
        return NotImplemented
    given_dtype = wide_sums.summed_as(array.dtype) if function in _SUMS else array.dtype
    small = np.zeros((1,) * array.ndim, given_dtype)
    asked = given if where is True else {**given, "where": np.True_}
    try:
        example = function(small, axis=axis, **asked)
    except Exception:
        if out is None:
            raise
        return NotImplemented  # it may be well with `out`
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim)
    kept = tuple(1 if k in axes else n for k, n in enumerate(array.shape))
    if not given.get("keepdims", False):
        kept = tuple(n for k, n in enumerate(array.shape) if k not in axes)
    if out is not None and out.shape != kept:
        return function(array.stand_in(), axis=axis, out=np.empty(out.shape, out.dtype), **given)  # refused
    if out is not None:
        if out.dtype != np.asarray(example).dtype:
            return NotImplemented  # which decides about the type that elements have meanwhile
        example = function(small, axis=axis, out=np.empty(np.shape(example), out.dtype), **asked)
    dtype = np.asarray(example).dtype
    work = _work(np.dtype(given["dtype"]) if given.get("dtype") is not None else None, given_dtype, dtype)
    if function in _SUMS and (work is None or (function in _MOMENTS and work.kind in "iub")):
        return NotImplemented
    call = ReductionCall(array, axes, dtype, work or dtype, where, given.get("initial"), ddof)
    result = wide_sums.rounded(implementation(call), dtype)
    return _delivered(result.reshape(kept), example, out)


def _fits(where: Any, shape: tuple[int, ...]) -> bool:
    """Whether `where` is boolean and broadcasts to the shape."""
    if where is True:
        return True
    mask = where if isinstance(where, ArrayBase) else np.asarray(where)
    return mask.dtype == np.bool_ and broadcasts(mask.shape, shape)


def _work(asked: np.dtype[Any] | None, given: np.dtype[Any], result: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which elements are added; None if only NumPy knows how."""
    wanted = result if asked is None else asked
    if given.kind == "c":
        if wanted.kind == "c":
            return wanted.newbyteorder("=")
        return np.dtype(given.type) if asked is None else None  # a variance: the result is real
    if wanted.kind in "iub":
        return wanted if given.kind in "iub" else None
    return wide_sums.wide(wanted) or (wanted.newbyteorder("=") if is_builtin(wanted) else None)


def _delivered(result: Array, example: Any, out: Any) -> Any:
    """A result as NumPy gives it: in `out`, as a scalar, or as an array."""
    if out is not None:
        np.copyto(out, result, casting="unsafe")
        return out
    if isinstance(example, int):
        return int(result[()])
    return result if result.ndim else result[()]


# --- partial results --------------------------------------------------------------------------------------------------


def _wide(x: Any) -> Array:
    """Floating point in double precision, other types unchanged."""
    array: Array = np.asarray(x)
    if array.dtype.kind == "c":
        array = array.astype(np.complex128, copy=False)
    elif array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.float64)
    return array


def _count(values: Array, where: Any, axes: Axes) -> Array:
    """How many elements of a block are reduced."""
    if where is True:
        return np.asarray(math.prod(values.shape[k] for k in axes), np.intp)
    return np.add.reduce(np.broadcast_to(where, values.shape), axis=axes, dtype=np.intp, keepdims=True)


def _numbers(values: Array, where: Any) -> Any:
    """A mask of the elements that are not NaN."""
    found = values == values
    return found if where is True else found & where


def _sum(values: Array, where: Any, box: Box, axes: Axes, *, work: np.dtype[Any], skip: bool) -> Partial:
    """The number of elements and their sum."""
    if skip and values.dtype.kind not in "iub":
        where = _numbers(values, where)
    total = np.add.reduce(values, axis=axes, dtype=work, keepdims=True, where=where)
    return _count(values, where, axes), _wide(total)


def _sums(first: Partial, second: Partial) -> Partial:
    return first[0] + second[0], first[1] + second[1]


def _moments(values: Array, where: Any, box: Box, axes: Axes, *, work: np.dtype[Any], skip: bool) -> Partial:
    """The number of elements, their mean as a large and a small part, and the sum of squared distances from it.

    Means of blocks are close together; in one part, rounding would swamp their differences.
    """
    if skip and values.dtype.kind not in "iub":
        where = _numbers(values, where)
    own = None if values.dtype == work else values.astype(work)
    values = values if own is None else own
    n = _count(values, where, axes)
    add = partial(np.add.reduce, axis=axes, keepdims=True, where=where)
    some = np.maximum(n, 1)
    near = np.asarray(add(values) / some).astype(work, copy=False)
    with np.errstate(invalid="ignore"):  # of a mean that is infinite: `_var_of` tells
        apart = np.subtract(values, near, out=own)
    # `near` is rounded; the remainder corrects both the mean and the squares.
    rest = _wide(add(apart)) / some
    # Where the sum overflows, all lie infinitely far from the mean, as NumPy has it.
    rest = np.where(np.isinf(near), 0, rest)
    squares = _wide(add(_squared(apart) if apart.dtype.kind == "c" else np.square(apart, out=apart)))
    return n, _wide(near), rest, np.maximum(squares - _squared(rest) * n, 0)


def _squared(x: Array) -> Array:
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x


def _merged_moments(first: Partial, second: Partial) -> Partial:
    (n, mean, rest, squares), (m, other, small, more) = first, second
    total = n + m
    share = m / np.maximum(total, 1)
    if np.any(opposite := np.isinf(mean) & (other == -mean)):
        np.add.reduce([mean[opposite], other[opposite]])  # of which NumPy tells
    with np.errstate(invalid="ignore"):  # of means that are infinite
        apart = np.where(m == 0, 0, (other - mean) + (small - rest))
        step = apart * share + rest
        large = np.where(np.isinf(mean) | np.isinf(other), mean + other, mean + step)
        none = n == 0
        squares = squares + more
        squares = squares + np.where(none | np.isinf(squares), 0, _squared(apart) * (n * share))
        return total, np.where(none, other, large), np.where(none, small, step - (large - mean)), squares


def _extreme(values: Array, where: Any, box: Box, axes: Axes, *, ufunc: np.ufunc, initial: Any) -> Partial:
    extra = {} if initial is None else {"initial": initial}
    return (np.asarray(ufunc.reduce(values, axis=axes, keepdims=True, where=where, **extra)),)


def _place(values: Array, where: Any, box: Box, axes: Axes, *, function: Any, shape: tuple[int, ...]) -> Partial:
    """The extreme element and its index: along the one reduced axis, or among all elements."""
    if len(axes) == values.ndim:
        local = np.unravel_index(function(values), values.shape)
        index = tuple(i + block.start for i, block in zip(local, box, strict=True))
        ones = (1,) * values.ndim
        return values[local].reshape(ones).copy(), np.reshape(np.ravel_multi_index(index, shape), ones)
    index = function(values, axis=axes[0], keepdims=True)
    return np.take_along_axis(values, index, axes[0]), index + box[axes[0]].start


def _first_place(first: Partial, second: Partial, *, better: np.ufunc) -> Partial:
    """The more extreme of two, NaN before any number; of equals, the one with the lower index."""
    (value, index), (other, place) = first, second
    is_nan, other_nan = value != value, other != other
    same = (value == other) | (is_nan & other_nan)
    with np.errstate(invalid="ignore"):  # of complex NaN
        take = (better(other, value) | (other_nan & ~is_nan)) & ~same | (same & (place < index))
    return np.where(take, other, value), np.where(take, place, index)


def _combined(first: Partial, second: Partial, *, ufunc: np.ufunc) -> Partial:
    return (ufunc(first[0], second[0]),)


# --- implementations --------------------------------------------------------------------------------------------------


def _sum_of(q: ReductionCall, *, skip: bool = False) -> Array:
    _, total = q.reduced(Reduction(partial(_sum, work=q.work, skip=skip), _sums, itemsize=q.itemsize))
    return total if q.initial is None else np.add(np.asarray(q.initial, q.work), total)


def _mean_of(q: ReductionCall, *, skip: bool = False) -> Array:
    count, total = q.reduced(Reduction(partial(_sum, work=q.work, skip=skip), _sums, itemsize=q.itemsize))
    if not np.all(count):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=5)
    if not skip:
        return np.true_divide(total, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.true_divide(total, count)


def _var_of(q: ReductionCall, *, skip: bool = False) -> Array:
    count, mean, _, squares = q.reduced(
        Reduction(partial(_moments, work=q.work, skip=skip), _merged_moments, itemsize=q.itemsize)
    )
    if np.any(lost := np.isinf(mean) & np.isnan(squares)):
        np.subtract(mean[lost], mean[lost])  # infinite elements less their mean, of which NumPy tells
    freedom = count - q.ddof
    if np.any(freedom <= 0):
        warnings.warn("Degrees of freedom <= 0 for slice" + "." * skip, RuntimeWarning, stacklevel=5)
    if not skip:
        return np.true_divide(squares, np.maximum(freedom, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(freedom <= 0, np.nan, np.true_divide(squares, freedom))


def _extreme_of(q: ReductionCall, *, ufunc: np.ufunc) -> Array:
    return q.reduced(Reduction(partial(_extreme, ufunc=ufunc, initial=q.initial), partial(_combined, ufunc=ufunc)))[0]


def _extreme_number_of(q: ReductionCall, *, ufunc: np.ufunc) -> Array:
    found = _extreme_of(q, ufunc=ufunc)
    if np.any(found != found):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=5)
    return found


def _place_of(q: ReductionCall, *, function: Any, better: np.ufunc) -> Array:
    start = partial(_place, function=function, shape=q.array.shape)
    combine = partial(_first_place, better=better)
    if len(q.axes) < q.array.ndim:
        return q.reduced(Reduction(start, combine, in_order=True))[1]
    extreme = np.max if better is np.greater else np.min
    best: list[Any] = []

    def matters(values: Array) -> bool:
        """Whether the extreme may be among these: only then its index is looked for."""
        own = extreme(values)
        with np.errstate(invalid="ignore"):
            is_best = not best or own != own or not better(best[0], own)
        if is_best:
            best[:] = [own]
        return is_best

    return q.reduced(Reduction(start, combine, matters=matters, in_order=True))[1]


def _truth_of(q: ReductionCall, *, ufunc: np.ufunc) -> Array:
    start = partial(_extreme, ufunc=ufunc, initial=None)
    decisive = ufunc is np.logical_or
    return q.reduced(Reduction(start, partial(_combined, ufunc=ufunc), lambda s: bool(s[0].all()) is decisive))[0]


def _count_of(q: ReductionCall, *, predicate: Callable[[Array], Array] | None = None) -> Array:
    def start(values: Array, where: Any, box: Box, axes: Axes) -> Partial:
        found = values if predicate is None else predicate(values)
        return (np.asarray(np.count_nonzero(found, axis=axes, keepdims=True)),)

    return q.reduced(Reduction(start, partial(_combined, ufunc=np.add)))[0]


_MOMENTS = {np.var, np.nanvar, np.std, np.nanstd}
_SUMS = _MOMENTS | {np.sum, np.nansum, np.mean, np.nanmean}

#: NumPy's reductions that stream.
IMPLEMENTATIONS: dict[Callable[..., Any], Callable[[ReductionCall], Array]] = {
    np.sum: _sum_of,
    np.nansum: partial(_sum_of, skip=True),
    np.mean: _mean_of,
    np.nanmean: partial(_mean_of, skip=True),
    np.var: _var_of,
    np.nanvar: partial(_var_of, skip=True),
    np.std: lambda q: np.sqrt(_var_of(q)),
    np.nanstd: lambda q: np.sqrt(_var_of(q, skip=True)),
    np.max: partial(_extreme_of, ufunc=np.maximum),
    np.amax: partial(_extreme_of, ufunc=np.maximum),
    np.min: partial(_extreme_of, ufunc=np.minimum),
    np.amin: partial(_extreme_of, ufunc=np.minimum),
    np.nanmax: partial(_extreme_number_of, ufunc=np.fmax),
    np.nanmin: partial(_extreme_number_of, ufunc=np.fmin),
    np.ptp: lambda q: _extreme_of(q, ufunc=np.maximum) - _extreme_of(q, ufunc=np.minimum),
    np.argmax: partial(_place_of, function=np.argmax, better=np.greater),
    np.argmin: partial(_place_of, function=np.argmin, better=np.less),
    np.any: partial(_truth_of, ufunc=np.logical_or),
    np.all: partial(_truth_of, ufunc=np.logical_and),
    np.count_nonzero: _count_of,
}

#: The reductions behind the methods ``reduce`` of ufuncs.
OF_UFUNC: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_or: np.any,
    np.logical_and: np.all,
}


def count(array: ArrayBase, predicate: Callable[[Array], Array], axis: Any = None) -> Any:
    """As `LayoutArray.count`."""
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim)
    if not streams(array):
        return np.count_nonzero(predicate(np.asarray(array)), axis=axis)
    call = ReductionCall(array, axes, np.dtype(np.intp), np.dtype(np.intp), True, None, 0)
    found = _count_of(call, predicate=predicate)
    kept = tuple(n for k, n in enumerate(array.shape) if k not in axes)
    return found.reshape(kept) if kept else int(found.reshape(())[()])
