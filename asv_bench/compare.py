"""The conversions side by side, in one process: memcpy, the streaming copy, strided, and the peers.

Run it as ``python asv_bench/compare.py`` (``--help`` for what can be chosen). Every figure is a ratio to memcpy of the
same logical bytes on the same number of threads, measured in the same rounds: 1 is as fast as memcpy, 2 twice as fast.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from benchmarks import cases, peers, yardstick

import strided as sd

#: What a case shall reach, as a share of memcpy on as many threads: with registers of 64 bytes, with shorter ones.
LEAST = {
    "tiled 32, 64": (1.15, 1.2),
    "tiled 16": (1.15, 1.2),
    "tiled 8, read": (1.15, 1.1),
    "tiled 8, written": (1.15, 1.3),
    "odd 32": (0.95, 1.2),
    "odd 16": (0.95, 1.05),
    "odd 8": (0.95, 1.0),
    "transpose 64": (1.25, 1.05),
    "transpose 32": (1.2, 0.75),
    "transpose 16": (0.9, 0.65),
    "transpose 8": (0.75, 0.5),
    "odd transpose 32": (0.95, 0.7),
    "odd transpose 16": (0.8, 0.62),
    "odd transpose 8": (0.65, 0.47),
    "permuted rows": (1.1, 0.75),
    "words": (1.1, 0.75),
    "runs": (0.6, 0.6),
    "4-D": (1.1, 0.75),
    "tiled along the other way": (1.1, 0.75),
    "small matrices": (0.9, 0.7),
    "matrices": (0.35, 0.3),
    "short rows": (0.5, 0.5),
    "packed": (1.0, 1.1),
    "packed rows": (0.6, 0.5),
    "columns": (0.6, 0.45),
    "other ranks": (0.8, 1.0),
    "window": (0.8, 1.0),
    "1 MB": (0.6, 0.45),
}

#: Microseconds that a conversion of 64 KB shall take at most besides its copy, whatever it converts.
MOST_OVERHEAD = 5.0


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="only cases whose name or group holds this text")
    parser.add_argument("--threads", type=int, default=None, help="threads of strided and of memcpy (default: all)")
    parser.add_argument("--misaligned", action="store_true", help="destinations 16 bytes past a line, as NumPy's are")
    parser.add_argument("--no-peers", action="store_true", help="only memcpy, the streaming copy and strided")
    parser.add_argument("--rounds", type=int, default=yardstick.ROUNDS)
    parser.add_argument("--write", metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--cpu", metavar="NAME", help="compile for this CPU, such as haswell, and for nothing it lacks")
    options = parser.parse_args(argv)
    if options.cpu and (status := yardstick.on_cpu(options.cpu, __file__, argv)) is not None:
        return status
    yardstick.ROUNDS = options.rounds
    sd.set_num_threads(options.threads)
    rows = []
    for case in (*cases.CASES, *cases.SMALL_CASES):
        if options.match in case.name or options.match in case.group:
            rows.append(_measure(case, options))
            print(_line(rows[-1]), flush=True)
    table = _table(rows, options)
    if options.write:
        temporary = Path(options.write).with_suffix(".tmp")
        temporary.write_text(table, encoding="utf-8")
        os.replace(temporary, options.write)
    return 0


def _least(group: str, misaligned: bool) -> float:
    from strided.kernels.llvm import LINE, register_bytes

    least = LEAST[group][register_bytes() < LINE]
    return min(least, 1.0) if misaligned else least


def _measure(case: cases.Case, options: argparse.Namespace) -> list[str]:
    prepared = cases.prepare(case, misalignment=16 if options.misaligned else 0)
    small = prepared.logical_bytes <= 1 << 22
    runs: list[Callable[[], object]] = [yardstick.plain_copy(prepared.logical_bytes)]
    if not small:
        runs.append(yardstick.streaming_copy(prepared.logical_bytes))
    runs.append(prepared.run)
    repeat = 200 if small else 1
    times = yardstick.in_turn(runs, repeat)
    shares = yardstick.share_of_first(times)
    found = {} if options.no_peers else _shares_of_peers(prepared, runs[0], repeat)
    speed = 2e-9 * prepared.logical_bytes / float(np.median(times[:, 0]))
    copied = 1e6 * float(np.median(times[:, 0]))
    if case.group in LEAST:
        least = _least(case.group, options.misaligned)
    else:
        least = copied / (copied + MOST_OVERHEAD)
    reached = float(shares[-1])
    return [
        case.name,
        f"{speed:.0f}",
        "" if small else f"{shares[1]:.2f}",
        f"{reached:.2f}",
        "" if small else f"{reached / float(shares[1]):.2f}",
        f"{least:.2f}" + ("" if reached >= least else " (below)"),
        *(f"{found[name]:.2f}" if name in found else "" for name in _PEERS),
    ]


_PEERS = {"NumPy": peers.numpy_idiom, "torch": peers.torch_idiom, "JAX": peers.jax_idiom}


def _shares_of_peers(prepared: cases.Prepared, copy: Callable[[], object], repeat: int) -> dict[str, float]:
    """What the peers that can do a case reach, in rounds of their own with the copy.

    Some take seconds. Memory that nobody touches meanwhile is slow at first on some systems: in the same rounds, the
    copy and the limit would be slower than they are.
    """
    made = {name: make(prepared) for name, make in _PEERS.items()}
    runs = {name: run for name, run in made.items() if run is not None}
    shares = yardstick.share_of_first(yardstick.in_turn([copy, *runs.values()], repeat))
    return dict(zip(runs, map(float, shares[1:]), strict=True))


_HEAD = [
    "case",
    "memcpy GB/s",
    "streaming copy",
    "strided",
    "of the limit",
    "aim",
    "NumPy idiom",
    "torch",
    "jitted JAX",
]


def _line(row: list[str]) -> str:
    return f"{row[0]:44s}" + "".join(f"{cell:>14s}" for cell in row[1:])


def _table(rows: list[list[str]], options: argparse.Namespace) -> str:
    versions = []
    for name in ("numpy", "numba", "torch", "jax"):
        try:
            versions.append(f"{name} {importlib.import_module(name).__version__}")
        except ImportError:
            continue
    place = "16 bytes past a cache line" if options.misaligned else "at the start of a cache line"
    code = f"code for {options.cpu}, " if options.cpu else ""
    about = (
        f"Measured {datetime.date.today()}, {_processor()}, {code}{sd.get_num_threads()} threads, Python "
        f"{platform.python_version()}, {', '.join(versions)}. Ratios to memcpy; destinations begin {place}."
    )
    lines = [about, "", "| " + " | ".join(_HEAD) + " |", "|" + " --- |" * len(_HEAD)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    raise SystemExit(main())
