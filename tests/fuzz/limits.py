"""The sizes from which on the package does something another way, set otherwise for campaigns."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np

import strided as sd
from strided.arrays import fancy
from strided.planning import fill_step, nest_step, plan, staged_step, vector_step
from strided.transfer import copy as transfer
from strided.transfer import executor, gather_scatter
from tests.fuzz.arena import Arena

_NEVER = 1 << 62
#: What each of these sizes may be; the last one stands for what it is in the package.
_CHOICES: dict[tuple[Any, str], list[int | None]] = {
    (plan, "LEAST_STAGED"): [0, 0, _NEVER, None],
    (executor, "LEAST_SHARED_BYTES"): [0],
    (vector_step, "TASK_BYTES"): [1 << 10, 1 << 13, None],
    (nest_step, "TASK_ELEMENTS"): [1 << 8, 1 << 12, None],
    (fill_step, "_TASK_BYTES"): [1 << 10, None],
    (fill_step, "_TASK_RUNS"): [100, None],
    (gather_scatter, "_TASK_ELEMENTS"): [1 << 10, None],
    (gather_scatter, "_LOADING_ELEMENTS"): [0],
    (gather_scatter, "_CALLING_ELEMENTS"): [0],
    (fancy, "_LOADING_ELEMENTS"): [0],
    (fancy, "_CALLING_ELEMENTS"): [0],
}
_USUAL = {(module, name): getattr(module, name) for module, name in _CHOICES}
_USUAL |= {(module, "STREAM_BYTES"): executor.STREAM_BYTES for module in (executor, fancy)}
_USUAL |= {(module, "BLOCK_BYTES"): staged_step.BLOCK_BYTES for module in (executor, staged_step)}
_USUAL |= {(transfer, name): getattr(transfer, name) for name in ("SMALL_ELEMENTS", "TINY_ELEMENTS")}


def choose(rng: random.Random) -> dict[str, int]:
    """Set all of them, forget what was planned, and say what they are."""
    values = dict(_USUAL)
    for place, choices in _CHOICES.items():
        value = rng.choice(choices)
        values[place] = _USUAL[place] if value is None else value
    streaming, block = rng.choice([0, 0, _NEVER, _NEVER, None]), rng.choice([None, None, 1 << 16, 1 << 13])
    for module in (executor, fancy):
        values[module, "STREAM_BYTES"] = _USUAL[module, "STREAM_BYTES"] if streaming is None else streaming
    for module in (executor, staged_step):
        values[module, "BLOCK_BYTES"] = block or _USUAL[staged_step, "BLOCK_BYTES"]
    if rng.random() < 0.9:
        values[transfer, "SMALL_ELEMENTS"] = values[transfer, "TINY_ELEMENTS"] = 0
    for (module, name), value in values.items():
        setattr(module, name, value)
    plan.plan_copy.cache_clear()
    plan._steps.cache_clear()
    transfer._remembered.clear()
    transfer._executions.clear()
    sd.set_num_threads(rng.choice([1, 1, 2, 3]))
    return {name: value for (_, name), value in values.items()} | {"threads": sd.get_num_threads()}


def guard_own_memory() -> None:
    """Have scratch memory and the blocks of staged copies lie between inaccessible pages, too."""
    blocks: dict[tuple[int, int, int], Arena] = {}

    def aligned(size: int) -> np.ndarray:
        return Arena(size).place(size, at_end=True)

    def block_memory(count: int) -> list[np.ndarray]:
        size = executor.BLOCK_BYTES // count
        own = [(threading.get_ident(), size, k) for k in range(count)]
        for key in own:
            if key not in blocks:
                blocks[key] = Arena(size)
        return [blocks[key].place(size, at_end=True) for key in own]

    executor.empty_aligned = aligned  # type: ignore[attr-defined]
    executor._blocks = block_memory  # type: ignore[assignment]
