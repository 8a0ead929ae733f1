"""What importing the package loads, and what stays unloaded until it is needed.

Which package may import which is for import-linter to hold (pyproject.toml).
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import strided
from tests.thinned import thinned

PACKAGE = Path(strided.__file__).parent

#: Modules that `import strided` must not load.
HEAVY = [
    *("numba", "llvmlite", "click", "dask", "xarray", "jax", "jaxlib", "torch", "pandas", "rich", "scipy"),
    *("concurrent.futures.process", "multiprocessing", "unittest", "asyncio"),
]
#: Parts of the standard library that take as long to import as much of the package.
SLOW = ["html", "pathlib", "subprocess", "tempfile", "urllib.parse"]


def loaded_by(code: str) -> set[str]:
    """The modules in a fresh interpreter after some code."""
    report = "import sys, json\n" + code + "\nprint(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", report], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


LIGHT = {
    "import": "import strided",
    "parsing": "import strided as sd; str(sd.parse('(bf16[3,5]{1,0:T(8,128)(2,1)}, s4[7]{0:E(4)})'))",
    "sizes and addresses": (
        "import strided as sd; s = sd.parse('bf16[300,500]{1,0:T(8,128)(2,1)}'); s.byte_size; s.offset_of((2, 3))\n"
        "s.offset_of(([0, 1], [2, 3])); s.index_at(17); s.index_at([1, 2])"
    ),
    "one element": (
        "import strided as sd\n"
        "a = sd.LayoutArray(bytes(4096 * 4096), 'f32[2048,2048]{1,0:T(8,128)}'); a[0, 0]; a[5, -1]"
    ),
    "a few elements": (
        "import strided as sd, numpy as np\n"
        "a = sd.LayoutArray(bytearray(2048 * 2048 * 4), 'f32[2048,2048]{1,0:T(8,128)}')\n"
        "np.asarray(a[3:9, ::400]); a[[1, 2], [3, 4]]; a[0, :10] = 1; repr(a); str(a); repr(a[::3])"
    ),
    "a small conversion": (
        "import strided as sd, numpy as np\n"
        "a = sd.LayoutArray.from_numpy(np.ones((30, 50), 'f4'), '{0,1:T(8,16)}'); a.to_numpy(); a.to_layout('{1,0}')"
    ),
}


@pytest.mark.parametrize("action", thinned(LIGHT, 5))
def test_small_things_load_no_compiler(action: str) -> None:
    loaded = loaded_by(LIGHT[action])
    assert sorted(name for name in HEAVY if name in loaded) == []


def test_import_loads_no_readers() -> None:
    assert [
        name
        for name in loaded_by("import strided")
        if name.startswith(("strided.dumps", "strided.inspect", "strided.tpu"))
    ] == []


def test_import_loads_no_slow_parts_of_the_standard_library() -> None:
    ours = loaded_by("import strided") - loaded_by("import numpy, ml_dtypes")
    assert ours.isdisjoint(SLOW)


def test_public_names() -> None:
    assert len(set(strided.__all__)) == len(strided.__all__)
    for name in strided.__all__:
        assert getattr(strided, name) is not None
    assert dir(strided) == sorted(strided.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = strided.nothing


@pytest.mark.parametrize("module", [strided.inspect, strided.tpu, strided.testing, strided.errors])
def test_completion_shows_public_names_alone(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)


def test_readers_call_what_they_read_alike() -> None:
    readers = (
        strided.read_hlo,
        strided.read_dump,
        strided.read_snapshot,
        strided.read_allocations,
        strided.memory_report,
    )
    assert {next(iter(inspect.signature(reader).parameters)) for reader in readers} == {"source"}


@pytest.mark.parametrize("name", ["inspect", "errors", "tpu"])
def test_modules_are_there_after_the_import(name: str) -> None:
    assert f"strided.{name}" in loaded_by(f"import strided; strided.{name}.__doc__")


def test_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
