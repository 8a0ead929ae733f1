"""When the compiler itself held which values: the heap simulator's traces in an HloProto.

A trace replays how one allocation was filled. Its events name the value by its id, and the instruction that makes the
value; a value is in use until it is freed.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.dumps.protobuf.decode import Fields
from strided.errors import DumpError
from strided.memory.buffers import LiveRange

#: The kind of an event that frees a value, in HeapSimulatorTrace.Event.Kind.
_FREE = 1


class HeapTrace(NamedTuple):
    """One allocation over time: the instructions in their order, and when each value, by its id, is in use."""

    allocation: int
    schedule: tuple[str, ...]
    ranges: dict[int, LiveRange]


def read_traces(view: memoryview) -> tuple[HeapTrace, ...]:
    """The traces of an HloProto; none for anything else."""
    try:
        assignment = Fields("HloProto", view).message("buffer_assignment")
        return tuple(_trace(one) for one in assignment.messages("heap_simulator_traces"))
    except DumpError:
        return ()


def _trace(found: Fields) -> HeapTrace:
    schedule: list[str] = []
    starts: dict[int, int] = {}
    ranges: dict[int, LiveRange] = {}
    for event in found.messages("events"):
        number = event.integer("buffer_id")
        if event.integer("kind") == _FREE:
            if number in starts:
                ranges[number] = LiveRange(starts.pop(number), max(0, len(schedule) - 1))
            continue
        starts[number] = len(schedule)
        schedule.append(event.text("instruction_name"))
    last = max(0, len(schedule) - 1)
    ranges |= {number: LiveRange(start, last) for number, start in starts.items()}
    return HeapTrace(found.integer("buffer_allocation_index"), tuple(schedule), ranges)
