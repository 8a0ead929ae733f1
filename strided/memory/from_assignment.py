"""A report from a buffer assignment: the compiler's own allocations, with live ranges if they are known.

Live ranges come from the heap simulator's trace, or without one from the order of the instructions in the module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from strided.dumps.buffer_assignment.assignment import BufferAssignment
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.errors import DumpError
from strided.layout import Shape, TupleShape
from strided.layout.tuples import unbuffered
from strided.memory.buffers import Buffer, LiveRange, Source, peak_of, unpadded_bytes_of, usage_of
from strided.memory.heap_trace import HeapTrace
from strided.memory.liveness import Liveness
from strided.memory.padding_bound import Slot, most_padding
from strided.memory.provenance import plain_name, source_of
from strided.memory.report import MemoryReport, name_of_space

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module


class _Held(NamedTuple):
    """A slot of an allocation: its values, and their live ranges."""

    allocation: Allocation
    offset: int
    values: tuple[Value, ...]
    ranges: tuple[LiveRange | None, ...]
    is_heap: bool


class _Clock(NamedTuple):
    """Live ranges: the schedule, the ranges of values by id, and a description of their origin.

    `is_bound`: whether values may be in use for a shorter time than their ranges.
    """

    schedule: tuple[str, ...]
    ranges: dict[int, LiveRange]
    origin: str
    is_bound: bool


def report_from_assignment(
    assignment: BufferAssignment,
    space: int,
    module: Module | None = None,
    traces: Sequence[HeapTrace] = (),
    *,
    is_whole: bool = False,
) -> MemoryReport:
    """The report of one memory space; `is_whole` if another source shows that no allocation is missing."""
    own = [one for one in assignment if one.memory_space == space]
    clock = _clock(own, module, traces)
    held = [slot for one in own for slot in _slots(one, clock)]
    total = sum(one.size for one in own)
    apart = sum(one.size for one in own if one.is_thread_local)
    instructions = {i.name: i for i in reversed(module.instructions)} if module is not None else {}
    usage: list[int] = []
    peak, place = total - apart, None
    if clock is not None:
        usage = _usage([slot for slot in held if not slot.allocation.is_thread_local], len(clock.schedule))
        peak, place = peak_of(usage)
    buffers = tuple(_buffer(slot, place, clock, instructions) for slot in held)
    notes = [_about_total(assignment, is_whole=is_whole or assignment.is_complete)]
    if apart:
        notes.append(f"{apart:,} bytes of the total are thread-local: the program does not hold them")
    notes.append(_about_live_ranges(clock))
    return MemoryReport(
        module=module.name if module is not None else "",
        space=space,
        space_name=name_of_space(space),
        total_bytes=total,
        peak_bytes=peak,
        peak_at=None if clock is None or place is None else clock.schedule[place],
        padding_bytes=min(_padding(held, buffers, clock), peak),
        buffers=buffers,
        schedule=() if clock is None else clock.schedule,
        usage=tuple(usage),
        bounds=_bounds(clock),
        notes=tuple(notes),
    )


def _padding(held: Sequence[_Held], buffers: Sequence[Buffer], clock: _Clock | None) -> int:
    """Bytes of padding at the peak; without live ranges, the most that can be in use at one time."""
    if clock is not None:
        return sum(b.wasted_bytes for b in buffers)
    slots = zip(held, buffers, strict=True)
    return most_padding(Slot(s.allocation.index, s.offset, b.bytes, b.wasted_bytes) for s, b in slots)


def _bounds(clock: _Clock | None) -> frozenset[str]:
    """The attributes of the report that are bounds."""
    if clock is None:
        return frozenset({"peak_bytes", "padding_bytes"})
    return frozenset({"peak_bytes"} if clock.is_bound else ())


def _about_live_ranges(clock: _Clock | None) -> str:
    if clock is None:
        return "nothing tells live ranges: the peak is at most the total; the module beside it tells them"
    return f"live ranges and the peak come from {clock.origin}"


def _about_total(assignment: BufferAssignment, *, is_whole: bool) -> str:
    if assignment.cut:
        return f"the text was cut: {assignment.cut}; the total is that of the allocations it has"
    if assignment.unread:
        return "the total is that of the allocations that were understood"
    if is_whole:
        return "the total is the compiler's own"
    return "the total is that of all allocations in the text, of which nothing marks the end"


def _clock(own: Sequence[Allocation], module: Module | None, traces: Sequence[HeapTrace]) -> _Clock | None:
    heaps = [one for one in own if _is_heap(one)]
    told = {trace.allocation: trace for trace in traces}
    if len(heaps) == 1 and heaps[0].index in told:
        trace = told[heaps[0].index]
        if {value.id for value in heaps[0].values} <= trace.ranges.keys():
            return _Clock(trace.schedule, trace.ranges, "the compiler's heap simulator trace", is_bound=False)
    if module is None or not module.is_scheduled:
        return None
    try:
        liveness = Liveness(module)
    except DumpError:  # a damaged text: names that nothing defines
        return None
    ranges = {}
    for one in own:
        for value in one.values:
            if (found := liveness.range_of(value.name, value.index)) is not None:
                ranges[value.id] = found
    return _Clock(liveness.schedule, ranges, "the order of the instructions", is_bound=True)


def _is_heap(one: Allocation) -> bool:
    """Whether values share an allocation over time; other allocations are in use throughout the program."""
    return not (one.parameter_number is not None or one.is_constant or one.maybe_live_out or one.is_thread_local)


def _slots(one: Allocation, clock: _Clock | None) -> list[_Held]:
    groups: dict[int, list[Value]] = defaultdict(list)
    for value in one.values:
        groups[value.offset].append(value)
    known = {} if clock is None else clock.ranges
    return [
        _Held(one, offset, tuple(values), tuple(known.get(value.id) for value in values), _is_heap(one))
        for offset, values in sorted(groups.items() or [(0, [])])
    ]


def _usage(held: Sequence[_Held], places: int) -> list[int]:
    """Bytes in use at each position; values without a live range are in use throughout."""
    fixed = sum({slot.allocation.index: slot.allocation.size for slot in held if not slot.is_heap}.values())
    usage = usage_of((period for slot in held if slot.is_heap for period in _periods(slot, places)), places)
    # Live ranges may be slightly too long, so limit the usage to the total.
    total = sum({slot.allocation.index: slot.allocation.size for slot in held}.values())
    return [min(total, fixed + use) for use in usage]


def _periods(slot: _Held, places: int) -> list[tuple[LiveRange, int]]:
    """The periods in which a slot is in use, with the bytes in use; values that overlap in time count once."""
    found: list[tuple[LiveRange, int]] = []
    lives = ((r or LiveRange(0, places - 1), value.size) for r, value in zip(slot.ranges, slot.values, strict=True))
    for (start, stop), size in sorted(lives):
        if found and start <= found[-1][0].stop:
            (first, last), most = found[-1]
            found[-1] = (LiveRange(first, max(last, stop)), max(most, size))
        else:
            found.append((LiveRange(start, stop), size))
    return found


def _buffer(slot: _Held, place: int | None, clock: _Clock | None, instructions: dict[str, Instruction]) -> Buffer:
    one, value, is_at_peak = slot.allocation, _largest(slot.values), not slot.allocation.is_thread_local
    if slot.is_heap and place is not None:
        lives = zip(slot.values, slot.ranges, strict=True)
        at_peak = _largest([v for v, r in lives if r is None or r.start <= place <= r.stop])
        is_at_peak = at_peak is not None
        value = at_peak or value  # smaller values at other times would not reduce the peak
    named = value
    if one.parameter_number is not None:  # a donated argument keeps its name: that of its first value
        named = min(slot.values, key=lambda v: v.id, default=None)
    size = one.size if value is None else value.size
    shape = None if value is None else value.shape
    return Buffer(
        name=named.label if named is not None else f"allocation {one.index}",
        kind=_kind(one),
        bytes=size,
        unpadded_bytes=min(size, _unpadded(value)) if value is not None else size,
        shape=shape,
        shapes=() if shape is None else (shape,),
        is_explained=value is not None,
        live=_live(slot, value, clock),
        is_at_peak=is_at_peak,
        is_donated=one.parameter_number is not None and one.maybe_live_out,
        source=_source(one, named, instructions),
    )


def _live(slot: _Held, value: Value | None, clock: _Clock | None) -> LiveRange | None:
    """The live range of a slot: in a heap, its uninterrupted use around a value's range; else first to last use."""
    if clock is None or not clock.schedule or slot.allocation.is_thread_local:
        return None
    places = len(clock.schedule)
    if slot.is_heap:
        own = None if value is None else clock.ranges.get(value.id)
        periods = [] if own is None else [life for life, _ in _periods(slot, places) if life.start <= own.start]
        return periods[-1] if periods else None
    known = [r for r in slot.ranges if r is not None] or [LiveRange(0, places - 1)]
    return LiveRange(min(r.start for r in known), max(r.stop for r in known))


def _source(one: Allocation, named: Value | None, instructions: dict[str, Instruction]) -> Source:
    """The source of the value that names a buffer; for an argument always with its name."""
    instruction = None if named is None else instructions.get(named.name)
    found = Source() if named is None or instruction is None else source_of(instruction, named.index or ())
    if one.parameter_number is None or found.argument:
        return found
    return Source(argument=plain_name(named.name) if named else f"parameter {one.parameter_number}")


def _largest(values: Sequence[Value]) -> Value | None:
    """The largest value; among values of equal size, the one with the least padding."""
    return max(values, key=lambda v: (v.size, _unpadded(v), not v.is_phi, -v.id), default=None)


def _kind(one: Allocation) -> str:
    if one.parameter_number is not None:
        return "argument"
    return "constant" if one.is_constant else "result" if one.maybe_live_out else "temporary"


def _unpadded(value: Value) -> int:
    shape = value.shape
    if isinstance(shape, TupleShape):
        return min(value.size, unpadded_bytes_of(shape, value.size))
    shape = unbuffered(shape)
    if not isinstance(shape, Shape) or shape.layout is None or value.kind == "unknown":
        return value.size
    return min(value.size, unpadded_bytes_of(shape))
