"""Threads never meet in a byte of packed elements, nor in a word that is written as a whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.addressing.address_map import AddressMap
from strided.planning.plan import StagedCopy, Storage, plan_copy
from strided.runtime import limits
from strided.transfer import copy as transfer
from tests.fuzz import layouts
from tests.regions import Guarded, expected, map_of, row_major, window

#: Limits that cut small arrays into many tasks, and into blocks.
_SMALL = {"staged_elements": 0, "small_elements": 0, "tiny_elements": 0, "vector_task_bytes": 256}


def bits_of_tasks(step: Any) -> list[np.ndarray]:
    """The first bits of the elements of the target, task by task."""
    is_staged = isinstance(step, StagedCopy)
    axes, base, unit = (
        (step.box.axes, step.box.target_base, 1) if is_staged else (step.axes, step.target_base, step.units[1])
    )
    found = []
    for parts in step.tasks():
        bits = np.array([base])
        for axis, part in zip(axes, parts, strict=True):
            bits = np.add.outer(bits, axis.target.offsets_at(np.arange(part.start, part.stop)) + part.target).ravel()
        found.append(bits * unit)
    return found


def written_at_once(step: Any) -> int:
    """Bits of what is written as a whole: words that rows share, else bytes."""
    if isinstance(step, StagedCopy):
        is_words = step.words[1] >= 0 or any(axis.target.unit_stride == 32 for axis in step.box.axes)
    else:
        is_words = step.interleaved == 2
    return 32 if is_words else 8


def shares_nothing(step: Any, bits: int) -> bool:
    """Whether no two tasks of a step write to the same byte, or word."""
    unit = written_at_once(step)
    owners: dict[int, int] = {}
    for number, first in enumerate(bits_of_tasks(step)):
        for place in np.unique([first // unit, (first + bits - 1) // unit]).tolist():
            if owners.setdefault(place, number) != number:
                return False
    return True


def drawn(seed: int) -> tuple[AddressMap, AddressMap, int, int]:
    """A copy into a part of packed elements in odd tiles: two maps, and the bits of an element on both sides."""
    rng = random.Random(seed)
    element_type, bits = rng.choice(layouts.PACKED)
    source_bits, sizes = rng.choice([8, bits]), layouts.dimensions_in_odd_tiles(rng)
    kind = rng.choice([layouts.permuted, layouts.in_odd_tiles])
    cases = kind(rng, element_type, sizes, source_bits), layouts.in_odd_tiles(rng, element_type, sizes, bits)
    cut = [slice(min(n, rng.choice([0, 0, 1, 3])), None) for n in sizes]
    source, target = (window(map_of(case.text), *cut) for case in cases)
    return source, target, source_bits, bits


@pytest.mark.parametrize(
    # 658: tiles begin inside of bytes, though blocks are cut where words begin.
    "seeds",
    [[*range(60), 658], pytest.param(range(60, 2000), marks=pytest.mark.slow)],
    ids=["", "more"],
)
def test_tasks_share_no_byte(seeds: Sequence[int]) -> None:
    many = 0
    for seed in seeds:
        source, target, *bits = drawn(seed)
        with limits.replaced(**_SMALL, staging_bytes=random.Random(seed).choice([1 << 11, 1 << 13])):
            for step in plan_copy(source, target, *map(Storage, bits)).steps:
                if getattr(step, "divides", False):
                    many += len(list(step.tasks())) > 1
                    assert shares_nothing(step, bits[1]), f"{seed}: {step}"
    assert many > len(seeds) // 8


@pytest.mark.parametrize(
    ("source", "target", "key"),
    [
        ("u8[2,100000]{1,0}", "u4[2,100000]{1,0:T(2,129)E(4)}", ()),
        ("u8[512]{0}", "u1[512]{0:T(3)(16)E(1)}", ()),
        ("u8[64,512]{1,0}", "u4[64,512]{1,0:T(4,3)(1,8)E(4)}", ()),
        # Both an axis and the lanes begin inside of bytes, which together are whole.
        ("u8[301,3003]{1,0}", "u4[301,3003]{1,0:T(3,1001)E(4)}", (slice(1, None), slice(0, 1001))),
        ("u8[64,4096]{0,1}", "u4[64,4096]{1,0:T(2,129)E(4)}", ()),
    ],
)
def test_tiles_that_end_inside_bytes(source: str, target: str, key: tuple[slice, ...]) -> None:
    maps = [window(map_of(text), *key) for text in (source, target)]
    bits = sd.parse_shape(target).element_bits
    with limits.replaced(**_SMALL, staging_bytes=1 << 12):
        steps = plan_copy(*maps, Storage(8), Storage(bits)).steps
        assert any(len(list(step.tasks())) > 1 for step in steps)
        assert all(shares_nothing(step, bits) for step in steps if step.divides)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        # Words that tiles fill in part: no task begins inside of one.
        ("u8[16,3000]{1,0}", "u4[16,3000]{1,0:T(16,7)(1,8)E(4)}"),
        ("u8[16,133]{1,0}", "u4[16,133]{1,0:T(16,7)(1,8)E(4)}"),
        ("u8[64,4000]{0,1:T(8,31)}", "u2[64,4000]{0,1:T(5,8)(16,1)E(2)}"),
        ("u8[33,900]{1,0}", "u1[33,900]{1,0:T(8,31)(1,32)E(1)}"),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_values_in_words_that_tiles_fill_in_part(source: str, target: str, threads: int) -> None:
    from_ = Guarded(map_of(source), 8, seed=1)
    to = Guarded(map_of(target), sd.parse_shape(target).element_bits, seed=2)
    wanted = expected(from_.read_only(), to)
    sd.set_num_threads(threads)
    try:
        with limits.replaced(**_SMALL, staging_bytes=1 << 13):
            transfer.copy(from_.read_only(), to.region)
    finally:
        sd.set_num_threads(None)
    np.testing.assert_array_equal(to.memory, wanted)


def test_bytes_that_tasks_share_are_seen() -> None:
    source, target = row_major((2, 1000)), map_of("u4[2,1000]{1,0:T(2,129)E(4)}")
    with limits.replaced(**_SMALL):
        (step,) = plan_copy(source, target, Storage(8), Storage(4)).steps
    cut = [tuple(part._replace(stop=500) for part in parts) for parts in list(step.tasks())[:1]]
    assert not shares_nothing(_Cut(step, [*step.tasks(), *cut]), 4)


class _Cut:
    """A step whose tasks are others."""

    def __init__(self, step: Any, tasks: list[Any]) -> None:
        self._step, self._tasks = step, tasks

    def tasks(self) -> list[Any]:
        return self._tasks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)
