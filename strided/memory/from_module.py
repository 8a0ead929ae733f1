"""A report from HLO alone: what its values take, and when, without the compiler's own allocations."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from strided.errors import LayoutError, StridedError
from strided.layout import AnyShape, BufferShape, Shape
from strided.memory.buffers import Buffer, LiveRange
from strided.memory.liveness import Index, Liveness
from strided.memory.provenance import source_of
from strided.memory.report import MemoryReport
from strided.tpu.default_layout import default_layout

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

#: Instructions that name a value again.
_NAMING = frozenset(("bitcast", "get-tuple-element", "tuple", "while", "parameter", "opt-barrier"))

#: Arrays of higher ranks have too many orders to choose from; no real program has them.
_MAX_RANK = 16


def report_from_module(module: Module, space: int, generation: str | None) -> MemoryReport:
    """The report of one memory space."""
    liveness = Liveness(module)
    results = {i.name for i in (*module.results, module.entry.root)}
    buffers = []
    for members, live in liveness.values():
        buffer = _buffer(members, live, space, generation, results)
        if buffer is not None:
            buffers.append(buffer)
    places = len(liveness.schedule)
    changes = [0] * (places + 1)
    for b in buffers:
        assert b.live is not None
        changes[b.live.start] += b.bytes
        changes[b.live.stop + 1] -= b.bytes
    usage = list(accumulate(changes[:-1]))
    whole = sum(b.bytes for b in buffers)
    is_ordered = module.is_scheduled
    peak = max(usage, default=0) if is_ordered else whole
    place = usage.index(peak) if is_ordered and usage else None
    buffers = [_at(b, place) if is_ordered else replace(b, live=None) for b in buffers]
    notes = [
        "HLO alone has no compiler's total: this is the sum of the values in use at once, a bound that knows neither "
        "reuse in place nor gaps between buffers"
        if is_ordered
        else "HLO alone has no compiler's total, and this module no order: this is the sum of all its values, a bound"
    ]
    if not any("T(" in str(b.shape) for b in buffers):
        notes.append(
            "its layouts have no tiles: it is not for TPU, or not yet optimised (a generation counts TPU layouts)"
        )
    return MemoryReport(
        module=module.name,
        space=space,
        space_name={0: "hbm", 1: "vmem"}.get(space, f"space {space}"),
        total_bytes=peak,
        peak_bytes=peak,
        peak_at=None if place is None else liveness.schedule[place],
        padding_bytes=sum(b.wasted_bytes for b in buffers),
        buffers=tuple(buffers),
        schedule=liveness.schedule if is_ordered else (),
        usage=tuple(usage) if is_ordered else (),
        bounds=frozenset(("total_bytes", "peak_bytes", "padding_bytes")),
        notes=tuple(notes),
    )


def _buffer(
    members: tuple[tuple[Instruction, Index, AnyShape], ...],
    live: LiveRange,
    space: int,
    generation: str | None,
    results: set[str],
) -> Buffer | None:
    best: tuple[int, Instruction, Index, Shape] | None = None
    for instruction, index, whole in members:
        shape = whole.shape if isinstance(whole, BufferShape) else whole
        if not isinstance(shape, Shape) or shape.layout is None or shape.layout.memory_space != space:
            continue
        shape = _on_tpu(shape, generation)
        try:
            size = shape.byte_size
        except LayoutError:  # a dimension of unknown size
            continue
        if best is None or size > best[0] or (best[1].opcode in _NAMING and instruction.opcode not in _NAMING):
            best = (max(size, best[0]) if best else size, instruction, index, shape)
    if best is None:
        return None
    size, maker, index, shape = best
    kinds = {i.opcode for i, _, _ in members if i.computation.is_entry}
    kind = "temporary"
    if "parameter" in kinds:
        kind = "argument"
    elif "constant" in kinds:
        kind = "constant"
    elif any(i.computation.is_entry and i.name in results for i, _, _ in members):
        kind = "result"
    if kind == "argument":
        maker = next(i for i, _, _ in members if i.opcode == "parameter" and i.computation.is_entry)
    return Buffer(
        name=f"{maker.name}{{{','.join(map(str, index))}}}" if index else maker.name,
        kind=kind,
        bytes=size,
        unpadded_bytes=min(size, shape.unpadded_byte_size),
        shape=shape,
        shapes=(shape,),
        live=live,
        source=source_of(maker),
    )


def _on_tpu(shape: Shape, generation: str | None) -> Shape:
    """The shape in the layout that the compiler gives it, where the module says none."""
    assert shape.layout is not None
    if generation is None or shape.layout.tiles or shape.rank > _MAX_RANK:
        return shape
    try:
        return shape.with_layout(default_layout(shape, generation))
    except StridedError:
        return shape


def _at(buffer: Buffer, place: int | None) -> Buffer:
    live = buffer.live
    return replace(buffer, is_at_peak=live is not None and place is not None and live.start <= place <= live.stop)
