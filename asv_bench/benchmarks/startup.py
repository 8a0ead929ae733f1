"""What does the first use cost? Imports, the first conversion with and without compiled kernels on disk."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from benchmarks.cases import TOY
from benchmarks.yardstick import multiples

_FIRST = """
import time, numpy as np, strided as sd
shape = sd.parse("SHAPE")
a = sd.LayoutArray(np.zeros(shape.byte_size, np.uint8), shape)
other, copies = np.zeros_like(a.buffer), []
for _ in range(5):
    start = time.perf_counter()
    np.copyto(other, a.buffer)
    copies.append(time.perf_counter() - start)
start = time.perf_counter()
a.to_numpy()
print((time.perf_counter() - start) / min(copies))
"""

_SHAPES = {
    "f32": "f32[2048,2048]{1,0:T(8,128)}",
    "s4": "s4[4096,8192]{1,0:T(8,128)(8,1)E(4)}",
    "f32 transposed": "f32[2048,2048]{0,1}",
}


def _first(code: str, cache: str) -> float:
    """What a fresh process prints that keeps its kernels in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "STRIDED_COMPILE": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


@multiples
class Import:
    """A fresh interpreter each time, beside one that imports NumPy and ml_dtypes."""

    def run_import_strided(self) -> None:
        subprocess.run([sys.executable, "-c", "import strided"], check=True)

    def run_parse_a_shape(self) -> None:
        code = "import strided; strided.parse('bf16[8,1280,16384]{2,1,0:T(8,128)(2,1)}').byte_size"
        subprocess.run([sys.executable, "-c", code], check=True)

    def beside(self) -> None:
        subprocess.run([sys.executable, "-c", "import numpy, ml_dtypes"], check=True)


class FirstConversion:
    """16 MB in a fresh process, beside a memcpy there."""

    params = (list(_SHAPES)[: 1 if TOY else None],)
    param_names = ("shape",)
    timeout = 120

    def setup(self, name: str) -> None:
        self.code = _FIRST.replace("SHAPE", _SHAPES[name])
        self.caches = [tempfile.mkdtemp() for _ in range(1 if TOY else 3)]

    def teardown(self, name: str) -> None:
        for cache in self.caches:
            shutil.rmtree(cache)

    def track_without_kernel_cache(self, name: str) -> float:
        return statistics.median(_first(self.code, cache) for cache in self.caches)

    def track_with_kernel_cache(self, name: str) -> float:
        wait = os.environ | {"STRIDED_COMPILE": "first", "NUMBA_CACHE_DIR": self.caches[0]}
        subprocess.run([sys.executable, "-c", self.code], env=wait, capture_output=True, check=True)
        return statistics.median(_first(self.code, self.caches[0]) for _ in self.caches)

    def track_small_read(self, name: str) -> float:
        code = self.code.replace("a.to_numpy()", "a[0, 0]; a[:4, :4].to_numpy()")
        return min(_first(code, cache) for cache in self.caches for _ in range(1 if TOY else 3))

    for _row in (track_without_kernel_cache, track_with_kernel_cache, track_small_read):
        _row.unit = "times as long"  # type: ignore[attr-defined]
