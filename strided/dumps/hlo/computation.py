"""A computation of an HLO module: a sequence of named instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strided.dumps.hlo.attribute_writers import text_or_braces
from strided.dumps.hlo.instruction import Instruction
from strided.errors import DumpError
from strided.escape import visible
from strided.runtime.argument_checks import string
from strided.runtime.lazy import lazy, state_without_lazy
from strided.wording import counted

if TYPE_CHECKING:
    from strided.dumps.hlo.module import Module

#: Opcodes that end like asynchronous ones, but are opcodes of their own.
_SINGLE_OPCODES = frozenset(
    "all-gather-done all-gather-start all-reduce-done all-reduce-start collective-permute-done "
    "collective-permute-start copy-done copy-start recv-done send-done".split()
)


def has_one_operation(body: Computation) -> bool:
    """Whether a computation has, besides parameters, a single instruction, which is not asynchronous itself.

    An asynchronous start of such a computation has a short form.

    >>> from strided import read_hlo
    >>> has_one_operation(read_hlo("ENTRY e {\\n x = f32[2] parameter(0)\\n ROOT y = f32[2] negate(x)\\n}\\n").entry)
    True
    """
    is_alone = all(i.is_root or i.opcode == "parameter" for i in body.instructions)
    return is_alone and not _is_asynchronous(body.root.opcode)


def _is_asynchronous(opcode: str) -> bool:
    """Whether an opcode is part of an asynchronous operation, possibly in its short form."""
    return opcode.endswith(("-start", "-update", "-done")) and opcode not in _SINGLE_OPCODES


class Computation:
    """A computation: a sequence of instructions. Prints as HLO text, with unprintable characters escaped.

    Attributes
    ----------
    name : str
        Without the percent sign; empty in dumps that print none.
    instructions : tuple of Instruction
    is_entry : bool
    execution_thread : str
        Empty for the main thread.
    backend_config : str or None
        The backend's configuration, from newer compilers, without quotes and escapes.
    renamed : dict of str to str
        New names of renamed instructions, by the name in the text: XLA makes names unique in a module.
    module : Module
    """

    name: str
    instructions: tuple[Instruction, ...]
    execution_thread: str

    def __init__(self, name: str, instructions: tuple[Instruction, ...], *, signature: str = "") -> None:
        self.name, self.instructions, self.execution_thread = name, instructions, ""
        self.backend_config: str | None = None
        self.is_entry = False
        self.module: Module
        self.renamed: dict[str, str] = {}
        self._signature = signature
        for instruction in instructions:
            instruction.computation = self
        if instructions and not instructions[-1].is_root:
            instructions[-1].is_root = not any(instruction.is_root for instruction in instructions)

    def __getstate__(self) -> dict[str, Any]:
        return state_without_lazy(self)

    @lazy
    def root(self) -> Instruction:
        """The instruction whose value is the computation's: the one marked ROOT, else the last."""
        return next((i for i in reversed(self.instructions) if i.is_root), self.instructions[-1])

    @lazy
    def parameters(self) -> tuple[Instruction, ...]:
        """The parameters, sorted by number."""
        found = [(i.parameter_number or 0, i) for i in self.instructions if i.opcode == "parameter"]
        return tuple(i for _, i in sorted(found, key=lambda pair: pair[0]))

    @lazy
    def _by_name(self) -> dict[str, Instruction]:
        return {i.name: i for i in reversed(self.instructions)}

    @lazy
    def _users(self) -> dict[str, dict[Instruction, None]]:
        users: dict[str, dict[Instruction, None]] = {}
        for instruction in self.instructions:
            for name in instruction.operand_names:
                users.setdefault(name, {})[instruction] = None
        return users

    def note_renamed(self, written: str, name: str) -> None:
        """Record that an instruction was renamed, so that it is found by both names."""
        self.renamed[written] = name
        vars(self).pop("_by_name", None)  # made already where asynchronous operations looked up their operands

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name, with or without a percent sign, or else the one with that name in the text.

        Raises
        ------
        DumpError
            There is none.
        """
        name = string(name, "name").removeprefix("%")
        found = self._by_name.get(name) or self._by_name.get(self.renamed.get(name, name))
        if found is None:
            raise DumpError(f"the computation {self.name!r} holds no instruction {name!r}")
        return found

    def users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instructions of this computation that use the value of `instruction`."""
        if not isinstance(instruction, Instruction):
            raise TypeError(
                f"expected an Instruction, not {type(instruction).__name__}; `instruction` finds it by name"
            )
        return tuple(self._users.get(instruction.name, ()))

    @property
    def signature(self) -> str:
        """The line that opens the computation, without the brace."""
        return self._signature

    def printed(self, indent: str = "", **options: bool) -> str:
        """The computation as HLO text, each line after `indent`; for the options see `Module.to_text`."""
        indent = string(indent, "indent")
        printed = (f"  {i.printed(**options)}" for i in self.instructions if not i.is_implied)
        lines = [f"{self.signature} {{".lstrip(), *printed]
        behind = f', execution_thread="{self.execution_thread}"' if self.execution_thread else ""
        behind += "" if self.backend_config is None else f", backend_config={text_or_braces(self.backend_config)}"
        return "\n".join(f"{indent}{line}" for line in (*lines, f"}}{behind}"))

    def __str__(self) -> str:
        return visible(self.printed(), keep="\n\t")

    def __repr__(self) -> str:
        return visible(f"<Computation {self.name}: {counted(len(self.instructions), 'instruction')}>")
