"""Elements of fewer bits than a word: rows that share words of 4 bytes, and packed elements side by side."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from strided.kernels.llvm import (
    BYTE,
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    concatenated,
    function_of,
    loaded,
    operation,
    same,
    shuffled,
    splat,
)

# --- words of 4 bytes that rows share -------------------------------------------------------------------------------


def _fields(bits):
    count = 32 // bits

    @operation(VECTOR, INTEGER, INTEGER)
    def fields(builder, address, shift):
        """64 bytes of elements: the lowest bits of words that follow each other, after a shift to the right."""
        shifts = splat(builder, shift, VECTOR.of(32))
        lines = [loaded(builder, builder.add(address, INT64(k * LINE)), VECTOR, 32) for k in range(count)]
        parts = [builder.bitcast(builder.lshr(line, shifts), VECTOR.of(bits)) for line in lines]
        picks = range(0, 1024 // bits, count)
        halves = [shuffled(builder, a, b, picks) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return as_bytes(builder, concatenated(builder, halves))

    return fields


fields16, fields8 = _fields(16), _fields(8)


def _row_of_words(builder, address, bits):
    """One row's elements of `bits`, each widened to a word of 4 bytes, as many as make a line."""
    return builder.zext(loaded(builder, address, Vector(LINE * bits // 32), bits), VECTOR.of(32))


def _braid(bits):
    @operation(VECTOR, INTEGER, INTEGER)
    def braid(builder, address, pitch):
        """A line of words, each with an element of every one of the rows that lie `pitch` bytes apart."""
        # Widen, shift, or: LLVM turns the shuffle that says the same into twice the instructions on x86.
        words = _row_of_words(builder, address, bits)
        for shift in range(bits, 32, bits):
            address = builder.add(address, pitch)
            field = builder.shl(_row_of_words(builder, address, bits), same(words.type, shift))
            words = builder.or_(words, field)
        return as_bytes(builder, words)

    return braid


braid16, braid8 = _braid(16), _braid(8)


def _braid_packed(builder, address, pitch, bits, flip):
    """Or the low `bits` of every row into words, in a loop over the rows."""
    kind = VECTOR.of(32)
    words, place = (cgutils.alloca_once_value(builder, value) for value in (ir.Constant(kind, None), address))
    mask = splat(builder, builder.sub(builder.shl(INT64(1), bits), INT64(1)), kind)
    with cgutils.for_range_slice(builder, INT64(0), INT64(32), bits, inc=True) as (shift, _):
        row = builder.load(place)
        field = builder.and_(_row_of_words(builder, row, 8), mask)
        field = builder.shl(field, splat(builder, builder.xor(shift, flip), kind))
        builder.store(builder.or_(builder.load(words), field), words)
        builder.store(builder.add(row, pitch), place)
    builder.ret(as_bytes(builder, builder.load(words)))


@operation(VECTOR, INTEGER, INTEGER, INTEGER, INTEGER)
def braid_packed(builder, address, pitch, bits, flip):
    """A line of words, each with the low `bits` of a byte of every one of 32 / `bits` rows `pitch` bytes apart.

    With `flip`, 8 - `bits`, a byte's first element is in its high bits.
    """
    function = function_of(builder.module, "strided_braid_packed", VECTOR.of(8), [INT64] * 4, _braid_packed)
    return builder.call(function, [address, pitch, bits, flip])


# --- packed elements that lie side by side --------------------------------------------------------------------------


def _reversed(builder, value, bits, flip):
    """Where `flip` is not 0, the elements of `bits` in every byte in opposite order."""
    turned = value
    while bits < 8:
        low, by = (same(value.type, n) for n in (sum((1 << bits) - 1 << k for k in range(0, 8, 2 * bits)), bits))
        up = builder.shl(builder.and_(turned, low), by)
        turned = builder.or_(up, builder.and_(builder.lshr(turned, by), low))
        bits *= 2
    return builder.select(builder.icmp_signed("!=", flip, INT64(0)), turned, value)


def _spread(bits):
    packed, each = Vector(8 * bits), 8 // bits

    @operation(VECTOR, INTEGER, INTEGER, INTEGER)
    def spread(builder, address, shift, flip):
        """64 bytes, each with one of the elements from bit `shift` of an address on, higher bits not cleared.

        Reads one byte more than the elements take. With `flip`, a byte's first element is in its high bits.
        """
        here, beyond = (
            _reversed(builder, loaded(builder, builder.add(address, INT64(k)), packed), bits, flip) for k in range(2)
        )
        down = splat(builder, shift, here.type)
        up = builder.shl(builder.shl(beyond, builder.sub(same(here.type, 7), down)), same(here.type, 1))
        wide = ir.VectorType(ir.IntType(8 * each), 8 * bits)
        vector = builder.zext(builder.or_(builder.lshr(here, down), up), wide)
        parts = [builder.shl(vector, same(wide, k * (8 - bits))) for k in range(each)]
        return as_bytes(builder, _either(builder, parts))

    return spread


def _gather(bits):
    each = 8 // bits

    @operation(VECTOR, INTEGER, INTEGER)
    def gather(builder, address, flip):
        """64 bytes of packed elements, from the low bits of as many bytes as it takes."""
        parts = []
        for k in range(each):
            vector = loaded(builder, builder.add(address, INT64(k * LINE)), VECTOR, 8 * each)
            vector = builder.and_(vector, same(vector.type, sum((1 << bits) - 1 << 8 * j for j in range(each))))
            joined = _either(builder, [builder.lshr(vector, same(vector.type, j * (8 - bits))) for j in range(each)])
            parts.append(builder.trunc(joined, ir.VectorType(BYTE, vector.type.count)))
        return _reversed(builder, concatenated(builder, parts), bits, flip)

    return gather


def _either(builder, values):
    result = values[0]
    for value in values[1:]:
        result = builder.or_(result, value)
    return result


spread4, spread2, spread1 = _spread(4), _spread(2), _spread(1)
gather4, gather2, gather1 = _gather(4), _gather(2), _gather(1)
