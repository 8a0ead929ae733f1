"""How often is a layout named? ``python -m tests.diagnosis.campaign 60 --seed 1`` prints rates by kind of data.

Buffers are made for random element types, layouts and kinds of values, and changed in the ways that `identify` knows. A
layout is named if it is the best candidate, or gives the same values; noise must end tied.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import strided as sd
from strided.inspect import Candidate, identify

Rng = np.random.Generator
Make = Callable[[Rng, tuple[int, ...]], Any]

_TYPES = ["f32", "bf16", "f16", "f64", "s8", "u8", "s32", "u32", "s4", "f8e4m3fn"]
_DIMENSIONS = [
    (17, 300),
    (64, 256),
    (48, 200),
    (300, 17),
    (512, 384),
    (33, 129),
    (64, 1024),
    (12, 40, 300),
    (8, 64, 96),
]
_WAYS = ["structure", "structure", "structure", "front", "tail", "swapped", "high", "like", "rounded", "part"]


def smooth(rng: Rng, dimensions: tuple[int, ...]) -> Any:
    """An image: waves along every axis, and a little noise."""
    grids = np.meshgrid(*map(np.arange, dimensions), indexing="ij")
    waves = np.zeros(dimensions)
    for _ in range(6):
        phase = rng.uniform(0, 6.28) * np.ones(dimensions)
        for grid, n in zip(grids, dimensions, strict=True):
            phase += grid * rng.uniform(-1, 1) * 15 / max(n, 16)
        waves += rng.normal() * np.sin(phase)
    return waves + 0.02 * rng.normal(size=dimensions)


def weights(rng: Rng, dimensions: tuple[int, ...]) -> Any:
    """Normal values whose rows have scales of their own."""
    return np.exp(rng.normal(size=dimensions[:-1]))[..., None] * rng.normal(size=dimensions)


def ids(rng: Rng, dimensions: tuple[int, ...]) -> Any:
    """Sorted integers."""
    return np.sort(rng.integers(0, 1 << 20, int(np.prod(dimensions)))).reshape(dimensions)


def noise(rng: Rng, dimensions: tuple[int, ...]) -> Any:
    """Normal values."""
    return rng.normal(size=dimensions)


def buffer_of(text: str, make: Make, *, padding: int | None = None, seed: int = 0) -> Any:
    """The bytes of an array, and its values. Padding is zero, or by default random."""
    rng, shape = np.random.default_rng(seed), sd.parse_shape(text)
    values = _fitted(make(rng, shape.dimensions), shape)
    size = shape.buffer_byte_size
    array = sd.LayoutArray(bytearray(size if padding == 0 else rng.bytes(size)), shape)
    array[...] = values
    return np.frombuffer(array.buffer, np.uint8).copy(), values


def _fitted(values: Any, shape: sd.Shape) -> Any:
    """Values scaled to the range of a type."""
    dtype = shape.dtype
    if dtype.kind == "f" or "float" in dtype.name:
        return values.astype(dtype)
    limits = ml_dtypes.iinfo(dtype)
    if values.dtype.kind == "i":
        return np.minimum(values, int(limits.max)).astype(dtype)
    values = values - values.min() if limits.min == 0 else values
    return np.clip(np.rint(values * min(limits.max, 30000) / (3 * values.std())), limits.min, limits.max).astype(dtype)


def usual_layouts(element_type: str, dimensions: tuple[int, ...]) -> list[sd.Layout]:
    """The compiler's layouts, with and without their tiles, in several orders."""
    default = sd.tpu.default_layout(sd.Shape(element_type, dimensions))
    descending = tuple(reversed(range(len(dimensions))))
    bits, order = default.element_size_in_bits, default.minor_to_major
    return [
        default,
        sd.tpu.default_layout(sd.Shape(element_type, dimensions), "v3"),
        sd.Layout((order[1], order[0], *order[2:]), default.tiles, element_size_in_bits=bits),
        sd.Layout(descending),
        sd.Layout(descending[::-1]),
        sd.Layout(descending, [(8, 128)]),
        sd.Layout(descending, element_size_in_bits=bits),
    ]


def run(seconds: float, seed: int) -> tuple[Counter[tuple[str, str, str]], dict[str, list[float]]]:
    """Results by way and kind of data, and times by way."""
    rng = random.Random(seed)
    tally: Counter[tuple[str, str, str]] = Counter()
    times: dict[str, list[float]] = defaultdict(list)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        way, make = rng.choice(_WAYS), rng.choice([smooth, weights, ids, noise])
        kind = "s4" if way == "high" else rng.choice(_TYPES)
        if make is ids:
            kind = rng.choice(["s32", "u32"])
        dimensions = rng.choice([d for d in _DIMENSIONS if len(d) == 2 or make is not weights])
        shape = sd.Shape(kind, dimensions, rng.choice(usual_layouts(kind, dimensions)))
        if (way == "high" and shape.element_bits >= 8) or (way == "swapped" and shape.element_bits <= 8):
            continue
        raw, values = buffer_of(str(shape), make, padding=rng.choice([0, None]), seed=rng.randrange(1 << 30))
        raw, arguments = _changed(raw, values, way, rng)
        start = time.perf_counter()
        found = identify(raw, shape.text(layout=False), **arguments)
        times[way].append(time.perf_counter() - start)
        best = found.best
        result = "wrong" if best is not None else found.verdict
        if best is not None and any(_is_right(raw, values, best, s, way) for s in (best.shape, *best.ties)):
            result = "named"
        if result != "named" and make is not noise:
            print(f"{result}: {way}, {make.__name__}, {shape}")
        tally[way, make.__name__, result] += 1
    return tally, times


def _changed(raw: Any, values: Any, way: str, rng: random.Random) -> tuple[Any, dict[str, Any]]:
    """The bytes and the arguments that a way makes of them."""
    if way == "front":
        return np.concatenate([np.random.default_rng(1).integers(0, 256, 128, dtype=np.uint8), raw]), {}
    if way == "tail":
        return raw[: -max(1, len(raw) // rng.choice([10, 50, 1000]))], {}
    if way == "swapped":
        return raw.reshape(-1, values.dtype.itemsize)[:, ::-1].reshape(-1), {}
    if way == "high":
        return (raw >> 4) | (raw << 4), {}
    if way == "part":
        key = tuple(slice(a := rng.randrange(n), a + rng.randrange(1, 60)) for n in values.shape)
        return raw, {"like": (key, values[key])}
    if way in ("like", "rounded"):
        dtype = rng.choice([np.float16, ml_dtypes.bfloat16, np.float64]) if way == "rounded" else values.dtype
        with np.errstate(all="ignore"):
            return raw, {"like": values.astype(dtype)}
    return raw, {}


def _is_right(raw: Any, values: Any, found: Candidate, shape: sd.Shape, way: str) -> bool:
    """Whether a shape gives the values, at the right place and in the right order of bytes."""
    right = (128 * (way == "front"), way == "tail", "big" if way == "swapped" else "little")
    if (found.offset, found.missing_bytes > 0, found.byteorder) != right:
        return False
    whole = np.concatenate([raw, np.zeros(found.missing_bytes, np.uint8)])[found.offset :]
    if found.byteorder == "big":
        whole = whole.reshape(-1, values.dtype.itemsize)[:, ::-1].reshape(-1)
    array = sd.LayoutArray(whole.copy(), shape, bitorder=found.bitorder, allow_excess=True).to_numpy()
    same = (array == values) | ((array != array) & (values != values))
    return bool(same.mean() > (0.8 if way == "tail" else 0.999999))


def main() -> None:
    """Run from the command line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("seconds", type=float)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    tally, times = run(given.seconds, given.seed)
    for way in dict.fromkeys(_WAYS):
        for kind in ("smooth", "weights", "ids", "noise"):
            results = {result: n for (w, k, result), n in sorted(tally.items()) if (w, k) == (way, kind)}
            if results:
                print(f"{way:10} {kind:8}", *(f"{result} {n}" for result, n in results.items()))
        if times[way]:
            print(f"{way:10} {np.mean(times[way]):.2f} s on average, {max(times[way]):.2f} s at most")


if __name__ == "__main__":
    main()
