"""Programs, logs and reports from standard input: as from a file of the same bytes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.commands import run_command
from tests.paths import DATA

HLO = DATA / "memory" / "complex_matmul.hlo.txt.gz"
PROTO = DATA / "hlo" / "control_flow_cond_switch_while.hlo.pb.gz"
REPORT = DATA / "memory" / "hbm_arguments_v5e.report.txt.gz"


def piped(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    with path.open("rb") as file:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file, isatty=lambda: False, fileno=file.fileno))
        return run_command(capsys, *arguments)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize(
    ("command", "path"),
    [("hlo", HLO), ("hlo", PROTO), ("copies", HLO), ("copies", PROTO), ("memory", HLO), ("memory", REPORT)],
)
def test_what_reads_a_program_reads_standard_input(command, path, is_packed, tmp_path, capsys, monkeypatch):
    given = tmp_path / path.name.removesuffix("" if is_packed else ".gz")
    given.write_bytes(path.read_bytes() if is_packed else gzip.decompress(path.read_bytes()))
    code, wanted, _ = run_command(capsys, command, given, "--json")
    assert code == 0
    assert piped(given, capsys, monkeypatch, command, "-", "--json") == (0, wanted, "")


@pytest.mark.parametrize("command", ["hlo", "copies", "memory"])
def test_one_of_several_modules_on_standard_input_is_picked(command, tmp_path, capsys, monkeypatch):
    path = tmp_path / "two.hlo.txt"
    path.write_bytes(2 * (gzip.decompress(HLO.read_bytes()) + b"\n"))
    code, wanted, _ = run_command(capsys, command, path, "--module", "1", "--json")
    assert code == 0
    assert piped(path, capsys, monkeypatch, command, "-", "--module", "1", "--json") == (0, wanted, "")


def test_a_log_on_standard_input_goes_with_the_module_in_a_file(capsys, monkeypatch):
    report = DATA / "memory" / "complex_matmul.memory-usage-report.txt.gz"
    code, wanted, _ = run_command(capsys, "memory", report, HLO)
    assert code == 0
    assert piped(report, capsys, monkeypatch, "memory", "-", str(HLO)) == (0, wanted, "")


@pytest.mark.parametrize("command", ["hlo", "copies", "memory"])
@pytest.mark.parametrize(("content", "words"), [(b"", "standard input is empty"), (bytes(100), " no HLO")])
def test_what_is_no_program_is_refused(command, content, words, tmp_path, capsys, monkeypatch):
    path = tmp_path / "input"
    path.write_bytes(content)
    code, printed, error = piped(path, capsys, monkeypatch, command, "-")
    assert (code, printed) == (2, "")
    assert words in error


def test_nothing_lies_beside_standard_input(capsys, monkeypatch):
    code, _, error = piped(HLO, capsys, monkeypatch, "copies", "-", "--verify")
    assert code == 2
    assert "no module before optimizations lies beside standard input: name it with --before" in error


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs names of open pipes")
def test_what_reads_a_pipe_at_several_places_says_so(capsys):
    reading, writing = os.pipe()  # as what `<(...)` of a shell names
    name = f"/dev/fd/{reading}"
    try:
        os.write(writing, b"PK\3\4")
        assert run_command(capsys, "show", f"{name}:w") == (
            2,
            "",
            f"strided: {name}: a FIFO; only regular files are read\n",
        )
        os.close(writing)
        code, out, err = run_command(capsys, "padding", name, "f32[3,5]{1,0:T(8,128)}", "--scrub", "x.bin")
        assert (code, out) == (2, "")
        assert f"--scrub reads a file twice, and {name} is no regular file" in err
    finally:
        os.close(reading)
