"""Which instructions forward the value of an operand, and to which part of their result.

``copy-start``, ``copy-update`` and ``copy-done`` belong to one asynchronous *operation*, a ``copy``. Any operation may
be asynchronous: ``call-start`` starts a ``call``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from strided.dumps.hlo.instruction import callees_of, operands_of
from strided.dumps.hlo.lexer import integer
from strided.layout import AnyShape, TupleShape
from strided.layout.tuples import subshape

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction

#: Instructions whose value is that of their first operand, in the same buffer and layout.
SAME_VALUE = frozenset(("add-dependency", "domain", "opt-barrier"))
#: Operations that execute other computations sequentially (XLA's ``CallContext::kControlFlow``); ``async-start`` starts
#: such a computation.
CONTROL_FLOW = frozenset(("async", "call", "conditional", "while"))
#: Operations that overwrite their first operand; the compiler inserted a copy if it is needed afterwards. Some
#: compilers do so for ``all-reduce-start``, too; its results count as new values, so that the sum is a bound for all.
IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))
#: The most instructions to follow back to the parameter that a fusion updates: a hostile fusion may contain itself.
_MOST_UPDATES = 1000
#: Instructions to follow back in such a search.
_PASSING = SAME_VALUE | IN_PLACE | {"bitcast"}

#: The index of the result in tuples of starts that do not begin with the operands: ``copy-start`` has its operand
#: second, ``all-reduce-start`` not at all.
_RESULTS: Mapping[str, tuple[int, ...]] = {"copy": (0,), "all-reduce": ()}


def operation_of(opcode: str) -> str:
    """The operation that an asynchronous opcode belongs to; other opcodes unchanged.

    >>> operation_of("copy-start"), operation_of("copy")
    ('copy', 'copy')
    """
    return opcode.removesuffix("-start").removesuffix("-update").removesuffix("-done")


def begun_by(opcode: str) -> str:
    """The operation that an opcode executes or starts; ``-update`` and ``-done`` start none and are unchanged.

    >>> begun_by("call-start"), begun_by("call-done")
    ('call', 'call-done')
    """
    return opcode.removesuffix("-start")


def result_part(instruction: Instruction) -> tuple[int, ...]:
    """The index of the operation's result in the value: () except for asynchronous starts and updates."""
    if not instruction.opcode.endswith(("-start", "-update")):
        return ()
    return (1,) if wraps(instruction.shape) else _RESULTS.get(operation_of(instruction.opcode), (1,))


def wraps(shape: AnyShape | None) -> bool:
    """Whether the result of an asynchronous start begins with a tuple of its operands, as it does for a computation.

    The result of a plain ``copy-start`` begins with the copy. But the start of a computation that consists of one
    ``copy`` has the same opcode.
    """
    return isinstance(subshape(shape, (0,)), TupleShape)


def tuple_index(instruction: Instruction) -> int:
    """The index of a ``get-tuple-element``; -1 if a damaged text does not give it."""
    number = integer(instruction.attributes.get("index", ""))
    return -1 if number is None else max(number, -1)


class Updated(NamedTuple):
    """A parameter of a fusion, its user `taker`, and the in-place updates that turn it into a result."""

    parameter: Instruction
    taker: Instruction
    updates: tuple[Instruction, ...]


def updated_parameter(found: Instruction) -> Updated | None:
    """The parameter that a result of a fusion's computation updates in place; None if it is not such an update.

    Follows nested fusions.
    """
    taker = found
    updates: list[Instruction] = []
    within: list[Instruction] = []  # the fusions around `found`, innermost last
    for _ in range(_MOST_UPDATES):
        if isinstance(found.shape, TupleShape):
            return None
        if found.opcode == "parameter" and not within:
            return Updated(found, taker, tuple(updates)) if updates else None
        if not within:
            taker = found
        if found.opcode == "parameter":
            number = found.parameter_number or 0
            before = operands_of(within.pop())[number : number + 1]
        elif found.opcode == "fusion":
            within.append(found)
            before = tuple(body.root for body in callees_of(found)[:1])
        elif found.opcode in _PASSING:
            updates += [found] * (found.opcode in IN_PLACE)
            before = operands_of(found)[:1]
        else:
            return None
        if not before:
            return None
        (found,) = before
    return None
