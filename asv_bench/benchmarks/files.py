"""How fast are files read, and does a window cost only its own pages?"""

from __future__ import annotations

import os
import tempfile

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import in_turn, share_of_first

_SIDE = 256 if TOY else 8192


class WholeFile:
    """A file of 256 MB in the page cache."""

    def setup(self) -> None:
        self.shape = f"f32[{_SIDE},{_SIDE}]{{1,0:T(8,128)}}"
        handle, self.path = tempfile.mkstemp()
        os.close(handle)
        np.ones(_SIDE * _SIDE, np.float32).tofile(self.path)
        self.time_open_and_read()

    def teardown(self) -> None:
        os.unlink(self.path)

    def time_open_and_read(self) -> None:
        sd.open(self.path, self.shape).to_numpy()

    def time_fromfile(self) -> None:
        np.fromfile(self.path, np.float32)

    def track_share_of_fromfile(self) -> float:
        return float(share_of_first(in_turn([self.time_fromfile, self.time_open_and_read]))[1])

    track_share_of_fromfile.unit = "of np.fromfile"  # type: ignore[attr-defined]


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
        self.time_open_and_read_a_window(gigabytes)

    def teardown(self, gigabytes: int) -> None:
        os.unlink(self.path)

    def time_open_and_read_a_window(self, gigabytes: int) -> None:
        a = sd.open(self.path, self.shape)
        middle = a.shape[0] // 2
        a[middle : middle + 512, 1000:1512].to_numpy()
