"""Calls of kernels as records in memory, which `run_tasks` carries out one after the other without Python.

Whatever comes back to Python takes the GIL, and waits for whoever has it: with many threads that takes longer than what
a kernel does to a block in the cache. So a thread asks once for all that it does.

A record is a few int64, named below, and the arguments of a kernel as its machine code takes them: a number as it is,
an array as seven or nine numbers. The buffers are not known when a record is made: `run_tasks` fills them in.
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

#: Buffers of a task: the source and the target of a copy, and two blocks in between.
SOURCE, TARGET, BLOCK = 0, 1, 2
BUFFERS = 4

#: An array as arguments: what counts its references and owns it, its length, the bytes of an element, its address, and
#: of every axis the length, and the bytes from one to the next.
ITEMS, ADDRESS, SHAPE = 2, 4, 5
BYTES_WORDS = 7

#: Most arguments of a kernel, in int64.
MOST_ARGUMENTS = 96

#: Bytes of a thread's room for `run_tasks`, besides the largest first table of a call.
ROOM_BYTES = 1 << 10


def record(
    entry: int, arguments: Sequence[Any], buffers: tuple[int, int], units: tuple[int, int], scratch: int
) -> list[int]:
    """A call with some arguments behind the source and the target, and scratch memory as the one at `scratch`, if any.

    The arrays must live as long as the record. Scratch memory is any array; its length counts.
    """
    places, flat = [], [0] * BYTES_WORDS * 2
    flat[BYTES_WORDS - 1] = flat[2 * BYTES_WORDS - 1] = flat[3] = flat[BYTES_WORDS + 3] = 1
    for argument in arguments:
        places.append(len(flat))
        flat += _flat(argument)
    assert len(flat) <= MOST_ARGUMENTS
    first = arguments[0]
    table = (first.ctypes.data, len(first)) if isinstance(first, np.ndarray) else (0, 0)
    place = places[scratch] + ADDRESS if scratch >= 0 else -1
    return [entry, ARGUMENTS + len(flat), *buffers, *units, *table, place, *flat]


def _flat(argument: Any) -> Iterator[int]:
    """An argument as compiled code takes it."""
    if isinstance(argument, np.ndarray):
        yield from (0, 0, argument.size, argument.itemsize, argument.ctypes.data, *argument.shape, *argument.strides)
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _flat(each)
    else:
        yield int(argument)
