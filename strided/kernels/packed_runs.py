"""Runs of packed elements, of fewer than eight bits side by side, to and from one byte each.

`bits` is 4, 2 or 1; `high_first` is 1 where the first element of a byte lies in its high bits; `signed` is 1 where an
element's highest bit is extended to its byte. On the way to packed elements, higher bits of a byte are dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import packed_elements, simd_bytes
from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.held_run import NONE, begun_at, finish, grown, move_run, put_at
from strided.kernels.row_driver import flush, go_on
from strided.kernels.row_parts import Line

_AHEAD = 1024  # bytes between a load and the line prefetched with it
_SHORT_RUN, _RUN = 256, 1 << 12  # bytes of runs that are put together before they are written; where in the scratch


class _Unpacking(NamedTuple):
    """How packed elements become bytes."""

    #: Of an element, and as many ones.
    bits: int
    mask: int
    #: Its sign if it has one, else 0.
    sign: int
    #: `high_first`.
    flip: int


class _Packing(NamedTuple):
    """How bytes become packed elements."""

    #: Of an element, and as many ones.
    bits: int
    mask: int
    #: Elements of a byte.
    each: int
    #: `high_first`.
    flip: int


@part
def _spread(s, shift, bits, flip):
    if bits == 4:
        return packed_elements.spread4(s, shift, flip)
    if bits == 2:
        return packed_elements.spread2(s, shift, flip)
    return packed_elements.spread1(s, shift, flip)


@part
def _gather(s, bits, flip):
    if bits == 4:
        return packed_elements.gather4(s, flip)
    if bits == 2:
        return packed_elements.gather2(s, flip)
    return packed_elements.gather1(s, flip)


@part
def _bytes_from(source, bit, how, room):
    """The 64 elements from so many bits into the source on, as bytes; those outside of it are anything."""
    bits, mask, sign, flip = how
    first, size = bit >> 3, 8 * bits + 1
    s = simd_bytes.address(source) + first
    if first < 0 or first + size > source.size:
        begin, end = max(0, first), min(source.size, first + size)
        simd_bytes.move(room + begin - first, s + begin - first, end - begin)
        s = room
    else:
        simd_bytes.prefetch(s + _AHEAD)
    return simd_bytes.narrow(_spread(s, bit & 7, bits, flip), ZERO, mask, sign)


@part
def _unpack_run(source, element, t, count, how, room):
    """Copy `count` packed elements, the first of which is number `element` of the source, to bytes at `t`."""
    bits = how.bits
    bit, end, long = element * bits, t + count, count >= 64
    while t + 64 <= end:
        simd_bytes.store(t, _bytes_from(source, bit, how, room))
        t += 64
        bit += 64 * bits
    if t < end:
        if long:
            # The last line overlaps the one before it.
            simd_bytes.store(end - 64, _bytes_from(source, bit - (t + 64 - end) * bits, how, room))
        else:
            simd_bytes.store(room + 1024, _bytes_from(source, bit, how, room))
            simd_bytes.move(t, room + 1024, end - t)


@part
def _unpack_lines(source, element, t, count, how, line, room):
    """The same by whole lines, past the caches; return the line begun. See `row_driver.copy_piece`."""
    bits = how.bits
    bit = element * bits
    first, end, carry = line
    if t != end:
        flush(line, room)
        first, end = t, t
    filled = end & 63
    if filled:
        more = _bytes_from(source, bit - filled * bits, how, room)
        line, made = go_on(Line(first, end, carry), more, count, ZERO + 1, room)
        first, end, carry = line
        if end & 63:
            return line
        bit += made * bits
        count -= made
    while count >= 64:
        simd_bytes.put(end, _bytes_from(source, bit, how, room), ZERO + 1)
        end += 64
        bit += 64 * bits
        count -= 64
    first = end
    if count:
        carry = _bytes_from(source, bit, how, room)
        end += count
    return Line(first, end, carry)


@part
def _unpack_short(source, element, t, count, how, held, room):
    """The same for a short run: put together with what follows before it is written. `held` as in `held_run`."""
    held = begun_at(held, t, ZERO + 1, room + _RUN)
    place = put_at(held, room + _RUN)
    for k in range(0, count, 64):
        # What is written behind the end is overwritten by what follows.
        simd_bytes.store(place + k, _bytes_from(source, (element + k) * how.bits, how, room))
    return grown(held, count, ZERO + 1, room + _RUN)


@part
def _put_field(t, element, value, how):
    bits, mask, _, flip = how
    place = t + (element * bits >> 3)
    shift = element * bits & 7 ^ (8 - bits) * flip
    simd_bytes.put_byte(place, simd_bytes.byte(place) & ~(mask << shift) | (value & mask) << shift)


@part
def _pack_end(s, t, count, how, ends, room):
    """Copy elements at `s`, up to 64 bytes of them, to whole bytes at `t` and a part of one more.

    Nothing from `ends` on is read.
    """
    bits, _, each, flip = how
    if s + 64 * each > ends:
        simd_bytes.move(room, s, count)
        s = room
    simd_bytes.store(room + 1024, _gather(s, bits, flip))
    whole, rest = count * bits >> 3, count & each - 1
    move_run(t, room + 1024, whole)
    if rest:
        mask = (1 << rest * bits) - 1 << (8 - rest * bits) * flip
        own = simd_bytes.byte(room + 1024 + whole)
        simd_bytes.put_byte(t + whole, simd_bytes.byte(t + whole) & ~mask | own & mask)


@part
def _pack_run(s, target, element, count, how, streaming, ends, room):
    """Copy `count` bytes at `s` to packed elements, the first of which is number `element` of the target.

    Elements outside that share a byte with the first or the last one keep their bits.
    """
    bits, _, each, flip = how
    base = simd_bytes.address(target)
    while count > 0 and element & each - 1:
        _put_field(base, element, simd_bytes.byte(s), how)
        element, s, count = element + 1, s + 1, count - 1
    t = base + (element * bits >> 3)
    if streaming and t & 63:
        # Up to the next line.
        made = min(count, (64 - (t & 63)) * each)
        _pack_end(s, t, made, how, ends, room)
        t, s, count = t + (made * bits >> 3), s + made, count - made
    while count >= 64 * each:
        for k in range(each):
            simd_bytes.prefetch(s + 64 * k + _AHEAD)
        if streaming:
            simd_bytes.put(t, _gather(s, bits, flip), streaming)
        else:
            simd_bytes.store(t, _gather(s, bits, flip))
        t, s, count = t + 64, s + 64 * each, count - 64 * each
    if count > 0:
        _pack_end(s, t, count, how, ends, room)


_RUNS = (BYTES, WRITABLE, TABLE, TABLE, TABLE, NUMBER, NUMBER, NUMBER)


@kernel(*_RUNS, NUMBER, WRITABLE)
def unpack(source, target, outer, rows, pieces, bits, signed, high_first, streaming, scratch):
    """Copy runs of packed elements to bytes.

    Tables as in `drive`: offsets of the source count elements, those of the target bytes; a lane is an element.
    """
    how = _Unpacking(bits, (1 << bits) - 1, signed << bits - 1, high_first)
    room = simd_bytes.address(scratch) + 63 & -64
    line, held = Line(room, room, simd_bytes.zero()), NONE
    longest = ZERO
    for p in range(pieces.shape[0]):
        longest = max(longest, pieces[p, 2])
    for o in range(outer.shape[0]):
        for r in range(rows.shape[0]):
            for p in range(pieces.shape[0]):
                element = outer[o, 0] + rows[r, 0] + pieces[p, 0]
                t = simd_bytes.address(target) + outer[o, 1] + rows[r, 1] + pieces[p, 1]
                if not streaming:
                    _unpack_run(source, element, t, pieces[p, 2], how, room)
                elif longest <= _SHORT_RUN:
                    held = _unpack_short(source, element, t, pieces[p, 2], how, held, room)
                else:
                    line = _unpack_lines(source, element, t, pieces[p, 2], how, line, room)
    if streaming:
        finish(held, streaming, room + _RUN)
        flush(line, room)
        simd_bytes.fence()


@kernel(*_RUNS, WRITABLE)
def pack(source, target, outer, rows, pieces, bits, high_first, streaming, scratch):
    """Copy runs of bytes to packed elements.

    Tables as in `drive`: offsets of the source count bytes, those of the target elements; a lane is an element. Bits
    that no table names stay as they are, by reading and writing whole bytes: threads may not share those.
    """
    how = _Packing(bits, (1 << bits) - 1, 8 // bits, high_first)
    room, ends = simd_bytes.address(scratch), simd_bytes.address(source) + source.size
    for o in range(outer.shape[0]):
        for r in range(rows.shape[0]):
            for p in range(pieces.shape[0]):
                s = simd_bytes.address(source) + outer[o, 0] + rows[r, 0] + pieces[p, 0]
                element = outer[o, 1] + rows[r, 1] + pieces[p, 1]
                _pack_run(s, target, element, pieces[p, 2], how, streaming, ends, room)
    if streaming:
        simd_bytes.fence()
