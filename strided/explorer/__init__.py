"""Pages that explain a layout, an array or a program: each is one HTML file that needs no network."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

import numpy as np

from strided.diagnosis.difference import Difference, DumpDifference, diff, diff_dumps
from strided.dumps.directory.dump import Dump, Program
from strided.dumps.hlo.module import Module, counts_in_words
from strided.dumps.snapshots.snapshot import Snapshot
from strided.errors import DumpError, StridedError, UnsupportedError
from strided.escape import visible
from strided.explorer.dumps import ArraysData, ProgramPart, dump_data, part_of_snapshot, parts_of
from strided.explorer.layouts import layout_data
from strided.explorer.modules import Layouts, module_data
from strided.explorer.page import Page, build_page, packed
from strided.explorer.runs import difference_data, runs_data
from strided.explorer.values import MOST_VALUES, SCALES, map_data, values_data
from strided.inspect.describe import rows_of
from strided.inspect.plans import plan_between
from strided.layout import Layout, Shape
from strided.layout.parser import array_shape, layout_of
from strided.memory.copies import layout_copies
from strided.memory.memory_report import memory_report
from strided.memory.printed import report_parts
from strided.memory.report import MemoryReport
from strided.pictures.html import Section, escaped
from strided.wording import counted, some

#: The most characters of a result's shape; that of a tuple may have thousands.
_LONGEST = 240
#: The most buffers or copies in a table.
_MOST_BUFFERS = 100

__all__ = ["Page", "explore"]


def explore(target: Any, *, to: str | Layout | None = None, against: Any = None, **tolerance: Any) -> Page:
    """Make a page that shows where an array's elements lie, what a program consists of, or where two runs differ.

    An array is shown beside its memory. Pointing at an element highlights its slot, and the reverse; an index, a slice
    or a byte can be typed. The sum behind each address is shown step by step, and for a slice the bytes that it
    touches. Instructions of a module can be searched, sorted by bytes or padding, and followed to operands and users;
    below are its memory at the peak, the buffers with their cures, and the copies that only change layouts.

    Parameters
    ----------
    target : Shape, str, LayoutArray, RemoteArray, Module, MemoryReport, Dump, Program, Snapshot, or a result of `diff`
        The values of an array are shown as a map, and one by one if there are at most 65,536. A dump is shown with its
        arrays, their statistics and maps, and the instructions of its largest programs.
    to : str or Layout, optional
        Another layout, to show beside the first, with the plan of the conversion.
    against : array or Dump, optional
        Another run to compare with: the page shows where the two differ. An array may also be a (path, shape).
    **tolerance
        With `against`: `rtol`, `atol`, `max_ulp` and others, as for `strided.diff`.

    Returns
    -------
    Page
        `Page.save` writes it to a file; a notebook shows it.

    Raises
    ------
    NotationError
        The text is not a shape.
    UnsupportedError
        The shape has no addresses (a tuple, a dimension of unknown size, a split layout), the array is a view, or its
        spec is no XLA shape.
    ValueError
        The two arrays have different shapes.
    DumpError
        The folder holds no program.
    OSError
        A file cannot be opened.
    TypeError
        `target` is a path or an ndarray; `to` is given with anything but one shape or array; a tolerance is given
        without `against`.

    Examples
    --------
    >>> page = explore("bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> page
    <Page bf16[17,300]{1,0:T(8,128)(2,1)}: ... characters; save() writes it>
    """
    page = _of_pair(target, against, tolerance) if against is not None else _of_program_or_pair(target)
    if page is not None and to is not None:
        raise TypeError("`to` goes with one shape or array")
    if against is None and tolerance:
        raise TypeError(f"{some(tolerance)}: a tolerance goes with `against`")
    return _of_array(target, to) if page is None else page


def _of_pair(target: Any, against: Any, tolerance: dict[str, Any]) -> Page:
    """Compare two arrays or two runs, and make the page of the result."""
    if isinstance(target, Dump):
        return _of_runs(diff_dumps(target, against, **tolerance))
    return _of_difference(diff(target, against, **tolerance), target, against)


def _of_program_or_pair(target: Any) -> Page | None:
    """The page of programs, or of a result of `diff`; None for a shape or an array."""
    if isinstance(target, DumpDifference):
        return _of_runs(target)
    if isinstance(target, Difference):
        return _of_difference(target)
    if isinstance(target, Dump):
        if not target.programs:
            raise DumpError("the folder holds no program that XLA dumped", path=target.path)
        return _of_programs(target.path.name or str(target.path), list(parts_of(target.programs)), len(target.others))
    if isinstance(target, Program):
        return _of_programs(target.label, list(parts_of([target])))
    if isinstance(target, Snapshot):
        return _of_programs(Path(target.path or "a snapshot").name, [part_of_snapshot(target)])
    if isinstance(target, Module):
        return _of_module(target)
    return _of_report(target) if isinstance(target, MemoryReport) else None


def _of_array(target: Any, to: str | Layout | None) -> Page:
    """The page of a shape or an array, beside another layout if one is given."""
    _refuse_without_layout(target)
    array = target if hasattr(target, "xla_shape") else None
    shape = array_shape(target if array is None else array.xla_shape)
    bitorder = "little" if array is None else getattr(getattr(array, "blank", array), "bitorder", "little")
    values = None if array is None else values_data(array)
    facts = [*rows_of(shape)]
    if array is not None and values is None:
        facts.append(("values", f"as a map: there are more than {MOST_VALUES:,}"))
    data: dict[str, Any] = {"layouts": [layout_data(shape, bitorder)], "values": values}
    if array is not None:
        data["map"] = found = map_data(array, scales=SCALES)
        if found is not None and max(found["sample"]) > 1:
            steps = " by ".join(map(str, found["sample"]))
            facts.append(("sample", f"the map shows one element of {steps} along the dimensions"))
    more = ""
    if to is not None:
        other = Shape(shape.element_type, shape.dimensions, layout_of(to))
        data["layouts"].append(layout_data(other))
        plan = html.escape(str(plan_between(shape, other)))
        more = f"<section><h2>The conversion</h2><pre class='plan'>{plan}</pre></section>\n"
    return build_page(str(shape), facts, "main", data, more)


def _refuse_without_layout(target: Any) -> None:
    """TypeError or UnsupportedError if the target is neither a shape nor a whole array in an XLA layout."""
    if isinstance(target, (str, os.PathLike)) and os.path.exists(target):
        raise TypeError(f"{target} is a path; open it first: strided.open, open_dump or read_hlo")
    if isinstance(target, np.ndarray):
        raise TypeError("an ndarray has no layout to explore: strided.LayoutArray.from_numpy lays it out")
    if not hasattr(target, "xla_shape"):
        if hasattr(type(target), "xla_shape"):
            raise UnsupportedError(f"{target.spec} is no XLA shape: a page shows the addresses of one")
    elif getattr(target, "is_view", False):
        raise UnsupportedError("a view is only a part of a buffer: explore the whole array")


def _of_module(module: Module) -> Page:
    """The page of a module: its instructions, its memory at the peak, and the copies that only change layouts."""
    facts: list[tuple[str, object]] = [
        ("module", ", ".join(counts_in_words(module))),
        ("entry", f"{module.entry.name}, {counted(len(module.parameters), 'parameter')}"),
        ("result", visible(str(module.entry.root.shape), _LONGEST)),
    ]
    figures, sections = report_parts(memory_report(module), top=_MOST_BUFFERS)
    sections.append(layout_copies(module).section(_MOST_BUFFERS))
    return build_page(module.name, facts + figures, "programs", {"module": module_data(module)}, _as_html(sections))


def _of_report(report: MemoryReport) -> Page:
    """The page of a memory report: the memory at the peak, and the buffers with their cures."""
    figures, sections = report_parts(report, top=_MOST_BUFFERS)
    return build_page(report.module or "a program", figures, "programs", {}, _as_html(sections))


def _of_programs(title: str, parts: list[ProgramPart], others: int = 0) -> Page:
    """The page of a dump: its arrays and its programs with their memory and copies."""
    arrays = ArraysData()
    data = dump_data(parts, arrays)
    files = [size for part in parts for _, _, size in part.files]
    left_out = f", {arrays.left_out:,} are left out: the page lists {len(arrays.rows):,}" if arrays.left_out else ""
    count = len(arrays.rows) + arrays.left_out
    facts: list[tuple[str, object]] = [("programs", f"{len(parts):,}"), ("arrays", f"{count:,}{left_out}")]
    facts += [("files", f"{len(files):,}, {sum(files):,} bytes")] * bool(files)
    facts += [("other files", f"{others:,}, which are none of XLA's")] * bool(others)
    more = "".join(
        f"<div class='program' data-program='{number}' hidden>{_of_program(part)}</div>\n"
        for number, part in enumerate(parts)
        if data["modules"][number] is not None
    )
    return build_page(title, facts, "programs", data, more)


def _of_program(part: ProgramPart) -> str:
    """The memory and copies of a program as HTML, as far as it can be read."""
    sections = []
    try:
        sections += report_parts(memory_report(part.source), top=_MOST_BUFFERS)[1]
        module = part.module()
        sections += [] if module is None else [layout_copies(module).section(_MOST_BUFFERS)]
    except StridedError as error:
        sections.append(Section("memory", f"<p>{escaped(error)}</p>"))
    return _as_html(sections)


def _of_runs(found: DumpDifference) -> Page:
    """The page of two runs: how their modules differ, and which values differ, the worst first."""
    facts: list[tuple[str, object]] = [("a", found.a), ("b", found.b)]
    facts += [(name, f"the modules {how or 'are equal'}") for name, how in [*found.modules.items()][:_MOST_BUFFERS]]
    facts += [("only in a", some(found.only_in_a))] * bool(found.only_in_a)
    facts += [("only in b", some(found.only_in_b))] * bool(found.only_in_b)
    facts += [("cannot be read", some(found.unread))] * bool(found.unread)
    facts += [("first to differ", found.first.name)] if found.first is not None else []
    facts += [("values", "none is in both: run with --xla_dump_hlo_snapshots")] * (not found.values + found.unread)
    return build_page(f"{found.a.name} against {found.b.name}", facts, "programs", {"runs": packed(runs_data(found))})


def _of_difference(found: Difference, *arrays: Any) -> Page:
    """The page of two arrays: where they differ, and their layouts if known."""
    layouts = Layouts()
    shapes = [getattr(array, "xla_shape", None) for array in arrays]
    places = [layouts.place(shape) if isinstance(shape, Shape) else None for shape in shapes]
    content = {
        "difference": difference_data(found),
        "layouts": [None if place is None else layouts.data[place] for place in places],
    }
    return build_page(f"{found.a} against {found.b}", [], "programs", {"runs": packed(content)})


def _heading(title: str) -> str:
    """A title, capitalised unless it contains the name of a program."""
    return escaped(title if ":" in title else title.capitalize())


def _as_html(sections: list[Section]) -> str:
    """Sections below a page's main view, as collapsible HTML."""
    return "".join(
        f"<details class='part'{' open' if part.is_open else ''}><summary><h2>{_heading(part.title)}</h2>"
        f"</summary>{part.content}</details>\n"
        for part in sections
    )
