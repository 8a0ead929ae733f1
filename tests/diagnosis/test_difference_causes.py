"""Differences as people meet them, that looked like others: the report names what happened, or nothing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import strided as sd
from strided.diagnosis.difference import Difference, diff

Array = npt.NDArray[Any]
X = np.random.default_rng(7).standard_normal((96, 384)).astype(np.float32)


def kinds(found: Difference) -> list[str]:
    return [pattern.kind for pattern in found.patterns]


@pytest.mark.parametrize(
    "ramp",
    [
        np.arange(96 * 384, dtype=np.int32).reshape(96, 384),
        np.arange(96 * 384, dtype=np.float32).reshape(96, 384),
        np.add.outer(np.arange(96.0), np.arange(384.0)),
        np.repeat(np.arange(96, dtype=np.int64)[:, None], 384, 1),
    ],
)
def test_a_ramp_to_which_a_number_is_added_is_not_moved(ramp: Array) -> None:
    found = diff(ramp, ramp + ramp.dtype.type(3))
    assert (kinds(found)[0], kinds(found)[-1]) == ("offset", "everywhere")
    assert "shift" not in kinds(found)
    assert (found.patterns[0].where, found.patterns[0].sentence) == ("3", "in every mismatch b - a is 3")
    assert kinds(diff(ramp, np.roll(ramp, 3, axis=0)))[0] == "shift"


def test_powers_that_are_doubled_are_not_moved() -> None:
    powers = np.exp2(np.arange(60.0))
    found = diff(powers, 2 * powers)
    assert (found.patterns[0].kind, found.patterns[0].sentence) == ("scale", "in every mismatch b / a is 2")
    assert kinds(diff(X, X * np.float32(0.125)))[0] == "scale"


def test_small_integers_in_the_other_byte_order_are_not_scaled_alone() -> None:
    x = np.arange(200, dtype=np.uint16).reshape(10, 20)
    assert kinds(diff(x, x.byteswap()))[0] == "swap"


def test_no_number_is_added_or_multiplied_if_any_step_would_round() -> None:
    for y in (X + np.float32(0.1), X * np.float32(1.01), np.where(X > 3, X + 1, X + 2), -X):
        assert not {"offset", "scale"} & {*kinds(diff(X, y))}
    big = np.arange(2**62, 2**62 + 100, dtype=np.int64)
    assert not {"offset", "scale"} & {*kinds(diff(big, big - 2**40))}
    mixed = np.array([np.nan, np.inf, 1, 2, 3, 4])
    assert not {"offset", "scale"} & {*kinds(diff(mixed, mixed + 1, equal_nan=False))}


def test_few_mismatches_are_named_by_their_place_before_what_is_added() -> None:
    y = np.arange(96 * 384).reshape(96, 384)
    z = y.copy()
    z[9] += 5
    assert kinds(diff(y, z)) == ["row", "offset"]


def test_tf32_is_not_f16() -> None:
    """Whose range is less: some values are too small for it."""
    x = np.where(np.arange(384) % 50, X, X * np.float32(1e-6))
    bits = x.view(np.uint32)
    tf32 = ((bits + 0xFFF + (bits >> 13 & 1)) >> 13 << 13).view(np.float32)
    found = diff(x, tf32).patterns[0]
    assert (found.kind, found.where, found.share) == ("rounded", "11 significant bits", 1)
    assert found.sentence.startswith("b is a rounded to 11 significant bits, as tf32 has: this explains all")
    assert diff(X, X.astype(np.float16).astype(np.float32)).patterns[0].where == "f16"


def test_clipped_values_have_not_lost_their_low_bits() -> None:
    """1 is what any number from 1 to 2 is without them."""
    x = X * np.float32(0.5)
    assert "rounded" not in kinds(diff(x, np.clip(x, -1, 1)))


@pytest.mark.parametrize(
    ("key", "where", "words"),
    [
        (np.s_[48:], "48:96, :", "rows 48 to 95, columns 0 to 383; every element there differs"),
        (np.s_[:, :100], ":, 0:100", "rows 0 to 95, columns 0 to 99; every element there differs"),
        (np.s_[20:70, 30:300], "20:70, 30:300", "rows 20 to 69, columns 30 to 299; every element there differs"),
    ],
)
def test_what_fills_a_box_is_not_scattered(key: Any, where: str, words: str) -> None:
    y = X.copy()
    y[key] = np.random.default_rng(8).standard_normal(y[key].shape)
    (found,) = diff(X, y).patterns
    assert (found.kind, found.where) == ("box", where)
    assert found.sentence == f"all {diff(X, y).count:,} mismatches lie in {words}"


def test_a_box_that_is_sparse_or_nearly_the_array_is_not_named() -> None:
    some = np.random.default_rng(9).random(X.shape)
    for mask in (some < 0.4, (some < 0.4) & (np.arange(96)[:, None] > 50), np.arange(96)[:, None] * (X > 9) > 0):
        y = np.where(mask, X + 1, X).astype(np.float32)
        assert "box" not in kinds(diff(X, y))
    y = X.copy()
    y[1:] = 5 * y[1:] + 0.1
    assert "box" not in kinds(diff(X, y))


@pytest.mark.parametrize(
    ("x", "name"),
    [
        (np.random.default_rng(0).integers(0, 256, (40, 50)).astype(np.uint8), "s8"),
        (np.random.default_rng(0).integers(-8, 8, (40, 50)).astype(ml_dtypes.int4), "u4"),
        (X.astype(ml_dtypes.bfloat16), "f16"),
        (X.astype(np.float16), "bf16"),
        (X, "s32"),
        (X.astype(ml_dtypes.float8_e4m3fn), "f8e5m2"),
        (X.astype(">f4"), "u32"),
    ],
)
def test_bits_that_are_read_as_another_type(x: Array, name: str) -> None:
    dtype = sd.Shape(name, ()).dtype
    y = x.astype(x.dtype.newbyteorder("=")).view(dtype)
    found = diff(x, y)
    assert (found.patterns[0].kind, found.patterns[0].where) == ("type", name)
    assert f"b has the bits of a, read as {name} instead of " in found.patterns[0].sentence
    y[..., 7] = x[..., 8].view(dtype)
    assert kinds(diff(x, y))[0] != "type"


def test_masks_read_as_another_type() -> None:
    is_set = np.random.default_rng(0).random((8, 8)) < 0.5
    found = diff(np.where(is_set, 255, 0).astype(np.uint8), np.where(is_set, -1, 0).astype(np.int8))
    assert (found.patterns[0].kind, found.patterns[0].where) == ("type", "s8")
