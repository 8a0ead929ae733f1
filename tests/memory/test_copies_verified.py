"""Cures that the TPU compiler tried: recorded programs, before and after.

Each file of `data/copies` holds a program before optimizations, and what libtpu 0.0.51 made of it for v5e: as it is,
and in the layout of each cure. With ``--long``, and where jax and libtpu are installed, the compiler is asked again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import strided as sd
from strided.memory import ahead_of_time
from strided.memory.copies import LayoutCopies, verify
from tests.commands import run_command
from tests.copies_samples import RecordedCompiler, case, compiled_as, layouts_asked_for

#: The cures of each program: whose, their layout, and the bytes that all copies move without and with it.
CURES = {
    "weight": [
        ("w", "bf16[1024,200]{1,0:T(8,128)(2,1)}", 1_867_776, 933_888),
        ("the result", "f32[512,200]{1,0:T(8,128)}", 1_867_776, 933_888),
    ],
    "table": [
        ("t", "f32[50000,64]{1,0:T(8,128)}", 41_558_016, 3_145_728),
        ("the result", "f32[4096,64]{1,0:T(8,128)}", 41_558_016, 38_412_288),
    ],
    "transposed_input": [
        ("x", "f32[8,1024,512]{1,0,2:T(8,128)}", 67_108_864, 33_832_960),
        ("result 0", "f32[8,512,1024]{2,0,1:T(8,128)}", 67_108_864, 33_554_432),
    ],
    "scan_carry": [
        ("cache", "bf16[4,1024,8,64]{3,2,0,1:T(8,128)(2,1)}", 136_577_024, 123_994_112),
        ("result 0", "bf16[4,1024,8,64]{3,2,0,1:T(8,128)(2,1)}", 136_577_024, 123_994_112),
    ],
    "convolution": [
        ("the result", "bf16[32,112,112,64]{3,0,2,1:T(8,128)(2,1)}", 223_870_976, 62_390_272),
        ("x", "bf16[32,224,224,3]{0,3,2,1:T(4,128)(2,1)}", 223_870_976, 161_480_704),
        ("k", "bf16[7,7,3,64]{3,2,1,0:T(4,128)(2,1)}", 223_870_976, 223_870_976),  # it was inside a fusion
    ],
    "sharded": [("the result", "bf16[2,8,512,64]{2,3,0,1:T(8,128)(2,1)}", 2_097_152, 0)],
    "heads": [
        ("the result", "bf16[64,32,64]{0,2,1:T(8,128)(2,1)}", 1_048_576, 0),
        ("x", "bf16[64,32,128]{2,0,1:T(8,128)(2,1)}", 1_048_576, 1_048_576),
    ],
}


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The programs that the compiler knows."""
    recorded = RecordedCompiler()
    monkeypatch.setattr(verify, "compile_hlo", recorded.compile_hlo)
    return recorded.known


def verified_cures(copies: LayoutCopies) -> list[tuple[str, str, int, int]]:
    cures = [copy.cure for copy in copies if copy.cure]
    assert all(cure.certainty == "verified" for cure in cures)
    return [(c.name, str(c.shape), c.bytes_before or 0, c.bytes_after or 0) for c in cures]


def copies_of(recorded, **options) -> LayoutCopies:
    """The copies of a recorded program, whose cures are tried."""
    return sd.layout_copies(sd.read_hlo(compiled_as(recorded)), before=sd.read_hlo(recorded["before"]), **options)


@pytest.mark.parametrize("name", CURES)
def test_recorded_cures_spare_their_copies(name, compiler):
    recorded = case(name)
    compiler.update(recorded["compiled"])
    found = copies_of(recorded)
    assert verified_cures(found) == CURES[name]
    assert "(verified: all copies together move" in str(found)


def test_cures_of_a_program_that_does_not_fit_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, known = case("table"), RecordedCompiler()
    known.known.update(recorded["compiled"])

    def refuse(text: str, generation: str, *, timeout: float, dump_to: str) -> None:
        done = known.compile_hlo(text, generation, timeout=timeout, dump_to=dump_to)
        Path(dump_to, "module_0000.jit_table.cl_1.after_optimizations.txt").write_text(done.text, "utf-8")
        raise sd.UnsupportedError("the compiler does not take this program: RESOURCE_EXHAUSTED: E1000")

    monkeypatch.setattr(verify, "compile_hlo", refuse)
    assert verified_cures(copies_of(recorded)) == CURES["table"]


@pytest.mark.parametrize("said", ["INTERNAL: a check failed", "RESOURCE_EXHAUSTED: in vmem"])
def test_a_dump_counts_only_for_a_program_that_does_not_fit(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, generation: str, *, timeout: float, dump_to: str) -> None:
        if said.startswith("INTERNAL"):
            Path(dump_to, "module_0000.jit_table.after_optimizations.txt").write_text("HloModule m", "utf-8")
        raise sd.UnsupportedError(said)

    monkeypatch.setattr(verify, "compile_hlo", refuse)
    with pytest.raises(sd.UnsupportedError, match=said):
        copies_of(case("table"))


@pytest.mark.slow
@pytest.mark.skipif(not ahead_of_time.compiler_is_installed(), reason="jax and libtpu are not installed")
@pytest.mark.parametrize("name", CURES)
def test_the_compiler_still_says_so(name):
    assert verified_cures(copies_of(case(name))) == CURES[name]


def test_a_cure_that_does_not_help_is_dropped(compiler):
    recorded = case("table")
    # Whatever the compiler is asked, the copies stay.
    compiler.update(dict.fromkeys(recorded["compiled"], compiled_as(recorded)))
    assert [copy.cure for copy in copies_of(recorded)] == [None, None]


def test_a_cure_that_the_compiler_refuses_stays_computed(compiler):
    recorded = case("table")
    compiler[layouts_asked_for(recorded["before"])] = compiled_as(recorded)
    assert [copy.cure and copy.cure.certainty for copy in copies_of(recorded)] == ["computed", "computed"]


def test_only_the_dearest_are_tried_if_asked(compiler):
    recorded = case("table")
    compiler.update(recorded["compiled"])
    assert [copy.cure and copy.cure.certainty for copy in copies_of(recorded, top=1)] == ["verified", "computed"]


def test_a_program_that_the_compiler_refuses_is_an_error(compiler):
    recorded = case("table")
    with pytest.raises(sd.UnsupportedError, match="not recorded"):
        sd.layout_copies(sd.read_hlo(compiled_as(recorded)), before=sd.read_hlo(recorded["before"]))


@pytest.mark.parametrize(
    "header",
    [
        "HloModule m",
        'HloModule m, frontend_attributes={note="1"}',
        'HloModule m, frontend_attributes={arg_layout_modes="default;auto",out_layout_modes="default"}',
    ],
)
def test_layouts_are_noted_in_any_header(header, compiler):
    text = f"""{header}

ENTRY e {{
  x = f32[8,128]{{0,1}} parameter(0)
  y = f32[8] parameter(1)
  ROOT c = f32[8,128]{{1,0}} copy(x)
}}
"""
    module = sd.read_hlo(text)
    cures = [copy.cure for copy in sd.layout_copies(module) if copy.cure]
    asked = verify.with_layouts(module, cures)
    second = "auto" if "auto" in header else "default"
    assert layouts_asked_for(asked) in (f"{{1,0}};{second}|default", f"default|{{1,0}};{second}")
    assert sd.read_hlo(asked).instruction("c").operand_names == ("x",)


def test_a_shared_buffer_has_one_layout():
    text = """HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }

ENTRY e {
  x = f32[8,128]{0,1} parameter(0)
  c = f32[8,128]{1,0} copy(x)
  s = f32[8,128]{1,0} sort(c), dimensions={0}
  ROOT t = (f32[8,128]{1,0}, f32[8,128]{0,1}) tuple(s, x)
}
"""
    module = sd.read_hlo(text)
    (copy,) = sd.layout_copies(module)
    assert copy.cure is not None
    asked = sd.read_hlo(verify.with_layouts(module, [copy.cure])).frontend_attributes
    assert asked == {"arg_layout_modes": "{1,0}", "out_layout_modes": "default;{1,0}"}


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump of the table's program; the module after optimizations."""
    recorded = case("table")
    (tmp_path / "module_0000.jit_table.before_optimizations.txt").write_text(recorded["before"], encoding="utf-8")
    path = tmp_path / "module_0000.jit_table.after_optimizations.txt"
    path.write_text(compiled_as(recorded), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return run_command(capsys, "copies", *arguments)


def test_the_command_prints_the_report(dump, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = run(capsys, dump)
    assert code == 0
    assert out == f"{sd.layout_copies(sd.read_hlo(dump)).report(width=60)}\n"
    assert run(capsys, dump, "--top", 1)[1].endswith("1 more copy: 3,145,728 bytes\n")
    assert len(json.loads(run(capsys, dump, "--json")[1])["copies"]) == 2
    assert len(json.loads(run(capsys, dump, "--json", "--top", 1)[1])["copies"]) == 1


def test_the_command_finds_the_module_before_optimizations(dump, capsys, compiler, tmp_path):
    compiler.update(case("table")["compiled"])
    assert run(capsys, dump, "--verify")[1].count("(verified: ") == 2
    for folder in (tmp_path, f"{tmp_path}:jit_table"):
        assert run(capsys, folder, "--verify")[1].count("(verified: ") == 2
    alone = dump.rename(tmp_path / "table.hlo.txt")
    code, _, err = run(capsys, alone, "--verify")
    assert (code, "name it with --before" in err) == (2, True)
    before = next(tmp_path.glob("*before*"))
    assert run(capsys, alone, "--before", before)[1].count("(verified: ") == 2
