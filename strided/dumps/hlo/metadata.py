"""An OpMetadata message as XLA prints it: ``op_name="jit(f)/add" source_line=3 stack_frame_id=2``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strided.dumps.hlo.header import index_text
from strided.dumps.hlo.lexer import escape

Message = Mapping[str, Any]


def _quoted(value: str) -> str:
    return f'"{escape(value)}"'


#: What is printed, in order, and how. The scheduling name is printed without escapes.
_PARTS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("op_type", "op_name", "source_file"), _quoted),
    **dict.fromkeys(("source_line", "source_end_line", "source_column", "source_end_column"), str),
    "profile_type": index_text,
    "deduplicated_name": _quoted,
    "scheduling_name": lambda value: f'"{value}"',
    "stack_frame_id": str,
}

#: Without any of these, an instruction prints no metadata.
_NEEDED = ("op_type", "op_name", "source_file", "scheduling_name", "stack_frame_id")


def metadata_text(message: Message, payload: Callable[[int], bytes | memoryview]) -> str | None:
    """The parts of a message, without the braces; None if an instruction prints none.

    >>> metadata_text({"op_name": "f", "deduplicated_name": "g"}, lambda id: b"")
    'op_name="f" deduplicated_name="g"'
    >>> metadata_text({"deduplicated_name": "g"}, lambda id: b"")
    """
    if not _is_printed(message):
        return None
    return parts_text(message, payload_of(message.get("metadata_payload", {}), payload))


def metadata_values(message: Message, payload: Callable[[int], bytes | memoryview]) -> dict[str, str | int]:
    """The parts that `metadata_text` prints, by name.

    >>> metadata_values({"op_name": "f", "source_line": 3}, lambda id: b"")
    {'op_name': 'f', 'source_line': 3}
    """
    if not _is_printed(message):
        return {}
    values = {name: message[name] for name in _PARTS if message.get(name)}
    if "profile_type" in values:
        values["profile_type"] = index_text(values["profile_type"])
    if carried := payload_of(message.get("metadata_payload", {}), payload):
        values["metadata_payload"] = str(carried, "utf-8", "backslashreplace")
    return values


def _is_printed(message: Message) -> bool:
    return bool(message.get("metadata_payload")) or any(message.get(name) for name in _NEEDED)


def parts_text(message: Message, payload: bytes | memoryview = b"") -> str:
    """All parts of a message, even if an instruction would print none.

    >>> parts_text({"deduplicated_name": "g"})
    'deduplicated_name="g"'
    """
    parts = [f"{name}={show(message[name])}" for name, show in _PARTS.items() if message.get(name)]
    if payload:
        parts.append(f'metadata_payload="{escape(payload)}"')
    return " ".join(parts)


def payload_of(message: Message, payload: Callable[[int], bytes | memoryview]) -> bytes | memoryview:
    """The bytes of a Payload message: its own, or those that the module keeps under its number."""
    found: bytes | memoryview = message.get("value", b"")
    return found or (payload(message["id"]) if "id" in message else b"")
