"""Rewrite asynchronous operations with a one-instruction body to XLA's short form.

A text may wrap an instruction in a computation and start that (``async-start(x), calls=wrapped``). If the computation
holds only that instruction, XLA prints ``slice-start(x)`` with the instruction's attributes instead, without the
computation. Both are read as the short form, as from protos. Newer compilers pass operands to updates: their text
shows all bodies, which are kept. A body that is itself asynchronous is kept, too: its short form in XLA,
``async-start-start(x)``, does not say what is started, and XLA cannot read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from strided.dumps.hlo.attribute_writers import MAIN_THREAD
from strided.dumps.hlo.attributes import CALLEE_NAMES, LAST
from strided.dumps.hlo.computation import Computation, has_one_operation
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.lexer import inside, split_list
from strided.dumps.hlo.module_builder import are_alike
from strided.dumps.hlo.quoting import unescape
from strided.dumps.hlo.text_instruction import TextInstruction
from strided.errors import DumpError
from strided.layout import AnyShape

_THREAD = "async_execution_thread"
_PARTS = ("async-start", "async-update", "async-done")


def unfold(computations: Sequence[Computation], tell: Callable[[int, str], None]) -> list[Computation]:
    """Give asynchronous operations their short form; return the computations that this makes redundant.

    `tell` is called with a line (from 0) and a reason where an operation does not match its body, which the short form
    would hide.
    """
    by_name = {computation.name: computation for computation in computations}
    shows_bodies = any(
        instruction.opcode == "async-update" and len(instruction.written_operands) > 1
        for computation in computations
        for instruction in computation.instructions
        if isinstance(instruction, TextInstruction)
    )
    shortened: list[tuple[TextInstruction, Mapping[str, str], Computation]] = []
    reached = set[Computation]()
    for computation in computations:
        bodies: dict[str, Computation] = {}
        for instruction in _asynchronous(computation):
            attributes = instruction.written_attributes
            if _THREAD in attributes:
                _spread_thread(unescape(attributes[_THREAD]), instruction, by_name, reached)
            if shows_bodies or instruction.opcode not in _PARTS:
                continue
            if (body := _body_of(instruction, attributes, by_name, bodies)) is not None:
                bodies[instruction.name] = body
                if problem := _problem(instruction, attributes, body):
                    tell(instruction.line - 1, f"{problem} the computation {body.name!r}")
                shortened.append((instruction, attributes, body))
            elif instruction.opcode != "async-start" and attributes.pop("calls", None) is not None:
                instruction.rewrite(instruction.opcode, attributes)
    for part, written, body in shortened:  # only now, because the loop above looks at opcodes
        _shorten(part, written, body.root)
    return list(dict.fromkeys(body for *_, body in shortened))


def _asynchronous(computation: Computation) -> Iterator[TextInstruction]:
    """The instructions of a computation that belong to asynchronous operations, or name a thread."""
    for instruction in computation.instructions:
        assert isinstance(instruction, TextInstruction)
        if instruction.opcode in _PARTS or _THREAD in instruction.text:
            yield instruction


def _body_of(
    part: TextInstruction,
    attributes: Mapping[str, str],
    by_name: Mapping[str, Computation],
    bodies: Mapping[str, Computation],
) -> Computation | None:
    """The body of an asynchronous operation if it is one instruction; `bodies` are those of earlier instructions."""
    if part.opcode == "async-start":
        body = by_name.get(attributes.get("calls", "").removeprefix("%"))
    else:  # it continues what its first operand started
        body = bodies.get(next(iter(part.written_operands), ""))
    return body if body is not None and has_one_operation(body) else None


def _problem(instruction: TextInstruction, attributes: Mapping[str, str], body: Computation) -> str | None:
    """How an asynchronous operation differs from its `body` in ways that the short form would hide; None if it fits."""
    mismatch = "not as in"
    if attributes.get("calls", body.name).removeprefix("%") != body.name:
        return mismatch
    if instruction.opcode == "async-done":
        return None if _are_alike(instruction, body.root) else mismatch
    if instruction.opcode == "async-update":
        return None
    names = instruction.operand_names
    if [i.parameter_number for i in body.parameters] != list(range(len(names))):
        return mismatch
    if body.root.opcode == "parameter" and len(names) > 1:
        return "no word of which parameter is the result of"
    try:
        given = [instruction.computation.instruction(name) for name in names]
    except DumpError:  # reported elsewhere
        return None
    return None if all(map(_are_alike, given, body.parameters)) else mismatch


def _are_alike(one: Instruction, other: Instruction) -> bool:
    return are_alike(_written_shape(one), _written_shape(other))


def _written_shape(instruction: Instruction) -> AnyShape | None:
    return instruction.written_shape if isinstance(instruction, TextInstruction) else None


def _shorten(instruction: TextInstruction, attributes: Mapping[str, str], wrapped: Instruction) -> None:
    assert isinstance(wrapped, TextInstruction)
    part = instruction.opcode.removeprefix("async-")
    first = {_THREAD: attributes[_THREAD]} if _THREAD in attributes else {}
    body = wrapped.written_attributes if part == "start" else {}
    own = {name: text for name, text in body.items() if name not in (*LAST, "control-predecessors")}
    kept = {name: text for name, text in attributes.items() if name not in (_THREAD, "calls")}
    instruction.rewrite(f"{wrapped.opcode}-{part}", {**first, **own, **kept})


def _spread_thread(
    thread: str, caller: TextInstruction, by_name: Mapping[str, Computation], reached: set[Computation]
) -> None:
    """Put all computations that an asynchronous operation calls, directly or not, on its thread, and in `reached`."""
    waiting = [caller] if thread != MAIN_THREAD else []
    while waiting:
        for called in _callees(waiting.pop(), by_name):
            if called not in reached and called.execution_thread in ("", thread):
                reached.add(called)
                called.execution_thread = thread
                waiting += [i for i in called.instructions if isinstance(i, TextInstruction)]


def _callees(caller: TextInstruction, by_name: Mapping[str, Computation]) -> Iterator[Computation]:
    bodies = caller.bodies or {}
    for key, text in caller.written_attributes.items():
        if key in bodies:
            yield from bodies[key]
        elif key in CALLEE_NAMES:
            names = (name.removeprefix("%") for name in split_list(inside(text)))
            yield from (by_name[name] for name in names if name in by_name)
