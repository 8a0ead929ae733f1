"""b holds a's elements in another order: reversed, permuted, two boxes exchanged, rows too near or too far apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import strided as sd
from strided.diagnosis.difference import Difference, diff
from tests.thinned import thinned
from tests.zarr_stores import chunked

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)
X = RNG.standard_normal((96, 384)).astype(np.float32)
IMAGE = RNG.integers(0, 256, (40, 50, 3)).astype(np.uint8)
HEADS = RNG.standard_normal((4, 7, 6, 16)).astype(ml_dtypes.bfloat16)
PACKED = RNG.integers(-8, 8, (40, 50)).astype(ml_dtypes.int4)
MASK = RNG.random((60, 70)) < 0.3
MOVED = {"order", "exchange", "pitch"}


def kinds(found: Difference) -> set[str]:
    return {pattern.kind for pattern in found.patterns}


def named(a: Any, b: Any, **options: Any) -> tuple[str, str, str]:
    """The first pattern: its kind, place and sentence."""
    first = diff(a, b, **options).patterns[0]
    return first.kind, first.where, first.sentence


def in_layout(values: Array, layout: str) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(np.ascontiguousarray(values), layout)


@pytest.mark.parametrize(
    ("values", "axes", "words"),
    [
        (X, (0,), "along dimension 0 in reverse order"),
        (X, (1,), "along dimension 1 in reverse order"),
        (X, (0, 1), "along dimensions 0 and 1 in reverse order"),
        (X.reshape(-1), (0,), "b is a with the indices in reverse order"),
        (IMAGE, (2,), "along dimension 2 in reverse order"),
        (HEADS, (1, 3), "along dimensions 1 and 3 in reverse order"),
        (HEADS.reshape(4, 7, 2, 3, 2, 8), (3,), "along dimension 3 in reverse order"),
        (PACKED, (1,), "along dimension 1 in reverse order"),
        (MASK, (0,), "along dimension 0 in reverse order"),
        ((X + 1j * X[::-1] * 2).astype(np.complex64), (1,), "along dimension 1 in reverse order"),
    ],
)
def test_reversed_dimensions(values: Array, axes: tuple[int, ...], words: str) -> None:
    kind, where, sentence = named(values, np.flip(values, axes))
    assert (kind, where) == ("order", f"reversed along {', '.join(map(str, axes))}")
    assert sentence.endswith(words)


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1}", "{1,0}"])
def test_reversed_dimensions_in_any_layout(layout: str) -> None:
    assert named(in_layout(X, layout), in_layout(X[:, ::-1], "{1,0}"))[0] == "order"
    assert named(X[:, ::-1], in_layout(X, layout))[0] == "order"
    packed = in_layout(PACKED, "{1,0:T(8,128)(8,1)E(4)}")
    assert named(packed, PACKED[::-1])[:2] == ("order", "reversed along 0")


def test_reversed_dimensions_within_a_tolerance() -> None:
    assert named(X, X[::-1] * np.float32(1 + 1e-6), rtol=1e-5)[:2] == ("order", "reversed along 0")


def test_one_element_that_was_not_reversed_is_enough_to_name_nothing() -> None:
    x = RNG.standard_normal((2048, 300)).astype(np.float32)
    y = x[:, ::-1].copy()
    y[1500, 99] = 7
    assert not kinds(diff(x, y)) & MOVED


def test_a_symmetric_ramp_with_other_signs_is_not_reversed() -> None:
    x = np.linspace(-1, 1, 1000)
    assert not kinds(diff(x, -x)) & MOVED


PERMUTED = [
    (HEADS, 2, [4, 3, 0, 2, 1, 5], "4, 3, 0, 2, 1, 5 along 2", "along dimension 2 in another order: 4, 3, 0, 2, 1, 5"),
    (
        HEADS, 3, np.arange(16).reshape(2, 8).T.reshape(-1), "0, 8, 1, 9, 2, 10, ... along 3",
        "b has the indices along dimension 3 in another order: 0, 8, 1, 9, 2, 10, ...",
    ),
    (
        X, 0, np.arange(96).reshape(3, 2, 16).swapaxes(1, 2).reshape(-1), "0, 16, 1, 17, 2, 18, ... along 0",
        "b has the indices along dimension 0 in another order: 0, 16, 1, 17, 2, 18, ... in each 32 indices",
    ),
    (
        X, 1, np.arange(384).reshape(4, 96)[[2, 0, 3, 1]].reshape(-1), "2, 0, 3, 1 along 1",
        "b has the blocks of 96 indices along dimension 1 in another order: 2, 0, 3, 1",
    ),
    (
        PACKED, 1, np.arange(50).reshape(10, 5)[:, [4, 1, 0, 3, 2]].reshape(-1), "4, 1, 0, 3, 2 along 1",
        "b has the indices along dimension 1 in another order: 4, 1, 0, 3, 2 in each 5 indices",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "axis", "order", "where", "words"), PERMUTED)
def test_indices_in_another_order(values: Array, axis: int, order: Any, where: str, words: str) -> None:
    kind, found, sentence = named(values, np.take(values, order, axis))
    assert (kind, found) == ("order", where)
    assert words in sentence


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1}"])
def test_rows_in_another_order_in_any_layout_and_type(layout: str) -> None:
    order = np.random.default_rng(1).permutation(96)
    x = X.copy()
    x[RNG.random(x.shape) < 0.1] = np.nan
    x[:3] = 0
    assert named(in_layout(x, layout), x[order])[0] == "order"
    assert named(x[::-1][order], in_layout(x, layout))[0] == "order"
    narrow = X.astype(ml_dtypes.bfloat16)
    assert named(narrow, narrow.astype(np.float32)[order])[0] == "order"


def test_an_order_in_which_one_element_differs_is_not_named() -> None:
    order = np.random.default_rng(1).permutation(2048)
    x = RNG.standard_normal((2048, 300)).astype(np.float32)
    y = x[order]
    y[1500, 99] = 7
    assert not kinds(diff(x, y)) & MOVED


def test_rows_that_are_alike_or_of_one_number_are_in_no_other_order() -> None:
    """Any two such arrays of as many rows of each kind are each other's rows in another order."""
    kind = np.repeat(np.arange(8), 64)
    routed, other = (np.eye(8, dtype=np.float32)[RNG.permutation(kind)] * 3 + np.arange(8) for _ in range(2))
    assert not kinds(diff(routed, other)) & MOVED
    ranks, others = (np.repeat(RNG.permutation(500)[:, None], 6, axis=1) for _ in range(2))
    assert not kinds(diff(ranks, others)) & MOVED
    assert not kinds(diff(ranks[:, 0], others[:, 0])) & MOVED
    assert not kinds(diff(np.eye(60, dtype=bool), np.eye(60, dtype=bool)[RNG.permutation(60)])) & MOVED


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (np.s_[3:4, :], np.s_[70:71, :], "3, :; 70, :"),
        (np.s_[:, 96:192], np.s_[:, 192:288], ":, 96:192; :, 192:288"),
        (np.s_[8:16, 128:256], np.s_[32:40, 0:128], "8:16, 128:256; 32:40, 0:128"),
        (np.s_[8:16, 0:128], np.s_[32:40, 128:256], "8:16, 0:128; 32:40, 128:256"),
        (np.s_[8:16, 0:128], np.s_[16:24, 0:128], "8:16, 0:128; 16:24, 0:128"),
        (np.s_[8:16, 0:128], np.s_[32:40, 50:178], "8:16, 0:128; 32:40, 50:178"),
        (np.s_[8:40, 200:300], np.s_[9:41, 30:130], "8:40, 200:300; 9:41, 30:130"),
    ],
)
@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1}"])
@pytest.mark.slow
def test_two_boxes_that_have_changed_places(one: Any, other: Any, where: str, layout: str) -> None:
    y = X.copy()
    y[one], y[other] = X[other], X[one]
    kind, found, sentence = named(X, in_layout(y, layout))
    assert (kind, found) == ("exchange", where)
    first, second = where.split("; ")
    assert sentence == f"b has what a has at [{first}] and at [{second}] exchanged, and nothing else differs"
    y[one][0, 0] += 1
    assert "exchange" not in kinds(diff(X, y))


def test_boxes_are_not_exchanged_if_anything_else_differs() -> None:
    y = X.copy()
    y[8:16, 128:256], y[32:40, 0:128] = X[32:40, 0:128], X[8:16, 128:256]
    y[10, 3] += 1  # at the rows of one box and the columns of the other
    assert "exchange" not in kinds(diff(X, y))


def test_boxes_that_overlap_along_two_dimensions_and_have_equal_elements() -> None:
    x = np.random.default_rng(0).integers(0, 16, (30, 30, 34)).astype(np.int8)
    y = x.copy()
    y[13:25, 2:13, 21], y[6:18, 7:18, 33] = x[6:18, 7:18, 33], x[13:25, 2:13, 21]
    assert named(x, y)[:2] == ("exchange", "6:18, 7:18, 33; 13:25, 2:13, 21")


def test_planes_of_a_stack_that_have_changed_places() -> None:
    y = HEADS.copy()
    y[:, 2], y[:, 5] = HEADS[:, 5], HEADS[:, 2]
    assert named(HEADS, y)[:2] == ("exchange", ":, 2, :, :; :, 5, :, :")


def padded(values: Array, pitch: int) -> Array:
    """The buffer of rows with padding behind them, read as if there were none."""
    rows = np.zeros((values.size // values.shape[-1], pitch), values.dtype)
    rows[:, : values.shape[-1]] = values.reshape(len(rows), -1)
    return rows.reshape(-1)[: values.size].reshape(values.shape)


def unpadded(values: Array, pitch: int) -> Array:
    """The buffer of rows without padding, read as if there were some."""
    size = values.shape[-1]
    rows = values.size // size
    found = np.zeros(rows * pitch, values.dtype)
    found[: values.size] = values.reshape(-1)
    return found.reshape(rows, pitch)[:, :size].reshape(values.shape)


@pytest.mark.parametrize(
    ("values", "pitch"),
    [(X[:, :380].copy(), 384), (X[:, :381].copy(), 400), (IMAGE, 4), (PACKED, 64), (HEADS, 20), (X[:, :40].copy(), 64)],
)
def test_rows_that_were_read_too_near_or_too_far_apart(values: Array, pitch: int) -> None:
    size = values.shape[-1]
    kind, where, sentence = named(values, padded(values, pitch))
    assert (kind, where) == ("pitch", f"{pitch} read as {size}")
    assert f"rows began {size} elements apart instead of {pitch}: this explains" in sentence
    assert sentence.endswith("; the others are padding")
    kind, where, sentence = named(values, unpadded(values, pitch))
    assert (kind, where) == ("pitch", f"{size} read as {pitch}")
    assert f"as if its rows began {pitch} elements apart instead of {size}: this explains" in sentence


def test_rows_in_the_order_of_memory() -> None:
    values = np.asfortranarray(X)
    moved = padded(values.T, 100).T
    assert named(values, moved)[:2] == ("pitch", "100 read as 96")
    assert named(X, in_layout(moved, "{0,1}"))[:2] == ("pitch", "100 read as 96")


def test_planes_with_rows_of_padding() -> None:
    values = X[:64].reshape(64, 16, 24)
    kind, where, sentence = named(values, padded(values.reshape(64, -1), 20 * 24).reshape(values.shape))
    assert (kind, where) == ("pitch", "480 read as 384")
    assert "its rows of 384 elements began 384 elements apart instead of 480" in sentence


def test_one_element_that_no_row_has_is_enough_to_name_no_pitch() -> None:
    values = X[:, :380].copy()
    moved = padded(values, 384)
    moved[50, 50] = 7
    assert "pitch" not in kinds(diff(values, moved))


@pytest.mark.slow
def test_arrays_in_many_files_and_of_any_strides(tmp_path: Path) -> None:
    store = chunked(tmp_path / "x.zarr", X, (24, 96))
    exchanged = X.copy()
    exchanged[8:16, 128:256], exchanged[32:40, 0:128] = X[32:40, 0:128], X[8:16, 128:256]
    changed = {
        "reversed along 1": X[:, ::-1],
        "2, 0, 3, 1 along 1": X.reshape(96, 4, 96)[:, [2, 0, 3, 1]].reshape(X.shape),
        "8:16, 128:256; 32:40, 0:128": exchanged,
        "390 read as 384": padded(X, 390),
        "-1:2": np.clip(X, -1, 2),
    }
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    swapped = X.astype(">f4")
    for where, values in changed.items():
        for a in (store, strided, swapped):
            assert named(a, values)[1] == where
        assert named(store, chunked(tmp_path / where.replace(":", "_") / "y.zarr", values, (48, 64)))[1] == where


@pytest.mark.parametrize("values", thinned([4, 3, 200], 3))
def test_what_is_random_is_in_no_order(values: int) -> None:
    for shape in ((4, 4), (16, 3), (2, 3, 4), (64, 5), (50,), (8, 8, 8)):
        for seed in range(8):
            rng = np.random.default_rng(seed)
            a, b = (rng.integers(0, values, shape) for _ in range(2))
            assert not kinds(diff(a, b)) & {*MOVED, "operation", "wrap", "clip"}
            c = np.where(rng.random(shape) < 0.2, b, a)
            assert not kinds(diff(a, c)) & {*MOVED, "operation", "wrap", "clip"}


def test_what_a_sample_of_many_files_tells_is_told_as_such(tmp_path: Path) -> None:
    square = np.random.default_rng(5).standard_normal((96, 96)).astype(np.float32)
    store = chunked(tmp_path / "x.zarr", square, (24, 48))
    exchanged = square.copy()
    exchanged[8:16], exchanged[32:40] = square[32:40], square[8:16]
    changed = {
        "order": square[::-1],
        "exchange": exchanged,
        "transpose": square.T,
    }
    for kind, values in changed.items():
        found, compared = (named(a, values) for a in (store, square))
        assert found[0] == compared[0] == kind
        assert found[2] == compared[2].removesuffix(", and nothing else differs") + ", as far as a sample tells"
    moved = square[np.random.default_rng(6).permutation(96)]
    found, compared = (named(a, moved) for a in (store, square))
    assert found[2] == compared[2] + ", as far as a sample tells"


def test_equal_elements_refute_what_a_sample_tells(tmp_path: Path) -> None:
    values = np.random.default_rng(5).standard_normal((48, 48)).astype(np.float32)
    turned = values.T.copy()
    turned[:2] = values[:2]
    store = chunked(tmp_path / "x.zarr", values, (24, 24))
    assert "transpose" not in kinds(diff(store, turned))
    turned = values[::-1].copy()
    turned[:2] = values[:2]
    assert "order" not in kinds(diff(store, turned))
