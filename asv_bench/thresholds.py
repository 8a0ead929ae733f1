"""Has a conversion become slower beside memcpy? Some ratios, held against those recorded for CPUs of this kind.

Run it as ``python asv_bench/thresholds.py``. It fails where a ratio is below three quarters of the recorded one in each
of several attempts. It does not judge, and says why, where nothing was recorded for this kind of CPU and number of
threads, or where memcpy itself keeps no speed, so that other work is going on. ``--record`` writes what it measures;
of ratios that were recorded before, the lower ones stay.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from benchmarks import cases, yardstick

import strided as sd
from strided.kernels.llvm import register_bytes

RECORDED = Path(__file__).with_name("thresholds.json")
#: The least share of a recorded ratio.
LEAST = 0.75
ATTEMPTS = 6
#: Half of the memcpys on a quiet machine take at most this many times as long as the fastest.
MOST_UNREST = 1.6
#: Rows of both tables of `cases`: each kernel that much depends on.
ROWS = (
    "f32 T(8,128) to row-major",
    "row-major to bf16 T(8,128)(2,1)",
    "1 MB f32 T(8,128) to row-major",
    "1 MB bf16 T(8,128)(2,1) to row-major",
    "row-major to 1 MB bf16 T(8,128)(2,1)",
    "1 MB s8 T(8,128)(4,1) to row-major",
    "row-major to 1 MB s8 T(8,128)(4,1)",
    "f32 1 MB transpose: {0,1} to {1,0}",
    "64 KB bf16 T(8,128)(2,1) to row-major",
)

#: Ratios to memcpy by name, and how unsteady memcpy was.
Measured = tuple[dict[str, float], float]


def kind_of_cpu() -> str:
    """What ratios depend on: the CPU's model, its registers, and how many threads are used."""
    found = {}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    except OSError:
        pass
    # In virtual machines the name says little.
    names = [found.get(key, "?") for key in ("vendor_id", "cpu family", "model", "model name")]
    registers = f"{register_bytes()} bytes in a register"
    return f"{platform.machine()}, {', '.join(names)}, {registers}, {sd.get_num_threads()} threads"


def measure(names: Sequence[str]) -> Measured:
    """The shares of memcpy that conversions reach, once."""
    by_name = {case.name: case for case in (*cases.CASES, *cases.SMALL_CASES)}
    ratios, unrest = {}, 1.0
    for name in names:
        prepared = cases.prepare(by_name[name])
        copy = yardstick.plain_copy(prepared.logical_bytes)
        times = yardstick.by_turns([copy, prepared.run])
        ratios[name] = round(float(np.divide(*times.min(axis=0))), 3)
        unrest = max(unrest, float(np.median(times[:, 0]) / times[:, 0].min()))
    return ratios, unrest


def judged(
    recorded: dict[str, float], measure: Callable[[Sequence[str]], Measured]
) -> tuple[dict[str, float], list[str], float]:
    """The best ratios of several attempts, the names of those that stay too low, and the unrest of the last attempt."""
    best: dict[str, float] = {}
    low, unrest = list(recorded), 1.0
    for _ in range(ATTEMPTS):
        ratios, unrest = measure(low)
        best |= {name: max(ratio, best.get(name, 0.0)) for name, ratio in ratios.items()}
        low = [name for name in recorded if best[name] < LEAST * recorded[name]]
        if not low:
            break
    return best, low, unrest


def main(argv: list[str] | None = None) -> int:
    """Measure and judge, or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the ratios of this machine, the best of several")
    parser.add_argument("--table", type=Path, default=RECORDED, help="the file of recorded ratios")
    options = parser.parse_args(argv)
    tables = json.loads(options.table.read_text(encoding="utf-8")) if options.table.exists() else {}
    kind = kind_of_cpu()
    if options.record:
        # What is out of reach keeps all attempts going.
        before = tables.get(kind, {})
        found = judged(dict.fromkeys(ROWS, float("inf")), measure)[0]
        tables[kind] = {name: min(ratio, before.get(name, ratio)) for name, ratio in found.items()}
        options.table.write_text(json.dumps(tables, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    recorded = tables.get(kind)
    if recorded is None:
        print(f"not judged: no ratios are recorded for {kind}")
        return 0
    best, low, unrest = judged(recorded, measure)
    for name, ratio in best.items():
        fallen = f" fell below {LEAST} of it" if name in low else ""
        print(f"{name:40s} {ratio:.2f} of memcpy, recorded {recorded[name]:.2f}{fallen}")
    if low and unrest > MOST_UNREST:
        print(f"not judged: memcpy itself took {unrest:.1f} times as long as at best, so other work is going on")
        return 0
    print(f"{len(best)} ratios to memcpy, of which {len(low)} have fallen")
    return 1 if low else 0


if __name__ == "__main__":
    raise SystemExit(main())
