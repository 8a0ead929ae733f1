"""NumPy's protocol of universal functions, ``__array_ufunc__``, for layout arrays.

NumPy computes; the results are ndarrays, as if the arrays had been converted first. Reductions and elementwise
functions process large arrays block by block. ``out=`` may be a layout array: results are written to its buffer.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any

import numpy as np

from strided.arrays import deferral, reductions, wide_sums
from strided.arrays.arguments import Arguments, is_writeable
from strided.arrays.base import ArrayBase
from strided.arrays.block_ufuncs import in_blocks
from strided.arrays.classify import Mask, Outer, Points, indexed
from strided.arrays.ufunc_call import AFTERWARDS, UfuncCall, errs_with_gaps, is_refused_write
from strided.runtime import limits
from strided.transfer import copy as transfer

#: ``at`` reads and writes only the selected elements if they are at most one in this many: sorting more takes longer
#: than a conversion.
_FEW = 16


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a universal function's method.

    Arguments with an ``__array_ufunc__`` of their own are asked first. If they return NotImplemented, they get ndarrays
    instead of our arrays.
    """
    outs: Any = kwargs.get("out", ())
    if not isinstance(outs, tuple):  # as Numba passes it
        outs = (outs,)
        kwargs = {**kwargs, "out": outs}
    if method == "reduce" and outs:
        _refuse_unfinished(sys._getframe(2))
    ufunc_call = UfuncCall(ufunc, method, inputs, outs, kwargs)
    foreign = deferral.with_protocol((*inputs, *outs), "__array_ufunc__")
    if foreign:
        answer = deferral.ask(foreign, lambda x: x.__array_ufunc__(ufunc, method, *inputs, **kwargs))
        return _converted(ufunc_call) if answer is NotImplemented else answer
    for implementation in (_reduced, wide_sums.of_ufunc, in_blocks):
        found = implementation(ufunc_call)
        if found is not NotImplemented:
            return found
    return _converted(ufunc_call)


def _refuse_unfinished(caller: FrameType) -> None:
    """Raise TypeError if this call is the first step of ``ndarray.mean``, ``var`` or ``std``.

    Their next step is for ndarrays only, and would leave the sum in an `out` that is a layout array.
    """
    if caller.f_code.co_name in ("_mean", "_var") and caller.f_globals.get("__name__") == "numpy._core._methods":
        raise TypeError(
            "methods of an ndarray write no mean, var or std to an array in a layout: np.mean(x, out=a) does"
        )


def _reduced(call: UfuncCall) -> Any:
    """A reduction of a large array, block by block; NotImplemented for any other call."""
    if call.method != "reduce" or call.ufunc not in reductions.OF_UFUNC:
        return NotImplemented
    options = {"axis": 0, **call.kwargs}
    if call.outs:
        options["out"] = call.outs[0]
    return reductions.stream(reductions.OF_UFUNC[call.ufunc], call.inputs, options)


def _converted(call: UfuncCall) -> Any:
    """Call a universal function's method with converted arrays; what it writes is written back to the buffers."""
    if call.method == "at":
        _refuse_read_only(call)
        if _at_few(call.ufunc, *call.inputs):
            return None
    written = call.written
    operands = Arguments(
        call.inputs,
        call.kwargs,
        may_write=lambda array: any(array is x for x in written),
        in_part=call.method == "at" or call.kwargs.get("where", True) is not True,
    )
    given, options = operands.to_ndarray(call.inputs), operands.to_ndarray(call.kwargs)
    if written:
        operands.mark_dirty()
    try:
        result = _called(call, given, options)
    except Exception as error:
        if is_refused_write(error) and any(is_writeable(x) and not any(x is y for y in written) for x in call.inputs):
            return _writing_to_inputs(call)
        # As in NumPy, what was computed before the error stays. (`at` may leave arbitrary values.)
        if call.method != "at" or isinstance(error, AFTERWARDS):
            operands.write_back(*filter(is_writeable, written))
        raise
    operands.write_back(*written)
    return operands.from_ndarray(result) if call.outs else result


def _refuse_read_only(call: UfuncCall) -> None:
    """Raise ValueError if the array of ``at`` is read-only.

    For simple indices NumPy does not check this: it would write to bytes objects, or crash on read-only pages.
    """
    array, *rest = call.inputs
    if isinstance(array, ArrayBase) and not is_writeable(array):
        call.ufunc.at(array.stand_in(writeable=True), *rest)  # other errors come first
        raise ValueError("operand array with iterator write flag set is read-only")


def _at_few(ufunc: np.ufunc, array: Any, key: Any = (), *values: Any) -> bool:
    """``ufunc.at`` for a few elements of a large array: only these are read and written. False for any other call."""
    if not isinstance(array, ArrayBase) or array.is_strided or array.size < limits.current.loading_elements:
        return False
    if any(isinstance(x, ArrayBase) for x in values):
        return False  # they may be views of the same buffer
    try:
        selected = array._select(key)
        if isinstance(selected, Points | Mask):
            selected = indexed(array._map, selected[0])
    except Exception:
        return False  # NumPy raises
    if not isinstance(selected, Outer) or math.prod(selected.shape) * _FEW > array.size:
        return False
    offsets = transfer.offsets_at(array._map, selected.arrays, selected.shape)
    places, which = np.unique(offsets, return_inverse=True)
    index: Any = 0, which.reshape(offsets.shape)
    chosen = np.empty(places.shape, array.dtype)
    transfer.gather(array.region, places, chosen)
    try:
        # Two axes, since for one-dimensional arrays NumPy 2.4 reads beyond values that broadcast to the indices.
        ufunc.at(chosen[None], index, *values)
    except AFTERWARDS:
        array._scatter(places, chosen)  # as in NumPy, what was computed stays
        raise
    array._scatter(places, chosen)
    return True


def _called(call: UfuncCall, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The call with ndarrays as arguments, with a workaround for `errs_with_gaps`."""
    out = options.get("out", (None,))[0]
    if call.method != "__call__" or not isinstance(out, np.ndarray) or out.flags.forc or not out.flags.writeable:
        return call.of(inputs, options)
    if not errs_with_gaps(call.ufunc, inputs):
        return call.of(inputs, options)
    contiguous = out.copy()
    call.of(inputs, {**options, "out": (contiguous,)})
    np.copyto(out, contiguous, where=options.get("where", True))
    return out


def _writing_to_inputs(call: UfuncCall) -> Any:
    """Call a universal function that writes to some of its inputs; which ones is found by comparison."""
    inputs = call.inputs
    operands = Arguments(inputs, call.kwargs)
    given, options = operands.to_ndarray(inputs), operands.to_ndarray(call.kwargs)
    operands.mark_dirty()
    before = [np.asarray(x).tobytes() for x in given]
    try:
        return operands.from_ndarray(call.of(given, options))
    finally:
        changed = [x for x, now, old in zip(inputs, given, before, strict=True) if np.asarray(now).tobytes() != old]
        operands.write_back(*filter(is_writeable, (*changed, *call.written)))
