"""HLO text in all its forms, whole and damaged."""

from __future__ import annotations

import itertools
import re
import time
import tracemalloc
import warnings
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strided.dumps.detect import recognise
from strided.dumps.hlo import Computation, lexer, quoting, read_hlo
from strided.dumps.hlo.text_instruction import shape_of
from strided.errors import DumpError, DumpWarning, StridedError
from strided.layout import parser
from tests.hlo_samples import PAIRS, ask_everything, entry_of, module_text, text_of, text_path
from tests.thinned import thinned

WHILE = "control_flow_cond_switch_while"
VARIANTS = ("canonical", "fingerprint", "no_layout", "operand_shapes_no_percent", "short_parsable")


def names(text: str) -> list[str]:
    return [i.name for i in read_hlo(text).entry.instructions]


# ---- how XLA prints --------------------------------------------------------------------------------------------------


def structure(computation: Computation, *, inner: bool = False) -> list[Any]:
    """A computation without names: opcodes, bare shapes, operands by place, callees by their structure.

    Bodies that are printed inside their callers stand in another order than on their own.
    """
    places = {id(i): n for n, i in enumerate(computation.instructions)}
    found = []
    for instruction in computation.instructions:
        assert instruction.shape is not None
        callees = [structure(callee, inner=True) for callee in instruction.called_computations]
        operands = sorted(places[id(operand)] for operand in instruction.operands)
        shown = "" if inner else str(operands)
        found.append((instruction.opcode, instruction.shape.text(layout=False), shown, callees, instruction.is_root))
    return sorted(found, key=repr) if inner else found


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_way_of_printing_tells_the_same_program(variant: str) -> None:
    usual, printed = read_hlo(text_path(WHILE)), read_hlo(text_path(f"{WHILE}.{variant}"))
    assert structure(printed.entry) == structure(usual.entry)
    assert printed.aliases == usual.aliases
    assert printed.unread == ()


@pytest.mark.parametrize("attributes", ["", ", is_scheduled=true", ", entry_computation_layout={()->f32[]}"])
def test_a_computation_without_a_name_is_no_part_of_the_header(attributes: str) -> None:
    text = f"HloModule m{attributes}\n\n{{\n  ROOT t = f32[] iota()\n}}\n\nENTRY {{\n  ROOT u = f32[] iota()\n}}\n\n"
    module = read_hlo(text)
    assert [computation.root.name for computation in module.computations] == ["t", "u"]
    assert module.to_text() == text


@pytest.mark.parametrize(
    "attributes", ["is_scheduled=true", 'a="b"', "entry_computation_layout={()->(f32[], /*index=1*/s8[])}"]
)
@pytest.mark.parametrize("thread", ["", ', execution_thread="host"'])
def test_computations_may_begin_behind_a_value_without_a_comma(attributes: str, thread: str) -> None:
    module = read_hlo(f"HloModule m, {attributes} %f {{ ROOT t = f32[] iota() }}{thread} ENTRY e {{ u = s8[] iota() }}")
    assert [computation.name for computation in module.computations] == ["f", "e"]
    assert ", ".join(f"{name}={text}" for name, text in module.attributes.items()) == attributes
    assert module.computations[0].execution_thread == ("host" if thread else "")


def test_bodies_inside_their_callers_are_computations() -> None:
    module = read_hlo(text_path(f"{WHILE}.canonical"))
    fusion = module.find(opcode="fusion")[0]
    (body,) = fusion.called_computations
    assert body.name.split(".")[0] == "_"
    assert fusion.attributes["calls"] == f"%{body.name}"
    assert module.computations.index(body) < module.computations.index(fusion.computation)
    lines = text_of(f"{WHILE}.canonical").split("\n")
    for instruction in module.instructions:
        assert instruction.line is not None
        assert lines[instruction.line - 1].strip() == str(instruction).split("\n")[0]


def test_mesh_shardings_and_replica_groups_are_one_attribute_each() -> None:
    found = read_hlo(text_path("spmd8_v3.before_optimizations"))
    shardings = [i.sharding for i in found.instructions if i.sharding]
    assert shardings
    assert all(text.startswith(("{mesh[", "{{mesh[")) and text.endswith("}") for text in shardings)
    (_, a) = entry_of(
        "p = f32[8] parameter(0)\n"
        "a = f32[8] all-reduce(p), channel_id=1, "
        "replica_groups=mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'y'}, to_apply=e"
    )
    assert a.attributes["replica_groups"] == "mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'y'}"
    assert list(a.attributes) == ["channel_id", "replica_groups", "to_apply"]


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("add(%a, %b)", ("a", "b")),
        ("add(a, b)", ("a", "b")),
        ("add(f32[2]{0:T(256)(128)(2,1)} %a, (f32[], /*index=1*/s32[]) %b)", ("a", "b")),
        ("add(f32[2]{0} a, (f32[], s32[]) b)", ("a", "b")),
        ("tuple(%a, %b, /*index=2*/%c)", ("a", "b", "c")),
        ("iota()", ()),
        ("tuple(%a, ...(+3))", ("a",)),
        ("tuple(a, ...)", ("a",)),
        ("add(a, f32[2] constant({1, 2}))", ("a", "constant.anon")),
        ("parameter(3)", ()),
        ("constant({ { 1, 2 }, { 3, 4 } })", ()),
    ],
)
def test_operands(line: str, operands: tuple[str, ...]) -> None:
    defined = "".join(f"{name} = f32[2] iota()\n" for name in "abc")
    assert entry_of(f"{defined}x = f32[2] {line}")[-1].operand_names == operands


@pytest.mark.parametrize(
    "literal",
    ["1.5", "true", "(1, 2)", "{1, 0}", "{ { 1, 2 }, { 3, nan(0x123) } }", "{...}", "-inf", "{}", "{ /*i0=0*/ {1} }"],
)
def test_constants_keep_their_text(literal: str) -> None:
    assert entry_of(f"x = f32[2] constant({literal}), metadata={{a=1}}")[0].literal == literal


def test_buffers_tokens_and_dynamic_shapes() -> None:
    shapes = [
        "b(f32[8]{0})",
        "token[]",
        "f32[<=8]{0}",
        "f32[?]{0}",
        "opaque[]",
        "()",
        "((f32[]), b(s32[]), pred[2]{0:S(1)})",
    ]
    found = entry_of("\n".join(f"x{n} = {shape} custom-call()" for n, shape in enumerate(shapes)))
    assert [str(i.shape) for i in found] == shapes


@pytest.mark.parametrize("text", [text_of(name) for name in PAIRS], ids=PAIRS)
def test_windows_line_ends_change_nothing(text: str) -> None:
    unix, windows = read_hlo(text), read_hlo(text.replace("\n", "\r\n"))
    assert [str(i) for i in unix.instructions] == [str(i) for i in windows.instructions]


LINE_ENDS = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}} // head

FileNames // of the source

// a comment, and a blank line
1 "a.py" // the first
/* more
   to come */
2 "b.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=2 function_name_id=1 line=5 end_line=5 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %e (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0) // a "quote
  %c = f32[2,2]{1,0} constant({
    { 1, 2 }, // one
    { 3, 4 } /* two
    lines */
  })
  %d = f32[2]{0} custom-call(%c, // it's
    %p), custom_call_target="f", // part
    metadata={op_name="x // y" stack_frame_id=1}
  ROOT %r = f32[2]{0} negate(%d) // last
} // end"""


@pytest.mark.parametrize("origin", [str, str.encode])
@pytest.mark.parametrize("last", ["", "\n"])
@pytest.mark.parametrize(
    "ends", [["\n"], ["\r\n"], ["\r"], ["\r", "\r\n", "\n"]], ids=["unix", "windows", "old Mac", "mixed"]
)
def test_lines_end_where_comments_of_xla_do(origin: Any, last: str, ends: list[str]) -> None:
    lines = (LINE_ENDS + last).split("\n")
    text = "".join(f"{line}{end}" for line, end in zip(lines, itertools.cycle(ends), strict=False))
    text = text if last else text.rstrip()
    assert recognise(text.encode()) == "hlo"
    module = read_hlo(origin(text))
    assert module.unread == ()
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "constant", "custom-call", "negate"]
    p, c, d, _ = module.entry.instructions
    assert lexer.without_comments(c.literal or "").split() == "{ { 1, 2 }, { 3, 4 } }".split()
    assert d.operands == (c, p)
    assert d.metadata["op_name"] == "x // y"
    assert [(frame.file, frame.function, frame.line) for frame in d.stack] == [("b.py", "f", 5)]
    assert module.entry.root.line == LINE_ENDS.count("\n")


TABLES = """HloModule m, entry_computation_layout={{(f32[2]{{0}})->f32[2]{{0}}}}

FileNames{0}

FunctionNames{1}

FileLocations{2}

StackFrames{3}

ENTRY e {{
  ROOT p = f32[2]{{0}} parameter(0), metadata={{op_name="x" stack_frame_id=1}}
}}
"""
ROWS = (
    '\n1 "a.py"\n2 "b.py"',
    '\n1 "f"',
    "\n1 {file_name_id=2 function_name_id=1 line=5 end_line=5 column=1 end_column=2}",
    "\n1 {file_location_id=1 parent_frame_id=1}",
)
#: Rows of a table that do not take a line each, as XLA reads them.
SPLIT_ROWS: dict[str, tuple[int, str]] = {
    "names behind their numbers": (0, '\n1\n"a.py"\n2\n\n"b.py"'),
    "names behind comments": (0, '\n1 // one {\n"a.py" // "a\n\n2 /* two\nlines */ "b.py"'),
    "names on one line": (0, '\n1 "a.py" 2 "b.py"'),
    "names behind the heading": (0, ' 1 "a.py"\n2 "b.py"'),
    "a name of two lines": (0, '\n1 "a\n2.py" 2 "b.py"'),
    "a function": (1, '\n1\n\n"f"'),
    "a place behind its number": (2, ROWS[2].replace(" {", "\n{")),
    "a place, field by field": (2, ROWS[2].replace(" ", "\n").replace("}", "\n}")),
    "a place whose lines begin with numbers": (2, ROWS[2].replace("=", "=\n")),
    "a place with comments": (2, ROWS[2].replace(" line", " // }\n /* } */ line")),
    "a frame": (3, ROWS[3].replace(" ", "\n")),
    "frames on one line": (3, ROWS[3] + " 2 {file_location_id=1\nparent_frame_id=2}"),
}


def tables_with(number: int, rows: str) -> str:
    return TABLES.format(*(rows if k == number else row for k, row in enumerate(ROWS)))


@pytest.mark.parametrize(("number", "rows"), SPLIT_ROWS.values(), ids=SPLIT_ROWS)
def test_rows_of_source_tables_may_be_split(number: int, rows: str) -> None:
    text = tables_with(number, rows)
    for form in (text, text.replace("\n", "\r\n")):
        module = read_hlo(form)
        assert module.unread == ()
        assert [(f.file, f.function, f.line, f.end_column) for f in module.entry.root.stack] == [("b.py", "f", 5, 2)]
        assert module.entry.root.line == text[: text.index("ROOT")].count("\n") + 1


@pytest.mark.jax
@pytest.mark.parametrize(("number", "rows"), SPLIT_ROWS.values(), ids=SPLIT_ROWS)
def test_xla_reads_split_rows_alike(number: int, rows: str) -> None:
    xla = pytest.importorskip("jaxlib._hlo")
    text = tables_with(number, rows)
    printed = read_hlo(xla.hlo_module_from_text(text).to_string())
    assert printed.entry.root.stack == read_hlo(text).entry.root.stack


@pytest.mark.parametrize("rows", ['\n1 "a.py\n2 "b.py"', '\n1 {\n2 "b.py"', '\n1\n2 "b.py"', '\n1 "a.py" x\n2 "b.py"'])
def test_a_damaged_row_of_a_source_table_is_told_and_costs_no_other(rows: str) -> None:
    with pytest.warns(DumpWarning, match=r"line 4: not row 1 of FileNames: 1"):
        module = read_hlo(tables_with(0, rows))
    assert [(f.file, f.function, f.line) for f in module.entry.root.stack] == [("b.py", "f", 5)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('1 "f"', '2 "f"', 'line 8: not row 1 of FunctionNames: 2 "f"'),
        ('1 "f"\n', '1 "f"\n1 "f"\n', 'line 9: not row 2 of FunctionNames: 1 "f"'),
        (" column=1", " colum=1", "line 11: not row 1 of FileLocations"),
        (" column=1", " column=", "line 11: not row 1 of FileLocations"),
        (" column=1", " column=1 column=1", "line 11: not row 1 of FileLocations"),
        ("parent_frame_id=1", "parent_frame_id", "line 14: not row 1 of StackFrames"),
        ("FunctionNames\n", "\n", 'line 8: not row 3 of FileNames: 1 "f"'),
        ("FunctionNames\n", "FunctionNames\nFunctionNames\n", "line 8: a second table FunctionNames"),
    ],
)
def test_words_of_a_source_table_that_would_be_lost_are_told(before: str, after: str, words: str) -> None:
    """XLA refuses them, or takes a row by its place for another one."""
    text = TABLES.format(*ROWS)
    assert text.count(before) == 1
    with pytest.warns(DumpWarning, match=words):
        read_hlo(text.replace(before, after))


def test_a_place_need_not_say_where_it_ends() -> None:
    text = TABLES.format(*ROWS).replace(" end_line=5", "").replace(" end_column=2", "")
    assert [(f.line, f.end_line) for f in read_hlo(text).entry.root.stack] == [(5, 0)]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("is_scheduled=true, is_scheduled=false", "line 1: a second is_scheduled"),
        ("is_scheduled=treu", "line 1: no value of is_scheduled: treu"),
        ("replica_count=x", "line 1: no value of replica_count: x"),
        ("entry_computation_layout={()->f3[]}", "line 1: no value of entry_computation_layout: "),
        ("input_output_alias={ {}: (0, {0}x) }", "line 1: no value of input_output_alias: "),
        ("buffer_donor={ (0, 1) }", "line 1: no value of buffer_donor: "),
        ("entry_computation_layout={()->f32[2]{+0}}", "line 1: no value of entry_computation_layout: "),
        ("entry_computation_layout={()->f32[2]{0}, s32[]}", "line 1: no value of entry_computation_layout: "),
    ],
)
def test_a_header_that_cannot_be_right_is_told(header: str, words: str) -> None:
    with pytest.warns(DumpWarning, match=words):
        read_hlo(f"HloModule m, {header}\n\nENTRY e {{\n  ROOT a = f32[] parameter(0)\n}}\n")


@pytest.mark.parametrize("end", [', foo="x"', ', execution_thread=="x"', ', execution_thread="x" y'])
def test_what_is_no_attribute_of_a_computation_is_told(end: str) -> None:
    with pytest.warns(DumpWarning, match="line 4: no attribute of a computation: "):
        read_hlo(f"HloModule m\n\nENTRY e {{\n  ROOT a = f32[] parameter(0)\n}}{end}\n")


def test_a_carriage_return_in_a_string_stays_there() -> None:
    text = 'ENTRY e { // c\r  p = f32[] iota(), metadata={op_name="a\rb"} /* "\r */\r} // end'
    module = read_hlo(text)
    assert module.entry.root.metadata["op_name"] == "a\rb"
    assert module.entry.root.line == 2


# ---- how people write ------------------------------------------------------------------------------------------------


def test_a_program_on_one_line() -> None:
    module = read_hlo(
        "HloModule m add { x = f32[] parameter(0) y = f32[] add(x, x) } ENTRY e { a = f32[] call(), to_apply=add }"
    )
    assert [c.name for c in module.computations] == ["add", "e"]
    assert module.entry.root.called_computations == (module.computations[0],)
    assert module.computations[0].root.name == "y"


def test_a_program_over_many_lines() -> None:
    found = entry_of(
        "a =\n f32[2]{0}\n   parameter(\n 0)\n  ROOT b =\n (f32[2],\n f32[2]) tuple(a,\n a),\n"
        ' sharding={\n replicated},\nmetadata={op_name="x\ny"}'
    )
    assert [i.name for i in found[-1:]] == ["b"]
    assert found[-1].operand_names == ("a", "a")
    assert found[-1].metadata == {"op_name": "x\n  y"}


def test_signatures_may_span_lines_and_hold_layouts() -> None:
    module = read_hlo(
        "ENTRY e (a: f32[2]{0:T(128)},\n  b: f32[]) -> f32[2]{0} {\n"
        " b = f32[] parameter(1)\n a = f32[2] parameter(0)}\n"
    )
    assert [i.name for i in module.parameters] == ["a", "b"]


_WITH_HELPER = """HloModule m, entry_computation_layout={(f32[8,2]{1,0}, f32[2]{0})->(f32[8,2]{0,1}, f32[2]{0})}

helper (p: f32[2]) -> f32[2] {
  p = f32[2]{0} parameter(0)
  ROOT n = f32[2]{0} negate(p)
}

ENTRY e (a: f32[8,2], b: f32[2]) -> (f32[8,2], f32[2]) {
  a = f32[8,2]{1,0} parameter(0)
  b = f32[2]{0} parameter(1)
  c = f32[2]{0} call(b), to_apply=helper
  ROOT t = (f32[8,2]{1,0}, f32[2]{0}) tuple(a, c)
}
"""


def test_a_text_that_ends_before_its_entry_is_refused() -> None:
    """XLA takes the last computation where none is marked ENTRY; here the header tells that this is another one."""
    assert read_hlo(_WITH_HELPER).entry.name == "e"
    cut = _WITH_HELPER[: _WITH_HELPER.index("ENTRY")]
    with pytest.raises(DumpError, match="the text ends before its ENTRY"):
        read_hlo(cut)
    # Another one may begin like the entry, with fewer parameters or more.
    for told in ("()->f32[2]{0}", "(f32[2]{0}, f32[2]{0})->f32[2]{0}"):
        with pytest.raises(DumpError, match="the text ends before its ENTRY"):
            read_hlo(f"HloModule m, entry_computation_layout={{{told}}}\n{cut.partition(chr(10))[2]}")
    # Without a mark, but as the header says.
    assert read_hlo(_WITH_HELPER.replace("ENTRY ", "")).entry.name == "e"
    # Without a header, nothing tells.
    assert read_hlo(cut.partition("\n")[2]).entry.name == "helper"


def test_a_lost_root_is_told_where_the_last_instruction_is_not_what_the_computation_gives() -> None:
    lost = "".join(line for line in _WITH_HELPER.splitlines(keepends=True) if "ROOT t" not in line)
    with pytest.warns(DumpWarning, match="no ROOT, and not what the computation gives"):
        assert read_hlo(lost).entry.root.name == "c"
    # Marked or not, the last instruction is the result if it may be.
    assert read_hlo(_WITH_HELPER.replace("ROOT ", "")).entry.root.name == "t"


def test_comments_stand_anywhere() -> None:
    text = """// before { (
HloModule m /* in the header */, is_scheduled=true // behind
/* over
lines = f32[] add(x)
*/
ENTRY e { // open
  /* a = f32[2] parameter(0) */
  a = /*s*/ f32[2] /*o*/ parameter(/*n*/ 0 /*m*/) // gs://no
  /* one
  b = f32[2] negate(a)
  two */
  ROOT c = f32[2] custom-call(/*x*/ a), custom_call_target="/* kept */", metadata={op_name="gs://x"} // ROOT
  // }
}
"""
    module = read_hlo(text)
    assert [i.name for i in module.instructions] == ["a", "c"]
    assert module.is_scheduled
    assert module.entry.root.attributes["custom_call_target"] == '"/* kept */"'
    assert module.entry.root.metadata == {"op_name": "gs://x"}
    assert module.entry.instructions[0].parameter_number == 0


@pytest.mark.parametrize(
    "comment",
    [
        "// it's",
        "// a = f32[2] negate(x)\n",
        "/* b = f32[] add(a, c) */",
        "/* before a line end */\n",
        '// " ({',
        "// -",
        "//",
    ],
)
def test_comments_stand_next_to_any_token(comment: str) -> None:
    comment += "\n" if comment.startswith("//") else ""
    text = "HloModule| m|,| is_scheduled=|true|\n\nENTRY| main {|\n"
    text += "  x| =| f32[2]{0}| parameter|(|0|)|,| sharding={replicated}|\n"
    text += '  y =| f32[2]{0}| add(|x|,| x|)|,| metadata={op_name="y"}|\n'
    text += "  ROOT| z| = (f32[2]{0}|,| f32[2]{0})| tuple(y,| x)|\n|}\n"
    pieces = text.split("|")
    for k in range(1, len(pieces)):
        module = read_hlo("".join(pieces[:k]) + comment + "".join(pieces[k:]))
        assert (module.name, module.is_scheduled) == ("m", True)
        assert [i.name for i in module.instructions] == ["x", "y", "z"]
        assert [i.opcode for i in module.instructions] == ["parameter", "add", "tuple"]
        assert module.instruction("y").metadata == {"op_name": "y"}


@pytest.mark.parametrize("name", ["ENTRY.1", "ENTRY-x", "ENTRY_"])
def test_a_name_that_begins_as_the_word_for_the_entry_is_a_name(name: str) -> None:
    body = "{\n ROOT x = f32[] parameter(0)\n}\n\n"
    entry = f"ENTRY e {{\n y = f32[] parameter(0)\n ROOT z = f32[] call(y), to_apply={name}\n}}\n"
    for opening in (f"{name} ", f"{name} (x: f32[]) -> f32[] ", f"%{name} "):
        module = read_hlo(f"HloModule m\n\n{opening}{body}{entry}")
        assert (module.entry.name, [one.name for one in module.computations]) == ("e", [name, "e"])
        assert module.entry.root.called_computations == (module.computation(name),)


def test_without_an_entry_the_last_computation_is_it() -> None:
    module = read_hlo("a {\n x = f32[] parameter(0)\n}\n\nb {\n y = f32[] parameter(0)\n}\n")
    assert (module.entry.name, module.computations[0].root.is_root) == ("b", True)


def test_strings_hold_anything() -> None:
    (x,) = entry_of(
        'x = f32[] custom-call(), custom_call_target="}{)(][ \\" = add( \\\\", '
        'backend_config={"a":"}","b":["\\"{"]}, c="größe 値"'
    )
    assert x.attributes["c"] == '"größe 値"'
    assert x.attributes["backend_config"] == '{"a":"}","b":["\\"{"]}'
    assert x.attributes["custom_call_target"] == '"}{)(][ \\" = add( \\\\"'


def test_threads_behind_the_brace() -> None:
    module = read_hlo('e {\n a = f32[] parameter(0)\n}, execution_thread="host"\n')
    assert module.entry.execution_thread == "host"
    assert str(module.entry).endswith('}, execution_thread="host"')


@pytest.mark.parametrize(
    "end",
    ['}\n, execution_thread="t"', '} // }\n\n// }\n /* }\n}*/ , execution_thread="t"', '},\nexecution_thread="t"',
     '}, execution_thread=\n"t"', '}, execution_thread\n= "t"', '}/*\n}\n*/, execution_thread="t"'],
)  # fmt: skip
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_threads_below_the_brace(end: str, line_end: str) -> None:
    text = f"f {{\n  a = f32[] parameter(0)\n{end}\n\nENTRY e {{\n  b = f32[] parameter(0)\n{end}\n"
    module = read_hlo(text.replace("\n", line_end))
    assert [(c.name, c.execution_thread, len(c.instructions)) for c in module.computations] == [
        ("f", "t", 1),
        ("e", "t", 1),
    ]
    assert module.unread == ()


def test_a_string_behind_the_brace_may_span_lines() -> None:
    module = read_hlo('f {\n  a = f32[] parameter(0)\n}, execution_thread="x\n}\n"\nENTRY e {\n  b = f32[] iota()\n}\n')
    assert [c.execution_thread for c in module.computations] == ["x\n}\n", ""]


@pytest.mark.parametrize("comment", thinned(["/* } ) */\n", "// { ( a = b(\n", "/*\n*/\n"], 3))
@pytest.mark.slow
def test_many_lines_of_comments_take_time_in_proportion(comment: str) -> None:
    lines = comment * 20_000
    text = (
        f"f {{\n  a = f32[] parameter(0)\n{lines}  ROOT b = f32[] negate(a)\n{lines}}}\n{lines}, execution_thread='t'"
    )
    began = time.perf_counter()
    module = read_hlo(text)
    assert [i.name for i in module.instructions] == ["a", "b"]
    assert time.perf_counter() - began < 20


# ---- what is not understood ------------------------------------------------------------------------------------------


def test_one_warning_counts_and_names_the_lines_that_were_kept() -> None:
    text = module_text(
        "a = f32[2] parameter(0)\n??? what\nb = zz9[2] negate(a)\nROOT c = f32[2] add(a, a)\n%cut = f32[2] add(%a, meta"
    )
    with pytest.warns(DumpWarning) as caught:
        module = read_hlo(text)
    (warning,) = caught
    assert str(warning.message) == (
        "3 lines were not understood and kept as text: line 5: no instruction; line 6: no shape: zz9[2]; "
        "line 8: an instruction whose brackets do not close"
    )
    assert (module.unread[0].line, module.unread[0].text.strip()) == (5, "??? what")
    assert [i.name for i in module.entry.instructions] == ["a", "b", "c", "cut"]
    assert module.instruction("b").shape is None
    assert module.instruction("b").users == ()
    assert "line 5" in str(module)


def test_many_lines_are_counted_and_few_named() -> None:
    with pytest.warns(DumpWarning, match=r"9 lines .* line 10: no instruction; \.\.\.$"):
        read_hlo(module_text("a = f32[] parameter(0)\n" + "?\n" * 3 + "b = f32[] parameter(1)\n" + "!\n" * 6))


def test_what_follows_the_attributes_stays_without_a_name() -> None:
    with pytest.warns(DumpWarning, match="line 4: no attributes: junk"):
        (a,) = entry_of("a = f32[] parameter(0), x=1 junk")
    assert a.attributes == {"x": "1 junk"}
    with pytest.warns(DumpWarning, match="line 4: no attributes: junk"):
        (a,) = entry_of("a = f32[] parameter(0) junk")
    assert a.attributes == {"": "junk"}


@pytest.mark.parametrize(
    "attribute",
    [
        "replica_groups=[2,4]<=[4,2]T(1,0)",
        "replica_groups=[2,4] <= [4,2] T (1,0)",
        "replica_groups=mesh['x'=2,'y'=4] {'y'}",
        "replica_groups=mesh['x'=2], device_ids=([2]<=[2]) {'x'}",
        "outfeed_shape=(f32[2]{0:T(128)}, s32[])",
        "literal=s32[2]{0} {1, 2}",
        "dim_labels=b01f_01io->b01f",
        'backend_config="{\\"a\\": [1, 2]}"',
        'metadata={op_name="a b" source_line=3}',
    ],
)
def test_values_of_several_parts_are_whole(attribute: str) -> None:
    for rest in ("", ", index=1", ' /* "x */', ", index=1 // y"):
        assert entry_of(f"a = f32[2] parameter(0), {attribute}{rest}")[0].attributes


@pytest.mark.parametrize(
    "attributes",
    [
        "dimensions={}",
        "dimensions={ 0, 1 }",
        "dimensions={0, /* x */ 1}",
        "index = 3",
        "slice={[0:2], [0:4:2]}",
        "slice={ [ 0 : 2 ] }",
        "padding=0_-1x2_3_1",
        "direction=GE",
        'x="y, x=z", y={x=1, x=2}',
        "replica_groups=mesh['x'=2], device_ids=([2]<=[2]) {'x'}",
    ],
)
@pytest.mark.parametrize("rest", ["", ", z=1", ", z=1 // y"])
def test_attributes_of_their_forms_are_not_told(attributes: str, rest: str) -> None:
    assert read_hlo(module_text(f"a = f32[2] parameter(0), {attributes}{rest}")).unread == ()


def test_many_attributes_on_a_line_take_time_in_proportion() -> None:
    seconds = []
    for count in (2_000, 20_000):
        text = module_text(f"a = f32[2] parameter(0){''.join(f', x{n}=1' for n in range(count))}")
        begun = time.process_time()
        assert read_hlo(text).unread == ()
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 40 * seconds[0] + 0.5


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("b = f32[] negate(a) sharding={replicated}", "no attributes: sharding={replicated}"),
        ("b = f32[] negate(f32[] a) x, metadata={}", "no attributes: x, metadata={}"),
        ('b = f32[] negate(a), metadata={op_name="x"} sharding={replicated}', "no attributes: sharding={replicated}"),
        ('b = f32[] negate(a), metadata={op_name="x"} here, x=1', "no attributes: here, x=1"),
        ('b = f32[] negate(a), metadata={op_name="x"}{y}', "no attributes: {y}"),
        ('b = f32[] negate(a), metadata={op_name="x"}y', "no attributes: y"),
        ("b = f32[] negate(a), metadata{}", "no attributes: , metadata{}"),
        ("b = f32[] negate(a), metadata=, x=1", "no attributes: , x=1"),
        ("b = f32[] negate(a), x=1 sharding={replicated}", "no attributes: sharding={replicated}"),
        ("b = f32[] negate(/*index=0*/a), x={1} /* y */ z", "no attributes: z"),
        ("b = f32[] negate(a), x=1\tz", "no attributes: z"),
        ('b = f32[] negate(a), x="y" "z"', 'no attributes: "z"'),
        ("b = s32[2] constant({1, 2}), x={1} y", "no attributes: y"),
        ("b = c64[2] constant({(1, 2), (3, 4)}) y", "no attributes: y"),
        ("b = f32[] negate(a), x={0}, x={1}", "a second x"),
        ("b = f32[] negate(a), x={0}, y=1, x={0}", "a second x"),
        ('b = f32[] negate(a), x="y", x="z" // w', "a second x"),
        ("b = f32[] constant(1), x={0}, x={1}", "a second x"),
        ("b = f32[] broadcast(a), dimensions=LT", "no value of dimensions: LT"),
        ("b = f32[] broadcast(a), dimensions={0 1}", "no value of dimensions: {0 1}"),
        ("b = f32[] broadcast(f32[] a), dimensions={[0:1]}", "no value of dimensions: {[0:1]}"),
        ("b = f32[] get-tuple-element(a), index={0}", "no value of index: {0}"),
        ("b = f32[] get-tuple-element(a), index=0x", "no value of index: 0x"),
        ("b = f32[] slice(a), slice={[0:1], 2}", "no value of slice: {[0:1], 2}"),
        ("b = f32[] pad(a, a), padding=0_1_2_3", "no value of padding: 0_1_2_3"),
        ("b = pred[] compare(a, a), direction=LTE", "no value of direction: LTE"),
        ("b = f32[] add(a, )", "no operand after the last comma"),
        ("b = f32[] add(a%, a)", "no operand: a%"),
        ("b = f32[] add(%%a, a)", "no operand: %%a"),
        ("b = f32[] parameter(@1)", "no parameter number"),
        ("b = f32[] parameter()", "no parameter number"),
        ("b = f32[] parameter(-1)", "no parameter number"),
        ("b = f32[] parameter(0)", "a second parameter 0"),
        ("b = f32[] abs(a), metadata={\n  c = f32[] abs(a)\n}", "another instruction begins inside its brackets"),
        ("b = s32[2] constant({1,\n  c = s32[] constant(2)\n})", "another instruction begins inside its brackets"),
    ],
)
def test_damage_around_operands_is_told(statement: str, reason: str) -> None:
    with pytest.warns(DumpWarning, match=re.escape(f"line 5: {reason}")):
        found = entry_of(f"a = f32[] parameter(0)\n{statement}")
    assert [i.name for i in found] == ["a", "b"]


def test_an_attribute_that_is_given_many_times_is_told_of_once() -> None:
    with pytest.warns(DumpWarning):
        module = read_hlo(module_text("a = f32[] parameter(0)\nb = f32[] negate(a)" + ", x={0}" * 1000))
    assert [part.reason for part in module.unread] == ["a second x"]


def test_a_percent_sign_may_follow_root_at_once() -> None:
    (a, b) = entry_of("ROOT%a = f32[] parameter(0)\nROOT_b = f32[] negate(a)")
    assert (a.name, a.is_root, b.name, b.is_root) == ("a", True, "ROOT_b", False)


def test_bodies_in_a_list_may_end_left_of_their_caller() -> None:
    """XLA's canonical form prints the brace behind `called_computations` so."""
    text = """
HloModule m

ENTRY e {
  p = f32[] parameter(0)
  f = f32[] fusion(p), kind=kCustom, calls=
  {
    q = f32[] parameter(0)
    ROOT c = f32[] custom-call(q), custom_call_target="x", called_computations={
    {
      r = f32[] parameter(0)
      ROOT n = f32[] negate(r)
    }
}
  }
  ROOT t = f32[] negate(f)
}
"""
    module = read_hlo(text)
    (fused,) = module.instruction("f").called_computations
    (body,) = fused.root.called_computations
    assert (module.entry.root.name, fused.root.opcode, body.root.opcode) == ("t", "custom-call", "negate")


@pytest.mark.parametrize(
    ("text", "reason", "kept"),
    [
        ("log (\nHloModule m\n\ne {\n a = f32[] parameter(0)\n}\n", "line 1: neither", ["a"]),
        (
            "%f (a: f32[]) -> f32[] {\n b = f32[] iota()\n\nENTRY %g () -> f32[] {\n a = f32[] iota()\n}\n",
            "line 1: a computation without a closing brace",
            ["a"],
        ),
        ("f {\n}\nENTRY g {\n a = f32[] iota()\n}\n", "line 1: a computation without instr", ["a"]),
        ("ENTRY g {\n a = f32[] fusion(), calls={ ??? = }\n}\n", "no instruction", ["a"]),
        ("ENTRY g {\n  a = f32[] add(b,\n  c = f32[] iota()\n}\n", "line 2: an instruction whose", ["a", "c"]),
        ('ENTRY g {\n  a = f32[] add(b), metadata={op_name="x\n}\n', "line 2: an instruction whose", ["a"]),
        ("ENTRY g {\n  a = (f32[], /*index=5\n  c = (f32[], /*index=5*/f32[]) iota()\n}\n", "line 2", ["c"]),
        ("ENTRY g {\n  a = f32[] iota()\n  , , )\n}\n", "line 3", ["a"]),
        ("HloModule m, x={a=(\n\nENTRY g {\n a = f32[] iota()\n}\n", "line 1: a header whose", ["a"]),
        ("HloModule m, x=1 } y\nENTRY g {\n a = f32[] iota()\n}\n", "line 1", ["a"]),
    ],
)  # fmt: skip
def test_damage_costs_the_damaged_line_only(text: str, reason: str, kept: list[str]) -> None:
    with pytest.warns(DumpWarning, match=reason):
        module = read_hlo(text)
    assert [i.name for i in module.entry.instructions] == kept


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "e {\n a = f32[] parameter(0)\n",
            "line 3, column 1: the text ends inside the computation that begins on line 1",
        ),
        ("e {\n a = f32[] param", "line 2, column 17"),
        ("HloModule m\n", "line 1, column 1: no HLO computation"),
        ("\n\n  words", "line 3, column 3"),
        ("e {", "line 1, column 4"),
        ("e {\n}\n", "line 1, column 1: no HLO"),
    ],
)
def test_truncation_and_garbage_are_refused_with_their_place(text: str, place: str) -> None:
    with pytest.raises(DumpError, match=place):
        read_hlo(text + "\n" if "\n" not in text else text) if "column 4" not in place else read_hlo(text.encode())


@pytest.mark.parametrize(
    ("name", "step"),
    thinned([("donated_aliases", 197), (f"{WHILE}.canonical", 197), (f"{WHILE}.canonical", 1009)], 2),
)
def test_truncation_at_every_place(name: str, step: int) -> None:
    text, places = text_of(name), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)
        for end in range(0, len(text), step):
            try:
                ask_everything(read_hlo(text[:end].encode()))
            except DumpError as error:
                places.append((error.line, error.column))
    assert len(places) > 10
    assert all(line is not None and column is not None for line, column in places)


# ---- safety ----------------------------------------------------------------------------------------------------------

N = 30_000
BOMBS = {
    "open parentheses": "  a = " + "(" * N + " add(b)",
    "deep tuple": "  a = " + "(" * N + ")" * N + " parameter(0)",
    "braces": "  a = f32[] add(b), x=" + "{" * N,
    "balanced braces": "  a = f32[] add(b), x=" + "{" * N + "}" * N,
    "deep bodies": "  a = f32[] add(b), calls=" + "{x=f32[] add(a), calls=" * (N // 10) + "}" * (N // 10),
    "quotes": "  a = f32[] add(b), x=" + '"' * N,
    "escaped quotes": '  a = f32[] add(b), x="' + '\\"' * N,
    "comments": "  a = f32[] add(b), x=" + "/*" * N,
    "commas": "  a = f32[] add(b)\n" + ",\n" * (N // 4),
    "unclosed lines": "  a = f32[] add(\n" * (N // 20),
    "calls": "  a = f32[] add(b)\n}\n"
    + "".join(f"c{k} {{ a = f32[] call(), to_apply=c{k - 1} }}\n" for k in range(N // 30)),
    "one line": " ".join(["a = f32[] add(b)"] * (N // 20)),
    "spaces": "  a = f" + " \t" * N + "add(b)",
    "equals": "  " + "a = " * N,
    "arrows": "}\nENTRY f (" + ")->" * N + " {\n a = f32[] add(b)",
    "operands": "  a = f32[] add(" + "a, " * N + ")",
    "nested operands": "  a = f32[] add(" + "neg(" * N + ")" * N,
    "one name": "  a = f32[] add(a)\n" * (N // 10),
    "buffers": "  a = " + "b(" * N + " add(a)",
    "metadata": "  a = f32[] add(a), metadata={" + "a=" * N + "}",
    "numbers": "  a = f32[" + "9" * N + "] parameter(" + "9" * N + "), metadata={source_line=" + "9" * N + "}",
}


@pytest.mark.parametrize("name", thinned(BOMBS, 9))
@pytest.mark.filterwarnings("ignore::strided.errors.DumpWarning")
@pytest.mark.slow
def test_text_bombs_take_linear_time_and_memory(name: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n{BOMBS[name]}\n}}\n"
    tracemalloc.start()
    begin = time.process_time()
    try:
        ask_everything(read_hlo(text))
    except StridedError:
        pass
    assert time.process_time() - begin < 10
    assert tracemalloc.get_traced_memory()[1] < 400 * len(text) + 50_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("long", ["constant({" + "1, " * N * 60 + "1})", 'add(a), x="' + "y" * N * 180 + '"'])
def test_a_long_line_takes_at_most_three_times_its_size(long: str) -> None:
    data = f"ENTRY e {{\n  a = f32[2] {long}\n}}\n".encode()
    read_hlo("ENTRY e { a = f32[2] iota() }")  # what is loaded or compiled once is not counted
    tracemalloc.start()
    read_hlo(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(data)


SEEDS = [text_of(name) for name in ("donated_aliases", "host_compute_offload_params", f"{WHILE}.canonical", "frames")]
PIECES = [
    *"(){}[],=%\"'\\/\n\r\t \0é*:", "ROOT ", "ENTRY ", "/*", "*/", "//", " = ", "f32[2]{0} ", "add(", "calls=",
    "HloModule ", "metadata={", "...", "}\n", "{\n", "FileNames\n", "constant(", "b(", "/*index=5*/", "\\\"",
]  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.one_of(st.sampled_from(PIECES), st.text(max_size=5))),
    min_size=1,
    max_size=8,
)


def edited(text: str, edits: list[tuple[float, int, str]]) -> str:
    for place, length, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    return text


@given(st.sampled_from(SEEDS), EDITS)
@example(SEEDS[0], [(0.5, 0, "\n,")])  # a line that goes on with one that is damaged was read for ever
@example("e {\n}\n", [(0.0, 0, "")])  # a computation without instructions has no root
@example(
    'HloModule m\n\nFunctionNames\n1 "\ud800"\n\nStackFrames\n1 {a=1}\n\ne {\n a = f32[] iota()\n}\n', [(0.99, 0, "")]
)
@example('e {\n a = f32[] iota(), metadata={source_file="f" source_line=4mn=1}\n}\n', [(0.99, 0, "")])
def test_mangled_text_ends_in_a_module_or_a_dump_error(seed: str, edits: list[tuple[float, int, str]]) -> None:
    text = edited(seed, edits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)
        try:
            module = read_hlo(text + "\n")
        except DumpError:
            return
        assert ask_everything(module) > 0


# ---- parts -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=20))
def test_escapes_go_both_ways(data: bytes) -> None:
    assert quoting.unescape(f'"{quoting.escape(data)}"') == data.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    "text", sorted({str(i.shape) for name in PAIRS for i in read_hlo(text_path(name)).instructions})
)
def test_the_quick_way_to_a_shape_is_the_way_of_notation(text: str) -> None:
    shape_of.cache_clear()
    assert shape_of(text) == parser.parse(text)


@pytest.mark.parametrize(
    "text", ["", "f32", "f32[2]{}", "f32[2]{5}", "(f32[2],)", "(f32[2]", "f32[2]x", "{1,0}", "(, )", "f32[2,3]{0}"]
)
def test_what_is_no_shape_is_none(text: str) -> None:
    assert shape_of(text) is None


def test_lists_and_fields() -> None:
    assert lexer.split_list("") == []
    assert lexer.split_list("a, {b, c}, 'd,e'") == ["a", "{b, c}", "'d,e'"]
    assert lexer.read_fields('{a="x", b={1,2} c=3, d=x{y}}') == {"a": '"x"', "b": "{1,2}", "c": "3", "d": "x{y}"}
    assert lexer.inside("x") == "x"


def test_a_stack_of_one_frame_says_all_that_the_metadata_say() -> None:
    where = 'op_name="f" source_file="a.py" source_line=3 source_end_line=4 source_column=5 source_end_column=6'
    (frame,) = read_hlo(module_text(f"a = f32[] parameter(0), metadata={{{where}}}")).entry.root.stack
    assert (frame.file, frame.function, frame.line, frame.column, frame.end_line, frame.end_column) == (
        "a.py",
        "f",
        3,
        5,
        4,
        6,
    )


def test_shapes_of_newer_opcodes_follow_from_their_operands() -> None:
    lines = "a = s32[4,8]{0,1} parameter(0)\nb = mulhi(a, a)\nc = shuffle(b), dimensions={0}, mode=rotate, shifts={1}\n"
    module = read_hlo(module_text(f"{lines}d = f32[2] parameter(1)\ne = exp2(d)\nROOT f = log2(e)"))
    assert [str(module.instruction(name).shape) for name in "bcef"] == ["s32[4,8]{0,1}"] * 2 + ["f32[2]{0}"] * 2
