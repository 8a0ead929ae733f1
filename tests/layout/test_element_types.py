"""Element types against XLA's own table, and the exception family."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from strided import errors
from strided.layout import element_types
from tests.cases import ARRAY_TYPES, PRIMITIVE_TYPES, dtype_of

#: Types of no element type whose byte order NumPy cannot change, or need not.
OTHER_DTYPES = [np.dtypes.StringDType(), np.dtype("U3"), np.dtype(object), np.dtype([("x", ">f4")])]
NAMED = {name: row for name, row in PRIMITIVE_TYPES.items() if row["parses_in_shape_text"]}


def test_the_table_is_xlas() -> None:
    assert set(element_types.ELEMENT_TYPES) == set(NAMED)
    for name, row in NAMED.items():
        known = element_types.element_type(name)
        assert known.name == name
        assert known.number == row["enum"]
        assert known.bits == (row["bits"] or 0)
        assert known.is_array == row["is_array"]
        if row["is_array"]:
            assert known.dtype == dtype_of(name)
            assert known.storage_bits == 8 * row["bytes"]


def test_the_numbers_of_all_primitive_types_are_known() -> None:
    assert {row["enum"] for row in PRIMITIVE_TYPES.values()} == set(range(37))


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_a_value_fills_the_bytes_that_xla_gives_it(name: str) -> None:
    assert dtype_of(name).itemsize == ARRAY_TYPES[name]["bytes"]


@pytest.mark.parametrize("name", NAMED)
def test_by_number_and_back(name: str) -> None:
    known = element_types.element_type(name)
    assert element_types.element_type_of_number(known.number) is known


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_by_dtype_and_back(name: str) -> None:
    known = element_types.element_type(name)
    assert known.dtype is not None
    assert element_types.element_type_of_dtype(known.dtype) is known
    assert element_types.element_type_of_dtype(known.dtype.type) is known


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">c16", ">u2", ">f2"])
def test_byte_order_is_no_part_of_a_type(dtype: str) -> None:
    assert element_types.element_type_of_dtype(np.dtype(dtype)).dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize(
    "name", ["f128", "", "F32", "float32", "tuple", "buffer", "primitive_type_invalid", " f32", None, 3, []]
)
def test_unknown_names_are_refused(name: object) -> None:
    with pytest.raises(errors.UnsupportedError, match="no element type") as caught:
        element_types.element_type(name)  # type: ignore[arg-type]
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("number", [0, 13, 34, 37, -1, 10**30, "f32", None])
def test_numbers_of_nothing_are_refused(number: object) -> None:
    with pytest.raises(errors.UnsupportedError, match="PrimitiveType"):
        element_types.element_type_of_number(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", "V4", "f4,f4"])
def test_dtypes_that_xla_lacks_are_refused(dtype: str) -> None:
    with pytest.raises(errors.UnsupportedError, match="dtype"):
        element_types.element_type_of_dtype(np.dtype(dtype))


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is double here")
def test_long_double_is_not_f64() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"longdouble|float128|float96"):
        element_types.element_type_of_dtype(np.longdouble)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match="item assignment"):
        element_types.ELEMENT_TYPES["f128"] = element_types.ELEMENT_TYPES["f64"]  # type: ignore[index]
    with pytest.raises(AttributeError, match="bits"):
        element_types.element_type("f32").bits = 33  # type: ignore[misc]


def test_element_types_are_values() -> None:
    for known in element_types.ELEMENT_TYPES.values():
        assert pickle.loads(pickle.dumps(known)) == known
        assert copy.deepcopy(known) == known
        assert hash(copy.copy(known)) == hash(known)


def test_a_small_value_lies_in_the_low_bits() -> None:
    """The encoding of unpacked small types relies on this: XLA and ml_dtypes agree."""
    assert np.array([-1, -8, 7], ml_dtypes.int4).view(np.uint8).tolist() == [0xF, 0x8, 0x7]
    assert np.array([-1, -2], ml_dtypes.int2).view(np.uint8).tolist() == [3, 2]
    assert np.array([-6], ml_dtypes.float4_e2m1fn).view(np.uint8).tolist() == [0xF]


# --- the exception family -------------------------------------------------------------------------------------------


def test_the_family() -> None:
    for error in (errors.NotationError, errors.LayoutError, errors.BufferSizeError, errors.DumpError):
        assert issubclass(error, errors.StridedError)
        assert issubclass(error, ValueError)
    assert issubclass(errors.UnsupportedError, errors.StridedError)
    assert issubclass(errors.UnsupportedError, NotImplementedError)
    assert not issubclass(errors.StridedError, ValueError)
    assert issubclass(errors.NotationWarning, UserWarning)


@pytest.mark.parametrize(
    "error",
    [
        errors.NotationError("expected a tile size", text="f32[3]{0:T(,)}", position=11),
        errors.LayoutError("no such dimension"),
        errors.BufferSizeError("too short", actual=3, needed=4),
        errors.BufferSizeError("a file", actual=3, needed=4, found_format="gzip data"),
        errors.BufferSizeError("packed", actual=3, needed=6, packed_bits=4).with_message("x.bin: packed"),
        errors.DumpError("ends early", path="x.pb", position=12),
        errors.DumpError("ends early", line=3, column=9),
        errors.UnsupportedError("not possible"),
    ],
    ids=str,
)
def test_errors_pickle(error: errors.StridedError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_caret_stands_under_the_place() -> None:
    error = errors.NotationError("expected a tile size, found ','", text="bf16[64,256]{1,0:T(8,,128)}", position=21)
    first, shown, caret = str(error).splitlines()
    assert first == "expected a tile size, found ','"
    assert shown[caret.index("^")] == ","
    assert shown.strip() == "bf16[64,256]{1,0:T(8,,128)}"
    assert error.position == 21


@pytest.mark.parametrize("position", [0, 1, 59, 60, 61, 5000, 9999, 10_000])
def test_long_texts_are_cut_around_the_caret(position: int) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(10_000))
    _, shown, caret = str(errors.NotationError("no", text=text, position=position)).splitlines()
    assert len(shown) < 200
    if position < len(text):
        assert shown[caret.index("^")] == text[position]


def test_only_the_line_of_the_place_is_shown() -> None:
    text = "first line\nsecond !line\nthird\x00\x1b[31m"
    _, shown, caret = str(errors.NotationError("no", text=text, position=text.index("!"))).splitlines()
    assert shown == "  second !line"
    assert shown[caret.index("^")] == "!"
    assert "\x1b" not in str(errors.NotationError("no", text=text, position=text.index("\x00")))


@pytest.mark.parametrize("dtype", OTHER_DTYPES, ids=str)
def test_types_that_xla_lacks_are_not_known(dtype: np.dtype) -> None:
    assert element_types.known_element_type(dtype) is None


@pytest.mark.parametrize("name", ["bf16", "s4", "f4e2m1fn"])
def test_the_byte_order_of_ml_dtypes_is_left_alone(name: str) -> None:
    dtype = dtype_of(name)
    assert element_types.known_element_type(dtype) is element_types.element_type(name)
    assert element_types.known_element_type(dtype.newbyteorder(">")) is None  # which reads no swapped values
