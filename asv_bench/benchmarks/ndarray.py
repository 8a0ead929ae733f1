"""What does it cost to use an array in a layout as an ndarray? Reductions, functions and selections beside NumPy's."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples

_SIDE = 128 if TOY else 4096
_TEXT = {
    "f32 T(8,128)": f"f32[{_SIDE},{_SIDE}]{{1,0:T(8,128)}}",
    "f32 transposed T(8,128)": f"f32[{_SIDE},{_SIDE}]{{0,1:T(8,128)}}",
    "f32 plain": f"f32[{_SIDE},{_SIDE}]{{1,0}}",
}


def _pair(text: str) -> tuple[sd.LayoutArray, np.ndarray]:
    """An array in a layout, and the same values as NumPy has them."""
    x = np.random.default_rng(0).random((_SIDE, _SIDE), np.float32)
    return sd.LayoutArray.from_numpy(x, sd.parse(text)), x


@multiples
class Reductions:
    """64 MB, reduced window by window, beside NumPy's of a row-major array of the same values."""

    params = (list(_TEXT), ["sum", "var", "argmax", "any"], [None, 0, 1])
    param_names = ("layout", "function", "axis")

    def setup(self, layout: str, function: str, axis: int | None) -> None:
        self.a, self.x = _pair(_TEXT[layout])
        self.function: Callable[..., Any] = getattr(np, function)

    def run_reduction(self, layout: str, function: str, axis: int | None) -> None:
        self.function(self.a, axis=axis)

    def beside(self, layout: str, function: str, axis: int | None) -> None:
        self.function(self.x, axis=axis)


@multiples
class Sparse:
    """The mean of a sparse file of 1 GB: time and memory."""

    def setup_cache(self) -> str:
        shape = sd.parse(f"f32[{_SIDE * 8},{_SIDE * 2}]{{1,0:T(8,128)}}")
        path = str(Path(tempfile.mkdtemp()) / "sparse.bin")
        with open(path, "wb") as file:
            file.truncate(shape.byte_size)
        return path

    def setup(self, path: str) -> None:
        self.a = sd.open(path, f"f32[{_SIDE * 8},{_SIDE * 2}]{{1,0:T(8,128)}}")

    def run_mean(self, path: str) -> None:
        self.a.mean()

    def peakmem_mean(self, path: str) -> None:
        self.a.mean()


@multiples
class Functions:
    """Universal functions of 64 MB, beside NumPy's of a row-major array."""

    params = (list(_TEXT), ["a + 1", "a + x", "a += 1", "a > 0.5", "exp"])
    param_names = ("layout", "what")

    def setup(self, layout: str, what: str) -> None:
        self.a, self.x = _pair(_TEXT[layout])
        run: dict[str, Callable[[Any], Any]] = {
            "a + 1": lambda a: a + 1,
            "a + x": lambda a: a + self.x,
            "a += 1": lambda a: np.add(a, 1, out=a),
            "a > 0.5": lambda a: a > 0.5,
            "exp": np.exp,
        }
        self.run = run[what]

    def run_function(self, layout: str, what: str) -> None:
        self.run(self.a)

    def beside(self, layout: str, what: str) -> None:
        self.run(self.x)


@multiples
class Selections:
    """Index arrays and masks, beside NumPy's on a row-major array."""

    params = (["points", "places", "rows", "columns", "outer", "mask", "sparse mask"],)
    param_names = ("key",)

    def setup(self, key: str) -> None:
        self.a, self.x = _pair(_TEXT["f32 T(8,128)"])
        rng = np.random.default_rng(1)
        n = 1000 if TOY else 1_000_000
        rows, columns = rng.integers(0, _SIDE, n), rng.integers(0, _SIDE, n)
        few = rng.integers(0, _SIDE, 100 if TOY else 1000)
        keys: dict[str, Callable[[Any], Any]] = {
            "points": lambda a: a[rows, columns],
            "places": lambda a: np.take(a, rows * _SIDE + columns),
            "rows": lambda a: a[few],
            "columns": lambda a: a[:, few],
            "outer": lambda a: a[np.ix_(few, few)],
        }
        if "mask" in key:
            mask = rng.random((_SIDE, _SIDE)) < (0.01 if key == "sparse mask" else 0.3)
            keys[key] = lambda a: a[mask]
        self.select = keys[key]

    def run_selection(self, key: str) -> None:
        self.select(self.a)

    def beside(self, key: str) -> None:
        self.select(self.x)


@multiples
class Protocols:
    """What NumPy and others ask of an array before they compute anything."""

    def setup(self) -> None:
        self.tiled = sd.LayoutArray(np.zeros(1 << 16, np.uint8), "bf16[128,256]{1,0:T(8,128)(2,1)}")
        self.plain = sd.LayoutArray(np.zeros(1 << 16, np.uint8), "f32[128,128]{0,1}")

    def run_asarray_without_a_copy(self) -> None:
        np.asarray(self.plain)

    def run_asarray(self) -> None:
        np.asarray(self.tiled)

    def run_transpose(self) -> None:
        np.transpose(self.tiled, (1, 0))

    def run_reshape(self) -> None:
        self.tiled.reshape(16, 8, 256)

    def run_pickle_out_of_band(self) -> None:
        pickle.loads(pickle.dumps(self.tiled, 5, buffer_callback=[].append), buffers=[self.tiled.buffer])

    def run_assignment_of_an_element(self) -> None:
        self.tiled[3, 5] = 1

    def run_row_after_row(self) -> None:
        for _ in self.tiled:
            pass
