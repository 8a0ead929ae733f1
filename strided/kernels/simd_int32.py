"""Sixteen integers of 32 bits at a time, as values of compiled code: the arithmetic of coordinates and offsets.

Sums and products are modulo ``2**32``.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from strided.kernels.llvm import (
    BYTE,
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    as_bytes,
    loaded,
    operation,
    pointer_to,
    same,
    shuffled,
    splat,
)

COUNT = 16

_KIND = VECTOR.of(32)
_FLOATS = ir.VectorType(ir.DoubleType(), COUNT)


def _numbers(builder, value):
    return builder.bitcast(value, _KIND)


@operation(VECTOR, INTEGER)
def low(builder, address):
    """The lower halves of sixteen int64 from an address on."""
    lines = (loaded(builder, builder.add(address, INT64(k)), VECTOR, 32) for k in (0, LINE))
    return as_bytes(builder, shuffled(builder, *lines, range(0, 2 * COUNT, 2)))


@operation(VECTOR, INTEGER)
def excess(builder, address):
    """Eight int64, not all 0 if one of sixteen from an address on does not fit 32 bits."""
    kind = VECTOR.of(64)
    lines = (loaded(builder, builder.add(address, INT64(k)), VECTOR, 64) for k in (0, LINE))
    # What fits lies between 0 and 2**32 then.
    moved = (builder.add(line, same(kind, 1 << 31)) for line in lines)
    return as_bytes(builder, builder.lshr(builder.or_(*moved), same(kind, 32)))


@operation(VECTOR, INTEGER)
def repeated(builder, number):
    """The same number sixteen times."""
    return as_bytes(builder, splat(builder, number, _KIND))


@operation(VECTOR, VECTOR, VECTOR)
def either(builder, first, second):
    """Bits that are set in one or both."""
    return builder.or_(first, second)


@operation(VECTOR, VECTOR, VECTOR)
def differing(builder, first, second):
    """Bits that differ."""
    return builder.xor(first, second)


@operation(VECTOR, VECTOR, VECTOR)
def least(builder, first, second):
    """The smaller numbers, as unsigned ones."""
    first, second = _numbers(builder, first), _numbers(builder, second)
    return as_bytes(builder, builder.select(builder.icmp_unsigned("<", first, second), first, second))


@operation(INTEGER, VECTOR)
def some(builder, value):
    """A number that is not 0 if any bit is set."""
    flags = builder.icmp_signed("!=", _numbers(builder, value), same(_KIND, 0))
    return builder.zext(builder.bitcast(flags, ir.IntType(COUNT)), INT64)


@operation(VECTOR, VECTOR, VECTOR)
def total(builder, first, second):
    """Sums."""
    return as_bytes(builder, builder.add(_numbers(builder, first), _numbers(builder, second)))


@operation(VECTOR, VECTOR, INTEGER)
def times(builder, value, factor):
    """Products with one factor."""
    return as_bytes(builder, builder.mul(_numbers(builder, value), splat(builder, factor, _KIND)))


@operation(VECTOR, VECTOR, INTEGER)
def halved(builder, value, times):
    """``value >> times``."""
    return as_bytes(builder, builder.ashr(_numbers(builder, value), splat(builder, times, _KIND)))


@operation(VECTOR, VECTOR, types.float64)
def quotient(builder, value, inverse):
    """``value // divisor`` of numbers not below zero."""
    # With a half added, no exact quotient lies so near an integer that rounding could matter.
    numbers = builder.sitofp(_numbers(builder, value), _FLOATS)
    middle = builder.fadd(numbers, ir.Constant(_FLOATS, [0.5] * COUNT))
    return as_bytes(builder, builder.fptosi(builder.fmul(middle, splat(builder, inverse, _FLOATS)), _KIND))


@operation(INTEGER, INTEGER)
def number(builder, address):
    """The unsigned integer of 32 bits at an address."""
    return builder.zext(builder.load(pointer_to(builder, address, ir.IntType(32)), align=4), INT64)


@operation(types.void, INTEGER, VECTOR, INTEGER, INTEGER)
def narrow(builder, address, offsets, bits, flip):
    """Narrow each of the sixteen bytes at an address to its packed element of `bits` at an offset in elements.

    `flip` is 0 where the first element of a byte lies in its low bits, else ``8 - bits``.
    """
    pointer = pointer_to(builder, address, ir.VectorType(BYTE, COUNT))
    whole = builder.zext(builder.load(pointer, align=1), _KIND)
    place = builder.mul(_numbers(builder, offsets), splat(builder, bits, _KIND))
    shift = builder.xor(builder.and_(place, same(_KIND, 7)), splat(builder, flip, _KIND))
    mask = builder.sub(builder.shl(INT64(1), bits), INT64(1))
    found = builder.and_(builder.lshr(whole, shift), splat(builder, mask, _KIND))
    builder.store(builder.trunc(found, pointer.type.pointee), pointer, align=1)
