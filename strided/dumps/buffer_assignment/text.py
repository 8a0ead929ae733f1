"""The text of a buffer assignment, of any version of XLA.

::

    BufferAssignment:
    allocation <i>: [0x<pointer>, ]size <bytes>{, <attribute>}:
     value: <<id> <instruction>[{<shape index>}][ (phi)][ @<memory space>]> (size=<bytes>,offset=<bytes>): <shape>

    attribute = color <c> | page <p> | parameter <n>, shape |<shape>| at ShapeIndex {..} | output shape is |<shape>|
              | constant | thread-local | maybe-live-out | preallocated-temp

Versions up to 2022 print a pointer; those up to 2026 go on with ``Total bytes used`` and ``Used values:``, which repeat
what was said. Other lines are kept and counted.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

from strided.dumps.buffer_assignment.values import FLAGS, Allocation, Value
from strided.dumps.source import lines_of
from strided.errors import DumpError, DumpWarning

#: How the text begins.
HEADER = b"BufferAssignment:"

#: The line after the allocations.
_END = ("Total bytes used", "Used values:")

_ALLOCATION = re.compile(r"allocation (\d{1,19}):(?: 0x[0-9a-fA-F]+,)? size (\d{1,19})")
_ATTRIBUTE = re.compile(
    r", (?:color (?P<color>-?\d{1,9})|page (?P<page>-?\d{1,9})"
    r"|parameter (?P<parameter>\d{1,9}), shape \|(?P<parameter_shape>[^|]*)\| at ShapeIndex \{(?P<index>[\d, ]*)\}"
    r"|output shape is \|(?P<output_shape>[^|]*)\||(?P<word>[a-zA-Z][^,:|]*))"
)
_VALUE = re.compile(
    r" *value: <(\d{1,19}) (.*?)(?:\{([\d, ]*)\})?( \(phi\))?(?: @(-?\d{1,9}))?>"
    r" \(size=(\d{1,19}),offset=(\d{1,19})\):(?: (.*))?"
)
_INTEGER = re.compile(r"\d+")

#: Lines that a warning names; the rest is counted.
_NAMED = 3


def read_assignment_text(
    view: memoryview, path: str | None, max_bytes: int | None = None
) -> tuple[tuple[Allocation, ...], tuple[tuple[int, str], ...]]:
    """The allocations of a text, and the lines that were not understood.

    DumpError for another text, or too many short lines (`source.lines_of`).
    """
    lines = lines_of(view, path, max_bytes)
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    if lines[first].strip() != HEADER.decode():
        raise DumpError("expected a buffer assignment, which begins 'BufferAssignment:'", path=path, line=first + 1)
    found: list[tuple[Allocation, list[Value]]] = []
    unread: list[tuple[int, str]] = []
    for number, line in enumerate(lines[first + 1 :], first + 2):
        # As a whole it may be indented, as where it is quoted.
        if line.lstrip().startswith(_END):
            break
        allocation = _allocation(line.lstrip())
        value = _value(line, found[-1][0]) if allocation is None and found else None
        if allocation is not None:
            found.append((allocation, []))
        elif value is not None:
            found[-1][1].append(value)
        elif line.strip():
            unread.append((number, line))
    if unread and not found:
        message = f"no allocation in this buffer assignment, but {unread[0][1].strip()[:60]!r}"
        raise DumpError(message, path=path, line=unread[0][0])
    if unread:
        _warn(unread, path)
    return tuple(replace(allocation, values=tuple(values)) for allocation, values in found), tuple(unread)


def _warn(unread: list[tuple[int, str]], path: str | None) -> None:
    count = "1 line was" if len(unread) == 1 else f"{len(unread)} lines were"
    named = "; ".join(f"line {number}: {line.strip()[:60]!r}" for number, line in unread[:_NAMED])
    warnings.warn(f"{path or 'buffer assignment'}: {count} not understood ({named})", DumpWarning, stacklevel=4)


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
