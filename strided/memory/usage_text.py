"""Reads the texts in which the compiler says how much memory a program takes.

- The *memory usage report*, beside a dump or in the log of a program that does not fit: for each memory space the exact
  total, and tables of slots ::

    Memory Space: default (color=0)
    Total bytes: 24044546048 (22.39GiB)
      cumulative_size;       size;       offset; used_by_n_values; shapes_list
      ------------------------------------------------------------
        7.46GiB(100%);    7.46GiB;            0;                1; f32[40000,50001]

- The message of an exception: "Used 22.39G of 15.75G hbm", "the total memory required for HLO temporaries (22.39G)
  exceeds available HBM (15.75G)", "Scoped allocation with size 64.0K and limit 40.0K", "Allocation (size=268435456)
  would exceed memory (size=134217728)".
- The list of the largest allocations that compilers printed until about 2025, with shapes and sizes without padding.
- That of XLA for GPU, "Peak buffers", whose layouts have no padding.

Figures such as "22.39G" are rounded; they are kept with the range that they stand for. Logs may put something before
each line, such as a process and the time, or hold the text as one string, in which ends of lines are two characters.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from strided.errors import DumpError

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
#: The compiler prints a unit with every size: a number without one was cut.
_SIZE = r"(\d{1,18}(?:\.\d{1,6})?) ?(?=[KMGTB])([KMGT]?)(?:iB|B)?"
_ROW = re.compile(rf"\s*{_SIZE}\(\s*\d+%\);\s*{_SIZE};\s*(\d{{1,19}});\s*(\d{{1,9}});\s*([^\"']*)")
_LIKE_ROW = re.compile(r"\(\s*\d{1,9}%\);")
_COUNT = re.compile(r"\s*(\d{1,9})×")
_SPACE = re.compile(r"Memory Space: (\S{1,40}) \(color=(-?\d{1,9})\)")
_TOTAL = re.compile(r"Total bytes: (\d{1,19}) \(")
#: A character of a name, which quotes and what escapes them end: a log may keep a message as JSON or repr.
_NAME = r"[^\s,\\\"']"
_MODULE = re.compile(rf"HLO module: ({_NAME}{{1,400}}?)\.?(?:[\s,\\\"']|$)")
_SPACE_WORD = r"(?:memory space )?(\w{1,40})"

_USED = re.compile(rf"Ran out of memory in {_SPACE_WORD}\b[^\n]{{0,200}}?Used {_SIZE} of {_SIZE}")
_EXCEEDED = re.compile(rf"Exceeded \w{{1,40}} capacity by {_SIZE}")
_HBM = re.compile(
    r"Ran out of memory on (\w{1,40}), the total memory required for"
    rf"[^(\n]{{0,80}}\({_SIZE}\) exceeds[^(\n]{{0,80}}\({_SIZE}\)"
)
_SCOPED = re.compile(
    rf"Ran out of memory in memory space (\w{{1,40}}) while allocating on stack for %?(\S{{1,300}}) = [^\n]{{0,9000}}?"
    rf"Scoped allocation with size {_SIZE} and limit {_SIZE} exceeded scoped \w{{1,40}} limit by {_SIZE}"
)
_ALLOCATION = re.compile(
    r"Allocation \(size=(\d{1,19})\) would exceed memory \(size=(\d{1,19})\) :: #(\w{1,60}) "
    r"\[shape = '([^'\n]{0,2000})', space=(\w{1,40})"
)
_TAG = re.compile(r"tag = '([^'\n]{0,400})'")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.){0,2000})"')
#: What a name has before quotes.
_QUOTED = re.compile(r"\\([\"'])")

_OLD_ENTRY = re.compile(rf"(\d{{1,6}})\. Size: {_SIZE}\s*$", re.MULTILINE)
_OLD_HEAD = re.compile(r"Largest program allocations in (\w{1,40})")
#: Pages of the web indent with spaces that do not break.
_INDENT = r"^[^\S\n]*"
_OLD_FIELDS = {
    "operator": re.compile(rf"{_INDENT}Operator: (.*)$", re.MULTILINE),
    "shape": re.compile(rf"{_INDENT}Shape: (.*)$", re.MULTILINE),
    "parameter": re.compile(rf"{_INDENT}Entry Parameter Subshape: (.*)$", re.MULTILINE),
    "unpadded": re.compile(rf"{_INDENT}Unpadded size: {_SIZE}", re.MULTILINE),
    "label": re.compile(rf"{_INDENT}XLA [Ll]abel: %?(.*?)(?: = .*)?$", re.MULTILINE),
    "type": re.compile(rf"{_INDENT}Allocation type: (.*)$", re.MULTILINE),
}
#: What begins a line of such a list, for texts in which spaces have taken the place of line ends.
_OLD_BEGIN = re.compile(
    r"(?<! ) ++(?=={10}|"
    r"(?:\d{1,6}\. Size|Operator|Shape|Unpadded size|Extra memory due to padding|XLA [Ll]abel|Allocation type): )"
)
_OLD_TOTAL = re.compile(rf"Program (\w{{1,40}}) requirement {_SIZE}")
#: What the compiler says of the padding of all temporaries, not only of the largest.
_OLD_TEMPORARIES = re.compile(
    rf"HLO temp[^\S\n]{{1,40}}{_SIZE} \([^\n()]{{0,80}}Unpadded \({_SIZE}\) Padded \({_SIZE}\)"
)
#: The list of XLA for GPU: its head, its total, what each entry begins with, and shapes without layouts.
_PEAK = "Peak buffers:"
_PEAK_TOTAL = re.compile(rf"total allocation: {{0,40}}{_SIZE}")
_PEAK_ENTRY = re.compile(r"Buffer (\d{1,6}):[ \t\r]{0,100}\n[^\n]{0,2000}?(?=Size: )")
_BARE_SHAPE = re.compile(r"\w{1,20}\[(\d{1,19}(?:,\d{1,19}){0,400})\]")
#: What the runtime says when a program, or a buffer, finds no place.
_RUNTIME = re.compile(
    rf"Attempting to (?:allocate|reserve) {_SIZE}[^\n]{{0,100}}That was not possible\. There are {_SIZE} free"
    r"|(?:Out of memory while|ran out of memory) trying to allocate \d"
)

#: What sets the colours of a terminal, and erases the rest of its line behind them, as grep does: a log may hold both.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}[mK]")
#: Lines of a report that tell what a log puts before each of them.
_TOTAL_LINE = re.compile(rf"^(.{{0,2000}}?){_TOTAL.pattern}", re.MULTILINE)
_OLD_LINE = re.compile(r"^(.{0,2000}?)\d{1,6}\. Size: \d", re.MULTILINE)
#: What differs from line to line in what a log puts before each: dates, times, and seconds since some moment.
_TIME = re.compile(
    r"(?<![\d.])(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?|\d{1,19}\.\d{2,9}|\d{10,19})(?![\d.])"
)
#: A number that may count the lines of a text, and the signs between which grep puts it.
_COUNTER = re.compile(r"\d{1,9}")
_BESIDE_COUNTER = ":-"
#: Numbers before a line that are tried.
_MOST_COUNTERS = 20
#: Lines that tell whether a number counts them, at least and at most: those of several processes soon begin again.
_FEW, _MANY = 3, 200
#: The keys under which logs of JSON objects keep what was written, and a moment.
_WRITTEN = frozenset(("log", "message", "msg", "textPayload", "text", "line", "MESSAGE", "@message", "body"))
_MOMENT = "timestamp"
#: Characters of a JSON text that is read as a whole, which takes many times its size in memory.
_LONGEST_JSON = 1 << 26
#: The beginning of a line that names an operation.
_OPERATOR = re.compile(r'Operator: \w{1,40}="')
#: What JSON and repr write for a character.
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrt\"'\\/]))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

#: Numbers of memory spaces by the names that texts give them.
SPACES = {"hbm": 0, "default": 0, "vmem": 1, "smem": 2, "cmem": 3, "host": 5}
#: The number of a space of any other name.
UNKNOWN = -1


class Size(NamedTuple):
    """Bytes, and the least and the most that a rounded figure stands for."""

    bytes: int
    least: int
    most: int

    @property
    def is_rounded(self) -> bool:
        """Whether other numbers of bytes print alike."""
        return self.least < self.most


@dataclass(frozen=True)
class Row:
    """One slot of a table: its size, its place, and the shapes of its values, as text."""

    table: int
    size: Size
    offset: int
    values: int
    shapes: tuple[str, ...]
    unpadded: Size | None = None
    name: str = ""
    op_name: str = ""
    kind: str = ""


@dataclass
class Space:
    """What a text says of one memory space; of its `temporaries`, the bytes in all and those without padding."""

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


@dataclass
class UsageText:
    """A whole text: the program, its memory spaces by number, and whether it has tables, which may be unreadable."""

    module: str = ""
    spaces: dict[int, Space] = field(default_factory=dict)
    others: int = 0
    has_tables: bool = False

    def space(self, number: int, name: str) -> Space:
        """The space of that number, made if there is none."""
        return self.spaces.setdefault(number, Space(number, name))


def read_usage_text(text: str, path: str | None = None) -> UsageText:
    """What a text says. DumpError if that is nothing about memory that is understood."""
    if (found := usage_in(text)) is None:
        if is_of_runtime(text):
            raise DumpError(
                "the text is what the runtime says when memory is full: it names no buffers. Give a dump of the "
                "program instead (XLA_FLAGS=--xla_dump_to=DIR)",
                path=path,
            )
        raise DumpError("the text says nothing that is understood about memory", path=path)
    return found


def is_of_runtime(text: str) -> bool:
    """Whether a text is what the runtime says when memory is full."""
    return _RUNTIME.search(text) is not None


def usage_in(text: str) -> UsageText | None:
    """What a text says; None if that is nothing about memory that is understood."""
    found, text = UsageText(), _with_line_ends(_COLOUR.sub("", _unescaped(_written(text))))
    start = _count_messages(text, found)
    if module := _MODULE.search(text, start) or _MODULE.search(text):
        found.module = module[1]
    _read_tables(text, found)
    _read_messages(text, found)
    _read_old(text, found)
    return found if found.spaces else None


def _with_line_ends(text: str) -> str:
    r"""The text, in which every line ends with a newline, as also those do that a progress bar overwrites.

    >>> _with_line_ends("a\r\nb\rc")
    'a\nb\nc'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _written(text: str) -> str:
    r"""What was written to a log that holds JSON objects, one in each line or all in a list; else the text.

    >>> _written('{"level": "ERROR", "message": "HLO module: jit_f."}\nthe end')
    'HLO module: jit_f.\nthe end'
    """
    start = text[:1000].lstrip()[:1]
    if start and start in "[{" and len(text) <= _LONGEST_JSON and (found := _strings_of(text)) is not None:
        return "\n".join(found)
    if '{"' not in text:
        return text
    lines = ((line, _strings_of(line) if line.startswith("{") else None) for line in text.split("\n"))
    return "\n".join(line if found is None else "\n".join(found) for line, found in lines)


def _strings_of(text: str) -> list[str] | None:
    """What a text in JSON holds under the keys of logs, else all its strings; None if it is none."""
    try:
        value = json.loads(text)
        if isinstance(value, list):
            moments = [str(one.get(_MOMENT, "")) if isinstance(one, dict) else "" for one in value]
            value = value[::-1] if moments and moments[0] > moments[-1] else value  # the latest was put first
        strings = list(_strings_in(value))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)):
        return None
    written = [one for key, one in strings if key in _WRITTEN]
    return [one.removesuffix("\n") for one in written or [one for _, one in strings]]


def _strings_in(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The strings of a JSON value, each with the nearest key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _strings_in(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from _strings_in(one, key)


def _unescaped(text: str) -> str:
    r"""The text, in which lines that hold others as one string, as JSON and repr write it, are those.

    >>> _unescaped(r'"HLO module: jit_f.\nSee \"it\""')
    '"HLO module: jit_f.\nSee "it""'
    """
    if r"\n" not in text:
        return text
    return "\n".join(_ESCAPED.sub(_character, line) if _holds_lines(line) else line for line in text.split("\n"))


def _holds_lines(line: str) -> bool:
    r"""Whether a line holds others as one string; names of operations may have an end of line too."""
    end = line.find(r"\n")
    return end >= 0 and _OPERATOR.search(line, 0, end) is None


def _character(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16)) if escaped[1] else _ESCAPES.get(escaped[2], escaped[2])


def _without_prefixes(text: str, first: re.Match[str] | None) -> str:
    """The lines of a log that begin as its `first` one, without what it puts before each; all if it puts nothing there.

    Times may differ, and so may a number that counts the lines. Processes may not: the lines of another one are those
    of another report.
    """
    prefix = first[1].rstrip() if first else ""
    if first is None or not prefix:
        return text
    alike = _counted_alike(prefix, text[first.start() : first.start() + (1 << 20)]) or re.compile(_alike(prefix))
    return "\n".join(line[found.end() :] for line in text.split("\n") if (found := alike.match(line)))


def _alike(prefix: str) -> str:
    """The pattern of what a log puts before a line, at any time."""
    return f"(?>{_TIME.pattern})".join(map(re.escape, _TIME.split(prefix)))


def _counted_alike(prefix: str, text: str) -> re.Pattern[str] | None:
    """The pattern of what stands before each line of a text, if a number in that counts them; else None."""
    lines = text.split("\n", _MANY)[:_MANY]
    for number in itertools.islice(_COUNTER.finditer(prefix), _MOST_COUNTERS):
        before, after = prefix[: number.start()].rstrip(" "), prefix[number.end() :]
        open_ended = "[:-]" if before[-1:] in _BESIDE_COUNTER and before else ""
        closed = "[:-]" if after[:1] in _BESIDE_COUNTER and after else ""
        alike = re.compile(
            f"{_alike(before[: len(before) - bool(open_ended)])}{open_ended} *({_COUNTER.pattern}){closed}"
            f"{_alike(after[bool(closed) :])}"
        )
        counts = [int(found[1]) for line in lines if (found := alike.match(line))]
        if len(counts) >= _FEW and all(a < b for a, b in itertools.pairwise(counts)):
            return alike
    return None


def _read_tables(text: str, found: UsageText) -> None:
    """The tables of the first report; a log may hold those of several programs."""
    every = list(_SPACE.finditer(text))
    if not every:
        return
    found.has_tables = "cumulative_size;" in text
    own = _without_prefixes(text, _TOTAL_LINE.search(text, every[0].end()))
    heads = list(_SPACE.finditer(own))
    if not heads:  # what stands before each line differs in other ways
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
    table = 0
    for line in text.split("\n"):
        if total := _TOTAL.match(line.strip()):
            space.total = Size(*3 * (int(total[1]),))
        elif line.lstrip().startswith("cumulative_size"):
            table += 1
        elif (row := _ROW.match(line)) and _are_all(row[7].strip(), int(row[6])):
            shapes = tuple(shapes_of(row[7]))
            space.rows.append(Row(table, _size(row[3], row[4]), int(row[5]), int(row[6]), shapes))
        elif _LIKE_ROW.search(line):
            space.unread += 1
        elif rest := re.match(r"\s*The rest (\d{1,9}) values", line):
            space.left_out += int(rest[1])


def _count_messages(text: str, found: UsageText) -> int:
    """Where the first message begins; others with other figures are those of other reports."""
    said: dict[tuple[int, Size, Size], int] = {}
    for pattern, first in ((_USED, 2), (_HBM, 2), (_SCOPED, 3)):
        for one in pattern.finditer(text):
            total, capacity = (_size(*one.group(k, k + 1)) for k in (first, first + 2))
            said.setdefault((_number(one[1]), total, capacity), one.start())
    found.others += len(said) > 1
    return min(said.values(), default=0)


def _read_messages(text: str, found: UsageText) -> None:
    if used := _USED.search(text):
        _limits(found, used[1], _size(used[2], used[3]), _size(used[4], used[5]))
        after = _USED.search(text, used.end())
        if exceeded := _EXCEEDED.search(text, used.end(), after.start() if after else len(text)):
            found.spaces[_number(used[1])].excess = _size(exceeded[1], exceeded[2])
    elif hbm := _HBM.search(text):
        _limits(found, hbm[1], _size(hbm[2], hbm[3]), _size(hbm[4], hbm[5]))
    elif scoped := _SCOPED.search(text):
        size = _size(scoped[3], scoped[4])
        space = _limits(found, scoped[1], size, _size(scoped[5], scoped[6]))
        space.excess = _size(scoped[7], scoped[8])
        op_name = _OP_NAME.search(scoped[0])
        space.rows.append(Row(1, size, 0, 1, (), None, f"stack of {scoped[2]}", op_name[1] if op_name else ""))
    elif allocation := _ALLOCATION.search(text):
        size, capacity = (Size(*3 * (int(n),)) for n in allocation.groups()[:2])
        space = _limits(found, allocation[5], size, capacity)
        rest = text[allocation.end() : allocation.end() + 3000]
        tag = _TAG.search(rest.split("]")[0])
        kernel = re.match(rf"[^\]\n]{{0,2000}}\] :: ({_NAME}{{1,300}})", rest)
        name = " ".join([f"#{allocation[3]}", *([f"({tag[1]})"] if tag else [])])
        found.module = found.module or (kernel[1] if kernel else "")
        space.rows.append(Row(1, size, 0, 1, (allocation[4],), None, name, kernel[1] if kernel else ""))


def _read_old(text: str, found: UsageText) -> None:
    """The list "Largest program allocations" of older compilers, or of XLA for GPU; it names the largest only."""
    total, head = _OLD_TOTAL.search(text), _OLD_HEAD.search(text)
    is_gpu = head is None and _PEAK in text
    sum_of_all = _PEAK_TOTAL.search(text) if is_gpu else None
    temporaries = _OLD_TEMPORARIES.search(text, total.end(), total.end() + 4000) if total else None
    text = _PEAK_ENTRY.sub(r"\1. ", text) if is_gpu else text
    text = _from_first_entry(text)
    if (head or total) and _OLD_ENTRY.search(text) is None:
        text = _OLD_BEGIN.sub("\n", text)
    count = len(_OLD_ENTRY.findall(text))
    text = _without_prefixes(text, _OLD_LINE.search(text))
    every = list(_OLD_ENTRY.finditer(text))
    if not every:
        return
    # A list counts its entries; a log may repeat it, or go on with that of another program or process.
    ends = (n for n, (one, after) in enumerate(itertools.pairwise(every), 1) if int(after[1]) <= int(one[1]))
    entries = every[: next(ends, len(every))]
    found.others += count > len(entries)
    name = head[1] if head else total[1] if total else "hbm"
    space = found.space(_number(name), name.lower())
    if total and space.total is None and _number(total[1]) == space.number:
        space.total = _size(total[2], total[3])
    if total and temporaries and _number(total[1]) == space.number:
        space.temporaries = _size(*temporaries.group(1, 2)), _size(*temporaries.group(3, 4))
    if is_gpu:
        space.is_padded = False
        space.total = space.total or (_size(sum_of_all[1], sum_of_all[2]) if sum_of_all else None)
    for n, (entry, after) in enumerate(itertools.zip_longest(entries, every[1 : len(entries) + 1])):
        part = text[entry.end() : entry.end() + 20_000 if after is None else after.start()]
        space.rows.append(_row_of(n + 1, _size(entry[2], entry[3]), part, is_gpu))


def _from_first_entry(text: str) -> str:
    """The text from the line on in which the first entry may be: patterns take their time over long logs."""
    place = text.find(". Size: ")
    return text[text.rfind("\n", 0, place) + 1 :] if place >= 0 else ""


def _row_of(number: int, size: Size, fields: str, is_gpu: bool) -> Row:
    """An entry of such a list."""
    said = {name: pattern.search(fields) for name, pattern in _OLD_FIELDS.items()}
    shape, parameter, unpadded = (said[name] for name in ("shape", "parameter", "unpadded"))
    op_name = _OP_NAME.search(said["operator"][1]) if said["operator"] else None
    label = "entry parameter" if parameter else said["label"][1].strip() if said["label"] else ""
    kind = said["type"][1].strip() if said["type"] else "Arguments" if parameter else ""
    shapes = tuple(found[1].strip() for found in (shape or parameter,) if found)
    return Row(
        number,
        size,
        0,
        1,
        tuple(map(_row_major, shapes)) if is_gpu else shapes,
        _size(unpadded[1], unpadded[2]) if unpadded else None,
        label,
        _QUOTED.sub(r"\1", op_name[1]) if op_name else "",
        {"HLO temp": "temporary", "Arguments": "argument"}.get(kind, ""),
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
    return f"{shape}{{{','.join(map(str, reversed(range(rank))))}}}"


def _limits(found: UsageText, name: str, total: Size, capacity: Size) -> Space:
    space = found.space(_number(name), name.lower())
    space.total = space.total or total
    space.capacity = capacity
    return space


def _number(name: str) -> int:
    return SPACES.get(name.lower(), UNKNOWN)


def _size(number: str, unit: str) -> Size:
    """A printed size. A figure with decimals stands for all that print so.

    The compiler rounds down to the next smaller unit first.

    >>> _size("16.0", "K")
    Size(bytes=16384, least=16332, most=16436)
    >>> _size("15.79", "G").most >= 16_960_000_000
    True
    """
    scale = 1 << _UNITS[unit]
    places = len(number.partition(".")[2])
    half = scale / 10**places / 2 if unit else 0
    below = scale // 1024 if unit not in ("", "K") else 0
    middle = float(number) * scale if places else int(number) * scale
    return Size(round(middle), int(middle - half), round(middle + half + 0.4) + below if half else round(middle))


def shapes_of(text: str) -> Iterator[str]:
    """The shapes in the last column of a table, without their counts.

    >>> list(shapes_of("f32[2,3], 2×(f32[], s32[4])"))
    ['f32[2,3]', '(f32[], s32[4])']
    """
    return map(_uncounted, _parts(text))


def _parts(text: str) -> Iterator[str]:
    """What commas outside of brackets separate."""
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


def _uncounted(text: str) -> str:
    return _COUNT.sub("", text).strip()


def _are_all(shapes: str, values: int) -> bool:
    """Whether the last column of a table has the shapes of all values: that of a text that was cut may lack some."""
    is_closed = shapes.endswith(("]", "}", ")")) and all(
        shapes.count(a) == shapes.count(b) for a, b in ("[]", "()", "{}")
    )
    return is_closed and values == sum(int(count[1]) if (count := _COUNT.match(one)) else 1 for one in _parts(shapes))
