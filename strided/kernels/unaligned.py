"""Unsigned integers of any width at any byte of a flat array: loads and stores without alignment."""

from __future__ import annotations

from numba import types
from numba.core import cgutils

from strided.kernels.compile import part
from strided.kernels.llvm import intrinsic


def _pointer(context, builder, array_type, array, place, kind):
    data = context.make_array(array_type)(context, builder, array).data
    byte = cgutils.gep_inbounds(builder, data, place)
    return builder.bitcast(byte, context.get_value_type(kind).as_pointer())


@intrinsic
def load_unsigned(typing, array, place, like):
    """An unsigned integer of the type of `like`, at any byte of a flat uint8 array."""

    def code(context, builder, signature, arguments):
        array_type, _, kind = signature.args
        return builder.load(_pointer(context, builder, array_type, *arguments[:2], kind), align=1)

    return like(array, types.intp, like), code


@intrinsic
def store_unsigned(typing, array, place, value):
    """Put an unsigned integer at any byte of a flat uint8 array."""

    def code(context, builder, signature, arguments):
        array_type, _, kind = signature.args
        builder.store(arguments[2], _pointer(context, builder, array_type, *arguments[:2], kind), align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), code


@intrinsic
def width_of(typing, like):
    """Bytes of an integer type, as a constant."""

    def code(context, builder, signature, arguments):
        return context.get_constant(types.intp, like.bitwidth // 8)

    return types.intp(like), code


@part
def log2(number):
    """The logarithm of a power of two; -1 of other numbers."""
    if number & (number - 1):
        return -1
    log = 0
    while number > 1:
        number >>= 1
        log += 1
    return log
