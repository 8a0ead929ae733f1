"""Who carries out an operator: the one that would with an ndarray in the place of the array."""

from __future__ import annotations

import itertools
import operator
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests.checks import outcome, same_outcome
from tests.thinned import thinned

ARITHMETIC = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"]
ARITHMETIC += ["and", "xor", "or"]
COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]
LAYOUTS = ["{1,0}", "{0,1:T(2,2)}"]

Action = Callable[[Any, Any], Any]


def actions() -> dict[str, Action]:
    """Every operator with the array on the left, on the right, and in place."""
    found: dict[str, Action] = {}
    for name in (*ARITHMETIC, "divmod", *COMPARISONS):
        plain = divmod if name == "divmod" else getattr(operator, f"__{name}__")
        found[f"a {name} x"] = plain
        found[f"x {name} a"] = lambda a, x, plain=plain: plain(x, a)
    for name in ARITHMETIC:
        found[f"a {name}= x"] = getattr(operator, f"__i{name}__")
    return found


ACTIONS = actions()


def described(x: Any) -> Any:
    """A result, with an ndarray in the place of an array in a layout."""
    if isinstance(x, (np.ndarray, sd.LayoutArray)):
        values = np.asarray(x)
        kind = np.ndarray if isinstance(x, sd.LayoutArray) else type(x)
        return kind, str(values.dtype), [described(v) for v in values.flat] if values.dtype == object else str(values)
    if type(x) is tuple:
        return tuple(map(described, x))
    return type(x), str(x).replace("LayoutArray", "ndarray")


def judged(action: Action, x: np.ndarray, layout: str, other: Callable[[], Any]) -> None:
    """The same result of an array and of an ndarray, the same changes, or an exception of the same type."""
    a, y = sd.LayoutArray.from_numpy(x, layout), x.copy()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected, wanted = outcome(lambda: action(y, other()))
        got, error = outcome(lambda: action(a, other()))
    assert type(error) is type(wanted), f"{error!r}, NumPy: {wanted!r}"
    if wanted is None:
        assert described(got) == described(expected)
    assert np.array_equal(np.asarray(a), y)


# --- small classes, in every combination ----------------------------------------------------------------------------

_OPERATIONS = [*ARITHMETIC, "divmod"]


def made(priority: Any, ufunc: str, forward: str, reflected: str, base: type = object) -> type:
    """A class with or without a priority, ``__array_ufunc__`` and operators."""

    def answering(how: str, name: str) -> Any:
        def method(self: Any, x: Any) -> Any:
            if how == "refuses":
                return NotImplemented
            if how == "raises":
                raise LookupError(name)
            if how == "ndarrays only" and not isinstance(x, np.ndarray):
                return NotImplemented
            return name, isinstance(x, (np.ndarray, sd.LayoutArray)), str(np.asarray(x))

        return method

    def array_ufunc(self: Any, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc == "ndarrays only" and any(isinstance(x, sd.LayoutArray) for x in inputs):
            return NotImplemented
        return NotImplemented if ufunc == "refuses" else (function, method, len(inputs), sorted(options))

    body: dict[str, Any] = {"__str__": lambda self: "thing", "__repr__": lambda self: "thing", "__hash__": None}
    if priority is not None:
        body["__array_priority__"] = priority
    if ufunc == "None":
        body["__array_ufunc__"] = None
    elif ufunc != "missing":
        body["__array_ufunc__"] = array_ufunc
    for how, prefix in ((forward, ""), (reflected, "r")):
        if how != "missing":
            body |= {f"__{prefix}{name}__": answering(how, f"{prefix}{name}") for name in _OPERATIONS}
    if forward != "missing":
        body |= {f"__{name}__": answering(forward, name) for name in COMPARISONS}
    return type("Thing", (base,), body)


PRIORITIES = [None, -1.0, 0.0, 0.5, 10, 1e9, "high"]
UFUNCS = ["missing", "None", "answers", "refuses", "ndarrays only"]
IMPLEMENTATIONS = ["missing", "answers", "refuses", "ndarrays only", "raises"]


@pytest.mark.parametrize(("priority", "ufunc"), thinned(itertools.product(PRIORITIES, UFUNCS), 6))
def test_who_carries_it_out(priority: Any, ufunc: str) -> None:
    x = np.arange(1, 5).reshape(2, 2)
    precedes = isinstance(priority, float | int) and priority > 0
    for forward, reflected in itertools.product(IMPLEMENTATIONS, IMPLEMENTATIONS):
        # Who opts out, and is not asked again, has to know our arrays: they are what it gets.
        if ufunc == "None" and "ndarrays only" in (forward, reflected):
            continue
        thing = made(priority, ufunc, forward, reflected)
        # A comparison does not say on which side it was asked.
        unasked = forward == "ndarrays only" and not (ufunc == "missing" and precedes)
        for name, action in ACTIONS.items():
            if not (unasked and name[0] == "x" and name.split()[1] in COMPARISONS):
                judged(action, x, LAYOUTS[len(name) % 2], thing)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("base", [np.ndarray, np.matrix])
@pytest.mark.usefixtures("either_way")
def test_ndarrays_of_other_classes(base: type) -> None:
    """Their class decides about that of the result, whether arrays are converted as a whole or block by block."""
    x = np.arange(1, 5).reshape(2, 2)
    for priority, reflected in itertools.product([None, 20], ["missing", "answers", "refuses"]):
        cls = made(priority, "missing", "missing", reflected, base)
        for name, action in ACTIONS.items():
            judged(action, x, LAYOUTS[len(name) % 2], lambda cls=cls: (x + 2).view(cls))


def test_a_class_that_opts_out_gets_the_array_itself() -> None:
    class Lazy:
        __array_ufunc__ = None

        def __radd__(self, x: Any) -> Any:
            return x

    a = sd.LayoutArray.from_numpy(np.eye(2), "{0,1:T(2,2)}")
    assert a + Lazy() is a
    with pytest.raises(TypeError, match="unsupported operand"):
        a - Lazy()
    with pytest.raises(TypeError, match="does not support ufuncs"):
        a += Lazy()


@pytest.mark.parametrize("name", [name for name in ACTIONS if name.endswith("= x")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_precedes_and_knows_no_operator_in_place_is_refused_by_its_name(layout: str, name: str) -> None:
    """The error said "for +", not "for +="."""

    class First:
        __array_priority__ = 10

    x = np.arange(1, 5).reshape(2, 2)
    a = sd.LayoutArray.from_numpy(x, layout)
    same_outcome(lambda: ACTIONS[name](a, First()), lambda: ACTIONS[name](x, First()))


def test_the_priority_is_that_of_an_ndarray() -> None:
    a = sd.LayoutArray.from_numpy(np.eye(2), "{0,1:T(2,2)}")
    assert a.__array_priority__ == np.eye(2).__array_priority__


def test_plain_operands() -> None:
    x = np.arange(1, 5).reshape(2, 2)
    for other in (3, 2.5, 1j, True, [1, 2], (1, 2), None, "a", np.float32(2), np.array(2), np.arange(2), {}, object()):
        for name, action in ACTIONS.items():
            if name == "a pow= x" and isinstance(other, np.float32):
                continue  # below
            if not name.startswith("x") or not isinstance(other, np.ndarray):
                judged(action, x, LAYOUTS[len(name) % 2], lambda other=other: other)


@pytest.mark.parametrize("power", [2.0, np.float32(2)])
def test_integers_are_not_raised_in_place_to_a_floating_point_power(power: Any) -> None:
    """As newer releases of NumPy have it; 2.0 gives the name to another array, of float64."""
    a = b = sd.LayoutArray.from_numpy(np.arange(1, 5).reshape(2, 2), "{0,1:T(2,2)}")
    with pytest.raises(TypeError, match="same_kind"):
        a **= power
    assert b.tolist() == [[1, 2], [3, 4]]
    assert described(a**power) == described(np.arange(1, 5).reshape(2, 2) ** power)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.usefixtures("either_way")
def test_masked_arrays_and_matrices() -> None:
    """They multiply, and mask, in their own way on either side."""
    x = np.arange(1.0, 5).reshape(2, 2)
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}")
    assert (a * np.matrix(x)).tolist() == (x @ x).tolist()
    masked = np.ma.masked_less(x, 2)
    assert (a + masked).filled(-1).tolist() == (x + masked).filled(-1).tolist()
    for action in ACTIONS.values():
        judged(action, x, "{0,1:T(2,2)}", lambda: np.matrix(x))
        judged(action, x, "{0,1:T(2,2)}", lambda: np.ma.masked_less(x, 2))


def test_functions_of_numpy_ask_those_who_have_a_say() -> None:
    class Box:
        def __init__(self, known: tuple[type, ...]) -> None:
            self.known = known

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen = [type(x) for x in args[0] if not isinstance(x, Box)]
            return (function, seen) if all(issubclass(t, self.known) for t in seen) else NotImplemented

    a = sd.LayoutArray.from_numpy(np.eye(2), "{0,1:T(2,2)}")
    for first in (True, False):
        for known in (sd.LayoutArray, np.ndarray):
            box = Box((known,))
            assert np.concatenate([a, box] if first else [box, a]) == (np.concatenate, [known])
        with pytest.raises(TypeError, match="no implementation found"):
            np.concatenate([a, Box(())] if first else [Box(()), a])


# --- other libraries ------------------------------------------------------------------------------------------------


def plain(result: Any) -> Any:
    """Type, element type and values of what a library gives."""
    kind = np.ndarray if isinstance(result, sd.LayoutArray) else type(result)
    if kind.__name__ == "dia_array":  # multiplied by what is no ndarray, it becomes another kind of sparse array
        kind = type(result.tocoo())
    if hasattr(result, "compute"):
        result = result.compute()
    values = result.toarray() if hasattr(result, "toarray") else np.asarray(result)
    return kind, str(getattr(result, "dtype", None)), values.shape, values.tolist()


def with_partner(other: Any, x: np.ndarray, layout: str, names: Any = ACTIONS) -> int:
    """All operators with something of a library; how many of them NumPy accepts."""
    accepted = 0
    for name in names:
        right = other.T if "matmul" in name and hasattr(other, "T") else other
        a, y = sd.LayoutArray.from_numpy(x, layout), x.copy()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected, wanted = outcome(lambda name=name, y=y, right=right: plain(ACTIONS[name](y, right)))
            got, error = outcome(lambda name=name, a=a, right=right: plain(ACTIONS[name](a, right)))
        assert type(error) is type(wanted), f"{name}: {error!r}, NumPy: {wanted!r}"
        assert got == expected, name
        accepted += wanted is None
    return accepted


VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
TILED = "{0,1:T(2,2)}"


@pytest.mark.partners
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
def test_scipy_sparse(form: str, kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    assert with_partner(getattr(sparse, f"{form}_{kind}")(VALUES), VALUES, TILED) > 12
    assert with_partner(getattr(sparse, f"{form}_{kind}")(VALUES.astype(int)), VALUES.astype(int), TILED) > 12


@pytest.mark.partners
def test_scipy_operators() -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    a = sd.LayoutArray.from_numpy(VALUES, TILED)
    other = linalg.aslinearoperator(VALUES.T)
    assert (a @ other).tolist() == (VALUES @ other).tolist()
    assert (other @ a).tolist() == (other @ VALUES).tolist()


@pytest.mark.jax
def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert with_partner(jnp.asarray(VALUES), VALUES, TILED) > 20
    assert with_partner(jnp.asarray(VALUES.astype(np.int32)), VALUES.astype(np.int32), TILED) > 30
    assert type(sd.LayoutArray.from_numpy(VALUES, TILED) + jnp.ones(4)) is type(jnp.ones(4))


@pytest.mark.partners
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    with_partner(torch.from_numpy(VALUES.copy()), VALUES, TILED)


@pytest.mark.partners
def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    column = VALUES[:, 0].copy()
    # On the left, pandas insists on an ndarray in these.
    insists = {f"x {name} a" for name in ("and", "or", "xor")}
    names = [n for n in ACTIONS if n not in insists]
    assert with_partner(pandas.Series(column), column, "{0:T(2)}", names) > 20
    assert with_partner(pandas.Series(column.astype(int)), column.astype(int), "{0:T(2)}", names) > 20
    names = [n for n in ACTIONS if n[0] == "a"]
    assert with_partner(pandas.DataFrame(VALUES), VALUES, TILED, names) > 10
    names = [n for n in ACTIONS if "matmul=" not in n and n not in insists]
    assert with_partner(pandas.Index(column), column, "{0:T(2)}", names) > 20
    with_partner(pandas.Timestamp(0), VALUES, TILED)
    a = sd.LayoutArray.from_numpy(column, "{0:T(2)}")
    for got in (np.add(a, pandas.Series(column)), np.add(pandas.Series(column), a)):
        assert type(got) is pandas.Series
        assert got.tolist() == (2 * column).tolist()


@pytest.mark.partners
def test_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    names = [n for n in ACTIONS if "matmul" not in n]
    for make in (xarray.DataArray, lambda x: xarray.Variable(("a", "b"), x)):
        assert with_partner(make(VALUES), VALUES, TILED, names) > 20


@pytest.mark.partners
def test_dask_operators() -> None:
    da = pytest.importorskip("dask.array")
    names = [n for n in ACTIONS if "=" not in n]
    for chunks in (2, -1):
        assert with_partner(da.from_array(VALUES, chunks=chunks), VALUES, TILED, names) > 20
    with_partner(da.from_array(VALUES), VALUES, TILED, [n for n in ACTIONS if "=" in n])


_DASK: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "add, on the right": lambda a, d: np.add(d, a),
    "concatenate": lambda a, d: np.concatenate([a, d]),
    "concatenate, on the right": lambda a, d: np.concatenate([d, a], axis=1),
    "stack": lambda a, d: np.stack([a, d]),
    "where": lambda a, d: np.where(d > 3, a, d),
    "where, chosen by the array": lambda a, d: np.where(a > 3, a, d),
    "tensordot": lambda a, d: np.tensordot(a, d, ((1,), (1,))),
    "matmul": lambda a, d: np.matmul(a, d.T),
}


@pytest.mark.partners
@pytest.mark.parametrize("name", _DASK)
def test_dask_functions(name: str) -> None:
    da = pytest.importorskip("dask.array")
    a, d = sd.LayoutArray.from_numpy(VALUES, TILED), da.from_array(VALUES[::-1].copy(), chunks=2)
    expected, got = _DASK[name](VALUES, d), _DASK[name](a, d)
    assert type(got) is type(expected) is da.Array
    assert np.array_equal(got.compute(), expected.compute())


@pytest.mark.partners
def test_dask_percentiles_of_chunks() -> None:
    da = pytest.importorskip("dask.array")
    x = np.arange(100.0, dtype=np.float32)
    a = sd.LayoutArray.from_numpy(x, "{0:T(8)}")
    assert da.percentile(da.from_array(a, chunks=25), [10, 50]).compute().tolist() == (
        da.percentile(da.from_array(x, chunks=25), [10, 50]).compute().tolist()
    )


@pytest.mark.partners
@pytest.mark.parametrize("first", ["strided", "dask.array"])
def test_dask_is_met_when_it_is_there_and_not_before(first: str) -> None:
    pytest.importorskip("dask.array")
    code = f"""
import {first}
import sys, numpy as np, strided as sd
a = sd.LayoutArray.from_numpy(np.ones((3, 4)), "{TILED}")
a + 1
assert ("dask" in sys.modules) == ({first!r} == "dask.array")
assert "strided.interop.dask" not in sys.modules
import dask.array as da
assert (da.ones((3, 4)) + a).sum().compute() == 24
assert (a + da.ones((3, 4))).sum().compute() == 24
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_what_a_call_lacks_is_said_of_the_class_that_users_know() -> None:
    a = sd.LayoutArray.from_numpy(np.ones((3, 4), np.float32), "{1,0:T(2,2)}")
    with pytest.raises(TypeError, match=r"for \*\* or pow\(\): 'LayoutArray', 'int', 'int'$"):
        pow(a, 2, 3)
    with pytest.raises(TypeError, match=r"^LayoutArray\.astype\(\) missing"):
        a.astype()
    with pytest.raises(TypeError, match=r"^LayoutArray\.setflags\(\) got an unexpected"):
        a.setflags(foo=1)
    for method in (sd.LayoutArray.astype, sd.LayoutArray.__add__, sd.LayoutArray.__pow__):
        assert pickle.loads(pickle.dumps(method)) is method


def test_untyped_bytes_are_compared() -> None:
    x = np.arange(12, dtype="u8").reshape(3, 4)
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}").view("V8")
    n = x.view("V8")
    other = n.copy()
    other[1, 1] = n[0, 0]
    for array in (n, other):
        assert np.array_equal(a == array, n == array)
        assert np.array_equal(a != array, n != array)
        assert (array[1, 1] in a) == (array[1, 1] in n)
