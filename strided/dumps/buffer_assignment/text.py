"""Parse the text of a buffer assignment, of any version of XLA.

::

    BufferAssignment:
    allocation <i>: [0x<pointer>, ]size <bytes>{, <attribute>}:
     value: <<id> <instruction>[{<shape index>}][ (phi)][ @<memory space>]> (size=<bytes>,offset=<bytes>): <shape>

    attribute = color <c> | page <p> | parameter <n>, shape |<shape>| at ShapeIndex {..} | output shape is |<shape>|
              | constant | thread-local | maybe-live-out | preallocated-temp

Versions up to 2022 print a pointer; those up to 2026 continue with ``Total bytes used`` and ``Used values:``, which add
nothing new. Lines that cannot be parsed are kept and counted. Later texts have no end mark: truncation shows only in
what the allocations lack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from strided.dumps.buffer_assignment.values import FLAGS, Allocation, Value
from strided.dumps.source import lines_of
from strided.errors import DumpError, DumpWarning, warn

#: The first line.
HEADER = b"BufferAssignment:"

#: Beginnings of the line after the allocations.
_END = ("Total bytes used", "Used values:")

_ALLOCATION = re.compile(r"allocation (\d{1,19}):(?: 0x[0-9a-fA-F]+,)? size (\d{1,19})")
_ATTRIBUTE = re.compile(
    r", (?:color (?P<color>-?\d{1,9})|page (?P<page>-?\d{1,9})"
    r"|parameter (?P<parameter>\d{1,9}), shape \|(?P<parameter_shape>[^|]*)\| at ShapeIndex \{(?P<index>[\d, ]*)\}"
    r"|output shape is \|(?P<output_shape>[^|]*)\||(?P<word>[a-zA-Z][^,:|]*))"
)
_VALUE = re.compile(
    r"[ \t]*value: <(\d{1,19}) (.*?)(?:\{([\d, ]*)\})?( \(phi\))?(?: @(-?\d{1,9}))?>"
    r" \(size=(\d{1,19}),offset=(\d{1,19})\):(?: (.*))?"
)
_INTEGER = re.compile(r"\d+")
_TOTAL = re.compile(r"Total bytes used: (\d{1,19})\b")

#: The most lines that a warning quotes.
_NAMED = 3


class AssignmentText(NamedTuple):
    """What a text holds.

    Attributes
    ----------
    allocations : tuple of Allocation
    unread : tuple of (int, str)
        Lines that could not be parsed: number, and text.
    cut : str
        A sign that the text was truncated; empty if there is none.
    is_complete : bool
        Whether the text's total shows that no line is missing.
    """

    allocations: tuple[Allocation, ...]
    unread: tuple[tuple[int, str], ...]
    cut: str
    is_complete: bool


def read_assignment_text(view: memoryview, path: str | None, max_bytes: int | None = None) -> AssignmentText:
    """Parse a text. A DumpWarning reports lines that could not be parsed, and signs of truncation.

    DumpError for other text, several assignments, a text that ends inside a line, or too many short lines
    (`source.lines_of`).
    """
    lines = lines_of(view, path, max_bytes)
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    if lines[first].strip() != HEADER.decode():
        raise DumpError("expected a buffer assignment, which begins 'BufferAssignment:'", path=path, line=first + 1)
    for number, line in enumerate(lines[first + 1 :], first + 2):
        if line.strip() == HEADER.decode():  # its allocations would be mixed with the first program's
            raise DumpError("a second buffer assignment begins here: read each by itself", path=path, line=number)
    found: list[tuple[Allocation, list[Value]]] = []
    unread: list[tuple[int, str]] = []
    total: int | None = None
    number, line = first + 1, lines[first]
    for number, line in enumerate(lines[first + 1 :], first + 2):
        # The whole text may be indented, as in a quotation.
        if line.lstrip().startswith(_END):
            total = int(stated[1]) if (stated := _TOTAL.match(line.lstrip())) else None
            break
        allocation = _allocation(line.lstrip())
        value = _value(line, found[-1][0]) if allocation is None and found else None
        if allocation is not None:
            found.append((allocation, []))
        elif value is not None:
            found[-1][1].append(value)
        elif line.strip():
            unread.append((number, line))
    else:  # `line` is the last line, empty if the text ends in a newline
        if line.strip() and not _is_whole(line, found):
            raise DumpError("the text ends inside this line", path=path, line=number, column=len(line) + 1)
    if unread and not found:
        message = f"no allocation in this buffer assignment, but {unread[0][1].strip()[:60]!r}"
        raise DumpError(message, path=path, line=unread[0][0])
    if unread:
        _warn(unread, path)
    allocations = tuple(replace(allocation, values=tuple(values)) for allocation, values in found)
    sign = "" if unread else next(_signs_of_truncation(allocations, total, line), "")
    if sign:
        warn(f"{path or 'buffer assignment'}: the text was cut: {sign}", DumpWarning)
    return AssignmentText(allocations, tuple(unread), sign, is_complete=total is not None and not sign and not unread)


def _is_whole(line: str, found: Sequence[tuple[Allocation, list[Value]]]) -> bool:
    """Whether a last line without a newline is complete."""
    if line.rstrip().endswith(":"):
        return line.strip() == HEADER.decode() or _allocation(line.lstrip()) is not None
    value = _value(line, found[-1][0]) if found else None
    return value is not None and value.shape is not None


def _signs_of_truncation(allocations: Sequence[Allocation], total: int | None, last_line: str) -> Iterator[str]:
    """Signs that lines are missing. Every program has allocations, and all have values, except empty ones."""
    if not allocations:
        yield "it has no allocation"
        return
    if total is not None and total != (held := sum(one.size for one in allocations)):
        yield f"its allocations have {held} bytes in all, but its total is {total}"
    if total is None and last_line.endswith("]"):  # a layout may be missing
        yield "its last line has no end"
    for number, one in enumerate(allocations):
        if one.index != number:
            yield f"allocation {number} is missing"
            return
        if one.size and not one.values:
            yield f"allocation {number} has no values"
    numbers = {one.parameter_number for one in allocations if one.parameter_number is not None}
    if missing := set(range(len(numbers))) - numbers:
        yield f"parameter {min(missing)} has no allocation"
    last = allocations[-1]
    end = max((value.offset + value.size for value in last.values), default=last.size)
    # Temporaries fill an allocation of the main memory; in other spaces the compiler may reserve a part.
    if end < last.size and last.is_preallocated_temp and not (last.maybe_live_out or last.memory_space):
        yield f"the values of allocation {last.index} end at byte {end} of {last.size}"


def _warn(unread: list[tuple[int, str]], path: str | None) -> None:
    count = "1 line was" if len(unread) == 1 else f"{len(unread)} lines were"
    named = "; ".join(f"line {number}: {line.strip()[:60]!r}" for number, line in unread[:_NAMED])
    warn(f"{path or 'buffer assignment'}: {count} not understood ({named})", DumpWarning)


def _allocation(line: str) -> Allocation | None:
    match = _ALLOCATION.match(line)
    if match is None:
        return None
    fields: dict[str, Any] = {}
    others: list[str] = []
    end = match.end()
    while (attribute := _ATTRIBUTE.match(line, end)) is not None:
        end = attribute.end()
        word = (attribute["word"] or "").strip()
        if word in FLAGS:
            fields[FLAGS[word]] = True
        elif word:
            others.append(word)
        elif attribute["color"] is not None:
            fields["memory_space"] = int(attribute["color"])
        elif attribute["page"] is not None:
            fields["page"] = int(attribute["page"])
        elif attribute["output_shape"] is not None:
            fields["output_shape"] = attribute["output_shape"]
        else:
            fields["parameter_number"] = int(attribute["parameter"])
            fields["parameter_shape"] = attribute["parameter_shape"]
            fields["parameter_shape_index"] = _indices(attribute["index"])
    if line[end:].strip() not in (":", ""):
        return None
    return Allocation(int(match[1]), int(match[2]), others=tuple(others), **fields)


def _value(line: str, allocation: Allocation) -> Value | None:
    match = _VALUE.fullmatch(line)
    if match is None:
        return None
    number, name, index, phi, space, size, offset, shape = match.groups()
    return Value(
        int(number),
        name,
        None if index is None else _indices(index),
        int(offset),
        int(size),
        allocation.memory_space if space is None else int(space),
        phi is not None,
        shape or "",
    )


def _indices(text: str) -> tuple[int, ...]:
    return tuple(int(number[:19]) for number in _INTEGER.findall(text))
