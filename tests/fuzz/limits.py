"""The sizes from which on the package does something another way, set otherwise for campaigns."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np

import strided as sd
from strided import convert, execution, gathering, plan, selecting
from strided.plan import detour, fill, nest, pattern
from tests.fuzz.arena import Arena

_NEVER = 1 << 62
#: What each of these sizes may be; the last one stands for what it is in the package.
_CHOICES: dict[tuple[Any, str], list[int | None]] = {
    (plan, "LEAST_DETOUR"): [0, 0, _NEVER, None],
    (execution, "LEAST_SHARED_BYTES"): [0],
    (pattern, "TASK_BYTES"): [1 << 10, 1 << 13, None],
    (nest, "TASK_ELEMENTS"): [1 << 8, 1 << 12, None],
    (fill, "_TASK_BYTES"): [1 << 10, None],
    (fill, "_TASK_RUNS"): [100, None],
    (gathering, "_TASK_ELEMENTS"): [1 << 10, None],
    (gathering, "_LOADING_ELEMENTS"): [0],
    (gathering, "_CALLING_ELEMENTS"): [0],
    (selecting, "_LOADING_ELEMENTS"): [0],
    (selecting, "_CALLING_ELEMENTS"): [0],
}
_USUAL = {(module, name): getattr(module, name) for module, name in _CHOICES}
_USUAL |= {(module, "STREAM_BYTES"): execution.STREAM_BYTES for module in (execution, selecting)}
_USUAL |= {(module, "BLOCK_BYTES"): detour.BLOCK_BYTES for module in (execution, detour)}
_USUAL |= {(convert, name): getattr(convert, name) for name in ("SMALL_ELEMENTS", "TINY_ELEMENTS")}


def choose(rng: random.Random) -> dict[str, int]:
    """Set all of them, forget what was planned, and say what they are."""
    values = dict(_USUAL)
    for place, choices in _CHOICES.items():
        value = rng.choice(choices)
        values[place] = _USUAL[place] if value is None else value
    streaming, block = rng.choice([0, 0, _NEVER, _NEVER, None]), rng.choice([None, None, 1 << 16, 1 << 13])
    for module in (execution, selecting):
        values[module, "STREAM_BYTES"] = _USUAL[module, "STREAM_BYTES"] if streaming is None else streaming
    for module in (execution, detour):
        values[module, "BLOCK_BYTES"] = block or _USUAL[detour, "BLOCK_BYTES"]
    if rng.random() < 0.9:
        values[convert, "SMALL_ELEMENTS"] = values[convert, "TINY_ELEMENTS"] = 0
    for (module, name), value in values.items():
        setattr(module, name, value)
    plan.plan_copy.cache_clear()
    plan._steps.cache_clear()
    convert._remembered.clear()
    convert._executions.clear()
    sd.set_num_threads(rng.choice([1, 1, 2, 3]))
    return {name: value for (_, name), value in values.items()} | {"threads": sd.get_num_threads()}


def guard_own_memory() -> None:
    """Have scratch memory and the blocks of detours lie between inaccessible pages, too."""
    blocks: dict[tuple[int, int, int], Arena] = {}

    def aligned(size: int) -> np.ndarray:
        return Arena(size).place(size, at_end=True)

    def block_memory(count: int) -> list[np.ndarray]:
        size = execution.BLOCK_BYTES // count
        own = [(threading.get_ident(), size, k) for k in range(count)]
        for key in own:
            if key not in blocks:
                blocks[key] = Arena(size)
        return [blocks[key].place(size, at_end=True) for key in own]

    execution.empty_aligned = aligned  # type: ignore[attr-defined]
    execution._blocks = block_memory  # type: ignore[assignment]
