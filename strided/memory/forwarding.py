"""Which instructions forward the value of an operand, and which part of their result it then is.

``copy-start``, ``copy-update`` and ``copy-done`` belong to one asynchronous *operation*, a ``copy``. Any instruction
may be started so: ``call-start`` runs what ``call`` does.
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

#: Instructions whose value is their first operand's, in the same place and layout.
SAME_VALUE = frozenset(("add-dependency", "domain", "opt-barrier"))
#: Operations that run other computations one instruction after another (XLA's ``CallContext::kControlFlow``);
#: ``async-start`` starts such a computation.
CONTROL_FLOW = frozenset(("async", "call", "conditional", "while"))
#: Operations that write their first operand's memory; the compiler has copied it if it is needed afterwards. Of
#: ``all-reduce-start`` that holds only for some compilers: its results count anew, and the sum is a bound for all.
IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))
#: Instructions to look back through for the parameter that an update in a fusion writes: a fusion may contain itself.
_MOST_UPDATES = 1000
#: Instructions that such an update may go through.
_PASSING = SAME_VALUE | IN_PLACE | {"bitcast"}

#: Where starts have their result that do not hold their operands before it: ``copy-start`` holds its operand second,
#: ``all-reduce-start`` not at all.
_RESULTS: Mapping[str, tuple[int, ...]] = {"copy": (0,), "all-reduce": ()}


def operation_of(opcode: str) -> str:
    """The operation that an asynchronous opcode is part of; else the opcode.

    >>> operation_of("copy-start"), operation_of("copy")
    ('copy', 'copy')
    """
    return opcode.removesuffix("-start").removesuffix("-update").removesuffix("-done")


def begun_by(opcode: str) -> str:
    """The operation that an opcode carries out or starts; the second half of an asynchronous one begins nothing.

    >>> begun_by("call-start"), begun_by("call-done")
    ('call', 'call-done')
    """
    return opcode.removesuffix("-start")


def result_part(instruction: Instruction) -> tuple[int, ...]:
    """Which part of the value is the operation's result: all of it, but of an asynchronous start or update."""
    if not instruction.opcode.endswith(("-start", "-update")):
        return ()
    return (1,) if wraps(instruction.shape) else _RESULTS.get(operation_of(instruction.opcode), (1,))


def wraps(shape: AnyShape | None) -> bool:
    """Whether the result of an asynchronous start begins with a tuple of its operands, as one of a computation does.

    That of ``copy-start`` begins with the copy. But a computation of one ``copy`` is started under the same name.
    """
    return isinstance(subshape(shape, (0,)), TupleShape)


def tuple_index(instruction: Instruction) -> int:
    """Which part of its operand a ``get-tuple-element`` gives; -1 if a damaged text does not say it."""
    number = integer(instruction.attributes.get("index", ""))
    return -1 if number is None else max(number, -1)


class Updated(NamedTuple):
    """A parameter of a fusion, `taker`, which takes it there, and the updates in place that make a result of it."""

    parameter: Instruction
    taker: Instruction
    updates: tuple[Instruction, ...]


def updated_parameter(found: Instruction) -> Updated | None:
    """What a result of a fusion's computation is updated in place of; None if it is made otherwise.

    A fusion may be a part of another one.
    """
    taker = found
    updates: list[Instruction] = []
    within: list[Instruction] = []  # the fusions around that which is looked at, the innermost last
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
