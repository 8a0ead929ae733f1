"""`strided warmup`: kernels are compiled beforehand."""

from __future__ import annotations

import ctypes
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from strided import kernels
from strided.cli.interruption import Ended
from tests.commands import Run

#: What is told before anything takes time.
_FIRST = "loading the compiler\n"


class _Kernel:
    """In place of a compiled one; `kept` tells whether its folder had room for it."""

    def __init__(self, folder: Path, *, kept: bool = True) -> None:
        self._folder, self._kept = folder, kept

    def folder(self) -> Path:
        return self._folder

    def is_on_disk(self) -> bool:
        return self._kept


def test_warmup_names_each_kernel_before_it_is_compiled(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = {}

    def load(name: str) -> None:
        shown[name] = capsys.readouterr().err

    monkeypatch.setattr(kernels, "load", load)
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "kernel_of", lambda name: _Kernel(tmp_path))
        code, out, _ = run("warmup")
    wanted = {name: f"{k:2} of {len(kernels.HOMES)}: {name}\n" for k, name in enumerate(kernels.HOMES, 1)}
    wanted["run_tasks"] = _FIRST + wanted["run_tasks"]
    assert shown == wanted
    assert (code, out[:21]) == (0, f"{len(kernels.HOMES)} kernels are ready ")
    monkeypatch.setenv("STRIDED_CACHE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("warmup")[0] == 0
    assert shown["run_tasks"].startswith(f"{_FIRST}strided: warning: compiled kernels are not kept: ")


def test_what_several_processes_made_is_named_as_it_is_ready_and_the_rest_as_it_begins(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, closed = [], []

    def compile_all(names: list[str], folder: Path, processes: int) -> Iterator[str]:
        asked.append((names, folder, processes))
        try:
            yield from ("rows", "copy")
        finally:
            closed.append(True)

    loaded: list[str] = []
    monkeypatch.setattr(kernels, "load", loaded.append)
    monkeypatch.setattr(kernels, "kernel_of", lambda name: _Kernel(tmp_path, kept=name == "nest8" or bool(closed)))
    monkeypatch.setattr("strided.kernels.compile_all.compile_all", compile_all)
    monkeypatch.setattr("strided.kernels.compile_all.processes_for", lambda kernels: 3)
    code, _, err = run("warmup")
    count, missing = len(kernels.HOMES), [name for name in kernels.HOMES if name != "nest8"]
    assert (code, closed) == (0, [True])
    assert asked == [(missing, tmp_path, 3)]
    begun = [name for name in kernels.HOMES if name not in ("rows", "copy")]
    assert loaded == begun
    assert err.splitlines()[: count + 2] == [_FIRST.rstrip(), f"compiling {count - 1} kernels, by 3 processes"] + [
        f"{k:2} of {count}: {name}" for k, name in enumerate(["rows", "copy", *begun], 1)
    ]


@pytest.mark.parametrize("error", [ImportError("Numba needs another NumPy"), OSError("no LLVM"), AttributeError("x")])
def test_a_compiler_that_does_not_load_is_an_error_of_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def kernel_of(name: str) -> None:
        raise error

    monkeypatch.setattr(kernels, "kernel_of", kernel_of)
    assert run("warmup") == (2, "", f"{_FIRST}strided: kernels cannot be compiled: {error!r}\n")


def test_warmup_warns_of_kernels_that_a_full_disk_did_not_take(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernels, "load", lambda name: None)
    monkeypatch.setattr(kernels, "kernel_of", lambda name: _Kernel(tmp_path, kept=name != "fill"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("warmup")
    assert code == 0
    assert err.splitlines()[-1] == (
        f"strided: warning: 1 of them are not kept: {tmp_path} takes no more, as on a full disk"
    )


@pytest.mark.parametrize(
    ("end", "code"), [(KeyboardInterrupt(), 130), (Ended(signal.SIGTERM), 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_while_llvm_calls_back_ends_it_without_a_trace(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: BaseException, code: int
) -> None:
    def raise_end() -> None:
        raise end

    monkeypatch.setattr(kernels, "load", lambda name: ctypes.CFUNCTYPE(None)(raise_end)())
    monkeypatch.setattr(kernels, "kernel_of", lambda name: _Kernel(tmp_path))
    ended, out, err = run("warmup")
    assert (ended, out) == (code, "")
    assert err.splitlines()[1] == f" 1 of {len(kernels.HOMES)}: run_tasks"
    assert "Traceback" not in err
    assert "ignored" not in err
