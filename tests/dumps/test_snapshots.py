"""Snapshots as XLA wrote them, in all their forms; written ones; damaged ones."""

from __future__ import annotations

import copy
import gc
import gzip
import io
import json
import mmap
import os
import pickle
import re
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.dumps.detect import recognise
from strided.dumps.literals.writer import write_literal
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.shapes import write_shape
from strided.dumps.snapshots import format as snapshot_forms
from strided.dumps.snapshots.snapshot import Snapshot, read_snapshot
from strided.dumps.snapshots.writer import write_snapshot
from strided.errors import DumpError, UnsupportedError
from strided.layout.element_types import element_type
from tests import paths, protos
from tests.strategies import damaged
from tests.thinned import examples, thinned

DATA = paths.DATA / "snapshots"
KINDS = sorted(path for path in (DATA / "kinds").iterdir() if path.suffix != ".npz")
TYPES = json.loads((DATA / "types/expected.json").read_text(encoding="utf-8"))
PROGRAMS = sorted((DATA / "programs").rglob("*.pb"))


def same_bits(value, raw: np.ndarray) -> bool:
    """Whether an array holds these bytes, one byte an element below eight bits."""
    element = element_type(value.element_type)
    found = np.ascontiguousarray(np.asarray(value)).reshape(-1).view(np.uint8)
    mask = (1 << element.bits) - 1 if element.packs and element.name != "pred" else 0xFF
    return np.array_equal(found & mask, raw & mask)


# ---- what XLA wrote ----


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
def test_every_type_in_every_form(path):
    truth, snapshot = np.load(DATA / "kinds/values.npz"), read_snapshot(path)
    assert snapshot.module_name == "jit_kinds"
    assert len(snapshot.arguments) == 28
    assert all(same_bits(value, truth[f"arg{i}"]) for i, value in enumerate(snapshot.arguments))
    if snapshot.form == "HloSnapshot":
        assert snapshot.results_missing is None
        assert len(snapshot.results) == 28
        assert all(same_bits(value, truth[f"result{i}"]) for i, value in enumerate(snapshot.results))
    else:
        assert snapshot.results_missing == "an unoptimized snapshot is written before the run and never holds results"
        assert len(snapshot.results) == 0
        assert snapshot.result is None


def test_the_form_is_recognised_and_can_be_named():
    forms = {path.stem: read_snapshot(path).form for path in KINDS}
    assert forms == {
        "hlo_snapshot": "HloSnapshot",
        "unoptimized_delimited": "delimited HloUnoptimizedSnapshot",
        "unoptimized_message": "HloUnoptimizedSnapshot",
        "unoptimized_text.txt": "HloUnoptimizedSnapshot text",
    }
    for path in KINDS:
        assert len(read_snapshot(path, form=forms[path.stem]).arguments) == 28
    with pytest.raises(DumpError, match="expected a field of HloUnoptimizedSnapshot"):
        read_snapshot(KINDS[0], form="delimited HloUnoptimizedSnapshot")
    with pytest.raises(ValueError, match="form must be one of 'HloSnapshot'"):
        read_snapshot(KINDS[0], form="nonsense")


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case["file"].split(".")[1])
def test_values_of_every_type(case):
    snapshot = read_snapshot(DATA / "types" / case["file"])
    assert snapshot.module_name == case["module"]
    results = case["result"]["tuple"] if "tuple" in case["result"] else [case["result"]]
    for values, expected in ((snapshot.arguments, case["arguments"]), (snapshot.results, results)):
        assert len(values) == len(expected)
        for value, want in zip(values, expected, strict=True):
            shape = value.xla_shape
            assert (shape.element_type, list(shape.dimensions)) == (want["type"], want["dimensions"])
            assert list(shape.layout.minor_to_major) == want["minor_to_major"]
            is_complex = want["type"] in ("c64", "c128")
            found = np.asarray(value).astype(complex if is_complex else float).reshape(-1)
            listed = want["logical_values"] if want["dimensions"] else [want["logical_values"]]
            flat = listed if is_complex else np.array(listed, object).reshape(-1)
            numbers = [complex(*v) if isinstance(v, list) else float(v) for v in flat]
            np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name + path.suffixes[-2])
def test_programs_against_their_arrays(path):
    stored = sorted(path.parent.glob("*.npz"))
    snapshot = read_snapshot(path)
    if not stored:
        assert path.parent.name == "tuple_results_donated"
        return
    truth = np.load(stored[0])
    for kind, values in (("arg", snapshot.arguments), ("result", snapshot.results)):
        for i, value in enumerate(values):
            assert value.shape == truth[f"{kind}{i}"].shape
            assert np.ascontiguousarray(np.asarray(value)).tobytes() == truth[f"{kind}{i}"].tobytes()


def test_layouts_are_those_of_the_run():
    snapshot = read_snapshot(next((DATA / "programs/col_major_2d").glob("*.snapshot.*")))
    assert any(not shape.layout.is_descending for shape in snapshot.arguments.shapes)


def test_values_have_the_names_of_the_module():
    snapshot = read_snapshot(next((DATA / "programs/scalars_and_zero_size").glob("*.snapshot.*")))
    assert snapshot.arguments.names == tuple(f"{name}.1" for name in "abcdezyo")
    assert len(snapshot.results.names) == len(snapshot.results)
    assert snapshot.arguments["b.1"] is snapshot.arguments[1]
    assert snapshot.results[snapshot.results.names[-1]] is snapshot.results[-1]
    assert dict(snapshot.arguments.items())["z.1"].shape == snapshot.arguments["z.1"].shape
    assert snapshot.module.name == snapshot.module_name
    with pytest.raises(KeyError, match=r"no argument has the name 'x'; there are a.1, b.1"):
        snapshot.arguments["x"]


def test_a_run_without_a_result_says_so():
    donated = read_snapshot(next((DATA / "programs/tuple_results_donated").glob("*.snapshot.*")))
    assert len(donated.arguments) == 3
    assert len(donated.results) == 0
    assert donated.result is None
    assert "donated" in donated.results_missing
    assert "donated" in repr(donated)
    file = io.BytesIO()
    write_snapshot(file, [np.float32([1])])
    crashed = read_snapshot(file.getvalue())
    assert (len(crashed.results), crashed.result) == (0, None)
    assert crashed.results_missing.startswith("the run did not finish")
    without = read_snapshot(protos.serialized("HloSnapshot", arguments=[literal(np.float32([1]))]))
    assert without.results_missing == "the file holds no result"


def test_a_snapshot_that_ends_between_two_arguments_says_how_many_there_are():
    whole = next((DATA / "programs/col_major_2d").glob("*.snapshot.*")).read_bytes()
    ends = [found.at + len(found.value) for found in wire.fields(memoryview(whole), "HloSnapshot")]
    assert len(ends) == 9  # the module, seven arguments, the result
    for count, end in enumerate(ends[:7]):
        rest = read_snapshot(whole[:end])
        assert len(rest.arguments) == count
        assert rest.results_missing == f"the file holds no result, and {count} of 7 arguments: was it cut off?"
    assert read_snapshot(whole[: ends[7]]).results_missing == "the file holds no result"


def test_what_is_behind_the_end_of_a_snapshot_has_no_bytes():
    whole = next((DATA / "programs/tuple_results_donated").glob("*hlo_unoptimized_snapshot*")).read_bytes()
    rest = read_snapshot(whole[:2585])
    for number in range(3):
        with pytest.raises(sd.DumpError, match=r"should be \d+ bytes long, \d+ bytes remained"):
            rest.arguments.shape(number)


def test_a_program_that_returns_nothing_has_no_missing_result():
    module = protos.serialized("HloModuleProto", name="m", host_program_shape={"result": {"element_type": 13}})
    file = io.BytesIO()
    write_snapshot(file, [], (), module=module)
    snapshot = read_snapshot(file.getvalue())
    assert (snapshot.results_missing, snapshot.result, len(snapshot.results)) == (None, (), 0)


def test_values_are_a_sequence():
    values = read_snapshot(KINDS[0]).arguments
    assert values[-1] is values[27]
    assert [v.xla_shape for v in values[2:5]] == list(values.shapes[2:5])
    assert repr(values).startswith("<arguments {0: pred[4,5]{1,0}, 1: s2[4,5]{1,0}, ")
    for number in (28, -29):
        for ask in (values.__getitem__, values.shape):
            with pytest.raises(IndexError, match=f"there is no argument {number}: there are 28"):
                ask(number)


# ---- opening ----


def test_a_large_file_is_mapped_and_hardly_read(tmp_path: Path):
    path = tmp_path / "large.pb"
    size = 1 << 28  # sparse: the disk holds next to nothing of it
    head = wire.bytes_field(1, write_shape(sd.parse(f"f32[{size // 4}]{{0}}"))) + wire.bytes_head(8, size)
    with path.open("wb") as file:
        file.write(wire.bytes_head(2, len(head) + size) + head)
        file.seek(size - 4, 1)
        file.write(np.float32(7).tobytes())
        file.write(wire.bytes_field(3, write_literal(np.int8(1))))
    tracemalloc.start()
    snapshot = read_snapshot(path)
    value = snapshot.arguments[0]
    assert value.shape == (size // 4,)
    assert value[-1] == 7
    assert np.asarray(snapshot.result) == 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    base = value.buffer
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap.mmap)


def test_gzip_and_bytes():
    data = KINDS[0].read_bytes()
    for origin in (data, bytearray(data), memoryview(data), gzip.compress(data), np.frombuffer(data, np.uint8)):
        assert len(read_snapshot(origin).arguments) == 28


@pytest.mark.parametrize("mapped", [True, False])
def test_a_pickle_holds_the_path(mapped: bool, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sd.write_snapshot("a.pb", [np.zeros(1000, np.int8), np.int8(2)], np.int8(3))
    snapshot = sd.read_snapshot("a.pb", mapped=mapped)
    assert len(snapshot.arguments) == 2
    pickled = pickle.dumps(snapshot)
    assert len(pickled) < 500 + len(str(tmp_path))
    monkeypatch.chdir("/")  # another process may stand elsewhere
    again = pickle.loads(pickled)
    assert (again.path, again.form, int(again.results[0])) == (str(tmp_path / "a.pb"), snapshot.form, 3)
    assert pickle.dumps(snapshot) == pickled  # or this one, when it pickles
    assert isinstance(again._view, memoryview) is mapped
    os.remove(tmp_path / "a.pb")
    with pytest.raises(FileNotFoundError, match=r"a\.pb"):
        pickle.loads(pickled)


@pytest.mark.parametrize("form", [None, "HloSnapshot"])
def test_a_pickle_of_bytes_holds_them(form: str | None):
    file = io.BytesIO()
    sd.write_snapshot(file, [np.int8([1, 2])], np.int8(3))
    snapshot = sd.read_snapshot(gzip.compress(file.getvalue()), form=form)
    again = pickle.loads(pickle.dumps(snapshot))
    assert (again.path, again.form, again.arguments[0].tolist()) == (None, snapshot.form, [1, 2])


def test_a_pickle_keeps_the_limit_of_compressed_contents(tmp_path: Path):
    path = tmp_path / "a.pb.gz"
    file = io.BytesIO()
    sd.write_snapshot(file, [np.zeros(1000, np.int8)], np.int8(3))
    path.write_bytes(gzip.compress(file.getvalue()))
    pickled = pickle.dumps(sd.read_snapshot(path, max_bytes=5000))
    path.write_bytes(gzip.compress(file.getvalue() + bytes(5000)))
    with pytest.raises(DumpError, match="expand to more than 5000 bytes"):
        pickle.loads(pickled)


def test_a_module_is_read_when_it_is_asked_for():
    file = io.BytesIO()
    write_snapshot(file, [np.int8(5)], np.int8(6), module=wire.bytes_field(3, b"\xff"))
    snapshot = read_snapshot(file.getvalue())
    assert np.asarray(snapshot.arguments[0]) == 5
    with pytest.raises(DumpError, match=r"byte \d+: the module: "):
        _ = snapshot.module


def test_a_damaged_module_is_refused_with_its_place_in_the_file(tmp_path: Path):
    path = tmp_path / "x.pb"
    write_snapshot(path, [np.int8(5)], np.int8(6), module=wire.bytes_field(3, b"\xff") + b"\x0a\x7f")
    snapshot = read_snapshot(path)
    with pytest.raises(DumpError, match=r"x.pb, byte 9: the module: field 1 of HloModuleProto should be 127 bytes"):
        _ = snapshot.module_name


def test_damaged_snapshots_print():
    bad = wire.bytes_field(2, b"\xff") + wire.bytes_field(3, b"\xff")
    snapshot = read_snapshot(bad, form="HloSnapshot")
    assert repr(snapshot).startswith("<HloSnapshot of a damaged file: 1 argument, the result: ")
    assert repr(snapshot.arguments) == "<arguments {0: unreadable}>"
    many = read_snapshot(protos.serialized("HloSnapshot", arguments=[literal(np.int8(1))] * 40))
    assert repr(many.arguments).endswith("31: s8[], ... 8 more}>")


# ---- several partitions, and mixtures ----


def literal(value: Any) -> Any:
    return protos.parsed("LiteralProto", write_literal(value))


def described(size: int) -> dict[str, int]:
    return {"version": 1, "argument_size_bytes": size}


def serialized(shape: str, values: bytes) -> bytes:
    head = write_shape(sd.parse(shape))
    return len(head).to_bytes(8, "little") + head + values


def delimited(*partitions: list[bytes]) -> bytes:
    inputs = [{"arguments_descriptors": [described(len(a)) for a in arguments]} for arguments in partitions]
    message = protos.serialized("HloUnoptimizedSnapshot", hlo_module={"name": "m"}, partitions=inputs)
    return wire.varint(len(message)) + message + b"".join(a for arguments in partitions for a in arguments)


def test_partitions_of_a_delimited_snapshot():
    data = delimited(
        [serialized("u8[2]{0}", b"ab"), serialized("pred[3]{0}", b"\x05")],
        [serialized("u8[2]{0}", b"cd"), serialized("pred[3]{0}", b"\x02")],
    )
    snapshot = read_snapshot(data)
    assert snapshot.form == "delimited HloUnoptimizedSnapshot"
    lists = [[np.asarray(v).tolist() for v in values] for values in snapshot.partitions]
    assert lists == [[[97, 98], [True, False, True]], [[99, 100], [False, True, False]]]
    assert snapshot.arguments[0] is snapshot.partitions[0][0]


def test_partitions_of_a_plain_message():
    partitions = [{"arguments": [literal(np.int8(n))]} for n in (1, 2)]
    snapshot = read_snapshot(protos.serialized("HloUnoptimizedSnapshot", partitions=partitions, version=1))
    assert snapshot.form == "HloUnoptimizedSnapshot"
    assert [int(np.asarray(values[0])) for values in snapshot.partitions] == [1, 2]
    assert snapshot.module is None
    assert snapshot.module_name == ""


def test_descriptors_beside_arguments_inside_a_message():
    inputs = {"arguments": [literal(np.int8(4))], "arguments_descriptors": [described(100)]}
    data = protos.serialized("HloUnoptimizedSnapshot", hlo_module={"name": "m"}, partitions=[inputs])
    snapshot = read_snapshot(data)
    assert int(np.asarray(snapshot.arguments[0])) == 4


def test_a_snapshot_of_text():
    text = """
    # any comment
    hlo { hlo_module { name: "m" host_program_shape { result { element_type: TUPLE } } } }
    arguments { shape { element_type: S8 dimensions: 2 layout { minor_to_major: 0 } } s8s: "\\001\\377" }
    result { shape { element_type: TUPLE } }
    execution_platform: "Host"
    """
    for source in (text.encode(), text):
        snapshot = read_snapshot(source)
        assert (snapshot.form, snapshot.module_name, snapshot.platform) == ("HloSnapshot text", "m", "Host")
    assert np.asarray(snapshot.arguments[0]).tolist() == [1, -1]
    assert snapshot.results_missing is None


def test_an_editor_may_put_a_mark_before_a_snapshot_of_text():
    text = 'arguments { shape { element_type: S8 dimensions: 2 layout { minor_to_major: 0 } } s8s: "\\001\\377" }\n'
    data = text.encode("utf-8-sig")
    for source in (data, gzip.compress(data), f"\ufeff{text}"):
        assert np.asarray(read_snapshot(source).arguments[0]).tolist() == [1, -1]
    assert recognise(data) == "snapshot"
    with pytest.raises(DumpError, match="line 1, column 13: "):
        read_snapshot("arguments { = }\n".encode("utf-8-sig"))


def test_the_shape_of_a_program_may_come_in_several_parts():
    shape = protos.serialized("ShapeProto", element_type=11)
    parts = [wire.bytes_field(4, wire.bytes_field(number, shape)) for number in (1, 1, 2)]
    data = wire.bytes_field(1, wire.bytes_field(1, wire.bytes_field(1, b"m") + b"".join(parts))) + b"\x12\x00"
    shapes = read_snapshot(data, form="HloSnapshot").program_shape
    assert (len(shapes.parameters), str(shapes.result)) == (2, "f32[]")


def test_an_unoptimized_module_that_is_only_a_name():
    # "main_" would itself be a field of a message
    for name in ("hello", "main_", "jit_f"):
        data = protos.serialized("HloUnoptimizedSnapshot", hlo_module={"name": name}, partitions=[{}])
        snapshot = read_snapshot(data)
        assert snapshot.form == "HloUnoptimizedSnapshot"
        assert snapshot.module_name == name


# ---- refusals ----

MODULE = {"name": "m", "id": 1}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"HloModule m, is_scheduled=true", "a text, but neither an HloSnapshot nor an HloUnoptimizedSnapshot"),
        (b"\xff" * 100, "no snapshot, or a damaged one"),
        (protos.serialized("HloModuleProto", buffer_donor={}), "a protobuf message, but no snapshot"),
        (protos.serialized("HloProto", hlo_module=MODULE), "strided.read_hlo reads modules"),
        (protos.serialized("HloProto", hlo_module=MODULE, buffer_assignment={}), "no snapshot"),
        (b"\x12\x03ab", r"field 2 of HloSnapshot should be 3 bytes long, 2 bytes remained"),
        (b"hlo_module { name: 3 }", r"line 1, column 14: HloModuleProto.name: expected string, found 3"),
    ],
)
def test_what_is_no_snapshot_is_refused(data, words, tmp_path: Path):
    with pytest.raises(DumpError, match=words):
        read_snapshot(data)
    path = tmp_path / "x.pb"
    path.write_bytes(data)
    with pytest.raises(DumpError, match=re.escape(str(path))) as caught:
        read_snapshot(path)
    assert caught.value.path == str(path)


def test_a_damaged_value_leaves_the_others_readable(tmp_path: Path):
    short = literal(np.zeros(3, np.float32))
    short.f32s.pop()
    path = tmp_path / "x.pb"
    path.write_bytes(protos.serialized("HloSnapshot", arguments=[short, literal(np.int8(5))]))
    snapshot = read_snapshot(path)
    assert int(np.asarray(snapshot.arguments[1])) == 5
    assert str(snapshot.arguments.shapes[0]) == "f32[3]{0}"
    with pytest.raises(DumpError, match=r"x.pb, byte \d+: argument 0: LiteralProto.f32s: .* needs 12 bytes, found 8"):
        snapshot.arguments[0]
    with pytest.raises(DumpError, match="argument 0"):
        list(snapshot.arguments)


def test_arguments_behind_the_end_are_refused_one_by_one():
    data = delimited([serialized("u8[2]{0}", b"ab"), serialized("u8[2]{0}", b"cd")])
    snapshot = read_snapshot(data[:-1])
    assert np.asarray(snapshot.arguments[0]).tolist() == [97, 98]
    with pytest.raises(DumpError, match=r"argument 1: its literal should be \d+ bytes long, \d+ bytes remained"):
        snapshot.arguments[1]


def test_lying_sizes_allocate_nothing():
    lies = {"arguments_descriptors": [described(2**64 - 1)] * 3}
    message = protos.serialized("HloUnoptimizedSnapshot", hlo_module={"name": "m"}, partitions=[lies])
    snapshot = read_snapshot(wire.varint(len(message)) + message)
    assert len(snapshot.arguments) == 3
    for number in range(3):
        with pytest.raises(DumpError, match="bytes remained"):
            snapshot.arguments[number]


@pytest.mark.slow
def test_very_many_arguments_take_sixteen_bytes_each():
    data = protos.serialized("HloSnapshot", arguments=[literal(np.int8(1))]) * 30_000
    tracemalloc.start()
    snapshot = read_snapshot(data)
    assert len(snapshot.arguments) == 30_000
    assert tracemalloc.get_traced_memory()[1] < 30_000 * 40
    tracemalloc.stop()
    assert int(np.asarray(snapshot.arguments[29_999])) == 1


def touch(snapshot: Snapshot) -> None:
    """Look at everything that a snapshot offers."""
    for ask in (
        lambda: repr(snapshot),
        lambda: snapshot.module_name,
        lambda: snapshot.results_missing,
        lambda: snapshot.result,
        lambda: snapshot.program_shape,
        *(lambda values=values: values.shapes for values in snapshot.partitions),
        *(
            lambda values=values, i=i: np.asarray(values[i])
            for values in snapshot.partitions
            for i in range(len(values))
        ),
    ):
        try:
            ask()
        except DumpError:
            pass


SMALL = [
    path for path in DATA.rglob("*.pb") if path.stat().st_size < 1000 or path.parent.name == "scalars_and_zero_size"
]
SEEDS = [
    *(path.read_bytes() for path in SMALL),
    delimited([serialized("u8[2]{0}", b"ab"), serialized("pred[3]{0}", b"\x05")], [serialized("s4[2]{0}", b"\x21")]),
    b'hlo_module { name: "m" } partitions { arguments { shape { element_type: S8 } s8s: "\\001" } }',
]


@examples(200)
@given(st.sampled_from(SEEDS).flatmap(damaged))
def test_damaged_files_end_in_values_or_errors(raw):
    for form in (None, *snapshot_forms.FORMS):
        try:
            snapshot = read_snapshot(raw, form=form)
        except DumpError as error:
            assert error.message  # noqa: PT017  (some damage leaves a snapshot)
            continue
        touch(snapshot)


@pytest.mark.parametrize("seed", [SEEDS[0], SEEDS[-2], SEEDS[-1]], ids=["message", "delimited", "text"])
def test_files_cut_at_every_byte(seed):
    for end in range(len(seed)):
        try:
            touch(read_snapshot(seed[:end]))
        except DumpError as error:
            assert error.message  # noqa: PT017  (some cuts leave a snapshot)


# ---- writing ----


def test_a_written_snapshot_comes_back(tmp_path: Path):
    original = read_snapshot(DATA / "kinds/hlo_snapshot.pb")
    path = tmp_path / "copy.pb"
    write_snapshot(path, original.arguments, original.result, module=original.module_proto, platform="Host")
    copy = read_snapshot(path)
    assert (copy.module_name, copy.platform, copy.form) == ("jit_kinds", "Host", "HloSnapshot")
    assert copy.arguments.shapes == original.arguments.shapes
    assert copy.results.names == original.results.names
    for mine, theirs in ((copy.arguments, original.arguments), (copy.results, original.results)):
        for a, b in zip(mine, theirs, strict=True):
            assert bytes(a.buffer) == bytes(b.buffer)
    message = protos.parsed("HloSnapshot", path.read_bytes())
    assert (message.hlo.hlo_module.name, message.execution_platform) == ("jit_kinds", "Host")
    assert len(message.arguments) == len(original.arguments)
    assert len(message.result.tuple_literals) == len(original.results)


WRITTEN_BY_XLA = [DATA / "kinds/hlo_snapshot.pb", *(path for path in DATA.rglob("*.pb") if ".snapshot." in path.name)]


@pytest.mark.parametrize("path", WRITTEN_BY_XLA, ids=lambda path: path.name.removeprefix("module_00"))
def test_what_xla_wrote_is_written_byte_for_byte(path):
    original = read_snapshot(path)
    file = io.BytesIO()
    write_snapshot(file, original.arguments, original.result, module=original.module_proto)
    assert file.getvalue() == path.read_bytes()


def test_one_result_is_no_tuple_of_one():
    results = read_snapshot(DATA / "kinds/hlo_snapshot.pb").results
    for result, count in ((np.float32([1]), 1), ((np.float32([1]),), 1), ((), 0), (results, 28)):
        file = io.BytesIO()
        write_snapshot(file, [], result)
        snapshot = read_snapshot(file.getvalue())
        assert len(snapshot.results) == count
        if count:
            assert isinstance(snapshot.result, tuple) == (not isinstance(result, np.ndarray))


def test_what_cannot_be_read_again_is_not_written(tmp_path: Path, monkeypatch):
    path = tmp_path / "x.pb"
    with pytest.raises(UnsupportedError, match="no element type"):
        write_snapshot(path, [np.array(["text"])])
    monkeypatch.setattr("strided.dumps.snapshots.writer.MAX_MESSAGE_BYTES", 100)
    with pytest.raises(UnsupportedError, match="messages of less than 2 GiB"):
        write_snapshot(path, [np.zeros(1000)])
    assert not path.exists()


# ---- files that become shorter ---------------------------------------------------------------------------------------


def test_a_snapshot_that_is_truncated_after_it_was_opened_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    values = np.arange(1 << 16, dtype=np.float32).reshape(256, 256)
    sd.write_snapshot(path, [values, values], values)
    snapshot = sd.read_snapshot(path)
    first = snapshot.arguments[0]
    os.truncate(path, 100)
    for read in (lambda: snapshot.arguments[1], lambda: snapshot.arguments.shapes, lambda: snapshot.results):
        with pytest.raises(sd.DumpError, match=r"truncated since it was opened: from .* bytes to 100"):
            read()
    for access in (lambda: first[5, 5], first.to_numpy, lambda: np.asarray(first), lambda: first.sum()):
        with pytest.raises(sd.BufferSizeError, match="a mapped file was truncated"):
            access()
    assert "truncated" in repr(snapshot)


def shown(snapshot: sd.Snapshot) -> list[object]:
    """All that a snapshot holds, values as their bytes."""

    def bytes_of(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(bytes_of, value))
        return None if value is None else (str(value.xla_shape), value.shape, value.to_numpy().tobytes())

    return [
        snapshot.form,
        snapshot.platform,
        None if snapshot.module_proto is None else bytes(snapshot.module_proto),
        snapshot.results_missing,
        [[(str(shape), bytes_of(value)) for shape, value in zip(values.shapes, values, strict=True)]
         for values in (*snapshot.partitions, snapshot.results)],
    ]  # fmt: skip


EVERY = [*KINDS, *sorted((DATA / "types").glob("*.pb")), *PROGRAMS]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_what_is_read_at_places_is_what_is_mapped(path: Path) -> None:
    assert shown(sd.read_snapshot(path, mapped=False)) == shown(sd.read_snapshot(path))
    assert recognise(path) == "snapshot"


def outcome(origin: object, **options: bool) -> object:
    """What a snapshot holds, or the message and place of the error."""
    try:
        snapshot = sd.read_snapshot(origin, **options)
        return snapshot.form, [values.shapes for values in (*snapshot.partitions, snapshot.results)], shown(snapshot)
    except DumpError as error:
        return error.message, error.position


@examples(60)
@given(st.sampled_from(EVERY[::5]), st.integers(0, 1 << 20), st.binary(max_size=4), st.booleans())
def test_damaged_files_are_read_alike_at_places(path: Path, place: int, piece: bytes, cut: bool) -> None:
    data = path.read_bytes()
    place %= len(data)
    data = data[:place] + (b"" if cut else piece + data[place + len(piece) :])
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert outcome(file.name, mapped=False) == outcome(data)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux what is mapped")
def test_no_snapshot_is_mapped_where_that_is_not_wanted(tmp_path: Path) -> None:
    path = tmp_path / "module_0001.f.snapshot.1.pb"
    values = np.arange(1 << 16, dtype=np.float32)
    sd.write_snapshot(path, [values, np.arange(300)], values)
    for arguments in (sd.read_dump(path, mapped=False).arguments, sd.open_dump(tmp_path, mapped=False).values()):
        held = list(arguments)
        assert str(path) not in Path("/proc/self/maps").read_text(encoding="utf-8")
        np.testing.assert_array_equal(held[0], values)
        assert not held[0].flags.writeable


@pytest.mark.parametrize("cut", [0, 100, 70_000])
def test_values_that_are_truncated_before_they_are_read(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    values = np.arange(1 << 16, dtype=np.float32)
    sd.write_snapshot(path, [values, values], values)
    snapshot = sd.read_snapshot(path, mapped=False)
    first = snapshot.arguments[0]
    os.truncate(path, cut)
    np.testing.assert_array_equal(first, values)
    match = rf"argument 1: truncated since it was opened: from \d+ bytes to {cut}"
    with pytest.raises(sd.DumpError, match=match) as raised:
        snapshot.arguments[1]
    assert raised.value.path == str(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux which files are open")
@pytest.mark.parametrize("mapped", [True, False])
def test_a_file_is_closed_with_the_last_of_its_bytes(mapped: bool, tmp_path: Path) -> None:
    """And not only when garbage is collected: until then Windows would not let it be replaced or removed."""
    path = tmp_path / "x.pb"
    path.write_bytes((DATA / "kinds/hlo_snapshot.pb").read_bytes())

    def is_open() -> bool:
        return any(os.path.realpath(f"/proc/self/fd/{number}") == str(path) for number in os.listdir("/proc/self/fd"))

    gc.disable()
    try:
        snapshot = sd.read_snapshot(path, mapped=mapped)
        module, places = snapshot.module, snapshot.arguments
        assert snapshot.results[0].size
        assert is_open()
        del snapshot
        assert places[0].size
        assert len(places.names) == len(places)
        del places
        assert not is_open()
        assert module.entry.name
    finally:
        gc.enable()


GET = "strided.dumps.directory.programs.RunArrays.__getitem__"


@pytest.mark.parametrize(
    ("moment", "name"),
    thinned([(GET, "x.pb:argument0"), (GET, "f/argument1"), ("strided.cli.ls.named_arrays", "x.pb")], 3),
)
def test_another_process_truncates_the_snapshot(moment: str, name: str, tmp_path: Path) -> None:
    """Just after the size was checked: a process that has mapped the file would end."""
    path = tmp_path / "x.pb"
    values = np.zeros(1 << 20, np.float32)
    sd.write_snapshot(path, [values, values], values)
    if name == "f/argument1":
        path = path.rename(tmp_path / "module_0001.f.snapshot.1.pb")
        name = f".:{name}"
    script = f"""
import sys, strided.cli.ls, strided.files.mapping, strided.dumps.snapshots.snapshot, strided.dumps.directory.programs
strided.files.mapping.MappedFile.check = lambda self: None
strided.dumps.snapshots.snapshot.refuse_truncated = lambda *_: None
then = {moment}
def meanwhile(*arguments):
    print("begun", flush=True)
    sys.stdin.readline()
    return then(*arguments)
{moment} = meanwhile
strided.cli.main(sys.argv[1:])
"""
    command = [sys.executable, "-c", script, "show" if ":" in name else "ls", name]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert any(line == "begun\n" for line in process.stdout)
    os.truncate(path, 5)
    out, err = process.communicate("\n", timeout=60)
    if "argument" in name:
        assert process.returncode == 2
        assert "truncated since it was opened: from " in err
        assert err.endswith(" bytes to 5\n")
    else:
        assert process.returncode in (0, 2)
        assert "truncated since it was opened" in out + err


@pytest.mark.parametrize("wrong", [None, 3, 2.5, [1], {}, object()])
def test_what_is_no_file_or_no_arguments_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=f"expected a path or a binary file to write to, not {type(wrong).__name__}"):
        sd.write_snapshot(wrong, [])
    if wrong != [1]:
        with pytest.raises(TypeError, match=f"arguments must be a sequence of arrays, not {type(wrong).__name__}"):
            sd.write_snapshot(tmp_path / "x.pb", wrong)
    for read in (sd.read_snapshot, sd.read_dump, sd.read_hlo, sd.read_allocations):
        with pytest.raises(TypeError, match=f"expected a path or a contiguous buffer, not {type(wrong).__name__}"):
            read(wrong)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("text", ["What is this?\n", "What is this?\n" * 10_000])
def test_a_text_that_is_none_is_no_path(text: str) -> None:
    with pytest.raises(sd.DumpError, match=r"^a text, but neither an HloSnapshot nor .* reads other dumps$") as caught:
        sd.read_snapshot(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("again", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_arguments_and_results_can_be_pickled(again, tmp_path: Path):
    file = tmp_path / "a.pb"
    write_snapshot(file, [np.arange(3), np.eye(2)], (np.float32(5), np.int8([1, 2])))
    for snapshot in (read_snapshot(file), read_snapshot(file, mapped=False), read_snapshot(file.read_bytes())):
        for values in (snapshot.arguments, snapshot.results):
            copied = again(values)
            assert repr(copied) == repr(values)
            assert [one.tolist() for one in copied] == [one.tolist() for one in values]
    partitions = read_snapshot(delimited([serialized("u8[1]{0}", b"\1")], [serialized("u8[1]{0}", b"\2")])).partitions
    assert [one[0].tolist() for one in again(partitions)] == [[1], [2]]
