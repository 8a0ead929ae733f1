"""Reports from dump folders: one program in several files, and files that are damaged."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import strided as sd
from tests.memory.samples import HLO, MATMUL, MATMUL_ERROR, text_of


def test_a_dump_folder_is_read_as_one(tmp_path: Path) -> None:
    for path, what in zip(MATMUL, (".txt", "-buffer-assignment.txt", "-memory-usage-report.txt"), strict=True):
        (tmp_path / f"module_0001.jit_f.after_optimizations{what}").write_text(text_of(path), encoding="utf-8")
    (tmp_path / "module_0000.jit_g.after_optimizations.txt").write_text(HLO, encoding="utf-8")
    report = sd.memory_report(tmp_path)
    assert (report.module, report.total_bytes, report.peak_at) == ("jit_f", 208384, "copy-start")
    assert "2 programs" in report.notes[0]
    assert sd.memory_report(sd.open_dump(tmp_path)).to_dict() == report.to_dict()


def test_a_usage_report_alone_tells_which_program_takes_most(tmp_path: Path) -> None:
    stage = tmp_path / "module_0001.jit_f.after_optimizations"
    for path, what in ((MATMUL[0], ".txt"), (MATMUL[2], "-memory-usage-report.txt")):
        Path(f"{stage}{what}").write_text(text_of(path), encoding="utf-8")
    (tmp_path / "module_0000.jit_g.after_optimizations.txt").write_text(HLO, encoding="utf-8")
    of_vmem = "Memory Space: vmem (color=1)\nTotal bytes: 409600 (400.0KiB)\n"
    usage = tmp_path / "module_0002.jit_h.after_optimizations-memory-usage-report.txt"
    usage.write_text(of_vmem, encoding="utf-8")
    report = sd.memory_report(tmp_path)
    assert (report.module, report.total_bytes) == ("jit_f", 208384)


STAGE = "module_0001.jit_f.after_optimizations"


def dumped(folder: Path) -> dict[str, Path]:
    """A dump of one program, written to a folder: its module, buffer assignment and memory usage report."""
    endings = {"module": ".txt", "assignment": "-buffer-assignment.txt", "usage": "-memory-usage-report.txt"}
    for path, ending in zip(MATMUL, endings.values(), strict=True):
        (folder / f"{STAGE}{ending}").write_text(text_of(path), encoding="utf-8")
    return {what: folder / f"{STAGE}{ending}" for what, ending in endings.items()}


def truncate(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    end = len(text) // 2
    path.write_text(text[:end] if text[end - 1 : end] != "\n" else text[: end - 1], encoding="utf-8")


@pytest.mark.parametrize(
    "broken",
    [{"module"}, {"assignment"}, {"module", "assignment"}],
    ids=lambda kinds: " and ".join(sorted(kinds)),
)
def test_what_is_damaged_is_named_and_the_rest_answers(broken: set[str], tmp_path: Path) -> None:
    files = dumped(tmp_path)
    for what in broken:
        truncate(files[what])
    for source in (tmp_path, sd.open_dump(tmp_path).programs[0]):
        with pytest.warns(sd.DumpWarning) as warned:
            report = sd.memory_report(source)
        named = [str(one.message) for one in warned]
        assert len(named) == len(broken)
        assert all(any(f"left out: {files[what]}, line" in message for message in named) for what in broken)
        assert report.total_bytes == 208384
        assert "the total is the compiler's own" in report.notes
        assert len(report.buffers) == len(sd.memory_report(MATMUL[2]).buffers)


def test_a_folder_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    files = dumped(tmp_path)
    truncate(files["module"])
    for what in ("assignment", "usage"):
        files[what].unlink()
    for source in (tmp_path, sd.open_dump(tmp_path).programs[0]):
        with pytest.raises(sd.DumpError, match="the text ends inside the computation"):
            sd.memory_report(source)


def test_a_damaged_program_does_not_hide_another(tmp_path: Path) -> None:
    path = tmp_path / "module_0000.jit_a.after_optimizations.txt"
    path.write_text(HLO[: len(HLO) // 2], encoding="utf-8")
    (tmp_path / "module_0001.jit_g.after_optimizations.txt").write_text(HLO, encoding="utf-8")
    with pytest.warns(sd.DumpWarning, match=re.escape(f"left out: {path}, line")):
        report = sd.memory_report(tmp_path)
    assert report.peak_bytes == sd.memory_report(HLO).peak_bytes
    assert "this one, jit_g#1, takes most of what can be read" in report.notes[0]
    with pytest.warns(sd.DumpWarning, match=re.escape(f"left out: {path}, line")):
        beside = sd.memory_report([MATMUL_ERROR.replace("jit_f", report.module), tmp_path])
    assert (beside.module, beside.capacity) == (report.module, 102400)
    assert {buffer.name for buffer in beside.buffers} == {buffer.name for buffer in report.buffers}


def test_the_total_of_a_text_that_may_be_cut_is_not_called_the_compilers(tmp_path: Path) -> None:
    files = dumped(tmp_path)
    assert "the total is the compiler's own" in sd.memory_report(tmp_path).notes
    alone = sd.memory_report(files["assignment"])
    assert "the total is that of all allocations in the text, of which nothing marks the end" in alone.notes
    whole = files["assignment"].read_text(encoding="utf-8")
    last = whole.index("\nallocation 10") + 1
    files["assignment"].write_text(whole[:last], encoding="utf-8")
    assert not any("compiler's own" in note for note in sd.memory_report(files["assignment"]).notes)
    beside = sd.memory_report(tmp_path)
    assert (beside.total_bytes, "the total is the compiler's own" in beside.notes) == (208384, True)
    assert "the buffer assignment has another total than the memory usage report" in beside.notes[0]
    headed = whole[: whole.index("\n", last) + 1]
    with pytest.warns(sd.DumpWarning, match=r"the text was cut: allocation \d+ has no values"):
        cut = sd.memory_report(headed)
    assert cut.notes[0].startswith("the text was cut: allocation")


def test_an_error_tells_the_limits_of_a_dump_in_any_order(tmp_path: Path) -> None:
    files = dumped(tmp_path)
    sources = [[MATMUL_ERROR, *files.values()], [MATMUL_ERROR, tmp_path]]
    reports = [sd.memory_report(list(each)) for some in sources for each in itertools.permutations(some)]
    assert {(r.capacity, r.total_bytes, r.peak_at) for r in reports} == {(102400, 208384, "copy-start")}
    assert {r.notes for r in reports} == {sd.memory_report(tmp_path).notes}
    assert all(r.rounded == {"capacity", "excess"} for r in reports)
