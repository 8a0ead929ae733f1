"""Universal functions of large arrays, block by block over threads.

NumPy computes each block. A call with empty arrays gives the dtypes of the results and raises for wrong arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strided.arrays import blocks, deferral, masks, overlap, reductions
from strided.arrays.arguments import is_writeable, with_each
from strided.arrays.base import Array, ArrayBase, broadcasts
from strided.arrays.blocks import Box
from strided.arrays.ufunc_call import AFTERWARDS, UfuncCall, errs_with_gaps, is_refused_write

#: How the messages of floating-point errors begin. If there are several, NumPy raises the first in this order.
_KINDS = "divide", "overflow", "underflow", "invalid"
#: The values of ``order=`` that blocks support.
_ORDERS = ("K", "A", "C")
#: Python's numeric types, which NumPy converts to the dtype of the other operands.
_NUMBERS = (bool, int, float, complex)


class _Operands(NamedTuple):
    """The operands of a call.

    Attributes
    ----------
    sources : list
        The inputs as arrays.
    given : list
        The arrays of ``out=``.
    mask : array or None
        The array of ``where=``.
    """

    sources: list[Any]
    given: list[Any]
    mask: Any

    @property
    def all(self) -> list[Any]:
        """All operands."""
        return [*self.sources, *self.given, *([] if self.mask is None else [self.mask])]


def in_blocks(call: UfuncCall) -> Any:
    """Compute a universal function block by block; NotImplemented if the result might differ from NumPy's."""
    if call.method != "__call__" or call.ufunc.signature is not None or not call.ufunc.nout:
        return NotImplemented
    if not any(map(reductions.streams, (*call.inputs, *call.outs))):
        return NotImplemented
    operands = _operands_of(call)
    if operands is None or (shape := _shape_of(call, operands)) is None:
        return NotImplemented
    for out in operands.given:
        if isinstance(out, ArrayBase):
            out._memory.begin_writing()
    results = _results(call, operands, shape)
    if results is None or any(x.dtype.hasobject for x in (*operands.sources, *results)):
        return NotImplemented  # for object dtypes, NumPy calls Python functions in order, in this thread
    return _by_blocks(call, operands, results, shape)


def _operands_of(call: UfuncCall) -> _Operands | None:
    """The operands of a call; None if blocks might give another result. Raises what NumPy raises for read-only outs."""
    where = call.kwargs.get("where", True)
    sources = [x if isinstance(x, (ArrayBase, np.ndarray, np.generic)) else np.asarray(x) for x in call.inputs]
    given = [x for x in call.outs if x is not None]
    if not all(map(_does_not_wrap, (*call.inputs, *given, where))) or call.kwargs.get("order", "K") not in _ORDERS:
        return None
    if not all(isinstance(x, np.ndarray | ArrayBase) for x in given) or len({*map(id, given)}) < len(given):
        return None
    if not all(x.flags.writeable for x in given):
        _refuse(call)
        return None
    if any(map(overlap.repeats, given)):
        return None  # several blocks would write to the same element
    mask_type = None if isinstance(where, np.ndarray) else np.bool_
    mask = None if where is True else where if isinstance(where, ArrayBase) else np.asarray(where, mask_type)
    operands = _Operands(sources, given, mask)
    if any(_overlap_elsewhere(out, x) for out in given for x in operands.all if x is not out):
        return None
    return operands


def _shape_of(call: UfuncCall, operands: _Operands) -> tuple[int, ...] | None:
    """The shape of the results; None if ``out=`` or ``where=`` does not fit it. Raises if inputs do not broadcast."""
    try:
        shape = np.broadcast_shapes(*(x.shape for x in operands.sources))
    except ValueError:
        _refuse(call)
        return None
    mask = operands.mask
    if any(out.shape != shape for out in operands.given) or (mask is not None and not broadcasts(mask.shape, shape)):
        return None
    return shape


def _refuse(call: UfuncCall) -> None:
    """Raise what NumPy raises for these operands, whatever their values."""
    given, options = with_each((call.inputs, call.kwargs), lambda x: x.stand_in(writeable=is_writeable(x)))
    call.of(given, options)


def _results(call: UfuncCall, operands: _Operands, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """The arrays for the results: those of ``out=``, or new ones; None if the function writes to its inputs."""
    examples = _examples(call, operands)
    if examples is None:
        return None
    order = call.kwargs.get("order", "K")
    return tuple(
        _new_result(operands.all, shape, example.dtype, order) if out is None else out
        for example, out in zip(examples, call.outs or (None,) * len(examples), strict=True)
    )


def _examples(call: UfuncCall, operands: _Operands) -> tuple[Any, ...] | None:
    """The results for empty arrays, for their dtypes; None if the function writes to its inputs."""
    empty = []
    for x, s in zip(call.inputs, operands.sources, strict=True):
        is_number = isinstance(x, _NUMBERS) or (not s.ndim and not isinstance(s, ArrayBase))
        empty.append(x if is_number else np.empty(0, s.dtype))
        if not is_number:
            empty[-1].flags.writeable = False
    # Pass the mask, too: NumPy raises for some dtypes of masks, and warns of a mask without ``out=``.
    where = {} if operands.mask is None else {"where": np.empty(0, operands.mask.dtype)}
    out = {"out": tuple(None if x is None else np.empty(0, x.dtype) for x in call.outs)} if call.outs else {}
    try:
        example = call.of(empty, {**call.options, **where, **out})
    except ValueError as error:
        if is_refused_write(error):
            return None
        raise
    return example if isinstance(example, tuple) else (example,)


def _new_result(operands: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any], order: Any) -> Array:
    """A new array for results.

    If all operands are strided (including `out` and mask), its axes have the memory order that NumPy chooses for them.
    Otherwise it is row-major, as converted operands are.
    """
    if not all(isinstance(x, np.ndarray | np.generic) or x.is_strided for x in operands):
        return np.empty(shape, dtype)
    views = [x._as_strided() if isinstance(x, ArrayBase) else x for x in operands]
    every: Any = [*views, None]
    flags: Any = [*[["readonly"]] * len(views), ["writeonly", "allocate"]]
    types = [*(x.dtype for x in views), dtype]
    chosen = np.nditer(every, ["refs_ok", "zerosize_ok", "multi_index"], flags, types, order=order)
    return chosen.operands[-1]


def _by_blocks(call: UfuncCall, operands: _Operands, results: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Compute the results block by block."""
    sources = operands.sources
    taken = [x if isinstance(x, _NUMBERS) else _Operand(s, shape) for x, s in zip(call.inputs, sources, strict=True)]
    mask = None if operands.mask is None else _Operand(operands.mask, shape)
    largest = max((x for x in (*sources, *results) if isinstance(x, ArrayBase)), key=lambda x: x.size)
    leader = largest._with_map(largest._map.broadcast_to(shape))
    boxes = blocks.tile_boxes(leader._map, max(x.dtype.itemsize for x in (*sources, *results)), whole_tiles=True)
    # Two threads must not write to the same byte.
    alone = any(isinstance(x, ArrayBase) and x._memory.bits < 8 for x in results)
    blocked = _BlockedCall(call.ufunc, taken, mask, results, call.options, leader, [])
    blocks.run_all(blocked.compute, boxes, alone=alone)
    if blocked.errors:
        raise min(blocked.errors, key=lambda error: [not str(error).startswith(kind) for kind in _KINDS])
    return results if len(results) > 1 else results[0]


class _BlockedCall(NamedTuple):
    """A call of a universal function that is computed block by block.

    Attributes
    ----------
    ufunc : numpy.ufunc
    operands : list
        An `_Operand` for each array; Python numbers as they are.
    mask : _Operand or None
        The mask of elements to compute; None for all.
    results : tuple
        The arrays for the results.
    options : dict
        Other keyword arguments of the call.
    leader : ArrayBase
        The array whose tiles determine the blocks, broadcast to the shape of the results.
    errors : list of Exception
        Floating-point errors, to be raised after all blocks are computed.
    """

    ufunc: np.ufunc
    operands: list[Any]
    mask: _Operand | None
    results: tuple[Any, ...]
    options: dict[str, Any]
    leader: ArrayBase
    errors: list[Exception]

    def compute(self, box: Box) -> None:
        """Compute one block: with the array's axes, or without a copy with an axis for each digit, if that is fast."""
        shape = self._shape_in_place(box)
        values = [x.values(box, shape) if isinstance(x, _Operand) else x for x in self.operands]
        chosen = None if self.mask is None else self.mask.values(box, shape)
        if chosen is not None and not chosen.any():
            return
        where: dict[str, Any] = {} if chosen is None else {"where": chosen}
        targets = [_Target(r, box, shape, chosen) for r in self.results]
        if errs_with_gaps(self.ufunc, values):
            np.copyto(targets[0].array, self.ufunc(*values, **self.options), casting="unsafe", **where)
        else:
            try:
                self.ufunc(*values, out=tuple(t.array for t in targets), **self.options, **where)
            except AFTERWARDS as error:
                self.errors.append(error.with_traceback(None))  # the traceback would keep the blocks alive
        for target in targets:
            target.write(chosen)

    def _shape_in_place(self, box: Box) -> tuple[int, ...] | None:
        """The shape with an axis for each digit if NumPy is fast with it, otherwise None.

        It is fast if the last axis is a long run, or if there is any long run and all arrays have the same strides:
        NumPy then iterates in memory order.
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
    """Whether a block of an array has the digits and strides (in elements) of `values`."""
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
        """Whether a block has the digits and strides of `values`, or is a single element."""
        return self._is_single or _lies_as(values, self._view, box)

    def values(self, box: Box, shape: tuple[int, ...] | None) -> Array:
        """The values in a block, with the given shape of its digits unless it is None."""
        digits = None if shape is None or self._view is None else blocks.digits_of(self._view, box)
        if digits is not None and digits[0].shape == shape:
            return digits[0]
        values: Array = self._read(box)
        return values if shape is None or not values.ndim else values.reshape(shape)


class _Target:
    """A block of a result: the memory itself, or a temporary copy that is written back.

    With a mask the copy has the current values: when NumPy casts results, it also casts masked-out elements, and would
    warn of arbitrary ones.
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
        """Write the copy back: all of it, or only the elements of a mask, as other threads may write to the others."""
        if self._part is None:
            return
        values = self.array.reshape(self._part.shape)
        if chosen is None or chosen.all():
            self._part[...] = values
        else:
            chosen = np.broadcast_to(chosen, self.array.shape).reshape(self._part.shape)
            masks.scatter(self._part, chosen, values)


def _does_not_wrap(x: Any) -> bool:
    """Whether the class of an operand does not change the class of results (``__array_wrap__``)."""
    if isinstance(x, np.ndarray):
        return deferral.is_ndarray(x)
    return isinstance(x, ArrayBase | np.generic) or not hasattr(type(x), "__array_wrap__")


def _overlap_elsewhere(first: Any, second: Any) -> bool:
    """Whether writing to one array may change the other at a different index."""
    if isinstance(first, ArrayBase) and isinstance(second, ArrayBase):
        if first._memory is second._memory and first._map == second._map:
            return False
    parts: list[Array] = [x.buffer if isinstance(x, ArrayBase) else np.asarray(x) for x in (first, second)]
    return bool(np.may_share_memory(parts[0], parts[1]))
