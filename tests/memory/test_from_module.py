"""Reports from modules alone: live ranges, loops, sources and sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import strided as sd
from strided.memory.liveness import Liveness
from strided.memory.report import MemoryReport
from tests.memory.samples import HLO
from tests.paths import DATA


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


def test_a_space_is_called_as_it_is_asked_for() -> None:
    offloaded = HLO.replace("%z = f32[1000,2]{0,1:T(2,128)}", "%z = f32[1000,2]{0,1:T(2,128)S(5)}")
    for name, number in {"hbm": 0, "vmem": 1, "host": 5}.items():
        report = sd.memory_report(offloaded, space=name)
        assert (report.space, report.space_name) == (number, name)
    assert f"{report}".startswith("f: about 8.0KiB in host\n")


def test_dynamic_sizes_in_front_of_the_data_take_memory() -> None:
    text = HLO.replace("%z = f32[1000,2]{0,1:T(2,128)}", "%z = f32[<=1000,2]{0,1:T(2,128)M(1024)}")
    sizes = {b.name: (b.bytes, b.unpadded_bytes) for b in sd.memory_report(text).buffers}
    assert sizes["z"] == (1024 + 8192, 8000)


class CompiledForTpu:
    """What JAX gives for a TPU: HLO, and figures, but no assignment."""

    def __init__(self, **sizes: int) -> None:
        self.figures = SimpleNamespace(**{f"{name}_size_in_bytes": size for name, size in sizes.items()})

    def as_text(self) -> str:
        return HLO

    def memory_analysis(self) -> Any:
        return self.figures

    def runtime_executable(self) -> None:
        return None


def test_what_jax_compiled_for_a_tpu_has_the_compilers_total() -> None:
    compiled = CompiledForTpu(argument=512_000, output=8_192, temp=600_000, alias=4_096)
    report, alone = sd.memory_report(compiled), sd.memory_report(HLO)
    assert (report.total_bytes, report.peak_bytes) == (1_116_096, alone.peak_bytes)
    assert report.bounds == {"peak_bytes", "padding_bytes"}
    assert (report.buffers, report.usage) == (alone.buffers, alone.usage)
    assert "the total is the compiler's own" in report.notes[0]
    assert sd.memory_report([HLO, compiled]).total_bytes == report.total_bytes
    assert sd.memory_report(compiled, space="vmem").total_bytes == 0
    less = sd.memory_report(CompiledForTpu(argument=512_000, output=0, temp=0, alias=0))
    assert less.total_bytes == less.peak_bytes == 512_000  # no more is in use at once than there is


@pytest.mark.parametrize("sizes", [{}, {"argument": 8}, dict.fromkeys(("argument", "output", "temp", "alias"), 0)])
def test_what_jax_tells_nothing_of_is_counted_by_its_hlo(sizes: dict[str, int]) -> None:
    assert sd.memory_report(CompiledForTpu(**sizes)).to_dict() == sd.memory_report(HLO).to_dict()


def test_values_of_a_loop_and_of_its_body_are_one() -> None:
    path = DATA / "hlo" / "control_flow_cond_switch_while.hlo.txt.gz"
    report = sd.memory_report(path)
    names = [b.name for b in report.buffers]
    assert len(names) == len(set(names))
    assert max(report.usage) == report.peak_bytes
    ends = {b.name: b.live for b in report.buffers if b.kind == "argument"}
    assert set(ends.values()) == {(0, len(report.schedule) - 1)}


def test_another_space_of_a_module_is_empty() -> None:
    report = sd.memory_report(HLO, space="vmem")
    assert isinstance(report, MemoryReport)
    assert (report.total_bytes, report.buffers, report.space_name) == (0, (), "vmem")


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


def test_tuples_nested_without_end_are_refused_at_once() -> None:
    for depth in (400, 30_000):
        shape = "(" * depth + "f32[8]{0}" + ")" * depth
        text = f"HloModule m\n\nENTRY e {{\n  ROOT p = {shape} parameter(0)\n}}\n"
        if depth < 500:
            assert sd.memory_report(text).total_bytes >= 32
        else:
            with pytest.raises(sd.UnsupportedError, match="tuples in tuples"):
                sd.memory_report(text)


def test_values_of_unknown_size_are_named() -> None:
    text = HLO.replace("(x: f32[1000,2])", "(x: f32[1000,2], d: f32[?,3])").replace(
        "\n  %x =", "\n  %d = f32[?,3]{1,0} parameter(1)\n  %x ="
    )
    assert "values of unknown size are left out: d f32[?,3]{1,0}" in sd.memory_report(text).notes
    assert not any("unknown size" in note for note in sd.memory_report(HLO).notes)
    assert not any("unknown size" in note for note in sd.memory_report(text, space="vmem").notes)


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


NESTED = """HloModule m, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(128)} parameter(0)
  %b = f32[]{:T(128)} parameter(1)
  ROOT %s = f32[]{:T(128)} add(%a, %b)
}

%inner (i: s32[32,1], t: f32[64,128], u: f32[32,128]) -> f32[64,128] {
  %i = s32[32,1]{0,1:T(1,128)} parameter(0)
  %t = f32[64,128]{1,0:T(8,128)} parameter(1)
  %u = f32[32,128]{1,0:T(8,128)} parameter(2)
  ROOT %scatter = f32[64,128]{1,0:T(8,128)} scatter(%t, %i, %u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum
}

%outer (v: f32[32,128], w: f32[64,128], j: s32[32,1]) -> f32[64,128] {
  %v = f32[32,128]{1,0:T(8,128)} parameter(0)
  %w = f32[64,128]{1,0:T(8,128)} parameter(1)
  %j = s32[32,1]{0,1:T(1,128)} parameter(2)
  ROOT %custom = f32[64,128]{1,0:T(8,128)} fusion(%j, %w, %v), kind=kCustom, calls=%inner
}

ENTRY %main (g: f32[32,128], k: s32[32,1], e: f32[64,128]) -> f32[64,128] {
  %g = f32[32,128]{1,0:T(8,128)} parameter(0)
  %k = s32[32,1]{0,1:T(1,128)} parameter(1)
  %e = f32[64,128]{1,0:T(8,128)} parameter(2)
  %table = f32[64,128]{1,0:T(8,128)} copy(%e)
  ROOT %new = f32[64,128]{1,0:T(8,128)} fusion(%g, %table, %k), kind=kCustom, calls=%outer
}
"""


def test_an_update_in_place_may_be_in_a_fusion_inside_a_fusion() -> None:
    """As the compiler makes of gradients of tables."""
    sizes = {b.name: b.bytes for b in sd.memory_report(NESTED).buffers}
    assert sizes == {"g": 16384, "k": 512, "e": 32768, "table": 32768}


@pytest.mark.parametrize(
    "body",
    [
        "ROOT f = f32[256]{0} fusion(p), kind=kLoop, calls=body",  # itself
        "f = f32[256]{0} fusion(p), kind=kLoop, calls=body\n  ROOT g = f32[256]{0} fusion(f), kind=kLoop, calls=body",
        "ROOT f = f32[256]{0} fusion(), kind=kLoop, calls=copying",  # no operand for its parameter
    ],
)
def test_a_damaged_fusion_updates_nothing(body: str) -> None:
    text = f"""HloModule m, is_scheduled=true

copying {{
  ROOT q = f32[256]{{0}} parameter(0)
}}

body {{
  p = f32[256]{{0}} parameter(0)
  {body}
}}

ENTRY e {{
  x = f32[256]{{0}} parameter(0)
  ROOT y = f32[256]{{0}} fusion(x), kind=kLoop, calls=body
}}
"""
    assert {b.name for b in sd.memory_report(text).buffers} == {"x", "y"}


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


ALIASING = """HloModule f, is_scheduled=true

ENTRY e {
  x = f32[256]{0} parameter(0)
  y = f32[256]{0} negate(x)
  c = (f32[256]{0}, f32[256]{0}) custom-call(x, y), custom_call_target="g"ALIASES
  ROOT z = f32[256]{0} get-tuple-element(c), index=1
}
"""


@pytest.mark.parametrize(
    ("aliases", "arrays"),
    [
        ("", 4),
        (", output_to_operand_aliasing={{0}: (0, {})}", 3),
        (", output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {})}", 2),
        (", output_to_operand_aliasing={{1}: (7, {})}", 4),  # an operand that is not there
        (", output_to_operand_aliasing={{1}: (1, ?)}", 4),  # damaged
    ],
)
def test_results_in_the_memory_of_operands_take_no_more(aliases: str, arrays: int) -> None:
    assert sd.memory_report(ALIASING.replace("ALIASES", aliases)).peak_bytes == 1024 * arrays


def test_the_table_of_a_tuple_is_in_use_until_its_last_element_is_taken() -> None:
    """Who takes an element looks it up there: the live ranges that compilers dump count it so."""
    array = "f32[8,128]{1,0:T(8,128)}"
    module = sd.read_hlo(f"""HloModule m, is_scheduled=true

%fused (p: f32[8,128]) -> (f32[8,128], f32[8,128]) {{
  %p = {array} parameter(0)
  %n = {array} negate(%p)
  %e = {array} exponential(%p)
  ROOT %t = ({array}, {array}) tuple(%n, %e)
}}

ENTRY %main (x: f32[8,128]) -> f32[8,128] {{
  %x = {array} parameter(0)
  %copy = {array} copy(%x)
  %pair = ({array}, {array}) fusion(%copy), kind=kLoop, calls=%fused
  %first = {array} get-tuple-element(%pair), index=0
  %sine = {array} sine(%first)
  %second = {array} get-tuple-element(%pair), index=1
  %cosine = {array} cosine(%sine)
  ROOT %sum = {array} add(%cosine, %second)
}}
""")
    ranges = {index: Liveness(module).range_of("pair", index) for index in ((), (0,), (1,))}
    assert ranges == {(): (2, 5), (0,): (2, 4), (1,): (2, 7)}


WHOLE = "before partitioning its shapes"
_MESHES = "frontend_attributes={xla.sdy.meshes=%s}"


@pytest.mark.parametrize(
    ("header", "sharding", "devices"),
    [
        ("", "{devices=[8]<=[8]}", 8),
        ("", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", 4),
        ("", "{{replicated}, {devices=[2]<=[2]}}", 2),
        ("num_partitions=16", "{replicated}", 16),
        ("", "{replicated}", 1),
        ("", "{no sharding}", 1),
        ("is_scheduled=true, num_partitions=8", "{devices=[8]<=[8]}", 1),
        # A program of shard_map names its devices here alone.
        (_MESHES % '{mesh = #sdy.mesh<["x"=2, "y"=4]>}', "{manual}", 8),
        (_MESHES % '{a = #sdy.mesh<["x"=3]>, b = #sdy.mesh<["x"=2, "y=5"=5]>}', "{manual}", 10),
        (_MESHES % "{a = #sdy.mesh<[], device_ids=[3]>}", "{manual}", 1),
        (_MESHES % ('{a = #sdy.mesh<["x"=%s]>}' % ("9" * 40)), "{manual}", 1),
    ],
)
def test_shapes_before_partitioning_are_those_of_whole_arrays(header: str, sharding: str, devices: int) -> None:
    text = f"""
HloModule m{", " if header else ""}{header}
ENTRY e {{
  x = f32[64,512]{{1,0:T(8,128)}} parameter(0)
  y = f32[64,512]{{1,0:T(8,128)}} custom-call(x), custom_call_target="Sharding", sharding={sharding}
  ROOT r = f32[64,512]{{1,0:T(8,128)}} negate(y)
}}"""
    notes = [note for note in sd.memory_report(text).notes if WHOLE in note]
    assert [f"the module is for {devices} devices: " in note for note in notes] == [True] * (devices > 1)
