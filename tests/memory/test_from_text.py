"""Reports from the texts of compilers: tables, messages and lists of the largest buffers."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

import strided as sd
from strided.layout import TupleShape
from strided.memory.usage_text import usage_in
from tests.hlo_samples import module_text
from tests.memory.samples import MATMUL, MEMORY, OLD, REPORTS, text_of
from tests.steps import check_linear
from tests.thinned import thinned

SPACE = re.compile(r"Memory Space: (\S+) \(color=(\d+)\)\nTotal bytes: (\d+)")


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


@pytest.mark.parametrize("path", thinned(REPORTS, 3), ids=lambda path: path.name)
@pytest.mark.slow
def test_padding_is_at_most_what_a_text_leaves_room_for(path: Path, tmp_path: Path) -> None:
    """What is in no row may be padding: a text that lost a row bounds it as much as before, or more."""
    lines = text_of(path).splitlines(keepends=True)
    whole, seen = sd.memory_report(path), 0
    for k in range(len(lines)):
        copy = tmp_path / "cut.txt"
        copy.write_text("".join([*lines[:k], *lines[k + 1 :]]), encoding="utf-8")
        try:
            cut = sd.memory_report(copy)
        except sd.DumpError:
            continue
        if cut.total_bytes == whole.total_bytes and cut.space == whole.space and len(cut.buffers) < len(whole.buffers):
            seen += 1
            assert whole.padding_bytes <= cut.padding_bytes <= cut.total_bytes
    assert seen


def test_a_module_beside_an_error_names_its_rows() -> None:
    report = sd.memory_report([MATMUL[2], MATMUL[0]])
    row = next(b for b in report.buffers if str(b.shape) == "c64[30,129]{1,0:T(8,128)}")
    assert (row.kind, row.source.argument, row.bytes) == ("argument", "b", 65536)


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


E1000 = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (16.50K) exceeds available HBM (15.75K). HLO module: m.\nSee https://example.org for more details."
)


@pytest.mark.parametrize("memory", ["memory", "device memory"])
@pytest.mark.parametrize(
    ("needed", "total"), [("3.84T", 3.84 * (1 << 40)), ("1.50P", 1.5 * (1 << 50)), ("3.47E", 3.47 * (1 << 60))]
)
def test_a_compiler_that_ends_early_tells_its_estimate(memory: str, needed: str, total: float) -> None:
    text = (
        f"RESOURCE_EXHAUSTED: Compilation failure: Aborting compilation early because it's unlikely to have enough "
        f"{memory}. Requires {needed}, has 90.96G available. If more detailed logging is desired, set "
        "--xla_tpu_impure_oom_fast_exit_threshold=-1"
    )
    for source in (text, RuntimeError(text), json.dumps({"message": f"{text}\nat f.py"}), f"E1120 11:31:48 {text}\n"):
        report = sd.memory_report(source)
        assert (report.space_name, report.total_bytes) == ("hbm", round(total))
        assert (report.capacity, report.buffers) == (round(90.96 * (1 << 30)), ())
        assert report.rounded == {"total_bytes", "capacity", "excess"}
        assert any("the total is its estimate" in note for note in report.notes)
    two = sd.memory_report(f"{text}\n{text.replace('90.96', '15.75')}")
    assert "the text holds more reports; this is the first" in two.notes


def test_the_values_of_a_module_stand_in_for_rows_that_an_error_lacks() -> None:
    before = module_text("p = f32[1000,2] parameter(0)\nROOT r = f32[1000,2] sine(p)")
    report = sd.memory_report([RuntimeError(E1000), before], generation="v5e")
    assert [(b.name, b.kind, str(b.shape)) for b in report.buffers] == [
        ("p", "argument", "f32[1000,2]{0,1:T(2,128)}"),
        ("r", "result", "f32[1000,2]{0,1:T(2,128)}"),
    ]
    alone = sd.memory_report(E1000)
    for name in ("module", "total_bytes", "peak_bytes", "capacity", "excess", "bounds"):
        assert getattr(report, name) == getattr(alone, name)
    assert report.rounded == alone.rounded | {"padding_bytes"}
    assert report.padding_bytes == sum(b.wasted_bytes for b in report.buffers) == 2 * 192
    assert not any("or a dump, does" in note for note in report.notes)
    other = sd.memory_report([E1000, before.replace("HloModule m", "HloModule other")])
    assert other.notes == ("the text is about m, and the HLO about other", *alone.notes)
    assert other.to_dict() == alone.to_dict() | {"notes": list(other.notes)}


def test_a_scheduled_module_tells_when_the_values_are_in_use() -> None:
    after = module_text(
        "p = f32[8,128]{1,0:T(8,128)} parameter(0)\nq = f32[8,128]{1,0:T(8,128)} sine(p)\n"
        "ROOT r = f32[8,128]{1,0:T(8,128)} abs(q)",
        "HloModule m, is_scheduled=true",
    )
    report = sd.memory_report([after, E1000])
    assert (report.usage, report.peak_bytes) == ((4096, 8192, 12288), 12288)
    assert (report.total_bytes, report.schedule) == (16896, ("p", "q", "r"))
    assert sd.memory_report([after, E1000.replace("16.50K", "8.00K")]).peak_bytes == 8192  # no more than the total


TWO_SPACES = """Memory Space: default (color=0)
Total bytes: 18432000 (17.58MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
   17.58MiB(100%);   17.58MiB;            0;                1; f32[3000,1500]

Memory Space: vmem (color=1)
Total bytes: 4096 (4.0KiB)
"""


def test_no_values_stand_in_for_those_of_another_memory_space() -> None:
    """What the module says of the space is nothing, and so nothing of its padding."""
    before = module_text("p = f32[3000,1500] parameter(0)\nROOT r = f32[3000,1500] sine(p)")
    report, alone = (sd.memory_report(given, space="vmem") for given in ([TWO_SPACES, before], TWO_SPACES))
    assert report.padding_bytes == 4096
    assert "padding  not known: no buffers are listed\n" in f"{report}\n"
    assert (
        report.notes
        == alone.notes
        == (
            "the total is the compiler's own",
            "the text lists no buffers of this memory space",
        )
    )
    assert (report.space_name, sd.memory_report(TWO_SPACES, space=1).space_name) == ("vmem", "vmem")
    assert sd.memory_report(TWO_SPACES.partition("\nMemory Space: vmem")[0], space=1).space_name == "vmem"
    error = E1000.replace("HBM", "VMEM").replace("Hbm", "Vmem")
    assert sd.memory_report([error, before], space=1).padding_bytes == sd.memory_report(error, space=1).padding_bytes


def test_values_of_a_module_stand_in_for_tables_that_cannot_be_read() -> None:
    before = module_text("p = f32[3000,1500] parameter(0)\nROOT r = f32[3000,1500] sine(p)")
    report = sd.memory_report([TWO_SPACES.replace(";   17.58MiB;", "|   17.58MiB|"), before], generation="v5e")
    assert [b.name for b in report.buffers] == ["p", "r"]
    assert report.notes[1].startswith("the tables of the text cannot be read: these are the values of the HLO. ")


def test_the_list_of_older_compilers_is_read() -> None:
    report = sd.memory_report(OLD)
    (buffer,) = report.buffers
    assert (buffer.name, buffer.kind, buffer.source.op_name) == ("fusion.1", "temporary", "jit(f)/mul")
    assert (buffer.bytes, buffer.unpadded_bytes) == (4 << 30, 32 << 20)
    assert report.excess == round(3.33 * (1 << 30))


def test_the_list_of_older_compilers_names_lines_of_the_program() -> None:
    said = 'op_name="jit(f)/mul" source_file="/home/me/model.py" source_line=7'
    (buffer,) = sd.memory_report(OLD.replace('op_name="jit(f)/mul"', said)).buffers
    assert (buffer.source.file, buffer.source.line) == ("/home/me/model.py", 7)
    assert str(buffer.source) == "jit(f)/mul at model.py:7"


def test_the_name_of_a_program_ends_with_its_line() -> None:
    for end in ("\nSee", r".\nSee", r".\\nSee", ". See", ', "more"', '"', "'", ""):
        found = usage_in(f"'Ran out of memory in memory space hbm. Used 2G of 1G hbm. HLO module: jit_step{end}")
        assert found is not None
        assert found.module == "jit_step"


@pytest.mark.slow
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


def test_long_runs_of_blanks_take_linear_time() -> None:
    check_linear(lambda size: partial(usage_in, " " * size), 60)


def test_a_scalar_beside_an_array_does_not_explain_its_slot() -> None:
    """Slots are shared: the counters that lie in one before the array say nothing of its size."""
    report = sd.memory_report("""Memory Space: default (color=0)
Total bytes: 18432512 (17.58MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
   17.58MiB(100%);   17.58MiB;            0;                6; f32[3000,1500], 5×s32[]

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
       512B(100%);       512B;            0;                2; s32[], pred[]
""")
    array, scalars = sorted(report.buffers, key=lambda b: -b.bytes)
    assert [str(shape) for shape in array.shapes] == ["f32[3000,1500]{1,0:T(8,128)}"]
    assert (array.bytes, array.unpadded_bytes, array.is_rounded) == (18_432_000, 18_000_000, False)
    assert {"s32[]{:T(128)}", "pred[]{:T(512)}"} <= {str(shape) for shape in scalars.shapes}


def test_the_inside_of_a_fusion_and_other_memory_spaces_explain_no_row() -> None:
    narrow, wide = "f32[100000,16]{0,1:T(8,128)}", "f32[8,100000]{1,0:T(8,128)}"
    module = f"""HloModule jit_f, is_scheduled=true

%fused (a: f32[100000,16]) -> f32[8,100000] {{
  %a = {narrow} parameter(0)
  %half = f32[100000,8]{{0,1:T(8,128)}} slice(%a), slice={{[0:100000], [0:8]}}, metadata={{op_name="jit(f)/slice"}}
  ROOT %turned = {wide} transpose(%half), dimensions={{1,0}}, metadata={{op_name="jit(f)/transpose"}}
}}

ENTRY %main (x: f32[100000,16]) -> f32[8,100000] {{
  %x = {narrow} parameter(0), metadata={{op_name="x"}}
  %near = f32[100000,16]{{0,1:T(8,128)S(1)}} custom-call(), custom_call_target="near"
  ROOT %f = {wide} fusion(%x), kind=kLoop, calls=%fused, metadata={{op_name="jit(f)/fused"}}
}}
"""
    text = """Memory Space: default (color=0)
Total bytes: 9609216 (9.16MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    6.11MiB(100%);    6.11MiB;            0;                1; f32[100000,16]

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    3.05MiB(100%);    3.05MiB;            0;                1; f32[8,100000]
"""
    argument, result = sd.memory_report([text, module]).buffers
    assert (argument.kind, argument.source.argument, [*map(str, argument.shapes)]) == ("argument", "x", [narrow])
    assert (str(result.source), [*map(str, result.shapes)]) == ("jit(f)/fused", [wide])
