"""Live ranges of the values of a module.

Each array in each result is a value. Values are joined if an instruction only renames them (tuples, their elements,
bitcasts, the state of a loop). Results that are written in place are joined with their operands only in a scheduled
module; before scheduling, the compiler has not inserted the copies yet.

A value is in use from the first instruction that makes it to its last use; results of the program, to the end;
arguments and constants, throughout. The instructions of a called computation count once for each call, because the
compiler clones computations for each call. Fused instructions make no values. Values of a computation that is started
asynchronously are in use until it is done, since their last use in between is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from strided.dumps.hlo.text_header import aliases
from strided.errors import DumpError, UnsupportedError
from strided.layout import AnyShape, TupleShape
from strided.layout.tuples import subshape
from strided.memory.buffers import LiveRange
from strided.memory.forwarding import (
    CONTROL_FLOW,
    IN_PLACE,
    SAME_VALUE,
    begun_by,
    result_part,
    tuple_index,
    updated_parameter,
    wraps,
)

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module
    from strided.dumps.hlo.computation import Computation
    from strided.dumps.hlo.header import Alias

Index: TypeAlias = tuple[int, ...]
#: The number of the call in which an instruction runs (0 for the entry computation), and the instruction.
Run: TypeAlias = "tuple[int, Instruction]"
#: A part of a result: the instruction, the index in its result, and the shape there.
Member: TypeAlias = "tuple[Instruction, Index, AnyShape]"

#: Instructions whose value is that of their operand.
_SAME = SAME_VALUE | {"bitcast"}
#: Instructions that only rename arrays of their operands and do not use them.
_NAMING = _SAME | {"tuple", "get-tuple-element"}

#: Instructions whose result may contain an operand's value.
_JOINING = _NAMING | CONTROL_FLOW | IN_PLACE | {"fusion", "custom-call", "send"}

#: The most values, and levels of nested tuples: more than any real program has.
_MAX_VALUES, _MAX_LEVELS = 10_000_000, 500
#: The most instructions in repeated calls of computations: of any module, of a small one, and for each instruction of a
#: module. In a hostile module each computation may call the next one twice.
_MAX_CALLED_AGAIN, _LEAST_CALLED_AGAIN, _CALLED_AGAIN = 1_000_000, 50_000, 64


class Liveness:
    """The values of a module, joined where they share a buffer, and their live ranges.

    Each array and each tuple in a result has a number. `_leader` is a union-find forest over these numbers.
    """

    def __init__(self, module: Module) -> None:
        self._order, self._calls = _in_order(module)
        self._has_copies = module.is_scheduled
        self.schedule = tuple(instruction.name for _, instruction in self._order)
        self._place = {run: n for n, run in enumerate(self._order)}
        self._members: list[Member] = []
        self._runs: list[Run] = []  # of each member
        self._number: dict[Run, int] = {}
        self._starts: dict[Run, Run] = {}  # of updates of asynchronous operations
        self._numbers: dict[Run, dict[Index, int]] = {}  # of results that are tuples
        for run in self._order:
            self._enumerate(run)
        self._leader = list(range(len(self._members)))
        #: Values in the memory of one of the program's arguments.
        self._arguments = {n for n, (call, i) in enumerate(self._runs) if i.opcode == "parameter" and not call}
        root = (0, module.entry.root)
        self._join_runs()
        self._join_aliases(module, root)
        self._classes: dict[int, list[int]] = {}
        for number in range(len(self._members)):
            self._classes.setdefault(self._find(number), []).append(number)
        self._last_uses: dict[tuple[Run, bool], int] = {}
        self._until = {0: 0}
        for (call, start, _), inside in self._calls.items():  # those around a call come before it
            self._until[inside] = max(self._until[call], self._done((call, start), root))
        self._ranges = {leader: self._range(numbers, root) for leader, numbers in self._classes.items()}
        self._by_name = {run[1].name: run for run in reversed(self._order)}

    def range_of(self, name: str, index: Index | None) -> LiveRange | None:
        """The live range of a value, named as in a buffer assignment; None if the module does not have it."""
        run = self._by_name.get(name)
        number = None if run is None else self._at(run, index or ())
        return None if number is None else self._ranges[self._find(number)]

    def values(self) -> Iterator[tuple[list[Member], LiveRange]]:
        """Each value: its members (instruction, index in the result, shape), and its live range."""
        for leader, numbers in self._classes.items():
            yield [self._members[number] for number in numbers], self._ranges[leader]

    def _enumerate(self, run: Run) -> None:
        instruction = run[1]
        shape = instruction.shape
        if isinstance(shape, TupleShape):
            self._number[run] = len(self._members)
            nodes = self._numbers[run] = {}
            for index, part in _nodes(shape):
                nodes[index] = len(self._members)
                self._members.append((instruction, index, part))
        elif shape is not None:
            self._number[run] = len(self._members)
            self._members.append((instruction, (), shape))
        self._runs += [run] * (len(self._members) - len(self._runs))
        if len(self._members) > _MAX_VALUES:
            raise UnsupportedError(f"a program of more than {_MAX_VALUES} values")

    def _at(self, run: Run, index: Index) -> int | None:
        """The number of the part of a result at an index; None if there is none."""
        numbers = self._numbers.get(run)
        if numbers is not None:
            return numbers.get(index)
        return None if index else self._number.get(run)

    def _find(self, number: int) -> int:
        leader = self._leader
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    def _join_runs(self) -> None:
        for run in self._order:
            opcode = run[1].opcode
            if opcode in _JOINING or opcode.endswith(("-start", "-update", "-done")):
                operands = [(run[0], operand) for operand in run[1].operands]
                self._join_operands(run, operands)
                self._join_inside(run, operands)

    def _join_aliases(self, module: Module, root: Run) -> None:
        """Join the program's results with the arguments that they alias."""
        parameters = module.parameters
        for alias in module.aliases:
            for parameter in parameters[alias.parameter_number : alias.parameter_number + 1]:
                self._join(self._at(root, alias.output_index), self._at((0, parameter), alias.parameter_index))

    def _join(self, a: int | None, b: int | None) -> None:
        if a is None or b is None:
            return
        first, second = self._find(a), self._find(b)
        # Never join two arguments: a loop may swap them if the compiler has not inserted copies yet.
        if first == second or {first, second} <= self._arguments:
            return
        self._leader[first] = second
        if first in self._arguments:
            self._arguments.add(second)

    def _join_all(self, a: Run, to: Run, inner: Index = ()) -> None:
        """Join each part of the result of `a` with the same part of the result of `to` at index `inner`."""
        numbers = self._numbers.get(a)
        if numbers is None:
            self._join(self._number.get(a), self._at(to, inner))
            return
        for index, number in numbers.items():
            self._join(number, self._at(to, inner + index))

    def _join_operands(self, run: Run, operands: Sequence[Run]) -> None:
        i, opcode = run[1], run[1].opcode
        if not operands:
            return
        if opcode == "tuple":
            for n, operand in enumerate(operands):
                self._join_all(operand, run, inner=(n,))
        elif opcode == "get-tuple-element":
            self._join_all(run, operands[0], inner=(tuple_index(i),))
        elif opcode in _SAME:
            self._join_all(run, operands[0])
        elif opcode.endswith("-update"):
            self._join_all(run, operands[0])
            self._join_added(run, operands)
        elif opcode.endswith("-done"):
            self._join_done(run, operands[0])
        elif opcode == "send":
            self._join_all(operands[0], run, inner=(0,))
        elif opcode in IN_PLACE:
            if self._has_copies:
                self._join_each(run, operands)
        elif opcode in ("fusion", "custom-call"):
            for alias in _operand_aliases(i):
                for operand in operands[alias.parameter_number : alias.parameter_number + 1]:
                    self._join(self._at(run, alias.output_index), self._at(operand, alias.parameter_index))
        if opcode.endswith("-start"):
            self._join_start(run, operands)

    def _join_inside(self, run: Run, operands: Sequence[Run]) -> None:
        """Join an instruction's operands and result with parameters and results of the computations that it calls."""
        operation = begun_by(run[1].opcode)
        if operation == "while":
            self._join_loop(run, operands)
        elif operation in CONTROL_FLOW:
            self._join_callees(run, operands)
        elif operation == "fusion" and run[1].called_computations and self._has_copies:
            self._join_updated(run, operands)

    def _join_loop(self, run: Run, operands: Sequence[Run]) -> None:
        result = result_part(run[1])
        state = self._at(run, result)
        if not operands or state is None:
            return
        first = operands[0]
        if self._has_copies:
            self._join_all(first, run, inner=result)
        for _, inside, computation in self._called(run):
            for parameter in computation.parameters:
                self._join_all((inside, parameter), run, inner=result)
            if computation.root.shape == self._members[state][2]:  # the body, not the condition
                if self._has_copies:
                    self._join_all((inside, computation.root), run, inner=result)
                else:
                    self._join_kept(run, first, computation)

    def _called(self, run: Run) -> Iterator[tuple[int, int, Computation]]:
        """The computations that an instruction calls: position in its list, number of the call, and computation."""
        for n, computation in enumerate(run[1].called_computations):
            if (inside := self._calls.get((*run, n))) is not None:
                yield n, inside, computation

    def _join_kept(self, run: Run, first: Run, body: Computation) -> None:
        """Join the parts of the state that a loop does not change with its initial state."""
        root, result = body.root, result_part(run[1])
        if root.opcode == "parameter":
            self._join_all(first, run, inner=result)
        kept = {
            n
            for n, operand in enumerate(root.operands if root.opcode == "tuple" else ())
            if operand.opcode == "get-tuple-element"
            and operand.operands[0].opcode == "parameter"
            and tuple_index(operand) == n
        }
        self._join_parts(first, run, kept, inner=result)

    def _join_parts(self, a: Run, to: Run, places: Collection[int], inner: Index = ()) -> None:
        """Join the elements of the tuple `a` at some positions with the same parts of `to` at index `inner`."""
        for index, number in self._numbers.get(a, {}).items():
            if index and index[0] in places:
                self._join(number, self._at(to, inner + index))

    def _join_callees(self, run: Run, operands: Sequence[Run]) -> None:
        first = 1 if begun_by(run[1].opcode) == "conditional" else 0
        for n, inside, computation in self._called(run):
            self._join_all((inside, computation.root), run, inner=result_part(run[1]))
            given = operands[first + n : first + n + 1] if first else operands
            for parameter, operand in zip(computation.parameters, given, strict=False):
                self._join_all((inside, parameter), operand)

    def _join_start(self, run: Run, operands: Sequence[Run]) -> None:
        """Join the operands of an asynchronous start with the part of its result that contains them."""
        if wraps(run[1].shape):
            for n, operand in enumerate(operands):
                self._join_all(operand, run, inner=(0, n))
        elif result := result_part(run[1]):  # there are two parts, and one is the result
            self._join_all(operands[0], run, inner=(1 - result[0],))

    def _join_added(self, run: Run, operands: Sequence[Run]) -> None:
        """Join the operands that an update adds to those of its start. The computation runs when it has them all."""
        first, *added = operands
        start = self._starts[run] = self._starts.get(first, first)
        given = subshape(first[1].shape, (0,))
        for n, operand in enumerate(added, len(given) if isinstance(given, TupleShape) else 0):
            self._join_all(operand, run, inner=(0, n))
            for _, inside, computation in self._called(start):
                for parameter in computation.parameters[n : n + 1]:
                    self._join_all((inside, parameter), operand)
        for _, inside, computation in self._called(start):
            self._join_all((inside, computation.root), run, inner=(1,))

    def _join_each(self, run: Run, operands: Sequence[Run]) -> None:
        """Join the result of an in-place update with its operand; if it is a tuple, each element with one operand."""
        shape = run[1].shape
        if not isinstance(shape, TupleShape):
            self._join_all(run, operands[0])
            return
        for n, operand in enumerate(operands[: len(shape)]):
            self._join_all(operand, run, inner=(n,))

    def _join_updated(self, run: Run, operands: Sequence[Run]) -> None:
        """Join results of a fusion that are in-place updates with the operands that they update."""
        root, result = run[1].called_computations[0].root, result_part(run[1])
        is_tuple = root.opcode == "tuple"
        for n, found in enumerate(root.operands if is_tuple else [root]):
            if (updated := updated_parameter(found)) is None:
                continue
            for operand in operands[updated.parameter.parameter_number or 0 :][:1]:
                self._join_all(operand, run, inner=(*result, n) if is_tuple else result)

    def _join_done(self, run: Run, start: Run) -> None:
        (_, i), shape = run, start[1].shape
        if not isinstance(shape, TupleShape) or shape == i.shape:
            self._join_all(run, start)
        elif i.opcode == "recv-done" and i.shape not in tuple(shape):  # what was received, and a token
            self._join_parts(run, start, (0,))
        else:
            self._join_all(run, start, inner=result_part(start[1]))

    def _done(self, run: Run, root: Run) -> int:
        """The position at which the asynchronous operation that a run starts is done; 0 if it starts none.

        The result tuple of the start is in use until then.
        """
        number = self._at(run, ()) if run[1].opcode.endswith("-start") else None
        return 0 if number is None else self._range(self._classes[self._find(number)], root).stop

    def _range(self, numbers: Sequence[int], root: Run) -> LiveRange:
        end = len(self._order) - 1
        start, stop = end, 0
        for number in numbers:
            run, index = self._runs[number], self._members[number][1]
            call, instruction = run
            place = self._place[run]
            is_argument = instruction.opcode == "parameter" and instruction.computation.is_entry
            if is_argument or instruction.opcode == "constant":
                return LiveRange(0, end)
            start, stop = min(start, place), max(stop, end if run == root else place, self._until.get(call, 0))
            stop = max(stop, self._last_use(run, is_part=bool(index)))
        return LiveRange(start, stop)

    def _last_use(self, run: Run, *, is_part: bool) -> int:
        """The position of the last instruction that uses a result, or the parts of a tuple; 0 if there is none.

        Cached, because a tuple of thousands of parts has as many users, which are the same for all parts.
        """
        found = self._last_uses.get((run, is_part))
        if found is None:
            call, instruction = run
            used = (self._place.get((call, user), 0) for user in instruction.users if _uses(user, is_part=is_part))
            found = self._last_uses[run, is_part] = max(used, default=0)
        return found


def _operand_aliases(instruction: Instruction) -> tuple[Alias, ...]:
    """The aliases between result and operands; none if a damaged text does not give them."""
    text = instruction.attributes.get("output_to_operand_aliasing")
    try:
        return () if text is None else aliases(text)
    except DumpError:
        return ()


def _uses(user: Instruction, *, is_part: bool) -> bool:
    """Whether an instruction uses its operand (or with `is_part` the parts of it) and does not only rename it.

    ``get-tuple-element`` uses the tuple's table of pointers, which is the operand itself, but not its parts.
    """
    if user.opcode == "get-tuple-element":
        return not is_part
    return user.opcode not in _NAMING and not (is_part and user.opcode == "while")


def _in_order(module: Module) -> tuple[list[Run], dict[tuple[int, Instruction, int], int]]:
    """The instructions in execution order, and the number of each call.

    For each call, the instructions of the computation come before the calling one. The key of a call is the number of
    the call around it, the instruction, and the position of the computation in its list.
    """
    order: list[Run] = []
    calls: dict[tuple[int, Instruction, int], int] = {}
    seen: set[int] = set()
    around: set[int] = set()  # computations on the call stack: in a hostile module one may call itself
    again, most = 0, min(_MAX_CALLED_AGAIN, _LEAST_CALLED_AGAIN + _CALLED_AGAIN * len(module.instructions))
    todo: list[tuple[Run, set[int] | None]] = [((0, i), None) for i in reversed(module.entry.instructions)]
    while todo:
        run, called = todo.pop()
        call, instruction = run
        if called is not None or begun_by(instruction.opcode) not in CONTROL_FLOW:
            order.append(run)
            around.difference_update(called or ())
            continue
        begun: set[int] = set()
        todo.append((run, begun))
        for n, computation in reversed([*enumerate(instruction.called_computations)]):
            is_around = id(computation) in around and id(computation) not in begun
            if is_around or computation.is_entry:
                continue
            again += len(computation.instructions) if id(computation) in seen else 0
            if again > most:
                raise UnsupportedError(f"calls again and again: more than {most:,} instructions in all")
            inside = calls[call, instruction, n] = len(calls) + 1
            seen.add(id(computation))
            around.add(id(computation))
            begun.add(id(computation))
            todo += [((inside, i), None) for i in reversed(computation.instructions)]
    return order, calls


def _nodes(shape: AnyShape) -> Iterator[tuple[Index, AnyShape]]:
    """Every shape in a tree, including tuples, with its index."""
    todo: list[tuple[Index, AnyShape]] = [((), shape)]
    while todo:
        index, one = todo.pop()
        yield index, one
        if isinstance(one, TupleShape):
            if len(index) == _MAX_LEVELS:
                raise UnsupportedError(f"tuples in tuples, more than {_MAX_LEVELS} levels of them")
            todo += [((*index, n), part) for n, part in enumerate(one)]
