"""Compare two modules: find the first instruction that differs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress

from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.module import Module
from strided.errors import DumpError
from strided.escape import visible

#: Attributes that record where an instruction comes from, not what it does.
_ORIGINS = ("metadata", "origin")
_ELEMENT = "get-tuple-element"
#: The most nested get-tuple-elements that are followed, because damaged text may have a cycle.
_MOST_NESTED = 64


def how_modules_differ(a: Module | str | None, b: Module | str | None) -> str:
    """How two modules differ, in words; empty if they do not. Each is a module, None, or why it cannot be read."""
    for letter, module in (("a", a), ("b", b)):
        if isinstance(module, str):
            return f"cannot be compared: that of {letter} cannot be read: {module}"
    if a is None or b is None:
        return "" if a is b else f"cannot be compared: {'a' if a is None else 'b'} has none"
    assert isinstance(a, Module)
    assert isinstance(b, Module)
    for x, y in itertools.zip_longest(_compared(a), _compared(b)):
        if x is None or y is None:
            return f"differ: only {'a' if y is None else 'b'} continues, with {(x or y).name}"
        if (one := _meaning(x)) != (other := _meaning(y)):
            what = next(k for k in one if one[k] != other[k])
            return f"differ, first in the {what} of {x.name}: {_cut(one[what])} in a, {_cut(other[what])} in b"
    return ""


def _compared(module: Module) -> Iterator[Instruction]:
    """The instructions to compare: without get-tuple-elements, which texts may leave out; operands show them."""
    return (one for one in module.instructions if one.opcode != _ELEMENT or one.is_root)


def _operand(instruction: Instruction, name: str) -> str:
    """An operand's name; an element of a tuple is named by its index, since its own name varies."""
    numbers = []
    with suppress(DumpError):  # of a damaged text
        while (one := instruction.computation.instruction(name)).opcode == _ELEMENT and one.operand_names:
            numbers.append(f"#{one.attributes.get('index')}")
            name = one.operand_names[0]
            if len(numbers) > _MOST_NESTED:
                break
    return "".join([name, *reversed(numbers)])


def _meaning(instruction: Instruction) -> dict[str, object]:
    """The parts of an instruction that define what it does, by name."""
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
