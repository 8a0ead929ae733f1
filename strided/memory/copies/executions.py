"""How often each computation runs, from the trip counts of loops as far as the module shows them."""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from strided.dumps.hlo import Instruction
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.instruction import operands_of
from strided.memory.copies.dataflow import Dataflow, Place, loop_of
from strided.memory.forwarding import begun_by

_KNOWN = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,19})')
#: The most executions that are counted: no program that ends has more.
_MOST = 2**63 - 1
#: The most steps that are followed from a loop's counter to the constants that bound it.
_LONGEST = 200


class Executions(NamedTuple):
    """How often a computation runs in one run of the program, where loops of unknown count run once."""

    times: int
    known: bool


def executions(flow: Dataflow) -> dict[Computation, Executions]:
    """How often each computation runs. One that calls itself, or is not called, counts once and as unknown."""
    calls: dict[Computation, list[tuple[Computation, Instruction]]] = {}
    waiting: dict[Computation, int] = {}
    for callee, callers in flow.callers.items():
        waiting[callee] = len(callers)
        for caller in callers:
            calls.setdefault(caller.computation, []).append((callee, caller))
    found: dict[Computation, Executions] = {flow.module.entry: Executions(1, True)}
    summed: dict[Computation, Executions] = {}
    ready = deque[Computation](c for c in flow.module.computations if not waiting.get(c))
    while ready:
        computation = ready.popleft()
        own = found.setdefault(computation, summed.get(computation, Executions(1, False)))
        for callee, caller in calls.get(computation, ()):
            count = trip_count(flow, caller) if begun_by(caller.opcode) == "while" else 1
            times, known = summed.get(callee, Executions(0, True))
            more = own.times * (1 if count is None else count)
            summed[callee] = Executions(min(times + more, _MOST), known and own.known and count is not None)
            waiting[callee] -= 1
            if not waiting[callee]:
                ready.append(callee)
    return found


def trip_count(flow: Dataflow, loop: Instruction) -> int | None:
    """How often the body of a ``while`` runs, or None.

    The count was recorded by the compiler, or follows from a counter that starts at a constant, grows by a constant,
    and is compared with a constant. It is 0 if the first test fails, whatever the body does.
    """
    noted = _KNOWN.search(loop.backend_config or "")
    if noted:
        return int(noted[1])
    parts, operands = loop_of(loop), operands_of(loop)
    if parts is None or not operands:
        return None
    test = _origin(flow, Place(parts.condition.root)).instruction
    compared = operands_of(test)
    if test.opcode != "compare" or len(compared) != 2:
        return None
    direction = test.attributes.get("direction", "")
    counter, limit = (_origin(flow, Place(operand)) for operand in compared)
    if limit.instruction.opcode == "parameter":
        counter, limit, direction = limit, counter, _MIRRORED.get(direction, direction)
    if counter.instruction.computation is not parts.condition or counter.instruction.opcode != "parameter":
        return None
    start = _integer(_origin(flow, Place(operands[0], counter.part)))
    stop = _integer(limit)
    if start is None or stop is None or direction not in _TESTS:
        return None
    if not _TESTS[direction](start, stop):
        return 0
    step = _step(flow, parts.body, counter.part)
    return _count(start, stop, step, direction) if step else None


_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_TESTS: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _count(start: int, stop: int, step: int, direction: str) -> int | None:
    """How often a counter passes its test, if it does at the start; None if the steps lead away from the end."""
    if direction == "NE":
        count, rest = divmod(stop - start, step)
        return count if count > 0 and not rest else None
    if direction == "EQ":
        return 1
    if (step > 0) != (direction in ("LT", "LE")):
        return None
    last = stop - (direction == "LT") + (direction == "GT")
    return (last - start) // step + 1


def _step(flow: Dataflow, body: Computation, index: tuple[int, ...]) -> int | None:
    """The constant that one run of the body adds to the part of the state at `index`; None if there is none."""
    change = _origin(flow, Place(body.root, index)).instruction
    operands = operands_of(change)
    if change.opcode not in ("add", "subtract") or len(operands) != 2:
        return None
    one, other = (_origin(flow, Place(operand)) for operand in operands)
    if change.opcode == "add" and other.instruction.opcode == "parameter":
        one, other = other, one
    amount = _integer(other)
    if amount is None or one.part != index or one.instruction not in body.parameters:
        return None
    return amount if change.opcode == "add" else -amount


def _origin(flow: Dataflow, place: Place) -> Place:
    """The place where a value is made, or the part of a loop's state that changes between runs."""
    for _ in range(_LONGEST):
        before = flow.before(place)
        if len(before) == 2 and _is_kept(flow, place, _through(flow, before[1])):
            before = before[:1]
        if len(before) != 1:
            break
        place = before[0]
    return place


def _is_kept(flow: Dataflow, place: Place, after: Place) -> bool:
    """Whether a part of a loop's state is the same after a run of the body, which leaves `after` there."""
    if place.instruction.opcode != "parameter" or after.instruction.opcode != "parameter":
        return False
    callers, after_callers = (flow.callers.get(each.instruction.computation) for each in (place, after))
    return place.part == after.part and callers == after_callers


def _through(flow: Dataflow, place: Place) -> Place:
    for _ in range(_LONGEST):
        before = flow.before(place)
        if len(before) != 1:
            break
        place = before[0]
    return place


def _integer(place: Place) -> int | None:
    text = (place.instruction.literal or "").strip() if place.instruction.opcode == "constant" else ""
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
