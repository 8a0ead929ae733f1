"""Follows values backwards and forwards through instructions that only forward them.

A *place* is a value: an instruction, and for a tuple the index of a part. Bitcasts, tuples, fusions, calls, loops and
branches forward values; so do slices and conversions of type, which keep the order of dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from strided.dumps.hlo import Instruction, Module
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.instruction import callees_of, operands_of
from strided.dumps.hlo.lexer import integers
from strided.layout import AnyShape, Shape
from strided.layout.tuples import subshape
from strided.memory.copies.order import Factor, common_factors, layout_without_space, order_of, transposed_factors
from strided.memory.forwarding import CONTROL_FLOW, SAME_VALUE, begun_by, operation_of, result_part, tuple_index

#: Operations whose result is their first operand under another name, or with the same order of dimensions.
RENAMING = frozenset(
    ("bitcast", "reshape", "transpose", "copy", "convert", "slice", "dynamic-slice", "dynamic-update-slice")
)
_FORWARDING = RENAMING | SAME_VALUE
#: Operations that pass values to a computation and return its result.
_CALLS = CONTROL_FLOW | {"fusion"}


class Place(NamedTuple):
    """A value: an instruction, or the part of its tuple at an index."""

    instruction: Instruction
    part: tuple[int, ...] = ()

    @property
    def shape(self) -> AnyShape | None:
        """Its shape; None if a damaged dump does not give it."""
        return subshape(self.instruction.shape, self.part)


def forwards(opcode: str) -> bool:
    """Whether an operation, or a part of an asynchronous one, forwards its first operand."""
    if opcode.endswith("-update"):
        return True
    operation = operation_of(opcode)
    return operation in _FORWARDING or (opcode.endswith("-done") and operation in _CALLS)


class Loop(NamedTuple):
    """The two computations of a ``while``."""

    condition: Computation
    body: Computation


def loop_of(instruction: Instruction) -> Loop | None:
    """Condition and body of a ``while``, which XLA prints in this order."""
    callees = callees_of(instruction)
    return Loop(*callees) if len(callees) == 2 else None


class Dataflow:
    """The flow of values in a module.

    Attributes
    ----------
    callers : dict of Computation to list of Instruction
        The instructions that pass values to a computation; reducers and comparators have none here.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.callers: dict[Computation, list[Instruction]] = {}
        self._parts: dict[Instruction, dict[int, list[Instruction]]] = {}
        self._operands: dict[Instruction, dict[Instruction, list[int]]] = {}
        for instruction in module.instructions:
            if begun_by(instruction.opcode) in _CALLS:
                for callee in dict.fromkeys(callees_of(instruction)):
                    self.callers.setdefault(callee, []).append(instruction)

    # ---- where a value comes from -----------------------------------------------------------------------------------

    def before(self, place: Place) -> list[Place]:
        """The places from which a value is forwarded; none if it is made at this place."""
        instruction, part = place
        opcode, operands = instruction.opcode, operands_of(instruction)
        if opcode == "parameter":
            return [
                found for caller in self._callers(instruction) for found in self._arguments(caller, instruction, part)
            ]
        if opcode == "get-tuple-element" and operands:
            return [Place(operands[0], (tuple_index(instruction), *part))]
        if opcode == "tuple" and part and 0 <= part[0] < len(operands):
            return [Place(operands[part[0]], part[1:])]
        if operands and opcode.endswith("-done"):
            return [Place(operands[0], result_part(operands[0]) + part)] if forwards(opcode) else []
        if operands and opcode.endswith("-update"):
            return [Place(operands[0], part)]
        result = result_part(instruction)
        return self._made_of(instruction, part[len(result) :]) if part[: len(result)] == result else []

    def _made_of(self, instruction: Instruction, part: tuple[int, ...]) -> list[Place]:
        """The places that a part of the result is forwarded from, of an operation or of one that is started."""
        operation, operands = begun_by(instruction.opcode), operands_of(instruction)
        if operands and forwards(operation):
            return [Place(operands[0], part)]
        if operation == "while":
            loop = loop_of(instruction)
            return [Place(operands[0], part), *([Place(loop.body.root, part)] if loop else [])] if operands else []
        return [Place(callee.root, part) for callee in callees_of(instruction)] if operation in _CALLS else []

    def _callers(self, parameter: Instruction) -> list[Instruction]:
        return [] if parameter.computation.is_entry else self.callers.get(parameter.computation, [])

    def _arguments(self, caller: Instruction, parameter: Instruction, part: tuple[int, ...]) -> Iterator[Place]:
        number, operands, operation = parameter.parameter_number or 0, operands_of(caller), begun_by(caller.opcode)
        if operation == "while":
            loop = loop_of(caller)
            yield from (Place(operand, part) for operand in operands[:1])
            if loop:
                yield Place(loop.body.root, part)
        elif operation == "conditional":
            branches = [k for k, branch in enumerate(callees_of(caller), 1) if branch is parameter.computation]
            yield from (Place(operands[k], part) for k in branches if k < len(operands))
        elif number < len(operands):
            yield Place(operands[number], part)

    # ---- where it goes ----------------------------------------------------------------------------------------------

    def after(self, place: Place) -> tuple[list[Place], list[Instruction]]:
        """The places to which a value is forwarded, and the instructions that use it to make another value.

        The root of the entry computation has no users.
        """
        instruction, part = place
        onwards, takers = [], []
        for user in self._users(place):
            found = list(self._forwarded(place, user))
            onwards += found
            if not found and user.opcode not in ("get-tuple-element", "tuple"):
                takers.append(user)
        if instruction.is_root:
            onwards += self._returned(instruction, part)
        return onwards, takers

    def _users(self, place: Place) -> Iterable[Instruction]:
        """The users of a value; of a tuple's part, those that take this part or the whole tuple."""
        instruction, part = place
        if not part:
            return instruction.users
        parts = self._parts.get(instruction)
        if parts is None:
            parts = self._parts[instruction] = {}
            for user in instruction.users:
                key = tuple_index(user) if user.opcode == "get-tuple-element" else -1
                parts.setdefault(key, []).append(user)
        return (*parts.get(part[0], ()), *parts.get(-1, ()))

    def _positions(self, user: Instruction) -> dict[Instruction, list[int]]:
        """The positions of each operand in the list of operands; cached, since tuples have thousands."""
        found = self._operands.get(user)
        if found is None:
            found = self._operands[user] = {}
            for k, operand in enumerate(operands_of(user)):
                found.setdefault(operand, []).append(k)
        return found

    def _forwarded(self, place: Place, user: Instruction) -> Iterator[Place]:
        instruction, part = place
        opcode, operation, result = user.opcode, begun_by(user.opcode), result_part(user)
        positions = self._positions(user).get(instruction, [])
        if opcode == "get-tuple-element":
            if part[:1] == (tuple_index(user),):
                yield Place(user, part[1:])
        elif opcode == "tuple":
            yield from (Place(user, (k, *part)) for k in positions)
        elif opcode.endswith("-done"):
            done = result_part(instruction)
            if forwards(opcode) and part[: len(done)] == done:
                yield Place(user, part[len(done) :])
        elif forwards(operation):
            if 0 in positions:
                yield Place(user, part if opcode.endswith("-update") else result + part)
        elif operation == "while":
            loop = loop_of(user)
            yield Place(user, result + part)
            if loop:
                yield from _parameters(loop.body, 0, part)
        elif operation == "conditional":
            for k, branch in enumerate(callees_of(user), 1):
                if k in positions:
                    yield from _parameters(branch, 0, part)
        elif operation in _CALLS:
            for callee in callees_of(user):
                for k in positions:
                    yield from _parameters(callee, k, part)

    def _returned(self, root: Instruction, part: tuple[int, ...]) -> Iterator[Place]:
        for caller in self._callers(root):
            if begun_by(caller.opcode) == "while":
                loop = loop_of(caller)
                if loop and loop.body is root.computation:
                    yield Place(caller, result_part(caller) + part)
                    yield from _parameters(loop.body, 0, part)
            else:
                yield Place(caller, result_part(caller) + part)


def _parameters(computation: Computation, number: int, part: tuple[int, ...]) -> Iterator[Place]:
    parameters = computation.parameters
    if number < len(parameters):
        yield Place(parameters[number], part)


def renaming_factors(one: Place, other: Place) -> list[Factor] | None:
    """How the dimensions of `one` become those of `other`, which the former is forwarded to."""
    shape, renamed = one.shape, other.shape
    if not isinstance(shape, Shape) or not isinstance(renamed, Shape):
        return None
    layout, new_layout = layout_without_space(shape), layout_without_space(renamed)
    if layout is None or new_layout is None:
        return None
    opcode = begun_by(other.instruction.opcode)
    if opcode == "bitcast":
        return common_factors(shape, order_of(layout), renamed, order_of(new_layout))
    if opcode == "reshape":
        return common_factors(shape, range(shape.rank), renamed, range(renamed.rank))
    if opcode == "transpose":
        return transposed_factors(shape, renamed, permutation_of(other.instruction))
    if shape.rank != renamed.rank:
        return None
    return [Factor(n, d, d) for d, n in enumerate(shape.dimensions) if n != 1]


def permutation_of(transpose: Instruction) -> tuple[int, ...]:
    """The dimensions of a ``transpose``; none if a damaged text does not give them."""
    return integers(transpose.attributes.get("dimensions", "")) or ()
