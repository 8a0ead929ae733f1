"""What `memory_report` takes: files, texts and bytes in every form, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import strided as sd
from strided.dumps.detect import recognise
from tests.memory.samples import HLO, MATMUL, OLD, text_of


def test_the_forms_of_one_program_agree() -> None:
    module, assignment, usage = MATMUL
    reports = [sd.memory_report(source) for source in (usage, assignment, [assignment, module], MATMUL)]
    sizes = [sorted((b.bytes, b.unpadded_bytes) for b in report.buffers) for report in reports]
    assert {report.total_bytes for report in reports} == {208384}
    assert sizes[1:] == sizes[:1] * 3
    assert [report.peak_at for report in reports] == [None, None, "copy-start", "copy-start"]
    assert [report.peak_bytes for report in reports] == [208384, 208384, 192000, 192000]
    assert [sorted(report.bounds) for report in reports] == [["padding_bytes", "peak_bytes"]] * 2 + [["peak_bytes"]] * 2


def test_a_file_is_read_whatever_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "RESOURCE_EXHAUSTED.txt"
    path.write_text(OLD, encoding="utf-8")
    assert sd.memory_report(str(path)).to_dict() == sd.memory_report(OLD).to_dict()


def wrapped(error: Exception) -> dict[str, Exception]:
    """What libraries make of an error of a program that they run."""
    made: dict[str, Exception] = {name: ValueError("step 7 failed") for name in ("from it", "while handling it")}
    made["from it"].__cause__ = error
    made["while handling it"].__context__ = error
    made["in a group"] = ExceptionGroup("2 workers", [ValueError("ended"), error])
    made["from a group"] = ValueError("step 7 failed")
    made["from a group"].__cause__ = made["in a group"]
    made["as a note"] = ValueError("step 7 failed")
    made["as a note"].add_note(str(error))
    made["in a circle"] = ValueError("step 7 failed")
    error.__cause__, made["in a circle"].__context__ = made["in a circle"], error
    return made


@pytest.mark.parametrize("how", wrapped(ValueError()))
def test_an_exception_may_be_wrapped_in_others(how: str) -> None:
    assert sd.memory_report(wrapped(RuntimeError(OLD))[how]) == sd.memory_report(OLD)
    said = "Attempting to reserve 29.49G at the bottom of memory. That was not possible. There are 147.64M free"
    with pytest.raises(sd.DumpError, match="it names no buffers"):
        sd.memory_report(wrapped(RuntimeError(said))[how])
    with pytest.raises(sd.DumpError, match="says nothing that is understood about memory"):
        sd.memory_report(wrapped(RuntimeError("no"))[how])


@pytest.mark.parametrize("path", MATMUL, ids=lambda path: path.name)
def test_a_byte_order_mark_changes_nothing(path: Path, tmp_path: Path) -> None:
    text = text_of(path)
    file = tmp_path / "marked.txt"
    file.write_text(text, encoding="utf-8-sig")
    assert recognise(file) == recognise(text.encode())
    expected = sd.memory_report(text).to_dict()
    assert sd.memory_report(file).to_dict() == sd.memory_report("\ufeff" + text).to_dict() == expected


ODD_NAME = "BufferAssignment:\nallocation 0: size 8:\n value: <1 \udcff @0> (size=8,offset=0): f32[2]{0}\n"


@pytest.mark.parametrize("text", ["HloModule m\nENTRY e {\n ROOT a = f32[] parameter(0)\n}\n// \udcff\n", ODD_NAME])
def test_a_text_may_hold_surrogates(text: str) -> None:
    assert sd.memory_report(text).total_bytes


@pytest.mark.parametrize("begin", ["HloModule m, is_scheduled=true", "BufferAssignment:"])
@pytest.mark.parametrize("prefix", ["INFO: ", "\x1b[31m", "web-1  | "])
def test_what_stands_before_each_line_of_a_dump_is_named(begin: str, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in ("", begin, "allocation 0: size 8:", "ENTRY e {", "}"))
    with pytest.raises(sd.DumpError, match=f"line 2: no HLO, .* put before '{begin.split(' ')[0]}' and each line"):
        sd.memory_report(text)
    with pytest.raises(sd.DumpError, match=r"^no HLO, no buffer assignment and no text about memory$"):
        sd.memory_report("something else\n")


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
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        sd.memory_report("nowhere.txt")


def test_a_huge_file_of_something_else_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "hbm.bin"
    path.write_bytes(bytes(range(256)))
    os.truncate(path, 1 << 40)
    with pytest.raises(sd.UnsupportedError, match="is no HLO, no buffer assignment and no text about memory"):
        sd.memory_report(path)
