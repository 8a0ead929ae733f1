"""Libraries that are not installed: the error says who needs them, and what installs them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import strided
from strided.runtime.missing import advising

_ROOT = Path(strided.__file__).parents[1]


def _without(library: str, *arguments: str) -> tuple[int, str]:
    """The exit code and standard error of Python without a library."""
    hidden = f"import sys\nsys.modules[{library!r}] = None\n"
    code = hidden + "sys.argv = sys.argv[1:]\nexec(sys.argv.pop())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("library", "module", "advice"),
    [
        ("ml_dtypes", "strided", "strided needs ml_dtypes: pip install ml_dtypes"),
        ("numpy", "strided", "strided needs numpy: pip install numpy"),
        ("jax", "strided.interop.jax", "strided.interop.jax needs jax: pip install 'strided[jax]'"),
        ("dask", "strided.interop.dask", "strided.interop.dask needs dask: pip install 'strided[dask]'"),
        ("torch", "strided.interop.torch", "strided.interop.torch needs torch: pip install 'strided[torch]'"),
    ],
)
@pytest.mark.slow
def test_the_error_says_what_to_install(library: str, module: str, advice: str) -> None:
    code, err = _without(library, "program", f"import {module}")
    assert code == 1
    # Python 3.15 goes on: ". Did you mean: 'runpy'?"
    assert err.splitlines()[-1].partition(". Did you mean")[0] == f"ModuleNotFoundError: {advice}"


def test_the_command_line_says_it_in_one_line() -> None:
    code, err = _without("click", "strided", "from strided.cli import main\nmain(['info', 'f32[3]'])")
    assert (code, err) == (2, "strided: the command line needs click: pip install click\n")


def test_one_of_our_own_modules_is_no_library() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'strided\.nothing'"), advising("x"):
        import strided.nothing  # type: ignore[import-not-found] # noqa: F401


def test_advice_that_a_library_gives_itself_is_left_alone() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^needs more$"), advising("x"):
        raise ModuleNotFoundError("needs more")


def test_another_module_of_that_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file in the working directory is, where ``python -m`` looks first."""
    other = ModuleType("no_such_library")
    other.__file__ = "here/no_such_library.py"
    monkeypatch.setitem(sys.modules, other.__name__, other)
    words = r"^x needs no_such_library, and here/no_such_library\.py has no no_such_library\.part: pip install"
    with pytest.raises(ModuleNotFoundError, match=words), advising("x"):
        importlib.import_module("no_such_library.part")
