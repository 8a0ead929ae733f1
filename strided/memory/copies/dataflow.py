"""Where a value comes from, and where it goes, through instructions that only hand it on.

A *place* is a value: an instruction, and for a tuple the index of a part. Bitcasts, tuples, fusions, calls, loops and
branches hand values on; so do slices and conversions of type, which keep the order of dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from strided.dumps.hlo import Instruction, Module
from strided.dumps.hlo.instruction import ComputationLike
from strided.errors import DumpError
from strided.layout import AnyShape, Shape, TupleShape
from strided.memory.copies.order import Factor, common_factors, layout_of, order_of, transposed_factors

#: Operations whose result is their first operand under another name, or with the same order of dimensions.
RENAMING = frozenset(
    ("bitcast", "reshape", "transpose", "copy", "convert", "slice", "dynamic-slice", "dynamic-update-slice")
)
_SAME = frozenset(("optimization-barrier", "copy-done"))
_CALLS = frozenset(("fusion", "call", "while", "conditional", "async-start"))


class Place(NamedTuple):
    """A value: an instruction, or a part of its tuple."""

    instruction: Instruction
    part: tuple[int, ...] = ()

    @property
    def shape(self) -> AnyShape | None:
        shape = self.instruction.shape
        for k in self.part:
            if not isinstance(shape, TupleShape) or k >= len(shape):
                return None
            shape = shape[k]
        return shape


def operands_of(instruction: Instruction) -> tuple[Instruction, ...]:
    """Its operands; none if a damaged text does not define them."""
    try:
        return instruction.operands
    except DumpError:
        return ()


def callees_of(instruction: Instruction) -> tuple[ComputationLike, ...]:
    """The computations that it calls; none if a damaged text does not hold them."""
    try:
        return instruction.called_computations
    except DumpError:
        return ()


class Loop(NamedTuple):
    """The two computations of a ``while``."""

    condition: ComputationLike
    body: ComputationLike


def loop_of(instruction: Instruction) -> Loop | None:
    """Condition and body of a ``while``. The condition is what gives one truth value."""
    callees = callees_of(instruction)
    if len(callees) != 2:
        return None
    named = instruction.attributes.get("body", "").removeprefix("%")
    body = callees[0] if callees[0].name == named else callees[1]
    return Loop(callees[1] if body is callees[0] else callees[0], body)


class Dataflow:
    """The flow of values in a module.

    Attributes
    ----------
    callers : dict of Computation to list of Instruction
        The instructions that hand values to a computation; reducers and comparators have none here.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.callers: dict[ComputationLike, list[Instruction]] = {}
        self._parts: dict[Instruction, dict[int, list[Instruction]]] = {}
        self._operands: dict[Instruction, dict[Instruction, list[int]]] = {}
        for instruction in module.instructions:
            if instruction.opcode in _CALLS:
                for callee in dict.fromkeys(callees_of(instruction)):
                    self.callers.setdefault(callee, []).append(instruction)

    # ---- backwards --------------------------------------------------------------------------------------------------

    def before(self, place: Place) -> list[Place]:
        """The places that a value is handed on from; none for one that is made where it is."""
        instruction, index = place
        opcode, operands = instruction.opcode, operands_of(instruction)
        if opcode == "parameter":
            return [
                found for caller in self._callers(instruction) for found in self._arguments(caller, instruction, index)
            ]
        if opcode == "get-tuple-element" and operands:
            return [Place(operands[0], (_tuple_index(instruction), *index))]
        if opcode == "tuple" and index and index[0] < len(operands):
            return [Place(operands[index[0]], index[1:])]
        if opcode == "copy-start" and operands:
            return [Place(operands[0])] if index in ((), (0,), (1,)) else []
        if opcode == "copy-done" and operands:
            return [Place(operands[0], (0,))]
        if opcode in _SAME or opcode in RENAMING:
            return [Place(operands[0], index)] if operands else []
        if opcode in ("fusion", "call", "conditional"):
            return [Place(callee.root, index) for callee in callees_of(instruction)]
        if opcode == "while":
            loop = loop_of(instruction)
            return [Place(operands[0], index), *([Place(loop.body.root, index)] if loop else [])] if operands else []
        if opcode == "async-start" and index[:1] == (1,):
            return [Place(callee.root, index[1:]) for callee in callees_of(instruction)]
        if opcode == "async-update" and operands:
            return [Place(operands[0], index)]
        if opcode == "async-done" and operands:
            return [Place(operands[0], (1, *index))]
        return []

    def _callers(self, parameter: Instruction) -> list[Instruction]:
        return [] if parameter.computation.is_entry else self.callers.get(parameter.computation, [])

    def _arguments(self, caller: Instruction, parameter: Instruction, index: tuple[int, ...]) -> Iterator[Place]:
        number, operands = parameter.parameter_number or 0, operands_of(caller)
        if caller.opcode == "while":
            loop = loop_of(caller)
            yield from (Place(operand, index) for operand in operands[:1])
            if loop:
                yield Place(loop.body.root, index)
        elif caller.opcode == "conditional":
            branches = [k for k, branch in enumerate(callees_of(caller), 1) if branch is parameter.computation]
            yield from (Place(operands[k], index) for k in branches if k < len(operands))
        elif number < len(operands):
            yield Place(operands[number], index)

    # ---- forwards ---------------------------------------------------------------------------------------------------

    def after(self, place: Place) -> tuple[list[Place], list[Instruction]]:
        """The places that a value is handed on to, and the instructions that take it to make something else.

        The root of the entry is taken by nobody.
        """
        instruction, index = place
        onwards, takers = [], []
        for user in self._users(place):
            found = list(self._handed_on(place, user))
            onwards += found
            if not found and user.opcode not in ("get-tuple-element", "tuple"):
                takers.append(user)
        if instruction.is_root:
            onwards += self._returned(instruction, index)
        return onwards, takers

    def _users(self, place: Place) -> Iterable[Instruction]:
        """The users of a value; of a tuple's part, those that take this part or the whole tuple."""
        instruction, index = place
        if not index:
            return instruction.users
        parts = self._parts.get(instruction)
        if parts is None:
            parts = self._parts[instruction] = {}
            for user in instruction.users:
                key = _tuple_index(user) if user.opcode == "get-tuple-element" else -1
                parts.setdefault(key, []).append(user)
        return (*parts.get(index[0], ()), *parts.get(-1, ()))

    def _positions(self, user: Instruction) -> dict[Instruction, list[int]]:
        """The places of each operand among all; kept, since tuples have thousands."""
        found = self._operands.get(user)
        if found is None:
            found = self._operands[user] = {}
            for k, operand in enumerate(operands_of(user)):
                found.setdefault(operand, []).append(k)
        return found

    def _handed_on(self, place: Place, user: Instruction) -> Iterator[Place]:
        instruction, index = place
        opcode = user.opcode
        positions = self._positions(user).get(instruction, [])
        if opcode == "get-tuple-element":
            if index[:1] == (_tuple_index(user),):
                yield Place(user, index[1:])
        elif opcode == "tuple":
            yield from (Place(user, (k, *index)) for k in positions)
        elif opcode == "copy-start":
            yield Place(user, (0,))
        elif opcode == "copy-done":
            if index == (0,):
                yield Place(user)
        elif opcode == "async-done":
            if index[:1] == (1,):
                yield Place(user, index[1:])
        elif opcode in _SAME or opcode == "async-update" or (opcode in RENAMING and 0 in positions):
            yield Place(user, index)
        elif opcode == "while":
            loop = loop_of(user)
            yield Place(user, index)
            if loop:
                yield from _parameters(loop.body, 0, index)
        elif opcode == "conditional":
            for k, branch in enumerate(callees_of(user), 1):
                if k in positions:
                    yield from _parameters(branch, 0, index)
        elif opcode in _CALLS:
            for callee in callees_of(user):
                for k in positions:
                    yield from _parameters(callee, k, index)

    def _returned(self, root: Instruction, index: tuple[int, ...]) -> Iterator[Place]:
        for caller in self._callers(root):
            if caller.opcode == "while":
                loop = loop_of(caller)
                if loop and loop.body is root.computation:
                    yield Place(caller, index)
                    yield from _parameters(loop.body, 0, index)
            else:
                yield Place(caller, (1, *index) if caller.opcode == "async-start" else index)


def _parameters(computation: ComputationLike, number: int, index: tuple[int, ...]) -> Iterator[Place]:
    parameters = computation.parameters
    if number < len(parameters):
        yield Place(parameters[number], index)


def _tuple_index(instruction: Instruction) -> int:
    text = instruction.attributes.get("index", "")
    return int(text) if text.isdecimal() else -1


def renaming_factors(one: Place, other: Place) -> list[Factor] | None:
    """How the dimensions of `one` become those of `other`, which the former is handed on to."""
    shape, renamed = one.shape, other.shape
    if not isinstance(shape, Shape) or not isinstance(renamed, Shape):
        return None
    layout, new_layout = layout_of(shape), layout_of(renamed)
    if layout is None or new_layout is None:
        return None
    opcode = other.instruction.opcode
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
    """The dimensions of a ``transpose``."""
    text = transpose.attributes.get("dimensions", "").strip("{} ")
    parts = [part.strip() for part in text.split(",")] if text else []
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
