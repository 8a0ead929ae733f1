"""Read the buffer assignment in an HloProto.

A value's shape is that of the instruction that defines it. Of the module's instructions, only name, id and shape are
read, and a shape only when a value needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from strided.dumps.buffer_assignment.values import Allocation, Value, label_of
from strided.dumps.protobuf.decode import Fields
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import BYTES, VARINT, Field, fields, join, tag
from strided.errors import DumpError
from strided.layout import AnyShape, TupleShape
from strided.layout.tuples import subshape

#: First bytes of a LogicalBufferProto: the tag of its id or, for buffer 0, of its size.
_NUMBERS = tag(1, VARINT), tag(2, VARINT)
#: The message for a BufferAssignmentProto by itself.
ALONE = (
    "this is a buffer assignment without its module, as JAX's memory_analysis() returns: pass the compiled program, "
    "or the .hlo.pb of a dump, which have both"
)


class _Definition(NamedTuple):
    name: str
    shape: Field | None


class _Location(NamedTuple):
    """Where a value is defined: a LogicalBufferProto.Location, resolved in the module."""

    name: str
    element: tuple[int, ...] | None
    shape: AnyShape | None


class AssignmentReader:
    """Reader of an HloProto's buffer assignment. DumpError for anything else, or if there is no assignment."""

    def __init__(self, view: memoryview) -> None:
        if is_alone(view):
            raise DumpError(ALONE)
        found = Fields("HloProto", view)
        is_module = any(one.number == 2 for one in fields(view, "HloProto"))
        is_proto = all(one.kind == BYTES for ones in found.values() for one in ones)
        if is_module or not is_proto or "buffer_assignment" not in found:
            words = "a module alone" if is_module else "an HloProto without a buffer assignment, or something else"
            raise DumpError(f"this is {words}: assignments are in the .hlo.pb after optimizations")
        self._assignment = found.message("buffer_assignment")
        self._definitions = _definitions(found.message("hlo_module"))
        self._by_name = {one.name: one for one in self._definitions.values()}
        self._shapes: dict[str, AnyShape | None] = {}

    def read(self) -> tuple[tuple[Allocation, ...], tuple[tuple[int, str], ...]]:
        """The allocations, and the aliases of values."""
        buffers = {
            one.integer("id"): (self._location(one, "defined_at"), one.integer("color"))
            for one in self._assignment.messages("logical_buffers")
        }
        peaks = {
            one.integer("index"): tuple(one.integers("logical_buffer_ids"))
            for one in self._assignment.messages("peak_buffers")
        }
        aliases = (
            (one.integer("source_buffer_id"), self._location(one, "location"))
            for one in self._assignment.messages("buffer_aliases")
        )
        allocations = self._assignment.messages("buffer_allocations")
        return (
            tuple(self._allocation(one, buffers, peaks) for one in allocations),
            tuple((number, label_of(location.name, location.element)) for number, location in aliases),
        )

    def _location(self, one: Fields, name: str) -> _Location:
        """Resolve a location to an instruction and the element of its result."""
        if name not in one:
            return _Location("", None, None)
        found = one.message(name)
        number, instruction = found.integer("instruction_id"), found.text("instruction_name")
        definition = self._by_name.get(instruction) if instruction else self._definitions.get(number)
        index = tuple(found.integers("shape_index"))
        if definition is None:
            return _Location(instruction or f"#{number}", index or None, None)
        whole = self._shape_of(definition)
        return _Location(definition.name, index if isinstance(whole, TupleShape) else None, subshape(whole, index))

    def _shape_of(self, definition: _Definition) -> AnyShape | None:
        if definition.name not in self._shapes:
            field = definition.shape
            shape = None if field is None else read_shape(field.view("HloInstructionProto.shape"), field.at)
            self._shapes[definition.name] = shape
        return self._shapes[definition.name]

    def _allocation(
        self, found: Fields, buffers: dict[int, tuple[_Location, int]], peaks: dict[int, tuple[int, ...]]
    ) -> Allocation:
        index, space = found.integer("index"), found.integer("color")
        values = []
        for assigned in found.messages("assigned"):
            number = assigned.integer("logical_buffer_id")
            location, color = buffers.get(number, (_Location(f"#{number}", None, None), space))
            offset, size = assigned.integer("offset"), assigned.integer("size")
            values.append(Value(number, location.name, location.element, offset, size, color, _shape=location.shape))
        is_parameter = bool(found.integer("is_entry_computation_parameter"))
        parameter_shape = values[0].shape if is_parameter and values else None
        flags: dict[str, Any] = {
            name: bool(found.integer(name)) for name in ("is_constant", "is_thread_local", "maybe_live_out")
        }
        return Allocation(
            index,
            found.integer("size"),
            tuple(sorted(values, key=lambda value: value.id)),
            space,
            parameter_number=found.integer("parameter_number") if is_parameter else None,
            parameter_shape_index=tuple(found.integers("parameter_shape_index")) if is_parameter else (),
            parameter_shape="" if parameter_shape is None else parameter_shape.text(layout=False),
            is_preallocated_temp=not (is_parameter or any(flags.values())),
            is_parameter_aliased_with_output=bool(found.integer("is_parameter_aliased_with_output")),
            peak_values=peaks.get(index, ()),
            **flags,
        )


def is_alone(view: memoryview) -> bool:
    """Whether bytes seem to be a BufferAssignmentProto: its field 1 begins with a number, a module's with a name."""
    try:
        first = next(fields(view, "HloProto"), None)
    except DumpError:
        return False
    return first is not None and (first.number, first.kind) == (1, BYTES) and bytes(first.value[:1]) in _NUMBERS


def _definitions(module: Fields) -> dict[int, _Definition]:
    """The instructions of a module by id: the name, and the field of the shape."""
    return dict(
        _definition(instruction)
        for computation in module.messages("computations")
        for instruction in computation["instructions"]
    )


def _definition(instruction: Field) -> tuple[int, _Definition]:
    number, name, shapes = 0, "", dict[int, Field]()
    view = instruction.view("HloComputationProto.instructions")
    for field in fields(view, "HloInstructionProto", instruction.at):
        match field.number:
            case 1:
                name = field.text("HloInstructionProto.name")
            case 3:
                join(shapes, field, "HloInstructionProto.shape")
            case 35:
                number = field.integer("HloInstructionProto.id")
    return number, _Definition(name, shapes.get(3))
