"""Layouts are found from bytes alone, and from values at hand; what the bytes cannot tell is not told.

`tests/diagnosis/campaign.py` tries many more buffers, by hand.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import re
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided import demo
from strided.diagnosis.identification import file_blocks, sampling
from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.file_blocks import FileBlocks
from strided.diagnosis.identification.levels import Feature, Rows, fit, numbered
from strided.diagnosis.identification.placement import padding
from strided.diagnosis.identification.ranking import ranks
from strided.diagnosis.identification.type_signs import narrow_signs, type_signs
from strided.errors import BufferSizeError
from strided.inspect import Candidate, Identification, identify
from strided.layout.element_types import ELEMENT_TYPES
from tests.cases import RAW_BUFFERS
from tests.commands import run_command
from tests.diagnosis.campaign import buffer_of, ids, noise, smooth, weights
from tests.paths import DATA
from tests.thinned import thinned


def named(found: Identification) -> set[str]:
    """The best candidate's shape and its ties."""
    assert found.best is not None, str(found)
    return {str(shape) for shape in (found.best.shape, *found.best.ties)}


def first(found: Identification) -> set[str]:
    """The first candidate's shape and its ties, whether it is decided for or not."""
    return {str(shape) for shape in (found.candidates[0].shape, *found.candidates[0].ties)}


def without_layout(text: str) -> str:
    return sd.parse_shape(text).text(layout=False)


@pytest.mark.parametrize("most", [1, 7, 300, 10**6])
@pytest.mark.parametrize("count", [0, 1, 50, 2000])
def test_rows_are_numbered_as_unique_does(count: int, most: int) -> None:
    rows = np.random.default_rng(count).integers(0, most, count)
    for found, wanted in zip(numbered(rows), np.unique(rows, return_inverse=True, return_counts=True), strict=True):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


def test_one_mean_for_all_explains_nothing_whatever_sums_are_rounded_to() -> None:
    """Else results say that padding tells 0% of the variation, or do not, as memory is aligned."""
    one = np.zeros(4000, np.int64)
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=4000)
        feature = Feature((values - values.mean()) / values.std())
        assert fit(feature, one).gain == fit(feature, one, Rows.of(one)).gain == 0


def test_levels_of_rows_are_those_of_the_random_model() -> None:
    """Rows of equally many slots are taken together; here each has a line of its own, as the formula says."""
    rng = np.random.default_rng(5)
    rows = np.sort(rng.integers(0, 60, 900) ** 2 // 60)
    values = rng.normal(size=60)[rows] + rng.normal(size=900)
    values = (values - values.mean()) / values.std()
    count = np.bincount(rows)[np.unique(rows)]
    means = np.array([values[rows == row].mean() for row in np.unique(rows)])
    within = sum(float(values[rows == row].var()) * n for row, n in zip(np.unique(rows), count, strict=True))
    gains = []
    for ratio in 2.0 ** np.arange(-12, 9):
        weight = count / (1 + ratio * count)
        left = (within + weight @ (means - weight @ means / weight.sum()) ** 2) / 900
        gains.append(-(900 * np.log(left) + np.log(1 + ratio * count).sum() + np.log(900)) / 2)
    feature = Feature(values)
    scale = min(1.0, 2 / (feature.kurtosis - 1))
    found = fit(feature, np.zeros(900, np.int64), Rows.of(rows))
    assert found.gain == pytest.approx(scale * max(gains), rel=1e-9)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("count", [0, 1, 50, 5000])
def test_ranks_count_what_is_below_and_half_of_what_is_equal(count: int, few: bool) -> None:
    rng = np.random.default_rng(count)
    numbers = rng.integers(-3, 3, count) * 1.0 if few else rng.normal(size=count)
    numbers[rng.random(count) < 0.2] = np.nan
    among = numbers[: count // 2]
    quantiles = np.sort(among)[:: max(1, len(among) // 1024)]
    below, equal = (op(quantiles, numbers[:, None]).sum(axis=1) for op in (np.less, np.equal))
    below[np.isnan(numbers)] = np.count_nonzero(~np.isnan(quantiles))
    assert ranks(numbers, among).tolist() == ((below + equal / 2) / max(1, len(quantiles))).tolist()


def test_readings_of_noise_take_little_memory() -> None:
    """What is kept of each reading is next to nothing where it has no structure, and there are hundreds of them."""
    raw = np.random.default_rng(0).bytes(20160)
    tracemalloc.start()
    try:
        identify(raw, "f32")
        assert tracemalloc.get_traced_memory()[1] < 7e6
    finally:
        tracemalloc.stop()


def test_reprs_say_what_was_found() -> None:
    shape = "f32[17,300]{1,0:T(8,128)}"
    values = np.sin(np.arange(5100, dtype=np.float32) / 50).reshape(17, 300)
    raw = b"\0" * 64 + sd.LayoutArray.from_numpy(values, shape).buffer.tobytes()
    found = identify(raw, "f32[17,300]", like=values)
    assert repr(found) == f"<Identification: certain, {shape}, 64 bytes in front>"
    assert "size: 64 bytes lie in front, as headers do" in identify(raw, "f32[17,300]").candidates[0].evidence
    assert repr(Identification((), "none")) == "<Identification: none>"
    tied = Identification((*found.candidates, *found.candidates), "tied")
    assert repr(tied) == f"<Identification: tied, 2 candidates, the first {shape}, 64 bytes in front>"


# By structure alone.


@pytest.mark.parametrize(
    "text",
    thinned(
        [
            "f32[17,300]{1,0:T(8,128)}",
            "f32[48,200]{0,1}",
            "bf16[64,256]{1,0:T(8,128)}",
            "bf16[17,300]{1,0:T(8,128)(2,1)}",
            "s8[48,200]{0,1:T(8,128)(4,1)}",
            "f16[33,129]{1,0}",
            "s4[48,200]{1,0:T(8,128)(8,1)E(4)}",
            "u8[12,40,64]{2,1,0:T(8,128)(4,1)}",
            "f64[64,96]{1,0:T(2,128)}",
            "s32[1000]{0:T(1024)}",
        ],
        3,
    ),
)
def test_smooth_values(text: str) -> None:
    raw, _ = buffer_of(text, smooth)
    found = identify(raw, without_layout(text))
    assert found.verdict == "likely"
    assert text in named(found)


@pytest.mark.parametrize("known", thinned(["bf16[5,131]", "[5,131]", "bf16[5,?]", None], 3))
def test_the_buffer_of_the_demonstration(known: str | None) -> None:
    found = identify(demo.sample(), known)
    assert found.best is not None
    assert (found.verdict, str(found.best.shape), found.best.offset) == ("likely", demo.SHAPE, 0)
    assert any("hold one of 4 constants" in sentence for sentence in found.best.evidence)


@pytest.mark.parametrize(("filling", "known"), [(np.nan, None), (np.nan, "bf16[5,131]"), (-1, "[5,131]")])
@pytest.mark.slow
def test_filling_says_nothing_of_the_type(filling: float, known: str | None) -> None:
    raw = sd.LayoutArray.from_numpy(demo.expected(), demo.SHAPE, padding=filling).buffer
    found = identify(raw, known)
    assert found.best is not None
    assert (found.verdict, str(found.best.shape), found.best.byteorder) == ("likely", demo.SHAPE, "little")


@pytest.mark.slow
def test_few_values_are_no_padding() -> None:
    raw = np.random.default_rng(0).integers(0, 6, 8 * 384).astype(np.uint8)
    found = identify(raw, "u8[8,?]", limit=1000)
    assert {c.shape.dimensions for c in found.candidates} >= {(8, 384)}
    assert not any(256 < c.shape.dimensions[1] < 384 for c in found.candidates)


@pytest.mark.parametrize("rank", [0, 1, 33, 64])
def test_any_rank_that_numpy_has(rank: int) -> None:
    shape = f"f32[{','.join(['1'] * max(0, rank - 2) + ['16', '3'][2 - min(rank, 2) :])}]"
    values = np.arange(sd.parse_shape(shape).size, dtype=np.float32)
    assert str(identify(values.tobytes(), shape).candidates[0].shape).startswith(shape)


@pytest.mark.parametrize("claim", ["[]", "f32[]", "s32[]", "f16[]", "s4[]", "pred[]", None])
def test_one_element(claim: str | None) -> None:
    raw = np.float32(1).tobytes()
    found = identify(raw[: 1 if claim == "s4[]" else 4], claim or "f32[]", like=None if claim else np.float32(1))
    assert all(not c.shape.dimensions for c in found.candidates)
    assert found.candidates
    assert (found.verdict == "certain") == (claim is None)


SCALED = ["f32[48,200]{1,0}", "bf16[64,256]{1,0:T(8,128)(2,1)}", "f32[33,129]{0,1:T(8,128)}", "s8[64,256]{1,0}"]
SORTED = ["s32[17,300]{1,0:T(8,128)}", "u32[4096]{0:T(1024)}", "s32[8,64,24]{2,1,0}"]


@pytest.mark.parametrize(
    ("text", "values", "evidence"),
    thinned(
        [
            *((text, weights, "scale: ") for text in SCALED),
            *((text, ids, "order: the values rise") for text in SORTED),
        ],
        4,
    ),
)
def test_rows_of_different_scale_and_sorted_values(text: str, values: Any, evidence: str) -> None:
    raw, _ = buffer_of(text, values)
    found = identify(raw, without_layout(text))
    assert text in named(found)
    assert any(sentence.startswith(evidence) for sentence in found.candidates[0].evidence)


@pytest.mark.parametrize(
    ("known", "size"),
    thinned([("f32[17,300]", 36864), ("f32[40,200]", 32000), ("s8[1000]", 1000), ("bf16[8,256]", 4096)], 2),
)
def test_noise_is_never_decided(known: str, size: int) -> None:
    raw = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    found = identify(raw, known)
    assert (found.verdict, found.best) == ("tied", None)
    assert found.candidates


@pytest.mark.parametrize("seed", thinned([1, 2, 3, 4, 5], 5))
@pytest.mark.parametrize(
    "text",
    thinned(
        [
            "s8[33,130]{1,0:T(8,128)(4,1)}",
            "s4[17,129]{1,0:T(8,128)(8,1)E(4)}",
            "s32[48,200]{0,1:T(8,128)}",
            "u8[100,200]{1,0:T(8,128)}",
        ],
        3,
    ),
)
@pytest.mark.slow
def test_garbage_in_the_padding_gives_the_rows_of_a_wrong_layout_no_scale(text: str, seed: int) -> None:
    raw, _ = buffer_of(text, noise, seed=seed)
    found = identify(raw, without_layout(text))
    assert str(found.candidates[0].shape) == text


@pytest.mark.parametrize("layout", thinned(["{1,0:T(8,128)(4,1)}", "{1,0:T(8,128)}", "{0,1:T(8,128)(4,1)}"], 5))
@pytest.mark.parametrize("share", thinned([0.02, 0.5], 2))
def test_preds_of_any_share_with_garbage_in_the_padding(layout: str, share: float) -> None:
    shape = sd.parse_shape(f"pred[100,100]{layout}")
    rng = np.random.default_rng(2)
    array = sd.LayoutArray(bytearray(rng.bytes(shape.buffer_byte_size)), shape)
    array[...] = rng.random((100, 100)) < share
    found = identify(array.buffer, "pred[100,100]")
    # Of a square and its transpose the usual one is named.
    transposed = str(shape).replace("{0,1", "{1,0")
    assert found.best is None or named(found) & {str(shape), transposed}


@pytest.mark.parametrize("seed", thinned([1, 2, 3], 3))
@pytest.mark.parametrize("text", thinned(["f32[100,200]{0,1}", "bf16[100,200]{0,1}", "f32[1000,2000]{0,1}"], 5))
def test_columns_that_repeat_the_rows_are_no_scale_of_their_own(text: str, seed: int) -> None:
    raw, _ = buffer_of(text, weights, seed=seed)
    assert text in named(identify(raw, without_layout(text)))


def test_what_neighbours_differ_by_is_told() -> None:
    for seed in range(3):
        raw = np.random.default_rng(seed).normal(size=5100).astype(np.float32)
        assert "differ by  of" not in str(identify(raw, "f32[17,300]", limit=100).to_dict())


def test_constant_padding_decides_even_noise() -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, _ = buffer_of(text, noise, padding=0)
    found = identify(raw, "f32[17,300]")
    assert text in named(found)
    assert found.candidates[0].evidence[0].startswith("padding: all ")


def test_garbage_in_the_padding_is_no_evidence_against() -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, _ = buffer_of(text, smooth)
    found = identify(raw, "f32[17,300]")
    assert text in named(found)
    assert not any(sentence.startswith("padding") for sentence in found.candidates[0].evidence)


def test_constant_values_decide_nothing() -> None:
    found = identify(np.zeros((16, 256), np.float32), "f32[16,256]")
    assert found.verdict == "tied"
    assert len(found.candidates[0].ties) > 20  # all layouts give the same values


# What is known.


@pytest.mark.parametrize("text", ["f16[30,20,16]{2,0,1:T(8,128)(2,1)}", "s8[8,64,96]{2,1,0:T(32,128)(4,1)}"])
@pytest.mark.slow
def test_equal_values_beside_garbage_in_the_padding(text: str) -> None:
    """A buffer that was set to one value: wrong readings mix it with garbage, and look smooth for all that is equal."""
    raw = np.frombuffer(np.random.default_rng(1).bytes(sd.parse_shape(text).buffer_byte_size), np.uint8).copy()
    sd.LayoutArray(raw, text)[...] = 1
    found = identify(raw, without_layout(text))
    assert text in first(found)
    assert any("elements that were looked at hold" in sentence for sentence in found.candidates[0].evidence)


@pytest.mark.parametrize("text", ["bf16[128,128]{1,0:T(8,128)(2,1)}", "f32[128,128]{1,0:T(8,128)}"])
def test_of_a_causal_mask_and_its_transpose_the_usual_one_is_named(text: str) -> None:
    """Both rest on the few pairs of a sample that lie across the diagonal: how many there are is chance."""
    raw, _ = buffer_of(text, lambda _, dimensions: np.tril(np.ones(dimensions)))
    assert text in named(identify(raw, without_layout(text)))


def waves(dimensions: tuple[int, int], noise: float, seed: int) -> Any:
    rows, columns = np.ogrid[: dimensions[0], : dimensions[1]]
    return np.sin(rows / 9) * np.cos(columns / 17) + noise * np.random.default_rng(seed).normal(size=dimensions)


def is_sure_of_another(raw: bytes, text: str, front: int = 0) -> bool:
    """Whether one reading is decided for that is not a layout with so many bytes in front."""
    found = identify(raw, without_layout(text))
    return found.verdict == "likely" and (text not in named(found) or found.candidates[0].offset != front)


@pytest.mark.parametrize(
    ("kind", "dimensions"), thinned(itertools.product(["pred", "u8"], ["17,40", "12,128", "24,100", "12,384"]), 9)
)
@pytest.mark.slow
def test_of_masks_none_but_the_right_layout_is_named(kind: str, dimensions: str) -> None:
    """Their neighbours are much alike, and zeros of the padding are the smoothest rows of a mask."""
    for layout in ("{1,0:T(8,128)(4,1)}", "{1,0:T(8,128)}", "{1,0}"):
        text = f"{kind}[{dimensions}]{layout}"
        for seed in range(2):
            values = waves(sd.parse_shape(text).dimensions, 0.1, seed) > 0  # type: ignore[arg-type]
            raw = sd.LayoutArray.from_numpy(values.astype(sd.parse_shape(text).dtype), text).buffer
            assert not is_sure_of_another(raw.tobytes(), text), text


@pytest.mark.parametrize("text", ["bf16[12,128]{1,0}", "f32[15,256]{1,0}", "s32[20,128]{1,0}"])
def test_zeros_in_front_are_no_rows(text: str) -> None:
    shape = sd.parse_shape(text)
    values = (1000 * waves(shape.dimensions, 0.02, 1)).astype(shape.dtype)  # type: ignore[arg-type]
    raw = bytes(1024) + values.tobytes()
    assert not is_sure_of_another(raw, text, 1024)


@pytest.mark.parametrize("seed", thinned([8, 26, 39, 54], 3))
def test_rows_of_values_that_change_little_by_little_have_no_levels_of_their_own(seed: int) -> None:
    """Neither do those of a wrong reading, which the right one beats by chance alone, or not at all."""
    rng = np.random.default_rng(seed)
    axes = [np.sin(np.arange(n) / rng.uniform(5, 20) + rng.uniform(0, 3)) for n in (17, 40)]
    values = np.outer(*axes) + rng.choice([0.02, 0.1, 0.3]) * rng.normal(size=(17, 40)) > 0
    assert not is_sure_of_another(bytes(512) + values.T.tobytes(), "pred[17,40]{0,1}", 512)


def test_rows_that_are_nearer_than_neighbours_are_no_sequence() -> None:
    """Sorted rows, column by column: from the end of one to the next they go on, but each row is its own."""
    values = np.sort(np.random.default_rng(40).integers(0, 30000, (256, 512)), axis=-1).astype(np.int32)
    assert "s32[256,512]{0,1}" in named(identify(values.T.tobytes(), "s32[256,512]"))


@pytest.mark.parametrize(("text", "axis", "tail"), [("s32[5,131]{1,0}", 1, 4), ("bf16[300,70]{1,0}", 0, 496)])
def test_bytes_that_may_lie_at_either_end_are_not_taken_for_a_header(text: str, axis: int, tail: int) -> None:
    shape = sd.parse_shape(text)
    values = np.indices(shape.dimensions)[axis].astype(shape.dtype)
    assert not is_sure_of_another(values.tobytes() + bytes(tail), text)


def test_bytes_behind_an_array_are_not_decided_for() -> None:
    """Random bytes in front are true preds, and a causal mask goes on as smoothly some rows further down."""
    front = np.random.default_rng(0).integers(1, 256, 512, dtype=np.uint8).tobytes()
    raw = front + np.tril(np.ones((33, 129), np.bool_)).tobytes()
    assert not is_sure_of_another(raw, "pred[33,129]{1,0}", 512)


@pytest.mark.slow
def test_of_the_usual_layouts_none_is_taken_for_granted() -> None:
    """Each plane has a scale of its own, which says nothing of how its elements lie."""
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(8, 128, 256)) * np.exp(rng.normal(size=(8, 1, 1)))).astype(np.float32)
    found = identify(values.tobytes(), "f32[8,128,256]")
    assert found.verdict == "tied"
    assert {"f32[8,128,256]{2,1,0}", "f32[8,128,256]{2,1,0:T(8,128)}"} <= {str(c.shape) for c in found.candidates}


def test_small_integers_in_floats_are_not_swapped() -> None:
    """With their bytes in reverse order they are subnormals, whose exponents differ even less."""
    text = "f16[33,129]{1,0:T(8,128)(2,1)}"
    values = np.random.default_rng(0).integers(0, 5, (33, 129)).astype(np.float16)
    found = identify(sd.LayoutArray.from_numpy(values, text).buffer, without_layout(text))
    assert (found.candidates[0].byteorder, text in first(found)) == ("little", True)


def test_order_that_a_few_places_show_is_chance() -> None:
    values = np.random.default_rng(587).random((10, 200)) < 0.05
    assert identify(bytes(64) + values.T.tobytes(), "pred[10,200]").verdict == "tied"


@pytest.mark.slow
def test_lengths_of_rows_do_not_tell_which_rows_are_neighbours() -> None:
    """Masks of padding: each row is a run of ones, and no row is like the next one in either reading."""
    text = "s32[8,64,96]{2,1,0:T(8,128)}"
    for seed in range(4):
        lengths = np.random.default_rng(seed).integers(1, 97, (8, 64, 1))
        values = (np.arange(96) < lengths).astype(np.int32)
        raw = np.frombuffer(np.random.default_rng(seed).bytes(8 * 64 * 128 * 4), np.uint8).copy()
        sd.LayoutArray(raw, text)[...] = values
        assert text in first(identify(raw, without_layout(text)))


@pytest.mark.slow
def test_counted_values_are_a_sequence_with_tiles_that_give_the_same_values() -> None:
    """Rows of 128 columns lie in T(8,128) as without tiles: that of the two was not asked whether values go on."""
    values = np.arange(2 * 4 * 64 * 128, dtype=np.int32).reshape(2, 4, 64, 128) % 120
    found = identify(values.tobytes(), "s32[2,4,64,128]")
    assert "s32[2,4,64,128]{3,2,1,0:T(8,128)}" in named(found)


@pytest.mark.slow
def test_sequences_one_below_the_other_have_no_tiles_of_their_length() -> None:
    """They end at multiples of a power of two, where most pairs of a sample lie: as torn as the tiles of a layout."""
    rows, columns = np.ogrid[:16384, :1024]
    values = np.sin(rows % 64 / 40 + rows // 64) + np.sin(columns / 700)
    values = values + 0.05 * np.random.default_rng(0).normal(size=values.shape)
    array = sd.LayoutArray.from_numpy(values.astype(ml_dtypes.bfloat16), "{1,0:T(8,128)(2,1)}")
    assert str(array.xla_shape) in first(identify(array.buffer, "bf16[16384,1024]"))


@pytest.mark.parametrize("make", thinned([weights, noise], 2))
@pytest.mark.parametrize("text", ["f32[17,300]{1,0:T(8,128)}", "s8[48,200]{1,0:T(32,128)(4,1)}"])
@pytest.mark.slow
def test_padding_of_ones_alone_is_no_small_integer(text: str, make: Any) -> None:
    """A fill of 0xff is NaN to floats and -1 to integers, of which the least length was taken for a sign of s32."""
    shape = sd.parse_shape(text)
    values = buffer_of(text, make)[1]
    raw = np.full(shape.buffer_byte_size, 255, np.uint8)
    sd.LayoutArray(raw, shape)[...] = values
    found = identify(raw, text[text.index("[") : text.index("{")])
    assert found.candidates[0].shape.element_type == shape.element_type


@pytest.mark.parametrize("known", thinned(["[17,300]", "f32[17,?]", "f32[?,300]", None, "f32", "[17,?]"], 3))
def test_parts_of_the_shape(known: str | None) -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, _ = buffer_of(text, smooth, padding=0)
    assert text in named(identify(raw, known))


@pytest.mark.parametrize("known", ["f32[?,17,?]", "f32[5,?,?]", "f32[?,?,300]"])
@pytest.mark.slow
def test_two_unknown_sizes_of_a_row_major_layout(known: str) -> None:
    text = "f32[5,17,300]{2,1,0:T(8,128)}"
    assert text in named(identify(buffer_of(text, smooth, padding=0)[0], known))


def test_too_many_unknown_sizes_are_said_to_be() -> None:
    raw, _ = buffer_of("f32[17,300]{1,0:T(8,128)}", smooth)
    assert "no row-major layout that was tried for f32[17,?,?]" in str(identify(raw, "f32[17,?,?]"))
    assert "give one more size" in str(identify(raw, "f32[17,?,?]"))
    assert "too many sizes of f32[?,?,?] are unknown: give all but one" in str(identify(raw, "f32[?,?,?]"))
    assert "no layout of f32[5000,?]" in str(identify(raw, "f32[5000,?]"))


def test_a_claim_that_holds_is_best() -> None:
    raw, _ = buffer_of("f32[64,256]{1,0:T(8,128)}", smooth)
    claim = "f32[64,256]{1,0:T(8,128)(1,1)}"
    found = identify(raw, claim)
    assert str(found.candidates[0].shape) == claim
    assert "f32[64,256]{1,0:T(8,128)}" in named(found)


@pytest.mark.parametrize("claim", thinned(["f32[64,256]{1,0}", "f32[64,256]{0,1}", "f32[64,256]{1,0:T(4,128)}"], 3))
def test_a_refuted_claim_is_not_best(claim: str) -> None:
    text = "f32[64,256]{1,0:T(8,128)}"
    raw, _ = buffer_of(text, smooth)
    found = identify(raw, claim)
    assert text in named(found)
    assert claim not in named(found)


@pytest.mark.parametrize("front", thinned([64, 0], 2))
def test_a_claim_counts_its_prefix_of_dynamic_sizes(front: int, tmp_path: Path) -> None:
    claim = "f32[64,300]{1,0:T(8,128)M(8)}"
    raw, values = buffer_of("f32[64,300]{1,0:T(8,128)}", smooth)
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(front) + np.array([64, 300], np.int32).tobytes() + raw.tobytes())
    for like in (None, values):
        found = identify(path, claim, like=like)
        assert found.best is not None
        assert (str(found.best.shape), found.best.offset) == (claim, front)
        assert bool(found.notes) == bool(front)
        array = sd.open(path, found.best.shape, offset=found.best.offset, bitorder=found.best.bitorder)
        assert np.array_equal(np.asarray(array), values)
    assert identify(path, claim, offset=front).notes == ()
    without = identify(raw, claim)
    assert "f32[64,300]{1,0:T(8,128)}" in named(without)
    assert "claim: the evidence speaks against the claimed layout" in without.notes


def test_a_prefix_that_takes_the_whole_buffer_leaves_nothing_to_read() -> None:
    claim = "f32[3]{0:M(140)}"
    found = identify(bytes(136), claim).candidates
    assert found
    assert all("M(" not in str(one.shape) for one in found)


def test_a_transposed_shape() -> None:
    text = "f32[48,200]{1,0}"
    raw, values = buffer_of(text, smooth)
    best = identify(raw, "f32[200,48]").best
    assert best is not None
    assert np.array_equal(sd.LayoutArray(raw, best.shape).to_numpy().T, values)
    assert text in named(identify(raw, "f32[200,48]", like=values))


# How it lies in the buffer.


@pytest.mark.parametrize("front", thinned([128, 64, 512, 4096], 4))
def test_bytes_in_front(front: int) -> None:
    text = "bf16[17,300]{1,0:T(8,128)(2,1)}"
    raw, values = buffer_of(text, smooth)
    longer = np.concatenate([np.random.default_rng(1).integers(0, 256, front, dtype=np.uint8), raw])
    for found in (
        identify(longer, "bf16[17,300]"),
        identify(longer, "bf16[17,300]", like=values),
        identify(longer, "bf16[17,300]", offset=front),
    ):
        assert text in named(found)
        assert found.candidates[0].offset == front


def test_a_missing_tail() -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, values = buffer_of(text, smooth)
    for found in (identify(raw[:-1500], "f32[17,300]"), identify(raw[:-1500], "f32[17,300]", like=values)):
        assert found.verdict == "likely"
        assert text in named(found)
        assert found.candidates[0].missing_bytes == 1500


@pytest.mark.parametrize("text", thinned(["bf16[64,256]{1,0}", "f32[17,300]{1,0:T(8,128)}", "s32[48,200]{0,1}"], 3))
def test_swapped_bytes(text: str) -> None:
    raw, values = buffer_of(text, smooth)
    swapped = raw.reshape(-1, values.dtype.itemsize)[:, ::-1].reshape(-1)
    for found in (identify(swapped, without_layout(text)), identify(swapped, without_layout(text), like=values)):
        assert text in named(found)
        assert found.candidates[0].byteorder == "big"


def test_high_bits_first() -> None:
    text = "s4[48,200]{1,0:E(4)}"
    raw, values = buffer_of(text, smooth)
    turned = (raw >> 4) | (raw << 4)
    for found in (identify(turned, "s4[48,200]"), identify(turned, "s4[48,200]", like=values)):
        assert text in named(found)
        assert found.candidates[0].bitorder == "big"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("layout", ["{1,0:E(4)}", "{1,0:T(64,128)(8,1)E(4)}"])
@pytest.mark.parametrize("kind", ["s4", "f4e2m1fn"])
def test_levels_do_not_tell_the_bit_order(kind: str, layout: str, seed: int) -> None:
    """Rows keep their values if those of each byte change places: the sample alone would decide, and differently."""
    text = f"{kind}[256,384]{layout}"
    raw, _ = buffer_of(text, weights, seed=seed)
    for claim in (without_layout(text), text):
        for content in (raw, (raw >> 4) | (raw << 4)):
            found = identify(content, claim)
            assert found.best is not None
            assert str(found.best.shape) == text
            assert found.best.bitorder == "little"
            assert (
                "bit order: low bits first is usual; nothing here tells it from high bits first" in found.best.evidence
            )


# With values at hand.


@pytest.mark.parametrize("make", [smooth, noise])
@pytest.mark.parametrize("text", ["f32[17,300]{1,0:T(8,128)}", "bf16[64,256]{0,1:T(8,128)(2,1)}", "s8[48,200]{0,1}"])
def test_values_decide(text: str, make: Any) -> None:
    raw, values = buffer_of(text, make)
    for like in (values, values.astype(np.float64), values.tolist()):
        found = identify(raw, without_layout(text), like=like)
        assert found.verdict == "certain"
        assert text in named(found)
        for shape in found.candidates[0].ties:
            assert np.array_equal(sd.LayoutArray(raw, shape).to_numpy(), values)


def test_nothing_but_values() -> None:
    text = "bf16[17,300]{1,0:T(8,128)(2,1)}"
    raw, values = buffer_of(text, noise)
    found = identify(raw, like=values)
    assert found.verdict == "certain"
    assert text in named(found)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float64])
def test_values_of_another_precision(dtype: Any) -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, values = buffer_of(text, noise)
    assert text in named(identify(raw, "f32[17,300]", like=values.astype(dtype)))


@pytest.mark.parametrize("key", [(slice(3, 60, 5), slice(-90, None)), 9, (Ellipsis, slice(100, 250))])
def test_part_of_the_values(key: Any) -> None:
    text = "f32[64,256]{1,0:T(8,128)}"
    raw, values = buffer_of(text, smooth)
    found = identify(raw, "f32[64,256]", like=(key, values[key]))
    assert text in named(found)
    assert found.candidates[0].evidence[0].startswith("like: all ")


def test_a_part_that_many_layouts_have_decides_nothing() -> None:
    text = "f32[64,256]{1,0:T(8,128)}"
    raw, values = buffer_of(text, noise)
    found = identify(raw, "f32[64,256]", like=((0, slice(0, 4)), values[0, :4]), limit=200)
    assert found.verdict == "tied"
    assert text in {str(s) for c in found.candidates for s in (c.shape, *c.ties)}


def test_nan_and_negative_zero_are_equal() -> None:
    raw, values = buffer_of("f32[17,300]{1,0:T(8,128)}", noise)
    array = sd.LayoutArray(raw, "f32[17,300]{1,0:T(8,128)}")
    array[3, 5], array[4, 6] = np.nan, -0.0
    values[3, 5], values[4, 6] = np.nan, 0.0
    assert identify(raw, "f32[17,300]", like=values).verdict == "certain"


def test_a_few_other_values_are_likely() -> None:
    text = "f32[17,300]{1,0:T(8,128)}"
    raw, values = buffer_of(text, noise)
    values[3, 5] = 9
    found = identify(raw, "f32[17,300]", like=values)
    assert found.verdict == "likely"
    assert text in named(found)


def test_permuted_values() -> None:
    raw, values = buffer_of("f32[17,300]{1,0:T(8,128)}", noise)
    found = identify(raw, "f32[17,300]", like=np.random.default_rng(0).permutation(values, axis=1))
    assert (found.verdict, found.best) == ("none", None)
    assert found.notes == ("like: the values are here, in no layout that is known here",)
    assert identify(raw, "f32[17,300]", like=values + 1).notes == ("like: no reading has these values",)


def test_recorded_buffers() -> None:
    for name, text in RAW_BUFFERS.items():
        shape = sd.parse_shape(text)
        if 0 in shape.dimensions or shape.rank > 5 or shape.element_type.startswith("c"):
            continue
        raw = (DATA / "xla" / "raw" / f"{name}.bin").read_bytes()
        values = sd.LayoutArray(raw, text).to_numpy()
        found = identify(raw, without_layout(text), like=values)
        assert found.verdict == "certain", name
        assert text in named(found)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_wide_integers_are_compared_exactly(dtype: Any) -> None:
    """In double precision the last bits of most of them are rounded away."""
    values = np.random.default_rng(0).integers(1 << 60, 1 << 62, (17, 300)).astype(dtype)
    raw = sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}").buffer
    kind = "s64" if dtype is np.int64 else "u64"
    assert identify(raw, f"{kind}[17,300]", like=values).verdict == "certain"
    assert identify(raw, f"{kind}[17,300]", like=values.astype(np.float64)).verdict == "certain"
    other = values.copy()
    other[3, 5] ^= dtype(1)
    found = identify(raw, f"{kind}[17,300]", like=other)
    assert (found.verdict, found.best and found.best.evidence[0]) == (
        "likely",
        "like: 99.98% of the values that were looked at are equal",
    )
    found = identify(raw, f"{kind}[17,300]", like=values ^ dtype(1))
    assert (found.verdict, found.notes) == ("none", ("like: no reading has these values",))


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1}"])
@pytest.mark.slow
def test_layouts_that_differ_in_a_few_elements_of_a_large_array_are_told_apart(layout: str) -> None:
    """A sample of mostly zeros has the same values in all layouts."""
    values = np.zeros((1024, 2048), np.float32)
    values[513, 1300] = 3
    raw = sd.LayoutArray.from_numpy(values, layout).buffer
    found = identify(raw, "f32[1024,2048]", like=values)
    assert found.verdict == "certain"
    for text in named(found):
        assert np.array_equal(sd.LayoutArray(raw, text), values)
    assert f"f32[1024,2048]{layout}" in named(found)


def test_progress_counts_the_values_compared() -> None:
    raw, values = buffer_of("f32[17,300]{1,0:T(8,128)}", noise)
    done: list[int] = []
    identify(raw, "f32[17,300]", like=values, progress=done.append)
    assert sum(done) == values.size


# The result.


def test_results_print_themselves_and_are_json() -> None:
    raw, _ = buffer_of("f32[17,300]{1,0:T(8,128)}", smooth)
    found = identify(raw, "f32[17,300]", limit=2)
    assert len(found.candidates) == 2
    assert all(isinstance(c, Candidate) and 0 <= c.score <= 1 for c in found.candidates)
    assert str(found).startswith("likely: ")
    assert json.loads(json.dumps(found.to_dict()))["best"]["shape"] == "f32[17,300]{1,0:T(8,128)}"
    assert "<table>" in found._repr_html_()
    for width in (40, 80):
        assert max(map(len, found.text(width).splitlines())) <= width
    with pytest.raises(AttributeError, match="verdict"):
        found.verdict = "certain"  # type: ignore[misc]


def test_paths_and_buffers_are_alike(tmp_path: Path) -> None:
    raw, _ = buffer_of("f32[17,300]{1,0:T(8,128)}", smooth)
    (tmp_path / "raw.bin").write_bytes(raw.tobytes())
    assert identify(tmp_path / "raw.bin", "f32[17,300]") == identify(raw.tobytes(), "f32[17,300]")


def test_a_size_that_nothing_explains() -> None:
    found = identify(bytes(100), "f32[17,300]")
    assert (found.verdict, found.candidates) == ("none", ())
    assert found.notes[-1] == "size: the values alone take 20,400 bytes, and there are 100"
    claimed = identify(bytes(20400), "f32[17,300]{1,0:T(8,128)}")
    assert claimed.notes == ("claim: the claimed layout takes 36,864 bytes, and there are 20,400",)


@pytest.mark.parametrize(
    ("dimensions", "layout"), [((17, 300), ""), ((300, 17), ""), ((9, 16, 35), ""), ((17, 300), ":T(8,128)")]
)
@pytest.mark.parametrize("every", thinned([256, 251, 1 << 20], 3))
@pytest.mark.slow
def test_counted_values_are_taken_for_row_major(dimensions: tuple[int, ...], layout: str, every: int) -> None:
    """They go on from one row to the next, and are as smooth where the dimensions are in another order."""
    order = ",".join(map(str, reversed(range(len(dimensions)))))
    values = (np.arange(np.prod(dimensions)).reshape(dimensions) % every).astype(np.float32)
    shape = f"f32[{','.join(map(str, dimensions))}]{{{order}{layout}}}"
    found = identify(sd.LayoutArray.from_numpy(values, shape).buffer, sd.parse_shape(shape).text(layout=False))
    assert found.verdict == "likely"
    assert shape in named(found)


def test_a_claim_that_counted_values_cannot_refute_stands() -> None:
    values = (np.arange(5100).reshape(17, 300) % 256).astype(np.float32)
    found = identify(values.tobytes(), "f32[17,300]{0,1}")
    assert found.verdict == "likely"
    assert named(found) == {"f32[17,300]{0,1}"}
    assert re.search(r"as\s+claimed;\s+\d+\s+others?\s+fits?\s+about\s+as\s+well", str(found))


def test_pages_of_a_large_file_are_given_back_where_the_system_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.arange(4096, dtype=np.uint8).tofile(tmp_path / "x")
    monkeypatch.setattr(sampling, "_MAPPED_BYTES", 1)
    with sampling.Source.opened(tmp_path / "x") as source:
        source.release()
        monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
        source.release()
        assert source.content[:3].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    with open(tmp_path / "x.bin", "wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        assert identify(tmp_path / "x.bin", "u8[8192,8192]").verdict == "tied"
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("dtype", "start"), [("u1", 0), ("<u2", 3), ("<u4", 509), ("V16", 7)])
def test_blocks_of_a_file_hold_what_it_does(dtype: str, start: int, tmp_path: Path) -> None:
    """Also elements across the ends of blocks, the last bytes, and blocks that take each other's place."""
    raw = np.random.default_rng(0).integers(0, 256, 3_000_001, np.uint8)
    raw.tofile(tmp_path / "x")
    kind = np.dtype(dtype)
    count = (raw.size - start) // kind.itemsize
    items = raw[start : start + count * kind.itemsize].view(kind)
    with open(tmp_path / "x", "rb") as file:
        blocks = FileBlocks(file, raw.size, lambda: None, places=6)
        for seed in range(20):
            at = np.append(np.random.default_rng(seed % 7).integers(0, count, 200), [0, count - 1])
            assert blocks.taken(start, kind, at).tobytes() == items[at].tobytes()


def test_a_block_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(bytes(1 << 16))
    places: list[int] = []
    read = os.preadv

    def counting(file: int, into: Any, place: int, flags: int = 0) -> int:
        places.append(place)
        return read(file, into, place)

    monkeypatch.setattr(os, "preadv", counting)
    with open(tmp_path / "x", "rb") as file:
        blocks = FileBlocks(file, 1 << 16, lambda: None)
        for dtype in (np.uint8, np.uint16, np.float64):
            blocks.taken(0, np.dtype(dtype), np.arange(100))
    assert places == [0, 512]


@pytest.mark.parametrize("without", ["RWF_NOWAIT", "posix_fadvise"])
def test_systems_that_cannot_tell_what_is_in_memory(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_blocks, "_NOT_WAITING", None)
    if without == "posix_fadvise":
        monkeypatch.delattr(os, without, raising=False)
    (tmp_path / "x").write_bytes(bytes(range(256)))
    with open(tmp_path / "x", "rb") as file:
        assert FileBlocks(file, 256, lambda: None).taken(1, np.dtype(np.uint8), np.array([254, 0])).tolist() == [255, 1]


def test_a_file_that_was_truncated_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(600))

    def check() -> None:
        raise BufferSizeError("truncated", actual=600)

    with open(tmp_path / "x", "rb") as file, pytest.raises(BufferSizeError, match="truncated"):
        FileBlocks(file, 2000, check).taken(0, np.dtype(np.uint8), np.array([1500]))


def test_a_large_file_says_the_same_as_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "bf16[64,300]{1,0:T(8,128)(2,1)}"
    raw = buffer_of(text, smooth)[0]
    np.asarray(raw).tofile(tmp_path / "x")
    monkeypatch.setattr(sampling, "_MAPPED_BYTES", 1)
    found = identify(tmp_path / "x", "bf16[64,300]")
    assert (found.verdict, str(found.candidates[0].shape)) == ("likely", text)


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "u1", "u2", "s2", "u4", "s4"])
def test_random_words_say_nothing_of_an_integer_type(kind: str) -> None:
    """Signed ones were charged a bit too much, and words of one bit are worth nothing if zeros are left out."""
    raw = np.random.default_rng(0).integers(0, 256, 1 << 16, np.uint8)
    bits = int(kind[1:])
    packed = bits if bits < 8 else 0
    shape = sd.Shape(kind, (raw.size * 8 // bits,), sd.Layout((0,), element_size_in_bits=packed))
    with sampling.Source.opened(raw) as source:
        weight = type_signs(source, Reading(shape)).weight
    assert abs(weight + 30 * (kind not in ("s8", "u8", "s32", "u32"))) < 20


@pytest.mark.slow
def test_signed_bytes_are_no_exponents() -> None:
    values = np.clip(np.rint(np.random.default_rng(6).normal(size=(300, 70)) * 30), -127, 127).astype(np.int8)
    for front in (0, 512):
        found = identify(bytes(front) + values.tobytes(), "[300,70]")
        assert found.candidates[0].shape.element_type == "s8"


@pytest.mark.parametrize(("rows", "kind"), thinned(itertools.product([8, 12, 16, 32], ["f16", "bf16", "u8"]), 5))
def test_interleaved_rows_are_not_smoother_than_what_counts_in_memory(kind: str, rows: int) -> None:
    text = f"{kind}[{rows},128]"
    values = (np.arange(rows * 128) % 256).reshape(rows, 128)
    raw = sd.LayoutArray.from_numpy(values.astype(sd.parse_shape(text).dtype), "{1,0}").buffer
    found = identify(raw, text)
    assert (found.verdict, str(found.best and found.best.shape)) == ("likely", f"{text}{{1,0}}")


def test_files_of_other_formats_are_noted() -> None:
    found = identify(b"\x93NUMPY" + bytes(506), "f32[128]")
    assert found.notes[0].startswith("format: the buffer begins as a .npy file does")


def test_bytes_that_say_nothing_are_noted(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    path = tmp_path / "weights"
    path.write_bytes(bytes(100) + zlib.compress(values.tobytes()))
    found = identify(path, "u8[?]", offset=100)
    assert (found.verdict, found.notes[0].partition(":")[0]) == ("tied", "content")
    assert identify(values.tobytes(), "u8[?]").notes == ()
    assert identify(path, "u8[64]", offset=path.stat().st_size - 64).notes == ()  # too few bytes to tell


# Errors.


@pytest.mark.parametrize("known", ["", "f33", "[17,", "f32[17,300", "{1,0}", "[17,300]x", "17"])
def test_text_that_is_no_shape(known: str) -> None:
    with pytest.raises(ValueError, match=r"expected|no element type"):
        identify(bytes(8), known)


def test_arguments_that_are_refused(tmp_path: Path) -> None:
    raw = bytes(4 * 15)
    with pytest.raises(sd.BufferSizeError, match="empty"):
        identify(b"", "f32[3]")
    with pytest.raises(sd.BufferSizeError, match="offset 60"):
        identify(raw, "f32[3,5]", offset=60)
    with pytest.raises(ValueError, match="limit"):
        identify(raw, "f32[3,5]", limit=0)
    with pytest.raises(sd.LayoutError, match="no elements"):
        identify(raw, "f32[3,0]")
    with pytest.raises(sd.UnsupportedError, match="no bytes"):
        identify(raw, "token[]")
    with pytest.raises(ValueError, match="does not fit f32"):
        identify(raw, "f32[3,5]", like=np.zeros((4, 5)))
    with pytest.raises(ValueError, match="dimensions of the whole array"):
        identify(raw, like=(0, np.zeros(5)))
    with pytest.raises(ValueError, match="the key selects"):
        identify(raw, "f32[3,5]", like=(0, np.zeros(4)))
    with pytest.raises(IndexError, match="out of bounds"):
        identify(raw, "f32[3,5]", like=(7, np.zeros(5)))
    with pytest.raises(ValueError, match="no numbers"):
        identify(raw, "f32[3,5]", like=np.full((3, 5), "x"))
    with pytest.raises(sd.UnsupportedError, match="complex"):
        identify(raw, "f32[3,5]", like=np.zeros((3, 5), complex))
    for like in ("x.npy", Path("x.npy"), (np.s_[:1], "x.npy")):
        with pytest.raises(TypeError, match="`like` takes values, not a path"):
            identify(bytes(512), "f32[2,3]", like=like)
    with pytest.raises(TypeError, match="is no buffer"):
        identify(17, "f32[3,5]")
    with pytest.raises(FileNotFoundError, match="No such file"):
        identify(tmp_path / "none", "f32[3,5]")
    with pytest.raises(IsADirectoryError, match=r"folder|Is a directory"):
        identify(tmp_path, "f32[3,5]")


# The command.


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code, *printed = run_command(capsys, "identify", *arguments)
    return code, "".join(printed)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, values = buffer_of("f32[17,300]{1,0:T(8,128)}", noise)
    file, like = str(tmp_path / "raw.bin"), str(tmp_path / "values.npy")
    raw.tofile(file)
    np.save(like, values)
    code, printed = run(capsys, file, "f32[17,300]", "--like", like)
    assert (code, printed.splitlines()[1]) == (0, " 1.00  f32[17,300]{1,0:T(8,128)}")
    code, printed = run(capsys, file, "f32[17,300]", "--like", like, "--json", "--top", "1")
    assert (code, json.loads(printed)["verdict"]) == (0, "certain")
    code, printed = run(capsys, file, "f32[17,300]")
    assert (code, printed.split(":")[0]) == (1, "tied")


def test_values_whose_file_lacks_their_type_have_that_of_the_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, values = buffer_of("bf16[17,300]{1,0:T(8,128)(2,1)}", noise)
    file, like = str(tmp_path / "raw.bin"), str(tmp_path / "values.npy")
    raw.tofile(file)
    np.save(like, values.astype(ml_dtypes.bfloat16))
    assert np.load(like).dtype == np.dtype("V2")
    for shape in ("bf16[17,300]", "bf16"):
        code, printed = run(capsys, file, shape, "--like", like)
        assert (code, printed.splitlines()[1]) == (0, " 1.00  bf16[17,300]{1,0:T(8,128)(2,1)}")
    for shape in ("[17,300]", "f32[17,300]"):
        code, printed = run(capsys, file, shape, "--like", like)
        assert (code, "--like holds 2-byte elements and does not say of which type" in printed) == (2, True)
    records = np.zeros((17, 300), [("x", "i2")])
    with pytest.raises(ValueError, match="which are no numbers"):
        identify(raw, "bf16[17,300]", like=records)


def test_a_part_of_the_values_needs_its_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, values = buffer_of("f32[17,300]{1,0:T(8,128)}", noise)
    file, like = str(tmp_path / "raw.bin"), str(tmp_path / "part.npy")
    raw.tofile(file)
    np.save(like, values[4:12, 100:])
    code, printed = run(capsys, file, "f32[17,300]", "--like", like)
    assert (code, printed.endswith("if it is a part of the array, give --like-index\n")) == (2, True)
    assert "--like has shape (8, 200)" in printed
    code, printed = run(capsys, file, "f32[17,300]", "--like", like, "--like-index", "4:12, 100:")
    assert (code, printed.splitlines()[1]) == (0, " 1.00  f32[17,300]{1,0:T(8,128)}")
    code, printed = run(capsys, file, "f32[17,300]", "--like-index", "4:12, 100:")
    assert (code, "--like-index goes with --like" in printed) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, _ = buffer_of("f32[17,300]{1,0:T(8,128)}", smooth)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(raw.tobytes(),), daemon=True)
    writer.start()
    code, printed = run(capsys, str(pipe), "f32[17,300]")
    writer.join()
    assert code == 0
    assert "f32[17,300]{1,0:T(8,128)}" in printed


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "raw.bin").write_bytes(bytes(60))
    for arguments in (
        [str(tmp_path), "f32[3,5]"],
        [str(tmp_path / "empty"), "f32[3,5]"],
        [str(tmp_path / "none"), "f32[3,5]"],
        [str(tmp_path / "raw.bin"), "f32[3,5]", "--like", str(tmp_path / "raw.bin")],
        [str(tmp_path / "raw.bin"), "f32[3,5]", "--offset", "60"],
        [str(tmp_path / "raw.bin"), "f33"],
    ):
        code, printed = run(capsys, *arguments)
        assert code == 2
        assert printed.startswith("strided: ")
        assert len(printed.splitlines()) <= 2


@pytest.mark.parametrize("shape", ["f32", "f32[32,32]"])
def test_a_buffer_that_holds_no_number_is_judged_without_a_warning(shape: str) -> None:
    """All bits set: every float is a NaN, and there is no middle of them."""
    assert identify(np.full(4096, 255, np.uint8), shape).verdict == "tied"


def test_excess_behind_an_array_is_named() -> None:
    raw = sd.LayoutArray.from_numpy(np.arange(17 * 300, dtype="f4").reshape(17, 300), "{1,0:T(8,128)}").buffer
    image = np.concatenate([np.zeros(4096, np.uint8), raw, np.zeros(1 << 20, np.uint8)])
    found = sd.inspect.identify(image, "f32[17,300]", offset=4096)
    assert found.best is None
    assert (
        found.notes[-1]
        == "size: usual layouts take at most 36,864 bytes of the 1,085,440: allow excess if others follow"
    )
    found = sd.inspect.identify(image, "f32[17,300]", offset=4096, allow_excess=True)
    assert str(found.best and found.best.shape) == "f32[17,300]{1,0:T(8,128)}"


def _planted(text: str, values: Any, filling: bytes = bytes(1)) -> Any:
    """The bytes of an array whose padding holds a pattern."""
    shape = sd.parse_shape(text)
    size = shape.buffer_byte_size
    array = sd.LayoutArray(bytearray((filling * size)[:size]), shape)
    array[...] = np.asarray(values).astype(shape.dtype)
    return np.frombuffer(array.buffer, np.uint8).copy()


@pytest.mark.parametrize("seed", range(3))
def test_a_pattern_in_the_padding_is_known_again_in_swapped_bytes(seed: int) -> None:
    """Else values were weighed without the padding, and swapped ones with it."""
    rng = np.random.default_rng(seed)
    text = "bf16[117,232]{1,0:T(32,128)(2,1)}"
    values = np.where(rng.random((117, 232)) < 0.05, rng.normal(size=(117, 232)), 0)
    found = identify(_planted(text, values, rng.bytes(16)), "bf16[117,232]")
    assert text in named(found)
    assert found.candidates[0].byteorder == "little"


@pytest.mark.parametrize(
    ("text", "values", "filling"),
    [
        ("s32[6,230]{1,0:T(8,128)}", np.eye(6, 230), "efbeadde"),
        ("f32[913,4]{0,1:T(4,128)}", np.full((913, 4), 0.7), "efbeadde"),
    ],
)
def test_padding_does_not_tell_the_order_of_bytes(text: str, values: Any, filling: str) -> None:
    found = identify(_planted(text, values, bytes.fromhex(filling)), without_layout(text))
    assert found.candidates[0].byteorder == "little"


def test_a_part_of_zeros_does_not_tell_the_order_of_bytes() -> None:
    values = np.tril(np.ones((8, 88)))
    raw = _planted("f16[8,88]{1,0:T(2,128)(2,1)}", values, b"\xc0\x7f")
    found = identify(raw, "f16[8,88]", like=(np.s_[:, 20:], values[:, 20:]))
    assert found.candidates[0].byteorder == "little"


def test_masks_of_a_wider_type_are_no_pred() -> None:
    lengths = np.random.default_rng(0).integers(1, 257, (6, 64, 1))
    raw = _planted("f16[6,64,256]{2,1,0:T(4,128)(2,1)}", np.arange(256) < lengths)
    found = identify(raw, "[6,64,256]")
    assert found.best is None or found.best.shape.element_type == "f16"


def test_preds_beside_bytes_of_padding_that_are_none() -> None:
    rng = np.random.default_rng(0)
    signs = Evidence("type", 1000.0, "type: all bytes but fillings are pred")
    few, many = (narrow_signs(signs, ELEMENT_TYPES["pred"], rng.integers(0, most, 500, np.uint8)) for most in (2, 9))
    assert few is signs
    assert many.weight < 0


def test_integers_in_floats_are_no_swapped_integers() -> None:
    values = np.rint(smooth(np.random.default_rng(0), (289, 88)) * 20 + 120)
    found = identify(_planted("f32[289,88]{1,0:T(1,128)}", values), "[289,88]")
    assert found.best is not None
    assert (found.best.shape.element_type, found.best.byteorder) == ("f32", "little")


@pytest.mark.parametrize("text", ["s16[64,64]{1,0}", "s32[133,133]{1,0:T(8,128)}", "s32[300,300]{1,0}"])
def test_positions_in_a_square_are_those_of_columns(text: str) -> None:
    shape = sd.parse_shape(text)
    values = np.broadcast_to(np.arange(shape.dimensions[1]), shape.dimensions)
    found = identify(_planted(text, values), shape.text(layout=False))
    assert text in named(found)


def test_rows_that_end_where_values_jump_are_not_lost_to_a_sequence() -> None:
    """Three channels, each as smooth as an image along its rows: every other cut of the same bytes goes on."""
    text = "s16[59,3,429]{2,1,0}"
    rng = np.random.default_rng(1)
    rows, channels, columns = np.ogrid[:59, :3, :429]
    steps = rng.uniform(-1, 1, (5, 3)) * [0.2, 0.75, 0.03]
    waves = [
        rng.normal() * np.sin(rng.uniform(0, 6) + a * rows + b * channels + c * columns) for a, b, c in steps.tolist()
    ]
    values = np.rint(25 * (sum(waves) + 0.1 * rng.normal(size=(59, 3, 429))))
    found = identify(_planted(text, values), text)
    assert text in named(found)


def test_a_claim_that_values_counted_to_a_hundred_cannot_refute_stands() -> None:
    text = "f32[40,128]{1,0:T(8,128)}"
    found = identify(_planted(text, np.arange(40 * 128).reshape(40, 128) % 100), text)
    assert not found.notes


def test_sizes_that_padding_does_not_tell_are_noted() -> None:
    note = "size: dimension 1 may have 49 to 56: the last ones may be padding"
    text = "f32[600,54]{0,1:T(8,128)}"
    raw, values = buffer_of(text, lambda rng, d: rng.normal(size=d) * np.exp(rng.normal(size=d[1])))
    found = identify(raw, "f32[600,?]")
    assert found.best is not None
    assert note in found.notes
    assert not identify(_planted(text, values), "f32[600,?]").notes


def test_bits_of_wider_elements_are_no_padding() -> None:
    """Of a byte of 127 two bits are 01, and the others are 11: packed ones would be values, and padding."""
    reading = Reading(sd.parse_shape("s2[128,512]{0,1:T(512)(128)(4,1)E(2)}"), bitorder="big")
    with sampling.Source.opened(np.full(1 << 16, 127, np.uint8)) as source:
        assert padding(source, reading)[0].weight == 0


@pytest.mark.parametrize(("byte", "fits"), [(0x07, True), (0x0F, True), (0xF8, True), (0xF3, False), (0x83, False)])
def test_high_bits_of_an_s4_repeat_its_sign_or_are_zero(byte: int, fits: bool) -> None:
    signs = Evidence("type", 1000.0, "")
    assert (narrow_signs(signs, ELEMENT_TYPES["s4"], np.full(9, byte, np.uint8)) is signs) == fits


def test_metadata_in_front_are_no_elements() -> None:
    """Random bytes there made each reading behind them less likely."""
    rng = np.random.default_rng(0)
    text = "pred[64,128]{1,0:M(2048)}"
    raw = rng.bytes(2048) + (rng.random((64, 128)) < np.linspace(0, 1, 128)).tobytes()
    found = identify(raw, text)
    assert str(found.candidates[0].shape) == text
    assert not any("of the elements" in sentence for sentence in found.candidates[0].evidence)


def test_a_sequence_without_its_end_has_rows_a_row_apart() -> None:
    """The values looked at lie within the buffer, but one of those a row further does not."""
    values = np.cumsum(np.random.default_rng(0).normal(size=7370)).astype("f4")
    found = identify(values.tobytes()[: -4 * 15], "f32[10,737]")
    assert found.candidates[0].missing_bytes == 60


def test_values_sorted_in_memory_do_not_tell_how_long_rows_are() -> None:
    """Each of 225 comes 24 times in turn: rows that a value fills say no less than those that end within its run."""
    found = identify(np.repeat(np.arange(225, dtype=np.int16), 24).tobytes(), "s16[?,8,?]")
    assert found.verdict == "tied"


@pytest.mark.parametrize(("kind", "value"), [("f32", 0.7), ("bf16", 0.7), ("f32", -1e9)])
@pytest.mark.parametrize("swapped", [False, True])
def test_one_word_does_not_tell_the_order_of_bytes(kind: str, value: float, swapped: bool) -> None:
    """Neither it nor what its bytes are in reverse order is a telling number: it comes often, and says so once."""
    text = f"{kind}[300,200]{{1,0:T(8,128)}}"
    raw = _planted(text, np.full((300, 200), value))
    if swapped:
        raw = raw.reshape(-1, sd.parse_shape(text).element_bits // 8)[:, ::-1].reshape(-1)
    found = identify(raw, without_layout(text))
    assert found.verdict == "tied"
    assert [c.byteorder for c in found.candidates[:2]] == ["little", "big"]
    assert all(text in map(str, (c.shape, *c.ties)) for c in found.candidates[:2])


def test_ones_tell_the_order_of_bytes() -> None:
    """In the other order they are subnormal."""
    text = "f32[60,200]{1,0:T(8,128)}"
    found = identify(_planted(text, np.tril(np.ones((60, 200)))), without_layout(text))
    assert text in named(found)
    assert found.best is not None
    assert found.best.byteorder == "little"


def test_zeros_with_a_sign_do_not_tell_the_order_of_bytes() -> None:
    """Swapped they are no zeros, and no padding at the ends."""
    text = "bf16[85,256]{1,0:T(8,128)(2,1)}"
    raw = _planted(text, (1 - np.tril(np.ones((85, 256)))) * -1e9, np.random.default_rng(0).bytes(16))
    found = identify(raw, without_layout(text))
    assert text in first(found)
    assert found.candidates[0].byteorder == "little"


def test_swapped_zeros_with_a_sign_are_not_narrow_exponents() -> None:
    text = "bf16[165,6]{1,0:T(1,128)}"
    found = identify(_planted(text, (1 - np.tril(np.ones((165, 6)))) * -1e9, b"\xc0\x7f"), "bf16")
    assert found.candidates[0].byteorder == "little"


def test_zeros_with_a_sign_at_the_ends_are_elements() -> None:
    """Left out, they made other orders of the same bytes smoother, which spread them."""
    text = "bf16[12,512,7]{1,2,0}"
    raw = _planted(text, (1 - np.broadcast_to(np.tril(np.ones((512, 7))), (12, 512, 7))) * -1e9)
    assert not is_sure_of_another(raw.tobytes(), text)


def test_words_of_the_padding_do_not_tell_the_order_of_bytes_each_time() -> None:
    """The two that fill it here have narrower exponents if swapped."""
    text = "f16[1845,1,51]{0,2,1:T(8,128)(2,1)}"
    found = identify(_planted(text, np.full((1845, 1, 51), 0.7), b"\xef\xbe\xad\xde"), without_layout(text))
    assert text in first(found)
    assert found.candidates[0].byteorder == "little"
