"""Commands that are stopped: Ctrl-C, Ctrl-Break and other signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strided.demo import SHAPE
from tests.commands import in_process_of_its_own
from tests.thinned import thinned

STOPS = [
    ("SIGINT", 130, "strided: interrupted"),
    ("SIGTERM", 143, ""),
    ("SIGHUP", 129, ""),
    ("SIGQUIT", 131, ""),
    ("SIGKILL", -9, ""),
]


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
@pytest.mark.parametrize(
    ("name", "code", "said", "with_names"), thinned([(*stop, named) for named in (False, True) for stop in STOPS], 5)
)
def test_a_conversion_that_is_stopped_leaves_nothing(
    name: str, code: int, said: str, with_names: bool, tmp_path: Path
) -> None:
    source = tmp_path / "x.bin"
    with source.open("wb") as file:
        file.truncate(8 << 30)  # all of it a hole
    script = (
        # First of all: `tempfile`, by which Numba tries its cache, looks for it once.
        f"import os\nif {with_names}: vars(os).pop('O_TMPFILE', None)\n"
        "import signal, sys, strided.cli, strided.io.write_values\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # Where these are ignored, as under nohup, they stay so.
        "for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT): signal.signal(number, signal.SIG_DFL)\n"
        "strided.io.write_values.BLOCK_BYTES = 4 << 20\n"
        # This test takes no 8 GB of disk.
        "strided.io.write_values._allocate = lambda file, size: print('begun', flush=True)\n"
        "strided.cli.main(sys.argv[1:])"
    )
    arguments = ["convert", source, "u8[131072,65536]{1,0}", tmp_path / "y.npy"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.Signals[name])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (code, "", said)
    left = sorted(p.name for p in tmp_path.iterdir())
    if with_names and name == "SIGKILL":
        assert re.fullmatch(r"\.y\.npy\.strided-[0-9a-f]{8}-[0-9a-f]{16}\.part", left[0])
        # The next program that writes to the folder removes it.
        assert in_process_of_its_own("convert", source, "u8[10]", tmp_path / "z.npy", "--offset", 0).returncode == 2
        assert in_process_of_its_own("convert", source, "u8[10]", tmp_path / "z.npy", "--offset", 1).returncode == 0
        assert sorted(p.name for p in tmp_path.iterdir()) == ["x.bin", "z.npy"]
    else:
        assert left == ["x.bin"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are others there")
def test_a_signal_tells_which_it_was_before_the_command_begins() -> None:
    """In the package itself, in what click does around everything, and as the command line is parsed."""
    script = (
        "import signal, strided.cli\nfrom click import Group\nfrom strided.cli import run\nfrom unittest import mock\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # which nohup ignores
        "for owner, name in (run, 'help_width'), (Group, '_main_shell_completion'), (Group, 'parse_args'):\n"
        "    with mock.patch.object(owner, name, lambda *_, **__: signal.raise_signal(signal.SIGHUP)):\n"
        "        try:\n            strided.cli.main(['warmup'])\n"
        "        except SystemExit as ended:\n"
        "            print(name, ended.code, signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    places = "help_width", "_main_shell_completion", "parse_args"
    assert done.stdout.splitlines() == [f"{place} 129 True" for place in places]


@pytest.mark.parametrize(
    "module", thinned(["strided.cli.run", "click", "strided.cli.copies", "strided.cli.programs"], 2)
)
@pytest.mark.slow
def test_ctrl_c_may_come_while_a_command_is_imported(module: str) -> None:
    script = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting)\n"
        "from strided.cli import main\n"
        "main(['copies', 'nowhere'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "strided: interrupted")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs a signal to spare")
def test_ctrl_break_ends_a_command_as_other_signals_do(dump: Path, tmp_path: Path) -> None:
    """Which is Windows' own."""
    script = (
        "import signal, sys\nsignal.SIGBREAK = signal.SIGUSR1\n"
        "import strided.cli\nfrom strided.io import write_values\n"
        "write_values._allocate = lambda *_: signal.raise_signal(signal.SIGBREAK)\n"
        "strided.cli.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, "convert", str(dump), SHAPE, str(tmp_path / "y.npy")]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGUSR1, b"", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["dump.bin"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are others there")
def test_who_started_it_may_have_signals_ignored(dump: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, strided.cli\nfrom strided.cli import convert\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "def and_hang_up(name):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    return False\n"
        "convert.is_shape, old = (lambda text: and_hang_up(text) or old(text)), convert.is_shape\n"
        "strided.cli.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, "convert", str(dump), SHAPE, str(tmp_path / "y.npy")]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
