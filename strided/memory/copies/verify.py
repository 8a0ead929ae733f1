"""Verifies cures: compiles the program with the new layout, where the copy must be gone."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from strided.dumps.hlo import Module, read_hlo
from strided.errors import UnsupportedError
from strided.layout import Shape, TupleShape
from strided.memory.ahead_of_time import compile_hlo
from strided.memory.copies.layout_copy import Cure, LayoutCopies, LayoutCopy
from strided.memory.copies.order import layout_without_space

_ATTRIBUTES = {"parameter": "arg_layout_modes", "result": "out_layout_modes"}


def verified(
    copies: LayoutCopies,
    before: Module,
    generation: str,
    find: Callable[[Module], LayoutCopies],
    *,
    top: int | None = None,
    timeout: float = 120,
) -> LayoutCopies:
    """The copies after the TPU compiler has tried their cures, as described for `layout_copies`."""

    def compiled(layouts: Sequence[Cure]) -> LayoutCopies:
        return find(read_hlo(optimized(with_layouts(before, layouts), generation, timeout=timeout)))

    tried: dict[Cure, Cure | None] = {}
    without = compiled([]) if any(copy.cure for copy in copies[:top]) else copies
    for copy in copies[:top]:
        cure = copy.cure
        if cure is None or cure in tried or not _alike(without, copy):
            continue
        try:
            left = compiled([cure])
        except UnsupportedError:  # the compiler rejects this layout, so the cure stays unverified
            continue
        old, new = without.total_bytes, left.total_bytes
        gone = (new < old or not copy.materialized) and _alike(left, copy) < _alike(without, copy)
        shown = dataclasses.replace(cure, certainty="verified", bytes_before=old, bytes_after=new)
        tried[cure] = shown if gone else None
    found = [dataclasses.replace(copy, cure=tried.get(copy.cure, copy.cure)) if copy.cure else copy for copy in copies]
    return LayoutCopies(found, copies.module_name, copies.program_bytes)


def optimized(text: str, generation: str, *, timeout: float) -> str:
    """The text of a program after optimizations, even if it does not fit: then from the compiler's dump.

    Raises
    ------
    UnsupportedError
        jax or libtpu is not installed, or the compiler rejects the program, crashes, or times out.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            return compile_hlo(text, generation, timeout=timeout, dump_to=folder).text
        except UnsupportedError as error:
            dumped = next(Path(folder).glob("*.after_optimizations.txt"), None)
            # If it was rejected for another reason, a dumped program is not what would run.
            if dumped is None or "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return dumped.read_text("utf-8", "backslashreplace")


def _alike(copies: LayoutCopies, copy: LayoutCopy) -> int:
    """The number of copies that make the same change to the same shape."""
    return sum(_change(each) == _change(copy) for each in copies)


def _change(copy: LayoutCopy) -> tuple[object, ...]:
    """A copy's shapes, without memory spaces."""
    before, after = (
        dataclasses.replace(shape, layout=layout_without_space(shape)) if isinstance(shape, Shape) else shape
        for shape in (copy.before, copy.after)
    )
    return before, after


def with_layouts(module: Module, cures: Sequence[Cure]) -> str:
    """The text of a module before optimizations, with the cures' layouts as JAX records a `Format`."""
    try:
        text = module.to_text(print_large_constants=True)
    except UnsupportedError:  # it was read from text, which is printed unchanged
        text = module.to_text()
    shape = module.entry.root.shape
    counts = {"parameter": len(module.parameters), "result": len(shape) if isinstance(shape, TupleShape) else 1}
    for kind, name in _ATTRIBUTES.items():
        noted = module.frontend_attributes.get(name)
        modes = noted.split(";") if noted else ["default"] * counts[kind]
        for cure in cures:
            if cure.kind == kind and cure.number < len(modes):
                modes[cure.number] = str(cure.layout)
            if cure.shares is not None and cure.kind != kind and cure.shares < len(modes):
                modes[cure.shares] = str(cure.layout)
        text = _noted(text, name, ";".join(modes))
    return text


def _noted(text: str, name: str, value: str) -> str:
    """The text with a frontend attribute set in its header, which is the first line."""
    header, end, rest = text.partition("\n")
    said = f'{name}="{value}"'
    if f'{name}="' in header:
        header = re.sub(rf'\b{name}="[^"]*"', lambda _: said, header, count=1)
    elif "frontend_attributes={" in header:
        header = header.replace("frontend_attributes={", f"frontend_attributes={{{said},", 1)
    else:
        header += f", frontend_attributes={{{said}}}"
    return header + end + rest
