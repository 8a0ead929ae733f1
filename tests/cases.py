"""The recorded data, and a corpus of layouts with every oddity labelled.

A `Case` is an array type with its layout, as plain numbers: it prints XLA's text and gives the oracle's `Spec`, both
without the package under test, whose parser, printer and addresses are judged by it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tests import paths
from tests.oracle import COMBINE, Index, Spec

DATA = paths.DATA / "xla"


def _load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


#: Shape texts with the verdicts of XLA's own parser and validation.
SHAPE_TEXT_CASES: list[dict[str, Any]] = _load("shape_text_cases.json")
#: Worked addresses.
TILED_EXAMPLES: list[dict[str, Any]] = _load("tiled_examples.json")
#: Array types of program arguments, with the size in bytes that the TPU compiler gives them.
TPU_LAYOUT_SIZES: dict[str, int] = {
    text: int(size)
    for size, text in (
        line.split(" ", 1)
        for line in gzip.decompress((DATA / "tpu_layout_sizes.txt.gz").read_bytes()).decode().splitlines()
    )
}
#: XLA's primitive types by name: number, bits, and the name of the type that holds a value in NumPy or ml_dtypes.
PRIMITIVE_TYPES: dict[str, dict[str, Any]] = {row["name"]: row for row in _load("primitive_types.json")}
ARRAY_TYPES: dict[str, dict[str, Any]] = {name: row for name, row in PRIMITIVE_TYPES.items() if row["is_array"]}
#: Types of which XLA packs several into one byte.
PACKED_TYPES = [name for name, row in ARRAY_TYPES.items() if row["bits"] in (1, 2, 4)]

#: Where each buffer of `raw/` lies, and its shape.
RAW_BUFFERS: dict[str, str] = _load("raw/shapes.json")


def dtype_of(element_type: str) -> np.dtype:
    """The NumPy type that holds a value of XLA's `element_type`."""
    row = ARRAY_TYPES[element_type]
    return np.dtype(row["numpy"] or getattr(ml_dtypes, row["ml_dtypes"]))


_TEXT = re.compile(
    r"(?P<type>\w+)\[(?P<dims>[\d,]*)\]"
    r"(\{(?P<order>[\d,]*)(:(T(?P<tiles>(\([\d,*]+\))+))?(L\((?P<tail>\d+)\))?(E\((?P<bits>\d+)\))?(S\(\d+\))?)?\})?"
)


def _numbers(text: str) -> Index:
    return tuple(int(n) for n in text.split(",") if n)


@dataclass(frozen=True)
class Case:
    """An array type with its layout; `element_bits` is the layout's ``E``, 0 where it has none."""

    element_type: str
    dimensions: Index
    minor_to_major: Index
    tiles: tuple[tuple[int | str, ...], ...] = ()
    tail_alignment: int = 1
    element_bits: int = 0
    padded_dimensions: Index = ()

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case of a canonical text (a few attributes only: this is no parser of the notation)."""
        found = _TEXT.fullmatch(text)
        assert found, text
        dimensions = _numbers(found["dims"])
        order = range(len(dimensions) - 1, -1, -1) if found["order"] is None else _numbers(found["order"])
        tiles = tuple(
            tuple(COMBINE if entry == "*" else int(entry) for entry in tile.split(","))
            for tile in re.findall(r"\(([^)]*)\)", found["tiles"] or "")
        )
        return cls(found["type"], dimensions, tuple(order), tiles, int(found["tail"] or 1), int(found["bits"] or 0))

    @property
    def layout_text(self) -> str:
        """Canonical text of the layout (a legacy layout has none)."""
        assert not self.padded_dimensions
        attributes = ""
        if self.tiles:
            attributes += "T" + "".join("(" + ",".join(map(str, tile)) + ")" for tile in self.tiles)
        if self.tail_alignment != 1:
            attributes += f"L({self.tail_alignment})"
        if self.element_bits:
            attributes += f"E({self.element_bits})"
        return "{" + ",".join(map(str, self.minor_to_major)) + (":" + attributes if attributes else "") + "}"

    @property
    def text(self) -> str:
        """Canonical text."""
        layout = self.layout_text
        return f"{self.element_type}[{','.join(map(str, self.dimensions))}]{'' if layout == '{}' else layout}"

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self.element_type)

    @property
    def bits(self) -> int:
        """Bits of one element in the buffer."""
        return self.element_bits or 8 * self.dtype.itemsize

    @property
    def spec(self) -> Spec:
        return Spec(
            self.dimensions, self.minor_to_major, self.tiles, self.bits, self.tail_alignment, self.padded_dimensions
        )

    def with_type(self, element_type: str) -> Case:
        """The same layout with elements of another type, packed where XLA packs it."""
        bits = ARRAY_TYPES[element_type]["bits"]
        return replace(self, element_type=element_type, element_bits=bits if element_type in PACKED_TYPES else 0)


# --- values as bits -------------------------------------------------------------------------------------------------


def patterns_of(values: np.ndarray, bits: int) -> dict[Index, int]:
    """The low `bits` of every element, by index."""
    # In one axis: NumPy 2.0 makes bytes of 32 axes at most.
    flat, size = np.asarray(values).reshape(-1).tobytes(), values.dtype.itemsize
    mask = (1 << bits) - 1
    return {
        index: int.from_bytes(flat[k * size : (k + 1) * size], "little") & mask
        for k, index in enumerate(itertools.product(*map(range, values.shape)))
    }


def values_of(patterns: dict[Index, int], shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """The array whose elements have these bits."""
    places = itertools.product(*map(range, shape))
    flat = b"".join(patterns[index].to_bytes(dtype.itemsize, "little") for index in places)
    return np.frombuffer(flat, dtype).reshape(shape).copy()


def some_values(case: Case, seed: int = 0) -> np.ndarray:
    """Values with every bit pattern of a small type, and random ones (NaNs among them) of a large one."""
    rng = np.random.default_rng(seed)
    size = math.prod(case.dimensions)
    if case.element_type == "pred":
        return (rng.integers(0, 2, size) == 1).reshape(case.dimensions).copy()
    significant = ARRAY_TYPES[case.element_type]["bits"]
    if significant <= 8:
        patterns = (np.arange(size) + seed) % (1 << significant)
        return patterns.astype(np.uint8).view(case.dtype).reshape(case.dimensions).copy()
    return np.frombuffer(rng.bytes(size * case.dtype.itemsize), case.dtype).reshape(case.dimensions).copy()


# --- the corpus -----------------------------------------------------------------------------------------------------

#: One layout per oddity, small enough for the oracle.
CORPUS: dict[str, str] = {
    "row major": "f32[3,5]{1,0}",
    "column major": "f32[3,5]{0,1}",
    "scalar": "f32[]",
    "tiled scalar": "f32[]{:T(128)}",
    "vector": "u8[7]{0}",
    "empty": "f32[0,5]{1,0:T(2,2)}",
    "empty in the middle": "s16[3,0,2]{0,2,1}",
    "one tile, ragged on both sides": "f32[3,5]{1,0:T(2,2)}",
    "one tile, column major": "f32[3,5]{0,1:T(2,2)}",
    "tile of lower rank": "f32[6,5]{1,0:T(2)}",
    "tile of higher rank": "f32[3,5]{1,0:T(2,2,2)}",
    "vector in a matrix tile": "f32[5]{0:T(2,4)}",
    "tile larger than the array": "f32[3,5]{1,0:T(8,128)}",
    "tile of ones": "f32[3,5]{1,0:T(1,1)}",
    "bf16 pairs of rows": "bf16[17,30]{1,0:T(8,16)(2,1)}",
    "as the TPU lays bf16": "bf16[9,130]{1,0:T(8,128)(2,1)}",
    "as the TPU lays a vector of s8": "s8[300]{0:T(512)(128)(4,1)}",
    "pairs of tiles": "f32[8,8]{1,0:T(2,4)(2,1,1,1)}",
    "uneven pairs of tiles": "bf16[6,8]{1,0:T(2,4)(2,1,1,1)}",
    "uneven second tile": "f32[4,6]{1,0:T(4,4)(3,1)}",
    "uneven second tile of a vector": "f32[10]{0:T(4)(3)}",
    "second tile larger than the first": "f32[3,5]{1,0:T(1,4)(2,1)}",
    "three tiles": "f32[9,9]{1,0:T(4,4)(2,2)(2,1)}",
    "combined": "f32[3,2,4]{2,1,0:T(*,2,3)}",
    "twice combined": "f32[2,3,2,2,4]{4,3,2,1,0:T(*,*,2,*,3)}",
    "all combined": "f32[2,3,5]{2,0,1:T(*,*,7)}",
    "combined inside a tile": "f32[3,5]{1,0:T(2,4)(*,3)}",
    "combined grid": "f32[5,7]{1,0:T(2,4)(*,2,1,1)}",
    "combined ones in front": "f32[5]{0:T(*,2,3)}",
    "tail alignment": "f32[3,5]{1,0:L(8)}",
    "linear with tail": "f32[3,5]{1,0:T(1)L(128)}",
    "tiled with tail": "u8[5,3]{1,0:T(2,2)L(7)}",
    "packed": "s4[5,7]{1,0:E(4)}",
    "packed, odd count, column major": "u4[3,3]{0,1:E(4)}",
    "packed pairs": "s2[5,7]{0,1:E(2)}",
    "packed bits": "pred[3,11]{1,0:E(1)}",
    "packed and tiled": "s4[9,17]{1,0:T(8,16)(8,1)E(4)}",
    "packed bits and tiled": "u1[9,17]{1,0:T(32,16)(32,1)E(1)}",
    "packed floats": "f4e2m1fn[3,3]{1,0:E(4)}",
    "packed, byte boundary inside a tile": "u2[3,5]{1,0:T(3,3)E(2)}",
    "packed with tail": "u4[3]{0:T(1)L(16)E(4)}",
    "small but not packed": "s4[5,3]{1,0:T(2,2)}",
    "sizes of one": "f32[2,1,3,1,2]{2,3,1,4,0}",
    "rank six": "s16[2,1,3,2,1,2]{0,3,5,1,2,4:T(2,2)(2,1)}",
    "sixteen bytes": "c128[3,5]{0,1:T(2,2)}",
}

#: Stacks of tiles for exhaustive checks; the even ones first.
TILE_STACKS: list[tuple[tuple[int | str, ...], ...]] = [
    (),
    ((3,),),
    ((2, 2),),
    ((2, 3),),
    ((2, 2, 2),),
    ((4,), (2,)),
    ((2, 4), (2, 1)),
    ((4, 4), (2, 2)),
    ((4, 4), (2, 2), (1, 2)),
    ((2, 2), (2, 1, 1, 1)),
    ((4, 2), (2, 1), (2, 1, 1)),
    ((COMBINE, 3),),
    ((COMBINE, COMBINE, 4),),
    ((2, COMBINE, 2),),
    ((COMBINE, 2, 2),),
    ((2, 2), (COMBINE, 2)),
    ((2, 2), (COMBINE, 2, 1)),
    ((4,), (3,)),
    ((2, 3), (3, 2)),
    ((3, 2), (2, 1, 2)),
    ((2, 2), (3, 1, 1)),
    ((1, 2, 1, 2, 3),),
]


def worlds(max_rank: int = 4) -> Iterator[Case]:
    """Every minor_to_major up to `max_rank`, under every stack of tiles."""
    sizes = [(), (7,), (3, 5), (2, 3, 5), (2, 1, 3, 3)]
    for dimensions in sizes[: max_rank + 1]:
        for order in itertools.permutations(range(len(dimensions))):
            for tiles in TILE_STACKS:
                yield Case("f32", dimensions, order, tiles)
