"""Elements of tuples in place of operands: ``add(%pair#0, %pair#1)``.

Newer releases of XLA print a get-tuple-element so where its value is an operand, and not at all where nothing uses it.
Here each is an instruction like others, ``pair#0``, before the first one that takes it. It prints as it was read: in
those, without a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from strided.dumps.hlo.text_instruction import TextInstruction, match_statement
from strided.layout import TupleShape

#: Stands between the name of a tuple and the number of an element.
MARK = "#"


def with_elements(
    found: Sequence[TextInstruction], undefined: Sequence[tuple[TextInstruction, str]]
) -> tuple[list[TextInstruction], list[tuple[TextInstruction, str]]]:
    """The instructions of a computation with all elements that these take, and what remains undefined.

    `undefined` has operands that are no names of instructions: an instruction and a name each.
    """
    named = {instruction.name: instruction for instruction in found}
    before: dict[TextInstruction, list[TextInstruction]] = {}
    remaining = []
    for user, name in undefined:
        if name not in named and not _add_element(name, named, before.setdefault(user, []), user.line):
            remaining.append((user, name))
    return [each for one in found for each in (*before.get(one, ()), one)], remaining


def _add_element(name: str, named: dict[str, TextInstruction], made: list[TextInstruction], line: int | None) -> bool:
    """Add an element of a tuple, of which it may be an element itself; False if the name is none of these."""
    whole, mark, number = name.rpartition(MARK)
    if not mark or not (number.isascii() and number.isdigit()):
        return False
    if whole not in named and not _add_element(whole, named, made, line):
        return False
    shape = named[whole].written_shape
    if isinstance(shape, TupleShape) and int(number) < len(shape):
        written = f"{shape[int(number)]} "
    elif not named[whole].has_shape:
        written = ""
    else:
        return False
    matched = match_statement(f"%{name} = {written}get-tuple-element(%{whole}), index={int(number)}")
    assert matched is not None
    element = named[name] = TextInstruction(matched, matched.string, line or 0)
    element.is_implied = True
    made.append(element)
    return True
