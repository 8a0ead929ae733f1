"""List the largest values of a program, with and without padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from strided.dumps.hlo.header import in_braces
from strided.errors import LayoutError
from strided.layout import Shape, TupleShape
from strided.layout.tuples import unbuffered


@dataclass(frozen=True, slots=True)
class Value:
    """An array that an instruction produces.

    Attributes
    ----------
    name, opcode : str
        Of the instruction; an element of a tuple has its index after the name: ``"fusion.1{0}"``.
    shape : Shape
    byte_size, unpadded_byte_size : int
        Bytes with padding, and without.
    """

    name: str
    opcode: str
    shape: Shape
    byte_size: int
    unpadded_byte_size: int

    @property
    def growth(self) -> float:
        """Size with padding divided by size without."""
        return self.byte_size / self.unpadded_byte_size if self.unpadded_byte_size else 1.0


def largest(instructions: Iterable[Any], *, by_padding: bool = False) -> list[Value]:
    """The arrays that instructions of an HLO module produce, largest first.

    Instructions that only form tuples of other values are skipped.

    Parameters
    ----------
    instructions : iterable of Instruction
        For example `Module.instructions`.
    by_padding : bool, optional
        Sort by bytes of padding instead of size.

    Raises
    ------
    TypeError
        `instructions` are no instructions.

    Examples
    --------
    >>> from strided import read_hlo
    >>> module = read_hlo("HloModule m\\n\\nENTRY e {\\n  ROOT x = f32[9,2]{1,0:T(8,128)} parameter(0)\\n}\\n")
    >>> [(value.name, value.byte_size, value.unpadded_byte_size) for value in largest(module.instructions)]
    [('x', 8192, 72)]
    """
    if not isinstance(instructions, Iterable):
        raise _no_instructions(instructions)
    found = [value for instruction in instructions for value in _values(instruction)]
    if by_padding:
        return sorted(found, key=lambda v: (v.unpadded_byte_size - v.byte_size, v.name))
    return sorted(found, key=lambda v: (-v.byte_size, v.name))


def _no_instructions(given: object) -> TypeError:
    return TypeError(f"largest takes instructions, such as those of module.instructions, not {type(given).__name__}")


def _values(instruction: Any) -> Iterator[Value]:
    if not (hasattr(instruction, "opcode") and hasattr(instruction, "shape")):
        raise _no_instructions(instruction)
    shape = instruction.shape
    if not isinstance(shape, TupleShape):
        yield from _value(instruction.name, instruction.opcode, shape)
    elif instruction.opcode not in ("tuple", "while", "conditional", "call"):
        for index, leaf in shape.leaves():
            yield from _value(f"{instruction.name}{in_braces(index)}", instruction.opcode, leaf)


def _value(name: str, opcode: str, shape: Any) -> Iterator[Value]:
    array = unbuffered(shape)
    if not isinstance(array, Shape) or array.layout is None:
        return
    try:
        yield Value(name, opcode, array, array.byte_size, array.unpadded_byte_size)
    except LayoutError:  # a dimension of unknown size
        return
