"""Kernels that follow index arrays to single elements."""

from __future__ import annotations

from typing import Any

import numba.extending
import numpy as np
from numba import types

from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, kernel, part
from strided.kernels.general import _load, _log2, _store

intrinsic: Any = numba.extending.intrinsic

_NUMBERS = types.Array(types.int64, 1, "C")


@intrinsic
def _number_at(typing, address, place):
    """The 64-bit integer that stands so many integers behind an address."""

    def code(context, builder, signature, arguments):
        word = context.get_value_type(types.int64)
        start = builder.inttoptr(arguments[0], word.as_pointer())
        return builder.load(builder.gep(start, [arguments[1]], inbounds=True), align=1)

    return types.int64(types.int64, types.int64), code


@part
def _read(axis, first, count, numbers):
    """Coordinates along an axis, counted from its start; how many lie outside, which become 0.

    `axis` is where its index array lies, the integers from one index to the next, its bound, divisor and modulus,
    which make a coordinate of the index.
    """
    address, step, bound, divisor, modulus = axis
    if step == 1:
        for i in range(count):
            numbers[i] = _number_at(address, first + i)
    else:
        for i in range(count):
            numbers[i] = _number_at(address, (first + i) * step)
    outside = 0
    for i in range(count):
        v = numbers[i] + (bound & (numbers[i] >> 63))
        is_outside = (v < 0) | (v >= bound)
        outside += is_outside
        numbers[i] = 0 if is_outside else v
    if modulus:
        shift, mask = _log2(divisor), modulus - 1
        if shift >= 0 and modulus & mask == 0:
            for i in range(count):
                numbers[i] = numbers[i] >> shift & mask
        else:
            for i in range(count):
                quotient = _quotient(numbers[i], divisor, 1 / divisor)
                numbers[i] = quotient - modulus * _quotient(quotient, modulus, 1 / modulus)
    return outside


@part
def _quotient(number, divisor, inverse):
    """``number // divisor`` of a place in memory, which has fewer bits than a float's mantissa: vectors can do that."""
    quotient = np.int64(number * inverse)
    left = number - quotient * divisor
    return quotient - (left < 0) + (left >= divisor)


@part
def _add(carries, start, step, numbers, count, offsets):
    """Add what the coordinates ``start + step * number`` give: each carry (weight, factor) ``c // weight * factor``."""
    first = carries[0, 1]
    if carries.shape[0] == 1:
        for i in range(count):
            offsets[i] += (start + step * numbers[i]) * first
        return
    weight, factor = carries[1]
    shift = _log2(weight)
    if shift >= 0:
        for i in range(count):
            c = start + step * numbers[i]
            offsets[i] += c * first + (c >> shift) * factor
    else:
        for i in range(count):
            c = start + step * numbers[i]
            offsets[i] += c * first + c // weight * factor
    for k in range(2, carries.shape[0]):
        weight, factor = carries[k]
        shift = _log2(weight)
        if shift >= 0:
            for i in range(count):
                offsets[i] += ((start + step * numbers[i]) >> shift) * factor
        else:
            for i in range(count):
                offsets[i] += (start + step * numbers[i]) // weight * factor


@kernel(TABLE, TABLE, TABLE, NUMBER, NUMBER, _NUMBERS, _NUMBERS)
def locate(axes, terms, carries, base, first, numbers, offsets):
    """The offsets of elements at index arrays, from the place `first` on, as many as `offsets` has room for.

    `axes` has a row for each index array (see `_read`), `terms` the rows (axis, start, step, first carry, last carry),
    `carries` (weight, factor). Returns how many indices are out of bounds.
    """
    outside = 0
    for begin in range(0, offsets.shape[0], numbers.shape[0]):
        count = min(numbers.shape[0], offsets.shape[0] - begin)
        part_ = offsets[begin : begin + count]
        part_[:] = base
        read = -1
        for k in range(terms.shape[0]):
            axis, start, step, low, high = terms[k]
            if axis != read:
                row = axes[axis]
                outside += _read((row[0], row[1], row[2], row[3], row[4]), first + begin, count, numbers)
                read = axis
            _add(carries[low:high], start, step, numbers, count, part_)
    return outside


@part
def _sums(source, target, outer, inner, width, like):
    t = 0
    for i in range(outer.shape[0]):
        for j in range(inner.shape[0]):
            _store(target, t, _load(source, (outer[i] + inner[j]) * width, like))
            t += width


@kernel(BYTES, WRITABLE, LIST, LIST, NUMBER)
def gather_sums(source, target, outer, inner, width):
    """The elements at every sum of an outer and an inner offset, in elements of `width` bytes."""
    if width == 1:
        _sums(source, target, outer, inner, 1, np.uint8(0))
    elif width == 2:
        _sums(source, target, outer, inner, 2, np.uint16(0))
    elif width == 4:
        _sums(source, target, outer, inner, 4, np.uint32(0))
    else:
        _sums(source, target, outer, inner, 8, np.uint64(0))
