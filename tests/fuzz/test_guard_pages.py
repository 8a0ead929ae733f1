"""The campaigns of `guard_pages.py` and `small_world.py`, and that they find what they are there to find.

By hand, for hours and for other CPUs: ``nice python -m tests.fuzz.guard_pages SEED --seconds N`` with
``NUMBA_CPU_FEATURES=`` and ``NUMBA_CPU_NAME=haswell`` (AVX2) or ``NUMBA_CPU_NAME=x86-64`` in the environment. Without
the first, Numba takes the features of the CPU at hand besides.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests import oracle, paths
from tests.fuzz import layouts
from tests.fuzz.slots import buffer_of, places_of, slots_of
from tests.thinned import thinned

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as Linux does it")

ROOT = paths.ROOT


def campaign(record: Path, *arguments: object, module: str = "guard_pages", before: str = "") -> tuple[int, str, str]:
    """Run a campaign in a process of its own; how it ended, what it printed, and what it was about to do."""
    program = f"{before}\nfrom tests.fuzz import {module}\n{module}.main()"
    command = [sys.executable, "-c", program, *map(str, arguments), "--record", str(record)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    case = record.read_bytes().split(b"\0")[0].decode(errors="replace") if record.exists() else ""
    return done.returncode, f"{done.stdout}\n{done.stderr}", case


@pytest.mark.parametrize(
    ("module", "of"),
    [("guard_pages", []), pytest.param("guard_pages", ["--large"], marks=pytest.mark.slow), ("small_world", [])],
    ids=["", "large", "small"],
)
def test_conversions_between_guard_pages(
    module: str,
    of: list[str],
    fuzz_seconds: float,
    fuzz_seed: int,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    status, said, case = campaign(tmp_path / "case", fuzz_seed, *of, "--seconds", fuzz_seconds, module=module)
    assert status == 0, f"ended by {status} in: {case}\n{said[-3000:]}"
    counts = json.loads(said.splitlines()[0])
    record_property("conversions", counts["conversions"])
    print(counts)
    assert counts["conversions"]


# --- the campaign bites ---------------------------------------------------------------------------------------------

#: The last word is read as a whole, whether it lies in the buffer or not.
A_BYTE_TOO_FAR = """
from strided.transfer import copy as transfer
def fitting(s, t):
    return transfer.plan_copy(s.map, t.map, s.storage, t.storage)

transfer._fitting_plan = fitting
"""
#: The general nest is told the width of one packed element where several became one.
ANOTHER_WIDTH = """
from dataclasses import replace
from functools import lru_cache
from strided.planning import plan, select_steps

steps, nest_step_of, asked = select_steps.steps_of.__wrapped__, select_steps.nest_step_of, []

@lru_cache
def remembering(signature, *given):
    asked[:] = signature.bits
    return steps(signature, *given)

def careless(box, widths):
    nest = nest_step_of(box, widths)
    return replace(nest, widths=tuple(asked)) if nest.kernel == "nest_bits" else nest

plan.steps_of, select_steps.nest_step_of = remembering, careless
"""
#: Runs of packed elements are moved as they are, from one order in bytes to the other, too.
RUNS = """
from strided.planning import select_kernel
rows, runs = select_kernel._rows, select_kernel._transpose_runs
select_kernel._rows = lambda asked: runs(asked) or rows(asked)
"""
#: Tiles that begin anew with every row of several that became one are cut as if they went on.
TURNS = """
from strided.planning import offset_tables
cuts = offset_tables.cuts

def careless(start, stop, radix_maps):
    return cuts(start, stop, [m._replace(turn=0) for m in radix_maps])

offset_tables.cuts = careless
"""
#: Tasks after the eighth are not done: with the usual limits small arrays have one.
TASKS = """
from itertools import islice
from strided.planning import vector_tasks
task_ranges_of = vector_tasks.task_ranges_of
vector_tasks.task_ranges_of = lambda *given, **named: islice(task_ranges_of(*given, **named), 8)
"""
#: One byte of padding is written beside what a packed row ends in.
PADDING = """
from strided.transfer import copy as transfer
copy = transfer.copy

def careless(source, target):
    copy(source, target)
    if target.buffer.size > 1:
        target.buffer[-1] ^= 1

transfer.copy = careless
"""


# The numbers of worlds are those in which it shows; they are others where the generator changes.


@pytest.mark.slow
def test_reading_too_far_ends_the_process(tmp_path: Path) -> None:
    status, said, case = campaign(tmp_path / "case", 0, "--worlds", 60, before=A_BYTE_TOO_FAR)
    assert status == -signal.SIGSEGV, said[-2000:]
    assert "seed 0 world" in case, "what was done is known"


@pytest.mark.parametrize(
    ("plant", "of", "world"),
    thinned(
        [
            (ANOTHER_WIDTH, [], 5231),
            (RUNS, [], 77),
            (TURNS, [], 683),
            (TURNS, [], 1388),
            (PADDING, [], 0),
            (TASKS, ["--large"], 5),
        ],
        7,
    ),
)
def test_wrong_bytes_are_seen(plant: str, of: list[str], world: int, tmp_path: Path) -> None:
    status, said, case = campaign(tmp_path / "case", 0, *of, "--world", world, "--worlds", 1, before=plant)
    assert status == 1, said[-2000:]
    # Any exception is raised again as such: what was planted must give wrong bytes, not fail by itself.
    assert said.count("guard_pages.Wrong:") == 2, said[-2000:]
    assert f"seed 0 world {world}" in case, "it can be done again"


# --- its oracle -----------------------------------------------------------------------------------------------------


def test_places_are_those_of_the_slow_oracle() -> None:
    rng = random.Random(0)
    for _ in range(300):
        case = layouts.layout(rng, "u8", layouts.dimensions(rng, 300), 8)
        places = places_of(case.spec)
        assert places.shape == case.spec.dimensions
        assert {index: int(places[index]) for index in np.ndindex(places.shape)} == oracle.offsets(case.spec), case


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("high_first", [False, True])
def test_slots_are_those_of_the_slow_oracle(bits: int, high_first: bool) -> None:
    buffer = np.random.default_rng(bits).integers(0, 256, 48, dtype=np.uint8)
    slots = slots_of(buffer, bits, high_first=high_first)
    numbers = [sum(int(part) << 64 * k for k, part in enumerate(slot)) for slot in slots]
    count = 48 * 8 // bits
    assert numbers == [oracle.read_bits(buffer.tobytes(), k, bits, high_first=high_first) for k in range(count)]
    assert np.array_equal(buffer_of(slots, bits, high_first=high_first), buffer)
