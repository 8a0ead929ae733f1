"""Recognise the form of a snapshot file, and locate its parts without reading values."""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf import textproto, wire
from strided.dumps.protobuf.file_bytes import View, loaded
from strided.dumps.protobuf.wire import BYTES, VARINT, Field
from strided.dumps.source import BYTE_ORDER_MARK
from strided.errors import DumpError

SNAPSHOT = "HloSnapshot"
UNOPTIMIZED = "HloUnoptimizedSnapshot"
DELIMITED = "delimited HloUnoptimizedSnapshot"
SNAPSHOT_TEXT = "HloSnapshot text"
UNOPTIMIZED_TEXT = "HloUnoptimizedSnapshot text"

FORMS = (SNAPSHOT, UNOPTIMIZED, DELIMITED, SNAPSHOT_TEXT, UNOPTIMIZED_TEXT)

#: The first field of a text, possibly after a byte order mark, distinguishes the messages.
_TEXT = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:\s++|#[^\n]*+)*+"
    rb"(?:(?P<unoptimized>hlo_module|partitions|version)|hlo|arguments|result|execution_platform)"
    rb"\s*+[:{<]"
)
#: Bytes in which that field is searched for, after any comments.
_TEXT_BYTES = 1 << 16

#: The most fields that are examined to distinguish messages.
_LOOKED_AT = 64

#: The largest position or size that is stored, beyond any file's end: a damaged file's may not fit 64 bits.
_LARGEST = (1 << 63) - 1


class Literals(Sequence[Literal]):
    """Literals in a file. Each takes sixteen bytes until it is read."""

    def __init__(self, view: View, *, serialized: bool) -> None:
        self._view, self._serialized = view, serialized
        self._starts, self._sizes = array("Q"), array("Q")
        self._literals: dict[int, Literal] = {}

    def add(self, start: int, size: int) -> None:
        """Add a literal of `size` bytes at `start`."""
        self._starts.append(min(start, _LARGEST))
        self._sizes.append(min(size, _LARGEST))

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, key: int) -> Literal:  # type: ignore[override]  # slices are not needed
        if key not in self._literals:
            start, size = self._starts[key], self._sizes[key]
            payload = wire.take(self._view, start, size, "its literal")
            make = Literal.of_serialized if self._serialized else Literal.of_proto
            self._literals[key] = make(payload, start)
        return self._literals[key]


@dataclass(slots=True)
class Outline:
    """The parts of a snapshot by their positions in `view`, the bytes of the file or of a text's wire form.

    `modules` and `results` are all occurrences of the HloModuleProto and of the result's LiteralProto, which an
    unoptimized snapshot lacks; `partitions` has the arguments of each partition.
    """

    form: str
    view: View
    modules: list[Field] = field(default_factory=list)
    partitions: list[Literals] = field(default_factory=list)
    results: list[Field] = field(default_factory=list)
    platform: str = ""


def form_of(view: View) -> str | None:
    """The form of the snapshot in these bytes; None if they are none.

    >>> form_of(memoryview(b"hlo_module { }")), form_of(memoryview(b"HloModule m"))
    ('HloUnoptimizedSnapshot text', None)
    """
    text = _TEXT.match(loaded(view[:_TEXT_BYTES]))
    if text is not None:
        return UNOPTIMIZED_TEXT if text["unoptimized"] else SNAPSHOT_TEXT
    with contextlib.suppress(DumpError):
        if message := _message_of(view):
            return message
    with contextlib.suppress(DumpError):
        length, start = wire.read_varint(view, 0, "the length of a message")
        if _message_of(wire.take(view, start, length, "the message")) == UNOPTIMIZED:
            return DELIMITED
    return None


def _message_of(view: View) -> str | None:
    """Which of the two messages this is, by fields that only one of them has; None if it is neither."""
    kinds: dict[int, int] = {}
    inside: dict[int, View] = {}
    for found in wire.fields(view, SNAPSHOT):
        if found.number > 4 or kinds.setdefault(found.number, found.kind) != found.kind:
            return None
        if found.kind == BYTES and found.number not in inside:
            inside[found.number] = found.value
    if not kinds or any(kinds.get(number, BYTES) != BYTES for number in (1, 2, 4)):
        return None
    if 1 in kinds:
        unoptimized = not _is_hlo_proto(inside[1])
    elif 3 in kinds:
        unoptimized = kinds[3] == VARINT
    elif 4 in kinds:
        unoptimized = False
    else:
        # A LiteralProto begins with a ShapeProto, an HloInputs with a LiteralProto, which itself begins with field 1.
        first = next(iter(wire.fields(inside[2], "LiteralProto")), None)
        unoptimized = first is None or (first.kind == BYTES and bytes(first.value[:1]) == wire.tag(1, BYTES))
    if 3 in kinds and (kinds[3] == VARINT) != unoptimized:
        return None  # such as an HloProto with a buffer assignment in field 3
    if unoptimized and kinds.keys() == {1}:
        return None  # an HloProto with only a module; an unoptimized snapshot has partitions
    return UNOPTIMIZED if unoptimized else SNAPSHOT


def _is_hlo_proto(view: View) -> bool:
    """Whether a message is an HloProto rather than the module in it."""
    for count, found in enumerate(wire.fields(view, "HloProto")):
        if found.number not in (1, 3) or found.kind != BYTES or count > _LOOKED_AT:
            return False
        # A module begins with its name's tag, a control character, with which no name begins.
        if found.number == 1 and len(found.value) and found.value[0] >= 0x20:
            return False
    return True


def read_outline(view: View, form: str) -> Outline:
    """Locate the parts of a snapshot. DumpError for bytes that are no snapshot of that form."""
    if form in (SNAPSHOT_TEXT, UNOPTIMIZED_TEXT):
        message = form.split()[0]
        text = str(loaded(view), "utf-8", "surrogateescape").removeprefix(BYTE_ORDER_MARK)
        view = memoryview(textproto.encode(text, message))
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
    arguments = Literals(outline.view, serialized=False)
    for found in wire.fields(outline.view, SNAPSHOT):
        match found.number:
            case 1:
                _read_hlo_proto(outline, found)
            case 2:
                arguments.add(found.at, len(found.view("HloSnapshot.arguments")))
            case 3:
                _add(outline.results, found, "HloSnapshot.result")
            case 4:
                outline.platform = found.text("HloSnapshot.execution_platform")
    outline.partitions.append(arguments)


def _read_hlo_proto(outline: Outline, outer: Field) -> None:
    for found in wire.fields(outer.view("HloSnapshot.hlo"), "HloProto", outer.at):
        if found.number == 1:
            _add(outline.modules, found, "the module")


def _add(found: list[Field], field: Field, wanted: str) -> None:
    field.view(wanted)  # raises for other kinds of fields
    found.append(field)


def _read_unoptimized(outline: Outline) -> None:
    view, start, stop = outline.view, 0, len(outline.view)
    if outline.form == DELIMITED:
        length, start = wire.read_varint(view, 0, "the length of an HloUnoptimizedSnapshot")
        stop = start + len(wire.take(view, start, length, UNOPTIMIZED))
    after = stop  # where the next argument after the message begins
    for found in wire.fields(view[start:stop], UNOPTIMIZED, start):
        if found.number == 1:
            _add(outline.modules, found, "the module")
        elif found.number == 2:
            after = _read_inputs(outline, found, after)
    outline.partitions = outline.partitions or [Literals(view, serialized=False)]


def _read_inputs(outline: Outline, outer: Field, after: int) -> int:
    """Add the arguments of a partition, in the message or after it; return where those of the next one begin."""
    inline = Literals(outline.view, serialized=False)
    behind = Literals(outline.view, serialized=True)
    for found in wire.fields(outer.view("HloUnoptimizedSnapshot.partitions"), "HloInputs", outer.at):
        if found.number == 1:
            inline.add(found.at, len(found.view("HloInputs.arguments")))
        elif found.number == 2:
            size = _described_size(found)
            behind.add(after, size)
            after += size
    # Arguments in the message may have sizes, too.
    outline.partitions.append(behind if outline.form == DELIMITED and not inline else inline)
    return after


def _described_size(outer: Field) -> int:
    size = 0
    for found in wire.fields(outer.view("HloInputs.arguments_descriptors"), "HloInputs.LiteralDescriptor", outer.at):
        if found.number == 2:
            size = found.unsigned("LiteralDescriptor.argument_size_bytes")
    return size
