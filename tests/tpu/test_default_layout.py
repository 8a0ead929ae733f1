"""The rule of default layouts, held against what the TPU compiler chose."""

from __future__ import annotations

import pytest

import strided as sd
from tests.cases import ARRAY_TYPES
from tests.commands import run_command
from tests.paths import DATA

RECORDED = [
    (generation, sd.parse_shape(text))
    for generation, text in map(
        str.split, (DATA / "xla" / "tpu_default_layouts.txt").read_text(encoding="utf-8").splitlines()
    )
]
UNOBSERVED = ["s1", "u1", "f6e3m2fn", "f6e2m3fn"]


def test_every_recorded_layout_is_predicted() -> None:
    chosen = [(generation, str(shape)) for generation, shape in RECORDED]
    predicted = [(g, str(s.with_layout(sd.tpu.default_layout(s.text(layout=False), g)))) for g, s in RECORDED]
    assert predicted == chosen


def test_the_records_cover_every_type_rank_and_generation() -> None:
    assert {generation for generation, _ in RECORDED} == set(sd.tpu.GENERATIONS)
    assert {shape.element_type for _, shape in RECORDED} == set(ARRAY_TYPES) - set(UNOBSERVED)
    assert {shape.rank for _, shape in RECORDED} == set(range(7))


def test_the_layout_of_a_given_shape_plays_no_part() -> None:
    for text in ("f32[300,2]{1,0}", "f32[300,2]{0,1:T(8,128)}", "b(f32[300,2])"):
        assert str(sd.tpu.default_layout(sd.parse(text))) == "{0,1:T(2,128)}"


@pytest.mark.parametrize("element_type", sorted(set(ARRAY_TYPES) - set(UNOBSERVED)))
@pytest.mark.parametrize(("generation", "least_bytes"), [("v2", 1024), ("v5e", 512)])
def test_no_buffer_is_smaller_than_the_least_tile(element_type: str, generation: str, least_bytes: int) -> None:
    for dimensions in ((), (1,), (1, 1), (2, 1, 3), (1,) * 6):
        shape = sd.Shape(element_type, dimensions)
        size = shape.with_layout(sd.tpu.default_layout(shape, generation)).buffer_byte_size
        assert size >= least_bytes
        assert size % least_bytes == 0


@pytest.mark.parametrize(
    ("shape", "generation", "message"),
    [
        ("f32[3]", "v1", "known for 'v1', only for v2, v3, v4, v5e"),
        ("f32[3]", None, "known for None"),
        *((f"{name}[3]", "v5e", f"known for {name}") for name in UNOBSERVED),
        ("f32[<=3,5]", "v5e", r"dynamic dimensions, as in f32\[<=3,5\]"),
        ("f32[?]", "v5e", r"dynamic dimensions, as in f32\[\?\]"),
        ("(f32[3], s32[])", "v5e", "is a tuple"),
        ("token[]", "v5e", "holds no values"),
    ],
)
def test_what_has_no_known_default_layout_is_refused(shape: str, generation: str, message: str) -> None:
    with pytest.raises(sd.UnsupportedError, match=message):
        sd.tpu.default_layout(shape, generation)


def test_text_that_is_no_shape_is_refused() -> None:
    with pytest.raises(sd.NotationError, match="expected"):
        sd.tpu.default_layout("f32[3")
    with pytest.raises(sd.LayoutError, match="layout alone"):
        sd.tpu.default_layout("{0}")


@pytest.mark.parametrize("generation", sd.tpu.GENERATIONS)
@pytest.mark.parametrize("text", ["bf16[17,300]", "f32[3,5]{1,0}", "f32[]", "s4[128,1024]", "u8[0,3]"])
def test_info_shows_a_shape_as_it_lies_on_a_tpu(text: str, generation: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = sd.parse_shape(text)
    on_tpu = str(shape.with_layout(sd.tpu.default_layout(shape, generation)))
    for options in ([], ["--json"]):
        there, same = (
            run_command(capsys, "info", text, "--generation", generation, *options),
            run_command(capsys, "info", on_tpu, *options),
        )
        assert there == same
        assert there[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f32[3,5]{0,1}", "f32[3,5]{0,1} has a layout of its own: leave that or --generation out"),
        ("f32[3,5]{1,0:T(8,128)}", "has a layout of its own"),
        ("u1[3]", "no default layouts are known for u1"),
        ("(f32[3], f32[])", "is a tuple"),
    ],
)
def test_info_has_no_other_layout_for_what_has_one(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, error = run_command(capsys, "info", text, "--generation", "v5e")
    assert (code, printed) == (2, "")
    assert words in error


def test_a_plan_has_shapes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run_command(capsys, "info", "--generation", "v4", "--plan", "f32[3,5]", "f32[3,5]{0,1}")
    assert code == 2
    assert "--plan takes two shapes of its own; leave --generation out" in error
