"""Numba: pass a `LayoutArray` to functions compiled by ``@njit``.

Compiled functions can read single elements, ``a[i, j]``, in place, and use ``shape``, ``ndim``, ``size`` and ``len``.
They cannot slice, assign or iterate. For that, or to read every element, pass an ndarray, which is faster:
``a.to_numpy()`` or, if the layout is plain strides, ``a.as_strided()``.

Numba finds `register` by the entry point ``numba_extensions`` when it first compiles something.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import extending, types
from numba.core import cgutils, errors
from numba.np.numpy_support import from_dtype

from strided.arrays.base import Array
from strided.arrays.layout_array import LayoutArray
from strided.layout.element_types import is_builtin

#: The type of the table of carries. Its columns are start, step, shift, weight and factor of a term that index i adds:
#: ``((start + step * i) >> shift) // weight * factor``. Most weights are powers of two, which become shifts.
_ROWS = types.Array(types.int64, 2, "C")


class LayoutArrayType(types.Type):
    """Numba's type of a `LayoutArray`: all layouts of one rank and dtype share it, and the code compiled for it."""

    def __init__(self, dtype: Any, ndim: int, aligned: bool) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.elements = types.Array(dtype, 1, "C", readonly=True, aligned=aligned)
        index = types.UniTuple(types.intp, ndim)
        #: The names and types of what `parts_of` returns.
        self.parts = (
            ("elements", self.elements),
            ("rows", _ROWS),
            ("ends", index),
            ("shape", index),
            ("base", types.int64),
        )
        super().__init__(f"LayoutArray({dtype}, {ndim}d{'' if aligned else ', unaligned'})")


def register() -> None:
    """Do nothing: importing this module has registered the type with Numba."""


@extending.typeof_impl.register(LayoutArray)
def _typeof(a: LayoutArray, context: Any) -> LayoutArrayType:
    if not (is_builtin(a.dtype) and a.dtype.isnative):
        refusal = f"Numba has no {a.dtype}: give the function a.to_numpy().astype(...), in a type that it has"
    elif a.dtype == np.float16:
        refusal = "Numba does not compute with float16 on CPUs: give the function a.to_numpy().astype(np.float32)"
    elif not a.address_map.is_regular:
        refusal = f"the addresses of {a.xla_shape} are irregular: give the function a.to_numpy()"
    else:
        return LayoutArrayType(from_dtype(a.dtype), a.ndim, bool(a._memory.elements.flags.aligned))
    raise errors.NumbaTypeError(f"a LayoutArray that compiled functions cannot read: {refusal}")


@extending.register_model(LayoutArrayType)
class _Model(extending.models.StructModel):
    def __init__(self, manager: Any, kind: LayoutArrayType) -> None:
        super().__init__(manager, kind, kind.parts)


extending.make_attribute_wrapper(LayoutArrayType, "shape", "shape")


def parts_of(a: LayoutArray) -> tuple[Array, Array, tuple[int, ...], tuple[int, ...], int]:
    """What compiled functions need: elements, table of carries, end of each axis's rows in it, shape and base."""
    a.region  # noqa: B018 # raises if its file was truncated
    base, axes = a.address_map.slopes
    rows, ends = [], []
    for _, slope, carries in axes:
        for start, step, weight, factor in ((0, 1, 1, slope), *carries):
            shift = (weight & -weight).bit_length() - 1
            rows.append((start, step, shift, weight >> shift, factor))
        ends.append(len(rows))
    table = np.array(rows, np.int64).reshape(-1, 5)
    return a._memory.elements, table, tuple(ends), a.shape, base


@extending.unbox(LayoutArrayType)
def _unbox(kind: LayoutArrayType, a: Any, c: Any) -> extending.NativeValue:
    native = types.Tuple([of for _, of in kind.parts])
    module = c.pyapi.import_module(c.context.insert_const_string(c.builder.module, __name__))
    function = c.pyapi.object_getattr_string(module, "parts_of")
    parts = c.pyapi.call_function_objargs(function, (a,))
    c.pyapi.decref(function)
    c.pyapi.decref(module)
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    failed = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    with c.builder.if_then(cgutils.is_not_null(c.builder, parts)):
        found = c.unbox(native, parts)
        for place, (name, _) in enumerate(kind.parts):
            setattr(made, name, c.builder.extract_value(found.value, place))
        c.builder.store(found.is_error, failed)
        c.pyapi.decref(parts)
    return extending.NativeValue(made._getvalue(), is_error=c.builder.load(failed))


@extending.intrinsic
def _read(context: Any, a: Any, index: Any) -> Any:
    """Read the element at an index of one integer for each axis.

    The LLVM code is written by hand: pointers are borrowed, because arrays would count references for every element,
    and there is one loop over carries per axis.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = cgutils.create_struct_proxy(a)(target, builder, arguments[0])
        elements = target.make_array(a.elements)(target, builder, made.elements)
        table = target.make_array(_ROWS)(target, builder, made.rows).data
        whole = made.base.type
        offset = cgutils.alloca_once_value(builder, made.base)
        sizes, ends = (cgutils.unpack_tuple(builder, x, a.ndim) for x in (made.shape, made.ends))
        given = cgutils.unpack_tuple(builder, arguments[1], a.ndim)
        first = whole(0)
        for value, kind, size, end in zip(given, signature.args[1], sizes, ends, strict=True):
            i = _checked_index(target, builder, target.cast(builder, value, kind, types.intp), size)
            with cgutils.for_range_slice(builder, first, end, whole(1)) as (row, _):
                places = (builder.add(builder.mul(row, whole(5)), whole(k)) for k in range(5))
                start, step, shift, weight, factor = (builder.load(builder.gep(table, [k])) for k in places)
                shifted = builder.lshr(builder.add(start, builder.mul(step, i)), shift)
                carry = cgutils.alloca_once_value(builder, shifted)
                with builder.if_then(builder.icmp_unsigned("!=", weight, whole(1)), likely=False):
                    builder.store(builder.udiv(shifted, weight), carry)
                added = builder.mul(builder.load(carry), factor)
                builder.store(builder.add(builder.load(offset), added), offset)
            first = end
        place = builder.gep(elements.data, [builder.load(offset)])
        return target.unpack_value(builder, a.dtype, place, align=None if a.elements.aligned else 1)

    return a.dtype(a, index), generate


def _checked_index(target: Any, builder: Any, i: Any, size: Any) -> Any:
    """An index with negative values counted from the end; compiled functions raise IndexError if out of bounds."""
    from_end = builder.add(i, size)
    counted = builder.select(builder.icmp_signed("<", i, i.type(0)), from_end, i)
    with builder.if_then(builder.icmp_unsigned(">=", counted, size), likely=False):
        target.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
    return counted


@extending.overload(operator.getitem)
def _getitem(a: Any, index: Any) -> Any:
    if not isinstance(a, LayoutArrayType):
        return None
    each = index if isinstance(index, types.BaseTuple) else (index,)
    if len(each) != a.ndim or not all(isinstance(types.unliteral(t), types.Integer) for t in each):
        raise errors.NumbaTypeError(
            f"compiled functions read single elements of a LayoutArray, here with {a.ndim} integers; "
            "give them a.to_numpy() for anything else"
        )

    # Numba requires the same signature of both functions.
    def by_tuple(a: Any, index: Any) -> Any:
        return _read(a, index)

    def by_number(a: Any, index: Any) -> Any:
        return _read(a, (index,))

    return by_tuple if isinstance(index, types.BaseTuple) else by_number


@extending.overload(operator.setitem)
def _setitem(a: Any, index: Any, value: Any) -> Any:
    if isinstance(a, LayoutArrayType):
        raise errors.NumbaTypeError(
            "compiled functions do not assign to a LayoutArray: give them out = a.to_numpy(), then assign a[...] = out"
        )
    return None


@extending.overload(len)
def _len(a: Any) -> Any:
    def length(a: Any) -> Any:
        return a.shape[0]

    return length if isinstance(a, LayoutArrayType) and a.ndim else None


@extending.overload_attribute(LayoutArrayType, "ndim")
def _ndim(a: Any) -> Any:
    count = a.ndim

    def ndim(a: Any) -> Any:
        return count

    return ndim


@extending.overload_attribute(LayoutArrayType, "size")
def _size(a: Any) -> Any:
    def size(a: Any) -> Any:
        count = 1
        for n in a.shape:
            count *= n
        return count

    return size
