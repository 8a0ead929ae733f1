"""`strided diff` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided.cli import main
from strided.io.convert_file import write_arrays
from tests import paths
from tests.commands import run_command
from tests.thinned import thinned

SHAPE = "f32[16,256]{1,0:T(8,128)}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    x = np.arange(4096, dtype=np.float32).reshape(16, 256)
    a = sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")
    a.buffer.tofile("a.bin")
    np.save("x.npy", x)
    a[9] += 1
    a.buffer.tofile("b.bin")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return run_command(capsys, "diff", *arguments)


@pytest.mark.parametrize("operands", [("a.bin", SHAPE, "x.npy"), ("x.npy", "a.bin", SHAPE), ("a.bin", SHAPE, "a.bin")])
def test_equal_arrays(folder: Path, capsys: pytest.CaptureFixture[str], operands: tuple[str, ...]) -> None:
    code, out, _ = run(capsys, *operands)
    assert code == 0
    assert "all 4,096 elements are equal" in out


@pytest.mark.parametrize("other", ["x.npy", "f.npy", "big.npy", "x.npz", "x.zarr"])
def test_a_shape_that_is_left_out_is_that_of_the_other_file(
    folder: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    x = np.load("x.npy")
    np.save("f.npy", np.asfortranarray(x))
    np.savez("x.npz", x=x)
    np.save("big.npy", x.astype(">f4"))
    write_arrays({"x": x}, folder / "x.zarr", None, overwrite=False)
    (x.T if other == "f.npy" else x).tofile("raw.bin")
    for operands in (("raw.bin", other), (other, "raw.bin")):
        assert run(capsys, *operands)[0] == 0
    with pytest.raises(SystemExit) as ended:
        main(["explore", "raw.bin", "--against", other, "-o", "page.html"])
    assert ended.value.code == 0
    capsys.readouterr()


@pytest.mark.parametrize(("piped", "file"), [("raw.bin", "x.npy"), ("x.npy", "raw.bin")])
@pytest.mark.parametrize("turn", thinned([1, -1], 2))
@pytest.mark.slow
def test_the_shape_of_one_file_is_that_of_the_pipe(piped: str, file: str, turn: int, folder: Path) -> None:
    np.load("x.npy").tofile("raw.bin")
    command = [sys.executable, "-m", "strided", "diff", *("-", file)[::turn]]
    done = subprocess.run(command, input=(folder / piped).read_bytes(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_of_two_files_without_a_shape_none_says_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.load("x.npy").tofile("raw.bin")
    code, _, error = run(capsys, "raw.bin", "a.bin")
    assert (code, "raw bytes have no header" in error) == (2, True)


@pytest.mark.parametrize(
    "operands", [("a.bin", SHAPE, "b.bin", SHAPE), ("a.bin", SHAPE, "b.bin"), ("a.bin", "b.bin", SHAPE)]
)
def test_different_arrays(folder: Path, capsys: pytest.CaptureFixture[str], operands: tuple[str, ...]) -> None:
    code, out, _ = run(capsys, *operands)
    assert code == 1
    assert "all 256 mismatches lie in row 9" in out
    assert run(capsys, *operands, "--atol", "1")[0] == 0
    assert run(capsys, *operands, "--ulp", "1")[0] == 1
    code, out, _ = run(capsys, *operands, "--json", "--top", "2", "--svg", "map.svg")
    assert code == 1
    assert len(json.loads(out)["mismatches"]) == 2
    assert (folder / "map.svg").read_text(encoding="utf-8").startswith("<svg")
    code, out, error = run(capsys, *operands, "--svg", "map.svg")  # which is said before anything is compared
    assert (code, out, "--force overwrites it" in error) == (2, "", True)
    assert run(capsys, *operands, "--svg", "map.svg", "--force")[2] == ""
    assert run(capsys, *operands, "--svg", "-")[1].startswith("<svg")


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        (("a.bin",), "give two arrays"),
        (("a.bin", "x.npy", "b.bin"), "give two arrays"),
        (("a.bin", "b.bin"), "give the shape"),
        (("missing", "x.npy"), "missing: No such file"),
        (("a.bin", "f32[16,100]{1,0:T(8,128)}", "x.npy"), "takes 8192 bytes"),
        (("a.bin", "f32[8,512]{1,0:T(8,128)}", "x.npy"), "the shapes differ: a is [8, 512], b is [16, 256]"),
        (("a.bin", "f32[16,", "x.npy"), "^"),
        (("-", "-"), "standard input is one array"),
        (("x.npy", "x.npy", "--atol", "-1"), "atol must be 0 or more"),
        ((".", "x.npy"), "holds no arrays"),
        ((".", "missing"), "strided: missing: No such file"),
        (("missing", "."), "strided: missing: No such file"),
        ((".", ".", "--svg", "map.svg"), "--svg draws one array"),
    ],
)
def test_errors(folder: Path, capsys: pytest.CaptureFixture[str], operands: tuple[str, ...], message: str) -> None:
    code, out, err = run(capsys, *operands)
    assert (code, out) == (2, "")
    assert message in err


def test_dump_folders_and_arrays_in_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        paths.unpack_dump(folder / name)
    assert run(capsys, "one", "two")[0] == 0
    array = "jit_prog_while_loop/run0/result1"
    assert run(capsys, f"one:{array}", f"two:{array}")[0] == 0
    code, out, _ = run(capsys, f"one:{array}", "two:jit_prog_while_loop/run0/argument0")
    assert code == 1
    assert "of 36 elements differ" in out


@pytest.mark.parametrize("turn", [1, -1])
def test_an_offset_is_that_of_raw_bytes_alone(turn: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load("x.npy")
    np.savez("x.npz", x=x)
    for name in ("a", "b"):
        Path(f"{name}.image").write_bytes(bytes(range(128)) + Path(f"{name}.bin").read_bytes() + bytes(9999))
    raw = ("a.image", SHAPE)
    for other in (("x.npy",), ("x.npz:x",), ("a.image",), ("b.image",)):
        operands = [word for name in (raw, other)[::turn] for word in name]
        code, out, error = run(capsys, *operands, "--offset", "0x80")
        assert (code, error) == (int(other == ("b.image",)), "")
        assert "256 of 4,096 elements differ" in out or not code
    for operands in (("x.npy", "x.npz:x"), ("a.image", "x.npy"), ("x.npz:x", SHAPE, "x.npy")):
        code, _, error = run(capsys, *operands, "--offset", "128")
        assert (code, "--offset goes with" in error) == (2, True)
    Path("one").mkdir()
    code, _, error = run(capsys, "one", "one", "--offset", "128")
    assert (code, "these are dump folders" in error) == (2, True)
