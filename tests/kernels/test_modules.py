"""The modules of kernels and plans: their tables, their map and their scratch memory hold what is there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType

import pytest

from strided import kernels, planning
from strided.kernels import HOMES, SCRATCH_BYTES, long_rows, transpose_runs, transpose_squares, word_rows
from strided.kernels.compile import Kernel
from tests import paths


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(kernels.__path__)])
def test_a_module_is_the_home_of_all_its_kernels(name: str) -> None:
    module = importlib.import_module(f"strided.kernels.{name}")
    own = {kernel for kernel, value in vars(module).items() if isinstance(value, Kernel)}
    assert own == {kernel for kernel, home in HOMES.items() if home == name}


@pytest.mark.parametrize("package", [planning, kernels], ids=["planning", "kernels"])
def test_the_page_for_maintainers_says_what_each_module_does(package: ModuleType) -> None:
    page = (paths.ROOT / "docs" / "maintainers.md").read_text(encoding="utf-8")
    tables = page[page.index("**Who does what.**") : page.index("**The order of axes.**")]
    first, second = tables.split("And those of `kernels`")
    rows = first if package is planning else second
    named = re.findall(r"`(\w+)`", " ".join(row.split(" | ")[0] for row in rows.splitlines() if row.startswith("| `")))
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    # Helpers of a kernel may stand behind what it does.
    assert modules - set(re.findall(r"`(\w+)`", rows)) == set()
    assert set(named) <= modules


def test_scratch_memory_holds_all_that_kernels_lay_out_in_it() -> None:
    ends = [
        transpose_squares.PLACES + 8 * 2 * transpose_squares.LAG,
        long_rows._TAKEN + long_rows._MOST * long_rows._PITCH,
        word_rows._UNWANTED + (4 << 10) + 64,
        transpose_runs._BLOCK
        + transpose_runs._MOST_ROWS * (64 + transpose_runs._IN_BLOCK + transpose_runs._BEYOND + 63),
    ]
    assert max(ends) + 255 <= SCRATCH_BYTES  # the map begins at a multiple of up to 256 bytes
