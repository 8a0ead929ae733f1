"""Words along the same lanes on both sides, which rows share along one axis in the source, along another in the target.

As with ``bf16[b,s,h,d]`` from ``{3,2,1,0:T(8,128)(2,1)}`` to ``{3,1,2,0:T(8,128)(2,1)}``: a word of the source has two
neighbours of `h`, one of the target two of `s`. So as many rows of words as rows share a word become as many others:
of a square of elements for each lane, which lies in these words, rows and columns are exchanged.

A copy is three tables of byte offsets, which add up: `outer` (source, target), `rows` (source, target, -), one of each
row of such a square's words, and `pieces` (source, target, bytes).
"""

from __future__ import annotations

from numba.core import types

from strided.kernels import NEAR, simd_bytes
from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, ZERO, kernel, part, separate
from strided.kernels.llvm import INTEGER, VECTOR, as_bytes, entries, loaded, operation, put_lines, same
from strided.kernels.put_words import EVERY_BIT, mask_of, put_masked

#: Bytes of the source that are read until those are wanted that are asked for.
_AHEAD = 1 << 12
_ARGUMENTS = BYTES, WRITABLE, TABLE, TABLE, TABLE, NUMBER, NUMBER, NUMBER, WRITABLE
#: Those of packed elements: `high_first` as in `packed_runs`, besides. (With ``& 1`` LLVM knows that it is 0 or 1.)
_PACKED_ARGUMENTS = (*_ARGUMENTS, NUMBER)
# The scratch: where rows lie in the source, in the target and in the scratch; a line of each, and what becomes of them.
_SOURCES, _TARGETS, _PLACES, _READ, _MADE = 0, 256, 512, 1024, 1024 + 2048


def exchanged(builder, lines, bits):
    """Lines of words with rows and columns of the squares of elements of `bits` exchanged, which lie in them."""
    kind = VECTOR.of(32)
    step = 1
    while step < len(lines):
        shift = step * bits
        low = sum(((1 << shift) - 1) << k for k in range(0, 32, 2 * shift))
        made = list(lines)
        for k, line in enumerate(lines):
            if not k & step:
                other = lines[k + step]
                low_half = builder.and_(line, same(kind, low))
                high_half = builder.and_(other, same(kind, low << shift))
                moved_up = builder.shl(builder.and_(other, same(kind, low)), same(kind, shift))
                moved_down = builder.and_(builder.lshr(line, same(kind, shift)), same(kind, low))
                made[k], made[k + step] = builder.or_(low_half, moved_up), builder.or_(moved_down, high_half)
        lines = made
        step *= 2
    return lines


def _exchange(bits):
    shared = 32 // bits

    @operation(types.void, *[INTEGER] * 6)
    def exchange(builder, sources, source, targets, target, wanted, streaming):
        """Exchange a line of each row, from ``sources, source`` to ``targets, target``; past the caches or not.

        Each is the address of a table of offsets, with what is added to all. Of the lines those are written whose bits
        are set in `wanted`.
        """
        lines = [loaded(builder, place, VECTOR, 32) for place in entries(builder, sources, source, shared)]
        made = [as_bytes(builder, line) for line in exchanged(builder, lines, bits)]
        put_lines(builder, made, entries(builder, targets, target, shared), streaming, wanted)

    return exchange


exchange_lines16, exchange_lines8, exchange_lines4, exchange_lines2, exchange_lines1 = (
    _exchange(bits) for bits in (16, 8, 4, 2, 1)
)


@part
def _copy(exchange, shared, source, target, outer, rows, pieces, members, streaming, scratch, flip):
    """Copy what the tables describe; the k-th row of a word is the one with the number ``k ^ flip``: `flip` is not 0
    where the first element of a byte lies in its high bits.

    `members` tells how many rows of a word of the source, and of the target, are there.
    """
    room = simd_bytes.address(scratch) + 63 & -64
    phases, size = ZERO, ZERO
    for k in range(shared):
        simd_bytes.put_item(room + _SOURCES, k, rows[min(k ^ flip, members[1] - 1), 0])
        simd_bytes.put_item(room + _TARGETS, k, rows[min(k ^ flip, members[0] - 1), 1])
        simd_bytes.put_item(room + _PLACES, k, 64 * k)
    for k in range(members[0]):
        phases |= rows[k, 1]
    for p in range(pieces.shape[0]):
        size += pieces[p, 2]
    # Lines are streamed where those of all rows begin together, with a word.
    streams = streaming != 0 and phases & 63 == 0
    wanted = ZERO
    for k in range(shared):
        wanted |= ZERO + (k ^ flip < members[0]) << k
    mask = mask_of(members[1], shared, flip)
    on = max(1, _AHEAD // max(1, size * shared)) if source.size > NEAR else ZERO
    end = simd_bytes.address(source) + source.size
    for o in range(outer.shape[0]):
        later = min(o + on, outer.shape[0] - 1)
        lead, target_lead = outer[later, 0] - outer[o, 0], outer[later, 1] - outer[o, 1]
        for p in range(pieces.shape[0]):
            s = simd_bytes.address(source) + outer[o, 0] + pieces[p, 0]
            t = simd_bytes.address(target) + outer[o, 1] + pieces[p, 1]
            count = pieces[p, 2]
            past = ZERO + (streams and t & 3 == 0)
            done = min(count, -t & 63) if past else ZERO
            if done:
                _some(exchange, shared, s, t, done, wanted, mask, past, room, end)
            while done < count:
                if lead:
                    for k in range(members[1]):
                        simd_bytes.prefetch(s + done + lead + rows[k, 0])
                    # Words that are written in part are read before.
                    for k in range(members[0] if mask != EVERY_BIT else 0):
                        simd_bytes.prefetch(t + done + target_lead + rows[k, 1])
                if members[1] == shared and done + 64 <= count:
                    exchange(room + _SOURCES, s + done, room + _TARGETS, t + done, wanted, past)
                else:
                    now = min(64, count - done)
                    _some(exchange, shared, s + done, t + done, now, wanted, mask, past, room, end)
                done += 64
    if streaming:
        simd_bytes.fence()


@separate
def _some(exchange, shared, s, t, count, wanted, mask, past, room, end):
    """Exchange up to a line of each row, and write no more than `mask` of the words of those that are `wanted`.

    Nothing behind the line is written, nor read behind the source.
    """
    sources, start = room + _SOURCES, s
    for k in range(shared):
        if s + simd_bytes.item(room + _SOURCES, k) + 64 > end:
            sources, start = room + _PLACES, room + _READ
    if start != s:
        for k in range(shared):
            simd_bytes.move(room + _READ + 64 * k, s + simd_bytes.item(room + _SOURCES, k), count)
    exchange(sources, start, room + _PLACES, room + _MADE, wanted, ZERO)
    for k in range(shared):
        if wanted >> k & 1:
            goal = t + simd_bytes.item(room + _TARGETS, k)
            put_masked(goal, room + _MADE + 64 * k, count, mask, shared, past, room + _READ)


@kernel(*_ARGUMENTS)
def exchange16(source, target, outer, rows, pieces, in_source, in_target, streaming, scratch):
    """Words of two rows of 16 bits."""
    members = in_source, in_target
    _copy(exchange_lines16, 2, source, target, outer, rows, pieces, members, streaming, scratch, ZERO)


@kernel(*_ARGUMENTS)
def exchange8(source, target, outer, rows, pieces, in_source, in_target, streaming, scratch):
    """Words of four rows of 8 bits."""
    members = in_source, in_target
    _copy(exchange_lines8, 4, source, target, outer, rows, pieces, members, streaming, scratch, ZERO)


@kernel(*_PACKED_ARGUMENTS)
def exchange4(source, target, outer, rows, pieces, in_source, in_target, streaming, scratch, high_first):
    """Words of eight rows of 4 bits."""
    members = in_source, in_target
    _copy(exchange_lines4, 8, source, target, outer, rows, pieces, members, streaming, scratch, high_first & 1)


@kernel(*_PACKED_ARGUMENTS)
def exchange2(source, target, outer, rows, pieces, in_source, in_target, streaming, scratch, high_first):
    """Words of sixteen rows of 2 bits."""
    members = in_source, in_target
    _copy(exchange_lines2, 16, source, target, outer, rows, pieces, members, streaming, scratch, 3 * (high_first & 1))


@kernel(*_PACKED_ARGUMENTS)
def exchange1(source, target, outer, rows, pieces, in_source, in_target, streaming, scratch, high_first):
    """Words of 32 rows of single bits."""
    members = in_source, in_target
    _copy(exchange_lines1, 32, source, target, outer, rows, pieces, members, streaming, scratch, 7 * (high_first & 1))
