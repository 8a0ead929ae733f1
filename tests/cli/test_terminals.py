"""Narrow terminals, poor ones, and every encoding."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided.demo import SHAPE
from tests import paths
from tests.commands import TEXT, Run, in_process_of_its_own
from tests.thinned import thinned


@pytest.mark.parametrize("columns", [40, 60])
def test_explanations_summaries_and_lists_fit_the_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: int
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(6e9, 6.6e9, 1e6))
    np.save("word.npy", np.array(["a"]))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "module_0001.f.snapshot.7.pb").write_bytes(b"\x0a\x7f")
    monkeypatch.setenv("COLUMNS", str(columns))
    text = "bf16[17,300]{1,0:T(8,128)(2,1)}"
    for command in (
        ("info", text, "--at", "9,200"),
        ("info", text, "--byte", "17000"),
        ("show", "x.npy"),
        ("show", "x.npy", "--stats"),
        ("show", "x.npy", "--histogram"),
        ("ls", "x.npy", "word.npy", "d"),
    ):
        code, out, err = run(*command)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= columns, command
    assert " ".join(out.split()).endswith("should be 127 bytes long, 0 bytes remained")


@pytest.mark.parametrize("columns", [30, 80])
def test_the_caret_stands_under_the_place(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in ("bf16[64,256]{1,0:T(8,,128)}", f"({'f32[3],' * 40}f32[3,,5])", "f32[" + "1," * 500):
        code, _, err = run("info", text)
        first, second = err.splitlines()
        with pytest.raises(sd.NotationError, match=r"^expected a (tile|dimension) size, found ") as caught:
            sd.parse(text)
        place = caught.value.position
        assert (code, caught.value.text) == (2, text)
        assert place is not None
        assert first[second.index("^") :][:1] == text[place : place + 1]


@pytest.mark.parametrize(
    "command",
    thinned(map(pytest.param, [("explore", TEXT, "-o"), ("info", "f32[99,99]{1,0:T(8,128)}", "--svg")]), 2),
)
@pytest.mark.slow
def test_pages_and_pictures_are_utf8_in_every_encoding(command: tuple[str, ...], tmp_path: Path) -> None:
    """A page is refused by its own policy if a character of its script is another one."""
    out = tmp_path / ("x.html" if command[0] == "explore" else "x.svg")
    start = [sys.executable, "-m", "strided", *command]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([*start, "-"], capture_output=True, timeout=60, check=True, env=environment)
    subprocess.run([*start, str(out)], timeout=60, check=True)
    assert done.stdout == out.read_bytes() + b"\n"
    assert not out.read_bytes().isascii()


def test_a_poor_terminal_is_no_error() -> None:
    done = in_process_of_its_own("info", TEXT, env=os.environ | {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("encoding", "command"),
    thinned(
        itertools.product(
            ["cp1252", "latin-1", "cp437", "ascii"],
            [
                ("padding", "dump.bin", SHAPE),
                ("memory", paths.DATA / "memory" / "complex_matmul.hlo.txt.gz"),
                ("info", "f32[999,999]{1,0:T(8,128)}"),
            ],
        ),
        13,
    ),
)
def test_pictures_have_a_mark_for_each_of_theirs_in_every_encoding(
    encoding: str, command: tuple[str | Path, ...], dump: Path
) -> None:
    found, wanted = (
        in_process_of_its_own(
            *command, env=os.environ | {"PYTHONIOENCODING": each}, encoding=each, cwd=dump.parent
        ).stdout
        for each in (encoding, "utf-8")
    )
    pairs = {(a, b) for a, b in zip(wanted, found, strict=True) if not a.isascii()}
    assert pairs
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert not {b for _, b in pairs} & set("?!|0123456789")
