"""How commands fail: in a line or two, and without a trace."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from strided import inspect
from strided.demo import SHAPE
from tests.commands import TEXT, Run, in_process_of_its_own, refuse_to_map


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frob",), "no command is called 'frob'"),
        (("info",), "Missing argument 'SHAPE'."),
        (("info", "f32[3,,5]"), "expected a dimension size"),
        (("info", "{1,0}"), "is a layout alone"),
        (("info", TEXT, "--at", "3,0"), "out of bounds"),
        (("info", TEXT, "--byte", "96"), "byte 96 is outside a buffer of 96 bytes"),
        (("info", TEXT, "--byte", "-1"), "'--byte': -1 is not in the range x>=0"),
        (("info", "--plan", "f32[3]", "f32[4]"), "not the same array"),
        (("show", "DUMP"), "give the shape"),
        (("show", "nowhere.bin", SHAPE), "nowhere.bin: No such file"),
        (("show", "DUMP", "f32[5,131]{1,0:T(8,128)}"), "takes 8192 bytes, but the buffer has 4096"),
        (("show", "DUMP", SHAPE, "9"), "index 9 is out of bounds for axis 0 with size 5"),
        (("show", "DUMP", SHAPE, "__import__('os')"), "expected integers, slices"),
        (("show", "DUMP", SHAPE, "0", "1"), "an index is one operand"),
        (("show", "DUMP", SHAPE, "--frob"), "--frob"),
        (("show", "DIR"), "holds no arrays"),
        (("convert", "DUMP", SHAPE, "out.npy", "--to", "{0,1}"), ".npy files are row-major"),
        (("convert", "DUMP", SHAPE, "none/out.npy"), "No such file or directory; there is no folder none"),
        (("show", "none/of/these.bin", SHAPE), "these.bin: No such file; there is no folder none"),
        (("info", TEXT, "--svg", "none/x.svg"), "No such file or directory; there is no folder none"),
        (("explore", TEXT, "-o", "none/x.html"), "No such file or directory; there is no folder none"),
        (("explore", TEXT, "-o", "DIR"), "a folder, where a file is expected"),
        (("padding", "DUMP", SHAPE, "--scrub", "none/x.bin"), "No such file or directory; there is no folder none"),
        (("padding", "DUMP", SHAPE, "--scrub", "x.npy"), "x.npy: --scrub writes raw bytes"),
        (("padding", "DUMP", SHAPE, "--scrub", "x.csv"), "x.csv: --scrub writes raw bytes"),
        (("diff", "DUMP", SHAPE, "DUMP", "--svg", "none/x.svg"), "there is no folder none"),
        (("convert", "DUMP", SHAPE, "DIR"), "is a folder: name a file in it"),
        (("convert", "DUMP", SHAPE, "out.bin", "--to", "{0}"), "dimensions"),
        (("convert", "DUMP", "(f32[3], f32[2])", "out.npy"), "is a tuple"),
        (("convert",), "Missing argument 'FILE'"),
        (("convert", "DUMP"), "Missing argument 'OUT'"),
        (("convert", "DUMP", SHAPE), "Missing argument 'OUT'"),
        (("convert", "DUMP", SHAPE, "a", "b"), "a: No such file"),
        (("convert", "DUMP", "out.npy"), "raw bytes have no header"),
        (("show", "DUMP"), "'strided identify' looks for it"),
        (("show", "DUMP", "(5,131)"), "'(5,131)' is no shape, and raw bytes have no header"),
        (("ls", "DUMP"), "'strided identify' looks for it"),
        (("info", TEXT, "--at", "1"), "has 2 numbers, not 1"),
        (("info", TEXT, "--at", "1,:"), "one integer for each dimension"),
        (("hlo", "nowhere.txt"), "No such file"),
        (("ls", "nowhere"), "No such file"),
        (("show", SHAPE, "DUMP"), "the file comes first, then its shape"),
        (("show", "DIR", SHAPE), "is a folder"),
        (("convert", "DIR", "out.npy"), "holds no arrays"),
        (("info", "bfloat16[3]"), "did you mean bf16?"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "frob"), "no element type 'frob'; those of arrays are"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "e5m2"), "did you mean f8e5m2 or f8e5m2fnuz?"),
        (("convert", "DUMP", SHAPE, "out.npy", "--dtype", "token"), "--dtype: token has no values"),
        (("convert", "DUMP", SHAPE, "DUMP", SHAPE, "out.npz"), "two arrays are called 'dump'"),
        (("convert", "DUMP", SHAPE, "DUMP:x", "out.npz"), "holds one array, which has no name"),
        (("convert", "DUMP", SHAPE, "out.npz", "--to", "{0,1}"), ".npz files are row-major"),
        (("info", "(f32[3])", "--svg", "out.svg"), "is a tuple"),
    ],
)
def test_errors_are_one_or_two_lines(
    run: Run, dump: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(dump.parent)  # where nothing else has the names of files that are not there
    places = {"DUMP": str(dump), "DIR": str(dump.parent)}
    before = sorted(dump.parent.iterdir())
    code, out, err = run(*(a.replace("DUMP", places["DUMP"]).replace("DIR", places["DIR"]) for a in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert 1 <= err.count("\n") <= 2
    assert sorted(dump.parent.iterdir()) == before


def test_a_file_is_not_meant_where_a_folder_is(run: Run, dump: Path) -> None:
    wrong = dump.with_name("dumps.bin")
    said = f"strided: {wrong / 'values'}: No such file or directory; there is no folder {wrong}\n"
    assert run("convert", dump, SHAPE, wrong / "values") == (2, "", said)


def test_an_error_of_the_system_that_names_no_file(run: Run, dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(inspect, "statistics", fail)
    code, _, err = run("show", dump, SHAPE)
    assert (code, err) == (2, f"strided: {os.strerror(errno.EIO)}\n")


@pytest.mark.parametrize(("setting", "code", "begin"), [("always", 0, "strided: warning: "), ("error", 2, "strided: ")])
def test_a_warning_is_a_line_even_where_it_is_an_error(setting: str, code: int, begin: str) -> None:
    ran = in_process_of_its_own("info", "f32[3]{0:S(200)}", env=os.environ | {"PYTHONWARNINGS": setting})
    told = "XLA stores a memory space in 8 signed bits: S(200) wraps around to S(-56); read as XLA reads it"
    assert (ran.returncode, ran.stderr) == (code, f"{begin}{told}\n")


def test_too_little_memory_to_report_an_error_is_a_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("strided.cli.run._fail", fail)
    assert run("info", TEXT, "--frob") == (2, "", "strided: not enough memory\n")


@pytest.mark.parametrize(("told", "words"), [((), "the input ends too early"), (("x.bin is cut",), "x.bin is cut")])
def test_an_input_that_ends_early_is_no_interruption(
    run: Run, dump: Path, monkeypatch: pytest.MonkeyPatch, told: tuple[str, ...], words: str
) -> None:
    def end(*_: object, **__: object) -> None:
        raise EOFError(*told)

    monkeypatch.setattr(inspect, "statistics", end)
    code, _, err = run("show", dump, SHAPE)
    assert (code, err) == (2, f"strided: {words}\n")


@pytest.mark.slow
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


@pytest.mark.parametrize("arguments", [("diff", "DUMP", SHAPE, "DUMP"), ("identify", "-")])
def test_what_cannot_be_mapped_is_named(
    run: Run, dump: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """As where too many files are open: the system's error names none."""
    refuse_to_map(monkeypatch)
    with dump.open(encoding="latin-1") as piped:
        monkeypatch.setattr("sys.stdin", piped)
        done = run(*(dump if each == "DUMP" else each for each in arguments))
    label = "standard input" if "-" in arguments else dump
    expected = f"strided: {label}: {os.strerror(errno.EMFILE)}\n"
    assert done == (2, "", expected)


@pytest.mark.skipif(os.name == "nt", reason="names are others there")
def test_the_name_of_a_file_is_shown_as_it_is(run: Run, dump: Path) -> None:
    """Line ends and several spaces are parts of names, and others may be called as what is left without them."""
    _, _, err = run("convert", str(dump), SHAPE, str(dump.parent / "a  b" / "c.npy"))
    assert "a  b" in err
    (dump.parent / "a\nb.npy").write_bytes(b"")
    for arguments in ((str(dump), SHAPE, "a\nb.npy"), ("a\nc.npy", "b.npy")):
        places = (str(dump.parent / a) if a.endswith(".npy") else a for a in arguments)
        _, _, err = run("convert", *places)
        assert r"a\n" in err
        assert err.count("\n") == 1


def test_many_spaces_in_a_name_take_no_longer_than_letters(run: Run) -> None:
    begin = time.process_time()
    code, _, err = run("show", f"a{' ' * 100_000}b.npy")
    assert (code, err.count("\n")) == (2, 1)
    assert time.process_time() - begin < 3
