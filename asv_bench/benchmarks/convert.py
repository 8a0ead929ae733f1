"""How fast is a conversion, steady state?"""

from __future__ import annotations

from benchmarks.cases import CASES, SMALL_CASES, Prepared, prepare
from benchmarks.yardstick import multiples, plain_copy

_BY_NAME = {case.name: case for case in (*CASES, *SMALL_CASES)}


class _Conversion:
    """Beside a memcpy of as many bytes."""

    param_names = ("case",)
    timeout = 300
    misalignment = 0
    prepared: Prepared

    def setup(self, name: str) -> None:
        self.prepared = prepare(_BY_NAME[name], misalignment=self.misalignment)
        self.copy = plain_copy(self.prepared.logical_bytes)

    def run_conversion(self, name: str) -> None:
        self.prepared.run()

    def beside(self, name: str) -> None:
        self.copy()


@multiples
class Large(_Conversion):
    """128 MB and more, into memory that begins on a cache line."""

    params = ([case.name for case in CASES],)


@multiples
class LargeNumpyDestination(_Conversion):
    """The tiled cases into an array as NumPy allocates it, 16 bytes past a cache line."""

    params = ([case.name for case in CASES if case.group.startswith("tiled ") and case.target is None],)
    misalignment = 16


@multiples
class InCache(_Conversion):
    """1 MB and 64 KB."""

    params = ([case.name for case in SMALL_CASES],)


class PeakMemory:
    """Source, destination, and nothing else of size."""

    params = (["f32 T(8,128) to row-major", "f32 transpose: {0,1} to {1,0}", "bf16 [4096,17,300] to row-major"],)
    param_names = ("case",)

    def peakmem_conversion(self, name: str) -> None:
        prepare(_BY_NAME[name])
