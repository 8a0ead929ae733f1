"""The quick ways of the HLO text reader read what its careful ways read: the same module, or the same error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strided.dumps.hlo import Computation, computation_text, lexer, names, read_hlo, text_instruction
from strided.errors import DumpError, DumpWarning, StridedError
from tests.dumps.test_hlo_text import EDITS, SEEDS, edited
from tests.hlo_samples import DATA, text_of

SAMPLES = sorted(
    path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".hlo") for path in DATA.glob("*.txt.gz")
)


@contextmanager
def careful() -> Iterator[None]:
    """Without plain lines, without simple values of attributes, without names that need no look."""
    never = lexer._ATTRIBUTE.pattern.replace(lexer._SIMPLE_VALUE, "(?!)")
    assert never != lexer._ATTRIBUTE.pattern
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computation_text, "match_plain_line", lambda line: None)
        patch.setattr(lexer, "_ATTRIBUTE", re.compile(never, re.DOTALL))
        patch.setattr(names, "_differ", lambda names: False)
        yield


def told(text: str) -> Any:
    """All that reading a text tells, or its error."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", DumpWarning)
        try:
            module = read_hlo(text)
        except DumpError as error:
            return type(error), str(error), error.line, error.column
        said = [computation(one) for one in module.computations]
    header = module.name, dict(module.attributes), module.renamed, module.unread, module.entry.name
    return header, said, [str(one.message) for one in warned]


def computation(one: Computation) -> list[Any]:
    found: list[Any] = [one.name, one.signature, one.is_entry, one.execution_thread, one.renamed]
    for i in one.instructions:
        assert isinstance(i, text_instruction.TextInstruction)
        facts = [i.name, i.opcode, i.is_root, i.line, str(i.shape), i.shape_text, i.text.strip(), i.operand_text]
        found.append([*facts, i.operand_names, list(i.attributes.items()), _names(i), sorted(i.bodies or {})])
    return found


def _names(instruction: text_instruction.TextInstruction) -> list[str] | str:
    try:
        return [operand.name for operand in instruction.operands]
    except StridedError as error:
        return str(error)


def check(text: str) -> None:
    quick = told(text)
    with careful():
        assert told(text) == quick


def test_the_careful_way_is_another() -> None:
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computation_text, "is_whole", lambda line: seen.append(line) or True)
        with careful():
            read_hlo(text_of("donated_aliases"))
        careful_lines = len(seen)
        read_hlo(text_of("donated_aliases"))
    assert careful_lines > 20
    assert len(seen) - careful_lines < careful_lines / 4


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    check(text_of(name))


@given(st.sampled_from(SEEDS), EDITS)
def test_damaged_samples(seed: str, edits: list[tuple[float, int, str]]) -> None:
    check(edited(seed, edits) + "\n")


HEADS = [
    "%a = ",
    "b = ",
    "ROOT %c.1 = ",
    "-d = ",
    "é = ",
    "%2x = ",
    "a$b = ",
    "ROOT ",
    "%a= ",
    "\t%e = ",
    "/* f = */ g = ",
    "",
]
SHAPES = [
    "f32[2]{0} ",
    "bf16[16,300]{1,0:T(8,128)(2,1)S(1)} ",
    "(f32[2]{0}, s32[]) ",
    "(f32[2], /*index=5*/s32[]) ",
    "token[] ",
    "f32[2]//x ",
    "f32[2] // x ",
    "b(f32[2]) ",
    "f32[2 ",
    "",
    "() ",
    "f32[2] /* x ",
    "(f32[2], /* = add( */ s32[]) ",
    "f32[<=4]  ",
    "add(x) ",
    "x = ",
    "(f32[2]) /* x add(b) */ ",
]
OPERATIONS = [
    "add(",
    "parameter(",
    "constant(",
    "tuple(",
    "f(",
    "b(",
    "fusion (",
    "outfeed(",
    "async-start(",
    "Ädd(",
    "get-tuple-element(",
]
OPERANDS = [
    "a",
    "%a, %b",
    "f32[2]{0} %a",
    "",
    "0",
    "1e+06",
    "a b",
    "neg(a)",
    "a,b",
    "a, /*index=5*/%b",
    "...",
    "a, -d",
    "{1, 2}",
    '"x"',
    "a, (",
    "%c.1, a$b",
    "/* x */a",
]
TAILS = [
    ", x={1,2}",
    ', y={"a":["}",{"b":{"c":{"d":{"e":{}}}}}]}',
    ', metadata={op_name="f(x)/{" source_line=3}',
    ", k=[2,4]<=[8]T(1,0)",
    " h = f32[] add(a)",
    ", h = f32[] add(a)",
    ", c=>",
    ",",
    "=",
    " ROOT",
    "ROOT",
    " // x",
    "/* ",
    "*/",
    ', s="\\""',
    ', s="',
    ", m='x'",
    ", m='(",
    "}",
    "{",
    ", control-predecessors={%a}",
    ", calls=%f",
    ", calls={ ROOT z = f32[] add(a) }",
    ', async_execution_thread="t"',
    "  ",
    "\n",
    "\n  , x=1",
    "\n}",
    ", slice={[0:2], [1:3]}",
    ', z={x="a" /* y */}',
    ", w={a  =b}",
    ", u={{a}, {b}} v",
    ", t={it's}",
    ", device_ids=(1)",
    ", n={a/b}",
    ", q={a=(1,2)}",
    ', r="a" b',
    ", mesh=mesh['x'=2], device_ids=([2])",
    ", window={size=3x3 pad=0_1x0_1}",
]
LINES = st.builds(
    lambda indent, head, shape, opcode, operands, end, tails: (
        f"{indent}{head}{shape}{opcode}{operands}{end}{''.join(tails)}"
    ),
    *(st.sampled_from(parts) for parts in (["  ", "", "\t"], HEADS, SHAPES, OPERATIONS, OPERANDS, [")", "", "))"])),
    st.lists(st.sampled_from(TAILS), max_size=4),
)


@given(st.lists(LINES, min_size=1, max_size=6))
@example(
    [
        "  a = f32[2] parameter(0)",
        '  b = f32[2]{0} add(a, a), metadata={op_name="x = y"}',
        "  ROOT c = f32[2] add(a, b)",
    ]
)
@example(["  %a = f32[2] parameter(0), x={1} ROOT", "%b = f32[2] add(a, a)"])
def test_lines_of_all_kinds(lines: list[str]) -> None:
    check("\n".join(["HloModule m", "", "ENTRY e {", *lines, "}", ""]))


@given(st.lists(st.sampled_from(TAILS), max_size=6), st.text(max_size=3))
def test_attributes(tails: list[str], more: str) -> None:
    text = "".join(tails) + more
    quick = lexer.read_attributes(text, 0)
    with careful():
        assert lexer.read_attributes(text, 0) == quick
