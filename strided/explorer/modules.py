"""An HLO module as data for a page: a column for each property, with every text once, compressed."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from typing import Any

from strided.dumps.hlo.module import Module
from strided.errors import DumpError, LayoutError
from strided.layout import AnyShape, BufferShape, Shape, TupleShape


class _Texts:
    """Texts, each once, in the order in which they came."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The number of a text."""
        return self.places.setdefault(text, len(self.places))


def module_data(module: Module) -> dict[str, str]:
    """The instructions of a module, in the order of the dump: compressed JSON as base64.

    Numbers of operands count back from the instruction that has them.
    """
    opcodes, origins, computations = _Texts(), _Texts(), _Texts()
    shapes: dict[AnyShape | None, int] = {}
    rows: list[tuple[Any, ...]] = []
    frames: dict[Any, str] = {}
    places = {id(one): k for k, one in enumerate(module.instructions)}
    fused = {
        callee.name
        for one in module.instructions
        if one.opcode == "fusion"
        for callee in _if_whole(lambda one=one: one.called_computations, ())
    }
    for k, one in enumerate(module.instructions):
        operands = _if_whole(lambda one=one: one.operands, ())
        rows.append(
            (
                one.name,
                opcodes.place(one.opcode),
                shapes.setdefault(one.shape, len(shapes)),
                computations.place(one.computation.name),
                [k - places[id(operand)] for operand in operands if id(operand) in places],
                origins.place(_origin(one, frames)),
                int(one.is_root),
            )
        )
    columns = list(zip(*rows, strict=True)) if rows else [()] * 7
    sizes = [_bytes_of(shape) for shape in shapes]
    content = {
        "names": columns[0],
        "opcode": columns[1],
        "shape": columns[2],
        "computation": columns[3],
        "operands": columns[4],
        "origin": columns[5],
        "is_root": columns[6],
        "opcodes": list(opcodes.places),
        "origins": list(origins.places),
        "computations": list(computations.places),
        "fused": [int(name in fused) for name in computations.places],
        "shapes": ["unknown" if shape is None else str(shape) for shape in shapes],
        "bytes": [size for size, _ in sizes],
        "unpadded_bytes": [size for _, size in sizes],
    }
    packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 6, mtime=0)
    return {"gzip": base64.b64encode(packed).decode()}


def _origin(one: Any, places: dict[Any, str]) -> str:
    """Who made an instruction: its op_name, and the source line; `places` keeps those of frames."""
    found = one.metadata
    frame = found.get("stack_frame_id", f"{found.get('source_file', '')}:{found.get('source_line', '')}")
    if frame not in places:
        stack = _if_whole(lambda: one.stack, ())
        places[frame] = f"{stack[0].file}:{stack[0].line}" if stack else ""
    return f"{found.get('op_name', '')}\n{places[frame]}"


def _bytes_of(shape: AnyShape | None) -> tuple[int, int]:
    """Bytes with padding and without; of a tuple those of its arrays."""
    arrays: Iterable[Any] = (leaf for _, leaf in shape.leaves()) if isinstance(shape, TupleShape) else (shape,)
    whole = values = 0
    for leaf in arrays:
        array = leaf.shape if isinstance(leaf, BufferShape) else leaf
        if isinstance(array, Shape) and array.layout is not None:
            try:
                whole, values = whole + array.byte_size, values + array.unpadded_byte_size
            except LayoutError:  # a dimension of unknown size
                continue
    return whole, values


def _if_whole(ask: Any, otherwise: Any) -> Any:
    """The answer to a question about a module, or another one where the dump is damaged."""
    try:
        return ask()
    except DumpError:
        return otherwise
