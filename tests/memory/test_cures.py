"""Cures: they save, they are ordered by what they save at the peak, and their bytes are the rule's."""

from __future__ import annotations

import pytest

import strided as sd
from strided.layout import Shape
from tests.memory.samples import HLO, MATMUL, REPORTS

PEAK = """HloModule f, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %a = f32[1000,2]{1,0:T(8,128)} custom-call(%x), custom_call_target="a"
  %b = f32[7,1,128]{2,1,0:T(1,128)} custom-call(%a), custom_call_target="b"
  %c = f32[900,128]{1,0:T(8,128)} custom-call(%b), custom_call_target="c"
  ROOT %r = f32[8,128]{1,0:T(8,128)} custom-call(%c), custom_call_target="r"
}
"""


def one(shape: str, kind: str = "argument") -> dict[str, tuple[str, int, str]]:
    """The cures of a program that holds one array of a shape."""
    lines = {
        "argument": f"  ROOT %x = {shape} parameter(0)",
        "temporary": f'  %t = {shape} custom-call(), custom_call_target="t"\n'
        '  ROOT %r = f32[]{:T(128)} custom-call(%t), custom_call_target="r"',
    }
    report = sd.memory_report(f"HloModule m, is_scheduled=true\n\nENTRY %main () -> f32[] {{\n{lines[kind]}\n}}\n")
    found = max(report.buffers, key=lambda b: b.bytes)
    return {cure.kind: (str(cure.after), cure.saved_bytes, cure.jax) for cure in found.cures}


@pytest.mark.parametrize("source", [HLO, MATMUL[:2], *REPORTS], ids=str)
def test_every_cure_saves_and_has_the_size_of_the_rule(source: object) -> None:
    report = sd.memory_report(source)
    for b in report.buffers:
        saved = [cure.saved_bytes for cure in b.cures]
        assert saved == sorted(saved, reverse=True)
        assert len({*b.cures}) == len(b.cures)  # values that sets and dictionaries hold
        assert all(cure.saved_bytes == b.bytes - cure.after.byte_size > 0 for cure in b.cures)
        for cure in b.cures:
            assert isinstance(cure.after, Shape)
            assert cure.before == b.shape
            bare = cure.after.text(layout=False)
            assert cure.after == sd.parse_shape(bare).with_layout(sd.tpu.default_layout(bare))
            assert cure.certainty == ("computed" if b.kind in ("argument", "result") else "estimate")
            assert cure.jax


def test_a_short_last_dimension_is_transposed_merged_or_laid_out() -> None:
    found = one("f32[20000000,2,3]{2,1,0:T(2,128)}")
    assert found["layout"][:2] == ("f32[20000000,2,3]{0,1,2:T(2,128)}", 20_480_000_000 - 480_000_000)
    assert found["layout"][2] == "jax.jit(f, in_shardings=Format(Layout(major_to_minor=(2, 1, 0)), sharding))"
    assert (
        found["vectorize"][0] == "f32[2,3,20000000]{2,0,1:T(2,128)}"
    )  # as jax.vmap gives it: the others keep their order
    assert found["merge"][0].startswith("f32[120000000]")


def test_a_layout_that_is_the_best_one_gets_no_other_order() -> None:
    assert one("f32[20000000,2,3]{0,1,2:T(2,128)}").keys() <= {"merge", "dtype", "split", "pad-to"}


def test_no_transposition_keeps_all_axes_in_their_places() -> None:
    found = one("bf16[3,3]{0,1:T(8,128)(2,1)}")
    assert "layout" in found
    assert "transpose" not in found


def test_a_batch_that_comes_last_already_is_not_put_there() -> None:
    """The program has it where it belongs: only the layout of the buffer is another."""
    found = one("f32[8,127,128]{0,2,1:T(8,128)}", "temporary")
    assert "transpose" in found
    assert "vectorize" not in found
    assert "vectorize" in one("f32[128,127,8]{2,0,1:T(8,128)}", "temporary")


def test_an_argument_is_given_with_its_batch_last_and_a_result_asked_for_so() -> None:
    """``in_axes=0`` would take the argument as it is."""
    shape = "f32[20000,2,3]{2,1,0:T(2,128)}"
    report = sd.memory_report(f"""HloModule m, is_scheduled=true

ENTRY %main (x: f32[20000,2,3]) -> f32[20000,2,3] {{
  %x = {shape} parameter(0)
  %t = {shape} custom-call(%x), custom_call_target="t"
  ROOT %y = {shape} custom-call(%x, %t), custom_call_target="y"
}}
""")
    assert {(b.kind, c.jax.split("  #")[0]) for b in report.buffers for c in b.cures if c.kind == "vectorize"} == {
        ("argument", "jax.vmap(f, in_axes=-1)(x)"),
        ("result", "jax.vmap(f, out_axes=-1)(x)"),
        ("temporary", "jax.vmap(f, in_axes=0, out_axes=-1)(x)"),
    }


@pytest.mark.parametrize("is_assigned", [False, True], ids=["module", "assignment"])
def test_a_donated_argument_and_the_result_in_its_place_get_one_layout(is_assigned: bool) -> None:
    """Another one for the argument alone takes more: no result can take its memory."""
    shape = "f32[20000,2]{1,0:T(8,128)}"
    source = f"""HloModule m, is_scheduled=true, input_output_alias={{ {{1}}: (0, {{}}, may-alias) }}

ENTRY %main (x: f32[20000,2]) -> (f32[], f32[20000,2]) {{
  %x = {shape} parameter(0)
  %one = f32[]{{:T(128)}} constant(1)
  %y = {shape} negate(%x)
  ROOT %t = (f32[]{{:T(128)}}, {shape}) tuple(%one, %y)
}}
"""
    if is_assigned:
        source = f"""BufferAssignment:
allocation 0: size 10240000, parameter 0, shape |f32[20000,2]| at ShapeIndex {{}}, maybe-live-out:
 value: <3 x @0> (size=10240000,offset=0): {shape}
 value: <4 y @0> (size=10240000,offset=0): {shape}
"""
    report = sd.memory_report(source)
    [x] = [b for b in report.buffers if b.bytes > 512]
    assert (x.name, x.is_donated, x.to_dict()["is_donated"]) == ("x", True, True)
    assert "donated argument x: argument x" in str(report)
    layout = "Format(Layout(major_to_minor=(1, 0)), sharding)"
    [line] = [cure.jax for cure in x.cures if cure.kind == "layout"]
    assert line == f"jax.jit(f, in_shardings={layout}, out_shardings={layout})"


def test_a_temporary_gets_a_transposition_and_no_layout() -> None:
    found = one("f32[20000000,64]{1,0:T(8,128)}", "temporary")
    assert "layout" not in found
    assert found["transpose"] == (
        "f32[64,20000000]{1,0:T(8,128)}",
        5_120_000_000,
        "x = jnp.transpose(x, (1, 0))",
    )


def test_five_rows_are_split_or_padded() -> None:
    assert one("f32[5,131072]{1,0:T(8,128)}")["split"][:2] == ("f32[5,1024,128]{2,1,0:T(8,128)}", 3 * 131072 * 4)
    after, saved, jax = one("f32[5,130000]{1,0:T(8,128)}")["pad-to"]
    assert after == "f32[5,1016,128]{2,1,0:T(8,128)}"
    assert saved == (8 * 130048 - 5 * 130048) * 4
    assert jax == "x = jnp.pad(x, ((0, 0), (0, 48))).reshape(5, 1016, 128)"


@pytest.mark.parametrize(
    ("shape", "after", "saved"),
    [  # the compiler's layouts and bytes, of arguments and of results
        ("f32[3,128]{1,0:T(4,128)}", "f32[3,1,128]{2,1,0:T(1,128)}", 512),
        ("f32[3,8]{1,0:T(4,128)}", "f32[3,1,8]{2,1,0:T(1,128)}", 512),
        ("f32[9,16]{1,0:T(8,128)}", "f32[9,1,16]{2,1,0:T(1,128)}", 3584),
        ("f32[9,1048573]{1,0:T(8,128)}", "f32[9,1,1048573]{2,1,0:T(1,128)}", 29_360_128),
        ("f32[7,7,7,129]{3,2,1,0:T(8,128)}", "f32[7,7,7,1,129]{4,3,2,1,0:T(1,128)}", 50_176),
        ("bf16[10,100000]{1,0:T(8,128)(2,1)}", "bf16[5,2,100000]{2,1,0:T(2,128)(2,1)}", 1_201_152),
        ("pred[12,1000000]{1,0:T(8,128)(4,1)}", "pred[3,4,1000000]{2,1,0:T(4,128)(4,1)}", 4_000_256),
    ],
)
@pytest.mark.parametrize("kind", ["argument", "temporary"])
def test_low_tiles_save_where_rows_fill_no_tile(kind: str, shape: str, after: str, saved: int) -> None:
    dimensions = ", ".join(map(str, sd.parse_shape(after).dimensions))
    assert one(shape, kind)["split"] == (after, saved, f"x = x.reshape({dimensions})")


def test_of_equal_splits_one_that_keeps_the_order_of_the_elements_is_told() -> None:
    # With f32[5,16375,8]{1,2,0:T(8,128)} the compiler gives temporaries sixteen times the array.
    assert one("f32[5,131000]{1,0:T(8,128)}")["split"][0] == "f32[5,1,131000]{2,1,0:T(1,128)}"
    assert one("s8[12,300000]{1,0:T(8,128)(4,1)}")["split"][0] == "s8[3,4,300000]{2,1,0:T(4,128)(4,1)}"
    assert "split" not in one("bf16[9,100003]{1,0:T(8,128)(2,1)}")  # a row of its own takes a word's two


def test_a_narrower_type_halves() -> None:
    assert one("f32[1024,1024]{1,0:T(8,128)}")["dtype"][:2] == ("bf16[1024,1024]{1,0:T(8,128)(2,1)}", 1 << 21)
    assert one("s8[1024,1024]{1,0:T(32,128)(4,1)}") == {}


def test_what_is_not_in_use_at_the_peak_gets_no_cure() -> None:
    report = sd.memory_report(PEAK)
    assert {b.name: bool(b.cures) for b in report.buffers} == {"x": True, "a": True, "b": False, "c": False, "r": False}


def test_programs_for_other_devices_get_no_cures() -> None:
    assert one("f32[20000000,2,3]{2,1,0}") == {}


def test_the_layouts_tell_the_generation() -> None:
    text = """HloModule f, is_scheduled=true

ENTRY %main (x: f32[40], y: f32[1000,1]) -> f32[40] {
  %x = f32[40]{0:T(TILE)} parameter(0)
  %y = f32[1000,1]{1,0:T(8,128)} parameter(1)
  ROOT %z = f32[40]{0:T(TILE)} sine(%x)
}
"""
    later, first = (sd.memory_report(text.replace("TILE", tile)) for tile in ("128", "256"))
    layouts = [{c.kind: str(c.after) for b in report.buffers for c in b.cures} for report in (later, first)]
    assert layouts[0]["layout"] == "f32[1000,1]{0,1:T(1,128)}"
    assert layouts[1]["layout"] == "f32[1000,1]{0,1:T(2,128)}"  # 32 bits take two rows at least
