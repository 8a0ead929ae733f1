"""`strided --help` and `--version`, what shells complete, and what is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import strided as sd
from strided.cli.group import COMMANDS
from tests.commands import TEXT, Run


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"strided {sd.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("info", "-h"), ("show", "--help")])
def test_help(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: strided")


@pytest.mark.parametrize("columns", [40, 50, 80])
def test_help_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in ((), *((name,) for name in COMMANDS)):
        code, out, err = run(*command, "--help")
        assert (code, err) == (0, "")
        lines = [line for line in out.splitlines() if "[v2|v3|" not in line]  # one word
        assert max(map(len, lines)) <= columns, command


def test_help_names_no_range_without_a_bound(run: Run) -> None:
    for name in COMMANDS:
        assert "None]" not in run(name, "--help")[1], name


def test_completion_of_commands_options_and_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_STRIDED_COMPLETE", "bash_complete")
    files = ["show", "memory", "copies", "info --svg", "diff a b --svg", "identify a --like", "padding a --scrub"]
    files += ["explore a -o", "explore a --against"]
    tries = [
        ("con", "plain,convert"),
        ("show --hi", "plain,--histogram"),
        *((f"{words} x", "file,x") for words in files),
    ]
    for words, wanted in tries:
        monkeypatch.setenv("COMP_WORDS", f"strided {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert run()[1].split() == [wanted]


def test_completion_says_nothing_about_a_command_that_there_is_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_STRIDED_COMPLETE", "bash_complete")
    for words in ("strided conv file --", "strided nothing "):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        code, _, err = run()
        assert (code, err) == (0, "")


def test_a_command_loads_no_other_one() -> None:
    script = (
        "import sys\nfrom strided.cli import main\n"
        "try:\n    main(['info', 'f32[3,5]'])\n"
        f"except SystemExit:\n    print('LOADED', *(n for n in {COMMANDS} if f'strided.cli.{{n}}' in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED info"


def test_help_and_info_load_no_compiler() -> None:
    script = (
        "import sys\nfrom strided.cli import main\n"
        f"for arguments in {(['--help'], ['info', TEXT], ['demo'])}:\n"
        "    try:\n        main(arguments)\n"
        "    except SystemExit:\n        print('LOADED', arguments[0], 'numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = [line for line in done.stdout.splitlines() if line.startswith("LOADED")]
    assert loaded == ["LOADED --help False", "LOADED info False", "LOADED demo False"]
