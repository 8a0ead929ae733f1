"""What a file is, by its content; and the reader for it.

===============  =======================================================  ==========================
kind             content                                                  reader
===============  =======================================================  ==========================
hlo              HLO text, HloModuleProto or HloProto                     `strided.read_hlo`
snapshot         HloSnapshot, HloUnoptimizedSnapshot in any form          `strided.read_snapshot`
allocations      text of a buffer assignment                              `strided.read_allocations`
memory report    table of the largest values of each memory space         none
used values      the values of a buffer assignment once more              none
live ranges      which value lives when                                   none
npy, npz         NumPy's own files                                        `numpy.load`
text, binary     anything else, among it raw buffers without a header     `strided.open` with a shape
===============  =======================================================  ==========================

An HloProto may hold a buffer assignment as well: `strided.read_allocations` reads that too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from strided.dumps.allocations.assignment import read_allocations
from strided.dumps.allocations.text import HEADER
from strided.dumps.hlo import is_text, read_hlo
from strided.dumps.hlo.proto import find_module
from strided.dumps.literals.forms import UNOPTIMIZED, form_of
from strided.dumps.literals.snapshot import read_snapshot
from strided.dumps.protobuf.wire import fields
from strided.dumps.source import open_source
from strided.errors import DumpError, UnsupportedError

#: The kinds that have a reader here.
READERS: Mapping[str, Callable[[Any], Any]] = {
    "hlo": read_hlo,
    "snapshot": read_snapshot,
    "allocations": read_allocations,
}

#: All kinds.
KINDS = (*READERS, "memory report", "used values", "live ranges", "npy", "npz", "text", "binary")

#: How far into a text its kind must show, in bytes.
_HEAD_BYTES = 1 << 16

_TEXTS = (
    ("hlo", re.compile(rb"^HloModule[ \t]", re.MULTILINE)),
    ("allocations", re.compile(rb"\A\s*" + HEADER)),
    ("memory report", re.compile(rb"\A\s*(?:Total hbm usage|Memory Space:|Total bytes: )")),
    ("used values", re.compile(rb"\A\s*(?:Total bytes used|Used values:)")),
    ("live ranges", re.compile(rb"\A\s*HloLiveRange")),
    ("hlo", re.compile(rb"^(?:ENTRY |%?[\w.-]+ )\([^\n]*\) -> [^\n]*\{[ \t\r]*$", re.MULTILINE)),
    ("hlo", re.compile(rb"^[ \t]*(?:ROOT )?%?[\w.-]+ = [a-z0-9]+\[[^\n]*\([^\n]*\)", re.MULTILINE)),
)


def recognise(origin: Any) -> str:
    """What a file or buffer holds, one word of `KINDS`; gzip is undone first.

    Raises
    ------
    DumpError
        Broken gzip data.
    OSError
        A file that cannot be opened.

    >>> recognise(b"HloModule m\\n"), recognise(b"BufferAssignment:\\n"), recognise(bytes(100))
    ('hlo', 'allocations', 'binary')
    """
    view = open_source(origin, mapped=True).view
    head = bytes(view[:_HEAD_BYTES])
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if not head:
        return "text"
    if is_text(view):
        found = next((kind for kind, pattern in _TEXTS if pattern.search(head)), None)
        if found is None:
            found = "snapshot" if form_of(view) is not None else "text"
        return found
    if _is_snapshot(view):
        return "snapshot"
    try:
        find_module(view)
    except DumpError:
        return "binary"
    return "hlo"


def _is_snapshot(view: memoryview) -> bool:
    form = form_of(view)
    # A module alone in field 1 is an HloProto; an unoptimised snapshot names its version or its partitions, too.
    return form is not None and (form != UNOPTIMIZED or any(one.number != 1 for one in fields(view, form)))


def read_dump(origin: Any, kind: str | None = None) -> Any:
    """A file's content by the reader for its kind: a Module, a Snapshot or a BufferAssignment.

    Parameters
    ----------
    origin : path or buffer
    kind : str, optional
        "hlo", "snapshot" or "allocations", where the guess from the content is wrong.

    Raises
    ------
    DumpError
        Broken, or not of that kind.
    UnsupportedError
        Of a kind that has no reader here; says what would do.
    ValueError
        `kind` is none.
    """
    if kind is not None and kind not in READERS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, READERS))}, not {kind!r}")
    kind = kind or recognise(origin)
    if kind in READERS:
        return READERS[kind](origin)
    hint = {
        "npy": "numpy.load reads it",
        "npz": "numpy.load reads it",
        "binary": "if it is a raw buffer, open it with its shape",
    }.get(kind, "nothing in it can be read as arrays")
    raise UnsupportedError(f"{_name(origin)} is {_article(kind)}: {hint}")


def _name(origin: Any) -> str:
    return str(origin) if isinstance(origin, str) or hasattr(origin, "__fspath__") else "this"


def _article(kind: str) -> str:
    words = {"binary": "binary data of no known kind", "text": "a text of no known kind", "npy": "a NumPy file"}
    return words.get(kind, "a NumPy archive" if kind == "npz" else f"a text with {kind}")
