"""The heap simulator's traces in an HloProto, which record when the compiler considered each value in use.

A trace records how one allocation was filled. Its events have the id of a value and the instruction that makes it; a
value is in use until an event frees it.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.dumps.protobuf.decode import Fields
from strided.errors import DumpError
from strided.memory.buffers import LiveRange

#: The kind of an event that frees a value, in HeapSimulatorTrace.Event.Kind.
_FREE = 1


class HeapTrace(NamedTuple):
    """One allocation over time: the instructions in order, and the live range of each value by its id."""

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
