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
#: A part of a result: the instruction, the place, and the shape there.
Member: TypeAlias = "tuple[Instruction, Index, AnyShape]"

#: Instructions that run other computations, whose values take memory.
_CALLING = frozenset(("while", "conditional", "call", "async-start"))
#: Instructions whose value is their operand's.
_SAME = frozenset(("bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "domain"))
#: Instructions that take no array of their operands into use; the arrays go on under another name.
_NAMING = _SAME | {"tuple", "get-tuple-element"}

#: Instructions that write their first operand's memory; the compiler has copied it if it is needed afterwards.
_IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))
#: Instructions that may give an operand's value again.
_JOINING = _NAMING | _CALLING | _IN_PLACE | {"fusion", "custom-call"}

_ALIASED = re.compile(r"\{([\d, ]*)\}: *\((\d{1,9}), *\{([\d, ]*)\}")

#: More values, and tuples in tuples, than a real program has: a hostile one may nest them.
_MAX_VALUES, _MAX_LEVELS = 10_000_000, 500


class Liveness:
    """The values of a module, joined where they are one, and their live ranges.

    Every array and every tuple of a result has a number; `_leader` leads from it to that of the value it belongs to.
    """

    def __init__(self, module: Module) -> None:
        self.order = _in_order(module)
        self.schedule = tuple(instruction.name for instruction in self.order)
        self._place = {instruction: n for n, instruction in enumerate(self.order)}
        self._members: list[Member] = []
        self._number: dict[Instruction, int] = {}
        self._numbers: dict[Instruction, dict[Index, int]] = {}  # of results that are tuples
        for instruction in self.order:
            self._enumerate(instruction)
        self._leader = list(range(len(self._members)))
        for instruction in self.order:
            if instruction.opcode in _JOINING or instruction.opcode.endswith(("-start", "-update", "-done")):
                self._join_operands(instruction)
        root, parameters = module.entry.root, module.parameters
        for alias in module.aliases:
            for parameter in parameters[alias.parameter_number : alias.parameter_number + 1]:
                self._join(self._at(root, alias.output_index), self._at(parameter, alias.parameter_index))
        self._classes: dict[int, list[Member]] = {}
        for number, member in enumerate(self._members):
            self._classes.setdefault(self._find(number), []).append(member)
        self._ranges = {leader: self._range(members, root) for leader, members in self._classes.items()}
        self._by_name = {instruction.name: instruction for instruction in reversed(self.order)}

    def range_of(self, name: str, index: Index | None) -> LiveRange | None:
        """The live range of a value of a buffer assignment; None if the module does not have it."""
        instruction = self._by_name.get(name)
        number = None if instruction is None else self._at(instruction, index or ())
        return None if number is None else self._ranges[self._find(number)]

    def values(self) -> Iterator[tuple[list[Member], LiveRange]]:
        """Each value: the instructions that have it, with the place in their result and the shape; its live range."""
        for leader, members in self._classes.items():
            yield members, self._ranges[leader]

    def _enumerate(self, instruction: Instruction) -> None:
        shape = instruction.shape
        self._number[instruction] = len(self._members)
        if isinstance(shape, TupleShape):
            nodes = self._numbers[instruction] = {}
            for index, part in _nodes(shape):
                nodes[index] = len(self._members)
                self._members.append((instruction, index, part))
        elif shape is not None:
            self._members.append((instruction, (), shape))
        else:
            del self._number[instruction]
        if len(self._members) > _MAX_VALUES:
            raise UnsupportedError(f"a program of more than {_MAX_VALUES} values")

    def _at(self, instruction: Instruction, index: Index) -> int | None:
        """The number of a part of a result; None if there is none."""
        numbers = self._numbers.get(instruction)
        if numbers is not None:
            return numbers.get(index)
        return None if index else self._number.get(instruction)

    def _find(self, number: int) -> int:
        leader = self._leader
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    def _join(self, a: int | None, b: int | None) -> None:
        if a is not None and b is not None:
            self._leader[self._find(a)] = self._find(b)

    def _join_all(self, a: Instruction, to: Instruction, inner: Index = ()) -> None:
        """Join every part of the result of `a` with that part of `to` below `inner`."""
        numbers = self._numbers.get(a)
        if numbers is None:
            self._join(self._number.get(a), self._at(to, inner))
            return
        for index, number in numbers.items():
            self._join(number, self._at(to, inner + index))

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
        elif opcode in ("conditional", "call"):
            self._join_callees(i)
        elif opcode == "async-start":
            self._join_callees(i)
            self._join_start(i)
        elif opcode.endswith("-update"):
            self._join_all(i, operands[0])
        elif opcode.endswith("-done"):
            self._join_done(i, operands[0])
        elif opcode == "copy-start":
            self._join_all(operands[0], i, inner=(1,))
        elif opcode.endswith("-start") and isinstance(i.shape, TupleShape):
            self._join_start(i)
        elif opcode in _IN_PLACE:
            self._join_each(i, operands)
        elif opcode in ("fusion", "custom-call"):
            if opcode == "fusion" and i.called_computations:
                self._join_updated(i)
            for output, number, index in _ALIASED.findall(i.attributes.get("output_to_operand_aliasing", "")):
                for operand in operands[int(number) : int(number) + 1]:
                    self._join(self._at(i, _index(output)), self._at(operand, _index(index)))

    def _join_callees(self, i: Instruction) -> None:
        first = 1 if i.opcode == "conditional" else 0
        inner = (1,) if i.opcode == "async-start" else ()
        for n, computation in enumerate(i.called_computations):
            self._join_all(computation.root, i, inner=inner)
            given = i.operands[first + n : first + n + 1] if first else i.operands
            for parameter, operand in zip(computation.parameters, given, strict=False):
                self._join_all(parameter, operand)

    def _join_start(self, i: Instruction) -> None:
        """Join the operands of an asynchronous operation with the first part of its result, which names them again."""
        for n, operand in enumerate(i.operands):
            self._join_all(operand, i, inner=(0, n) if self._at(i, (0, n)) is not None else (0,) if n == 0 else (-1,))

    def _join_each(self, i: Instruction, operands: Sequence[Instruction]) -> None:
        """Join the result of an update in place with the operand that it updates; a tuple's parts with one each."""
        if not isinstance(i.shape, TupleShape):
            self._join_all(i, operands[0])
            return
        for n, operand in enumerate(operands[: len(i.shape)]):
            self._join_all(operand, i, inner=(n,))

    def _join_updated(self, i: Instruction) -> None:
        """Join the results of a fusion that are updates in place with the operands that they update."""
        root = i.called_computations[0].root
        is_tuple = root.opcode == "tuple"
        for n, found in enumerate(root.operands if is_tuple else [root]):
            if found.opcode not in _IN_PLACE | _SAME or isinstance(found.shape, TupleShape):
                continue
            is_updated = False
            while found.opcode in _SAME | _IN_PLACE and found.operand_names:
                is_updated |= found.opcode in _IN_PLACE
                found = found.operands[0]
            if is_updated and found.opcode == "parameter":
                for operand in i.operands[found.parameter_number or 0 :][:1]:
                    self._join_all(operand, i, inner=(n,) if is_tuple else ())

    def _join_done(self, i: Instruction, start: Instruction) -> None:
        shape = start.shape
        if not isinstance(shape, TupleShape) or shape == i.shape:
            self._join_all(i, start)
        else:
            self._join_all(i, start, inner=(0,) if i.opcode in ("copy-done", "recv-done") else (1,))

    def _range(self, members: Sequence[Member], root: Instruction) -> LiveRange:
        end = len(self.order) - 1
        start, stop = end, 0
        for instruction, index, _ in members:
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


def _nodes(shape: AnyShape) -> Iterator[tuple[Index, AnyShape]]:
    """Every shape in a tree, tuples among them, with its place."""
    todo: list[tuple[Index, AnyShape]] = [((), shape)]
    while todo:
        index, one = todo.pop()
        yield index, one
        if isinstance(one, TupleShape):
            if len(index) == _MAX_LEVELS:
                raise UnsupportedError(f"tuples in tuples, more than {_MAX_LEVELS} levels of them")
            todo += [((*index, n), part) for n, part in enumerate(one)]


def _index(text: str) -> Index:
    return tuple(int(n[:9]) for n in re.findall(r"\d+", text))
