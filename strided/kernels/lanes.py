"""Vectors of bytes as values of compiled code, and what can be done with them: the one file that writes LLVM.

Kernels address memory by plain integers and hold a cache line, 64 bytes, in one value. Everything here is generic LLVM,
which turns it into whatever vector instructions the CPU at hand has. Nothing is checked.

`put` is the store that matters: with `streaming` set, a whole line goes past the caches without being read first.
"""

from __future__ import annotations

import functools
from typing import Any

import numba.extending
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import models, register_model

intrinsic: Any = numba.extending.intrinsic

LINE = 64
"""Bytes of a cache line, and of a vector."""

_BIT, _BYTE, _INT32, _INT64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_INTEGER = types.int64


class Vector(types.Type):
    """Numba's type of so many bytes in registers."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"vector{count}")

    def of(self, bits):
        """The LLVM type that sees these bytes as elements of `bits`."""
        return ir.VectorType(ir.IntType(bits), self.count * 8 // bits)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.of(8))


_LINE = Vector(LINE)


def _operation(result, *arguments):
    """An intrinsic of these types whose LLVM is what the decorated function builds."""

    def decorate(build):
        def typing(context, *given):
            signature = result(*(argument or own for argument, own in zip(arguments, given, strict=True)))

            def lower(context, builder, signature, values):
                built = build(builder, *values)
                return context.get_dummy_value() if result is types.void else built

            return signature, lower

        return intrinsic(functools.wraps(build)(typing))

    return decorate


# --- pieces of LLVM -------------------------------------------------------------------------------------------------


def _pointer(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder, address, vector, bits=8):
    kind = vector.of(bits)
    return builder.load(_pointer(builder, address, kind), align=1)


def _same(vector, number):
    """A constant vector that holds one number everywhere."""
    return ir.Constant(vector, [number] * vector.count)


def _shuffle(builder, first, second, picks):
    picks = list(picks)
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(_INT32, len(picks)), picks))


def _splat(builder, number, vector):
    """A vector that holds one value everywhere."""
    undefined = ir.Constant(vector, ir.Undefined)
    scalar = builder.trunc(number, vector.element) if number.type.width > vector.element.width else number
    return _shuffle(builder, builder.insert_element(undefined, scalar, _INT32(0)), undefined, [0] * vector.count)


def _concat(builder, parts):
    """One vector out of two, four or eight."""
    while len(parts) > 1:
        picks = range(2 * parts[0].type.count)
        parts = [_shuffle(builder, a, b, picks) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _as_bytes(builder, value):
    return builder.bitcast(value, _LINE.of(8))


def _wall(builder):
    """Assembler text of no instructions, which LLVM must leave where it is.

    Without it the two stores of `put` become one and the hint is lost.
    """
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


def _stream(builder, value, pointer):
    _wall(builder)
    store = builder.store(value, pointer, align=LINE)
    store.set_metadata("nontemporal", builder.module.add_metadata([_INT32(1)]))
    _wall(builder)


# --- memory ---------------------------------------------------------------------------------------------------------


@intrinsic
def address(typing, array):
    """Where an array's data begin."""

    def lower(context, builder, signature, values):
        view = context.make_array(signature.args[0])(context, builder, values[0])
        return builder.ptrtoint(view.data, _INT64)

    return _INTEGER(array), lower


@_operation(_INTEGER, _INTEGER)
def integer(builder, address):
    """The int64 at an address."""
    return builder.load(_pointer(builder, address, _INT64), align=8)


@_operation(_INTEGER, _INTEGER, _INTEGER, _INTEGER)
def cell(builder, table, row, column):
    """A number of a table of three columns that begins at an address."""
    place = builder.add(builder.mul(row, _INT64(24)), builder.mul(column, _INT64(8)))
    return builder.load(_pointer(builder, builder.add(table, place), _INT64), align=8)


@_operation(types.void, _INTEGER, _INTEGER)
def put_integer(builder, address, value):
    """Write an int64."""
    builder.store(value, _pointer(builder, address, _INT64), align=8)


@_operation(_INTEGER, _INTEGER)
def byte(builder, address):
    """The byte at an address, as an integer."""
    return builder.zext(builder.load(_pointer(builder, address, _BYTE)), _INT64)


@_operation(types.void, _INTEGER, _INTEGER)
def put_byte(builder, address, value):
    """Write the lowest byte of an integer."""
    builder.store(builder.trunc(value, _BYTE), _pointer(builder, address, _BYTE))


@_operation(types.void, _INTEGER, _INTEGER, _INTEGER)
def move(builder, target, source, count):
    """Copy so many bytes between places that do not overlap."""
    places = (_pointer(builder, place, _BYTE) for place in (target, source))
    copy: Any = cgutils.raw_memcpy
    copy(builder, *places, count, 1)


@_operation(_LINE, _INTEGER)
def load(builder, address):
    """64 bytes from any address."""
    return _load(builder, address, _LINE)


@_operation(types.void, _INTEGER, _LINE)
def store(builder, address, value):
    """Write 64 bytes to any address."""
    builder.store(value, _pointer(builder, address, _LINE.of(8)), align=1)


@_operation(types.void, _INTEGER, _LINE, _INTEGER)
def put(builder, address, value, streaming):
    """Write a whole line, to a multiple of 64; past the caches where `streaming` is not 0."""
    pointer = _pointer(builder, address, _LINE.of(8))
    with builder.if_else(builder.icmp_signed("!=", streaming, _INT64(0))) as (past, through):
        with past:
            _stream(builder, value, pointer)
        with through:
            builder.store(value, pointer, align=LINE)


@_operation(types.void, _INTEGER, _LINE, _INTEGER)
def store_masked(builder, address, value, mask):
    """Write those of 64 bytes whose bit is set in `mask`; the others are neither read nor written."""
    flags = ir.VectorType(_BIT, LINE)
    pointer = _pointer(builder, address, value.type)
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, _INT32, flags])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v64i8.p0")
    builder.call(function, [value, pointer, _INT32(1), builder.bitcast(mask, flags)])


@_operation(types.void, _INTEGER)
def prefetch(builder, address):
    """Hint that the line at an address, which may be any number, is wanted soon in the second-level cache."""
    # Into the first level it would push out what is at work there: rows at powers of two share few of its sets.
    pointer = _pointer(builder, address, _BYTE)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT32, _INT32, _INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    builder.call(function, [pointer, _INT32(0), _INT32(2), _INT32(1)])


@_operation(types.void)
def fence(builder):
    """Let other threads see streaming stores before anything written later."""
    builder.fence("seq_cst")


# --- lines in registers ---------------------------------------------------------------------------------------------


@_operation(_LINE)
def zero(builder):
    """64 bytes of zeros."""
    return ir.Constant(_LINE.of(8), None)


@_operation(_LINE, _INTEGER, _LINE, _LINE)
def blend(builder, count, first, second):
    """The first `count` bytes of one vector, the others from the second."""
    places = ir.Constant(first.type, list(range(LINE)))
    return builder.select(builder.icmp_unsigned("<", places, _splat(builder, count, first.type)), first, second)


@_operation(_LINE, _LINE, _LINE, _INTEGER)
def choose(builder, first, second, mask):
    """The second vector's bits where `mask`, a word of 4 bytes, has ones; the first's elsewhere."""
    masks = _as_bytes(builder, _splat(builder, mask, _LINE.of(32)))
    return builder.xor(first, builder.and_(builder.xor(first, second), masks))


@_operation(_LINE, _LINE, _INTEGER, _INTEGER)
def narrow(builder, value, mask, sign):
    """The bits of each byte under `mask`; `sign`, where not 0, is the highest of them and is extended upwards."""
    masks, signs = (_splat(builder, number, value.type) for number in (mask, sign))
    return builder.sub(builder.xor(builder.and_(value, masks), signs), signs)


# --- words of 4 bytes that rows share -------------------------------------------------------------------------------


def _fields(bits):
    count = 32 // bits

    @_operation(_LINE, _INTEGER, _INTEGER)
    def fields(builder, address, shift):
        """64 bytes of elements: the lowest bits of words that follow each other, after a shift to the right."""
        shifts = _splat(builder, shift, _LINE.of(32))
        lines = [_load(builder, builder.add(address, _INT64(k * LINE)), _LINE, 32) for k in range(count)]
        parts = [builder.bitcast(builder.lshr(line, shifts), _LINE.of(bits)) for line in lines]
        picks = range(0, 1024 // bits, count)
        halves = [_shuffle(builder, a, b, picks) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return _as_bytes(builder, _concat(builder, halves))

    return fields


fields16, fields8 = _fields(16), _fields(8)


def _row_of_words(builder, address, bits):
    """One row's elements of `bits`, each widened to a word of 4 bytes, as many as make a line."""
    return builder.zext(_load(builder, address, Vector(LINE * bits // 32), bits), _LINE.of(32))


def _braid(bits):
    @_operation(_LINE, _INTEGER, _INTEGER)
    def braid(builder, address, pitch):
        """A line of words, each with an element of every one of the rows that lie `pitch` bytes apart."""
        # Widen, shift, or: LLVM turns the shuffle that says the same into twice the instructions on x86.
        words = _row_of_words(builder, address, bits)
        for shift in range(bits, 32, bits):
            address = builder.add(address, pitch)
            field = builder.shl(_row_of_words(builder, address, bits), _same(words.type, shift))
            words = builder.or_(words, field)
        return _as_bytes(builder, words)

    return braid


braid16, braid8 = _braid(16), _braid(8)


def _function(module, name, result, arguments, body):
    """A function of its own, so that LLVM compiles a long body once for all its callers."""
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    body(builder, *function.args)
    return function


def _braid_packed(builder, address, pitch, bits, flip):
    """Or the low `bits` of every row into words, in a loop over the rows."""
    kind = _LINE.of(32)
    words, place = (cgutils.alloca_once_value(builder, value) for value in (ir.Constant(kind, None), address))
    mask = _splat(builder, builder.sub(builder.shl(_INT64(1), bits), _INT64(1)), kind)
    with cgutils.for_range_slice(builder, _INT64(0), _INT64(32), bits, inc=True) as (shift, _):
        row = builder.load(place)
        field = builder.and_(_row_of_words(builder, row, 8), mask)
        field = builder.shl(field, _splat(builder, builder.xor(shift, flip), kind))
        builder.store(builder.or_(builder.load(words), field), words)
        builder.store(builder.add(row, pitch), place)
    builder.ret(_as_bytes(builder, builder.load(words)))


@_operation(_LINE, _INTEGER, _INTEGER, _INTEGER, _INTEGER)
def braid_packed(builder, address, pitch, bits, flip):
    """A line of words, each with the low `bits` of a byte of every one of 32 / `bits` rows `pitch` bytes apart.

    With `flip`, 8 - `bits`, a byte's first element is in its high bits.
    """
    function = _function(builder.module, "strided_braid_packed", _LINE.of(8), [_INT64] * 4, _braid_packed)
    return builder.call(function, [address, pitch, bits, flip])


# --- packed elements that lie side by side --------------------------------------------------------------------------


def _reversed(builder, value, bits, flip):
    """Where `flip` is not 0, the elements of `bits` in every byte in opposite order."""
    turned = value
    while bits < 8:
        low, by = (_same(value.type, n) for n in (sum((1 << bits) - 1 << k for k in range(0, 8, 2 * bits)), bits))
        up = builder.shl(builder.and_(turned, low), by)
        turned = builder.or_(up, builder.and_(builder.lshr(turned, by), low))
        bits *= 2
    return builder.select(builder.icmp_signed("!=", flip, _INT64(0)), turned, value)


def _spread(bits):
    packed, each = Vector(8 * bits), 8 // bits

    @_operation(_LINE, _INTEGER, _INTEGER, _INTEGER)
    def spread(builder, address, shift, flip):
        """64 bytes, each with one of the elements from bit `shift` of an address on, higher bits not cleared.

        Reads one byte more than the elements take. With `flip`, a byte's first element is in its high bits.
        """
        here, beyond = (
            _reversed(builder, _load(builder, builder.add(address, _INT64(k)), packed), bits, flip) for k in range(2)
        )
        down = _splat(builder, shift, here.type)
        up = builder.shl(builder.shl(beyond, builder.sub(_same(here.type, 7), down)), _same(here.type, 1))
        wide = ir.VectorType(ir.IntType(8 * each), 8 * bits)
        lane = builder.zext(builder.or_(builder.lshr(here, down), up), wide)
        parts = [builder.shl(lane, _same(wide, k * (8 - bits))) for k in range(each)]
        return _as_bytes(builder, _either(builder, parts))

    return spread


def _gather(bits):
    each = 8 // bits

    @_operation(_LINE, _INTEGER, _INTEGER)
    def gather(builder, address, flip):
        """64 bytes of packed elements, from the low bits of as many bytes as it takes."""
        parts = []
        for k in range(each):
            lane = _load(builder, builder.add(address, _INT64(k * LINE)), _LINE, 8 * each)
            lane = builder.and_(lane, _same(lane.type, sum((1 << bits) - 1 << 8 * j for j in range(each))))
            joined = _either(builder, [builder.lshr(lane, _same(lane.type, j * (8 - bits))) for j in range(each)])
            parts.append(builder.trunc(joined, ir.VectorType(_BYTE, lane.type.count)))
        return _reversed(builder, _concat(builder, parts), bits, flip)

    return gather


def _either(builder, values):
    result = values[0]
    for value in values[1:]:
        result = builder.or_(result, value)
    return result


spread4, spread2, spread1 = _spread(4), _spread(2), _spread(1)
gather4, gather2, gather1 = _gather(4), _gather(2), _gather(1)


# --- transposed squares ---------------------------------------------------------------------------------------------


def _transposed(builder, rows):
    """A square, one vector a row, with rows and columns exchanged."""
    count = rows[0].type.count
    step = 1
    while step < count:  # rows `step` apart exchange halves of every run of 2 * step elements
        low = [k if not k & step else count + k - step for k in range(count)]
        high = [k + step if not k & step else count + k for k in range(count)]
        rows = [
            _shuffle(builder, *((rows[k - step], row, high) if k & step else (row, rows[k + step], low)))
            for k, row in enumerate(rows)
        ]
        step *= 2
    return rows


def _interleaved(builder, first, second, bits):
    """The elements of two vectors in turn: of the low half of every 16 bytes, and of the high half."""
    first, second = (builder.bitcast(vector, _LINE.of(bits)) for vector in (first, second))
    count, each = first.type.count, 128 // bits
    for half in (0, each // 2):
        picks = (run + half + k // 2 + k % 2 * count for run in range(0, count, each) for k in range(each))
        yield _shuffle(builder, first, second, picks)


def _words(builder, rows, bits):
    """Vectors of words of 32 bits, made of one element of each row; the k-th holds the k-th 4 of every 16 of them."""
    if bits == 32:
        return [builder.bitcast(row, _LINE.of(32)) for row in rows]
    pairs = [_interleaved(builder, a, b, bits) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return [word for group in zip(*pairs, strict=True) for word in _words(builder, group, 2 * bits)]


def _turn(bits):
    word = max(bits, 32)
    each, count = word // bits, 512 // word

    def entry(builder, table, base, *numbers):
        """An address from a table: the entry at the sum of some numbers, and `base`."""
        for number in numbers:
            table = builder.add(table, builder.mul(number, _INT64(8)))
        return builder.add(builder.load(_pointer(builder, table, _INT64), align=8), base)

    def put_rows(builder, rows, addresses, streaming):
        pointers = [_pointer(builder, address, _LINE.of(8)) for address in addresses]
        rows = [_as_bytes(builder, row) for row in rows]
        with builder.if_else(builder.icmp_signed("!=", streaming, _INT64(0))) as (past, through):
            with past:
                for row, pointer in zip(rows, pointers, strict=True):
                    _stream(builder, row, pointer)
            with through:
                for row, pointer in zip(rows, pointers, strict=True):
                    builder.store(row, pointer, align=1)

    def square(builder, sources, source, targets, target, streaming, room):
        rows = [_load(builder, entry(builder, sources, source, _INT64(k)), _LINE, bits) for k in range(count)]
        places = [entry(builder, targets, target, _INT64(k)) for k in range(count)]
        put_rows(builder, _transposed(builder, rows), places, streaming)
        builder.ret_void()

    def squares(builder, sources, source, targets, target, streaming, room):
        with cgutils.for_range(builder, _INT64(count)) as loop:
            first = builder.mul(loop.index, _INT64(each))
            lines = [entry(builder, sources, source, first, _INT64(k)) for k in range(each)]
            rows = [_load(builder, line, _LINE, bits) for line in lines]
            for k, words in enumerate(_words(builder, rows, bits)):
                place = builder.add(room, builder.mul(builder.add(loop.index, _INT64(k * count)), _INT64(LINE)))
                builder.store(words, _pointer(builder, place, words.type), align=LINE)
        _wall(builder)
        with cgutils.for_range(builder, _INT64(each)) as loop:
            base = builder.add(room, builder.mul(loop.index, _INT64(count * LINE)))
            rows = [_load(builder, builder.add(base, _INT64(k * LINE)), _LINE, 32) for k in range(count)]
            first = builder.mul(loop.index, _INT64(4))
            numbers = [_INT64(k // 4 * 4 * each + k % 4) for k in range(count)]
            places = [entry(builder, targets, target, first, number) for number in numbers]
            put_rows(builder, _transposed(builder, rows), places, streaming)
        builder.ret_void()

    @_operation(types.void, *[_INTEGER] * 6)
    def turn(builder, sources, source, targets, target, streaming, room):
        """Transpose a square block whose sides are 64 bytes.

        `sources` and `targets` are the addresses of tables of row offsets, which `source` and `target` are added to.
        With `streaming`, the target's addresses must be multiples of 64; `room`, 4 KB, must begin at one.
        """
        body = square if each == 1 else squares
        arguments = [sources, source, targets, target, streaming, room]
        builder.call(_function(builder.module, f"strided_turn{bits}", ir.VoidType(), [_INT64] * 6, body), arguments)

    return turn


turn8, turn16, turn32, turn64 = _turn(8), _turn(16), _turn(32), _turn(64)
