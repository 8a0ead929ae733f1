"""Kernels that follow index arrays to single elements."""

from __future__ import annotations

import numpy as np

from strided.kernels import integers, lanes
from strided.kernels.compile import BYTES, LIST, NUMBER, WRITABLE, ZERO, kernel, part
from strided.kernels.general import CACHED, _load, _store

#: Elements that are located before any of them is taken.
BLOCK = 1024


@part
def _quotient(numbers, divisor, shift):
    """Eight numbers divided; `shift` is the logarithm of a power of two, else -1."""
    if shift >= 0:
        return integers.halved(numbers, shift)
    return integers.quotient(numbers, divisor, 1 / divisor)


@part
def _locate(axes, end, carries, base, first, offsets):
    """Put the offsets of a block of elements into memory; 0 if no index is out of bounds."""
    astray = ZERO
    for at in range(0, BLOCK, integers.COUNT):
        found, index, axis = integers.repeated(base), lanes.zero(), axes
        while axis < end:
            place, stride = lanes.integer(axis), lanes.integer(axis + 8)
            if place:
                place += (first + at) * stride
                given = integers.adjacent(place) if stride == 8 else integers.spaced(place, stride)
                given = integers.wrapped(given, lanes.integer(axis + 16))
                index = integers.within(given, lanes.integer(axis + 16))
                astray |= integers.differing(given, index)
            coordinate, divisor = index, lanes.integer(axis + 24)
            if divisor > 1:
                coordinate = _quotient(index, divisor, lanes.integer(axis + 32))
                index = integers.total(index, integers.times(coordinate, -divisor))
            else:
                index = lanes.zero()  # nothing is left over for axes of size one behind
            found = integers.total(found, integers.times(coordinate, lanes.integer(axis + 40)))
            carry, last = carries + 40 * lanes.integer(axis + 48), carries + 40 * lanes.integer(axis + 56)
            while carry < last:
                start, step = integers.repeated(lanes.integer(carry)), lanes.integer(carry + 8)
                c = integers.total(start, integers.times(coordinate, step))
                turns = _quotient(c, lanes.integer(carry + 16), lanes.integer(carry + 24))
                found = integers.total(found, integers.times(turns, lanes.integer(carry + 32)))
                carry += 40
            axis += 64
        lanes.store(offsets + 8 * at, found)
    return astray


@part
def _take(source, target, offsets, t, width, like):
    if source.shape[0] > CACHED:
        # All of them are on their way at once.
        for k in range(BLOCK):
            lanes.prefetch(lanes.address(source) + lanes.integer(offsets + 8 * k) * width)
    for k in range(BLOCK):
        _store(target, t + k * width, _load(source, lanes.integer(offsets + 8 * k) * width, like))


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
    own = lanes.address(axes), lanes.address(axes) + 64 * count, lanes.address(carries), base
    offsets = lanes.address(scratch)
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
