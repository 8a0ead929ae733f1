"""The values of the original program that an instruction's value stands for: ``(({"x"}, {"y" {1}}), {})``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strided.dumps.hlo.header import index_text
from strided.dumps.protobuf.wire import MAX_DEPTH

Message = Mapping[str, Any]

#: Limit of tuple elements that a message may leave out: one with more is not believed.
MAX_GAPS = 1000


def origin_text(message: Message) -> str:
    """An OriginalValueProto, one pair of braces for each leaf of its tree.

    >>> origin_text({"elements": [{"original_array": {"instruction_name": "x", "shape_index": [1]}}]})
    '{"x" {1}}'
    >>> origin_text({"elements": [{"shape_index": [1], "original_array": {"instruction_name": "x"}}]})
    '({}, {"x"})'
    """
    if message.get("is_synthetic_call"):
        return "[synthetic_call]"
    tree: dict[int, Any] = {}
    leaves: dict[int, Message] = {}  # by the identity of their nodes
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
    return f'{{"{message.get("instruction_name", "")}"{" " + index_text(index) if index else ""}}}'


def _node(node: dict[int, Any], leaves: Mapping[int, Message]) -> str:
    if node:
        parts = (_node(node[n], leaves) if n in node else "{}" for n in range(max(node) + 1))
        return f"({', '.join(parts)})"
    array = leaves.get(id(node))
    return "{}" if array is None else array_text(array)


def _gaps(node: dict[int, Any]) -> int:
    """Number of tuple elements without a name; endless if one is negative."""
    if node and min(node) < 0:
        return MAX_GAPS + 1
    return (max(node) + 1 - len(node) if node else 0) + sum(map(_gaps, node.values()))
