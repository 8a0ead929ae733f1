"""How fast is padding examined, and how fast are the bytes of a window listed?"""

from __future__ import annotations

from typing import Any

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import in_turn, plain_copy, share_of_first


class Padding:
    """64 MB of padding in a buffer of 290 MB; numbers have the data searched for them."""

    params = (["zero", "constant", "numbers", "noise"],)
    param_names = ("contents",)
    timeout = 300

    def setup(self, contents: str) -> None:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(64 if TOY else 142_000, 8, 100)).astype(np.float16)
        self.array = sd.LayoutArray.from_numpy(values, "{2,1,0:T(8,128)(2,1)}")
        if contents == "constant":
            self.array.fill_padding(1)
        elif contents != "zero":
            buffer = self.array.buffer.view(np.uint16)
            noise = rng.integers(0, 1 << 16, buffer.size, np.uint16)
            buffer[:] = (
                noise if contents == "noise" else rng.normal(size=buffer.size).astype(np.float16).view(np.uint16)
            )
            self.array[...] = values

    def time_report(self, contents: str) -> None:
        sd.inspect.padding(self.array)

    def track_share_of_memcpy(self, contents: str) -> float:
        padding = plain_copy(self.array.buffer.nbytes - self.array.nbytes)
        return float(share_of_first(in_turn([padding, lambda: sd.inspect.padding(self.array)]))[1])

    track_share_of_memcpy.unit = "of memcpy of the padding"  # type: ignore[attr-defined]


class Ranges:
    """The bytes of windows of four terabytes, and of single elements of a vector."""

    params = (["window", "column", "odd edges", "index array", "mask"],)
    param_names = ("key",)

    def setup(self, key: str) -> None:
        rng = np.random.default_rng(0)
        large, vector, n = "f32[1048576,1048576]{1,0:T(8,128)}", "f32[10000000]{0:T(1024)}", 10_000_000
        cases: dict[str, tuple[str, Any]] = {
            "window": ("bf16[17,300]{1,0:T(8,128)(2,1)}", np.s_[9, 200:204]),
            "column": (large, np.s_[: 1024 if TOY else None, 7]),
            "odd edges": ("f32[1000003,1000003]{1,0:T(8,128)}", np.s_[: 1003 if TOY else None]),
            "index array": (vector, rng.integers(0, n, 1000 if TOY else n // 10)),
            "mask": (vector, rng.random(n) < 0.5),
        }
        self.arguments = cases[key]

    def time_byte_ranges(self, key: str) -> None:
        sd.inspect.byte_ranges(*self.arguments)
