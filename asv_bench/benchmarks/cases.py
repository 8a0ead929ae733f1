"""The conversions that are tracked: one table for the benchmarks, the comparison and the tests of both.

Large cases move 128 MB and more, so that caches do not matter. With ``STRIDED_BENCH_TOY`` in the environment every case
shrinks to a few tiles: it then runs in milliseconds and only shows that the benchmark works.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import strided as sd
from strided.layout.element_types import element_type

TOY = "STRIDED_BENCH_TOY" in os.environ
#: Random bytes, which a source repeats.
_DRAWN_BYTES = 1_000_003


@dataclass(frozen=True)
class Case:
    """One conversion.

    Attributes
    ----------
    name : str
        In words; the name under which results are kept.
    source : str
        Shape text of what is converted.
    target : str or None
        Layout text of what comes out; None for a row-major ndarray.
    toy : tuple of int
        Dimensions that stand in for the true ones.
    window : str
        Key of the part that is converted, "" for all.
    group : str
        Row of the table of aims.
    """

    group: str
    name: str
    source: str
    target: str | None
    toy: tuple[int, ...]
    window: str = ""

    @property
    def source_shape(self) -> sd.Shape:
        """The shape of the source, shrunk where toys are asked for."""
        shape = sd.parse(self.source)
        return sd.Shape(shape.element_type, self.toy, shape.layout) if TOY else shape


def both(group: str, name: str, source: str, toy: tuple[int, ...], written: str = "") -> list[Case]:
    """A layout read into a row-major ndarray, and written from one, in a group of its own where `written` names one."""
    shape = sd.parse(source)
    dense = f"{shape.text(layout=False)}{{{','.join(map(str, range(shape.rank - 1, -1, -1)))}}}"
    return [
        Case(group, f"{name} to row-major", source, None, toy),
        Case(written or group, f"row-major to {name}", dense, str(shape.layout), toy),
    ]


def _relayouts(group: str, name: str, dimensions: str, first: str, second: str, toy: tuple[int, ...]) -> list[Case]:
    kind = dimensions.split("[")[0]
    return [
        Case(group, f"{kind} {name}: {first} to {second}", dimensions + first, second, toy),
        Case(group, f"{kind} {name}: {second} to {first}", dimensions + second, first, toy),
    ]


CASES: tuple[Case, ...] = (
    *both("tiled 32, 64", "f32 T(8,128)", "f32[8192,8192]{1,0:T(8,128)}", (24, 256)),
    *both("tiled 32, 64", "s64 T(8,128)", "s64[4096,8192]{1,0:T(8,128)}", (24, 256)),
    *both("tiled 16", "bf16 T(8,128)(2,1)", "bf16[8192,16384]{1,0:T(8,128)(2,1)}", (24, 256)),
    *both("tiled 16", "bf16 T(16,128)(2,1)", "bf16[8192,16384]{1,0:T(16,128)(2,1)}", (32, 256)),
    *both("tiled 8, read", "s8 T(8,128)(4,1)", "s8[16384,16384]{1,0:T(8,128)(4,1)}", (24, 256), "tiled 8, written"),
    *both("tiled 8, read", "s8 T(32,128)(4,1)", "s8[16384,16384]{1,0:T(32,128)(4,1)}", (64, 256), "tiled 8, written"),
    *both("odd 32", "odd f32 T(8,128)", "f32[8189,8191]{1,0:T(8,128)}", (21, 201)),
    *both("odd 16", "odd bf16 T(8,128)(2,1)", "bf16[8189,16381]{1,0:T(8,128)(2,1)}", (21, 201)),
    *both("odd 8", "odd s8 T(8,128)(4,1)", "s8[16381,16379]{1,0:T(8,128)(4,1)}", (21, 201)),
    *both("odd 16", "odd bf16 4097x5003", "bf16[3,4097,5003]{2,1,0:T(8,128)(2,1)}", (2, 21, 201)),
    *_relayouts("transpose 64", "transpose", "s64[4096,8192]", "{0,1}", "{1,0}", (40, 50)),
    *_relayouts("transpose 32", "transpose", "f32[8192,8192]", "{0,1}", "{1,0}", (40, 50)),
    *_relayouts("transpose 16", "transpose", "bf16[8192,16384]", "{0,1}", "{1,0}", (70, 50)),
    *_relayouts("transpose 8", "transpose", "s8[16384,16384]", "{0,1}", "{1,0}", (70, 130)),
    *_relayouts("odd transpose 32", "odd transpose", "f32[8191,8193]", "{0,1}", "{1,0}", (39, 51)),
    *_relayouts("odd transpose 16", "odd transpose", "bf16[8191,16381]", "{0,1}", "{1,0}", (39, 51)),
    *_relayouts("odd transpose 8", "odd transpose", "s8[16381,16379]", "{0,1}", "{1,0}", (39, 151)),
    *_relayouts("4-D", "permutation", "f32[64,96,112,96]", "{3,2,1,0}", "{0,3,1,2}", (3, 5, 7, 9)),
    *_relayouts("4-D", "permutation", "f32[64,96,112,96]", "{3,2,1,0}", "{0,1,2,3}", (3, 5, 7, 9)),
    *both("permuted rows", "f32 {3,0,2,1:T(8,128)}", "f32[64,32,64,256]{3,0,2,1:T(8,128)}", (9, 3, 2, 130)),
    *both(
        "permuted rows", "bf16 {3,1,2,0:T(8,128)(2,1)}", "bf16[32,512,32,128]{3,1,2,0:T(8,128)(2,1)}", (2, 17, 3, 128)
    ),
    *_relayouts(
        "permuted rows",
        "heads",
        "bf16[32,512,32,128]",
        "{3,2,1,0:T(8,128)(2,1)}",
        "{3,1,2,0:T(8,128)(2,1)}",
        (2, 17, 9, 128),
    ),
    *_relayouts("words", "words", "bf16[8192,16384]", "{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}", (136, 256)),
    *_relayouts("words", "words", "s8[16384,16384]", "{1,0:T(32,128)(4,1)}", "{0,1:T(8,128)(4,1)}", (136, 256)),
    *_relayouts("words", "words", "s4[16384,16384]", "{1,0:T(8,128)(8,1)E(4)}", "{0,1:T(8,128)(8,1)E(4)}", (136, 256)),
    *_relayouts(
        "words", "odd words", "s8[8,2047,95,129]", "{3,2,1,0:T(8,128)(4,1)}", "{2,3,1,0:T(8,128)(4,1)}", (2, 5, 35, 33)
    ),
    *_relayouts(
        "words",
        "odd heads",
        "s8[32,511,33,128]",
        "{3,2,1,0:T(32,128)(4,1)}",
        "{3,1,2,0:T(32,128)(4,1)}",
        (2, 17, 9, 128),
    ),
    *_relayouts("runs", "transpose", "c128[2048,4096]", "{0,1}", "{1,0}", (40, 50)),
    *_relayouts("runs", "channels", "bf16[4096,4096,5]", "{2,0,1}", "{2,1,0}", (40, 50, 5)),
    *_relayouts("runs", "channels", "u8[4096,2048,13]", "{2,0,1}", "{2,1,0}", (40, 50, 13)),
    *both("tiled along the other way", "f32 {0,1:T(8,128)}", "f32[8192,8192]{0,1:T(8,128)}", (130, 24)),
    *_relayouts("tiled along the other way", "", "f32[8192,8192]", "{1,0:T(8,128)}", "{0,1:T(8,128)}", (136, 256)),
    *both("small matrices", "bf16 [4096,17,300]", "bf16[4096,17,300]{2,1,0:T(8,128)(2,1)}", (3, 17, 300)),
    *_relayouts("matrices", "8 x 8", "u8[2097152,8,8]", "{2,1,0}", "{1,2,0}", (500, 8, 8)),
    *_relayouts("matrices", "3 x 5", "bf16[4473924,3,5]", "{2,1,0}", "{1,2,0}", (500, 3, 5)),
    *both("short rows", "u8 7 T(8)", "u8[16777216,7]{1,0:T(8)}", (40, 7)),
    *both("short rows", "f32 9 T(16)", "f32[4194304,9]{1,0:T(16)}", (40, 9)),
    *both("short rows", "s8 7 {1,2,0:T(8,128)(4,1)}", "s8[160000,128,7]{1,2,0:T(8,128)(4,1)}", (3, 128, 7)),
    *both("packed", "s4 T(8,128)(8,1)E(4)", "s4[16384,16384]{1,0:T(8,128)(8,1)E(4)}", (24, 256)),
    *both("packed", "u4 T(64,128)(8,1)E(4)", "u4[16384,16384]{1,0:T(64,128)(8,1)E(4)}", (128, 256)),
    *_relayouts("packed rows", "transpose", "s4[16384,16384]", "{0,1:E(4)}", "{1,0:E(4)}", (264, 1032)),
    *both("other ranks", "bf16 1-D T(1024)(128)(2,1)", "bf16[134217728]{0:T(1024)(128)(2,1)}", (5000,)),
    *both("other ranks", "bf16 rank 5", "bf16[4,8,16,512,512]{4,3,2,1,0:T(8,128)(2,1)}", (2, 2, 2, 17, 130)),
    *both("other ranks", "f32 rank 6", "f32[2,4,4,8,512,512]{5,4,0,2,1,3:T(8,128)}", (2, 2, 1, 2, 17, 130)),
    *both("other ranks", "f32 T(*,8,128)", "f32[16,32,256,512]{3,2,1,0:T(*,8,128)}", (2, 3, 16, 256)),
    *both("columns", "s4 {0,1:T(8,128)(8,1)E(4)}", "s4[16384,16384]{0,1:T(8,128)(8,1)E(4)}", (150, 24)),
    *both("columns", "u8 390 {0,1:T(8,128)(4,1)}", "u8[400000,390]{0,1:T(8,128)(4,1)}", (150, 21)),
    *both("columns", "s8 112 {2,0,1:T(8,128)(4,1)}", "s8[8,160000,112]{2,0,1:T(8,128)(4,1)}", (8, 30, 112)),
    *both("columns", "bf16 {1,0,2:T(4,128)(2,1)}", "bf16[400,665,475]{1,0,2:T(4,128)(2,1)}", (8, 30, 21)),
    Case("window", "f32 window", "f32[8192,8192]{1,0:T(8,128)}", None, (48, 512), "5:-3, 77:-11"),
    Case("window", "bf16 window", "bf16[8192,16384]{1,0:T(8,128)(2,1)}", None, (48, 512), "5:-3, 77:-11"),
    Case("window", "s8 window", "s8[16384,16384]{1,0:T(8,128)(4,1)}", None, (48, 512), "5:-3, 77:-11"),
)

#: The conversions that are timed in cache, at 1 MB and at 64 KB.
SMALL_CASES: tuple[Case, ...] = (
    *both("1 MB", "1 MB f32 T(8,128)", "f32[512,512]{1,0:T(8,128)}", (24, 256)),
    *both("1 MB", "1 MB bf16 T(8,128)(2,1)", "bf16[512,1024]{1,0:T(8,128)(2,1)}", (24, 256)),
    *both("1 MB", "1 MB s8 T(8,128)(4,1)", "s8[1024,1024]{1,0:T(8,128)(4,1)}", (24, 256)),
    *_relayouts("1 MB", "1 MB transpose", "f32[512,512]", "{0,1}", "{1,0}", (40, 50)),
    *both("64 KB", "64 KB f32 T(8,128)", "f32[128,128]{1,0:T(8,128)}", (24, 128)),
    *both("64 KB", "64 KB bf16 T(8,128)(2,1)", "bf16[128,256]{1,0:T(8,128)(2,1)}", (24, 128)),
)


class Prepared(NamedTuple):
    """A case made ready: buffers exist, their pages have been touched, kernels have been compiled."""

    run: Callable[[], object]
    source: sd.LayoutArray
    key: Any
    target: Any
    logical_bytes: int


def prepare(case: Case, *, misalignment: int = 0) -> Prepared:
    """Buffers of a case, and the call that converts one into the other.

    `misalignment` is the number of bytes that a row-major destination begins past a cache line: 16 is where NumPy puts
    large arrays. `logical_bytes` is half of what has to be read and written, paddings left out.
    """
    shape = case.source_shape
    rng = np.random.default_rng(0)
    memory = aligned(shape.byte_size)
    # To draw all of it would take longer than to measure.
    drawn = rng.integers(0, 255, min(memory.size, _DRAWN_BYTES), np.uint8)
    for start in range(0, memory.size, drawn.size):
        memory[start : start + drawn.size] = drawn[: memory.size - start]
    if (bits := element_type(shape.element_type).bits) < shape.element_bits == 8:
        memory &= (1 << bits) - 1
    source = sd.LayoutArray(memory, shape)
    key = eval(f"np.s_[{case.window}]") if case.window else ...
    part = source[key] if case.window else source
    written = shape.element_bits / 8
    if case.target is None:
        target = aligned(part.nbytes, misalignment).view(source.dtype).reshape(part.shape)
        target[...] = np.zeros((), source.dtype)

        def run() -> object:
            return part.to_numpy(out=target)

        read_and_written = part.size * (written + source.itemsize)
    else:
        target = part.to_layout(case.target)
        read_and_written = part.size * (written + target.xla_shape.element_bits / 8)
        if source.layout.is_descending and not source.layout.tiles and shape.element_bits >= 8:
            dense = memory.view(source.dtype).reshape(shape.dimensions)

            def run() -> object:
                return sd.LayoutArray.from_numpy(dense, case.target, padding="unknown", out=target)
        else:

            def run() -> object:
                return part.to_layout(case.target, padding="unknown", out=target)

    run()
    return Prepared(run, source, key, target, int(read_and_written) // 2)


def aligned(nbytes: int, misalignment: int = 0) -> np.ndarray:
    """Bytes that begin `misalignment` bytes past a cache line."""
    raw = np.empty(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + misalignment
    return raw[start : start + nbytes]
