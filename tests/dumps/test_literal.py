"""Literals: every element type both ways, views of the file, refusals; judged by XLA itself if jaxlib is installed."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.dumps.literals.literal import Literal, value_fields
from strided.dumps.literals.writer import literal_pieces, write_literal
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.shapes import write_shape
from strided.errors import DumpError
from strided.layout.element_types import ELEMENT_TYPES
from tests import protos
from tests.protos import parsed
from tests.steps import check_linear
from tests.strategies import damaged
from tests.thinned import examples

ARRAY_TYPES = [element for element in ELEMENT_TYPES.values() if element.is_array]
LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(2,2)}", "{0,1:T(4)}"]

#: Types whose values are the same in the file and in memory.
VIEWED = [e for e in ARRAY_TYPES if e.name not in ("s32", "s64", "u32", "u64")]


def values_of(name: str, shape: tuple[int, ...] = (3, 5), seed: int = 0) -> np.ndarray:
    """Random bits of a type, in NumPy's form: one byte an element below eight bits, nothing above them."""
    element = ELEMENT_TYPES[name]
    raw = np.random.default_rng(seed).integers(0, 256, (*shape, element.storage_bits // 8), np.uint8)
    if element.packs:
        raw &= (1 << element.bits) - 1
    return raw.view(element.dtype)[..., 0]


def bits(x) -> bytes:
    """The bytes of an array, without what lies above the bits of a narrow type."""
    x = np.ascontiguousarray(x)
    raw = x.reshape(-1).view(np.uint8)
    element = sd.layout.element_types.element_type_of_dtype(x.dtype)
    return bytes(raw & ((1 << element.bits) - 1) if element.packs else raw)


def proto(shape: str, *fields: bytes) -> bytes:
    return wire.bytes_field(1, write_shape(sd.parse(shape))) + b"".join(fields)


def read(data: bytes):
    return Literal.of_proto(data).value


# ---- LiteralProto, both ways ----


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("element", ARRAY_TYPES, ids=lambda e: e.name)
def test_every_type_comes_back(element, layout):
    x = values_of(element.name)
    array = sd.LayoutArray.from_numpy(x, layout, element_type=element.name)
    back = read(write_literal(array))
    assert str(back.xla_shape) == f"{element.name}[3,5]{{{layout[1:4]}}}"
    assert back.dtype == x.dtype
    assert bits(np.asarray(back)) == bits(x)


def test_elements_lie_in_physical_order():
    x = np.arange(15, dtype=np.uint8).reshape(3, 5)
    data = write_literal(sd.LayoutArray.from_numpy(x, "{0,1}"))
    assert data.endswith(x.T.tobytes())
    assert write_literal(x).endswith(x.tobytes())
    assert write_literal(sd.LayoutArray.from_numpy(x, "{0,1}")[:, ::2]).endswith(x[:, ::2].tobytes())


def test_narrow_values_have_nothing_above_their_bits():
    data = write_literal(np.array([-1, -8, 7]).astype(sd.parse("s4[]").dtype))
    assert data.endswith(bytes([0x0F, 0x08, 0x07]))
    packed = sd.LayoutArray(bytes([0x21, 0xF3]), "s4[3]{0:E(4)}")
    assert write_literal(packed).endswith(bytes([1, 2, 3]))


@pytest.mark.parametrize("element", VIEWED, ids=lambda e: e.name)
def test_values_are_views_of_the_file(element):
    data = bytearray(write_literal(values_of(element.name)))
    value = read(data)
    assert np.shares_memory(value.buffer, np.frombuffer(data, np.uint8))


def test_scalars_and_empty_arrays():
    for x in (np.float32(2.5), np.zeros((0, 5), np.int32), np.zeros((3, 0), np.float32)):
        back = read(write_literal(x))
        assert back.shape == np.shape(x)
        np.testing.assert_array_equal(np.asarray(back), x)
    assert len(write_literal(np.zeros((0, 5), np.float32))) == 2 + len(write_shape(sd.parse("f32[0,5]{1,0}")))


def test_tuples_and_tokens():
    value = (np.float32([1, 2]), (np.int8(3), ()), None)
    literal = Literal.of_proto(write_literal(value))
    assert str(literal.shape) == "(f32[2]{0}, (s8[], ()), token[])"
    first, (second, third), token = literal.value
    assert np.asarray(first).tolist() == [1, 2]
    assert np.asarray(second) == 3
    assert (third, token) == ((), None)
    assert [str(element.shape) for element in literal.elements] == ["f32[2]{0}", "(s8[], ())", "token[]"]
    assert literal.elements[0].value is first


def test_large_values_are_not_copied_to_be_written():
    array = sd.LayoutArray(bytearray(4 * 1000), "f32[1000]{0}")
    pieces = literal_pieces(array)
    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), array.buffer) for piece in pieces if len(piece))


# ---- dynamic dimensions ----


@pytest.mark.parametrize("shape", ["s32[<=4,<=6]{1,0}", "u8[<=4,6]{0,1}", "f32[4,<=6]{0,1}"])
def test_dynamic_arrays_show_what_is_in_use(shape):
    whole = sd.LayoutArray(np.arange(24 * sd.parse(shape).dtype.itemsize, dtype=np.uint8), shape)
    dynamic = sd.parse(shape).dynamic
    part = whole[tuple(slice(2 if d else None) for d in dynamic)]
    back = read(write_literal(part))
    assert back.shape == part.shape
    assert str(back.xla_shape) == shape
    np.testing.assert_array_equal(np.asarray(back), np.asarray(part))
    assert bytes(back.buffer) == bytes(whole.buffer)
    assert read(write_literal(whole)).shape == (4, 6)


def test_metadata_in_front_of_a_dynamic_array_are_not_written():
    array = sd.LayoutArray(bytes(64) + b"abcd", "u8[<=4]{0:M(64)}")
    back = read(write_literal(array[:3]))
    assert str(back.xla_shape) == "u8[<=4]{0}"
    assert bytes(np.asarray(back)) == b"abc"


def test_another_view_of_a_dynamic_array_is_static():
    whole = sd.LayoutArray(bytes(range(24)), "u8[<=4,<=6]{1,0}")
    back = read(write_literal(whole[1:, ::2]))
    assert str(back.xla_shape) == "u8[3,3]{1,0}"
    np.testing.assert_array_equal(np.asarray(back), np.asarray(whole)[1:, ::2])


def test_without_sizes_a_dynamic_array_is_full():
    assert read(proto("u8[<=3]{0}", wire.bytes_field(3, b"abc"))).shape == (3,)


@pytest.mark.parametrize("sizes", [(4,), (-1,), (1, 1)])
def test_dynamic_sizes_must_fit(sizes):
    data = proto("u8[<=3]{0}", wire.bytes_field(3, b"abc"), wire.integers_field(34, sizes))
    with pytest.raises(DumpError, match="dynamic sizes"):
        read(data)


def test_sizes_of_static_arrays_do_not_matter():
    assert read(proto("u8[3]{0}", wire.bytes_field(3, b"abc"), wire.integers_field(34, (1,)))).shape == (3,)


# ---- other writers ----


def test_values_may_be_unpacked_or_in_several_runs():
    loose = b"".join(wire.tag(8, wire.FIXED32) + np.float32(v).tobytes() for v in (1, 2))
    run = wire.bytes_field(8, np.float32([3, 4]).tobytes())
    assert np.asarray(read(proto("f32[4]{0}", loose, run))).tolist() == [1, 2, 3, 4]
    assert np.asarray(read(proto("f32[4]{0}", run, loose))).tolist() == [3, 4, 1, 2]
    ints = wire.integer_field(4, -7) + wire.integers_field(4, (8, 9)) + wire.integer_field(4, 10)
    assert np.asarray(read(proto("s32[4]{0}", ints))).tolist() == [-7, 8, 9, 10]
    preds = wire.integer_field(2, 1) + wire.tag(2, 0) + b"\x00" + wire.integer_field(2, 1)
    assert np.asarray(read(proto("pred[3]{0}", preds))).tolist() == [True, False, True]


def test_any_number_but_zero_is_true():
    for payload in (b"\x00\x01\x05", b"\x00\x80\x01\x05", b"\x80\x00\x7f\xff\x01"):
        assert np.asarray(read(proto("pred[3]{0}", wire.bytes_field(2, payload)))).tolist() == [False, True, True]


def test_the_last_run_of_bytes_wins():
    value = read(proto("u8[2]{0}", wire.bytes_field(3, b"ab"), wire.bytes_field(3, b"cd")))
    assert bytes(np.asarray(value)) == b"cd"


def test_tiles_and_packing_mean_nothing_in_a_literal():
    data = proto("s4[2,3]{0,1:T(8,128)E(4)S(5)}", wire.bytes_field(21, bytes(range(6))))
    value = read(data)
    assert str(value.xla_shape) == "s4[2,3]{0,1}"
    assert np.asarray(value).astype(int).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_shape_in_two_parts_and_unknown_fields():
    shape = write_shape(sd.parse("u8[2]{0}"))
    data = wire.bytes_field(1, shape[:2]) + wire.bytes_field(99, b"new") + wire.bytes_field(1, shape[2:])
    assert np.asarray(read(data + wire.bytes_field(3, b"ab"))).tolist() == [97, 98]


# ---- refusals ----


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "LiteralProto: no shape"),
        (proto("f32[3,5]{1,0}"), r"LiteralProto.f32s: f32\[3,5\]\{1,0\} needs 60 bytes, found 0"),
        (proto("f32[2]{0}", wire.bytes_field(8, bytes(9))), "needs 8 bytes, found 9"),
        (proto("f32[2]{0}", wire.bytes_field(9, bytes(16))), "needs 8 bytes, found 0"),
        (proto("s32[3]{0}", wire.integers_field(4, (1, 2))), "expected 3 numbers, found 2"),
        (proto("s32[1]{0}", wire.bytes_field(4, b"\x80")), "the last varint has no end"),
        (proto("s32[1]{0}", wire.bytes_field(4, b"\x80" * 12 + b"\x01")), "more than ten bytes"),
        (proto("pred[3]{0}", wire.bytes_field(2, b"\x01\x00")), "expected 3 numbers, found 2"),
        (proto("u8[2]{0}", wire.integer_field(3, 7)), "should hold a run of bytes, found a varint"),
        (proto("b(u8[2]{0})"), r"b\(u8\[2\]\{0\}\) has no literals"),
        (proto("u8[?]{0}"), "dimension of unknown size"),
        (proto(f"u8[1{',1' * 64}]", wire.bytes_field(3, b"a")), "more than an ndarray can be"),
        (proto(f"u8[0,{2**62},8]"), r"u8\[0,4611686018427387904,8\]\{2,1,0\} is more than an ndarray can be"),
        (proto("(u8[2]{0})"), "0 literals in a tuple of 1"),
        (proto("()", wire.bytes_field(10, proto("token[]"))), "1 literals in a tuple of 0"),
        (wire.integer_field(1, 5), "should hold a run of bytes"),
    ],
)
def test_what_is_no_literal_is_refused(data, words):
    with pytest.raises(DumpError, match=words):
        read(data)


@pytest.mark.parametrize("name", ["u8", "f32", "s32", "pred", "s4", "c128"])
def test_a_claim_of_very_many_elements_allocates_nothing(name):
    field = value_fields()[name]
    data = proto(f"{name}[{2**50}]{{0}}", wire.bytes_field(field.number, b"\x01" * 100))
    tracemalloc.start()
    with pytest.raises(DumpError, match="found 100"):
        read(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_arrays_of_as_many_dimensions_as_numpy_has():
    assert np.asarray(read(proto(f"u8[1{',1' * 63}]", wire.bytes_field(3, b"a")))).shape == (1,) * 64


def test_very_many_dimensions_take_no_time():
    for first in (1, 0):

        def refuse(count, first=first):
            sizes = wire.integers_field(3, (first, *(2**62 if not first else 1,) * count))
            with pytest.raises(DumpError, match="more than an ndarray can be"):
                read(wire.bytes_field(1, wire.integer_field(2, 6) + sizes))

        refuse(50_000)
        check_linear(lambda count, refuse=refuse: partial(refuse, count), 100)


def test_nesting_stops_at_a_hundred():
    value: tuple = ()
    for _ in range(99):
        value = (value,)
    assert read(write_literal(value)) == value
    value = ((value,),)
    with pytest.raises(DumpError, match="nested more than 100 deep"):
        write_literal((value,))
    data = proto("()")
    for _ in range(500):
        data = wire.bytes_field(1, wire.integer_field(2, 13)) + wire.bytes_field(10, data)
    with pytest.raises(DumpError, match="nested more than 100 deep"):
        read(data)


def test_errors_name_the_byte_of_the_file():
    data = proto("f32[2]{0}", wire.bytes_field(8, bytes(9)))
    with pytest.raises(DumpError, match="byte") as caught:
        _ = Literal.of_proto(data, 1000).value
    assert caught.value.position == 1000 + len(data) - 9


# ---- the runtime's form ----


def serialized(shape: str, *values: bytes) -> bytes:
    head = write_shape(sd.parse(shape))
    return len(head).to_bytes(8, "little") + head + b"".join(values)


def read_serialized(data: bytes):
    return Literal.of_serialized(data).value


def test_narrow_types_are_packed_low_bits_first():
    four = np.asarray(read_serialized(serialized("s4[5]{0}", bytes.fromhex("21430f")))).astype(int)
    assert four.tolist() == [1, 2, 3, 4, -1]
    preds = np.asarray(read_serialized(serialized("pred[9]{0}", bytes.fromhex("0d01"))))
    assert preds.tolist() == [True, False, True, True, False, False, False, False, True]
    two = np.asarray(read_serialized(serialized("u2[2,3]{0,1}", bytes.fromhex("e40e")))).astype(int)
    assert two.tolist() == [[0, 2, 2], [1, 3, 3]]
    assert np.asarray(read_serialized(serialized("s1[3]{0}", b"\x05"))).astype(int).tolist() == [-1, 0, -1]


def test_serialized_values_are_views_of_the_file():
    data = bytearray(serialized("s4[5]{0}", bytes.fromhex("21430f")))
    assert np.shares_memory(read_serialized(data).buffer, np.frombuffer(data, np.uint8))


def test_serialized_tuples_stand_depth_first():
    data = serialized("((u8[2]{0}, pred[3]{0}), token[], s16[1,2]{0,1})", b"ab", b"\x05", bytes([1, 0, 2, 0]))
    (first, second), token, third = read_serialized(data)
    assert np.asarray(first).tolist() == [97, 98]
    assert np.asarray(second).tolist() == [True, False, True]
    assert token is None
    assert np.asarray(third).tolist() == [[1, 2]]


def test_serialized_dynamic_sizes():
    data = serialized("(u8[<=4,2]{1,0}, u8[1]{0})", np.int32([3, 2]).tobytes(), bytes(range(8)), b"z")
    first, second = read_serialized(data)
    assert np.asarray(first).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert np.asarray(second).tolist() == [122]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x01\x02", "the length of a literal's shape should be 8 bytes long, 2 bytes remained"),
        (b"\xff" * 8, "the shape of a literal should be -1 bytes long"),
        ((2**40).to_bytes(8, "little"), "should be 1099511627776 bytes long, 0 bytes remained"),
        (serialized("f32[2]{0}", bytes(7)), r"the values of f32\[2\]\{0\} should be 8 bytes long, 7 bytes remained"),
        (serialized("f32[2]{0}", bytes(9)), "a literal of 33 bytes"),
        (serialized("u8[<=2]{0}", bytes(3)), "the dynamic sizes"),
        (serialized("b(u8[2]{0})", bytes(2)), "has no literals"),
        (serialized(f"f32[{2**50}]{{0}}", bytes(2)), "should be 4503599627370496 bytes long"),
    ],
)
def test_what_is_no_serialized_literal_is_refused(data, words):
    with pytest.raises(DumpError, match=words):
        read_serialized(data)


# ---- damage ----


SEEDS = [
    write_literal(values_of("f32")),
    write_literal(values_of("s32")),
    write_literal(values_of("pred")),
    write_literal((values_of("s4"), (values_of("u64"), None), ())),
    proto("s32[<=4]{0}", wire.integers_field(4, (1, 2, 3, 4)), wire.integers_field(34, (2,))),
]
SERIALIZED_SEEDS = [
    serialized("((u8[2]{0}, pred[3]{0}), token[], s16[1,2]{0,1})", b"ab", b"\x05", bytes([1, 0, 2, 0])),
    serialized("u4[<=4,2]{1,0}", np.int32([3, 2]).tobytes(), bytes(range(4))),
]


def used(value) -> int:
    """Look at every element; their number."""
    if isinstance(value, tuple):
        return sum(map(used, value))
    return 0 if value is None else np.asarray(value).size


@pytest.mark.parametrize(("reader", "seeds"), [(read, SEEDS), (read_serialized, SERIALIZED_SEEDS)])
@examples(300)
@given(data=st.data())
def test_damaged_literals_end_in_a_value_or_an_error(reader, seeds, data):
    raw = data.draw(st.sampled_from(seeds).flatmap(damaged))
    try:
        assert used(reader(raw)) <= 8 * len(raw)
    except DumpError:
        pass


@pytest.mark.parametrize("seed", SEEDS[:-1], ids=range(len(SEEDS) - 1))  # the last one has a field that may be missing
def test_literals_cut_at_every_byte(seed):
    for end in range(len(seed)):
        with pytest.raises(DumpError, match=r"^byte \d+: "):
            used(read(seed[:end]))


@pytest.mark.slow
def test_unpacked_fields_by_the_thousand_hold_no_more_than_the_file():
    data = proto("u64[100000]{0}", (wire.tag(7, 0) + b"\x05") * 100_000)
    tracemalloc.start()
    assert read(data).buffer.view(np.uint64).sum() == 500_000
    assert tracemalloc.get_traced_memory()[1] < 16 * len(data)
    tracemalloc.stop()


# ---- the real XLA ----


def through_xla(literal: bytes) -> bytes:
    """A literal, read and written again by XLA as the constant of a module."""
    hlo = pytest.importorskip("jaxlib._hlo")
    number, value = (1 << 32) | 1, parsed("LiteralProto", literal)
    constant = {"name": "c", "opcode": "constant", "shape": value.shape, "literal": value, "id": number}
    program = {"result": value.shape}
    entry = {"name": "e", "instructions": [constant], "program_shape": program, "id": 1, "root_id": number}
    module = {"name": "m", "entry_computation_name": "e", "computations": [entry], "host_program_shape": program}
    data = protos.serialized("HloModuleProto", **module, id=1, entry_computation_id=1)
    back = hlo.HloModule.from_serialized_hlo_module_proto(data).as_serialized_hlo_module_proto()
    (root,) = parsed("HloModuleProto", back).computations[0].instructions
    return bytes(root.literal.SerializeToString())


#: XLA's own reader refuses LiteralProtos of these (jaxlib 0.10.2), though the fields exist.
NOT_IN_XLA = ("s1", "u1", "f6e3m2fn", "f6e2m3fn")


@pytest.mark.jax
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("element", [e for e in ARRAY_TYPES if e.name not in NOT_IN_XLA], ids=lambda e: e.name)
def test_xla_reads_what_is_written_and_writes_the_same(element, layout):
    literal = write_literal(sd.LayoutArray.from_numpy(values_of(element.name), layout, element_type=element.name))
    assert through_xla(literal) == literal


@pytest.mark.jax
def test_xla_reads_tuples_scalars_empty_and_dynamic_arrays():
    dynamic = sd.LayoutArray(np.arange(24, dtype=np.int32), "s32[<=4,<=6]{0,1}")[:2, :3]
    for value in (
        (np.float32([1, 2]), (np.int8(3), ()), values_of("s4")),
        np.float64(2),
        np.zeros((0, 3), np.int32),
        dynamic,
    ):
        literal = write_literal(value)
        assert through_xla(literal) == literal


@pytest.mark.jax
@pytest.mark.parametrize("name", NOT_IN_XLA)
def test_xla_still_cannot_read_these(name):
    with pytest.raises(RuntimeError, match="unsupported shape"):
        through_xla(write_literal(values_of(name)))
