"""NumPy's reductions of large arrays: sums, extremes and their indices, counts, means and variances.

`stream` computes what NumPy's function does, block by block. NumPy is called with a stand-in of one element for the
dtype of the result and to check arguments. Single precision is added as such within a block, and in double precision
across blocks; for shorter dtypes see `wide_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from strided.arrays import blocks, wide_sums
from strided.arrays.base import Array, ArrayBase, broadcasts
from strided.arrays.block_reduce import Partial, Reduction, reduced
from strided.arrays.blocks import Box
from strided.arrays.partials import (
    Axes,
    block_extreme,
    block_moments,
    block_place,
    block_sum,
    combined,
    first_place,
    merged_moments,
)
from strided.errors import warn
from strided.layout.element_types import is_builtin
from strided.runtime.argument_checks import check_function

#: Arrays of at least this many bytes are reduced block by block; for smaller ones, NumPy reduces a converted copy.
STREAM_BYTES = 1 << 24
#: If each sum adds at most this many bytes, do not stream: partial results would be larger than a converted copy.
FEW_BYTES = 16


def streams(array: Any) -> bool:
    """Whether an object is a layout array that is large enough to be processed block by block."""
    return isinstance(array, ArrayBase) and array.nbytes >= STREAM_BYTES and array.size > 0 and array.ndim > 0


class ReductionCall(NamedTuple):
    """The arguments of a reduction.

    Attributes
    ----------
    array : ArrayBase
    axes : tuple of int
        The reduced axes, normalized.
    work : numpy.dtype
        Dtype in which the elements of a block are added.
    where : True or mask
    initial : scalar or None
    ddof : float
    """

    array: ArrayBase
    axes: Axes
    work: np.dtype[Any]
    where: Any
    initial: Any
    ddof: float

    def reduced(self, reduction: Reduction) -> Partial:
        """The partial result of the whole array."""
        return reduced(self.array, self.axes, reduction, self.where)

    def added(
        self, start: Callable[..., Partial], combine: Callable[[Partial, Partial], Partial], *, skip: bool
    ) -> Partial:
        """The partial result of a reduction that adds elements in the dtype `work`; with `skip`, without NaN."""
        itemsize = self.work.itemsize if wide_sums.wide(self.array.dtype) else self.array.itemsize
        return self.reduced(Reduction(partial(start, work=self.work, skip=skip), combine, itemsize=itemsize))


def stream(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of NumPy's reductions for a large array; NotImplemented if NumPy must be called instead.

    Raises
    ------
    TypeError, ValueError
        As in NumPy.
    """
    implementation = IMPLEMENTATIONS.get(function)
    first: Any = args[0] if args else kwargs.get("a")
    if implementation is None or not streams(first):
        return NotImplemented
    if function in _OF_NUMBERS and wide_sums.summed_as(first.dtype).kind in "iub":
        return stream(_OF_NUMBERS[function], args, kwargs)
    arguments = _arguments(function, args, kwargs)
    if arguments is None:
        return NotImplemented
    array, axis, out, where, ddof, others = arguments
    given_dtype = wide_sums.summed_as(array.dtype) if function in _SUMS else array.dtype
    small = np.zeros((1,) * array.ndim, given_dtype)
    ask = partial(function, axis=axis, **others)
    masked = {} if where is True else {"where": np.True_}
    try:
        example = ask(small, **masked)
    except Exception:
        if out is None:
            raise
        return NotImplemented  # it may be valid with `out`
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim)
    if function in _SUMS and math.prod(array.shape[k] for k in axes) * array.itemsize <= FEW_BYTES:
        return NotImplemented
    kept = _kept(array.shape, axes, keepdims=others.get("keepdims", False))
    if out is not None:
        if out.shape != kept:
            return ask(array.stand_in(), out=_place_like(out, out.shape))  # NumPy raises
        if out.dtype != np.asarray(example).dtype:
            return NotImplemented  # in NumPy, the dtype of `out` affects that of intermediate sums
        example = ask(small, out=_place_like(out, np.shape(example)), **masked)
    dtype = np.asarray(example).dtype
    work = _work(np.dtype(others["dtype"]) if others.get("dtype") is not None else None, given_dtype, dtype)
    if function in _SUMS and (work is None or (function in _MOMENTS and work.kind in "iub")):
        return NotImplemented
    call = ReductionCall(array, axes, work or dtype, where, others.get("initial"), ddof)
    result = implementation(call).reshape(kept)[()]
    return int(result) if isinstance(example, int) else wide_sums.delivered(result, example, out)


class _Arguments(NamedTuple):
    """The arguments of one of NumPy's reductions by name; `others` are those that a call with a stand-in needs, too."""

    array: ArrayBase
    axis: Any
    out: Any
    where: Any
    ddof: Any
    others: dict[str, Any]


def _arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments | None:
    """The arguments of a reduction; None if NumPy must be called instead. Raises if ddof and correction are given."""
    try:
        bound = wide_sums.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return None
    given = {name: value for name, value in bound.items() if value is not np._NoValue}
    array, axis, out, where = given.pop("a"), given.pop("axis", None), given.pop("out", None), given.pop("where", True)
    if "correction" in given and given.get("ddof", 0) != 0:
        function(array.stand_in(), axis=axis, **given)  # NumPy raises
    ddof = given.pop("ddof", 0)
    ddof = given.pop("correction", ddof)
    if not _is_usual(array, axis, out, where, ddof) or "mean" in given:
        return None
    return _Arguments(array, axis, out, where, ddof, given)


def _place_like(out: Any, shape: tuple[int, ...]) -> Array:
    """An array with the dtype and writeable flag of `out`, so that NumPy raises for it before anything is read."""
    place = np.empty(shape, out.dtype)
    place.flags.writeable = out.flags.writeable
    return place


def _is_usual(array: ArrayBase, axis: Any, out: Any, where: Any, ddof: Any) -> bool:
    """Whether the array is numeric, and the arguments have the types that NumPy documents."""
    has_numbers = array.dtype.isbuiltin == 2 or array.dtype.kind not in "SUV"
    is_axis = axis is None or isinstance(axis, int | np.integer) or (isinstance(axis, tuple) and bool(axis))
    is_place = out is None or isinstance(out, np.ndarray | ArrayBase)
    return has_numbers and is_axis and is_place and _fits(where, array.shape) and isinstance(ddof, (int, float))


def _kept(shape: tuple[int, ...], axes: Axes, *, keepdims: Any = False) -> tuple[int, ...]:
    """The shape of the result: without the reduced axes, or with `keepdims` of size 1."""
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def _fits(where: Any, shape: tuple[int, ...]) -> bool:
    """Whether `where` is boolean and broadcasts to the shape."""
    if where is True:
        return True
    mask = where if isinstance(where, ArrayBase) else np.asarray(where)
    return mask.dtype == np.bool_ and broadcasts(mask.shape, shape)


def _work(asked: np.dtype[Any] | None, given: np.dtype[Any], result: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which elements are added; None if NumPy must be called instead."""
    wanted = result if asked is None else asked
    if given.kind == "c":
        if wanted.kind == "c":
            return wanted.newbyteorder("=")
        return np.dtype(given.type) if asked is None else None  # a variance: the result is real
    if wanted.kind in "iub":
        return wanted if given.kind in "iub" else None
    return wide_sums.wide(wanted) or (wanted.newbyteorder("=") if is_builtin(wanted) else None)


# --- implementations --------------------------------------------------------------------------------------------------

_SUMMED = partial(combined, ufunc=np.add)


def _sum_of(call: ReductionCall, *, skip: bool = False) -> Array:
    _, total = call.added(block_sum, _SUMMED, skip=skip)
    return total if call.initial is None else np.add(np.asarray(call.initial, call.work), total)


def _mean_of(call: ReductionCall, *, skip: bool = False) -> Array:
    count, total = call.added(block_sum, _SUMMED, skip=skip)
    if not np.all(count):
        warn("Mean of empty slice", RuntimeWarning)
    if not skip:
        return np.true_divide(total, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.true_divide(total, count)


def _var_of(call: ReductionCall, *, skip: bool = False) -> Array:
    count, mean, _, squares = call.added(block_moments, merged_moments, skip=skip)
    if np.any(lost := np.isinf(mean) & np.isnan(squares)):
        np.subtract(mean[lost], mean[lost])  # to have NumPy warn of inf - inf, as for infinite elements less their mean
    freedom = count - call.ddof
    if np.any(freedom <= 0):
        warn("Degrees of freedom <= 0 for slice" + "." * skip, RuntimeWarning)
    if not skip:
        return np.true_divide(squares, np.maximum(freedom, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(freedom <= 0, np.nan, np.true_divide(squares, freedom))


def _extreme_of(call: ReductionCall, *, ufunc: np.ufunc) -> Array:
    start = partial(block_extreme, ufunc=ufunc, initial=call.initial)
    # If some axes are kept, NumPy compares its own dtypes twice as fast in whole rows as in pieces of tiles.
    in_rows = len(call.axes) < call.array.ndim and is_builtin(call.array.dtype)
    return call.reduced(Reduction(start, partial(combined, ufunc=ufunc), in_order=in_rows))[0]


def _extreme_number_of(call: ReductionCall, *, ufunc: np.ufunc) -> Array:
    found = _extreme_of(call, ufunc=ufunc)
    if np.any(found != found):
        warn("All-NaN slice encountered", RuntimeWarning)
    return found


def _place_of(call: ReductionCall, *, function: Any, better: np.ufunc) -> Array:
    start = partial(block_place, function=function, shape=call.array.shape)
    combine = partial(first_place, better=better)
    if len(call.axes) < call.array.ndim:
        return call.reduced(Reduction(start, combine, in_order=True))[1]
    best: list[Any] = []

    def matters(values: Array) -> bool:
        """Whether the extreme may be among these values; only then is its index computed."""
        # In memory order, because NumPy would copy otherwise. Dtypes of ml_dtypes have no fast maximum, but `function`.
        line = blocks.in_memory_order(values)
        own = line[function(line)]
        with np.errstate(invalid="ignore"):
            is_best = not best or own != own or not better(best[0], own)
        if is_best:
            best[:] = [own]
        return is_best

    return call.reduced(Reduction(start, combine, matters=matters, in_order=True))[1]


def _truth_of(call: ReductionCall, *, ufunc: np.ufunc) -> Array:
    start = partial(block_extreme, ufunc=ufunc, initial=None)
    decisive = ufunc is np.logical_or
    return call.reduced(Reduction(start, partial(combined, ufunc=ufunc), lambda s: bool(s[0].all()) is decisive))[0]


def _count_of(call: ReductionCall, *, predicate: Callable[[Array], Array] | None = None) -> Array:
    def start(values: Array, where: Any, box: Box, axes: Axes) -> Partial:
        found = values if predicate is None else _truths_of(predicate, values)
        if len(axes) == values.ndim:
            # With an axis argument, NumPy would convert to booleans first.
            return (np.full((1,) * values.ndim, np.count_nonzero(blocks.in_memory_order(found))),)
        return (np.asarray(np.count_nonzero(found, axis=axes, keepdims=True)),)

    return call.reduced(Reduction(start, _SUMMED))[0]


#: For dtypes without NaN, NumPy calls these instead, which have other warnings.
_OF_NUMBERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.nanmean: np.mean,
    np.nanvar: np.var,
    np.nanstd: np.std,
}
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
    np.std: lambda call: np.sqrt(_var_of(call)),
    np.nanstd: lambda call: np.sqrt(_var_of(call, skip=True)),
    np.max: partial(_extreme_of, ufunc=np.maximum),
    np.amax: partial(_extreme_of, ufunc=np.maximum),
    np.min: partial(_extreme_of, ufunc=np.minimum),
    np.amin: partial(_extreme_of, ufunc=np.minimum),
    np.nanmax: partial(_extreme_number_of, ufunc=np.fmax),
    np.nanmin: partial(_extreme_number_of, ufunc=np.fmin),
    np.ptp: lambda call: _extreme_of(call, ufunc=np.maximum) - _extreme_of(call, ufunc=np.minimum),
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


def _truths_of(predicate: Callable[[Array], Array], values: Array) -> Array:
    """The result of a predicate for each element; ValueError if the result has another shape."""
    found = np.asarray(predicate(values))
    if found.shape != values.shape:
        raise ValueError(
            f"a truth value for each element is counted: of {values.shape} the function made {found.shape}"
        )
    return found


def count(array: ArrayBase, predicate: Callable[[Array], Array], axis: Any = None) -> Any:
    """`LayoutArray.count`."""
    check_function(predicate, "predicate")
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim)
    if not streams(array):
        return np.count_nonzero(_truths_of(predicate, np.asarray(array)), axis=axis)
    call = ReductionCall(array, axes, np.dtype(np.intp), True, None, 0)
    found = _count_of(call, predicate=predicate)
    kept = _kept(array.shape, axes)
    return found.reshape(kept) if kept else int(found.reshape(())[()])
