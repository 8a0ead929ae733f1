"""How many bytes a program moves."""

from __future__ import annotations

from collections.abc import Mapping

from strided.dumps.hlo import Instruction
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.instruction import callees_of, operands_of
from strided.errors import StridedError
from strided.layout import AnyShape, TupleShape
from strided.memory.copies.dataflow import Dataflow, Place
from strided.memory.copies.executions import Executions
from strided.memory.forwarding import CONTROL_FLOW, IN_PLACE, SAME_VALUE, begun_by, result_part, updated_parameter

#: Operations that move nothing themselves: renamings, control, and calls, where the called instructions count.
_MOVES_NOTHING = CONTROL_FLOW.union(
    SAME_VALUE, "after-all bitcast constant get-tuple-element parameter partition-id replica-id tuple".split()
)
_SLICES = ("dynamic-slice", "slice", "gather")


def byte_size(shape: AnyShape | None) -> int:
    """Bytes of all arrays of a shape, padding included; 0 if it has no size."""
    if shape is None:
        return 0
    if isinstance(shape, TupleShape):
        return sum(byte_size(leaf) for _, leaf in shape.leaves())
    try:
        return shape.byte_size
    except StridedError:
        return 0


def bytes_moved(instruction: Instruction) -> int:
    """Bytes that one execution reads and writes; for slices and in-place updates, only of the part."""
    operation, operands = begun_by(instruction.opcode), operands_of(instruction)
    if operation in _MOVES_NOTHING or operation.endswith(("-update", "-done")):
        return 0
    made = byte_size(Place(instruction, result_part(instruction)).shape)
    if operation in _SLICES:
        return 2 * made
    if operation in IN_PLACE:
        return _written(instruction) + sum(byte_size(operand.shape) for operand in _taken(instruction))
    bodies = callees_of(instruction) if operation == "fusion" else ()
    if bodies:
        return _moved_by_fusion(bodies[0])
    return sum(byte_size(operand.shape) for operand in operands) + made


def _taken(update: Instruction) -> tuple[Instruction, ...]:
    """The operands that an in-place update reads, besides the array that it updates."""
    operands = operands_of(update)
    return operands[1:2] if begun_by(update.opcode) == "dynamic-update-slice" else operands[_arrays(update) :]


def _written(update: Instruction) -> int:
    """Bytes that an in-place update writes; twice as many for ``scatter``, which also reads the old values."""
    operands = operands_of(update)
    if begun_by(update.opcode) == "dynamic-update-slice":
        return sum(byte_size(operand.shape) for operand in operands[1:2])
    return 2 * sum(byte_size(operand.shape) for operand in operands[_arrays(update) + 1 :])


def _arrays(scatter: Instruction) -> int:
    """The number of arrays that a ``scatter`` updates. Its operands are these, the indices, and as many updates."""
    return len(operands_of(scatter)) // 2


def _moved_by_fusion(body: Computation) -> int:
    root = body.root
    written = 0
    takers: dict[Instruction, Instruction] = {}
    for result in operands_of(root) if root.opcode == "tuple" else (root,):
        if (updated := updated_parameter(result)) is None:
            written += byte_size(result.shape)
        else:
            written += sum(map(_written, updated.updates))
            takers[updated.parameter] = updated.taker
    return written + sum(_read(parameter, takers.get(parameter)) for parameter in body.parameters)


def _read(parameter: Instruction, taker: Instruction | None) -> int:
    """Bytes that a fusion reads of a parameter; `taker` is the instruction that updates it in place."""
    users = [user for user in parameter.users if user is not taker]
    if taker is not None and not users:
        return 0
    whole = byte_size(parameter.shape)
    if users and all(user.opcode in _SLICES and operands_of(user)[:1] == (parameter,) for user in users):
        return min(whole, sum(byte_size(user.shape) for user in users))
    return whole


def bytes_of_program(flow: Dataflow, runs: Mapping[Computation, Executions]) -> int:
    """Bytes that all instructions read and write in one run of the program; loops of unknown count run once."""
    counted = (c for c in flow.module.computations if _runs(flow, c) and c in runs)
    return sum(sum(map(bytes_moved, c.instructions)) * runs[c].times for c in counted)


def _runs(flow: Dataflow, computation: Computation) -> bool:
    """Whether its instructions run one by one, not as part of a fusion or for each element."""
    callers = flow.callers.get(computation)
    return computation.is_entry or (callers is not None and begun_by(callers[0].opcode) != "fusion")
