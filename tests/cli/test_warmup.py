"""`strided warmup`: kernels are compiled beforehand."""

from __future__ import annotations

import warnings

import pytest

from strided import kernels
from tests.commands import Run


def test_warmup_names_each_kernel_before_it_is_compiled(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {}

    def load(name: str) -> None:
        shown[name] = capsys.readouterr().err

    monkeypatch.setattr(kernels, "load", load)
    code, out, _ = run("warmup")
    assert shown == {name: f"{k:2} of {len(kernels.HOMES)}: {name}\n" for k, name in enumerate(kernels.HOMES, 1)}
    assert (code, out[:21]) == (0, f"{len(kernels.HOMES)} kernels are ready ")
    monkeypatch.setenv("STRIDED_CACHE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("warmup")[0] == 0
    assert next(iter(shown.values())).startswith("strided: warning: what is compiled is not kept: ")


@pytest.mark.parametrize("error", [ImportError("Numba needs another NumPy"), OSError("no LLVM"), AttributeError("x")])
def test_a_compiler_that_does_not_load_is_an_error_of_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def kernel_of(name: str) -> None:
        raise error

    monkeypatch.setattr(kernels, "kernel_of", kernel_of)
    assert run("warmup") == (2, "", f"strided: kernels cannot be compiled: {error!r}\n")
