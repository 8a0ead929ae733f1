"""Print the source of an instruction as XLA does.

OpMetadata names the source: ``op_name="jit(f)/add" source_line=3 stack_frame_id=2``. An OriginalValueProto names the
values of the original program that the instruction's value corresponds to: ``(({"x"}, {"y" {1}}), {})``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strided.dumps.hlo.header import in_braces
from strided.dumps.hlo.quoting import quote
from strided.dumps.protobuf.decode import Message
from strided.dumps.protobuf.wire import MAX_DEPTH

#: The printed fields in order, and how each is printed. The scheduling name is not escaped.
_PARTS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("op_type", "op_name", "source_file"), quote),
    **dict.fromkeys(("source_line", "source_end_line", "source_column", "source_end_column"), str),
    "profile_type": in_braces,
    "deduplicated_name": quote,
    "scheduling_name": lambda value: f'"{value}"',
    "stack_frame_id": str,
}

#: An instruction prints metadata only if it has one of these.
_NEEDED = ("op_type", "op_name", "source_file", "scheduling_name", "stack_frame_id")

#: The most tuple elements that a message may leave out; one with more is considered damaged.
MAX_GAPS = 1000


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
        values["profile_type"] = in_braces(values["profile_type"])
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
        parts.append(f"metadata_payload={quote(payload)}")
    return " ".join(parts)


def payload_of(message: Message, payload: Callable[[int], bytes | memoryview]) -> bytes | memoryview:
    """The bytes of a Payload message: its own, or the module's payload of its id."""
    found: bytes | memoryview = message.get("value", b"")
    return found or (payload(message["id"]) if "id" in message else b"")


def origin_text(message: Message) -> str:
    """An OriginalValueProto, one pair of braces for each leaf of its tree.

    >>> origin_text({"elements": [{"original_array": {"instruction_name": "x", "shape_index": [1]}}]})
    '{"x" {1}}'
    >>> origin_text({"elements": [{"shape_index": [1], "original_array": {"instruction_name": "x"}}]})
    '({}, {"x"})'
    >>> origin_text({"call_hierarchy": "f/g"})
    '(),["f/g"]'
    """
    if "call_hierarchy" in message:  # newer compilers give the call's hierarchy instead of a flag
        elements = _elements_text(message) if message.get("elements") else "()"
        return f'{elements},["{message["call_hierarchy"]}"]'
    return "[synthetic_call]" if message.get("is_synthetic_call") else _elements_text(message)


def _elements_text(message: Message) -> str:
    tree: dict[int, Any] = {}
    leaves: dict[int, Message] = {}  # by the id() of their nodes
    for element in message.get("elements", ()):
        index = element.get("shape_index", ())
        if len(index) > MAX_DEPTH:
            return f"/* tuples nested {len(index)} deep */"
        node = tree
        for number in index:
            node = node.setdefault(number, {})
        leaves[id(node)] = element.get("original_array")
    gaps = _gaps(tree)
    return _node(tree, leaves) if gaps <= MAX_GAPS else f"/* {gaps} elements of tuples are missing */"


def array_text(message: Message) -> str:
    """An OriginalArrayProto.

    >>> array_text({"instruction_name": "x", "shape_index": [0, 1]})
    '{"x" {0,1}}'
    """
    index = message.get("shape_index", ())
    return f'{{"{message.get("instruction_name", "")}"{" " + in_braces(index) if index else ""}}}'


def _node(node: dict[int, Any], leaves: Mapping[int, Message]) -> str:
    if node:
        parts = (_node(node[n], leaves) if n in node else "{}" for n in range(max(node) + 1))
        return f"({', '.join(parts)})"
    array = leaves.get(id(node))
    return "{}" if array is None else array_text(array)


def _gaps(node: dict[int, Any]) -> int:
    """The number of missing tuple elements; infinite if an index is negative."""
    if node and min(node) < 0:
        return MAX_GAPS + 1
    return (max(node) + 1 - len(node) if node else 0) + sum(map(_gaps, node.values()))
