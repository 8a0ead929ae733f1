"""NumPy's namespace, put to arrays in a layout: every function that dispatches, with arguments it takes.

`trials` gives for each function the calls that NumPy accepts of a list of general ones and of some made for it. `judge`
carries a call out on ndarrays and on LayoutArrays, compares what comes out and what was changed, and says how the
LayoutArray was used:

``view``
    The result is a LayoutArray on the same buffer.
``nothing read``
    Only shape and type were asked for.
``in part``
    Fewer elements were read than there are.
``converted``
    NumPy got a converted array.
``written``
    NumPy's changes reached the buffer.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.lib.stride_tricks

import strided as sd
from strided.arrays import array_functions as dispatch
from strided.arrays import reductions
from strided.transfer import copy as transfer
from tests.checks import outcome

#: Where NumPy's dispatched functions are, as people write it.
SPACES = {
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
    "np.emath": np.emath,
    "np.lib.stride_tricks": numpy.lib.stride_tricks,
}

Values = dict[str, np.ndarray]
Call = Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]


def functions() -> dict[str, Callable[..., Any]]:
    """Every function that goes through ``__array_function__``, by its full name."""
    found = {}
    for space, module in SPACES.items():
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if not name.startswith("_") and hasattr(function, "_implementation"):
                found[f"{space}.{name}"] = function
    return found


def ufuncs() -> dict[str, np.ufunc]:
    """Every universal function, by its name."""
    return {name: f for name in sorted(dir(np)) if isinstance(f := getattr(np, name), np.ufunc) and f.__name__ == name}


def values() -> Values:
    """Arrays that most functions take; whole numbers, so that sums do not depend on their order."""
    rng = np.random.default_rng(7)
    return {
        "m": rng.integers(-4, 9, (4, 4)).astype(np.float64) + np.diag([20.0, 20, 20, 20]),
        "r": rng.integers(0, 9, (3, 5)).astype(np.float32),
        "v": np.array([3, 1, 4, 1, 5], np.float64),
        "i": np.array([2, 0, 1, 1, 2], np.int32),
        "n": rng.integers(0, 9, (3, 5)).astype(np.int64),
        "b": rng.integers(0, 2, (3, 5)).astype(bool),
        "c": (rng.integers(0, 9, (3, 5)) + 1j * rng.integers(0, 9, (3, 5))).astype(np.complex64),
        "t": rng.integers(0, 9, (2, 3, 4)).astype(np.float64),
        "s": np.array([7.0]).reshape(()),
        "u": np.array([200, 3, 77], np.uint8),
    }


TILED = {0: "{}", 1: "{0:T(2,2)}", 2: "{0,1:T(2,2)}", 3: "{1,2,0:T(2,2)}"}
PLAIN = {0: "{}", 1: "{0}", 2: "{0,1}", 3: "{1,2,0}"}


def wrap(x: np.ndarray, layouts: dict[int, str]) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(x, layouts[x.ndim])


class Names:
    """Arrays by name, each made when it is first asked for; `made` holds these."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def __getattr__(self, name: str) -> Any:
        return self[name]


def _generic() -> Iterator[Call]:
    """Calls that many functions accept."""
    for one in "mrvinbcsut":
        yield lambda a, k=one: ((a[k],), {})
        yield lambda a, k=one: ((a[k], a[k]), {})
    for extra in (0, 1, (1, 0), [0, 2], 2.0, np.float32):
        for one in "mvn":
            yield lambda a, k=one, e=extra: ((a[k], e), {})
    yield lambda a: (([a.r, a.n],), {})
    yield lambda a: (((a.v, a.i),), {})
    yield lambda a: ((a.v, a.i), {})
    yield lambda a: ((a.b, a.r), {})
    yield lambda a: ((a.b, a.r, a.n), {})
    yield lambda a: ((a.r, a.i[:3]), {})
    yield lambda a: ((a.v, a.i, a.v), {})
    yield lambda a: ((a.m, a.v[:4]), {})
    yield lambda a: ((a.m, 0, 1), {})
    for axis in (0, -1, None):
        for one in "rnt":
            yield lambda a, k=one, x=axis: ((a[k],), {"axis": x})
            yield lambda a, k=one, x=axis: ((a[k],), {"axis": x, "keepdims": True})
    yield lambda a: ((a.r,), {"out": a.out})
    yield lambda a: ((a.r,), {"axis": 0, "out": a.out5})
    yield lambda a: ((a.r,), {"axis": 1, "where": a.b})
    yield lambda a: ((a.r,), {"axis": 1, "where": a.b, "initial": 2})
    yield lambda a: ((a.r,), {"dtype": np.float64})


def _own() -> dict[str, list[Call]]:
    """Calls made for one function."""
    text = io.StringIO

    def just(*calls: Call) -> list[Call]:
        return list(calls)

    return {
        "np.apply_along_axis": just(lambda a: ((np.sum, 0, a.r), {})),
        "np.apply_over_axes": just(lambda a: ((np.sum, a.t, [0, 2]), {})),
        "np.array2string": just(lambda a: ((a.r,), {"separator": "; "})),
        "np.bincount": just(lambda a: ((a.i,), {}), lambda a: ((a.i, a.v), {"minlength": 6})),
        "np.block": just(lambda a: (([[a.r, a.n], [a.n, a.r]],), {})),
        "np.broadcast_to": just(lambda a: ((a.r, (2, 3, 5)), {}), lambda a: ((a.r, (2, 2)), {})),
        "np.busday_count": just(lambda a: ((np.datetime64("2026-01-05"), np.datetime64("2026-02-05")), {})),
        "np.busday_offset": just(lambda a: ((np.datetime64("2026-01-05"), a.i), {})),
        "np.can_cast": just(lambda a: ((np.int8, a.r.dtype), {})),
        "np.choose": just(lambda a: ((a.i, [a.v, a.v, a.v]), {}), lambda a: ((a.i, (a.v, 1, a.v)), {"out": a.out5})),
        "np.clip": just(lambda a: ((a.r, 2, 5), {}), lambda a: ((a.r, a.r[0], None), {"out": a.out})),
        "np.compress": just(lambda a: (([True, False, True], a.r, 0), {})),
        "np.convolve": just(lambda a: ((a.v, a.i, "same"), {})),
        "np.copyto": just(
            lambda a: ((a.r, a.n), {"casting": "unsafe"}),
            lambda a: ((a.r, a.n), {}),
            lambda a: ((a.r, 3), {"where": a.b}),
            lambda a: ((a.n, a.r), {}),
            lambda a: ((a.r, a.v), {"casting": "unsafe"}),
            lambda a: ((a.r, a.i[:2]), {"casting": "unsafe"}),
        ),
        "np.datetime_as_string": just(lambda a: ((np.datetime64("2026-01-05"),), {})),
        "np.delete": just(lambda a: ((a.r, a.i[:2], 1), {})),
        "np.digitize": just(lambda a: ((a.r, [1, 4]), {}), lambda a: ((a.r, np.array([1, 4])), {})),
        "np.einsum": just(lambda a: (("ij,kj->ik", a.r, a.n), {}), lambda a: (("ii", a.m), {})),
        "np.einsum_path": just(lambda a: (("ij,kj->ik", a.r, a.n), {})),
        "np.extract": just(lambda a: ((a.b, a.r), {})),
        "np.fill_diagonal": just(lambda a: ((a.m, 5), {}), lambda a: ((a.r, a.v), {"wrap": True})),
        "np.flip": just(lambda a: ((a.t, (0, 2)), {})),
        "np.full_like": just(lambda a: ((a.r, 3), {}), lambda a: ((a.r, a.v), {})),
        "np.geomspace": just(lambda a: ((a.v, 9, 3), {})),
        "np.gradient": just(lambda a: ((a.r, 2.0), {})),
        "np.histogram2d": just(lambda a: ((a.v, a.i, 3), {})),
        "np.histogramdd": just(lambda a: ((a.r.T, 3), {})),
        "np.insert": just(lambda a: ((a.r, 1, a.v, 0), {})),
        "np.interp": just(lambda a: ((a.r, [0, 9], [1, 2]), {}), lambda a: (([0.5], a.v[:2], a.v[1:3]), {})),
        "np.isin": just(lambda a: ((a.r, [1, 2]), {})),
        "np.lib.stride_tricks.sliding_window_view": just(lambda a: ((a.r, (2, 2)), {})),
        "np.linspace": just(lambda a: ((a.v, 9, 3), {})),
        "np.logspace": just(lambda a: ((a.v, 9, 3), {})),
        "np.moveaxis": just(lambda a: ((a.t, [0, 1], [-1, 0]), {}), lambda a: ((a.t, 5, 0), {})),
        "np.nan_to_num": just(
            lambda a: ((a.c,), {"copy": False}), lambda a: ((a.nan,), {}), lambda a: ((a.nan,), {"copy": False})
        ),
        "np.packbits": just(lambda a: ((a.b, 1), {})),
        "np.pad": just(lambda a: ((a.r, 1), {}), lambda a: ((a.r, ((1, 0), (0, 2)), "edge"), {})),
        "np.percentile": just(lambda a: ((a.r, [10, 50], 0), {})),
        "np.piecewise": just(lambda a: ((a.v, [a.v < 3, a.v >= 3], [-1, lambda x: x * 2]), {})),
        "np.place": just(lambda a: ((a.r, a.b, a.v), {})),
        "np.polyfit": just(lambda a: ((a.v[:3], a.u, 1), {})),
        "np.polyval": just(lambda a: (([1, 2, 3], a.r), {})),
        "np.put": just(lambda a: ((a.r, a.i, a.v), {}), lambda a: ((a.r, [99], 1), {})),
        "np.put_along_axis": just(lambda a: ((a.r, a.i[:3].reshape(3, 1) % 3, 9, 1), {})),
        "np.putmask": just(lambda a: ((a.r, a.b, a.v), {}), lambda a: ((a.v, a.v > 2, a.i), {})),
        "np.quantile": just(lambda a: ((a.r, 0.3), {"axis": 1})),
        "np.ravel_multi_index": just(lambda a: (((a.i, a.i), (3, 5)), {})),
        "np.repeat": just(lambda a: ((a.r, a.i[:3], 0), {})),
        "np.reshape": just(
            lambda a: ((a.r, (3, 1, 5)), {}),
            lambda a: ((a.r, (5, 3)), {}),
            lambda a: ((a.r, -1, "F"), {}),
            lambda a: ((a.r, (7, 2)), {}),
        ),
        "np.resize": just(lambda a: ((a.r, (2, 9)), {})),
        "np.roll": just(lambda a: ((a.r, (1, 2), (0, 1)), {})),
        "np.save": just(lambda a: ((io.BytesIO(), a.r), {})),
        "np.savetxt": just(lambda a: ((text(), a.r), {})),
        "np.savez": just(lambda a: ((io.BytesIO(),), {"x": a.r})),
        "np.savez_compressed": just(lambda a: ((io.BytesIO(), a.r), {})),
        "np.searchsorted": just(lambda a: (([1, 3, 4], a.v), {})),
        "np.select": just(lambda a: (([a.b, ~a.b], [a.r, a.n]), {})),
        "np.shares_memory": just(
            lambda a: ((a.r, a.r[1:]), {}),
            lambda a: ((a.r[::2], a.r[1::2]), {}),
            lambda a: ((a.r[:, ::2], a.r.T[1::2]), {}),
        ),
        "np.may_share_memory": just(lambda a: ((a.r, a.r[1:]), {}), lambda a: ((a.r[:1], a.n), {})),
        "np.split": just(lambda a: ((a.t, [1, 3], 2), {}), lambda a: ((a.t, 5, 2), {})),
        "np.array_split": just(lambda a: ((a.t, 3, 2), {}), lambda a: ((a.r, [2, 1, 9], 1), {})),
        "np.hsplit": just(lambda a: ((a.m, 2), {})),
        "np.vsplit": just(lambda a: ((a.m, 2), {})),
        "np.dsplit": just(lambda a: ((a.t, 2), {})),
        "np.stack": just(lambda a: (([a.r, a.r],), {"axis": 1, "out": None})),
        "np.take": just(
            lambda a: ((a.r, [2, 0], 0), {}),
            lambda a: ((a.r, [[2, -1]]), {}),
            lambda a: ((a.r, 99), {}),
            lambda a: ((a.r, [5, 99], 1), {}),
            lambda a: ((a.r, 2), {}),
            lambda a: ((a.r, [7], 1), {"mode": "wrap"}),
        ),
        "np.take_along_axis": just(lambda a: ((a.r, a.n % 3, 0), {})),
        "np.tensordot": just(lambda a: ((a.r, a.n), {"axes": [[0], [0]]})),
        "np.tile": just(lambda a: ((a.r, (2, 1)), {})),
        "np.unpackbits": just(lambda a: ((a.u,), {})),
        "np.unravel_index": just(lambda a: ((a.i, (3, 5)), {})),
        "np.vander": just(lambda a: ((a.v, 3), {})),
        "np.where": just(lambda a: ((a.b,), {}), lambda a: ((a.b, a.r, 0), {})),
        "np.linalg.cross": just(lambda a: ((a.r[:, :3], a.r[:, 2:]), {})),
        "np.linalg.eigh": just(lambda a: ((a.m + a.m.T,), {})),
        "np.linalg.lstsq": just(lambda a: ((a.m, a.v[:4]), {"rcond": None})),
        "np.linalg.multi_dot": just(lambda a: (([a.r, a.n.T, a.r],), {})),
        "np.linalg.tensorsolve": just(lambda a: ((a.m, a.v[:4]), {})),
        "np.linalg.tensorinv": just(lambda a: ((a.m,), {"ind": 1})),
        "np.emath.logn": just(lambda a: ((2, a.v), {})),
    }


def calls(name: str) -> list[Call]:
    """The calls to be tried for a function."""
    return [*_own().get(name, []), *_generic()]


@dataclass(frozen=True)
class Verdict:
    """What came of one call."""

    accepted: bool
    use: str


@cache
def prototypes(layouts: str) -> dict[str, tuple[sd.LayoutArray, np.ndarray]]:
    """Every array in a layout, and as an ndarray with the same order of memory."""
    own = values()
    own |= {"out": np.zeros((3, 5), np.float32), "out5": np.zeros(5), "nan": np.array([[1.0, np.nan], [np.inf, 2.0]])}
    laid_out = {name: wrap(x, PLAIN if layouts == "plain" else TILED) for name, x in own.items()}
    return {name: (a, np.asarray(a)) for name, a in laid_out.items()}


class Reads:
    """How many elements of LayoutArrays are read meanwhile."""

    def __init__(self, monkeypatch: Any) -> None:
        self.elements = 0
        for name in ("copy", "gather", "gather_at"):
            monkeypatch.setattr(transfer, name, self._counting(getattr(transfer, name), whole=name == "copy"))

    def _counting(self, function: Callable[..., Any], *, whole: bool) -> Callable[..., Any]:
        def counted(source: Any, *rest: Any) -> Any:
            self.elements += source.map.size if whole else rest[-1].size
            return function(source, *rest)

        return counted


def judge(function: Callable[..., Any], call: Call, layouts: str, reads: Reads | None = None) -> Verdict:
    """Carry out a call both ways ("tiled" or "plain") and compare; how the LayoutArrays were used."""
    first = prototypes(layouts)
    plain = Names(lambda name: first[name][1].copy("K"))
    laid_out = Names(lambda name: first[name][0].copy())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        args, kwargs = call(plain)
        expected, wanted = outcome(lambda: function(*args, **kwargs))
        args, kwargs = call(laid_out)
        before = reads.elements if reads else 0
        got, error = outcome(lambda: function(*args, **kwargs))
        read = reads.elements - before if reads else 0
    if wanted is not None:
        if function is not np.result_type or not isinstance(args[0], (list, tuple)):  # it makes a dtype of a list
            same_refusal(error, wanted)
        return Verdict(False, "refused")
    if error is not None:
        raise error
    same(got, expected, values=function is not np.empty_like)
    changed = False
    for name, x in plain.made.items():
        same(laid_out[name], x)
        changed |= not np.array_equal(x, first[name][1], equal_nan=True)
    return Verdict(True, use(got, read, changed))


def use(got: Any, read: int, changed: bool) -> str:
    if changed:
        return "written"
    parts = got if isinstance(got, (tuple, list)) else [got]
    if any(isinstance(x, sd.LayoutArray) for x in parts):
        return "view"
    return "converted" if read else "nothing read"


def same(got: Any, expected: Any, *, values: bool = True) -> None:
    """The same result: type (of arrays: an ndarray or a LayoutArray), dtype, shape and values."""
    if isinstance(expected, (tuple, list)):
        assert type(got) is type(expected), f"{type(got)} for {type(expected)}"
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            same(g, e, values=values)
        return
    if isinstance(expected, np.ndarray):
        assert isinstance(got, (np.ndarray, sd.LayoutArray)), f"{type(got)} for an ndarray"
    elif not isinstance(expected, io.IOBase):
        assert type(got) is type(expected), f"{type(got)} for {type(expected)}"
    if isinstance(expected, (np.ndarray, np.generic)):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        if not values:
            return
        g, e = np.asarray(got), np.asarray(expected)
        if e.dtype.kind in "fc":
            np.testing.assert_allclose(g, e, rtol=1e-6 if e.dtype.itemsize < 8 else 1e-12, atol=1e-12)
        else:
            assert np.array_equal(g, e)
    elif not isinstance(expected, (io.IOBase, type(iter([])))):
        assert got == expected or (got != got and expected != expected)


def same_refusal(got: Exception | None, expected: Exception) -> None:
    assert got is not None, f"NumPy raises {expected!r}"
    assert type(got) is type(expected), f"NumPy raises {expected!r}, got {got!r}"
    # An array where none belongs is not seen by anybody, and may be named or shown in the message.
    assert "LayoutArray" in str(got) or str(got) == str(expected), f"NumPy says {str(expected)!r}, got {str(got)!r}"


__all__ = ["PLAIN", "TILED", "Reads", "Verdict", "calls", "functions", "judge", "same", "ufuncs", "values"]


# --- the table of the documentation ---------------------------------------------------------------------------------


def groups() -> dict[str, list[str]]:
    """The functions by what they do with an array in a layout; those that get a converted array are not listed."""
    kinds = {
        "views": set(dispatch.VIEWS),
        "questions": set(dispatch.QUESTIONS),
        "streams": set(reductions.IMPLEMENTATIONS),
        "in part": set(dispatch.IN_PART) - set(dispatch.INPLACE_FUNCTIONS),
        "joins": set(dispatch.JOINING_FUNCTIONS),
        "writes": set(dispatch.INPLACE_FUNCTIONS),
    }
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    found["converted"] = []
    for name, function in functions().items():
        kind = next((k for k, members in kinds.items() if function in members), "converted")
        found[kind].append(name)
    return found


_TITLES = {
    "views": "give views: nothing is read",
    "questions": "ask for shapes, types and memory: nothing is read",
    "streams": "stream, from 16 MiB of values, block by block, with all threads",
    "in part": "read what they need: the chosen elements, or up to the first difference",
    "joins": "put arrays together: from 8 MB on, each is converted straight to its place; small views of one buffer "
    "are converted together",
    "writes": "write to the buffer",
    "converted": "get a converted array",
}


def table() -> str:
    """What `docs/numpy.md` shows."""
    lines = ["| | functions of NumPy that | |", "| ---: | --- | --- |"]
    for kind, names in groups().items():
        shown = "all others" if kind == "converted" else ", ".join(f"`{n.removeprefix('np.')}`" for n in names)
        lines.append(f"| {len(names)} | {_TITLES[kind]} | {shown} |")
    return "\n".join(lines)


def counts() -> str:
    """How many calls were judged, and how."""
    tally = {"accepted": 0, "refused": 0}
    for name, function in functions().items():
        for layouts in ("tiled", "plain"):
            for call in calls(name):
                verdict = judge(function, call, layouts)
                tally["accepted" if verdict.accepted else "refused"] += 1
    total, accepted, refused = sum(tally.values()), tally["accepted"], tally["refused"]
    return (
        f"This was tested with NumPy {np.__version__}: {len(functions())} functions in {total:,} calls (NumPy accepts "
        f"{accepted:,} of them and refuses {refused:,}) and {len(ufuncs())} universal functions."
    )


if __name__ == "__main__":
    print(counts(), table(), sep="\n\n")
