"""A whole dump folder: programs, runs, arrays by name, and what is missing."""

from __future__ import annotations

import dataclasses
import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference import diff_dumps
from strided.dumps.directory.dump import Dump, open_dump
from strided.dumps.directory.names import KINDS, parse_name
from strided.dumps.literals.writer import write_literal
from strided.dumps.protobuf.wire import bytes_field, fields
from strided.errors import DumpError
from tests import paths
from tests.protos import serialized

LOOP, SPMD, INT4 = "jit_prog_while_loop", "jit_prog_spmd_4cpu", "jit_prog_int4_uint4"


@pytest.fixture
def folder(tmp_path) -> Path:
    return paths.unpack_dump(tmp_path)


@pytest.fixture
def dump(folder) -> Dump:
    return open_dump(folder)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_devices_are_counted_in_the_header_however_lines_end(tmp_path: Path, end: str) -> None:
    lines = [
        'HloModule m, replica_count=2, num_partitions=3, frontend_attributes={x="a\rb"} // the header',
        "ENTRY e {",
        '  ROOT p = f32[2]{0} parameter(0), metadata={op_name="num_partitions=8"}',
        "}",
    ]
    (tmp_path / "module_0001.m.cpu_after_optimizations.txt").write_bytes(end.join(lines).encode())
    [program] = open_dump(tmp_path).programs
    assert program.num_devices == 6


def test_a_proto_is_one_whatever_its_module_is_called(tmp_path: Path) -> None:
    one = {"name": "p", "opcode": "parameter", "id": 1, "shape": {"element_type": 11}}
    computation = {"name": "e", "id": 1, "root_id": 1, "instructions": [one]}
    devices = {"replica_count": 2, "computation_count": 3}
    proto = serialized("HloModuleProto", name="a.txt", computations=[computation], device_assignment=devices)
    (tmp_path / "module_0001.a.txt.cpu_after_optimizations.hlo.pb").write_bytes(proto)
    [program] = open_dump(tmp_path).programs
    assert (program.name, program.num_devices) == ("a.txt", 6)


# ---- names ----


LAST = "after_optimizations"


@pytest.mark.parametrize(
    ("name", "kind", "module", "number", "stage"),
    [
        (f"module_0000.jit_f.cl_1003875606.{LAST}.txt", "module", "jit_f", 0, LAST),
        (f"module_0004.jit_f.cpu_{LAST}.hlo.pb.gz", "module", "jit_f", 4, f"cpu_{LAST}"),
        (f"17.module_0001.jit_f.sm_8.0_gpu_{LAST}.txt", "module", "jit_f", 1, f"sm_8.0_gpu_{LAST}"),
        ("module_0001.before_optimizations.txt", "module", "", 1, "before_optimizations"),
        ("module_0003.a.b.0012.pipeline.after_x.before_y.txt", "module", "a.b", 3, "0012.pipeline.after_x.before_y"),
        ("module_0001.S.12.before_optimizations.txt", "module", "S.12", 1, "before_optimizations"),
        ("module_0001.S.6698.before_optimizations.txt", "module", "S.6698", 1, "before_optimizations"),
        (f"module_0001.S.6698.cpu_{LAST}.hlo.txt", "module", "S.6698", 1, f"cpu_{LAST}"),
        (f"module_0001.S.6698.sm_8.0_gpu_{LAST}.txt", "module", "S.6698", 1, f"sm_8.0_gpu_{LAST}"),
        (f"module_0001.S.6698.sm_9.0a_gpu_{LAST}.txt", "module", "S.6698", 1, f"sm_9.0a_gpu_{LAST}"),
        (f"module_16544.jit_f.sm_10.0f_gpu_{LAST}.hlo.pb", "module", "jit_f", 16544, f"sm_10.0f_gpu_{LAST}"),
        (f"module_0001.S.6698.sm_8.0_gpu_{LAST}-live-range.txt", "live ranges", "S.6698", 1, f"sm_8.0_gpu_{LAST}"),
        ("module_0001.S.6698.0012.p.after_x.before_y.txt", "module", "S.6698", 1, "0012.p.after_x.before_y"),
        ("module_0001.S.6698.snapshot.7.pb", "snapshot", "S.6698", 1, ""),
        (f"module_0000.f.cpu_{LAST}-buffer-assignment.txt", "allocations", "f", 0, f"cpu_{LAST}"),
        (f"module_0000.f.{LAST}-buffer-assignment-values.txt", "used values", "f", 0, LAST),
        (f"module_0000.f.{LAST}-memory-usage-report.pb", "memory report", "f", 0, LAST),
        (f"module_0000.f.{LAST}-live-range.txt", "live ranges", "f", 0, LAST),
        ("module_0000.f.snapshot.-12.pb", "snapshot", "f", 0, ""),
        ("module_f.execution_0003.hlo_snapshot.pb", "snapshot", "f", None, ""),
        ("module_0000.f.execution_0003.hlo_unoptimized_snapshot.txt", "snapshot", "f", 0, ""),
        ("module_0000.f.debug_options", "other", "f", 0, ""),
        ("program.hlo.txt", "module", "program", None, ""),
        ("program.before_optimizations.hlo.pb", "module", "program", None, "before_optimizations"),
        ("program.buffer-assignment.txt.gz", "allocations", "program", None, ""),
    ],
)
def test_names_of_files(name, kind, module, number, stage):
    found = parse_name(name)
    assert (found.kind, found.module, found.number, found.stage) == (kind, module, number, stage)


def test_runs_and_time_stamps():
    found = parse_name("1700000000.module_0001.f.execution_0007.hlo_unoptimized_snapshot.pb")
    assert (found.time, found.run, found.is_unoptimized) == ("1700000000", "0007", True)
    assert parse_name("module_0000.f.snapshot.-12.pb").run == "-12"


@pytest.mark.parametrize("name", ["notes.txt", "x.json", "module", "", "moduleXY.txt", "a" * 5000])
def test_names_that_say_nothing(name):
    assert parse_name(name) is None


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["module_", "0001", ".", "f", "after_optimizations", ".txt"])).map("".join)
)
def test_any_name_is_read_or_not(name):
    found = parse_name(name)
    assert found is None or found.kind in KINDS


# ---- a folder ----


@pytest.mark.parametrize("name", ["SyncTensorsGraph.12", "SyncTensorsGraph.6698"])
def test_a_program_whose_name_has_a_dot_is_one(tmp_path, name):
    for number in (1, 2):
        for end in ("before_optimizations.txt", f"cpu_{LAST}.txt", "thunk_sequence.txt", "ir-with-opt.ll", "x.y.o"):
            (tmp_path / f"module_{number:04}.{name}.{end}").touch()
    (tmp_path / "module_0001.SyncTensorsGraph.before_optimizations.txt").touch()
    (tmp_path / f"module_0002.{name}").mkdir()
    found = {program.label: len(program.files) for program in open_dump(tmp_path).programs}
    assert found == {"SyncTensorsGraph#1": 1, f"{name}#1": 5, f"{name}#2": 6}


def test_files_that_are_no_program_join_the_one_of_their_name_and_number(tmp_path):
    for number, name in ((1, "jit_f.2"), (2, "jit___")):
        (tmp_path / f"17.module_{number:04}.{name}.before_optimizations.txt").touch()
    for name in ("module_0001.jit_f.2.debug_options", "main.1.module_0001.jit_f.2._fusion.html"):
        (tmp_path / name).touch()
    (tmp_path / "module_0002.jit_\u03c3").mkdir()  # JAX keeps what XLA writes as an underscore for each byte
    (tmp_path / "module_0003.jit_g").mkdir()
    found = {program.label: len(program.files) for program in open_dump(tmp_path).programs}
    assert found == {"17.jit_f.2#1": 3, "17.jit___#2": 2, "jit_g#3": 1}


def test_programs_are_found(dump):
    assert sorted(program.name for program in dump.programs) == [INT4, SPMD, LOOP]
    loop = dump.program(LOOP)
    assert loop.label == f"{LOOP}#0"
    assert loop.module.name == LOOP
    assert {file.kind for file in loop.files} == {"module", "snapshot", "allocations", "memory report"}
    assert set(loop.stages) == {"before_optimizations", "cpu_after_optimizations"}
    assert loop.allocations.value("while.0{0}").shape is not None
    assert loop.num_devices == 1
    with pytest.raises(DumpError, match="no program is named 'nobody'"):
        dump.program("nobody")
    with pytest.raises(DumpError, match="several programs are named 0"):
        dump.program(0)


def test_arrays_by_name(dump):
    assert f"{LOOP}/run0/result1" in dump
    value = dump[f"{LOOP}/run0/result1"]
    assert isinstance(value, LayoutArray)
    assert value.shape == (6, 6)
    # The run's two snapshots hold the same arguments.
    for k in (0, 1):
        one, other = dump[f"{LOOP}/run0/argument{k}"], dump[f"{LOOP}/run1/argument{k}"]
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert dump["run0/result0"].shape == ()
    assert dump[f"{INT4}/argument0"].xla_shape.element_type == "s4"
    assert dump[f"{INT4}#0/argument0"].xla_shape.element_type == "s4"
    places = f"{INT4}/argument0, {LOOP}/run0/argument0, {LOOP}/run1/argument0"
    with pytest.raises(KeyError, match=f"several arrays are named 'argument0': {places}"):
        dump["argument0"]
    with pytest.raises(KeyError, match="no array is named 'nothing'"):
        dump["nothing"]
    assert len(dump) == len(list(dump)) == len(set(dump))


def test_pickles_hold_paths(folder, monkeypatch):
    monkeypatch.chdir(folder)
    dump = open_dump(".", mapped=False)
    names, texts = list(dump), list(map(str, dump.programs))  # the snapshots are open
    pickled = pickle.dumps([dump, *dump.programs])
    monkeypatch.chdir("/")  # another process may stand elsewhere
    again, *programs = pickle.loads(pickled)
    assert (list(again), again.path) == (names, folder)
    for name in names:
        assert np.array_equal(np.asarray(again[name]), np.asarray(open_dump(folder)[name]))
    assert list(map(str, programs)) == list(map(str, again.programs)) == texts
    assert not any(program._mapped for program in (*programs, *again.programs))


def test_the_arrays_of_a_run_can_be_pickled(dump):
    for program in dump.programs:
        again = pickle.loads(pickle.dumps(program.arrays))
        assert list(again) == list(program.arrays)
        for name, array in again.items():
            assert np.array_equal(np.asarray(array), np.asarray(program.arrays[name]))


def test_only_text_names_an_array(dump):
    assert dump.get(0) is None
    for name in (0, None, Path("result1")):
        assert name not in dump
        with pytest.raises(KeyError, match="arrays are found by name, not"):
            dump[name]


def test_arguments_go_by_their_parameters_names(dump):
    snapshot = dump.program(LOOP).snapshots[0]
    name = snapshot.arguments.names[0]
    np.testing.assert_array_equal(np.asarray(dump[f"{LOOP}/run0/{name}"]), np.asarray(snapshot.arguments[0]))


def test_what_is_missing_is_said_with_the_reason(dump):
    missing = {label: dict(found) for label, found in dump.missing.items()}
    assert LOOP not in missing
    assert "for 4 devices" in missing[SPMD]["a snapshot with results"]
    assert set(missing[INT4]) == {"the buffer assignment"}
    assert dump.program(INT4).module.name == INT4, "out of the snapshot"


def test_a_name_of_a_program_without_it_is_answered_with_its_own_arrays_and_what_is_missing(dump):
    def said(name: str) -> str:
        assert name not in dump
        with pytest.raises(KeyError) as caught:
            dump[name]
        return str(caught.value.args[0])

    missing = f"{SPMD} has no arrays; missing: a snapshot with results (the program is for 4 devices, "
    assert said(f"{SPMD}/argument0").startswith(f"no array is named '{SPMD}/argument0'; {missing}")
    assert said(SPMD).startswith(f"no array is named {SPMD!r}; {missing}")
    assert said(f"{INT4}/argumnt0").endswith(f"; did you mean {INT4}/argument0?")
    assert said(f"{INT4}#0/argumnt0").endswith(f"; did you mean {INT4}/argument0?")
    assert said("jit_prog_int4_uint/argument0").endswith(f"; did you mean {INT4}/argument0?")
    assert said(LOOP + "/run0/x").endswith(f"; there are {', '.join(each for each in dump if LOOP in each)}")


def test_a_result_that_a_run_has_not_is_answered_with_the_reason(folder):
    (path,) = folder.glob(f"*{INT4}.snapshot*")
    message = fields(memoryview(path.read_bytes()), "HloSnapshot")
    path.write_bytes(b"".join(bytes_field(one.number, one.value) for one in message if one.number < 3))
    with pytest.raises(KeyError, match=f"{INT4}/argument3; missing: results .the file holds no result"):
        open_dump(folder)[f"{INT4}/result0"]


def test_a_crashed_run_says_so(folder):
    (path,) = folder.glob(f"*{INT4}.snapshot*")
    data = path.read_bytes()
    (result,) = [one for one in fields(memoryview(data), "HloSnapshot") if one.number == 3]
    empty = bytes([0x0A, 2, 0x10, 13])  # a LiteralProto of the shape ()
    head = data[: result.at - (3 if len(result.value) > 127 else 2)]
    path.write_bytes(head + bytes([0x1A, len(empty)]) + empty)
    (found,) = [why for what, why in open_dump(folder).program(INT4).missing if what == "results"]
    assert "the run did not finish" in found


def test_a_broken_file_does_not_hide_the_others(folder):
    (path,) = folder.glob(f"*{INT4}.snapshot*")
    path.write_bytes(b"\x0a\xff\xff\x7f")
    dump = open_dump(folder)
    assert "no snapshot, or a damaged one" in dump.program(INT4).problems[0]
    assert "broken: module_0000.jit_prog_int4" in str(dump)
    assert f"{LOOP}/run0/result0" in dump


def test_results_that_cannot_be_read_are_told_of_without_assertions_too(tmp_path: Path) -> None:
    broken = bytes_field(2, write_literal(np.int8([1, 2]))) + bytes_field(3, b"\x0a\x05")
    (tmp_path / "module_0001.f.snapshot.1.pb").write_bytes(broken)
    code = "import sys, strided; [program] = strided.open_dump(sys.argv[1]).programs; print(*program.problems)"
    run = subprocess.run([sys.executable, "-O", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("module_0001.f.snapshot.1.pb: the result: ")


def test_files_that_cannot_be_expanded_do_not_hide_the_others(folder):
    for path in (*folder.glob(f"*{INT4}.snapshot*"), *folder.glob(f"*{SPMD}.*optimizations.hlo.pb")):
        path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(30))  # Zstandard, which needs a package, and broken
    for path in folder.glob(f"*{SPMD}.*.txt"):
        path.unlink()
    (folder / "other.bin").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(30))
    dump = open_dump(folder)
    assert f"{LOOP}/run0/result0" in dump
    assert "broken: module_0000.jit_prog_int4" in str(dump)
    assert dump.program(SPMD).num_devices is None
    found = diff_dumps(dump, dump)
    assert found.modules[SPMD].startswith("cannot be compared: that of a cannot be read: ")
    assert found.values
    assert all(value.equal for value in found.values)


def test_a_printed_dump_names_what_there_is(dump, folder):
    (folder / "notes.json").write_text("{}", encoding="utf-8")
    (folder / "raw.bin").write_bytes(bytes(range(256)))
    (folder / "module_0000.jit_prog_while_loop").mkdir()
    shown = str(open_dump(folder))
    assert f"{folder}: 3 programs, 18 files, 15 arrays" in shown
    assert f"{LOOP}#0: 4 modules, 2 snapshots, 1 buffer assignment, 1 memory report, 1 folder" in shown
    assert "  run0/argument0: f32[6,6]{1,0}" in shown
    assert "  raw.bin: binary, 256 bytes" in shown
    assert f"<Program {LOOP}#0: 8 files>" in repr(dump.programs)


def test_modules_without_a_name_or_number_join_their_program(tmp_path):
    for number, name in ((1, "f.before_optimizations"), (2, "cpu_after_optimizations")):
        text = f"HloModule f\n\nENTRY e {{\n  ROOT c = f32[] constant({number})\n}}\n"
        (tmp_path / f"module_0007.{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "module_f.execution_0000.hlo_snapshot.pb").write_bytes(b"")
    (program,) = open_dump(tmp_path).programs
    assert (program.name, program.number, len(program.files)) == ("f", 7, 3)
    assert program.module.entry.root.literal == "2"
    assert program.module_before.entry.root.literal == "1"


def test_compressed_modules(folder):
    for path in folder.glob(f"*{SPMD}.cpu_after_optimizations.*"):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    program = open_dump(folder).program(SPMD)
    assert program.module.num_partitions * program.module.replica_count in (1, 4)
    assert program.num_devices == 4


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        open_dump(tmp_path / "nowhere")
    empty = open_dump(tmp_path)
    assert (len(empty), empty.programs, empty.missing) == (0, (), {})
    assert "0 programs, 0 files, 0 arrays" in str(empty)


def test_a_folder_is_named_as_files_are(folder):
    names = list(open_dump(folder))
    assert names
    for path in (str(folder), os.fsencode(folder)):
        assert list(open_dump(path)) == names


def test_a_relative_folder_survives_a_change_of_directory(folder, monkeypatch):
    """Files are read on demand, wherever the process stands then; a pickle made there holds whole paths, too."""
    monkeypatch.chdir(folder.parent)
    dump = open_dump(folder.name)
    monkeypatch.chdir("/")
    assert list(dump) == list(open_dump(folder))
    for program, other in zip(dump.programs, open_dump(folder).programs, strict=True):
        assert program.anew().num_devices == other.num_devices
        assert (program.module is None) == (other.module is None)
        assert (program.module_before is None) == (other.module_before is None)
        assert (program.allocations is None) == (other.allocations is None)
        assert len(program.snapshots) == len(other.snapshots)
        for file in program.files:
            assert file.kind in ("folder", "other") or file.place.samefile(folder / file.path.name)
    assert list(pickle.loads(pickle.dumps(dump))) == list(dump)
    fresh = pickle.loads(pickle.dumps(dump.programs[0].anew()))
    assert list(fresh.arrays) == list(dump.programs[0].arrays)


def test_a_file_of_a_dump_is_read_where_its_path_says(folder, tmp_path, monkeypatch):
    """Also one that was made from another, or comes out of a pickle elsewhere."""
    monkeypatch.chdir(folder.parent)
    dump = open_dump(folder.name)
    file = next(file for program in dump.programs for file in program.files if file.kind == "module")
    monkeypatch.chdir(tmp_path)
    for copied in (pickle.loads(pickle.dumps(file)), dataclasses.replace(file, path=folder / file.path.name)):
        assert copied.place.samefile(folder / file.path.name)
        assert copied.read().name == file.read().name
    other = tmp_path / "other.hlo"
    other.write_text("HloModule other\n\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n")
    assert dataclasses.replace(file, path=other).read().name == "other"


def test_mappings_of_arrays_are_equal_to_themselves_alone(dump: Dump, folder: Path) -> None:
    arrays = dump.program(LOOP).arrays
    for one, other in ((dump, open_dump(folder)), (arrays, open_dump(folder).program(LOOP).arrays)):
        assert [one, other].index(one) == 0
        assert [one, other].index(other) == 1
        assert one not in ({}, 5)
        assert len({one, other}) == 2


def test_the_arrays_of_runs_are_named_in_a_repr(dump: Dump) -> None:
    arrays = dump.program(LOOP).arrays
    assert repr(arrays).startswith(f"<RunArrays: {len(arrays)} arrays: {next(iter(arrays))}, ")


def test_an_empty_name_is_no_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder)
    for name in ("", b""):
        with pytest.raises(FileNotFoundError):
            open_dump(name)  # type: ignore[arg-type]
    assert len(open_dump(".").programs) == 3
