"""Ctrl-C while the command line is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import strided

if os.name == "nt":
    pytest.skip("signals are others there", allow_module_level=True)

_NUMPY = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('not interrupted')\n"
_SCRIPT = "from strided.cli import main\nmain()\n"
_PROGRAM = "try:\n    import strided\nexcept KeyboardInterrupt:\n    print('caught', flush=True)\n"


@pytest.mark.parametrize(
    ("arguments", "handler", "code", "out", "err"),
    [
        (["-m", "strided", "info", "f32[3]"], "SIG_DFL", 130, "", "strided: interrupted\n"),
        (["strided", "info", "f32[3]"], "SIG_DFL", 130, "", "strided: interrupted\n"),
        (["program", "-m", "strided"], "SIG_DFL", 0, "caught\n", ""),
        (["-m", "strided", "info"], "SIG_IGN", 1, "", "not interrupted\n"),  # as in the background
    ],
)
def test_ctrl_c_during_the_import(
    arguments: list[str], handler: str, code: int, out: str, err: str, tmp_path: Path
) -> None:
    (tmp_path / "numpy.py").write_text(_NUMPY, encoding="utf-8")
    (tmp_path / "strided").write_text(_SCRIPT, encoding="utf-8")
    (tmp_path / "program").write_text(_PROGRAM, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(strided.__file__).parents[1])))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, getattr(signal, handler)),
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.endswith(err)
    assert done.stderr == err or handler == "SIG_IGN"


def test_the_import_gives_ctrl_c_its_usual_meaning_again(tmp_path: Path) -> None:
    (tmp_path / "strided").write_text(
        "import signal, strided\nprint(signal.getsignal(2) is signal.default_int_handler)\n", encoding="utf-8"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(strided.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "strided"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
