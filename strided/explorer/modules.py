"""Data of an HLO module for a page: a column for each property, with each distinct text stored once, compressed."""

from __future__ import annotations

from typing import Any, TypeVar

from strided.dumps.hlo.instruction import Instruction, callees_of, operands_of
from strided.dumps.hlo.module import Module
from strided.errors import DumpError, LayoutError, UnsupportedError
from strided.escape import visible
from strided.explorer.layouts import layout_data
from strided.explorer.page import packed
from strided.layout import AnyShape, Shape
from strided.layout.tuples import arrays_of

#: The properties of each instruction, by their names in the page's script.
_COLUMNS = ("names", "opcode", "shape", "computation", "operands", "origin", "is_root")

_Key = TypeVar("_Key")


class Layouts:
    """Collects the data of distinct layouts for a page, in order of first use."""

    def __init__(self) -> None:
        self.data: list[dict[str, Any]] = []
        self._places: dict[Shape, int | None] = {}

    def place(self, shape: Shape) -> int | None:
        """The number of a shape's layout; None if it has no addresses that a page can compute."""
        if shape not in self._places:
            try:
                self.data.append(layout_data(shape))
                self._places[shape] = len(self.data) - 1
            except (UnsupportedError, LayoutError):
                self._places[shape] = None
        return self._places[shape]

    def places(self, shape: AnyShape | None) -> list[int]:
        """The distinct numbers of the layouts of an array or of a tuple's arrays."""
        found = (self.place(array) for array in arrays_of(shape))
        return list(dict.fromkeys(place for place in found if place is not None))


def module_data(module: Module) -> dict[str, str]:
    """The instructions of a module in the order of the dump, as compressed JSON in base64.

    Operands are given as distances back from their user.
    """
    # Numbers of the distinct values, in order of first use.
    opcodes, origins, computations = dict[str, int](), dict[str, int](), dict[str, int]()
    shapes = dict[AnyShape | None, int]()
    rows: list[tuple[Any, ...]] = []
    frames: dict[Any, str] = {}
    places = {id(one): k for k, one in enumerate(module.instructions)}
    fused = {callee.name for one in module.instructions if one.opcode == "fusion" for callee in callees_of(one)}
    for k, one in enumerate(module.instructions):
        operands = operands_of(one)
        rows.append(
            (
                one.name,
                _number(opcodes, one.opcode),
                _number(shapes, one.shape),
                _number(computations, one.computation.name),
                [k - places[id(operand)] for operand in operands if id(operand) in places],
                _number(origins, _origin(one, frames)),
                int(one.is_root),
            )
        )
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_COLUMNS)
    sizes = [bytes_of(shape) for shape in shapes]
    layouts = Layouts()
    content = dict(zip(_COLUMNS, columns, strict=True)) | {
        "opcodes": list(opcodes),
        "origins": list(origins),
        "computations": list(computations),
        "fused": [int(name in fused) for name in computations],
        "shapes": ["unknown" if shape is None else str(shape) for shape in shapes],
        "bytes": [size for size, _ in sizes],
        "unpadded_bytes": [size for _, size in sizes],
        "layouts_of": [layouts.places(shape) for shape in shapes],
        "layouts": layouts.data,
    }
    return packed(content)


def _number(numbers: dict[_Key, int], key: _Key) -> int:
    """The number of a key; a new key gets the next one."""
    return numbers.setdefault(key, len(numbers))


def _origin(one: Instruction, places: dict[Any, str]) -> str:
    """An instruction's op_name and source line; `places` caches the lines."""
    found = one.metadata
    key = tuple(found.get(name) for name in ("stack_frame_id", "source_file", "source_line"))
    if key not in places:
        try:
            stack = one.stack
        except DumpError:  # the dump is damaged
            stack = ()
        places[key] = f"{stack[0].file}:{stack[0].line}" if stack else ""
    return f"{visible(str(found.get('op_name', '')))}\n{places[key]}"


def bytes_of(shape: AnyShape | None) -> tuple[int, int]:
    """Bytes with and without padding; for a tuple, the sums over its arrays."""
    whole = values = 0
    for array in arrays_of(shape):
        try:
            whole, values = whole + array.byte_size, values + array.unpadded_byte_size
        except LayoutError:  # a dimension of unknown size
            continue
    return whole, values
