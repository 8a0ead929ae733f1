"""Buffer assignments: text and proto, every value explained, images opened."""

from __future__ import annotations

import base64
import gzip
import json
import time
import warnings
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays.layout_array import LayoutArray
from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.protobuf.wire import fields
from strided.errors import DumpError, DumpWarning, UnsupportedError
from tests import paths
from tests.protos import serialized
from tests.steps import check_linear

DATA = paths.DATA / "allocations"
TEXTS: dict[str, str] = json.loads(gzip.decompress((DATA / "texts.json.gz").read_bytes()))
PROTOS = {
    k: base64.b64decode(v) for k, v in json.loads(gzip.decompress((DATA / "protos.json.gz").read_bytes())).items()
}
SMALL_TPU = "tpu_module_0000.jit_f.cl_1003875606.after_optimizations"

HEAD = "BufferAssignment:\n"


def of_text(text: str) -> BufferAssignment:
    return read_allocations(text.encode())


# ---- as the compilers wrote it ----


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_prints_as_it_was_read(name):
    assignment = of_text(TEXTS[name])
    assert not assignment.unread
    assert "BufferAssignment:\n" + "".join(f"{one}\n" for one in assignment) == TEXTS[name]


def is_explained(value: Value) -> bool:
    """Whether a value has the size that its kind and shape give it."""
    if value.kind == "tuple":  # pointers, of the bytes and rounded up to the units that `values` tells of
        sizes = ((8, 1), (4, 32), (4, 512), (4, 1024))
        return value.size in {-(-len(value.shape) * pointer // unit) * unit for pointer, unit in sizes}
    if value.kind == "token":
        return value.size == 0
    return value.problem is None or (value.kind == "mismatch" and ": " in value.problem)


def test_every_value_is_explained():
    kinds: Counter[str] = Counter()
    for name, text in TEXTS.items():
        assignment = of_text(text)
        kinds += assignment.kinds()
        for value in assignment.values:
            assert is_explained(value), (name, str(value))
            assert (value.problem is None) == (value.kind in ("array", "element", "dynamic"))
            if value.kind == "array":
                assert value.shape.byte_size == value.size
    total = sum(kinds.values())
    assert total == 6457
    assert kinds == {"array": 5454, "tuple": 914, "element": 71, "mismatch": 11, "dynamic": 2, "token": 5}


@pytest.mark.parametrize("name", PROTOS)
def test_text_and_proto_agree(name):
    text, proto = of_text(TEXTS[name]), read_allocations(PROTOS[name])
    for one, other in zip(text, proto, strict=True):
        assert one.describe().replace(", page 0", "").partition(", output shape")[0] in other.describe()
        assert other.parameter_shape == one.parameter_shape  # no text of what is no parameter
        for mine, theirs in zip(one.values, other.values, strict=True):
            for name in ("id", "label", "offset", "size", "shape", "memory_space"):
                assert getattr(mine, name) == getattr(theirs, name)


def test_a_parameter_of_many_parts_is_gathered_about_as_fast_as_they_are_sorted():
    parts = [Allocation(k, 8, parameter_number=1, parameter_shape_index=(k,)) for k in reversed(range(20_000))]
    start = time.process_time()
    ordered = sorted(parts, key=lambda one: one.parameter_shape_index)
    sorted_at = time.process_time()
    found = BufferAssignment(tuple(parts)).parameters
    assert time.process_time() - sorted_at < 100 * (sorted_at - start) + 0.1
    assert found == {1: tuple(ordered)}


def test_protos_tell_aliases_and_what_is_alive_at_the_peak():
    proto = read_allocations(PROTOS["module_0000.jit_prog_while_loop.cpu_after_optimizations"])
    assert (6, "while.0{0}") in proto.aliases
    assert all(set(one.peak_values) <= {value.id for value in one.values} for one in proto)
    assert any(len(one.peak_values) > 1 for one in proto)


def test_bindings_and_memory_spaces():
    assignment = of_text(TEXTS[SMALL_TPU])
    parameters = {number: [one.index for one in found] for number, found in assignment.parameters.items()}
    assert parameters == {0: [2], 1: [1], 2: [3]}
    assert [one.index for one in assignment.outputs] == [5, 6, 7, 9]
    assert assignment.allocation(9).output_shape == "(bf16[129], s4[17,129], f32[3,5])"
    assert assignment.value("fusion{0}").shape.layout.element_size_in_bits == 4
    assert assignment.value("%copy-start{0}").memory_space == 1
    assert assignment.value("copy-start").kind == "tuple"
    assert assignment.bytes_by_memory_space() == {0: 146016, 1: 104448, 2: 4}
    nested = of_text(TEXTS["raw_entry_tuple_param"])
    assert {one.parameter_shape_index for one in nested.parameters[0]} >= {(0,), (1,)}


def test_a_printed_assignment_shows_the_largest_first():
    shown = str(of_text(TEXTS[SMALL_TPU]))
    assert shown.startswith("13 allocations, 14 values: 146016 bytes in memory space 0, ")
    assert "allocation 1: size 104448, page 0, parameter 1" in shown.splitlines()[1]


# ---- versions ----


def test_texts_of_older_versions():
    old = (
        HEAD
        + "allocation 0: 0x55d0c0ffee, size 60, parameter 0, shape |f32[3,5]| at ShapeIndex {}:\n"
        + " value: <3 p0 @0> (size=60,offset=0): f32[3,5]{1,0}\n"
        + "allocation 1: size 60, maybe-live-out, a-new-word 7:\n"
        + " value: <4 %add.1 (phi)> (size=60,offset=0): f32[3,5]{1,0}\n"
        + "\nTotal bytes used: 120 (120B)\n\nUsed values:\n<3 p0 @0>\n positions:\n  p0\n"
    )
    assignment = of_text(old)
    assert not assignment.unread
    assert [value.name for value in assignment.values] == ["p0", "%add.1"]
    assert assignment.values[1].is_phi
    assert assignment.allocation(1).others == ("a-new-word 7",)


def test_windows_line_ends_and_gzip():
    text = gzip.compress(TEXTS[SMALL_TPU].replace("\n", "\r\n").encode())
    assert read_allocations(text) == of_text(TEXTS[SMALL_TPU])


@pytest.mark.parametrize("kind", [None, "text"])
def test_a_text_in_utf_16_is_called_that(kind):
    for encoding in ("utf-16-le", "utf-16-be"):
        data = f"\ufeff{TEXTS[SMALL_TPU]}".encode(encoding)
        for source in (data, gzip.compress(data)):
            with pytest.raises(DumpError, match="UTF-16"):
                read_allocations(source, kind=kind)


def test_a_quoted_text_is_indented():
    text = TEXTS[SMALL_TPU]
    for indent in ("  ", "\t", "\t\t "):
        assert of_text("".join(f"{indent}{line}" for line in text.splitlines(keepends=True))) == of_text(text)


def test_a_str_of_several_lines_is_the_text_itself():
    assert read_allocations(TEXTS[SMALL_TPU]) == of_text(TEXTS[SMALL_TPU])


@pytest.mark.parametrize("end", ["", "Total bytes used: 60 (60B)\n\nUsed values:\n"])
def test_two_texts_in_one_are_refused(end):
    one = HEAD + "allocation 0: size 60:\n value: <3 p0 @0> (size=60,offset=0): f32[3,5]{1,0}\n" + end
    second = one.count("\n") + 1
    with pytest.raises(DumpError, match=f"line {second}: a second buffer assignment begins here"):
        of_text(one + one)


def test_a_text_of_which_nothing_is_understood_is_refused():
    with pytest.raises(DumpError, match="no allocation in this buffer assignment, but '> allocation 0"):
        of_text(HEAD + "> allocation 0: size 8:\n>  value: <1 a @0> (size=8,offset=0): f32[2]{0}\n")


def test_lines_that_nobody_understands_are_kept_and_counted():
    text = HEAD + "allocation 0: size x:\nallocation 1: size 8:\n value: <1 a @0> (size=8,offset=0): f32[2]{0}\nwhat\n"
    with pytest.warns(DumpWarning, match=r"2 lines were not understood \(line 2: 'allocation 0"):
        assignment = of_text(text)
    assert [number for number, _ in assignment.unread] == [2, 5]
    assert assignment.value("a").size == 8


# ---- texts that were cut ----


def test_every_cut_is_refused_or_leaves_whole_lines():
    text = TEXTS[SMALL_TPU]
    whole = of_text(text)
    values = set(whole.values)
    silent = 0
    for end in range(len(HEAD), len(text)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DumpWarning)
            try:
                cut = of_text(text[:end])
            except (DumpError, DumpWarning):
                continue
        silent += 1
        assert text[:end].rstrip(" ").endswith("\n") or text[end] == "\n", text[:end][-80:]
        assert not cut.is_complete
        assert [one.describe() for one in cut] == [one.describe() for one in whole][: len(cut)]
        assert set(cut.values) <= values
    assert silent < 3 * text.count("\n")


@pytest.mark.parametrize(
    "end",
    [
        "(f32[2]{0}, bf16",
        "(bf16",
        "bf16[2,2]{1,0:T(2,128",
        "f32[3]{0}\n value: <4 b{0} @0> (size=8,off",
        "f32[3]{0}\nallocation 1: size 8",
        "f32[3]{0}\nallocation 1: size 8, maybe-li",
        "f32[3]{0}\nalloc",
        "f32[3]{0}\n\nTotal by",
        "",
    ],
)
def test_a_text_that_ends_inside_of_a_line_is_refused(end):
    text = f"{HEAD}allocation 0: size 12, maybe-live-out:\n value: <3 a{{}} @0> (size=12,offset=0): {end}"
    with pytest.raises(DumpError, match=rf"line {text.count(chr(10)) + 1}, column \d+: the text ends inside this line"):
        of_text(text)


HELD = """allocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}:
 value: <1 a @0> (size=8,offset=0): f32[2]{0}
"""
TEMPORARY = """allocation 1: size 16, preallocated-temp:
 value: <2 b @0> (size=8,offset=0): f32[2]{0}
"""


@pytest.mark.parametrize(
    ("rest", "sign"),
    [
        ("", "it has no allocation"),
        (HELD + "allocation 1: size 4:\n", "allocation 1 has no values"),
        (HELD + HELD.replace("allocation 0", "allocation 2"), "allocation 1 is missing"),
        (HELD.replace("parameter 0", "parameter 1"), "parameter 0 has no allocation"),
        (HELD + TEMPORARY, "the values of allocation 1 end at byte 8 of 16"),
        (HELD[: HELD.rindex("{")], "its last line has no end"),
        (HELD + "\nTotal bytes used: 20 (20B)\n", "its allocations have 8 bytes in all, but its total is 20"),
    ],
)
def test_what_a_cut_text_lacks_is_said(rest, sign):
    with pytest.warns(DumpWarning, match=f"buffer assignment: the text was cut: {sign}"):
        assignment = of_text(HEAD + rest)
    assert assignment.cut == sign
    assert not assignment.is_complete


def test_whole_texts_are_not_called_cut():
    for text in (HEAD + HELD, (HEAD + HELD).strip(), HEAD + HELD + "allocation 1: size 0, color 1, preallocated-temp:"):
        assignment = of_text(text)
        assert (assignment.cut, assignment.is_complete) == ("", False)
    assert of_text(f"{HEAD}{HELD}\nTotal bytes used: 8 (8B)\n\nUsed values:\n<1 a @0>\n pos").is_complete
    assert all(read_allocations(data).is_complete for data in PROTOS.values())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "without a buffer assignment"),
        (b"HloModule m\n", "a text that does not begin with 'BufferAssignment:' is no buffer assignment"),
        (serialized("HloModuleProto", name="m", entry_computation_name="e", computations=[{}]), "a module alone"),
        (serialized("HloProto", hlo_module={}, buffer_assignment={})[:-1] + b"\x03\x0a\xff\x01", "field 1"),
    ],
)
def test_what_is_no_assignment_is_refused(data, words):
    with pytest.raises(DumpError, match=words):
        read_allocations(data)


@pytest.mark.parametrize("name", PROTOS)
def test_an_assignment_without_its_module_is_told_from_an_hlo_proto(name):
    (alone,) = (bytes(one.value) for one in fields(memoryview(PROTOS[name]), "HloProto") if one.number == 3)
    for read in (read_allocations, sd.memory_report):
        with pytest.raises(DumpError, match="a buffer assignment without its module"):
            read(alone)


@pytest.mark.jax
def test_a_program_that_jax_compiled_has_the_assignment_that_its_figures_tell_of():
    jax = pytest.importorskip("jax")
    x, y = np.ones((512, 300), np.float32), np.ones((300, 700), np.float32)
    compiled = jax.jit(lambda x, y: (jax.numpy.tanh(x @ y) @ y.T, jax.numpy.sort(x))).lower(x, y).compile()
    assignment, figures = read_allocations(compiled), compiled.memory_analysis()
    arguments = {one.size for number in (0, 1) for one in assignment.parameters[number]}
    assert arguments == {x.nbytes, y.nbytes}
    assert sum(one.size for one in assignment.outputs) == figures.output_size_in_bytes
    temporaries = [one.size for one in assignment if one.is_preallocated_temp and not one.is_thread_local]
    assert sum(temporaries) == figures.temp_size_in_bytes > 0
    assert all(value.shape is not None for value in assignment.values)


class NoAssignment:
    """A compiled program as JAX gives it on a platform that tells `figures` of its memory and keeps so many modules."""

    def __init__(self, figures: Any, modules: int) -> None:
        self.figures, self.modules = figures, modules

    def memory_analysis(self) -> Any:
        return self.figures

    def runtime_executable(self) -> Any:
        return self

    def hlo_modules(self) -> list[None]:
        if not self.modules:
            raise RuntimeError("UNIMPLEMENTED")
        return [None] * self.modules


@pytest.mark.parametrize(
    ("figures", "modules"), [(None, 1), (b"", 1), (b"\x0a\x00", 0), (b"\x0a\x00", 2)], ids=["none", "empty", "0", "2"]
)
def test_a_compiled_program_without_an_assignment_is_refused(figures, modules):
    if figures is not None:
        figures = SimpleNamespace(serialized_buffer_assignment_proto=figures)
    with pytest.raises(UnsupportedError, match="JAX provides no buffer assignment for this program"):
        read_allocations(NoAssignment(figures, modules))


def test_the_guess_can_be_overridden():
    with pytest.raises(DumpError, match="expected a buffer assignment, which begins 'BufferAssignment:'"):
        read_allocations(PROTOS[SMALL_TPU], kind="text")
    with pytest.raises(ValueError, match="kind must be one of 'text', 'proto', not 'picture'"):
        read_allocations(b"", kind="picture")


# ---- images ----


def image_of(assignment: BufferAssignment, index: int) -> tuple[np.ndarray, dict[str, Any]]:
    """An image of an allocation, and what is in it: later values overwrite earlier ones."""
    allocation = assignment.allocation(index)
    image = np.zeros(allocation.size, np.uint8)
    rng = np.random.default_rng(0)
    written = {}
    for value in allocation.values:
        shape = value.array_shape
        if shape is None:
            continue
        content = rng.integers(0, 7, shape.dimensions).astype(shape.dtype)
        laid = LayoutArray.from_numpy(content, shape)
        image[value.offset : value.offset + laid.buffer.size] = laid.buffer
        written[value.label] = content
    return image, written


def test_values_are_read_at_their_offsets(tmp_path):
    assignment = of_text(TEXTS[SMALL_TPU])
    for index in (1, 2, 3, 5, 6, 7, 12):
        image, written = image_of(assignment, index)
        path = tmp_path / f"{index}.bin"
        path.write_bytes(image.tobytes())
        arrays = assignment.open({index: path})
        assert list(arrays) == list(written)
        assert not arrays.unreadable
        for name, content in written.items():
            np.testing.assert_array_equal(np.asarray(arrays[name]), content)
            assert arrays[name].xla_shape == assignment.value(name).shape


def test_one_image_of_a_memory_space():
    assignment = of_text(TEXTS[SMALL_TPU])
    image, written = image_of(assignment, 12)
    arrays = assignment.open(image, memory_space=1)
    np.testing.assert_array_equal(arrays["copy-start{0}"].to_numpy(), written["copy-start{0}"])
    first, more = image_of(assignment, 2)
    second, others = image_of(assignment, 6)
    whole = np.concatenate([np.zeros(100, np.uint8), first, second])
    arrays = assignment.open(whole, at={2: 100, 6: 100 + first.size})
    for name, content in {**more, **others}.items():
        np.testing.assert_array_equal(arrays[name].to_numpy(), content)
    with pytest.raises(DumpError, match=r"memory space 0 holds 8 allocations .* give at="):
        assignment.open(whole)
    with pytest.raises(DumpError, match="there is no allocation 99"):
        assignment.open({99: whole})
    with pytest.raises(DumpError, match="cannot begin at byte -1"):
        assignment.open(whole, at={2: -1})


def test_overlapping_values_share_the_bytes_of_a_writable_image():
    text = (
        HEAD
        + "allocation 0: size 32, preallocated-temp:\n"
        + " value: <1 a @0> (size=32,offset=0): f32[8]{0}\n value: <2 b @0> (size=16,offset=8): s32[2,2]{0,1}\n"
    )
    assignment = of_text(text)
    assert [(one.label, other.label) for one, other in assignment.allocation(0).overlaps()] == [("a", "b")]
    assert [value.label for value in assignment.allocation(0).values_at(4)] == ["a"]
    image = bytearray(32)
    arrays = assignment.open(image)
    arrays["b"][1, 0] = 0x3F800000
    assert arrays["a"].to_numpy().tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert bytes(image[12:16]) == np.float32(1).tobytes()


def test_values_that_cannot_be_read_are_listed_with_the_reason():
    text = (
        HEAD
        + "allocation 0: size 8192, preallocated-temp:\n"
        + " value: <1 pair{} @0> (size=16,offset=0): (f32[2]{0}, s32[])\n"
        + " value: <2 token @0> (size=0,offset=16): token[]\n"
        + " value: <3 odd @0> (size=100,offset=0): f32[8]{0}\n"
        + " value: <4 far @0> (size=32,offset=8190): f32[8]{0}\n"
        + " value: <5 new @0> (size=32,offset=0): f99[8]{0}\n"
        + " value: <6 scalar @0> (size=4096,offset=4): f32[]\n"
        + " value: <7 word @2> (size=4,offset=0): u32[]{:T(128)S(2)}\n"
        + " value: <8 sized @0> (size=1056,offset=0): f32[<=8]{0:M(1024)}\n"
        + " value: <9 unsized @0> (size=1056,offset=0): f32[<=8]{0}\n"
        + " value: <10 bare @0> (size=4096,offset=0): f32[3,5]{1,0}\n"
    )
    arrays = of_text(text).open(np.arange(8192).astype(np.uint8))
    assert list(arrays) == ["scalar", "word", "sized"]
    assert {name: problem[:38] for name, problem in arrays.unreadable.items()} == {
        "pair{}": "a tuple: a table of 2 pointers in 16 b",
        "token": "a token has no elements that could be ",
        "odd": "its size is 100 bytes, its shape needs",
        "far": "it lies at bytes 8190 to 8222 of its a",
        "new": "no shape: 'f99[8]{0}'",
        "unsized": "its size is 1056 bytes, its shape need",
        "bare": "its size is 4096 bytes, its shape need",
    }
    assert "it has its size in tiles of (8,128)" in arrays.unreadable["bare"]
    assert "hold its dynamic sizes" in arrays.unreadable["unsized"]
    assert arrays["word"].to_numpy() == 0x03020100
    assert arrays["scalar"].to_numpy().view(np.uint32) == 0x07060504
    assert arrays["sized"].to_numpy().view(np.uint8)[:3].tolist() == [0, 1, 2]
    assert "3 arrays, 7 values unreadable (3 mismatch, 1 tuple, 1 token, 1 array, 1 unknown)" in str(arrays)
    with pytest.raises(DumpError, match=r"pair\{\}: a tuple"):
        arrays["pair{}"]
    with pytest.raises(KeyError, match="no value is named"):
        arrays["nobody"]
    with pytest.raises(KeyError, match=r"no value is named 'wor' in these allocations; did you mean word\?"):
        arrays["wor"]


def test_what_an_image_lacks_is_told_by_its_own_bytes():
    text = (
        "BufferAssignment:\n"
        "allocation 0: size 64:\n"
        " value: <1 first @0> (size=64,offset=0): f32[16]{0}\n"
        "allocation 1: size 128:\n"
        " value: <2 second @0> (size=64,offset=64): f32[16]{0}\n"
    )
    assignment = of_text(text)
    arrays = assignment.open(bytes(1000), at={0: 900, 1: 872})
    assert list(arrays) == ["first", "second"]
    arrays = assignment.open(bytes(1000), at={0: 900, 1: 873})
    assert arrays.unreadable == {"second": "it lies at bytes 937 to 1001 of the image, which has 1000"}
    with pytest.raises(KeyError, match="'second' lies in allocation 1, for which no image is given"):
        assignment.open(bytes(1000), at={0: 900})["second"]
    with pytest.raises(DumpError, match=r"no value is named 'secnd'; did you mean second\?"):
        assignment.value("secnd")


def test_every_value_of_every_image_opens_or_has_a_reason():
    for text in TEXTS.values():
        assignment = of_text(text)
        images = {one.index: np.zeros(one.size, np.uint8) for one in assignment if one.size < 1 << 20}
        arrays = assignment.open(images)
        for name in arrays:
            assert arrays[name].shape == arrays.value(name).shape.dimensions
        assert all(arrays.value(name).problem for name in arrays.unreadable)


# ---- safety ----


@given(st.sampled_from(sorted(PROTOS)), st.integers(0, 1 << 16), st.binary(max_size=4), st.booleans())
def test_mangled_protos_end_in_a_value_or_a_dump_error(name, place, piece, cut):
    data = PROTOS[name]
    place %= len(data)
    data = data[:place] if cut else data[:place] + piece + data[place + len(piece) :]
    try:
        assignment = read_allocations(data, kind="proto")
    except DumpError:
        return
    assert str(assignment)
    assert sum(assignment.kinds().values()) == len(assignment.values)


@given(st.integers(0, 2000), st.text(max_size=6), st.booleans())
def test_mangled_texts_end_in_a_value_or_a_dump_error(place, piece, cut):
    text = TEXTS[SMALL_TPU]
    text = text[:place] if cut else text[:place] + piece + text[place + len(piece) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)
        try:
            assignment = read_allocations(text.encode("utf-8", "surrogatepass"), kind="text")
        except DumpError:
            return
    assert str(assignment)
    assert sum(assignment.kinds().values()) == len(assignment.values)
    images = {one.index: bytes(min(one.size, 4096)) for one in assignment}
    arrays = assignment.open(images)
    assert len(arrays) + len(arrays.unreadable) <= len(assignment.values)


@pytest.mark.parametrize(
    "line",
    [
        lambda n: "allocation 0: size 1" + ", parameter 1, shape |" * (n // 10),
        lambda n: " value: <1 " + ">" * n,
        lambda n: " value: <1 " + "{1," * n + "> (size=1,offset=0): f32[]",
        lambda n: " value: <1 " + "{1,1} @3> (size=1,offset=0)" * (n // 10),
        lambda n: " value: <1 a @0> (size=1,offset=0): " + "(" * n,
        lambda n: "allocation 0: size " + "9" * n + ":",
        lambda _: f"allocation 0: size {2**63 - 1}:\n value: <1 a @0> (size=1,offset=0): f32[{2**63 - 1}]{{0}}",
    ],
    ids=["attributes", "angles", "indices", "values", "braces", "digits", "claims"],
)
@pytest.mark.slow
def test_bombs_take_linear_time(line):
    def read(text):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DumpWarning)
            assignment = of_text(f"{HEAD}allocation 7: size 4:\n{text}\n")
            assert len(assignment.kinds()) <= 1
            str(assignment)

    read(line(50_000))
    check_linear(lambda size: partial(read, line(size)), 60)
