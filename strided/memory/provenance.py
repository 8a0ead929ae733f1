"""The source of a value: the JAX operation, the line of the program, or the argument."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strided.memory.buffers import Source
from strided.memory.forwarding import SAME_VALUE, tuple_index

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction

#: The most instructions to follow back to one with source metadata.
_MOST_HOPS = 8
#: Instructions whose result is their first operand's value, in another buffer, layout or type.
_MOVING = SAME_VALUE.union(
    "bitcast convert copy copy-done copy-start reshape slice-done slice-start transpose while".split()
)
_KEY = re.compile(r"""'[^']*'|"[^"]*\"""")
_NUMBERED = re.compile(r"(?:\.\d+)+$")


def source_of(instruction: Instruction, index: tuple[int, ...] = ()) -> Source:
    """The source of an instruction's value; of a tuple, that of the part at `index`.

    Instructions that the compiler added (copies, bitcasts) have no metadata. Then it is the source of the operation
    inside a fusion, or of the value that is copied.
    """
    if instruction.opcode == "parameter" and instruction.computation.is_entry:
        return _described(instruction, argument_name(instruction))
    found: Instruction | None = instruction
    for _ in range(_MOST_HOPS):
        if found is None or found.opcode == "parameter":
            break
        if said := _described(found):
            return said
        if found.opcode == "fusion" and found.called_computations:
            if said := _described(found.called_computations[0].root):
                return said
        found, index = _moved_from(found, index)
    if found is not None and found.computation.is_entry:
        return _described(found, argument_name(found))
    return Source()


def _moved_from(instruction: Instruction, index: tuple[int, ...]) -> tuple[Instruction | None, tuple[int, ...]]:
    """The operand from which the value at `index` comes, and the index in it; None if it is made here.

    The result of an operation on pairs of 32-bit words (X64) is considered that of the first operand.
    """
    opcode, count = instruction.opcode, len(instruction.operand_names)
    if opcode == "tuple" and index and 0 <= index[0] < count:
        return instruction.operands[index[0]], index[1:]
    if opcode == "get-tuple-element" and count:
        return instruction.operands[0], (tuple_index(instruction), *index)
    if count and (opcode in _MOVING or "X64" in instruction.attributes.get("custom_call_target", "")):
        return instruction.operands[0], () if opcode.endswith("-start") else index
    return None, ()


def noted_name(parameter: Instruction) -> str:
    """The name of an argument that `jit` records as the parameter's `op_name`: ``params['w']``; empty without one.

    A slash outside of keys (as in ``params['mlp/linear']``) means that it is the name of an operation instead.
    """
    name = str(parameter.metadata.get("op_name", ""))
    return "" if "/" in _KEY.sub("", name) else name


def argument_name(parameter: Instruction) -> str:
    """The name of an argument: as recorded by JAX, otherwise that of the parameter."""
    return noted_name(parameter) or plain_name(parameter.name)


def plain_name(name: str) -> str:
    """A name without the numbers that the compiler added.

    >>> plain_name("x.1")
    'x'
    """
    return _NUMBERED.sub("", name)


def _described(instruction: Instruction, argument: str = "") -> Source:
    """The source in an instruction's metadata; for an argument, with its name instead of the operation."""
    stack = instruction.stack
    return Source(
        op_name="" if argument else str(instruction.metadata.get("op_name", "")),
        file=stack[0].file if stack else "",
        line=stack[0].line if stack else 0,
        argument=argument,
    )
