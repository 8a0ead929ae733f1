"""How fast is padding examined, and how fast are the bytes of a window listed?"""

from __future__ import annotations

from typing import Any

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples, plain_copy


@multiples
class Padding:
    """16 MB of padding in a buffer of 74 MB, beside a memcpy of it. For numbers the data is searched."""

    params = (["zero", "constant", "numbers", "noise"],)
    param_names = ("contents",)
    timeout = 300

    def setup(self, contents: str) -> None:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(64 if TOY else 36_000, 8, 100)).astype(np.float16)
        self.array = sd.LayoutArray.from_numpy(values, "{2,1,0:T(8,128)(2,1)}")
        if contents == "constant":
            self.array.fill_padding(1)
        elif contents != "zero":
            buffer = self.array.buffer.view(np.uint16)
            buffer[:] = rng.integers(0, 1 << 16, buffer.size, np.uint16)
            if contents == "numbers":
                buffer[:] = rng.normal(size=buffer.size).astype(np.float16).view(np.uint16)
            self.array[...] = values
        self.copy = plain_copy(self.array.buffer.nbytes - self.array.nbytes)

    def run_report(self, contents: str) -> None:
        sd.inspect.padding(self.array)

    def beside(self, contents: str) -> None:
        self.copy()


@multiples
class Filled:
    """Values laid out in a buffer whose padding is filled: in every row of tiles, or in every word; beside a memcpy."""

    params = (
        [
            "f32[4096,17,300]{2,1,0:T(8,128)}",
            "bf16[4096,17,300]{2,1,0:T(8,128)(2,1)}",
            "s8[4096,17,300]{2,1,0:T(8,128)(4,1)}",
            "s8[8192,2,1003]{2,1,0:T(4,128)(4,1)}",
            "s8[402,1228,75]{0,2,1:T(8,128)(4,1)}",
            "s4[4096,17,300]{2,1,0:T(8,128)(8,1)E(4)}",
        ],
    )
    param_names = ("shape",)

    def setup(self, text: str) -> None:
        shape = sd.parse_shape(text)
        n, *others = shape.dimensions
        self.values = np.ones((max(1, n // 256) if TOY else n, *others), shape.dtype)
        self.array = sd.LayoutArray.from_numpy(self.values, shape.layout, element_type=shape.element_type)
        self.copy = plain_copy(self.array.buffer.nbytes)

    def run_from_numpy(self, text: str) -> None:
        sd.LayoutArray.from_numpy(self.values, self.array.layout, out=self.array, element_type=self.array.element_type)

    def beside(self, text: str) -> None:
        self.copy()


@multiples
class Ranges:
    """The bytes of windows of four terabytes, and of single elements of a vector."""

    params = (["window", "column", "odd edges", "index array", "mask"],)
    param_names = ("key",)

    def setup(self, key: str) -> None:
        rng = np.random.default_rng(0)
        large, vector, n = "f32[1048576,1048576]{1,0:T(8,128)}", "f32[1000000]{0:T(1024)}", 1_000_000
        cases: dict[str, tuple[str, Any]] = {
            "window": ("bf16[17,300]{1,0:T(8,128)(2,1)}", np.s_[9, 200:204]),
            "column": (large, np.s_[: 1024 if TOY else None, 7]),
            "odd edges": ("f32[1000003,1000003]{1,0:T(8,128)}", np.s_[: 1003 if TOY else None]),
            "index array": (vector, rng.integers(0, n, n // 1000 if TOY else n // 10)),
            "mask": (vector, rng.random(n) < 0.5),
        }
        self.arguments = cases[key]

    def run_byte_ranges(self, key: str) -> None:
        sd.inspect.byte_ranges(*self.arguments)
