"""The methods, attributes and conversions of an ndarray: what they give, change and refuse."""

from __future__ import annotations

import inspect
import io
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import strided as sd
from tests.cases import ARRAY_TYPES, Case, some_values
from tests.checks import encoded, outcome, same_outcome, same_values, shape_of
from tests.namespace import same
from tests.strategies import cases
from tests.thinned import thinned

TILED, PLAIN = "s16[3,5]{0,1:T(2,2)}", "s16[3,5]{1,0}"


def both(text: str = TILED, *, writable: bool = True) -> tuple[sd.LayoutArray, np.ndarray]:
    case = Case.parse(text)
    values = np.random.default_rng(4).permutation(15).reshape(3, 5).astype(case.dtype)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    a.flags.writeable = writable
    values.flags.writeable = writable
    return a, values


CALLS: dict[str, list[Callable[[Any], Any]]] = {
    "all": [lambda x: x.all(), lambda x: x.all(1), lambda x: x.all(axis=0, keepdims=True)],
    "any": [lambda x: x.any(), lambda x: x.any(1, where=np.ones(5, bool))],
    "argmax": [lambda x: x.argmax(), lambda x: x.argmax(1), lambda x: x.argmax(axis=0, keepdims=True)],
    "argmin": [lambda x: x.argmin(), lambda x: x.argmin(1)],
    "argpartition": [lambda x: x.argpartition(2)[:, 2], lambda x: x.argpartition(1, axis=0)[1]],
    "argsort": [lambda x: x.argsort(), lambda x: x.argsort(0), lambda x: x.argsort(axis=None, kind="stable")],
    "astype": [
        lambda x: x.astype(np.float64),
        lambda x: x.astype("U5"),
        *(lambda x, t=t: x.astype(t) for t in ("U", "S", "V", object, "M8[s]", [("a", "i4")], "(2,)f4")),
        lambda x: x.astype(np.int8, casting="safe"),
        lambda x: x.astype(np.int64, casting="safe", copy=False),
        lambda x: x.astype(np.int16, copy=False) is x,
        lambda x: x.astype(np.int16, order="F"),
        lambda x: x.astype(">i2"),
        lambda x: x.astype("nonsense"),
    ],
    "byteswap": [lambda x: x.byteswap(), lambda x: x.byteswap(inplace=True)[0], lambda x: x.byteswap(True)],
    "choose": [lambda x: (x % 2).choose([10, 20]), lambda x: x.choose([1, 2])],
    "clip": [lambda x: x.clip(2, 5), lambda x: x.clip(min=3), lambda x: x.clip(2, 5, out=x), lambda x: x.clip()],
    "compress": [lambda x: x.compress([True, False, True], axis=0), lambda x: x.compress([0, 1])],
    "conj": [lambda x: x.conj(), lambda x: x.conjugate()],
    "copy": [lambda x: np.asarray(x.copy()), lambda x: x.copy("Q")],
    "cumprod": [lambda x: x.cumprod(), lambda x: x.cumprod(1)],
    "cumsum": [lambda x: x.cumsum(), lambda x: x.cumsum(1, dtype=float), lambda x: x.cumsum(axis=7)],
    "device": [lambda x: x.device, lambda x: x.to_device("cpu") is x, lambda x: x.to_device("gpu")],
    "diagonal": [lambda x: x.diagonal(), lambda x: x.diagonal(1)],
    "dot": [lambda x: x.dot(np.arange(5)), lambda x: x.dot(x), lambda x: x.T.dot(x)],
    "fill": [lambda x: x.fill(7), lambda x: x.fill("a"), lambda x: x.fill([1]), lambda x: x.fill(1 << 40),
             lambda x: x.fill(2.7)],
    "flat": [
        lambda x: list(x.flat),
        lambda x: x.flat[3],
        lambda x: x.flat[[1, 2]],
        lambda x: [next(it := x.flat), next(it), it[3], next(it), it[1:3].tolist(), it.index],
        lambda x: [len(list(it := x.flat)), it.coords, it.index],
        lambda x: [next(it := x.flat), next(it), it.coords],
    ],
    "flatten": [lambda x: x.flatten(), lambda x: x.flatten("F"), lambda x: x.flatten("Q")],
    "getfield": [lambda x: x.getfield(np.int8, 1), lambda x: x.getfield(np.int64)],
    "item": [
        lambda x: x.item(3),
        lambda x: x.item(-1),
        lambda x: x.item(1, 2),
        lambda x: x.item((1, -2)),
        lambda x: x.item((7,)),
        lambda x: x.item((-1,)),
        lambda x: x.item((100,)),
        lambda x: x.item(),
        lambda x: x.item(15),
        lambda x: x.item(0, 0, 0),
        lambda x: x[1, 1:2].item(),
        lambda x: x.item("a"),
    ],
    "itemsize": [lambda x: x.itemsize, lambda x: x.nbytes, lambda x: x.size, lambda x: x.ndim, lambda x: x.shape],
    "max": [lambda x: x.max(), lambda x: x.max(0), lambda x: x.max(axis=(0, 1)), lambda x: x.max(initial=99)],
    "mean": [lambda x: x.mean(), lambda x: x.mean(1), lambda x: x.mean(dtype=np.float32)],
    "min": [lambda x: x.min(), lambda x: x.min(0, keepdims=True), lambda x: x[:0].min()],
    "nonzero": [lambda x: x.nonzero()],
    "partition": [lambda x: x.partition(2), lambda x: x.partition(1, axis=0), lambda x: x.partition(9)],
    "prod": [lambda x: x.prod(), lambda x: x.prod(1, dtype=float)],
    "put": [lambda x: x.put([0, 14, 3], [7, 8]), lambda x: x.put(99, 1), lambda x: x.put([-1], 5, mode="wrap")],
    "ravel": [lambda x: np.asarray(x.ravel())],
    "repeat": [lambda x: x.repeat(2), lambda x: x.repeat([1, 2, 0], axis=0)],
    "reshape": [lambda x: np.asarray(x.reshape(5, 3)), lambda x: np.asarray(x.reshape((15,)))],
    "round": [lambda x: x.round(-1), lambda x: x.round(decimals=1)],
    "searchsorted": [lambda x: x[0].searchsorted([1, 2]), lambda x: x.searchsorted(1)],
    "setfield": [lambda x: x.setfield(3, np.int16), lambda x: x.setfield(3, np.int64)],
    "sort": [lambda x: x.sort(), lambda x: x.sort(0), lambda x: x.sort(axis=5), lambda x: x[1:, ::-2].sort()],
    "squeeze": [lambda x: x[:1].squeeze(), lambda x: x.squeeze(0)],
    "std": [lambda x: x.std(), lambda x: x.std(1, ddof=1)],
    "sum": [lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.sum(axis=0, dtype=np.int8), lambda x: x.sum("a")],
    "take": [lambda x: x.take([1, 2]), lambda x: x.take(4, axis=1), lambda x: x.take([9], 1),
             lambda x: x.take([9], 1, mode="clip")],
    "tobytes": [lambda x: x.tobytes(), lambda x: x.tobytes("F"), lambda x: x.T.tobytes()],
    "bytes": [lambda x: bytes(x), lambda x: bytes(x.T), lambda x: bytes(x[0, 0])],
    "tolist": [lambda x: x.tolist(), lambda x: x[0].tolist(), lambda x: x[:, :0].tolist()],
    "trace": [lambda x: x.trace(), lambda x: x.trace(1)],
    "transpose": [lambda x: np.asarray(x.transpose()), lambda x: np.asarray(x.T)],
    "var": [lambda x: x.var(), lambda x: x.var(0)],
    "view": [lambda x: np.asarray(x.view(np.uint16)), lambda x: np.asarray(x.view())],
}  # fmt: skip


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("text", [TILED, PLAIN])
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("name", thinned(CALLS, 2))
def test_methods(name: str, writable: bool, text: str) -> None:
    for call in CALLS[name]:
        a, x = both(text, writable=writable)
        same_outcome(lambda call=call, a=a: call(a), lambda call=call, x=x: call(x), same)
        same_values(a, x)


#: Names that NumPy 2 took from ndarrays, the last of them in 2.3.
DROPPED = {"ptp", "itemset", "newbyteorder", "tostring"}


def test_every_public_name_of_an_ndarray_is_there() -> None:
    a, x = both(PLAIN)
    missing = {name for name in dir(x) if not name.startswith("_") and not hasattr(a, name)}
    assert missing <= DROPPED
    dunder = {name for name in dir(x) if name.startswith("__") and not hasattr(a, name)}
    assert dunder <= {"__array_finalize__", "__array_struct__", "__array_wrap__", "__array_namespace__", "__setstate__"}


def test_names_that_numpy_2_dropped_are_not_there() -> None:
    a, _ = both()
    for name in DROPPED:
        assert not hasattr(a, name)


def test_resizing_is_refused() -> None:
    for text in (TILED, PLAIN):
        a, _ = both(text)
        with pytest.raises(ValueError, match="cannot resize this array: it does not own its data"):
            a.resize((2, 2))
        with pytest.raises(ValueError, match="cannot resize this array: it does not own its data"):
            a.resize(())


def test_resizing_to_the_same_shape_does_nothing() -> None:
    for text in (TILED, PLAIN):
        a, x = both(text)
        for shape in ((), (None,), x.shape, (x.shape,), ([*x.shape],), (np.array(x.shape),)):
            x.resize(*shape)
            assert a.resize(*shape) is None


def test_memory_of_plain_layouts() -> None:
    a, x = both(PLAIN)
    assert a.strides == x.strides
    assert bytes(a.data) == x.tobytes()
    assert a.ctypes.shape[:] == [3, 5]
    assert a.base is a.buffer
    tiled, _ = both()
    for name in ("strides", "data", "ctypes"):
        with pytest.raises(AttributeError, match=r"is not plain strides; to_numpy\(\) converts it"):
            getattr(tiled, name)


def test_files_of_the_logical_bytes(tmp_path: Any) -> None:
    a, x = both()
    a.tofile(tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == x.tobytes()
    assert a.tobytes() == x.tobytes()
    assert a.buffer.tobytes() != x.tobytes()
    a.dump(tmp_path / "x.pickle")
    assert np.array_equal(np.load(tmp_path / "x.pickle", allow_pickle=True), x)


# --- Python's protocols ---------------------------------------------------------------------------------------------


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **{f.__name__: f for f in (bool, int, float, complex, len, list, str, hash, iter, abs, round, format, reversed)},
    **{f.__name__: f for f in (operator.index, operator.neg, operator.pos, operator.invert, math.floor, math.sqrt)},
    "with a format": lambda x: f"{x:5}",
    "next": lambda x: next(iter(x)),
    "as an index": lambda x: [1, 2, 3, 4][x],
    "in": lambda x: x in [1],
    "contains": lambda x: 3 in x,
    "contains a list": lambda x: [7] in x,
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("shape", thinned(map(pytest.param, [(), (1,), (1, 1), (0,), (2,), (2, 3), (0, 3)]), 2))
@pytest.mark.parametrize("element_type", thinned(["s16", "f32", "c64", "pred", "bf16"], 2))
def test_conversions(name: str, shape: tuple[int, ...], element_type: str) -> None:
    convert = CONVERSIONS[name]
    layout = "{" + ",".join(map(str, range(len(shape)))) + ":T(2,2)}"
    case = Case.parse(f"{element_type}[{','.join(map(str, shape))}]{layout}")
    x = np.ones(shape, case.dtype)
    a = sd.LayoutArray.from_numpy(x, layout)
    expected, wanted = outcome(lambda: convert(x))
    got, error = outcome(lambda: convert(a))
    if wanted is not None:
        assert type(error) is type(wanted)
        assert str(error).replace("LayoutArray", "ndarray") == str(wanted).replace("numpy.ndarray", "ndarray")
        return
    assert error is None
    if isinstance(expected, (np.ndarray, np.generic)):
        same(got, expected)
    elif convert in (iter, reversed):
        assert [np.asarray(g).tolist() for g in got] == [np.asarray(e).tolist() for e in expected]
    elif convert is list:
        assert len(got) == len(expected)
    else:
        assert got == expected


@given(cases(max_rank=3))
def test_iterating_gives_views(case: Case) -> None:
    values = some_values(case)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    if not values.ndim:
        with pytest.raises(TypeError, match="iteration over a 0-d array"):
            iter(a)
        return
    rows = list(a)
    assert len(rows) == len(values) == len(a)
    for row, expected in zip(rows, values, strict=True):
        assert isinstance(row, sd.LayoutArray) == (values.ndim > 1)
        same_values(row, expected, case.bits)


def test_an_array_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        hash(both()[0])


def test_unpacking_and_matching() -> None:
    a, x = both()
    first, *rest = a
    same_values(first, x[0])
    assert len(rest) == 2
    print(*a[0], file=io.StringIO())
    assert dict(enumerate(a[0].tolist())) == dict(enumerate(x[0].tolist()))


# --- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_elements_of_every_type(element_type: str) -> None:
    case = Case.parse("f32[3,5]{0,1:T(2,2)}").with_type(element_type)
    values = some_values(case)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    assert type(a[1, 2]) is type(values[1, 2])
    for mine, theirs in (
        (a.item(3), values.item(3)),
        (a[1, 2].item(), values[1, 2].item()),
        (a.tolist()[1][1], values.tolist()[1][1]),
    ):
        assert type(mine) is type(theirs)
        assert mine == theirs or (mine != mine and theirs != theirs)
    a[0, 0] = values[1, 1]
    same_values(a[0, 0], values[1, 1], case.bits)
    a.fill(values[2, 2])
    same_values(a, np.full_like(values, values[2, 2]), case.bits)
    with np.errstate(all="ignore"):
        same_values(a.astype(np.complex64), np.full((3, 5), values[2, 2]).astype(np.complex64))


# --- notebooks ------------------------------------------------------------------------------------------------------


def test_a_notebook_shows_a_table(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = sd.parse("bf16[20000,30000]{1,0:T(8,128)(2,1)}")
    path = tmp_path / "large<&>.bin"
    with open(path, "wb") as file:
        file.truncate(shape.byte_size)
    a = sd.open(path, shape)
    monkeypatch.setattr(sd.LayoutArray, "to_numpy", None)  # nothing is converted as a whole
    shown = a._repr_html_()
    for text in (str(shape), "large&lt;&amp;&gt;.bin", "1.12GiB", "padding", "0.3%", "..."):
        assert text in shown
    assert "<script" not in shown
    assert len(shown) < 40_000
    assert "view of" in a[1:]._repr_html_()
    assert a._repr_inline_(200) == f"LayoutArray {shape}"
    assert len(a[1:]._repr_inline_(20)) == 20
    assert len(repr(a)) < 2000


def test_the_type_goes_to_a_line_of_its_own_where_there_is_no_room() -> None:
    a = sd.LayoutArray.from_numpy(np.arange(18, dtype=np.float32).reshape(2, 9) + 0.5, "{1,0:T(8,128)}")
    first, second, third = repr(a).split("\n")
    assert first.startswith("LayoutArray([[ 0.5")
    assert second.endswith("]],")
    assert third == "            dtype=float32, f32[2,9]{1,0:T(8,128)})"
    short = sd.LayoutArray.from_numpy(np.arange(3, dtype=np.int8), "{0}")
    assert repr(short) == "LayoutArray([0, 1, 2], dtype=int8, s8[3]{0})"


@pytest.mark.parametrize("text", [TILED, PLAIN])
def test_methods_take_what_ndarrays_take_and_not_what_the_functions_take(text: str) -> None:
    for call in (
        lambda v: v.clip(3),
        lambda v: v.clip(3, 9),
        lambda v: v.clip(None, 9),
        lambda v: v.clip(max=9),
        lambda v: v.clip(min=3, max=v),
        lambda v: v.clip(),
        lambda v: v.clip(3, out=v),
        lambda v: v.clip(3, None, v),
        lambda v: v.clip(3.5, dtype=np.float64),
        lambda v: v.clip(3, where=v > 7, out=v),
        lambda v: v.clip(a_min=3),
        lambda v: v.clip(1, 2, 3, 4),
        lambda v: v.clip("a"),
        lambda v: v.std(correction=1),
        lambda v: v.var(correction=1),
        lambda v: v.std(0, correction=1, keepdims=True),
        lambda v: v.std(ddof=1),
        lambda v: v.var(0, None, None, 1, True),
        lambda v: v.round(-1, out=v),
        lambda v: v.mean(0, out=v[0]),
        lambda v: v.resize(v.shape),
        lambda v: v.resize(),
        lambda v: v.setflags(align=True, uic=False),
        lambda v: v.setflags(uic=True),
        lambda v: setattr(v, "imag", 1),
        lambda v: v.std(mean=v.mean(0, keepdims=True), axis=0),
    ):
        a, x = both(text)
        same_outcome(lambda call=call, a=a: call(a), lambda call=call, x=x: call(x), same_values)
        same_values(a, x)


OUT_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda x, out: x.clip(2, 5, out=out),
    "clip, by position": lambda x, out: x.clip(2, 5, out),
    "np.clip, by position": lambda x, out: np.clip(x, 2, 5, out),
    "cumsum": lambda x, out: x.cumsum(0, out=out),
    "cumsum, by position": lambda x, out: x.cumsum(0, None, out),
    "cumprod": lambda x, out: x.cumprod(0, out=out),
    "round": lambda x, out: x.round(1, out),
    "take": lambda x, out: x.take([0, 1, 2], 0, out),
    "concatenate": lambda x, out: np.concatenate([x[:1], x[1:]], out=out),
    "of nothing": lambda x, out: x[:0].clip(2, 5, out=out[:0]),
    "another axis": lambda x, out: x.cumsum(7, out=out),
}


@pytest.mark.parametrize("kind", ["ndarray", TILED, PLAIN])
@pytest.mark.parametrize("name", OUT_CALLS)
def test_a_read_only_out_is_refused_before_anything_is_converted(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a, x), (out, values) = both(), both(PLAIN if kind == "ndarray" else kind, writable=False)
    with pytest.raises((ValueError, IndexError)) as wanted:
        OUT_CALLS[name](x, values)
    with monkeypatch.context() as patch:
        patch.setattr("strided.arrays.array_functions.Arguments", None)  # converts
        with pytest.raises(type(wanted.value), match=re.escape(str(wanted.value))):
            OUT_CALLS[name](a, values if kind == "ndarray" else out)
    assert np.array_equal(out, values)


def test_signatures_are_those_of_numpy() -> None:
    """Notebooks and editors show them."""
    array = sd.LayoutArray.from_numpy(np.zeros((2, 3)))
    assert list(inspect.signature(array.sum).parameters)[:3] == ["axis", "dtype", "out"]
    assert list(inspect.signature(array.clip).parameters) == ["min", "max", "out", "kwargs"]
    assert inspect.signature(array.argsort).parameters["axis"].default == -1
    assert inspect.unwrap(sd.LayoutArray.tofile) is np.ndarray.tofile
