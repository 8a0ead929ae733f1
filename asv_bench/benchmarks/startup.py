"""What does the first use cost? Imports, the first conversion with and without compiled kernels on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

from benchmarks.cases import TOY

_FIRST = """
import time, numpy as np, strided as sd
shape = sd.parse("SHAPE")
a = sd.LayoutArray(np.zeros(shape.byte_size, np.uint8), shape)
start = time.perf_counter()
a.to_numpy()
print(time.perf_counter() - start)
"""

_SHAPES = {
    "f32": "f32[2048,2048]{1,0:T(8,128)}",
    "bf16": "bf16[2048,4096]{1,0:T(8,128)(2,1)}",
    "s8": "s8[4096,4096]{1,0:T(8,128)(4,1)}",
    "s4": "s4[4096,8192]{1,0:T(8,128)(8,1)E(4)}",
    "f32 transposed": "f32[2048,2048]{0,1}",
    "bf16 transposed": "bf16[2048,4096]{0,1}",
}


def _run(code: str, cache: str) -> float:
    """What a fresh process prints that keeps its kernels in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "STRIDED_COMPILE": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


class Import:
    """A fresh interpreter each time."""

    def timeraw_import_numpy_and_ml_dtypes(self) -> str:
        return "import numpy, ml_dtypes"

    def timeraw_import_strided(self) -> str:
        return "import strided"

    def timeraw_parse_a_shape(self) -> str:
        return "import strided; strided.parse('bf16[8,1280,16384]{2,1,0:T(8,128)(2,1)}').byte_size"


class FirstConversion:
    """16 MB in a fresh process."""

    params = (list(_SHAPES)[: 1 if TOY else None],)
    param_names = ("shape",)
    timeout = 120

    def setup(self, name: str) -> None:
        self.code = _FIRST.replace("SHAPE", _SHAPES[name])
        self.cache = tempfile.mkdtemp()

    def teardown(self, name: str) -> None:
        shutil.rmtree(self.cache)

    def track_seconds_without_kernel_cache(self, name: str) -> float:
        return _run(self.code, self.cache)

    def track_seconds_with_kernel_cache(self, name: str) -> float:
        _run(self.code, self.cache)
        return _run(self.code, self.cache)

    def track_seconds_of_a_small_read(self, name: str) -> float:
        return _run(self.code.replace("a.to_numpy()", "a[0, 0]; a[:4, :4].to_numpy()"), self.cache)

    track_seconds_without_kernel_cache.unit = "s"  # type: ignore[attr-defined]
    track_seconds_with_kernel_cache.unit = "s"  # type: ignore[attr-defined]
    track_seconds_of_a_small_read.unit = "s"  # type: ignore[attr-defined]
