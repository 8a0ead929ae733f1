"""How fast is a layout that no text of XLA's says, beside a tiled one of XLA's of the same array?"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import strided as sd
from benchmarks.cases import TOY, aligned
from benchmarks.yardstick import multiples, plain_copy
from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Digit, Term


class _Sizes(NamedTuple):
    dimensions: tuple[int, int]


class ScaleFactors(_Sizes):
    """Scale factors of block-scaled matrix products: tiles of 128x4, their rows in the order 0, 32, 64, 96, 1, ..."""

    dtype = np.dtype(np.uint8)
    element_bits = 8
    padding_maps = None
    padding_value = sd.PaddingValue.ZERO_PAD

    @property
    def slots(self) -> int:
        """Slots of all tiles."""
        return 512 * math.prod(-(-n // t) for n, t in zip(self.dimensions, (128, 4), strict=True))

    buffer_byte_size = slots

    @cached_property
    def address_map(self) -> AddressMap:
        """Index to slot."""
        down, across = (-(-n // t) for n, t in zip(self.dimensions, (128, 4), strict=True))
        rows = Digit(1, 32, 16), Digit(32, 4, 4), Digit(128, down, 512 * across)
        columns = Digit(1, 4, 1), Digit(4, across, 512)
        return AddressMap(self.dimensions, 0, ((Term(0, 1, rows),), (Term(0, 1, columns),)), (), self.slots)


@multiples
class OtherSpecs:
    """64 MB of bytes from one layout to another, beside a memcpy."""

    params = (["scale factors", "u8 T(128,4)"], ["to row-major", "from row-major", "to T(32,128)(4,1)"])
    param_names = ("layout", "conversion")
    timeout = 300

    def setup(self, layout: str, conversion: str) -> None:
        dimensions = (256, 16) if TOY else (65536, 1024)
        spec: Any = ScaleFactors(dimensions)
        if layout != "scale factors":
            spec = sd.Shape("u8", dimensions, sd.parse("{1,0:T(128,4)}"))
        memory = aligned(spec.buffer_byte_size)
        memory[:] = np.random.default_rng(0).integers(0, 255, memory.size, np.uint8)
        source = sd.LayoutArray(memory, spec)
        dense = aligned(source.nbytes).reshape(dimensions)
        dense[...] = 1
        relaid = source.to_layout("{1,0:T(32,128)(4,1)}")
        runs: dict[str, Callable[[], object]] = {
            "to row-major": lambda: source.to_numpy(out=dense),
            "from row-major": lambda: sd.LayoutArray.from_numpy(dense, spec, "unknown", source),
            "to T(32,128)(4,1)": lambda: source.to_layout("{1,0:T(32,128)(4,1)}", "unknown", relaid),
        }
        self.run = runs[conversion]
        self.copy = plain_copy(source.nbytes)

    def run_conversion(self, layout: str, conversion: str) -> None:
        self.run()

    def beside(self, layout: str, conversion: str) -> None:
        self.copy()
