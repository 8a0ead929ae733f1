"""The buffer assignment beside a module in an HloProto.

=======================  ==============================================================================================
HloProto                 1 hlo_module, 3 buffer_assignment
BufferAssignmentProto    1 logical_buffers, 2 buffer_aliases {1 source_buffer_id, 2 location}, 3 buffer_allocations,
                         4 heap_simulator_traces, 5 peak_buffers {1 allocation, 2 logical_buffer_ids}
LogicalBufferProto       1 id, 2 size, 3 defined_at, 4 color
Location                 2 instruction_name (old), 3 shape_index, 4 instruction_id
BufferAllocationProto    1 index, 2 size, 3 is_thread_local, 5 is_entry_computation_parameter, 6 parameter_number,
                         7 maybe_live_out, 8 color, 9 assigned {1 logical_buffer_id, 2 offset, 3 size},
                         10 parameter_shape_index, 11 is_tuple, 12 is_constant, 13 is_parameter_aliased_with_output
=======================  ==============================================================================================

A value's shape is that of the instruction which defines it: only name, id and shape of the module's instructions are
looked at, and a shape only where a value needs it.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.protobuf.decode import Fields
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import BYTES, Field, fields, merged
from strided.errors import DumpError
from strided.layout import AnyShape, TupleShape


class _Definition(NamedTuple):
    name: str
    shape: memoryview | None
    at: int


class _Place(NamedTuple):
    name: str
    element: tuple[int, ...] | None
    shape: AnyShape | None


def read_assignment_proto(
    view: memoryview, path: str | None
) -> tuple[tuple[Allocation, ...], tuple[tuple[int, str], ...]]:
    """The allocations of an HloProto, and the aliases of its values.

    Raises
    ------
    DumpError
        No HloProto, or one without an assignment.
    """
    try:
        return _Reader(view).read()
    except DumpError as error:
        raise DumpError(error.message, path=path, position=error.position) from error


class _Reader:
    def __init__(self, view: memoryview) -> None:
        found = Fields(view, "HloProto", 0)
        if 2 in found or 3 not in found or any(one.kind != BYTES for one in (*found[1], *found[3])):
            words = "a module alone" if 2 in found else "an HloProto without a buffer assignment, or something else"
            raise DumpError(f"this is {words}: assignments are in the .hlo.pb after optimisations")
        assignment, at = found.message(3, "HloProto.buffer_assignment")
        self._found = Fields(assignment, "BufferAssignmentProto", at)
        self._definitions = _definitions(found[1])
        self._by_name = {one.name: one for one in self._definitions.values()}
        self._shapes: dict[str, AnyShape | None] = {}

    def read(self) -> tuple[tuple[Allocation, ...], tuple[tuple[int, str], ...]]:
        buffers: dict[int, tuple[_Place, int, int]] = {}
        for one in self._found[1]:
            number, place, size, color = self._logical_buffer(one)
            buffers[number] = place, size, color
        peaks: dict[int, tuple[int, ...]] = {}
        for one in self._found[5]:
            peak = Fields(one.view("BufferAssignmentProto.peak_buffers"), "PeakBuffers", one.at)
            peaks[peak.integer(1, "PeakBuffers.index")] = tuple(peak.integers(2, "PeakBuffers.logical_buffer_ids"))
        allocations = tuple(self._allocation(one, buffers, peaks) for one in self._found[3])
        aliases = []
        for one in self._found[2]:
            alias = Fields(one.view("BufferAssignmentProto.buffer_aliases"), "BufferAlias", one.at)
            place = self._place(alias[2], "BufferAlias.location")
            aliases.append((alias.integer(1, "BufferAlias.source_buffer_id"), _label(place)))
        return allocations, tuple(aliases)

    def _logical_buffer(self, one: Field) -> tuple[int, _Place, int, int]:
        found = Fields(one.view("BufferAssignmentProto.logical_buffers"), "LogicalBufferProto", one.at)
        place = self._place(found[3], "LogicalBufferProto.defined_at")
        numbers = (found.integer(number, "LogicalBufferProto") for number in (1, 2, 4))
        number, size, color = numbers
        return number, place, size, color

    def _place(self, items: list[Field], wanted: str) -> _Place:
        """The instruction and the part of its result that a location means."""
        if not items:
            return _Place("", None, None)
        found = Fields(merged([one.view(wanted) for one in items]), wanted, items[0].at)
        number = found.integer(4, f"{wanted}.instruction_id")
        name = found.text(2, f"{wanted}.instruction_name")
        definition = self._by_name.get(name) if name else self._definitions.get(number)
        index = tuple(found.integers(3, f"{wanted}.shape_index"))
        if definition is None:
            return _Place(name or f"#{number}", index or None, None)
        whole = self._shape_of(definition)
        shape = whole
        for k in index:
            shape = shape[k] if isinstance(shape, TupleShape) and 0 <= k < len(shape) else None
        return _Place(definition.name, index if isinstance(whole, TupleShape) else None, shape)

    def _shape_of(self, definition: _Definition) -> AnyShape | None:
        if definition.name not in self._shapes:
            shape = None if definition.shape is None else read_shape(definition.shape, definition.at)
            self._shapes[definition.name] = shape
        return self._shapes[definition.name]

    def _allocation(
        self,
        one: Field,
        buffers: dict[int, tuple[_Place, int, int]],
        peaks: dict[int, tuple[int, ...]],
    ) -> Allocation:
        found = Fields(one.view("BufferAssignmentProto.buffer_allocations"), "BufferAllocationProto", one.at)
        index, size, space = (found.integer(number, "BufferAllocationProto") for number in (1, 2, 8))
        values = []
        for item in found[9]:
            assigned = Fields(item.view("BufferAllocationProto.assigned"), "Assigned", item.at)
            number, offset, length = (assigned.integer(n, "BufferAllocationProto.assigned") for n in (1, 2, 3))
            place, _, color = buffers.get(number, (_Place(f"#{number}", None, None), 0, space))
            values.append(Value(number, place.name, place.element, offset, length, color, _shape=place.shape))
        is_parameter = bool(found.integer(5, "BufferAllocationProto.is_entry_computation_parameter"))
        shape_index = tuple(found.integers(10, "BufferAllocationProto.parameter_shape_index"))
        parameter_shape = values[0].shape if is_parameter and values else None
        is_constant = bool(found.integer(12, "BufferAllocationProto.is_constant"))
        is_thread_local = bool(found.integer(3, "BufferAllocationProto.is_thread_local"))
        maybe_live_out = bool(found.integer(7, "BufferAllocationProto.maybe_live_out"))
        return Allocation(
            index,
            size,
            tuple(sorted(values, key=lambda value: value.id)),
            space,
            parameter_number=found.integer(6, "BufferAllocationProto.parameter_number") if is_parameter else None,
            parameter_shape_index=shape_index if is_parameter else (),
            parameter_shape=parameter_shape.text(layout=False) if parameter_shape is not None else "",
            is_constant=is_constant,
            is_thread_local=is_thread_local,
            maybe_live_out=maybe_live_out,
            is_preallocated_temp=not (is_parameter or is_constant or is_thread_local or maybe_live_out),
            is_parameter_aliased_with_output=bool(found.integer(13, "BufferAllocationProto")),
            peak_values=peaks.get(index, ()),
        )


def _definitions(modules: list[Field]) -> dict[int, _Definition]:
    """The instructions of a module by id: name, and where the shape lies."""
    found: dict[int, _Definition] = {}
    if not modules:
        return found
    module = merged([one.view("HloProto.hlo_module") for one in modules])
    for computation in fields(module, "HloModuleProto", modules[0].at):
        if computation.number != 3:
            continue
        for one in fields(computation.view("HloModuleProto.computations"), "HloComputationProto", computation.at):
            if one.number == 2:
                number, definition = _definition(one)
                found[number] = definition
    return found


def _definition(one: Field) -> tuple[int, _Definition]:
    number, name, shape, at = 0, "", None, one.at
    for item in fields(one.view("HloComputationProto.instructions"), "HloInstructionProto", one.at):
        if item.number == 35:
            number = item.integer("HloInstructionProto.id")
        elif item.number == 1:
            name = item.text("HloInstructionProto.name")
        elif item.number == 3:
            shape, at = item.view("HloInstructionProto.shape"), item.at
    return number, _Definition(name, shape, at)


def _label(place: _Place) -> str:
    return place.name if place.element is None else f"{place.name}{{{','.join(map(str, place.element))}}}"
