"""Packed elements, of fewer than eight bits side by side: spread over one byte each, and gathered from these."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    ask_for,
    concatenated,
    either,
    entries,
    function_of,
    loaded,
    operation,
    packed,
    packed_in_order,
    pointer_to,
    register_bytes,
    same,
    splat,
    units,
)


def _where(builder, number, value, changed):
    """The value that `changed` makes where a number is not 0, else `value`. A branch, since it rarely changes."""
    result = cgutils.alloca_once_value(builder, value)
    with builder.if_then(builder.icmp_signed("!=", number, INT64(0)), likely=False):
        builder.store(changed(), result)
    return builder.load(result)


def _reversed(builder, value, bits):
    """The elements of `bits` in every byte in opposite order."""
    while bits < 8:
        low, by = (same(value.type, n) for n in (sum((1 << bits) - 1 << k for k in range(0, 8, 2 * bits)), bits))
        up = builder.shl(builder.and_(value, low), by)
        value = builder.or_(up, builder.and_(builder.lshr(value, by), low))
        bits *= 2
    return value


def _spread(bits):
    packed, each = Vector(8 * bits), 8 // bits

    @operation(VECTOR, INTEGER, INTEGER, INTEGER)
    def spread(builder, address, shift, flip):
        """64 bytes, each with one of the elements from bit `shift` of an address on, higher bits not cleared.

        Reads one byte more than the elements take. With `flip`, a byte's first element is in its high bits.
        """

        def line(place):
            value = loaded(builder, place, packed)
            return _where(builder, flip, value, lambda: _reversed(builder, value, bits))

        def shifted():
            beyond, down = line(builder.add(address, INT64(1))), splat(builder, shift, here.type)
            up = builder.shl(builder.shl(beyond, builder.sub(same(here.type, 7), down)), same(here.type, 1))
            return builder.or_(builder.lshr(here, down), up)

        here = line(address)
        wide = ir.VectorType(ir.IntType(8 * each), 8 * bits)
        vector = builder.zext(_where(builder, shift, here, shifted), wide)
        parts = [builder.shl(vector, same(wide, k * (8 - bits))) for k in range(each)]
        return as_bytes(builder, either(builder, parts))

    return spread


def _gathered(builder, places, size, bits, flip):
    """64 bytes of packed elements, from the low bits of so many bytes at each of some places."""
    vector, kind, each = min(register_bytes(), size), Vector(register_bytes()), 8 // bits
    places = [builder.add(place, INT64(k)) for place in places for k in range(0, size, vector)]
    loads, count = [loaded(builder, place, Vector(vector)) for place in places], kind.count // vector
    whole = [concatenated(builder, loads[k : k + count]) for k in range(0, len(loads), count)]
    parts, width = [builder.and_(part, same(kind.of(8), (1 << bits) - 1)) for part in whole], bits
    while width < 8:
        pairs = [builder.bitcast(part, kind.of(16)) for part in parts]
        joined = [builder.or_(pair, builder.lshr(pair, same(pair.type, 8 - width))) for pair in pairs]
        parts = [packed(builder, a, b, 16, 8) for a, b in zip(joined[::2], joined[1::2], strict=True)]
        width *= 2
    line = concatenated(builder, [packed_in_order(builder, part, each) for part in parts])
    return _where(builder, flip, line, lambda: _reversed(builder, line, bits))


def _gather(bits):
    @operation(VECTOR, INTEGER, INTEGER)
    def gather(builder, address, flip):
        """64 bytes of packed elements, from the low bits of as many bytes as it takes."""
        return _gathered(builder, [address], LINE * 8 // bits, bits, flip)

    return gather


def _ask_for_all(builder, starts, ahead, size):
    """Ask for the lines of some bytes `ahead` of each place, if that is not 0."""
    with builder.if_then(builder.icmp_signed("!=", ahead, INT64(0))):
        for start in starts:
            for k in range(0, size, LINE):
                ask_for(builder, builder.add(builder.add(start, ahead), INT64(k)))


def _pack_rows(bits):
    each = 32 // bits

    def square(builder, table, at, ahead, flip, target):
        starts = entries(builder, table, at, 16, columns=3)
        _ask_for_all(builder, starts, ahead, 4 * each)
        # Sixteen bytes of packed elements belong to each of four rows that are four apart: lines are made of four such.
        words = [_gathered(builder, starts[k::4], 4 * each, bits, flip) for k in range(4)]
        for k, line in enumerate(units(builder, words, 32, 128)):
            place = builder.add(target, INT64(LINE * k))
            builder.store(as_bytes(builder, line), pointer_to(builder, place, VECTOR.of(8)), align=1)
        builder.ret_void()

    def line(builder, table, at, ahead, flip):
        starts = entries(builder, table, at, 16, columns=3)
        _ask_for_all(builder, starts, ahead, each)
        builder.ret(_gathered(builder, starts, each, bits, flip))

    @operation(types.void, *[INTEGER] * 5)
    def pack_square(builder, table, at, ahead, flip, target):
        """Write four lines: in the k-th, the k-th word of packed elements of each of sixteen rows.

        Where the bytes of rows begin, plus `at`, is in the first column of a table of three. So far `ahead`, if that is
        not 0, lines are asked for.
        """
        name, arguments = f"strided_pack_square{bits}", [table, at, ahead, flip, target]
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 5, square), arguments)

    @operation(VECTOR, *[INTEGER] * 4)
    def pack_line(builder, table, at, ahead, flip):
        """A line: a word of packed elements of each of sixteen rows."""
        name, arguments = f"strided_pack_line{bits}", [table, at, ahead, flip]
        return builder.call(function_of(builder.module, name, VECTOR.of(8), [INT64] * 4, line), arguments)

    return pack_square, pack_line


spread4, spread2, spread1 = _spread(4), _spread(2), _spread(1)
gather4, gather2, gather1 = _gather(4), _gather(2), _gather(1)
(pack_square4, pack_line4), (pack_square2, pack_line2), (pack_square1, pack_line1) = map(_pack_rows, (4, 2, 1))
