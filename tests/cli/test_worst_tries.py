"""What new users get wrong: one or two lines that say what would do, and nothing half written."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import ntpath
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided import cli
from strided.cli import run
from strided.demo import SHAPE, expected, sample
from strided.dumps.protobuf.wire import bytes_field, integer_field
from tests import paths
from tests.thinned import thinned

TRIES = {
    # The order of arguments.
    "shape before its file": (("show", SHAPE, "x.bin"), "the file comes first, then its shape: x.bin"),
    "shape before its file, diff": (("diff", SHAPE, "x.bin", "x.npy"), "the file comes first"),
    "shape before its file, identify": (("identify", "bf16[5,131]", "x.bin"), "the file comes first"),
    "target first": (("convert", "out.npy", "x.bin", SHAPE), "Missing argument 'OUT': it comes last"),
    "index before the shape": (("show", "x.bin", "0", SHAPE), f"right after its file: x.bin '{SHAPE}'"),
    "file as a shape": (("info", "x.bin"), "info takes a shape alone: 'strided show' reads x.bin"),
    "file and shape": (("info", "x.bin", SHAPE), "info takes a shape alone"),
    "array as a shape": (("info", "w.safetensors:b"), "info takes a shape alone: 'strided show' reads w.safetensors"),
    "shape as a file": (("show", SHAPE), "is a shape: a file comes in front of it; 'strided info' explains it alone"),
    "two questions": (("info", SHAPE, "--at", "0,0", "--byte", "3"), "--at and --byte do not go together"),
    "an answer without JSON": (
        ("info", "--plan", "f32[3]", "f32[3]", "--json"),
        "--plan and --json do not go together",
    ),
    "slice as an element": (("info", SHAPE, "--at", "0,:3"), "--at takes one integer for each dimension"),
    "index in two": (("show", "x.npy", "1", "2"), "an index is one operand: '1, 2', not 1 2"),
    # No shape, half of one, or two.
    "no shape": (("show", "x.bin"), "give the shape of x.bin"),
    "dimensions alone": (("show", "x.bin", "[5,131]"), "'[5,131]' is no shape"),
    "tuple": (("show", "x.bin", f"({SHAPE}, f32[])"), "is a tuple"),
    "layout alone": (("show", "x.bin", "{1,0}"), "is a layout alone"),
    "shape as a layout": (("convert", "x.bin", SHAPE, "o.bin", "--to", "f32[3]{0}"), "--to takes a layout alone"),
    "tiles as a layout": (("convert", "x.bin", SHAPE, "o.bin", "--to", "T(8,128)"), "in braces, as in"),
    "braces that the shell took": (("show", "x.bin", "bf16[5,131]1", "bf16[5,131]0"), "quote it"),
    "type of torch": (("show", "x.bin", "torch.bfloat16[5,131]"), "did you mean bf16?"),
    "type of NumPy": (("identify", "x.bin", "float32[5,131]"), "did you mean f32?"),
    "type of no library": (("convert", "x.npy", "o.npy", "--dtype", "no.bf16"), "--dtype: no element type 'no.bf16'"),
    "cast that NumPy lacks": (
        ("convert", "x.bin", "s4[8192]{0:E(4)}", "o.npy", "--dtype", "u4"),
        "--dtype: NumPy cannot cast int4 to uint4; convert to another type first",
    ),
    # Sizes.
    "wrong type": (("show", "x.bin", "f32[5,131]{1,0:T(8,128)}"), "a factor of 2 may be those of two element types"),
    "no tiles": (("show", "long.bin", "bf16[5,131]"), "'strided identify' looks for layouts that fit"),
    # Another kind of file.
    "folder": (("show", "folder"), "folder holds no arrays"),
    "folder as the target": (("convert", "x.npy", "folder"), "folder is a folder: name a file in it"),
    "another folder to overwrite": (
        ("convert", "x.npy", "plain.zarr", "-f"),
        "no zarr store, so it is never overwritten",
    ),
    "another folder to keep": (("convert", "x.npy", "plain.zarr"), "no zarr store, so it is never overwritten"),
    "scrubbing a pipe": (("padding", "-", SHAPE, "--scrub", "o.bin"), "give both by name, not as -"),
    "scrubbing to a pipe": (("padding", "x.bin", SHAPE, "--scrub", "-"), "give both by name, not as -"),
    "folder as a picture": (("info", "f32[3]", "--svg", "folder"), "a folder, where a file is expected"),
    "gzip as HLO": (("hlo", "x.npy.gz"), "x.npy.gz holds no HLO"),
    "picture in another format": (("info", "f32[3]", "--svg", "x.png"), "x.png: end the name in .svg"),
    "page in another format": (("explore", "f32[3]", "-o", "x.pdf"), "x.pdf: end the name in .html"),
    "layout of a program": (("explore", "m.txt", "--to", "{0}", "-o", "x.html"), "--to goes with a shape or an array"),
    "tolerance of one array": (("explore", "x.npy", "--ulp", "0", "-o", "x.html"), "go with --against"),
    "two tolerances": (("diff", "x.npy", "x.npy", "--ulp", "3", "--atol", "1"), "--ulp replaces --rtol and"),
    "two tolerances of a page": (
        ("explore", "x.npy", "--against", "x.npy", "--ulp", "0", "--rtol", "1", "-o", "x.html"),
        "--ulp replaces --rtol and",
    ),
    "layout of two arrays": (("explore", "x.npy", "--against", "x.npy", "--to", "{0,1}", "-o", "x.html"), "--to shows"),
    "shape of nothing": (("explore", "x.npy", "--against-shape", "f32[3]", "-o", "x.html"), "go with --against"),
    "JSON and a picture": (("diff", "x.npy", "x.npy", "--json", "--svg", "-"), "give the picture a file"),
    "JSON and memory": (("memory", "m.txt", "--json", "--svg", "-"), "give the picture a file"),
    "offset of an array": (("show", "x.npy", "--offset", "3"), "--offset goes with the shape of raw bytes"),
    "name where files are meant": (("memory", "w.safetensors:b"), "leave ':b' out"),
    "array as HLO": (("copies", "x.npy"), "x.npy holds no HLO"),
    "raw bytes as HLO": (("hlo", "x.bin"), "x.bin holds no HLO"),
    "text as an array": (("show", "x.csv"), "x.csv is text, and holds no array"),
    "report as an array": (("show", "log.txt"), "log.txt is about memory, and holds no arrays: 'strided memory' reads"),
    "folder misspelt": (("convert", "x.npy", "foldr/x.npy"), "did you mean folder/x.npy?"),
    "unknown TPU": (("memory", "m.txt", "--generation", "v9"), "'v9' is not one of 'v2', 'v3', 'v4', 'v5e'"),
    "raw bytes as values": (("identify", "x.bin", "--like", "x.bin"), "--like takes values, not raw bytes"),
    "text in UTF-16": (("hlo", "utf16.txt"), "utf16.txt: text in UTF-16, as its byte order mark tells: save it as"),
    "report in UTF-16": (("memory", "utf16.txt"), "utf16.txt: text in UTF-16"),
    "texts as numbers": (("diff", "x.npy", "words.npy"), "words.npy holds <U1, which XLA has no element type for"),
    "texts as padding": (("padding", "words.npy"), "words.npy holds <U1, which XLA has no element type for"),
    "texts on a page": (("explore", "words.npy", "-o", "x.html"), "words.npy holds <U1, which XLA has no element type"),
    "texts to write": (
        ("convert", "x.npy", "words.npy", "o.npz"),
        "words.npy holds <U1, which XLA has no element type",
    ),
    "device": (("show", "/dev/zero", "f32[3]"), "/dev/zero: a character device; only regular files are read"),
    "array as memory": (("memory", "x.npy"), "is no HLO, no buffer assignment and no text about memory"),
    "nothing to show": (("show", "empty.bin"), "empty.bin is empty"),
    "nothing to show in gzip": (("show", "empty.bin.gz"), "empty.bin.gz is empty"),
    "nothing to list": (("ls", "empty.bin"), "empty.bin is empty"),
    "nothing as HLO": (("hlo", "empty.bin"), "empty.bin is empty"),
    "nothing as memory": (("memory", "empty.bin"), "empty.bin is empty"),
    "nothing to list in gzip": (("ls", "empty.bin.gz"), "empty.bin.gz is empty"),
    "nothing as HLO in gzip": (("hlo", "empty.bin.gz"), "empty.bin.gz is empty"),
    "nothing as memory in gzip": (("memory", "empty.bin.gz"), "empty.bin.gz is empty"),
    "nothing twice in gzip": (("ls", "twice.bin.gz"), "twice.bin.gz is empty"),
    "an index of 64 bits": (("show", "x.npy", str(2**63)), "9223372036854775808 is an index of no array"),
    "a window of 64 bits": (("info", "f32[3]", "--ranges", str(2**63)), "9223372036854775808 is an index of no array"),
    "header of gzip": (("ls", "header.gz"), "header.gz: broken gzip data: Compressed file ended"),
    "more behind gzip": (("ls", "more.gz"), "more.gz: broken gzip data: followed by other bytes"),
    # Several modules, or none.
    "two modules": (
        ("hlo", "two.txt"),
        "line 7, column 1: this text holds 2 modules: --module 0 to --module 1 picks one",
    ),
    "memory of two modules": (("memory", "two.txt"), "--module 0 to --module 1 picks one"),
    "copies of two modules": (("copies", "two.txt"), "--module 0 to --module 1 picks one"),
    "a page of two modules": (("explore", "two.txt", "-o", "x.html"), "--module 0 to --module 1 picks one"),
    "arrays of two modules": (("ls", "two.txt"), "several programs, and no arrays: 'strided hlo --module N' lists the"),
    "too few modules": (("hlo", "two.txt", "--module", "2"), "there is no module 2: this text holds 2"),
    "a module of a folder": (("hlo", "folder", "--module", "0"), "in a folder, name the program, as in folder:NAME"),
    "copies of a module of a folder": (("copies", "folder", "--module", "0"), "name the program, as in folder:NAME"),
    "a module of a program": (("hlo", "folder:m", "--module", "0"), "the name says which: leave it out"),
    "a module of an array": (("explore", "x.npy", "--module", "0", "-o", "x.html"), "--module goes with one file"),
    "arrays of a log": (("ls", "log.txt"), "is about memory, and holds no arrays: 'strided memory' reads it"),
    "arrays of a memory report": (("show", "usage.pb"), "is about memory, and holds no arrays: 'strided memory' reads"),
    "HLO of a memory report": (("hlo", "usage.pb"), "is about memory, and holds no HLO: 'strided memory' reads it"),
    "arrays of live ranges": (("show", "live.txt"), "live.txt is text, and holds no array that strided can read"),
    "a TPU for nothing": (("copies", "m.txt", "--generation", "v4"), "names the TPU that --verify compiles for"),
    # Names.
    "nearly a file": (("show", "x.npi"), "did you mean x.npy?"),
    "slash behind a file": (("ls", "x.npy/"), "x.npy/: No such file; did you mean x.npy?"),
    "slash before a name": (("show", "w.safetensors/layer/w"), "name an array in a file as w.safetensors:layer/w"),
    "nearly a name": (("show", "w.safetensors:layer/v"), "did you mean layer/w?"),
    "nearly a command": (("shwo", "x.bin"), "no command is called 'shwo'; did you mean show?"),
    "no command": (("help",), "'strided --help' lists the commands"),
    "nearly an option": (("show", "x.npy", "--stat"), "--stats"),
    "nearly a file with a name": (("show", "w.safetensor:layer/w"), "did you mean w.safetensors:layer/w?"),
    "name in a file of one array": (("show", "x.npy:w"), "x.npy holds one array, which has no name: leave ':w' out"),
    "name in raw bytes": (("show", "x.bin:w", SHAPE), "x.bin holds one array, which has no name: leave ':w' out"),
    "name in what is left of a snapshot": (("show", "f.snapshot.1.pb:argument0"), "no snapshot, or a damaged one"),
    "what is left of a snapshot": (("show", "f.snapshot.1.pb"), "no snapshot, or a damaged one"),
    "what is left of a snapshot, listed": (
        ("ls", "f.snapshot.1.pb"),
        "no snapshot, or a damaged one: field 1 of HloSnapshot should be 6876 bytes long, 997 bytes remained",
    ),
    "half of a .npy file": (
        ("ls", "half.npy"),
        "half.npy: a damaged .npy file: an array of shape (5, 131) in 500 bytes",
    ),
    "half of a .npy file, shown": (
        ("show", "half.npy"),
        "half.npy: f32[5,131]{1,0} takes 2620 bytes, but the buffer has 500\n",
    ),
    "half of a header": (
        ("ls", "half.safetensors"),
        "half.safetensors: a header of 120 bytes, but only 42 follow its length",
    ),
    "too large for an index": (("ls", "large.npy"), "large.npy: a damaged .npy header: its shape is invalid"),
    "bzip2": (("ls", "x.npy.bz2"), "x.npy.bz2 is bzip2 data: decompress it first"),
    "xz": (("show", "x.npy.xz"), "x.npy.xz is xz data: decompress it first"),
    "an archive in gzip": (("show", "x.npz.gz"), "from a pipe or gzip data, or if it is no .npz, unpack it first"),
    "an array of an archive in gzip": (("show", "x.npz.gz:a"), "decompress gzip or Zstandard data first"),
    "a list of an archive in gzip": (("ls", "x.npz.gz"), "decompress gzip or Zstandard data first"),
    "HDF5": (("ls", "x.h5"), "x.h5 is an HDF5 file: h5py reads it"),
    "HDF5 in gzip": (("ls", "x.h5.gz"), "x.h5.gz is an HDF5 file: h5py reads it"),
    "HDF5 as values": (("identify", "x.bin", "--like", "x.h5"), "x.h5 is an HDF5 file: h5py reads it"),
    "name where all are listed": (("ls", "w.safetensors:b"), "ls lists all arrays of w.safetensors: leave ':b' out"),
    "glob that found nothing": (("ls", "*.pb"), "No such file"),
    "glob of several": (("convert", "x.npy", "y.npy", "out.npy"), "2 arrays: name one of them"),
    "one name for several": (
        ("convert", "x.npy", "y.npy", "o.npz:w"),
        "2 arrays cannot all be called 'w': leave ':w' out",
    ),
    "a pipe of a list": (("ls", "-"), "-: No such file; this command does not read standard input"),
    "a pipe for two reports": (("memory", "-", "-"), "standard input can be read once"),
    "URL of an array": (
        ("show", "https://example.org/x.bin", SHAPE),
        "x.bin: No such file; commands take files, not URLs: strided.open reads those, in Python",
    ),
    "URL to write": (("convert", "x.npy", "s3://bucket/x.npy"), "commands take files, not URLs"),
    "no name to write": (("convert", "x.npy", "", "--force"), "No such file or directory"),
    "no name at all": (("diff", "", ""), "No such file"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "x.bin").write_bytes(sample())
    (tmp_path / "long.bin").write_bytes(sample() + bytes(904))
    for name in ("x.npy", "y.npy"):
        np.save(name, expected().astype(np.float32))
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    (tmp_path / "x.csv").write_text("1,2\n3,4\n", encoding="utf-8")
    (tmp_path / "empty.bin").touch()
    (tmp_path / "empty.bin.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "twice.bin.gz").write_bytes(gzip.compress(b"") * 2)
    (tmp_path / "header.gz").write_bytes(gzip.compress(b"")[:10])
    (tmp_path / "more.gz").write_bytes(gzip.compress(b"HloModule m") + b"more")
    (tmp_path / "m.txt").write_text(
        "HloModule m\n\nENTRY main {\n  ROOT p = f32[3]{0} parameter(0)\n}\n", encoding="utf-8"
    )
    module = (tmp_path / "m.txt").read_text(encoding="utf-8")
    (tmp_path / "two.txt").write_text(f"{module}\n{module.replace('HloModule m', 'HloModule n')}", encoding="utf-8")
    shutil.copy(paths.DATA / "memory" / "hbm_tpu7x_temps.txt", "log.txt")
    table = bytes_field(6, b"  cumulative_size;       size\n")
    (tmp_path / "usage.pb").write_bytes(bytes_field(1, integer_field(1, 4) + bytes_field(3, table)))
    (tmp_path / "live.txt").write_text("HloLiveRange (max 1):\n  InstructionSequence:\n    0:p\n", encoding="utf-8")
    (tmp_path / "utf16.txt").write_text((tmp_path / "m.txt").read_text(encoding="utf-8"), "utf-16")
    np.save("words.npy", ["a", "b"])
    snapshot = next((paths.DATA / "snapshots" / "programs" / "col_major_2d").glob("*.snapshot.*.pb"))
    (tmp_path / "f.snapshot.1.pb").write_bytes(snapshot.read_bytes()[:1000])
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.zarr").mkdir()
    sd.save_safetensors("w.safetensors", {"layer/w": np.arange(3), "b": np.arange(3)})
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "half.npy").write_bytes(whole[:628])
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:50])
    (tmp_path / "large.npy").write_bytes(whole.replace(b"(5, 131), }" + b" " * 19, b"(5, 9999999999999999999999), }"))
    (tmp_path / "x.npy.bz2").write_bytes(bz2.compress(whole))
    (tmp_path / "x.npy.xz").write_bytes(lzma.compress(whole))
    np.savez("x.npz", a=np.eye(3))
    (tmp_path / "x.npz.gz").write_bytes(gzip.compress((tmp_path / "x.npz").read_bytes()))
    (tmp_path / "x.npz").unlink()
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (tmp_path / "x.h5.gz").write_bytes(gzip.compress((tmp_path / "x.h5").read_bytes()))
    return tmp_path


@pytest.mark.parametrize("name", TRIES)
def test_a_try_is_answered(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = TRIES[name]
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert words in err
    assert err.count("\n") <= 2
    assert len(err) < 500
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["begins as.bin", "packed elements.bin"])
def test_advice_on_sizes_goes_by_the_bytes_and_not_by_the_name(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.bin").rename(name)
    with pytest.raises(SystemExit):
        cli.main(["show", name, "f32[5,131]{1,0:T(8,128)}"])
    assert "a factor of 2 may be those of two element types; 'strided identify' looks" in capsys.readouterr().err


def test_packed_elements_are_no_other_type(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "packed.bin").write_bytes(bytes(24))
    with pytest.raises(SystemExit):
        cli.main(["show", "packed.bin", "s4[6,8]"])
    err = capsys.readouterr().err
    assert "write E(4) into the layout; 'strided identify' looks" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("explore", "x.html", SHAPE, "-o", "x.html"),
        ("explore", "y.npy", "--against", "x.html", "--against-shape", SHAPE, "-o", "./x.html"),
        ("diff", "x.html", SHAPE, "x.npy", "--svg", "x.html"),
        ("memory", "x.html", "--svg", "x.html"),
        ("convert", "x.html", SHAPE, "x.html"),
        ("padding", "x.html", SHAPE, "--scrub", "x.html"),
    ],
)
def test_a_source_is_never_written_over(
    arguments: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.html").write_bytes(sample())
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--force"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "x.html: " in err
    assert (folder / "x.html").read_bytes() == sample()


def test_quotes_that_the_shell_left_are_no_part_of_a_shape(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("show", "x.bin", f"'{SHAPE}'"), ("convert", "x.bin", SHAPE, "o.bin", "--to", "'{0,1}'")):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert (ended.value.code, capsys.readouterr().err) == (0, "")


def test_a_slash_behind_a_folder_does_not_matter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("o.zarr/", "o.zarr/", "p.zarr/"):
        with pytest.raises(SystemExit):
            cli.main(["convert", "x.npy", target, "--force"])
    assert np.array_equal(sd.open("o.zarr/"), np.load("x.npy"))
    sd.convert_file("x.npy", None, "q.zarr/")
    assert np.array_equal(sd.open("q.zarr"), np.load("x.npy"))


def test_convert_says_how_its_file_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("o.npz", "o.npz:w", "o.safetensors", "o.safetensors:w", "o.zarr", "o.zarr:w"):
        with pytest.raises(SystemExit):
            cli.main(["convert", "x.npy", target, "--force"])
        said = capsys.readouterr().out
        assert np.array_equal(sd.open(said.partition("strided.open('")[2].partition("')")[0]), np.load("x.npy"))
        assert ("zarr.open" in said) == (target == "o.zarr")


def test_ls_takes_what_a_glob_finds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["ls", "x.npy", "x.npy.gz", "w.safetensors"])
    assert [line for line in capsys.readouterr().out.splitlines() if line[0] == "x"] == [
        "x.npy: f32[5,131]{1,0}",
        "x.npy.gz: f32[5,131]{1,0}",
    ]


@pytest.mark.parametrize("command", ["show", "ls", "hlo", "memory", "copies", "explore -o x.html"])
def test_zstandard_data_name_the_missing_module(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("zstandard", "compression"):
        monkeypatch.setitem(sys.modules, module, None)
    Path("x.txt.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(99))
    name, *options = command.split()
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "x.txt.zst", *([SHAPE] if name == "show" else []), *options])
    assert ended.value.code == 2
    assert "x.txt.zst is Zstandard data: `pip install 'strided[zstd]'` or Python 3.14" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["Z:\\x\\y.bin", "\\\\server\\share\\y.bin", "Z:"])
def test_a_drive_that_is_not_there_is_not_searched_for_ever(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows the uppermost folder need not be there either."""
    calls = itertools.count()

    def dirname(path: str) -> str:
        assert next(calls) < 10, "it goes on and on"
        return ntpath.dirname(path)

    monkeypatch.setattr(os.path, "dirname", dirname)
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    assert run._nearby(path) == ""


def test_either_separator_of_windows_ends_the_name_of_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sep", "\\")
    assert run._nearby("x.npy/w") == "; name an array in a file as x.npy:w"


@pytest.mark.skipif(os.name == "nt", reason="streams are closed by other means there")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("show x.npy >&-", 2, "standard output is closed: send it to a file, or to /dev/null"),
        pytest.param("convert x.npy - >&-", 2, "standard output is closed", marks=pytest.mark.slow),
        pytest.param("convert x.npy out.npy >&-", 2, "standard output is closed", marks=pytest.mark.slow),
        pytest.param("show x.npy 1</dev/null", 2, "standard output not for writing", marks=pytest.mark.slow),
        pytest.param("show - 'f32[3]' 0>written", 2, "standard input is not open for", marks=pytest.mark.slow),
        pytest.param("show - 'f32[3]' </dev/zero", 2, "standard input is a device: give", marks=pytest.mark.slow),
        ("convert x.npy /dev/stdout | cat >&2", 0, "/dev/stdout is where standard output goes: write - for it"),
        pytest.param("convert x.npy /dev/stdout -f >written", 2, "/dev/stdout is where", marks=pytest.mark.slow),
        pytest.param("explore 'f32[3]' -o written -f >written", 2, "written is where", marks=pytest.mark.slow),
        pytest.param("convert x.npy - 1</dev/null", 2, "standard output", marks=pytest.mark.slow),
        pytest.param("--help >&-", 2, "standard output is closed", marks=pytest.mark.slow),
        pytest.param("demo >&- 2>&-", 2, "", marks=pytest.mark.slow),
        pytest.param("show x.npy 2>&-", 0, "", marks=pytest.mark.slow),
        ("show - 'f32[3]' <&-", 2, "standard input is closed: give a file, or pipe bytes in"),
        pytest.param("convert - 'f32[3]' out.npy <&-", 2, "standard input is closed", marks=pytest.mark.slow),
    ],
)
def test_streams_that_are_closed(command: str, code: int, said: str, folder: Path) -> None:
    script = f'exec "{sys.executable}" -m strided {command}'
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}  # what Python holds back fails at the end, once more
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False, env=buffered)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == (1 if said else 0)
    assert not Path("out.npy").exists()
    assert not Path("written").exists() or Path("written").read_bytes() == b""


@pytest.mark.skipif(os.name == "nt", reason="pipes are others there")
@pytest.mark.parametrize("command", thinned(["--help", "--version", "info --help"], 3))
def test_the_reader_of_the_help_may_be_gone(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "strided", *command.split()]
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(arguments, stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device is always full")
def test_the_help_that_finds_no_room_names_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        arguments = [sys.executable, "-m", "strided", "--help"]
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "strided: standard output: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="limits are others there")
def test_a_full_disk_leaves_what_was_there(folder: Path) -> None:
    commands = [
        ("convert", "x.npy", "out.zarr", "--force"),
        ("convert", "x.npy", "out.npz", "--force"),
        ("info", "f32[30,50]{1,0:T(2,2)}", "--svg", "out.svg", "--force"),
        ("diff", "x.npy", "y.npy", "--svg", "out.svg", "--force"),
        ("padding", "x.bin", SHAPE, "--scrub", "out.bin", "--force"),
        ("explore", "f32[3,5]", "-o", "out.html", "--force"),
    ]
    sd.convert_file("y.npy", None, "out.zarr")
    for name in ("out.npz", "out.svg", "out.bin", "out.html"):
        Path(name).write_bytes(b"as it was")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    # Bytecode that Python cuts off at the limit, it takes for whole afterwards.
    script = (
        "import resource, strided.cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"
        f"for command in {commands}:\n"
        "    try:\n"
        "        strided.cli.main(command)\n"
        "    except SystemExit as ended:\n"
        "        assert ended.code == 2, command\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"STRIDED_CACHE": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    targets = [next(word for word in command if word.startswith("out")) for command in commands]
    assert done.stderr.splitlines() == [f"strided: {target}: File too large" for target in targets]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="files are not mapped so there")
@pytest.mark.parametrize(
    ("instead", "code", "said"),
    [
        # Behind the check of its size.
        ("os.truncate('x.bin', 0); int(array._memory.file.content[0])", 2, "a file was truncated while it was read"),
        pytest.param(
            "os.kill(os.getppid(), signal.SIGINT); time.sleep(30)", 130, "interrupted", marks=pytest.mark.slow
        ),
        pytest.param("os.kill(os.getppid(), signal.SIGTERM); time.sleep(30)", 143, "", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -9, "", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_maps_a_file_ends_with_a_word(instead: str, code: int, said: str, folder: Path) -> None:
    script = (
        "import os, signal, sys, time, strided.cli\n"
        "from strided import inspect\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        f"def instead(array, **_):\n    {instead}\n"
        "inspect.padding = instead\n"
        f"sys.argv[1:] = ['padding', 'x.bin', {SHAPE!r}]\n"
        "strided.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", said and f"strided: {said}")


def test_save_safetensors_wants_names() -> None:
    with pytest.raises(TypeError, match="arrays are given by name"):
        sd.save_safetensors("nowhere.safetensors", np.zeros(3))  # type: ignore[arg-type]


def _without_rights(arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """A command of somebody whom permissions hold; as root, of a process without the capability to pass them over."""
    command = [sys.executable, "-m", "strided", *arguments]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may do everything")
        lost = "-dac_override,-dac_read_search"
        command = ["setpriv", "--bounding-set", lost, "--inh-caps", lost, *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("show", "locked/x.npy"), "locked/x.npy"),
        pytest.param(("ls", "locked/w.npz:w"), "locked/w.npz:w", marks=pytest.mark.slow),
        pytest.param(("ls", "locked"), "locked/x.npy", marks=pytest.mark.slow),
        pytest.param(("hlo", "locked"), "locked/x.npy", marks=pytest.mark.slow),
        (("ls", "s.zarr"), "s.zarr/locked"),
        pytest.param(("convert", "x.npy", "locked/o.npy"), "locked/o.npy", marks=pytest.mark.slow),
    ],
)
def test_what_may_not_be_searched_is_named(arguments: tuple[str, ...], path: str, folder: Path) -> None:
    (folder / "locked").mkdir()
    shutil.copy("x.npy", "locked")
    with pytest.raises(SystemExit):
        cli.main(["convert", "x.npy", "s.zarr:w"])
    (folder / "s.zarr" / "locked").mkdir()
    (folder / "locked").chmod(0o600)
    (folder / "s.zarr" / "locked").chmod(0)
    try:
        done = _without_rights(arguments)
    finally:
        (folder / "locked").chmod(0o700)
        (folder / "s.zarr" / "locked").chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"strided: {path}: Permission denied\n"


def test_a_file_whose_name_is_a_shape_is_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("x.npy", "x[1].npy")
    for command in (["show", "x[1].npy"], ["explore", "x[1].npy", "-o", "x.html"], ["diff", "x[1].npy", "x.npy"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(command)
        assert (ended.value.code, capsys.readouterr().err) == (0, "")


def test_a_shape_may_be_too_long_for_a_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["info", f"({', '.join(['f32[3]'] * 100)})"])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
