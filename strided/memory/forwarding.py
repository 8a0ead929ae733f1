"""Which instructions forward the value of an operand, and which part of their result it then is.

``copy-start``, ``copy-update`` and ``copy-done`` belong to one asynchronous *operation*, a ``copy``. Any instruction
may be started so: ``call-start`` runs what ``call`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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
