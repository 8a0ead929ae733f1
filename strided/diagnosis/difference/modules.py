"""Where two modules differ: the first instruction that does another thing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress

from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.module import Module
from strided.errors import DumpError
from strided.escape import visible

#: Attributes that say where an instruction comes from, not what it does.
_ORIGINS = ("metadata", "origin")
_ELEMENT = "get-tuple-element"
#: Elements of elements that are followed: damaged text may go round in a circle.
_MOST_NESTED = 64


def how_modules_differ(a: Module | str | None, b: Module | str | None) -> str:
    """In words, how two modules differ, each a module, or None, or why it cannot be read; empty if they do the same."""
    for letter, module in (("a", a), ("b", b)):
        if isinstance(module, str):
            return f"cannot be compared: {letter} has none that can be read: {module}"
    if a is None or b is None:
        return "" if a is b else f"cannot be compared: {'a' if a is None else 'b'} has none"
    assert isinstance(a, Module)
    assert isinstance(b, Module)
    for x, y in itertools.zip_longest(_told(a), _told(b)):
        if x is None or y is None:
            return f"differ: {'a' if y is None else 'b'} goes on with {(x or y).name}"
        if (one := _meaning(x)) != (other := _meaning(y)):
            what = next(k for k in one if one[k] != other[k])
            return f"differ, first in the {what} of {x.name}: {_cut(one[what])} in a, {_cut(other[what])} in b"
    return ""


def _told(module: Module) -> Iterator[Instruction]:
    """The instructions that say what a program does. Elements of tuples do so as operands: texts may leave them out."""
    return (one for one in module.instructions if one.opcode != _ELEMENT or one.is_root)


def _operand(instruction: Instruction, name: str) -> str:
    """An operand, whatever an element of a tuple is called."""
    numbers = []
    with suppress(DumpError):  # of a damaged text
        while (one := instruction.computation.instruction(name)).opcode == _ELEMENT and one.operand_names:
            numbers.append(f"#{one.attributes.get('index')}")
            name = one.operand_names[0]
            if len(numbers) > _MOST_NESTED:
                break
    return "".join([name, *reversed(numbers)])


def _meaning(instruction: Instruction) -> dict[str, object]:
    """What an instruction does, by the names of its parts."""
    attributes = {k: v for k, v in instruction.attributes.items() if k not in _ORIGINS}
    return {
        "name": instruction.name,
        "operation": instruction.opcode,
        "shape": str(instruction.shape),
        "operands": tuple(_operand(instruction, name) for name in instruction.operand_names),
        "attributes": attributes,
        "value": instruction.literal,
    }


def _cut(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return visible(text, 60)
