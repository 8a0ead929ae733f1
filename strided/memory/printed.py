"""A report as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from strided.escape import visible
from strided.memory import pictures
from strided.memory.buffers import Buffer, Cure
from strided.pictures.html import Section, card, picture, preformatted, table
from strided.wording import counted, size_text, times_text, wrapped

if TYPE_CHECKING:
    from strided.memory.report import MemoryReport

#: The most cures shown for a buffer. Of those that save about as much, the one that changes the program least is first.
_CURES, _ABOUT = 3, 0.9
_EASE = ("layout", "vectorize", "transpose", "split", "merge", "pad-to", "dtype")
#: The most buffers in the table of a notebook.
_HTML_BUFFERS = 20
#: The most characters shown of a shape.
_SHAPE = 160


def report_text(report: MemoryReport, *, width: int = 80, top: int = 10) -> str:
    """The report with the first `top` buffers, in lines of at most `width` characters, except for longer words."""
    lines = list(_summary(report))
    if report.buffers and report.peak_bytes:
        lines += ["", pictures.bar(report, width), "data █  padding ░  not known ·"]
    if life := pictures.lives(report, width):
        lines += ["", *life]
    shown = report.buffers[:top]
    if shown:
        lines += ["", f"{'bytes':>9} {'unpadded':>9} {'times':>6}  buffer"]
    for buffer in shown:
        lines += _buffer_lines(buffer)
    if len(report.buffers) > len(shown) and top:
        rest = sum(b.bytes for b in report.buffers) - sum(b.bytes for b in shown)
        count = len(report.buffers) - len(shown)
        lines.append(f"... and {counted(count, 'buffer')} more, {size_text(rest)}")
    lines += [""] * bool(report.notes)
    lines += [line for note in report.notes for line in wrapped(f"- {note}", width, whole_words=True)]
    # Escape everything: all but the numbers comes from files.
    return "\n".join(line for text in lines for line in wrapped(visible(text), width, "    ", whole_words=True))


def _summary(report: MemoryReport) -> Iterator[str]:
    name = report.module or "the program"
    yield f"{name}: {_figure(report, 'total_bytes')} in {report.space_name}"
    if report.capacity is not None:
        excess = f", too much by {_figure(report, 'excess')}" if report.excess else ""
        yield f"capacity {_figure(report, 'capacity')}{excess}"
    place = f", at {visible(report.peak_at, 60)}" if report.peak_at is not None else ""
    yield f"peak     {pictures.figure_at_most(report, 'peak_bytes')}{place}"
    if not report.buffers and report.padding_bytes:
        yield "padding  not known: no buffers are listed"
        return
    share = report.padding_bytes / report.peak_bytes if report.peak_bytes else 0
    yield f"padding  {pictures.figure_at_most(report, 'padding_bytes')} at the peak ({share:.1%})"


def _figure(report: MemoryReport, name: str) -> str:
    """The total, the capacity or the excess of a report."""
    return f"{'about ' if name in report.rounded | report.bounds else ''}{size_text(getattr(report, name))}"


def _buffer_lines(b: Buffer) -> Iterator[str]:
    about = "~" if b.is_rounded else ""
    unpadded, times = _of_padding(b, size_text(b.unpadded_bytes))
    yield f"{about + size_text(b.bytes):>9} {unpadded:>9} {times:>6}  {_shape(b)}"
    if len(b.shapes) > 1:
        others = [visible(str(shape), _SHAPE) for shape in b.shapes[1:4]]
        more = [f"{len(b.shapes) - 4} more"] if len(b.shapes) > 4 else []
        yield f"    or {', or '.join([*others, *more])}"
    words = ["donated" * b.is_donated, b.kind, visible(b.name, 60), "" if b.is_at_peak else "not in use at the peak"]
    source = f": {b.source}" if b.source else ""
    yield f"    {' '.join(word for word in words if word)}{source}"
    for cure in _first_cures(b):
        compiled = "" if cure.compiled_bytes is None else ", compiled {:,} -> {:,} bytes".format(*cure.compiled_bytes)
        yield (
            f"    {cure.kind} to {cure.after}: saves {size_text(cure.saved_bytes)} ({cure.certainty}{compiled}): "
            f"{cure.jax}"
        )


def _first_cures(b: Buffer) -> list[Cure]:
    most = max((cure.saved_bytes for cure in b.cures), default=0)
    is_less = {id(cure): cure.saved_bytes < _ABOUT * most for cure in b.cures}
    return sorted(b.cures, key=lambda cure: (is_less[id(cure)], _EASE.index(cure.kind)))[:_CURES]


def report_html(report: MemoryReport) -> str:
    """The figures, the pictures, and a table of the first buffers."""
    return card("MemoryReport", report.module, *report_parts(report, top=_HTML_BUFFERS))


def report_parts(report: MemoryReport, *, top: int) -> tuple[list[tuple[str, object]], list[Section]]:
    """The figures by name, and the pictures, the first buffers and the notes as sections."""
    shown = report.buffers[:top]
    rows = [
        (b.bytes, *_of_padding(b, b.unpadded_bytes), _shape(b), f"{b.kind} {b.name}", b.source, _best(b)) for b in shown
    ]
    heads = ("bytes", "unpadded", "times", "shape", "buffer", "source", "best cure")
    figures = [line.split(None, 1) for line in list(_summary(report))[1:]]
    sections = [Section("memory at the peak", picture(report.svg()), is_open=True)]
    if rows:
        sections.append(Section("buffers", table(heads, rows, len(report.buffers) - len(shown)), is_open=True))
    sections.append(Section("what this rests on", preformatted("\n".join(report.notes)), is_open=not rows))
    return [("total", _figure(report, "total_bytes")), *((name, value) for name, value in figures)], sections


def _of_padding(b: Buffer, unpadded: object) -> tuple[object, str]:
    """The size without padding and the expansion, as shown; "?" if unknown."""
    return (unpadded, times_text(b.expansion)) if b.is_explained else ("?", "?")


def _shape(b: Buffer) -> str:
    return "?" if b.shape is None else visible(str(b.shape), _SHAPE)


def _best(b: Buffer) -> str:
    return str(_first_cures(b)[0]) if b.cures else ""
