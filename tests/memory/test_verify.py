"""Cures put to the compiler: the edited programs, and what the compiler said of them, as recorded."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import strided as sd
from strided.dumps.hlo import Module
from strided.memory import ahead_of_time, verify
from strided.memory.report import MemoryReport
from tests.paths import DATA

HLO = """HloModule jit_f, frontend_attributes={arg_layout_modes="LAYOUT;default"}

ENTRY main {
  x = f32[5,130000]{1,0} parameter(0), metadata={op_name="x"}
  y = f32[130000]{0} parameter(1), metadata={op_name="y"}
  b = f32[5,130000]{1,0} broadcast(y), dimensions={1}
  ROOT r = f32[5,130000]{1,0} add(x, b), metadata={op_name="jit(f)/add"}
}
"""


def program(mode: str = "default", layout: str = "{1,0}") -> tuple[Module, MemoryReport]:
    module = sd.read_hlo(HLO.replace("LAYOUT", mode).replace("x = f32[5,130000]{1,0}", f"x = f32[5,130000]{layout}"))
    return module, sd.memory_report(module, generation="v5e")


def edits(module: Module, report: MemoryReport, name: str = "x") -> dict[str, str]:
    buffer = next(b for b in report.buffers if b.name == name)
    found = ((cure.kind, verify.edited(module, buffer, cure)) for cure in buffer.cures)
    return {kind: edit for kind, edit in found if edit is not None}


def test_an_edited_program_takes_the_new_shape_and_goes_on_with_the_old() -> None:
    found = edits(*program())
    lines = {kind: [line.strip() for line in edit.splitlines() if "x" in line] for kind, edit in found.items()}
    assert lines["pad-to"] == [
        "x.stored = f32[5,1016,128] parameter(0)",
        "x.padded = f32[5,130048] reshape(x.stored)",
        "x = f32[5,130000] slice(x.padded), slice={[0:5], [0:130000]}",
        'ROOT r = f32[5,130000]{1,0} add(x, b), metadata={op_name="jit(f)/add"}',
    ]
    assert lines["dtype"][:2] == ["x.stored = bf16[5,130000] parameter(0)", "x = f32[5,130000] convert(x.stored)"]
    assert lines["merge"][:2] == ["x.stored = f32[650000] parameter(0)", "x = f32[5,130000] reshape(x.stored)"]
    for edit in found.values():
        assert sd.read_hlo(edit).entry.root.name == "r"


def test_a_transposed_argument_is_turned_back() -> None:
    text = HLO.replace("5,130000", "130000,5").replace("dimensions={1}", "dimensions={0}").replace("LAYOUT", "default")
    module = sd.read_hlo(text.replace("x = f32[130000,5]{1,0}", "x = f32[130000,5]{1,0:T(8,128)}"))
    text = edits(module, sd.memory_report(module, generation="v5e"))["transpose"]
    assert "x.stored = f32[5,130000] parameter(0)" in text
    assert "x = f32[130000,5] transpose(x.stored), dimensions={1,0}" in text


def test_a_requested_layout_is_given_up() -> None:
    module, report = program(mode="{0,1:T(8,128)}", layout="{0,1:T(8,128)}")
    assert 'arg_layout_modes="{0,1:T(8,128)};default"' in verify.original(module)
    found = edits(module, report)
    assert all('arg_layout_modes="default;default"' in text for text in found.values())
    assert "stored" not in found["layout"]


ALIASED = "HloModule jit_f, input_output_alias={ {}: (NUMBER, {}, may-alias) },"


def test_results_take_the_memory_of_other_arguments_as_before() -> None:
    """Without, each program with an argument that is donated would take more with any cure, and none be confirmed."""
    other = HLO.replace("LAYOUT", "default").replace("f32[130000]{0} parameter(1)", "f32[5,130000]{1,0} parameter(1)")
    other = other.replace("broadcast(y), dimensions={1}", "cosine(y)")
    module = sd.read_hlo(other.replace("HloModule jit_f,", ALIASED.replace("NUMBER", "1")))
    found = edits(module, sd.memory_report(module, generation="v5e"))
    assert {"dtype", "merge", "split", "pad-to"} <= found.keys()
    for text in (verify.original(module), *found.values()):
        assert "input_output_alias={ {}: (1, {}, may-alias) }" in text


def test_an_argument_whose_memory_a_result_takes_is_not_changed_alone() -> None:
    module = sd.read_hlo(HLO.replace("LAYOUT", "default").replace("HloModule jit_f,", ALIASED.replace("NUMBER", "0")))
    assert edits(module, sd.memory_report(module, generation="v5e")) == {}


def test_temporaries_and_results_are_not_edited() -> None:
    assert edits(*program(), name="b") == {}
    assert edits(*program(), name="r") == {}


class Compiler:
    """Gives a number of bytes for each program, and records what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int | Exception]) -> None:
        self.sizes = sizes
        monkeypatch.setattr(verify, "compiled_bytes", self)

    def __call__(self, edit: str, generation: str) -> int:
        size = next((size for sign, size in self.sizes.items() if sign in edit), self.sizes[""])
        if isinstance(size, Exception):
            raise size
        return size


def test_confirmed_cures_have_the_compilers_bytes_and_others_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, Any] = {"f32[650000]": 9000, "bf16": sd.UnsupportedError("refused"), "x.stored": 6000, "": 8000}
    Compiler(monkeypatch, sizes)
    module, report = program()
    found = verify.with_verified_cures(report, module, None)
    cures = {cure.kind: cure for b in found.buffers if b.name == "x" for cure in b.cures}
    assert "merge" not in cures
    assert (cures["pad-to"].certainty, cures["pad-to"].saved_bytes) == ("verified", 2000)
    assert cures["pad-to"].compiled_bytes == (8000, 6000)
    assert cures["dtype"].certainty == "computed"
    notes = "\n".join(found.notes)
    assert "8,000 bytes (v5e)" in notes
    assert "merge of x saves nothing: the compiler gives 9,000 bytes" in notes
    assert "dtype of x could not be verified: refused" in notes


def test_estimates_are_said_not_to_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    Compiler(monkeypatch, {"": 8000})
    module, report = program()
    assert {cure.certainty for b in report.buffers if b.kind == "temporary" for cure in b.cures} == {"estimate"}
    assert verify.with_verified_cures(report, module, None).notes[-1].startswith("estimates are not tried")
    arguments = replace(report, buffers=tuple(b for b in report.buffers if b.kind == "argument"))
    assert "estimates" not in "".join(verify.with_verified_cures(arguments, module, None).notes)


def test_the_compiler_is_asked_for_the_tpu_that_the_layouts_show(monkeypatch: pytest.MonkeyPatch) -> None:
    Compiler(monkeypatch, {"": 8000})
    module, report = program()
    scalar = sd.parse_shape("f32[]{:T(256)}")  # on TPU v2 and v3; on others it is T(128)
    older = replace(report, buffers=(*report.buffers, replace(report.buffers[0], shape=scalar, cures=())))
    for generation, expected in ((None, "v2"), ("v5e", "v5e"), ("v6e", "v6e")):
        notes = verify.with_verified_cures(older, module, generation).notes
        assert any(f"as it is 8,000 bytes ({expected})" in note for note in notes)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    module, report = program()
    assert "no module before optimizations" in verify.with_verified_cures(report, None, None).notes[-1]
    monkeypatch.setattr(ahead_of_time, "compiler_is_installed", lambda: False)
    with pytest.raises(sd.UnsupportedError, match="pip install jax libtpu"):
        verify.with_verified_cures(report, module, None)


def test_a_program_that_does_not_fit_has_a_total_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, generation: str, *, timeout: float, dump_to: str) -> None:
        report = "Memory Space: default (color=0)\nTotal bytes: 24044546048 (22.39GiB)\n"
        Path(dump_to, "module_0000.jit_f.after_optimizations-memory-usage-report.txt").write_text(report, "utf-8")
        raise sd.UnsupportedError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(verify, "compile_hlo", refuse)
    assert verify.compiled_bytes("", "v5e") == 24044546048


def test_a_compiler_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*args: Any, **kwargs: Any) -> None:
        raise sd.UnsupportedError("the compiler crashed")

    monkeypatch.setattr(verify, "compile_hlo", end)
    with pytest.raises(sd.UnsupportedError, match="crashed"):
        verify.compiled_bytes("", "v5e")


RECORDED = json.loads(gzip.decompress((DATA / "memory" / "verified.json.gz").read_bytes()))


def test_the_records_cover_what_people_ask_about() -> None:
    assert len({case["name"] for case in RECORDED}) >= 15
    assert {case["kind"] for case in RECORDED} == {"vectorize", "merge", "split", "pad-to", "dtype"}
    assert {case["before"].partition("[")[0] for case in RECORDED} >= {"f32", "bf16", "c64", "s4", "pred"}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['name']}-{case['kind']}-{case['before']}")
def test_the_compiler_confirmed_what_the_report_says(case: dict[str, Any]) -> None:
    before, after = case["compiled"]
    assert after < before
    module = sd.read_hlo(case["hlo"])
    report = sd.memory_report(module, generation="v5e")
    buffers = [b for b in report.buffers if str(b.shape) == case["before"]]
    cures = [(b, cure) for b in buffers for cure in b.cures if cure.kind == case["kind"]]
    assert any(str(cure.after).startswith(case["after"]) for _, cure in cures)
    if "argument" in case:
        of_argument = [(b, cure) for b, cure in cures if b.name == case["argument"]]
        assert of_argument
        assert all(verify.edited(module, b, cure) for b, cure in of_argument)


@pytest.mark.slow
@pytest.mark.skipif(not ahead_of_time.compiler_is_installed(), reason="jax and libtpu are not installed")
def test_the_compiler_itself_still_says_so() -> None:
    case = next(one for one in RECORDED if one["name"] == "complex_pairs" and one["kind"] == "pad-to")
    module = sd.read_hlo(case["hlo"])
    report = sd.memory_report(module, generation="v5e")
    buffer = next(b for b in report.buffers if b.name == case["argument"])
    cure = next(one for one in buffer.cures if one.kind == "pad-to")
    text = verify.edited(module, buffer, cure)
    assert text is not None
    assert [verify.compiled_bytes(one, "v5e") for one in (verify.original(module), text)] == case["compiled"]
