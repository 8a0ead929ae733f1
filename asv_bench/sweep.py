"""Layouts as the TPU compiler chooses them, read into row-major arrays and written from them.

Run it as ``python asv_bench/sweep.py`` (``--help`` for what can be chosen). Shapes are drawn at random, get the layout
that the compiler chooses for them, and are grown along their most major dimension until the larger of both buffers has
48 MB. Every figure is the bytes of both buffers, padding included, moved a second, as a share of memcpy's, measured in
the same rounds: 1 is as fast as memcpy, 2 twice as fast. The streaming copy of as many bytes is the limit of memory.
"""

from __future__ import annotations

import argparse
import bisect
import random
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from benchmarks import cases, yardstick

import strided as sd

#: The element types whose default layouts are known.
TYPES = (
    *("pred", "s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64", "bf16", "f16", "f32"),
    *("f64", "c64", "c128", "f4e2m1fn", "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2"),
    *("f8e5m2fnuz", "f8e8m0fnu"),
)
#: Bytes of the larger buffer, and the logarithm of the product of the sizes that are drawn.
BYTES, LOG_ELEMENTS = (1 << 19, 14) if cases.TOY else (48 << 20, 22)
#: Of longer buffers, a conversion would hardly touch anything.
SLOTS_PER_ELEMENT = 4
#: No conversion shall be slower than this share of memcpy.
LEAST = 0.35


class Result(NamedTuple):
    """One conversion, and its speed and the streaming copy's as shares of memcpy's."""

    share: float
    limit: float
    source: str
    target: str


def main(argv: list[str] | None = None) -> int:
    """Measure, and print every layout, the median and the slowest conversions with their plans."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5 if cases.TOY else 200, help="layouts")
    parser.add_argument("--cpu", metavar="NAME", help="compile for this CPU, such as haswell, and for nothing it lacks")
    parser.add_argument("--threads", type=int, default=None, help="threads of strided and of memcpy (default: all)")
    parser.add_argument("--rounds", type=int, default=min(5, yardstick.ROUNDS))
    options = parser.parse_args(argv)
    if options.cpu and (status := yardstick.on_cpu(options.cpu, __file__, argv)) is not None:
        return status
    yardstick.ROUNDS = options.rounds
    sd.set_num_threads(options.threads)
    print("  read  write  limit  layout")
    results = []
    for shape in drawn(options.seed, options.count):
        results += measured(shape)
        read, write = results[-2:]
        print(f"{read.share:6.2f} {write.share:6.2f} {read.limit:6.2f}  {shape}", flush=True)
    print(summary(results))
    return 0


def drawn(seed: int, count: int) -> Iterator[sd.Shape]:
    """Random shapes in default layouts, grown; element types and ranks take turns."""
    rng = random.Random(seed)
    for k in range(count):
        rank = 2 + k % 5
        log = min(11, max(7, 2 * LOG_ELEMENTS // rank))
        shape = None
        while shape is None:
            sizes = [
                1 << rng.randint(0, log) if rng.random() < 0.3 else int(2 ** rng.uniform(0, log)) for _ in range(rank)
            ]
            shape = grown(sd.Shape(TYPES[k % len(TYPES)], tuple(sizes)))
        yield shape


def grown(shape: sd.Shape) -> sd.Shape | None:
    """A shape in its default layout, as long along the most major dimension as `BYTES` allow; None if nothing fits.

    The layout stays the one of the shape that was drawn, which a longer dimension might change.
    """
    layout = sd.tpu.default_layout(shape)
    major = layout.minor_to_major[-1]

    def long(n: int) -> sd.Shape:
        dimensions = *shape.dimensions[:major], n, *shape.dimensions[major + 1 :]
        return sd.Shape(shape.element_type, dimensions, layout)

    sizes = range(1, BYTES + 1)
    n = bisect.bisect(sizes, BYTES, key=lambda n: max(long(n).byte_size, long(n).with_layout(None).byte_size))
    return long(n) if n and long(n).slots <= SLOTS_PER_ELEMENT * long(n).size else None


def measured(shape: sd.Shape) -> list[Result]:
    """A layout read into a row-major array, and written from one."""
    found = cases.both("", "", str(shape), shape.dimensions)
    dense = shape.with_layout(None)
    copied = (shape.byte_size + dense.byte_size) // 2
    copies = [yardstick.plain_copy(copied), yardstick.streaming_copy(copied)]
    times = yardstick.in_turn([*copies, *(cases.prepare(case).run for case in found)])
    _, limit, read, write = map(float, yardstick.share_of_first(times))
    return [Result(read, limit, str(shape), str(dense)), Result(write, limit, str(dense), str(shape))]


def summary(results: list[Result]) -> str:
    """The medians, the ten slowest conversions with their plans, and how many are too slow."""
    shares, limits = (np.array(column) for column in list(zip(*results, strict=True))[:2])
    read, write, both = (np.median(part) for part in (shares[::2], shares[1::2], shares))
    lines = [
        f"median {both:.2f}, read {read:.2f}, write {write:.2f}",
        f"the streaming copy: median {np.median(limits):.2f}; of it: median {np.median(shares / limits):.2f}",
        "the slowest:",
    ]
    for result in sorted(results)[:10]:
        lines.append(f"{result.share:6.2f}  {result.source} to {result.target}")
        lines.append(textwrap.indent(str(sd.inspect.plan_between(result.source, result.target)), " " * 8))
    lines.append(f"{np.count_nonzero(shares < LEAST)} of {len(results)} below {LEAST}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
