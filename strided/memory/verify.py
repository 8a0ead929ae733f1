"""Puts cures to the compiler: the program is compiled ahead of time, as it is and with each cure.

The program is the module before optimizations. A cure changes the shape of an argument or a result, and an operation
beside it gives the program the shape that it had; the compiler takes out what is not needed. What lies inside a program
has no place at which it could be changed, so cures for temporaries stay estimates.

The compiler runs in a process of its own, with a time limit: it ends the process on some requests.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from strided.errors import DumpError, UnsupportedError
from strided.layout import Shape
from strided.memory.ahead_of_time import compile_hlo
from strided.memory.buffers import Buffer, Cure
from strided.memory.generation import generation_of
from strided.memory.provenance import argument_name
from strided.memory.report import MemoryReport
from strided.memory.usage_text import read_usage_text

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

#: Seconds that one compilation may take, and how many cures are tried.
_TIMEOUT, _MOST_CURES = 180, 6
#: Attributes of a header that do not fit a changed argument; the shapes of the entry follow from its instructions.
_FIXED = frozenset(("entry_computation_layout", "buffer_donor"))
_MODES = re.compile(r'\barg_layout_modes="([^"]*)"')


def with_verified_cures(report: MemoryReport, module: Module | None, generation: str | None) -> MemoryReport:
    """The report with the compiler's own bytes for the cures of arguments and results that save most.

    A cure that the compiler does not confirm is left out.

    Raises
    ------
    UnsupportedError
        JAX or libtpu is not installed, or the compiler refuses the program as it is.
    """
    if module is None:
        note = "nothing is verified: there is no module before optimizations, in the dump or given beside it"
        return replace(report, notes=(*report.notes, note))
    generation = generation or generation_of(report.buffers)
    tried = sorted(((cure, b) for b in report.buffers for cure in b.cures), key=lambda pair: -pair[0].saved_bytes)
    edits = [(cure, b, edit) for cure, b in tried if (edit := edited(module, b, cure)) is not None][:_MOST_CURES]
    if not edits:
        return replace(
            report,
            notes=(*report.notes, "no cure could be verified: none is for an argument that can be changed alone"),
        )
    before = compiled_bytes(original(module), generation)
    notes = [f"the compiler gives the program as it is {before:,} bytes ({generation})"]
    outcome: dict[int, Cure | None] = {}
    for cure, buffer, edit in edits:
        try:
            after = compiled_bytes(edit, generation)
        except UnsupportedError as error:
            notes.append(f"{cure.kind} of {buffer.name} could not be verified: {error}")
            continue
        if after < before:
            confirmed = replace(cure, certainty="verified", saved_bytes=before - after, compiled_bytes=(before, after))
            outcome[id(cure)] = confirmed
        else:
            outcome[id(cure)] = None
            notes.append(f"{cure.kind} of {buffer.name} saves nothing: the compiler gives {after:,} bytes")
    buffers = tuple(replace(b, cures=_confirmed(b, outcome)) for b in report.buffers)
    if any(cure.certainty == "estimate" for b in buffers for cure in b.cures):
        notes.append("estimates are not tried: they change the program itself; change it, and dump it once more")
    return replace(report, buffers=buffers, notes=(*report.notes, *notes))


def _confirmed(buffer: Buffer, outcome: dict[int, Cure | None]) -> tuple[Cure, ...]:
    cures = (outcome.get(id(cure), cure) for cure in buffer.cures)
    return tuple(sorted((cure for cure in cures if cure is not None), key=lambda cure: -cure.saved_bytes))


def original(module: Module) -> str:
    """The module as it is, as text."""
    return _text(module, _modes(module), {})


def edited(module: Module, buffer: Buffer, cure: Cure) -> str | None:
    """The module with a cure, as text.

    None if the buffer is no argument that can be told, is sharded, or has no other layout to give up; also if a result
    takes its memory, which would have to be another one, too.
    """
    parameter = _parameter(module, buffer, cure)
    if parameter is None or parameter.sharding not in (None, "{replicated}"):
        return None
    if any(alias.parameter_number == parameter.parameter_number for alias in module.aliases):
        return None
    modes, number = list(_modes(module)), parameter.parameter_number or 0
    asked = number < len(modes) and modes[number] != "default"
    if asked:
        modes[number] = "default"
    if cure.kind == "layout":
        return _text(module, modes, {}) if asked else None
    return _text(module, modes, {parameter: _restored(parameter, cure)})


def _modes(module: Module) -> Sequence[str]:
    """The layouts that a program asks for its arguments, as JAX records them."""
    noted = module.frontend_attributes.get("arg_layout_modes", "")
    return noted.split(";") if noted else []


def _parameter(module: Module, buffer: Buffer, cure: Cure) -> Instruction | None:
    """The parameter that a buffer holds: the one of its name, or the only one of its shape."""
    if buffer.kind not in ("argument", ""):
        return None
    bare = cure.before.text(layout=False)
    same = [p for p in module.parameters if p.shape is not None and p.shape.text(layout=False) == bare]
    named = [p for p in same if argument_name(p) == buffer.source.argument]
    found = named or same
    return found[0] if len(found) == 1 or (found and not buffer.source.argument) else None


def _restored(parameter: Instruction, cure: Cure) -> list[str]:
    """The parameter in its new shape, and the operations that give the old one."""
    shape, after = parameter.shape, cure.after
    assert isinstance(shape, Shape)
    assert isinstance(after, Shape)
    name, stored = parameter.name, f"{parameter.name}.stored"
    text, new = shape.text(layout=False), after.text(layout=False)
    lines = [f"{stored} = {new} parameter({parameter.parameter_number})"]
    if cure.kind in ("transpose", "vectorize"):
        order = _order(shape, after)
        return [*lines, f"{name} = {text} transpose({stored}), dimensions={{{','.join(map(str, order))}}}"]
    if cure.kind == "dtype":
        return [*lines, f"{name} = {text} convert({stored})"]
    if cure.kind == "pad-to":
        padded = _padded(shape, after)
        whole = Shape(shape.element_type, padded).text(layout=False)
        limits = ", ".join(f"[0:{n}]" for n in shape.dimensions)
        return [
            *lines,
            f"{name}.padded = {whole} reshape({stored})",
            f"{name} = {text} slice({name}.padded), slice={{{limits}}}",
        ]
    return [*lines, f"{name} = {text} reshape({stored})"]


def _order(shape: Shape, after: Shape) -> list[int]:
    """Which dimension of `after` each dimension of `shape` is."""
    left = list(enumerate(after.dimensions))
    order = []
    for size in shape.dimensions:
        place = next(n for n, (_, other) in enumerate(left) if other == size)
        order.append(left.pop(place)[0])
    return order


def _padded(shape: Shape, after: Shape) -> tuple[int, ...]:
    """The dimensions of `shape` with the padding that `after` cuts up."""
    d = next(n for n, size in enumerate(shape.dimensions) if after.dimensions[n] != size)
    whole = after.dimensions[d] * after.dimensions[d + 1]
    return (*shape.dimensions[:d], whole, *shape.dimensions[d + 1 :])


def _text(module: Module, modes: Sequence[str], changed: Mapping[Instruction, list[str]]) -> str:
    """The module as text with other layouts for its arguments, and some instructions replaced."""
    header = f"HloModule {re.sub(r'[^A-Za-z0-9_.-]', '_', module.name) or 'module'}"
    for name, value in module.attributes.items():
        if name not in _FIXED:
            header += f", {name}={value}"
    parts = [_MODES.sub(lambda _: f'arg_layout_modes="{";".join(modes)}"', header)]
    for computation in module.computations:
        lines = [f"{'ENTRY ' * computation.is_entry}{computation.name} {{"]
        for instruction in computation.instructions:
            if not instruction.is_implied:
                lines += [f"  {line}" for line in changed.get(instruction, [instruction.printed()])]
        parts.append("\n".join([*lines, "}"]))
    return "\n\n".join(parts) + "\n"


def compiled_bytes(text: str, generation: str) -> int:
    """The compiler's total for a program, in main memory; also of one that does not fit.

    Raises
    ------
    UnsupportedError
        jax or libtpu is not installed, or the compiler refuses the program, ends, or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        refused = "the compiler reports no memory"
        try:
            compile_hlo(text, generation, timeout=_TIMEOUT, dump_to=folder)
        except UnsupportedError as error:
            refused = str(error)
        for path in Path(folder).glob("*memory-usage-report.txt"):
            try:
                own = read_usage_text(path.read_text("utf-8", "backslashreplace")).spaces.get(0)
            except DumpError:
                continue
            if own is not None and own.total is not None:
                return own.total.bytes
    raise UnsupportedError(refused)
