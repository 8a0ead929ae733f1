"""Eight integers of 64 bits at a time, as values of compiled code: the arithmetic of coordinates and offsets."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from strided.kernels.llvm import INT64, INTEGER, VECTOR, as_bytes, loaded, operation, pointer_to, same, splat

COUNT = 8

_KIND = VECTOR.of(64)
_FLOATS = ir.VectorType(ir.DoubleType(), COUNT)


def _numbers(builder, value):
    return builder.bitcast(value, _KIND)


@operation(VECTOR, INTEGER)
def repeated(builder, number):
    """The same number eight times."""
    return as_bytes(builder, splat(builder, number, _KIND))


@operation(VECTOR, INTEGER, INTEGER)
def spaced(builder, address, step):
    """The integers at an address and every `step` bytes from there on."""
    value = ir.Constant(_KIND, ir.Undefined)
    for k in range(COUNT):
        value = builder.insert_element(value, builder.load(pointer_to(builder, address, INT64), align=1), INT64(k))
        address = builder.add(address, step)
    return as_bytes(builder, value)


@operation(VECTOR, INTEGER)
def adjacent(builder, address):
    """The integers from an address on."""
    return as_bytes(builder, loaded(builder, address, VECTOR, 64))


@operation(VECTOR, VECTOR, INTEGER)
def wrapped(builder, value, bound):
    """Indices counted from the start: `bound` is added to those below zero."""
    value = _numbers(builder, value)
    below = builder.ashr(value, same(_KIND, 63))
    return as_bytes(builder, builder.add(value, builder.and_(below, splat(builder, bound, _KIND))))


@operation(VECTOR, VECTOR, INTEGER)
def within(builder, value, bound):
    """The numbers from zero to a bound; zero for all others."""
    value = _numbers(builder, value)
    inside = builder.icmp_unsigned("<", value, splat(builder, bound, _KIND))
    return as_bytes(builder, builder.select(inside, value, same(_KIND, 0)))


@operation(INTEGER, VECTOR, VECTOR)
def differing(builder, first, second):
    """A number that is not 0 where any two differ."""
    flags = builder.icmp_signed("!=", _numbers(builder, first), _numbers(builder, second))
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


@operation(VECTOR, VECTOR, INTEGER, types.float64)
def quotient(builder, value, divisor, inverse):
    """``value // divisor``, of numbers below 2**52, whose product with the inverse is off by one at most."""
    value, divisor = _numbers(builder, value), splat(builder, divisor, _KIND)
    guess = builder.fmul(builder.sitofp(value, _FLOATS), splat(builder, inverse, _FLOATS))
    found = builder.fptosi(guess, _KIND)
    left = builder.sub(value, builder.mul(found, divisor))
    few = builder.sext(builder.icmp_signed("<", left, same(_KIND, 0)), _KIND)
    many = builder.sext(builder.icmp_signed(">=", left, divisor), _KIND)
    return as_bytes(builder, builder.sub(builder.add(found, few), many))
