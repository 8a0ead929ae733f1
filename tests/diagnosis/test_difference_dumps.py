"""Two dump folders: modules, arguments and results by name, and the first instruction that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided import cli
from strided.diagnosis.difference import DumpDifference, diff_dumps
from strided.dumps.protobuf.wire import fields
from strided.errors import DumpError, UnsupportedError
from tests import paths

SNAPSHOT = "module_0000.jit_prog_while_loop.snapshot.461367650.pb"
MODULE = "module_0000.jit_prog_while_loop.cpu_after_optimizations.txt"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [paths.unpack_dump(folder) for folder in (tmp_path / "a", tmp_path / "b")]


def compared(folders: list[Path], **options: Any) -> DumpDifference:
    return diff_dumps(*(sd.open_dump(folder) for folder in folders), **options)


def rewrite(folder: Path, change: Callable[[list[Any], list[Any]], object]) -> None:
    """Write the snapshot again, with other values."""
    snapshot = sd.read_snapshot((folder / SNAPSHOT).read_bytes())  # an open file is not replaced on Windows
    arguments, results = ([np.array(each) for each in values] for values in (snapshot.arguments, snapshot.results))
    change(arguments, results)
    sd.write_snapshot(folder / SNAPSHOT, arguments, tuple(results), module=snapshot.module_proto)


def test_equal_folders(folders: list[Path]) -> None:
    found = compared(folders)
    assert found.equal
    assert found.first is None
    assert len(found.values) == 15
    assert "0 of 15 arguments and results differ" in str(found)
    assert repr(found) == f"<DumpDifference of {folders[0]} and {folders[1]}: 0 of 15 arguments and results differ>"
    assert found == compared(folders)
    assert hash(found) == hash(compared(folders))


def test_folders_without_programs_are_not_called_equal(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = [tmp_path / "empty", tmp_path / "other"]
    for folder in empty:
        folder.mkdir()
        (folder / "notes.txt").write_text("none of XLA's", encoding="utf-8")
    with pytest.raises(DumpError, match=r"nothing to compare: neither .*empty nor .*other holds a program"):
        compared(empty)
    with pytest.raises(SystemExit) as ended:
        cli.main(["diff", *map(str, empty)])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "nothing to compare" in err
    assert not compared([folders[0], empty[0]]).equal


def test_diff_of_whole_dumps_says_what_compares_them(folders: list[Path]) -> None:
    dump = sd.open_dump(folders[0])
    with pytest.raises(UnsupportedError, match=r"a is a whole dump folder: .* as in dump\['jit_.*'\], .*diff_dumps"):
        sd.diff(dump, dump)
    with pytest.raises(TypeError, match="b must be a Dump, not PosixPath: "):
        diff_dumps(dump, folders[1])  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="b is a whole dump folder"):
        sd.diff(next(iter(dump.values())), dump)
    with pytest.raises(UnsupportedError, match="dump\\['NAME'\\]"):
        sd.diff(sd.open_dump(folders[0].parent), 0)


def test_the_first_instruction_that_differs_and_both_files_are_named(folders: list[Path]) -> None:
    rewrite(folders[1], lambda arguments, results: results[1].__setitem__(2, 7))
    found = compared(folders)
    assert found.first is not None
    assert found.first.name == "jit_prog_while_loop/run0/result1"
    assert found.first.instruction == "while.7"
    assert found.first.files == tuple(folder / SNAPSHOT for folder in folders)
    assert found.first.difference is not None
    assert found.first.difference.patterns[0].kind == "row"
    text = " ".join(str(found).split())
    assert all(str(folder / SNAPSHOT) in "".join(str(found.text(400)).split("\n")) for folder in folders)
    assert "1 of 15 arguments and results differ" in text
    assert json.loads(json.dumps(found.to_dict()))["first"] == found.first.name

    # An argument is computed before any result.
    rewrite(folders[1], lambda arguments, results: arguments[0].__setitem__(0, 7))
    found = compared(folders)
    assert found.first is not None
    assert (found.first.name, found.first.instruction) == ("jit_prog_while_loop/run0/argument0", "a.1")
    assert [value.equal for value in found.values].count(False) == 2


def test_tolerances_reach_the_values(folders: list[Path]) -> None:
    rewrite(folders[1], lambda arguments, results: results[1].__iadd__(0.25))
    assert compared(folders, atol=0.5).equal
    assert not compared(folders, atol=0.1).equal


def test_modules_that_differ(folders: list[Path]) -> None:
    for folder in folders:
        (folder / MODULE).with_suffix(".hlo.pb").unlink()  # it would be read rather than the text
    path = folders[1] / MODULE
    text = path.read_text(encoding="utf-8")
    assert "f32[6,6]{1,0} copy" in text
    path.write_text(text.replace("f32[6,6]{1,0} copy", "f32[6,6]{0,1} copy"), encoding="utf-8")
    how = compared(folders).modules["jit_prog_while_loop"]
    assert "differ, first in the shape of copy" in how
    assert "f32[6,6]{1,0} in a, f32[6,6]{0,1} in b" in how
    assert not compared(folders).equal


def test_origins_do_not_count(folders: list[Path]) -> None:
    changed = 0
    for path in folders[1].glob("*while_loop*.txt"):
        text = path.read_text(encoding="utf-8")
        changed += "op_name=" in text
        path.write_text(text.replace('op_name="', 'op_name="other/'), encoding="utf-8")
    assert changed
    assert compared(folders).equal


def test_what_one_folder_lacks(folders: list[Path]) -> None:
    for path in folders[1].glob("*int4*"):
        path.unlink()
    (folders[0] / SNAPSHOT).write_bytes(b"broken")
    found = compared(folders)
    assert not found.equal
    assert found.only_in_a[0] == "jit_prog_int4_uint4"
    assert "jit_prog_while_loop/run0/result1" in found.only_in_b
    assert "only in b: jit_prog_while_loop/run0/" in " ".join(str(found).split())
    assert max(map(len, found.text(40).splitlines())) <= 60  # paths are not cut


MODULE_PROTO = "module_0000.jit_prog_while_loop.cpu_after_optimizations.hlo.pb"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("spoil", [Path.unlink, cut])
@pytest.mark.parametrize("both", [False, True])
def test_a_module_that_is_gone_by_now_is_said_to_be(folders: list[Path], spoil: Any, both: bool) -> None:
    dumps = [sd.open_dump(folder) for folder in folders]
    for folder in folders if both else folders[:1]:
        spoil(folder / MODULE_PROTO)
    found = diff_dumps(*dumps)
    how = found.modules["jit_prog_while_loop"]
    assert how.startswith("cannot be compared: that of a cannot be read: ")
    assert str(folders[0] / MODULE_PROTO) in how
    assert not found.equal
    assert found.values
    assert all(value.equal for value in found.values)


@pytest.mark.parametrize("without", ["a", "b", "ab"])
def test_a_module_that_was_not_dumped_is_said_to_be_missing(folders: list[Path], without: str) -> None:
    for folder in folders:
        if folder.name in without:
            for path in folder.iterdir():
                if path.name != SNAPSHOT:
                    path.unlink()
            snapshot = sd.read_snapshot((folder / SNAPSHOT).read_bytes())
            values = [[np.array(each) for each in part] for part in (snapshot.arguments, snapshot.results)]
            sd.write_snapshot(folder / SNAPSHOT, values[0], tuple(values[1]))
    found = compared(folders)
    how = "" if without == "ab" else f"cannot be compared: {without} has none"
    assert found.modules == {"jit_prog_while_loop": how}


def test_a_snapshot_that_is_cut_while_it_is_compared_is_said_to_be(folders: list[Path]) -> None:
    dumps = [sd.open_dump(folder) for folder in folders]
    assert all(program.arrays is not None for dump in dumps for program in dump.programs)  # the files are open
    cut(folders[0] / SNAPSHOT)
    found = diff_dumps(*dumps)
    assert found.first is not None
    assert found.first.difference is None
    assert "truncated since it was opened" in found.first.problem


def test_a_mapped_value_that_is_cut_while_it_is_compared_leaves_the_others(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise sd.BufferSizeError("a mapped file was truncated")

    monkeypatch.setattr("strided.diagnosis.difference.named.compared", refuse)
    found = diff_dumps(*map(sd.open_dump, folders))
    assert {value.problem for value in found.values} == {"a mapped file was truncated"}


def spoil_results(path: Path) -> None:
    """A snapshot that can be opened, whose result is no literal."""
    data = path.read_bytes()
    (result,) = [field for field in fields(memoryview(data), "HloSnapshot") if field.number == 3]
    content = memoryview(data)[result.at :].tobytes().replace(bytes(result.value), b"\xff" * len(result.value))
    path.write_bytes(data[: result.at] + content)


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"broken"), spoil_results])
@pytest.mark.parametrize("alone", [False, True])
def test_what_neither_folder_can_read_is_not_called_equal(
    folders: list[Path], spoil: Any, alone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in folders:
        spoil(folder / SNAPSHOT)
        for path in folder.iterdir() if alone else []:
            if ".snapshot." in path.name and path.name != SNAPSHOT:
                path.unlink()
    found = compared(folders)
    assert not found.equal
    assert found.first is None
    assert [line.split(": ")[:3] for line in found.unread] == [[k, "jit_prog_while_loop", SNAPSHOT] for k in "ab"]
    assert not any("xla_dump_hlo_snapshots" in line for line in str(found).splitlines())
    assert f"cannot be read: a: jit_prog_while_loop: {SNAPSHOT}: " in found.text(1000)
    assert repr(found).endswith("differ, 2 snapshots cannot be read>")
    assert "cannot be read" in sd.explore(found).html
    with pytest.raises(SystemExit) as ended:
        cli.main(["diff", *map(str, folders), "--json"])
    assert ended.value.code == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["equal"], shown["unread"]) == (False, list(found.unread))
