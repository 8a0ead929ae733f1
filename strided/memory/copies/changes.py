"""Which instructions only change the layout of a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strided.dumps.hlo import Instruction
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.instruction import callees_of, operands_of
from strided.layout import AnyShape, Shape, TupleShape
from strided.memory.copies.dataflow import Dataflow, Place, permutation_of
from strided.memory.copies.order import common_factors, layout_without_space, same_memory, transposed_factors
from strided.memory.forwarding import begun_by, result_part

#: What a fusion that only changes layouts may contain.
_PLAIN = frozenset(("parameter", "copy", "transpose", "reshape", "bitcast", "tuple", "get-tuple-element", "fusion"))


class Change(NamedTuple):
    """An instruction that only changes a layout.

    Attributes
    ----------
    instruction : Instruction
    before, after : shape
        A tuple where a fusion takes or gives several values.
    fusion : Instruction or None
        The outermost fusion that it is part of.
    materialized : bool
        Whether that fusion, if any, does nothing else.
    """

    instruction: Instruction
    before: AnyShape
    after: AnyShape
    fusion: Instruction | None
    materialized: bool


class Changes:
    """The changes of layout in a module, in the order of its instructions."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._plain: dict[Instruction, bool] = {}
        self._fusions: dict[Computation, Instruction | None] = {}
        self.found: dict[Instruction, Change] = {}
        for computation in flow.module.computations:
            fusion = self._fusion_of(computation)
            alone = fusion is None or self._is_plain(fusion)
            for instruction in computation.instructions:
                shapes = moved(instruction)
                if shapes is not None:
                    self.found[instruction] = Change(instruction, *shapes, fusion, alone)
        changed = (change.fusion for change in self.found.values() if change.materialized and change.fusion)
        for fusion in dict.fromkeys(changed):
            taken = [operand.shape for operand in operands_of(fusion) if operand.shape is not None]
            given = changed_place(fusion).shape
            if given is not None and taken:
                before = taken[0] if len(taken) == 1 else TupleShape(taken)
                self.found[fusion] = Change(fusion, before, given, None, True)

    def _fusion_of(self, computation: Computation) -> Instruction | None:
        """The outermost fusion that a computation is part of, or None."""
        passed: list[Computation] = []
        found = None
        while computation not in self._fusions:
            self._fusions[computation] = None  # a fusion that contains itself ends the loop
            callers = self._flow.callers.get(computation, [])
            if not callers or begun_by(callers[0].opcode) != "fusion":
                break
            passed.append(computation)
            found, computation = callers[0], callers[0].computation
        found = self._fusions[computation] or found
        self._fusions.update(dict.fromkeys(passed, found))
        return found

    def _is_plain(self, fusion: Instruction) -> bool:
        """Whether a fusion contains only instructions that change layouts or rename values."""
        if fusion not in self._plain:
            self._plain[fusion] = all(
                instruction.opcode in _PLAIN
                for computation in self._within(fusion)
                for instruction in computation.instructions
            )
        return self._plain[fusion]

    def _within(self, fusion: Instruction) -> Iterator[Computation]:
        seen: set[Computation] = set()
        waiting = list(callees_of(fusion))
        while waiting:
            computation = waiting.pop()
            if computation not in seen:
                seen.add(computation)
                yield computation
                waiting += [c for i in computation.instructions if i.opcode == "fusion" for c in callees_of(i)]


def moved(instruction: Instruction) -> tuple[Shape, Shape] | None:
    """The shapes before and after, if an instruction only changes the layout of a value; otherwise None.

    Fusions are not considered: `Changes` finds them.
    """
    operation = begun_by(instruction.opcode)
    if operation not in ("copy", "transpose", "reshape"):
        return None
    operands = operands_of(instruction)
    before = operands[0].shape if operands else None
    after = changed_place(instruction).shape
    if not isinstance(before, Shape) or not isinstance(after, Shape):
        return None
    return (before, after) if _differ(instruction, operation, before, after) else None


def changed_place(instruction: Instruction) -> Place:
    """The place of an instruction's result, which is inside a tuple for an asynchronous start."""
    return Place(instruction, result_part(instruction))


def _differ(instruction: Instruction, operation: str, before: Shape, after: Shape) -> bool:
    """Whether the elements move in memory."""
    layout, new_layout = layout_without_space(before), layout_without_space(after)
    if layout is None or new_layout is None:
        return False
    if operation == "copy":
        return layout != new_layout
    if 0 in before.dimensions:
        return False
    if operation == "transpose":
        factors = transposed_factors(before, after, permutation_of(instruction))
    else:
        factors = common_factors(before, range(before.rank), after, range(after.rank))
    if factors is None:
        return True
    return not same_memory(before, layout, after, new_layout, factors)
