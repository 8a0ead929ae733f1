"""Arguments that ndarray's methods take in more ways than one: what differed from an ndarray."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import strided as sd
from tests.checks import needs_numpy, outcome, same_outcome, same_values
from tests.namespace import same
from tests.thinned import thinned

PLAIN, TILED = "{1,0}", "{0,1:T(2,2)}"


@pytest.fixture(params=[PLAIN, TILED])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


CHOICES: dict[str, Callable[[Any, Any], Any]] = {
    "several arrays": lambda x, c: x.choose(*c),
    "several arrays, out=": lambda x, c: x.choose(*c, out=np.zeros(3, c[0].dtype)),
    "several, mode=": lambda x, c: (x * 7).choose(*c, mode="wrap"),
    "a sequence": lambda x, c: x.choose(c),
    "one array": lambda x, c: x.choose(np.stack(c)),
    "none": lambda x, c: x.choose(),
    "an unknown keyword": lambda x, c: x.choose(choices=c),
    "too few": lambda x, c: (x + 5).choose(*c),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choosing_from_arrays_given_one_by_one(name: str, layout: str) -> None:
    """Here the second of them was taken for `out`, and overwritten."""
    which = np.array([[0, 1, 0], [1, 1, 0]])
    own, others = [[np.array([10, 20, 30]), np.array([100, 200, 300])] for _ in range(2)]
    array = sd.LayoutArray.from_numpy(which, layout)
    same_outcome(lambda: CHOICES[name](array, own), lambda: CHOICES[name](which, others), same)
    for got, expected in zip(own, others, strict=True):
        same_values(got, expected)


@pytest.mark.parametrize(
    "wanted",
    [np.dtypes.Float64DType, np.dtypes.Int8DType, np.dtypes.StrDType, np.dtypes.BytesDType, np.dtypes.DateTime64DType,
     np.dtypes.ObjectDType],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.int32, ml_dtypes.bfloat16])
@pytest.mark.usefixtures("either_way")
def test_classes_of_dtypes(wanted: Any, dtype: Any, layout: str) -> None:
    """For `np.dtype` they are Python's classes, and mean objects."""
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = sd.LayoutArray.from_numpy(values, layout)
    for options in ({}, {"casting": "same_kind"}, {"copy": False}):
        same_outcome(lambda o=options: array.astype(wanted, **o), lambda o=options: values.astype(wanted, **o), same)


@pytest.mark.parametrize("order", ["C", "F", "A", "K", "c", "f", "a", "k", None])
def test_casts_that_need_no_copy(order: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    for given, text in ((values, "{1,0}"), (np.asfortranarray(values), "{0,1}"), (values[:1], "{1,0}")):
        array = sd.LayoutArray.from_numpy(given, text)
        expected = given.astype("f8", order, copy=False) is given
        assert (array.astype("f8", order, copy=False) is array) == expected, order


@pytest.mark.parametrize("options", [{"order": "Q"}, {"casting": "some"}, {"casting": None}, {"order": 3}])
def test_casts_that_need_no_copy_check_what_they_are_given(options: Any, layout: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout)
    same_outcome(
        lambda: array.astype("f8", copy=False, **options), lambda: values.astype("f8", copy=False, **options), same
    )


@pytest.mark.parametrize("order", ["c", "f", "a", "k"])
def test_orders_of_copies_in_small_letters(order: str, layout: str) -> None:
    array = sd.LayoutArray.from_numpy(np.arange(6.0).reshape(2, 3), layout)
    assert array.copy(order).layout == array.copy(order.upper()).layout
    assert array.copy(None).layout == array.copy("C").layout  # type: ignore[arg-type]
    assert array[:, 1:].copy(order).layout == array[:, 1:].copy(order.upper()).layout


@pytest.mark.parametrize("dtype", ["V4", [("a", "u2"), ("b", "i2")]])
@pytest.mark.parametrize(
    "other",
    [None, object(), 1, {}, [[1, 2], [1]], np.array([None], object)],
    ids=["None", "object", "1", "dict", "ragged", "objects"],
)
def test_untyped_bytes_and_structures_are_compared_by_numpy(dtype: Any, other: Any, layout: str) -> None:
    values = np.arange(6, dtype=np.uint32).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout).view(dtype)
    values = values.view(dtype)
    same_outcome(lambda: array == other, lambda: values == other, same)
    same_outcome(lambda: array != other, lambda: values != other, same)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_filling_with_an_array_of_no_dimensions(dtype: Any, layout: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = sd.LayoutArray.from_numpy(values, layout)
    array.fill(array[1, 1, ...])
    values.fill(values[1, 1, ...])
    same_values(array, values)


@pytest.mark.parametrize("args", [(), (None,)], ids=str)
@pytest.mark.parametrize("dtype", ["?", "i4", "f4"])
def test_conjugates_of_what_is_not_complex(args: Any, dtype: str, layout: str) -> None:
    bits = np.arange(6).reshape(2, 3).astype(f"u{np.dtype(dtype).itemsize}") % 2
    array = sd.LayoutArray.from_numpy(bits, layout).view(dtype)
    same_outcome(lambda: array.conj(*args), lambda: bits.view(dtype).conj(*args), same)


_CONJUGATED: dict[str, Callable[[Any], Any]] = {
    "out": lambda x: x.conj(np.zeros((2, 3), np.complex64)),
    "out, broadcast": lambda x: x.conjugate(np.zeros((4, 2, 3), x.dtype)),
    "out, too small": lambda x: x.conj(np.zeros(3, np.complex64)),
    "out, of another kind": lambda x: x.conj(np.zeros((2, 3), np.int8)),
    "out, no array": lambda x: x.conjugate((1,)),
}


@pytest.mark.parametrize("dtype", ["?", "u4", "f4", "c8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", _CONJUGATED)
def test_where_conjugates_are_written(name: str, dtype: Any, layout: str) -> None:
    """What is not complex is copied, and refused as copies are."""
    values = (np.arange(6).reshape(2, 3) * (1 + 1j)).astype(dtype) if dtype == "c8" else np.ones((2, 3), dtype)
    array = sd.LayoutArray.from_numpy(values, layout)
    same_outcome(lambda: _CONJUGATED[name](array), lambda: _CONJUGATED[name](values), same)


def test_what_has_no_conjugate(layout: str) -> None:
    values = np.ones((2, 3), np.uint32)
    array = sd.LayoutArray.from_numpy(values, layout)
    same_outcome(lambda: array.view("U1").conj(), lambda: values.view("U1").conj())


@pytest.mark.parametrize("method", ["swapaxes", "conj", "conjugate"])
def test_arguments_that_are_taken_by_place_alone(method: str, layout: str) -> None:
    values = np.ones((2, 3))
    options = {"axis1": 0, "axis2": 1} if method == "swapaxes" else {"out": np.zeros((2, 3))}
    for x in (sd.LayoutArray.from_numpy(values, layout), values):
        _, error = outcome(lambda x=x: getattr(x, method)(**options))
        assert type(error) is TypeError


@needs_numpy("2.1", "reshape has no copy")
@pytest.mark.parametrize("options", [{"copy": "x"}, {"copy": "x", "order": "Q"}, {"copy": 0}, {"copy": 1}], ids=str)
@pytest.mark.parametrize("shape", [(3, 2), (7,)])
def test_whether_a_reshape_copies(options: Any, shape: tuple[int, ...]) -> None:
    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values)
    same_outcome(lambda: array.reshape(shape, **options), lambda: values.reshape(shape, **options), same)
    same_outcome(lambda: np.reshape(array, shape, **options), lambda: np.reshape(values, shape, **options), same)


@pytest.mark.filterwarnings("error")
def test_grids_that_share_memory_warn_of_nothing(layout: str) -> None:
    """NumPy warns once somebody asks whether they are writeable."""
    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout)
    same(np.meshgrid(array[0], array[:, 0], copy=False), np.meshgrid(values[0], values[:, 0], copy=False))


def test_put_writes_nothing_beside_its_elements(layout: str) -> None:
    """As `np.put`: what others write meanwhile stays."""

    class Values:
        def __init__(self, target: Any) -> None:
            self.target = target

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            self.target[1, 1] = 99
            return np.array([7], dtype)

    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout)
    for x in (array, values):
        x.put([0], Values(x))
    same_values(array, values)


@pytest.mark.parametrize("masks", ["floats", "objects", "integers"])
@pytest.mark.usefixtures("either_way")
def test_masks_that_numpy_refuses(masks: str, layout: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout)
    where = np.zeros((2, 3), {"floats": "f4", "objects": object, "integers": int}[masks])
    out = np.zeros((2, 3))
    same_outcome(lambda: np.add(array, 1, out=out, where=where), lambda: np.add(values, 1, out=out, where=where), same)


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("either_way")
def test_numpy_warns_of_results_left_unset(layout: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    array = sd.LayoutArray.from_numpy(values, layout)
    where = values > 2
    same_outcome(lambda: np.add(array, 1, where=where) is None, lambda: np.add(values, 1, where=where) is None, same)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize(
    ("dtype", "value"),
    thinned(
        itertools.product(
            ["u1", "i4", "f4", "c8", ml_dtypes.bfloat16, ml_dtypes.int4],
            [1j, 300, -1, 2.5, np.nan, None, "3", [1, 2, 3], [1, 2], [[[5]]]],
        ),
        3,
    ),
    ids=str,
)
def test_parts_are_set_as_from_an_array(part: str, dtype: Any, value: Any, layout: str) -> None:
    """A number that the type does not hold is refused by `x[...] = 300`; by `x.real = 300` since NumPy 2.5."""
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = sd.LayoutArray.from_numpy(values, layout)
    same_outcome(lambda: setattr(array, part, value), lambda: setattr(values, part, value), same)
    same_values(array, values)


def test_a_part_is_set_from_another_array(layout: str) -> None:
    values = np.arange(6).reshape(2, 3) * (1 + 2j)
    array = sd.LayoutArray.from_numpy(values, layout)
    array.real, values.real = array.imag, values.imag
    array.imag, values.imag = array[::-1].real, values[::-1].real.copy()
    same_values(array, values)


SCALARS = [0, True, -1, 300, 1.5, np.nan, 1j, np.int8(-3), np.float64(1e300), np.uint64(2**63), np.str_("a"), None]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(
    ("source", "dtype", "casting", "dims"),
    thinned(itertools.product(SCALARS, ["u1", "f4", ml_dtypes.bfloat16], ["same_kind", "unsafe"], [(2, 3), (0, 3)]), 5),
    ids=str,
)
def test_copyto_of_scalars(source: Any, casting: Any, dims: tuple[int, ...], dtype: Any, layout: str) -> None:
    values = np.ones(dims, dtype)
    array = sd.LayoutArray.from_numpy(values, layout)
    same_outcome(
        lambda: np.copyto(array, source, casting=casting), lambda: np.copyto(values, source, casting=casting), same
    )
    same_values(array, values)


@pytest.mark.parametrize(
    "out_layout", ["{1,0}", "{0,1}", "reversed", "windows", "read-only", "other dtype", "same memory"]
)
@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1}", "{1,0}"])
@pytest.mark.parametrize("dims", [(150, 130), (3, 5), (0, 4)])
def test_copyto_an_ndarray(dims: tuple[int, int], layout: str, out_layout: str) -> None:
    values = np.arange(dims[0] * dims[1], dtype=np.float32).reshape(dims)
    array = sd.LayoutArray.from_numpy(values, layout)
    out, wanted = np.full((dims[0] + 1, dims[1]), 7, np.float32), np.full((dims[0] + 1, dims[1]), 7, np.float32)

    def target(x: np.ndarray[Any, Any]) -> Any:
        match out_layout:
            case "{0,1}":
                return np.full(dims[::-1], 7, np.float32).T
            case "reversed":
                return x[1:][::-1, ::-1]
            case "windows":
                return as_strided(x, dims, (4, 4))
            case "read-only":
                x.flags.writeable = False
            case "other dtype":
                return np.full(dims, 7, np.int16)
        return x[1:]

    one, other = target(out), target(wanted)
    if out_layout == "same memory" and array.is_strided:
        one, other = array.as_strided()[::-1], np.array(values)[::-1]
    casting: Any = "unsafe" if out_layout == "other dtype" else "same_kind"
    same_outcome(
        lambda: np.copyto(one, array, casting=casting), lambda: np.copyto(other, values, casting=casting), same
    )
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(out, wanted)


def test_copyto_an_ndarray_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    array = sd.LayoutArray.from_numpy(np.zeros((40, 150), np.float32), "{1,0:T(8,128)}")
    out = np.ones((40, 150), np.float32)
    monkeypatch.setattr("strided.arrays.array_functions._converted", None)
    np.copyto(out, array)
    assert not out.any()


def test_copyto_of_a_scalar_converts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    array = sd.LayoutArray.from_numpy(np.zeros((40, 50), np.float32), "{1,0:T(8,128)}")
    for view, scalar in ((array, 1), (array[::2], np.float64(0.5))):
        with monkeypatch.context() as patch:
            patch.setattr("strided.arrays.array_functions._converted", None)
            np.copyto(view, scalar)
        assert (np.asarray(view) == scalar).all()


@pytest.mark.parametrize("where", [False, np.False_, np.True_, np.array([[True], [False]])], ids=repr)
@pytest.mark.parametrize("source", [1e300, np.full(3, 1e300), np.full(3, 1j)], ids=["number", "numbers", "complex"])
@pytest.mark.parametrize(("dims", "writable"), [((2, 3), True), ((2, 3), False), ((2, 0), True)])
def test_what_copyto_warns_of(where: Any, source: Any, dims: tuple[int, ...], writable: bool, layout: str) -> None:
    """Not of what is never cast: without a choice, without elements, and where nothing may be written."""
    values = np.zeros(dims, np.float32)
    array = sd.LayoutArray.from_numpy(values, layout)
    array.flags.writeable = values.flags.writeable = writable
    if np.ndim(source):
        source = source[: dims[1]]
    warned = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for target in (array, values):
            found.clear()
            outcome(lambda target=target: np.copyto(target, source, casting="unsafe", where=where))
            warned.append({str(w.message) for w in found})
    # Older ones warn of a number that no mask takes.
    is_old = np.lib.NumpyVersion(np.__version__) < "2.4.0"
    assert warned[0] <= warned[1] if is_old else warned[0] == warned[1]


@pytest.mark.parametrize("source", [np.arange(6, dtype=np.int8).reshape(2, 3), np.arange(5, dtype=np.int8), 1j, "a", 1])
@pytest.mark.parametrize("options", [{}, {"where": False}, {"where": np.ones(3, bool)}, {"casting": "safe"}])
@pytest.mark.parametrize("writable", [True, False])
def test_what_copyto_refuses_first(source: Any, options: Any, writable: bool, layout: str) -> None:
    """Of a read-only target and a type that does not fit, NumPy names the target."""
    values = np.zeros((2, 3), np.uint8)
    array = sd.LayoutArray.from_numpy(values, layout)
    array.flags.writeable = values.flags.writeable = writable
    same_outcome(lambda: np.copyto(array, source, **options), lambda: np.copyto(values, source, **options), same)
    same_values(array, values)


_AXES: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, axis: np.take(x, [0], axis),
    "take, one": lambda x, axis: x.take(0, axis=axis),
    "concatenate": lambda x, axis: np.concatenate([x, x], axis),
    "stack": lambda x, axis: np.stack([x, x], axis),
    "split": lambda x, axis: np.split(x, 1, axis=axis),
    "array_split": lambda x, axis: np.array_split(x, 2, axis),
    "array_split at": lambda x, axis: np.array_split(x, [1], axis=axis),
}


@pytest.mark.parametrize("axis", [True, False, None, 1, -1, 2, 1 << 31, 1 << 70, np.int8(1), 1.0], ids=repr)
@pytest.mark.parametrize("name", _AXES)
def test_what_is_no_axis(name: str, axis: Any, layout: str) -> None:
    x = np.arange(12000.0).reshape(100, 120)  # as many bytes as are put together straight in their places
    a = sd.LayoutArray.from_numpy(x, layout)
    both = same_outcome(lambda: _AXES[name](a, axis), lambda: _AXES[name](x, axis))
    if both is not None:
        found, wanted = (x if isinstance(x, list) else [x] for x in both)
        assert all(map(np.array_equal, found, wanted))


@pytest.mark.parametrize("name", ["split", "array_split", "hsplit", "vsplit"])
def test_splits_take_their_arguments_by_name(name: str, layout: str) -> None:
    x = np.arange(24).reshape(6, 4)
    a, function = sd.LayoutArray.from_numpy(x, layout), getattr(np, name)
    for cuts in (2, [1]):
        found, wanted = function(ary=a, indices_or_sections=cuts), function(ary=x, indices_or_sections=cuts)
        assert all(map(np.array_equal, found, wanted))


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_time_is_no_index(unit: str, layout: str) -> None:
    """NumPy's class of times is one of integers."""
    x = np.arange(6).reshape(2, 3)
    a, time = sd.LayoutArray.from_numpy(x, layout), np.timedelta64(1, unit)
    for key in (time, (time, 0), (0, time), (..., time), (time, ..., 0)):
        assert same_outcome(lambda key=key: a[key], lambda key=key: x[key]) is None

        def assign(to: Any, key: Any = key) -> None:
            to[key] = 9

        assert same_outcome(lambda: assign(a), lambda: assign(x)) is None
    assert np.array_equal(a, x)
