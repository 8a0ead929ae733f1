"""Puts cures to the compiler: the program is compiled ahead of time, as it is and with each cure.

The program is the module before optimisations. A cure changes the shape of an argument or a result, and an operation
beside it gives the program the shape that it had; the compiler takes out what is not needed. What lies inside a program
has no place at which it could be changed, so cures for temporaries stay estimates.

The compiler runs in a process of its own, with a time limit: it ends the process on some requests.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from strided.errors import DumpError, UnsupportedError
from strided.layout import Shape
from strided.memory.buffers import Buffer, Cure
from strided.memory.provenance import argument_name
from strided.memory.report import MemoryReport
from strided.memory.usage_text import is_usage_text, read_usage_text

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

#: Names of topologies by generation: those of at least 4 and 8 devices.
_TOPOLOGIES = {
    **dict.fromkeys(("v2", "v3", "v5e", "v6e"), ("2x2", "2x4")),
    **dict.fromkeys(("v4", "v5p", "tpu7x"), ("2x2x1", "2x2x2")),
}
#: Seconds that one compilation may take, and how many cures are tried.
_TIMEOUT, _MOST_CURES = 180, 6
_DUMP_FLAGS = "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=^$"


class Edit(NamedTuple):
    """A module's text with a cure, and the layouts that it asks for."""

    hlo: str
    arg_layouts: tuple[str, ...]
    res_layouts: tuple[str, ...]


def with_verified_cures(report: MemoryReport, module: Module | None, generation: str | None) -> MemoryReport:
    """The report with the compiler's own bytes for the cures of arguments and results that save most.

    A cure that the compiler does not confirm is left out.

    Raises
    ------
    UnsupportedError
        JAX or libtpu is not installed, or the compiler refuses the program as it is.
    """
    if module is None:
        note = "nothing is verified: there is no module before optimisations, in the dump or given beside it"
        return replace(report, notes=(*report.notes, note))
    generation = generation or "v5e"
    if missing := [name for name in ("jax", "libtpu") if importlib.util.find_spec(name) is None]:
        raise UnsupportedError(f"cures are verified by libtpu's compiler: {' and '.join(missing)} is not installed")
    tried = sorted(((cure, b) for b in report.buffers for cure in b.cures), key=lambda pair: -pair[0].saved_bytes)
    edits = [(cure, b, edit) for cure, b in tried if (edit := edited(module, b, cure)) is not None][:_MOST_CURES]
    if not edits:
        return replace(report, notes=(*report.notes, "no cure could be verified: none is for an argument or a result"))
    before = compiled_bytes(original(module), module, generation)
    notes = [f"the compiler gives the program as it is {before:,} bytes ({generation})"]
    outcome: dict[int, Cure | None] = {}
    for cure, buffer, edit in edits:
        try:
            after = compiled_bytes(edit, module, generation)
        except UnsupportedError as error:
            notes.append(f"{cure.kind} of {buffer.name} could not be verified: {error}")
            continue
        confirmed = replace(cure, certainty="verified", saved_bytes=before - after, compiled_bytes=(before, after))
        outcome[id(cure)] = confirmed if after < before else None
        if after >= before:
            notes.append(f"{cure.kind} of {buffer.name} saves nothing: the compiler gives {after:,} bytes")
    buffers = tuple(replace(b, cures=_confirmed(b, outcome)) for b in report.buffers)
    return replace(report, buffers=buffers, notes=(*report.notes, *notes))


def _confirmed(buffer: Buffer, outcome: dict[int, Cure | None]) -> tuple[Cure, ...]:
    cures = (outcome.get(id(cure), cure) for cure in buffer.cures)
    return tuple(sorted((cure for cure in cures if cure is not None), key=lambda cure: -cure.saved_bytes))


def original(module: Module) -> Edit:
    """The module as it is."""
    said = module.frontend_attributes
    modes = (tuple(filter(None, said.get(f"{name}_layout_modes", "").split(";"))) for name in ("arg", "out"))
    return Edit(_text(module, {}), *modes)


def edited(module: Module, buffer: Buffer, cure: Cure) -> Edit | None:
    """The module with a cure; None if the buffer is no argument or result that can be told, or has a sharding."""
    whole = original(module)
    parameter = _parameter(module, buffer, cure)
    if parameter is None or parameter.sharding is not None or not isinstance(cure.after, Shape):
        return None
    number = parameter.parameter_number or 0
    if cure.kind == "layout":
        modes = whole.arg_layouts or ("default",) * len(module.parameters)
        if modes[number] == "default":
            return None
        return whole._replace(arg_layouts=(*modes[:number], "default", *modes[number + 1 :]))
    lines = _restored(parameter, cure)
    modes = tuple("default" if n == number else mode for n, mode in enumerate(whole.arg_layouts))
    return Edit(_text(module, {parameter: lines}), modes, whole.res_layouts)


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


def _text(module: Module, changed: dict[Instruction, list[str]]) -> str:
    """The module as text without the layouts of its entry, which follow; some instructions replaced."""
    parts = [f"HloModule {re.sub(r'[^A-Za-z0-9_.-]', '_', module.name)}"]
    if "input_output_alias" in module.attributes and not changed:
        parts[0] += f", input_output_alias={module.attributes['input_output_alias']}"
    for computation in module.computations:
        head = "ENTRY " if computation.is_entry else ""
        lines = [f"{head}{_plain(computation.name)} {{"]
        for instruction in computation.instructions:
            lines += [f"  {line}" for line in changed.get(instruction, [instruction.printed()])]
        parts.append("\n".join([*lines, "}"]))
    return "\n\n".join(parts) + "\n"


def _plain(name: str) -> str:
    return name or "computation"


def compiled_bytes(edit: Edit, module: Module, generation: str) -> int:
    """The compiler's total for a program, in main memory.

    Raises
    ------
    UnsupportedError
        The compiler refuses it, ends, or takes too long.
    """
    devices = module.replica_count * module.num_partitions
    known = _TOPOLOGIES[generation]
    if devices > 8:
        raise UnsupportedError(f"a program for {devices} devices; up to 8 can be compiled here")
    topology = f"{generation}:{known[devices > 4]}"
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder, "request.json")
        said = {"topology": topology, "replicas": module.replica_count, "partitions": module.num_partitions}
        request.write_text(json.dumps(edit._asdict() | said), "utf-8")
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder} {_DUMP_FLAGS}"
        # The compiler alone is used, so that several may run; no device is asked for.
        more = {"XLA_FLAGS": flags, "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_SKIP_MDS_QUERY": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "strided.interop.tpu_compiler", str(request)],
                env=os.environ | more,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnsupportedError(f"the compiler took more than {_TIMEOUT} seconds") from None
        log = str(done.stderr, "utf-8", "backslashreplace")
        reports = sorted(Path(folder).glob("*memory-usage-report.txt"))
        texts = [reports[-1].read_text("utf-8")] if reports else [log]
    for text in texts:
        if is_usage_text(text):
            try:
                own = read_usage_text(text).spaces.get(0)
            except DumpError:
                continue
            if own is not None and own.total is not None:
                return own.total.bytes
    reason = next((line for line in reversed(log.splitlines()) if line.strip()), f"it ended with {done.returncode}")
    raise UnsupportedError(f"the compiler refuses it: {reason.strip()[:300]}")
