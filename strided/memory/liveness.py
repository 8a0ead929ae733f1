"""Which values of a scheduled module are in use when.

Each array of each result is a value. Instructions that only name values again (tuples, their elements, bitcasts, the
state of a loop) join them. A value is in use from the first instruction that makes it to the last that takes it;
arguments and results of the program, to its end. Computations count where they are called; the inside of a fusion makes
no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from strided.errors import UnsupportedError
from strided.layout import AnyShape, TupleShape
from strided.memory.buffers import LiveRange

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

Index: TypeAlias = tuple[int, ...]
#: A value: the instruction, and the place in its result.
Key: TypeAlias = "tuple[Instruction, Index]"

#: Instructions that run other computations, whose values take memory.
_CALLING = frozenset(("while", "conditional", "call", "async-start"))
#: Instructions whose value is their operand's.
_SAME = frozenset(("bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "domain"))
#: Instructions that take no array of their operands into use; the arrays go on under another name.
_NAMING = _SAME | {"tuple", "get-tuple-element"}

_ALIASED = re.compile(r"\{([\d, ]*)\}: *\((\d{1,9}), *\{([\d, ]*)\}")

#: More values than a real program has: a hostile one may nest tuples of tuples.
_MAX_VALUES = 10_000_000


class Liveness:
    """The values of a module, joined where they are one, and their live ranges."""

    def __init__(self, module: Module) -> None:
        self.order = _in_order(module)
        self.schedule = tuple(instruction.name for instruction in self.order)
        self._place = {instruction: n for n, instruction in enumerate(self.order)}
        self._leader: dict[Key, Key] = {}
        self._nodes: dict[Instruction, tuple[tuple[Index, AnyShape], ...]] = {}
        for instruction in self.order:
            self._nodes[instruction] = tuple(_nodes(instruction.shape))
            for index, _ in self._nodes[instruction]:
                self._leader[instruction, index] = (instruction, index)
            if len(self._leader) > _MAX_VALUES:
                raise UnsupportedError(f"a program of more than {_MAX_VALUES} values")
        for instruction in self.order:
            self._join_operands(instruction)
        root = module.entry.root
        for alias in module.aliases:
            parameter = module.parameters[alias.parameter_number : alias.parameter_number + 1]
            if parameter:
                self._join((root, alias.output_index), (parameter[0], alias.parameter_index))
        self._members = self._classes()
        self._ranges = {leader: self._range(members, module) for leader, members in self._members.items()}
        self._by_name = {instruction.name: instruction for instruction in reversed(self.order)}

    def range_of(self, name: str, index: Index | None) -> LiveRange | None:
        """The live range of a value of a buffer assignment; None if the module does not have it."""
        instruction = self._by_name.get(name)
        key = None if instruction is None else self._find((instruction, index or ()))
        return None if key is None else self._ranges[key]

    def values(self) -> Iterator[tuple[tuple[tuple[Instruction, Index, AnyShape], ...], LiveRange]]:
        """Each value: the instructions that have it, with the place in their result and the shape; its live range."""
        shapes = {(i, index): shape for i, nodes in self._nodes.items() for index, shape in nodes}
        for leader, members in self._members.items():
            yield tuple((*key, shapes[key]) for key in members), self._ranges[leader]

    def _find(self, key: Key) -> Key | None:
        leader = self._leader.get(key)
        while leader is not None and leader != key:
            self._leader[key] = self._leader[leader]
            key, leader = leader, self._leader[leader]
        return leader

    def _join(self, a: Key, b: Key) -> None:
        one, other = self._find(a), self._find(b)
        if one is not None and other is not None and one != other:
            self._leader[one] = other

    def _join_all(self, a: Instruction, to: Instruction, prefix: Index = (), inner: Index = ()) -> None:
        """Join every value of `a` below `prefix` with that of `to` below `inner`."""
        for index, _ in self._nodes.get(a, ()):
            if index[: len(prefix)] == prefix:
                self._join((a, index), (to, inner + index[len(prefix) :]))

    def _join_operands(self, i: Instruction) -> None:
        opcode, operands = i.opcode, i.operands
        if not operands:
            return
        if opcode == "tuple":
            for n, operand in enumerate(operands):
                self._join_all(operand, i, inner=(n,))
        elif opcode == "get-tuple-element":
            self._join_all(i, operands[0], inner=_index(i.attributes.get("index", "0"))[:1])
        elif opcode in _SAME:
            self._join_all(i, operands[0])
        elif opcode == "while":
            self._join_all(i, operands[0])
            for computation in i.called_computations:
                for parameter in computation.parameters:
                    self._join_all(i, parameter)
                if computation.root.shape == i.shape:  # the body, not the condition
                    self._join_all(i, computation.root)
        elif opcode in ("conditional", "call", "async-start"):
            self._join_callees(i)
        elif opcode.endswith("-done"):
            self._join_done(i, operands[0])
        elif opcode == "copy-start":
            self._join_all(operands[0], i, inner=(1,))
        elif opcode.endswith("-start") and isinstance(i.shape, TupleShape):
            self._join_all(operands[0], i, inner=(0,))
        if "output_to_operand_aliasing" in i.attributes:
            for output, number, index in _ALIASED.findall(i.attributes["output_to_operand_aliasing"]):
                for operand in operands[int(number) : int(number) + 1]:
                    self._join((i, _index(output)), (operand, _index(index)))

    def _join_callees(self, i: Instruction) -> None:
        first = 1 if i.opcode == "conditional" else 0
        inner = (1,) if i.opcode == "async-start" else ()
        for n, computation in enumerate(i.called_computations):
            self._join_all(computation.root, i, inner=inner)
            given = i.operands[first + n : first + n + 1] if first else i.operands
            for parameter, operand in zip(computation.parameters, given, strict=False):
                self._join_all(parameter, operand)

    def _join_done(self, i: Instruction, start: Instruction) -> None:
        shape = start.shape
        if not isinstance(shape, TupleShape) or shape == i.shape:
            self._join_all(i, start)
        else:
            self._join_all(i, start, inner=(0,) if i.opcode in ("copy-done", "recv-done") else (1,))

    def _classes(self) -> dict[Key, list[Key]]:
        found: dict[Key, list[Key]] = {}
        for key in self._leader:
            leader = self._find(key)
            assert leader is not None
            found.setdefault(leader, []).append(key)
        return found

    def _range(self, members: Sequence[Key], module: Module) -> LiveRange:
        end, root = len(self.order) - 1, module.entry.root
        start, stop = end, 0
        for instruction, index in members:
            place = self._place[instruction]
            if instruction.opcode == "parameter" and instruction.computation.is_entry:
                return LiveRange(0, end)
            start, stop = min(start, place), max(stop, end if instruction is root else place)
            for user in instruction.users:
                if user.opcode not in _NAMING and not (index and user.opcode == "while"):
                    stop = max(stop, self._place.get(user, 0))
        return LiveRange(start, stop)


def _in_order(module: Module) -> list[Instruction]:
    """The instructions in the order in which they run; those of a computation before the instruction that calls it."""
    order: list[Instruction] = []
    seen: set[int] = set()
    todo = [(i, False) for i in reversed(module.entry.instructions)]
    while todo:
        instruction, is_called = todo.pop()
        if is_called or instruction.opcode not in _CALLING:
            order.append(instruction)
            continue
        todo.append((instruction, True))
        for computation in reversed(instruction.called_computations):
            if id(computation) not in seen and not computation.is_entry:
                seen.add(id(computation))
                todo += [(i, False) for i in reversed(computation.instructions)]
    return order


def _nodes(shape: AnyShape | None) -> Iterator[tuple[Index, AnyShape]]:
    """Every shape in a tree, tuples among them, with its place."""
    todo: list[tuple[Index, AnyShape]] = [] if shape is None else [((), shape)]
    while todo:
        index, one = todo.pop()
        yield index, one
        if isinstance(one, TupleShape):
            todo += [((*index, n), part) for n, part in enumerate(one)]


def _index(text: str) -> Index:
    return tuple(int(n[:9]) for n in re.findall(r"\d+", text))
