"""Two, three or four rows put together in turn, element by element, and taken apart again: a line of each at once."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    concatenated,
    loaded,
    operation,
    pointer_to,
    register_bytes,
    shuffled,
    units,
)


def _zip_two(bits):
    @operation(types.void, *[INTEGER] * 3)
    def zip_two(builder, first, second, target):
        """Write the elements of 64 bytes of two rows in turn."""
        half = Vector(register_bytes() // 2)
        for k in range(0, LINE, half.count):
            a, b = (loaded(builder, builder.add(row, INT64(k)), half, bits) for row in (first, second))
            picks = [n for pair in enumerate(range(a.type.count, 2 * a.type.count)) for n in pair]
            both = shuffled(builder, a, b, picks)
            builder.store(both, pointer_to(builder, builder.add(target, INT64(2 * k)), both.type), align=1)

    return zip_two


def _zip(bits, count):
    each = 128 // bits  # elements in 16 bytes

    def without_last(builder, vector):
        """Runs of 16 bytes without every fourth element, and with anything at their ends."""
        kept = [k for k in range(each) if k % 4 < count]
        kept += [0] * (each - len(kept))
        number = vector.type.count * vector.type.element.width // bits
        elements = builder.bitcast(vector, ir.VectorType(ir.IntType(bits), number))
        return shuffled(builder, elements, elements, [run + k for run in range(0, number, each) for k in kept])

    @operation(types.void, *[INTEGER] * 5)
    def zip_some(builder, first, second, third, fourth, target):
        """Write the elements of 64 bytes of three or four rows in turn. Up to 4 bytes behind them become anything.

        Three rows are put together as four, of which the last one is dropped.
        """
        vector, size = Vector(register_bytes()), 4 * count  # bytes that are written of every 16
        for begin in range(0, LINE, vector.count):
            places = (builder.add(row, INT64(begin)) for row in (first, second, third, fourth))
            found = units(builder, [loaded(builder, place, vector, bits) for place in places], bits, 4 * bits)
            if count < 4:
                found = [without_last(builder, line) for line in found]
            for run in range(0, vector.count, 16):
                for k, line in enumerate(found):
                    runs = as_bytes(builder, line)
                    piece = shuffled(builder, runs, runs, range(run, run + 16))
                    at = builder.add(target, INT64((begin + run) * count + size * k))
                    builder.store(piece, pointer_to(builder, at, piece.type), align=1)

    return zip_some


def _seconds(builder, vectors, first):
    """Every second element of pairs of vectors."""
    pairs = zip(vectors[::2], vectors[1::2], strict=True)
    return [shuffled(builder, a, b, range(first, 2 * a.type.count, 2)) for a, b in pairs]


def _thirds(builder, vectors, first):
    """Every third element of three vectors: what two of them have, and behind that what the last one has."""
    a, b, c = vectors
    count = a.type.count
    near, far = range(first, 2 * count, 3), [k for k in range(first, 3 * count, 3) if k >= 2 * count]
    both = shuffled(builder, a, b, [*near, *[0] * len(far)])
    return shuffled(builder, both, c, [*range(len(near)), *(k - count for k in far)])


def _every(bits, count, first):
    @operation(VECTOR, INTEGER)
    def every(builder, address):
        """64 bytes: every second, third or fourth element from an address on."""
        # Instructions that take from three registers at once work on 16 bytes.
        vector = Vector(16 if count == 3 else register_bytes())
        places = (builder.add(address, INT64(k)) for k in range(0, count * LINE, vector.count))
        parts = [loaded(builder, place, vector, bits) for place in places]
        if count == 3:
            parts = [_thirds(builder, parts[k : k + 3], first) for k in range(0, len(parts), 3)]
        elif count == 4:
            parts = _seconds(builder, _seconds(builder, parts, first % 2), first // 2)
        else:
            parts = _seconds(builder, parts, first)
        return concatenated(builder, [as_bytes(builder, part) for part in parts])

    return every


#: By the bits of an element: what writes two, three or four rows in turn, as far as there is such an operation.
ZIPS = {bits: (_zip_two(bits), *(_zip(bits, count) for count in (3, 4) if bits < 64)) for bits in (8, 16, 32, 64)}
#: The same: what picks every second, third or fourth element, the first ones or those that follow.
PICKS = {
    bits: [[_every(bits, count, k) for k in range(count)] for count in (2, 3, 4) if count == 2 or bits < 64]
    for bits in (8, 16, 32, 64)
}
