"""The memory usage in a text: sizes as they are printed, slots, and memory spaces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from strided.memory.buffers import Source

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
#: A printed size: its number and its unit. The compiler always prints a unit, so a number without one was truncated.
SIZE = r"(\d{1,18}(?:\.\d{1,6})?) ?(?=[KMGTPEB])([KMGTPE]?)(?:iB|B)?"
#: Metadata of an HLO operation: its name, and the line of the program from which it came.
_OP_NAME, _FILE = (re.compile(rf'{key}="((?:[^"\\]|\\.){{0,2000}})"') for key in ("op_name", "source_file"))
_LINE = re.compile(r"source_line=(\d{1,9})\b")
#: An escaped quote.
_QUOTED = re.compile(r"\\([\"'])")

#: Numbers of memory spaces by their names in texts.
SPACES = {"hbm": 0, "default": 0, "vmem": 1, "smem": 2, "cmem": 3, "host": 5}
#: The number of a space of any other name.
UNKNOWN = -1


class Size(NamedTuple):
    """Bytes, and the least and the most bytes that a rounded number may stand for."""

    bytes: int
    least: int
    most: int

    @property
    def is_rounded(self) -> bool:
        """Whether other numbers of bytes are printed in the same way."""
        return self.least < self.most


@dataclass(frozen=True)
class Row:
    """One slot of a table: its size, its offset, and the shapes of its values, as text."""

    table: int
    size: Size
    offset: int
    shapes: tuple[str, ...]
    unpadded: Size | None = None
    name: str = ""
    source: Source = field(default_factory=Source)
    kind: str = ""


@dataclass
class Space:
    """One memory space in a text.

    `temporaries` has their bytes with and without padding. `is_early`: whether the compiler gave up as soon as it was
    clear that the program cannot fit.
    """

    number: int
    name: str
    total: Size | None = None
    capacity: Size | None = None
    excess: Size | None = None
    rows: list[Row] = field(default_factory=list)
    left_out: int = 0
    unread: int = 0
    temporaries: tuple[Size, Size] | None = None
    is_padded: bool = True
    is_early: bool = False

    def excess_of(self, total: int) -> int | None:
        """The bytes of a total beyond the capacity, as the text gives them or computed; None if both are unknown."""
        if self.excess is not None:
            return self.excess.bytes
        return None if self.capacity is None else max(0, total - self.capacity.bytes)


@dataclass
class UsageText:
    """A whole text: the program, its memory spaces by number, and whether it has tables, which may be unreadable."""

    module: str = ""
    spaces: dict[int, Space] = field(default_factory=dict)
    others: int = 0
    has_tables: bool = False

    @property
    def lists_buffers(self) -> bool:
        """Whether it lists buffers, unlike messages that only have sizes and limits."""
        return self.has_tables or self.has_rows

    @property
    def has_rows(self) -> bool:
        """Whether rows of any memory space were understood."""
        return any(space.rows for space in self.spaces.values())

    def space(self, number: int, name: str) -> Space:
        """The space with this number, created if there is none."""
        return self.spaces.setdefault(number, Space(number, name))


def size_of(number: str, unit: str) -> Size:
    """A printed size. A number with a unit stands for all sizes that are printed so; one without is exact.

    The compiler first truncates to the next smaller unit.

    >>> size_of("16.0", "K")
    Size(bytes=16384, least=16332, most=16436)
    >>> size_of("15.79", "G").most >= 16_960_000_000
    True
    """
    scale = 1 << _UNITS[unit]
    places = len(number.partition(".")[2])
    half = scale / 10**places / 2 if unit else 0
    below = scale // 1024 if unit not in ("", "K") else 0
    middle = float(number) * scale if places else int(number) * scale
    return Size(round(middle), int(middle - half), round(middle + half + 0.4) + below if half else round(middle))


def number_of(name: str) -> int:
    """The number of a memory space by its name in a text."""
    return SPACES.get(name.lower(), UNKNOWN)


def source_in(metadata: str) -> Source:
    """The source in the metadata of an operation; unknown parts are empty.

    >>> print(source_in('op_type="mul" op_name="jit(f)/mul" source_file="/home/me/model.py" source_line=7'))
    jit(f)/mul at model.py:7
    """
    name, file = (_QUOTED.sub(r"\1", found[1]) if (found := key.search(metadata)) else "" for key in (_OP_NAME, _FILE))
    line = _LINE.search(metadata)
    return Source(op_name=name, file=file, line=int(line[1]) if line else 0)
