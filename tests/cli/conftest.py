"""What the tests of commands have at hand: the command line, raw bytes, a dump folder, and files of arrays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided.demo import expected, sample
from tests.commands import Run, run_command


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; its exit code, and what it printed on both streams."""
    monkeypatch.setenv("COLUMNS", "80")

    return partial(run_command, capsys)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    path.write_bytes(sample())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump folder with a program, and a snapshot of one run of it."""
    path = tmp_path / "dump"
    path.mkdir()
    argument = sd.LayoutArray.from_numpy(np.arange(15, dtype=np.float32).reshape(3, 5), "{0,1}")
    module = "HloModule jit_f\n\nENTRY e {\n  p = f32[3,5]{0,1} parameter(0)\n  ROOT n = f32[3,5]{0,1} negate(p)\n}\n"
    (path / "module_0000.jit_f.before_optimizations.txt").write_text(module, encoding="utf-8")
    sd.write_snapshot(path / "module_0000.jit_f.snapshot.7.pb", [argument], argument)
    return path


@pytest.fixture
def container(tmp_path: Path) -> Path:
    path = tmp_path / "w.safetensors"
    sd.save_safetensors(path, {"layer/w": expected(), "b": np.arange(3)})
    np.savez(tmp_path / "w.npz", w=expected().astype(np.float32))
    np.savez_compressed(tmp_path / "c.npz", w=expected().astype(np.float32))
    return path
