"""`strided.memory_report`: the report of what was gathered, by the reader that fits it, and what beside it helps."""

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

#: What the figures of a compiled program rest on that has no buffer assignment.
_OF_COMPILED = (
    "the total is the compiler's own, of arguments, results and temporaries; what is in use at once is the sum of the "
    "values in HLO, without gaps between buffers and without tables of tuples"
)


def _agree(assignment: BufferAssignment, text: UsageText | None, space: int) -> bool | None:
    """Whether a memory usage report has the total of an assignment that may be cut; None if that cannot be told."""
    own = text.spaces.get(space) if text is not None and text.has_tables else None
    if assignment.is_complete or own is None or own.total is None or own.total.is_rounded:
        return None
    held = sum(one.size for one in assignment if one.memory_space == space)
    return held == own.total.bytes


def memory_report(
    source: Any, *, generation: str | None = None, space: int | str = 0, index: SupportsIndex | None = None
) -> MemoryReport:
    """Where a program's memory goes: its buffers, their padding, who made them, and what takes less.

    Parameters
    ----------
    source : path, str, buffer, exception, Module, BufferAssignment, Program, Dump, or a list of these
        HLO as text or proto (with a buffer assignment, that counts); the text of a buffer assignment; a memory usage
        report; the log or the message of a program that ran out of memory, or the exception, also where others wrap
        it; a dump folder, of which the program that takes most counts; what ``jax.jit(f).lower(x).compile()`` gives.
        A list: several about one program, such as an error and the module, which names what the error does not.
    generation : str, optional
        The TPU, as for `strided.tpu.default_layout`. By default the one that the layouts show: v2 and v3 choose alike,
        and so do all from v4 on.
    space : int or str, optional
        The memory space: 0 or "hbm" is the device's main memory, 1 or "vmem" its vector memory; "smem", "cmem" and
        "host" have names too. An error about another one alone gives the report of that one.
    index : int, optional
        Which module of a text that holds several, from 0.

    Returns
    -------
    MemoryReport
        Its sizes are in bytes.

    Raises
    ------
    DumpError
        Broken, or says nothing about memory.
    UnsupportedError
        A kind of file that has no reader here; an unknown generation.
    OSError
        A file that cannot be opened.
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
    """The number of a memory space: a name, or a number from 0, which may be written as text."""
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
    """The report with the device's limits, which only the text of an error says."""
    own = text.spaces.get(report.space)
    if own is None or own.capacity is None:
        return report
    excess = own.excess_of(report.total_bytes)
    rounded = {"capacity", "excess"} if own.capacity.is_rounded else set()
    return replace(report, capacity=own.capacity.bytes, excess=excess, rounded=report.rounded | rounded)
