"""The short ways of large selections find what NumPy finds: they are taken here for selections of any size."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays import blocks, fancy
from strided.runtime import limits
from tests.cases import Case, some_values
from tests.checks import Guarded, check_same, check_same_assignment, encoded, same_outcome, same_values, shape_of
from tests.strategies import cases, index_arrays, keys, masks
from tests.thinned import examples, thinned


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fancy, "_LEAST_INNER", 1)
    monkeypatch.setattr(fancy, "_TASK_ELEMENTS", 7)
    monkeypatch.setattr(fancy, "_LEAST_RUN", 2)
    monkeypatch.setattr("strided.arrays.masks._BAND_BYTES", 16)
    monkeypatch.setattr("strided.arrays.masks._SPARSE", 1000)
    with limits.replaced(loading_elements=1, indexed_elements=1, whole_elements=0):
        yield


def many(key: Any) -> np.ndarray:
    """An index array with so many entries that they are gathered in two tasks, the last blocks of which overlap."""
    return np.resize(key, (3, 1500))


def array_of(case: Case, values: np.ndarray) -> sd.LayoutArray:
    return sd.LayoutArray(Guarded(encoded(case, values), writable=False).buffer, shape_of(case))


@given(st.data())
@examples(200)
def test_any_key(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    wrong = data.draw(st.integers(0, 4)) == 0
    check_same(array_of(case, values), values, data.draw(keys(case.dimensions, wrong=wrong)))


@given(st.data())
@examples(200)
def test_index_arrays_for_every_axis(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    shape = tuple(data.draw(st.lists(st.integers(1, 6), max_size=2)))
    wrong = data.draw(st.integers(0, 4)) == 0
    key = tuple(np.asarray(data.draw(index_arrays(n, shape, wrong=wrong))) for n in case.dimensions)
    check_same(array_of(case, values), values, key)
    strided = tuple(np.repeat(k, 2, axis=-1)[..., ::2] if k.ndim else k for k in key)
    check_same(array_of(case, values), values, strided)
    if not values.size:
        return
    long = tuple(many(k) for k in key)
    check_same(array_of(case, values), values, long)
    apart = tuple(np.repeat(k.reshape(-1), 2)[::2] for k in long)
    check_same(array_of(case, values), values, apart)
    if not wrong:
        backwards = tuple(slice(None, None, -1) for _ in case.dimensions)
        every_other = tuple(slice(None, None, 2) for _ in case.dimensions)
        same_values(array_of(case, values)[backwards][key], values[backwards][key])
        same_values(array_of(case, values)[backwards][long], values[backwards][long])
        halves = tuple(k % -(-n // 2) for k, n in zip(long, case.dimensions, strict=True))
        same_values(array_of(case, values)[every_other][halves], values[every_other][halves])


@given(st.data())
def test_masks_of_the_whole_array(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    check_same(array_of(case, values), values, data.draw(masks(case.dimensions)))
    check_same(array_of(case, values), values, np.ones(case.dimensions, bool))


@given(st.data())
def test_outer_selections(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4, empty=False))
    values = some_values(case, 1)
    picks = [data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=9)) for n in case.dimensions]
    check_same(array_of(case, values), values, np.ix_(*(np.array(p) for p in picks)))
    for axis, pick in enumerate(picks):
        check_same(array_of(case, values), values, (*(slice(None),) * axis, np.array(pick)))
        check_same(array_of(case, values), values, (..., np.array(pick), *(slice(None),) * (values.ndim - axis - 1)))


@pytest.mark.parametrize("element_type", ["f32", "bf16", "s4", "c128", "pred"])
@pytest.mark.parametrize(
    ("layout", "axis"),
    [
        ("{0,1,2}", 0),
        ("{0,2,1:T(4,8)}", 0),
        ("{1,0,2:T(2,8)}", 1),
        ("{2,1,0:T(8,4)}", 2),
        ("{2,1,0}", 2),
    ],
)
def test_entries_of_the_nearest_axis(
    layout: str, axis: int, element_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are picked from converted blocks, without looking for each element."""
    monkeypatch.setattr(fancy, "_LARGE_BYTES", 0)
    monkeypatch.setattr(fancy, "_LEAST_COLUMNS", 1)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2048)
    monkeypatch.setattr(fancy, "gather_sums", lambda *args: pytest.fail("elements were looked for"))
    shape = sd.parse(f"{element_type}[19,21,23]{layout}")
    values = np.random.default_rng(0).integers(0, 2, (19, 21, 23)).astype(shape.dtype)
    a = sd.LayoutArray.from_numpy(values, shape.layout, element_type=element_type)
    front = (slice(None),) * axis
    for places in ([5, -1, 5, 0, 11], np.arange(19)[::-1], np.arange(-19, 19)):
        same_values(a[(*front, np.array(places))], values[(*front, np.array(places))])
        same_values(np.take(a, places, axis), np.take(values, places, axis))
    backwards = a[::-1, ::-1, ::-1]
    same_values(backwards[(*front, np.array([3, -3, 0]))], values[::-1, ::-1, ::-1][(*front, np.array([3, -3, 0]))])


def test_other_selections_are_not_taken_for_entries_of_the_nearest_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fancy, "_LARGE_BYTES", 0)
    monkeypatch.setattr(fancy, "_LEAST_COLUMNS", 1)
    values = np.arange(19 * 21 * 23, dtype=np.int32).reshape(19, 21, 23)
    a = sd.LayoutArray.from_numpy(values, "{0,2,1:T(4,8)}")
    rows, columns = np.array([5, -1, 5, 0, 11]), np.array([2, 20, 1, 1, 9])
    for key in (
        (rows, slice(None, None, 2)),
        (rows, slice(1, None)),
        (rows, slice(None, None, -1)),
        (rows, 3),
        (rows, columns),
        (rows[:, None], columns),
        (slice(None), rows),
        (rows.reshape(1, 5),),
        (rows, None),
        (rows, slice(0)),
    ):
        same_values(a[key], values[key])


@given(st.data())
@examples(200)
def test_outer_selections_are_set(data: st.DataObject) -> None:
    """The last value stays where an element is chosen twice, and no bit beside the elements changes."""
    case = data.draw(cases(max_rank=4, empty=False))
    values, new = some_values(case, 1), some_values(case, 2)
    picks = [data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=9)) for n in case.dimensions]
    check_same_assignment(case, values, np.ix_(*(np.array(p) for p in picks)), new.reshape(-1)[0])
    for axis, pick in enumerate(picks):
        taken = np.take(new, np.sort(pick), axis)
        check_same_assignment(case, values, (*(slice(None),) * axis, np.array(pick)), taken)


def test_values_may_be_the_array_itself() -> None:
    values = np.arange(16, dtype=np.uint8).reshape(4, 4)
    a = sd.LayoutArray(values.copy(), "u8[4,4]{1,0}")
    a[[1, 2, 0]] = a.as_strided()[:3]
    values[[1, 2, 0]] = values[:3].copy()
    same_values(a.to_numpy(), values)


@given(st.data())
def test_places(data: st.DataObject) -> None:
    """``take`` and ``flat`` of places in row-major order."""
    case = data.draw(cases(max_rank=4, empty=False))
    values, size = some_values(case, 1), int(np.prod(case.dimensions))
    wrong = data.draw(st.integers(0, 4)) == 0
    places = np.array(data.draw(st.lists(st.integers(-size - wrong, size - 1 + wrong), min_size=1, max_size=9)))
    a, every = array_of(case, values), many(np.arange(-size, size))
    for mine, theirs in (
        (lambda: a.flat[places], lambda: values.flat[places]),
        (lambda: np.take(a, places), lambda: np.take(values, places)),
        (lambda: np.take(a, many(places)), lambda: np.take(values, many(places))),
        (lambda: a.flat[every], lambda: values.flat[every]),
    ):
        same_outcome(mine, theirs, same_values)
    for axis in range(values.ndim):
        at = places % case.dimensions[axis]
        same_values(np.take(a, at, axis), np.take(values, at, axis))


@pytest.mark.parametrize(
    ("text", "threads"),
    thinned(
        itertools.product(
            ["f32[40,50,60]{2,0,1:T(8,128)}", "bf16[50,300]{1,0:T(8,128)(2,1)}", "u8[30,7,9]{0,1,2}"], [1, 2, 5]
        ),
        4,
    ),
)
def test_larger_ones_over_threads(text: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    limits.use(limits.Limits())
    case = Case.parse(text)
    values = some_values(case, 1)
    a = array_of(case, values)
    rng = np.random.default_rng(3)
    sd.set_num_threads(threads)
    try:
        key: Any = tuple(rng.integers(-n, n, (70, 1000)) for n in case.dimensions)
        mask = rng.random(values.shape) < 0.3
        for selection in (key, key[0][0], mask, (slice(None), key[1][0])):
            got, wanted = a[selection], values[selection]
            assert got.shape == wanted.shape
            assert got.tobytes() == wanted.tobytes()
    finally:
        sd.set_num_threads(None)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_take_reads_only_what_it_takes_where_numpy_would_copy_all(axis: int | None) -> None:
    a = sd.LayoutArray(bytes(1 << 20), "f32[512,512]{0,1}")
    a.take([3, 1], axis)
    tracemalloc.start()
    a.take([3, 1], axis)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 18


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("f32[24,384]{1,0:T(8,128)}", "rows"),
        ("u8[24,384]{1,0}", "rows"),
        ("c128[24,384]{1,0:T(8,128)}", "rows"),
        ("bf16[24,384]{1,0:T(8,128)(2,1)}", "deinterleave16"),
        ("u8[24,384]{1,0:T(8,128)(4,1)}", "deinterleave8"),
        ("s4[24,384]{1,0:T(8,128)(8,1)E(4)}", "deinterleave_bits"),
        ("u1[64,384]{1,0:T(32,128)(32,1)E(1)}", "deinterleave_bits"),
        ("u2[24,384]{1,0:T(8,128)E(2)}", "unpack"),
        ("f32[24,384]{0,1}", None),
        ("bf16[24,384]{1,0:T(4,128)(4,1)}", None),
    ],
)
def test_whole_rows_are_taken_by_the_kernel_of_their_layout(
    text: str, kernel: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str | None] = []

    def lanes_of(*arguments: Any, reads: bool) -> Any:
        lanes = lanes_of_(*arguments, reads=reads)
        found.append(lanes and lanes.kernel)
        return lanes

    lanes_of_ = fancy._lanes_of
    monkeypatch.setattr(fancy, "_lanes_of", lanes_of)
    shape = sd.parse(text)
    values = np.random.default_rng(0).integers(0, 100, shape.dimensions).astype(shape.dtype)
    a = sd.LayoutArray.from_numpy(values, shape)
    rows = np.array([5, -1, 5, 0, 23, 7, 12, *range(8, 20)])
    same_values(a[rows], values[rows])
    same_values(a[rows, 3:-5], values[rows, 3:-5])
    assert found == [kernel] * 2
    for key in (rows, np.s_[rows, 3:-5]):
        # A row that is chosen twice gets other values each time; the last ones stay.
        a[key] = values[key] = np.roll(values[key], 1, axis=0)
        same_values(a.to_numpy(), values)
    into = {"unpack": "pack"}.get(kernel, kernel and kernel.replace("deinter", "inter"))
    assert found == [kernel] * 2 + ([] if a.is_strided else [into] * 2)  # NumPy writes by plain strides


@pytest.mark.parametrize("layout", ["{2,1,0}", "{1,0,2}", "{0,2,1}", "{1,2,0:T(8,128)}", "{0,1,2:T(2,8)}"])
def test_lanes_along_any_axis(layout: str) -> None:
    """What lies side by side stays so in the result of a key; `np.take` gives rows, as NumPy does."""
    values = np.random.default_rng(0).integers(0, 1 << 30, (40, 50, 60), np.int32)
    a = sd.LayoutArray.from_numpy(values, layout)
    rows = np.array([5, -1, 5, 0, 23, 7, 12, *range(8, 30)])
    for axis in range(3):
        key = (*(slice(None),) * axis, rows)
        same_values(a[key], values[key])
        taken = np.take(a, rows, axis)
        same_values(taken, values.take(rows, axis))
        assert taken.flags.c_contiguous
    for key in (np.s_[rows, ..., rows], np.s_[3:, rows[:, None], rows], np.s_[rows, 2:-3, 4], np.ix_(rows, rows, rows)):
        same_values(a[key], values[key])


def test_words_that_do_not_end_in_the_buffer_are_not_read() -> None:
    values = np.arange(9 * 33, dtype=np.uint8).reshape(9, 33)
    a = sd.LayoutArray(values.copy(), "u8[9,33]{1,0}")
    inner = np.arange(0, 33, 4)
    assert fancy._lanes_of(a.region, np.array([0, 33, 7 * 33]), inner, reads=True) is not None
    assert fancy._lanes_of(a.region, np.array([0, 8 * 33]), inner, reads=True) is None
    for rows in ([0, 1, 7], [8, 0, 8]):
        same_values(a[rows, ::4], values[rows, ::4])


@pytest.mark.parametrize(
    "text",
    [
        "s32[49,49,3]{2,1,0}",
        "s32[343,49]{0,1:T(8,128)}",
        "s32[99,1,93]{1,2,0:T(3,5)}",
        "s32[5,31,11,97]{1,3,0,2:T(8,128)}",
        "s32[99,93,1]{1,2,0:T(2,1,1)}",
        "s32[99,1,93,1,1]{4,3,2,1,0}",
        "c128[49,49,3]{2,0,1:T(8,128)}",
    ],
)
def test_the_kernel_for_index_arrays_takes_every_place(text: str) -> None:
    check_every_place(text)


def test_it_takes_every_place_of_a_source_beyond_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fancy, "CACHED", 0)
    check_every_place("s32[7,99,93]{1,2,0:T(8,128)}")


def check_every_place(text: str) -> None:
    """It takes them itself, and leaves nothing to the general way."""
    case = Case.parse(text)
    values = np.arange(int(np.prod(case.dimensions))).reshape(case.dimensions).astype(shape_of(case).dtype)
    check_taken_by_kernel(sd.LayoutArray.from_numpy(values, shape_of(case)), values)


def check_taken_by_kernel(a: sd.LayoutArray, values: np.ndarray) -> None:
    places, wanted, out = np.arange(values.size), values.tobytes(), np.empty(values.size, values.dtype)
    index = np.unravel_index(places, values.shape)
    flat = [[places], [places - values.size]]
    for key in (*flat, [*index], [i - n for i, n in zip(index, values.shape, strict=True)]):
        for dtype in (np.int64, np.int32, np.int16 if values.size < 1 << 15 else np.int32):
            out.view(np.uint8)[:] = 0
            assert fancy.gather_points(a.region, [array.astype(dtype) for array in key], out)
            assert out.tobytes() == wanted
    ends = [(sign << bits) + near for bits in (31, 32, 63) for sign in (-1, 1) for near in (-values.size, -1, 0, 1)]
    for wrong in (values.size, -values.size - 1, *ends):
        for dtype in (np.int64, np.int32):
            for k in (0, 1234, len(places) - 1):
                outside = places.astype(dtype)
                if np.iinfo(dtype).min <= wrong <= np.iinfo(dtype).max:
                    outside[k] = wrong
                    assert not fancy.gather_points(a.region, [outside], out)


@pytest.mark.parametrize("bitorder", ["little", "big"])
@pytest.mark.parametrize(
    "text", ["u4[31,97]{1,0:T(8,128)(8,1)E(4)}", "s2[31,97]{0,1:E(2)}", "u1[5,700]{1,0:T(32,128)E(1)}"]
)
def test_the_kernel_for_index_arrays_takes_packed_elements(text: str, bitorder: str) -> None:
    shape = sd.parse_shape(text)
    bits = shape.element_bits
    values = np.random.default_rng(0).integers(0, 1 << bits, shape.dimensions, np.uint8).view(shape.dtype)
    a = sd.LayoutArray.from_numpy(values, shape, bitorder=bitorder)
    check_taken_by_kernel(a, a.to_numpy())


@pytest.mark.parametrize("entries", [3, 300])
def test_entries_that_differ_from_line_to_line(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fancy, "_LARGE_BYTES", 0)
    values = np.random.default_rng(0).random((40, 300), np.float32)
    a = sd.LayoutArray.from_numpy(values, "{0,1:T(8,128)}")
    rows = np.random.default_rng(1).integers(-40, 40, (entries, 300))
    for key in ((rows, np.arange(300)), (rows[:, :1], np.arange(300)), (rows[:, :40], np.arange(40))):
        same_values(a[key], values[key])


@pytest.mark.parametrize("rows", [65_536, 65_544], ids=["offsets below 2**32", "and above"])
def test_offsets_beyond_31_bits(rows: int) -> None:
    shape = sd.parse_shape(f"u1[{rows},65536]{{1,0:E(1)}}")
    a = sd.LayoutArray(np.zeros(shape.byte_size, np.uint8), shape)  # pages that nobody touches take no memory
    i, j = np.arange(rows - 3000, rows), np.arange(3000) * 20
    a.buffer[-3000 * 8192 :] = np.random.default_rng(0).integers(0, 256, 3000 * 8192, np.uint8)
    values = a[-3000:].to_numpy()
    same_values(a[i, j], values[np.arange(3000), j])
    same_values(a.flat[i * 65_536 + j], values[np.arange(3000), j])
    same_values(a[:, ::-1][i, j], values[:, ::-1][np.arange(3000), j])


@pytest.mark.parametrize("text", ["f32[60,300]{1,0:T(8,128)}", "u8[60,300]{0,1:T(6,10)(3,2)}"])
@pytest.mark.parametrize("window", [np.s_[3:, 5:], np.s_[::3, 1::2], np.s_[7:50:2, ::-1]], ids=str)
def test_the_kernel_for_index_arrays_takes_windows_out_of_step_with_tiles(text: str, window: Any) -> None:
    shape = sd.parse_shape(text)
    values = np.random.default_rng(0).integers(0, 99, shape.dimensions).astype(shape.dtype)
    a = sd.LayoutArray.from_numpy(values, shape)
    check_taken_by_kernel(a[window], values[window])
