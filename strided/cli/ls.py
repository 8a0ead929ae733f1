"""`strided ls`: list the arrays in a file or folder."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

import strided
from strided.cli.file_kinds import (
    ABOUT_MEMORY,
    is_about_memory,
    is_npy,
    is_rest_of_snapshot,
    named_arrays,
    refuse_empty,
)
from strided.cli.options import as_json, file_names, fitted, kind
from strided.errors import DumpError, UnsupportedError
from strided.escape import visible
from strided.files.regular import open_regular
from strided.io.containers import name_of, open_container, split_name
from strided.io.file_array import open_file
from strided.io.npy import read_npy_header, refuse_short, shape_of_npy
from strided.io.raw_format import OtherFormatError
from strided.io.zarr_store import ZarrStore, is_zarr
from strided.layout import Shape
from strided.wording import counted

if TYPE_CHECKING:
    from strided.dumps.buffer_assignment.values import Allocation


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="(DIR | FILE)...", shell_complete=file_names)
@as_json
@kind
def ls(paths: tuple[str, ...], as_json: bool, kind: str | None) -> None:
    """List the arrays in a dump or a file.

    Files are .npy, .npz, .safetensors and those of a dump; folders are dumps and .zarr. For a dump folder, what is
    missing is listed with the reason. 'strided show PATH:NAME' takes the names.
    """
    for path, name in map(split_name, paths):
        if name is not None:
            raise click.UsageError(f"ls lists all arrays of {path}: leave ':{name}' out")
    found = [_of_folder(path) if os.path.isdir(path) else _of_file(path, kind) for path in paths]
    if as_json:
        facts = [{"path": path} | one for path, (_, one) in zip(paths, found, strict=True)]
        click.echo(json.dumps(facts if len(facts) > 1 else facts[0], indent=2))
    else:
        click.echo(fitted("\n".join(text for text, _ in found)))


def _of_folder(path: str) -> tuple[str, dict[str, Any]]:
    if is_zarr(path):
        store = ZarrStore(path)
        return _listed(visible(f"{path}: {counted(len(store), 'array')}"), {name: store.shape(name) for name in store})
    dump = strided.open_dump(path, mapped=False)
    shapes = [program.arrays.shape(name) for program in dump.programs for name in program.arrays]
    programs = [
        {
            "name": program.label,
            "files": [{"name": f.path.name, "kind": f.kind, "bytes": f.size} for f in program.files],
            "missing": [{"what": what, "why": why} for what, why in program.missing],
            "broken": list(program.problems),
        }
        for program in dump.programs
    ]
    others = [{"name": f.path.name, "bytes": f.size} for f in dump.others]
    arrays = [_facts(name, shape) for name, shape in zip(dump, shapes, strict=True)]
    text = str(dump)
    if len(dump.programs) > 1 and dump:
        text += "\n" + visible(f"name an array as in {path}:{next(iter(dump))}")
    return text, {"programs": programs, "others": others, "arrays": arrays}


def _of_file(path: str, kind: str | None) -> tuple[str, dict[str, Any]]:
    refuse_empty(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if kind is None and (container := open_container(file, path)) is not None:
            text = visible(f"{path}: {counted(len(container), 'array')}, {size:,} bytes")
            return _listed(text, {name: container.shape(name) for name in container})
        if kind is None and is_npy(file):
            shape = _shape_in_npy(file, path, size)
            return visible(f"{path}: {shape}"), {"arrays": [_facts(Path(path).stem, shape)]}
        file.seek(0)
        try:
            with open_file(file, path, None) as array:
                return visible(f"{path}: {array.xla_shape}"), {"arrays": [_facts(name_of(path), array.xla_shape)]}
        except UnsupportedError as error:
            refusal = error
    content = _content(path, kind, refusal)
    arrays = named_arrays(content)
    head = visible(f"{path}: {str(content).strip('<>')}") if arrays else visible(str(content), keep="\n")
    text, facts = _listed(head, {name: arrays.shape(name) for name in arrays})
    facts |= _described(content)
    if why := _why_no_results(content):
        facts["missing"] = [{"what": "results", "why": why}]
    return text, facts


def _shape_in_npy(file: BinaryIO, path: str, size: int) -> Shape | str:
    """The shape of the array in a ``.npy`` file of `size` bytes, or why it cannot be read."""
    file.seek(0)
    header = read_npy_header(file, path)
    refuse_short(header, size, path)
    try:
        return shape_of_npy(header, None, "it")
    except UnsupportedError as error:
        return f"unreadable: {error}"


def _described(content: Any) -> dict[str, Any]:
    """The contents of a file without arrays, for JSON: a module, or allocations and their values."""
    from strided.dumps.buffer_assignment import BufferAssignment
    from strided.dumps.hlo import Module

    match content:
        case Module():
            return {
                "module": content.name,
                "entry": content.entry.name,
                "parameters": [{"name": p.name, "shape": str(p.shape)} for p in content.parameters],
                "results": [{"name": r.name, "shape": str(r.shape)} for r in content.results],
                "opcodes": dict(Counter(i.opcode for i in content.instructions).most_common()),
            }
        case BufferAssignment():
            return {"allocations": [_of_allocation(one) for one in content]}
    return {}


def _of_allocation(allocation: Allocation) -> dict[str, Any]:
    values = [
        {"name": v.label, "offset": v.offset, "bytes": v.size, "shape": v.shape_text or (v.shape and str(v.shape))}
        for v in allocation.values
    ]
    return {
        "index": allocation.index,
        "bytes": allocation.size,
        "memory_space": allocation.memory_space,
        "parameter": allocation.parameter_number,
        "values": values,
    }


def _why_no_results(content: Any) -> str | None:
    """Why a snapshot has no results; None if it has, or if the content is no snapshot."""
    try:
        return getattr(content, "results_missing", None)
    except DumpError as error:
        return error.message


def _content(path: str, kind: str | None, refusal: UnsupportedError) -> Any:
    """The contents of a file of a dump; `refusal` says why it is no array. UsageError if another command reads it."""
    from strided.dumps.detect import recognise
    from strided.dumps.hlo.text import SeveralModulesError

    found = kind or recognise(path)
    if kind is None and is_rest_of_snapshot(Path(path).name, found):
        kind = "snapshot"
    elif found == "binary" and isinstance(refusal, OtherFormatError):
        raise refusal
    elif found in ABOUT_MEMORY and is_about_memory(path):
        raise click.UsageError(f"{path} is about memory, and holds no arrays: 'strided memory' reads it")
    try:
        return strided.read_dump(Path(path), kind, mapped=False)
    except SeveralModulesError:
        raise click.UsageError(
            f"{path} holds several programs, and no arrays: 'strided hlo --module N' lists the values of one"
        ) from None


def _listed(head: str, shapes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    lines = [head, *(visible(f"  {name}: {shape}") for name, shape in shapes.items())]
    return "\n".join(lines), {"arrays": [_facts(name, shape) for name, shape in shapes.items()]}


def _facts(name: str, shape: Any) -> dict[str, Any]:
    """An array's name, shape and bytes, for JSON; or why it cannot be read."""
    if isinstance(shape, str):
        return {"name": name, "problem": shape.removeprefix("unreadable: ")}
    return {"name": name, "shape": str(shape), "bytes": getattr(shape, "buffer_byte_size", None)}
