"""Lines of bytes as values of compiled code, and operations on them.

Kernels address memory by plain integers and hold a cache line, 64 bytes, in one value. Nothing is checked.

`put` is the store that matters: with `streaming` set, a whole line goes past the caches without being read first.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import (
    BYTE,
    INT32,
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    ask_for,
    asks_for_gaps,
    blended,
    function_of,
    intrinsic,
    loaded,
    operation,
    pointer_to,
    register_bytes,
    rows_reread,
    splat,
    stream,
    wall,
)

# --- memory ---------------------------------------------------------------------------------------------------------


@intrinsic
def address(typing, array):
    """The address at which an array's data begin."""

    def lower(context, builder, signature, values):
        view = context.make_array(signature.args[0])(context, builder, values[0])
        return builder.ptrtoint(view.data, INT64)

    return INTEGER(array), lower


@intrinsic
def tables(typing, a, b, c, d, e):
    """For each of five arrays the address at which its data begin, and its length: far less code than indices take."""
    arrays, pair = (a, b, c, d, e), types.UniTuple(INTEGER, 2)
    found = types.UniTuple(pair, len(arrays))

    def lower(context, builder, signature, values):
        views = [context.make_array(kind)(context, builder, v) for kind, v in zip(arrays, values, strict=True)]
        ends = [(builder.ptrtoint(view.data, INT64), builder.extract_value(view.shape, 0)) for view in views]
        return context.make_tuple(builder, found, [context.make_tuple(builder, pair, each) for each in ends])

    return found(*arrays), lower


@operation(INTEGER, INTEGER)
def integer(builder, address):
    """The int64 at an address."""
    return builder.load(pointer_to(builder, address, INT64), align=8)


@operation(INTEGER, INTEGER, INTEGER)
def item(builder, table, number):
    """One of the int64 from an address on, so that LLVM sees what a loop over them reads."""
    return builder.load(builder.gep(pointer_to(builder, table, INT64), [number]), align=8)


@operation(types.void, INTEGER, INTEGER, INTEGER)
def put_item(builder, table, number, value):
    """Write one of the int64 from an address on, likewise."""
    builder.store(value, builder.gep(pointer_to(builder, table, INT64), [number]), align=8)


def _cells(columns):
    @operation(INTEGER, INTEGER, INTEGER, INTEGER)
    def cell(builder, table, row, column):
        """A number of a table of so many columns that begins at an address."""
        place = builder.add(builder.mul(row, INT64(8 * columns)), builder.mul(column, INT64(8)))
        return builder.load(pointer_to(builder, builder.add(table, place), INT64), align=8)

    return cell


cell2, cell = _cells(2), _cells(3)


STEPS = 32
"""How many steps `are_steps` looks at."""


@operation(INTEGER, INTEGER, INTEGER)
def are_steps(builder, address, step):
    """1 if each of `STEPS` int64 after the one at an address is `step` more than the one before it, else 0."""
    wanted, other = splat(builder, step, VECTOR.of(64)), ir.Constant(VECTOR.of(64), None)
    for k in range(0, 8 * STEPS, LINE):
        low, high = (loaded(builder, builder.add(address, INT64(k + n)), VECTOR, 64) for n in (0, 8))
        other = builder.or_(other, builder.xor(builder.sub(high, low), wanted))
    whole = builder.bitcast(other, ir.IntType(8 * LINE))
    return builder.zext(builder.icmp_unsigned("==", whole, ir.Constant(whole.type, 0)), INT64)


@operation(types.void, INTEGER, INTEGER)
def put_integer(builder, address, value):
    """Write an int64."""
    builder.store(value, pointer_to(builder, address, INT64), align=8)


@operation(INTEGER, INTEGER)
def byte(builder, address):
    """The byte at an address, as an integer."""
    return builder.zext(builder.load(pointer_to(builder, address, BYTE)), INT64)


@operation(types.void, INTEGER, INTEGER)
def put_byte(builder, address, value):
    """Write the lowest byte of an integer."""
    builder.store(builder.trunc(value, BYTE), pointer_to(builder, address, BYTE))


@operation(types.void, INTEGER, INTEGER, INTEGER)
def move(builder, target, source, count):
    """Copy bytes between places that do not overlap."""
    places = (pointer_to(builder, place, BYTE) for place in (target, source))
    copy: Any = cgutils.raw_memcpy
    copy(builder, *places, count, 1)


def _put_copy(builder, target, source, count):
    """Copy so many bytes between any addresses.

    Two are a number: ARM has no vectors of two bytes, and for each LLVM makes six instructions instead of two.
    """
    value = loaded(builder, source, Vector(count), 16 if count == 2 else 8)
    builder.store(value, pointer_to(builder, target, value.type), align=1)


def _copying(count):
    @operation(types.void, INTEGER, INTEGER)
    def copy(builder, target, source):
        """Copy as many bytes as the name says between any addresses."""
        _put_copy(builder, target, source, count)

    return copy


copy1, copy2, copy4, copy8, copy16, copy32, copy64 = (_copying(1 << k) for k in range(7))


def _copy_parts(builder, target, source, mask):
    """Copy of the 16 words of a line those bytes that are not 0 in `mask`, two at once where they share a half."""
    for half in (0, 2):
        low, high = (
            builder.icmp_signed("!=", builder.and_(mask, INT64(255 << 8 * k)), INT64(0)) for k in (half, half + 1)
        )
        both = builder.and_(low, high)
        for wanted, first, count in (
            (both, half, 2),
            (builder.and_(low, builder.not_(high)), half, 1),
            (builder.and_(high, builder.not_(low)), half + 1, 1),
        ):
            with builder.if_then(wanted):
                for k in range(first, LINE, 4):
                    _put_copy(builder, builder.add(target, INT64(k)), builder.add(source, INT64(k)), count)
    builder.ret_void()


@operation(types.void, INTEGER, INTEGER, INTEGER)
def copy_parts(builder, target, source, mask):
    """Copy of 16 words of 4 bytes those bytes that are not 0 in `mask`, a word itself, and touch no others."""
    function = function_of(builder.module, "strided_copy_parts", ir.VoidType(), [INT64] * 3, _copy_parts)
    builder.call(function, [target, source, mask])


@operation(VECTOR, INTEGER)
def load(builder, address):
    """64 bytes from any address."""
    return loaded(builder, address, VECTOR)


@operation(types.void, INTEGER, VECTOR)
def store(builder, address, value):
    """Write 64 bytes to any address."""
    builder.store(value, pointer_to(builder, address, VECTOR.of(8)), align=1)


@operation(types.void, INTEGER, VECTOR, INTEGER)
def put(builder, address, value, streaming):
    """Write a whole line, to a multiple of 64; past the caches where `streaming` is not 0."""
    pointer = pointer_to(builder, address, VECTOR.of(8))
    with builder.if_else(builder.icmp_signed("!=", streaming, INT64(0))) as (past, through):
        with past:
            stream(builder, value, pointer)
        with through:
            builder.store(value, pointer, align=LINE)


@operation(INTEGER)
def writes_by_mask(builder):
    """1 if the CPU writes single bytes of a vector, else 0."""
    return INT64(int(register_bytes() == LINE))


@operation(INTEGER)
def reread(builder):
    """Rows side by side from which on the CPU is fast at reading words once for each of them: `llvm.rows_reread`."""
    return INT64(rows_reread())


@operation(INTEGER)
def asks_gaps(builder):
    """1 if lines between short pieces are asked for, too, else 0: `llvm.asks_for_gaps`."""
    return INT64(int(asks_for_gaps()))


@operation(types.void, INTEGER, VECTOR, INTEGER, INTEGER)
def store_masked(builder, address, value, size, mask):
    """Write of up to 64 bytes those that are not 0 in `mask`, a word of 4 bytes, and touch no others."""
    masks = as_bytes(builder, splat(builder, mask, VECTOR.of(32)))
    places = ir.Constant(masks.type, list(range(LINE)))
    within = builder.icmp_unsigned("<", places, splat(builder, size, masks.type))
    flags = builder.and_(builder.icmp_unsigned("!=", masks, ir.Constant(masks.type, None)), within)
    pointer = pointer_to(builder, address, value.type)
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INT32, flags.type])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v64i8.p0")
    builder.call(function, [value, pointer, INT32(1), flags])


@operation(types.void, INTEGER, INTEGER, INTEGER)
def change_word(builder, target, source, mask):
    """Change those bits of a word of 4 bytes that are ones in `mask`."""
    place = pointer_to(builder, target, INT32)
    before = builder.load(place, align=1)
    after = builder.load(pointer_to(builder, source, INT32), align=1)
    differs = builder.and_(builder.xor(before, after), builder.trunc(mask, INT32))
    builder.store(builder.xor(before, differs), place, align=1)


@operation(types.void, INTEGER)
def prefetch(builder, address):
    """Hint that the line at an address, which may be any number, is wanted soon, mostly in the second-level cache."""
    ask_for(builder, address)


@operation(types.void, INTEGER)
def prefetch_near(builder, address):
    """The same into the first-level cache: for few lines, that are wanted very soon."""
    ask_for(builder, address, near=True)


@operation(types.void, INTEGER)
def prefetch_to_write(builder, address):
    """The same for a line that is written very soon, and in part."""
    ask_for(builder, address, near=True, write=True)


@operation(types.void)
def forget_stored(builder):
    """Have what was stored read from memory, though the compiler still knows it."""
    wall(builder)


@operation(types.void)
def fence(builder):
    """Let other threads see streaming stores before anything written later."""
    builder.fence("seq_cst")


# --- lines in registers ---------------------------------------------------------------------------------------------


@operation(VECTOR)
def zero(builder):
    """64 bytes of zeros."""
    return ir.Constant(VECTOR.of(8), None)


@operation(VECTOR, INTEGER, VECTOR, VECTOR)
def blend(builder, count, first, second):
    """The first `count` bytes of one vector, the others from the second."""
    return blended(builder, count, first, second)


@operation(VECTOR, VECTOR, VECTOR, INTEGER)
def choose(builder, first, second, mask):
    """The second vector's bits where `mask`, a word of 4 bytes, has ones; the first's elsewhere."""
    masks = as_bytes(builder, splat(builder, mask, VECTOR.of(32)))
    return builder.xor(first, builder.and_(builder.xor(first, second), masks))


@operation(VECTOR, VECTOR, INTEGER, INTEGER, INTEGER)
def narrow(builder, value, shift, mask, sign):
    """The bits of each byte under `mask`, after a shift to the right; `sign`, where not 0, is the highest of them.

    It is extended upwards.
    """
    wide = VECTOR.of(16)
    value = as_bytes(builder, builder.lshr(builder.bitcast(value, wide), splat(builder, shift, wide)))
    masks, signs = (splat(builder, number, value.type) for number in (mask, sign))
    return builder.sub(builder.xor(builder.and_(value, masks), signs), signs)
