"""Asynchronous operations whose body is one instruction, in the words in which XLA prints them.

A text may wrap an instruction in a computation and start that (``async-start(x), calls=wrapped``). Where the
computation holds that one instruction, XLA prints the same as ``slice-start(x)`` with the instruction's attributes, and
no computation. Both come out in the short form, as they do from protos. Newer compilers hand operands to updates: their
own text shows all bodies, and so do we.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from strided.dumps.hlo.attribute_writers import MAIN_THREAD
from strided.dumps.hlo.attributes import LAST
from strided.dumps.hlo.lexer import inside, split_list, unescape
from strided.dumps.hlo.module import Computation
from strided.dumps.hlo.text_instruction import CALLEES, TextInstruction

_THREAD = "async_execution_thread"


def unfold(computations: Sequence[Computation]) -> list[Computation]:
    """Give asynchronous operations their short form; returns the computations that become part of an instruction."""
    by_name = {computation.name: computation for computation in computations}
    shows_bodies = any(
        instruction.opcode == "async-update" and len(instruction.written_operands) > 1
        for computation in computations
        for instruction in computation.instructions
        if isinstance(instruction, TextInstruction)
    )
    folded: dict[Computation, None] = {}
    reached = set[Computation]()
    for computation in computations:
        bodies: dict[str, Computation] = {}
        for instruction in computation.instructions:
            assert isinstance(instruction, TextInstruction)
            if not instruction.opcode.startswith("async-") and _THREAD not in instruction.text:
                continue
            attributes = instruction.written_attributes
            if _THREAD in attributes:
                _spread_thread(unescape(attributes[_THREAD]), instruction, by_name, reached)
            if instruction.opcode == "async-start":
                body = by_name.get(attributes.get("calls", "").removeprefix("%"))
            else:  # it goes on with what its first operand started
                body = bodies.get(next(iter(instruction.written_operands), ""))
            if shows_bodies:
                continue
            if body is not None and all(i.is_root or i.opcode == "parameter" for i in body.instructions):
                bodies[instruction.name] = body
                folded[body] = None
                _shorten(instruction, attributes, body.root)
            elif instruction.opcode in ("async-update", "async-done") and attributes.pop("calls", None) is not None:
                instruction.rewrite(instruction.opcode, attributes)
    return list(folded)


def _shorten(instruction: TextInstruction, attributes: Mapping[str, str], wrapped: object) -> None:
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
    """Put all that an asynchronous operation calls, directly or indirectly, on its thread, and note it as `reached`."""
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
        elif key in CALLEES:
            names = (name.removeprefix("%") for name in split_list(inside(text)))
            yield from (by_name[name] for name in names if name in by_name)
