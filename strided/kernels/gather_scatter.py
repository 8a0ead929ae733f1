"""Kernels that follow offsets or index arrays to single elements."""

from __future__ import annotations

import numpy as np
from numba import types

from strided.kernels import CACHED, CHECK, DIVIDE, FETCHED, POINTS, SHIFT, SPLIT, simd_bytes, simd_int32
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.llvm import LINE
from strided.kernels.unaligned import load_unsigned, log2, store_unsigned

_AHEAD = 96  # elements between a load and the one prefetched with it: a third faster than none

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
            store_unsigned(target, i * width, load_unsigned(source, at * width, like))
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
            store_unsigned(target, at * width, load_unsigned(source, i * width, like))
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
        shift, mask = log2(weight), size - 1
        if shift >= 0 and size & mask == 0:
            for i in range(indices.shape[0]):
                offsets[i] += ((start + step * indices[i]) >> shift & mask) * stride
        else:
            for i in range(indices.shape[0]):
                offsets[i] += (start + step * indices[i]) // weight % size * stride


#: Bytes of a list of one number for each element of a block.
_LIST = 4 * POINTS
#: Bytes between an index and the one asked for with it. Into the second-level cache, as elements are: a CPU has few
#: places for what is on its way to the first, and the elements being taken need them.
_INDICES_AHEAD = 1 << 13


@part
def _quotient(numbers, divisor, shift):
    """Sixteen numbers divided; `shift` is the logarithm of a power of two, else -1."""
    if shift >= 0:
        return simd_int32.halved(numbers, shift)
    return simd_int32.quotient(numbers, 1 / divisor)


@part
def _add(offsets, numbers, factor):
    simd_bytes.store(offsets, simd_int32.total(simd_bytes.load(offsets), simd_int32.times(numbers, factor)))


@part
def _check(given, wide, bound, index, factor, offsets):
    far, astray = simd_bytes.zero(), simd_bytes.zero()
    bounds, last = simd_int32.repeated(bound), simd_int32.repeated(bound - 1)
    for at in range(0, _LIST, LINE):
        # The indices of later blocks come while elements of this one are taken.
        if wide:
            for line in (2 * at, 2 * at + LINE):
                simd_bytes.prefetch(given + _INDICES_AHEAD + line)
            low = simd_int32.low(given + 2 * at)
            far = simd_int32.either(far, simd_int32.excess(given + 2 * at))
        else:
            simd_bytes.prefetch(given + _INDICES_AHEAD + at)
            low = simd_bytes.load(given + at)
        # As unsigned numbers, negative ones are larger than what they wrap to.
        wrapped = simd_int32.least(low, simd_int32.total(low, bounds))
        inside = simd_int32.least(wrapped, last)
        astray = simd_int32.either(astray, simd_int32.differing(wrapped, inside))
        simd_bytes.store(index + at, inside)
        _add(offsets + at, inside, factor)
    return simd_int32.some(simd_int32.either(far, astray))


@part
def _split(numbers, divisor, shift, quotients, factor, offsets):
    for at in range(0, _LIST, LINE):
        whole = simd_bytes.load(numbers + at)
        found = _quotient(whole, divisor, shift)
        simd_bytes.store(quotients + at, found)
        simd_bytes.store(numbers + at, simd_int32.total(whole, simd_int32.times(found, -divisor)))
        _add(offsets + at, found, factor)


@part
def _divide(numbers, divisor, shift, factor, offsets):
    for at in range(0, _LIST, LINE):
        _add(offsets + at, _quotient(simd_bytes.load(numbers + at), divisor, shift), factor)


@part
def _shift(numbers, start, step, shifted):
    for at in range(0, _LIST, LINE):
        found = simd_int32.times(simd_bytes.load(numbers + at), step)
        simd_bytes.store(shifted + at, simd_int32.total(found, simd_int32.repeated(start)))


@part
def _follow(step, first, lists, offsets, data, bits):
    """Take one step of `gather_points` for a block of elements; return 0 if no index is out of bounds."""
    kind, own, factor, x, y, z = step
    numbers = lists + own * _LIST
    if kind == CHECK:
        given = x + first * y
        if y != 8 and y != 4:
            for i in range(POINTS):
                simd_bytes.put_integer(lists + 8 * i, simd_bytes.integer(given + i * y))
            given = lists
        return _check(given, y != 4, z, numbers, factor, offsets)
    if kind == SPLIT:
        _split(numbers, x, y, lists + 3 * _LIST, factor, offsets)
    elif kind == DIVIDE:
        _divide(numbers, x, y, factor, offsets)
    elif kind > SHIFT:  # FETCH: an equality would be more instructions
        for i in range(x, x + FETCHED):
            simd_bytes.prefetch(data + (simd_int32.number(offsets + 4 * i) * bits >> 3))
    else:
        _shift(numbers, x, y, lists + 4 * _LIST)
    return ZERO


@part
def _take(copy, width, data, target, offsets):
    for k in range(simd_int32.COUNT):
        copy(target + k * width, data + simd_int32.number(offsets + 4 * k) * width)


@part
def _take_some(data, target, offsets, bits, flip):
    """Take as many elements as offsets are a vector."""
    if bits < 8:
        each = log2(8 // bits)
        for k in range(simd_int32.COUNT):
            simd_bytes.copy1(target + k, data + (simd_int32.number(offsets + 4 * k) >> each))
        simd_int32.narrow(target, simd_bytes.load(offsets), bits, flip)
    elif bits == 8:
        _take(simd_bytes.copy1, 1, data, target, offsets)
    elif bits == 16:
        _take(simd_bytes.copy2, 2, data, target, offsets)
    elif bits == 32:
        _take(simd_bytes.copy4, 4, data, target, offsets)
    elif bits == 64:
        _take(simd_bytes.copy8, 8, data, target, offsets)
    else:
        _take(simd_bytes.copy16, 16, data, target, offsets)


@kernel(BYTES, WRITABLE, TABLE, NUMBER, NUMBER, NUMBER, NUMBER, WRITABLE)
def gather_points(source, target, steps, base, first, bits, flip, scratch):
    """Elements of `bits` at index arrays, from the place `first` on, as many as there is room for.

    There must be room for `POINTS` elements, and as many indices as that. The offset of an element is `base`, modulo
    ``2**32``, and what the rows of `steps` add. Each makes a list of numbers below ``2**31`` and adds its products
    with a factor:

    - ``(CHECK, to, factor, address, step, bound)``: int64 indices that lie `step` bytes apart, counted from the start;
      int32 ones, if these are 4
    - ``(SPLIT, from, factor, divisor, logarithm, 0)``: quotients, to the list 3; the remainders replace the numbers
    - ``(DIVIDE, from, factor, divisor, logarithm, 0)``: quotients, which are not kept
    - ``(SHIFT, from, 0, start, step, 0)``: ``start + step * number``, to the list 4
    - ``(FETCH, 0, 0, first, 0, 0)``: none; `FETCHED` elements are asked for, all offsets being known

    A logarithm is -1 for a divisor that is no power of two. Packed elements of fewer than eight bits are taken to
    bytes; `flip` changes their places in a byte: 0 where the first one lies in the low bits, else ``8 - bits``.

    Returns 0 if no index is out of bounds; else what was taken is of no use. All offsets must lie in the source.
    """
    width = max(1, bits // 8)
    size, lists, astray = target.shape[0] // width, simd_bytes.address(scratch), ZERO
    data, goal, groups = simd_bytes.address(source), simd_bytes.address(target), POINTS // simd_int32.COUNT
    share = (groups + steps.shape[0] - 1) // steps.shape[0]
    for i in range(0, _LIST, LINE):
        simd_bytes.store(lists + 6 * _LIST + i, simd_bytes.zero())
    # The last block overlaps the one before. It is located twice, and first of all anything is taken.
    before = ZERO  # computed from k, it takes a twentieth of the time
    for k in range((size + POINTS - 1) // POINTS + 1):
        at = min(k * POINTS, size - POINTS)
        offsets, earlier = lists + (5 + k % 2) * _LIST, lists + (6 - k % 2) * _LIST
        for i in range(0, _LIST, LINE):
            simd_bytes.store(offsets + i, simd_int32.repeated(base))
        for s in range(steps.shape[0]):
            # A few elements are taken after each step: a CPU computes while it waits for memory.
            astray |= _follow(steps[s], first + at, lists, offsets, data, bits)
            for group in range(s * share, min(groups, s * share + share)):
                i = group * simd_int32.COUNT
                _take_some(data, goal + (before + i) * width, earlier + 4 * i, bits, flip)
        before = at
    return astray


@part
def _sums(source, target, outer, inner, width, like):
    t = 0
    for i in range(outer.shape[0]):
        for j in range(inner.shape[0]):
            store_unsigned(target, t, load_unsigned(source, (outer[i] + inner[j]) * width, like))
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
