"""NumPy's functions for layout arrays: ``np.func(a)`` returns what ``np.func(np.asarray(a))`` returns.

Functions that return views return views of the layout array; functions of shape and dtype convert nothing; large
reductions and comparisons go block by block; gathers read only what they need; and what NumPy writes to an argument
reaches the buffer. All other functions get converted arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.lib.stride_tricks import as_strided

from strided.arrays import blocks, deferral, overlap, reductions, wide_sums
from strided.arrays.arguments import Arguments, is_writeable, with_each
from strided.arrays.base import ArrayBase, in_row_major
from strided.arrays.formatting import corners, needs_line
from strided.arrays.inplace_functions import INPLACE_FUNCTIONS
from strided.arrays.joining import JOINING_FUNCTIONS

Function = Callable[..., Any]


def call(function: Function, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one of NumPy's functions.

    Arguments with an ``__array_function__`` of their own are asked first. If they return NotImplemented, they get
    ndarrays instead of our arrays.
    """
    if not all(issubclass(t, (ArrayBase, np.ndarray)) for t in types):
        foreign = deferral.with_protocol(_relevant(args, kwargs), "__array_function__")
        answer = deferral.ask(foreign, lambda x: x.__array_function__(function, types, args, kwargs))
        return _converted(function, args, kwargs) if answer is NotImplemented else answer
    for implementation in (reductions.stream, wide_sums.of_function):
        result = implementation(function, args, kwargs)
        if result is not NotImplemented:
            return result
    own = _OWN.get(function)
    if own is not None:
        first, rest, named = _first(function, args, kwargs)
        alone = isinstance(first, ArrayBase) and not any(isinstance(x, ArrayBase) for x in (*rest, *named.values()))
        if alone or function in _OF_SEVERAL:
            result = own(first, *rest, **named)
            if result is not NotImplemented:
                return result
    return _converted(function, args, kwargs)


def _converted(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function with converted arrays; what it writes to them is written back to the buffers."""
    is_inplace = function in INPLACE_FUNCTIONS
    first, rest, options = _first(function, args, kwargs) if is_inplace else (None, (), {})
    if isinstance(first, ArrayBase) and not first.flags.writeable:
        return function(first.stand_in(), *rest, **options)  # NumPy raises, whatever the values
    out = _out(function, args, kwargs)
    if _is_read_only(out):
        # NumPy raises, whatever the values, so nothing need be converted.
        function(*with_each(args, ArrayBase.stand_in), **with_each(kwargs, ArrayBase.stand_in))
    writes = is_inplace or out is not None
    calls_back = any(map(_is_function, (*args, *kwargs.values())))
    operands = Arguments(
        args,
        kwargs,
        # What a callback wrote to a copy would be lost, so copies are read-only.
        may_write=lambda x: writes or not calls_back or x.is_strided,
        in_part=out is None and (is_inplace or function is np.nan_to_num),
    )
    given, named = operands.to_ndarray(args), operands.to_ndarray(kwargs)
    if writes or calls_back:
        operands.mark_dirty()
    try:
        result = function(*given, **named)
    except BaseException:
        operands.mark_dirty()
        # As in NumPy, what was written before the error stays.
        operands.write_back(*filter(is_writeable, (first, out)))
        raise
    operands.mark_dirty(result)
    returned = operands.from_ndarray(result)
    written = [first, *(out if isinstance(out, tuple) else [out])]
    if returned is not result:
        written.append(returned)  # it may be a positional `out` of a function without a signature
    if function is np.nan_to_num and False in (*args[1:2], kwargs.get("copy")):
        written.append(_first(function, args, kwargs)[0])
    operands.write_back(*filter(is_writeable, written))
    operands.protect(returned)
    return returned


def _out(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument `out`, by name or position; None if there is none."""
    if "out" in kwargs:
        return kwargs["out"]
    place = _place_of_out(function) if len(args) > 1 else None
    return args[place] if place is not None and place < len(args) else None


@cache
def _place_of_out(function: Function) -> int | None:
    """The position of the parameter `out`, which is never the first; None if it is keyword-only or missing."""
    by_name = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY
    names = [p.name for p in wide_sums.signature(function).parameters.values() if p.kind not in by_name]
    return names.index("out") if "out" in names else None


def _is_read_only(x: Any) -> bool:
    return isinstance(x, (ArrayBase, np.ndarray)) and not x.flags.writeable


def _relevant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and the items of lists and tuples among them."""
    for x in (*args, *kwargs.values()):
        yield from (x if type(x) in (list, tuple) else (x,))


def _is_function(x: Any) -> bool:
    return callable(x) and not isinstance(x, type)


def _first(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """The first argument, by position or name, and the others."""
    if args:
        return args[0], args[1:], kwargs
    rest = dict(kwargs)
    return rest.pop(next(iter(wide_sums.signature(function).parameters)), None), (), rest


# --- views ------------------------------------------------------------------------------------------------------------


def _rearranging(function: Function) -> Function:
    """Implements a function that moves, flips, adds or drops axes."""

    def own(x: ArrayBase, *rest: Any, **named: Any) -> Any:
        if not x.ndim and function in (np.flip, np.fliplr, np.flipud):
            function(x.stand_in(), *rest, **named)
            return x[()]
        return x._rearranged(lambda stand_in: function(stand_in, *rest, **named))

    return own


def _at_least(function: Function) -> Function:
    """Implements a function that adds axes to each of its arguments."""
    one = _rearranging(function)

    def own(x: Any, *rest: Any) -> Any:
        return tuple(map(function, (x, *rest))) if rest else one(x)

    return own


def _method(name: str, **fixed: Any) -> Function:
    """Implements a function by the array's method."""

    return lambda x, *rest, **named: getattr(x, name)(*rest, **fixed, **named)


def _diag(x: Any, k: int = 0) -> Any:
    return x.diagonal(k) if x.ndim == 2 else NotImplemented


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    stand_ins = [x.stand_in() if isinstance(x, ArrayBase) else x for x in arrays]
    spread = np.broadcast_arrays(*stand_ins, subok=subok)
    # As NumPy's, the result is writeable if the array is.
    found = [
        (x if x.shape == s.shape else x._with_map(x._map.broadcast_to(s.shape))) if isinstance(x, ArrayBase) else s
        for x, s in zip(arrays, spread, strict=True)
    ]
    return tuple(found) if isinstance(spread, tuple) else found


def _splitting(function: Function, default: Any) -> Function:
    """Implements a function that splits an array into views along an axis."""

    def own(x: Any, indices_or_sections: Any, *by_place: Any, **by_name: Any) -> Any:
        # Split a one-dimensional stand-in of one-byte strides; addresses in it give the indices.
        function(x.stand_in(), indices_or_sections, *by_place, **by_name)
        (axis,) = by_place or by_name.values() or [default(x)]
        along = normalize_axis_index(axis, x.ndim)
        line = as_strided(np.zeros(1, np.int8), x.shape[along : along + 1], (1,))
        start = line.ctypes.data
        cut = np.array_split if function is np.array_split else np.split
        front = (slice(None),) * along
        parts = cut(line, indices_or_sections)
        return [x[(*front, slice(p.ctypes.data - start, p.ctypes.data - start + p.size))] for p in parts]

    return own


def _unstack(x: Any, *, axis: int = 0) -> Any:
    return tuple(_OWN[np.moveaxis](x, axis, 0)) if x.ndim else NotImplemented


# --- functions that need no values ------------------------------------------------------------------------------------


def _asking(function: Function) -> Function:
    """Implements a function that needs only shapes and dtypes."""

    def own(*args: Any, **named: Any) -> Any:
        if any(isinstance(x, (list, tuple)) for x in args):
            return NotImplemented
        return function(*map(_without_values, args), **{name: _without_values(x) for name, x in named.items()})

    return own


def _without_values(x: Any) -> Any:
    if isinstance(x, ArrayBase):
        return x._as_strided() if x.is_strided else x.stand_in()
    return x


def _alike(function: Function) -> Function:
    """Implements a function that makes a new array with the shape and dtype of its first argument."""
    return lambda x, *rest, **named: function(_without_values(x), *rest, **named)


# --- functions that read a part, or block by block --------------------------------------------------------------------


def _take(x: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    places = np.asarray(indices)
    if out is not None or mode != "raise" or places.dtype.kind not in "iu" or x.flags.c_contiguous or not x.ndim:
        return NotImplemented
    np.empty((1,) * x.ndim).take(np.empty(0, np.intp), axis)  # raises for an invalid axis
    try:
        if axis is None:
            return x.flat[places] if places.ndim else x.flat[int(places)]
        along = normalize_axis_index(axis, x.ndim)
        return in_row_major(np.asarray(x[(*(slice(None),) * along, places)]))[()]
    except IndexError:
        return np.take(x.stand_in(), places, axis)


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    np.may_share_memory(0, 0, max_work)
    return overlap.may_share(overlap.as_memory(a), overlap.as_memory(b))


def _shares_memory(a: Any, b: Any, max_work: Any = -1) -> Any:
    np.shares_memory(0, 0, max_work)
    return overlap.share(overlap.as_memory(a), overlap.as_memory(b), max_work)


def _comparing(function: Function) -> Function:
    """Implements a comparison of whole arrays: block by block for large ones, up to the first difference."""

    def own(*given: Any, **named: Any) -> Any:
        if len(given) < 2:  # passed by name, and the functions' parameter names differ
            return NotImplemented
        a, b, *rest = given
        if not (reductions.streams(a) or reductions.streams(b)) or any(map(np.ndim, (*rest, *named.values()))):
            return NotImplemented
        if not all(isinstance(x, ArrayBase) or deferral.is_ndarray(x) for x in (a, b)) or a.shape != b.shape:
            return NotImplemented
        readers = [blocks.reader_of(x, a.shape) for x in (a, b)]
        leader = a if isinstance(a, ArrayBase) else b
        for box in blocks.tile_boxes(leader.address_map, leader.itemsize):
            if not function(*(read(box) for read in readers), *rest, **named):
                return False
        return True

    return own


def _text(function: Function) -> Function:
    def own(x: Any, *rest: Any, **named: Any) -> Any:
        if not reductions.streams(x) or rest or named:
            return NotImplemented
        values, threshold = corners(x)
        options: Any = np.get_printoptions()
        # NumPy resets these two when other options are set.
        kept = {name: options[name] for name in ("formatter", "override_repr") if name in options}
        with np.printoptions(threshold=threshold, **kept):
            text = function(values)
        return _with_shape(text, values.shape, x.shape) if function is np.array_repr else text

    return own


def _with_shape(text: str, shown: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The text of `np.array_repr` for an array, made from its text for the corners."""
    values, found, rest = text.rpartition(f"shape={shown}")
    if not found:
        return text
    values, extra = values.rstrip(), f"shape={shape}{rest}"
    return f"{values}\n{' ' * (text.index('(') + 1)}{extra}" if needs_line(values, extra) else f"{values} {extra}"


#: Functions that return views: nothing is read.
VIEWS: dict[Function, Function] = {
    **{
        f: _rearranging(f)
        for f in (
            np.transpose,
            np.permute_dims,
            np.swapaxes,
            np.moveaxis,
            np.rollaxis,
            np.squeeze,
            np.matrix_transpose,
            np.linalg.matrix_transpose,
            np.flip,
            np.fliplr,
            np.flipud,
            np.rot90,
        )
    },
    **{f: _at_least(f) for f in (np.atleast_1d, np.atleast_2d, np.atleast_3d)},
    np.expand_dims: _method("expand_dims"),
    np.broadcast_to: lambda x, shape, subok=False: x.broadcast_to(shape),
    np.broadcast_arrays: _broadcast_arrays,
    np.reshape: lambda x, shape, order="C", *, copy=None: x.reshape(shape, order=order, copy=copy),
    np.ravel: _method("ravel"),
    np.diagonal: _method("diagonal"),
    np.linalg.diagonal: _method("diagonal", axis1=-2, axis2=-1),
    np.diag: _diag,
    np.real: lambda x: x.real,
    np.imag: lambda x: x.imag,
    np.array_split: _splitting(np.array_split, lambda x: 0),
    np.split: _splitting(np.split, lambda x: 0),
    np.hsplit: _splitting(np.hsplit, lambda x: 0 if x.ndim == 1 else 1),
    np.vsplit: _splitting(np.vsplit, lambda x: 0),
    np.dsplit: _splitting(np.dsplit, lambda x: 2),
}
if hasattr(np, "unstack"):
    VIEWS[np.unstack] = _unstack

#: Functions of shapes, dtypes and addresses: nothing is read.
QUESTIONS: dict[Function, Function] = {
    **{
        f: _asking(f)
        for f in (
            np.shape,
            np.ndim,
            np.size,
            np.iscomplexobj,
            np.isrealobj,
            np.result_type,
            np.can_cast,
            np.common_type,
            np.diag_indices_from,
            np.tril_indices_from,
            np.triu_indices_from,
        )
    },
    **{f: _alike(f) for f in (np.empty_like, np.zeros_like, np.ones_like, np.full_like)},
    np.may_share_memory: _may_share_memory,
    np.shares_memory: _shares_memory,
}

#: Functions that read a large array in part, or block by block.
IN_PART: dict[Function, Function] = {
    np.take: _take,
    np.array_equal: _comparing(np.array_equal),
    np.allclose: _comparing(np.allclose),
    **{f: _text(f) for f in (np.array2string, np.array_repr, np.array_str)},
}


_OWN = {**VIEWS, **QUESTIONS, **IN_PART, **JOINING_FUNCTIONS, **INPLACE_FUNCTIONS}

#: Functions whose implementation takes several layout arrays.
_OF_SEVERAL = {
    *INPLACE_FUNCTIONS,
    *JOINING_FUNCTIONS,
    np.allclose,
    np.array_equal,
    np.atleast_1d,
    np.atleast_2d,
    np.atleast_3d,
    np.broadcast_arrays,
    np.can_cast,
    np.common_type,
    np.may_share_memory,
    np.result_type,
    np.shares_memory,
}
