"""The general kernels: nests of loops over tables, for copies that suit no vector kernel.

A copy is three tables. `outer` holds one (source, target) offset a row, in bytes, or in elements for ``nest_bits``. `p`
and `q` hold one *piece* a row, (source, target, length): elements that lie at equal steps on both sides. `q` runs along
the target's nearest axis, `p` along the source's, or another one where both have the same. The kernel goes through
every combination; clipped tiles, windows and misaligned tiles only change the tables. The caller has checked that all
of it lies inside both buffers.
"""

from __future__ import annotations

import numpy as np
from numba import types

from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, kernel, part
from strided.kernels.unaligned import load_unsigned, store_unsigned, width_of

#: Side in elements of the squares of a transposing nest: both sides' lines stay in the first-level cache.
_SQUARE = 32

_STEPS = types.UniTuple(NUMBER, 2)
_NEST = (BYTES, WRITABLE, TABLE, TABLE, _STEPS, TABLE, _STEPS)


@part
def _run(source, s, target, t, count, like):
    """Elements side by side, to elements side by side."""
    width = width_of(like)
    for j in range(count):
        store_unsigned(target, t + j * width, load_unsigned(source, s + j * width, like))


@part
def _line(source, s, s_step, target, t, t_step, count, like):
    """Elements one after the other. Steps of one or two elements are constants to LLVM, which then makes vectors."""
    width = width_of(like)
    if t_step == width and s_step == width:
        _run(source, s, target, t, count, like)
    elif t_step == width and s_step == -width:
        for j in range(count):
            store_unsigned(target, t + j * width, load_unsigned(source, s - j * width, like))
    elif t_step == width and s_step == 2 * width:
        for j in range(count):
            store_unsigned(target, t + j * width, load_unsigned(source, s + j * 2 * width, like))
    else:
        for j in range(count):
            store_unsigned(target, t + j * t_step, load_unsigned(source, s + j * s_step, like))


@part
def _square(source, s, target, t, rows, p_source, p_target, lanes, q_source, q_target, like):
    for i0 in range(0, rows, _SQUARE):
        for j0 in range(0, lanes, _SQUARE):
            for i in range(i0, min(rows, i0 + _SQUARE)):
                si, ti = s + i * p_source, t + i * p_target
                for j in range(j0, min(lanes, j0 + _SQUARE)):
                    store_unsigned(target, ti + j * q_target, load_unsigned(source, si + j * q_source, like))


@part
def _nest(source, target, outer, p, p_steps, q, q_steps, like):
    p_source, p_target = p_steps
    q_source, q_target = q_steps
    # Where the source's neighbours lie along p, lines of both sides are used up square by square.
    squares = abs(p_source) < abs(q_source)
    for o in range(outer.shape[0]):
        for a in range(p.shape[0]):
            s_row, t_row, rows = outer[o, 0] + p[a, 0], outer[o, 1] + p[a, 1], p[a, 2]
            for b in range(q.shape[0]):
                s, t, lanes = s_row + q[b, 0], t_row + q[b, 1], q[b, 2]
                if squares and rows > 1:
                    _square(source, s, target, t, rows, p_source, p_target, lanes, q_source, q_target, like)
                else:
                    for i in range(rows):
                        _line(source, s + i * p_source, q_source, target, t + i * p_target, q_target, lanes, like)


@kernel(*_NEST)
def nest8(source, target, outer, p, p_steps, q, q_steps):
    """Copy what the tables describe, in elements of one byte; all offsets and steps in bytes."""
    _nest(source, target, outer, p, p_steps, q, q_steps, np.uint8(0))


@kernel(*_NEST)
def nest16(source, target, outer, p, p_steps, q, q_steps):
    """The same in elements of two bytes."""
    _nest(source, target, outer, p, p_steps, q, q_steps, np.uint16(0))


@kernel(*_NEST)
def nest32(source, target, outer, p, p_steps, q, q_steps):
    """The same in elements of four bytes."""
    _nest(source, target, outer, p, p_steps, q, q_steps, np.uint32(0))


@kernel(*_NEST)
def nest64(source, target, outer, p, p_steps, q, q_steps):
    """The same in elements of eight bytes."""
    _nest(source, target, outer, p, p_steps, q, q_steps, np.uint64(0))


@part
def _bits_at(source, place, bits, flip, log):
    """A packed element; `log` is the logarithm of how many share a byte."""
    shift = (place & (1 << log) - 1) * bits ^ flip
    return source[place >> log] >> shift & (1 << bits) - 1


@part
def _put_bits(target, place, bits, flip, log, value):
    shift = (place & (1 << log) - 1) * bits ^ flip
    mask = (1 << bits) - 1 << shift
    target[place >> log] = target[place >> log] & ~mask & 0xFF | value << shift & mask


@part
def _log_of_byte(bits):
    """The logarithm of how many elements share a byte."""
    return 3 if bits == 1 else 2 if bits == 2 else 1 if bits == 4 else 0


# Eight packed elements at a time, in a word of 64 bits: spread out to bytes in three steps, each of which halves every
# field and moves its upper half up, and put together again the other way round.


@part
def _spread(x, bits, high):
    """Eight packed elements, in the low bits, as eight bytes."""
    if high:
        x = _turned(x, bits)
    if bits == 4:
        x = (x | x << np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
        x = (x | x << np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
        return (x | x << np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    if bits == 2:
        x = (x | x << np.uint64(24)) & np.uint64(0x000000FF000000FF)
        x = (x | x << np.uint64(12)) & np.uint64(0x000F000F000F000F)
        return (x | x << np.uint64(6)) & np.uint64(0x0303030303030303)
    x = (x | x << np.uint64(28)) & np.uint64(0x0000000F0000000F)
    x = (x | x << np.uint64(14)) & np.uint64(0x0003000300030003)
    return (x | x << np.uint64(7)) & np.uint64(0x0101010101010101)


@part
def _gathered(x, bits, high):
    """The low bits of eight bytes side by side."""
    if bits == 4:
        x &= np.uint64(0x0F0F0F0F0F0F0F0F)
        x = (x | x >> np.uint64(4)) & np.uint64(0x00FF00FF00FF00FF)
        x = (x | x >> np.uint64(8)) & np.uint64(0x0000FFFF0000FFFF)
        x = (x | x >> np.uint64(16)) & np.uint64(0xFFFFFFFF)
    elif bits == 2:
        x &= np.uint64(0x0303030303030303)
        x = (x | x >> np.uint64(6)) & np.uint64(0x000F000F000F000F)
        x = (x | x >> np.uint64(12)) & np.uint64(0x000000FF000000FF)
        x = (x | x >> np.uint64(24)) & np.uint64(0xFFFF)
    else:
        x &= np.uint64(0x0101010101010101)
        x = (x | x >> np.uint64(7)) & np.uint64(0x0003000300030003)
        x = (x | x >> np.uint64(14)) & np.uint64(0x0000000F0000000F)
        x = (x | x >> np.uint64(28)) & np.uint64(0xFF)
    return _turned(x, bits) if high else x


@part
def _turned(x, bits):
    """The elements of each byte in the opposite order."""
    low = np.uint64(0x0F0F0F0F0F0F0F0F)
    x = (x & low) << np.uint64(4) | (x >> np.uint64(4) & low)
    if bits <= 2:
        low = np.uint64(0x3333333333333333)
        x = (x & low) << np.uint64(2) | (x >> np.uint64(2) & low)
    if bits == 1:
        low = np.uint64(0x5555555555555555)
        x = (x & low) << np.uint64(1) | (x >> np.uint64(1) & low)
    return x


@part
def _eight_at(source, byte, bits):
    """The word with the eight packed elements that begin at a byte."""
    if bits == 4:
        return np.uint64(load_unsigned(source, byte, np.uint32(0)))
    if bits == 2:
        return np.uint64(load_unsigned(source, byte, np.uint16(0)))
    return np.uint64(source[byte])


@part
def _put_eight(target, byte, bits, x):
    if bits == 4:
        store_unsigned(target, byte, np.uint32(x))
    elif bits == 2:
        store_unsigned(target, byte, np.uint16(x))
    else:
        target[byte] = x


@part
def _unpacked(source, s, target, t, count, bits, flip, sign):
    """Packed elements side by side to bytes side by side."""
    log = _log_of_byte(bits)
    j = 0
    while j < count and (s + j) & (1 << log) - 1:
        target[t + j] = (_bits_at(source, s + j, bits, flip, log) ^ sign) - sign
        j += 1
    # Multiplied by this, the sign of an element fills the bits above it in its byte.
    signs, fill = np.uint64(sign) * np.uint64(0x0101010101010101), np.uint64((1 << (9 - bits)) - 2)
    while j + 8 <= count:
        x = _spread(_eight_at(source, s + j >> log, bits), bits, flip)
        store_unsigned(target, t + j, x | (x & signs) * fill)
        j += 8
    while j < count:
        target[t + j] = (_bits_at(source, s + j, bits, flip, log) ^ sign) - sign
        j += 1


@part
def _packed(source, s, target, t, count, bits, flip):
    """Bytes side by side to packed elements side by side."""
    log = _log_of_byte(bits)
    j = 0
    while j < count and (t + j) & (1 << log) - 1:
        _put_bits(target, t + j, bits, flip, log, source[s + j])
        j += 1
    while j + 8 <= count:
        x = load_unsigned(source, s + j, np.uint64(0))
        _put_eight(target, t + j >> log, bits, _gathered(x, bits, flip))
        j += 8
    while j < count:
        _put_bits(target, t + j, bits, flip, log, source[s + j])
        j += 1


@kernel(*_NEST, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)
def nest_bits(source, target, outer, p, p_steps, q, q_steps, s_bits, t_bits, s_high, t_high, signed):
    """The nest for elements of fewer than eight bits on either side; all offsets and steps count elements.

    `s_high` and `t_high` are 1 where the first element of a byte lies in its high bits; `signed` is 1 where the value
    is sign-extended as it becomes a byte.
    """
    s_log, t_log = _log_of_byte(s_bits), _log_of_byte(t_bits)
    s_flip, t_flip = (8 - s_bits) * s_high, (8 - t_bits) * t_high
    sign = signed << (s_bits - 1)
    dense = q_steps[0] == 1 and q_steps[1] == 1
    for o in range(outer.shape[0]):
        for a in range(p.shape[0]):
            for i in range(p[a, 2]):
                si = outer[o, 0] + p[a, 0] + i * p_steps[0]
                ti = outer[o, 1] + p[a, 1] + i * p_steps[1]
                for b in range(q.shape[0]):
                    s, t, count = si + q[b, 0], ti + q[b, 1], q[b, 2]
                    if dense and s_bits < 8 and t_bits == 8:
                        _unpacked(source, s, target, t, count, s_bits, s_flip, sign)
                    elif dense and s_bits == 8 and t_bits < 8:
                        _packed(source, s, target, t, count, t_bits, t_flip)
                    else:
                        for j in range(count):
                            value = _bits_at(source, s + j * q_steps[0], s_bits, s_flip, s_log)
                            if t_bits < 8:
                                _put_bits(target, t + j * q_steps[1], t_bits, t_flip, t_log, value)
                            else:
                                target[t + j * q_steps[1]] = (value ^ sign) - sign
