"""Operations on small arrays: what is asked for again is not worked out again, and the results stay NumPy's."""

import copy
import gc
import inspect
import itertools
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.addressing.address_map import AddressMap
from strided.runtime import limits
from strided.transfer import by_numpy, gather_scatter
from strided.transfer import copy as transfer

LAYOUTS = ("{1,0}", "{0,1}", "{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{0,1:T(2,4)}")
VALUES = (np.arange(24 * 130).reshape(24, 130) % 13 - 6).astype(np.float32)


def of_layout(layout, dtype=ml_dtypes.bfloat16):
    values = VALUES.astype(dtype)
    return values, sd.LayoutArray.from_numpy(values, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_of_one_kind_share_a_map(layout):
    _, a = of_layout(layout)
    assert a.T.address_map is a.T.address_map
    assert a.T.T.address_map is a[...].address_map is a[:].address_map is a[:, :130].address_map is a.address_map
    assert a.T.reshape(130, 24).address_map is a.T.address_map
    assert a[:, ::-1].address_map is not a.address_map


def test_reshaped_views_share_a_map():
    _, a = of_layout("{1,0:T(8,128)}")
    assert a.reshape(3, 8, 130).address_map is a.reshape(3, 8, -1).address_map


def test_a_map_and_its_reverse_are_freed_without_the_garbage_collector():
    map_ = of_layout("{1,0:T(4,128)}")[1][1:, 2:].address_map
    found = weakref.ref(map_), weakref.ref(map_.reversed_axes), weakref.ref(map_.reversed_axes.reversed_axes)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del map_
        assert [ref() for ref in found] == [None, None, None]
    finally:
        if was_enabled:
            gc.enable()


def test_the_reverse_of_a_reverse_outlives_the_first_map():
    values, a = of_layout("{1,0:T(4,128)}")
    turned = a[1:, 2:].T
    gc.collect()
    assert turned.T.address_map is turned.T.address_map
    assert turned.T.T.address_map is turned.address_map
    np.testing.assert_array_equal(turned.T.to_numpy(), values[1:, 2:])
    copied = copy.copy(turned.address_map)
    assert copied.reversed_axes == turned.T.address_map


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 4), (4, 1, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_strides_are_those_of_an_ndarray(shape, order):
    values = np.zeros(shape, np.float32, order)
    a = sd.LayoutArray.from_numpy(values, sd.Layout(range(len(shape)) if order == "F" else range(len(shape))[::-1]))
    for key in itertools.product([slice(None), slice(None, None, -1), slice(1, None, 2)], repeat=len(shape)):
        assert np.may_share_memory(a[key].as_strided(), a.buffer) or not a[key].size
        if a[key].size > 1:
            own = [s for s, n in zip(a[key].strides, a[key].shape, strict=True) if n > 1]
            assert own == [s for s, n in zip(values[key].strides, values[key].shape, strict=True) if n > 1]
    assert order == "F" or a.strides == values.strides


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(24, 130), (2, 24, 130), (3, 1, 24, 130)])
def test_broadcast_maps_lead_to_the_same_elements(layout, shape):
    values, a = of_layout(layout)
    for view, expected in ((a, values), (a[:, 3:4], values[:, 3:4]), (a[5], values[5]), (a[:1, :1], values[:1, :1])):
        np.testing.assert_array_equal(view.broadcast_to(shape).to_numpy(), np.broadcast_to(expected, shape))


def test_an_irregular_map_is_broadcast():
    a = sd.LayoutArray(np.arange(64, dtype=np.uint8), "u8[3,4,5]{2,1,0:T(*,4)}")
    assert not a.address_map.is_regular
    view = a[:, 1:2].broadcast_to((2, 3, 4, 5))
    np.testing.assert_array_equal(view.to_numpy(), np.broadcast_to(a.to_numpy()[:, 1:2], (2, 3, 4, 5)))


def test_offsets_of_rows_are_computed_once(monkeypatch):
    values, a = of_layout("{0,1:T(2,4)}")
    by_numpy._offsets_from_base.cache_clear()
    asked = []
    offsets = AddressMap.offsets
    monkeypatch.setattr(AddressMap, "offsets", lambda map_, *box: asked.append(map_) or offsets(map_, *box))
    for row, expected in zip(a[::2, 1:], values[::2, 1:], strict=True):
        np.testing.assert_array_equal(row.to_numpy(), expected)
    assert len(asked) <= 1


def test_offsets_are_never_written_to():
    _, a = of_layout("{0,1:T(2,4)}")
    map_ = a[1, 1:].address_map
    assert not by_numpy._offsets_from_base(map_.shape, map_.axes, ())[0].flags.writeable


def test_rows_outside_a_buffer_are_refused():
    _, a = of_layout("{0,1:T(2,4)}")
    row, out = a[22].region, transfer.dense_region((130,), 2)
    transfer.copy(a[2].region, out)
    with pytest.raises(sd.BufferSizeError, match="source takes the bytes"):
        transfer.copy(row._replace(buffer=row.buffer[:-64]), out)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_filling_and_transposed_copies_are_recognised(layout, monkeypatch):
    values = VALUES[:8, :16].astype(ml_dtypes.bfloat16)
    a = sd.LayoutArray.from_numpy(values, layout)
    for _ in range(3):
        a.fill(3)
        a.T.copy()
        a[...] = values
        a.to_numpy()
    monkeypatch.setattr(transfer, "small_copy", None)
    monkeypatch.setattr(transfer, "_conversion", None)
    a.fill(2)
    assert (a.T.copy() == 2).all()
    a[:] = values
    np.testing.assert_array_equal(a.to_numpy(), values)


def test_sums_of_other_types_are_not_taken_apart(monkeypatch):
    values, a = of_layout("{1,0:T(8,128)}", np.float32)
    expected = values.sum(), values[2:4].mean(axis=0), values.std(axis=1, ddof=1)
    monkeypatch.setattr(inspect.Signature, "bind", None)
    assert a.sum() == expected[0]
    np.testing.assert_array_equal(a[2:4].mean(axis=0), expected[1])
    np.testing.assert_array_equal(a.std(axis=1, ddof=1), expected[2])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "arguments",
    [
        ((), {}),
        ((0,), {}),
        ((0, "f4"), {}),
        ((0, ml_dtypes.bfloat16), {}),
        ((1, None), {"keepdims": True}),
        ((), {"axis": (0, 1), "dtype": np.float64}),
        ((), {"dtype": np.float16, "where": VALUES > 0}),
    ],
)
def test_wide_sums_are_the_same_however_arguments_are_given(layout, arguments):
    places, names = arguments
    values, a = of_layout(layout)
    wide = values.astype(np.float64)
    for function in (np.sum, np.mean):
        result = function(a, *places, **names)
        dtype = names.get("dtype") or (places[1:] or (None,))[0] or values.dtype
        options = {k: v for k, v in names.items() if k != "dtype"}
        expected = function(wide, *places[:1], **options)
        assert result.dtype == dtype
        np.testing.assert_allclose(np.asarray(result, np.float64), expected, rtol=1e-2, atol=1e-6)
        by_name = function(a=a, **dict(zip(("axis", "dtype"), places, strict=False)), **names)
        np.testing.assert_array_equal(by_name, result)


@pytest.mark.parametrize("arguments", [((0, None, None, None, None, None, None, 1), {}), ((), {"axes": 0})])
def test_wrong_arguments_of_wide_sums_are_refused(arguments):
    values, a = of_layout("{1,0}")
    places, names = arguments
    for array in (values, a):
        with pytest.raises(TypeError, match="argument"):
            np.sum(array, *places, **names)


def test_a_missing_argument_is_refused():
    values, a = of_layout("{1,0}")
    for array in (values, a):
        with pytest.raises(TypeError, match="argument"):
            np.percentile(array)


def test_operands_of_einsum_are_not_written_back(monkeypatch):
    values, a = of_layout("{1,0:T(2,4)}", np.float32)
    monkeypatch.setattr(sd.LayoutArray, "__setitem__", None)
    np.testing.assert_array_equal(np.einsum("ij->i", a), np.einsum("ij->i", values))


@pytest.mark.parametrize("key", [[1, 2, 3], [-1], [], [True] * 12 + [False] * 12, [[0, 1], [2, 3]], [2, np.int8(1)]])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lists_index_as_in_numpy(layout, key):
    values, a = of_layout(layout)
    for given in (
        key,
        (key, slice(1, 9)),
        (slice(None, 24, 1), key[:3] if key and type(key[0]) is int else 1),
        (None, key),
    ):
        np.testing.assert_array_equal(a[given], values[given])


def test_short_lists_are_indexed_by_numpy(monkeypatch):
    values, a = of_layout("{1,0:T(8,128)}")
    monkeypatch.setattr(gather_scatter, "gather", None)
    with limits.replaced(whole_elements=a.size):
        np.testing.assert_array_equal(a[[1, 2, 3]], values[[1, 2, 3]])
    for array in (values, a):
        with pytest.raises(IndexError, match="index 24 is out of bounds"):
            array[[1, 24]]


def test_threads_get_the_same_results():
    values, a = of_layout("{1,0:T(8,128)(2,1)}")
    expected = [row.astype(np.float64).sum() for row in values]
    errors, start = [], threading.Barrier(4)

    def work():
        start.wait()
        for _ in range(5):
            found = [float(np.asarray(row, np.float32).sum()) for row in a]
            turned = a.T.copy().reshape(-1)
            if found != expected or not np.array_equal(turned, values.T.reshape(-1)):
                errors.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
