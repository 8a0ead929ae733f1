"""The forms of snapshot files: which one a file has, and where its parts lie.

Only the outline is read; literals, modules and results are read on demand.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf import textproto, wire
from strided.dumps.protobuf.file_bytes import View, loaded
from strided.dumps.protobuf.wire import BYTES, VARINT, Field
from strided.errors import DumpError

SNAPSHOT = "HloSnapshot"
UNOPTIMIZED = "HloUnoptimizedSnapshot"
DELIMITED = "delimited HloUnoptimizedSnapshot"
SNAPSHOT_TEXT = "HloSnapshot text"
UNOPTIMIZED_TEXT = "HloUnoptimizedSnapshot text"

FORMS = (SNAPSHOT, UNOPTIMIZED, DELIMITED, SNAPSHOT_TEXT, UNOPTIMIZED_TEXT)

#: The first field of the text form, which tells the messages apart.
_TEXT = re.compile(
    rb"(?:\s++|#[^\n]*+)*+(?:(?P<unoptimized>hlo_module|partitions|version)|hlo|arguments|result|execution_platform)"
    rb"\s*+[:{<]"
)
_TEXT_BYTES = 1 << 16

#: Fields looked at to tell one message from another.
_LOOKED_AT = 64

_MASK = (1 << 63) - 1


class Places(Sequence[Literal]):
    """The places of literals: sixteen bytes each, however many a file claims to hold."""

    def __init__(self, view: View, *, serialized: bool) -> None:
        self._view, self._serialized = view, serialized
        self._starts, self._sizes = array("Q"), array("Q")
        self._literals: dict[int, Literal] = {}

    def add(self, start: int, size: int) -> None:
        """Note one more: `size` bytes from `start` on."""
        self._starts.append(min(start, _MASK))
        self._sizes.append(min(size, _MASK))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, key: int) -> Literal: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Literal, ...]: ...
    def __getitem__(self, key: int | slice) -> Literal | tuple[Literal, ...]:
        if isinstance(key, slice):
            return tuple(self[i] for i in range(len(self))[key])
        if key not in self._literals:
            start, size = self._starts[key], self._sizes[key]
            payload = wire.take(self._view, start, size, "its literal")
            make = Literal.of_serialized if self._serialized else Literal.of_proto
            self._literals[key] = make(payload, start)
        return self._literals[key]


@dataclass(slots=True)
class Outline:
    """Where the parts of a snapshot lie.

    Attributes
    ----------
    form : str
        One of `FORMS`.
    view : memoryview or FileBytes
        The bytes that all positions count in: the file's, or those of the wire form of a text.
    modules : list of memoryview or FileBytes
        Every occurrence of the HloModuleProto.
    modules_at : int
        Byte where the first of them begins.
    partitions : list of Places
        The arguments of each partition.
    results : list of memoryview or FileBytes
        Every occurrence of the result's LiteralProto; none in an unoptimised snapshot.
    results_at : int
        Byte where the first of them begins.
    platform : str
    """

    form: str
    view: View
    modules: list[View] = field(default_factory=list)
    modules_at: int = 0
    partitions: list[Places] = field(default_factory=list)
    results: list[View] = field(default_factory=list)
    results_at: int = 0
    platform: str = ""

    def add_module(self, found: Field) -> None:
        """Note one occurrence of the module."""
        payload = found.view("the module")
        self.modules_at = self.modules_at or found.at
        self.modules.append(payload)


def form_of(view: View) -> str | None:
    """The form of a snapshot that these bytes have, or None.

    >>> form_of(memoryview(b"hlo_module { }")), form_of(memoryview(b"HloModule m"))
    ('HloUnoptimizedSnapshot text', None)
    """
    text = _TEXT.match(loaded(view[:_TEXT_BYTES]))
    if text is not None:
        return UNOPTIMIZED_TEXT if text["unoptimized"] else SNAPSHOT_TEXT
    message = _message_of(view)
    if message is not None:
        return message
    try:
        length, start = wire.read_varint(view, 0, "the length of a message")
        message = _message_of(wire.take(view, start, length, "the message"))
    except DumpError:
        return None
    return DELIMITED if message == UNOPTIMIZED else None


def _message_of(view: View) -> str | None:
    """Which of the two messages this is, by the fields that only one of them can have; None if it is neither."""
    try:
        return _sort(view)
    except DumpError:
        return None


def _sort(view: View) -> str | None:
    kinds: dict[int, int] = {}
    inside: dict[int, View] = {}
    for found in wire.fields(view, SNAPSHOT):
        if found.number > 4 or kinds.setdefault(found.number, found.kind) != found.kind:
            return None
        if found.kind == BYTES and found.number not in inside:
            inside[found.number] = found.value
    if not kinds or kinds.get(1, BYTES) != BYTES or kinds.get(2, BYTES) != BYTES or kinds.get(4, BYTES) != BYTES:
        return None
    if 1 in kinds:
        unoptimized = not _is_hlo_proto(inside[1])
    elif kinds.get(3) is not None:
        unoptimized = kinds[3] == VARINT
    elif 4 in kinds:
        unoptimized = False
    else:
        # A LiteralProto begins with a ShapeProto, an HloInputs with a LiteralProto: look at the first byte inside.
        first = next(iter(wire.fields(inside[2], "LiteralProto")), None)
        unoptimized = first is None or (first.kind == BYTES and bytes(first.value[:1]) == wire.tag(1, BYTES))
    if 3 in kinds and (kinds[3] == VARINT) != unoptimized:
        return None  # such as an HloProto: a module, and a buffer assignment in field 3
    if unoptimized and kinds.keys() == {1}:
        return None  # an HloProto of a module alone; an unoptimised snapshot has partitions
    return UNOPTIMIZED if unoptimized else SNAPSHOT


def _is_hlo_proto(view: View) -> bool:
    """Whether a message is an HloProto (a module, a buffer assignment) and not itself the module."""
    for count, found in enumerate(wire.fields(view, "HloProto")):
        if found.number not in (1, 3) or found.kind != BYTES or count > _LOOKED_AT:
            return False
        # A module begins with the tag of its name, a control character; a module's name does not.
        if found.number == 1 and len(found.value) and found.value[0] >= 0x20:
            return False
    return True


def read_outline(view: View, form: str) -> Outline:
    """Where the parts of a snapshot lie.

    Raises
    ------
    DumpError
        Bytes that are no snapshot of that form.
    """
    if form in (SNAPSHOT_TEXT, UNOPTIMIZED_TEXT):
        message = form.split()[0]
        view = memoryview(textproto.encode(str(loaded(view), "utf-8", "surrogateescape"), message))
        outline = read_outline(view, message)
        outline.form = form
        return outline
    outline = Outline(form, view)
    if form == SNAPSHOT:
        _read_snapshot(outline)
    else:
        _read_unoptimized(outline)
    return outline


def _read_snapshot(outline: Outline) -> None:
    arguments = Places(outline.view, serialized=False)
    for found in wire.fields(outline.view, SNAPSHOT):
        if found.number == 1:
            for inner in wire.fields(found.view("HloSnapshot.hlo"), "HloProto", found.at):
                if inner.number == 1:
                    outline.add_module(inner)
        elif found.number == 2:
            arguments.add(found.at, len(found.view("HloSnapshot.arguments")))
        elif found.number == 3:
            if not outline.results:
                outline.results_at = found.at
            outline.results.append(found.view("HloSnapshot.result"))
        elif found.number == 4:
            outline.platform = found.text("HloSnapshot.execution_platform")
    outline.partitions.append(arguments)


def _read_unoptimized(outline: Outline) -> None:
    view, start, stop = outline.view, 0, len(outline.view)
    if outline.form == DELIMITED:
        length, start = wire.read_varint(view, 0, "the length of an HloUnoptimizedSnapshot")
        stop = start + len(wire.take(view, start, length, UNOPTIMIZED))
    after = stop  # where the next argument lies that stands behind the message
    for found in wire.fields(view[start:stop], UNOPTIMIZED, start):
        if found.number == 1:
            outline.add_module(found)
        elif found.number == 2:
            after = _read_inputs(outline, found, after)
    outline.partitions = outline.partitions or [Places(view, serialized=False)]


def _read_inputs(outline: Outline, outer: Field, after: int) -> int:
    """The arguments of one partition, inside the message or behind it. Returns where those of the next one lie."""
    inline = Places(outline.view, serialized=False)
    behind = Places(outline.view, serialized=True)
    for found in wire.fields(outer.view("HloUnoptimizedSnapshot.partitions"), "HloInputs", outer.at):
        if found.number == 1:
            inline.add(found.at, len(found.view("HloInputs.arguments")))
        elif found.number == 2:
            size = _described_size(found)
            behind.add(after, size)
            after += size
    # Arguments inside the message have sizes, too.
    outline.partitions.append(behind if outline.form == DELIMITED and not inline else inline)
    return after


def _described_size(outer: Field) -> int:
    size = 0
    for found in wire.fields(outer.view("HloInputs.arguments_descriptors"), "HloInputs.LiteralDescriptor", outer.at):
        if found.number == 2:
            size = found.unsigned("LiteralDescriptor.argument_size_bytes")
    return size
