"""Sums, products and means of dtypes that are too narrow to add in.

NumPy adds bfloat16, float8 and the other floats of ml_dtypes in their own precision, in which a sum of ones stops at
256, or at 8; also half precision, along every axis but the last. Narrow integers wrap around at 8 or at 2. Here all
such sums are computed in a wide dtype, for any size, axis and layout, and rounded once at the end:

- floats in double precision, rounded to the dtype of NumPy's result;
- integers in 64 bits. The result is of 64 bits, too, or a double for means, as for NumPy's own int8.

This is the only exception to the rule that results are those of NumPy.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from strided.arrays import blocks
from strided.arrays.arguments import arrays_in, with_each
from strided.arrays.base import Array, ArrayBase
from strided.arrays.ufunc_call import UfuncCall
from strided.layout.element_types import is_builtin, known_element_type

Function = Callable[..., Any]

_ARRAYS = (ArrayBase, np.ndarray)
_DOUBLE, _SIGNED, _UNSIGNED = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64)


@cache
def wide(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which values of a narrow dtype are added; None if NumPy's own sums are right.

    >>> from strided.layout.element_types import element_type
    >>> wide(element_type("bf16").dtype), wide(element_type("u4").dtype), wide(np.dtype(np.float32))
    (dtype('float64'), dtype('uint64'), None)
    """
    if dtype.type is np.float16:
        return _DOUBLE
    if is_builtin(dtype) or (found := known_element_type(dtype)) is None:
        return None
    name = found.name
    if name.startswith(("f", "bf")):
        return _DOUBLE
    return {"s": _SIGNED, "u": _UNSIGNED}.get(name[0])


def _is_short_integer(dtype: np.dtype[Any]) -> bool:
    return wide(dtype) in (_SIGNED, _UNSIGNED)


def _are_integers(types: list[np.dtype[Any]]) -> bool:
    return all(t.kind in "iub" or _is_short_integer(t) for t in types)


def summed_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype by whose rules NumPy determines dtypes of sums and means: int64 for narrow integers.

    >>> from strided.layout.element_types import element_type
    >>> summed_as(element_type("s4").dtype), summed_as(np.dtype(np.int8))
    (dtype('int64'), dtype('int8'))
    """
    wider = wide(dtype)
    return wider if wider is not None and _is_short_integer(dtype) else dtype


def rounded(values: Any, dtype: np.dtype[Any]) -> Any:
    """An array or scalar cast to another dtype, rounded once; integers lose their high bits.

    ml_dtypes casts doubles to float32 first, which would round twice. So truncate to float32 and set the last bit if
    the value is inexact (round to odd): this rounds as the double would.
    """
    array = np.asarray(values)
    if array.dtype == _DOUBLE and not is_builtin(dtype) and not _is_short_integer(dtype):
        with np.errstate(all="ignore"):
            single = array.astype(np.float32)
            lost = single != array
            if lost.any():
                beyond = np.abs(single) > np.abs(array)
                pattern = np.atleast_1d(single).view(np.uint32)
                pattern -= np.atleast_1d(beyond)
                pattern |= np.atleast_1d(lost)
                single = pattern.view(np.float32).reshape(array.shape)
            result = single.astype(dtype)
    else:
        result = array.astype(dtype, copy=False)
    return result if isinstance(values, np.ndarray) else result[()]


# --- functions --------------------------------------------------------------------------------------------------------

#: Functions with a parameter `dtype` that determines in which dtype they add.
_BY_DTYPE: set[Function] = {np.sum, np.prod, np.mean, np.cumsum, np.cumprod, np.trace, np.linalg.trace}

#: Functions that get wide copies. (Those that skip NaN would not recognize NaN in dtypes of ml_dtypes.)
_BY_COPY: set[Function] = {
    np.var,
    np.std,
    np.average,
    np.median,
    np.percentile,
    np.quantile,
    np.nansum,
    np.nanprod,
    np.nancumsum,
    np.nancumprod,
    np.nanmean,
    np.nanvar,
    np.nanstd,
    np.nanmedian,
    np.nanpercentile,
    np.nanquantile,
    np.nanargmax,
    np.nanargmin,
    np.trapezoid,
    np.linalg.norm,
    np.linalg.vector_norm,
    np.linalg.matrix_norm,
}

#: Functions that add products: they also get wide copies, unless NumPy uses a wider dtype itself.
_PRODUCTS: set[Function] = {
    np.dot,
    np.vdot,
    np.inner,
    np.tensordot,
    np.einsum,
    np.convolve,
    np.correlate,
    np.linalg.multi_dot,
    np.linalg.tensordot,
    np.linalg.matmul,
    np.linalg.vecdot,
}

if hasattr(np, "cumulative_sum"):
    _BY_DTYPE |= {np.cumulative_sum, np.cumulative_prod}

#: Those with two operands.
_OF_TWO = _PRODUCTS - {np.einsum, np.linalg.multi_dot}

#: Their parameters that are operands. (multi_dot has a list of operands, einsum a tuple that includes subscripts.)
_OPERANDS = {"a", "b", "v", "x1", "x2"}

#: Parameters that are indices or sizes, not values.
_PLACES = {"axis", "axes", "q", "offset", "axis1", "axis2"}

#: Parameters that do not affect the dtype, and values with which a call with one element does not warn.
_WITHOUT_MEANING = {"ddof": 0, "correction": 0}


def of_function(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of NumPy's functions, summed in a wide dtype; NotImplemented if NumPy must be called instead.

    NumPy is called with arrays of one element for the dtype of the result and to check arguments.
    """
    if not _may_add_wide(function, args, kwargs):
        return NotImplemented
    given = _bound(function, args, kwargs)
    if given is None:
        return NotImplemented
    if function in _PRODUCTS:
        given = _with_arrays(given)
    out, dtype = given.pop("out", None), _dtype(given.get("dtype"))
    types = [x.dtype for name, value in given.items() if name not in _PLACES for x in arrays_in(value, _ARRAYS)]
    if not any(map(wide, types)) and (dtype is None or wide(dtype) is None):
        return NotImplemented
    if function in _BY_DTYPE and _is_other_type(dtype):
        return NotImplemented
    call = _FunctionCall(function, given, types)
    if function is np.einsum and len(types) == 1 and out is None and call.is_view():
        return NotImplemented  # a view adds nothing
    try:
        example = call.example(out)
    except Exception:
        return NotImplemented  # NumPy raises
    kinds = [wide(t) for t in _types(example)]
    if function in _PRODUCTS and not any(kinds) and not (call.is_whole() and any(map(_is_short_integer, types))):
        return NotImplemented  # NumPy adds in the dtype of the result
    if function in _BY_DTYPE:
        result = call.of(_read_if_small, {"dtype": kinds[0] or np.asarray(example).dtype})
    else:
        in_doubles = not call.is_whole() or (function in _OF_TWO and out is None and _are_exact_in_doubles(types))
        copied = partial(call.copied, in_doubles=in_doubles)
        result = call.of(copied, {} if dtype is None else {"dtype": wide(dtype) or dtype})
    return delivered(result, example, out)


def _may_add_wide(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function may add values of narrow dtypes: a quick check before binding arguments."""
    if function not in _BY_DTYPE and function not in _BY_COPY and function not in _PRODUCTS:
        return False
    if not any(map(_may_be_wide, args)) and not any(map(_may_be_wide, kwargs.values())):
        return False
    return function not in _BY_DTYPE or not _is_other_type(kwargs.get("dtype"))  # otherwise NumPy adds in that dtype


class _FunctionCall(NamedTuple):
    """A call of one of NumPy's functions that adds.

    Attributes
    ----------
    function : callable
    given : dict
        Its arguments by name, without `out`.
    types : list of numpy.dtype
        Dtypes of the arrays among its arguments.
    """

    function: Function
    given: dict[str, Any]
    types: list[np.dtype[Any]]

    def of(self, change: Callable[[Any], Any], more: dict[str, Any]) -> Any:
        """The function's result with `change` applied to all arrays, and with additional arguments."""
        changed = {k: v if k in _PLACES else with_each(v, change, _ARRAYS) for k, v in self.given.items()}
        return _called(self.function, {**changed, **more})

    def is_whole(self) -> bool:
        """Whether all arrays are integers."""
        return _are_integers(self.types)

    def example(self, out: Any) -> Any:
        """The function's result for arrays of one element, which has the right dtypes. Raises what NumPy raises."""
        harmless = {k: v for k, v in _WITHOUT_MEANING.items() if k in self.given}
        found = self.of(self._one, harmless)
        if out is not None:
            self.of(self._one, {**harmless, "out": np.empty(np.shape(found), out.dtype)})
        return found

    def is_view(self) -> bool:
        """Whether the function returns a view of its only array."""
        with contextlib.suppress(Exception):  # NumPy cannot add these dtypes
            return not self.of(_small, {}).flags.owndata
        return False

    def copied(self, x: Any, *, in_doubles: bool) -> Any:
        """A wide copy of an array of a narrow dtype; other arrays unchanged."""
        if wide(x.dtype) is None:
            return x
        values = x._values() if isinstance(x, ArrayBase) else x
        return values.astype(_DOUBLE if in_doubles else self._in_64_bits(x.dtype))

    def _one(self, x: Any) -> Array:
        return np.ones((1,) * x.ndim, self._in_64_bits(x.dtype) if self.is_whole() else x.dtype)

    def _in_64_bits(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return _common(self.types) if self.function in _PRODUCTS and _is_short_integer(dtype) else summed_as(dtype)


def _small(x: Any) -> Array:
    """Zeros of the same dtype, with sizes of at most 2."""
    return np.zeros([min(n, 2) for n in x.shape], x.dtype)


def _with_arrays(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a product with all operands as arrays: numbers and lists affect the result's dtype, too."""
    found = {name: _as_array(x) if name in _OPERANDS else x for name, x in given.items()}
    if isinstance(several := given.get("arrays"), (list, tuple)):
        found["arrays"] = [*map(_as_array, several)]
    first, *rest = given.get("operands", (None,))
    if isinstance(first, str):  # otherwise einsum's operands include lists of subscripts
        found["operands"] = (first, *map(_as_array, rest))
    return found


def _as_array(x: Any) -> Any:
    return x if isinstance(x, _ARRAYS) else np.asarray(x)


def _read_if_small(x: Any) -> Any:
    """The values of a small array, so that it is converted once; larger ones unchanged, for reading block by block."""
    return x._values() if isinstance(x, ArrayBase) and x.nbytes <= blocks.BLOCK_BYTES else x


def delivered(result: Any, example: Any, out: Any) -> Any:
    """A wide result cast to the dtype of an example, or written to `out`; NotImplemented if `out` does not fit."""
    if out is not None:
        if np.shape(result) != out.shape or not out.flags.writeable:
            return NotImplemented
        np.copyto(out, rounded(result, out.dtype), casting="unsafe")
        return out
    if isinstance(example, (tuple, list)):
        return type(example)(delivered(r, e, None) for r, e in zip(result, example, strict=True))
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    return rounded(result, np.asarray(example).dtype)


def _may_be_wide(x: Any) -> bool:
    """Whether an argument is or contains an array of a narrow dtype, or may name such a dtype."""
    if isinstance(x, _ARRAYS):
        return wide(x.dtype) is not None
    if type(x) in (list, tuple, dict):
        return any(map(_may_be_wide, x.values() if type(x) is dict else x))
    return x is not None and x is not np._NoValue and not isinstance(x, (int, float, complex, np.number))


def _is_other_type(asked: Any) -> bool:
    """Whether a dtype is given in which NumPy's own sums are right."""
    dtype = _dtype(asked)
    return dtype is not None and wide(dtype) is None


def _bound(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of one of NumPy's functions by name; None if they do not match its signature."""
    named = _names(function)
    if named is not None and len(args) <= len(named.by_place):
        # The same as `bind`, in a fifth of the time.
        given = dict(zip(named.by_place, args, strict=False))
        if given.keys().isdisjoint(kwargs) and named.all >= kwargs.keys():
            given.update(kwargs)
            return given if named.needed <= given.keys() else None
    try:
        return signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return None


def _called(function: Function, given: dict[str, Any]) -> Any:
    """Call one of NumPy's functions with arguments by name; positional where possible, as some accept no names."""
    named = _names(function)
    if named is not None:
        rest = dict(given)
        places = [rest.pop(name) for name in itertools.takewhile(given.__contains__, named.by_place)]
        return function(*places, **rest)
    again = inspect.BoundArguments(signature(function), given)
    return function(*again.args, **again.kwargs)


class _Names(NamedTuple):
    """Names of parameters: those that may be positional, all, and those without a default."""

    by_place: tuple[str, ...]
    all: frozenset[str]
    needed: frozenset[str]


@cache
def _names(function: Function) -> _Names | None:
    """The names of the parameters of one of NumPy's functions; None if one is positional-only or variadic."""
    parameters = signature(function).parameters.values()
    either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    if any(p.kind not in (either, by_name) for p in parameters):
        return None
    needed = (p.name for p in parameters if p.default is inspect.Parameter.empty)
    by_place = tuple(p.name for p in parameters if p.kind is either)
    return _Names(by_place, frozenset(p.name for p in parameters), frozenset(needed))


@cache
def signature(function: Function) -> inspect.Signature:
    """The signature of one of NumPy's functions."""
    try:
        return inspect.signature(function)
    except ValueError:  # older NumPy releases have no signatures for products written in C
        out = [inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)]
        operands = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in "ab"]
        return inspect.Signature(operands + (out if function is np.dot else []))


def _dtype(asked: Any) -> np.dtype[Any] | None:
    try:
        return None if asked is None or asked is np._NoValue else np.dtype(asked)
    except TypeError:
        return None


def _types(example: Any) -> list[np.dtype[Any]]:
    parts = example if isinstance(example, (tuple, list)) else [example]
    return [np.asarray(x).dtype for x in parts]


def _are_exact_in_doubles(types: list[np.dtype[Any]]) -> bool:
    """Whether sums of products of such integers are exact in doubles: with 8 bits, for any number that fits in memory.

    BLAS multiplies doubles many times as fast as NumPy multiplies integers.
    """
    return all(t.itemsize == 1 for t in types)


def _common(types: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The 64-bit integer dtype for these dtypes: unsigned if all of them are."""
    return _UNSIGNED if all(t.kind in "ub" or wide(t) is _UNSIGNED for t in types) else _SIGNED


# --- universal functions ----------------------------------------------------------------------------------------------

#: Functions whose methods, such as `reduce`, round at every step.
_ADDING = {np.add, np.subtract, np.multiply, np.divide, np.hypot, np.logaddexp, np.logaddexp2}

_MATRIX_PRODUCTS = {f for f in (getattr(np, n, None) for n in ("matmul", "vecdot", "matvec", "vecmat")) if f}


def of_ufunc(call: UfuncCall) -> Any:
    """The result of a ufunc's method, summed in a wide dtype; NotImplemented if NumPy must be called instead."""
    if call.method == "__call__" and call.ufunc in _MATRIX_PRODUCTS:
        return _product(call.ufunc, call.inputs, call.kwargs)
    if call.method not in ("reduce", "accumulate", "reduceat") or call.ufunc not in _ADDING:
        return NotImplemented
    array, dtype = call.inputs[0], _dtype(call.kwargs.get("dtype"))
    if not isinstance(array, ArrayBase) or not (wide(array.dtype) or (dtype is not None and wide(dtype))):
        return NotImplemented
    if dtype is not None and wide(dtype) is None:
        return NotImplemented
    asked = summed_as(array.dtype) if call.ufunc in (np.add, np.multiply) else array.dtype
    (out,) = call.outs or (None,)
    try:
        example = _ufunc_example(call, asked, out)
    except Exception:
        return NotImplemented  # NumPy raises
    natural = np.asarray(example).dtype
    if wide(natural) is None and asked == array.dtype:
        return NotImplemented
    options = {**call.kwargs, "dtype": wide(natural) or natural}
    options.pop("out", None)
    return delivered(call.of(call.inputs, options), example, out)


def _ufunc_example(call: UfuncCall, asked: np.dtype[Any], out: Any) -> Any:
    """A method's result for an array of one element, which has the right dtype. Raises what NumPy raises."""
    one: list[Any] = [np.ones((1,) * call.inputs[0].ndim, asked)]
    if call.method == "reduceat":
        one.append(np.array([0]))
    plain = {name: value for name, value in call.kwargs.items() if name not in ("out", "where", "initial")}
    found = call.of(one, plain)
    if out is not None:
        call.of(one, {**plain, "out": np.empty(np.shape(found), out.dtype)})
    return found


def _product(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A matrix product of integers, in 64 bits. (NumPy adds products of narrow floats in single precision.)"""
    if not any(_is_short_integer(x.dtype) for x in inputs if isinstance(x, _ARRAYS)) or kwargs.get("dtype") is not None:
        return NotImplemented
    operands = [_as_array(x) for x in inputs]
    types = [x.dtype for x in operands]
    if not _are_integers(types) or not all(x.ndim for x in operands):
        return NotImplemented  # also for scalars, for which NumPy raises
    common = _common(types)
    values = [x._values() if isinstance(x, ArrayBase) else x for x in operands]
    if not kwargs and _are_exact_in_doubles(types):
        return ufunc(*(v.astype(_DOUBLE) for v in values)).astype(common)
    return ufunc(*(v.astype(common) if _is_short_integer(v.dtype) else v for v in values), **kwargs)
