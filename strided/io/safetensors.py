"""Safetensors files: a JSON header that names tensors, then their bytes.

The header's length comes first, in eight bytes; after the header the tensors follow each other, row-major::

    {"w": {"dtype": "BF16", "shape": [17, 300], "data_offsets": [0, 10200]}}

Types that the format lacks (int4, ...), and buffers in other layouts, are stored as ``U8``. The metadata then hold the
shape, so that the array can be opened by name: ``"xla_shape:w": "s4[17,300]{1,0:T(8,128)E(4)}"``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from strided.addressing.address_map import MAX_NDIM
from strided.errors import DumpError, LayoutError, UnsupportedError
from strided.escape import visible
from strided.files.magic import is_safetensors
from strided.io.metadata import are_sizes, check_is_text
from strided.layout import Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES
from strided.layout.layout import descending
from strided.layout.parser import parse_shape

#: The longest header that is read, in bytes: a hundred thousand tensors. A hostile one takes 30 times as much memory.
LONGEST_HEADER = 1 << 24
#: In files written here, tensors begin at multiples of this.
_ALIGNMENT = 64
_METADATA = "__metadata__"
_SHAPE_KEY = "xla_shape:"

#: XLA's name of each type of the format; F4 is packed, the first element in the low bits.
_ELEMENT_TYPES = {
    "BOOL": "pred",
    "U8": "u8",
    "I8": "s8",
    "U16": "u16",
    "I16": "s16",
    "U32": "u32",
    "I32": "s32",
    "U64": "u64",
    "I64": "s64",
    "F16": "f16",
    "BF16": "bf16",
    "F32": "f32",
    "F64": "f64",
    "C64": "c64",
    "F8_E4M3": "f8e4m3fn",
    "F8_E5M2": "f8e5m2",
    "F8_E8M0": "f8e8m0fnu",
    "F8_E4M3FNUZ": "f8e4m3fnuz",
    "F8_E5M2FNUZ": "f8e5m2fnuz",
    "F4": "f4e2m1fn",
}
_DTYPES = {name: dtype for dtype, name in _ELEMENT_TYPES.items() if ELEMENT_TYPES[name].bits >= 8 or name == "pred"}


@dataclass(frozen=True)
class Tensor:
    """A tensor in a file: its shape, or the name of its type if XLA lacks that; and its offset in bytes."""

    shape: Shape | str
    offset: int

    def located(self, given: Shape | None, name: str) -> tuple[Shape, int]:
        """Shape and offset. LayoutError if the shape is not `given`; UnsupportedError for a type that XLA lacks."""
        if isinstance(self.shape, str):
            raise UnsupportedError(f"{name} holds {self.shape}, which XLA has no element type for")
        if given not in (None, self.shape):
            raise LayoutError(f"{name} holds {self.shape}, not {given}; leave the shape out")
        return self.shape, self.offset


def read_safetensors(file: BinaryIO, path: str | None = None) -> dict[str, Tensor]:
    """The tensors of a file by name, from its header. DumpError for a file that is not well-formed.

    >>> import io
    >>> from strided.layout.parser import parse
    >>> header, _ = safetensors_header({"w": parse("s4[3]")})
    >>> read_safetensors(io.BytesIO(header + bytes(3)))
    {'w': Tensor(shape=Shape('s4', (3,)), offset=128)}
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(9)
    length = int.from_bytes(head[:8], "little")
    if not is_safetensors(head, size):
        if head[8:] == b"{" and length > size - 8:
            raise DumpError(f"a header of {length} bytes, but only {size - 8} follow its length", path=path)
        raise DumpError("not a safetensors file: it does not begin with the length of a header and '{'", path=path)
    if length > LONGEST_HEADER:
        raise DumpError(f"a header of {length} bytes; at most {LONGEST_HEADER} are read", path=path)
    try:
        entries = json.loads((head[8:] + file.read(length - 1)).decode(), object_pairs_hook=_unique)
        metadata = _metadata(entries.pop(_METADATA, {}))
        found = {name: _tensor(name, entry, 8 + length, metadata) for name, entry in entries.items()}
        end = _end_of(entry["data_offsets"] for entry in entries.values())
        if end < (rest := size - 8 - length):
            raise ValueError(f"the tensors take {end} of the {rest} bytes after the header")
    except (ValueError, RecursionError, UnsupportedError) as error:  # JSON, text and shapes raise these
        raise DumpError(f"a damaged header: {visible(str(error), 200)}", path=path) from error
    if end > rest:
        message = f"truncated: the tensors take {end} bytes after the header, of which the file has {rest}"
        raise DumpError(message, path=path)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    for name in found:
        name.encode()  # raises for lone surrogates, which JSON can escape
    return found


def _metadata(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{_METADATA} is no object of strings")
    return found


def _tensor(name: str, entry: Any, start: int, metadata: Mapping[str, str]) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} must have exactly dtype, shape and data_offsets")
    dimensions, offsets, dtype = entry["shape"], entry["data_offsets"], entry["dtype"]
    if isinstance(dimensions, list) and len(dimensions) > MAX_NDIM:
        raise ValueError(f"{name!r} has {len(dimensions)} dimensions; at most {MAX_NDIM} are read")
    if not are_sizes(dimensions) or not are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"the shape or the data_offsets of {name!r} are invalid")
    if not isinstance(dtype, str):
        raise ValueError(f"{name!r} has the dtype {dtype!r}, which is no string")
    if dtype not in _ELEMENT_TYPES:  # F6_E2M3, F6_E3M2, and future ones
        return Tensor(visible(dtype, 100), start + offsets[0])
    size, text = offsets[1] - offsets[0], metadata.get(_SHAPE_KEY + name)
    kind = ELEMENT_TYPES[_ELEMENT_TYPES[dtype]]
    bits = kind.bits if dtype == "F4" else kind.storage_bits
    if math.prod(dimensions) * bits != size * 8:
        raise ValueError(f"{name!r} has {size} bytes, which do not fit {dtype}{dimensions}")
    if text is None or dtype != "U8":
        shape = _packed(dimensions) if dtype == "F4" else Shape(kind.name, dimensions)
    else:
        shape = parse_shape(text, strict=True)
        if shape.buffer_byte_size != size:
            raise ValueError(f"{name!r} has {size} bytes, which do not fit {shape}")
    return Tensor(shape, start + offsets[0])


def _packed(dimensions: Sequence[int]) -> Shape:
    """The shape of an ``F4`` tensor."""
    layout = Layout(descending(len(dimensions)), element_size_in_bits=4)
    return Shape("f4e2m1fn", tuple(dimensions), layout)


def _end_of(offsets: Iterable[list[int]]) -> int:
    """The end of the last tensor, counted from the end of the header. ValueError for gaps or overlaps."""
    at = 0
    for start, stop in sorted(offsets):
        if start != at:
            raise ValueError("tensors overlap, or leave a gap between them")
        at = stop
    return at


def safetensors_header(shapes: Mapping[str, Shape]) -> tuple[bytes, dict[str, int]]:
    """The header of a file of arrays with these shapes, and the offset of each array in bytes.

    UnsupportedError for a name that the format cannot hold.
    """
    metadata: dict[str, str] = {}
    entries: dict[str, Any] = {}
    at = 0
    # Wide elements first, so that each array is aligned to its element size.
    for name, shape in sorted(shapes.items(), key=lambda pair: -pair[1].dtype.itemsize):
        _check_name(name)
        size = shape.buffer_byte_size
        dtype = _DTYPES.get(shape.element_type)
        dimensions = shape.dimensions
        if shape == _packed(dimensions) and shape.size % 2 == 0:
            dtype = "F4"
        elif dtype is None or shape != Shape(shape.element_type, dimensions):
            metadata[_SHAPE_KEY + name] = str(shape)
            dtype, dimensions = "U8", (size,)
        entries[name] = {"dtype": dtype, "shape": dimensions, "data_offsets": (at, at + size)}
        at += size
    found = {_METADATA: metadata} | entries if metadata else entries
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > LONGEST_HEADER:
        raise UnsupportedError(f"{len(shapes)} arrays: their names and shapes do not fit a header")
    start = 8 + len(text)
    places = {name: start + entry["data_offsets"][0] for name, entry in entries.items()}
    return len(text).to_bytes(8, "little") + text, places


def _check_name(name: str) -> None:
    check_is_text(name, "safetensors")
    if name == _METADATA:
        raise UnsupportedError(f"no array in a safetensors file can be called {name}")
