"""Read the memory usage report that XLA writes as a protobuf message, besides the one in text.

It has no declaration in what JAX installs, but it holds the tables of the text: a report for each memory space in field
1, with its total (1), its number (2), and its allocations (3), of which each has its table as text (6).
"""

from __future__ import annotations

from strided.dumps.protobuf.file_bytes import View
from strided.dumps.protobuf.wire import BYTES, VARINT, fields
from strided.errors import DumpError

_NAME, _NONE = "a memory usage report", "no memory usage report"
#: More than any device has: a hostile message could name many in few bytes.
_MOST_SPACES = 1000
#: The kinds of the fields of one memory space's report: total, number, allocations.
_KINDS = {1: VARINT, 2: VARINT, 3: BYTES}
_TABLE = 6
#: The beginning of each table.
_HEAD = "cumulative_size;"
_DEFAULT = 0


def usage_report_text(view: View) -> str | None:
    """The report as the text that XLA writes beside it; None for bytes that are none.

    A report without any table is none: nothing would tell it from other messages.
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
    """One memory space of the text."""
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
