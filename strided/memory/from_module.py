"""A report from HLO alone: sizes and live ranges of its values, without the compiler's allocations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from strided.dumps.buffer_assignment.values import label_of
from strided.errors import LayoutError, StridedError
from strided.layout import UNBOUNDED, Shape
from strided.layout.tuples import unbuffered
from strided.memory.buffers import Buffer, LiveRange, has_tiles, peak_of, usage_of
from strided.memory.forwarding import SAME_VALUE
from strided.memory.liveness import Index, Liveness, Member
from strided.memory.partitions import partitions_of
from strided.memory.provenance import source_of
from strided.memory.report import MemoryReport, name_of_space
from strided.tpu.default_layout import default_layout
from strided.wording import some

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

#: Instructions that only rename a value.
_NAMING = SAME_VALUE | {"bitcast", "get-tuple-element", "tuple", "while", "parameter"}

#: The highest rank for which a default layout is computed: higher ones have too many orders, and no program has them.
_MAX_RANK = 16


class _Best(NamedTuple):
    """The largest shape of a value: its size, the instruction that makes it, and the index in its result."""

    size: int
    maker: Instruction
    place: Index
    shape: Shape


class _Sized(NamedTuple):
    """A value in one memory space, its live range, and its largest shape."""

    members: Sequence[Member]
    live: LiveRange
    best: _Best


def report_from_module(
    module: Module, space: int, generation: str | None, *, total: int | None = None, note: str | None = None
) -> MemoryReport:
    """The report of one memory space.

    `total` is the compiler's total in bytes, if known; `note` describes where the numbers come from.
    """
    liveness = Liveness(module)
    donated = {(alias.parameter_number, alias.parameter_index) for alias in module.aliases}
    results = {i.name for i in (*module.results, module.entry.root)}
    found: list[_Sized] = []
    unsized: list[str] = []
    for members, live in liveness.values():
        if (best := _largest(members, space, generation)) is not None:
            found.append(_Sized(members, live, best))
        else:
            unsized += islice(_unsized(members, space), 1)
    if module.is_scheduled:
        usage = usage_of(((one.live, one.best.size) for one in found), len(liveness.schedule))
        peak, place = peak_of(usage)
        buffers = [_buffer(one, one.live, _is_at(place, one.live), results, donated) for one in found]
    else:
        usage, peak, place = [], sum(one.best.size for one in found), None
        buffers = [_buffer(one, None, True, results, donated) for one in found]
    most = peak if total is None else total
    return MemoryReport(
        module=module.name,
        space=space,
        space_name=name_of_space(space),
        total_bytes=most,
        peak_bytes=min(peak, most),
        peak_at=None if place is None else liveness.schedule[place],
        padding_bytes=min(sum(b.wasted_bytes for b in buffers), most),
        buffers=tuple(buffers),
        schedule=liveness.schedule if module.is_scheduled else (),
        usage=tuple(usage),
        bounds=frozenset({"peak_bytes", "padding_bytes"} | ({"total_bytes"} if total is None else set())),
        notes=(note or _basis(module), *_of_partitions(module), *_of_values(found, unsized)),
    )


def _is_at(place: int | None, live: LiveRange) -> bool:
    return place is not None and live.start <= place <= live.stop


def _basis(module: Module) -> str:
    """The note about the total if the compiler's own is not known."""
    if module.is_scheduled:
        return (
            "HLO alone has no compiler's total: this is the sum of the values in use at once, a bound without gaps "
            "between buffers and without tables of tuples"
        )
    return (
        "HLO alone has no compiler's total, and this module no order: this is the sum of all its values; "
        "before optimizations the compiler's total may be many times as much"
    )


def _of_partitions(module: Module) -> Iterator[str]:
    """A note if the program is for several devices and not partitioned yet; scheduled modules are."""
    if not module.is_scheduled and (count := partitions_of(module)) > 1:
        yield (
            f"the module is for {count:,} devices: before partitioning its shapes, and so these sizes, are those of "
            "whole arrays, of which a device may hold a part"
        )


def _of_values(found: Sequence[_Sized], unsized: Sequence[str]) -> Iterator[str]:
    """Notes about the values."""
    if found and not any(has_tiles(one.best.shape) for one in found):
        yield (
            "its layouts have no tiles: it is not for TPU, or not yet optimized; --generation (in Python generation=) "
            "counts it in the layouts of a TPU"
        )
    if unsized:
        yield f"values of unknown size are left out: {some(unsized)}"


def _largest(members: Sequence[Member], space: int, generation: str | None) -> _Best | None:
    """The largest shape of a value in one memory space, and its maker; None if the value is in another space."""
    best: _Best | None = None
    for instruction, index, given in _in_space(members, space):
        shape = _on_tpu(given, generation)
        assert shape.layout is not None
        try:
            size = shape.byte_size + shape.layout.dynamic_shape_metadata_prefix_bytes
        except LayoutError:  # a dimension of unknown size
            continue
        if best is None or size > best.size or (best.maker.opcode in _NAMING and instruction.opcode not in _NAMING):
            best = _Best(max(size, best.size) if best else size, instruction, index, shape)
    return best


def _in_space(members: Sequence[Member], space: int) -> Iterator[tuple[Instruction, Index, Shape]]:
    """The members that are arrays in one memory space."""
    for instruction, index, whole in members:
        shape = unbuffered(whole)
        if isinstance(shape, Shape) and shape.layout is not None and shape.layout.memory_space == space:
            yield instruction, index, shape


def _unsized(members: Sequence[Member], space: int) -> Iterator[str]:
    """The names and shapes of a value in one memory space with a dimension of unknown size."""
    for instruction, index, shape in _in_space(members, space):
        if UNBOUNDED in shape.dimensions:
            yield f"{label_of(instruction.name, index or None)} {shape}"


def _buffer(
    value: _Sized,
    live: LiveRange | None,
    is_at_peak: bool,
    results: Collection[str],
    donated: Collection[tuple[int, Index]],
) -> Buffer:
    members, best = value.members, value.best
    outer = [i for i, _, _ in members if i.computation.is_entry]
    parameters = [(i, place) for i, place, _ in members if i.computation.is_entry and i.opcode == "parameter"]
    maker, place = parameters[0] if parameters else (best.maker, best.place)
    if parameters:
        kind = "argument"
    elif any(i.opcode == "constant" for i, _, _ in members):
        kind = "constant"
    else:
        kind = "result" if any(i.name in results for i in outer) else "temporary"
    return Buffer(
        name=label_of(maker.name, place or None),
        kind=kind,
        bytes=best.size,
        unpadded_bytes=min(best.size, best.shape.unpadded_byte_size),
        shape=best.shape,
        shapes=(best.shape,),
        live=live,
        is_at_peak=is_at_peak,
        is_donated=any((i.parameter_number, place) in donated for i, place in parameters),
        source=source_of(maker, place),
    )


def _on_tpu(shape: Shape, generation: str | None) -> Shape:
    """The shape with its default layout, if the module gives no tiled one."""
    assert shape.layout is not None
    if generation is None or shape.layout.tiles or shape.rank > _MAX_RANK:
        return shape
    try:
        return shape.with_layout(default_layout(shape, generation))
    except StridedError:
        return shape
