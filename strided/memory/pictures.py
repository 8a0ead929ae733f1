"""Pictures of a report: the memory at the peak as a bar of buffers, and the live ranges of buffers over the schedule.

Data is dark, padding is light, and memory that belongs to no known buffer is dotted (in SVG empty). The memory in use
over time is grey, since it may be any of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from strided.escape import visible
from strided.memory.buffers import Buffer
from strided.pictures.svg_elements import HATCH, box, document, line, text
from strided.wording import size_text

if TYPE_CHECKING:
    from strided.memory.report import MemoryReport

_DATA, _PADDING, _REST = "█", "░", "·"
_LEVELS = " ▁▂▃▄▅▆▇█"
#: The most buffers whose live ranges are drawn.
_LIVES = 12
#: Okabe and Ito's blue, which is visible on light and on dark backgrounds.
_COLOUR, _DARK, _LIGHT = "#0072b2", 1, 0.3
#: Opacity of the memory in use, which has the page's text colour.
_GREY = 0.45
_WIDTH, _BAR, _ROW, _LABEL = 720, 36, 18, 290
#: Characters of the title: on narrow pages letters are larger relative to the bars.
_TITLE = 74
#: Width of an entry of the legend, and of a character.
_ENTRY, _CHARACTER = 90, 7.3
#: Buffers that are narrower than this are drawn as one.
_LEAST = 4


def _largest(report: MemoryReport) -> list[Buffer]:
    """The buffers at the peak, the largest first."""
    return sorted((b for b in report.buffers if b.is_at_peak and b.bytes), key=lambda b: -b.bytes)


def figure_at_most(report: MemoryReport, name: str) -> str:
    """The peak or the padding of a report, with "at most" or "about" if it is a bound."""
    size = size_text(getattr(report, name))
    if name not in report.bounds:
        return size
    return f"{'about' if 'total_bytes' in report.bounds or name in report.rounded else 'at most'} {size}"


def bar(report: MemoryReport, width: int) -> str:
    """The memory at the peak in one line: for each buffer its data, then its padding; dots if these are unknown.

    >>> from strided.memory.buffers import Buffer
    >>> from strided.memory.report import MemoryReport
    >>> half = Buffer(name="x", bytes=600, unpadded_bytes=300)
    >>> print(bar(MemoryReport(total_bytes=1000, peak_bytes=1000, padding_bytes=300, buffers=(half,)), 20))
    ██████░░░░░░········
    """
    buffers = _largest(report)
    whole = max(report.peak_bytes, 1)
    edges = [0, *accumulate(part for b in buffers for part in (b.unpadded_bytes, b.padding_bytes))]
    cells = [min(width, round(edge * width / whole)) for edge in edges]
    marks = [mark for b in buffers for mark in ((_DATA, _PADDING) if b.is_explained else (_REST, _REST))]
    drawn = "".join(mark * (b - a) for mark, (a, b) in zip(marks, pairwise(cells), strict=True))
    return drawn + _REST * (width - len(drawn))


def lives(report: MemoryReport, width: int) -> list[str]:
    """The memory in use over the schedule, and the live ranges of the largest buffers; [] if these are unknown.

    A column stands for one or more instructions; its height is their peak usage.
    """
    places = len(report.schedule)
    shown = _shown(report)
    if places < 2 or not shown:
        return []
    label = min(24, width // 3)
    columns = max(1, min(places, width - label - 1))
    spans = _columns(places, columns)
    usage = [max(report.usage[a:b]) for a, b in spans]
    top = max(report.peak_bytes, 1)
    heights = "".join(_LEVELS[-(-use * (len(_LEVELS) - 1) // top)] for use in usage)
    lines = [f"{'in use':<{label}} {heights}"]
    for b in shown:
        assert b.live is not None
        cells = (_DATA if b.live.start < stop and start <= b.live.stop else _REST for start, stop in spans)
        lines.append(f"{_cut(visible(b.name), label):<{label}} {''.join(cells)}")
    if report.peak_at is not None:
        column = _peak(report) * columns // places
        lines.append(f"{_cut('peak', label):<{label}} {' ' * column}^")
    return lines


def _peak(report: MemoryReport) -> int:
    """The first position of the peak. (Its name may not be unique, if a computation is called again.)"""
    return report.usage.index(max(report.usage))


def _shown(report: MemoryReport) -> list[Buffer]:
    """The largest temporaries and results with a live range; arguments are in use throughout."""
    known = [b for b in report.buffers if b.live is not None and b.kind in ("temporary", "result")]
    return sorted(known, key=lambda b: -b.bytes)[:_LIVES]


def _columns(places: int, columns: int) -> Sequence[tuple[int, int]]:
    edges = [n * places // columns for n in range(columns + 1)]
    return list(pairwise(edges))


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 2]}.."


def svg(report: MemoryReport) -> str:
    """Both pictures as SVG text. Tooltips show the name and size of each part."""
    peak = figure_at_most(report, "peak_bytes")
    name = report.module or "program"
    is_known = bool(report.buffers) or not report.padding_bytes
    more = f"{figure_at_most(report, 'padding_bytes')} of it padding" if is_known else "no buffers are listed"
    figures = f": {peak} at the peak, {more}"
    drawn = [text(0, 14, _cut(visible(name), max(12, _TITLE - len(figures))) + figures, anchor="start")]
    drawn += [*_svg_bar(report, 24), *_svg_capacity(report, 24)]
    bottom = 24 + _BAR
    for n, (fill, opacity, word) in enumerate(_legend(report, is_known)):
        drawn += [box(_ENTRY * n, bottom + 8, 12, 12, fill, opacity, 0.6)]
        drawn += [text(_ENTRY * n + 18, bottom + 18, word, anchor="start")]
    life, height = _svg_lives(report, bottom + 34)
    return document([*drawn, *life], _WIDTH, height, f"{name}: {peak} at the peak")


def _legend(report: MemoryReport, is_known: bool) -> list[tuple[str, float, str]]:
    """Fill, opacity and meaning of the parts of the bar; "not known" only if it is at least a pixel wide."""
    found: list[tuple[str, float, str]] = []
    if is_known:
        found += [(_COLOUR, _DARK, "data"), (_COLOUR, _LIGHT, "padding")]
    explained = sum(b.bytes for b in _largest(report) if b.is_explained)
    if (report.peak_bytes - explained) * _WIDTH >= report.peak_bytes > 0:
        found.append(("none", 0, "not known"))
    return found


def _svg_bar(report: MemoryReport, top: int) -> list[str]:
    """A part for each buffer that is wide enough, and one for the rest."""
    scale = _WIDTH / max(report.peak_bytes, 1)
    buffers = _largest(report)
    wide_ones = sum(b.bytes * scale >= _LEAST for b in buffers)
    parts = [(str(b), b.bytes, b.unpadded_bytes if b.is_explained else None) for b in buffers[:wide_ones]]
    if rest := buffers[wide_ones:]:
        size = sum(b.bytes for b in rest)
        parts.append((f"{len(rest):,} smaller buffers, {size_text(size)}", size, sum(b.unpadded_bytes for b in rest)))
    drawn, start = [], 0.0
    for title, size, unpadded in parts:
        wide = min(size * scale, _WIDTH - start)
        boxes = []
        if unpadded is not None:
            data = wide * unpadded / size
            boxes = [
                box(start, top, data, _BAR, _COLOUR, _DARK, 0),
                box(start + data, top, wide - data, _BAR, _COLOUR, _LIGHT, 0),
            ]
        boxes.append(box(start, top, wide, _BAR, "none", edge=0.8))
        drawn.append(_titled(title, "".join(boxes)))
        start += wide
    return [*drawn, box(0, top, _WIDTH, _BAR, "none", edge=1)]


def _svg_capacity(report: MemoryReport, top: int) -> list[str]:
    """The device's capacity, if the program needs more; the excess is hatched."""
    if report.capacity is None or not 0 < report.capacity < report.peak_bytes:
        return []
    x, bottom = _WIDTH * report.capacity / report.peak_bytes, top + _BAR
    label = f"capacity {size_text(report.capacity)}"
    start = max(x, 3 * _ENTRY)  # beside the legend
    anchor = "start"
    if start + len(label) * _CHARACTER > _WIDTH:
        start, anchor = x, "end"
    beyond = box(x, top, _WIDTH - x, _BAR, HATCH, edge=0)
    return [beyond, line(x, top - 4, x, bottom + 4, 2), text(start, bottom + 18, label, anchor=anchor)]


def _svg_lives(report: MemoryReport, top: int) -> tuple[list[str], int]:
    """The picture of live ranges, and its lower edge."""
    places, shown = len(report.schedule), _shown(report)
    if places < 2 or not shown:
        return [], top
    wide, high = _WIDTH - _LABEL, 40
    columns = min(places, wide)
    scale = high / max(report.peak_bytes, 1)
    drawn = [text(0, top + 26, "in use", anchor="start")]
    heights = [max(report.usage[a:b]) * scale for a, b in _columns(places, columns)]
    steps = "".join(
        f"V{top + high - tall:g}H{_LABEL + (n + 1) * wide / columns:g}" for n, tall in enumerate(heights)
    )  # one outline: boxes side by side would show seams
    drawn.append(f"<path d='M{_LABEL} {top + high}{steps}V{top + high}Z' fill-opacity='{_GREY:g}'/>")
    first = top + high + 4
    for n, buffer in enumerate(shown):
        assert buffer.live is not None
        x, y = _LABEL + buffer.live.start * wide / places, first + n * _ROW
        length = max(1.0, (buffer.live.stop + 1 - buffer.live.start) * wide / places)
        label = f"{_cut(visible(buffer.name), 20)} {size_text(buffer.bytes)}"
        drawn.append(text(0, y + 13, label, anchor="start"))
        drawn.append(_titled(str(buffer), box(x, y + 3, length, _ROW - 6, _COLOUR, _DARK, 0)))
    bottom = first + len(shown) * _ROW
    if report.peak_at is not None:
        x = _LABEL + (_peak(report) + 0.5) * wide / places
        drawn += [line(x, top, x, bottom, 1), text(x, bottom + 14, "peak", anchor="end" if x > _WIDTH / 2 else "start")]
    return drawn, bottom + 20


def _titled(title: str, drawn: str) -> str:
    return f"<g><title>{escape(title)}</title>{drawn}</g>"
