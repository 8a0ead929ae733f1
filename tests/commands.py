"""Commands run by tests, in their own process and in others."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from strided import cli

#: What the fixtures called `run` give: the exit code of a command, and what it printed on both streams.
Run = Callable[..., tuple[int, str, str]]
#: A small array in tiles.
TEXT = "f32[3,5]{1,0:T(2,2)}"


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed on both streams."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code, *capsys.readouterr()


def in_process_of_its_own(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, ended within a minute; `options` go to `subprocess.run`."""
    command = [sys.executable, "-m", "strided", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def refuse_to_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no file be mapped, as in a process that may open no more: a mapping holds a descriptor of its own."""

    class Refusing(mmap.mmap):
        def __new__(cls, descriptor: int, *arguments: Any, **options: Any) -> Any:
            if descriptor != -1:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().__new__(cls, descriptor, *arguments, **options)

    monkeypatch.setattr(mmap, "mmap", Refusing)
