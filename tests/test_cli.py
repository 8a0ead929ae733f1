"""The command line: what it prints, what it leaves behind, and how it fails."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided import cli, inspect, kernels
from strided.cli import group
from strided.demo import SHAPE, expected, sample
from strided.io.convert_file import write_arrays
from tests import paths
from tests.commands import run_command
from tests.thinned import thinned

TEXT = "f32[3,5]{1,0:T(2,2)}"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; its exit code, and what it printed on both streams."""
    monkeypatch.setenv("COLUMNS", "80")

    return partial(run_command, capsys)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    path.write_bytes(sample())
    return path


def in_process_of_its_own(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strided", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


# Information.


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
    for command in ((), *((name,) for name in group.commands.commands)):
        code, out, err = run(*command, "--help")
        assert (code, err) == (0, "")
        lines = [line for line in out.splitlines() if "[v2|v3|" not in line]  # one word
        assert max(map(len, lines)) <= columns, command


def test_info_in_words(run: Run) -> None:
    code, out, err = run("info", "bf16[17,300]{1,0:T(8,128)(2,1)}")
    assert (code, err) == (0, "")
    for words in (
        "18,432 bytes",
        "10,200 of values",
        "44.7%",
        "3 x 3 of them",
        "24 x 384",
        "HBM (S(0))",
        " 1024 1026 ",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_info_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = run("info", "bf16[17,300]{1,0:T(8,128)(2,1)}")
    assert code == 0
    assert max(map(len, out.splitlines())) <= max(columns, 31)  # the shape's text itself is not cut


def test_info_as_json(run: Run) -> None:
    code, out, _ = run("info", "--json", "(bf16[17,300]{1,0:T(8,128)(2,1)}, f32[?], token[])")
    found = json.loads(out)
    assert (code, found["byte_size"]) == (0, 18432)
    first, unknown, token = found["elements"]
    assert (first["padding_bytes"], first["tiles"], first["strides"]) == (8232, [[8, 128], [2, 1]], None)
    assert (unknown["byte_size"], token["byte_size"]) == (None, 0)


def test_info_explains_an_element_and_a_byte(run: Run) -> None:
    assert "offset 17, bytes 68 to 71" in run("info", TEXT, "--at", "2,3")[1]
    assert run("info", TEXT, "--at", "[2, 3]") == run("info", TEXT, "--at", "2,3")
    assert "element [2, 3]" in run("info", TEXT, "--byte", "70")[1]
    assert "padding of dimension 1, which ends at 5" in run("info", TEXT, "--byte", "36")[1]


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


def test_info_shows_a_plan(run: Run) -> None:
    code, out, _ = run("info", "--plan", "f32[512,512]{1,0:T(8,128)}", "{1,0}")
    assert code == 0
    assert "262,144 elements, 2,097,152 bytes moved" in out


# Values.


def test_show(run: Run, dump: Path) -> None:
    code, out, err = run("show", dump, SHAPE)
    assert (code, err) == (0, "")
    assert out.startswith("[[1 0.539062 -0.416016")
    assert "shape (5, 131), bfloat16" in out
    assert "min -1  max 1  mean 0.029537  NaN 0  Inf 0" in out


@pytest.mark.parametrize(
    ("index", "first"),
    [
        ("3, 129", "-0.28125"),
        ("-1, :3", "[1 1 1]"),
        ("[0, 2], 1", "[0.539062 0.988281]"),
        ("[0, 2], [1]", "[0.539062 0.988281]"),
        ("0, [2, 1]", "[-0.416016 0.539062]"),
        ("[]", "[]"),
        ("..., None, 0", "[[1]"),
        ("0:0", "[]"),
    ],
)
def test_show_a_part(run: Run, dump: Path, index: str, first: str) -> None:
    code, out, err = run("show", dump, SHAPE, index)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == first


def test_a_list_as_an_index_selects_rows(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12, dtype=np.int32).reshape(3, 4))
    assert run("show", path, "[1, 2]")[1].startswith("[[ 4  5  6  7]\n [ 8  9 10 11]]\n\nshape (2, 4), int32\n")
    assert run("show", path, "1, 2")[1] == "6\n"
    assert run("show", path, "[1, :2]")[1].startswith("[4 5]\n")


def test_of_a_huge_array_only_what_is_shown_is_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    write_arrays({"x": np.zeros(3, np.float32)}, path, None, overwrite=False)
    found = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(found | {"shape": [10**15]}))
    code, out, err = run("show", path)
    assert (code, err) == (0, "")
    assert out.startswith("[0. 0. 0. ... 0. 0. 0.]\n")
    assert out.endswith("\n--stats reads all 1,000,000,000,000,000 values for extremes and mean\n")


def test_show_counts_what_is_not_finite(run: Run, tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf, -np.inf], [1, 2, np.nan]], np.float32)
    path = tmp_path / "x.bin"
    sd.LayoutArray.from_numpy(values, "{0,1:T(2,2)}").buffer.tofile(path)
    assert "min 1  max 2  mean 1.5  NaN 2  Inf 2" in run("show", path, "f32[2,3]{0,1:T(2,2)}")[1]


def test_show_behind_an_offset_and_with_the_old_bit_order(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"head" + bytes([0x12, 0x34]))
    assert run("show", path, "u4[4]{0:E(4)}", "--offset", 4)[1].startswith("[2 1 4 3]")
    assert run("show", path, "u4[4]{0:E(4)}", "--offset", 4, "--bitorder", "big")[1].startswith("[1 2 3 4]")


# Conversion.


def test_convert_to_npy(run: Run, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    code, out, err = run("convert", dump, SHAPE, target)
    assert (code, err) == (0, "")
    assert f"strided.load_npy('{target}')" in out
    loaded = sd.load_npy(target)
    assert loaded.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(loaded, expected())
    np.testing.assert_array_equal(np.load(target).view(ml_dtypes.bfloat16), expected())
    assert run("show", target, "0, :2")[1].startswith("[1 0.539062]")


def test_convert_to_raw_bytes(run: Run, dump: Path, tmp_path: Path) -> None:
    there, back, plain = tmp_path / "there.bin", tmp_path / "back.bin", tmp_path / "plain.bin"
    assert run("convert", dump, SHAPE, there, "--to", "{0,1:T(8,128)(2,1)}")[0] == 0
    assert run("convert", there, "bf16[5,131]{0,1:T(8,128)(2,1)}", back, "--to", "{1,0:T(8,128)(2,1)}")[0] == 0
    assert run("convert", dump, SHAPE, plain)[0] == 0
    np.testing.assert_array_equal(sd.open(back, SHAPE), expected())
    np.testing.assert_array_equal(np.fromfile(plain, ml_dtypes.bfloat16).reshape(5, 131), expected())
    assert back.read_bytes() == sd.LayoutArray.from_numpy(expected(), "{1,0:T(8,128)(2,1)}").buffer.tobytes()


@pytest.mark.parametrize("text", ["f32[]", "f32[0,3]", "s4[3]{0:E(4)}", "pred[2,3]{0,1:T(4)}", "c64[2]{0:T(128)M(16)}"])
def test_convert_small_things(run: Run, tmp_path: Path, text: str) -> None:
    shape = sd.parse(text)
    values = np.arange(shape.size).reshape(shape.dimensions).astype(shape.dtype)
    source, target, raw = tmp_path / "x.bin", tmp_path / "x.npy", tmp_path / "y.bin"
    array = sd.LayoutArray.from_numpy(values, shape)
    prefix = shape.layout.dynamic_shape_metadata_prefix_bytes
    source.write_bytes(bytes(prefix) + array.buffer.tobytes())
    assert run("convert", source, text, target)[0] == 0
    loaded = sd.load_npy(target)
    assert loaded.dtype == shape.dtype
    np.testing.assert_array_equal(loaded, values)
    assert run("convert", source, text, raw, "--to", shape.layout)[0] == 0
    assert raw.read_bytes() == source.read_bytes()


def test_large_files_go_through_in_blocks(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strided.io.write_values.BLOCK_BYTES", 5000)
    values = np.random.default_rng(0).standard_normal((37, 3, 211)).astype(np.float32)
    source, target = tmp_path / "x.bin", tmp_path / "y.bin"
    sd.LayoutArray.from_numpy(values, "{2,0,1:T(8,128)}").buffer.tofile(source)
    for layout in ("{2,0,1:T(4,32)}", "{0,1,2:T(8,128)}", "{2,1,0}"):
        assert run("convert", source, "f32[37,3,211]{2,0,1:T(8,128)}", target, "--to", layout, "-f")[0] == 0
        assert target.read_bytes() == sd.LayoutArray.from_numpy(values, layout).buffer.tobytes()
    assert run("convert", source, "f32[37,3,211]{2,0,1:T(8,128)}", tmp_path / "y.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), values)


@pytest.mark.parametrize("how", ["itself", "symlink", "hard link", "another path"])
@pytest.mark.parametrize("options", [(), ("--force",), ("--force", "--to", "{0,1}")])
def test_a_source_is_never_its_own_target(
    run: Run, dump: Path, tmp_path: Path, how: str, options: tuple[str, ...]
) -> None:
    target = {"itself": dump, "another path": tmp_path / ".." / tmp_path.name / "dump.bin"}.get(how, tmp_path / "x.bin")
    if how == "symlink":
        target.symlink_to(dump)
    if how == "hard link":
        os.link(dump, target)
    code, out, err = run("convert", dump, SHAPE, target, *options)
    assert (code, out) == (2, "")
    assert "source and target are the same file" in err
    with pytest.raises(OSError, match="same file"):
        sd.convert_file(dump, SHAPE, target, layout="{1,0}")
    assert dump.read_bytes() == sample()


def test_what_is_there_stays_without_force(run: Run, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    target.write_bytes(b"as it was")
    code, out, err = run("convert", dump, SHAPE, target)
    assert (code, out) == (2, "")
    assert err == f"strided: {target} already exists; --force overwrites it\n"
    with pytest.raises(FileExistsError):
        sd.convert_file(dump, SHAPE, target, overwrite=False)
    assert target.read_bytes() == b"as it was"
    for force in ("--force", "-f"):
        assert run("convert", dump, SHAPE, target, force)[0] == 0
        np.testing.assert_array_equal(sd.load_npy(target), expected())
    sd.convert_file(dump, SHAPE, target)  # as numpy.save


@pytest.mark.parametrize("name", ["out.csv", "out.h5", "out.PT", "out.npy.gz", "a.txt"])
@pytest.mark.parametrize("options", [(), ("--to", "{0,1}")])
def test_endings_of_other_formats_are_not_written(
    run: Run, dump: Path, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    code, out, err = run("convert", dump, SHAPE, tmp_path / name, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "only .npy, .npz, .safetensors, .zarr and raw bytes" in err
    with pytest.raises(sd.UnsupportedError, match=r"only \.npy, \.npz, \.safetensors, .zarr and raw bytes"):
        sd.convert_file(dump, SHAPE, tmp_path / name, layout="{0,1}")
    assert [p.name for p in tmp_path.iterdir()] == ["dump.bin"]


def test_raw_bytes_go_to_names_that_say_so_or_with_a_layout(run: Run, dump: Path, tmp_path: Path) -> None:
    values = expected().tobytes()
    for name in ("a.bin", "a.raw", "a.dat", "a"):
        assert run("convert", dump, SHAPE, tmp_path / name)[0] == 0
        assert (tmp_path / name).read_bytes() == values
    code, _, err = run("convert", dump, SHAPE, tmp_path / "a.other")
    assert (code, "the ending does not say what to write" in err) == (2, True)
    code, _, err = run("convert", dump, SHAPE, tmp_path / "a.npy:name")
    assert (code, "a.npy holds one array, which has no name: leave ':name' out" in err) == (2, True)
    assert run("convert", dump, SHAPE, tmp_path / "a.other", "--to", "{1,0}")[0] == 0
    assert (tmp_path / "a.other").read_bytes() == values


def test_a_loop_of_links_is_an_error(run: Run, dump: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop.npy"
    loop.symlink_to(loop)
    for arguments in (("convert", dump, SHAPE, loop), ("convert", loop, SHAPE, tmp_path / "x.npy"), ("show", loop)):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(OSError, match="symbolic links"):
        sd.convert_file(dump, SHAPE, loop)
    with pytest.raises(OSError, match="symbolic links"):
        sd.save_npy(loop, expected())


# Standard output and input.


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


@pytest.mark.parametrize("expanded", thinned([True, False], 5))
@pytest.mark.parametrize("typed", thinned([True, False], 2))
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
    (tmp_path / "x.txt").write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n")
    found = {}
    for path in (dump, tmp_path / "x.npz", tmp_path / "x.pb", tmp_path / "x.txt"):
        with path.open("rb") as file:
            given = SimpleNamespace(buffer=file, isatty=lambda: False, fileno=file.fileno)
            monkeypatch.setattr("sys.stdin", given)
            found[path.name] = run("show", "-")
    assert found["dump.bin"][::2] == (2, found["dump.bin"][2])
    assert found["dump.bin"][2].startswith(
        "strided: raw bytes do not say what they are: give the shape of standard input"
    )
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


def test_a_pipe_that_is_closed_early(tmp_path: Path) -> None:
    source = tmp_path / "x.bin"
    source.write_bytes(bytes(1 << 20))
    command = (
        f"{sys.executable} -m strided convert {source} 'u8[1048576]' - | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["10", "0"], "")


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_links_and_permissions_stay(run: Run, dump: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.npy", tmp_path / "link.npy"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("convert", dump, SHAPE, link, "--force")[0] == 0
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(sd.load_npy(link), expected())


# Dumps.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump folder with a program, and a snapshot of one run of it."""
    path = tmp_path / "dump"
    path.mkdir()
    argument = sd.LayoutArray.from_numpy(np.arange(15, dtype=np.float32).reshape(3, 5), "{0,1}")
    module = "HloModule jit_f\n\nENTRY e {\n  p = f32[3,5]{0,1} parameter(0)\n  ROOT n = f32[3,5]{0,1} negate(p)\n}\n"
    (path / "module_0000.jit_f.before_optimizations.txt").write_text(module, encoding="utf-8")
    sd.write_snapshot(path / "module_0000.jit_f.snapshot.7.pb", [argument], argument)
    return path


def test_ls(run: Run, folder: Path) -> None:
    code, out, err = run("ls", folder)
    assert (code, err) == (0, "")
    assert "1 program, 2 files" in out
    assert "argument0: f32[3,5]{0,1}" in out


def test_show_an_array_of_a_dump(run: Run, folder: Path) -> None:
    code, out, err = run("show", f"{folder}:argument0", "1, 1:3")
    assert (code, err) == (0, "")
    assert out.startswith("[6. 7.]")
    code, out, err = run("show", f"{folder}:argument7")
    assert (code, out) == (2, "")
    assert "no array is named 'argument7'" in err


def test_one_file_of_a_dump(run: Run, folder: Path) -> None:
    snapshot = folder / "module_0000.jit_f.snapshot.7.pb"
    code, out, err = run("ls", snapshot)
    assert (code, err) == (0, "")
    assert "argument0: f32[3,5]{0,1}" in out
    assert "jit_f" in run("ls", folder / "module_0000.jit_f.before_optimizations.txt")[1]
    code, out, err = run("show", f"{snapshot}:result0", "1, 1:3")
    assert (code, err) == (0, "")
    assert out.startswith("[6. 7.]")
    code, out, err = run("show", f"{snapshot}:result3")
    assert (code, out) == (2, "")
    assert err == f"strided: {snapshot}: no array is named 'result3'; did you mean result0?\n"
    code, out, err = run("ls", snapshot, "--kind", "allocations")
    assert (code, out) == (2, "")
    assert err.startswith("strided: ")


def test_hlo(run: Run, folder: Path) -> None:
    file = folder / "module_0000.jit_f.before_optimizations.txt"
    code, out, err = run("hlo", file, "--opcode", "neg*")
    assert (code, err) == (0, "")
    assert "1 of 1 values" in out
    assert json.loads(run("hlo", file, "--json")[1])["values"][0] == {
        "name": "n", "opcode": "negate", "shape": "f32[3,5]{0,1}", "bytes": 60, "unpadded_bytes": 60
    }  # fmt: skip


# Failure.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frob",), "no command is called 'frob'"),
        (("info",), "missing argument 'SHAPE'"),
        (("info", "f32[3,,5]"), "expected a dimension size"),
        (("info", "{1,0}"), "is a layout alone"),
        (("info", TEXT, "--at", "3,0"), "out of bounds"),
        (("info", TEXT, "--byte", "96"), "outside a buffer of 96 bytes"),
        (("info", "--plan", "f32[3]", "f32[4]"), "not the same array"),
        (("show", "DUMP"), "give the shape"),
        (("show", "nowhere.bin", SHAPE), "nowhere.bin: No such file"),
        (("show", "DUMP", "f32[5,131]{1,0:T(8,128)}"), "takes 8192 bytes, but the buffer has 4096"),
        (("show", "DUMP", SHAPE, "9"), "index 9 is out of bounds for axis 0 with size 5"),
        (("show", "DUMP", SHAPE, "__import__('os')"), "expected integers, slices"),
        (("show", "DUMP", SHAPE, "0", "1"), "an index is one operand"),
        (("show", "DUMP", SHAPE, "--frob"), "--frob"),
        (("show", "DIR"), "is a folder"),
        (("convert", "DUMP", SHAPE, "out.npy", "--to", "{0,1}"), ".npy files are row-major"),
        (("convert", "DUMP", SHAPE, "DIR/none/out.npy"), "No such file or directory"),
        (("convert", "DUMP", SHAPE, "DIR"), "is a folder: name a file in it"),
        (("convert", "DUMP", SHAPE, "out.bin", "--to", "{0}"), "dimensions"),
        (("convert", "DUMP", "(f32[3], f32[2])", "out.npy"), "is a tuple"),
        (("convert",), "Missing argument 'FILE'"),
        (("convert", "DUMP"), "Missing argument 'OUT'"),
        (("convert", "DUMP", SHAPE), "Missing argument 'OUT'"),
        (("convert", "DUMP", SHAPE, "a", "b"), "a: No such file"),
        (("convert", "DUMP", "out.npy"), "raw bytes do not say what they are"),
        (("show", "DUMP"), "'strided identify' looks for it"),
        (("show", "DUMP", "(5,131)"), "'(5,131)' is no shape, and raw bytes do not say what they are"),
        (("ls", "DUMP"), "'strided identify' looks for it"),
        (("info", TEXT, "--at", "1"), "has 2 numbers, not 1"),
        (("info", TEXT, "--at", "1,:"), "one integer for each dimension"),
        (("hlo", "nowhere.txt"), "No such file"),
        (("ls", "nowhere"), "No such file"),
        (("show", SHAPE, "DUMP"), "the file comes first, then its shape"),
        (("show", "DIR", SHAPE), "is a folder"),
        (("convert", "DIR", "out.npy"), "is a folder"),
        (("info", "bfloat16[3]"), "did you mean bf16?"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "frob"), "no element type 'frob'; those of arrays are"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "e5m2"), "did you mean f8e5m2 or f8e5m2fnuz?"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "token"), "--dtype: token has no values"),
        (("convert", "DUMP", SHAPE, "DUMP", SHAPE, "out.npz"), "two arrays are called 'dump'"),
        (("convert", "DUMP", SHAPE, "DUMP:x", "out.npz"), "holds one array, which has no name"),
        (("convert", "DUMP", SHAPE, "out.npz", "--to", "{0,1}"), ".npz files are row-major"),
        (("info", "(f32[3])", "--svg", "out.svg"), "expected the shape of one array"),
    ],
)
def test_errors_are_one_or_two_lines(run: Run, dump: Path, arguments: tuple[str, ...], words: str) -> None:
    places = {"DUMP": str(dump), "DIR": str(dump.parent)}
    before = sorted(dump.parent.iterdir())
    code, out, err = run(*(a.replace("DUMP", places["DUMP"]).replace("DIR", places["DIR"]) for a in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert 1 <= err.count("\n") <= 2
    assert sorted(dump.parent.iterdir()) == before


@pytest.mark.parametrize(("told", "words"), [((), "the input ends too early"), (("x.bin is cut",), "x.bin is cut")])
def test_an_input_that_ends_early_is_no_interruption(
    run: Run, dump: Path, monkeypatch: pytest.MonkeyPatch, told: tuple[str, ...], words: str
) -> None:
    def end(*_: object, **__: object) -> None:
        raise EOFError(*told)

    monkeypatch.setattr(inspect, "statistics", end)
    code, _, err = run("show", dump, SHAPE)
    assert (code, err) == (2, f"strided: {words}\n")


@pytest.mark.parametrize("columns", [30, 80])
def test_the_caret_stands_under_the_place(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in ("bf16[64,256]{1,0:T(8,,128)}", f"({'f32[3],' * 40}f32[3,,5])", "f32[" + "1," * 500):
        code, _, err = run("info", text)
        first, second = err.splitlines()
        with pytest.raises(sd.NotationError) as caught:
            sd.parse(text)
        place = caught.value.position
        assert (code, caught.value.text) == (2, text)
        assert place is not None
        assert first[second.index("^") :][:1] == text[place : place + 1]


def test_a_full_disk_leaves_what_was_there(dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    target.write_bytes(b"as it was")
    resource = pytest.importorskip("resource")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    # Bytecode that Python cuts off at the limit, it takes for whole afterwards.
    environment = os.environ | {"STRIDED_CACHE": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = in_process_of_its_own("convert", dump, SHAPE, target, "--force", preexec_fn=limit, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert target.read_bytes() == b"as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump.bin", "out.npy"]


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
        f"{'import os; del os.O_TMPFILE' if with_names else ''}\n"
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


@pytest.mark.parametrize("module", thinned(["strided.cli.run", "click", "strided.cli.memory", "strided.dumps.hlo"], 2))
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


@pytest.mark.parametrize("command", [("info", "f32[99,99]{1,0:T(8,128)}", "--svg"), ("explore", TEXT, "-o")])
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
        7,
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


def test_help_and_info_load_no_compiler() -> None:
    for arguments in (["--help"], ["info", TEXT], ["demo"]):
        code = (
            "import sys\nfrom strided.cli import main\n"
            f"try:\n    main({arguments!r})\nexcept SystemExit:\n    print('LOADED', 'numba' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.endswith("LOADED False\n")


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
def test_an_error_that_cannot_be_told_is_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "strided", *arguments], stderr=full, timeout=60, check=False, cwd=tmp_path
        )
    assert done.returncode == 2


def test_all_elements_of_a_byte_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["info", "s4[3,5]{1,0:E(4)}", "--byte", "2"])
    out = capsys.readouterr().out
    assert [out.count(text) for text in ("[0, 4]", "[1, 0]", "bits 0 to 3", "bits 4 to 7")] == [1, 1, 1, 1]


# Files that hold arrays by name.


@pytest.fixture
def container(tmp_path: Path) -> Path:
    path = tmp_path / "w.safetensors"
    sd.save_safetensors(path, {"layer/w": expected(), "b": np.arange(3)})
    np.savez(tmp_path / "w.npz", w=expected().astype(np.float32))
    np.savez_compressed(tmp_path / "c.npz", w=expected().astype(np.float32))
    return path


def test_ls_names_what_show_takes(run: Run, container: Path) -> None:
    code, out, err = run("ls", container)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()[-2:]) == ["  b: s64[3]{0}", "  layer/w: bf16[5,131]{1,0}"]
    assert "2 arrays" in out.replace("\n   ", "")
    found = {a["name"]: a["shape"] for a in json.loads(run("ls", container, "--json")[1])["arrays"]}
    assert found == {"layer/w": "bf16[5,131]{1,0}", "b": "s64[3]{0}"}
    for name in found:
        assert run("show", f"{container}:{name}", "...")[0] == 0
    assert run("show", f"{container}:b")[1].startswith("[0 1 2]")
    assert "w: f32[5,131]{1,0}" in run("ls", container.parent / "w.npz")[1]


@pytest.mark.parametrize("name", ["w.npz", "w.npz:w", "c.npz:w", "w.safetensors:layer/w"])
def test_show_an_array_by_name(run: Run, container: Path, name: str) -> None:
    code, out, err = run("show", container.parent / name, "0, 1")
    assert (code, out, err) == (0, "0.539062\n" if "safe" in name else "0.5390625\n", "")


@pytest.mark.parametrize("command", ["hlo", "memory", "copies", "explore"])
def test_one_of_several_modules_is_read(run: Run, tmp_path: Path, command: str) -> None:
    path, more = tmp_path / "two.txt", ["-o", "-"] if command == "explore" else []
    path.write_text(
        "".join(f"HloModule {n}\n\nENTRY e {{\n  ROOT p = f32[9] parameter(0)\n}}\n\n" for n in ("one", "two"))
    )
    assert run(command, path, *more)[0] == 2
    for number, name in enumerate(("one", "two")):
        code, out, err = run(command, path, "--module", number, *more)
        assert (code, err) == (0, "")
        assert name in out
        assert ("two", "one")[number] + ":" not in out


@pytest.mark.parametrize("compress", ["gzip", "zstd"])
def test_compressed_files(run: Run, dump: Path, compress: str) -> None:
    path = dump.with_suffix(".bin.x")
    if compress == "gzip":
        path.write_bytes(gzip.compress(dump.read_bytes()))
    else:
        path.write_bytes(pytest.importorskip("zstandard").compress(dump.read_bytes()))
    assert run("show", path, SHAPE, "0, 1")[1] == "0.539062\n"
    assert run("convert", path, SHAPE, dump.parent / "y.npy")[0] == 0
    np.testing.assert_array_equal(sd.load_npy(dump.parent / "y.npy"), expected())


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors", "out.zarr"])
def test_convert_several_arrays(run: Run, dump: Path, container: Path, name: str) -> None:
    target = dump.parent / name
    code, out, err = run("convert", container, dump, SHAPE, f"{dump.parent}/w.npz:w", target)
    assert (code, err) == (0, "")
    assert "4 arrays" in out
    for key, values in {"layer/w": expected(), "b": np.arange(3), "dump": expected(), "w": expected()}.items():
        np.testing.assert_array_equal(sd.open(f"{target}:{key}").to_numpy().astype(np.float32), values)
    if name == "out.npz":
        with np.load(target) as library:
            np.testing.assert_array_equal(library["w"], expected().astype(np.float32))
    assert run("convert", dump, SHAPE, f"{target}:mine")[0] == 2
    assert run("convert", dump, SHAPE, f"{target}:mine", "--force")[0] == 0
    assert [found["name"] for found in json.loads(run("ls", target, "--json")[1])["arrays"]] == ["mine"]


def test_raw_bytes_of_a_layout_are_opened_again_by_name(run: Run, dump: Path) -> None:
    target = dump.parent / "x.safetensors"
    code, out, _ = run("convert", dump, SHAPE, target, "--to", "{0,1:T(8,128)(2,1)}")
    assert (code, "bf16[5,131]{0,1:T(8,128)(2,1)}" in out) == (0, True)
    array = sd.open(f"{target}:dump")
    assert array.layout == sd.parse("{0,1:T(8,128)(2,1)}")
    np.testing.assert_array_equal(array, expected())


@pytest.mark.parametrize(
    ("options", "dtype", "key"),
    [
        (("--dtype", "float32"), "float32", ...),
        (("--dtype", "torch.float32"), "float32", ...),
        (("--index", "1, ::-2"), "bfloat16", np.s_[1, ::-2]),
        (("--index", "[2, 0]", "--dtype", "f16"), "float16", [2, 0]),
        (("--index", "-1, 3", "--dtype", "bf16"), "bfloat16", (-1, 3)),
    ],
)
def test_convert_a_part_to_another_type(
    run: Run, dump: Path, options: tuple[str, ...], dtype: str, key: object
) -> None:
    for name in ("out.npy", "out.npz", "out.safetensors", "out.zarr", "out.bin"):
        target = dump.parent / name
        code, _, err = run("convert", dump, SHAPE, target, *options)
        assert (code, err) == (0, "")
        values = expected()[key].astype(dtype)
        if name == "out.bin":
            assert target.read_bytes() == values.tobytes()
        else:
            found = sd.open(target)
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)


def test_one_snapshot_without_a_name(run: Run, folder: Path) -> None:
    snapshot = folder / "module_0000.jit_f.snapshot.7.pb"
    code, _, err = run("show", snapshot)
    assert (code, "name one, as in" in err) == (2, True)
    assert run("convert", folder, folder.parent / "all.npz")[0] == 0
    assert sorted(np.load(folder.parent / "all.npz")) == ["jit_f/argument0", "jit_f/result0"]


def test_a_program_holds_no_arrays(run: Run, folder: Path) -> None:
    code, out, err = run("show", folder / "module_0000.jit_f.before_optimizations.txt")
    assert (code, out, "'strided hlo' lists its values" in err) == (2, "", True)


# Forms.


def test_values_that_are_no_numbers_are_shown(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(["a", "b"]))
    code, out, err = run("show", tmp_path / "x.npy")
    assert (code, out, err) == (0, "['a' 'b']\n\nshape (2,), str32\n", "")
    assert json.loads(run("show", tmp_path / "x.npy", "--json")[1])["values"] == ["a", "b"]
    assert run("show", tmp_path / "x.npy", "--csv")[1] == "a\nb\n"
    assert run("show", tmp_path / "x.npy", "--stats")[0] == 2


def test_forms_of_values(run: Run, dump: Path) -> None:
    assert run("show", dump, SHAPE, "0, :3", "--hex")[1] == "[3f80 3f0a bed5]\n"
    assert run("show", dump, SHAPE, "0, 0", "--hex")[1] == "3f80\n"
    rows = run("show", dump, SHAPE, "--csv")[1].splitlines()
    np.testing.assert_array_equal([[float(x) for x in row.split(",")] for row in rows], expected().astype(float))
    found = json.loads(run("show", dump, SHAPE, "--json")[1])
    assert (found["shape"], found["dtype"]) == ([5, 131], "bfloat16")
    np.testing.assert_array_equal(found["values"], expected().astype(float))
    assert run("show", dump, SHAPE, "--stats")[1] == "min -1  max 1  mean 0.029537  NaN 0  Inf 0\n"
    assert json.loads(run("show", dump, SHAPE, "--stats", "--json")[1])["max"] == 1
    code, out, err = run("show", dump, SHAPE, "--csv", "--hex")
    assert (code, out, "give one" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array([1, "NaT"], "m8[s]"), ["1 seconds", "NaT"]),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), ["2020-01-01", "NaT"]),
        (np.array([0.1, np.inf], np.longdouble), [0.1, "inf"]),
        (np.array([1 + 2j], np.clongdouble), [[1, 2]]),
    ],
    ids=str,
)
def test_values_that_json_lacks_are_texts(values: np.ndarray, shown: list[object], run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values)
    code, out, err = run("show", tmp_path / "x.npy", "--json")
    assert (code, err, json.loads(out)["values"]) == (0, "", shown)


def test_a_summary_of_long_doubles_is_json(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0.25, 2], np.longdouble))
    found = json.loads(run("show", tmp_path / "x.npy", "--stats", "--json")[1])
    assert (found["min"], found["max"], found["mean"]) == (0.25, 2, 1.125)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long double is no wider than double here")
def test_long_doubles_beyond_doubles_are_texts(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([np.longdouble("1e4000")]))
    assert json.loads(run("show", tmp_path / "x.npy", "--json")[1])["values"] == ["1e+4000"]
    assert json.loads(run("show", tmp_path / "x.npy", "--stats", "--json")[1])["max"] == "1e+4000"


def test_a_histogram_counts_every_finite_value(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[np.nan, np.inf, 0.5], [1, 2, 2]], np.float32))
    code, out, _ = run("show", tmp_path / "x.npy", "--histogram")
    counts = [int(line.split()[2]) for line in out.splitlines()[1:17]]
    assert (code, sum(counts), counts[0], counts[-1]) == (0, 4, 1, 2)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("values", "bins"),
    [
        (np.array([2**64 - 1, 2**64 - 3, 2**64 - 3], np.uint64), {2**64 - 3: 2, 2**64 - 2: 0, 2**64 - 1: 1}),
        (np.array([-(2**63), 2**63 - 1]), {-(2.0**63): 1}),
        (np.array([-1.7e308, 1.7e308]), {-1.7e308: 1}),
        (np.array([0.5, 0.5], np.float16), {0.5: 2}),
        (np.array([True, False, True]), {0: 1, 1: 2}),
        (np.array([0, 2, 255], np.uint8).view(np.bool_), {0: 1, 1: 2}),
        (np.array([-1, 1, 1]).astype(ml_dtypes.int4), {-1: 1, 0: 0, 1: 2}),
    ],
    ids=range(7),
)
def test_histograms_of_extremes(values: np.ndarray, bins: dict[float, int], run: Run, tmp_path: Path) -> None:
    sd.save_npy(tmp_path / "x.npy", values)
    code, out, err = run("show", tmp_path / "x.npy", "--histogram")
    rows = [line.split() for line in out.splitlines()[1:] if line and not line.startswith("min")]
    assert (code, err) == (0, "")
    assert sum(int(row[2]) for row in rows) == values.size
    for value, row in zip(bins, rows, strict=False):
        assert (float(row[0]), int(row[2])) == (pytest.approx(value), bins[value])


def test_excess_bytes_are_taken_on_demand(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(np.arange(9000, dtype=np.int32).tobytes())
    code, _, err = run("show", path, "s32[3]")
    assert (code, "too many for padding" in err, "or --allow-excess" in err) == (2, True, True)
    assert run("show", path, "s32[3]", "--allow-excess")[1].startswith("[0 1 2]")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert run("show", path, "s32[3]", "--allow-excess")[1].startswith("[0 1 2]")
    assert run("convert", path, "s32[3]", tmp_path / "y.bin", "--allow-excess")[0] == 0


@pytest.mark.parametrize(("values", "said"), [([], "no elements"), ([np.nan, np.inf], "no finite value")])
def test_a_histogram_of_nothing_says_so(values: list[float], said: str, run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(values, np.float32))
    code, out, err = run("show", tmp_path / "x.npy", "--histogram")
    assert (code, err) == (0, "")
    assert out.startswith(f"{said}: there is nothing to draw\n\n")


def test_an_svg_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert run("info", TEXT, "--svg", path)[0] == 0
    assert path.read_text(encoding="utf-8").startswith("<svg ")
    assert "--force overwrites it" in run("info", TEXT, "--svg", path)[2]
    assert run("info", TEXT, "--svg", path, "--force")[0] == 0
    assert run("info", TEXT, "--svg", "-")[1].strip() == path.read_text(encoding="utf-8").strip()


def test_negative_numbers_count_from_the_end(run: Run) -> None:
    assert run("info", TEXT, "--at", "-1,-2") == run("info", TEXT, "--at", "2,3")
    assert "out of bounds" in run("info", TEXT, "--at", "-4,0")[2]


def test_completion_of_commands_options_and_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_STRIDED_COMPLETE", "bash_complete")
    files = ["show", "memory", "copies", "info --svg", "diff a b --svg", "identify a --like", "padding a --scrub"]
    tries = [
        ("con", "plain,convert"),
        ("show --hi", "plain,--histogram"),
        *((f"{words} x", "file,x") for words in files),
    ]
    for words, wanted in tries:
        monkeypatch.setenv("COMP_WORDS", f"strided {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert run()[1].split() == [wanted]


# Programs.

_FUSED = """HloModule jit_g

inside {
  q = f32[3,5]{1,0} parameter(0)
  ROOT m = f32[3,5]{1,0} negate(q)
}

ENTRY e {
  p = f32[3,5]{1,0} parameter(0)
  ROOT f = f32[3,5]{1,0} fusion(p), kind=kLoop, calls=inside
}
"""


def test_hlo_takes_folders_and_leaves_out_the_insides_of_fusions(run: Run, folder: Path) -> None:
    assert "jit_f: 1 computation," in run("hlo", folder)[1]
    (folder / "module_0001.jit_g.after_optimizations.txt").write_text(_FUSED, encoding="utf-8")
    assert run("hlo", folder)[1].splitlines() == [f"{folder}:jit_f", f"{folder}:jit_g"]
    assert json.loads(run("hlo", folder, "--json")[1]) == {"programs": [f"{folder}:jit_f", f"{folder}:jit_g"]}
    listed = [value["name"] for value in json.loads(run("hlo", f"{folder}:jit_g", "--json")[1])["values"]]
    assert sorted(listed) == ["f", "p"]
    listed = [value["name"] for value in json.loads(run("hlo", f"{folder}:jit_g", "--json", "--fused")[1])["values"]]
    assert sorted(listed) == ["f", "m", "p", "q"]
    assert "did you mean jit_f" in run("hlo", f"{folder}:jif_f")[2]
    found = json.loads(run("ls", folder, "--json")[1])
    assert [a["name"] for a in found["arrays"]] == ["jit_f/argument0", "jit_f/result0"]
    assert [p["name"] for p in found["programs"]] == ["jit_f#0", "jit_g#1"]


def test_a_program_of_a_folder_has_one_name(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "module_0001.jit_g.after_optimizations.txt").write_text(_FUSED, encoding="utf-8")
    page = tmp_path / "page.html"
    for label in ("jit_g", "jit_g#1"):
        name = f"{folder}:{label}"
        assert run("memory", name)[1].startswith("jit_g: ")
        assert run("copies", name)[1].startswith("jit_g: ")
        assert run("hlo", name)[1].startswith("jit_g: ")
        assert run("explore", name, "-o", page, "--force")[0] == 0
        assert "<h1>jit_g#1</h1>" in page.read_text()
    for command in ("memory", "copies", "hlo"):
        assert run(command, f"{folder}:jif_g") == (
            2, "", f"strided: {folder}: no program is named 'jif_g'; did you mean jit_g?\n"
        )  # fmt: skip
    assert run("explore", f"{folder}:argument0", "-o", page, "--force")[0] == 0
    assert "<h1>f32[3,5]{0,1}</h1>" in page.read_text()


# Kernels.


def test_warmup_names_each_kernel_before_it_is_compiled(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {}

    def load(name: str) -> None:
        shown[name] = capsys.readouterr().err

    monkeypatch.setattr(kernels, "load", load)
    code, out, _ = run("warmup")
    assert shown == {name: f"{k:2} of {len(kernels.HOMES)}: {name}\n" for k, name in enumerate(kernels.HOMES, 1)}
    assert (code, out[:21]) == (0, f"{len(kernels.HOMES)} kernels are ready ")
    monkeypatch.setenv("STRIDED_CACHE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("warmup")[0] == 0
    assert next(iter(shown.values())).startswith("strided: warning: what is compiled is not kept: ")


def test_explore(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, said, _ = run("explore", TEXT, "-o", out)
    assert (code, said) == (0, f"{out}: {out.stat().st_size / 1000:,.0f} KB\n")
    assert run("explore", TEXT, "-o", out)[0] == 2
    assert run("explore", TEXT, "-o", "-")[:2] == (0, out.read_text() + "\n")
    sd.LayoutArray.from_numpy(np.arange(15.0, dtype=np.float32).reshape(3, 5), TEXT).buffer.tofile(tmp_path / "x.bin")
    assert run("explore", tmp_path / "x.bin", TEXT, "-o", out, "--force", "--to", "{0,1}")[0] == 0
    assert '"values":{' in out.read_text()
    module = tmp_path / "module.txt"
    module.write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n")
    assert run("explore", module, "-o", tmp_path / "m.html")[0] == 0
    assert "<h1>m</h1>" in (tmp_path / "m.html").read_text()
    report = paths.DATA / "memory" / "hbm_attention_scores_v5e.txt"
    assert run("explore", report, "-o", tmp_path / "r.html")[0] == 0
    assert "Memory at the peak" in (tmp_path / "r.html").read_text()
    (tmp_path / "words.txt").write_text("no program at all\n")
    assert run("explore", tmp_path / "words.txt", "-o", tmp_path / "w.html")[0] == 2
    assert run("explore", "token[]", "-o", tmp_path / "y.html")[:2] == (2, "")
    assert not (tmp_path / "y.html").exists()


def test_explore_a_dump_and_two_runs(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert run("explore", folder, "-o", out)[0] == 0
    assert '{"dump":' in out.read_text()
    snapshot = next(folder.glob("*.snapshot.*"))
    assert run("explore", snapshot, "-o", out, "-f")[0] == 0
    assert f"<h1>{snapshot.name}</h1>" in out.read_text()
    assert run("explore", folder, "--against", folder, "-o", out, "-f")[0] == 0
    assert "the modules are equal" in out.read_text()
    values = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    for k, name in enumerate(("a.bin", "b.bin")):
        sd.LayoutArray.from_numpy(values + k * 1e-6, TEXT).buffer.tofile(tmp_path / name)
    pair = "explore", tmp_path / "a.bin", TEXT, "--against", tmp_path / "b.bin", "-o", out, "-f"
    pages = []
    for options in ((), ("--rtol", "1e-2", "--atol", "1e-2"), ("--against-shape", "f32[3,5]{0,1:T(2,2)}")):
        assert run(*pair, *options)[0] == 0
        pages.append(out.read_text())
    assert '"runs":' in pages[0]
    assert len(set(pages)) == 3
    other = "f32[3,5]{0,1:T(2,2)}"
    assert run("explore", tmp_path / "a.bin", TEXT, "--against", tmp_path / "b.bin", other, "-o", out, "-f")[0] == 0
    assert out.read_text() == pages[2]
    assert run("explore", tmp_path / "a.bin", "--against", tmp_path / "b.bin", "-o", out, "-f")[0] == 2


@pytest.mark.parametrize("option", [("--offset", "64"), ("--bitorder", "big"), ("--allow-excess",)], ids=str)
def test_options_for_bytes_go_with_bytes(run: Run, folder: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    for source in ("u4[4]{0:E(4)}", folder):
        code, _, error = run("explore", source, *option, "-o", tmp_path / "page.html")
        assert (code, "go with a file of raw bytes" in error) == (2, True)
