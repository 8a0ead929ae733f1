"""An instruction of an HLO module, read from text or from a proto."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from strided.dumps.hlo.header import Frame
from strided.errors import DumpError
from strided.escape import visible
from strided.layout import AnyShape, BufferShape, TupleShape

if TYPE_CHECKING:
    from strided.dumps.hlo.computation import Computation


class Instruction(ABC):
    """An instruction. Prints as its line of HLO text, with unprintable characters escaped.

    Attributes
    ----------
    name : str
        Without the percent sign.
    opcode : str
        As in text: the parts of an asynchronous slice are ``slice-start`` and ``slice-done``.
    is_root : bool
        Whether its value is the computation's.
    line : int or None
        The number of its line, counted from 1; None if read from a proto.
    is_implied : bool
        Whether it has no line of its own: an element of a tuple that its users name, as ``%pair#0``. Its `line` is then
        that of the first user.
    computation : Computation
    """

    __slots__ = ("_attributes", "_operands", "computation", "is_implied", "is_root", "line", "name", "opcode")
    name: str
    opcode: str
    is_root: bool
    line: int | None
    is_implied: bool

    def __init__(self, name: str, opcode: str, is_root: bool, line: int | None) -> None:
        self.name, self.opcode, self.is_root, self.line = name, opcode, is_root, line
        self.is_implied = False
        self._attributes: Mapping[str, str] | None = None
        self._operands: tuple[Instruction, ...] | None = None
        self.computation: Computation

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # Pickling operands would recurse as deep as the longest chain of instructions.
        slots: dict[str, Any] = object.__getstate__(self)[1]  # type: ignore[index]  # None and the slots
        return None, slots | {"_attributes": None, "_operands": None}

    # Implemented by each reader.

    @property
    @abstractmethod
    def shape(self) -> AnyShape | None:
        """The result's shape with its layout, or None if it cannot be read.

        If a text leaves it out, it is inferred from the operands by XLA's rules, or None if that is impossible.
        """

    @property
    def has_shape(self) -> bool:
        """Whether the dump states the shape, even if it cannot be read."""
        return True

    @property
    @abstractmethod
    def operand_names(self) -> tuple[str, ...]:
        """Names of the operands, without percent signs."""

    @property
    @abstractmethod
    def literal(self) -> str | None:
        """A constant's value as XLA prints it (``{...}`` if it is long); None for other opcodes."""

    @property
    @abstractmethod
    def parameter_number(self) -> int | None:
        """The parameter's number, from 0; None for other opcodes."""

    @property
    def value(self) -> Any:
        """A constant's value as a LayoutArray (for a tuple, a tuple of them) if read from a proto; else None."""
        return None

    @abstractmethod
    def printed(self, *, print_large_constants: bool = False, sort_backend_config: bool = False) -> str:
        """The instruction's line; for the options see `Module.to_text`.

        Raises
        ------
        UnsupportedError
            An option is set for an instruction that was read from text.
        """

    def __str__(self) -> str:
        return visible(self.printed(), keep="\n\t")

    @abstractmethod
    def _read_attributes(self) -> dict[str, str]: ...

    @abstractmethod
    def _read_callees(self) -> tuple[Computation, ...]: ...

    def _read_operands(self) -> tuple[Instruction, ...]:
        return tuple(self.computation.instruction(name) for name in self.operand_names)

    # Derived.

    @property
    def attributes(self) -> Mapping[str, str]:
        """The text of each attribute (everything after the operands) by name, in order."""
        if self._attributes is None:
            self._attributes = MappingProxyType(self._read_attributes())
        return self._attributes

    @property
    def operands(self) -> tuple[Instruction, ...]:
        """The instructions whose values are its operands.

        Raises
        ------
        DumpError
            An operand is not defined in the computation of a damaged text; `operand_names` still has its name.
        """
        if self._operands is None:
            self._operands = self._read_operands()
        return self._operands

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that use this value, each once, in order."""
        return self.computation.users_of(self)

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """The computations that it calls, such as a fusion's body or branches, in XLA's order.

        Raises
        ------
        DumpError
            A computation is not defined in a damaged text.
        """
        return self._read_callees()

    @property
    @abstractmethod
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """The instructions that must run before this one although it does not use their values."""

    @property
    def memory_space(self) -> int | None:
        """The result's memory space (0 is the device's main memory); None for a tuple in several."""
        spaces = memory_spaces(self.shape)
        return next(iter(spaces)) if len(spaces) == 1 else None

    @property
    def sharding(self) -> str | None:
        """Text of the sharding, for `strided.Sharding.parse`."""
        return self.attributes.get("sharding")

    @property
    @abstractmethod
    def metadata(self) -> dict[str, str | int]:
        """The source of the instruction: ``op_name``, ``op_type``, ``source_file``, ``source_line``, ..."""

    @property
    @abstractmethod
    def frontend_attributes(self) -> dict[str, str]:
        """The frontend's own attributes, by name."""

    @property
    @abstractmethod
    def backend_config(self) -> str | None:
        """The backend's configuration, often JSON, without quotes and escapes."""

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The source lines that it came from, innermost first; empty if the dump has none.

        These are its stack frame and the frames that called it; or, if the module's tables lack it, the line in its own
        metadata.
        """
        metadata = self.metadata
        frame_id = metadata.get("stack_frame_id")
        if isinstance(frame_id, int) and (found := self.computation.module.tables.stack(frame_id)):
            return found
        if "source_file" in metadata:
            function = str(metadata.get("op_name", "?"))
            places = (metadata.get(f"source_{name}", 0) for name in ("line", "column", "end_line", "end_column"))
            return (Frame(str(metadata["source_file"]), function, *(n if isinstance(n, int) else 0 for n in places)),)
        return ()

    def __repr__(self) -> str:
        return visible(f"<Instruction {self.name}: {self.shape} {self.opcode}>")


def memory_spaces(shape: AnyShape | None) -> frozenset[int]:
    """The memory spaces of a shape's parts; tokens have none."""
    if isinstance(shape, TupleShape):
        return frozenset(space for _, leaf in shape.leaves() for space in memory_spaces(leaf))
    if isinstance(shape, BufferShape):
        return memory_spaces(shape.shape)
    return frozenset() if shape is None or shape.layout is None else frozenset((shape.layout.memory_space,))


def operands_of(instruction: Instruction) -> tuple[Instruction, ...]:
    """An instruction's operands; empty if a damaged text does not define them."""
    try:
        return instruction.operands
    except DumpError:
        return ()


def callees_of(instruction: Instruction) -> tuple[Computation, ...]:
    """The computations that an instruction calls; empty if a damaged text does not define them."""
    try:
        return instruction.called_computations
    except DumpError:
        return ()
