"""Memory reports: the totals of a program, and its buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from strided.errors import DumpError
from strided.memory.buffers import Buffer
from strided.memory.pictures import svg
from strided.memory.printed import report_html, report_text
from strided.runtime.argument_checks import number
from strided.wording import counted


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryReport:
    """Where a program's memory goes. Made by `strided.memory_report`; prints as a table.

    Attributes
    ----------
    module : str
        Name of the program; empty if unknown.
    space : int
        The memory space: 0 is the device's main memory.
    space_name : str
    total_bytes : int
        The compiler's own total; for HLO alone, a bound (see `bounds`).
    peak_bytes : int
        The most bytes in use at any time.
    peak_at : str or None
        The instruction at the peak.
    padding_bytes : int
        Bytes of padding at the peak.
    capacity, excess : int or None
        Memory of the device, and what the program needs beyond it, if known.
    buffers : tuple of Buffer
        Sorted by wasted bytes at the peak, then by size there; waste below a thousandth of the peak is ignored.
    schedule : tuple of str
        The instructions in execution order. Live ranges are positions in it.
    usage : tuple of int
        Bytes in use at each position of `schedule`.
    bounds, rounded : frozenset of str
        The attributes of this report that are bounds, and those that are rounded or approximate.
    notes : tuple of str
        What the numbers are based on.
    """

    module: str = ""
    space: int = 0
    space_name: str = "hbm"
    total_bytes: int
    peak_bytes: int
    peak_at: str | None = None
    padding_bytes: int
    capacity: int | None = None
    excess: int | None = None
    buffers: tuple[Buffer, ...] = ()
    schedule: tuple[str, ...] = ()
    usage: tuple[int, ...] = ()
    bounds: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def expanded(self, max_expansion: float) -> tuple[Buffer, ...]:
        """The buffers that take more than `max_expansion` times their size without padding.

        Only buffers that waste more than 1 % of the peak are considered. ValueError if the number is negative or not
        finite; DumpError if the program takes memory and no buffers are listed.
        """
        check_expansion(max_expansion)
        if self.total_bytes and not self.buffers:
            raise DumpError(
                f"{self.module or 'the program'}: no buffers are listed, so nothing tells how much any expands; "
                "the log of the compilation, or a dump, does"
            )
        least = self.peak_bytes / 100
        return tuple(b for b in self.buffers if b.wasted_bytes > least and b.expansion > max_expansion)

    def __str__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        return report_html(self)

    def __repr__(self) -> str:
        return f"<MemoryReport: {counted(self.total_bytes, 'byte')}, {counted(len(self.buffers), 'buffer')}>"

    def svg(self) -> str:
        """An SVG picture of the memory at the peak as a bar, and of the live ranges of the largest buffers."""
        return svg(self)

    def to_dict(self) -> dict[str, Any]:
        """All attributes except `schedule` and `usage` as JSON types.

        The page "My TPU program runs out of memory" has the schema.
        """
        return {
            "module": self.module,
            "space": self.space,
            "space_name": self.space_name,
            "total_bytes": self.total_bytes,
            "peak_bytes": self.peak_bytes,
            "peak_at": self.peak_at,
            "padding_bytes": self.padding_bytes,
            "capacity": self.capacity,
            "excess": self.excess,
            "bounds": sorted(self.bounds),
            "rounded": sorted(self.rounded),
            "notes": list(self.notes),
            "buffers": [buffer.to_dict() for buffer in self.buffers],
        }


def name_of_space(space: int) -> str:
    """The name of a memory space, for sources that do not name it.

    >>> name_of_space(0), name_of_space(5), name_of_space(3)
    ('hbm', 'host', 'space 3')
    """
    return {0: "hbm", 1: "vmem", 5: "host"}.get(space, f"space {space}")


def check_expansion(largest: float) -> None:
    """Raise ValueError for a largest expansion that is negative or not finite: all buffers would exceed it, or none."""
    if not 0 <= number(largest, "the largest expansion of a buffer") < math.inf:
        raise ValueError(f"the largest expansion of a buffer is a number from 0, not {largest}")
