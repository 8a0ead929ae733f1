"""Unnest operands that are whole instructions instead of names.

``add(f32[10] parameter(0), multiply(x, x))`` has two of them. XLA makes each an instruction of the computation,
innermost first, named after its opcode: ``parameter.anon``, ``multiply.anon``, the next ``multiply.anon.1``. They have
no attributes: a comma after them begins the next operand.
"""

from __future__ import annotations

from collections.abc import Callable

from strided.dumps.hlo.lexer import split_list, trimmed
from strided.dumps.hlo.statements import is_one_statement
from strided.dumps.hlo.text_instruction import TextInstruction, match_statement, shape_of, split_operand
from strided.errors import DumpError

#: The deepest nesting of instructions that is accepted.
_MAX_DEPTH = 64


def unnested(instruction: TextInstruction, name_for: Callable[[str], str], depth: int = 0) -> list[TextInstruction]:
    """Extract the instructions nested in the operands of `instruction`, in order of execution.

    `instruction` then refers to them by name; `name_for` makes a name for an opcode. DumpError for an operand that is
    neither a name nor an instruction; `instruction` is then unchanged.
    """
    found: list[TextInstruction] = []
    parts = split_list(instruction.operand_text)
    if trimmed(instruction.operand_text).endswith(","):
        raise DumpError("no operand after the last comma")
    for n, part in enumerate(parts):
        if split_operand(part) is not None:
            continue
        nested = _statement(f"operand = {part}", instruction.line)
        if nested is None:
            raise DumpError(f"no operand: {part[:60]}")
        if depth >= _MAX_DEPTH:
            raise DumpError(f"operands that nest deeper than {_MAX_DEPTH}")
        if nested.opcode not in ("constant", "parameter"):
            found += unnested(nested, name_for, depth + 1)
        name = name_for(nested.opcode)
        named = _statement(f"%{name} = {nested.text.split(' = ', 1)[1]}", instruction.line)
        assert named is not None
        found.append(named)
        parts[n] = f"%{name}"
    if found:
        instruction.operand_text = ", ".join(parts)
    return found


def with_parameters(text: str, line: int) -> list[TextInstruction] | None:
    """A single instruction preceded by parameters for its operands, or None if `text` is no instruction.

    This is how XLA reads ``f32[2] add(f32[2], f32[2] %x)``. Unnamed parameters become ``_0``, ``_1``, ..., an unnamed
    instruction ``_``.
    """
    alone = trimmed(text)
    matched = match_statement(alone) or match_statement(f"_ = {alone}")
    # The indent shows whether another instruction follows.
    indent = text[: len(text) - len(text.lstrip())].rpartition("\n")[2]
    if matched is None or not is_one_statement(indent + matched.string):
        return None
    instruction = TextInstruction(matched, matched.string, line)
    if instruction.shape_text is None or instruction.written_shape is None or instruction.holds_another:
        return None
    found: list[TextInstruction] = []
    if instruction.opcode not in ("constant", "parameter"):
        names = []
        for n, part in enumerate(split_list(instruction.operand_text)):
            shape, name = (part, f"_{n}") if shape_of(part) is not None else split_operand(part) or ("", "")
            parameter = _statement(f"%{name} = {shape} parameter({n})", line)
            if parameter is None:
                return None
            found.append(parameter)
            names.append(f"%{name}")
        instruction.operand_text = ", ".join(names)
    return [*found, instruction]


def _statement(text: str, line: int) -> TextInstruction | None:
    """Parse an instruction without attributes; None if `text` is none."""
    matched = match_statement(text)
    if matched is None:
        return None
    instruction = TextInstruction(matched, matched.string, line)
    shape = instruction.shape_text
    whole = instruction.text.rstrip().endswith(")") and not trimmed(instruction.behind_operands)
    return instruction if whole and (shape is None or instruction.written_shape is not None) else None
