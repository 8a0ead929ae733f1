"""Reads a whole text: extracts it from its log, and tries all its forms."""

from __future__ import annotations

from strided.errors import DumpError
from strided.memory.usage_text.largest import read_largest
from strided.memory.usage_text.logs import text_of_log
from strided.memory.usage_text.messages import count_messages, is_of_runtime, module_named, read_messages
from strided.memory.usage_text.tables import read_tables
from strided.memory.usage_text.values import UsageText


def read_usage_text(text: str, path: str | None = None) -> UsageText:
    """The memory usage in a text. DumpError if nothing about memory is understood."""
    if (found := usage_in(text)) is None:
        if is_of_runtime(text):
            raise DumpError(
                "the text is what the runtime says when memory is full: it names no buffers. Give a dump of the "
                "program instead (XLA_FLAGS=--xla_dump_to=DIR)",
                path=path,
            )
        raise DumpError("the text says nothing that is understood about memory", path=path)
    return found


def usage_in(text: str) -> UsageText | None:
    """The memory usage in a text; None if nothing about memory is understood."""
    found, text = UsageText(), text_of_log(text)
    found.module = module_named(text, count_messages(text, found))
    read_tables(text, found)
    read_messages(text, found)
    read_largest(text, found)
    return found if found.spaces else None
