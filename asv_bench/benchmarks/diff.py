"""How fast are two arrays compared, beside reading both, or beside converting one?"""

from __future__ import annotations

from typing import Any

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples

_SIDE = 256 if TOY else 4096
_PAIRS = {"tiles and rows": ("{1,0:T(8,128)}", "{1,0}"), "two tilings": ("{1,0:T(8,128)}", "{0,1:T(8,128)}")}


def _values(name: str) -> Any:
    return np.random.default_rng(0).standard_normal((_SIDE, _SIDE), np.float32).astype(sd.parse(f"{name}[]").dtype)


@multiples
class OneLayout:
    """Two arrays in tiles of 8 by 128, beside `np.array_equal` of their buffers; one differs in one row."""

    params = (["f32", "bf16"], ["equal", "one row differs"])
    param_names = ("type", "values")

    def setup(self, name: str, values: str) -> None:
        x = _values(name)
        self.a = sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")
        if values != "equal":
            x[9] = 0
        self.b = sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")

    def run_diff(self, *_: str) -> None:
        sd.diff(self.a, self.b)

    def beside(self, *_: str) -> None:
        np.array_equal(self.a.buffer.view(np.uint64), self.b.buffer.view(np.uint64))


@multiples
class TwoLayouts:
    """Equal arrays in two layouts, beside the conversion of the slower one into new memory."""

    params = (["f32", "bf16"], list(_PAIRS))
    param_names = ("type", "layouts")

    def setup(self, name: str, layouts: str) -> None:
        x = _values(name)
        self.a, self.b = (sd.LayoutArray.from_numpy(x, layout) for layout in _PAIRS[layouts])

    def run_diff(self, *_: str) -> None:
        sd.diff(self.a, self.b)

    def beside(self, name: str, layouts: str) -> None:
        (self.b if layouts == "two tilings" else self.a).to_numpy()
