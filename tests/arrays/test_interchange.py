"""NumPy's protocols: its functions and universal functions, conversions, DLPack, copies, pickles."""

from __future__ import annotations

import ctypes
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import strided as sd
from tests import namespace, paths
from tests.cases import Case, some_values
from tests.checks import encoded, needs_numpy, numpy_is, outcome, same_outcome, same_values, shape_of
from tests.strategies import cases
from tests.thinned import thinned

FUNCTIONS = namespace.functions()
UFUNCS = namespace.ufuncs()

TILED, PLAIN = "f32[3,5]{0,1:T(2,2)}", "f32[3,5]{0,1}"
VALUES = np.arange(15, dtype=np.float32).reshape(3, 5)


def array(text: str = TILED, values: np.ndarray = VALUES) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, text)


# --- numpy.anything -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", thinned(FUNCTIONS, 3))
def test_every_function_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it gives, changes and refuses is what it gives, changes and refuses of an ndarray."""
    reads = namespace.Reads(monkeypatch)
    uses: set[str] = set()
    for call in namespace.calls(name):
        verdict = namespace.judge(FUNCTIONS[name], call, "tiled", reads)
        uses.add(verdict.use)
    for call in namespace.calls(name)[:25]:
        namespace.judge(FUNCTIONS[name], call, "plain")
    assert uses - {"refused"}, "no call was accepted"
    if FUNCTIONS[name] in sd.arrays.array_functions.VIEWS:
        assert "view" in uses
    elif FUNCTIONS[name] in sd.arrays.array_functions.QUESTIONS:
        assert "nothing read" in uses
    elif FUNCTIONS[name] in sd.arrays.inplace_functions.INPLACE_FUNCTIONS:
        assert "written" in uses


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("name", thinned([n for n in FUNCTIONS if not n.endswith(("std", "var"))], 11))
def test_every_function_of_large_arrays(name: str) -> None:
    """Block by block; deviations are more exact there than NumPy's, and judged by themselves."""
    for call in namespace.calls(name):
        namespace.judge(FUNCTIONS[name], call, "tiled")


def test_an_axis_may_be_an_array_of_no_dimensions(small_streams: None) -> None:
    for axis in (np.array(1), np.int64(1), [1]):
        same_outcome(lambda axis=axis: array().sum(axis), lambda axis=axis: VALUES.sum(axis), namespace.same)


def test_functions_of_other_types_are_left_to_them() -> None:
    class Other:
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return "other"

    assert np.concatenate([array(), Other()]) == "other"
    assert np.array_equal(Other(), array()) == "other"


@pytest.mark.parametrize("name", thinned(UFUNCS, 2))
@pytest.mark.parametrize("layouts", ["tiled", "plain"])
def test_every_universal_function(name: str, layouts: str) -> None:
    ufunc = UFUNCS[name]
    two = ufunc.nin == 2
    uses = []
    calls: list[Any] = [lambda a, k=k: ((a[k],) * ufunc.nin, {}) for k in "mrvinbcsu"]
    calls += [lambda a, k=k: ((a[k], 2) if two else (a[k],), {"dtype": np.float64}) for k in "rn"]
    if two:
        calls += [lambda a: ((a.r, a.n), {}), lambda a: ((a.r, a.v), {}), lambda a: ((2, a.n), {})]
        calls += [lambda a: ((a.u, -1), {}), lambda a: ((a.n, 2.5), {}), lambda a: ((a.r, np.float64(2)), {})]
        calls += [lambda a: ((a.m, a.m.T), {}), lambda a: ((a.r, a.i), {}), lambda a: ((a.r, "x"), {})]
    if ufunc.signature is None:
        shape = "out" if ufunc.nout == 1 else "r"
        outs = lambda a: tuple(a[("out", "r")[k]] for k in range(ufunc.nout))  # noqa: E731
        calls += [lambda a: ((a.r,) * ufunc.nin, {"out": outs(a)}), lambda a: ((a.n,) * ufunc.nin, {"out": outs(a)})]
        calls += [lambda a: ((a.r,) * ufunc.nin, {"out": a[shape], "where": a.b})]
        calls += [lambda a: ((a.v,) * ufunc.nin, {"out": a.out})]
    for call in calls:
        uses.append(namespace.judge(ufunc, call, layouts).use)
    assert set(uses) - {"refused"} or name == "isnat"


@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat", "outer", "at"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_or", "logical_and", "subtract",
                                  "power", "bitwise_xor", "fmax", "negative", "isnan", "matmul"])  # fmt: skip
def test_methods_of_universal_functions(name: str, method: str) -> None:
    function = getattr(UFUNCS[name], method)
    several = {
        "reduce": [
            lambda a: ((a.n,), {}),
            lambda a: ((a.n, 1), {}),
            lambda a: ((a.t,), {"axis": (0, 2)}),
            lambda a: ((a.t,), {"axis": None, "keepdims": True}),
            lambda a: ((a.r,), {"axis": 0, "out": a.out5}),
            lambda a: ((a.b,), {"dtype": int}),
            lambda a: ((a.n,), {"where": a.b, "initial": 3}),
            lambda a: ((a.s,), {}),
            lambda a: ((a.n, 7), {}),
        ],
        "accumulate": [lambda a: ((a.n,), {}), lambda a: ((a.t, 2), {}), lambda a: ((a.r,), {"out": a.out})],
        "reduceat": [lambda a: ((a.n, [0, 2, 1]), {}), lambda a: ((a.v, a.i), {}), lambda a: ((a.v, [9]), {})],
        "outer": [lambda a: ((a.v, a.i), {}), lambda a: ((a.n, [1, 2]), {}), lambda a: ((3, a.i), {})],
        "at": [
            lambda a: ((a.v, [0, 0, 3], 2), {}),
            lambda a: ((a.v, a.i, a.v), {}),
            lambda a: ((a.n, ([0, 1], [1, 1]), 5), {}),
            lambda a: ((a.v, [0, 1]), {}),
            lambda a: ((a.v, [77], 1), {}),
        ],
    }
    for call in several[method]:
        for layouts in ("tiled", "plain"):
            namespace.judge(function, call, layouts)


def test_another_operand_with_an_opinion_is_asked() -> None:
    class Other:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            return "other"

        def __radd__(self, left: Any) -> Any:
            return "right"

    class Opaque:
        __array_ufunc__ = None

        def __radd__(self, left: Any) -> Any:
            return "right"

    assert np.add(array(), Other()) == "other"
    assert array() + Other() == "other"
    assert array() + Opaque() == "right"
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(array(), Opaque())


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@", "<", "<=", "==", "!=", ">=", ">"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("text", ["s32[3,3]{0,1:T(2,2)}", "f32[3,3]{0,1:T(2,2)}", "bf16[3,3]{0,1:T(2,2)}"])
def test_operators_on_either_side(operator: str, text: str) -> None:
    case = Case.parse(text)
    x = np.arange(1, 10).reshape(3, 3).astype(case.dtype)
    a = array(text, x)
    for other in (2, 2.5, np.int8(3), np.float64(1.5), x, [1, 2, 3], True, "x", None):
        for source in ("left {} right", "right {} left"):
            code = source.format(operator)
            expected, wanted = outcome(lambda code=code, other=other: eval(code, {"left": x, "right": other}))
            got, error = outcome(lambda code=code, other=other: eval(code, {"left": a, "right": other}))
            if wanted is not None:
                assert type(error) is type(wanted)
                continue
            assert error is None, (code, other, error)
            assert type(got) is type(expected), (code, other)
            same_values(got, expected)


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "<<=", "|=", "@="])
@pytest.mark.parametrize("text", ["s32[3,3]{0,1:T(2,2)}", "f32[3,3]{0,1}", "u4[3,3]{0,1:T(2,2)E(4)}"])
def test_operators_in_place_write_through(operator: str, text: str) -> None:
    case = Case.parse(text)
    for other in (2, 1.5, np.ones((3, 3), np.int8), "row"):
        x = np.arange(1, 10).reshape(3, 3).astype(case.dtype)
        a = array(text, x)
        buffer = a.buffer
        right: Any = x[1].copy() if isinstance(other, str) else other
        mine, theirs = {"left": a, "right": right}, {"left": x, "right": right}
        code = f"left {operator} right"
        _, wanted = outcome(lambda code=code, theirs=theirs: exec(code, theirs))
        _, error = outcome(lambda code=code, mine=mine: exec(code, mine))
        assert type(error) is type(wanted), (error, wanted)
        assert mine["left"] is a
        assert a.buffer is buffer
        same_values(a, x, case.bits)


# --- as an ndarray --------------------------------------------------------------------------------------------------


@given(cases())
def test_copies_are_made_where_numpy_2_makes_them(case: Case) -> None:
    values = some_values(case)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    same_values(np.asarray(a), values, case.bits)
    same_values(np.array(a), values, case.bits)
    assert not np.shares_memory(np.array(a), a.buffer)
    if a.is_strided:
        view = a.as_strided()
        same_values(view, values, case.bits)
        same_values(np.array(a, copy=False), values, case.bits)
        assert not a.size or np.shares_memory(np.asarray(a), a.buffer)
        assert a.strides == view.strides
    else:
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            np.array(a, copy=False)
        with pytest.raises(BufferError, match="to_numpy"):
            a.as_strided()
        with pytest.raises(AttributeError, match="to_numpy"):
            _ = a.strides
        assert not hasattr(a, "__array_interface__")
        assert not np.asarray(a).flags.writeable
        assert np.array(a).flags.writeable
        assert a.to_numpy().flags.writeable


@pytest.mark.parametrize("text", [TILED, PLAIN])
@pytest.mark.parametrize("dtype", [None, np.float32, np.float64, np.int8, "U"])
@pytest.mark.parametrize("copied", [None, True, False])
def test_the_array_method_as_numpys_own(text: str, dtype: Any, copied: Any) -> None:
    reference = np.asarray(array(PLAIN))
    # Without a type an array keeps its own. NumPy 2.0 takes None for float64 here.
    expected, wanted = outcome(lambda: reference.__array__(dtype or reference.dtype, copy=copied))
    got, error = outcome(lambda: array(text).__array__(dtype, copy=copied))
    if text == TILED and copied is False:
        assert isinstance(error, ValueError)
        return
    if wanted is not None:
        assert type(error) is type(wanted)
        return
    if dtype is np.int8:
        # NumPy asks for the type it wants before it looks whether it may cast to that: it casts by itself.
        assert got.dtype == np.float32
        got = got.astype(np.int8)
    same_values(got, expected)


@pytest.mark.parametrize("text", [TILED, PLAIN])
@pytest.mark.parametrize("element_type", ["f32", "bf16", "c64"])
def test_numpy_casts_only_what_it_may(text: str, element_type: str) -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((3, 5)), text[len("f32[3,5]") :], element_type=element_type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        assert np.asarray(a, int).dtype == np.array(a, dtype=int).dtype == a.astype(int).dtype == int
    for use in (
        lambda: np.arange(5).take(a),
        lambda: np.take([1, 2, 3], a),
        lambda: np.arange(5).put(a, 1),
        lambda: np.random.default_rng(0).binomial(a, 0.5),
    ):
        with pytest.raises(TypeError, match="Cannot cast array data"):
            use()


def test_a_view_of_the_memory_is_just_that() -> None:
    a = array(PLAIN)
    view = np.asarray(a)
    view[1, 2] = 99
    assert a[1, 2] == 99
    read_only = sd.LayoutArray(bytes(60), PLAIN)
    assert not np.asarray(read_only).flags.writeable


def test_views_are_plain_where_their_part_is() -> None:
    a = array("f32[3,5]{1,0:T(4,8)}")
    assert a.is_strided
    b = array("f32[16,5]{1,0:T(8,4)}", np.zeros((16, 5), np.float32))
    assert not b.is_strided
    assert b[:8, 1:3].strides == (16, 4)
    assert not b[:, 1:3].is_strided
    assert b[::8, :4].strides == (256, 4)
    assert b[3:4, ::4].strides[1] == 128


@pytest.mark.parametrize("element_type", ["bf16", "s4", "f8e5m2"])
def test_the_array_interface_does_not_forget_a_type(element_type: str) -> None:
    case = Case.parse(f"{element_type}[3,5]{{0,1}}")
    values = some_values(case)
    a = sd.LayoutArray(encoded(case, values), shape_of(case))
    assert a.is_strided
    assert not hasattr(a, "__array_interface__")
    same_values(np.asarray(a), values)


# --- DLPack ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0), (0, 8), (2, 5)])
def test_dlpack_of_plain_layouts(version: Any) -> None:
    a = array(PLAIN)
    view = np.from_dlpack(a)
    same_values(view, VALUES)
    assert np.shares_memory(view, a.buffer)
    assert a.__dlpack_device__() == (1, 0)
    assert "dltensor" in repr(a.__dlpack__(max_version=version))
    copied = np.from_dlpack(Copied(a))
    same_values(copied, VALUES)
    assert not np.shares_memory(copied, a.buffer)


class Copied:
    """An array that is exported with ``copy=True``, which NumPy's own consumer cannot ask for before 2.1."""

    def __init__(self, array: sd.LayoutArray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**{**options, "copy": True})


@needs_numpy("2.1", "from_dlpack takes no `copy`")
@pytest.mark.parametrize("text", [TILED, PLAIN])
def test_numpy_asks_for_a_copy(text: str) -> None:
    a = array(text)
    copied = np.from_dlpack(a, copy=True)
    same_values(copied, VALUES)
    assert not np.shares_memory(copied, a.buffer)


def test_dlpack_of_other_layouts_is_refused_or_a_copy() -> None:
    a = array()
    with pytest.raises(BufferError, match=r"to_numpy\(\)"):
        np.from_dlpack(a)
    with pytest.raises(BufferError, match=r"to_numpy\(\)"):
        a.__dlpack__(copy=False)
    same_values(np.from_dlpack(Copied(a)), VALUES)
    with pytest.raises(BufferError, match="DLPack has no type int4; astype converts"):
        sd.LayoutArray(bytes(3), "s4[3]").__dlpack__()
    with pytest.raises(BufferError, match="device"):
        array(PLAIN).__dlpack__(dl_device=(2, 0))


def test_dlpack_of_read_only_memory() -> None:
    a = sd.LayoutArray(VALUES.tobytes(), "f32[3,5]")
    with pytest.raises(BufferError, match="readonly"):
        a.__dlpack__()


@needs_numpy("2.1", "it neither makes nor takes capsules that say that memory is read-only")
def test_dlpack_of_read_only_memory_to_a_consumer_that_knows_of_it() -> None:
    a = sd.LayoutArray(VALUES.tobytes(), "f32[3,5]")
    assert not np.from_dlpack(a).flags.writeable


@pytest.mark.parametrize(("element_type", "code"), [("bf16", 4), ("f8e4m3fn", 10), ("f8e5m2", 12), ("f8e8m0fnu", 14)])
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_names_the_types_that_numpy_lacks(element_type: str, code: int, version: Any) -> None:
    case = Case.parse(PLAIN).with_type(element_type)
    a = sd.LayoutArray(bytearray(encoded(case, some_values(case))), shape_of(case))
    capsule = a.__dlpack__(max_version=version)
    # A consumer says what it takes at most. NumPy makes capsules of the second kind from 2.1 on.
    versioned = version is not None and numpy_is("2.1")
    tensor = _address(capsule, b"dltensor_versioned") + 32 if versioned else _address(capsule, b"dltensor")
    content = ctypes.string_at(tensor, 24)
    assert int.from_bytes(content[:8], "little") == a.buffer.ctypes.data
    assert (content[20], content[21]) == (code, 8 * a.itemsize)


@needs_numpy("2.1", "it makes no capsules that have flags")
@pytest.mark.parametrize("element_type", ["f32", "bf16"])
@pytest.mark.parametrize("copy", [None, False, True])
def test_dlpack_marks_copies(element_type: str, copy: bool | None) -> None:
    values = np.zeros((3, 5), np.float32)
    a = array(f"{element_type}[3,5]{{0,1}}", values)
    assert _flags(a.__dlpack__(max_version=(1, 0), copy=copy)) == _flags(
        values.__dlpack__(max_version=(1, 0), copy=copy)
    )
    a.__dlpack__(copy=copy)  # one without a version has no flags: nothing else is written


def _flags(capsule: Any) -> int:
    return ctypes.c_uint64.from_address(_address(capsule, b"dltensor_versioned") + 24).value


def _address(capsule: Any, name: bytes) -> int:
    """Where a capsule's structure lies."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


# --- what NumPy keeps to itself -------------------------------------------------------------------------------------


def test_save_and_testing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array())
    assert np.array_equal(np.load(tmp_path / "x.npy"), VALUES)
    np.savez(tmp_path / "x.npz", array(), named=array())
    assert np.array_equal(np.load(tmp_path / "x.npz")["named"], VALUES)
    np.testing.assert_array_equal(array(), VALUES)
    np.testing.assert_allclose(VALUES, array())
    with pytest.raises(AssertionError, match="Mismatched elements: 15 / 15"):
        np.testing.assert_array_equal(array(), VALUES + 1)


def test_iteration_by_numpy() -> None:
    assert [int(x) for x in np.nditer(array(), order="C")] == list(range(15))
    a = array(PLAIN)
    with np.nditer(a, op_flags=["readwrite"]) as places:
        for x in places:
            x[...] = -x
    same_values(a, -VALUES)
    assert np.broadcast(array(), VALUES).shape == (3, 5)
    assert next(iter(np.ndenumerate(array()))) == ((0, 0), 0.0)
    assert np.lib.array_utils.byte_bounds(array(PLAIN))[1] - np.lib.array_utils.byte_bounds(array(PLAIN))[0] == 60
    with pytest.raises(AttributeError, match="to_numpy"):
        np.lib.array_utils.byte_bounds(array())


def test_the_table_of_the_documentation() -> None:
    page = (paths.ROOT / "docs" / "numpy.md").read_text(encoding="utf-8")
    version = re.search(r"tested with NumPy (\S+):", page)
    assert version
    if version[1] == np.__version__:
        assert namespace.table() in page, "python -m tests.namespace prints it"


def test_what_numpy_asks_of_ndarrays_alone_has_a_way_round() -> None:
    """Masks of no elements as keys of an ndarray, and the flag that makes memory writeable."""
    mask = sd.LayoutArray.from_numpy(np.zeros((0, 3), bool), "{1,0}")
    assert np.zeros((0, 3))[np.asarray(mask)].shape == mask[mask].shape == (0,)
    values = sd.LayoutArray.from_numpy(np.arange(3), "{0}").as_strided()
    values.flags.writeable = True
    assert values.flags.writeable
