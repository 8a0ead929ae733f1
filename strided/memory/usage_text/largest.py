"""Lists of the largest buffers: "Largest program allocations" of compilers until about 2025, "Peak buffers" of GPUs.

Entries have shapes; those of TPUs also have sizes without padding. The layouts of XLA for GPU have no padding.
"""

from __future__ import annotations

import itertools
import re

from strided.layout.layout import descending
from strided.memory.usage_text.logs import without_prefixes
from strided.memory.usage_text.values import SIZE, Row, Size, UsageText, number_of, size_of, source_in

_ENTRY = re.compile(rf"(\d{{1,6}})\. Size: {SIZE}\s*$", re.MULTILINE)
#: Matches the prefix that a log puts before each line.
_ENTRY_LINE = re.compile(r"^(.{0,2000}?)\d{1,6}\. Size: \d", re.MULTILINE)
_HEAD = re.compile(r"Largest program allocations in (\w{1,40})")
#: Web pages indent with non-breaking spaces.
_INDENT = r"^[^\S\n]*"
_FIELDS = {
    "operator": re.compile(rf"{_INDENT}Operator: (.*)$", re.MULTILINE),
    "shape": re.compile(rf"{_INDENT}Shape: (.*)$", re.MULTILINE),
    "parameter": re.compile(rf"{_INDENT}Entry Parameter Subshape: (.*)$", re.MULTILINE),
    "unpadded": re.compile(rf"{_INDENT}Unpadded size: {SIZE}", re.MULTILINE),
    "label": re.compile(rf"{_INDENT}XLA [Ll]abel: %?(.*?)(?: = .*)?$", re.MULTILINE),
    "type": re.compile(rf"{_INDENT}Allocation type: (.*)$", re.MULTILINE),
}
#: The blanks before a line of such a list, for texts in which blanks have replaced line ends.
_BEGIN = re.compile(
    r"(?<! ) ++(?=={10}|"
    r"(?:\d{1,6}\. Size|Operator|Shape|Unpadded size|Extra memory due to padding|XLA [Ll]abel|Allocation type): )"
)
_TOTAL = re.compile(rf"Program (\w{{1,40}}) requirement {SIZE}")
#: The sizes of all temporaries, not only of the largest, with and without padding.
_TEMPORARIES = re.compile(rf"HLO temp[^\S\n]{{1,40}}{SIZE} \([^\n()]{{0,80}}Unpadded \({SIZE}\) Padded \({SIZE}\)")

#: The list of XLA for GPU: its head, its total, the beginning of an entry, and shapes without layouts.
_PEAK = "Peak buffers:"
_PEAK_TOTAL = re.compile(rf"total allocation:[^\S\n]{{0,40}}{SIZE}")
_PEAK_ENTRY = re.compile(r"Buffer (\d{1,6}):[ \t\r]{0,100}\n[^\n]{0,2000}?(?=Size: )")
_BARE_SHAPE = re.compile(r"\w{1,20}\[(\d{1,19}(?:,\d{1,19}){0,400})\]")


def read_largest(text: str, found: UsageText) -> None:
    """Read the list of older compilers, or of XLA for GPU, which contains only the largest buffers."""
    total, head = _TOTAL.search(text), _HEAD.search(text)
    is_gpu = head is None and _PEAK in text
    sum_of_all = _PEAK_TOTAL.search(text) if is_gpu else None
    temporaries = _TEMPORARIES.search(text, total.end(), total.end() + 4000) if total else None
    text = _PEAK_ENTRY.sub(r"\1. ", text) if is_gpu else text
    text = _from_first_entry(text)
    if (head or total) and _ENTRY.search(text) is None:
        text = _BEGIN.sub("\n", text)
    count = len(_ENTRY.findall(text))
    text = without_prefixes(text, _ENTRY_LINE.search(text))
    every = list(_ENTRY.finditer(text))
    if not every:
        return
    entries = _first_list(every)
    found.others += count > len(entries)
    name = head[1] if head else total[1] if total else "hbm"
    space = found.space(number_of(name), name.lower())
    if total and space.total is None and number_of(total[1]) == space.number:
        space.total = size_of(total[2], total[3])
    if total and temporaries and number_of(total[1]) == space.number:
        space.temporaries = size_of(*temporaries.group(1, 2)), size_of(*temporaries.group(3, 4))
    if is_gpu:
        space.is_padded = False
        space.total = space.total or (size_of(sum_of_all[1], sum_of_all[2]) if sum_of_all else None)
    for n, (entry, after) in enumerate(itertools.zip_longest(entries, every[1 : len(entries) + 1])):
        part = text[entry.end() : entry.end() + 20_000 if after is None else after.start()]
        space.rows.append(_row_of(n + 1, size_of(entry[2], entry[3]), part, is_gpu))


def _from_first_entry(text: str) -> str:
    """The text from the line of the first possible entry, because patterns are slow on long logs."""
    place = text.find(". Size: ")
    return text[text.rfind("\n", 0, place) + 1 :] if place >= 0 else ""


def _first_list(entries: list[re.Match[str]]) -> list[re.Match[str]]:
    """The entries of the first list, by their numbers: a log may repeat it, or continue with another process's list."""
    ends = (n for n, (one, after) in enumerate(itertools.pairwise(entries), 1) if int(after[1]) <= int(one[1]))
    return entries[: next(ends, len(entries))]


def _row_of(number: int, size: Size, fields: str, is_gpu: bool) -> Row:
    """An entry of such a list."""
    said = {name: pattern.search(fields) for name, pattern in _FIELDS.items()}
    shape, parameter, unpadded = (said[name] for name in ("shape", "parameter", "unpadded"))
    label = "entry parameter" if parameter else said["label"][1].strip() if said["label"] else ""
    kind = said["type"][1].strip() if said["type"] else "Arguments" if parameter else ""
    shapes = tuple(found[1].strip() for found in (shape or parameter,) if found)
    return Row(
        table=number,
        size=size,
        offset=0,
        shapes=tuple(map(_row_major, shapes)) if is_gpu else shapes,
        unpadded=size_of(unpadded[1], unpadded[2]) if unpadded else None,
        name=label,
        source=source_in(said["operator"][1] if said["operator"] else ""),
        kind={"HLO temp": "temporary", "Arguments": "argument"}.get(kind, ""),
    )


def _row_major(shape: str) -> str:
    """A shape without a layout, with the row-major one.

    >>> _row_major("f32[256,128,3]")
    'f32[256,128,3]{2,1,0}'
    """
    bare = _BARE_SHAPE.fullmatch(shape)
    if bare is None:
        return shape
    rank = bare[1].count(",") + 1
    return f"{shape}{{{','.join(map(str, descending(rank)))}}}"
