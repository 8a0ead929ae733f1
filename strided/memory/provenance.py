"""Who made a value: the operation of JAX, the line of the program, the argument that it holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strided.memory.buffers import Source

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction

#: Instructions to look back through for one that says where it came from.
_MOST_HOPS = 8
#: Instructions that give the value of their first operand, in another place or layout.
_MOVING = frozenset(
    """bitcast convert copy copy-done copy-start get-tuple-element opt-barrier reshape slice-done slice-start transpose
    tuple while""".split()
)
_NUMBERED = re.compile(r"(?:\.\d+)+$")


def source_of(instruction: Instruction) -> Source:
    """Who made the value of an instruction.

    What the compiler added (copies, bitcasts) says nothing: then it is the operation inside a fusion, or the one whose
    value is copied.
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
        found = found.operands[0] if _is_moving(found) and found.operand_names else None
    if found is not None and found.computation.is_entry:
        return _described(found, argument_name(found))
    return Source()


def _is_moving(instruction: Instruction) -> bool:
    """Whether the value is that of the first operand, or one half of it is: 64 bits are two words of 32."""
    return instruction.opcode in _MOVING or "X64" in instruction.attributes.get("custom_call_target", "")


def argument_name(parameter: Instruction) -> str:
    """The name of an argument, as JAX gave it: ``params['w']``."""
    return str(parameter.metadata.get("op_name") or plain_name(parameter.name))


def plain_name(name: str) -> str:
    """A name without the numbers that the compiler added.

    >>> plain_name("x.1")
    'x'
    """
    return _NUMBERED.sub("", name)


def _described(instruction: Instruction, argument: str = "") -> Source:
    metadata = instruction.metadata
    file, line = metadata.get("source_file", ""), metadata.get("source_line", 0)
    frame = metadata.get("stack_frame_id")
    if isinstance(frame, int):
        stack = instruction.computation.module.tables.stack(frame)
        file, line = (stack[0].file, stack[0].line) if stack else (file, line)
    return Source(
        op_name="" if argument else str(metadata.get("op_name", "")),
        file=str(file),
        line=line if isinstance(line, int) else 0,
        argument=argument,
    )
