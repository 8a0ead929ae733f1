"""Bytecode that a full disk cut off: the command says which file it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strided.runtime.bytecode import cut_off
from tests.commands import in_process_of_its_own


@pytest.mark.slow
def test_bytecode_that_is_cut_off_is_named(tmp_path: Path) -> None:
    """In what the package imports, in what the command line does, and in what a command does when it runs."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    assert in_process_of_its_own("info", "f32[3]", env=environment).returncode == 0
    for module in ("layout/layout", "cli/run", "inspect/describe"):
        [path] = tmp_path.rglob(f"strided/{module}.*.pyc")
        whole = path.read_bytes()
        path.write_bytes(whole[:1000])
        done = in_process_of_its_own("info", "f32[3]", env=environment)
        path.write_bytes(whole)
        assert (done.returncode, done.stdout) == (2, "")
        said = f"strided: Python wrote only a part of {str(path)!r}, as on a full disk: remove it\n"
        assert done.stderr == said


def test_another_file_that_ends_too_early_is_no_bytecode() -> None:
    def read() -> None:
        raise EOFError("cut")

    with pytest.raises(EOFError) as caught:
        read()
    assert cut_off(caught.value) is None
