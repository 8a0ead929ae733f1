"""Every benchmark runs, with every combination of its parameters, at toy size."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests import paths
from tests.thinned import thinned

_FOLDER = paths.ROOT / "asv_bench"
if not _FOLDER.exists():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def _toys() -> Iterator[None]:
    """The benchmarks at toy size, importable as asv imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRIDED_BENCH_TOY", "1")
        patch.syspath_prepend(str(_FOLDER))
        yield
        for name in [n for n in sys.modules if n.split(".")[0] in ("benchmarks", "sweep", "thresholds")]:
            del sys.modules[name]


def _modules() -> list[str]:
    found = pkgutil.iter_modules([str(_FOLDER / "benchmarks")])
    return sorted(m.name for m in found if m.name not in ("cases", "peers", "yardstick"))


def _calls(benchmark: type) -> Iterator[tuple[str, tuple[Any, ...]]]:
    params = getattr(benchmark, "params", ())
    lists = params if params and isinstance(params[0], (list, tuple)) else (params,) if params else ()
    for name, _ in inspect.getmembers(benchmark, callable):
        if name.startswith(("time_", "track_", "peakmem_", "mem_", "timeraw_")):
            yield from ((name, arguments) for arguments in itertools.product(*lists))


def test_the_page_says_what_each_module_measures() -> None:
    page = (paths.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = page.partition("| module | question |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.rpartition(" | ")[0])]
    assert sorted(named) == _modules()


# Of `startup`, most is the compiler at work.
@pytest.mark.parametrize(
    "module", thinned([pytest.param(m, marks=pytest.mark.slow) if m == "startup" else m for m in _modules()], 3)
)
def test_every_benchmark_runs_at_toy_size(module: str) -> None:
    loaded = importlib.import_module(f"benchmarks.{module}")
    ran = 0
    for _, benchmark in inspect.getmembers(loaded, inspect.isclass):
        if benchmark.__module__ != loaded.__name__ or benchmark.__name__.startswith("_"):
            continue
        for name, arguments in _calls(benchmark):
            instance = benchmark()
            cached = (instance.setup_cache(),) if hasattr(instance, "setup_cache") else ()
            if hasattr(instance, "setup"):
                try:
                    instance.setup(*cached, *arguments)
                except NotImplementedError:
                    continue  # asv's way of saying that a combination does not apply
            try:
                result = getattr(instance, name)(*cached, *arguments)
            finally:
                if hasattr(instance, "teardown"):
                    instance.teardown(*cached, *arguments)
            if name.startswith("timeraw_"):
                exec(result, {})
            elif name.startswith("track_"):
                assert float(result) >= 0
            ran += 1
    assert ran


def test_rows_are_multiples_of_their_own_yardstick_or_the_one_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    yardstick = importlib.import_module("benchmarks.yardstick")
    monkeypatch.setattr(yardstick, "multiple", lambda beside, run: (beside(), run()))

    class Both:
        def run_one(self, x: int) -> str:
            return f"one {x}"

        def run_two(self, x: int) -> str:
            return f"two {x}"

        def beside(self, x: int) -> str:
            return f"all {x}"

        def beside_two(self, x: int) -> str:
            return f"beside two {x}"

    class Alone:
        def run_it(self) -> str:
            return "it"

    rows = yardstick.multiples(Both)()
    assert (rows.track_one(3), rows.track_two(4)) == (("all 3", "one 3"), ("beside two 4", "two 4"))
    assert yardstick.multiples(Alone)().track_it() == (None, "it")
    assert Both.track_one.unit == "times as long"  # type: ignore[attr-defined]


def test_a_multiple_is_of_the_best_single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    yardstick = importlib.import_module("benchmarks.yardstick")
    # Once each to know how long they take, then three rounds.
    took = {"fast": [0.0002, 0.0005, 0.0003, 0.0002], "slow": [0.5, 0.9, 0.8, 0.6]}
    repeats: dict[str, list[int]] = {"fast": [], "slow": []}

    def seconds(run: Any, repeat: int = 1) -> float:
        repeats[run()].append(repeat)
        return took[run()].pop(0)

    monkeypatch.setattr(yardstick, "TOY", False)
    monkeypatch.setattr(yardstick, "seconds", seconds)
    assert yardstick.multiple(lambda: "fast", lambda: "slow") == pytest.approx(3000)
    assert repeats == {"fast": [1, 5, 5, 5], "slow": [1, 1, 1, 1]}


def _low(thresholds: Any, *found: float) -> list[str]:
    ratios = iter(found)
    return thresholds.judged({"row": 1.0}, lambda names: (dict.fromkeys(names, next(ratios)), 1.0))[1]


def test_a_ratio_has_fallen_if_no_attempt_reaches_three_quarters() -> None:
    thresholds = importlib.import_module("thresholds")
    assert _low(thresholds, 0.75) == _low(thresholds, 0.7, 0.4, 0.5, 0.8) == []
    assert _low(thresholds, 0.74, 0.4, 0.5, 0.6, 0.7, 0.7) == ["row"]


@pytest.mark.parametrize(
    ("kind", "unrest", "status", "said"),
    [
        ("this", 1.0, 1, "row .* 0.50 of memcpy, recorded 1.00 fell below"),
        ("this", 2.0, 0, "not judged: memcpy itself"),
        ("another", 1.0, 0, "not judged: no ratios are recorded for this"),
    ],
)
def test_thresholds_judge_calm_machines_of_a_recorded_kind(
    kind: str,
    unrest: float,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    thresholds = importlib.import_module("thresholds")
    table = tmp_path / "table.json"
    table.write_text(f'{{"{kind}": {{"row": 1.0}}}}', encoding="utf-8")
    monkeypatch.setattr(thresholds, "kind_of_cpu", lambda: "this")
    monkeypatch.setattr(thresholds, "measure", lambda names: (dict.fromkeys(names, 0.5), unrest))
    assert thresholds.main(["--table", str(table)]) == status
    assert re.search(said, capsys.readouterr().out)


def test_thresholds_are_recorded_for_this_kind_of_cpu_beside_others(tmp_path: Path) -> None:
    thresholds = importlib.import_module("thresholds")
    table = tmp_path / "table.json"
    table.write_text('{"another": {}}', encoding="utf-8")
    thresholds.main(["--record", "--table", str(table)])
    found = json.loads(table.read_text(encoding="utf-8"))
    assert {kind: set(rows) for kind, rows in found.items()} == {
        "another": set(),
        thresholds.kind_of_cpu(): set(thresholds.ROWS),
    }
    recorded = json.loads(thresholds.RECORDED.read_text(encoding="utf-8"))
    assert all(set(rows) <= set(thresholds.ROWS) for rows in recorded.values())


def _bytes(target: Any) -> np.ndarray:
    """The values of a conversion's target, in row-major order, as bytes."""
    return np.array(target, order="C").view(np.uint8)


def test_every_case_converts_to_what_numpy_says() -> None:
    cases = importlib.import_module("benchmarks.cases")
    for case in (*cases.CASES, *cases.SMALL_CASES):
        prepared = cases.prepare(case, misalignment=16)
        wanted = np.ascontiguousarray(prepared.source.to_numpy()[prepared.key])
        np.testing.assert_array_equal(_bytes(prepared.target), wanted.view(np.uint8))


@pytest.mark.parametrize("peer", ["numpy_idiom", pytest.param("torch_idiom", marks=pytest.mark.partners)])
def test_the_peers_compute_the_same(peer: str) -> None:
    cases, peers = importlib.import_module("benchmarks.cases"), importlib.import_module("benchmarks.peers")
    compared = 0
    for case in cases.CASES:
        prepared = cases.prepare(case)
        run = getattr(peers, peer)(prepared)
        if run is None:
            continue
        wanted = _bytes(prepared.target)
        memory = prepared.target.buffer if hasattr(prepared.target, "buffer") else prepared.target.view(np.uint8)
        memory[...] = 0
        run()
        np.testing.assert_array_equal(_bytes(prepared.target), wanted)
        compared += 1
    if peer != "numpy_idiom" and not compared:
        pytest.skip("torch is not installed")
    assert compared


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["AVX-512", "AVX2", "SSE4.2", "x86-64", "NEON"])
def test_no_operation_moves_elements_one_by_one(cpu: str) -> None:
    """Whatever registers a CPU has, LLVM makes vector instructions of all that kernels are made of."""
    script = f"""
import re, sys
sys.path.insert(0, {str(_FOLDER)!r})
from instructions import BRAIDS, LINES, SHARED, SQUARES, TARGETS, instructions, is_used, machine_code
for name in (one for one in (*LINES, *BRAIDS, *SHARED, *SQUARES) if is_used(one, TARGETS[{cpu!r}])):
    code = instructions(machine_code(name, TARGETS[{cpu!r}]))
    assert len(code) > 4
    print(*(one for one in code if re.fullmatch("v?p(ins|ext)r[bwdq]|[us]mov|ins", one)), end="")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


@pytest.mark.slow
def test_every_cpu_copies_two_bytes_as_one_number() -> None:
    """Of vectors of two bytes, LLVM makes three times as many instructions for ARM."""
    script = f"""
import sys
sys.path.insert(0, {str(_FOLDER)!r})
from instructions import TARGETS, instructions, machine_code
for target in TARGETS.values():
    copied, parts = (len(instructions(machine_code(name, target))) for name in ("copy2", "copy_parts"))
    assert copied == 3, (target.name, copied)
    assert parts < 250, (target.name, parts)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_sweep_draws_default_layouts_of_every_type_and_rank() -> None:
    sweep = importlib.import_module("sweep")
    shapes = list(sweep.drawn(0, 28))
    assert list(sweep.drawn(0, 4)) == shapes[:4] != list(sweep.drawn(1, 4))
    assert {shape.element_type for shape in shapes} == set(sweep.TYPES)
    assert {shape.rank for shape in shapes} == {2, 3, 4, 5, 6}
    for shape in shapes:
        assert shape.layout.tiles
        sizes = [max(s.byte_size, s.with_layout(None).byte_size) for s in (shape, _one_longer(shape))]
        assert sizes[0] <= sweep.BYTES < sizes[1]


def _one_longer(shape: sd.Shape) -> sd.Shape:
    major = shape.layout.minor_to_major[-1]
    dimensions = [n + (d == major) for d, n in enumerate(shape.dimensions)]
    return sd.Shape(shape.element_type, dimensions, shape.layout)


def test_the_sweep_shows_the_slowest_conversions_with_their_plans(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = importlib.import_module("sweep")
    assert sweep.main(["--count", "3", "--seed", "7"]) == 0
    printed = capsys.readouterr().out
    for shape in sweep.drawn(7, 3):
        for pair in ((shape, shape.with_layout(None)), (shape.with_layout(None), shape)):
            assert "{} to {}".format(*pair) in printed
            assert str(sd.inspect.plan_between(*pair)).splitlines()[0] in printed
    assert re.search(r"^median \d+\.\d\d, read \d+\.\d\d, write \d+\.\d\d$", printed, re.MULTILINE)
    assert re.search(r"^the streaming copy: median \d+\.\d\d; of it: median \d+\.\d\d$", printed, re.MULTILINE)
    assert re.search(r"^\d of 6 below 0\.35$", printed, re.MULTILINE)


@pytest.mark.slow
def test_kernels_for_another_cpu_are_compiled_in_a_process_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from benchmarks import yardstick\n"
        "if (status := yardstick.on_cpu('nehalem', __file__, None)) is not None:\n"
        "    sys.exit(status)\n"
        "from numba.core import config\n"
        "assert sys.argv[1:] == ['--as', 'before']\n"
        "assert (config.CPU_NAME, config.CPU_FEATURES) == ('nehalem', ''), config.CPU_FEATURES\n"
        "sys.exit(3)\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(_FOLDER), *sys.path])
    ran = subprocess.run([sys.executable, script, "--as", "before"], env=os.environ | {"PYTHONPATH": path}, check=False)
    assert ran.returncode == 3
