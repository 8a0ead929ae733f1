"""Filling a view with one value: the runs of bytes that make it up, as a step of a plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.planning.runs import Loop, Runs, spread
from strided.runtime import limits


@dataclass(frozen=True, slots=True)
class FillStep:
    """A step of a plan: runs of bytes to be filled.

    Attributes
    ----------
    runs : Runs
        What is filled.
    element_bytes : int
        Bytes of one element, or of several packed ones.
    """

    runs: Runs
    element_bytes: int

    @property
    def kernel(self) -> str:
        """The kernel that does it: the general nest where runs are shorter than a vector."""
        is_long = self.runs.run_bytes >= limits.current.fill_run_bytes or self.element_bytes > 8
        return "fill" if is_long else f"nest{8 * self.element_bytes}"

    @property
    def filled_bytes(self) -> int:
        """Bytes that are filled."""
        return self.runs.run_bytes * self.runs.number

    @property
    def span(self) -> tuple[int, int]:
        """The bytes, from and to, in which the runs lie."""
        base, run_bytes, loops = self.runs
        return base, base + sum((extent - 1) * stride for extent, stride in loops) + run_bytes

    def __str__(self) -> str:
        extents = " x ".join(str(extent) for extent, _ in self.runs.loops) or "one run"
        return f"fill of {extents}, {self.runs.run_bytes} bytes each"

    def tasks(self) -> Iterator[tuple[int, tuple[Loop, ...], int]]:
        """(first byte, loops, bytes of a run) of parts for threads to share."""
        base, run_bytes, all_loops = self.runs
        runs, depth = 1, len(all_loops)
        most = max(1, min(limits.current.fill_task_runs, limits.current.fill_task_bytes // run_bytes))
        while depth and runs * all_loops[depth - 1][0] <= most:
            depth -= 1
            runs *= all_loops[depth][0]
        # The next loop is cut into ranges; those around it are gone through one by one.
        outer, (extent, step) = all_loops[: max(0, depth - 1)], all_loops[depth - 1] if depth else (1, 0)
        length = -(-extent // -(-extent * runs // most))
        piece = max(self.element_bytes, limits.current.fill_task_bytes // self.element_bytes * self.element_bytes)
        for place in itertools.product(*(range(n) for n, _ in outer)):
            first = base + sum(k * s for k, (_, s) in zip(place, outer, strict=True))
            for k in range(0, extent, length):
                loops = ((min(length, extent - k), step), *all_loops[depth:])
                for start in range(0, run_bytes, piece):
                    yield first + k * step + start, loops, min(piece, run_bytes - start)

    def arguments(self, loops: tuple[Loop, ...], run_bytes: int) -> tuple[Any, ...]:
        """The tables of the kernel for one task that begins at the first byte."""
        if self.kernel == "fill":
            rows = np.zeros((math.prod(extent for extent, _ in loops), 3), np.int64)
            rows[:, 1] = spread(loops)
            return np.array([[0, 0]]), rows, np.array([[0, 0, run_bytes]])
        # The source is one element, which every step stays on.
        *others, p, q = ((1, 0), (1, 0), *loops, (run_bytes // self.element_bytes, self.element_bytes))
        places = spread(others)
        outer = np.stack([np.zeros_like(places), places], axis=1)
        return outer, np.array([[0, 0, p[0]]]), (0, p[1]), np.array([[0, 0, q[0]]]), (0, q[1])
