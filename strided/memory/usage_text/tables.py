"""The tables of a memory usage report.

For each memory space they contain the exact total, and slots::

    Memory Space: default (color=0)
    Total bytes: 24044546048 (22.39GiB)
      cumulative_size;       size;       offset; used_by_n_values; shapes_list
      ------------------------------------------------------------
        7.46GiB(100%);    7.46GiB;            0;                1; f32[40000,50001]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from strided.memory.usage_text.logs import without_prefixes
from strided.memory.usage_text.values import SIZE, Row, Space, UsageText, size_of

_ROW = re.compile(rf"\s*{SIZE}\(\s*\d+%\);\s*{SIZE};\s*(\d{{1,19}});\s*(\d{{1,9}});\s*([^\"']*)")
_LIKE_ROW = re.compile(r"\(\s*\d{1,9}%\);")
_COUNT = re.compile(r"\s*(\d{1,9})×")
_SPACE = re.compile(r"Memory Space: (\S{1,40}) \(color=(-?\d{1,9})\)")
_TOTAL = re.compile(r"Total bytes: (\d{1,19}) \(")
#: Matches the prefix that a log puts before each line.
_TOTAL_LINE = re.compile(rf"^(.{{0,2000}}?){_TOTAL.pattern}", re.MULTILINE)


def read_tables(text: str, found: UsageText) -> None:
    """Read the tables of the first report; a log may contain those of several programs."""
    every = list(_SPACE.finditer(text))
    if not every:
        return
    found.has_tables = "cumulative_size;" in text
    own = without_prefixes(text, _TOTAL_LINE.search(text, every[0].end()))
    heads = list(_SPACE.finditer(own))
    if not heads:  # the prefixes differ in other ways
        own, heads = text, every
    seen: set[int] = set()
    for head, after in itertools.zip_longest(heads, heads[1:]):
        number = int(head[2])
        if number in seen:
            found.others += 1
            break
        seen.add(number)
        space = found.space(number, "hbm" if number == 0 else head[1])
        _read_table(own[head.end() : len(own) if after is None else after.start()], space)
    found.others += len(every) > len(heads)


def _read_table(text: str, space: Space) -> None:
    """Read the rows and the total of one memory space."""
    table = 0
    for line in text.split("\n"):
        if total := _TOTAL.match(line.strip()):
            space.total = size_of(total[1], "")
        elif line.lstrip().startswith("cumulative_size"):
            table += 1
        elif (row := _ROW.match(line)) and _are_all(row[7].strip(), int(row[6])):
            shapes = tuple(_shapes_of(row[7]))
            space.rows.append(Row(table, size_of(row[3], row[4]), int(row[5]), shapes))
        elif _LIKE_ROW.search(line):
            space.unread += 1
        elif rest := re.match(r"\s*The rest (\d{1,9}) values", line):
            space.left_out += int(rest[1])


def _shapes_of(text: str) -> Iterator[str]:
    """The shapes in the last column of a table, without their counts.

    >>> list(_shapes_of("f32[2,3], 2×(f32[], s32[4])"))
    ['f32[2,3]', '(f32[], s32[4])']
    """
    return (_COUNT.sub("", part).strip() for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that are outside of brackets."""
    depth = start = 0
    for place, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]


def _are_all(shapes: str, values: int) -> bool:
    """Whether the last column of a table has the shapes of all values; in a truncated text some may be missing."""
    is_closed = shapes.endswith(("]", "}", ")")) and all(
        shapes.count(a) == shapes.count(b) for a, b in ("[]", "()", "{}")
    )
    return is_closed and values == sum(int(count[1]) if (count := _COUNT.match(one)) else 1 for one in _parts(shapes))
