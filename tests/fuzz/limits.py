"""Limits set at random for campaigns."""

from __future__ import annotations

import itertools
import random
import threading

import numpy as np

import strided as sd
from strided import kernels
from strided.runtime import limits
from strided.transfer import program
from tests.fuzz.arena import Arena

_NEVER = 1 << 62
#: The values of each limit to choose from; None is the usual one.
_CHOICES: dict[str, list[int | None]] = {
    "staged_elements": [0, 0, _NEVER, None],
    "squared_elements": [0, 0, None],
    "shared_fill_bytes": [0],
    "vector_task_bytes": [1 << 10, 1 << 13, None],
    "group_rows": [8, 48, None],
    "nest_task_elements": [1 << 8, 1 << 12, None],
    "fill_task_bytes": [1 << 10, None],
    "fill_task_runs": [100, None],
    "gather_task_elements": [1 << 10, None],
    "loading_elements": [0],
    "offsets_elements": [0],
    "indexed_elements": [0],
    "stream_bytes": [0, 0, _NEVER, _NEVER, None],
    "staging_bytes": [None, None, 1 << 16, 1 << 13],
    "offset_chunk_elements": [1 << 6, None],
}


#: How many times kernels are asked for before they are ready: never, in the middle of conversions, at once.
_TIMES = [_NEVER, 30, 3, 0, 0, 0]


def choose(rng: random.Random, *, large: bool = False) -> dict[str, int]:
    """Set all of them and when kernels are ready, forget all plans, and return the values.

    For `large` arrays most are the usual ones: so many elements reach the kernels without others.
    """
    chosen = {}
    if not large or rng.random() < 0.3:
        drawn = {name: rng.choice(choices) for name, choices in _CHOICES.items()}
        chosen = {name: value for name, value in drawn.items() if value is not None}
        if rng.random() < 0.9:
            chosen |= {"small_elements": 0, "tiny_elements": 0}
    # Small arrays, too, are indexed through the kernels.
    limits.use(limits.Limits(whole_elements=0, **chosen))
    sd.set_num_threads(rng.choice([1, 1, 2, 3]))
    times = rng.choice(_TIMES[-3:] if large else _TIMES)
    asked = itertools.count()
    kernels.is_ready = lambda name: next(asked) >= times
    return limits.current._asdict() | {"threads": sd.get_num_threads(), "times": times}


def guard_own_memory() -> None:
    """Have scratch memory and the blocks of staged copies lie between inaccessible pages, too."""
    blocks: dict[tuple[int, int, int], Arena] = {}

    def aligned(size: int) -> np.ndarray:
        return Arena(size).place(size, at_end=True)

    def block_memory(sizes: tuple[int, ...]) -> list[np.ndarray]:
        own = [(threading.get_ident(), size, k) for k, size in enumerate(sizes)]
        for key in own:
            if key not in blocks:
                blocks[key] = Arena(key[1])
        return [blocks[key].place(key[1], at_end=True) for key in own]

    program.empty_aligned = aligned  # type: ignore[attr-defined]
    program.blocks_of = block_memory
