"""LayoutArray against the oracle: every layout and element type, reading and writing, and what is never touched."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays import padding
from strided.runtime import limits
from tests import oracle
from tests.cases import (
    ARRAY_TYPES,
    CORPUS,
    DATA,
    PACKED_TYPES,
    RAW_BUFFERS,
    Case,
    dtype_of,
    patterns_of,
    some_values,
    values_of,
)
from tests.checks import Guarded, encoded, outcome, same_values, shape_of
from tests.strategies import cases
from tests.thinned import thinned

PLAIN = Case.parse("s16[3,5]{0,1:T(2,2)}")
VALUES = some_values(PLAIN)
CONTENT = encoded(PLAIN, VALUES)


def check_reading(case: Case, values: np.ndarray) -> None:
    """Values are read from the oracle's buffer, whole and one by one; the buffer stays as it was."""
    for writable in (False, True):
        guarded = Guarded(encoded(case, values), writable=writable)
        a = sd.LayoutArray(guarded.buffer, shape_of(case))
        assert a.shape == case.dimensions
        assert a.dtype == case.dtype
        same_values(a, values, case.bits)
        for index in list(oracle.indices(case.spec))[:: max(1, values.size // 5)]:
            assert type(a[index]) is type(values[index])
            same_values(a[index], values[index], case.bits)
        out = np.empty_like(values)
        assert a.to_numpy(out) is out
        same_values(out, values, case.bits)
        assert guarded.content() == encoded(case, values)


def check_writing(case: Case, values: np.ndarray) -> None:
    """Writing the values gives the oracle's buffer: elements and padding, and nothing outside."""
    fill = np.zeros((), case.dtype) if case.element_type == "f8e8m0fnu" else np.ones((), np.int8).astype(case.dtype)
    pattern = patterns_of(fill.reshape(1), case.bits)[(0,)]
    wanted = oracle.encode(case.spec, patterns_of(values, case.bits), padding=pattern)
    slots = oracle.slots(case.spec)

    def places(buffer: bytes) -> list[int]:
        return [oracle.read_bits(buffer, k, case.bits) for k in range(len(slots))]

    a = sd.LayoutArray.from_numpy(values, shape_of(case), padding=fill)
    assert a.xla_shape == shape_of(case)
    assert a.buffer.size == len(wanted)
    assert places(a.buffer.tobytes()) == places(wanted)

    # Small buffers are filled as a whole if that is faster than all their padding; both ways must work.
    for run in (0, 1 << 10):
        guarded = Guarded(b"\xa5" * len(wanted))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(padding, "_RUN_BYTES", run)
            padding._filled.cache_clear()
            b = sd.LayoutArray.from_numpy(values, shape_of(case), padding=fill, out=guarded.buffer)
        padding._filled.cache_clear()
        assert places(guarded.content()) == places(wanted)
        assert b.buffer.size == 0 or np.shares_memory(b.buffer, guarded.buffer)

    # Unknown padding stays as it is.
    guarded = Guarded(b"\xa5" * len(wanted))
    sd.LayoutArray.from_numpy(values, shape_of(case), padding="unknown", out=guarded.buffer)
    kept, patterns = bytearray(b"\xa5" * len(wanted)), patterns_of(values, case.bits)
    for index, offset in oracle.offsets(case.spec).items():
        oracle.write_bits(kept, offset, case.bits, patterns[index])
    assert guarded.content() == bytes(kept)


# --- every layout and type ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", CORPUS)
def test_the_corpus(label: str) -> None:
    case = Case.parse(CORPUS[label])
    check_reading(case, some_values(case))
    check_writing(case, some_values(case))


@pytest.mark.parametrize("element_type", thinned(ARRAY_TYPES, 3))
def test_every_element_type(element_type: str) -> None:
    """Every bit pattern of the small ones, packed where XLA packs them and unpacked as well."""
    case = Case.parse("u8[17,33]{0,1:T(8,16)(2,1)}").with_type(element_type)
    for layout in (case, Case.parse(f"{element_type}[17,33]")):
        check_reading(layout, some_values(layout))
        check_writing(layout, some_values(layout))


@given(cases())
def test_any_layout(case: Case) -> None:
    values = some_values(case, 1)
    check_reading(case, values)
    check_writing(case, values)


@given(cases(), cases(legacy=False))
def test_from_layout_to_layout(case: Case, other: Case) -> None:
    """Buffer to buffer, between any two layouts of one array, packed and unpacked."""
    values = some_values(case, 2)
    a = sd.LayoutArray(Guarded(encoded(case, values), writable=False).buffer, shape_of(case))
    for tiles in (other.tiles, ()):
        bits = other.element_bits and case.element_bits
        target = Case(case.element_type, case.dimensions, case.minor_to_major[::-1], tiles, other.tail_alignment, bits)
        if math.prod(oracle.expand(target.spec)[0]) > 20_000:
            continue
        wanted = oracle.encode(target.spec, patterns_of(values, target.bits))
        guarded = Guarded(b"\xa5" * len(wanted))
        b = a.to_layout(target.layout_text, out=guarded.buffer)
        assert b.xla_shape == shape_of(target)
        same_values(b, values, case.bits)
        content = guarded.content()
        for k in range(len(oracle.slots(target.spec))):
            assert oracle.read_bits(content, k, target.bits) == oracle.read_bits(wanted, k, target.bits)
        same_values(a.to_layout(target.layout_text), values, case.bits)


@pytest.mark.parametrize("name", RAW_BUFFERS)
def test_buffers_of_real_devices(name: str) -> None:
    """Among them bytes behind the packed ones, and undefined bits at the end."""
    raw = (DATA / "raw" / f"{name}.bin").read_bytes()
    values = np.load(DATA / "raw" / f"{name}.npy")
    a = sd.LayoutArray(raw, RAW_BUFFERS[name])
    assert np.array_equal(np.asarray(a).astype(values.dtype), values, equal_nan=values.dtype.kind in "fc")
    b = sd.open(DATA / "raw" / f"{name}.bin", RAW_BUFFERS[name])
    assert b.to_numpy().tobytes() == a.to_numpy().tobytes()


LARGE = [
    "bf16[170,300]{1,0:T(8,128)(2,1)}",
    "s4[170,300]{0,1:T(8,128)(8,1)E(4)}",
    "c128[60,70]{0,1:T(8,128)}",
    "u8[70,90]{1,0:T(32,128)(4,1)}",
    "s64[5,31,70]{1,2,0:T(4,4)}",
    "pred[200,300]{0,1:E(1)}",
    "f32[90,50]{1,0:T(4,6)(3,4)}",
]


@pytest.mark.parametrize("text", thinned(LARGE, 3))
def test_arrays_that_kernels_take(text: str) -> None:
    """Large enough not to be read by NumPy alone."""
    case = Case.parse(text)
    values = some_values(case)
    offsets = np.array(list(oracle.offsets(case.spec).values())).reshape(case.dimensions)
    guarded = Guarded(encoded(case, values))
    a = sd.LayoutArray(guarded.buffer, shape_of(case))
    same_values(a, values, case.bits)
    assert np.array_equal(a.xla_shape.offset_of(np.indices(case.dimensions)), offsets)
    part = (..., slice(None, None, -3))
    same_values(a[part], values[part], case.bits)
    changed = values.copy()
    changed[part] = some_values(case, 9)[part]
    a[part] = changed[part]
    assert guarded.content() == encoded(case, changed)
    b = a.to_layout(Case(case.element_type, case.dimensions, case.minor_to_major[::-1]).layout_text)
    same_values(b, changed, case.bits)
    check = sd.LayoutArray.from_numpy(changed, shape_of(case), padding="unknown", out=Guarded(guarded.content()).buffer)
    assert check.buffer.tobytes() == guarded.content()


# --- packed elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bitorder", ["little", "big"])
@pytest.mark.parametrize(
    "text", ["s4[3,5]{1,0:E(4)}", "u2[3,5]{0,1:T(2,4)E(2)}", "pred[3,5]{1,0:E(1)}", "u1[3,5]{0,1:E(1)}"]
)
def test_packed_elements_one_by_one(text: str, bitorder: str) -> None:
    """Neighbours in the byte keep their values, and padding its own."""
    shape = sd.parse_shape(text)
    for byte in (0x00, 0xFF, 0xA5):
        a = sd.LayoutArray(bytearray([byte] * shape.byte_size), shape, bitorder=bitorder)
        b = sd.LayoutArray(bytearray([byte] * shape.byte_size), shape, bitorder=bitorder)
        values = a.to_numpy()
        for index in np.ndindex(values.shape):
            a[index] = values[index] = values.dtype.type(sum(index) % 2)
            same_values(a, values)
        b[...] = values
        assert a.buffer.tobytes() == b.buffer.tobytes()


def test_packed_views_share_memory_where_they_share_a_byte() -> None:
    for layout in ("{1,0:E(4)}", "{0,1:T(2,4)E(4)}"):
        a = sd.LayoutArray(bytes(1 << 12), f"s4[6,8]{layout}", allow_excess=True)
        places = np.array([[a.address_map.offset_of((i, j)) * 4 // 8 for j in range(8)] for i in range(6)])
        keys = [np.s_[i:j:k, m:] for i in (0, 1) for j in (3, 6) for k in (1, 2) for m in (0, 5)] + [
            np.s_[:, ::2],
            np.s_[2:, 1::2],
        ]
        for first in keys:
            for second in keys:
                meet = bool(np.isin(places[first], places[second]).any())
                assert np.shares_memory(a[first], a[second]) == meet


@pytest.mark.parametrize("element_type", PACKED_TYPES)
@pytest.mark.parametrize("count", thinned(range(0, 19), 3))
def test_packed_vectors_of_every_length(element_type: str, count: int) -> None:
    case = Case.parse(f"{element_type}[{count}]").with_type(element_type)
    check_reading(case, some_values(case, count))
    check_writing(case, some_values(case, count))


@pytest.mark.parametrize("element_type", PACKED_TYPES)
def test_the_older_order_with_the_first_element_in_the_high_bits(element_type: str) -> None:
    for text in (f"{element_type}[19]", f"{element_type}[5,7]{{0,1:T(2,2)}}", f"{element_type}[3,0,2]"):
        case = Case.parse(text).with_type(element_type)
        values = some_values(case, 3)
        guarded = Guarded(encoded(case, values, high_first=True))
        a = sd.LayoutArray(guarded.buffer, shape_of(case), bitorder="big")
        assert a.bitorder == "big"
        same_values(a, values, case.bits)
        for index in list(oracle.indices(case.spec))[::4]:
            same_values(a[index], values[index], case.bits)
        same_values(a[::-2], values[::-2], case.bits)
        changed = values.copy()
        changed[::2] = values[:1]
        a[::2] = values[:1]
        assert guarded.content() == encoded(case, changed, high_first=True)
        b = sd.LayoutArray.from_numpy(values, shape_of(case), bitorder="big")
        patterns = patterns_of(values, case.bits)
        wanted = oracle.encode(case.spec, patterns, high_first=True)
        assert oracle.decode(case.spec, b.buffer.tobytes(), high_first=True) == patterns
        assert b.buffer.size == len(wanted)
        little = b.to_layout(case.layout_text)
        assert oracle.decode(case.spec, little.buffer.tobytes()) == patterns
        assert (
            oracle.decode(
                case.spec, little.to_layout(case.layout_text, bitorder="big").buffer.tobytes(), high_first=True
            )
            == patterns
        )


def test_an_order_of_bits_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="bitorder"):
        sd.LayoutArray(bytes(2), "s4[3]{0:E(4)}", bitorder="middle")


@pytest.mark.parametrize(
    ("text", "content", "values"),
    [
        ("s4[5]{0:E(4)}", "2143f5", [1, 2, 3, 4, 5]),
        ("s4[3]{0:E(4)}", "8f57", [-1, -8, 7]),
        ("u4[5]{0:E(4)}", "21435f", [1, 2, 3, 4, 15]),
        ("s2[5]{0:E(2)}", "2d55", [1, -1, -2, 0, 1]),
        ("u2[5]{0:E(2)}", "e4ff", [0, 1, 2, 3, 3]),
        ("s1[9]{0:E(1)}", "36f1", [0, -1, -1, 0, -1, -1, 0, 0, -1]),
        ("f4e2m1fn[4]{0:E(4)}", "21f3", [0.5, 1, 1.5, -6]),
        ("pred[3]{0}", "010001", [1, 0, 1]),
        ("s4[2,3]{0,1:E(4)}", "304152", [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_bytes_of_real_buffers(text: str, content: str, values: list[Any]) -> None:
    """Unused bits of the last byte hold anything."""
    assert np.asarray(sd.LayoutArray(bytes.fromhex(content), text)).astype(np.float64).tolist() == values


def test_a_value_of_a_small_type_lies_in_the_low_bits_of_its_byte() -> None:
    a = sd.LayoutArray(bytes.fromhex("8f07"), "s4[3]{0:E(4)}")
    assert a.dtype == ml_dtypes.int4
    assert a.to_numpy().view(np.uint8).tolist() == [0xF, 0x8, 0x7]


@pytest.mark.parametrize("text", ["f32[3]{0:E(16)}", "f32[3]{0:E(3)}", "s4[3]{0:E(2)}", "s8[3]{0:E(4)}",
                                  "f6e3m2fn[3]{0:E(6)}", "s4[3]{0:E(16)}", "u8[3]{0:E(99999999)}"])  # fmt: skip
def test_widths_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(sd.UnsupportedError, match="bits"):
        sd.LayoutArray(bytes(64), text)


def test_a_width_that_says_what_is_so_anyway() -> None:
    assert sd.LayoutArray(bytes([1, 0, 2, 0]), "u16[2]{0:E(16)}")[1] == 2
    assert sd.LayoutArray(bytes([1, 15]), "s4[2]{0:E(8)}")[1] == -1


# --- encoding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", thinned(ARRAY_TYPES, 3))
@pytest.mark.parametrize("kind", ["zero", "one", "lowest", "highest"])
def test_kinds_of_padding(element_type: str, kind: str) -> None:
    case = Case.parse("u8[3]{0:T(8)}").with_type(element_type)
    values = some_values(case)
    if kind in ("lowest", "highest") and case.dtype.kind == "c":
        with pytest.raises(sd.UnsupportedError, match="lowest or highest"):
            sd.LayoutArray.from_numpy(values, case.layout_text, kind)
        return
    a = sd.LayoutArray.from_numpy(values, shape_of(case), kind)
    patterns = [oracle.read_bits(a.buffer.tobytes(), k, case.bits) for k in range(3, 8)]
    found = values_of({(k,): p for k, p in enumerate(patterns)}, (5,), case.dtype)
    assert len(set(patterns)) == 1
    padding = found[0]
    every = all_values(element_type)
    match kind:
        case "zero":
            assert padding == 0 or element_type == "f8e8m0fnu"
            assert patterns[0] == 0
        case "one":
            assert padding == 1 or element_type in ("s1", "f8e8m0fnu")
        case "lowest":
            assert float(padding) == every.min()
        case "highest":
            assert float(padding) == every.max()


def all_values(element_type: str) -> np.ndarray:
    """Every value of a small type, the extremes of a large one; no NaN."""
    dtype = dtype_of(element_type)
    if dtype.kind == "f":
        return np.array([-np.inf, np.inf])
    if dtype.kind in "iu":
        return np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], float)
    if element_type == "pred":
        return np.array([0.0, 1.0])
    if dtype.itemsize == 2:
        return np.array([-np.inf, np.inf])
    if dtype.kind == "c":
        return np.array([])
    every = np.arange(1 << ARRAY_TYPES[element_type]["bits"]).astype(np.uint8).view(dtype).astype(np.float64)
    return every[~np.isnan(every)]


def test_padding_of_any_value_is_cast() -> None:
    a = sd.LayoutArray.from_numpy(np.zeros(3, np.float32), "{0:T(4)}", padding=-1)
    assert a.buffer.view(np.float32).tolist() == [0, 0, 0, -1]
    a = sd.LayoutArray.from_numpy(np.zeros(3, ml_dtypes.bfloat16), "{0:T(4)}", padding=math.nan)
    assert np.isnan(a.buffer.view(ml_dtypes.bfloat16)[3])
    with pytest.raises(ValueError, match="padding"):
        sd.LayoutArray.from_numpy(np.zeros(3), "{0:T(4)}", padding="something")
    with pytest.raises(OverflowError, match=r"\w"):
        sd.LayoutArray.from_numpy(np.zeros(3, np.uint8), "{0:T(4)}", padding=300)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("element_type", thinned(ARRAY_TYPES, 3))
@pytest.mark.filterwarnings("ignore")
def test_values_are_cast_as_in_assignment(element_type: str) -> None:
    shape = sd.parse_shape(f"{element_type}[3,37]{{0,1:T(2,8)}}")
    numbers = np.random.default_rng(0).normal(0, 50, (3, 37))
    for dtype in ("f4", "f8", "f2", "i8", "u1", "c8", "?", ml_dtypes.bfloat16, ml_dtypes.int4, "U4", object):
        for x in (numbers.astype(dtype), np.asarray(numbers.T, dtype, order="C").T):
            wanted = np.empty(x.shape, shape.dtype)
            got, error = outcome(lambda x=x: sd.LayoutArray.from_numpy(x, shape))
            _, refused = outcome(lambda x=x, wanted=wanted: wanted.__setitem__(Ellipsis, x))
            assert type(error) is type(refused)
            if not refused:
                same_values(got, wanted, shape.element_bits)


@pytest.mark.parametrize("bitorder", ["little", "big"])
@pytest.mark.parametrize(
    "text",
    ["u2[9]{0:E(2)}", "s4[3]{0:E(4)}", "pred[3,3]{0,1:T(2,1)E(1)}", "u1[1201,3]{0,1:E(1)}"],
)
def test_zero_padding_reaches_the_bits_of_no_slot(text: str, bitorder: str) -> None:
    """The last byte has more bits than elements and padding take; in `out` they may hold anything."""
    shape = sd.parse(text)
    values = np.ones(shape.dimensions, shape.dtype)
    wanted = sd.LayoutArray.from_numpy(values, shape, bitorder=bitorder).buffer.tobytes()
    out = np.full(shape.buffer_byte_size, 0xFF, np.uint8)
    sd.LayoutArray.from_numpy(values, shape, "unknown", out, bitorder=bitorder)
    assert out.tobytes() != wanted
    sd.LayoutArray.from_numpy(values, shape, "zero", out, bitorder=bitorder)
    assert out.tobytes() == wanted
    longer = bytearray(b"\xff" * (len(wanted) + 2))
    sd.LayoutArray.from_numpy(values, shape, out=longer, bitorder=bitorder)
    assert longer == wanted + b"\xff\xff"


def test_a_legacy_layout_says_what_its_padding_holds() -> None:
    layout = sd.Layout((1, 0), padded_dimensions=(2, 4), padding_value=sd.PaddingValue.LOWEST_PAD)
    a = sd.LayoutArray.from_numpy(np.ones((2, 3), np.int8), layout)
    assert a.buffer.view(np.int8).tolist() == [1, 1, 1, -128, 1, 1, 1, -128]
    assert sd.LayoutArray.from_numpy(np.ones((2, 3), np.int8), layout, 5).buffer.tolist() == [1, 1, 1, 5] * 2
    same_values(a, np.ones((2, 3), np.int8))


@pytest.mark.parametrize(
    "x",
    [
        np.arange(12.0).reshape(3, 4)[::-1, ::2],
        np.arange(12, dtype=">i4").reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)),
        np.broadcast_to(np.float32(3), (3, 4)),
        np.zeros((3, 0, 4), np.int8),
        np.array(5, np.uint16),
        np.arange(24, dtype=np.uint8)[1:].view("u1")[:20].reshape(4, 5),
        np.frombuffer(bytes(range(33)), np.uint8)[1:].view(np.int64),
        np.ones((2, 3), bool).T,
        (np.arange(6) + 1j).reshape(2, 3).real,
        np.rec.fromarrays([np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int8)]).f0,
    ],
    ids=lambda x: f"{x.dtype}{x.shape}{x.strides}",
)
def test_any_ndarray_is_encoded(x: np.ndarray) -> None:
    order = ",".join(map(str, range(x.ndim)))
    before = x.tobytes()
    for layout in (None, f"{{{order}:T(2,2)}}", f"{{{order}}}"):
        a = sd.LayoutArray.from_numpy(x, layout)
        native = x.astype(x.dtype.newbyteorder("="))
        same_values(a, native)
        assert x.tobytes() == before
        for part in (slice(None, None, -1), ...) if x.ndim else (...,):
            same_values(a.to_layout()[part], native[part])


def test_lists_and_scalars_are_encoded() -> None:
    assert sd.LayoutArray.from_numpy([[1.5, 2], [3, 4]]).xla_shape == sd.parse("f64[2,2]")
    assert sd.LayoutArray.from_numpy(3.0).xla_shape == sd.parse("f64[]")
    assert sd.LayoutArray.from_numpy([True]).element_type == "pred"


def test_the_element_type_may_be_named() -> None:
    a = sd.LayoutArray.from_numpy(np.array([1, -2, 7]), "{0:E(4)}", element_type="s4")
    assert a.xla_shape == sd.parse("s4[3]{0:E(4)}")
    assert a.buffer.tolist() == [0xE1, 0x07]
    a = sd.LayoutArray.from_numpy(np.array([1.5, 2.7]), sd.parse("bf16[2]{0:T(4)}"))
    assert a.dtype == ml_dtypes.bfloat16
    assert a.size == 2


@pytest.mark.parametrize("x", [*(np.zeros(3, t) for t in ("O", "U2", "M8[s]", "i4,i4")), ["a"]], ids=repr)
def test_types_that_xla_lacks_are_refused(x: Any) -> None:
    with pytest.raises(sd.UnsupportedError, match="dtype"):
        sd.LayoutArray.from_numpy(x)


def test_layouts_that_do_not_fit_are_refused() -> None:
    x = np.zeros((3, 5), np.float32)
    for wrong in ("{0}", "{2,1,0}", sd.Layout((0,)), sd.parse("f32[5,3]"), "f32[3]"):
        with pytest.raises(sd.LayoutError, match=r"\w"):
            sd.LayoutArray.from_numpy(x, wrong)
    with pytest.raises(sd.NotationError, match=r"\w"):
        sd.LayoutArray.from_numpy(x, "{0,1")
    with pytest.raises(sd.LayoutError, match="element type"):
        sd.LayoutArray.from_numpy(x, sd.parse("f32[3,5]"), element_type="f64")
    with pytest.raises(TypeError, match="layout"):
        sd.LayoutArray.from_numpy(x, 3)  # type: ignore[arg-type]
    with pytest.raises(sd.UnsupportedError, match=r"token|no values"):
        sd.LayoutArray.from_numpy(np.zeros(()), "token[]")


def test_what_out_may_be() -> None:
    x = np.arange(15, dtype=np.int16).reshape(3, 5)
    with pytest.raises(sd.BufferSizeError, match="47"):
        sd.LayoutArray.from_numpy(x, PLAIN.text, out=bytearray(47))
    with pytest.raises(ValueError, match="read-only"):
        sd.LayoutArray.from_numpy(x, PLAIN.text, out=bytes(48))
    long = bytearray(b"\xa5" * 60)
    sd.LayoutArray.from_numpy(x, PLAIN.text, out=long)
    assert long[48:] == b"\xa5" * 12
    target = sd.LayoutArray(bytearray(48), PLAIN.text)
    assert sd.LayoutArray.from_numpy(x, PLAIN.text, out=target) is target
    same_values(target, x)
    for wrong in (sd.LayoutArray(bytearray(48), "s16[3,5]{1,0:T(2,2)}"), target[1:]):
        with pytest.raises(ValueError, match="out"):
            sd.LayoutArray.from_numpy(x, PLAIN.text, out=wrong)
    memory = np.zeros(48, np.uint8)
    a = sd.LayoutArray(memory, PLAIN.text)
    with pytest.raises(ValueError, match="overlap"):
        a.to_layout("{1,0}", out=memory)


@pytest.mark.parametrize("padding", [None, "one", "unknown"])
def test_values_in_the_padding_of_out_are_kept(padding: str | None) -> None:
    """Padding that is filled may hold no values that are still to be read; other padding may."""
    memory = np.zeros(8192, np.uint8)
    a = sd.LayoutArray(memory, "f32[5,8]{1,0}", offset=6 * 512, allow_excess=True)
    a[...] = values = np.arange(40, dtype=np.float32).reshape(5, 8)
    for convert in (a.to_layout, partial(sd.LayoutArray.from_numpy, a.as_strided())):
        if padding == "unknown":
            same_values(convert("{1,0:T(8,128)}", padding, memory[:4096]), values)
        else:
            before = memory.copy()
            with pytest.raises(ValueError, match="out overlaps the values"):
                convert("{1,0:T(8,128)}", padding, memory[:4096])
            assert np.array_equal(memory, before)
        same_values(a, values)


def test_values_behind_out_may_follow_at_once() -> None:
    memory = np.arange(1, 65, dtype=np.uint8)
    sd.LayoutArray.from_numpy(memory[32:35], "{0:T(32)}", out=memory[:40])
    assert memory.tolist() == [33, 34, 35, *[0] * 29, *range(33, 65)]


def test_what_to_numpy_writes_to() -> None:
    a = sd.LayoutArray(CONTENT, PLAIN.text)
    out = np.empty((5, 3), np.int16).T
    assert a.to_numpy(out=out) is out
    same_values(out, VALUES)
    whole = np.zeros((7, 12), np.int16)
    a.to_numpy(whole[1:7:2, ::-1][:, :5])
    same_values(whole[1:7:2, ::-1][:, :5], VALUES)
    assert np.count_nonzero(whole) == np.count_nonzero(VALUES)
    locked = np.empty((3, 5), np.int16)
    locked.flags.writeable = False
    for wrong in (
        np.empty((5, 3), np.int16),
        np.empty((3, 5), np.int32),
        np.empty((3, 5), ">i2"),
        locked,
        bytearray(30),
        [[0] * 5] * 3,
    ):
        with pytest.raises(ValueError, match=r"out|read-only"):
            a.to_numpy(wrong)  # type: ignore[arg-type]
    same_values(sd.LayoutArray(CONTENT, PLAIN.text)[::2, 1:].to_numpy(), VALUES[::2, 1:])


def test_a_metadata_prefix_is_left_in_front() -> None:
    x = np.arange(5, dtype=np.uint8)
    a = sd.LayoutArray.from_numpy(x, "{0:T(4)M(16)}", padding=9)
    assert str(a.xla_shape) == "u8[5]{0:T(4)M(16)}"
    assert a.buffer.tolist() == [0, 1, 2, 3, 4, 9, 9, 9]
    out = bytearray(b"\xa5" * 24)
    sd.LayoutArray.from_numpy(x, "{0:T(4)M(16)}", 9, out)
    assert bytes(out) == b"\xa5" * 16 + bytes([0, 1, 2, 3, 4, 9, 9, 9])
    same_values(sd.LayoutArray(out, "u8[5]{0:T(4)M(16)}"), x)
    with pytest.raises(sd.BufferSizeError, match="metadata"):
        sd.LayoutArray.from_numpy(x, "{0:T(4)M(16)}", 9, bytearray(23))


def test_views_are_converted_too() -> None:
    a = sd.LayoutArray(CONTENT, PLAIN.text)
    b = a[::-1, 1:4].to_layout("{0,1:T(2,2)}")
    assert b.xla_shape == sd.parse("s16[3,3]{0,1:T(2,2)}")
    same_values(b, VALUES[::-1, 1:4])
    c = sd.LayoutArray.from_numpy(a[1], "{0:T(4)}")
    same_values(c, VALUES[1])
    wide = sd.LayoutArray.from_numpy(a, "{1,0}", element_type="f32")
    same_values(wide, VALUES.astype(np.float32))


# --- what is never touched ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", CORPUS)
def test_padding_is_never_read(label: str) -> None:
    """Whatever the padding and the spare bits hold, the values are the same."""
    case = Case.parse(CORPUS[label])
    values = some_values(case)
    first = bytearray(encoded(case, values))
    second, patterns = bytearray(b ^ 0xFF for b in first), patterns_of(values, case.bits)
    for index, offset in oracle.offsets(case.spec).items():
        oracle.write_bits(second, offset, case.bits, patterns[index])
    for content in (first, second):
        a = sd.LayoutArray(bytes(content), case.text)
        same_values(a, values, case.bits)
        same_values(a[..., :], values[..., :], case.bits) if values.ndim else None
        assert repr(a) == repr(sd.LayoutArray(bytes(first), case.text))


@given(cases(), st.integers(0, 255))
def test_spare_bits_and_padding_survive_assignment(case: Case, noise: int) -> None:
    values = some_values(case, 1)
    content = bytearray([noise]) * oracle.bytes_needed(case.spec)
    patterns = patterns_of(values, case.bits)
    wanted = bytearray(content)
    for index, offset in oracle.offsets(case.spec).items():
        oracle.write_bits(wanted, offset, case.bits, patterns[index])
    for write in (
        lambda a: a.__setitem__(..., values),
        lambda a: [a.__setitem__(i, values[i]) for i in np.ndindex(values.shape)],
    ):
        guarded = Guarded(content)
        write(sd.LayoutArray(guarded.buffer, shape_of(case)))
        assert guarded.content() == bytes(wanted)


@pytest.mark.parametrize("element_type", ["u1", "u2", "u4"])
def test_runs_of_packed_elements_turn_from_one_order_in_bytes_to_the_other(element_type: str) -> None:
    """Runs of whole bytes lie apart in the target: moved as they are, they would keep their order."""
    bits = int(element_type[1:])
    source, target = f"{element_type}[17,9,32]{{2,1,0:L(8)E({bits})}}", f"{{2,0,1:T(4)L(128)E({bits})}}"
    values = np.random.default_rng(0).integers(0, 1 << bits, (17, 9, 32), np.uint8)
    for first, then in itertools.product(["little", "big"], repeat=2):
        a = sd.LayoutArray.from_numpy(values.astype(sd.parse(source).dtype), source, bitorder=first)
        with limits.replaced(small_elements=0, tiny_elements=0):
            b = a.to_layout(target, bitorder=then)
        assert np.array_equal(b.astype(np.uint8), values)
