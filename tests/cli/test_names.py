"""An array has one name, whichever command reads it."""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import strided as sd
from strided import cli
from strided.demo import SHAPE, expected, sample
from strided.io.convert_file import write_arrays
from tests import paths
from tests.commands import Run
from tests.thinned import thinned
from tests.zstd_writer import zstd_compressed

COMMANDS = ["show", "convert", "diff", "identify", "padding", "explore"]
#: Every form of the array of the demonstration.
FORMS = {
    "raw bytes": ("x.bin", SHAPE),
    "gzip": ("x.bin.gz", SHAPE),
    "zstd": ("x.bin.zst", SHAPE),
    "npy": ("x.npy",),
    "npy in gzip": ("x.npy.gz",),
    "npz": ("x.npz:w",),
    "compressed npz": ("c.npz:w",),
    "safetensors": ("x.safetensors:layer/w",),
    "layout in safetensors": ("t.safetensors",),
    "zarr": ("x.zarr",),
    "layout in zarr": ("t.zarr:t",),
    "zarr group": ("g.zarr:layer/w",),
    "dump": ("dump:argument0",),
    "snapshot": ("snapshot.pb:argument0",),
    "standard input": ("-", SHAPE),
}
#: Those whose bytes are in the layout of the demonstration.
TILED = ("raw bytes", "gzip", "zstd", "layout in safetensors", "layout in zarr", "standard input")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    tiled = sd.LayoutArray(np.frombuffer(sample(), np.uint8), SHAPE)
    values = expected().astype(np.float32)
    (folder / "x.bin").write_bytes(sample())
    (folder / "long.bin").write_bytes(sample() + b"\7" * 100_000)
    (folder / "x.bin.gz").write_bytes(gzip.compress(sample()))
    np.save(folder / "x.npy", values)
    (folder / "x.npy.gz").write_bytes(gzip.compress((folder / "x.npy").read_bytes()))
    np.savez(folder / "x.npz", w=values, b=values[0])
    np.savez_compressed(folder / "c.npz", w=values)
    sd.save_safetensors(folder / "x.safetensors", {"layer/w": tiled, "b": np.arange(3)})
    layout = str(tiled.layout)
    sd.save_safetensors(folder / "t.safetensors", {"w": tiled}, layout)
    write_arrays({"t": tiled}, folder / "t.zarr", layout, overwrite=False)
    write_arrays({"x": tiled}, folder / "x.zarr", None, overwrite=False)
    write_arrays({"layer/w": tiled, "b": values}, folder / "g.zarr", None, overwrite=False)
    with zipfile.ZipFile(paths.DATA / "dump" / "dump.zip") as archive:
        (name,) = (name for name in archive.namelist() if "while_loop.snapshot" in name)
        archive.extract(name, folder / "dump")
    sd.write_snapshot(folder / "dump" / name, (tiled.to_numpy(),), ())
    shutil.copy(folder / "dump" / name, folder / "snapshot.pb")
    return folder


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: object
) -> tuple[int, str, str]:
    """Run a command in the folder, with raw bytes on standard input."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    reading, writing = os.pipe()
    os.write(writing, sample())  # fits a pipe
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=pipe, isatty=lambda: False, fileno=pipe.fileno))
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(("form", "command"), thinned(list(itertools.product(FORMS, COMMANDS)), 5))
def test_every_command_takes_every_form(
    command: str,
    form: str,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = FORMS[form]
    if form == "zstd":
        (made / "x.bin.zst").write_bytes(zstd_compressed(sample()))
    more = {
        "convert": [str(tmp_path / "out.npy")],
        "diff": ["x.npy"],
        "explore": ["-o", str(tmp_path / "page.html")],
        "identify": ["--like", "x.npz:w"],
    }
    code, out, err = run(capsys, monkeypatch, made, command, *names, *more.get(command, []))
    assert (code, err) == (0, "")
    match command:
        case "show":
            assert "shape (5, 131)" in out
        case "convert":
            assert np.array_equal(sd.load_npy(tmp_path / "out.npy").astype(np.float32), expected())
        case "diff":
            assert "all 655 elements are equal" in out
        case "identify":
            assert out.startswith("certain")
        case "padding":
            assert ("no padding" in out) == (form not in TILED)
        case "explore":
            assert (tmp_path / "page.html").stat().st_size > 10_000


def test_diff_calls_arrays_what_they_were_called(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run(capsys, monkeypatch, made, "diff", "x.npz:w", "dump:argument0")[1]
    assert out.splitlines()[:2] == ["a: x.npz:w: f32[5,131]{1,0}", f"b: dump:argument0: {SHAPE.split('{')[0]}{{1,0}}"]


def test_two_stores_are_two_arrays(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(capsys, monkeypatch, made, "diff", "x.zarr", "x.zarr")
    assert code == 0
    assert "all 655 elements are equal" in out
    assert "a: x.zarr: " in out
    assert (
        run(capsys, monkeypatch, made, "explore", "x.zarr", "--against", "x.zarr", "-o", str(tmp_path / "p.html"))[0]
        == 0
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_bytes_behind_the_array_are_taken_on_demand(
    command: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"convert": [tmp_path / "x.npy"], "diff": ["x.bin"], "explore": ["-o", tmp_path / "x.html"]}
    arguments = [command, "long.bin", SHAPE, *more.get(command, [])]
    code, out, err = run(capsys, monkeypatch, made, *arguments)
    if command != "identify":
        assert (code, out) == (2, "")
        assert "--allow-excess" in err
    assert run(capsys, monkeypatch, made, *arguments, "--allow-excess")[::2] == (0, "")


def test_identify_leaves_out_what_lies_behind(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, columns = np.mgrid[:17, :300]
    shape = "bf16[17,300]{1,0:T(8,128)(2,1)}"
    smooth = sd.LayoutArray.from_numpy(np.sin(rows / 9 + columns / 50).astype(np.float32), shape)
    (tmp_path / "long.bin").write_bytes(smooth.buffer.tobytes() + b"\7" * 100_000)
    arguments = ["identify", tmp_path / "long.bin", "bf16[17,300]"]
    assert f" {shape}\n" not in run(capsys, monkeypatch, made, *arguments)[1]
    code, out, _ = run(capsys, monkeypatch, made, *arguments, "--allow-excess")
    assert code == 0
    assert f" {shape}\n" in out
    assert "the last 100,000 bytes are left out" in out
    code, _, err = run(capsys, monkeypatch, made, "identify", "long.bin", "--allow-excess")
    assert (code, err.count("\n")) == (2, 1)
    assert "give type and dimensions" in err


@pytest.mark.parametrize(
    ("source", "command"),
    thinned([(s, c) for s in ("x.safetensors", "x.npz", "g.zarr", "dump") for c in COMMANDS if c != "convert"], 2),
)
def test_a_name_that_is_nearly_right(
    command: str,
    source: str,
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = {"x.npz": "w", "dump": "argument0"}.get(source, "layer/w")
    more = {"diff": ["x.npy"], "explore": ["-o", tmp_path / "x.html"]}
    code, out, err = run(capsys, monkeypatch, made, command, f"{source}:{right}x", *more.get(command, []))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no array is named" in err
    assert right in err


@pytest.mark.parametrize("arguments", [("x.bin.gz", SHAPE), ("x.safetensors:layer/w",), ("x.npy",)])
def test_only_raw_bytes_are_scrubbed(
    arguments: tuple[str, ...],
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, out, err = run(capsys, monkeypatch, made, "padding", *arguments, "--scrub", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "--scrub takes a file of raw bytes and its shape" in err
    assert not (tmp_path / "out").exists()


def test_the_byte_order_of_other_machines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    swapped = values.astype(values.dtype.newbyteorder("S"))
    np.save(tmp_path / "s.npy", swapped)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "s.npz", w=swapped)
    np.savez_compressed(tmp_path / "c.npz", w=swapped)
    (tmp_path / "s.npy.gz").write_bytes(gzip.compress((tmp_path / "s.npy").read_bytes()))
    shown = run(capsys, monkeypatch, tmp_path, "show", "x.npy")
    for name in ("s.npy", "s.npz:w", "c.npz:w", "s.npy.gz"):
        assert run(capsys, monkeypatch, tmp_path, "show", name) == shown
        assert "f32[2,3]{1,0}" in run(capsys, monkeypatch, tmp_path, "ls", name.removesuffix(":w"))[1]
        assert run(capsys, monkeypatch, tmp_path, "diff", name, "x.npy")[0] == 0
        assert run(capsys, monkeypatch, tmp_path, "padding", name)[0] == 0
        assert run(capsys, monkeypatch, tmp_path, "explore", name, "-o", "x.html", "-f")[0] == 0
        assert run(capsys, monkeypatch, tmp_path, "convert", name, "o.npy", "-f")[0] == 0
        assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / "s.npy").read_bytes())
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file.buffer, fileno=file.fileno, isatty=lambda: False))
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit):
            cli.main(["show", "-"])
    assert capsys.readouterr().out == shown[1]


def test_numbers_of_bytes_may_be_hexadecimal_as_addresses_are(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(bytes(range(40)))
    assert run("show", path, "u8[4]", "--offset", "0x1A")[1].startswith("[26 27 28 29]")
    assert run("info", "f32[3,5]{1,0:T(2,2)}", "--byte", "0x24") == run("info", "f32[3,5]{1,0:T(2,2)}", "--byte", 36)
    assert "'0x' is not a valid number of bytes" in run("show", path, "u8[4]", "--offset", "0x")[2]
    assert "-1 is not in the range x>=0" in run("show", path, "u8[4]", "--offset", "-1")[2]
