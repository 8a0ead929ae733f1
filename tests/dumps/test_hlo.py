"""read_hlo: text and proto of one program agree, and people find in it what they look for."""

from __future__ import annotations

import copy
import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import strided as sd
from strided.dumps.hlo import Alias, Donor, Frame, read_hlo
from tests.hlo_samples import (
    PAIRS,
    ask_everything,
    entry_of,
    facts,
    module_text,
    proto_of,
    proto_path,
    recorded,
    text_of,
    text_path,
)
from tests.thinned import thinned

SMALL = module_text(
    """p = (f32[8,128]{1,0:T(8,128)S(1)}, s32[]) parameter(0)
x = f32[8,128]{1,0:T(8,128)S(1)} get-tuple-element(p), index=0
y = f32[8,128]{0,1:T(8,128)} copy(x)
ROOT t = (f32[8,128]{0,1:T(8,128)}, f32[8,128]{1,0:T(8,128)S(1)}) tuple(y, x), control-predecessors={p}""",
    "HloModule small, is_scheduled=true, input_output_alias={ {0}: (0, {1}, must-alias), {}: (1, {}) }, "
    "buffer_donor={ (2, {}), (3, {1,0}) }, "
    "entry_computation_layout={((f32[8,128]{1,0}, s32[]), /*index=1*/pred[2])->f32[]}, "
    'num_partitions=4, frontend_attributes={a="x,\\"y",b={"c": [1]}}',
)


@pytest.mark.parametrize("name", PAIRS)
def test_text_and_proto_agree_instruction_for_instruction(name: str) -> None:
    text, proto = read_hlo(text_path(name)), read_hlo(proto_path(name))
    metadata = "before" not in name  # that text was printed without metadata
    assert [c.name for c in text.computations] == [c.name for c in proto.computations]
    for ours, theirs in zip(text.computations, proto.computations, strict=True):
        assert [facts(i) for i in ours.instructions] == [facts(i, metadata=metadata) for i in theirs.instructions]
        assert (ours.is_entry, ours.execution_thread) == (theirs.is_entry, theirs.execution_thread)
        assert [p.name for p in ours.parameters] == [p.name for p in theirs.parameters]
    assert (text.name, text.entry.name) == (proto.name, proto.entry.name)
    assert str(text.entry_layout) == str(proto.entry_layout)
    assert (text.is_scheduled, text.aliases, text.donors) == (proto.is_scheduled, proto.aliases, proto.donors)
    if metadata:
        assert text.tables == proto.tables
        assert [i.metadata for i in text.instructions] == [i.metadata for i in proto.instructions]
        assert [i.stack for i in text.instructions] == [i.stack for i in proto.instructions]


@pytest.mark.parametrize("name", [name for name in PAIRS if "before" not in name])
def test_both_print_the_text_of_xla(name: str) -> None:
    wanted = text_of(name).split("\n")
    for module in (read_hlo(text_path(name)), read_hlo(proto_path(name))):
        found = module.to_text().split("\n")
        assert found[1:] == wanted[1:]
    assert read_hlo(text_path(name)).to_text().split("\n")[0] == wanted[0]


@pytest.mark.parametrize("number", range(44))
def test_rare_forms_agree(number: int) -> None:
    text, data = recorded("rare_forms.json.gz")[number]
    ours, theirs = read_hlo(text), read_hlo(data)
    assert ours.to_text().split("\n")[1:] == theirs.to_text().split("\n")[1:] == text.split("\n")[1:]
    assert [facts(i) for i in ours.instructions] == [facts(i) for i in theirs.instructions]


# ---- what a module says ----------------------------------------------------------------------------------------------


def test_the_header() -> None:
    module = read_hlo(SMALL)
    assert (module.name, module.is_scheduled, module.num_partitions, module.replica_count) == ("small", True, 4, 1)
    assert module.aliases == (Alias((0,), 0, (1,), "must-alias"), Alias((), 1, (), "may-alias"))
    assert module.donors == (Donor(2), Donor(3, (1, 0)))
    assert str(module.entry_layout) == "((f32[8,128]{1,0}, s32[]), pred[2]{0})->f32[]"
    assert module.frontend_attributes == {"a": 'x,"y', "b": '{"c": [1]}'}
    assert list(module.attributes) == [
        "is_scheduled", "input_output_alias", "buffer_donor", "entry_computation_layout", "num_partitions",
        "frontend_attributes",
    ]  # fmt: skip


def test_the_entry_layout_without_a_header_is_that_of_parameters_and_root() -> None:
    module = read_hlo(
        "e {\n b = f32[2]{0:T(128)} parameter(1)\n a = s32[] parameter(0)\n ROOT r = f32[2] add(b, b)\n}\n"
    )
    assert str(module.entry_layout) == "(s32[], f32[2]{0:T(128)})->f32[2]{0}"
    assert module.name == "module_e"


@pytest.mark.parametrize(("layout", "words"), [("(f32[x])->f32[]", "entry layout"), ("f32[]", "expected")])
def test_an_entry_layout_that_cannot_be_read_is_told_and_refused_when_asked_for(layout: str, words: str) -> None:
    header = f"HloModule m, entry_computation_layout={{{layout}}}"
    with pytest.warns(sd.DumpWarning, match="line 1: no value of entry_computation_layout"):
        module = read_hlo(module_text("a = f32[] parameter(0)", header))
    with pytest.raises(sd.DumpError, match=words):
        _ = module.entry_layout


def test_a_slip_in_an_entry_layout_is_warned_of() -> None:
    header = "HloModule m, entry_computation_layout={(f32[2]{0:S(200)})->f32[2]{0}}"
    with pytest.warns(sd.NotationWarning, match=r"S\(200\) wraps around to S\(-56\)"):
        assert str(read_hlo(module_text("a = f32[2] parameter(0)", header)).entry_layout).startswith(
            "(f32[2]{0:S(-56)})"
        )


def test_an_instruction_says_all_that_its_line_does() -> None:
    found = entry_of(
        "a = f32[2]{0:S(5)} parameter(0), sharding={devices=[2]<=[2]}, "
        'metadata={op_name="j\\303\\251/\\"x\\"" source_line=3}\n'
        'b = f32[2]{0} custom-call(a), custom_call_target="t", frontend_attributes={k="v"}, backend_config="\\001x"\n'
        'ROOT c = f32[2]{0} fusion(b, a), kind=kLoop, calls=e, backend_config={"q": "}{"}'
    )
    a, b, c = found
    assert (a.parameter_number, a.memory_space, a.sharding) == (0, 5, "{devices=[2]<=[2]}")
    assert a.metadata == {"op_name": 'jé/"x"', "source_line": 3}
    assert (b.frontend_attributes, b.backend_config) == ({"k": "v"}, "\x01x")
    assert (c.backend_config, c.is_root, b.is_root) == ('{"q": "}{"}', True, False)
    assert c.operands == (b, a)
    assert c.called_computations == (c.computation,)
    assert dict(c.attributes) == {"kind": "kLoop", "calls": "e", "backend_config": '{"q": "}{"}'}
    assert str(b) == (
        'b = f32[2]{0} custom-call(a), custom_call_target="t", frontend_attributes={k="v"}, backend_config="\\001x"'
    )
    assert a.value is None


def test_stack_frames_lead_to_the_lines_of_the_program() -> None:
    found = read_hlo(text_path("frames")).entry.root
    assert found.stack == (
        Frame("/x/café.py", "f", 9, 1, 9, 2),
        Frame('a"b.py', "g.<locals>.h", 3, 5, 4, 6),
    )
    assert str(found.stack[0]) == "/x/café.py:9:1 in f"
    (old,) = entry_of('a = f32[] parameter(0), metadata={op_name="n" source_file="f.py" source_line=7}')
    assert old.stack == (Frame("f.py", "n", 7),)
    assert entry_of("a = f32[] parameter(0)")[0].stack == ()


def test_the_line_of_the_metadata_stands_in_for_a_frame_that_the_tables_lack() -> None:
    metadata = 'op_name="n" source_file="f.py" source_line=7 stack_frame_id=3'
    (found,) = entry_of(f"a = f32[] parameter(0), metadata={{{metadata}}}")
    assert found.stack == (Frame("f.py", "n", 7),)


def test_modules_print_as_a_summary() -> None:
    module = read_hlo(SMALL)
    assert str(module).split("\n")[:3] == [
        "HloModule small: 1 computation, 4 instructions, scheduled, 4 partitions",
        "entry e",
        "parameters",
    ]
    assert repr(module) == "<Module small: 1 computation, 4 instructions>"
    assert repr(module.entry) == "<Computation e: 4 instructions>"
    assert repr(module.instruction("y")) == "<Instruction y: f32[8,128]{0,1:T(8,128)} copy>"
    assert str(read_hlo(text_path("every_opcode"))).endswith("more")


# ---- questions -------------------------------------------------------------------------------------------------------


def test_find_by_name_opcode_shape_and_memory_space() -> None:
    module = read_hlo(SMALL)

    def names(*args: object, **kwargs: object) -> list[str]:
        return [i.name for i in module.find(*args, **kwargs)]  # type: ignore[arg-type]

    assert names() == ["p", "x", "y", "t"]
    assert names("x") == names("%x") == ["x"]
    assert names("[xy]") == ["x", "y"]
    assert names("nothing") == []
    assert names(opcode="copy") == ["y"]
    assert names(opcode="*t*") == ["p", "x", "t"]
    assert names("*", opcode="copy") == ["y"]
    assert names(shape="f32[8,128]") == ["x", "y"]
    assert names(shape="f32[8,128]{0,1:T(8,128)}") == ["y"]
    assert names(shape=sd.parse("f32[8,128]{0,1:T(8,128)}")) == ["y"]
    assert names(shape="(f32[8,128], s32[])") == ["p"]
    assert names(memory_space=1) == ["p", "x", "t"]
    assert names(shape="f32[8,128]", memory_space=0) == ["y"]
    with pytest.raises(sd.NotationError, match="expected a dimension size, found the end"):
        module.find(shape="f32[8,")


def test_one_by_name() -> None:
    module = read_hlo(SMALL)
    assert module.instruction("%x") is module.entry.instruction("x")
    assert module.computation("%e") is module.entry
    for ask in (module.instruction, module.computation, module.entry.instruction):
        with pytest.raises(sd.DumpError, match=r"no (instruction|computation) 'nobody'"):
            ask("nobody")


def test_names_that_occur_in_several_computations_are_numbered_as_xla_numbers_them() -> None:
    module = read_hlo(text_path("control_flow_cond_switch_while.fingerprint"))
    assert module.instruction("tmp_0").computation is module.computations[0]
    found = module.entry.instruction("tmp_0")
    assert found.name.startswith("tmp_0.")
    assert module.instruction(found.name) is found
    assert len({i.name for i in module.instructions}) == len(module.instructions)


def test_parameters_results_and_users() -> None:
    module = read_hlo(SMALL)
    assert [i.name for i in module.parameters] == ["p"]
    assert [i.name for i in module.results] == ["y", "x"]
    assert [i.name for i in module.instruction("x").users] == ["y", "t"]
    assert module.entry.root.users == ()
    assert [i.name for i in module.entry.root.control_predecessors] == ["p"]
    assert module.entry.root.memory_space is None
    (only,) = entry_of("a = f32[] parameter(0)")
    assert only.computation.module.results == (only,)


def test_an_operand_that_nobody_defines_is_refused_by_name() -> None:
    with pytest.warns(sd.DumpWarning, match="line 4: no instruction 'gone'"):
        (a,) = entry_of("a = f32[] negate(%gone)")
    assert a.operand_names == ("gone",)
    with pytest.raises(sd.DumpError, match="no instruction 'gone'"):
        _ = a.operands


# ---- where modules come from -----------------------------------------------------------------------------------------


def test_anything_that_holds_a_module_is_opened(tmp_path: Path) -> None:
    text, data = text_of("donated_aliases"), proto_of("donated_aliases")
    plain, packed = tmp_path / "m.txt", tmp_path / "m.hlo.pb.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(data))
    names = [i.name for i in read_hlo(text).instructions]
    for source in (
        plain,
        str(plain),
        packed,
        text.encode(),
        bytearray(data),
        memoryview(data),
        gzip.compress(text.encode()),
    ):
        assert [i.name for i in read_hlo(source).instructions] == names
    assert read_hlo(plain).path == str(plain)
    assert read_hlo(text).path is None
    assert sd.read_hlo is read_hlo


def test_text_on_one_line_is_no_path() -> None:
    assert read_hlo("HloModule m ENTRY e { ROOT a = f32[] parameter(0) }").entry.name == "e"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a {\nb}"
    path.write_text(SMALL)
    assert read_hlo(str(path)).path == str(path)
    assert sd.memory_report(str(path)).module == "small"
    allocations = "BufferAssignment:\nallocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}:\n"
    path.write_text(f"{allocations} value: <3 p0 @0> (size=8,offset=0): f32[2]{{0}}\n")
    assert sd.read_allocations(str(path)).path == str(path)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        read_hlo(tmp_path / "nothing.txt")
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        read_hlo("nothing.txt")


GARBAGE = ("", " \n", "\0", b"", b"\x00", b"\x0a\x02ab", b"\xff\xfe\xfd", b"plain words", b"\x1f\x8bno")


@pytest.mark.parametrize("source", GARBAGE, ids=repr)
def test_garbage_ends_in_a_dump_error(source: str | bytes) -> None:
    with pytest.raises(sd.DumpError, match=r"^(line 1, column \d: no HLO|byte \d: .*HloModuleProto)"):
        read_hlo(source)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("words", encoding="utf-8")
    with pytest.raises(sd.DumpError, match=r"m\.txt, line 1, column 1: no HLO computation"):
        read_hlo(path)
    path.write_bytes(b"\x0a\x01\x00\x12")
    with pytest.raises(sd.DumpError, match=r"m\.txt, byte "):
        read_hlo(path)


@pytest.mark.parametrize("path_of", [text_path, proto_path])
@pytest.mark.parametrize("asked", thinned([True, False], 2))
@pytest.mark.parametrize("again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_modules_and_their_parts_can_be_pickled(path_of, asked: bool, again) -> None:
    for name in PAIRS:
        module = read_hlo(path_of(name))
        if asked:  # what is kept of the answers is left out
            ask_everything(module)
        copied = again(module)
        assert copied is not module
        assert (copied.to_text(), copied.path) == (module.to_text(), module.path)
        assert [facts(i) for i in copied.entry.instructions] == [facts(i) for i in module.entry.instructions]
        root, computation = again(module.entry.root), again(module.computations[0])
        assert root.computation.module is not module
        assert facts(root) == facts(module.entry.root)
        assert str(computation) == str(module.computations[0])


@pytest.mark.slow
def test_a_long_chain_of_instructions_can_be_pickled() -> None:
    chain = "\n".join(f"p.{n} = f32[2] negate(p.{n - 1})" for n in range(1, 3000))
    module = read_hlo(module_text(f"p.0 = f32[2] parameter(0)\n{chain}\nROOT r = f32[2] abs(p.2999)"))
    ask_everything(module)
    assert pickle.loads(pickle.dumps(module)).to_text() == module.to_text()


def test_reading_hlo_loads_no_compiler() -> None:
    code = "import sys, strided; strided.read_hlo('e { a = f32[] parameter(0) }'); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
