"""Tasks of a copy, carried out one after the other: calls of other kernels, from records that `records` describes."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from strided.kernels import simd_bytes
from strided.kernels.compile import BYTES, NUMBER, WRITABLE, ZERO, kernel, part
from strided.kernels.llvm import INT64, INTEGER, operation, pointer_to
from strided.kernels.records import (
    ADDRESS,
    ARGUMENTS,
    ARGUMENTS_AT,
    BLOCK,
    BUFFERS,
    BYTES_WORDS,
    CALLS,
    ENTRY,
    FIRST,
    FROM,
    FROM_UNIT,
    ITEMS,
    LENGTH,
    OF_BUFFER,
    OF_TASK,
    PLACE,
    ROOM_TABLE_AT,
    SCRATCH_AT,
    SCRATCH_PLACE,
    SHAPE,
    SHIFT,
    SIZE,
    SOURCE,
    SOURCE_SHIFT,
    TABLE_AT,
    TABLE_ROWS,
    TARGET,
    TARGET_SHIFT,
    TO,
    TO_UNIT,
)

_BLOCKS = types.UniTuple(NUMBER, 2 * (BUFFERS - BLOCK))


@operation(INTEGER, INTEGER)
def _take(builder, counter):
    """What an int64 in memory is; it is one more then, whoever else takes it."""
    return builder.atomic_rmw("add", pointer_to(builder, counter, INT64), INT64(1), "monotonic")


@operation(types.void, INTEGER, INTEGER)
def _call(builder, entry, arguments):
    """Call a function in C that takes an address."""
    kind = ir.FunctionType(ir.VoidType(), [INT64.as_pointer()])
    builder.call(pointer_to(builder, entry, kind), [pointer_to(builder, arguments, INT64)])


@part
def _put_buffer(room, number, place, size):
    simd_bytes.put_item(room, OF_BUFFER * number + PLACE, place)
    simd_bytes.put_item(room, OF_BUFFER * number + SIZE, size)
    simd_bytes.put_item(room, OF_BUFFER * number + SHIFT, ZERO)


@part
def _put_side(room, arguments, number, unit):
    """Fill in a buffer among the arguments; by how many units of offsets it is shifted."""
    place = simd_bytes.item(room, OF_BUFFER * number + PLACE)
    size = simd_bytes.item(room, OF_BUFFER * number + SIZE)
    shift = simd_bytes.item(room, OF_BUFFER * number + SHIFT)
    simd_bytes.put_item(arguments, ZERO + ITEMS, size)
    simd_bytes.put_item(arguments, ZERO + ADDRESS, place)
    simd_bytes.put_item(arguments, ZERO + SHAPE, size)
    return shift // unit


@part
def _put_table(room, arguments, record, s, t):
    """Fill in the first table, or the offsets in its place, shifted."""
    rows, first = simd_bytes.item(record, ZERO + TABLE_ROWS), ZERO + 2 * BYTES_WORDS
    if rows == 0:
        simd_bytes.put_item(arguments, first, simd_bytes.item(arguments, first) + s)
        simd_bytes.put_item(arguments, first + 1, simd_bytes.item(arguments, first + 1) + t)
    elif s != 0 or t != 0:
        table, own = simd_bytes.item(record, ZERO + TABLE_AT), room + 8 * ROOM_TABLE_AT
        for k in range(rows):
            simd_bytes.put_item(own, 2 * k, simd_bytes.item(table, 2 * k) + s)
            simd_bytes.put_item(own, 2 * k + 1, simd_bytes.item(table, 2 * k + 1) + t)
        simd_bytes.put_item(arguments, first + ADDRESS, own)


@part
def _carry_out(room, record):
    """Carry out the call of a record."""
    arguments = room + 8 * ARGUMENTS_AT
    for k in range(simd_bytes.item(record, ZERO + LENGTH) - ARGUMENTS):
        simd_bytes.put_item(arguments, k, simd_bytes.item(record, ARGUMENTS + k))
    from_, to = simd_bytes.item(record, ZERO + FROM), simd_bytes.item(record, ZERO + TO)
    s = _put_side(room, arguments, from_, simd_bytes.item(record, ZERO + FROM_UNIT))
    t = _put_side(room, arguments + 8 * BYTES_WORDS, to, simd_bytes.item(record, ZERO + TO_UNIT))
    _put_table(room, arguments, record, s, t)
    place = simd_bytes.item(record, ZERO + SCRATCH_PLACE)
    if place >= 0:
        simd_bytes.put_item(arguments, place, simd_bytes.item(room, ZERO + SCRATCH_AT))
    _call(simd_bytes.item(record, ZERO + ENTRY), arguments)


@kernel(BYTES, WRITABLE, NUMBER, _BLOCKS, NUMBER, NUMBER, NUMBER, NUMBER)
def run_tasks(source, target, room, blocks, program, count, counter, most):
    """Carry out tasks that no thread has taken, at most so many, of the `count` at the beginning of a program.

    `room` is the address of this thread's own memory; `blocks` are the address and the bytes of each block between
    source and target. An int64 at the address `counter` counts the tasks taken; all are this thread's if that is 0. A
    task says where its records begin, how many come first, and the bits to shift the source and the target by.
    """
    _put_buffer(room, ZERO + SOURCE, simd_bytes.address(source), source.size)
    _put_buffer(room, ZERO + TARGET, simd_bytes.address(target), target.size)
    for k in range(BUFFERS - BLOCK):
        _put_buffer(room, BLOCK + k, blocks[2 * k], blocks[2 * k + 1])
    for k in range(most):
        number = k if counter == 0 else _take(counter)
        if number >= count:
            return
        task = program + 8 * OF_TASK * number
        simd_bytes.put_item(room, ZERO + OF_BUFFER * SOURCE + SHIFT, simd_bytes.item(task, ZERO + SOURCE_SHIFT))
        simd_bytes.put_item(room, ZERO + OF_BUFFER * TARGET + SHIFT, simd_bytes.item(task, ZERO + TARGET_SHIFT))
        record = program + 8 * simd_bytes.item(task, ZERO + FIRST)
        for _ in range(simd_bytes.item(task, ZERO + CALLS)):
            _carry_out(room, record)
            record += 8 * simd_bytes.item(record, ZERO + LENGTH)
