"""How fast is a conversion, steady state?"""

from __future__ import annotations

from benchmarks.cases import CASES, SMALL_CASES, TOY, Prepared, prepare
from benchmarks.yardstick import in_turn, plain_copy, share_of_first

_BY_NAME = {case.name: case for case in (*CASES, *SMALL_CASES)}


class _Conversion:
    param_names = ("case",)
    timeout = 300
    misalignment = 0
    prepared: Prepared

    def setup(self, name: str) -> None:
        self.prepared = prepare(_BY_NAME[name], misalignment=self.misalignment)

    def time_conversion(self, name: str) -> None:
        self.prepared.run()

    def track_gigabytes_per_second(self, name: str) -> float:
        times = in_turn([self.prepared.run])
        return 2e-9 * self.prepared.logical_bytes / float(min(times[:, 0]))

    def track_share_of_memcpy(self, name: str) -> float:
        repeat = 1 if self.prepared.logical_bytes > 1 << 22 or TOY else 100
        times = in_turn([plain_copy(self.prepared.logical_bytes), self.prepared.run], repeat)
        return float(share_of_first(times)[1])

    track_gigabytes_per_second.unit = "GB/s, read and written"  # type: ignore[attr-defined]
    track_share_of_memcpy.unit = "of memcpy"  # type: ignore[attr-defined]


class Large(_Conversion):
    """128 MB and more, into memory that begins on a cache line."""

    params = ([case.name for case in CASES],)


class LargeNumpyDestination(_Conversion):
    """The tiled cases into an array as NumPy allocates it, 16 bytes past a cache line."""

    params = ([case.name for case in CASES if case.group.startswith("tiled ") and case.target is None],)
    misalignment = 16


class InCache(_Conversion):
    """1 MB and 64 KB."""

    params = ([case.name for case in SMALL_CASES],)


class PeakMemory:
    """Source, destination, and nothing else of size."""

    params = (["f32 T(8,128) to row-major", "f32 transpose: {0,1} to {1,0}", "bf16 [4096,17,300] to row-major"],)
    param_names = ("case",)

    def peakmem_conversion(self, name: str) -> None:
        prepare(_BY_NAME[name])
