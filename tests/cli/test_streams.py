"""Standard input and output: pipes, terminals, and devices that are full."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import strided as sd
from strided.demo import SHAPE, expected
from tests.commands import Run
from tests.thinned import thinned


@pytest.mark.slow
def test_a_pipe_on_both_ends(dump: Path) -> None:
    command = [sys.executable, "-m", "strided", "convert", "-", SHAPE, "-"]
    done = subprocess.run(command, input=dump.read_bytes(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", expected().tobytes())
    with dump.open("rb") as file:  # which can be read at places
        done = subprocess.run([*command, "--to", "{0,1}"], stdin=file, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, expected().T.tobytes())


@pytest.mark.parametrize("content", thinned(["npy.gz", "npy", "bin.gz"], 3))
def test_a_pipe_brings_other_things(content: str, dump: Path, tmp_path: Path) -> None:
    sd.save_npy(tmp_path / "x.npy", expected())
    raw = dump.read_bytes() if content == "bin.gz" else (tmp_path / "x.npy").read_bytes()
    shape = [SHAPE] if content == "bin.gz" else []
    command = [sys.executable, "-m", "strided", "convert", "-", *shape, str(tmp_path / "out.bin")]
    given = gzip.compress(raw) if content.endswith("gz") else raw
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out.bin").read_bytes() == expected().tobytes()


@pytest.mark.parametrize("expanded", thinned([False, True], 5))
@pytest.mark.parametrize("typed", thinned([True, False], 2))
@pytest.mark.slow
def test_diff_takes_what_the_pipe_says_of_itself(dump: Path, tmp_path: Path, expanded: bool, typed: bool) -> None:
    if typed:
        sd.save_npy(tmp_path / "x.npy", expected())
    else:
        np.save(tmp_path / "x.npy", expected())
    given = (tmp_path / "x.npy").read_bytes()
    commands = [("diff", dump, SHAPE, "-"), ("diff", "-", dump, SHAPE)]
    commands += [("explore", dump, SHAPE, "--against", "-", "-o", tmp_path / "page.html")] * expanded
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "strided", *map(str, command)],
            input=given if expanded else gzip.compress(given), capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"equal" in done.stdout or command[0] == "explore"


@pytest.mark.skipif(os.name == "nt", reason="pipes are others there")
def test_a_pipe_is_read_no_further_than_its_shape(tmp_path: Path) -> None:
    """It may never end."""
    command = f"{sys.executable} -m strided convert - 'u8[1000]' {tmp_path}/x.npy < <(cat /dev/zero)"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input holds more than the 1000 bytes that u8[1000]{0} takes" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_show_reads_standard_input(dump: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "strided", "show", "-", SHAPE, "0, :2"],
        input=dump.read_bytes(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith(b"[1 0.539062]")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals of one's own on this system")
def test_a_file_on_standard_input_says_what_it_is(
    dump: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "x.npz", w=expected().astype(np.float32))
    sd.write_snapshot(tmp_path / "x.pb", [np.arange(3)])
    (tmp_path / "x.txt").write_text(
        "HloModule m\n\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n", encoding="utf-8"
    )
    found = {}
    for path in (dump, tmp_path / "x.npz", tmp_path / "x.pb", tmp_path / "x.txt"):
        with path.open("rb") as file:
            given = SimpleNamespace(buffer=file, isatty=lambda: False, fileno=file.fileno)
            monkeypatch.setattr("sys.stdin", given)
            found[path.name] = run("show", "-")
    assert found["dump.bin"][::2] == (2, found["dump.bin"][2])
    assert found["dump.bin"][2].startswith("strided: raw bytes have no header: give the shape of standard input")
    assert "shape (5, 131), float32" in found["x.npz"][1]
    assert "[0 1 2]" in found["x.pb"][1]
    assert found["x.txt"][2].startswith("strided: standard input holds a program")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals of one's own on this system")
@pytest.mark.parametrize(
    ("arguments", "which"), thinned([(("-", SHAPE, "x.bin"), "input"), (("DUMP", SHAPE, "-"), "output")], 2)
)
def test_bytes_neither_go_to_a_terminal_nor_come_from_one(arguments: tuple[str, ...], which: str, dump: Path) -> None:
    master, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "strided", "convert", *(str(dump) if a == "DUMP" else a for a in arguments)],
            stdin=terminal, stdout=terminal if which == "output" else subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=dump.parent,
        )  # fmt: skip
    finally:
        os.close(master)
        os.close(terminal)
    assert (done.returncode, f"standard {which} is a terminal" in done.stderr) == (2, True)
    assert [p.name for p in dump.parent.iterdir()] == ["dump.bin"]


@pytest.mark.skipif(os.name == "nt", reason="pipes are others there")
def test_a_pipe_that_is_closed_early(tmp_path: Path) -> None:
    source = tmp_path / "x.bin"
    source.write_bytes(bytes(1 << 20))
    command = (
        f"{sys.executable} -m strided convert {source} 'u8[1048576]' - | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["10", "0"], "")


def test_a_closed_pipe_is_no_error(dump: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "strided", "show", str(dump), SHAPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.mark.slow
def test_a_closed_pipe_is_no_error_on_windows() -> None:
    """Where it is an argument that is not valid."""
    script = (
        "import errno, io, os, sys, strided.cli\n"
        "class Closed(io.FileIO):\n"
        "    def write(self, content):\n"
        "        if os.fstat(1).st_rdev == os.stat(os.devnull).st_rdev:\n"
        "            return super().write(content)\n"
        "        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))\n"
        "sys.stdout = io.TextIOWrapper(io.BufferedWriter(Closed(1, 'w', closefd=False)), encoding='utf-8')\n"
        "strided.cli.main(['demo'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", thinned(["", "1"], 2))
def test_a_full_disk_is_told_with_the_name_of_what_is_full(dump: Path, unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    convert = [sys.executable, "-m", "strided", "convert", dump, SHAPE, "-"]
    for command in (convert, [*convert[:3], "demo"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False, env=environment
            )
        assert (done.returncode, done.stderr) == (2, b"strided: standard output: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    thinned(
        map(pytest.param, [("info", "x"), ("identify", "nosuch"), ("diff", "nosuch", "nosuch"), ("nosuch",)]),
        3,
    ),
)
@pytest.mark.slow
def test_an_error_that_cannot_be_told_is_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "strided", *arguments], stderr=full, timeout=60, check=False, cwd=tmp_path
        )
    assert done.returncode == 2
