"""Elements of tuples that stand in place of operands, as newer releases of XLA print them (jaxlib 0.11.2)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import strided as sd
from strided.diagnosis.difference.dumps import diff_dumps
from strided.dumps.hlo import Module, read_hlo
from strided.dumps.hlo.instruction import Instruction
from tests import paths
from tests.hlo_samples import module_text

DATA = paths.DATA / "elements"
NAMES = sorted(path.name.removesuffix(".txt.gz") for path in DATA.glob("*.txt.gz"))


def reads(text: str) -> Module:
    return read_hlo(text.encode())


def value_of(instruction: Instruction) -> Any:
    """What an instruction is, whatever elements of tuples are called."""
    if instruction.opcode == "get-tuple-element":
        return value_of(instruction.operands[0]), instruction.attributes["index"]
    return instruction.name


@pytest.mark.parametrize("name", NAMES)
def test_text_says_what_the_proto_says(name: str) -> None:
    """Recorded on a GPU. A proto has all elements; a text those that are used."""
    text, proto = (read_hlo(DATA / f"{name}.{ending}.gz") for ending in ("txt", "hlo.pb"))
    assert not text.unread
    assert any(one.is_implied for computation in text.computations for one in computation.instructions)
    for found, wanted in zip(text.computations, proto.computations, strict=True):
        known = {value_of(one): one for one in wanted.instructions}
        others = [[one.name for one in c.instructions if one.opcode != "get-tuple-element"] for c in (found, wanted)]
        assert others[0] == others[1]
        for one in found.instructions:
            same = known[value_of(one)]
            assert (one.opcode, str(one.shape), one.is_root) == (same.opcode, str(same.shape), same.is_root)
            assert [value_of(operand) for operand in one.operands] == [value_of(operand) for operand in same.operands]
            assert one.called_computations == () or len(one.called_computations) == len(same.called_computations)


@pytest.mark.parametrize("name", NAMES)
def test_it_prints_as_it_was_read(name: str) -> None:
    with gzip.open(DATA / f"{name}.txt.gz", "rt") as file:
        wanted = [line for line in file.read().split("\n")[1:] if line]
    module = read_hlo(DATA / f"{name}.txt.gz")
    assert [line for line in module.to_text().split("\n")[1:] if line] == wanted
    assert reads(module.to_text()).to_text() == module.to_text()


def test_an_element_is_an_instruction_before_its_first_user() -> None:
    entry = reads(
        module_text(
            "p = (f32[2], (s32[], bf16[3]{0:T(256)})) parameter(0)\n"
            "n = f32[2] negate(%p#0)\n"
            "a = f32[2] add(p#0, %n)\n"
            "c = s32[] copy(%p#1#0)\n"
            "ROOT t = (f32[2], s32[], bf16[3]{0:T(256)}) tuple(a, c, /*index=2*/%p#1#1)"
        )
    ).entry
    names = [one.name for one in entry.instructions]
    assert names == ["p", "p#0", "n", "a", "p#1", "p#1#0", "c", "p#1#1", "t"]
    inner = entry.instruction("p#1#1")
    assert (inner.opcode, str(inner.shape)) == ("get-tuple-element", "bf16[3]{0:T(256)}")
    assert [one.name for one in inner.operands] == ["p#1"]
    assert [one.name for one in entry.instruction("p#0").users] == ["n", "a"]
    assert [one.name for one in entry.instruction("p").users] == ["p#0", "p#1"]
    assert [one.name for one in entry.root.operands] == ["a", "c", "p#1#1"]


def test_shapes_that_the_text_leaves_out_are_inferred() -> None:
    entry = reads(
        "HloModule m\nENTRY e {\n  a = f32[2,3] parameter(0)\n  b = s32[] parameter(1)\n"
        "  t = tuple(a, b)\n  n = negate(t#0)\n  ROOT c = copy(t#1)\n}\n"
    ).entry
    assert str(entry.instruction("t#0").shape) == "f32[2,3]{1,0}"
    assert str(entry.instruction("n").shape) == "f32[2,3]{1,0}"
    assert str(entry.root.shape) == "s32[]"


@pytest.mark.parametrize(
    "operand",
    ["p#2", "p#", "p#x", "q#0", "p#-1", "p#0#0", "p#1.0", "a#0", "p#00", "p#1#7", "p#" + "9" * 5000, "p" + "#0" * 3000],
    ids=lambda operand: operand[:8],
)
def test_what_is_no_element_is_told(operand: str) -> None:
    text = module_text(f"p = (f32[2], f32[2]) parameter(0)\na = f32[2] copy(%p#0)\nROOT n = f32[2] add(%{operand}, %a)")
    with pytest.warns(sd.DumpWarning, match="no instruction"):
        module = reads(text)
    assert [part.reason for part in module.unread] == [f"no instruction {operand[:60]!r}"]
    assert [one.name for one in module.entry.instructions] == ["p", "p#0", "a", "n"]


def test_elements_follow_a_name_that_xla_changes() -> None:
    """Names are unique in a module."""
    body = "  p = (f32[2], s32[]) parameter(0)\n  ROOT r = f32[2] negate(%p#0)\n"
    module = reads(f"HloModule m\n\nf {{\n{body}}}\n\nENTRY e {{\n{body}}}\n")
    for computation in module.computations:
        parameter, element, root = computation.instructions
        assert element.name == f"{parameter.name}#0"
        assert root.operands == (element,)
        assert element.operands == (parameter,)
        assert computation.instruction("p#0") is element
    assert len({one.name for c in module.computations for one in c.instructions}) == 6


def test_elements_of_a_name_with_a_mark_follow_it() -> None:
    """XLA has no such marks in names."""
    entry = reads(module_text("x#0 = ((f32[2])) parameter(0)\nROOT n = f32[2] negate(%x#0#0#0)")).entry
    assert [one.name for one in entry.instructions] == ["x_0", "x_0#0", "x_0#0#0", "n"]
    assert entry.root.operands == (entry.instruction("x_0#0#0"),)
    assert entry.instruction("x_0#0").operands == (entry.instruction("x_0"),)


def test_text_and_proto_do_the_same(tmp_path: Path) -> None:
    """What differs is what elements are called, and that a text leaves out those that nothing takes."""
    for folder, ending in (("a", "txt"), ("b", "hlo.pb")):
        (tmp_path / folder).mkdir()
        with gzip.open(DATA / f"elements_of_tuples.before_optimizations.{ending}.gz") as file:
            (tmp_path / folder / f"module_0001.f.before_optimizations.{ending}").write_bytes(file.read())
    assert diff_dumps(*(sd.open_dump(tmp_path / folder) for folder in ("a", "b"))).modules == {"f": ""}


def test_names_with_such_a_mark_stay_names() -> None:
    entry = reads(module_text("x#0 = f32[2] parameter(0)\nROOT n = f32[2] negate(%x#0)")).entry
    assert [one.is_implied for one in entry.instructions] == [False, False]
    assert entry.root.operands == (entry.instructions[0],)
