"""Logs of programs that ran out of memory: what is repeated, cut, or of another program is not mixed in."""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import strided as sd
from strided.dumps.detect import recognise
from strided.memory import explain_size
from strided.memory.usage_text import Size, logs
from tests.memory.samples import ERROR, LOGS, MEMORY, OLD, REPORTS, text_of

MORE = "the text holds more reports; this is the first"
USED = "Ran out of memory in memory space {0}. Used {1} of {2} {0}. Exceeded {0} capacity by {3}.\n"
SECOND = OLD.replace("4.00G", "5.00G").replace("fusion.1", "fusion.2").replace("18.81G", "19.81G")
SPILLS = """
  Largest program allocations in vmem:

  1. Size: 15.00M
     XLA label: register allocator spill slots call depth 2
     Allocation type: scoped
     ==========================
"""


@pytest.mark.parametrize("second", [OLD, SECOND], ids=["the same", "another"])
def test_a_list_that_a_log_repeats_counts_once(second: str) -> None:
    own, plain = sd.memory_report(f"{OLD}\nThe above exception was the direct cause\n{second}"), sd.memory_report(OLD)
    assert own.buffers == plain.buffers
    assert own.padding_bytes == plain.padding_bytes
    assert MORE in own.notes


def test_the_list_of_another_process_is_counted() -> None:
    pairs = zip(OLD.split("\n"), SECOND.split("\n"), strict=True)
    own = sd.memory_report("\n".join(f"(pid=1) {a}\n(pid=2) {b}" for a, b in pairs))
    assert own.buffers == sd.memory_report(OLD).buffers
    assert MORE in own.notes


def test_a_list_belongs_to_the_space_that_its_head_names() -> None:
    report = sd.memory_report(USED.format("vmem", "29.96M", "16.00M", "13.96M") + SPILLS)
    assert (report.space_name, report.capacity, len(report.buffers)) == ("vmem", 16 << 20, 1)
    assert report.buffers[0].name == "register allocator spill slots call depth 2"
    both = sd.memory_report(f"{OLD}{USED.format('vmem', '29.96M', '16.00M', '13.96M')}{SPILLS}")
    assert both.buffers == sd.memory_report(OLD).buffers


@pytest.mark.parametrize("end", ["1", "15", "15.4", "15..."])
def test_a_limit_that_was_cut_is_none(end: str) -> None:
    with pytest.raises(sd.DumpError, match="says nothing that is understood about memory"):
        sd.memory_report(f"RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 19.46G of {end}")


def test_other_figures_that_were_cut_are_left_out() -> None:
    report = sd.memory_report(USED.format("hbm", "20.00G", "15.00G", "5.00G").partition(".00G.\n")[0])
    assert report.excess == 5 << 30
    (buffer,) = sd.memory_report(OLD[: OLD.index("2.00M\n")]).buffers
    assert (buffer.unpadded_bytes, buffer.expansion) == (32 << 20, 128)


def test_limits_of_other_spaces_are_not_those_of_main_memory() -> None:
    tables = text_of(REPORTS[0])
    report = sd.memory_report(USED.format("sflag", "2.1K", "2.0K", "64B") + tables)
    assert (report.space_name, report.capacity) == ("hbm", None)
    assert "the text says that the program does not fit in sflag" in report.notes
    assert sd.memory_report(USED.format("sflag", "2.1K", "2.0K", "64B")).space != 0


def test_the_excess_is_that_of_the_same_message() -> None:
    first, second = USED.format("hbm", "20.00G", "15.00G", "5.00G"), USED.format("vmem", "30.00M", "16.00M", "14.00M")
    report = sd.memory_report(f"{first.partition(' Exceeded')[0]}\n{second}")
    assert report.excess == 5 << 30
    assert MORE in report.notes


def test_the_program_is_the_one_that_a_message_names() -> None:
    assert sd.memory_report(f"HLO module: jit_init.\n{OLD.strip()} HLO module: jit_step.\n").module == "jit_step"


def test_rows_that_are_not_understood_are_counted() -> None:
    text = text_of(MEMORY / "hbm_train_step_v4.report.txt.gz")
    whole, cut = sd.memory_report(text), sd.memory_report(text.replace("×", "x"))
    assert (len(whole.buffers), len(cut.buffers)) == (99, 44)
    assert "55 rows of the text left out: not understood" in cut.notes
    assert not any("not understood" in note for note in whole.notes)


def test_tables_of_another_space_are_not_called_unreadable() -> None:
    for space in (1, 6):
        notes = sd.memory_report(REPORTS[1], space=space).notes
        assert not any("cannot be read" in note for note in notes)
    with pytest.raises(sd.DumpError, match="says nothing about memory space 1"):
        sd.memory_report(OLD, space="vmem")


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (r"params[\'w\']", "params['w']"),
        (r"jit(f)/add[ dimensions=( )\n   shape=(8,) ]", r"jit(f)/add[ dimensions=( )\n   shape=(8,) ]"),
    ],
)
def test_names_of_operations_may_be_escaped(said: str, name: str) -> None:
    (buffer,) = sd.memory_report(OLD.replace("jit(f)/mul", said)).buffers
    assert buffer.source.op_name == name


def test_a_shape_tells_the_size_without_padding_that_the_text_rounds() -> None:
    text = OLD.replace("f32[1048576,8]", "s32[29360128,10]").replace("4.00G", "14.00G").replace("32.00M", "1.09G")
    (buffer,) = sd.memory_report(text).buffers
    assert buffer.unpadded_bytes == 29360128 * 10 * 4


def test_a_log_may_go_on_with_hlo() -> None:
    report = sd.memory_report(f"{OLD}\nHloModule f\n\nENTRY e {{\n  ROOT x = f32[8]{{0}} parameter(0)\n}}\n")
    assert report.buffers == sd.memory_report(OLD).buffers


def test_the_report_of_xla_for_other_devices_is_no_damage(tmp_path: Path) -> None:
    stem = "module_0005.jit_f.cpu_after_optimizations"
    usage = "Total bytes used: 16 (16B)\n\nAllocations sorted by size:\n\n"
    held = "allocation 0: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:\n"
    held += " value: <1 x @0> (size=16,offset=0): f32[4]{0}\n"
    (tmp_path / f"{stem}-memory-usage-report.txt").write_text(usage, encoding="utf-8")
    (tmp_path / f"{stem}-buffer-assignment.txt").write_text(f"BufferAssignment:\n{held}", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sd.memory_report(tmp_path).total_bytes == 16
    with pytest.raises(sd.UnsupportedError, match="memory usage report of XLA for CPU or GPU"):
        sd.memory_report(tmp_path / f"{stem}-memory-usage-report.txt")


GPU = """\
RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8388608 bytes.
BufferAssignment OOM Debugging.
             parameter allocation:    6.50MiB
                 total allocation:   14.50MiB
Peak buffers:
\tBuffer 1:
\t\tSize: 8.00MiB
\t\tOperator: op_name="jit(f)/mul" source_file="f.py" source_line=7
\t\tXLA Label: fusion
\t\tShape: f32[4096,512]
\t\t==========================

\tBuffer 2:
\t\tSize: 6.00MiB
\t\tEntry Parameter Subshape: bf16[3,1024,1024]
\t\t==========================

"""


@pytest.mark.parametrize("prefix", ["", "(pid=7) 2026-01-02 10:11:12.5 "])
def test_the_list_of_a_gpu(prefix: str) -> None:
    report = sd.memory_report("\n".join(prefix + line for line in GPU.split("\n")))
    first, second = report.buffers
    assert (str(first.shape), first.bytes, str(first.source)) == ("f32[4096,512]{1,0}", 8 << 20, "jit(f)/mul at f.py:7")
    assert (str(second.shape), second.bytes, second.kind) == ("bf16[3,1024,1024]{2,1,0}", 6 << 20, "argument")
    assert (report.total_bytes, report.padding_bytes) == (29 << 19, 0)
    assert any(note.startswith("512.0KiB of the total are in no buffer") for note in report.notes)


@pytest.mark.parametrize(
    ("own", "other"), [("  ", "\xa0 "), ("\n", "\r\r\n")], ids=["spaces of web pages", "ends of lines"]
)
def test_the_list_of_a_gpu_may_come_through_a_viewer(own: str, other: str) -> None:
    assert sd.memory_report(GPU.replace(own, other)) == sd.memory_report(GPU)


@pytest.mark.parametrize(
    "message",
    [
        "Error allocating device buffer: Attempting to allocate 129.50M. That was not possible. There are 78.17M free.",
        "Error loading program 'jit_f': Attempting to reserve 29.49G at the bottom of memory. That was not possible. "
        "There are 147.64M free, 0B reserved, and 147.64M reservable.",
    ],
)
def test_what_the_runtime_says_names_no_buffers(message: str) -> None:
    with pytest.raises(sd.DumpError, match="it names no buffers"):
        sd.memory_report(f"RESOURCE_EXHAUSTED: {message}")


def table_of(*rows: tuple[str, str]) -> str:
    """A memory usage report with rows of a table, each a size and shapes."""
    head = "Memory Space: default (color=0)\nTotal bytes: 1073741824 (1.00GiB)\n  cumulative_size; size; offset\n"
    lines = (f"  {size}(9%); {size}; {n << 20}; {shapes.count('[')}; {shapes}" for n, (size, shapes) in enumerate(rows))
    return "\n".join([head, *lines, ""])


@pytest.mark.parametrize("shape", ["f32[?]", "f32[<=8,?]", "f32[4]{0:T(2,*)}"])
def test_a_shape_without_a_size_spoils_only_what_is_said_of_it(shape: str) -> None:
    report = sd.memory_report(table_of(("1.0MiB", shape), ("2.0MiB", f"{shape}, f32[1000,500]")))
    one, other = sorted(report.buffers, key=lambda buffer: buffer.bytes)
    assert (one.shape, one.bytes, one.unpadded_bytes) == (None, 1 << 20, 1 << 20)
    too_large = sd.memory_report(table_of(("1.0MiB", f"bf16[{1 << 61},1]")))  # in tiles
    assert len(too_large.buffers) == 1
    assert str(other.shape) == "f32[1000,500]{1,0:T(8,128)}"
    assert str(report)


def test_of_shapes_that_do_not_explain_a_size_the_first_is_told() -> None:
    (buffer,) = sd.memory_report(table_of(("1.0MiB", "f32[3000,1500], f32[7,9]"))).buffers
    assert [shape.text(layout=False) for shape in buffer.shapes] == ["f32[3000,1500]"]


def test_a_shape_without_elements_explains_no_size() -> None:
    buffers = sd.memory_report(table_of(("1.0MiB", "f32[0,5]"), ("512B", "f32[7,0,5], s32[]"))).buffers
    assert [(b.shape.text(layout=False), b.bytes) for b in buffers] == [("f32[0,5]", 1 << 20), ("s32[]", 512)]


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "argument params[0]"),
        (2, "argument params[0] or params[1]"),
        (3, "argument params[0] or params[1] or params[2]"),
        (5, "argument params[0] or params[1] or params[2] or ..."),
    ],
)
def test_a_row_that_several_arguments_may_be_names_the_first_of_them(count: int, named: str) -> None:
    lines = "".join(
        f'  p{k} = f32[1000,2]{{1,0:T(8,128)}} parameter({k}), metadata={{op_name="params[{k}]"}}\n'
        for k in range(count)
    )
    module = f'HloModule m\n\nENTRY e {{\n{lines}  ROOT r = f32[] custom-call(p0), custom_call_target="sum"\n}}\n'
    (buffer,) = sd.memory_report([table_of(("500.0KiB", "f32[1000,2]")), module]).buffers
    assert (buffer.kind, str(buffer.source)) == ("argument", named)


def test_a_row_that_an_argument_or_an_operation_may_be_is_called_neither() -> None:
    module = (
        "HloModule m\n\nENTRY e {\n"
        '  p = f32[1000,2]{0,1:T(2,128)} parameter(0), metadata={op_name="params"}\n'
        "  c = f32[1000,2]{1,0:T(8,128)} copy(p)\n"
        '  s = f32[1000,2]{1,0:T(8,128)} sine(c), metadata={op_name="jit(f)/sin"}\n'
        '  ROOT r = f32[] custom-call(s), custom_call_target="sum"\n}\n'
    )
    (buffer,) = sd.memory_report([table_of(("500.0KiB", "f32[1000,2]")), module]).buffers
    assert str(buffer.source) == "params or jit(f)/sin"


def test_only_layouts_that_take_the_size_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(explain_size, "replace", lambda *args, **more: made.append(more) or replace(*args, **more))
    many = ", ".join(f"f32[{n},3,5,7,9,{n},2,4]" for n in range(2, 34))
    report = sd.memory_report(table_of(*[("3.0MiB", many)] * 20))
    assert len(report.buffers) == 20
    assert len(made) < 32 * 10, "of 112 orders of each shape"


@pytest.mark.parametrize("text", ["f32[9,300,2]", "bf16[3,17,1,8]", "s8[40,64,7]", "s4[128,5,33]", "pred[6,2]"])
def test_every_order_whose_size_fits_is_found(text: str) -> None:
    shape = sd.parse_shape(text)
    generations = ("v5e", "v2")
    for size in {shape.with_layout(sd.tpu.default_layout(shape, one)).byte_size for one in generations}:
        wanted = set()
        for one in generations:
            default = sd.tpu.default_layout(shape, one)
            for order in itertools.permutations(range(shape.rank)):
                if order[2:] != tuple(sorted(order[2:], reverse=True)):
                    continue
                tiles = sd.tpu.default_layout(f"{shape.element_type}[{shape.dimensions[order[1]]},1048576]", one).tiles
                wanted.add(shape.with_layout(replace(default, minor_to_major=order, tiles=tiles)))
            rows = tuple(reversed(range(shape.rank)))
            wanted.add(shape.with_layout(replace(default, minor_to_major=rows, tiles=())))
        found = explain_size.explanations(text, Size(size, size, size), None)
        assert set(found) == {one for one in wanted if one.byte_size == size}


def test_names_in_a_text_cannot_control_a_terminal() -> None:
    text = OLD.replace("hbm", "x\u202ehbm").replace("Allocation type: HLO temp", "Allocation type: HLO\x1b]0;temp")
    spaces = table_of(("1.0MiB", "f32[512,512]")).replace("default (color=0)", "smem\u202a (color=2)")
    for report in (sd.memory_report(text), sd.memory_report(spaces)):
        assert report.buffers
        assert str(report).replace("\n", "").isprintable()
    assert "smem\\u202a" in str(sd.memory_report(spaces))


def as_objects(text: str, **more: str) -> list[dict[str, str]]:
    """The lines of a text as a service for logs gives them."""
    lines = enumerate(text.split("\n"))
    return [
        {"id": f"x{n}", "textPayload": line, "timestamp": f"2026-11-22T14:27:30.{n:05}Z"} | more for n, line in lines
    ]


#: What viewers and services make of a text: how lines end and begin, and what they are part of.
SHOWN: dict[str, Callable[[str], str]] = {
    "ends of old": lambda text: text.replace("\n", "\r"),
    "both ends": lambda text: text.replace("\n", "\r\n"),
    "ends of a terminal within a terminal": lambda text: text.replace("\n", "\r\r\n"),
    "behind a progress bar": lambda text: f" 10%|#  | 1/10\r 20%|## | 2/10\r{text}",
    "numbered": lambda text: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 7)),
    "numbered by grep": lambda text: "\n".join(f"{n}:{line}" for n, line in enumerate(text.split("\n"), 7)),
    "numbered by grep, with what is around": lambda text: "\n".join(
        f"a-2.log{':-'[n % 9 > 0]}{n}{':-'[n % 9 > 0]}{line}" for n, line in enumerate(text.split("\n"), 95)
    ),
    "spaces of web pages": lambda text: text.replace("    ", "\xa0\xa0\xa0\xa0"),
    "tabs": lambda text: text.replace("     ", "\t"),
    "objects in lines": lambda text: "\n".join(map(json.dumps, as_objects(text, severity="ERROR"))),
    "objects within objects": lambda text: "\n".join(
        json.dumps({"jsonPayload": {"message": one["textPayload"]}, "at": "here"}) for one in as_objects(text)
    ),
    "objects in a list": lambda text: json.dumps(as_objects(text), indent=2),
    "objects in a list, the latest first": lambda text: json.dumps(as_objects(text)[::-1], indent=2),
    "colours in JSON": lambda text: json.dumps(
        {"message": "".join(f"\x1b[31m{line}\x1b[0m\n" for line in text.split("\n"))}
    ),
}


@pytest.mark.parametrize("text", LOGS, ids=["tables", "list"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_text_may_come_through_any_viewer(name: str, text: str) -> None:
    shown = SHOWN[name](text)
    assert shown != text
    own, plain = sd.memory_report(shown), sd.memory_report(text)
    assert own == plain
    assert plain.buffers


def test_the_list_may_have_lost_its_line_ends() -> None:
    lost = " ".join(OLD.replace("=\n", f"=\n{SECOND.partition('hbm:')[2].replace('1. ', '2. ')}").split("\n"))
    report = sd.memory_report(lost)
    assert [b.name for b in report.buffers] == ["fusion.2", "fusion.1"]
    assert report.buffers[1:] == sd.memory_report(OLD).buffers


@pytest.mark.parametrize("count", [2, 8])
def test_numbers_of_processes_count_no_lines(count: int) -> None:
    lines = zip(*(OLD.replace("fusion.1", f"fusion.{k}").split("\n") for k in range(count)), strict=True)
    own = sd.memory_report("\n".join(f"{k}: {line}" for those in lines for k, line in enumerate(those)))
    assert own.buffers == sd.memory_report(OLD.replace("fusion.1", "fusion.0")).buffers
    assert MORE in own.notes


TEMPORARIES = """
Program hbm requirement 18.81G:
    HLO temp        18.00G (25.0% utilization: Unpadded (4.50G) Padded (18.00G), 0.0% fragmentation (1.52M))
"""


def test_what_the_compiler_says_of_all_padding_bounds_it() -> None:
    said = OLD.replace("\n\n  Largest", f"\n{TEMPORARIES}\n  Largest")
    plain, report = sd.memory_report(OLD), sd.memory_report(said)
    assert "the compiler says that temporaries take 18.00GiB, and 4.50GiB without padding" in report.notes
    assert plain.padding_bytes == plain.total_bytes - (32 << 20)
    assert 0 <= report.padding_bytes - (report.total_bytes - (9 << 29)) < 1 << 24, "the figure is rounded"
    assert report.buffers == plain.buffers


@pytest.mark.parametrize(
    "message",
    [
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 25769803776 bytes.",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 24.00GiB (rounded to 25769803776)requested by op",
    ],
)
def test_what_an_allocator_of_a_gpu_says_names_no_buffers(message: str) -> None:
    with pytest.raises(sd.DumpError, match="it names no buffers"):
        sd.memory_report(f"{message}\n")


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message whose number and length are below 2**14."""
    small = [value if isinstance(value, int) else len(value)]
    while small[-1] > 127:
        small[-1:] = [small[-1] & 127 | 128, small[-1] >> 7]
    return bytes([number << 3 | 2 * isinstance(value, bytes), *small]) + (b"" if isinstance(value, int) else value)


def usage_message(text: str) -> bytes:
    """The message that XLA writes beside a memory usage report."""
    spaces = []
    for part in text.split("Memory Space: ")[1:]:
        head, *tables = part.split("  cumulative_size;")
        number, total = (
            int(head.partition(before)[2].partition(after)[0]) for before, after in (("=", ")"), ("bytes: ", " "))
        )
        held = b"".join(
            field(3, field(2, 8) + field(5, b"x") + field(6, f"  cumulative_size;{one}".encode())) for one in tables
        )
        spaces.append(field(1, field(1, total) + field(2, number) + held))
    return b"".join(spaces)


def test_the_report_as_a_message_is_that_of_the_text(tmp_path: Path) -> None:
    rows = [("1.0MiB", "f32[512,512]"), ("2.0MiB", "bf16[9,16], f32[1000,500]")]
    text = table_of(*rows) + table_of(*rows[:1]).replace("default (color=0)", "space1 (color=1)")
    message = usage_message(text)
    assert recognise(message) == "memory report"
    for space in (0, 1):
        assert sd.memory_report(message, space=space) == sd.memory_report(text, space=space)
    file = tmp_path / "module_0001.jit_f.after_optimizations-memory-usage-report.pb"
    file.write_bytes(message)
    assert sd.memory_report(file).buffers == sd.memory_report(tmp_path).buffers == sd.memory_report(text).buffers


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_message_that_is_cut_is_no_report(cut: int) -> None:
    message = usage_message(table_of(("1.0MiB", "f32[512,512]")))
    assert recognise(message[:-cut]) == "binary"
    with pytest.raises(sd.UnsupportedError, match="no HLO, no buffer assignment and no text about memory"):
        sd.memory_report(message[:-cut])


def test_without_tiles_a_layout_is_row_major() -> None:
    shape = "f32[2,9,19,8]"
    (buffer,) = sd.memory_report(table_of(("10.7KiB", shape))).buffers
    assert str(buffer.shape) == f"{shape}{{3,2,1,0}}"


def test_a_message_of_very_many_memory_spaces_is_no_report() -> None:
    message = usage_message(table_of(("1.0MiB", "f32[512,512]")))
    assert recognise(message * 3) == "memory report"
    assert recognise(message + b"\n\0" * 1000) == "binary"


#: What logs make of a line, by its number.
LOGGED: dict[str, Callable[[int, str], str]] = {
    "Ray": lambda _, line: f"\x1b[36m(train pid=12, ip=10.0.0.14)\x1b[0m {line}",
    "ranks": lambda _, line: f"0: {line}",
    "containers": lambda _, line: f"web-1  | {line}".rstrip(),
    "quoted": lambda _, line: f"\t> {line}",
    "times": lambda n, line: f"2026-11-22T14:{27 + n // 9}:{n % 60:02}.{10**8 + 997 * n}Z {line}",
    "whole seconds": lambda n, line: f"Nov 22 09:59:{n % 60:02}{'.5' if n % 3 else ''} host python[77]: {line}",
    "seconds since the start": lambda n, line: f"[{0.9 + n * 0.013:8.3f}s] {line}",
    "aligned seconds": lambda n, line: f"[{7.9 + n * 0.7:12.6f}] {line}",
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


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_a_log_may_have_colours(path: Path) -> None:
    text = text_of(path)
    coloured = "\x1b[31m" + text.replace("\n", "\x1b[0m\n").replace("size", "\x1b[1;32msize\x1b[0m")
    assert sd.memory_report(coloured).to_dict() == sd.memory_report(text).to_dict()
    found = "\n".join(f"\x1b[01;31m\x1b[K{line}\x1b[m\x1b[K" for line in text.split("\n"))  # as by grep
    assert sd.memory_report(found).to_dict() == sd.memory_report(text).to_dict()


def test_a_log_may_claim_more_than_there_are_units_for() -> None:
    report = sd.memory_report("Ran out of memory in memory space hbm. Used 999999999999999999T of 15.75G hbm.\n")
    assert "EiB" in str(report)
    assert "EiB" in report.svg()


def test_values_of_json_may_lie_deep_within_each_other() -> None:
    """Each string took a step for each list around it, and lists deeper than Python calls functions were no log."""
    value: object = ["deep", "too"]
    for _ in range(2 * sys.getrecursionlimit()):
        value = [value]
    assert list(logs._strings_in({"first": "a", "log": value, "last": ["b", {"c": "d"}, 3, None]})) == [
        ("first", "a"),
        ("log", "deep"),
        ("log", "too"),
        ("last", "b"),
        ("c", "d"),
    ]


@pytest.mark.parametrize("text", ['{"log": "HLO module: jit_f."}', '{"log": "HLO module: jit_f."}\nthe end'])
def test_json_is_read_up_to_a_length(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert logs._written(text).startswith("HLO module")
    monkeypatch.setattr(logs, "_LONGEST_JSON", 20)
    assert logs._written(text) == text


def test_halves_of_a_character_are_one() -> None:
    text = OLD.replace("jit(f)/mul", "jit(f)/\U0001f600")
    written = f"it said {json.dumps(text)}"
    assert r"\ud83d\ude00" in written
    assert sd.memory_report(written).buffers == sd.memory_report(text).buffers


def test_a_message_that_was_cut_has_not_the_figures_of_the_next() -> None:
    whole = (MEMORY / "vmem_scoped_limit_v6e.txt").read_text(encoding="utf-8")
    start = whole.index("Ran out")
    cut = whole[start : whole.index("Scoped allocation")].replace("%fusion =", "%other =")
    assert "%other" in cut
    assert sd.memory_report(whole[:start] + cut + whole[start:]).buffers == sd.memory_report(whole).buffers
