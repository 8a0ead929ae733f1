"""Messages of exceptions: how much memory a program takes, and how much there is.

"Used 22.39G of 15.75G hbm", "the total memory required for HLO temporaries (22.39G) exceeds available HBM (15.75G)",
"unlikely to have enough memory. Requires 3.84T, has 90.96G available", "Scoped allocation with size 64.0K and limit
40.0K", "Allocation (size=268435456) would exceed memory (size=134217728)".
"""

from __future__ import annotations

import re

from strided.memory.buffers import Source
from strided.memory.usage_text.values import SIZE, Row, Size, Space, UsageText, number_of, size_of, source_in

#: A character of a name. Quotes and backslashes end it, because a log may contain a message as JSON or repr.
_NAME = r"[^\s,\\\"']"
_MODULE = re.compile(rf"HLO module: ({_NAME}{{1,400}}?)\.?(?:[\s,\\\"']|$)")

_SPACE_WORD = r"(?:memory space )?(\w{1,40})"
_USED = re.compile(rf"Ran out of memory in {_SPACE_WORD}\b[^\n]{{0,200}}?Used {SIZE} of {SIZE}")
_EXCEEDED = re.compile(rf"Exceeded \w{{1,40}} capacity by {SIZE}")
_HBM = re.compile(
    r"Ran out of memory on (\w{1,40}), the total memory required for"
    rf"[^(\n]{{0,80}}\({SIZE}\) exceeds[^(\n]{{0,80}}\({SIZE}\)"
)
#: The message of a compiler that gives up as soon as it is clear that the program cannot fit.
_EARLY = re.compile(rf"unlikely to have enough (?:device )?memory\. Requires {SIZE}, has {SIZE} available")
#: No other message may begin before its numbers, so that a truncated one does not take those of the next, and the
#: search stays linear.
_SCOPED = re.compile(
    r"Ran out of memory in memory space (\w{1,40}) while allocating on stack for %?(\S{1,300}) = "
    r"(?:[^\nR]|R(?!an out of memory)){0,9000}?"
    rf"Scoped allocation with size {SIZE} and limit {SIZE} exceeded scoped \w{{1,40}} limit by {SIZE}"
)
_ALLOCATION = re.compile(
    r"Allocation \(size=(\d{1,19})\) would exceed memory \(size=(\d{1,19})\) :: #(\w{1,60}) "
    r"\[shape = '([^'\n]{0,2000})', space=(\w{1,40})"
)
_TAG = re.compile(r"tag = '([^'\n]{0,400})'")
_KERNEL = re.compile(rf"[^\]\n]{{0,2000}}\] :: ({_NAME}{{1,300}})")

#: Messages of the runtime when there is no memory for a program or a buffer.
_RUNTIME = re.compile(
    rf"Attempting to (?:allocate|reserve) {SIZE}[^\n]{{0,100}}That was not possible\. There are {SIZE} free"
    r"|(?:Out of memory while|ran out of memory) trying to allocate \d"
)


def is_of_runtime(text: str) -> bool:
    """Whether a text has the runtime's message that memory is full."""
    return _RUNTIME.search(text) is not None


def module_named(text: str, start: int) -> str:
    """The program that a text names after `start`, or else before; "" if it names none."""
    found = _MODULE.search(text, start) or _MODULE.search(text)
    return found[1] if found else ""


def count_messages(text: str, found: UsageText) -> int:
    """The position of the first message. Messages with other numbers belong to other reports, which `found` counts."""
    said: dict[tuple[int, Size, Size], int] = {}
    for pattern, first in ((_USED, 2), (_HBM, 2), (_SCOPED, 3), (_EARLY, 1)):
        for one in pattern.finditer(text):
            total, capacity = (size_of(*one.group(k, k + 1)) for k in (first, first + 2))
            name = "hbm" if pattern is _EARLY else one[1]
            said.setdefault((number_of(name), total, capacity), one.start())
    found.others += len(said) > 1
    return min(said.values(), default=0)


def read_messages(text: str, found: UsageText) -> None:
    """Read the limits in the first message, and the buffer in it, if there is one."""
    if used := _USED.search(text):
        _limits(found, used[1], size_of(used[2], used[3]), size_of(used[4], used[5]))
        after = _USED.search(text, used.end())
        if exceeded := _EXCEEDED.search(text, used.end(), after.start() if after else len(text)):
            found.spaces[number_of(used[1])].excess = size_of(exceeded[1], exceeded[2])
    elif hbm := _HBM.search(text):
        _limits(found, hbm[1], size_of(hbm[2], hbm[3]), size_of(hbm[4], hbm[5]))
    elif early := _EARLY.search(text):
        space = _limits(found, "hbm", size_of(early[1], early[2]), size_of(early[3], early[4]))
        space.is_early = True
    elif scoped := _SCOPED.search(text):
        size = size_of(scoped[3], scoped[4])
        space = _limits(found, scoped[1], size, size_of(scoped[5], scoped[6]))
        space.excess = size_of(scoped[7], scoped[8])
        source = source_in(scoped[0])
        space.rows.append(Row(1, size, offset=0, shapes=(), name=f"stack of {scoped[2]}", source=source))
    elif allocation := _ALLOCATION.search(text):
        _read_allocation(allocation, text[allocation.end() : allocation.end() + 3000], found)


def _read_allocation(allocation: re.Match[str], rest: str, found: UsageText) -> None:
    """Read a kernel's buffer that is larger than the memory; the `rest` of the message names the kernel."""
    size, capacity = (size_of(number, "") for number in allocation.group(1, 2))
    space = _limits(found, allocation[5], size, capacity)
    tag = _TAG.search(rest.split("]")[0])
    kernel = _KERNEL.match(rest)
    name = " ".join([f"#{allocation[3]}", *([f"({tag[1]})"] if tag else [])])
    found.module = found.module or (kernel[1] if kernel else "")
    source = Source(op_name=kernel[1] if kernel else "")
    space.rows.append(Row(1, size, offset=0, shapes=(allocation[4],), name=name, source=source))


def _limits(found: UsageText, name: str, total: Size, capacity: Size) -> Space:
    """The memory space of this name, with the limits of a message."""
    space = found.space(number_of(name), name.lower())
    space.total = space.total or total
    space.capacity = capacity
    return space
