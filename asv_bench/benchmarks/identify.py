"""How long does it take to tell which layout explains a file, and how much memory?"""

from __future__ import annotations

import os
import tempfile

import numpy as np

from benchmarks.cases import TOY
from strided.inspect import identify


class LargeFile:
    """A file of 4 GB, of which a sample is read: smooth values in the first megabytes, zeros behind them."""

    def setup(self) -> None:
        side = 256 if TOY else 32768
        self.shape = f"f32[{side},{side}]"
        handle, self.path = tempfile.mkstemp()
        os.close(handle)
        row = np.sin(np.arange(side, dtype=np.float32) / 50)
        with open(self.path, "wb") as file:
            for first in range(0, 256, 8):
                rows = row * np.cos(np.arange(first, first + 8, dtype=np.float32) / 20)[:, None]
                file.write(rows.reshape(8, -1, 128).swapaxes(0, 1).tobytes())
            file.truncate(side * side * 4)

    def teardown(self) -> None:
        os.unlink(self.path)

    def time_identify(self) -> None:
        identify(self.path, self.shape)

    def peakmem_identify(self) -> None:
        identify(self.path, self.shape)


class WithValues:
    """An array of 64 MB, compared with what its values should be: every element is looked at."""

    def setup(self) -> None:
        side = 256 if TOY else 4096
        self.shape = f"f32[{side},{side}]"
        self.values = np.random.default_rng(0).normal(size=(side, side)).astype(np.float32)
        self.raw = self.values.reshape(side // 8, 8, side // 128, 128).swapaxes(1, 2).tobytes()
        self.time_identify()

    def time_identify(self) -> None:
        assert identify(self.raw, self.shape, like=self.values).verdict == "certain"
