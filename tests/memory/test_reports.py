"""Reports on memory: totals are the compiler's own in every form, and every row is explained."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.dumps.detect import recognise
from strided.layout import TupleShape
from strided.memory.buffers import Buffer
from strided.memory.report import MemoryReport
from strided.memory.usage_text import usage_in
from tests.paths import DATA
from tests.steps import check_linear
from tests.thinned import thinned

MEMORY = DATA / "memory"
REPORTS = sorted(MEMORY.glob("*report.txt.gz"))
SPACE = re.compile(r"Memory Space: (\S+) \(color=(\d+)\)\nTotal bytes: (\d+)")
MATMUL = [MEMORY / f"complex_matmul.{what}.txt.gz" for what in ("hlo", "buffer-assignment", "memory-usage-report")]
HLO = """HloModule f, is_scheduled=true

ENTRY %main (x: f32[1000,2]) -> f32[] {
  %x = f32[1000,2]{1,0:T(8,128)} parameter(0), metadata={op_name="params['w']"}
  %y = f32[1000,2]{1,0:T(8,128)} sine(%x), metadata={op_name="jit(f)/sin" source_file="/home/me/model.py" source_line=7}
  %z = f32[1000,2]{0,1:T(2,128)} copy(%y)
  ROOT %r = f32[]{:T(128)} custom-call(%z), custom_call_target="sum", metadata={op_name="jit(f)/sum"}
}
"""


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_totals_are_the_compilers_and_every_row_is_explained(path: Path) -> None:
    text = text_of(path)
    spaces = SPACE.findall(text)
    assert spaces
    for _, number, total in spaces:
        report = sd.memory_report(path, space=int(number))
        rows = text.partition(f"(color={number})")[2].partition("Memory Space")[0].count("%);")
        assert report.total_bytes == int(total)
        assert len(report.buffers) == rows
        assert "total_bytes" not in report.bounds | report.rounded
        for b in report.buffers:
            assert b.bytes >= b.unpadded_bytes >= 0
            assert b.shape is not None
            assert b.shape in b.shapes
            assert isinstance(b.shape, TupleShape) or b.shape.byte_size <= b.bytes


def test_the_forms_of_one_program_agree() -> None:
    module, assignment, usage = MATMUL
    reports = [sd.memory_report(source) for source in (usage, assignment, [assignment, module], MATMUL)]
    sizes = [sorted((b.bytes, b.unpadded_bytes) for b in report.buffers) for report in reports]
    assert {report.total_bytes for report in reports} == {208384}
    assert sizes[1:] == sizes[:1] * 3
    assert [report.peak_at for report in reports] == [None, None, "copy-start", "copy-start"]
    assert [report.peak_bytes for report in reports] == [208384, 208384, 192000, 192000]
    assert [sorted(report.bounds) for report in reports] == [["padding_bytes", "peak_bytes"]] * 2 + [["peak_bytes"]] * 2


@pytest.mark.parametrize("path", thinned(REPORTS, 3), ids=lambda path: path.name)
def test_padding_is_at_most_what_a_text_leaves_room_for(path: Path, tmp_path: Path) -> None:
    """What is in no row may be padding: a text that lost a row bounds it as much as before, or more."""
    lines = text_of(path).splitlines(keepends=True)
    whole, seen = sd.memory_report(path), 0
    for k in range(len(lines)):
        copy = tmp_path / "cut.txt"
        copy.write_text("".join([*lines[:k], *lines[k + 1 :]]))
        try:
            cut = sd.memory_report(copy)
        except sd.DumpError:
            continue
        if cut.total_bytes == whole.total_bytes and cut.space == whole.space and len(cut.buffers) < len(whole.buffers):
            seen += 1
            assert whole.padding_bytes <= cut.padding_bytes <= cut.total_bytes
    assert seen


def test_a_module_names_what_an_assignment_does_not() -> None:
    report = sd.memory_report(MATMUL[:2])
    by_name = {b.name: b for b in report.buffers}
    assert by_name["b.0"].kind == "argument"
    assert by_name["b.0"].source.argument == "b"
    assert str(by_name["custom-call.4"].source) == "jit(f)/dot_general at progs.py:226"
    assert all(b.live is not None for b in report.buffers)


def test_a_module_beside_an_error_names_its_rows() -> None:
    report = sd.memory_report([MATMUL[2], MATMUL[0]])
    row = next(b for b in report.buffers if str(b.shape) == "c64[30,129]{1,0:T(8,128)}")
    assert (row.kind, row.source.argument, row.bytes) == ("argument", "b", 65536)


def test_live_ranges_come_from_the_order_of_a_module() -> None:
    report = sd.memory_report(HLO)
    lives = {b.name: (b.live, b.is_at_peak, b.kind) for b in report.buffers}
    assert report.schedule == ("x", "y", "z", "r")
    assert lives == {
        "x": ((0, 3), True, "argument"),
        "y": ((1, 2), True, "temporary"),
        "z": ((2, 3), True, "temporary"),
        "r": ((3, 3), False, "result"),
    }
    assert report.usage == (512_000, 1_024_000, 1_032_192, 520_704)
    assert (report.peak_at, report.total_bytes, report.padding_bytes) == ("z", 1_032_192, 1_008_192)
    assert report.bounds == {"total_bytes", "peak_bytes", "padding_bytes"}
    sources = {b.name: str(b.source) for b in report.buffers}
    assert sources == {
        "x": "argument params['w']",
        "y": "jit(f)/sin at model.py:7",
        "z": "jit(f)/sin at model.py:7",
        "r": "jit(f)/sum",
    }


def test_buffers_are_in_the_order_of_what_they_waste_at_the_peak() -> None:
    for source in (HLO, MATMUL[:2], *REPORTS):
        wasted = [b.wasted_bytes for b in sd.memory_report(source).buffers]
        assert wasted == sorted(wasted, reverse=True)


def test_the_compilers_own_trace_tells_live_ranges() -> None:
    assignment = sd.memory_report(MEMORY / "traced.hlo.pb", space=1)
    assert assignment.schedule == ("copy-start",)
    assert "heap simulator" in " ".join(assignment.notes)
    assert not assignment.bounds
    main = sd.memory_report(MEMORY / "traced.hlo.pb")
    assert (main.total_bytes, "order of the instructions" in " ".join(main.notes)) == (147_552, True)


@pytest.mark.parametrize(
    ("name", "space", "total", "capacity", "excess", "rounded"),
    [
        ("hbm_arguments_v5e", 0, 24041079439, 16911433728, 7129645711, {"total_bytes", "capacity", "excess"}),
        ("hbm_train_step_v4", 0, 32341103739, 16374562816, 15966540923, {"total_bytes", "capacity", "excess"}),
        ("vmem_pallas_v5e", 1, 268435456, 134217728, 134217728, set()),
        ("vmem_scoped_limit_v6e", 1, 65536, 40960, 24576, {"total_bytes", "capacity", "excess"}),
    ],
)
def test_messages_say_limits(name: str, space: int, total: int, capacity: int, excess: int, rounded: set[str]) -> None:
    text = text_of(MEMORY / f"{name}.txt")
    for source in (text, RuntimeError(text), MEMORY / f"{name}.txt"):
        report = sd.memory_report(source)
        assert (report.space, report.total_bytes, report.capacity, report.excess) == (space, total, capacity, excess)
        assert report.rounded == rounded


def test_a_message_about_a_kernel_names_its_buffer() -> None:
    (buffer,) = sd.memory_report(MEMORY / "vmem_pallas_v5e.txt", space="vmem").buffers
    assert str(buffer.shape) == "f32[16384,4096]{1,0:T(8,128)}"
    assert (buffer.bytes, buffer.unpadded_bytes, buffer.name) == (1 << 28, 1 << 28, "#allocation3 (scratch operand)")


def test_a_message_about_a_kernel_may_be_kept_as_json_or_repr() -> None:
    text = text_of(MEMORY / "vmem_pallas_v5e.txt").rstrip()
    for kept in (json.dumps({"message": text}), repr(RuntimeError(text))):
        assert sd.memory_report(f"{kept}\n").to_dict() == sd.memory_report(text).to_dict()


def test_a_buffer_without_a_shape_may_be_padding() -> None:
    report = sd.memory_report(MEMORY / "vmem_scoped_limit_v6e.txt")
    (buffer,) = report.buffers
    assert (buffer.shape, buffer.is_explained) == (None, False)
    assert report.padding_bytes == report.total_bytes == buffer.bytes
    assert "no shape is known of 1 buffer: any of it may be padding" in report.notes
    assert "█" not in str(report).replace("data █", "")
    assert "at most 64.0KiB of it padding" in report.svg()
    assert f"{'~64.0KiB':>9} {'?':>9} {'?':>6}  ?" in str(report)


def test_a_file_is_read_whatever_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "RESOURCE_EXHAUSTED.txt"
    path.write_text(OLD, encoding="utf-8")
    assert sd.memory_report(str(path)).to_dict() == sd.memory_report(OLD).to_dict()


OLD = """Ran out of memory in memory space hbm. Used 18.81G of 15.48G hbm. Exceeded hbm capacity by 3.33G.

  Largest program allocations in hbm:

  1. Size: 4.00G
     Operator: op_type="Mul" op_name="jit(f)/mul"
     Shape: f32[1048576,8]{1,0:T(8,128)}
     Unpadded size: 32.00M
     Extra memory due to padding: 3.97G (128.0x expansion)
     XLA label: %fusion.1 = f32[1048576,8]{1,0:T(8,128)} fusion(%p0)
     Allocation type: HLO temp
     ==========================
"""


def test_the_list_of_older_compilers_is_read() -> None:
    report = sd.memory_report(OLD)
    (buffer,) = report.buffers
    assert (buffer.name, buffer.kind, buffer.source.op_name) == ("fusion.1", "temporary", "jit(f)/mul")
    assert (buffer.bytes, buffer.unpadded_bytes) == (4 << 30, 32 << 20)
    assert report.excess == round(3.33 * (1 << 30))


ERROR = "E1122 14:27:30.188 10947 compiler.cc:3563] Ran out of memory in memory space hbm. Used 30.12G of 15.25G hbm. "
LOGS = [f"{ERROR}HLO module: jit_step. Memory usage report: \n\n{text_of(REPORTS[0])}\nand so on\n", OLD]
#: What logs make of a line, by its number.
LOGGED: dict[str, Callable[[int, str], str]] = {
    "Ray": lambda _, line: f"\x1b[36m(train pid=12, ip=10.0.0.14)\x1b[0m {line}",
    "ranks": lambda _, line: f"0: {line}",
    "containers": lambda _, line: f"web-1  | {line}".rstrip(),
    "quoted": lambda _, line: f"\t> {line}",
    "times": lambda n, line: f"2026-11-22T14:{27 + n // 9}:{n % 60:02}.{10**8 + 997 * n}Z {line}",
    "whole seconds": lambda n, line: f"Nov 22 09:59:{n % 60:02}{'.5' if n % 3 else ''} host python[77]: {line}",
    "moments": lambda n, line: f"[{1_763_821_650 + n}.{n:03}] {1_763_821_650_000 + n} {line}",
    "JSON lines": lambda n, line: json.dumps(
        {"time": f"2026-11-22T14:27:30.{n + 1}Z", "log": f"{line}\n", "to": "err"}
    ),
}


@pytest.mark.parametrize("text", LOGS, ids=["tables", "list"])
@pytest.mark.parametrize("name", LOGGED)
def test_what_a_log_puts_before_each_line_does_not_matter(name: str, text: str) -> None:
    logged = "\n".join(LOGGED[name](n, line) for n, line in enumerate(text.split("\n")))
    assert logged != text
    own, plain = sd.memory_report(logged), sd.memory_report(text)
    assert own == plain
    assert plain.buffers


@pytest.mark.parametrize("write", [json.dumps, repr, lambda text: json.dumps({"message": text, "severity": "ERROR"})])
@pytest.mark.parametrize("text", LOGS, ids=["tables", "list"])
def test_a_text_may_be_one_string(text: str, write: Callable[[str], str]) -> None:
    assert sd.memory_report(write(text)) == sd.memory_report(text)


def test_the_name_of_a_program_ends_with_its_line() -> None:
    for end in ("\nSee", r".\nSee", r".\\nSee", ". See", ', "more"', '"', "'", ""):
        found = usage_in(f"'Ran out of memory in memory space hbm. Used 2G of 1G hbm. HLO module: jit_step{end}")
        assert found is not None
        assert found.module == "jit_step"


@pytest.mark.parametrize("turn", [1, 2, 5])
def test_reports_of_two_processes_are_not_mixed(turn: int) -> None:
    texts = [text_of(path).split("\n") for path in REPORTS[:2]]
    lines = []
    for k in range(0, max(map(len, texts)), turn):
        lines += [f"(pid={n}) {line}" for n, text in enumerate(texts) for line in text[k : k + turn]]
    mixed, own = sd.memory_report("\n".join(lines)), sd.memory_report(REPORTS[0])
    assert mixed.buffers == own.buffers
    assert (mixed.total_bytes, mixed.padding_bytes) == (own.total_bytes, own.padding_bytes)
    assert "the text holds more reports; this is the first" in mixed.notes


def test_tables_that_cannot_be_read_are_not_denied() -> None:
    lines = text_of(REPORTS[0]).split("\n")
    report = sd.memory_report(
        ERROR + "\n".join(f"{chr(97 + k % 26) * (1 + k % 3)}! {line}" for k, line in enumerate(lines))
    )
    assert not report.buffers
    assert any("tables of the text cannot be read" in note for note in report.notes)
    assert not any("lists no buffers" in note for note in report.notes)


def test_a_dump_folder_is_read_as_one(tmp_path: Path) -> None:
    for path, what in zip(MATMUL, (".txt", "-buffer-assignment.txt", "-memory-usage-report.txt"), strict=True):
        (tmp_path / f"module_0001.jit_f.after_optimizations{what}").write_text(text_of(path), encoding="utf-8")
    (tmp_path / "module_0000.jit_g.after_optimizations.txt").write_text(HLO, encoding="utf-8")
    report = sd.memory_report(tmp_path)
    assert (report.module, report.total_bytes, report.peak_at) == ("jit_f", 208384, "copy-start")
    assert "2 programs" in report.notes[0]


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


def test_what_a_cut_report_lacks_is_not_claimed() -> None:
    text = text_of(REPORTS[0])
    whole, seen = sd.memory_report(text), 0
    for end in range(text.index("Total bytes: ") + 1, len(text), 3):
        try:
            cut = sd.memory_report(text[:end])
        except sd.DumpError:
            continue
        seen += 1
        assert cut.total_bytes == whole.total_bytes
        assert whole.padding_bytes <= cut.padding_bytes
        assert set(cut.buffers) <= set(whole.buffers)
    assert seen > len(text) // 4


def test_values_of_a_loop_and_of_its_body_are_one() -> None:
    path = DATA / "hlo" / "control_flow_cond_switch_while.hlo.txt.gz"
    report = sd.memory_report(path)
    names = [b.name for b in report.buffers]
    assert len(names) == len(set(names))
    assert max(report.usage) == report.peak_bytes
    ends = {b.name: b.live for b in report.buffers if b.kind == "argument"}
    assert set(ends.values()) == {(0, len(report.schedule) - 1)}


def test_a_report_shows_itself() -> None:
    report = sd.memory_report(MATMUL[:2])
    shown = str(report)
    assert "203.5KiB in hbm" in shown
    assert "argument b" in shown
    assert "░" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "<svg" in report._repr_html_()
    assert "argument b" in report._repr_html_()
    data = json.loads(json.dumps(report.to_dict()))
    assert data["total_bytes"] == 208384
    assert data["buffers"][0]["source"] == {"argument": "b"}
    assert report == sd.memory_report(MATMUL[:2])


def test_the_bar_shows_data_and_padding_in_proportion() -> None:
    from strided.memory.pictures import bar

    half = sd.memory_report(HLO)
    cells = bar(half, 1000)
    assert len(cells) == 1000
    assert abs(cells.count("░") - 1000 * half.padding_bytes / half.peak_bytes) <= len(half.buffers)


def test_the_picture_shows_where_memory_ends() -> None:
    message = sd.memory_report(DATA / "memory" / "hbm_train_step_v4.txt")
    assert "no buffers are listed" in message.svg()
    assert "capacity 15.25GiB" in message.svg()
    assert "of it padding" in sd.memory_report(MATMUL[:2]).svg()
    assert "capacity" not in sd.memory_report(MATMUL[:2]).svg()


def test_the_picture_of_many_buffers_is_small() -> None:
    buffers = tuple(Buffer(name=f"b{k}", bytes=1024, unpadded_bytes=16) for k in range(10_000))
    report = MemoryReport(total_bytes=1024 * 10_000, peak_bytes=1024 * 10_000, padding_bytes=0, buffers=buffers)
    assert "10,000 smaller buffers, 9.77MiB" in report.svg()
    assert len(report.svg()) < 10_000


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("RESOURCE_EXHAUSTED: something else", sd.DumpError, "understood about memory"),
        ("one line\nand another", sd.DumpError, "no HLO"),
        (b"\x00\x01\x02" * 50, sd.UnsupportedError, "no HLO"),
    ],
)
def test_what_is_no_report_is_refused(source: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sd.memory_report(source)


def test_unknown_generations_and_spaces_are_refused() -> None:
    with pytest.raises(sd.UnsupportedError, match="'v9'"):
        sd.memory_report(HLO, generation="v9")
    with pytest.raises(ValueError, match="'vram'"):
        sd.memory_report(HLO, space="vram")
    with pytest.raises(FileNotFoundError):
        sd.memory_report("nowhere.txt")


def test_another_space_of_a_module_is_empty() -> None:
    report = sd.memory_report(HLO, space="vmem")
    assert isinstance(report, MemoryReport)
    assert (report.total_bytes, report.buffers, report.space_name) == (0, (), "vmem")


IN_PLACE = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

%body (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128]{1,0:T(8,128)} parameter(0)
  %row = f32[1,128]{1,0:T(1,128)} constant({...})
  %zero = s32[]{:T(128)} constant(0)
  ROOT %u = f32[64,128]{1,0:T(8,128)} dynamic-update-slice(%p, %row, %zero, %zero)
}

ENTRY %main (cache: f32[64,128]) -> f32[64,128] {
  %cache = f32[64,128]{1,0:T(8,128)} parameter(0)
  %row.1 = f32[1,128]{1,0:T(1,128)} constant({...})
  %zero.1 = s32[]{:T(128)} constant(0)
  %a = f32[64,128]{1,0:T(8,128)} dynamic-update-slice(%cache, %row.1, %zero.1, %zero.1)
  %s = ((f32[64,128]{1,0:T(8,128)}), f32[8,128]{1,0:T(8,128)S(1)}, u32[]{:S(2)}) slice-start(%a), slice={[0:8], [0:128]}
  %d = f32[8,128]{1,0:T(8,128)S(1)} slice-done(%s)
  ROOT %b = f32[64,128]{1,0:T(8,128)} fusion(%a), kind=kLoop, calls=%body
}
"""


def test_updates_in_place_and_operands_of_asynchronous_operations_take_no_more_memory() -> None:
    report = sd.memory_report(IN_PLACE)
    sizes = {b.name: b.bytes for b in report.buffers}
    assert sizes == {"cache": 64 * 128 * 4, "row.1": 512, "zero.1": 512}
    assert [b.name for b in sd.memory_report(IN_PLACE, space="vmem").buffers] == ["s{1}"]


ASYNCHRONOUS = """HloModule m, is_scheduled=true

%wrapped (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128]{1,0:T(8,128)} parameter(0)
  ROOT %c = f32[64,128]{1,0:T(8,128)} custom-call(%p), custom_call_target="f"
}

ENTRY %main (a: f32[64,128]) -> f32[64,128] {
  %a = f32[64,128]{1,0:T(8,128)} parameter(0)
  %s = ((f32[64,128]{1,0:T(8,128)}), f32[64,128]{1,0:T(8,128)}, s32[]) async-start(%a), calls=%wrapped
  %u = ((f32[64,128]{1,0:T(8,128)}), f32[64,128]{1,0:T(8,128)}, s32[]) async-update(%s)
  ROOT %d = f32[64,128]{1,0:T(8,128)} async-done(%u)
}
"""


@pytest.mark.parametrize("short", [False, True], ids=["wrapped", "short"])
def test_the_update_of_an_asynchronous_operation_hands_its_operand_on(short: bool) -> None:
    text = ASYNCHRONOUS
    if short:
        start = text.index("%wrapped"), text.index("ENTRY")
        text = (text[: start[0]] + text[start[1] :]).replace("async-", "custom-call-")
        text = text.replace("calls=%wrapped", 'custom_call_target="f"')
    lines = text.splitlines(keepends=True)
    without = "".join(line for line in lines if "-update" not in line).replace("%u)", "%s)")
    assert without != text
    assert sd.memory_report(text).peak_bytes == sd.memory_report(without).peak_bytes
    assert sd.memory_report(text).total_bytes == sd.memory_report(without).total_bytes


@pytest.mark.parametrize("short", [False, True], ids=["wrapped", "short"])
@pytest.mark.parametrize("updated", [False, True], ids=["once", "updated"])
def test_a_copy_that_a_computation_wraps_takes_what_another_operation_does(short: bool, updated: bool) -> None:
    text = ASYNCHRONOUS.replace('custom-call(%p), custom_call_target="f"', "negate(%p)")
    if not updated:
        text = "".join(line for line in text.splitlines(keepends=True) if "-update" not in line).replace("%u)", "%s)")
    copied = text.replace("negate(", "copy(")
    if short:
        copied = copied[: copied.index("%wrapped")] + copied[copied.index("ENTRY") :]
        copied = copied.replace("async-", "copy-").replace(", calls=%wrapped", "")
    own, other = sd.memory_report(copied), sd.memory_report(text)
    assert (own.peak_bytes, own.usage[-1]) == (other.peak_bytes, other.usage[-1])
    assert own.peak_bytes == 2 * 64 * 128 * 4 + 4


def test_what_a_wrapped_operation_receives_is_the_second_part_of_its_start() -> None:
    received = "(f32[64,128]{1,0:T(8,128)}, u32[], token[])"
    text = f"""HloModule m, is_scheduled=true

%wrapped (t: token[]) -> {received.replace("{1,0:T(8,128)}", "")} {{
  %t = token[] parameter(0)
  ROOT %r = {received} recv(%t), channel_id=1
}}

ENTRY %main (a: token[]) -> f32[64,128] {{
  %a = token[] parameter(0)
  %s = ((token[]), {received}, u32[]) async-start(%a), calls=%wrapped
  %d = {received} async-done(%s)
  ROOT %g = f32[64,128]{{1,0:T(8,128)}} get-tuple-element(%d), index=0
}}
"""
    assert sd.memory_report(text).peak_bytes == 64 * 128 * 4 + 8


CALLED = """HloModule m, is_scheduled=true

%f (p: f32[1024]) -> f32[1024] {{
  %p = f32[1024]{{0}} parameter(0)
  {body}
}}

ENTRY %main (a: f32[1024], b: f32[1024], w: pred[]) -> f32[1024] {{
  %a = f32[1024]{{0}} parameter(0)
  %b = f32[1024]{{0}} parameter(1)
  %w = pred[] parameter(2)
  {calls}
}}
"""
SORT, NOTHING = "ROOT %q = f32[1024]{0} sort(%p), dimensions={0}", "ROOT %q = f32[1024]{0} bitcast(%p)"
LARGE = """%t = f32[10240]{0} custom-call(%p), custom_call_target="x"
  ROOT %q = f32[1024]{0} custom-call(%t), custom_call_target="y\""""
TWICE = """%c = f32[1024]{0} call(%a), to_apply=%f
  %d = f32[1024]{0} call(%b), to_apply=%f
  ROOT %g = (f32[1024]{0}, f32[1024]{0}) tuple(%c, %d)"""
BESIDE = """%c = f32[1024]{0} call(%a), to_apply=%f
  %big = f32[10240]{0} custom-call(%a), custom_call_target="x"
  %d = f32[1024]{0} call(%b), to_apply=%f
  ROOT %g = f32[1024]{0} custom-call(%c, %d, %big), custom_call_target="z\""""
EITHER = "ROOT %g = f32[1024]{0} conditional(%w, %a, %b), true_computation=%f, false_computation=%f"


@pytest.mark.parametrize(
    ("body", "calls", "peak"),
    [
        (SORT, TWICE, 4 * 4096 + 1),
        (NOTHING, TWICE, 2 * 4096 + 1),
        (SORT, EITHER, 3 * 4096 + 1),
        # Two arguments, the first result, what lies beside the second call, and what that takes meanwhile.
        (LARGE, BESIDE, 3 * 4096 + 2 * 40960 + 4096 + 1),
    ],
    ids=["twice", "nothing twice", "either", "beside"],
)
def test_a_computation_counts_anew_each_time_it_is_called(body: str, calls: str, peak: int) -> None:
    text = CALLED.format(body=body, calls=calls)
    assert sd.memory_report(text).peak_bytes == peak
    # As with a copy for each call, which the compiler makes.
    first, rest = text.split("ENTRY")
    head, one = first.split("\n\n", 1)
    other = one
    for name in "fpqt":
        other = re.sub(rf"%{name}\b", f"%{name}.1", other)
    place = rest.rindex("%f")
    copied = f"{head}\n\n{one}{other}ENTRY{rest[:place]}%f.1{rest[place + 2 :]}"
    assert sd.memory_report(copied).peak_bytes == peak


def test_arguments_that_a_loop_exchanges_are_two_values() -> None:
    text = """HloModule m, is_scheduled=true

%body (s: (f32[1024], f32[1024])) -> (f32[1024], f32[1024]) {
  %s = (f32[1024]{0}, f32[1024]{0}) parameter(0)
  %x = f32[1024]{0} get-tuple-element(%s), index=0
  %y = f32[1024]{0} get-tuple-element(%s), index=1
  ROOT %t = (f32[1024]{0}, f32[1024]{0}) tuple(%y, %x)
}

%condition (c: (f32[1024], f32[1024])) -> pred[] {
  %c = (f32[1024]{0}, f32[1024]{0}) parameter(0)
  ROOT %go = pred[] constant(false)
}

ENTRY %main (a: f32[1024], b: f32[1024]) -> (f32[1024], f32[1024]) {
  %a = f32[1024]{0} parameter(0)
  %b = f32[1024]{0} parameter(1)
  %both = (f32[1024]{0}, f32[1024]{0}) tuple(%a, %b)
  ROOT %w = (f32[1024]{0}, f32[1024]{0}) while(%both), condition=%condition, body=%body
}
"""
    assert sd.memory_report(text).peak_bytes >= 2 * 4096


BEFORE_COPIES = {
    "updates of one value": ("""
ENTRY %main (x: f32[1024], u: f32[1], i: s32[]) -> (f32[1024], f32[1024]) {
  %x = f32[1024]{0} parameter(0)
  %u = f32[1]{0} parameter(1)
  %i = s32[] parameter(2)
  %y = f32[1024]{0} dynamic-update-slice(%x, %u, %i)
  %z = f32[1024]{0} dynamic-update-slice(%x, %u, %i)
  ROOT %t = (f32[1024]{0}, f32[1024]{0}) tuple(%y, %z)
}
""", 3 * 4096 + 8),
    "a carry": ("""
%body (s: (f32[1024], f32[1024], f32[1024])) -> (f32[1024], f32[1024], f32[1024]) {
  %s = (f32[1024]{0}, f32[1024]{0}, f32[1024]{0}) parameter(0)
  %x = f32[1024]{0} get-tuple-element(%s), index=0
  %y = f32[1024]{0} get-tuple-element(%s), index=1
  %k = f32[1024]{0} get-tuple-element(%s), index=2
  %z = f32[1024]{0} add(%x, %k)
  ROOT %t = (f32[1024]{0}, f32[1024]{0}, f32[1024]{0}) tuple(%y, %z, %k)
}

%condition (c: (f32[1024], f32[1024], f32[1024])) -> pred[] {
  %c = (f32[1024]{0}, f32[1024]{0}, f32[1024]{0}) parameter(0)
  ROOT %go = pred[] constant(false)
}

ENTRY %main (a: f32[1024], k: f32[1024]) -> (f32[1024], f32[1024], f32[1024]) {
  %a = f32[1024]{0} parameter(0)
  %k.1 = f32[1024]{0} parameter(1)
  %all = (f32[1024]{0}, f32[1024]{0}, f32[1024]{0}) tuple(%a, %a, %k.1)
  ROOT %w = (f32[1024]{0}, f32[1024]{0}, f32[1024]{0}) while(%all), condition=%condition, body=%body
}
""", 5 * 4096 + 1),  # two arguments, two values that the loop carries, and the sum; `k` stays what it is
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE_COPIES)
def test_before_copies_are_there_nothing_is_written_in_place(name: str) -> None:
    text, total = BEFORE_COPIES[name]
    assert sd.memory_report(f"HloModule m\n{text}").total_bytes == total


@pytest.mark.parametrize("depth", [17, 40])
def test_calls_without_end_are_refused(depth: int) -> None:
    """A module of two kilobytes may call for 400,000 instructions, or for any number."""
    computation = "%f{n} (p: f32[8]) -> f32[8] {{\n  %p{n} = f32[8]{{0}} parameter(0)\n{calls}}}\n\n"
    call = "  {root}%{name}{n} = f32[8]{{0}} call(%{of}{n}), to_apply=%f{next}\n"
    text = "HloModule m, is_scheduled=true\n\n"
    text += computation.format(n=0, calls="  ROOT %c0 = f32[8]{0} negate(%p0)\n")
    for n in range(1, depth):
        two = call.format(root="", name="b", n=n, of="p", next=n - 1)
        two += call.format(root="ROOT ", name="c", n=n, of="b", next=n - 1)
        text += computation.format(n=n, calls=two)
    entry = "ENTRY %e (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n"
    text += entry + f"  ROOT %r = f32[8]{{0}} call(%a), to_apply=%f{depth - 1}\n}}\n"
    with pytest.raises(sd.UnsupportedError, match="calls again and again"):
        sd.memory_report(text)
    # What calls itself is called once.
    itself = "HloModule m, is_scheduled=true\n\n" + computation.format(
        n=0, calls=call.format(root="ROOT ", name="c", n=0, of="p", next=0)
    )
    itself += entry + "  ROOT %r = f32[8]{0} call(%a), to_apply=%f0\n}\n"
    assert sd.memory_report(itself).peak_bytes >= 32


def test_tuples_nested_without_end_are_refused_at_once() -> None:
    for depth in (400, 30_000):
        shape = "(" * depth + "f32[8]{0}" + ")" * depth
        text = f"HloModule m\n\nENTRY e {{\n  ROOT p = {shape} parameter(0)\n}}\n"
        if depth < 500:
            assert sd.memory_report(text).total_bytes >= 32
        else:
            with pytest.raises(sd.UnsupportedError, match="tuples in tuples"):
                sd.memory_report(text)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_a_log_may_have_colours(path: Path) -> None:
    text = text_of(path)
    coloured = "\x1b[31m" + text.replace("\n", "\x1b[0m\n").replace("size", "\x1b[1;32msize\x1b[0m")
    assert sd.memory_report(coloured).to_dict() == sd.memory_report(text).to_dict()
    found = "\n".join(f"\x1b[01;31m\x1b[K{line}\x1b[m\x1b[K" for line in text.split("\n"))  # as by grep
    assert sd.memory_report(found).to_dict() == sd.memory_report(text).to_dict()


ODD_NAME = "BufferAssignment:\nallocation 0: size 8:\n value: <1 \udcff @0> (size=8,offset=0): f32[2]{0}\n"


@pytest.mark.parametrize("begin", ["HloModule m, is_scheduled=true", "BufferAssignment:"])
@pytest.mark.parametrize("prefix", ["INFO: ", "\x1b[31m", "web-1  | "])
def test_what_stands_before_each_line_of_a_dump_is_named(begin: str, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in ("", begin, "allocation 0: size 8:", "ENTRY e {", "}"))
    with pytest.raises(sd.DumpError, match=f"line 2: no HLO, .* put before '{begin.split(' ')[0]}' and each line"):
        sd.memory_report(text)
    with pytest.raises(sd.DumpError, match=r"^no HLO, no buffer assignment and no text about memory$"):
        sd.memory_report("something else\n")


@pytest.mark.parametrize("text", ["HloModule m\nENTRY e {\n ROOT a = f32[] parameter(0)\n}\n// \udcff\n", ODD_NAME])
def test_a_text_may_hold_surrogates(text: str) -> None:
    assert sd.memory_report(text).total_bytes


PASSED_ON = """HloModule m, is_scheduled=true

ENTRY %main (a: f32[1024]) -> f32[1024] {
  %a = f32[1024]{0} parameter(0)
  %t = token[] after-all()
  %s = (f32[1024]{0}, u32[], token[]) send(%a, %t), channel_id=1
  %sent = token[] send-done(%s), channel_id=1
  %r = (f32[1024]{0}, u32[], token[]) recv(%t), channel_id=2
  %d = (f32[1024]{0}, token[]) recv-done(%r), channel_id=2
  ROOT %g = f32[1024]{0} get-tuple-element(%d), index=0
}
"""


def test_what_is_sent_and_received_is_one_value_each() -> None:
    report = sd.memory_report(PASSED_ON)
    assert [b.bytes for b in report.buffers if b.bytes > 8] == [4096, 4096]
    assert report.peak_bytes <= 2 * 4096 + 8


@pytest.mark.parametrize("path", MATMUL, ids=lambda path: path.name)
def test_a_byte_order_mark_changes_nothing(path: Path, tmp_path: Path) -> None:
    text = text_of(path)
    file = tmp_path / "marked.txt"
    file.write_text(text, encoding="utf-8-sig")
    assert recognise(file) == recognise(text.encode())
    expected = sd.memory_report(text).to_dict()
    assert sd.memory_report(file).to_dict() == sd.memory_report("\ufeff" + text).to_dict() == expected


def test_long_runs_of_blanks_take_linear_time() -> None:
    check_linear(lambda size: partial(usage_in, " " * size), 60)


UPDATES = """HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }

%body (p: f32[64,128], q: f32[64,128]) -> (f32[64,128], f32[64,128]) {
  %q = f32[64,128]{1,0:T(8,128)} parameter(1)
  %p = f32[64,128]{1,0:T(8,128)} parameter(0)
  %row = f32[1,128]{1,0:T(1,128)} constant({...})
  %zero = s32[]{:T(128)} constant(0)
  %u = f32[64,128]{1,0:T(8,128)} dynamic-update-slice(%q, %row, %zero, %zero)
  %v = f32[64,128]{1,0:T(8,128)} negate(%p)
  ROOT %t = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) tuple(%u, %v)
}

%sums (a: f32[], b: f32[], c: f32[], d: f32[]) -> (f32[], f32[]) {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %c = f32[] parameter(2)
  %d = f32[] parameter(3)
  ROOT %r = (f32[], f32[]) tuple(%a, %b)
}

ENTRY %main (x: f32[64,128], y: f32[64,128], i: s32[1,1]) -> (f32[64,128], f32[64,128]) {
  %x = f32[64,128]{1,0:T(8,128)} parameter(0)
  %y = f32[64,128]{1,0:T(8,128)} parameter(1)
  %i = s32[1,1]{1,0:T(1,128)} parameter(2)
  %held = f32[64,128]{1,0:T(8,128)} copy(%y)
  %f = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) fusion(%x, %held), kind=kLoop, calls=%body
  %g = f32[64,128]{1,0:T(8,128)} get-tuple-element(%f), index=0
  %h = f32[64,128]{1,0:T(8,128)} get-tuple-element(%f), index=1
  ROOT %s = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) scatter(%g, %h, %i, %y, %y), update_window_dims={0},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sums
}
"""


def test_several_updates_in_place_at_once_take_no_more_memory() -> None:
    report = sd.memory_report(UPDATES)
    assert {b.name: (b.kind, b.bytes) for b in report.buffers} == {
        "x": ("argument", 32768),  # donated; it has the second results of the fusion and of the scatter
        "y": ("argument", 32768),
        "i": ("argument", 512),
        "held": ("result", 32768),
    }


def test_a_donated_argument_keeps_its_name() -> None:
    text = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[8,2]| at ShapeIndex {}, maybe-live-out:
 value: <3 x.1 @0> (size=4096,offset=0): f32[8,2]{1,0:T(8,128)}
 value: <4 add @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
"""
    [buffer] = sd.memory_report(text).buffers
    assert (buffer.name, buffer.source.argument, str(buffer.shape)) == ("x.1", "x", "f32[8,128]{1,0:T(8,128)}")


def test_padding_at_the_peak_is_that_of_the_value_held_then() -> None:
    wide, thin = "f32[8,128]{1,0:T(8,128)}", "f32[16,1]{1,0:T(8,128)}"
    module = f"""HloModule m, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {{
  %x = {wide} parameter(0)
  %early = {thin} custom-call(%x), custom_call_target="a"
  %after = {wide} custom-call(%early), custom_call_target="b"
  %late = f32[8,127]{{1,0:T(8,128)}} custom-call(%after), custom_call_target="c"
  %other = f32[16,128]{{1,0:T(8,128)}} custom-call(%after, %late), custom_call_target="d"
  ROOT %y = {wide} custom-call(%after, %late, %other), custom_call_target="e"
}}
"""
    assignment = f"""BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[8,128]| at ShapeIndex {{}}:
 value: <1 x @0> (size=4096,offset=0): {wide}
allocation 1: size 4096, output shape is |f32[8,128]|, maybe-live-out:
 value: <2 y @0> (size=4096,offset=0): {wide}
allocation 2: size 20480, preallocated-temp:
 value: <3 early @0> (size=8192,offset=0): {thin}
 value: <4 after @0> (size=4096,offset=8192): {wide}
 value: <5 late @0> (size=4096,offset=0): f32[8,127]{{1,0:T(8,128)}}
 value: <6 other @0> (size=8192,offset=12288): f32[16,128]{{1,0:T(8,128)}}
"""
    report = sd.memory_report([module, assignment])
    [slot] = [b for b in report.buffers if b.name == "early"]
    assert (report.peak_at, slot.bytes, slot.unpadded_bytes) == ("other", 8192, 64)
    assert slot.wasted_bytes == report.padding_bytes == 8 * 4
    assert str(report).count("\u2591") <= 2  # the bar is nearly all data


def test_a_huge_file_of_something_else_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "hbm.bin"
    path.write_bytes(bytes(range(256)))
    os.truncate(path, 1 << 40)
    with pytest.raises(sd.UnsupportedError, match="is no HLO, no buffer assignment and no text about memory"):
        sd.memory_report(path)


def test_values_of_unknown_size_are_named() -> None:
    text = HLO.replace("(x: f32[1000,2])", "(x: f32[1000,2], d: f32[?,3])").replace(
        "\n  %x =", "\n  %d = f32[?,3]{1,0} parameter(1)\n  %x ="
    )
    assert "values of unknown size are left out: d f32[?,3]{1,0}" in sd.memory_report(text).notes
    assert not any("unknown size" in note for note in sd.memory_report(HLO).notes)
    assert not any("unknown size" in note for note in sd.memory_report(text, space="vmem").notes)


THREAD_LOCAL = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}:
 value: <1 p @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
allocation 1: size 8192, thread-local:
 value: <2 x @0> (size=8192,offset=0): f32[16,1]{1,0:T(8,128)}
allocation 2: size 4096, maybe-live-out:
 value: <3 r @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
"""


@pytest.mark.parametrize("is_timed", [False, True], ids=["alone", "with the module"])
def test_what_is_thread_local_is_in_the_total_but_not_held(is_timed: bool) -> None:
    module = """HloModule m, is_scheduled=true

ENTRY %main (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %r = f32[8,128]{1,0:T(8,128)} negate(%p)
}
"""
    report = sd.memory_report([THREAD_LOCAL, module] if is_timed else THREAD_LOCAL)
    assert (report.total_bytes, report.peak_bytes, report.padding_bytes) == (16384, 8192, 0)
    assert {b.name: (b.is_at_peak, b.wasted_bytes) for b in report.buffers} == {
        "p": (True, 0),
        "x": (False, 0),
        "r": (True, 0),
    }
    assert any(note.startswith("8,192 bytes of the total are thread-local") for note in report.notes)


STARTED = """HloModule m, is_scheduled=true

%body (x: f32[1024]) -> f32[1024] {
  %x = f32[1024]{0} parameter(0)
  %big = f32[9216]{0} custom-call(%x), custom_call_target="grow"
  ROOT %o = f32[1024]{0} custom-call(%big), custom_call_target="shrink"
}

%loop (s: (f32[1024])) -> (f32[1024]) {
  %s = (f32[1024]{0}) parameter(0)
  %v = f32[1024]{0} get-tuple-element(%s), index=0
  %big.1 = f32[9216]{0} custom-call(%v), custom_call_target="grow"
  %o.1 = f32[1024]{0} custom-call(%big.1), custom_call_target="shrink"
  ROOT %n = (f32[1024]{0}) tuple(%o.1)
}

%test (c: (f32[1024])) -> pred[] {
  %c = (f32[1024]{0}) parameter(0)
  ROOT %go = pred[] custom-call(%c), custom_call_target="test"
}

%wrapped (y: f32[1024]) -> f32[1024] {
  %y = f32[1024]{0} parameter(0)
  ROOT %in = f32[1024]{0} call(%y), to_apply=%body
}

ENTRY %main (p: f32[1024], w: pred[]) -> f32[1024] {
  %p = f32[1024]{0} parameter(0)
  %w = pred[] parameter(1)
  %start
  %more = f32[9216]{0} custom-call(%p), custom_call_target="grow"
  %less = f32[1024]{0} custom-call(%more), custom_call_target="shrink"
  %done
  ROOT %r = f32[1024]{0} add(%d, %less)
}
"""
OF_ONE = "((f32[1024]{0}), f32[1024]{0}, s32[])"
STARTS = {
    "async": (f"%a = {OF_ONE} async-start(%p), calls=%body", "async"),
    "wrapped call": (f"%a = {OF_ONE} async-start(%p), calls=%wrapped", "async"),
    "call": (f"%a = {OF_ONE} call-start(%p), to_apply=%body", "call"),
    "conditional": (
        "%a = ((pred[], f32[1024]{0}, f32[1024]{0}), f32[1024]{0}, s32[]) conditional-start(%w, %p, %p), "
        "true_computation=%body, false_computation=%body",
        "conditional",
    ),
    "updated": (f"%b = {OF_ONE} call-start(%p), to_apply=%body\n  %a = {OF_ONE} call-update(%b)", "call"),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_a_started_computation_makes_is_in_use_until_it_is_done(name: str) -> None:
    start, operation = STARTS[name]
    done = f"%d = f32[1024]{{0}} {operation}-done(%a)"
    report = sd.memory_report(STARTED.replace("%start", start).replace("%done", done))
    within, beside, small = 9216 * 4, 9216 * 4, 4096
    branches = 2 if name == "conditional" else 1
    # An argument, the result of the computation, and that of what runs beside it; a context, and an argument of a byte.
    assert report.peak_bytes == branches * within + beside + 3 * small + 4 + 1
    assert all(
        report.schedule[b.live.stop] == "d" for b in report.buffers if b.name.startswith("big") and b.live is not None
    )


def test_a_loop_that_is_started_is_one_with_its_state() -> None:
    start = """%t = (f32[1024]{0}) tuple(%p)
  %a = (((f32[1024]{0})), (f32[1024]{0}), s32[]) while-start(%t), condition=%test, body=%loop"""
    done = """%e = (f32[1024]{0}) while-done(%a)
  %d = f32[1024]{0} get-tuple-element(%e), index=0"""
    report = sd.memory_report(STARTED.replace("%start", start).replace("%done", done))
    sizes = sorted(b.bytes for b in report.buffers if b.bytes > 4)
    assert sizes == [4096, 4096, 4096, 36864, 36864]  # p with the state, less, r, and what grows inside and beside
    assert report.peak_bytes == 2 * 36864 + 2 * 4096 + 4 + 1 + 1


def test_an_update_in_place_that_is_started_takes_no_more_memory() -> None:
    array = "f32[64,128]{1,0:T(8,128)}"
    text = f"""HloModule m, is_scheduled=true

%body (p: f32[64,128]) -> f32[64,128] {{
  %p = {array} parameter(0)
  %row = f32[1,128]{{1,0:T(1,128)}} constant({{...}})
  %zero = s32[]{{:T(128)}} constant(0)
  ROOT %u = {array} dynamic-update-slice(%p, %row, %zero, %zero)
}}

ENTRY %main (x: f32[64,128]) -> f32[64,128] {{
  %x = {array} parameter(0)
  %held = {array} copy(%x)
  %s = (({array}), {array}, u32[]{{:S(2)}}) fusion-start(%held), kind=kLoop, calls=%body
  ROOT %d = {array} fusion-done(%s)
}}
"""
    assert [b.name for b in sd.memory_report(text).buffers] == ["held", "x"]


def test_an_update_may_add_the_operands_of_a_computation() -> None:
    text = """HloModule m, is_scheduled=true

%gather (table: f32[4096], i: s32[64]) -> f32[64] {
  %table = f32[4096]{0} parameter(0)
  %i = s32[64]{0} parameter(1)
  ROOT %g = f32[64]{0} custom-call(%table, %i), custom_call_target="gather"
}

ENTRY %main (t: f32[4096], n: s32[64]) -> f32[64] {
  %t = f32[4096]{0} parameter(0)
  %n = s32[64]{0} parameter(1)
  %s = ((), (), s32[]) async-start(), calls=%gather
  %u = ((f32[4096]{0}), (), s32[]) async-update(%s, %t)
  %v = ((f32[4096]{0}, s32[64]{0}), f32[64]{0}, s32[]) async-update(%u, %n)
  ROOT %d = f32[64]{0} async-done(%v)
}
"""
    report = sd.memory_report(text)
    assert {b.bytes for b in report.buffers if b.name != "s{2}"} == {16384, 256}
    assert report.peak_bytes <= 16384 + 2 * 256 + 3 * 4


def test_what_a_call_without_operands_gives_is_one_value() -> None:
    text = """HloModule m, is_scheduled=true

%f () -> f32[1024] {
  ROOT %c = f32[1024]{0} custom-call(), custom_call_target="make"
}

ENTRY %main () -> f32[1024] {
  ROOT %r = f32[1024]{0} call(), to_apply=%f
}
"""
    assert [b.bytes for b in sd.memory_report(text).buffers] == [4096]


SUM = """%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
"""
F = "f32[1024]{0}"


@pytest.mark.parametrize(
    ("shape", "start", "made"),
    [
        (f"({F}, {F})", "all-reduce-start(%a, %b), to_apply=%sum", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "all-reduce-start(%a, %b), to_apply=%sum", 2),
        (f"(({F}, {F}), ({F}, {F}))", "all-gather-start(%a, %b), dimensions={0}", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "collective-permute-start(%a, %b)", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "all-to-all-start(%a, %b)", 2),
    ],
    ids=["all-reduce", "wrapped", "all-gather", "permute", "all-to-all"],
)
def test_each_start_names_its_operands_again_where_xla_does(shape: str, start: str, made: int) -> None:
    operation = start.partition("-start")[0]
    text = f"""HloModule m, is_scheduled=true

{SUM}
ENTRY %main (p: f32[1024]) -> f32[1024] {{
  %p = {F} parameter(0)
  %a = {F} sine(%p)
  %b = {F} cosine(%p)
  %s.1 = {shape} {start}
  %d = ({F}, {F}) {operation}-done(%s.1)
  %c = {F} custom-call(%d, %a, %b), custom_call_target="take"
  ROOT %r = {F} custom-call(%c), custom_call_target="end"
}}
"""
    report = sd.memory_report(text)
    values = [b for b in report.buffers if b.bytes == 4096]
    assert len(values) == 3 + made + 2
    assert report.usage[report.schedule.index("c")] == (3 + made + 1) * 4096


def test_constants_are_in_use_throughout() -> None:
    text = """HloModule m, is_scheduled=true

ENTRY %main (x: f32[1024]) -> f32[1024] {
  %x = f32[1024]{0} parameter(0)
  %k = f32[1024]{0} constant({...})
  %y = f32[1024]{0} add(%x, %k)
  %z = f32[4096]{0} custom-call(%y), custom_call_target="grow"
  ROOT %r = f32[1024]{0} custom-call(%z), custom_call_target="shrink"
}
"""
    report = sd.memory_report(text)
    assert report.peak_bytes == 3 * 4096 + 4 * 4096
    constant = next(b for b in report.buffers if b.name == "k")
    assert (constant.kind, constant.live, constant.is_at_peak) == ("constant", (0, 4), True)


@pytest.mark.parametrize(
    "way",
    [
        "",
        "%o = (f32[1024]{0}, f32[2048]{0}) opt-barrier(%t)",
        "%o = (f32[1024]{0}, f32[2048]{0}) while(%t), condition=%test, body=%body",
        "%u = (s32[], (f32[1024]{0}, f32[2048]{0})) tuple(%i, %t)\n"
        "  %o = (f32[1024]{0}, f32[2048]{0}) get-tuple-element(%u), index=1",
    ],
    ids=["tuple", "barrier", "loop", "nested"],
)
def test_the_source_of_a_part_is_who_made_that_part(way: str) -> None:
    text = f"""HloModule m, is_scheduled=true

%body (s: (f32[1024], f32[2048])) -> (f32[1024], f32[2048]) {{
  ROOT %s = (f32[1024]{{0}}, f32[2048]{{0}}) parameter(0)
}}

%test (c: (f32[1024], f32[2048])) -> pred[] {{
  %c = (f32[1024]{{0}}, f32[2048]{{0}}) parameter(0)
  ROOT %go = pred[] constant(false)
}}

ENTRY %main (a: f32[1024], b: f32[2048], i: s32[]) -> f32[2048] {{
  %a = f32[1024]{{0}} parameter(0), metadata={{op_name="first"}}
  %b = f32[2048]{{0}} parameter(1), metadata={{op_name="second"}}
  %i = s32[] parameter(2)
  %x = f32[1024]{{0}} sine(%a), metadata={{op_name="jit(f)/sin"}}
  %y = f32[2048]{{0}} cosine(%b), metadata={{op_name="jit(f)/cos"}}
  %t = (f32[1024]{{0}}, f32[2048]{{0}}) tuple(%x, %y)
  {way}
  %g = f32[2048]{{0}} get-tuple-element(%{"o" if way else "t"}), index=1
  ROOT %copied = f32[2048]{{0}} copy(%g)
}}
"""
    report = sd.memory_report(text)
    assert next(str(b.source) for b in report.buffers if b.name == "copied") == "jit(f)/cos"


@pytest.mark.jax
def test_a_program_that_jax_compiled_is_counted_by_the_assignment_that_xla_made() -> None:
    jax = pytest.importorskip("jax")

    def program(x: Any, y: Any) -> Any:
        return jax.numpy.tanh(x @ y) @ y.T, jax.numpy.sort(x)

    compiled = jax.jit(program).lower(np.ones((512, 300), np.float32), np.ones((300, 700), np.float32)).compile()
    report = sd.memory_report(compiled)
    assert report.total_bytes == sum(one.size for one in sd.read_allocations(compiled))
    # The text alone does not say that the second of two temporaries takes the place of the first.
    assert sd.memory_report(compiled.as_text()).peak_bytes > report.total_bytes
    assert {one.name for one in report.buffers} >= {"x.1", "y.1"}


TUPLE = """BufferAssignment:
allocation 0: size {0}, output shape is |(f32[3], f32[5])|, maybe-live-out:
 value: <1 t{{}} @0> (size={0},offset=0): (f32[3]{{0{1}}}, f32[5]{{0{1}}})
"""


@pytest.mark.parametrize(
    ("size", "tiles", "padding"), [(16, "", 0), (32, "", 24), (16, ":T(128)", 8), (32, ":T(128)", 24)]
)
def test_pointers_of_other_devices_are_no_padding(size: int, tiles: str, padding: int) -> None:
    (buffer,) = sd.memory_report(TUPLE.format(size, tiles)).buffers
    assert buffer.padding_bytes == padding


def test_pages_and_terminals_say_alike_that_a_total_is_rounded() -> None:
    report = sd.memory_report(OLD)
    assert str(report).startswith("the program: about 18.81GiB")
    assert "about 18.81GiB" in report._repr_html_()
