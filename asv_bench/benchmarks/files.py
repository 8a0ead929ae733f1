"""How fast are files read, and does a window cost only its own pages?"""

from __future__ import annotations

import os
import tempfile

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples

_SIDE = 256 if TOY else 8192


@multiples
class WholeFile:
    """A file of 256 MB in the page cache, beside `np.fromfile`."""

    def setup(self) -> None:
        self.shape = f"f32[{_SIDE},{_SIDE}]{{1,0:T(8,128)}}"
        handle, self.path = tempfile.mkstemp()
        os.close(handle)
        np.ones(_SIDE * _SIDE, np.float32).tofile(self.path)
        self.run_open_and_read()

    def teardown(self) -> None:
        os.unlink(self.path)

    def run_open_and_read(self) -> None:
        sd.open(self.path, self.shape).to_numpy()

    def beside(self) -> None:
        np.fromfile(self.path, np.float32)


@multiples
class Window:
    """A window of 1 MB in sparse files of very different sizes."""

    params = ([1, 20],)
    param_names = ("gigabytes",)

    def setup(self, gigabytes: int) -> None:
        rows = gigabytes * (64 if TOY else 65536)
        handle, self.path = tempfile.mkstemp()
        os.ftruncate(handle, rows * 16384)
        os.close(handle)
        self.shape = f"f32[{rows},4096]{{1,0:T(8,128)}}"
        self.run_open_and_read_a_window(gigabytes)

    def teardown(self, gigabytes: int) -> None:
        os.unlink(self.path)

    def run_open_and_read_a_window(self, gigabytes: int) -> None:
        a = sd.open(self.path, self.shape)
        middle = a.shape[0] // 2
        a[middle : middle + 512, 1000:1512].to_numpy()
