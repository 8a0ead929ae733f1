"""Numba: a `LayoutArray` as an argument of functions under ``@njit``.

Compiled functions read single elements, ``a[i, j]``, through the layout where the values lie, and know ``shape``,
``ndim``, ``size`` and ``len``. What they do not get is slices, assignment and iteration: for these, and wherever every
element is read, an ndarray is faster and complete, ``a.to_numpy()`` or, of plain layouts, ``a.as_strided()``.

Numba finds `register` by the entry point ``numba_extensions`` when it first compiles something.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils, errors
from numba.extending import (
    NativeValue,
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

from strided.array import LayoutArray
from strided.wrapped import Array

#: Columns of the table of carries: an axis, then what its index adds, ``(start + step * i) // weight * factor``.
_ROWS = types.Array(types.int64, 2, "C")


class LayoutArrayType(types.Type):
    """Numba's type of a `LayoutArray`: layouts of one rank share it, and the code that is compiled for it."""

    def __init__(self, dtype: Any, ndim: int, aligned: bool) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.elements = types.Array(dtype, 1, "C", readonly=True, aligned=aligned)
        self.index = types.UniTuple(types.intp, ndim)
        super().__init__(f"LayoutArray({dtype}, {ndim}d{'' if aligned else ', unaligned'})")


def register() -> None:
    """Make the type known to Numba; importing this module does."""


def _refusal(a: LayoutArray) -> str | None:
    """Why compiled functions cannot read an array, or None."""
    if not a.dtype.isbuiltin == 1:
        return f"Numba has no {a.dtype}: give the function a.to_numpy().astype(...), in a type that it has"
    if a.dtype == np.float16:
        return "Numba computes with no float16 on CPUs: give the function a.to_numpy().astype(np.float32)"
    if not a.address_map.is_regular:
        return f"the addresses of {a.xla_shape} are irregular: give the function a.to_numpy()"
    return None


@typeof_impl.register(LayoutArray)
def _typeof(a: LayoutArray, context: Any) -> LayoutArrayType:
    refusal = _refusal(a)
    if refusal is not None:
        raise errors.NumbaTypeError(f"a LayoutArray that compiled functions cannot read: {refusal}")
    return LayoutArrayType(from_dtype(a.dtype), a.ndim, bool(a._memory.elements.flags.aligned))


@register_model(LayoutArrayType)
class _Model(models.StructModel):
    def __init__(self, manager: Any, kind: LayoutArrayType) -> None:
        members = [("elements", kind.elements), ("rows", _ROWS), ("shape", kind.index), ("base", types.int64)]
        super().__init__(manager, kind, members)


for _name, _inside in (("elements", "_elements"), ("rows", "_rows"), ("shape", "shape"), ("base", "_base")):
    make_attribute_wrapper(LayoutArrayType, _name, _inside)


def parts_of(a: LayoutArray) -> tuple[Array, Array, tuple[int, ...], int]:
    """What compiled functions need of an array: its elements, the table of carries, shape and base."""
    a.region  # noqa: B018 # raises where the file behind it was truncated
    map_ = a.address_map
    rows = []
    for axis, terms in enumerate(map_.axes):
        for start, step, digits in terms:
            before = 0
            for digit in digits:
                rows.append((axis, start, step, digit.weight, digit.stride - before))
                before = digit.size * digit.stride
    table = np.array(rows, np.int64).reshape(-1, 5)
    return a._memory.elements, table, map_.shape, map_.base


@unbox(LayoutArrayType)
def _unbox(kind: LayoutArrayType, a: Any, c: Any) -> NativeValue:
    native = types.Tuple((kind.elements, _ROWS, kind.index, types.int64))
    module = c.pyapi.import_module(c.context.insert_const_string(c.builder.module, __name__))
    function = c.pyapi.object_getattr_string(module, "parts_of")
    parts = c.pyapi.call_function_objargs(function, (a,))
    c.pyapi.decref(function)
    c.pyapi.decref(module)
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    failed = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    with c.builder.if_then(cgutils.is_not_null(c.builder, parts)):
        found = c.unbox(native, parts)
        for place, name in enumerate(("elements", "rows", "shape", "base")):
            setattr(made, name, c.builder.extract_value(found.value, place))
        c.builder.store(found.is_error, failed)
        c.pyapi.decref(parts)
    return NativeValue(made._getvalue(), is_error=c.builder.load(failed))


@intrinsic
def _whole(context: Any, index: Any) -> Any:
    """A tuple of integers of any types as one of intp."""
    wanted = types.UniTuple(types.intp, len(index))

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = cgutils.unpack_tuple(builder, arguments[0])
        cast = [target.cast(builder, v, t, types.intp) for v, t in zip(given, signature.args[0], strict=True)]
        return target.make_tuple(builder, wanted, cast)

    return wanted(index), generate


@overload(operator.getitem)
def _getitem(a: Any, index: Any) -> Any:
    if not isinstance(a, LayoutArrayType):
        return None
    count = len(index) if isinstance(index, types.BaseTuple) else 1
    each = index if isinstance(index, types.BaseTuple) else (index,)
    if count != a.ndim or not all(isinstance(types.unliteral(t), types.Integer) for t in each):
        raise errors.NumbaTypeError(
            f"compiled functions read single elements of a LayoutArray, here with {a.ndim} integers; "
            "give them a.to_numpy() for anything else"
        )

    # Numba wants the annotations of both functions to be the same.
    def by_tuple(a: Any, index: Any) -> Any:
        return _read(a, _whole(index))

    def by_number(a: Any, index: Any) -> Any:
        return _read(a, _whole((index,)))

    return by_tuple if isinstance(index, types.BaseTuple) else by_number


@overload(operator.setitem)
def _setitem(a: Any, index: Any, value: Any) -> Any:
    if isinstance(a, LayoutArrayType):
        raise errors.NumbaTypeError(
            "compiled functions do not assign to a LayoutArray: give them out = a.to_numpy(), then assign a[...] = out"
        )
    return None


def _read(a: Any, index: Any) -> Any:
    """The element at an index of as many intp as there are axes."""
    raise NotImplementedError("compiled functions alone call this")


@overload(_read)
def _read_compiled(a: Any, index: Any) -> Any:
    def read_only_element(a: Any, index: Any) -> Any:
        return a._elements[a._base]

    def read(a: Any, index: Any) -> Any:
        for k in range(len(index)):
            if not -a.shape[k] <= index[k] < a.shape[k]:
                raise IndexError("index is out of bounds")
        offset = a._base
        for k in range(a._rows.shape[0]):
            axis = a._rows[k, 0]
            i = index[axis]
            if i < 0:
                i += a.shape[axis]
            c = a._rows[k, 1] + a._rows[k, 2] * i
            if a._rows[k, 3] != 1:
                c //= a._rows[k, 3]
            offset += c * a._rows[k, 4]
        return a._elements[offset]

    return read if a.ndim else read_only_element


@overload(len)
def _len(a: Any) -> Any:
    def length(a: Any) -> Any:
        return a.shape[0]

    return length if isinstance(a, LayoutArrayType) and a.ndim else None


@overload_attribute(LayoutArrayType, "ndim")
def _ndim(a: Any) -> Any:
    count = a.ndim

    def ndim(a: Any) -> Any:
        return count

    return ndim


@overload_attribute(LayoutArrayType, "size")
def _size(a: Any) -> Any:
    def size(a: Any) -> Any:
        count = 1
        for n in a.shape:
            count *= n
        return count

    return size
