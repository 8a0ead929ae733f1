"""HLO text as people write it, read as XLA reads it: names, operands, shapes, files of several modules."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import strided as sd
from strided.dumps.hlo import Module, module_builder, read_hlo
from strided.dumps.hlo.names import NameUniquer
from tests.hlo_samples import entry_of, module_text

REDUCERS = """sum { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT z = f32[] add(x, y) }
"""


def lines_of(module: Module) -> dict[str, list[str]]:
    """Each computation's instructions in one form: root, name, shape, opcode, operands."""
    return {
        computation.name: [
            f"{'ROOT ' if i.is_root else ''}{i.name} = {i.shape} {i.opcode}({', '.join(i.operand_names)})"
            for i in computation.instructions
        ]
        for computation in module.computations
    }


#: Texts of each form, and what XLA reads in them (`test_xla_reads_the_same` asks it).
FORMS = {
    "a percent sign before some operands": (
        module_text("a = f32[2] parameter(0)\n%b = f32[2] parameter(1)\nROOT c = f32[2] add(%a, b)"),
        {"e": ["a = f32[2]{0} parameter()", "b = f32[2]{0} parameter()", "ROOT c = f32[2]{0} add(a, b)"]},
    ),
    "a number that a word follows at once": (
        module_text(
            "a = (f32[2], s8[2], f32[2]) parameter(0)\nb = f32[2] get-tuple-element(a), index=0c = s8[2] "
            "get-tuple-element(a), index=1%d = f32[2] get-tuple-element(a), index=2ROOT e = f32[2] add(b, d)"
        ),
        {
            "e": [
                "a = (f32[2]{0}, s8[2]{0}, f32[2]{0}) parameter()",
                "b = f32[2]{0} get-tuple-element(a)",
                "c = s8[2]{0} get-tuple-element(a)",
                "d = f32[2]{0} get-tuple-element(a)",
                "ROOT e = f32[2]{0} add(b, d)",
            ]
        },
    ),
    "instructions as operands": (
        module_text("ROOT m = f32[10] multiply(f32[10] parameter(0), f32[10] add(f32[10] parameter(1), constant.1))")
        .replace("  ROOT", "  constant.1 = f32[10] iota(), iota_dimension=0\n  ROOT"),
        {
            "e": [
                "constant.1 = f32[10]{0} iota()",
                "parameter.anon = f32[10]{0} parameter()",
                "parameter.anon.1 = f32[10]{0} parameter()",
                "add.anon = f32[10]{0} add(parameter.anon.1, constant.1)",
                "ROOT m = f32[10]{0} multiply(parameter.anon, add.anon)",
            ]
        },
    ),
    "an operand of an empty tuple": (
        module_text("t = () tuple()\nROOT c = () copy(() t)"),
        {"e": ["t = () tuple()", "ROOT c = () copy(t)"]},
    ),
    "lines broken anywhere": (
        "HloModule m, num_partitions=4\n\nadd {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
        " ROOT z = f32[] add(x, y)\n}\n\nENTRY e (p: f32[4]) ->\n    f32[4] {\n p = f32[4] parameter(0)\n"
        " ROOT r =\n  f32[4]\n  all-reduce(\n p),\n to_apply=add,\n channel_id=1,\n use_global_device_ids=true,\n"
        " replica_groups=[2,2]\n   <=[4]\n}\n",
        {
            "add": ["x = f32[] parameter()", "y = f32[] parameter()", "ROOT z = f32[] add(x, y)"],
            "e": ["p = f32[4]{0} parameter()", "ROOT r = f32[4]{0} all-reduce(p)"],
        },
    ),
    "the last attribute begins a line and goes on behind brackets": (
        "HloModule m, num_partitions=8\n\nENTRY e {\n p = f32[4] parameter(0)\n ROOT g = f32[32] all-gather(p),\n"
        " dimensions={0}, channel_id=1, use_global_device_ids=true,\n replica_groups=[1,8]<=[8]\n}\n",
        {"e": ["p = f32[4]{0} parameter()", "ROOT g = f32[32]{0} all-gather(p)"]},
    ),
    "two instructions on a line": (
        module_text("a = f32[2] parameter(0)   b = f32[2] negate(a)\nROOT c = f32[2] add(a, b)"),
        {"e": ["a = f32[2]{0} parameter()", "b = f32[2]{0} negate(a)", "ROOT c = f32[2]{0} add(a, b)"]},
    ),
    "a statement begins behind the end of another and goes on below": (
        module_text("a = f32[2] parameter(0) b =\n f32[2]\n negate(a) ROOT c = f32[2]\n add(a,\n b)"),
        {"e": ["a = f32[2]{0} parameter()", "b = f32[2]{0} negate(a)", "ROOT c = f32[2]{0} add(a, b)"]},
    ),
    "strings over many lines": (
        module_text(
            'a = f32[] parameter(0)\nROOT c = f32[] custom-call(a),\n custom_call_target="t",\n backend_config="{\n'
            '  name = \\"x\\",\n  code = \\"f(a) {\\n}\\",\n  n = 1\n }"'
        ),
        {"e": ["a = f32[] parameter()", "ROOT c = f32[] custom-call(a)"]},
    ),
    "one name in several computations": (
        "HloModule m\n\nf {\n p = f32[] parameter(0)\n ROOT q.1 = f32[] negate(p)\n}\n\nENTRY e {\n"
        " p = f32[] parameter(0)\n p.1 = f32[] negate(p)\n q.1 = f32[] call(p.1), to_apply=f\n"
        " ROOT q = f32[] add(q.1, p), control-predecessors={p.1}\n}\n",
        {
            "f": ["p = f32[] parameter()", "ROOT q.1 = f32[] negate(p)"],
            "e": [
                "p.1 = f32[] parameter()",
                "p.2 = f32[] negate(p.1)",
                "q.0 = f32[] call(p.2)",
                "ROOT q.2 = f32[] add(q.0, p.1)",
            ],
        },
    ),
    "bodies inside their callers": (
        module_text(
            "p = f32[3] parameter(0)\nzero = f32[] constant(0)\n"
            "ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply={\n"
            " a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}"
        ),
        {
            "_": ["a = f32[] parameter()", "b = f32[] parameter()", "ROOT c = f32[] add(a, b)"],
            "e": ["p = f32[3]{0} parameter()", "zero = f32[] constant()", "ROOT r = f32[] reduce(p, zero)"],
        },
    ),
    "bodies indented no deeper than their callers": (
        "HloModule m\n\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n\n"
        "ENTRY e {\np = f32[3] parameter(0)\nzero = f32[] constant(0)\n"
        "ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=\n{\n"
        "p = f32[] parameter(0)\nzero = f32[] parameter(1)\nROOT c = f32[] add(p, zero)\n}\n}\n",
        {
            "sum": ["x = f32[] parameter()", "y = f32[] parameter()", "ROOT z = f32[] add(x, y)"],
            "_": ["p = f32[] parameter()", "zero = f32[] parameter()", "ROOT c = f32[] add(p, zero)"],
            "e": ["p.1 = f32[3]{0} parameter()", "zero.1 = f32[] constant()", "ROOT r = f32[] reduce(p.1, zero.1)"],
        },
    ),
    "all on one line, with source tables": (
        'HloModule m FileNames 1 "a.py" FunctionNames 1 "f" FileLocations 1 {file_name_id=1 function_name_id=1 line=7 '
        "end_line=7 column=1 end_column=2} "
        "StackFrames 1 {file_location_id=1 parent_frame_id=1} sum (x: f32[], y: f32[]) -> f32[] { x = f32[] "
        "parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) } ENTRY e { ROOT a = f32[] parameter(0) }\n",
        {
            "sum": ["x = f32[] parameter()", "y = f32[] parameter()", "ROOT z = f32[] add(x, y)"],
            "e": ["ROOT a = f32[] parameter()"],
        },
    ),
    "a computation begins on the line on which another one ends": (
        "HloModule m\n\nf {\n ROOT x = f32[] parameter(0)\n}, execution_thread=\"t\"  ENTRY e {\n"
        " ROOT a = f32[] parameter(0)\n}\n",
        {"f": ["ROOT x = f32[] parameter()"], "e": ["ROOT a = f32[] parameter()"]},
    ),
    "a computation without a line of its own between two": (
        "HloModule m\n\ng (x: f32[]) -> f32[] {\n ROOT x = f32[] parameter(0) }\n"
        "h (y: f32[]) -> f32[] { ROOT y = f32[] parameter(0) }ENTRY e (a: f32[]) -> f32[] {\n"
        " ROOT a = f32[] parameter(0)\n}\n",
        {"g": ["ROOT x = f32[] parameter()"], "h": ["ROOT y = f32[] parameter()"], "e": ["ROOT a = f32[] parameter()"]},
    ),
    "a computation ends behind its last attribute, where another one begins": (
        "g {\n x = f32[] parameter(0)\n ROOT y = f32[] negate(x), sharding={replicated}}ENTRY e {\n"
        " ROOT a = f32[] parameter(0)\n}\n",
        {"g": ["x = f32[] parameter()", "ROOT y = f32[] negate(x)"], "e": ["ROOT a = f32[] parameter()"]},
    ),
    "another statement behind attributes, without blanks": (
        module_text("a = f32[] parameter(0), sharding={replicated} %b=f32[] parameter(1)\nROOT c = f32[] negate(a)"),
        {"e": ["a = f32[] parameter()", "b = f32[] parameter()", "ROOT c = f32[] negate(a)"]},
    ),
    "only comments part words": (
        "ENTRY/*a*/e/*b*/{ROOT/*c*//**/x/*d*/=/*e*/f32[2]/*f*/{0}/*g*/parameter/*h*/(/*i*/0/*j*/)/*k*/}",
        {"e": ["ROOT x = f32[2]{0} parameter()"]},
    ),
    "comments above what goes on": (
        "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2]\n/* a {\n*/\n// b }\n{\n"
        " p = f32[2] parameter(0)\n // c = d(\n , sharding={replicated} n\n /* x\n */\n = f32[2] negate(p)\n"
        " ROOT\n // y\n r = f32[2] negate(n)\n}\n",
        {"e": ["p = f32[2]{0} parameter()", "n = f32[2]{0} negate(p)", "ROOT r = f32[2]{0} negate(n)"]},
    ),
    "an entry whose name is on the line below, behind a brace": (
        "HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}ENTRY\n%e (p: f32[2]) -> f32[2] {\n"
        " ROOT p = f32[2] parameter(0)\n}\n",
        {"e": ["ROOT p = f32[2]{0} parameter()"]},
    ),
    "one instruction alone": (
        "f32[2]{0} add(f32[2]{0}, f32[2]{0} %x)\n",
        {"_": ["_0 = f32[2]{0} parameter()", "x = f32[2]{0} parameter()", "ROOT _ = f32[2]{0} add(_0, x)"]},
    ),
    "an asynchronous body of one instruction": (
        "HloModule m\n\nw {\n p = f32[4] parameter(0)\n ROOT s = f32[2] slice(p), slice={[0:2]}\n}\n\nENTRY e {\n"
        " a = f32[4] parameter(0)\n b = ((f32[4]), f32[2], u32[]) async-start(a), calls=w\n"
        " ROOT c = f32[2] async-done(b)\n}\n",
        {
            "e": [
                "a = f32[4]{0} parameter()",
                "b = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(a)",
                "ROOT c = f32[2]{0} slice-done(b)",
            ]
        },
    ),
    "tests' comments": (
        "// RUN: tool %s\n\n" + module_text("// CHECK: f32[2] add(\nROOT a = f32[2] parameter(0)"),
        {"e": ["ROOT a = f32[2]{0} parameter()"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_xla_reads_it(form: str) -> None:
    text, expected = FORMS[form]
    module = read_hlo(text)
    assert lines_of(module) == expected
    assert module.unread == ()


@pytest.mark.jax
@pytest.mark.parametrize("form", FORMS)
def test_xla_reads_the_same(form: str) -> None:
    xla = pytest.importorskip("jaxlib._hlo")
    text, expected = FORMS[form]
    printed = read_hlo(xla.hlo_module_from_text(text).to_string())
    assert {name: sorted(lines) for name, lines in lines_of(printed).items()} == {
        name: sorted(lines) for name, lines in expected.items()
    }


@pytest.mark.parametrize("more", ["\nROOT c = f32[2]{0} abs(b)\n", "\n  garbage\n"])
def test_one_instruction_alone_has_nothing_behind_it(more: str) -> None:
    alone = 'b = f32[2]{0} negate(f32[2]{0} a), metadata={op_name="x"}'
    assert len(read_hlo(f"{alone}\n").instructions) == 2
    assert read_hlo(alone.replace(", m", ",\n  m") + "  // the end\n").entry.root.metadata == {"op_name": "x"}
    with pytest.raises(sd.DumpError, match=r"line 1, column 1: no HLO computation.*instructions stand between 'ENTRY"):
        read_hlo(alone + more)
    with pytest.warns(sd.DumpWarning, match="lines were not understood"):
        module = read_hlo(f"{alone}{more}}}\n\n%f (p: f32[]) -> f32[] {{\n  ROOT p = f32[] parameter(0)\n}}\n")
    assert [one.name for one in module.computations] == ["f"]
    for indent in ("", "  "):  # the brace of the first line closes on the last one
        with pytest.raises(sd.DumpError, match="line 1, column 1: no HLO computation"):
            read_hlo(f"a = f32[] tanh(f32[] p), statistics={{x=1\n{indent}b = f32[] negate(a)\n}}\n")


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_as_written_still_find_their_instruction() -> None:
    module = read_hlo(FORMS["one name in several computations"][0])
    root = module.entry.root
    assert module.entry.instruction("q") is module.instruction("q.2") is root
    assert module.entry.instruction("p.1").opcode == "parameter"  # the new name comes first
    assert module.entry.instruction("p").name == "p.1"
    assert [i.name for i in root.control_predecessors] == ["p.2"]
    assert root.attributes["control-predecessors"] == "{%p.2}"
    assert [i.name for i in module.instruction("p.1").users] == ["p.2", "q.2"]
    assert module.instruction("q.0").called_computations == (module.computations[0],)


def test_numbers_of_names_are_counted_for_each_stem() -> None:
    names = NameUniquer()
    given = [names.unique(name) for name in ("a", "a", "a.0", "a.7", "a.07", "b.2", "b", "b", "__c", "f32", "a.x")]
    assert given == ["a", "a.1", "a.2", "a.7", "a.3", "b.2", "b", "b.1", "a_c", "f32_", "a.x"]


def test_nested_operands_are_named_once_where_a_computation_is_read_twice() -> None:
    text = "HloModule m\n\nENTRY e {\n a = f32[] negate(f32[] parameter(0))\n ROOT b = f32[] abs(a) }\n"
    assert [i.name for i in read_hlo(text).instructions] == ["parameter.anon", "a", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (module_text("a = f32[] iota()\nb = f32[] iota()\na = f32[] negate(b)"), "line 6.*a second instruction 'a'"),
        (module_text("ROOT a = f32[] iota()\nROOT b = f32[] negate(a)"), "line 5.*a second ROOT"),
        ("f { a = f32[] iota() }\nf { b = f32[] iota() }\n", "line 2.*a second computation 'f'"),
        ("ENTRY f { a = f32[] iota() }\nENTRY g { b = f32[] iota() }\n", "line 2.*a second ENTRY"),
    ],
)
def test_what_is_defined_twice_is_refused(text: str, words: str) -> None:
    with pytest.raises(sd.DumpError, match=words):
        read_hlo(text)


def test_a_second_name_is_refused_also_behind_one_that_is_read_twice_with_a_body() -> None:
    body = "ROOT r = f32[] call(a), to_apply={ ROOT y = f32[] parameter(0) }"
    twice = f'c {{\n  a = f32[] parameter(0)\n  {body}\n}}\n, execution_thread="t"\n'
    named = "_ {\n  ROOT x = f32[] iota()\n}\n"
    with pytest.raises(sd.DumpError, match=r"line 9.*a second computation '_'"):
        read_hlo(f"{named}{twice}{named}")


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        ("a, gone", "no instruction 'gone'"),
        ("a b", "no operand: a b"),
        ("a, f32[]", r"no operand: f32\[\]"),
        ("a, b c(d)", "no operand: b c"),
        ("a, f32[] iota(), dimensions={0}", "no operand: dimensions"),
    ],
)
def test_operands_that_are_neither_names_nor_instructions_are_told(operands: str, words: str) -> None:
    with pytest.warns(sd.DumpWarning, match=f"line 5: {words}"):
        found = entry_of(f"a = f32[] parameter(0)\nb = f32[] add({operands})")
    with pytest.raises(sd.DumpError, match="no instruction"):
        _ = found[-1].operands


def test_operands_nest_no_deeper_than_a_bound() -> None:
    with pytest.warns(sd.DumpWarning, match="operands that nest deeper than 64"):
        entry_of(f"b = f32[] negate({'f32[] negate(' * 70}f32[] parameter(0){')' * 70})")


# ---- shapes ----------------------------------------------------------------------------------------------------------

P = "a = f32[4,6]{0,1:T(8,128)S(1)} parameter(0)\nb = f32[4,6]{1,0} parameter(1)\nz = f32[] constant(0)\n"
LEFT_OUT = {
    "add(a, b)": "f32[4,6]{0,1:T(8,128)S(1)}",
    "compare(b, a), direction=LT": "pred[4,6]{1,0}",
    "complex(a, b)": "c64[4,6]{0,1:T(8,128)S(1)}",
    "clamp(z, a, z)": "f32[4,6]{0,1:T(8,128)S(1)}",
    "select(pred[4,6]{0,1} bitcast-convert(a), b, b)": "f32[4,6]{0,1}",
    "select(pred[6,4]{0,1} bitcast-convert(a), b, b)": None,
    "select(pred[] constant(true), a, b)": "f32[4,6]{0,1:T(8,128)S(1)}",
    "select(pred[] constant(true), b, a)": "f32[4,6]{1,0}",
    "select(pred[] constant(true), a, z)": None,
    "map(a, b), dimensions={0,1}, to_apply=sum": "f32[4,6]{1,0}",
    "map(a, z), dimensions={0,1}, to_apply=sum": None,
    "set-dimension-size(a, s32[] constant(3)), dimensions={0}": "f32[<=4,6]{0,1:T(8,128)S(1)}",
    "set-dimension-size(f32[<=4,6] parameter(2), s32[] constant(3)), dimensions={1}": "f32[<=4,<=6]{1,0}",
    "set-dimension-size(a, s32[] constant(3)), dimensions={2}": None,
    "tuple(a, z)": "(f32[4,6]{0,1:T(8,128)S(1)}, f32[])",
    "get-tuple-element(tuple(z, a)), index=1": "f32[4,6]{0,1:T(8,128)S(1)}",
    "transpose(a), dimensions={1,0}": "f32[6,4]{1,0:T(8,128)S(1)}",
    "concatenate(a, b), dimensions={0}": "f32[8,6]{1,0}",
    "pad(a, z), padding=1_2_1x0_0": "f32[10,6]{1,0}",
    "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}": "f32[4,4]{1,0}",
    "reduce(a, z), dimensions={1}, to_apply=sum": "f32[4]{0}",
    "reduce-window(a, z), window={size=2x3 stride=2x1 pad=0_0x1_1}, to_apply=sum": "f32[2,6]{1,0}",
    "after-all()": "token[]",
    "partition-id()": "u32[]",
    "call(z, z), to_apply=sum": "f32[]",
    "copy(a)": "f32[4,6]{0,1:T(8,128)S(1)}",
    "reverse(a), dimensions={0}": "f32[4,6]{0,1:T(8,128)S(1)}",
    "is-finite(a)": "pred[4,6]{0,1:T(8,128)S(1)}",
    "get-dimension-size(a), dimensions={0}": "s32[]",
    "add(a, z)": None,
    "fusion(a), kind=kLoop, calls=sum": None,
    "convolution(a, b), window={size=1}": None,
    "reduce-window(a, z), window={size=2x3 stride=0x0}, to_apply=sum": None,
    "add(bf16[4,6]{0,1} parameter(2), b)": "f32[4,6]{0,1}",
    "add(bf16[4,6]{0,1} parameter(2), f16[4,6] parameter(3))": "bf16[4,6]{0,1}",
    "add(b, s32[4,6] parameter(2))": None,
    "compare(bf16[4,6]{0,1} parameter(2), b), direction=LT": "pred[4,6]{0,1}",
    "complex(a, f64[4,6] parameter(2))": None,
    "select(pred[4,6]{0,1} parameter(2), bf16[4,6] parameter(3), b)": "f32[4,6]{0,1}",
    "concatenate(f16[4,6] parameter(2), b), dimensions={0}": "f32[8,6]{1,0}",
    "pad(f16[4,6] parameter(2), z), padding=1_2x0_0": "f32[7,6]{1,0}",
    "dot(f8e4m3fn[4,6] parameter(2), f8e5m2[4,6] parameter(3)), lhs_contracting_dims={1}, rhs_contracting_dims={1}":
        "f8e5m2[4,4]{1,0}",
    "fft(c64[4,6]{0,1} parameter(2)), fft_type=FFT, fft_length={6}": "c64[4,6]{0,1}",
    "fft(a), fft_type=RFFT, fft_length={6}": "c64[4,4]{0,1:T(8,128)S(1)}",
    "fft(a), fft_type=RFFT, fft_length={5}": None,
    "fft(c64[4,6]{0,1} parameter(2)), fft_type=IRFFT, fft_length={4,10}": "f32[4,10]{0,1}",
    "fft(c64[4,6]{0,1} parameter(2)), fft_type=IRFFT, fft_length={4,6}": None,
    "fft(c64[4,6] parameter(2)), fft_length={6}": None,
    "topk(a), k=2, largest=true": "(f32[4,2]{1,0}, s32[4,2]{1,0})",
    "topk(a), k=7, largest=true": None,
    "ragged-dot(b, f32[3,6,7] parameter(2), s64[3] parameter(3)), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={0}, rhs_group_dims={0}": "f32[4,7]{1,0}",
    "ragged-dot(b, f32[7,6] parameter(2), s64[3] parameter(3)), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={1}": "f32[3,4,7]{2,1,0}",
    "ragged-dot(b, f32[2,6,7] parameter(2), s64[3] parameter(3)), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={0}, rhs_group_dims={0}": None,
}  # fmt: skip


@pytest.mark.parametrize("call", LEFT_OUT)
def test_shapes_that_are_left_out_follow_from_others_or_are_unknown(call: str) -> None:
    module = read_hlo(f"HloModule m\n\n{REDUCERS}\nENTRY e {{\n{P}ROOT r = {call}\n}}\n")
    expected = LEFT_OUT[call]
    assert module.entry.root.shape == (None if expected is None else sd.parse(expected))


@pytest.mark.jax
@pytest.mark.parametrize("call", [call for call, shape in LEFT_OUT.items() if shape is not None])
def test_xla_fills_in_the_same_shapes(call: str) -> None:
    xla = pytest.importorskip("jaxlib._hlo")
    text = f"HloModule m\n\n{REDUCERS}\nENTRY e {{\n{P}ROOT r = {call}\n}}\n"
    root = read_hlo(xla.hlo_module_from_text(text).to_string()).entry.root
    assert read_hlo(text).entry.root.shape == root.shape


def test_convolutions_have_the_sizes_of_their_window() -> None:
    found = entry_of(
        "x = f32[1,17,9,9] parameter(0)\nk = f32[3,3,17,32] parameter(1)\n"
        "y = convolution(x, k), window={size=3x3 pad=1_1x1_1 stride=2x1}, dim_labels=bf01_01io->bf01"
    )
    assert str(found[-1].shape) == "f32[1,32,5,9]{3,2,1,0}"


def test_tuples_of_tuples_that_double_with_every_line_stay_bounded() -> None:
    lines = ["t0 = f32[] parameter(0)", *(f"t{n} = tuple(t{n - 1}, t{n - 1})" for n in range(1, 60))]
    found = entry_of("\n".join(lines))
    assert found[12].shape is not None
    assert found[59].shape is None


def test_the_result_of_an_outfeed_is_a_token() -> None:
    found = entry_of("a = f32[2] parameter(0)\nt = token[] after-all()\no = f32[2] outfeed(a, t)")
    assert str(found[-1].shape) == "token[]"


# ---- files of several modules ----------------------------------------------------------------------------------------

TWO = "# RUN: tool %s\n" + module_text("a = f32[2] parameter(0)") + module_text("b = f32[3] iota()", "HloModule n")


def test_several_modules_are_counted_and_one_of_them_read(tmp_path: Path) -> None:
    with pytest.raises(sd.DumpError, match=r"line 7, .*holds 2 modules: index=0 to index=1 picks one"):
        read_hlo(TWO)
    path = tmp_path / "two.hlo.gz"
    path.write_bytes(gzip.compress(TWO.encode()))
    first, second = read_hlo(TWO, index=0), read_hlo(path, index=1)
    assert [(m.name, m.entry.root.name) for m in (first, second)] == [("m", "a"), ("n", "b")]
    assert second.entry.root.line == 10
    for index in (2, -1):
        with pytest.raises(sd.DumpError, match=f"no module {index}: this text holds 2"):
            read_hlo(TWO, index=index)


def test_a_line_divides_modules_that_could_not_be_one() -> None:
    text = "e {\n a = f32[] iota()\n}\n\n// -----\n\ne {\n b = f32[] iota()\n}\n"
    assert [read_hlo(text, index=n).entry.root.name for n in (0, 1)] == ["a", "b"]
    with pytest.raises(sd.DumpError, match="holds 2 modules"):
        read_hlo(text)
    one = read_hlo(text.replace("\ne {\n b", "\nf {\n b"))  # as XLA reads it
    assert [computation.name for computation in one.computations] == ["e", "f"]


def test_a_header_inside_a_string_is_none() -> None:
    header = 'HloModule m, origin_recovery_table={\n {"a"} : {"b"},\n "\n HloModule r\n e { a = f32[] iota() }\n "\n}\n'
    module = read_hlo(header + module_text("a = f32[] iota()", ""))
    assert (module.name, len(module.computations)) == ("m", 1)


@pytest.mark.slow
def test_many_headers_are_read_in_linear_time() -> None:
    with pytest.raises(sd.DumpError, match="holds 20000 modules"):
        read_hlo("HloModule m\n" * 20_000)


# ---- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("done(b)", "done(b), calls=other"),
        ("p = f32[4] parameter(0)", "p = f32[8] parameter(0)"),
        ("p = f32[4] parameter(0)", "p = f32[4] parameter(1)"),
        ("ROOT r = f32[2]", "ROOT r = f32[3]"),
        (" ROOT r = f32[2] slice(p), slice={[0:2]}\n", ""),
        (" ROOT r = f32[2] slice(p), slice={[0:2]}\n", " ROOT q = f32[2] parameter(1)\n"),
    ],
)
def test_an_asynchronous_body_that_does_not_fit_is_told(before: str, after: str) -> None:
    """The short form does not say what the body takes and gives."""
    text = (
        "HloModule m\n\nw {\n p = f32[4] parameter(0)\n ROOT r = f32[2] slice(p), slice={[0:2]}\n}\n\nENTRY e {\n"
        " a = f32[4] parameter(0)\n b = ((f32[4]), f32[2], u32[]) async-start(a), calls=w\n"
        " ROOT c = f32[2] async-done(b)\n}\n"
    )
    assert text.count(before) == 1
    with pytest.warns(sd.DumpWarning, match="not as in the computation 'w'"):
        read_hlo(text.replace(before, after))


def test_an_asynchronous_body_may_give_what_it_takes() -> None:
    """Nothing of it is left unsaid, so that there is nothing to tell: warnings are errors here."""
    module = read_hlo(
        "HloModule m\n\nw {\n ROOT p = f32[4] parameter(0)\n}\n\nENTRY e {\n a = f32[4] parameter(0)\n"
        " b = ((f32[4]), f32[4], u32[]) async-start(a), calls=w\n ROOT c = f32[4] async-done(b)\n}\n"
    )
    assert not module.unread
    assert str(module.entry.root.shape).startswith("f32[4]")


def test_asynchronous_operations_take_over_attributes_and_threads() -> None:
    module = read_hlo(
        "HloModule m\n\nf {\n p = f32[4] parameter(0)\n ROOT q = f32[4] negate(p)\n}\n\n"
        'w {\n p = f32[4] parameter(0)\n ROOT s = f32[4] call(p), to_apply=f, metadata={op_name="x"}\n}\n\nENTRY e {\n'
        " a = f32[4] parameter(0)\n"
        ' b = ((f32[4]), f32[4], u32[]) async-start(a), async_execution_thread="host", calls=w,'
        ' backend_config={"k":1}\n'
        " u = ((f32[4]), f32[4], u32[]) async-update(b)\n ROOT c = f32[4] async-done(u), calls=w\n}\n"
    )
    b, u, c = module.entry.instructions[1:]
    assert (b.opcode, u.opcode, c.opcode) == ("call-start", "call-update", "call-done")
    assert dict(b.attributes) == {"async_execution_thread": '"host"', "to_apply": "f", "backend_config": '{"k":1}'}
    assert (dict(c.attributes), [called.name for called in b.called_computations]) == ({}, ["f"])
    assert module.computation("f").execution_thread == "host"
    assert str(b).startswith("%b = ((f32[4]), f32[4], u32[]) call-start(a), async_execution_thread=")


def asynchronous_in_each_other(depth: int) -> str:
    """A program that starts what starts another, `depth` times, and in the end negates its parameter."""
    text, shape = "HloModule m\n\nc0 {\n q0 = f32[] parameter(0)\n ROOT r0 = f32[] negate(q0)\n}\n\n", "f32[]"
    for k in range(1, depth):
        shape = f"((f32[]), {shape}, s32[])"
        text += f"c{k} {{\n q{k} = f32[] parameter(0)\n ROOT r{k} = {shape} async-start(q{k}), calls=c{k - 1}\n}}\n\n"
    start = f"((f32[]), {shape}, s32[]) async-start(p), calls=c{depth - 1}"
    return f"{text}ENTRY e {{\n p = f32[] parameter(0)\n s = {start}\n ROOT d = {shape} async-done(s)\n}}\n"


def test_a_body_that_is_asynchronous_itself_is_shown() -> None:
    """XLA prints ``async-start-start``, which neither says what it starts nor is read by XLA."""
    text = asynchronous_in_each_other(3)
    module = read_hlo(text)
    assert [one.name for one in module.computations] == ["c1", "c2", "e"]
    assert [i.opcode for i in module.instructions if i.opcode != "parameter"] == [
        "negate-start",
        "async-start",
        "async-start",
        "async-done",
    ]
    assert module.instruction("s").called_computations == (module.computation("c2"),)
    assert lines_of(read_hlo(module.to_text())) == lines_of(module)
    one = read_hlo(asynchronous_in_each_other(1))
    assert [i.opcode for i in one.entry.instructions] == ["parameter", "negate-start", "negate-done"]


def test_asynchronous_bodies_in_each_other_read_alike_from_text_and_proto() -> None:
    xla = pytest.importorskip("jaxlib._hlo")
    text = asynchronous_in_each_other(3)
    proto = xla.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    opcodes = [i.opcode for i in read_hlo(text).instructions]
    assert [i.opcode for i in read_hlo(proto).instructions] == opcodes
    again = xla.hlo_module_from_text(read_hlo(proto).to_text()).as_serialized_hlo_module_proto()
    assert [i.opcode for i in read_hlo(again).instructions] == opcodes


@pytest.mark.slow
def test_asynchronous_bodies_in_each_other_take_no_more_room_than_their_text() -> None:
    depth = 300
    longest = max(map(len, read_hlo(asynchronous_in_each_other(depth)).to_text().split("\n")))
    assert longest < 20 * depth + 200  # its shape; an opcode that names all of them would double it
    assert max(len(i.opcode) for i in read_hlo(asynchronous_in_each_other(depth)).instructions) < 20


def test_the_start_of_one_instruction_has_what_its_body_says_of_it() -> None:
    text = (
        "HloModule m\n\nw {\n p = f32[4] parameter(0)\n ROOT s = f32[4] negate(p), control-predecessors={p},"
        ' sharding={replicated}, frontend_attributes={x="1"}, metadata={op_name="n"}\n}\n\nENTRY e {\n'
        " a = f32[4] parameter(0)\n b = ((f32[4]), f32[4], u32[]) async-start(a), calls=w%s\n"
        " ROOT c = f32[4] async-done(b)\n}\n"
    )
    inner, own = (read_hlo(text % more).instruction("b") for more in ("", ', frontend_attributes={y="2"}'))
    assert dict(inner.attributes) == {"sharding": "{replicated}", "frontend_attributes": '{x="1"}'}
    assert dict(own.attributes) == {"sharding": "{replicated}", "frontend_attributes": '{y="2"}'}


def test_a_thread_reaches_what_lies_behind_a_computation_that_names_it() -> None:
    module = read_hlo(
        "HloModule m\n\ng {\n p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p)\n}\n\n"
        'f {\n q = f32[4] parameter(0)\n ROOT c = f32[4] call(q), to_apply=g\n}, execution_thread="host"\n\nENTRY e {\n'
        ' a = f32[4] parameter(0)\n b = ((f32[4]), f32[4], u32[]) call-start(a), async_execution_thread="host",'
        " to_apply=f\n ROOT d = f32[4] call-done(b)\n}\n"
    )
    assert {one.name: one.execution_thread for one in module.computations} == {"g": "host", "f": "host", "e": ""}


def test_bodies_inside_their_callers_are_printed_once() -> None:
    text, _ = FORMS["bodies inside their callers"]
    printed = read_hlo(text).to_text()
    assert printed.count("ROOT c = f32[] add(a, b)") == 1
    assert lines_of(read_hlo(printed)) == lines_of(read_hlo(text))


def test_the_entry_that_a_header_tells_of_may_leave_out_its_shape() -> None:
    module = read_hlo(
        "HloModule m, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n\n"
        "f {\n p = f32[4] parameter(0)\n ROOT n = negate(p)\n}\n"
    )
    assert str(module.entry.root.shape) == "f32[4]{0}"


@pytest.mark.parametrize("written", ["m:", "%m", "m"])
def test_marks_around_the_name_of_a_module_are_no_part_of_it(written: str) -> None:
    assert read_hlo(module_text("ROOT a = f32[4] parameter(0)", f"HloModule {written}")).name == "m"


def test_bodies_are_shown_where_an_update_takes_operands() -> None:
    module = read_hlo(
        "HloModule m\n\nw {\n p = f32[4] parameter(0)\n ROOT s = f32[4] negate(p)\n}\n\nENTRY e {\n"
        " a = f32[4] parameter(0)\n b = ((), (), u32[]) async-start(), calls=w\n"
        " u = ((f32[4]), f32[4], u32[]) async-update(b, a)\n ROOT c = f32[4] async-done(u)\n}\n"
    )
    assert [i.opcode for i in module.entry.instructions[1:]] == ["async-start", "async-update", "async-done"]
    assert [computation.name for computation in module.computations] == ["w", "e"]


def test_aliases_of_another_form_are_told_and_refused() -> None:
    header = "HloModule m, input_output_alias={ {0, a}: (0, {0}), {1}: (0, {1}) }"
    with pytest.warns(sd.DumpWarning, match="line 1: no value of input_output_alias"):
        module = read_hlo(module_text("a = f32[] iota()", header))
    with pytest.raises(sd.DumpError, match="no entry of this list"):
        _ = module.aliases


STABLEHLO = """#loc = loc(unknown)
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<10xf32>) -> (tensor<10xf32> {jax.result_info = ""}) {
    %0 = stablehlo.sine %arg0 : tensor<10xf32>
    return %0 : tensor<10xf32>
  }
}
"""


@pytest.mark.parametrize("read", [read_hlo, sd.memory_report])
def test_stablehlo_is_refused_with_what_gives_hlo(read, tmp_path):
    (tmp_path / "f.mlir").write_text(STABLEHLO, encoding="utf-8")
    (tmp_path / "f.mlirbc").write_bytes(b"ML\xefR\rStableHLO_v1.0.0\0" + bytes(range(256)))
    for source in (STABLEHLO, tmp_path / "f.mlir"):
        with pytest.raises(sd.DumpError, match=r"this is StableHLO or other MLIR, not HLO: .*compile\(\).as_text\(\)"):
            read(source)
    with pytest.raises(sd.DumpError, match=r"f.mlirbc: this is MLIR bytecode, not HLO: .*as_text\(\)"):
        read(tmp_path / "f.mlirbc")


@pytest.mark.parametrize(
    "beginning",
    ["module @jit_f {", "module attributes {a = 1 : i32} {", "  func.func private @f() {", '"builtin.module"() ({'],
)
@pytest.mark.parametrize("end", [" do {", " loc(#loc)", ""])
def test_a_loop_of_stablehlo_is_no_computation(beginning, end):
    inside = "  %4 = stablehlo.reduce(%2 init: %c) applies stablehlo.or across dimensions = [0] : tensor<i1>\n"
    with pytest.raises(sd.DumpError, match=r"this is StableHLO or other MLIR"):
        read_hlo(
            f"// a dump\n#loc = loc(unknown)\n{beginning}\n%1 = stablehlo.while(%a = %c)\ncond {{\n{inside}}}{end}\n"
        )


def test_a_computation_may_be_called_module():
    module = read_hlo(
        "module { x = f32[8] parameter(0) ROOT y = negate(x) }\nENTRY func.func (p: f32[8]) -> f32[8] {\n"
        "  p = f32[8] parameter(0)\n  ROOT r = f32[8] call(p), to_apply=module\n}\n"
    )
    assert [one.name for one in module.computations] == ["module", "func.func"]


_TABLES = """FileNames
1 "a.py"

FunctionNames
1 "f"
2 "g"

FileLocations
1 {file_name_id=1 function_name_id=2 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""


@pytest.mark.parametrize("line_ends", ["all", "those of headings", "those behind tables"])
def test_source_tables_may_stand_on_any_line(line_ends: str) -> None:
    """XLA takes a line end for any other blank."""
    body = module_text('ROOT a = f32[] parameter(0), metadata={op_name="a" stack_frame_id=1}', header="")
    text = f"HloModule m, is_scheduled=true\n\n{_TABLES}\n{body.lstrip()}"
    expected = read_hlo(text)
    match line_ends:
        case "all":
            text = text.replace("\n", " ")
        case "those of headings":
            text = text.replace("\n1", " 1").replace("\n\nF", " F").replace("\n\nS", " S")
        case _:
            text = text.replace("}\n\n", "} ")
    module = read_hlo(text)
    assert module.unread == ()
    assert module.tables == expected.tables
    assert module.is_scheduled
    assert [str(frame) for frame in module.entry.root.stack] == ["a.py:7:1 in g"]


def test_fields_need_no_blanks_between_them_and_counts_may_stand_among_them() -> None:
    tail = 'metadata={/*index=5*/op_name="a b"source_line=3}/*index=5*/, frontend_attributes={/*index=5*/k="v"}'
    (a,) = entry_of(f"ROOT a = f32[] parameter(0), {tail}")
    assert a.metadata == {"op_name": "a b", "source_line": 3}
    assert a.frontend_attributes == {"k": "v"}


def test_a_continued_line_does_not_hide_that_brackets_close_at_the_left() -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] custom-call(x)\n"
        ', custom_call_target="t", operand_layout_constraints={f32[4]{0}\n}\n, sharding={replicated}\n}\n'
    )
    module = read_hlo(text)
    assert (module.unread, module.entry.root.sharding) == ((), "{replicated}")


def test_cut_computations_look_at_their_own_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    class Counted:
        def __init__(self, line: int, text: str, reason: str) -> None:
            self._line, self.text, self.reason = line, text, reason

        @property
        def line(self) -> int:
            nonlocal asked
            asked += 1
            return self._line

    monkeypatch.setattr(module_builder, "Unparsed", Counted)
    cut = "".join(f"c{k} {{\n  a = f32[] add(b,\n  ROOT x = f32[] parameter(0)\n}}\n" for k in range(100))
    with pytest.warns(sd.DumpWarning):
        module = read_hlo(cut + "ENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n")
    assert len(module.unread) == 100
    assert asked < 1000


@pytest.mark.parametrize("types", [("bf16", "f32"), ("f32", "bf16")])
@pytest.mark.parametrize(
    ("value", "operation"),
    [("[]", "pad(a, b), padding=0_1"), ("[4]", "concatenate(a, b), dimensions={0}")],
)
def test_operands_of_several_types_give_the_most_precise_one(
    types: tuple[str, str], value: str, operation: str
) -> None:
    """Compilers for TPUs mix them, in any order."""
    of_a, of_b = types
    text = f"ENTRY e {{ a = {of_a}[4] parameter(0) b = {of_b}{value} parameter(1) ROOT r = {operation} }}"
    assert str(read_hlo(text).entry.root.shape) == ("f32[5]{0}" if "pad" in operation else "f32[8]{0}")
    same = text.replace(f"{of_b}{value}", f"{of_a}{value}")
    assert str(read_hlo(same).entry.root.shape).startswith(f"{of_a}[")


_SUM = "r { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }"
_SUMS = (
    "r { x = f32[] parameter(0) v = f32[] parameter(1) y = f32[] parameter(2) w = f32[] parameter(3)"
    " ROOT s = (f32[], f32[]) tuple(x, y) }"
)
_INTO = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"


@pytest.mark.parametrize(
    ("operation", "computation", "shape"),
    [
        ("cholesky(a), lower=true", "", "f32[8,8]{0,1:T(8,128)}"),
        ("triangular-solve(a, b), left_side=true, lower=true", "", "f32[8,8]{1,0}"),
        ("mulhi(n, n)", "", "u32[2]{0:T(128)}"),
        (f"scatter(a, n, u), {_INTO}, to_apply=r", _SUM, "f32[8,8]{0,1:T(8,128)}"),
        (f"scatter(a, b, n, u, u), {_INTO}, to_apply=r", _SUMS, "(f32[8,8]{0,1:T(8,128)}, f32[8,8]{1,0})"),
        ("select-and-scatter(a, u, z), select=g, scatter=r", _SUM, "f32[8,8]{0,1:T(8,128)}"),
    ],
)
def test_what_is_updated_or_solved_keeps_its_shape(operation: str, computation: str, shape: str) -> None:
    """What the parser of jaxlib 0.10.2 infers."""
    module = read_hlo(f"""HloModule m

{computation}
g {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = pred[] compare(x, y), direction=GE }}

ENTRY e {{
  a = f32[8,8]{{0,1:T(8,128)}} parameter(0)
  b = f32[8,8]{{1,0}} parameter(1)
  n = u32[2]{{0:T(128)}} parameter(2)
  u = f32[2,8]{{0,1}} parameter(3)
  z = f32[] parameter(4)
  ROOT result = {operation}
}}
""")
    assert str(module.entry.root.shape) == shape


@pytest.mark.parametrize("name", ["s1", "p", "a$b"])
def test_operands_of_asynchronous_operations_are_found_by_names_that_xla_changes(name: str) -> None:
    text = f"""HloModule m, is_scheduled=true

%wrapped (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  ROOT %n = f32[8]{{0}} negate(%p)
}}

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  %{name} = ((f32[8]{{0}}), f32[8]{{0}}, s32[]) async-start(%a), calls=%wrapped
  ROOT %d = f32[8]{{0}} async-done(%{name})
}}
"""
    entry = read_hlo(text).entry
    start = entry.instructions[1]
    assert start.name != name or name == "p"
    assert entry.root.operands == (start,)
    assert start.users == (entry.root,)
    assert entry.instruction(name) is start
