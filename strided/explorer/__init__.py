"""Pages that explain a layout, an array or a program: one file each, which a browser opens without a network."""

from __future__ import annotations

import html
from typing import Any

from strided.dumps.hlo.module import Module
from strided.errors import UnsupportedError
from strided.escape import visible
from strided.explorer.layouts import layout_data
from strided.explorer.modules import module_data
from strided.explorer.page import Page, assemble
from strided.explorer.values import MOST_VALUES, map_data, values_data
from strided.inspect.describe import rows_of
from strided.inspect.plans import plan_between
from strided.layout import Layout, Shape
from strided.layout.parser import array_shape, layout_of
from strided.memory.copies import layout_copies
from strided.memory.memory_report import memory_report
from strided.memory.printed import report_parts
from strided.memory.report import MemoryReport
from strided.pictures.html import Section

#: Characters of a shape above an instruction list; a tuple may have thousands.
_LONGEST = 240
#: Buffers and copies in a table.
_MOST_BUFFERS = 100

__all__ = ["Page", "explore"]


def explore(target: Any, *, to: str | Layout | None = None) -> Page:
    """A page that shows where the elements of an array lie, or what a program is made of.

    Of an array, it and its memory lie side by side. Pointing at an element or a slot lights the other; an index, a
    slice or a byte can be typed. The sum behind each address is shown step by step, and for a slice the bytes that it
    touches. Of a module, instructions are searched and sorted by bytes or padding, and operands and users are links;
    below lie its memory at the peak, the buffers with what would cure them, and the copies that only change layouts.

    Parameters
    ----------
    target : Shape, str, LayoutArray, an array behind a URL, Module, or MemoryReport
        An array shows its values too, one by one if it has at most 65,536 elements, and as a map of cells.
    to : str or Layout, optional
        Another layout, to be shown beside it, with the plan of the conversion.

    Returns
    -------
    Page
        `save` writes it to a file; a notebook shows it.

    Raises
    ------
    NotationError
        The text is not a shape.
    UnsupportedError
        The shape has no addresses (a tuple, a dimension of unknown size, a split layout), or the array is a view.

    Examples
    --------
    >>> page = explore("bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> page
    <Page bf16[17,300]{1,0:T(8,128)(2,1)}: ... characters; save() writes it>
    """
    if isinstance(target, Module):
        if to is not None:
            raise TypeError("`to` is for a shape or an array: a module has many")
        return _of_module(target)
    if isinstance(target, MemoryReport):
        return _of_report(target)
    array = target if hasattr(target, "xla_shape") else None
    if array is None:
        shape, bitorder = array_shape(target), "little"
    elif getattr(array, "is_view", False):
        raise UnsupportedError("a view is a part of a buffer: explore the whole array that it is a view of")
    else:
        shape, bitorder = array_shape(array.xla_shape), getattr(getattr(array, "blank", array), "bitorder", "little")
    values = None if array is None else values_data(array)
    facts = [*rows_of(shape)]
    if array is not None and values is None:
        facts.append(("values", f"as a map: there are more than {MOST_VALUES:,}"))
    data: dict[str, Any] = {"layouts": [layout_data(shape, bitorder)], "values": values}
    if array is not None:
        data["map"] = found = map_data(array)
        if found is not None and max(found["sample"]) > 1:
            steps = " by ".join(map(str, found["sample"]))
            facts.append(("sample", f"the map shows one element of {steps} along the dimensions"))
    more = ""
    if to is not None:
        other = Shape(shape.element_type, shape.dimensions, layout_of(to))
        data["layouts"].append(layout_data(other))
        plan = html.escape(str(plan_between(shape, other)))
        more = f"<section><h2>The conversion</h2><pre class='plan'>{plan}</pre></section>\n"
    return assemble(str(shape), facts, "main", data, more)


def _of_module(module: Module) -> Page:
    """The page of a module: its instructions, its memory at the peak, and the copies that only change layouts."""
    facts: list[tuple[str, object]] = [
        ("module", f"{len(module.computations):,} computations, {len(module.instructions):,} instructions"),
        ("entry", f"{module.entry.name}, {len(module.parameters):,} parameters"),
        ("result", visible(str(module.entry.root.shape), _LONGEST)),
    ]
    figures, sections = report_parts(memory_report(module), top=_MOST_BUFFERS)
    sections.append(layout_copies(module).section(_MOST_BUFFERS))
    return assemble(module.name, facts + figures, "main", {"module": module_data(module)}, _as_html(sections))


def _of_report(report: MemoryReport) -> Page:
    """The page of a report: the memory at the peak, and its buffers with cures."""
    figures, sections = report_parts(report, top=_MOST_BUFFERS)
    return assemble(report.module or "a program", figures, "main", {}, _as_html(sections))


def _as_html(sections: list[Section]) -> str:
    """Parts below the view of a page, which fold."""
    return "".join(
        f"<details class='part'{' open' if part.is_open else ''}><summary><h2>{html.escape(visible(part.title))}</h2>"
        f"</summary>{part.content}</details>\n"
        for part in sections
    )
