"""Verifies cures: compiles the program ahead of time, unchanged and with each cure.

The program is the module before optimizations. A cure changes the shape of an argument, and an additional operation
restores the old shape; the compiler removes what is not needed. Temporaries cannot be changed in this way, so cures for
them stay estimates.

The compiler runs in a separate process with a time limit, because some requests crash it.
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

#: The most seconds for one compilation, and the most cures that are tried.
_TIMEOUT, _MOST_CURES = 180, 6
#: Header attributes that would contradict a changed argument; the entry's shapes follow from its instructions.
_FIXED = frozenset(("entry_computation_layout", "buffer_donor"))
_MODES = re.compile(r'\barg_layout_modes="([^"]*)"')


def with_verified_cures(report: MemoryReport, module: Module | None, generation: str | None) -> MemoryReport:
    """The report with the compiler's totals for the cures of arguments that save most.

    Cures that the compiler does not confirm are removed.

    Raises
    ------
    UnsupportedError
        JAX or libtpu is not installed, or the compiler rejects the unchanged program.
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
    """The text of the unchanged module."""
    return _text(module, _modes(module), {})


def edited(module: Module, buffer: Buffer, cure: Cure) -> str | None:
    """The text of the module with a cure.

    None if the buffer is not an identifiable argument, is sharded, or is aliased with a result, which would have to
    change, too; and for a layout cure if the argument has the default layout already.
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
    """The layouts that a program requests for its arguments, as recorded by JAX."""
    noted = module.frontend_attributes.get("arg_layout_modes", "")
    return noted.split(";") if noted else []


def _parameter(module: Module, buffer: Buffer, cure: Cure) -> Instruction | None:
    """The parameter in a buffer: the one with its name, or the only one with its shape."""
    if buffer.kind not in ("argument", ""):
        return None
    bare = cure.before.text(layout=False)
    same = [p for p in module.parameters if p.shape is not None and p.shape.text(layout=False) == bare]
    named = [p for p in same if argument_name(p) == buffer.source.argument]
    found = named or same
    return found[0] if len(found) == 1 or (found and not buffer.source.argument) else None


def _restored(parameter: Instruction, cure: Cure) -> list[str]:
    """The lines of the parameter with its new shape, and of the operations that restore the old one."""
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
    """The dimension of `after` that corresponds to each dimension of `shape`."""
    left = list(enumerate(after.dimensions))
    order = []
    for size in shape.dimensions:
        place = next(n for n, (_, other) in enumerate(left) if other == size)
        order.append(left.pop(place)[0])
    return order


def _padded(shape: Shape, after: Shape) -> tuple[int, ...]:
    """The dimensions of `shape` padded as in `after`, before the split."""
    d = next(n for n, size in enumerate(shape.dimensions) if after.dimensions[n] != size)
    whole = after.dimensions[d] * after.dimensions[d + 1]
    return (*shape.dimensions[:d], whole, *shape.dimensions[d + 1 :])


def _text(module: Module, modes: Sequence[str], changed: Mapping[Instruction, list[str]]) -> str:
    """The text of the module with these layouts for its arguments, and some instructions replaced."""
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
    """The compiler's total of main memory for a program, even if it does not fit.

    Raises
    ------
    UnsupportedError
        jax or libtpu is not installed, or the compiler rejects the program, crashes, or times out.
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
