"""Universal functions of large arrays, carried out block by block over threads.

NumPy computes each block. Called without elements, it gives the types of the results and refuses wrong arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strided.arrays import blocks, deferral, masks, overlap, reductions
from strided.arrays.arguments import is_writeable, with_each
from strided.arrays.base import Array, ArrayBase, broadcasts
from strided.arrays.blocks import Box
from strided.arrays.ufunc_call import AFTERWARDS, UfuncCall, errs_with_gaps, is_refused_write

#: The first words of the messages of such errors; of several, NumPy raises the one that stands first here.
_KINDS = "divide", "overflow", "underflow", "invalid"
#: Orders of the results that blocks can have, as NumPy names them.
_ORDERS = ("K", "A", "C")
#: Python's own numbers: NumPy gives them the type of the arrays beside them.
_NUMBERS = (bool, int, float, complex)


class _Operands(NamedTuple):
    """What a call takes and writes.

    Attributes
    ----------
    sources : list
        The inputs as arrays.
    given : list
        The arrays at ``out=``.
    mask : array or None
        The array at ``where=``.
    """

    sources: list[Any]
    given: list[Any]
    mask: Any

    @property
    def all(self) -> list[Any]:
        """All these arrays."""
        return [*self.sources, *self.given, *([] if self.mask is None else [self.mask])]


def in_blocks(call: UfuncCall) -> Any:
    """A universal function carried out block by block; NotImplemented if that might give another result."""
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
        return NotImplemented  # Python's functions are called in order, and by this thread
    return _by_blocks(call, operands, results, shape)


def _operands_of(call: UfuncCall) -> _Operands | None:
    """What a call takes and writes; None if blocks might give another result. What NumPy refuses, it refuses here."""
    where = call.kwargs.get("where", True)
    sources = [x if isinstance(x, (ArrayBase, np.ndarray, np.generic)) else np.asarray(x) for x in call.inputs]
    given = [x for x in call.outs if x is not None]
    if not all(map(_wraps_nothing, (*call.inputs, *given, where))) or call.kwargs.get("order", "K") not in _ORDERS:
        return None
    if not all(isinstance(x, np.ndarray | ArrayBase) for x in given) or len({*map(id, given)}) < len(given):
        return None
    if not all(x.flags.writeable for x in given):
        _refuse(call)
        return None
    if any(map(overlap.repeats, given)):
        return None  # an element that is there several times would be written in every block
    mask_type = None if isinstance(where, np.ndarray) else np.bool_
    mask = None if where is True else where if isinstance(where, ArrayBase) else np.asarray(where, mask_type)
    operands = _Operands(sources, given, mask)
    if any(_entangled(out, x) for out in given for x in operands.all if x is not out):
        return None
    return operands


def _shape_of(call: UfuncCall, operands: _Operands) -> tuple[int, ...] | None:
    """The shape of the results; None if ``out=`` or ``where=`` does not fit it. What NumPy refuses, it refuses here."""
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
    """Raise what NumPy raises for operands that it does not take, whatever their values."""
    given, options = with_each((call.inputs, call.kwargs), lambda x: x.stand_in(writeable=is_writeable(x)))
    call.of(given, options)


def _results(call: UfuncCall, operands: _Operands, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """The arrays that get the results: those at ``out=``, or new ones; None if the function writes to its inputs."""
    examples = _examples(call, operands)
    if examples is None:
        return None
    order = call.kwargs.get("order", "K")
    return tuple(
        _new_result(operands.all, shape, example.dtype, order) if out is None else out
        for example, out in zip(examples, call.outs or (None,) * len(examples), strict=True)
    )


def _examples(call: UfuncCall, operands: _Operands) -> tuple[Any, ...] | None:
    """The results of a call without elements, which have the right types; None if it writes to its inputs."""
    empty = []
    for x, s in zip(call.inputs, operands.sources, strict=True):
        is_number = isinstance(x, _NUMBERS) or (not s.ndim and not isinstance(s, ArrayBase))
        empty.append(x if is_number else np.empty(0, s.dtype))
        if not is_number:
            empty[-1].flags.writeable = False
    # NumPy refuses some types of masks, and warns of results that are left unset.
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


def _by_blocks(call: UfuncCall, operands: _Operands, results: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Compute the results block by block."""
    sources = operands.sources
    taken = [x if isinstance(x, _NUMBERS) else _Operand(s, shape) for x, s in zip(call.inputs, sources, strict=True)]
    mask = None if operands.mask is None else _Operand(operands.mask, shape)
    largest = max((x for x in (*sources, *results) if isinstance(x, ArrayBase)), key=lambda x: x.size)
    leader = largest._with_map(largest._map.broadcast_to(shape))
    boxes = blocks.tile_boxes(leader._map, max(x.dtype.itemsize for x in (*sources, *results)), whole_tiles=True)
    # Two threads must never write to one byte.
    alone = any(isinstance(x, ArrayBase) and x._memory.bits < 8 for x in results)
    blocked = _BlockedCall(call.ufunc, taken, mask, results, call.options, leader, [])
    blocks.run_all(blocked.compute, boxes, alone=alone)
    if blocked.errors:
        raise min(blocked.errors, key=lambda error: [not str(error).startswith(kind) for kind in _KINDS])
    return results if len(results) > 1 else results[0]


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
        if errs_with_gaps(self.ufunc, values):
            np.copyto(targets[0].array, self.ufunc(*values, **self.options), casting="unsafe", **where)
        else:
            try:
                self.ufunc(*values, out=tuple(t.array for t in targets), **self.options, **where)
            except AFTERWARDS as error:
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
            masks.scatter(self._part, chosen, values)


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
