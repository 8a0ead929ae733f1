"""Movements in memory are found in whatever order elements lie, and named only if they give those of b exactly."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import strided as sd
from strided.diagnosis.difference import Difference, diff
from strided.diagnosis.difference.causes.moved import shifted_bytes
from strided.diagnosis.difference.operands import Wrapped
from tests.thinned import thinned

Array = npt.NDArray[Any]


def values_of(dimensions: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.random.default_rng(7).standard_normal(dimensions).astype(dtype)


def moved(buffer: Any, nbytes: int) -> Array:
    return np.roll(np.frombuffer(buffer, np.uint8), nbytes)


def assert_shift(found: Difference, nbytes: int, words: str = "in memory") -> None:
    first = found.patterns[0]
    assert (first.kind, first.where) == ("shift", f"{nbytes} byte{'s' * (abs(nbytes) != 1)}")
    assert f" {words}: this explains" in first.sentence
    assert first.share > 0.9


@pytest.mark.parametrize("nbytes", [3, -1, 513, 12])
@pytest.mark.parametrize("axes", [(1, 0), (2, 1, 0), (1, 2, 0)])
def test_ndarrays_in_another_order(nbytes: int, axes: tuple[int, ...]) -> None:
    dense = values_of((40, 38, 6)[: len(axes)])
    other = moved(dense, nbytes).view(np.float32).reshape(dense.shape)
    assert_shift(diff(dense.transpose(axes), other.transpose(axes)), nbytes)


def test_an_ndarray_in_another_order_is_shown_as_its_layout() -> None:
    x = np.zeros((3, 4), np.float32, order="F")
    assert diff(x, x).a == "f32[3,4]{0,1}"
    assert diff(x[::-1], x).a == "float32[3, 4] with strides (-4, 12)"


READ_AS = [
    "f32[40,380]{0,1}",
    "f32[40,380]{1,0:T(8,128)}",
    "bf16[300,250]{0,1:T(8,128)(2,1)}",
    "f64[6,20,33]{1,2,0}",
    "f32[4000]{0:T(1024)}",
]


@pytest.mark.parametrize("nbytes", thinned([33, 3, -1], 3))
@pytest.mark.parametrize("text", READ_AS)
def test_a_dump_beside_values_in_another_order(text: str, nbytes: int, tmp_path: Path) -> None:
    """The bytes of the values are those that they would have in the dump's layout."""
    shape = sd.parse_shape(text)
    values = values_of(shape.dimensions, shape.dtype)
    written = sd.LayoutArray.from_numpy(values, shape, padding=1).buffer
    path = tmp_path / "dump"
    path.write_bytes(moved(written, nbytes).tobytes())
    assert_shift(diff(values, (path, text)), nbytes)
    words = "in memory" if shape.rank == 1 else "in the memory of a"
    assert_shift(diff((path, text), values), -nbytes, words)


def test_a_header_that_is_read_as_values() -> None:
    text = "f32[100,380]{1,0:T(8,128)}"
    values = values_of((100, 380))
    raw = np.concatenate([np.arange(6, dtype=np.uint8), sd.LayoutArray.from_numpy(values, text).buffer])
    read = sd.LayoutArray(raw, text, allow_excess=True)
    assert_shift(diff(values, read), 6)
    assert_shift(diff(np.asfortranarray(values), read), 6)


@pytest.mark.parametrize("a_layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)}"])
@pytest.mark.parametrize("b_layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)}"])
@pytest.mark.slow
def test_what_does_not_give_every_compared_element_is_no_movement(a_layout: str, b_layout: str) -> None:
    values = values_of((48, 384))
    a = sd.LayoutArray.from_numpy(values, f"f32[48,384]{a_layout}")
    written = sd.LayoutArray.from_numpy(values, f"f32[48,384]{b_layout}").buffer
    b = sd.LayoutArray(moved(written, 3), f"f32[48,384]{b_layout}")
    assert_shift(diff(a, b), 3)
    b[20:22] = 1
    assert "shift" not in {pattern.kind for pattern in diff(a, b).patterns}


@pytest.mark.parametrize("nbytes", thinned([40_000, -40_002, -3_001, 40_002], 2))
@pytest.mark.parametrize("text", ["f32[30000]{0}", "f32[100,380]{1,0:T(8,128)}", "bf16[250,200]{1,0}"])
def test_a_dump_that_was_read_from_a_wrong_offset(text: str, nbytes: int) -> None:
    """However far it is: what comes from beyond an end refutes nothing, and is not explained."""
    shape = sd.parse_shape(text)
    values = values_of(shape.dimensions, shape.dtype)
    written = sd.LayoutArray.from_numpy(values, shape).buffer
    beside = np.random.default_rng(1).bytes(abs(nbytes))
    image = beside + written.tobytes() + beside
    read = sd.LayoutArray(image[0 if nbytes > 0 else 2 * len(beside) :], shape, allow_excess=True)
    for a in (values, sd.LayoutArray(written, shape)):
        first = diff(a, read).patterns[0]
        assert (first.kind, first.where) == ("shift", f"{nbytes:,} bytes")
        assert first.share == pytest.approx(1 - abs(nbytes) / written.nbytes, abs=0.05)
        assert first.sentence.endswith("the others come from beyond an end, or from padding")


def test_a_dump_of_the_other_byte_order_that_was_read_from_a_wrong_offset() -> None:
    values = np.random.default_rng(0).integers(0, 1 << 30, 40_000).astype(">i4")
    first = diff(values, np.roll(values, 10_000).astype("<i4")).patterns[0]
    assert (first.kind, first.where, first.share) == ("shift", "40,000 bytes", 0.75)


@pytest.mark.parametrize("nbytes", [-1_932_004, 1_932_004])
def test_nearly_half_of_a_dump_may_come_from_beyond_an_end(nbytes: int) -> None:
    image = np.random.default_rng(2).random(1_500_000, np.float32)
    parts = image[:1_000_000], image[483_001 : 483_001 + 1_000_000]
    first = diff(*parts[:: -1 if nbytes > 0 else 1]).patterns[0]
    assert (first.kind, first.where) == ("shift", f"{nbytes:,} bytes")
    assert first.share == pytest.approx(0.517, abs=0.02)


@pytest.mark.parametrize(
    "text", ["s32[1000,1]{1,0:T(8,128)}", "s32[300,3]{1,0:T(8,128)}", "s16[999,2]{1,0:T(8,128)(2,1)}"]
)
def test_zeros_of_padding_alone_tell_of_no_movement(text: str) -> None:
    """Most of b's values are zeros, as are those of padding, beside which elements of narrow arrays lie."""
    shape = sd.parse_shape(text)
    for seed in range(15):
        rng = np.random.default_rng(seed)
        a, b = (
            sd.LayoutArray.from_numpy(
                (rng.integers(0, 60, shape.dimensions) * (rng.random(shape.dimensions) > zeros)).astype(shape.dtype),
                shape,
            )
            for zeros in (0.7, 0.9)
        )
        assert "shift" not in {pattern.kind for pattern in diff(a, b).patterns}, seed


@pytest.mark.parametrize("layout", ["{1,0}", "{1,0:T(8,128)}"])
def test_of_values_that_repeat_the_nearest_tell_the_movement(layout: str) -> None:
    values = np.tile(np.arange(64, dtype=np.float32), (512, 8))
    a, b = (sd.LayoutArray.from_numpy(x, layout) for x in (values, np.roll(values, 3)))
    assert_shift(diff(a, b), 12)


def test_a_file_that_is_truncated_is_read_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump"
    path.write_bytes(values_of((60_000,)).tobytes())
    runs, released = shifted_bytes._runs, Wrapped.release
    blocks: list[str] = []

    def release(operand: Wrapped) -> None:
        released(operand)
        if operand.name == "a" and looked_for:
            blocks.append(operand.name)
            os.truncate(path, 239_999)

    def runs_of(*arguments: Any) -> Any:
        looked_for.append(True)
        return runs(*arguments)

    looked_for: list[bool] = []
    monkeypatch.setattr(shifted_bytes, "_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(shifted_bytes, "_runs", runs_of)
    monkeypatch.setattr(Wrapped, "release", release)
    with pytest.raises(sd.BufferSizeError, match="was truncated"):
        diff((path, "f32[60000]{0}"), np.random.default_rng(1).random(60_000, np.float32))
    assert len(blocks) == 1


def test_a_run_of_few_values_is_no_movement() -> None:
    a, b = np.zeros((2, 40_000), np.float32)
    a[:20_000], b[15_000:35_000] = 1, 1
    assert "shift" not in {pattern.kind for pattern in diff(a, b).patterns}


def test_bytes_of_two_types_are_not_compared() -> None:
    x = values_of((40, 300), ml_dtypes.bfloat16)
    read = sd.LayoutArray(moved(np.asfortranarray(x).tobytes(order="A"), 1), "f16[40,300]{0,1}")
    assert "shift" not in {pattern.kind for pattern in diff(x, read).patterns}


@pytest.mark.parametrize("dtype", ["<i8", ">i8", ">u4"])
def test_small_integers_are_found_in_either_byte_order(dtype: str) -> None:
    """In the other one they have high bits alone, of which a product hands nothing down to lower ones."""
    values = np.random.default_rng(0).integers(0, 4, (100, 300)).astype(dtype)
    first = diff(values, np.roll(values, 317).astype(dtype)).patterns[0]
    assert (first.kind, first.where, first.share) == ("shift", "317", 1.0)


@pytest.mark.parametrize("bitorder", ["little", "big"])
@pytest.mark.parametrize("nbytes", [-9000, 12_000])
def test_packed_elements_moved_however_far(nbytes: int, bitorder: Any) -> None:
    """A third of b's elements may come from beyond an end, or from padding."""
    values = np.random.default_rng(1).integers(0, 16, (200, 300)).astype(ml_dtypes.uint4)
    a = sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)(8,1)E(4)}", bitorder=bitorder)
    b = sd.LayoutArray(moved(a.buffer, nbytes), a.xla_shape, bitorder=bitorder)
    b.buffer[: max(nbytes, 0)] = b.buffer[b.buffer.size + min(nbytes, 0) :] = 0
    first = diff(a, b).patterns[0]
    assert (first.kind, first.where) == ("shift", f"{nbytes:,} bytes")
    assert "; the others come from beyond an end, or from padding" in first.sentence
    assert 1 / 3 < first.share < 1
