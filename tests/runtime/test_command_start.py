"""What happens while the command line is imported: Ctrl-C, errors, and the threads of OpenBLAS."""

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


def _run(
    folder: Path, numpy: str, *arguments: str, handler: str = "SIG_DFL", **given: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with this text in place of NumPy and this handler of SIGINT."""
    (folder / "numpy.py").write_text(numpy, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    paths = os.pathsep.join((str(folder), str(Path(strided.__file__).parents[1])))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": paths} | given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, getattr(signal, handler)),
    )


@pytest.mark.parametrize(
    ("arguments", "handler", "code", "out", "err"),
    [
        (["-m", "strided", "info", "f32[3]"], "SIG_DFL", 130, "", "strided: interrupted\n"),
        (["strided", "info", "f32[3]"], "SIG_DFL", 130, "", "strided: interrupted\n"),
        (["program", "-m", "strided"], "SIG_DFL", 0, "caught\n", ""),
        (["-m", "strided", "info"], "SIG_IGN", 2, "", "strided: not interrupted\n"),  # as in the background
    ],
)
def test_ctrl_c_during_the_import(
    arguments: list[str], handler: str, code: int, out: str, err: str, tmp_path: Path
) -> None:
    (tmp_path / "strided").write_text(_SCRIPT, encoding="utf-8")
    (tmp_path / "program").write_text(_PROGRAM, encoding="utf-8")
    done = _run(tmp_path, _NUMPY, *arguments, handler=handler)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("MemoryError", 2, "strided: not enough memory\n"),
        ("OSError(24, 'Too many open files', 'x.py')", 2, "strided: x.py: Too many open files\n"),
        ("ModuleNotFoundError('', name='numpy')", 2, "strided: strided needs numpy"),
        ("ZeroDivisionError('a mistake')", 1, "Traceback"),
    ],
)
def test_an_error_during_the_import(error: str, code: int, said: str, tmp_path: Path) -> None:
    done = _run(tmp_path, f"raise {error}\n", "-m", "strided", "info", "f32[3]")
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1 or said == "Traceback"


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_a_command_has_openblas_start_no_threads(given: dict[str, str], threads: str, tmp_path: Path) -> None:
    """Where the system starts none, OpenBLAS would end the command as Ctrl-C does."""
    numpy = "import os\nraise ImportError(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    assert _run(tmp_path, numpy, "-m", "strided", **given).stderr == f"strided: {threads}\n"
    assert _run(tmp_path, numpy, "-c", "import strided").stderr.endswith("ImportError: None\n")


@pytest.mark.parametrize("hook", ["sys.__excepthook__", "lambda *_: None"])  # the latter as some systems set one
def test_the_import_gives_ctrl_c_and_errors_their_usual_meaning_again(hook: str, tmp_path: Path) -> None:
    script = (
        f"import signal, sys\nsys.excepthook = hook = {hook}\nimport strided\n"
        "print(signal.getsignal(2) is signal.default_int_handler and sys.excepthook is hook)\n"
    )
    (tmp_path / "strided").write_text(script, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(strided.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "strided"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
