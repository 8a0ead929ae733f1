"""Programs of a NumPy user: each does to a LayoutArray what it does to an ndarray, step by step, refusals included."""

from __future__ import annotations

import operator
import random
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from tests.checks import same_outcome, same_values

Program = Callable[[Any], Any]

TYPES = {
    "f32": np.float32,
    "s32": np.int32,
    "u8": np.uint8,
    "pred": np.bool_,
    "c64": np.complex64,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "s4": ml_dtypes.int4,
    "u2": ml_dtypes.uint2,
}
LAYOUTS = {
    0: ["{}"],
    1: ["{0}", "{0:T(2)}"],
    2: ["{0,1}", "{1,0:T(2,2)}", "{0,1:T(4,2)(2,1)}"],
    3: ["{1,2,0}", "{2,0,1:T(3,2)}", "{0,2,1:T(2,2)}"],
}
PACKED = {"s4": "{1,0:T(2,4)E(4)}", "u2": "{0,1:T(4,4)E(2)}", "pred": "{1,0:E(1)}"}


def pair(name: str, shape: tuple[int, ...], pick: random.Random) -> tuple[np.ndarray, sd.LayoutArray]:
    values = np.array([pick.randrange(2) for _ in range(int(np.prod(shape)))]).reshape(shape).astype(TYPES[name])
    layouts = LAYOUTS[len(shape)] + ([PACKED[name]] if name in PACKED and len(shape) == 2 else [])
    a = sd.LayoutArray.from_numpy(values, pick.choice(layouts), element_type=name)
    return np.array(a), a  # in the order that NumPy's own results go by


def agree(program: Program, x: Any, a: Any, for_layouts: Program | None = None) -> None:
    """Same result or same refusal, and the same values afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = same_outcome(lambda: (for_layouts or program)(a), lambda: program(x))
    got, expected = both or (None, None)
    if isinstance(expected, (np.ndarray, np.generic)):
        same_values(got, expected)
    elif expected is not x:
        assert got == expected
    same_values(a, x)


# --- steps that went wrong once -------------------------------------------------------------------------------------


def setting(key: Any, value: Any) -> Program:
    return lambda x: x.__setitem__(key, value)


def setting_flat(key: Any, value: Any) -> Program:
    return lambda x: x.flat.__setitem__(key, value)


NONE = np.zeros(0, bool)
STEPS: dict[str, Program] = {
    "a method's own words": lambda x: x.mean(initial=1),
    "another method's": lambda x: x.cumsum(keepdims=True),
    "conj of real numbers": lambda x: x.conj(),
    "a square": lambda x: x**2,
    "a square in place": lambda x: operator.ipow(x, 2),
    "a root": lambda x: x**0.5,
    "a reciprocal": lambda x: x**-1,
    "a power of one's own": lambda x: x**x,
    "nothing, of any shape": setting(([], []), np.zeros((0, 1, 0))),
    "nothing, of a wrong shape": setting(([], []), np.zeros(3)),
    "nothing, of a value that does not fit": setting(slice(0), 1e300),
    "nothing, of a type that does not fit": setting(slice(0), np.array(["a"])),
    "a value and a key that are both wrong": setting(([], [0, 1]), "a"),
    "an index and a shape that are both wrong": setting((..., [99]), np.zeros((7, 7, 7))),
    "a number of NumPy's by index arrays": setting([0], np.float64(1e300)),
    "a number of NumPy's by a mask": setting(True, np.float64(1e300)),
    "a mask without entries": lambda x: x[..., NONE],
    "a mask without entries, to be set": setting((..., NONE), 1),
    "one by flat": setting_flat(0, "a"),
    "none by flat": setting_flat(slice(0), 1e300),
    "all by flat": setting_flat(..., np.float64(1e300)),
    "what is not there by flat": setting_flat(99, "a"),
    "a class by flat": setting_flat(slice(2), np.float32),
    "matmul of no matrix": lambda x: operator.imatmul(x, 300),
    "take": lambda x: x.take([0], 0),
    "take beyond": lambda x: np.take(x, [3, 0], 0),
    "take beyond, clipped": lambda x: x.take([9, -9], -1, mode="clip"),
    "take along no axis": lambda x: x.take([0], 3),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)], ids=str)
def test_steps_that_went_wrong_once(name: str, shape: tuple[int, ...]) -> None:
    pick = random.Random(name)
    for element_type in TYPES:
        x, a = pair(element_type, shape, pick)
        agree(STEPS[name], x, a)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.put([0, 99], [7, 8]),
        lambda x: np.put(x, [0, 99], [7, 8]),
        lambda x: operator.ipow(x, np.array([[3, 3, 3], [3, 3, -1]])),
        lambda x: np.power(x, np.array([[3, 3, 3], [3, 3, -1]]), out=x),
    ],
    ids=["a method", "a function", "in place", "out"],
)
def test_what_was_written_before_a_refusal_stays(program: Program) -> None:
    x = np.arange(2, 8).reshape(2, 3)
    a = sd.LayoutArray.from_numpy(x, "{1,0:T(2,2)}")
    agree(program, x, a)
    assert a[0, 0] > 2


# --- steps at random ------------------------------------------------------------------------------------------------

UNARY = (np.negative, np.abs, np.isfinite, np.sign, np.square, np.logical_not, np.invert, np.signbit, np.positive)
BINARY = (np.add, np.subtract, np.multiply, np.maximum, np.equal, np.less, np.logical_and, np.bitwise_xor, np.minimum)
INPLACE = (operator.iadd, operator.isub, operator.imul, operator.ior, operator.iand)
METHODS = (
    "sum",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "cumsum",
    "tolist",
    "tobytes",
    "sort",
    "ravel",
    "copy",
)


SUMS = ("sum", "cumsum")
#: Functions that write a part of their first argument: what, flat indices, and a mask.
IN_PART: list[Callable[[Any, Any, np.ndarray, np.ndarray], Any]] = [
    lambda x, o, places, mask: np.put(x, places, o),
    lambda x, o, places, mask: np.put(x, places, o, mode="wrap"),
    lambda x, o, places, mask: x.put(places, o, mode="clip"),
    lambda x, o, places, mask: np.place(x, mask, o),
    lambda x, o, places, mask: np.putmask(x, mask, o),
    lambda x, o, places, mask: np.copyto(x, o, where=mask),
    lambda x, o, places, mask: np.copyto(x, o, where=mask, casting="unsafe"),
    lambda x, o, places, mask: np.fill_diagonal(x, o),
    lambda x, o, places, mask: np.put_along_axis(x, np.resize(places, x.shape), o, -1),
    lambda x, o, places, mask: x.__setitem__(mask, o),
]


def widened(x: np.ndarray) -> np.ndarray:
    """Integers that NumPy adds in their own few bits; arrays in a layout add them in 64, as NumPy does others."""
    wide = {"int4": np.int64, "uint2": np.uint64}.get(x.dtype.name)
    return x if wide is None else x.astype(wide)


def any_slice(pick: random.Random) -> slice:
    ends = [None, None, *range(-4, 5)]
    return slice(pick.choice(ends), pick.choice(ends), pick.choice([None, None, 1, 2, -1, -2]))


def any_key(shape: tuple[int, ...], pick: random.Random) -> Any:
    entries: list[Any] = []
    for n in shape[: pick.randint(0, len(shape))]:
        kind = pick.randrange(8)
        if kind < 4:
            entries.append(any_slice(pick))
        elif kind < 6:
            entries.append(pick.randint(-n - (not n), max(0, n - 1)))
        elif kind == 6:
            entries.append([pick.randint(-n, max(0, n - 1)) for _ in range(pick.randrange(3) if n else 0)])
        else:
            entries += [np.array([pick.randrange(2) for _ in range(n)], bool), None]
    return tuple(entries)


def any_step(others: list[tuple[Any, Any]], shape: tuple[int, ...], pick: random.Random) -> tuple[Program, Program]:
    """The same step for ndarrays and for arrays in a layout, which differ in what the other operand is."""
    kind, key = pick.randrange(10), any_key(shape, pick)
    other = pick.choice([*others, (1, 1), (2.5, 2.5), (True, True)])
    if kind == 0:
        return (lambda x: x[key],) * 2
    if kind == 1:
        backwards = tuple(slice(None, None, -1) for _ in shape)
        return (lambda x: x.__setitem__(..., x[backwards]),) * 2
    if kind == 2:
        name = pick.choice(METHODS)
        method = operator.methodcaller(name)
        return (lambda x: method(widened(x)) if name in SUMS else method(x)), method
    if kind == 3:
        one = pick.choice(UNARY)
        return (lambda x: one(x),) * 2
    if kind == 4:
        mask = np.array([pick.randrange(2) for _ in range(int(np.prod(shape)))], bool).reshape(shape)
        two = pick.choice(BINARY)
        return tuple(lambda x, o=o: two(x, o, out=x, where=mask) is x for o in other)
    if kind == 7:
        size = int(np.prod(shape))
        in_part, mask = pick.choice(IN_PART), np.array([pick.randrange(2) for _ in range(size)], bool).reshape(shape)
        places = np.array([pick.randrange(-size, size) for _ in range(pick.randrange(5) if size else 0)], int)
        return tuple(lambda x, o=o: in_part(x, o, places, mask) for o in other)
    operation = pick.choice(INPLACE if kind == 5 else BINARY)
    if kind in (5, 6):
        return tuple(lambda x, o=o: operation(x, o) if kind == 6 else operation(x, o) is x for o in other)
    return tuple(lambda x, o=o: x.__setitem__(key, o) for o in other)


@pytest.mark.parametrize("seed", range(40))
def test_steps_at_random(seed: int) -> None:
    pick = random.Random(seed)
    for _ in range(8):
        shape = tuple(pick.choice([0, 1, 2, 3, 5]) for _ in range(pick.randrange(4)))
        arrays = [pair(pick.choice(list(TYPES)), shape, pick) for _ in range(3)]
        for _ in range(2):
            x, a = pick.choice(arrays)
            view = (*(any_slice(pick) for _ in x.shape), ...)
            arrays.append((x[view], a[view]))
        for _ in range(6):
            x, a = pick.choice(arrays)
            for_ndarrays, for_layouts = any_step(arrays, x.shape, pick)
            with np.errstate(all="ignore"):
                agree(for_ndarrays, x, a, for_layouts)
            for own, layout in arrays:
                same_values(layout, own)
