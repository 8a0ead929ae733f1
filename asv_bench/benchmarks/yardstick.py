"""What is measured, and with what: a plain copy of the same bytes, NumPy's own, or plain Python, in the same rounds.

Absolute times drift with the machine and its neighbours. The ratio to a memcpy that ran a moment before does not.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

import strided as sd
from benchmarks.cases import TOY, aligned

T = TypeVar("T")
ROUNDS = 1 if TOY else 9
_pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1))


def on_cpu(name: str, program: str, argv: Sequence[str] | None) -> int | None:
    """The exit status of a program run in a process whose kernels are for another CPU, or None if this is that one.

    They are compiled into a cache of their own.
    """
    if os.environ.get("NUMBA_CPU_NAME") == name:
        return None
    with tempfile.TemporaryDirectory() as cache:
        # Without features of its own, Numba would take the name's and those of the CPU at hand.
        environment = os.environ | {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, program, *(sys.argv[1:] if argv is None else argv)]
        return subprocess.run(command, env=environment, check=False).returncode


def plain_copy(logical_bytes: int) -> Callable[[], None]:
    """A call that copies as many bytes as a conversion, by np.copyto on as many threads."""
    source, target = aligned(logical_bytes), aligned(logical_bytes)
    source[:] = 1
    target[:] = 0
    parts = sd.get_num_threads() if logical_bytes > 1 << 20 else 1
    edges = [logical_bytes * i // parts // 64 * 64 for i in range(parts)] + [logical_bytes]
    halves = [(target[a:b], source[a:b]) for a, b in itertools.pairwise(edges)]

    def run() -> None:
        others = [_pool.submit(np.copyto, *half) for half in halves[1:]]
        np.copyto(*halves[0])
        for other in others:
            other.result()

    return run


def streaming_copy(logical_bytes: int) -> Callable[[], None]:
    """A call that copies as many bytes with the package's own copy between equal layouts: streaming stores."""
    n = max(1, logical_bytes // 64) * 64
    source, target = aligned(n), aligned(n)
    source[:] = 1
    array = sd.LayoutArray(source, f"u8[{n}]")
    target[:] = 0

    def run() -> None:
        array.to_numpy(out=target)

    run()
    return run


def seconds(run: Callable[[], object], repeat: int = 1) -> float:
    """Seconds that a call takes, the mean of `repeat` calls."""
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    return (time.perf_counter() - start) / repeat


def plain_python() -> None:
    """A hundred calls and tuples of plain Python, the yardstick for what is Python alone."""
    found: dict[tuple[int, int], int] = {}
    for k in range(100):
        found[k, k + 1] = max(k, 50)


#: Seconds that a call is repeated for in a round, so short that other processes leave many rounds alone; and that all
#: rounds take at most, but there are three of them.
_ROUND_SECONDS, _MOST_SECONDS = 0.001, 0.8


def by_turns(calls: Sequence[Callable[[], object]]) -> np.ndarray:
    """Seconds of every call in every one of many short rounds, for the best of each to be compared."""
    for call in calls:
        call()
    once = [_once(call) for call in calls]
    repeats = [1 if TOY else max(1, int(_ROUND_SECONDS / one)) for one in once]
    rounds = 1 if TOY else max(3, int(_MOST_SECONDS / np.dot(once, repeats)))
    return np.array([[seconds(*call) for call in zip(calls, repeats, strict=True)] for _ in range(rounds)])


def multiple(beside: Callable[[], object], run: Callable[[], object]) -> float:
    """How many times as long one call takes as another."""
    first, second = by_turns([beside, run]).min(axis=0)
    return float(second / first)


def _once(call: Callable[[], object]) -> float:
    found = seconds(call)
    return found if TOY or found > _ROUND_SECONDS / 10 else seconds(call, 10)


def multiples(benchmarks: type[T]) -> type[T]:
    """Decorate a class of benchmarks: each method ``run_x`` is tracked as ``track_x``.

    The value is the multiple of the time of ``beside_x``, or else of `beside`, or else of `plain_python`. (asv takes
    smaller values for better ones.)
    """
    for name in [name for name in dir(benchmarks) if name.startswith("run_")]:
        row = name.removeprefix("run_")
        beside = next((own for own in (f"beside_{row}", "beside") if hasattr(benchmarks, own)), None)
        setattr(benchmarks, f"track_{row}", _tracked(name, beside))
    return benchmarks


def _tracked(name: str, beside: str | None) -> Callable[..., float]:
    def track(self: Any, *arguments: Any) -> float:
        yardstick = partial(getattr(self, beside), *arguments) if beside else plain_python
        return multiple(yardstick, partial(getattr(self, name), *arguments))

    track.unit = "times as long"  # type: ignore[attr-defined]
    return track


# (asv takes a name `rounds` in a module of benchmarks for a setting of its own.)
def in_turn(runs: Sequence[Callable[[], object]], repeat: int = 1) -> np.ndarray:
    """Seconds of every call in every round: the calls take turns, so that drift hits all of them."""
    for run in runs:
        run()
    return np.array([[seconds(run, repeat) for run in runs] for _ in range(ROUNDS)])


def share_of_first(times: np.ndarray) -> np.ndarray:
    """Median over the rounds of the first call's time divided by each call's: 1 is as fast, 2 twice as fast."""
    return np.median(times[:, :1] / times, axis=0)
