"""Wrong arguments are refused where they are given: by TypeError that names them, never by what fails far inside."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.diagnosis.difference import diff_arrays
from strided.dumps.hlo import Module
from strided.dumps.sharded.sharded_array import ShardedArray
from strided.dumps.snapshots.snapshot import Snapshot
from strided.interop.array_api import with_namespace
from tests import copies_samples, paths

HLO = """HloModule f, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %y = f32[8,128]{1,0:T(8,128)} sine(%x)
}
"""
ASSIGNMENT = b"BufferAssignment:\nallocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}:\n"
VALUE = b" value: <3 p0 @0> (size=8,offset=0): f32[2]{0}\n"
TILED = sd.Sharding.parse("{devices=[2,4]<=[8]}")
#: What a caller may hold in place of the right thing.
THINGS = [None, 1.5, float("nan"), "x", b"x", [], {}, object(), np.zeros((2, 3))]


def _module() -> Module:
    return sd.read_hlo(HLO)


def _difference() -> Any:
    return sd.diff(np.zeros((2, 3)), np.ones((2, 3)))


def _identified() -> Any:
    return sd.inspect.identify(np.arange(64, dtype=np.float32), "f32[8,8]")


def _padding() -> Any:
    return sd.inspect.padding(sd.LayoutArray.from_numpy(np.zeros((2, 3)), "{1,0:T(2,4)}"))


def _snapshot() -> Snapshot:
    file = io.BytesIO()
    sd.write_snapshot(file, [np.zeros(3)] * 5, (np.zeros(2),) * 5)
    return sd.read_snapshot(file.getvalue())


def _assembled() -> ShardedArray:
    return sd.assemble(sd.shard(np.zeros((3, 5)), TILED), TILED, (3, 5))


def _copies() -> Any:
    return sd.layout_copies(sd.read_hlo(copies_samples.compiled_as(copies_samples.case("table"))))


#: Integers by their name, each in a call that takes it.
INTEGERS: list[tuple[str, Callable[[Any], object]]] = [
    ("width", lambda n: sd.inspect.describe("f32[3,5]", width=n)),
    ("width", lambda n: sd.inspect.picture("f32[3,5]", width=n)),
    ("width", lambda n: sd.inspect.captioned_picture("f32[3,5]", width=n)),
    ("max_rows", lambda n: sd.inspect.picture("f32[3,5]", max_rows=n)),
    ("max_rows", lambda n: sd.inspect.svg("f32[3,5]", max_rows=n)),
    ("max_columns", lambda n: sd.inspect.svg("f32[3,5]", max_columns=n)),
    ("memory", lambda n: sd.inspect.svg("f32[3,5]", memory=n)),
    ("width", lambda n: _identified().text(n)),
    ("width", lambda n: _identified().candidates[0].text(n)),
    ("width", lambda n: _padding().text(n)),
    ("width", lambda n: _difference().text(n)),
    ("map_rows", lambda n: _difference().text(map_rows=n)),
    ("width", lambda n: _copies().report(width=n)),
    ("width", lambda n: sd.inspect.explain("f32[3,5]", (1, 2)).text(n)),
    ("width", lambda n: _copies()[0].text(width=n)),
    ("top", lambda n: _copies().report(n)),
    ("top", lambda n: _copies().section(n)),
    ("limit", lambda n: sd.diff(np.zeros(3), np.ones(3), limit=n)),
    ("offset", lambda n: sd.inspect.identify(b"12345678", "f32", offset=n)),
    ("limit", lambda n: sd.inspect.identify(b"1234", "f32", limit=n)),
    ("gap", lambda n: sd.inspect.byte_ranges("f32[3]", gap=n)),
    ("byte", lambda n: sd.read_allocations(ASSIGNMENT + VALUE).allocation(0).values_at(n)),
    ("the number of a device", lambda n: TILED.slices((3, 5))[n]),
    ("the size of a dimension", lambda n: TILED.shard_shape((n, 5))),
    ("the size of a dimension", lambda n: TILED.slices((3, n))),
    ("the number of a device", lambda n: _assembled().shard(n)),
    ("memory_space", lambda n: sd.read_allocations(ASSIGNMENT + VALUE).open({0: bytes(8)}, memory_space=n)),
    ("dimension", lambda n: sd.parse_shape("f32[3,5,7,9,11]").dimension_number(n)),
    ("dimension", lambda n: sd.parse_shape("f32[3,5,7,9,11]").dimension_letter(n)),
    ("dimension", lambda n: sd.parse_shape("f32[3,5,7,9,11]").stride_of(n)),
    ("offset", lambda n: sd.parse_shape("f32[3,5]").padding_dimension_at(n)),
]
#: The same, where text is a name.
NUMBERS_OR_NAMES: list[tuple[str, Callable[[Any], object]]] = [
    ("the number of the argument", lambda n: _snapshot().arguments[n]),
    ("the number of the argument", lambda n: _snapshot().arguments.shape(n)),
    ("the number of the result", lambda n: _snapshot().results[n]),
]
#: What is told of progress, in calls that take longer than to look at their arguments.
PROGRESS: list[Callable[[Any], object]] = [
    lambda f: sd.diff(np.zeros(3), np.ones(3), progress=f),
    lambda f: diff_arrays({}, {}, progress=f),
    lambda f: sd.inspect.identify(b"1234", "f32", progress=f),
    lambda f: sd.inspect.padding(sd.LayoutArray(bytes(16), "f32[3]{0:T(4)}"), progress=f),
    lambda f: sd.inspect.statistics(np.zeros(0), progress=f),
    lambda f: sd.save_npy("new", np.zeros(3), progress=f),
    lambda f: sd.save_safetensors("new", {}, progress=f),
    lambda f: sd.convert_file("old", "f32[3]", "new", progress=f),
]
#: Paths by their parameter.
PATHS: list[tuple[str, Callable[[Any], object]]] = [
    ("path", sd.load_npy),
    ("path", lambda path: sd.save_npy(path, np.zeros(3))),
    ("path", lambda path: sd.save_safetensors(path, {})),
    ("path", lambda path: sd.explore("f32[3]").save(path)),
    ("source", lambda path: sd.convert_file(path, "f32[3]", "new")),
    ("target", lambda path: sd.convert_file("old", "f32[3]", path)),
    ("directory", sd.open_dump),
]


@pytest.mark.parametrize(("name", "call"), INTEGERS, ids=range(len(INTEGERS)))
def test_what_is_no_integer_is_named(name: str, call: Callable[[Any], object]) -> None:
    for thing in THINGS:
        with pytest.raises(TypeError, match=f"^{name} must be an integer, not {type(thing).__name__}$"):
            call(thing)
    call(np.int64(4))


@pytest.mark.parametrize(("name", "call"), NUMBERS_OR_NAMES, ids=range(3))
def test_what_is_neither_number_nor_name_is_named(name: str, call: Callable[[Any], object]) -> None:
    for thing in THINGS:
        if not isinstance(thing, str):
            with pytest.raises(TypeError, match=f"^{name} must be an integer, not {type(thing).__name__}$"):
                call(thing)
    call(np.int64(4))


@pytest.mark.parametrize("call", PROGRESS, ids=range(len(PROGRESS)))
def test_progress_is_refused_before_the_work(
    call: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(3, np.float32).tofile("old")
    for thing in THINGS[1:]:  # None is no progress
        with pytest.raises(TypeError, match=f"^progress must be a function, not {type(thing).__name__}$"):
            call(thing)
    assert not Path("new").exists()
    call(lambda count: None)


@pytest.mark.parametrize("name", ["predicate", "operation"])
def test_functions_are_asked_for_by_name(name: str) -> None:
    array = sd.LayoutArray.from_numpy(np.zeros((2, 3)))
    call: Callable[[Any], object] = array.count if name == "predicate" else array.rearranged
    for thing in THINGS:
        with pytest.raises(TypeError, match=f"^{name} must be a function, not {type(thing).__name__}$"):
            call(thing)


@pytest.mark.parametrize(("name", "call"), PATHS, ids=range(len(PATHS)))
def test_what_is_no_path_is_named(
    name: str, call: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(3, np.float32).tofile("old")
    for thing in THINGS:
        if not isinstance(thing, (str, bytes)):
            with pytest.raises(TypeError, match=f"^{name} must be text or a Path, not {type(thing).__name__}$"):
                call(thing)


@pytest.mark.parametrize(
    "arrays",
    [
        lambda folder: sd.open_dump(paths.unpack_dump(folder)).programs[0].arrays,
        lambda folder: sd.read_allocations(ASSIGNMENT + VALUE).open({0: bytes(8)}),
    ],
    ids=["run", "image"],
)
def test_only_text_names_an_array(arrays: Callable[[Path], Any], tmp_path: Path) -> None:
    found = arrays(tmp_path)
    for thing in THINGS:
        if not isinstance(thing, str):
            with pytest.raises(KeyError, match=f"arrays are found by name, not by {type(thing).__name__}; there are "):
                found[thing]
        assert thing not in found
        assert found.get(thing) is None


def test_a_program_has_a_name_or_a_number(tmp_path: Path) -> None:
    dump = sd.open_dump(paths.unpack_dump(tmp_path))
    for thing in THINGS:
        if not isinstance(thing, str):
            with pytest.raises(
                TypeError, match=f"^the number of a program must be an integer, not {type(thing).__name__}"
            ):
                dump.program(thing)


def test_the_next_index_is_that_of_any_sequence() -> None:
    assert sd.parse_shape("f32[2,3]").next_index(iter((0, 2))) == (1, 0)  # type: ignore[arg-type]
    for of in ("offset_of", "next_index", "in_bounds"):
        with pytest.raises(TypeError, match=r"^an index must be an integer, not str$"):
            getattr(sd.parse_shape("f32[2,3]"), of)("ab")


def test_an_empty_name_is_no_element_type(tmp_path: Path) -> None:
    sd.save_npy(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(sd.UnsupportedError, match="no element type ''"):
        sd.load_npy(tmp_path / "a.npy", element_type="")
    with pytest.raises(sd.LayoutError, match="no element type ''"):
        sd.shard(np.zeros(4), "{devices=[2]<=[2]}", element_type="")


@pytest.mark.parametrize("dtype", [object, [("name", "O"), ("size", "i8")]], ids=["objects", "records"])
@pytest.mark.parametrize("wrap", [lambda x: x, memoryview], ids=["ndarray", "memoryview"])
def test_buffers_of_references_are_no_bytes(wrap: Callable[[Any], Any], dtype: Any) -> None:
    """Whoever reads those as bytes sees addresses, and what is written of them means nothing to anybody."""
    buffer = wrap(np.zeros(2, dtype))
    for read in (sd.read_hlo, sd.read_dump, sd.read_allocations, sd.read_snapshot):
        with pytest.raises(TypeError, match="expected a path or a contiguous buffer, not"):
            read(buffer)
    for call in (sd.Sharding.from_proto, lambda data: sd.write_snapshot(io.BytesIO(), [], module=data)):
        with pytest.raises(TypeError, match="holds references"):
            call(buffer)
    with pytest.raises(TypeError, match="holds references, not data"):
        sd.LayoutArray(buffer, "u8[16]")


def test_words_are_text() -> None:
    for thing in (np.array(["hlo", "snapshot"]), ["hlo"], b"hlo", True):
        with pytest.raises(ValueError, match="kind must be one of 'hlo', 'snapshot', 'allocations', not"):
            sd.read_dump(b"", thing)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "call", [_copies().report, _copies().section, _copies().to_dict], ids=lambda call: call.__name__
)
def test_fewer_copies_than_none_are_not_listed(call: Callable[[int], object]) -> None:
    with pytest.raises(ValueError, match=r"^top must be 0 or more, not -1$"):
        call(-1)
    with pytest.raises(ValueError, match=r"^top must be 0 or more, not -1$"):
        sd.layout_copies(_module(), top=-1)


def test_integers_that_may_be_left_out() -> None:
    for thing in THINGS[1:]:
        with pytest.raises(TypeError, match=r"^num_devices must be an integer"):
            TILED.slices((3, 5), thing)
        with pytest.raises(TypeError, match=r"^index must be an integer"):
            sd.read_hlo(HLO, index=thing)
        with pytest.raises(TypeError, match=r"^memory_space must be an integer"):
            _module().find(memory_space=thing)


def test_a_gap_of_any_size_joins_all_ranges() -> None:
    assert sd.inspect.byte_ranges("f32[8]", slice(None, None, 2), gap=2**70).tolist() == [[0, 28]]


@pytest.mark.parametrize("name", ["rtol", "atol", "max_ulp"])
def test_tolerances_are_real_numbers(name: str) -> None:
    for thing in (1j, "x", [0], object()):
        with pytest.raises(TypeError, match=f"^{name} must be a number, not {type(thing).__name__}$"):
            sd.diff(np.zeros(3), np.zeros(3), **{name: thing})
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, not nan"):
        sd.diff(np.zeros(3), np.zeros(3), **{name: float("nan")})


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_is_not_left_out_by_none(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a number, not NoneType$"):
        sd.diff(np.zeros(3), np.ones(3), **{name: None})


def test_limits_of_memory_are_real_numbers() -> None:
    with pytest.raises(TypeError, match="the largest expansion of a buffer must be a number, not str"):
        sd.testing.assert_memory(HLO, max_expansion="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_bytes must be a number, not list"):
        sd.testing.assert_memory(HLO, max_bytes=[])  # type: ignore[arg-type]
    for unfit in (float("nan"), float("inf"), -1):
        with pytest.raises(ValueError, match="is a number from 0, not"):
            sd.memory_report(HLO).expanded(unfit)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("name", lambda text: _module().computation(text)),
        ("name", lambda text: _module().instruction(text)),
        ("name", lambda text: _module().entry.instruction(text)),
        ("name", lambda text: _module().find(True if text is None else text)),
        ("indent", lambda text: _module().to_text(indent=text)),
        ("indent", lambda text: _module().entry.printed(text)),
        ("indent", lambda text: _copies()[0].text(indent=text)),
        ("opcode", lambda text: _module().find(opcode=True if text is None else text)),
        ("label", lambda text: sd.read_allocations(ASSIGNMENT + VALUE).value(text)),
        ("platform", lambda text: sd.write_snapshot(io.BytesIO(), [], platform=text)),
    ],
    ids=range(10),
)
def test_what_is_no_text_is_named(name: str, call: Callable[[Any], object]) -> None:
    for thing in THINGS:
        if not isinstance(thing, str):
            with pytest.raises(TypeError, match=f"^{name} must be text, not"):
                call(thing)


def test_users_are_those_of_an_instruction() -> None:
    entry = _module().entry
    assert entry.users_of(entry.instruction("x")) == (entry.root,)
    with pytest.raises(TypeError, match="expected an Instruction, not str"):
        entry.users_of("x")  # type: ignore[arg-type]


def test_a_platform_that_utf8_cannot_write() -> None:
    file = io.BytesIO()
    with pytest.raises(sd.UnsupportedError, match="has characters that UTF-8 lacks"):
        sd.write_snapshot(file, [np.zeros(3)], platform="\udc80")
    assert not file.getvalue()


def test_sizes_of_an_array_over_devices_are_not_rounded() -> None:
    with pytest.raises(TypeError, match="the size of a dimension must be an integer, not str"):
        sd.Sharding.parse("{replicated}").shard_shape("35")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="global_dims must be a sequence of sizes or a Shape, not int"):
        TILED.shard_shape(3)  # type: ignore[arg-type]


def test_a_sharding_is_made_of_its_parts() -> None:
    for name in ("grid", "named", "group", "device", "num_devices"):
        with pytest.raises(TypeError, match=f"^{name} must be .* or None, not str"):
            sd.Sharding("replicated", **{name: "x"})  # type: ignore[arg-type]
    for name, part in (("subgroups", "str"), ("elements", "Sharding"), ("metadata", "str")):
        for thing in (None, 5, "x", [], (None,)):
            with pytest.raises(TypeError, match=f"^{name} must be a tuple of {part}; parse reads text"):
                sd.Sharding("tuple" if name == "elements" else "replicated", **{name: thing})
    with pytest.raises(sd.DumpError, match="byte 0: the tag of a field of OpSharding"):
        sd.Sharding.from_proto(np.full((2, 3), 255, np.uint8))  # type: ignore[arg-type]


def test_places_of_allocations() -> None:
    assignment = sd.read_allocations(ASSIGNMENT + VALUE)
    with pytest.raises(TypeError, match=r"at must be a mapping of allocations to bytes, not list: at=\{number: byte\}"):
        assignment.open(bytes(8), at=[0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the byte at which an allocation begins must be an integer, not NoneType"):
        assignment.open(bytes(8), at={0: None})  # type: ignore[dict-item]


def test_an_array_over_devices_has_a_shape() -> None:
    for thing in (None, 5, b"xy", {}, np.array([3, 5])):
        with pytest.raises(
            TypeError, match=f"shape must be text, a Shape or a sequence of sizes, not {type(thing).__name__}"
        ):
            sd.assemble([], "{replicated}", thing)  # type: ignore[arg-type]
    with pytest.raises(sd.UnsupportedError, match=r"\(s8\[2\]\{0\}\) is not the shape of one array"):
        sd.assemble([], "{replicated}", "(s8[2])")


def test_shards_come_in_a_sequence_or_mapping() -> None:
    with pytest.raises(TypeError, match="expected a sequence or mapping of shards, not int"):
        sd.assemble(3, "{replicated}", (4,))  # type: ignore[arg-type]


def test_layouts_and_shapes_of_wrong_parts() -> None:
    assert sd.Tile([np.int64(8), 128]) == (8, 128)
    for sizes in ("8,128", (8.0, 128), (None,), 8, None):
        with pytest.raises(sd.LayoutError, match="tiles must be integers, not"):
            sd.Tile(sizes)  # type: ignore[arg-type]
    with pytest.raises(sd.LayoutError, match="99 is not a valid PaddingValue"):
        sd.Layout((0,), padding_value=99)  # type: ignore[arg-type]
    with pytest.raises(sd.LayoutError, match="`dynamic` must be booleans"):
        sd.Shape("f32", (2,), dynamic=None)  # type: ignore[arg-type]


def test_no_padding_is_none() -> None:
    array = sd.LayoutArray(bytearray(16), "f32[3]{0:T(4)}")
    with pytest.raises(TypeError, match=r"padding is a value or one of 'zero', .*, not None"):
        array.fill_padding(None)
    assert not array.buffer.any()


def test_names_that_cannot_be_hashed() -> None:
    with pytest.raises(TypeError, match="element_type must be XLA's name, such as 's4', not list"):
        sd.LayoutArray.from_numpy(np.zeros(3), element_type=[])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be one of"):
        sd.read_dump(b"", kind=[])  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]", "O", "S3", "U3", [("a", "i4")]], ids=str)
def test_statistics_are_of_numbers(dtype: Any) -> None:
    with pytest.raises(TypeError, match="statistics takes numbers and truth values, not"):
        sd.inspect.statistics(np.zeros(3, dtype))


def test_copies_are_asked_for_of_a_known_generation() -> None:
    with pytest.raises(sd.UnsupportedError, match="no default layouts are known for 'v9'"):
        sd.layout_copies(_module(), generation="v9")
    with pytest.raises(TypeError, match="top must be an integer, not str"):
        sd.layout_copies(_module(), top="3")  # type: ignore[arg-type]


def test_limits_of_readers_are_integers() -> None:
    for read in (sd.read_hlo, sd.read_dump, sd.read_allocations, sd.read_snapshot):
        for thing in (1.5, "x"):
            with pytest.raises(TypeError, match=f"^max_bytes must be an integer, not {type(thing).__name__}$"):
                read(HLO.encode(), max_bytes=thing)  # type: ignore[operator]


def test_limits_are_integers_of_what_needs_none() -> None:
    for read in (sd.read_hlo, lambda text, **options: sd.read_dump(text.encode(), "hlo", **options)):
        with pytest.raises(TypeError, match=r"^max_bytes must be an integer, not str$"):
            read(HLO, max_bytes="x")


@pytest.mark.parametrize("read", [sd.read_hlo, sd.read_dump, sd.read_allocations, sd.read_snapshot])
def test_buffers_with_gaps_are_no_dumps(read: Callable[[Any], object]) -> None:
    for buffer in (memoryview(HLO.encode())[::2], np.frombuffer(HLO.encode(), np.uint8)[::-1]):
        with pytest.raises(TypeError, match=f"^expected a path or a contiguous buffer, not {type(buffer).__name__}$"):
            read(buffer)


def test_an_allocation_has_a_number() -> None:
    allocations = sd.read_allocations(ASSIGNMENT + VALUE)
    assert allocations.allocation(np.int64(0)).size == 8  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^index must be an integer, not str$"):
        allocations.allocation("0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^kind must be one of 'text', 'proto', not 'zz'$"):
        sd.read_allocations(ASSIGNMENT + VALUE, kind="zz")


def test_what_is_no_shape_finds_no_instruction() -> None:
    with pytest.raises(TypeError, match="shape must be text or a Shape, not int"):
        _module().find(shape=5)  # type: ignore[arg-type]


def test_a_tile_has_coordinates() -> None:
    slices = TILED.slices((3, 5))
    assert slices.of_tile((1, 0, 7)) == slices.of_tile([np.int64(1), 0]) == (slice(2, 3), slice(0, 2))
    with pytest.raises(IndexError, match="a tile of an array of 2 dimensions has as many coordinates, not 1"):
        slices.of_tile((1,))
    with pytest.raises(TypeError, match="cell must be a sequence of coordinates, not NoneType"):
        slices.of_tile(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a coordinate of a tile must be an integer, not str"):
        slices.of_tile("ab")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [sd.Sharding.from_proto, lambda data: sd.write_snapshot(io.BytesIO(), [], module=data)],
    ids=["sharding", "module"],
)
def test_bytes_are_asked_for_in_words(call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="expected bytes or another contiguous buffer, not str"):
        call("abc")


def test_copies_are_looked_for_in_modules() -> None:
    module = sd.read_hlo(copies_samples.compiled_as(copies_samples.case("table")))
    with pytest.raises(TypeError, match=r"before must be a Module, not int: strided\.read_hlo reads one"):
        sd.layout_copies(module, before=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout must be a number, not str"):
        sd.layout_copies(module, timeout="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be 0 or more, not -1"):
        sd.layout_copies(module, timeout=-1)


def test_a_namespace_is_given_to_layout_arrays() -> None:
    with pytest.raises(TypeError, match="with_namespace takes a LayoutArray, not ndarray"):
        with_namespace(np.zeros(3))  # type: ignore[arg-type]


def test_an_ndarray_is_laid_out_before_it_is_explored() -> None:
    with pytest.raises(TypeError, match=r"an ndarray has no layout to explore: strided.LayoutArray.from_numpy"):
        sd.explore(np.zeros((2, 3)))


def test_storage_options_go_with_a_url() -> None:
    with pytest.raises(ValueError, match=r"storage_options go with a URL, which a\.bin is not"):
        sd.open("a.bin", "f32[2]", storage_options={"anon": True})


def test_a_tuple_is_identified_nowhere() -> None:
    for tuple_ in ("(f32[2], f32[3])", sd.parse("(f32[2], f32[3])")):
        with pytest.raises(sd.UnsupportedError, match="is a tuple: every element has a buffer of its own"):
            sd.inspect.identify(bytes(20), tuple_)
    with pytest.raises(sd.NotationError, match="expected"):
        sd.inspect.identify(bytes(20), "(f32[2]")


def test_what_is_counted_is_said_of_each_element() -> None:
    for shape in ((2, 3), (600, 700)):
        array = sd.LayoutArray.from_numpy(np.ones(shape, np.float32), "{1,0:T(8,128)}")
        assert array.count(lambda values: values > 0) == array.size
        for predicate in (lambda values: True, lambda values: values.any(), lambda values: values[0] > 0):
            with pytest.raises(ValueError, match="a truth value for each element is counted"):
                array.count(predicate)
