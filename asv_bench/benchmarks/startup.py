"""What does the first use cost? Imports, the first conversion with and without compiled kernels on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

_FIRST = """
import time, numpy as np, strided as sd
a = sd.LayoutArray(np.zeros(1 << 24, np.uint8), "bf16[2048,4096]{1,0:T(8,128)(2,1)}")
start = time.perf_counter()
a.to_numpy()
print(time.perf_counter() - start)
"""


def _run(code: str, **environment: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
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

    timeout = 120

    def setup(self) -> None:
        self.cache = tempfile.mkdtemp()

    def teardown(self) -> None:
        shutil.rmtree(self.cache)

    def track_seconds_without_kernel_cache(self) -> float:
        return _run(_FIRST, STRIDED_CACHE_DIR=self.cache)

    def track_seconds_with_kernel_cache(self) -> float:
        _run(_FIRST, STRIDED_CACHE_DIR=self.cache)
        return _run(_FIRST, STRIDED_CACHE_DIR=self.cache)

    def track_seconds_of_a_small_read(self) -> float:
        code = _FIRST.replace("a.to_numpy()", "a[0, 0]; a[:4, :4].to_numpy()")
        return _run(code, STRIDED_CACHE_DIR=self.cache)

    track_seconds_without_kernel_cache.unit = "s"  # type: ignore[attr-defined]
    track_seconds_with_kernel_cache.unit = "s"  # type: ignore[attr-defined]
    track_seconds_of_a_small_read.unit = "s"  # type: ignore[attr-defined]
