"""`strided.memory_report`: collects sources (`material`) and makes the report with the reader that fits them."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any, SupportsIndex

from strided.dumps.buffer_assignment.assignment import BufferAssignment
from strided.errors import DumpError
from strided.memory.cures import with_cures
from strided.memory.from_assignment import report_from_assignment
from strided.memory.from_module import report_from_module
from strided.memory.from_text import report_from_text
from strided.memory.generation import generation_of
from strided.memory.material import Material, material_of
from strided.memory.report import MemoryReport
from strided.memory.usage_text import SPACES, UsageText
from strided.runtime.argument_checks import whole
from strided.tpu.default_layout import check_generation

#: The note for a compiled program without a buffer assignment.
_OF_COMPILED = (
    "the total is the compiler's own, of arguments, results and temporaries; what is in use at once is the sum of the "
    "values in HLO, without gaps between buffers and without tables of tuples"
)


def _agree(assignment: BufferAssignment, text: UsageText | None, space: int) -> bool | None:
    """Whether the totals of an assignment that may be truncated and a memory usage report agree; None if unknown."""
    own = text.spaces.get(space) if text is not None and text.has_tables else None
    if assignment.is_complete or own is None or own.total is None or own.total.is_rounded:
        return None
    held = sum(one.size for one in assignment if one.memory_space == space)
    return held == own.total.bytes


def memory_report(
    source: Any, *, generation: str | None = None, space: int | str = 0, index: SupportsIndex | None = None
) -> MemoryReport:
    """Where a program's memory goes: its buffers, their padding, their sources, and changes that take less memory.

    Parameters
    ----------
    source : path, str, buffer, exception, Module, BufferAssignment, Program, Dump, or a list of these
        HLO as text or proto (if it has a buffer assignment, that is used); the text of a buffer assignment; a memory
        usage report; the log or message of a program that ran out of memory, or the exception, possibly wrapped by
        others; a dump folder, of which the program that takes the most memory is used; or the result of
        ``jax.jit(f).lower(x).compile()``. Or a list of several about one program, such as an error and the module,
        which has the names that the error lacks.
    generation : str, optional
        The TPU, as for `strided.tpu.default_layout`. By default it is inferred from the layouts, as far as default
        layouts differ: those of v2 and v3 are the same, and those from v4 on.
    space : int or str, optional
        The memory space: 0 or "hbm" is the device's main memory, 1 or "vmem" its vector memory; other names are "smem",
        "cmem" and "host". For an error that is only about another space, the report is about that one.
    index : int, optional
        The number, from 0, of the module in a text that contains several.

    Returns
    -------
    MemoryReport
        Its sizes are in bytes.

    Raises
    ------
    DumpError
        A source is damaged, or says nothing about memory.
    UnsupportedError
        The kind of a file is not supported, or the generation is unknown.
    OSError
        A file cannot be opened.
    ValueError
        An unknown name of a space, or a negative number.

    Examples
    --------
    >>> report = memory_report('''
    ... HloModule f, is_scheduled=true
    ...
    ... ENTRY %main (x: f32[1000,2]) -> f32[1000,2] {
    ...   %x = f32[1000,2]{1,0:T(8,128)} parameter(0), metadata={op_name="x"}
    ...   ROOT %y = f32[1000,2]{1,0:T(8,128)} sine(%x), metadata={op_name="jit(f)/sin"}
    ... }
    ... ''')
    >>> report.peak_bytes, report.padding_bytes
    (1024000, 1008000)
    >>> for buffer in report.buffers:
    ...     print(buffer.name, buffer.shape, f"{buffer.expansion:.0f} x", buffer.cures[0].kind)
    x f32[1000,2]{1,0:T(8,128)} 64 x layout
    y f32[1000,2]{1,0:T(8,128)} 64 x layout
    """
    number = None if index is None else whole(index, "index")
    return report_of(material_of(source, number), generation=generation, space=space)


def report_of(found: Material, *, generation: str | None = None, space: int | str = 0) -> MemoryReport:
    """The report from what is known; parameters and errors as for `memory_report`."""
    if generation is not None:
        check_generation(generation)
    number = space_number(space)
    module = found.module if found.module is not None else found.module_before
    agree = None if found.assignment is None else _agree(found.assignment, found.text, number)
    if found.assignment is not None and agree is not False:
        report = report_from_assignment(found.assignment, number, found.module, found.traces, is_whole=agree is True)
    elif (text := found.text or found.limits) is not None:
        report = report_from_text(text, number, generation, module, found.path)
        if agree is False:
            note = (
                "the buffer assignment has another total than the memory usage report: it is cut, or of another program"
            )
            report = replace(report, notes=(note, *report.notes))
    elif module is not None:
        total = found.device_bytes if number == SPACES["hbm"] else None
        basis = None if total is None else _OF_COMPILED
        report = report_from_module(module, number, generation, total=total, note=basis)
    else:
        raise DumpError("nothing about memory: neither HLO, nor a buffer assignment, nor a report", path=found.path)
    for said in (found.text, found.limits):
        if said is not None and report.capacity is None:
            report = _with_limits(report, said)
    report = with_cures(report, generation or generation_of(report.buffers))
    return replace(report, notes=(*found.notes, *report.notes))


def space_number(space: int | str) -> int:
    """The number of a memory space, given as a name or as a non-negative integer, possibly as text."""
    if isinstance(space, str) and space.lower() in SPACES:
        return SPACES[space.lower()]
    try:
        if isinstance(space, bool):
            raise TypeError
        number = int(space) if isinstance(space, str) else operator.index(space)
    except ValueError:
        number = -1
    except TypeError:
        raise TypeError(f"a memory space is a number or a name, as 'hbm', not {type(space).__name__}") from None
    if number < 0:
        names = ", ".join(f"'{name}'" for name in SPACES)
        raise ValueError(f"a memory space is a number from 0 or one of {names}, not {space!r}")
    return number


def _with_limits(report: MemoryReport, text: UsageText) -> MemoryReport:
    """The report with the device's capacity, which only an error message contains."""
    own = text.spaces.get(report.space)
    if own is None or own.capacity is None:
        return report
    excess = own.excess_of(report.total_bytes)
    rounded = {"capacity", "excess"} if own.capacity.is_rounded else set()
    return replace(report, capacity=own.capacity.bytes, excess=excess, rounded=report.rounded | rounded)
