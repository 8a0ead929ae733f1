"""Kernels compiled by several processes: all that are wanted, whatever becomes of one of them."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from strided.kernels import HOMES, compile_all, compile_process


def kept(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


@pytest.mark.slow
def test_each_is_named_when_it_is_on_disk(tmp_path: Path) -> None:
    names = ["copy", "nest8", "fill"]
    ready = []
    for name in compile_all.compile_all(names, tmp_path, 2):
        assert name in kept(tmp_path)
        ready.append(name)
    assert sorted(ready) == sorted(names)
    assert kept(tmp_path) == sorted(names)


@pytest.mark.parametrize(
    ("kernels", "cpus", "memory", "processes"),
    [
        (48, 64, math.inf, 4),
        (48, 2, math.inf, 2),
        (3, 64, math.inf, 3),
        (0, 64, math.inf, 0),
        (48, 64, 1 << 31, 3),
        (48, 64, 1 << 30, 1),
        (48, 64, 1 << 29, 0),
    ],
)
def test_as_many_processes_as_cpus_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, kernels: int, cpus: int, memory: float, processes: int
) -> None:
    monkeypatch.setattr(compile_all, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(compile_all, "usable_memory", lambda: memory)
    assert compile_all.processes_for(kernels) == processes


def test_those_of_a_module_are_compiled_by_the_same_process() -> None:
    for count in (1, 2, 4, 100):
        shares = compile_all._shares(list(HOMES), count)
        assert sorted(name for share in shares for name in share) == sorted(HOMES)
        assert len(shares) == min(count, len(set(HOMES.values())))
        homes = [{HOMES[name] for name in share} for share in shares]
        assert sum(map(len, homes)) == len(set(HOMES.values()))
    assert max(map(len, compile_all._shares(list(HOMES), 4))) < len(HOMES) // 3
    assert compile_all._shares([], 2) == []


#: In place of a process that compiles: hands over a kernel, or does what else it is told.
_HANDS_OVER = "import os, sys, time; os.write(1, b'strided kernels:' + bytes(8)); "


@pytest.mark.parametrize(
    "then", ["os._exit(0)", "os.kill(os.getpid(), 9)" if hasattr(os, "fork") else "os._exit(3)", "os.close(1)"]
)
def test_what_a_process_did_not_make_is_left_out(then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_all, "command_of", lambda *_: [sys.executable, "-c", _HANDS_OVER + then])
    assert list(compile_all.compile_all(["copy", "fill"], tmp_path, 2)) == ["copy"]


def test_where_no_process_or_thread_can_be_started_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["copy", "nest8"]
    with monkeypatch.context() as patch:
        patch.setattr(compile_all, "command_of", lambda *_: None)
        assert list(compile_all.compile_all(names, tmp_path, 2)) == []
    with monkeypatch.context() as patch:
        patch.setattr(compile_all, "command_of", lambda *_: [str(tmp_path / "missing")])
        assert list(compile_all.compile_all(names, tmp_path, 2)) == []

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert list(compile_all.compile_all(names, tmp_path, 2)) == []


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped there")
@pytest.mark.parametrize("then", ["sys.stdin.read(1)", "os.kill(os.getpid(), 19)"], ids=["ends", "is stopped"])
def test_processes_end_with_the_iteration_even_if_ctrl_c_comes_again(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"{_HANDS_OVER}open(sys.argv[1], 'w').write(str(os.getpid())); {then}"
    monkeypatch.setattr(compile_process, "END_SECONDS", 0.1)
    monkeypatch.setattr(
        compile_all, "command_of", lambda names, folder: [sys.executable, "-c", script, str(folder / names[0])]
    )
    found = compile_all.compile_all(["copy", "nest8"], tmp_path, 2)
    assert next(found) in ("copy", "nest8")
    paths = [tmp_path / "copy", tmp_path / "nest8"]
    end = time.monotonic() + 60
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < end
        time.sleep(0.01)
    sleep, interruptions = time.sleep, iter([KeyboardInterrupt()])

    def interrupted(seconds: float) -> None:
        for again in interruptions:
            raise again
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", interrupted)
    found.close()
    assert not [*interruptions]
    for path in paths:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)
