"""Kernels that follow offsets or index arrays to single elements."""

from __future__ import annotations

import numpy as np
from numba import types

from strided.kernels import simd_bytes, simd_int64
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.loop_nest import _load, _log2, _store

#: Bytes of a source above which elements are prefetched.
CACHED = 1 << 23
_AHEAD = 96  # elements between a load and the one prefetched with it: a third faster than none
#: Elements located before any of them is taken.
BLOCK = 1024

_GATHER = (BYTES, WRITABLE, LIST, NUMBER)


@part
def _gather(source, target, offsets, width, like):
    elements = source.shape[0] // width
    outside = 0
    # Elements of large sources are asked for ahead: more of them are on their way at once than by loads alone.
    asked = offsets.shape[0] if source.shape[0] > CACHED else 0
    for i in range(offsets.shape[0]):
        if i + _AHEAD < asked:
            simd_bytes.prefetch(simd_bytes.address(source) + offsets[i + _AHEAD] * width)
        at = offsets[i]
        if 0 <= at < elements:
            _store(target, i * width, _load(source, at * width, like))
        else:
            outside += 1
    return outside


@part
def _scatter(source, target, offsets, width, like):
    elements = target.shape[0] // width
    outside = 0
    for i in range(offsets.shape[0]):
        at = offsets[i]
        if 0 <= at < elements:
            _store(target, at * width, _load(source, i * width, like))
        else:
            outside += 1
    return outside


@kernel(*_GATHER)
def gather(source, target, offsets, width):
    """``target[i] = source[offsets[i]]``, elements of `width` bytes; skip and count the offsets that lie outside."""
    if width == 1:
        return _gather(source, target, offsets, 1, np.uint8(0))
    if width == 2:
        return _gather(source, target, offsets, 2, np.uint16(0))
    if width == 4:
        return _gather(source, target, offsets, 4, np.uint32(0))
    return _gather(source, target, offsets, 8, np.uint64(0))


@kernel(*_GATHER)
def scatter(source, target, offsets, width):
    """``target[offsets[i]] = source[i]``, elements of `width` bytes; skip and count the offsets that lie outside."""
    if width == 1:
        return _scatter(source, target, offsets, 1, np.uint8(0))
    if width == 2:
        return _scatter(source, target, offsets, 2, np.uint16(0))
    if width == 4:
        return _scatter(source, target, offsets, 4, np.uint32(0))
    return _scatter(source, target, offsets, 8, np.uint64(0))


@kernel(LIST, NUMBER, NUMBER, TABLE, types.Array(types.int64, 1, "C"))
def add_digits(indices, start, step, digits, offsets):
    """Add to each offset what the digits (weight, size, stride) of ``start + step * index`` give."""
    for k in range(digits.shape[0]):
        weight, size, stride = digits[k]
        shift, mask = _log2(weight), size - 1
        if shift >= 0 and size & mask == 0:
            for i in range(indices.shape[0]):
                offsets[i] += ((start + step * indices[i]) >> shift & mask) * stride
        else:
            for i in range(indices.shape[0]):
                offsets[i] += (start + step * indices[i]) // weight % size * stride


@part
def _quotient(numbers, divisor, shift):
    """Eight numbers divided; `shift` is the logarithm of a power of two, else -1."""
    if shift >= 0:
        return simd_int64.halved(numbers, shift)
    return simd_int64.quotient(numbers, divisor, 1 / divisor)


@part
def _locate(axes, end, carries, base, first, offsets):
    """Write the offsets of a block of elements; return 0 if no index is out of bounds."""
    astray = ZERO
    for at in range(0, BLOCK, simd_int64.COUNT):
        found, index, axis = simd_int64.repeated(base), simd_bytes.zero(), axes
        while axis < end:
            place, stride = simd_bytes.integer(axis), simd_bytes.integer(axis + 8)
            if place:
                place += (first + at) * stride
                given = simd_int64.adjacent(place) if stride == 8 else simd_int64.spaced(place, stride)
                given = simd_int64.wrapped(given, simd_bytes.integer(axis + 16))
                index = simd_int64.within(given, simd_bytes.integer(axis + 16))
                astray |= simd_int64.differing(given, index)
            coordinate, divisor = index, simd_bytes.integer(axis + 24)
            if divisor > 1:
                coordinate = _quotient(index, divisor, simd_bytes.integer(axis + 32))
                index = simd_int64.total(index, simd_int64.times(coordinate, -divisor))
            else:
                index = simd_bytes.zero()  # nothing is left over for axes of size one behind
            found = simd_int64.total(found, simd_int64.times(coordinate, simd_bytes.integer(axis + 40)))
            carry, last = carries + 40 * simd_bytes.integer(axis + 48), carries + 40 * simd_bytes.integer(axis + 56)
            while carry < last:
                start, step = simd_int64.repeated(simd_bytes.integer(carry)), simd_bytes.integer(carry + 8)
                c = simd_int64.total(start, simd_int64.times(coordinate, step))
                turns = _quotient(c, simd_bytes.integer(carry + 16), simd_bytes.integer(carry + 24))
                found = simd_int64.total(found, simd_int64.times(turns, simd_bytes.integer(carry + 32)))
                carry += 40
            axis += 64
        simd_bytes.store(offsets + 8 * at, found)
    return astray


@part
def _take(source, target, offsets, t, width, like):
    if source.shape[0] > CACHED:
        # All of them are on their way at once.
        for k in range(BLOCK):
            simd_bytes.prefetch(simd_bytes.address(source) + simd_bytes.integer(offsets + 8 * k) * width)
    for k in range(BLOCK):
        _store(target, t + k * width, _load(source, simd_bytes.integer(offsets + 8 * k) * width, like))


@kernel(BYTES, WRITABLE, LIST, NUMBER, LIST, NUMBER, NUMBER, NUMBER, WRITABLE)
def gather_points(source, target, axes, count, carries, base, first, width, scratch):
    """Elements of `width` bytes at index arrays, from the place `first` on, as many as there is room for.

    There must be room for one block, and as many indices as that. `axes` has eight numbers for each of `count` axes:
    where its index array lies, the bytes from one index to the next, its bound, a divisor and the divisor's logarithm
    (-1 where it has none), a factor, its first and its last carry. The coordinate is the index by the divisor. Where
    there is no index array, at 0, the index is what the axis before left over. A coordinate adds to the offset of the
    element its product with the factor, and for each carry, the numbers (start, step, weight, its logarithm or -1,
    factor), ``(start + step * coordinate) // weight * factor``.

    Returns 0 if no index is out of bounds; else what was taken is of no use. All offsets must lie in the source.
    """
    astray, size = ZERO, target.shape[0] // width
    own = simd_bytes.address(axes), simd_bytes.address(axes) + 64 * count, simd_bytes.address(carries), base
    offsets = simd_bytes.address(scratch)
    for begin in range(0, size, BLOCK):
        # The last block overlaps the one before.
        at = min(begin, size - BLOCK)
        astray |= _locate(own[0], own[1], own[2], own[3], first + at, offsets)
        if width == 1:
            _take(source, target, offsets, at, 1, np.uint8(0))
        elif width == 2:
            _take(source, target, offsets, at * 2, 2, np.uint16(0))
        elif width == 4:
            _take(source, target, offsets, at * 4, 4, np.uint32(0))
        else:
            _take(source, target, offsets, at * 8, 8, np.uint64(0))
    return astray


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
