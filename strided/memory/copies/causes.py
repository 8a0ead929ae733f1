"""Whose layout forces a copy, and which layout of an argument or a result would avoid it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from strided.dumps.hlo import Instruction
from strided.layout import AnyShape, Layout, Shape, TupleShape
from strided.memory.copies.changes import Change, changed_place
from strided.memory.copies.dataflow import Dataflow, Place, renaming_factors
from strided.memory.copies.layout_copy import Cause, Cure
from strided.memory.copies.order import carried, layout_without_space, swapped
from strided.memory.copies.traffic import byte_size
from strided.memory.forwarding import operation_of
from strided.memory.provenance import noted_name

_COLLECTIVES = (
    "all-gather all-reduce all-to-all collective-broadcast collective-permute ragged-all-to-all recv reduce-scatter "
    "send"
).split()
#: Operations by how much their layouts are constrained, most first; others accept any layout.
_INSIST = (
    "custom-call convolution dot cholesky fft triangular-solve sort gather scatter reduce-window select-and-scatter "
    "dynamic-update-slice concatenate reshape bitcast-convert reduce infeed outfeed"
).split()
#: The most places that one search visits, that all visit together, and that each visits once these are used up.
_FARTHEST, _IN_ALL, _NEAR = 2000, 1_000_000, 20


class End(NamedTuple):
    """A place, and the layout there that would fit the other side of the copy, or None."""

    place: Place
    layout: Layout | None


class Decider(NamedTuple):
    """An instruction that decides the layout of a value, and the place where it makes or takes the value."""

    instruction: Instruction
    end: End


class Sources(NamedTuple):
    """Where a value comes from: the places where it is made, and the instructions that decide its layout there."""

    ends: list[End]
    makers: list[Decider]


class Targets(NamedTuple):
    """Where a value goes: the program's results, and the instructions that decide its layout there."""

    results: list[End]
    takers: list[Decider]


class Side(NamedTuple):
    """One side of a copy, for a sentence: its subject, the verb in two forms, and the shape.

    `fitting` is the layout, in the dimensions of this shape, with which the other side would need no copy.
    """

    who: str
    does: str
    to_do: str
    shape: AnyShape | None
    fitting: Layout | None = None


class Causes:
    """Finds the causes of a module's changes of layout."""

    def __init__(self, flow: Dataflow, changes: Mapping[Instruction, Change]) -> None:
        self._flow, self._changes = flow, changes
        self._entry, self._left = flow.module.entry, _IN_ALL
        self._results = {a.parameter_number: a.output_index for a in flow.module.aliases if not a.parameter_index}
        self._parameters = {a.output_index: a.parameter_number for a in flow.module.aliases if not a.parameter_index}
        self._inside: dict[Instruction, Change] = {}
        for change in changes.values():
            if change.fusion is not None:
                self._inside.setdefault(change.fusion, change)

    def of(self, change: Change) -> tuple[Cause, Cure | None]:
        """The cause of a change of layout, and its cure if that is a parameter or a result."""
        change = self._inside.get(change.instruction, change)
        if change.instruction.opcode == "reshape":
            sentence = f"{_title(change.instruction)} joins or splits dimensions that tiles cut"
            return _operation(change.instruction, sentence), None
        sources, targets = self._sources(change), self._targets(change)
        source, target = self._most_insistent(sources.makers), self._most_insistent(targets.takers)
        made = Side("it", "is made as", "be made as", change.before)
        taken = Side("what uses it", "takes", "take", change.after)
        if source:
            made = Side(_title(source.instruction), "makes", "make", source.end.place.shape, source.end.layout)
        if target:
            taken = Side(_title(target.instruction), "takes", "take", target.end.place.shape, target.end.layout)
        for end in sources.ends:
            parameter = end.place.instruction
            part = targets.results and _elements(end.place.shape) > _elements(change.before)
            if parameter.opcode == "parameter" and parameter.computation is self._entry and not part:
                is_returned = targets.results and not target
                return self._parameter(end, self._returned(targets.results[0]) if is_returned else taken)
        if targets.results:
            return self._result(targets.results[0], made)
        if target and (source is None or _insistence(target.instruction) <= _insistence(source.instruction)):
            return _operation(target.instruction, _sentence(taken, made)), None
        if source:
            return _operation(source.instruction, _sentence(made, taken)), None
        return _operation(change.instruction, f"nothing near {_title(change.instruction)} asks for this layout"), None

    def _parameter(self, end: End, taken: Side) -> tuple[Cause, Cure | None]:
        parameter, index = end.place
        name, number = noted_name(parameter) or parameter.name, parameter.parameter_number or 0
        passed = Side(name, "is passed as", "be passed as", end.place.shape, end.layout)
        cause = Cause("parameter", name, parameter, number, _sentence(passed, taken))
        shared = self._results.get(number, ())
        return cause, None if index else _cure(cause, end, shared[0] if len(shared) == 1 else None)

    def _result(self, end: End, made: Side) -> tuple[Cause, Cure | None]:
        root, index = end.place
        returned, number = self._returned(end), index[0] if index else 0
        cause = Cause("result", returned.who, root, number, _sentence(returned, made))
        return cause, None if len(index) > 1 else _cure(cause, end, self._parameters.get(index))

    def _returned(self, end: End) -> Side:
        return Side(self._result_name(end.place), "is returned as", "be returned as", end.place.shape, end.layout)

    def _result_name(self, place: Place) -> str:
        whole = place.instruction.shape
        if not isinstance(whole, TupleShape) or len(whole) == 1:
            return "the result"
        return f"result {'.'.join(map(str, place.part))}"

    # ---- the two searches -------------------------------------------------------------------------------------------

    def _sources(self, change: Change) -> Sources:
        """Where the value is made, each with the layout there that would need no copy."""
        here, ends = changed_place(change.instruction), []

        def onwards(place: Place) -> list[Place]:
            found = [] if place.instruction in self._changes and place != here else self._flow.before(place)
            if not found:
                ends.append(place)
            return found

        layouts = self._search(here, _wanted(change.after), onwards, backwards=True)
        found = [End(place, layouts[place]) for place in ends]
        return Sources(found, [Decider(end.place.instruction, end) for end in found] + _insistent(layouts))

    def _targets(self, change: Change) -> Targets:
        """The users of the value, and the results, each with the layout there that would need no copy."""
        here = changed_place(change.instruction)
        takers: list[tuple[Instruction, Place]] = []

        def onwards(place: Place) -> list[Place]:
            found, taken = self._flow.after(place)
            takers.extend((instruction, place) for instruction in taken)
            takers.extend((next.instruction, place) for next in found if next.instruction in self._changes)
            return [next for next in found if next.instruction not in self._changes]

        before = _wanted(change.before)
        for operand in self._flow.before(here):  # a transpose permutes dimensions
            before = _renamed(before, operand, here, backwards=False)
        layouts = self._search(here, before, onwards, backwards=False)
        results = [End(*pair) for pair in layouts.items() if pair[0].instruction is self._entry.root]
        found = [Decider(taker, End(place, layouts[place])) for taker, place in takers]
        return Targets([end for end in results if isinstance(end.place.shape, Shape)], found + _insistent(layouts))

    def _search(
        self, here: Place, layout: Layout | None, onwards: Callable[[Place], list[Place]], *, backwards: bool
    ) -> dict[Place, Layout | None]:
        """The places that a search visits, nearest first, with `layout` as it is in their dimensions."""
        found = {here: layout}
        waiting = deque(found)
        farthest = min(_FARTHEST, max(_NEAR, self._left))
        while waiting:
            place = waiting.popleft()
            for next in onwards(place):
                if next not in found and len(found) < farthest:
                    found[next] = _renamed(found[place], place, next, backwards)
                    waiting.append(next)
        self._left -= len(found)
        return found

    def _most_insistent(self, deciders: list[Decider]) -> Decider | None:
        """The decider with the most constrained layout; another change of layout only if there is no other."""
        return min(deciders, key=lambda d: (d.instruction in self._changes, _insistence(d.instruction)), default=None)


def _renamed(layout: Layout | None, place: Place, next: Place, backwards: bool) -> Layout | None:
    """The layout of a value at one place, in the dimensions of the next one; None if unknown."""
    one, other = place.shape, next.shape
    if layout is None or not isinstance(one, Shape) or not isinstance(other, Shape):
        return None
    factors = renaming_factors(next, place) if backwards else renaming_factors(place, next)
    if factors is None:
        return None
    if backwards:
        factors = swapped(factors)
    if one.rank == other.rank and all(f.one == f.other for f in factors):
        same = (one.element_type, one.dimensions) == (other.element_type, other.dimensions)
        return layout if same else Layout(layout.minor_to_major)
    return carried(layout, one, other, factors)


def _wanted(shape: AnyShape | None) -> Layout | None:
    return layout_without_space(shape) if isinstance(shape, Shape) else None


def _operation(instruction: Instruction, sentence: str) -> Cause:
    kind = "collective" if operation_of(instruction.opcode) in _COLLECTIVES else "operation"
    return Cause(kind, instruction.name, instruction, None, sentence)


def _cure(cause: Cause, end: End, shares: int | None) -> Cure | None:
    shape = end.place.shape
    if end.layout is None or cause.number is None or not isinstance(shape, Shape):
        return None
    present = layout_without_space(shape)
    if present is None or (end.layout.minor_to_major, end.layout.tiles or present.tiles) == (
        present.minor_to_major,
        present.tiles,
    ):
        return None
    wanted = shape.with_layout(end.layout)
    extra = byte_size(wanted) - byte_size(shape) if end.layout.tiles or not present.tiles else None
    return Cure(cause.kind, cause.name, cause.number, wanted, shares, extra)


def _insistent(layouts: Mapping[Place, Layout | None]) -> list[Decider]:
    """Instructions that forward a value, but do not accept every layout."""
    updates = (End(*pair) for pair in layouts.items() if pair[0].instruction.opcode == "dynamic-update-slice")
    return [Decider(end.place.instruction, end) for end in updates]


def _insistence(instruction: Instruction) -> int:
    """The position of an operation in `_INSIST`; collectives come before all, other operations after all."""
    name = operation_of(instruction.opcode)
    if name in _COLLECTIVES:
        return -1
    return _INSIST.index(name) if name in _INSIST else len(_INSIST)


def _sentence(side: Side, other: Side) -> str:
    """How the layouts of two sides differ, each in its own dimensions, as in the program's text."""
    found = f"{side.who} {side.does} {_layout(side.shape)}, but {other.who} {other.does} {_layout(other.shape)}"
    layout = _wanted(other.shape)
    if side.fitting is None or layout is None:
        return found + ", in other dimensions" * (_layout(side.shape) == _layout(other.shape))
    if side.fitting.minor_to_major == layout.minor_to_major:
        return found
    tiles = " with tiles" * (bool(layout.tiles) and not side.fitting.tiles)
    return f"{found}, for which it would have to {side.to_do} {side.fitting}{tiles}"


def _title(instruction: Instruction) -> str:
    """An instruction's name, and that of its operation in the program."""
    name = str(instruction.metadata.get("op_name", "")).rpartition("/")[2]
    return f"{instruction.name} ({name})" if name else instruction.name


def _elements(shape: AnyShape | None) -> int:
    """The number of elements of an array; 0 for any other shape."""
    return math.prod(shape.dimensions) if isinstance(shape, Shape) else 0


def _layout(shape: AnyShape | None) -> str:
    layout = _wanted(shape)
    return str(shape if layout is None else layout)
