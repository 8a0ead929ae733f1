"""Commands that map files go on in a child process: a terminal and whoever started them see one process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strided.demo import SHAPE, sample
from tests.thinned import thinned

if not hasattr(os, "fork"):
    pytest.skip("files are not mapped so there", allow_module_level=True)

import termios

#: `instead` is what the command does once it has begun.
_SCRIPT = """
import fcntl, os, signal, sys, termios, time, strided.cli
from strided import inspect
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
def instead(array, **_):
    print("begun", os.getpgid(0) == os.getpgid(os.getppid()), flush=True)
    {instead}
inspect.padding = instead
sys.argv[1:] = ["padding", sys.argv[1], sys.argv[2]]
strided.cli.main()
"""


def _command(instead: str, folder: Path) -> list[str]:
    (folder / "x.bin").write_bytes(sample())
    return [sys.executable, "-c", _SCRIPT.format(instead=instead), str(folder / "x.bin"), SHAPE]


def _rest(descriptor: int) -> str:
    """What a terminal shows until nobody has it open."""
    shown = b""
    with contextlib.suppress(OSError):  # how Linux tells the end
        while piece := os.read(descriptor, 1 << 16):
            shown += piece
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("typed", "instead", "code", "shown"),
    [
        (b"", "sys.exit(0)", 0, ""),
        (b"\x03", "time.sleep(30)", 130, "^C\nstrided: interrupted\n"),
        pytest.param(b"\x1c", "time.sleep(30)", 131, "^\\", marks=pytest.mark.slow),
    ],
)
def test_a_terminal_that_stops_writers_in_the_background_stops_no_command(
    typed: bytes, instead: str, code: int, shown: str, tmp_path: Path
) -> None:
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    process = subprocess.Popen(
        _command(instead, tmp_path), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        begun = b""
        while not begun.endswith(b"\n"):
            assert select.select([ours], [], [], 60)[0], "it was stopped"
            begun += os.read(ours, 1)
        os.write(ours, typed)
        assert process.wait(60) == code
        assert (begun, _rest(ours)) == (b"begun True\r\n", shown)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def test_a_command_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    command = _command("time.sleep(30); print('still here')", tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun True\n"
        process.kill()
        assert process.communicate(timeout=60) == ("", "")


@pytest.mark.slow
def test_a_signal_to_both_ends_a_command_once(tmp_path: Path) -> None:
    command = _command("os.killpg(0, signal.SIGINT); time.sleep(30)", tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "begun True\n", "\nstrided: interrupted\n")


@pytest.mark.parametrize(("shape", "code"), [(SHAPE, 0), ("f32[", 2)], ids=["done", "refused"])
@pytest.mark.slow
def test_a_caller_that_catches_the_end_goes_on_once(shape: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(sample())
    script = """
import sys, strided.cli
for _ in range(3):
    try:
        strided.cli.main()
    except SystemExit as done:
        print("ended with", done.code, flush=True)
"""
    command = [sys.executable, "-c", script, "padding", str(tmp_path / "x.bin"), shape]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.count(f"ended with {code}") == done.stdout.count("ended with") == 3


@pytest.mark.parametrize(
    "limited", thinned(["os.fork = refuse(BlockingIOError)", "threading.Thread.start = refuse(RuntimeError)"], 2)
)
@pytest.mark.parametrize(
    ("instead", "code", "shown"),
    [("sys.exit(1)", 1, ""), ("os.kill(os.getpid(), signal.SIGINT)", 130, "strided: interrupted\n")],
    ids=["answers", "Ctrl-C"],
)
@pytest.mark.slow
def test_where_no_process_or_thread_can_be_started_a_command_goes_on_by_itself(
    limited: str, instead: str, code: int, shown: str, tmp_path: Path
) -> None:
    """A trace would end with 1, which is an answer of these commands."""
    script = f"""
import threading
def refuse(error):
    def start(*_):
        raise error("the limit")
    return start
{_SCRIPT}""".replace("strided.cli.main()", f"{limited}\nstrided.cli.main()")
    (tmp_path / "x.bin").write_bytes(sample())
    command = [sys.executable, "-c", script.format(instead=instead), str(tmp_path / "x.bin"), SHAPE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr.lstrip("\n")) == (code, "begun False\n", shown)
