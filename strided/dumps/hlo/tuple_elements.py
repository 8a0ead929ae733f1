"""Elements of tuples as operands: ``add(%pair#0, %pair#1)``.

Newer releases of XLA print a get-tuple-element only like this, in the operands of its users. Here each becomes an
instruction, ``pair#0``, before its first user, and prints as it was read, without a line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strided.dumps.hlo.text_instruction import TextInstruction, match_statement
from strided.layout import TupleShape

#: Separates the name of a tuple and the number of an element.
MARK = "#"
#: The deepest nesting of tuples, and the most digits of a number.
_MOST_NESTED, _MOST_DIGITS = 64, 9


def with_tuple_elements(
    found: Sequence[TextInstruction], undefined: Sequence[tuple[TextInstruction, str]]
) -> tuple[list[TextInstruction], list[tuple[TextInstruction, str]]]:
    """The instructions of a computation with the tuple elements that they use, and what remains undefined.

    `undefined` has operands that are no names of instructions: pairs of the instruction and the name.
    """
    named = {instruction.name: instruction for instruction in found}
    before: dict[TextInstruction, list[TextInstruction]] = {}
    remaining = []
    for user, name in undefined:
        if name in named:
            continue
        elements = _elements(name, named, user.line)
        if not elements:
            remaining.append((user, name))
        named.update((element.name, element) for element in elements)
        before.setdefault(user, []).extend(elements)
    return [each for one in found for each in (*before.get(one, ()), one)], remaining


def _elements(name: str, named: Mapping[str, TextInstruction], line: int) -> list[TextInstruction]:
    """The element of this name, after the enclosing elements; empty if the name is not an element's."""
    if name.count(MARK) > _MOST_NESTED:
        return []
    marks = [k for k, letter in enumerate(name) if letter == MARK]
    start = next((k for k in reversed(marks) if name[:k] in named), -1)
    if start < 0:
        return []
    whole, shape = name[:start], named[name[:start]].written_shape
    is_left_out = not named[whole].has_shape
    made = []
    for number in name[start + 1 :].split(MARK):
        if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS and str(int(number)) == number):
            return []
        if is_left_out:
            written = ""
        elif isinstance(shape, TupleShape) and int(number) < len(shape):
            shape = shape[int(number)]
            written = f"{shape} "
        else:
            return []
        element = f"{whole}{MARK}{number}"
        matched = match_statement(f"%{element} = {written}get-tuple-element(%{whole}), index={number}")
        assert matched is not None
        made.append(TextInstruction(matched, matched.string, line))
        made[-1].is_implied = True
        whole = element
    return made
