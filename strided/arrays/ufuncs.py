"""Universal functions of arrays in a layout.

NumPy computes; the results are ndarrays, as if the arrays had been converted first. Large arrays are converted in
blocks of whole tiles, over threads. ``out=`` may be an array in a layout: results go straight into its buffer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from strided.arrays import blocks, deferral, fancy, overlap, reductions, wide_sums
from strided.arrays.arguments import Arguments, is_writeable, with_each
from strided.arrays.base import Array, ArrayBase, broadcasts
from strided.arrays.blocks import Box
from strided.arrays.classify import Mask, Outer, Points, indexed
from strided.runtime import limits
from strided.transfer import copy as transfer

#: The most elements that ``at`` changes apart from the others, one of so many: more are longer sorted than converted.
_FEW = 16
#: NumPy 2.4 leaves out some of their results if these are not contiguous, as in blocks.
_NEIGHBOURS_ONLY: set[np.ufunc] = {np.isnan, np.isfinite, np.isinf, np.signbit}
#: What NumPy raises once it has computed all elements: the errors that np.errstate or a filter of warnings makes.
_AFTERWARDS = FloatingPointError, RuntimeWarning
#: The first words of their messages; of several errors, NumPy raises the one that stands first here.
_KINDS = "divide", "overflow", "underflow", "invalid"


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a universal function's method.

    Arguments with an ``__array_ufunc__`` of their own are asked first. If they do not know our arrays, they get
    ndarrays.
    """
    outs: Any = kwargs.get("out", ())
    if not isinstance(outs, tuple):  # as Numba passes it
        outs = (outs,)
        kwargs = {**kwargs, "out": outs}
    written = inputs[:1] if method == "at" else outs
    if method == "reduce" and outs:
        _refuse_unfinished(sys._getframe(2))
    with_a_say = deferral.with_a_say((*inputs, *outs), "__array_ufunc__")
    if with_a_say:
        answer = deferral.ask(with_a_say, lambda x: x.__array_ufunc__(ufunc, method, *inputs, **kwargs))
        return _converted(ufunc, method, inputs, kwargs, written) if answer is NotImplemented else answer
    if method == "reduce" and ufunc in reductions.OF_UFUNC:
        options = {"axis": 0, **kwargs}
        if outs:
            options["out"] = outs[0]
        found = reductions.stream(reductions.OF_UFUNC[ufunc], inputs, options)
        if found is not NotImplemented:
            return found
    found = wide_sums.of_ufunc(ufunc, method, inputs, kwargs)
    if found is not NotImplemented:
        return found
    if (
        method == "__call__"
        and ufunc.signature is None
        and ufunc.nout
        and any(map(reductions.streams, (*inputs, *outs)))
    ):
        found = _in_blocks(ufunc, inputs, outs, kwargs)
        if found is not NotImplemented:
            return found
    return _converted(ufunc, method, inputs, kwargs, written)


def _refuse_unfinished(caller: FrameType) -> None:
    """Raise TypeError where NumPy takes this for the first step of ``ndarray.mean``, ``var`` or ``std``.

    It would go on with an ndarray alone, and leave the sum in an `out` that is none.
    """
    if caller.f_code.co_name in ("_mean", "_var") and caller.f_globals.get("__name__") == "numpy._core._methods":
        raise TypeError(
            "methods of an ndarray write no mean, var or std to an array in a layout: np.mean(x, out=a) does"
        )


def _converted(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], written: tuple[Any, ...]
) -> Any:
    """A universal function's method called with converted arrays; what it writes goes back to the buffers."""
    if method == "at" and isinstance(inputs[0], ArrayBase) and not is_writeable(inputs[0]):
        # Where indices are simple NumPy does not ask: it would write to bytes, or to a page that ends the process.
        ufunc.at(inputs[0].stand_in(writeable=True), *inputs[1:])  # what else is wrong comes first
        raise ValueError("operand array with iterator write flag set is read-only")
    if method == "at" and _at_few(ufunc, *inputs):
        return None
    operands = Arguments(
        inputs,
        kwargs,
        may_write=lambda array: any(array is x for x in written),
        in_part=method == "at" or kwargs.get("where", True) is not True,
    )
    given, options = operands.to_ndarray(inputs), operands.to_ndarray(kwargs)
    if written:
        operands.mark_dirty()
    try:
        result = _called(ufunc, method, given, options)
    except Exception as error:
        if _is_refused_write(error) and any(is_writeable(x) and not any(x is y for y in written) for x in inputs):
            return _writing_to_inputs(ufunc, method, inputs, kwargs, written)
        # What was computed before an error stays, as in NumPy. (`at` may leave numbers that nobody computed.)
        if method != "at" or isinstance(error, _AFTERWARDS):
            operands.write_back(*filter(is_writeable, written))
        raise
    operands.write_back(*written)
    return operands.from_ndarray(result) if kwargs.get("out") else result


def _at_few(ufunc: np.ufunc, array: Any, key: Any = (), *values: Any) -> bool:
    """``ufunc.at`` of a few elements of a large array: these alone are read and written. False if it is not that."""
    if not isinstance(array, ArrayBase) or array.is_strided or array.size < limits.current.loading_elements:
        return False
    if any(isinstance(x, ArrayBase) for x in values):
        return False  # which may be views of the same buffer
    try:
        selected = array._select(key)
        if isinstance(selected, Points | Mask):
            selected = indexed(array._map, selected[0])
    except Exception:
        return False  # NumPy refuses it in its own words
    if not isinstance(selected, Outer) or math.prod(selected.shape) * _FEW > array.size:
        return False
    offsets = transfer.offsets_at(array._map, selected.arrays, selected.shape)
    places, which = np.unique(offsets, return_inverse=True)
    index: Any = 0, which.reshape(offsets.shape)
    chosen = np.empty(places.shape, array.dtype)
    transfer.gather(array.region, places, chosen)
    try:
        # In arrays of one axis NumPy 2.4 reads beyond values that are spread over indices of several.
        ufunc.at(chosen[None], index, *values)
    except _AFTERWARDS:
        array._scatter(places, chosen)  # what was computed before stays, as in NumPy
        raise
    array._scatter(places, chosen)
    return True


def _called(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A universal function's method called with ndarrays; right also where NumPy's is not."""
    out = options.get("out", (None,))[0]
    if method != "__call__" or not isinstance(out, np.ndarray) or out.flags.forc or not out.flags.writeable:
        return getattr(ufunc, method)(*inputs, **options)
    if not _errs_with_gaps(ufunc, inputs):
        return ufunc(*inputs, **options)
    contiguous = out.copy()
    ufunc(*inputs, **{**options, "out": (contiguous,)})
    np.copyto(out, contiguous, where=options.get("where", True))
    return out


def _errs_with_gaps(ufunc: np.ufunc, inputs: Sequence[Any]) -> bool:
    """Whether NumPy 2.4 may give other results of these inputs if the results are not contiguous."""
    if ufunc is not np.negative:
        return ufunc in _NEIGHBOURS_ONLY
    # Elements that lie as many of them apart as one has bytes are taken for contiguous.
    x = np.asarray(inputs[0])
    steps = [abs(stride) for stride, n in zip(x.strides, x.shape, strict=True) if n > 1]
    return x.itemsize >= 4 and min(steps, default=0) == x.itemsize**2


def _writing_to_inputs(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], written: tuple[Any, ...]
) -> Any:
    """A universal function that writes to some of its inputs, without saying which."""
    operands = Arguments(inputs, kwargs)
    given, options = operands.to_ndarray(inputs), operands.to_ndarray(kwargs)
    operands.mark_dirty()
    before = [np.asarray(x).tobytes() for x in given]
    try:
        return operands.from_ndarray(getattr(ufunc, method)(*given, **options))
    finally:
        changed = [x for x, now, old in zip(inputs, given, before, strict=True) if np.asarray(now).tobytes() != old]
        operands.write_back(*filter(is_writeable, (*changed, *written)))


def _is_refused_write(error: Exception) -> bool:
    """Whether NumPy refused to write to an operand, which it does before it computes anything."""
    return isinstance(error, ValueError) and "array with iterator write flag set is read-only" in str(error)


def _in_blocks(ufunc: np.ufunc, inputs: tuple[Any, ...], outs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A universal function carried out block by block; NotImplemented if that might give another result."""
    options = {name: value for name, value in kwargs.items() if name not in ("out", "where")}
    where = kwargs.get("where", True)
    sources = [x if isinstance(x, (ArrayBase, np.ndarray, np.generic)) else np.asarray(x) for x in inputs]
    given = [x for x in outs if x is not None]
    if not all(_wraps_nothing(x) for x in (*inputs, *given, where)) or options.get("order", "K") not in ("K", "A", "C"):
        return NotImplemented
    if not all(isinstance(x, np.ndarray | ArrayBase) for x in given) or len({*map(id, given)}) < len(given):
        return NotImplemented
    if not all(x.flags.writeable for x in given):
        _refuse(ufunc, inputs, kwargs)
        return NotImplemented
    if any(map(overlap.repeats, given)):
        return NotImplemented  # an element that is there several times would be written in every block
    mask_type = None if isinstance(where, np.ndarray) else np.bool_
    masks = [] if where is True else [where if isinstance(where, ArrayBase) else np.asarray(where, mask_type)]
    if any(_entangled(out, x) for out in given for x in (*sources, *masks, *given) if x is not out):
        return NotImplemented
    try:
        shape = np.broadcast_shapes(*(x.shape for x in sources))
    except ValueError:
        _refuse(ufunc, inputs, kwargs)
        return NotImplemented
    for out in given:
        if isinstance(out, ArrayBase):
            out._memory.begin_writing()
    if any(out.shape != shape for out in given) or any(not broadcasts(m.shape, shape) for m in masks):
        return NotImplemented
    # NumPy refuses some types of masks, and warns of results that are left unset.
    asked = {"where": np.empty(0, masks[0].dtype)} if masks else {}
    results = _results(ufunc, inputs, sources, masks, outs, {**options, **asked}, shape)
    if results is None or any(x.dtype.hasobject for x in (*sources, *results)):
        return NotImplemented  # Python's functions are called in order, and by this thread
    return _by_blocks(ufunc, inputs, sources, masks[0] if masks else None, results, options, shape)


def _by_blocks(
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    sources: list[Any],
    where: Any,
    results: tuple[Any, ...],
    options: dict[str, Any],
    shape: tuple[int, ...],
) -> Any:
    """Compute the results block by block, from `sources`, the inputs as arrays; `where` is a mask or None."""
    # Python's own numbers stay: NumPy gives them the type of the arrays beside them.
    operands = [
        x if isinstance(x, (bool, int, float, complex)) else _Operand(s, shape)
        for x, s in zip(inputs, sources, strict=True)
    ]
    mask = None if where is None else _Operand(where, shape)
    largest = max((x for x in (*sources, *results) if isinstance(x, ArrayBase)), key=lambda x: x.size)
    leader = largest._with_map(largest._map.broadcast_to(shape))
    boxes = blocks.tile_boxes(leader._map, max(x.dtype.itemsize for x in (*sources, *results)), whole_tiles=True)
    # Two threads must never write to one byte.
    alone = any(isinstance(x, ArrayBase) and x._memory.bits < 8 for x in results)
    call = _BlockedCall(ufunc, operands, mask, results, options, leader, [])
    blocks.run_all(call.compute, ((box,) for box in boxes), alone=alone)
    if call.errors:
        raise min(call.errors, key=lambda error: [not str(error).startswith(kind) for kind in _KINDS])
    return results if len(results) > 1 else results[0]


def _refuse(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what NumPy raises for operands that it does not take, whatever their values."""
    given, options = with_each((inputs, kwargs), lambda x: x.stand_in(writeable=is_writeable(x)))
    ufunc(*given, **options)


def _results(
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    sources: list[Any],
    masks: list[Any],
    outs: tuple[Any, ...],
    options: dict[str, Any],
    shape: tuple[int, ...],
) -> tuple[Any, ...] | None:
    """The arrays that get the results: `outs`, or new ones; None if the function writes to its inputs."""
    # Called without elements, NumPy gives the types of the results and refuses wrong arguments.
    empty = []
    for x, s in zip(inputs, sources, strict=True):
        is_number = isinstance(x, (bool, int, float, complex)) or (not s.ndim and not isinstance(s, ArrayBase))
        empty.append(x if is_number else np.empty(0, s.dtype))
        if not is_number:
            empty[-1].flags.writeable = False
    none = tuple(None if out is None else np.empty(0, out.dtype) for out in outs)
    try:
        example = ufunc(*empty, **options, **({"out": none} if outs else {}))
    except ValueError as error:
        if _is_refused_write(error):
            return None
        raise
    examples = example if isinstance(example, tuple) else (example,)
    places = outs or (None,) * len(examples)
    operands, order = [*sources, *(out for out in outs if out is not None), *masks], options.get("order", "K")
    return tuple(
        _new_result(operands, shape, e.dtype, order) if out is None else out
        for e, out in zip(examples, places, strict=True)
    )


def _new_result(operands: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any], order: Any) -> Array:
    """A new array for results.

    Its axes lie in the order that NumPy chooses for operands of plain strides, given results and a mask among them:
    each block of it is then as contiguous as theirs. Converted operands are row-major, and so are the results.
    """
    if not all(isinstance(x, np.ndarray | np.generic) or x.is_strided for x in operands):
        return np.empty(shape, dtype)
    views = [x._as_strided() if isinstance(x, ArrayBase) else x for x in operands]
    every: Any = [*views, None]
    flags: Any = [*[["readonly"]] * len(views), ["writeonly", "allocate"]]
    types = [*(x.dtype for x in views), dtype]
    chosen = np.nditer(every, ["refs_ok", "zerosize_ok", "multi_index"], flags, types, order=order)
    return chosen.operands[-1]


class _BlockedCall(NamedTuple):
    """A call of a universal function that is carried out block by block.

    Attributes
    ----------
    ufunc : numpy.ufunc
    operands : list
        An `_Operand` for each array, and Python's own numbers.
    mask : _Operand or None
        Which elements are computed; None for all.
    results : tuple
        The arrays that get the results.
    options : dict
        Other keywords of the call.
    leader : ArrayBase
        The array whose tiles the blocks are made of, broadcast to the shape of the results.
    errors : list of Exception
        What NumPy would raise once it has computed all blocks.
    """

    ufunc: np.ufunc
    operands: list[Any]
    mask: _Operand | None
    results: tuple[Any, ...]
    options: dict[str, Any]
    leader: ArrayBase
    errors: list[Exception]

    def compute(self, box: Box) -> None:
        """Compute one block: in the array's axes, or with an axis for every digit if that is fast in place."""
        shape = self._shape_in_place(box)
        values = [x.values(box, shape) if isinstance(x, _Operand) else x for x in self.operands]
        chosen = None if self.mask is None else self.mask.values(box, shape)
        if chosen is not None and not chosen.any():
            return
        where: dict[str, Any] = {} if chosen is None else {"where": chosen}
        targets = [_Target(r, box, shape, chosen) for r in self.results]
        if _errs_with_gaps(self.ufunc, values):
            np.copyto(targets[0].array, self.ufunc(*values, **self.options), casting="unsafe", **where)
        else:
            try:
                self.ufunc(*values, out=tuple(t.array for t in targets), **self.options, **where)
            except _AFTERWARDS as error:
                self.errors.append(error.with_traceback(None))  # which would keep the blocks
        for target in targets:
            target.write(chosen)

    def _shape_in_place(self, box: Box) -> tuple[int, ...] | None:
        """The shape with an axis for every digit, if rows are long runs, or any runs are that lie alike in all arrays.

        NumPy goes through arrays that lie alike in the order of their memory, whatever the order of their axes.
        """
        digits = blocks.digits_of(self.leader, box)
        if digits is None:
            return None
        values = digits[0]
        runs = blocks.long_runs(values)
        if values.ndim - 1 in runs:
            return values.shape
        operands = [x for x in (*self.operands, self.mask) if isinstance(x, _Operand)]
        alike = bool(runs) and all(_lies_as(values, r, box) for r in self.results)
        return values.shape if alike and all(x.lies_as(values, box) for x in operands) else None


def _lies_as(values: Array, x: Any, box: Box) -> bool:
    """Whether a block of an array has the digits of another one, with the same elements from one to the next."""
    digits = blocks.digits_of(x, box) if isinstance(x, ArrayBase) else None
    if digits is None or digits[0].shape != values.shape:
        return False
    return [k // x.itemsize for k in digits[0].strides] == [k // values.itemsize for k in values.strides]


class _Operand:
    """An operand that is broadcast to a shape, block by block."""

    def __init__(self, x: Any, shape: tuple[int, ...]) -> None:
        self._view = x._with_map(x._map.broadcast_to(shape)) if isinstance(x, ArrayBase) else None
        self._is_single = not np.ndim(x)
        self._read = blocks.reader_of(x, shape)

    def lies_as(self, values: Array, box: Box) -> bool:
        """Whether a block lies as `values` do, or is one element for all."""
        return self._is_single or _lies_as(values, self._view, box)

    def values(self, box: Box, shape: tuple[int, ...] | None) -> Array:
        """The values in a block, in the given shape of its digits."""
        digits = None if shape is None or self._view is None else blocks.digits_of(self._view, box)
        if digits is not None and digits[0].shape == shape:
            return digits[0]
        values: Array = self._read(box)
        return values if shape is None or not values.ndim else values.reshape(shape)


class _Target:
    """A block of a result: the memory itself, or a copy that is written back; of all its elements if a mask is given.

    What a mask leaves out NumPy reads nevertheless, where it casts results, and warns of what it finds there.
    """

    def __init__(self, result: Any, box: Box, shape: tuple[int, ...] | None, mask: Array | None) -> None:
        self._part = None
        if not isinstance(result, ArrayBase):
            part = result[box]
            self.array = part if shape is None else part.reshape(shape)
            return
        digits = None if shape is None else blocks.digits_of(result, box)
        if digits is not None and digits[0].shape == shape:
            self.array = digits[0]
            return
        if shape is None and result.is_strided:
            self.array = result._as_strided()[box]
            return
        self._part = blocks.part(result, box)
        is_whole = mask is None or bool(mask.all())
        values = np.empty(self._part.shape, result.dtype) if is_whole else np.array(self._part)
        self.array = values if shape is None else values.reshape(shape)

    def write(self, chosen: Array | None) -> None:
        """Write the copy back: all of it, or the elements that a mask chooses, as others may write beside them."""
        if self._part is None:
            return
        values = self.array.reshape(self._part.shape)
        if chosen is None or chosen.all():
            self._part[...] = values
        else:
            chosen = np.broadcast_to(chosen, self.array.shape).reshape(self._part.shape)
            fancy.scatter_masked(self._part, chosen, values)


def _wraps_nothing(x: Any) -> bool:
    """Whether the class of an operand leaves it to NumPy what becomes of the result."""
    if isinstance(x, np.ndarray):
        return deferral.is_ndarray(x)
    return isinstance(x, ArrayBase | np.generic) or not hasattr(type(x), "__array_wrap__")


def _entangled(first: Any, second: Any) -> bool:
    """Whether writing to one could change the other at another index."""
    if isinstance(first, ArrayBase) and isinstance(second, ArrayBase):
        if first._memory is second._memory and first._map == second._map:
            return False
    parts: list[Array] = [x.buffer if isinstance(x, ArrayBase) else np.asarray(x) for x in (first, second)]
    return bool(np.may_share_memory(parts[0], parts[1]))
