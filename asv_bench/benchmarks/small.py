"""How long does a small question take? Notation, addresses, plans, elements and views."""

from __future__ import annotations

import numpy as np

import strided as sd
from benchmarks.cases import TOY, aligned
from benchmarks.yardstick import multiples
from strided.planning import select_steps
from strided.planning.axis_maps import axis_map_of
from strided.planning.plan import plan_copy
from strided.transfer.copy import region_of_ndarray

_TEXTS = {
    "plain": "f32[3,5]{1,0}",
    "tiled": "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}",
    "tuple of 100": "(" + ", ".join(["bf16[1024,1024]{1,0:T(8,128)(2,1)}"] * 100) + ")",
}


@multiples
class Notation:
    """Text to value and back."""

    params = (list(_TEXTS),)
    param_names = ("text",)

    def setup(self, name: str) -> None:
        self.text = _TEXTS[name]
        self.shape = sd.parse(self.text)

    def run_parse(self, name: str) -> None:
        sd.parse(self.text)

    def run_str(self, name: str) -> None:
        str(self.shape)


@multiples
class Addresses:
    """Index to offset and back; a million beside NumPy's, of a row-major array."""

    def setup(self) -> None:
        self.shape = sd.parse("bf16[1280,16384]{1,0:T(8,128)(2,1)}")
        n = 1000 if TOY else 1_000_000
        self.rows = np.random.default_rng(0).integers(0, 1280, n)
        self.offsets = np.random.default_rng(0).integers(0, 1280 * 16384, n)

    def run_offset_of_one(self) -> None:
        self.shape.offset_of((7, 300))

    def run_index_at_one(self) -> None:
        self.shape.index_at(123_456)

    def run_offset_of_a_million(self) -> None:
        self.shape.offset_of((self.rows, self.rows))

    def beside_offset_of_a_million(self) -> None:
        np.ravel_multi_index((self.rows, self.rows), self.shape.dimensions)

    def run_index_at_a_million(self) -> None:
        self.shape.index_at(self.offsets)

    def beside_index_at_a_million(self) -> None:
        np.unravel_index(self.offsets, self.shape.dimensions)


@multiples
class Planning:
    """Two layouts to a ready plan."""

    params = (["f32 T(8,128)", "bf16 T(8,128)(2,1)", "s8 4-D", "transpose", "window"],)
    param_names = ("case",)

    def setup(self, name: str) -> None:
        text, key = {
            "f32 T(8,128)": ("f32[8192,8192]{1,0:T(8,128)}", ...),
            "bf16 T(8,128)(2,1)": ("bf16[8192,8192]{1,0:T(8,128)(2,1)}", ...),
            "s8 4-D": ("s8[8,16,1280,1384]{3,2,0,1:T(8,128)(4,1)}", ...),
            "transpose": ("f32[8192,8192]{0,1}", ...),
            "window": ("bf16[8192,8192]{1,0:T(8,128)(2,1)}", np.s_[5:-3, 77:-11]),
        }[name]
        shape = sd.parse(text)
        memory = np.empty(shape.byte_size, np.uint8)
        part = sd.LayoutArray(memory, shape)[key]
        target = region_of_ndarray(np.empty(part.shape, part.dtype))
        self.arguments = (part.region.map, target.map, part.region.storage, target.storage)
        plan_copy(*self.arguments)

    def run_plan_anew(self, name: str) -> None:
        for kept in (plan_copy, select_steps.steps_of, axis_map_of):
            kept.cache_clear()
        plan_copy(*self.arguments)

    def run_plan_again(self, name: str) -> None:
        plan_copy(*self.arguments)


@multiples
class Conversions:
    """64 KB there and back, beside a copy of as many bytes; what is more than that is Python."""

    params = (["f32[64,256]{1,0:T(8,128)}", "bf16[128,256]{1,0:T(8,128)(2,1)}", "s8[256,256]{1,0:T(8,128)(4,1)}"],)
    param_names = ("shape",)

    def setup(self, text: str) -> None:
        self.shape = sd.parse(text)
        self.memory, self.other = aligned(self.shape.byte_size), aligned(self.shape.byte_size)
        self.a = sd.LayoutArray(self.memory, self.shape)
        self.out = aligned(self.a.nbytes).view(self.a.dtype).reshape(self.a.shape)
        self.layout = str(self.shape.layout)
        for _ in range(2):
            self.run_to_numpy(text)
            self.run_from_numpy(text)

    def run_to_numpy(self, text: str) -> None:
        self.a.to_numpy(out=self.out)

    def run_from_numpy(self, text: str) -> None:
        sd.LayoutArray.from_numpy(self.out, self.layout, out=self.memory)

    def beside(self, text: str) -> None:
        np.copyto(self.other, self.memory)


@multiples
class Elements:
    """Elements and views of a small array, beside NumPy's."""

    def setup(self) -> None:
        self.a = sd.LayoutArray(np.zeros(1 << 16, np.uint8), "bf16[128,256]{1,0:T(8,128)(2,1)}")
        self.x = np.zeros((128, 256), self.a.dtype)
        self.a[3, 5]

    def run_element(self) -> None:
        self.a[3, 5]

    def beside_element(self) -> None:
        self.x[3, 5]

    def run_view(self) -> None:
        self.a[1:5, ::2]

    def beside_view(self) -> None:
        self.x[1:5, ::2]

    def run_transpose(self) -> None:
        _ = self.a.T

    def beside_transpose(self) -> None:
        _ = self.x.T

    def run_repr(self) -> None:
        repr(self.a)


@multiples
class Gather:
    """A million elements chosen at random, and as many in whole rows, beside NumPy's of a row-major array."""

    params = (
        [
            "f32[8192,8192]{1,0:T(8,128)}",
            "bf16[8192,8192]{1,0:T(8,128)(2,1)}",
            "f32[512,512]{1,0:T(8,128)}",
            "s8[1024,1024]{1,0:T(8,128)(4,1)}",
            "s4[1024,1024]{1,0:T(8,128)(8,1)E(4)}",
        ],
    )
    param_names = ("shape",)

    def setup(self, text: str) -> None:
        shape = sd.parse(text)
        n, side = (1000, 256) if TOY else (1_000_000, shape.dimensions[0])
        shape = sd.Shape(shape.element_type, (side, side), shape.layout)
        rng = np.random.default_rng(0)
        # Both read the same memory: which pages it got decides what a miss costs. (Not zeros: pages that were never
        # written are all one page in the cache.)
        memory = np.ones(side * side * shape.dtype.itemsize, np.uint8)
        self.a = sd.LayoutArray(memory[: shape.byte_size], shape)
        self.rows, self.columns = rng.integers(0, side, n), rng.integers(0, side, n)
        self.few = self.rows[: max(1, n // side)]
        self.x, self.places = memory.view(self.a.dtype).reshape(side, side), self.rows * side + self.columns
        self.flat = self.x.reshape(-1)
        for run in (self.run_gather, self.run_take, self.run_rows):
            run(text)

    def run_gather(self, text: str) -> None:
        self.a[self.rows, self.columns]

    def beside_gather(self, text: str) -> None:
        self.x[self.rows, self.columns]

    def run_take(self, text: str) -> None:
        self.a.take(self.places)

    def beside_take(self, text: str) -> None:
        self.flat.take(self.places)

    def run_rows(self, text: str) -> None:
        self.a[self.few]

    def beside_rows(self, text: str) -> None:
        self.x[self.few]
