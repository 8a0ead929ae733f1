"""Words of 4 bytes that rows share: elements of fewer bits taken out of them, and put together in them."""

from __future__ import annotations

from contextlib import contextmanager

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    concatenated,
    either,
    entries,
    function_of,
    in_turn,
    loaded,
    operation,
    packed,
    packed_in_order,
    pointer_to,
    put_lines,
    register_bytes,
    same,
    shuffled,
    splat,
    units,
)


def _fields(bits):
    count = 32 // bits

    @operation(VECTOR, INTEGER, INTEGER)
    def fields(builder, address, skip):
        """64 bytes of elements: of words that follow each other, the one behind `skip` bytes."""
        vector = Vector(register_bytes())
        begin = builder.add(address, skip)
        places = [builder.add(begin, INT64(k)) for k in range(0, LINE * count, vector.count)]
        words = [loaded(builder, place, vector, 32) for place in places[:-1]]
        # The last ones are shifted, so that nothing behind them is read.
        last = loaded(builder, builder.sub(places[-1], skip), vector, 32)
        shift = builder.shl(skip, INT64(3))
        words.append(builder.lshr(last, splat(builder, shift, last.type)))
        lines = [_narrowed(builder, words[k : k + count], bits) for k in range(0, len(words), count)]
        return concatenated(builder, lines)

    return fields


def _narrowed(builder, parts, bits):
    """The lowest `bits` of words, in one vector."""
    count, width = len(parts), 32
    while width > bits:
        clear = width < 32  # all but `bits` was cleared the first time
        parts = [packed(builder, a, b, width, bits, clear) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width //= 2
    return packed_in_order(builder, parts[0], count)


fields16, fields8 = _fields(16), _fields(8)


@contextmanager
def _each_line(builder, size):
    """A loop over where lines of `size` bytes begin, 64 or more; the last one overlaps the one before it."""
    last = builder.sub(size, INT64(LINE))
    with cgutils.for_range_slice(builder, INT64(0), size, INT64(LINE), inc=True) as (line, _):
        yield builder.select(builder.icmp_signed("<", line, last), line, last)


def _unzip(bits):
    count = 32 // bits

    def put_line(builder, address, places, wanted=None):
        vector = Vector(register_bytes())
        each = 128 // bits  # elements in 16 bytes
        picks = [run + k for run in range(0, vector.count * 8 // bits, each) for k in _by_member(each, count)]
        found = []
        # Where the last load that is wanted begins; those behind it are the same one.
        last = None if wanted is None else builder.and_(builder.sub(wanted, INT64(1)), INT64(-vector.count))
        for begin in range(0, LINE * count, vector.count * count):
            steps = [INT64(k) for k in range(begin, begin + vector.count * count, vector.count)]
            if last is not None:
                steps = [builder.select(builder.icmp_signed("<", k, last), k, last) for k in steps]
            words = [loaded(builder, builder.add(address, k), vector, bits) for k in steps]
            rows = units(builder, [shuffled(builder, word, word, picks) for word in words], 128 // count, 128)
            found.append([as_bytes(builder, in_turn(builder, row, 128 // count, vector.count // 16)) for row in rows])
        for place, parts in zip(places, zip(*found, strict=True), strict=True):
            line = concatenated(builder, list(parts))
            builder.store(line, pointer_to(builder, place, line.type), align=1)

    def lines(builder, address, places, at, size):
        starts = entries(builder, places, at, count, column=1, columns=3)
        with _each_line(builder, size) as line:
            words = builder.add(address, builder.mul(line, INT64(count)))
            put_line(builder, words, [builder.add(start, line) for start in starts])
        builder.ret_void()

    @operation(types.void, *[INTEGER] * 4)
    def unzip(builder, address, places, at, size):
        """Take all rows of elements out of words: write `size` bytes of each, 64 or more; the last 64 overlap.

        Where the rows go, plus `at`, is in the second column of a table of three.
        """
        function = function_of(builder.module, f"strided_unzip{bits}", ir.VoidType(), [INT64] * 4, lines)
        builder.call(function, [address, places, at, size])

    @operation(types.void, *[INTEGER] * 4)
    def unzip_line(builder, address, wanted, places, at):
        """The same for 64 bytes, where the call of a function would count.

        Of the words, only the first `wanted` bytes count: no lines but theirs are read.
        """
        put_line(builder, address, entries(builder, places, at, count, column=1, columns=3), wanted)

    return unzip, unzip_line


def _by_member(elements, count):
    """The places of so many elements, `count` to a word: those of the first row first."""
    return [first + k for first in range(count) for k in range(0, elements, count)]


(unzip16, unzip_line16), (unzip8, unzip_line8) = _unzip(16), _unzip(8)


def _row_of_words(builder, address, bits):
    """One row's elements of `bits`, each widened to a word of 4 bytes, as many as make a line."""
    return builder.zext(loaded(builder, address, Vector(LINE * bits // 32), bits), VECTOR.of(32))


def _zipped(builder, rows, bits):
    """A line of words, each with an element of `bits` of every row."""
    words = units(builder, rows, bits, 32)
    return as_bytes(builder, in_turn(builder, concatenated(builder, words), 128, len(words)))


def _braid(bits):
    @operation(VECTOR, INTEGER, INTEGER)
    def braid(builder, address, pitch):
        """A line of words, each with an element of every one of the rows that lie `pitch` bytes apart."""
        places = [builder.add(address, builder.mul(pitch, INT64(k))) for k in range(32 // bits)]
        if register_bytes() < LINE:
            return _zipped(builder, [loaded(builder, place, Vector(LINE * bits // 32)) for place in places], bits)
        # Widen, shift, or: LLVM turns the shuffles that say the same into more instructions.
        words = _row_of_words(builder, places[0], bits)
        for place, shift in zip(places[1:], range(bits, 32, bits), strict=True):
            field = builder.shl(_row_of_words(builder, place, bits), same(words.type, shift))
            words = builder.or_(words, field)
        return as_bytes(builder, words)

    return braid


braid16, braid8 = _braid(16), _braid(8)


def _braid_rows(bits):
    count = 32 // bits

    def lines(builder, table, at, target, size):
        # In 64 bytes of each of four rows, LLVM makes other shuffles of these: 1.2 times as long.
        vector = Vector(min(register_bytes(), 4 * bits))
        sources = entries(builder, table, at, count, columns=3)
        with _each_line(builder, size) as line:
            for begin in range(0, LINE, vector.count):
                place = builder.add(line, INT64(begin))
                words = _zipped(builder, [loaded(builder, builder.add(s, place), vector) for s in sources], bits)
                place = builder.add(target, builder.mul(place, INT64(count)))
                builder.store(words, pointer_to(builder, place, words.type), align=1)
        builder.ret_void()

    @operation(types.void, *[INTEGER] * 4)
    def braid_rows(builder, table, at, target, size):
        """Write words, each with an element of every row, from `size` bytes of each, 64 or more: the last 64 overlap.

        Where rows begin, plus `at`, is in the first column of a table of three.
        """
        name, arguments = f"strided_braid_rows{bits}", [table, at, target, size]
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 4, lines), arguments)

    return braid_rows


braid_rows16, braid_rows8 = _braid_rows(16), _braid_rows(8)


def _braid_packed(builder, address, pitch, bits, flip):
    """Put the low `bits` of rows together in bytes, in a loop over these, and four such bytes into each word."""
    kind, run = VECTOR.of(16), Vector(16)
    line, place = (cgutils.alloca_once_value(builder, value) for value in (ir.Constant(VECTOR.of(8), None), address))
    mask = splat(builder, builder.sub(builder.shl(INT64(1), bits), INT64(1)), VECTOR.of(8))
    apart = builder.mul(pitch, builder.udiv(INT64(8), bits))  # from the first row of a byte to that of the next byte
    with cgutils.for_range_slice(builder, INT64(0), INT64(8), bits, inc=True) as (shift, _):
        row = builder.load(place)
        places = [builder.add(row, builder.mul(apart, INT64(k))) for k in range(4)]
        rows = concatenated(builder, [loaded(builder, each, run) for each in places])
        field = builder.bitcast(builder.and_(rows, mask), kind)
        field = builder.shl(field, splat(builder, builder.xor(shift, flip), kind))
        builder.store(builder.or_(builder.load(line), as_bytes(builder, field)), line)
        builder.store(builder.add(row, pitch), place)
    whole = builder.load(line)
    runs = [shuffled(builder, whole, whole, range(k, k + 16)) for k in range(0, LINE, 16)]
    builder.ret(_zipped(builder, runs, 8))


@operation(VECTOR, INTEGER, INTEGER, INTEGER, INTEGER)
def braid_packed(builder, address, pitch, bits, flip):
    """A line of words, each with the low `bits` of a byte of every one of 32 / `bits` rows `pitch` bytes apart.

    With `flip`, 8 - `bits`, a byte's first element is in its high bits.
    """
    function = function_of(builder.module, "strided_braid_packed", VECTOR.of(8), [INT64] * 4, _braid_packed)
    return builder.call(function, [address, pitch, bits, flip])


def _pairs(builder, first, second, groups):
    """Of every 16 bytes of two vectors, both, side by side."""
    kind = ir.VectorType(INT64, 2 * groups)
    first, second = builder.bitcast(first, kind), builder.bitcast(second, kind)
    steps = range(0, 2 * groups, 2)
    return [shuffled(builder, first, second, [k, k + 1, 2 * groups + k, 2 * groups + k + 1]) for k in steps]


def _braid_lines(bits):
    each = max(1, 8 // bits)  # rows of a byte

    def build(builder, sources, at, target, streaming):
        vector = Vector(register_bytes())
        wide, groups = vector.of(16), vector.count // 16
        low = same(vector.of(8), (1 << bits) - 1)
        with cgutils.for_range_slice(builder, INT64(0), INT64(LINE), INT64(vector.count), inc=True) as (begin, _):
            own, parts = builder.add(at, begin), []
            for k in range(0, 4 * each, each):
                fields = []
                for n in range(each):
                    entry = pointer_to(builder, builder.add(sources, INT64(8 * (k + n))), INT64)
                    row = loaded(builder, builder.add(builder.load(entry, align=8), own), vector)
                    field = builder.bitcast(builder.and_(row, low), wide)
                    fields.append(builder.shl(field, same(wide, n * bits)) if n else field)
                parts.append(as_bytes(builder, either(builder, fields)))
            words = units(builder, parts, 8, 32)
            lines = [
                as_bytes(builder, concatenated(builder, halves))
                for halves in zip(*(_pairs(builder, *words[k : k + 2], groups) for k in (0, 2)), strict=True)
            ]
            first = builder.add(target, builder.mul(begin, INT64(4)))
            put_lines(builder, lines, [builder.add(first, INT64(LINE * k)) for k in range(len(lines))], streaming)
        builder.ret_void()

    @operation(types.void, *[INTEGER] * 4)
    def braid_lines(builder, sources, at, target, streaming):
        """Write four lines of words, each with the low bits of a byte of every one of the rows that make a word.

        64 bytes of each are read from its address in the table `sources` on, plus `at`; the rows of a byte stand there
        from its lowest bits on. With `streaming`, `target` is a multiple of 64.
        """
        name, arguments = f"strided_braid_lines{bits}", [sources, at, target, streaming]
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 4, build), arguments)

    return braid_lines


braid_lines8, braid_lines4, braid_lines2, braid_lines1 = map(_braid_lines, (8, 4, 2, 1))
