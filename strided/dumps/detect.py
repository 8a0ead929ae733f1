"""Recognise the kind of a file by its content, and read it.

===============  =======================================================  ==========================
kind             content                                                  reader
===============  =======================================================  ==========================
hlo              HLO text, HloModuleProto or HloProto                     `strided.read_hlo`
snapshot         HloSnapshot, HloUnoptimizedSnapshot in any form          `strided.read_snapshot`
allocations      text of a buffer assignment                              `strided.read_allocations`
memory report    tables of the values of each memory space                `strided.memory_report`
used values      list of the values of a buffer assignment                none
live ranges      when each value is alive                                 none
npy, npz         NumPy's own files                                        `strided.open`
safetensors      tensors by name                                          `strided.open`
text, binary     anything else, such as raw buffers without a header      `strided.open` with a shape
===============  =======================================================  ==========================

An HloProto may also hold a buffer assignment, which `strided.read_allocations` reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, SupportsIndex, overload

from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations
from strided.dumps.buffer_assignment.text import HEADER
from strided.dumps.hlo import Module, read_hlo
from strided.dumps.hlo.proto import find_module
from strided.dumps.protobuf.file_bytes import View
from strided.dumps.protobuf.wire import fields
from strided.dumps.snapshots.format import UNOPTIMIZED, form_of
from strided.dumps.snapshots.snapshot import Snapshot, read_snapshot
from strided.dumps.source import BYTE_ORDER_MARK, DumpBytes, Origin, is_text, open_head, open_view, utf16_as_utf8
from strided.dumps.usage_report import usage_report_text
from strided.errors import DumpError, UnsupportedError
from strided.files.magic import NPY_MAGIC, ZIP_MAGIC, is_safetensors
from strided.runtime.argument_checks import one_of, whole

#: The readers of the kinds that `read_dump` reads.
READERS: Mapping[str, Callable[..., Any]] = {
    "hlo": read_hlo,
    "snapshot": read_snapshot,
    "allocations": read_allocations,
}

#: All kinds.
KINDS = (*READERS, "memory report", "used values", "live ranges", "npy", "npz", "safetensors", "text", "binary")

_BY_NAME = "strided.open('FILE:NAME') opens an array in it; decompress gzip or Zstandard data first"
#: What a file of another kind is, and what to do with it.
_ADVICE = {
    "npy": "a NumPy file: strided.open opens it",
    "npz": f"a NumPy archive: {_BY_NAME}",
    "safetensors": f"a safetensors file: {_BY_NAME}",
    "binary": "binary data of no known kind: open a raw buffer with its shape; 'strided identify' looks for it",
    "text": "a text of no known kind: nothing in it can be read as arrays",
}

#: Bytes at the start of a text from which its kind is recognised.
_HEAD_BYTES = 1 << 16

_HEADER_LINE = re.compile(rb"(?:\A|[\r\n])HloModule[ \t]")
_BEGINNINGS = (
    ("allocations", re.compile(rb"\s*+" + HEADER)),
    ("memory report", re.compile(rb"\s*+(?:Total hbm usage|Memory Space:|Total bytes: )")),
    ("used values", re.compile(rb"\s*+(?:Total bytes used|Used values:)")),
    ("live ranges", re.compile(rb"\s*+HloLiveRange")),
)
#: Beginnings of lines in HLO text without a header. The rest of a line is not matched by a pattern: one with two
#: wildcards would scan a long line again from each of its brackets.
_OPENING = re.compile(rb"(?:ENTRY (?:%?[\w.\-]++ )?|%?[\w.\-]++ )\(")
_INSTRUCTION = re.compile(rb"[ \t]*+(?:ROOT )?%?[\w.\-]++ = [a-z0-9]++\[")


def recognise(origin: Any, *, max_bytes: int | None = None) -> str:
    """The kind of a file or buffer, one of `KINDS`, which may be compressed by gzip or Zstandard.

    Only the beginning of a text is read. `max_bytes` limits the size of other contents once decompressed (default 2
    GiB).

    Raises
    ------
    DumpError
        Broken compressed data, or too large; not a regular file.
    UnsupportedError
        Zstandard data that neither Python nor an installed package decompresses.
    OSError
        A file that cannot be opened.

    >>> recognise(b"HloModule m\\n"), recognise(b"BufferAssignment:\\n"), recognise(bytes(100))
    ('hlo', 'allocations', 'binary')
    """
    return _recognised(origin, max_bytes)[0]


def _recognised(origin: Origin, max_bytes: int | None) -> tuple[str, Origin]:
    """The kind, and the argument for its reader: the origin, or its bytes if they were decompressed."""
    head = open_head(origin, _HEAD_BYTES)
    if head.startswith(NPY_MAGIC):
        return "npy", origin
    if head.startswith(ZIP_MAGIC):
        return "npz", origin
    head = utf16_as_utf8(head) or head
    if is_text(memoryview(head)):
        return _kind_of_text(head.removeprefix(BYTE_ORDER_MARK.encode())), origin
    view, path = open_view(origin, max_bytes=max_bytes, mapped=False)
    return _kind_of_binary(view), DumpBytes(view, path) if isinstance(view, memoryview) else origin


def _kind_of_binary(view: View) -> str:
    if is_safetensors(bytes(view[:9]), len(view)):
        return "safetensors"
    if _is_snapshot(view):
        return "snapshot"
    try:
        find_module(view)
    except DumpError:
        return "binary" if usage_report_text(view) is None else "memory report"
    return "hlo"


def _kind_of_text(head: bytes) -> str:
    if _HEADER_LINE.search(head):
        return "hlo"
    for kind, beginning in _BEGINNINGS:
        if beginning.match(head):
            return kind
    if any(_opens_computation(line) or _is_instruction(line) for line in head.splitlines()):
        return "hlo"
    return "snapshot" if form_of(memoryview(head)) is not None else "text"


def _opens_computation(line: bytes) -> bool:
    """Whether a line is ``name (parameters) -> result {``."""
    found = _OPENING.match(line)
    return found is not None and line.rstrip().endswith(b"{") and line.find(b") -> ", found.end()) >= 0


def _is_instruction(line: bytes) -> bool:
    """Whether a line is ``name = shape opcode(operands)``."""
    found = _INSTRUCTION.match(line)
    return found is not None and 0 <= line.find(b"(", found.end()) < line.rfind(b")")


def _is_snapshot(view: View) -> bool:
    form = form_of(view)
    # With nothing but field 1, it is an HloProto; an unoptimized snapshot has its version or partitions, too.
    return form is not None and (form != UNOPTIMIZED or any(one.number != 1 for one in fields(view, form)))


@overload
def read_dump(
    source: Any, kind: Literal["hlo"], *, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> Module: ...


@overload
def read_dump(
    source: Any, kind: Literal["snapshot"], *, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> Snapshot: ...


@overload
def read_dump(
    source: Any, kind: Literal["allocations"], *, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> BufferAssignment: ...


@overload
def read_dump(
    source: Any, kind: str | None = None, *, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> Any: ...


def read_dump(
    source: Any, kind: str | None = None, *, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> Any:
    """Read a file with the reader for its kind: a Module, a Snapshot or a BufferAssignment.

    Parameters
    ----------
    source : path or buffer
    kind : str, optional
        "hlo", "snapshot" or "allocations", if it is not recognised.
    max_bytes : int, optional
        Limit for decompressed contents; by default 1 GiB for text, 2 GiB for anything else.
    mapped : bool, optional
        For snapshots: as for `strided.read_snapshot`.

    Raises
    ------
    DumpError
        The content is broken, or not of that kind.
    UnsupportedError
        The kind has no reader; the message says what to do instead.
    OSError
        The file cannot be opened.
    ValueError
        `kind` is unknown.

    Examples
    --------
    >>> read_dump("HloModule m\\n\\nENTRY e {\\n  ROOT x = f32[2]{0} parameter(0)\\n}\\n".encode())
    <Module m: 1 computation, 1 instruction>
    """
    if kind is not None:
        one_of(kind, READERS, "kind")
    max_bytes = None if max_bytes is None else whole(max_bytes, "max_bytes")
    found: Origin = source
    if kind is None:
        kind, found = _recognised(source, max_bytes)
    if kind in READERS:
        options = {"mapped": mapped} if kind == "snapshot" else {}
        return READERS[kind](found, max_bytes=max_bytes, **options)
    name = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else "this"
    raise UnsupportedError(f"{name} is {_ADVICE.get(kind, f'a text with {kind}: nothing in it can be read as arrays')}")
