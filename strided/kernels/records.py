"""Calls of kernels as records in memory, which `run_tasks` carries out one after the other without Python.

Whatever comes back to Python takes the GIL, and waits for whoever has it: with many threads that takes longer than what
a kernel does to a block in the cache. So a thread asks once for all that it does.

A record is a few int64, named below, and the arguments of a kernel as its machine code takes them: a number as it is,
an array as seven or nine numbers. The buffers are not known when a record is made: `run_tasks` fills them in.

A program is the tasks of a copy, and behind them their records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

#: What the int64 of a record are: the address of the kernel's entry, the length of the record, which buffers the kernel
#: takes as source and as target (`SOURCE` and so on), the bits that one of its offsets counts in either, the address of
#: its first table and the rows of it (none: two numbers, the offsets), where scratch memory is among the arguments (-1:
#: nowhere), and the arguments.
ENTRY, LENGTH, FROM, TO, FROM_UNIT, TO_UNIT, TABLE_AT, TABLE_ROWS, SCRATCH_PLACE, ARGUMENTS = range(10)

#: What the int64 of a task are: where its first record begins in the program, how many it takes, and the bits that the
#: source and the target are shifted by.
FIRST, CALLS, SOURCE_SHIFT, TARGET_SHIFT = range(4)
OF_TASK = 4

#: Buffers of a task: the source and the target of a copy, and two blocks in between.
SOURCE, TARGET, BLOCK = 0, 1, 2
BUFFERS = 4

#: An array as arguments: what counts its references and owns it, its length, the bytes of an element, its address, and
#: of every axis the length, and the bytes from one to the next.
ITEMS, ITEM_BYTES, ADDRESS, SHAPE, STRIDE = 2, 3, 4, 5, 6
BYTES_WORDS = 7

#: Most arguments of a kernel, in int64.
MOST_ARGUMENTS = 96

#: A thread's room for `run_tasks`, in int64: the address, length and shift of every buffer, where scratch memory is,
#: the arguments of a call, and its first table, shifted.
PLACE, SIZE, SHIFT = range(3)
OF_BUFFER = 3
SCRATCH_AT, ARGUMENTS_AT = OF_BUFFER * BUFFERS, 16
ROOM_TABLE_AT = ARGUMENTS_AT + MOST_ARGUMENTS
#: Bytes of it, besides that table.
ROOM_BYTES = 8 * ROOM_TABLE_AT


def record(
    entry: int,
    words: int,
    arguments: Sequence[Any],
    buffers: tuple[int, int],
    units: tuple[int, int],
    scratch: Any,
) -> list[int]:
    """A call with some arguments behind the source and the target.

    The kernel takes `words` int64. The arrays must live as long as the record. Where an argument is `scratch`, a
    thread's own memory of that length takes its place.

    Raises
    ------
    TypeError
        The arguments are none that the kernel takes.
    """
    place, flat = -1, [0] * BYTES_WORDS * 2
    for side in (0, BYTES_WORDS):
        flat[side + ITEM_BYTES] = flat[side + STRIDE] = 1
    for argument in arguments:
        if argument is scratch:
            place = len(flat) + ADDRESS
        flat += _flat(argument)
    if len(flat) != words or words > MOST_ARGUMENTS:
        raise TypeError(f"{len(flat)} int64 of arguments for a kernel that takes {words}, of at most {MOST_ARGUMENTS}")
    first = arguments[0]
    table = (first.ctypes.data, len(first)) if isinstance(first, np.ndarray) else (0, 0)
    return [entry, ARGUMENTS + len(flat), *buffers, *units, *table, place, *flat]


def _flat(argument: Any) -> Iterator[int]:
    """An argument as compiled code takes it."""
    if isinstance(argument, np.ndarray):
        if argument.dtype not in (np.int64, np.uint8) or not argument.flags.c_contiguous:
            raise TypeError(f"no table: {argument.dtype} of strides {argument.strides}")
        yield from (0, 0, argument.size, argument.itemsize, argument.ctypes.data, *argument.shape, *argument.strides)
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _flat(each)
    else:
        yield int(argument)
