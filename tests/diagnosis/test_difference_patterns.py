"""Faults put into arrays on purpose, in several layouts: the report names each of them first."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import strided as sd
from strided.diagnosis.difference import Difference, diff, scan
from strided.diagnosis.difference.result import Pattern
from strided.dumps.sharded.assemble import assemble, shard
from tests.thinned import thinned

Array = npt.NDArray[Any]

F32, BF16, S8 = "f32[40,384]", "bf16[48,384]", "s8[64,384]"
LAYOUTS = [
    f"{F32}{{1,0}}",
    f"{F32}{{0,1}}",
    f"{F32}{{1,0:T(8,128)}}",
    "f32[300,40]{0,1:T(8,128)}",
    f"{BF16}{{1,0:T(8,128)(2,1)}}",
    f"{BF16}{{1,0:T(8,128)}}",
    f"{S8}{{1,0:T(32,128)(4,1)}}",
    "f32[17,300]{1,0:T(8,128)}",
    "bf16[300,50]{0,1:T(8,128)(2,1)}",
]
TILED = [text for text in LAYOUTS if "T(" in text]


def values_of(shape: str) -> Array:
    parsed = sd.parse_shape(shape)
    rng = np.random.default_rng(7)
    if parsed.dtype.kind == "i":
        return rng.integers(-100, 100, parsed.dimensions).astype(parsed.dtype)
    return rng.standard_normal(parsed.dimensions).astype(parsed.dtype)


def faulty(shape: str, fault: Callable[[Array], object]) -> tuple[sd.LayoutArray, sd.LayoutArray]:
    """An array in a layout, and one with a fault in its values. Their padding differs."""
    values = values_of(shape)
    other = values.copy()
    fault(other)
    parsed = sd.parse_shape(shape)
    return (sd.LayoutArray.from_numpy(values, parsed), sd.LayoutArray.from_numpy(other, parsed, padding=1))


def changed(*key: Any) -> Callable[[Array], object]:
    def fault(x: Array) -> None:
        x[key] = x[key] + np.array(3, x.dtype)

    return fault


def named(found: Difference) -> tuple[str, str]:
    assert found.count
    return found.patterns[0].kind, found.patterns[0].where


@pytest.mark.parametrize("shape", LAYOUTS)
@pytest.mark.parametrize(
    ("key", "kind", "where"),
    [
        ((9, 33), "element", "9, 33"),
        ((9,), "row", "9, :"),
        ((9, slice(2, 39)), "row", "9, :"),
        ((slice(None), 33), "column", ":, 33"),
    ],
)
def test_logical_places(shape: str, key: tuple[Any, ...], kind: str, where: str) -> None:
    found = diff(*faulty(shape, changed(*key)))
    assert named(found) == (kind, where)
    assert found.patterns[0].share == 1


def parts(shape: str) -> tuple[int, int, int, int, int]:
    """Axis of sublanes, axis of lanes, sublanes and lanes of a tile, rows that share a word."""
    layout = sd.parse_shape(shape).layout
    assert layout is not None
    lane, sublane = layout.minor_to_major
    rows, lanes = layout.tiles[0]
    return sublane, lane, rows, lanes, layout.tiles[1][0] if len(layout.tiles) > 1 else 1


def keyed(axes: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(axes.get(k, slice(None)) for k in range(2))


@pytest.mark.parametrize("shape", thinned(TILED, 3))
def test_places_in_memory(shape: str) -> None:
    sublane, lane, rows, lanes, words = parts(shape)
    second = keyed({sublane: slice(rows, 2 * rows), lane: slice(0, lanes)})
    found = diff(*faulty(shape, changed(*second)))
    assert found.patterns[0].kind == "tile"
    first, last = (
        int(sd.parse_shape(shape).offset_of(tuple((s.start, s.stop - 1)[k] for s in second))) for k in (0, 1)
    )
    size = sd.parse_shape(shape).element_bits // 8
    assert f"bytes {first * size} to {(last + 1) * size - 1} of a" in found.patterns[0].sentence

    # Of two arrays of which one has the tiles, the bytes are those that a tile takes.
    a, b = faulty(shape, changed(*second))
    found = diff(np.asarray(a), b)
    assert f"bytes {first * size} to {(last + 1) * size - 1} of b" in found.patterns[0].sentence

    found = diff(*faulty(shape, changed(*keyed({lane: slice(5, None, lanes)}))))
    assert named(found) == ("lane", ", ".join(str(k) for k in keyed_text({lane: f"5::{lanes}"})))

    if words == 1:
        found = diff(*faulty(shape, changed(*keyed({sublane: slice(3, None, rows)}))))
        assert named(found) == ("sublane", ", ".join(keyed_text({sublane: f"3::{rows}"})))
    else:
        found = diff(*faulty(shape, changed(*keyed({sublane: slice(1, None, words)}))))
        assert named(found) == ("half-word", ", ".join(keyed_text({sublane: f"1::{words}"})))
        n = sd.parse_shape(shape).dimensions[sublane]
        together = [i for i in range(n) if i % rows // words == 1]
        assert diff(*faulty(shape, changed(*keyed({sublane: together})))).patterns[0].kind == "sublane"


def keyed_text(axes: dict[int, str]) -> list[str]:
    return [axes.get(k, ":") for k in range(2)]


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (5, 3)])
def test_rows_and_columns_of_the_smallest_arrays(shape: tuple[int, int]) -> None:
    """Few elements tell little of where they lie, but nearly all of a small place is one."""
    for key, wanted in ((np.s_[1], ("row", "1, :")), (np.s_[:, 1], ("column", ":, 1"))):
        a = np.zeros(shape, np.float32)
        b = a.copy()
        b[key] = 1
        assert named(diff(a, b)) == wanted


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("layout", ["{2,1,0}", "{2,0,1:T(8,128)}"])
def test_planes(axis: int, layout: str) -> None:
    key = tuple(2 if k == axis else slice(None) for k in range(3))
    found = diff(*faulty(f"f32[5,20,140]{layout}", changed(*key)))
    assert named(found) == ("plane", ", ".join("2" if k == axis else ":" for k in range(3)))


@pytest.mark.parametrize("shape", thinned(LAYOUTS, 3))
def test_signs_and_bytes(shape: str) -> None:
    a, b = faulty(shape, lambda x: np.negative(x, out=x))
    assert named(diff(a, b)) == ("sign", "")
    some = np.random.default_rng(1).random(a.shape) < 0.3
    a, b = faulty(shape, lambda x: x.__setitem__(some, -x[some]))
    assert diff(a, b).patterns[0].kind == "sign"
    for byte in {0, a.itemsize - 1} if a.itemsize > 1 else ():
        a, b = faulty(shape, lambda x: None)
        b.buffer.reshape(-1, b.itemsize)[:, byte] ^= 0x15
        assert named(diff(a, b)) == ("byte", str(byte))


def test_a_nan_that_equals_nothing_differs_in_no_byte() -> None:
    a = np.array([np.nan, 1, 2, 3, 4], np.float32)
    b = a.copy()
    b.view(np.uint32)[1:3] ^= 1
    assert diff(a, b).patterns[0].kind == "byte"
    found = diff(a, b, equal_nan=False)
    assert found.count == 3
    assert "byte" not in {pattern.kind for pattern in found.patterns}


@pytest.mark.parametrize("shape", LAYOUTS)
def test_movements(shape: str) -> None:
    for fault, where in (
        (lambda x: np.roll(x, 3, axis=1), "3 along 1"),
        (lambda x: np.roll(x, 2, axis=0), "2 along 0"),
        (lambda x: np.roll(x, 37), "37"),
    ):
        found = diff(*faulty(shape, lambda x, fault=fault: x.__setitem__(..., fault(x.copy()))))
        assert named(found) == ("shift", where)
        assert found.patterns[0].share == 1


@pytest.mark.parametrize("shape", TILED)
def test_movements_in_memory(shape: str) -> None:
    a, b = faulty(shape, lambda x: None)
    b.buffer[:] = np.roll(a.buffer, 12)
    found = diff(a, b)
    assert named(found) == ("shift", "12 bytes")
    assert found.patterns[0].share > 0.9


@pytest.mark.parametrize("nbytes", thinned([513, 3, -1], 3))
@pytest.mark.parametrize("shape", [text for text in LAYOUTS if "s8" not in text])
def test_movements_in_memory_by_parts_of_elements(shape: str, nbytes: int) -> None:
    """Only bytes show them: each element is made of two others."""
    a, b = faulty(shape, lambda x: None)
    b.buffer[:] = np.roll(a.buffer, nbytes)
    found = diff(a, b)
    assert named(found) == ("shift", f"{nbytes} byte{'s' * (abs(nbytes) != 1)}")
    assert found.patterns[0].share > 0.9


@pytest.mark.parametrize("shape", [text for text in LAYOUTS if "32[" not in text])
def test_exchanged_members_of_words(shape: str) -> None:
    a, b = faulty(shape, lambda x: None)
    words = b.buffer.view(b.dtype).reshape(-1, 32 // (8 * b.itemsize))
    words[:, :2] = words[:, 1::-1].copy()
    if words.shape[1] == 4:
        words[:, 2:] = words[:, :1:-1].copy()
    assert named(diff(a, b)) == ("swap", "0, 1")


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ((1, 0, 3, 2), "members 1 apart of each 32-bit word have changed places: "),
        ((2, 3, 0, 1), "members 2 apart of each 32-bit word have changed places: "),
        ((3, 2, 1, 0), "the 4 members of each 32-bit word are in reverse order: "),
    ],
)
def test_which_members_have_changed_places(order: tuple[int, ...], sentence: str) -> None:
    """In reverse order the outer ones are three apart, and the inner ones are neighbours."""
    a, b = faulty(f"{S8}{{1,0:T(32,128)(4,1)}}", lambda x: None)
    words = b.buffer.reshape(-1, 4)
    words[:] = words[:, list(order)]
    assert diff(a, b).patterns[0].sentence.startswith(sentence)


@pytest.mark.parametrize(("kind", "bits"), [("s4", 4), ("f4e2m1fn", 4), ("u2", 2)])
@pytest.mark.parametrize("layout", ["{{1,0:E({0})}}", "{{0,1:T(8,128)(8,1)E({0})}}"])
def test_the_other_bit_order_is_named(kind: str, bits: int, layout: str) -> None:
    shape = f"{kind}[33,101]{layout.format(bits)}"
    raw = np.random.default_rng(0).integers(0, 256, sd.parse_shape(shape).byte_size).astype(np.uint8)
    found = diff(sd.LayoutArray(raw, shape), sd.LayoutArray(raw, shape, bitorder="big"))
    assert found.patterns[0].kind == "swap"
    wanted = f"the {8 // bits} elements of each byte are in reverse order, as with the other bitorder: "
    assert wanted in found.patterns[0].sentence


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_masks_in_another_layout_or_transposed(dtype: type) -> None:
    """Two values are enough where all elements are compared, but a few elements of a mask agree by chance."""
    mask = (np.random.default_rng(3).random((96, 200)) < 0.3).astype(dtype)
    written = sd.LayoutArray.from_numpy(mask, "{1,0:T(32,128)}")
    kind = "pred" if dtype is np.bool_ else "u8"
    read = sd.LayoutArray(written.buffer, f"{kind}[96,200]{{1,0:T(32,128)(4,1)}}")
    assert named(diff(mask, read)) == ("layout", "{1,0:T(32,128)}")
    causal = np.tri(128, dtype=dtype)
    assert named(diff(causal, causal.T)) == ("transpose", "1, 0")
    one = np.zeros((64, 64), dtype)
    one[3, 5:15] = 1
    assert diff(one, one.T).patterns[0].kind not in ("layout", "transpose", "shift", "swap")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.float64, np.complex64, np.complex128])
def test_bytes_in_reverse_order(dtype: Any) -> None:
    """In all elements, or in those of one tile."""
    a = (np.random.default_rng(0).standard_normal((64, 512)) * 100).astype(dtype)
    part = a.itemsize // (2 if a.dtype.kind == "c" else 1)
    b = a.view(f"u{part}").byteswap().view(dtype)
    found = diff(a, b)
    assert named(found) == ("swap", "bytes")
    assert "reverse order: this explains all" in found.patterns[0].sentence
    tile = a.copy()
    tile[8:16, 128:256] = b[8:16, 128:256]
    found = diff(sd.LayoutArray.from_numpy(a, "{1,0:T(8,128)}"), tile)
    assert [pattern.kind for pattern in found.patterns[:2]] == ["swap", "tile"]


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}"])
def test_transpositions(layout: str) -> None:
    x = np.random.default_rng(3).standard_normal((144, 144)).astype(ml_dtypes.bfloat16)
    a, b = sd.LayoutArray.from_numpy(x, layout), sd.LayoutArray.from_numpy(x.T.copy(), layout)
    assert named(diff(a, b)) == ("transpose", "1, 0")
    y = np.random.default_rng(3).standard_normal((20, 20, 20))
    assert named(diff(y, y.transpose(1, 2, 0).copy())) == ("transpose", "1, 2, 0")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("{1,0:T(8,128)(2,1)}", "{1,0:T(8,128)}"),
        ("{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}"),
        ("{0,1:T(8,128)(2,1)}", "{1,0:T(8,128)(2,1)}"),
        ("{0,1}", "{1,0}"),
        ("{1,0:T(16,128)(2,1)}", "{0,1:T(8,128)(2,1)}"),
    ],
)
@pytest.mark.parametrize("reference", ["{1,0}", "{0,1}"])
def test_misread_layouts(right: str, wrong: str, reference: str) -> None:
    x = np.random.default_rng(3).standard_normal((128, 384)).astype(ml_dtypes.bfloat16)
    b = sd.LayoutArray(sd.LayoutArray.from_numpy(x, right).buffer, f"bf16[128,384]{wrong}")
    found = diff(sd.LayoutArray.from_numpy(x, reference), b)
    assert named(found) == ("layout", right)
    assert "b equals a if it is read as " in found.patterns[0].sentence


def test_the_sentence_of_a_misread_layout_names_tiles_alone() -> None:
    x = np.random.default_rng(3).standard_normal((48, 384)).astype(ml_dtypes.bfloat16)
    b = sd.LayoutArray(sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}").buffer, "bf16[48,384]{1,0:T(8,128)(2,1)}")
    assert diff(x, b).patterns[0].sentence == "b equals a if it is read as T(8,128) instead of T(8,128)(2,1)"


def test_one_shard() -> None:
    x = np.random.default_rng(3).standard_normal((32, 24)).astype(np.float32)
    y = x.copy()
    y[8:16, 12:] += 1
    sharding = sd.Sharding.parse("{devices=[4,2]<=[8]}")
    a, b = (assemble(shard(each, sharding), sharding, each.shape) for each in (x, y))
    for found in (diff(a, b), diff(x, b)):
        assert named(found) == ("shard", "8:16, 12:24")
        assert "the shard of device 3" in found.patterns[0].sentence


def test_noise_is_everywhere() -> None:
    x = np.random.default_rng(3).standard_normal((64, 300)).astype(np.float32)
    for layout in ("{1,0}", "{1,0:T(8,128)}"):
        a, b = (sd.LayoutArray.from_numpy(each, layout) for each in (x, x * np.float32(1.01)))
        found = diff(a, b)
        assert [each.kind for each in found.patterns] == ["everywhere"]
    scattered = np.where(np.random.default_rng(4).random(x.shape) < 0.01, x + 1, x)
    assert [each.kind for each in diff(x, scattered).patterns] == ["everywhere"]


def test_a_sample_of_many_mismatches_is_even() -> None:
    x = np.random.default_rng(3).standard_normal((1024, 1024)).astype(ml_dtypes.bfloat16)
    a, b = (sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)(2,1)}") for _ in range(2))
    b[1::2] += 3
    (found,) = diff(a, b).patterns
    assert (
        found.sentence
        == "all 524,288 mismatches lie in member 1 of the 2 in each 32-bit word; every element there differs"
    )
    b[::2] -= 3
    assert [each.kind for each in diff(a, b).patterns] == ["everywhere"]


@pytest.mark.parametrize(
    ("keys", "kind", "words"),
    [
        (np.s_[3, [3, 7, 12]], "row", "rows 3, 7 and 12 of [3]"),
        (np.s_[3, :, [30, 44]], "column", "columns 30 and 44 of [3]"),
        (np.s_[[1, 3]], "plane", "planes 1 and 3 of dimension 0"),
        (np.s_[1:3, 5], "row", "2 rows: 5 of [1]; 5 of [2]"),
        (
            np.s_[2, 8:16, [128, 298]],
            "lane",
            "2 lanes: 0 of one tile, at [2, 8:16, 128]; 42 of one tile, at [2, 8:16, 298]",
        ),
        (np.s_[..., [5, 133, 261, 6, 134, 262]], "lane", "lanes 5 and 6 of the tiles"),
        (np.s_[2:4, 8:16, 128:256], "tile", "2 tiles: at [2, 8:16, 128:256]; at [3, 8:16, 128:256]"),
    ],
)
def test_few_places_are_named_one_by_one(keys: Any, kind: str, words: str) -> None:
    a, b = faulty("f32[6,24,300]{2,1,0:T(8,128)}", changed(*(keys if isinstance(keys, tuple) else (keys,))))
    found = diff(a, b).patterns[0]
    assert found.kind == kind
    assert f"mismatches lie in {words}; every element there differs" in found.sentence
    marked = np.zeros(a.shape, bool)
    for where in found.where.split("; "):
        marked[eval(f"np.s_[{where}]")] = True
    assert (marked == (np.asarray(a) != np.asarray(b))).all()


@pytest.mark.parametrize(
    ("keys", "kind", "where", "words"),
    [
        (np.s_[8:16, 128:192], "box", "8:16, 128:192", "rows 8 to 15, columns 128 to 191; every element there differs"),
        (np.s_[3:8, 2:], "row", "3, :; 4, :; 5, :; 6, :; 7, :", "rows 3 to 7"),
        (np.s_[[3, 4, 6], 128:], "row", "3, :; 4, :; 6, :", "rows 3, 4 and 6"),
        (np.s_[:, 40:43], "column", ":, 40; :, 41; :, 42", "columns 40 to 42; every element there differs"),
    ],
)
def test_a_box_within_neighbouring_rows_is_named(keys: Any, kind: str, where: str, words: str) -> None:
    found = diff(*faulty("f32[40,384]{1,0}", changed(*keys)))
    assert named(found) == (kind, where)
    assert found.patterns[0].sentence == f"all {found.count:,} mismatches lie in {words}"


def test_more_places_than_can_be_named_are_everywhere() -> None:
    rows = slice(0, 40, 3)
    for shape in ("f32[200,384]{1,0}", "f32[200,384]{1,0:T(8,128)}"):
        assert [each.kind for each in diff(*faulty(shape, changed(rows))).patterns] == ["everywhere"]


def test_few_scattered_mismatches_are_named_one_by_one() -> None:
    x = np.zeros((64, 300), np.float32)
    y = x.copy()
    y[3, 7] = y[50, 200] = y[21, 100] = 1
    assert [(each.kind, each.where) for each in diff(x, y).patterns] == [
        ("element", "3, 7"),
        ("element", "21, 100"),
        ("element", "50, 200"),
    ]


@pytest.mark.slow
def test_a_long_axis_takes_little_memory() -> None:
    x, y = np.zeros((2, 1 << 23), np.int8)
    y[5::128] = 1
    a, b = (sd.LayoutArray(each, f"s8[{1 << 23}]{{0:T(1024)}}") for each in (x, y))
    diff(a, b)  # what is kept for later calls
    tracemalloc.start()
    found = diff(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * x.nbytes
    assert (found.patterns[0].kind, found.patterns[0].where) == ("lane", "5::128")
    y[5::64] = 1  # more than are kept, and no index is counted
    assert "nearly all 131,072 mismatches lie in lanes 5 and 69 of the tiles" in diff(a, b).patterns[0].sentence


def test_patterns_do_not_depend_on_the_order_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((2048, 2048), np.float32)
    y = x.copy()
    y[3, 7] = y[1050, 200] = y[2021, 100] = 1
    wanted = str(diff(x, y))
    monkeypatch.setattr(scan, "run", lambda work, pieces, threads: [work(*each) for each in [*pieces][::-1]])
    assert str(diff(x, y)) == wanted


def test_a_tile_may_be_wider_than_the_array() -> None:
    x = np.arange(17 * 40, dtype=np.float32).reshape(17, 40)
    y = x.copy()
    y[:16] += 0.5
    a, b = (sd.LayoutArray.from_numpy(each, "{1,0:T(16,128)}") for each in (x, y))
    (found,) = diff(a, b).patterns[:1]
    assert (found.kind, found.where) == ("tile", "0:16, :")


def test_places_of_tiles_of_one_dimension() -> None:
    x = np.random.default_rng(3).standard_normal(4096)
    for layout, dtype, cut, kind in (
        ("{0:T(1024)}", np.float32, lambda y: y[1024:2048], "tile"),
        ("{0:T(1024)}", np.float32, lambda y: y.reshape(-1, 8, 128)[:, 3], "sublane"),
        ("{0:T(1024)}", np.float32, lambda y: y[7::128], "lane"),
        ("{0:T(1024)(128)(2,1)}", ml_dtypes.bfloat16, lambda y: y.reshape(-1, 2, 128)[:, 1], "half-word"),
        ("{0}", ml_dtypes.bfloat16, lambda y: y[1::2], "half-word"),
    ):
        a, y = x.astype(dtype), x.astype(dtype)
        cut(y)[...] = 9
        found = diff(*(sd.LayoutArray.from_numpy(each, layout) for each in (a, y)))
        assert found.patterns[0].kind == kind, layout


def named_pattern(pattern: Pattern) -> tuple[str, str]:
    return pattern.kind, pattern.where


@pytest.mark.parametrize(
    ("narrow", "name"), [(ml_dtypes.bfloat16, "bf16"), (np.float16, "f16"), (ml_dtypes.float8_e5m2, "f8e5m2")]
)
def test_rounded_values(narrow: Any, name: str) -> None:
    x = values_of(F32)
    y = x.astype(narrow)
    for b in (y, y.astype(np.float32)):
        assert named_pattern(diff(x, b).patterns[0]) == ("rounded", name)


@pytest.mark.parametrize(
    ("narrow", "name"), [(ml_dtypes.bfloat16, "bf16"), (np.float16, "f16"), (ml_dtypes.float8_e4m3fn, "f8e4m3fn")]
)
def test_rounded_values_may_come_first(narrow: Any, name: str) -> None:
    x = values_of(F32)
    found = diff(x.astype(narrow), x).patterns[0]
    assert named_pattern(found) == ("rounded", name)
    assert found.sentence.startswith(f"a is b rounded to {name}: this explains all ")
    # Where both have one type, either may be the values as they were.
    assert all(pattern.kind != "rounded" for pattern in diff(x.astype(narrow).astype(np.float32), x).patterns)


def test_rounded_values_in_one_place() -> None:
    def fault(x: Array) -> None:
        x[8:16] = x[8:16].astype(ml_dtypes.bfloat16)

    found = diff(*faulty("f32[40,384]{1,0:T(8,128)}", fault)).patterns[0]
    assert named_pattern(found) == ("rounded", "bf16")
    assert found.sentence.startswith("where a and b differ, b is a rounded to bf16: this explains all ")


@pytest.mark.parametrize("bits", [16, 13])
def test_values_without_their_low_bits(bits: int) -> None:
    x = values_of(F32)
    y = (x.view(np.uint32) >> bits << bits).view(np.float32)
    found = diff(x, y).patterns[0]
    assert named_pattern(found) == ("rounded", f"{bits} low bits")
    assert found.sentence.startswith(f"b is a without the low {bits} bits of each element")


def test_zeros_and_whole_numbers_are_rounded_to_no_type() -> None:
    x = values_of(F32)
    for y in (np.zeros_like(x), np.where(np.arange(384) % 50, 0, x), np.round(x), np.nextafter(x, np.float32(9))):
        assert all(pattern.kind != "rounded" for pattern in diff(x, y.astype(np.float32)).patterns)


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("f32[40,384]{1,0:T(8,128)}", (1, 5, 3)),
        ("f32[384,40]{0,1:T(8,128)}", (1, 5, 3)),
        ("bf16[3,40,384]{2,1,0:T(8,128)(2,1)}", (3, 5, 3)),
    ],
)
def test_tiles_in_another_order(text: str, grid: tuple[int, int, int]) -> None:
    a = sd.LayoutArray.from_numpy(values_of(text), text)
    tiles = np.frombuffer(a.buffer, np.uint8).reshape(*grid, -1)
    b = sd.LayoutArray(np.ascontiguousarray(tiles.swapaxes(1, 2)).reshape(-1), text)
    found = diff(a, b).patterns[0]
    assert named_pattern(found) == ("tiles", "column by column")
    assert found.sentence.startswith("the tiles of b are a's, column by column of their grid instead of row by row")
    assert named_pattern(diff(b, a).patterns[0]) == ("tiles", "row by row")
