"""Read the memory usage report that XLA writes as a protobuf message, besides the one in text.

JAX installs no declaration of it. It has the tables of the text: field 1 is the report of a memory space, with its
total (1), its number (2) and its allocations (3), each of which has its table as text (6).
"""

from __future__ import annotations

from strided.dumps.protobuf.file_bytes import View
from strided.dumps.protobuf.wire import BYTES, VARINT, fields
from strided.errors import DumpError

_NAME, _NONE = "a memory usage report", "no memory usage report"
#: The most memory spaces, more than any device has: a hostile message could name many in few bytes.
_MOST_SPACES = 1000
#: The kinds of the fields of one memory space's report: total, number, allocations.
_KINDS = {1: VARINT, 2: VARINT, 3: BYTES}
_TABLE = 6
#: The beginning of each table.
_HEAD = "cumulative_size;"
_DEFAULT = 0


def usage_report_text(view: View) -> str | None:
    """The report as the text that XLA also writes; None for other bytes.

    A report without tables counts as other bytes, since nothing distinguishes it from other messages.
    """
    parts: list[str] = []
    try:
        for space in fields(view, _NAME):
            if space.number != 1 or len(parts) == _MOST_SPACES:
                return None
            parts.append(_space_text(space.view(_NAME)))
    except DumpError:
        return None
    text = "\n".join(parts)
    return text if _HEAD in text else None


def _space_text(view: View) -> str:
    """The text of one memory space."""
    total = number = 0
    tables: list[str] = []
    for field in fields(view, _NAME):
        if _KINDS.get(field.number) != field.kind:
            raise DumpError(_NONE)
        if field.number == 1:
            total = field.unsigned(_NAME)
        elif field.number == 2:
            number = field.integer(_NAME)
        else:
            tables += [one.text(_NAME) for one in fields(field.value, _NAME) if one.number == _TABLE]
    if not all(table.lstrip().startswith(_HEAD) for table in tables):
        raise DumpError(_NONE)
    name = "default" if number == _DEFAULT else f"space{number}"
    return "\n".join([f"Memory Space: {name} (color={number})", f"Total bytes: {total} ()", *tables])
