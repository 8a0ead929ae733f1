"""Instructions and computations in protos, most of whose fields are read on demand."""

from __future__ import annotations

from typing import Any

from strided.dumps.hlo.attribute_writers import backend_config_of, frontend_attribute_values
from strided.dumps.hlo.attributes import Attribute, async_start_attributes_of, attributes_of, callee_ids
from strided.dumps.hlo.braced import sorted_json
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import Unparsed
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.literal_text import literal_text
from strided.dumps.hlo.metadata import metadata_values
from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf.decode import decode
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.wire import Field, fields, join
from strided.dumps.sharding.text import numbered
from strided.errors import DumpError
from strided.layout import AnyShape

#: Message fields that are read with the instruction.
_SHAPE, _METADATA, _FRONTEND_ATTRIBUTES = 3, 7, 68


class ProtoInstruction(Instruction):
    """An instruction in its HloInstructionProto.

    Attributes
    ----------
    id : int
        The id by which operands and a buffer assignment refer to it.
    operand_ids : tuple of int
    called_computation_ids : tuple of int
        The computations that it calls, in the proto's order.
    async_body : Computation or None
        For an asynchronous operation in its short form: its body.
    """

    __slots__ = (
        "_at",
        "_context",
        "_frontend_attributes",
        "_kind",
        "_metadata",
        "_shape",
        "_view",
        "async_body",
        "called_computation_ids",
        "id",
        "operand_ids",
    )

    def __init__(self, view: memoryview, at: int, context: Records) -> None:
        name = opcode = ""
        self.id, problem = 0, "HloInstructionProto.shape is missing"
        self._shape: AnyShape | None = None
        self.operand_ids: tuple[int, ...] = ()
        self.called_computation_ids: tuple[int, ...] = ()
        messages: dict[int, Field] = {}
        for field in fields(view, "HloInstructionProto", at):
            number = field.number
            if number == 1:
                name = field.text("HloInstructionProto.name")
            elif number == 2:
                opcode = field.text("HloInstructionProto.opcode")
            elif number in (_SHAPE, _METADATA, _FRONTEND_ATTRIBUTES):
                join(messages, field, "HloInstructionProto's message")
            elif number == 35:
                self.id = field.integer("HloInstructionProto.id")
            elif number == 36:
                self.operand_ids += tuple(field.integers("HloInstructionProto.operand_ids"))
            elif number == 38:
                self.called_computation_ids += tuple(field.integers("HloInstructionProto.called_computation_ids"))
        if _SHAPE in messages:
            try:
                self._shape = read_shape(messages[_SHAPE].view("HloInstructionProto.shape"), messages[_SHAPE].at)
            except DumpError as error:
                problem = str(error)
        self._metadata, self._frontend_attributes = messages.get(_METADATA), messages.get(_FRONTEND_ATTRIBUTES)
        super().__init__(name, opcode, False, None)
        self._view, self._at, self._context, self._kind = view, at, context, opcode
        if self._shape is None:
            context.unread.append(Unparsed(None, name, problem))
        self.async_body: Computation | None = None

    @property
    def message(self) -> dict[str, Any]:
        """All fields of the proto by name. DumpError for an invalid message."""
        return decode("HloInstructionProto", self._view, self._at)

    @property
    def shape(self) -> AnyShape | None:
        return self._shape

    @property
    def operand_names(self) -> tuple[str, ...]:
        return tuple(self.instruction_name(id) for id in self.operand_ids)

    @property
    def literal(self) -> str | None:
        return self._literal() if self.opcode == "constant" else None

    def _literal(self, *, large: bool = False) -> str:
        view, shape = self.message.get("literal"), self.shape
        if view is None or shape is None:
            return "{...}"
        return literal_text(view, shape, self._at, large=large)

    @property
    def value(self) -> Any:
        """A constant's value: a LayoutArray or a tuple of values; None for other opcodes."""
        view = self.message.get("literal") if self.opcode == "constant" else None
        return None if view is None else Literal.of_proto(view, self._at).value

    @property
    def parameter_number(self) -> int | None:
        return int(self.message.get("parameter_number", 0)) if self.opcode == "parameter" else None

    def _read_attributes(self) -> dict[str, str]:
        return dict(self._written_attributes())

    def _written_attributes(self) -> list[Attribute]:
        """The attributes as in text; an asynchronous start may repeat a name."""
        message = self.message
        if (wrapped := self._wrapped) is not None:
            return async_start_attributes_of(message, self, wrapped._kind, wrapped.message, wrapped)
        if self._kind in ("async-update", "async-done"):
            message.pop("called_computation_ids", None)
        return attributes_of(self._kind, message, self)

    def _read_callees(self) -> tuple[Computation, ...]:
        if self._kind in ("async-update", "async-done"):
            return ()
        caller = self._wrapped or self
        found = callee_ids(caller._kind, caller.called_computation_ids, caller.operand_shape(0)).values()
        ids = [id for called in found for id in ([called] if isinstance(called, int) else called)]
        return tuple(self._context.computation(id) for id in ids)

    @property
    def _wrapped(self) -> ProtoInstruction | None:
        """The body's only instruction, if this is an asynchronous start in its short form."""
        if self._kind != "async-start" or self.async_body is None:
            return None
        wrapped = self.async_body.root
        assert isinstance(wrapped, ProtoInstruction)
        return wrapped

    @property
    def metadata(self) -> dict[str, str | int]:
        return metadata_values(_message("OpMetadata", self._metadata), self.payload)

    @property
    def frontend_attributes(self) -> dict[str, str]:
        own = frontend_attribute_values(_message("FrontendAttributes", self._frontend_attributes))
        return own or (self._wrapped.frontend_attributes if self._wrapped else {})

    @property
    def backend_config(self) -> str | None:
        config = backend_config_of(self.message, self)
        return str(config, "utf-8", "backslashreplace") if config else None

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        return tuple(self._context.instruction(id) for id in self.message.get("control_predecessor_ids", ()))

    def _read_operands(self) -> tuple[Instruction, ...]:
        return tuple(self._context.instruction(id) for id in self.operand_ids)

    def printed(self, *, print_large_constants: bool = False, sort_backend_config: bool = False) -> str:
        if self.opcode == "parameter":
            inside = str(self.parameter_number)
        elif self.opcode == "constant":
            inside = self._literal(large=print_large_constants)
        else:
            inside = numbered(f"%{name}" for name in self.operand_names)
        written = self.attributes.items() if self._wrapped is None else self._written_attributes()
        if sort_backend_config:
            written = [(name, sorted_json(text) if name == "backend_config" else text) for name, text in written]
        attributes = "".join(f", {name}={text}" for name, text in written)
        return f"{'ROOT ' if self.is_root else ''}%{self.name} = {self.shape} {self.opcode}({inside}){attributes}"

    # For the attribute writers.

    def operand_shape(self, number: int) -> AnyShape | None:
        ids = self.operand_ids
        found = self._context.instructions.get(ids[number]) if number < len(ids) else None
        return found.shape if found is not None else None

    def instruction_name(self, id: int) -> str:
        found = self._context.instructions.get(id)
        return f"?{id}" if found is None else found.name

    def computation_name(self, id: int) -> str:
        found = self._context.computations.get(id)
        return f"?{id}" if found is None else found.name

    def payload(self, id: int) -> memoryview | bytes:
        payloads = self._context.payloads
        return payloads[id] if 0 <= id < len(payloads) else b""

    def __reduce__(self) -> tuple[Any, ...]:
        return _instruction_of, (self.computation.module, self.id)


class ProtoComputation(Computation):
    """A computation in its HloComputationProto, with its `id`; the signature is made on demand."""

    id = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _computation_of, (self.module, self.id)

    @property
    def signature(self) -> str:
        parameters = ", ".join(f"{p.name}: {_bare(p.shape)}" for p in self.parameters)
        return f"{'ENTRY ' if self.is_entry else ''}%{self.name} ({parameters}) -> {_bare(self.root.shape)}"


class Records:
    """The instructions, computations and payloads of a module by id."""

    def __init__(self, payloads: list[memoryview]) -> None:
        self.payloads = payloads
        self.instructions: dict[int, ProtoInstruction] = {}
        self.computations: dict[int, Computation] = {}
        self.unread: list[Unparsed] = []

    def instruction(self, id: int) -> ProtoInstruction:
        found = self.instructions.get(id)
        if found is None:
            raise DumpError(f"the module holds no instruction with the id {id}")
        return found

    def computation(self, id: int) -> Computation:
        found = self.computations.get(id)
        if found is None:
            raise DumpError(f"the module holds no computation with the id {id}")
        return found


def _instruction_of(module: Any, id: int) -> ProtoInstruction:
    """The instruction of this id in a module read from a proto."""
    records: Records = module.records
    return records.instruction(id)


def _computation_of(module: Any, id: int) -> Computation:
    """The computation of this id in a module read from a proto."""
    records: Records = module.records
    return records.computation(id)


def _message(kind: str, field: Field | None) -> dict[str, Any]:
    """A decoded message field of the proto; empty if it is absent."""
    return {} if field is None else decode(kind, field.view(f"HloInstructionProto's {kind}"), field.at)


def _bare(shape: AnyShape | None) -> str:
    return "?" if shape is None else shape.text(layout=False)
