"""Random layouts, windows and strided arrays."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tests.cases import Case
from tests.oracle import COMBINE

#: Element types with the bits of one, packed and not.
TYPES = [
    ("pred", 1),
    ("pred", 1),
    ("u2", 2),
    ("u2", 2),
    ("s2", 2),
    ("s4", 4),
    ("u4", 4),
    ("u8", 8),
    ("s8", 8),
    ("bf16", 16),
    ("u16", 16),
    ("f32", 32),
    ("u32", 32),
    ("u64", 64),
    ("c64", 64),
    ("c128", 128),
]
#: The packed ones, of every width alike.
PACKED = [("u1", 1), ("pred", 1), ("u2", 2), ("s2", 2), ("u4", 4), ("s4", 4)]
_SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 130, 200, 255, 256, 257, 300]
#: Lengths of runs of packed elements, mostly of whole bytes.
_RUNS = [2, 3, 4, 6, 7, 8, 12, 16, 20, 24, 24, 32, 40, 48, 48, 64, 80, 96, 100, 128, 160, 256, 300]
_LONG = [511, 513, 1000, 1024, 1025, 2049, 3001, 8191]
#: First tiles, and those that may follow them; of one and of two dimensions, and of three.
_FIRST: list[list[tuple[int | str, ...]]] = [
    [(2,), (3,), (4,), (8,), (64,), (128,), (256,), (512,), (1024,)],
    [
        *((8, 128), (8, 128), (16, 128), (32, 128), (64, 128), (4, 128), (2, 128), (1, 128), (8, 130), (7, 128)),
        *((2, 2), (3, 5), (8, 8), (4, 2), (2, 4), (16, 16), (4, 256)),
    ],
    [(2, 8, 128), (4, 2, 2), (2, 3, 128), (1, 8, 128), (3, 2, 5)],
]
_NEXT: list[list[tuple[int | str, ...]]] = [
    [(128,), (2,), (64,), (4,), (3,)],
    [(2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (2, 2), (4, 2), (3, 1), (5, 3), (1, 2), (1, 4)],
    [(2, 1, 1), (1, 2, 1), (2, 1)],
]
_STARS: list[tuple[int | str, ...]] = [(COMBINE, 2), (COMBINE, 3), (COMBINE, 128), (COMBINE, 8, 128), (2, COMBINE, 4)]


def dimensions(rng: random.Random, most: int) -> tuple[int, ...]:
    """Sizes of zero to six dimensions, of so many elements at most."""
    rank = rng.choice([0, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 5, 6])
    while True:
        pool = _SIZES if rank < 3 else _SIZES[:15] if rank == 3 else _SIZES[:6]
        found = [rng.choice(_LONG if rng.random() < 0.15 else pool) for _ in range(rank)]
        if rng.random() < 0.01 and found:
            found[rng.randrange(rank)] = 0
        if math.prod(found) <= most:
            return tuple(found)


def dimensions_of_runs(rng: random.Random, most: int) -> tuple[int, ...]:
    """Sizes of two to five dimensions, of so many elements at most, the last one as long as a short run."""
    while True:
        found = *rng.choices(_SIZES[1:8], k=rng.choice([1, 2, 2, 2, 3, 4])), rng.choice(_RUNS)
        if math.prod(found) <= most:
            return found


def dimensions_of_tiles(rng: random.Random, most: int) -> tuple[int, ...]:
    """Sizes of two to five dimensions, of so many elements at most, of which one is longer than most tiles."""
    while True:
        found = rng.choices(_SIZES[:12], k=rng.choice([1, 2, 2, 3, 4]))
        found.insert(rng.randint(0, len(found)), rng.randint(100, 420))
        if math.prod(found) <= most:
            return tuple(found)


def dimensions_of_rows(rng: random.Random, most: int) -> tuple[int, ...]:
    """Sizes of two to six dimensions, of so many elements at most, nearly all short."""
    while True:
        found = rng.choices(_SIZES[1:14], k=rng.choice([2, 3, 3, 4, 4, 5, 6]))
        if math.prod(found) <= most:
            return tuple(found)


def dimensions_of_columns(rng: random.Random) -> tuple[int, ...]:
    """Some rows, of so many columns that a long row of each is in pieces of few words, in tiles side by side."""
    return rng.choice([2, 4, 5, 8, 8, 16]), rng.randint(700, 2500), rng.choice([64, 100, 127, 128])


def dimensions_in_odd_tiles(rng: random.Random) -> tuple[int, ...]:
    """Some rows, of so many elements that vectors take them, and tasks cut them; or these as columns."""
    found = rng.choice([1, 2, 4, 5, 16, 17, 33]), rng.randint(100, 2500)
    return found if rng.random() < 0.7 else found[::-1]


def grown(rng: random.Random, sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The same with one size so long that there are about as many elements as `count`."""
    k = rng.randrange(len(sizes)) if sizes else 0
    others = math.prod(sizes[:k] + sizes[k + 1 :])
    return (*sizes[:k], max(1, count // max(1, others) + rng.randint(-2, 4)), *sizes[k + 1 :])


def tiles(rng: random.Random, rank: int) -> tuple[tuple[int | str, ...], ...]:
    """No, one or several levels of tiles for an array of so many dimensions."""
    if rank == 0 or rng.random() < 0.25:
        return ()
    if rank > 1 and rng.random() < 0.08:
        return (rng.choice([star for star in _STARS if len(star) <= rank]),)
    k = min(rank, rng.choice([1, 2, 2, 2, 2, 3])) - 1
    found = [rng.choice(_FIRST[k])]
    while len(found) < 4 and rng.random() < (0.6 if len(found) == 1 else 0.15):
        found.append(rng.choice(_NEXT[k]))
    return tuple(found)


def layout(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """Some layout for elements that take so many bits."""
    order = list(range(len(sizes)))[::-1]
    if rng.random() < 0.5:
        rng.shuffle(order)
    tail = rng.choice([1, 1, 1, 1, 1, 1, 8, 128])
    return Case(element_type, sizes, tuple(order), tiles(rng, len(sizes)), tail, bits if bits < 8 else 0)


def akin(rng: random.Random, case: Case, bits: int) -> Case:
    """The same layout with another first tile, so that neighbours of one are neighbours of the other."""
    if not case.tiles or COMBINE in case.tiles[0]:
        return replace(case, element_bits=bits if bits < 8 else 0)
    major, minor = case.tiles[0][:-1], int(case.tiles[0][-1])
    first = (*(int(n) * rng.choice([1, 2, 2]) for n in major), minor * rng.choice([1, 1, 2] if major else [2]))
    return replace(case, tiles=(first, *case.tiles[1:]), element_bits=bits if bits < 8 else 0)


def with_runs(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """Some layout whose runs are the last dimension, or what a tile leaves of it."""
    last = len(sizes) - 1
    whole = (sizes[last],)
    first = rng.choice([(), (), (whole,), ((2, *whole),), ((rng.choice([2, 4, 8, 128]),),), tiles(rng, len(sizes))])
    order = last, *rng.sample(range(last), last)
    return Case(element_type, sizes, order, first, rng.choice([1, 1, 8, 128]), bits if bits < 8 else 0)


def as_compiled(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """A layout as the TPU compiler chooses them, but with any order of dimensions behind the longest one."""
    longest = max(range(len(sizes)), key=lambda k: sizes[k])
    order = longest, *rng.sample([k for k in range(len(sizes)) if k != longest], len(sizes) - 1)
    each = max(1, 32 // bits)
    chosen = [(max(each, rng.choice([1, 2, 4, 8, 8, 32])), 128), *([(each, 1)] if each > 1 else [])]
    return Case(element_type, sizes, order, tuple(chosen), 1, bits if bits < 8 else 0)


def of_columns(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """A layout of the TPU compiler's for `dimensions_of_columns`: each matrix of the columns has tiles of its own."""
    each = max(1, 32 // bits)
    tiles = [(max(each, rng.choice([2, 4, 8])), 128), *([(each, 1)] if each > 1 else [])]
    return Case(element_type, sizes, (2, 0, 1), tuple(tiles), 1, bits if bits < 8 else 0)


def in_odd_tiles(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """A layout whose tiles are as long as no words of packed elements, nor bytes: some have words of their own."""
    order = (1, 0) if rng.random() < 0.7 else (0, 1)
    major, minor, each = (
        rng.choice([1, 2, 3, 4, 8, 16]),
        rng.choice([3, 5, 6, 7, 9, 12, 31, 65, 127, 129, 130]),
        32 // bits,
    )
    tiles: tuple[tuple[int, ...], ...] = ((major, minor),)
    if bits < 8 and rng.random() < 0.6:
        tiles = (
            (major, rng.choice([minor, each - 1, each - 3])),
            rng.choice([(1, each), (1, each), (1, 8), (each, 1)]),
        )
    return Case(element_type, sizes, order, tiles, 1, bits if bits < 8 else 0)


def permuted(rng: random.Random, element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """A layout without tiles whose dimensions lie in any order."""
    order = rng.sample(range(len(sizes)), len(sizes))
    return Case(element_type, sizes, tuple(order), (), 1, bits if bits < 8 else 0)


def row_major(element_type: str, sizes: tuple[int, ...], bits: int) -> Case:
    """The layout without tiles."""
    return Case(element_type, sizes, tuple(range(len(sizes)))[::-1], (), 1, bits if bits < 8 else 0)


class Window(NamedTuple):
    """A part of an array, as both a LayoutArray and an ndarray of places take it: a key, and then an order of axes."""

    key: tuple[Any, ...]
    order: tuple[int, ...]
    diagonal: bool

    def of(self, array: Any) -> Any:
        """The part of an array."""
        part = array[(*self.key, ...)]
        if self.diagonal:
            part = part.diagonal()
        return part.transpose(self.order) if self.order else part


def window(rng: random.Random, sizes: tuple[int, ...], *, drops: bool = True) -> Window:
    """Some window: single indices, ranges with steps either way, new axes, another order, now and then a diagonal."""
    key: list[Any] = []
    rank = 0
    for size in sizes:
        chance = rng.random()
        if drops and rng.random() < 0.03:
            key.append(None)
            rank += 1
        if chance < 0.08 and size and drops:
            key.append(rng.randrange(-size, size))
            continue
        rank += 1
        key.append(slice(None) if chance < 0.4 else part(rng, size))
    diagonal = drops and rank == 2 and rng.random() < 0.04
    rank -= diagonal
    order = tuple(rng.sample(range(rank), rank)) if rank > 1 and rng.random() < 0.35 else ()
    return Window(tuple(key), order, diagonal)


def columns(rng: random.Random, sizes: tuple[int, ...]) -> Window:
    """A window of few neighbours along the last dimension, wherever in lines, of all or most of the others."""
    count = rng.choice([1, 2, 2, 3, 4, 4, 5, 9, 17])
    first = rng.randrange(sizes[-1])
    if rng.random() < 0.6:
        # Across a line of words.
        first = max(0, first // 16 * 16 - rng.randint(1, count))
    others = (slice(rng.choice([0, 0, 1]), None) for _ in sizes[1:])
    return Window((*others, slice(first, first + count)), (), False)


def part(rng: random.Random, size: int) -> slice:
    """Some range of an axis."""
    first, last = sorted((rng.randint(0, size), rng.randint(0, size)))
    if rng.random() < 0.3:
        first, last = rng.choice([(0, last), (first, size), (min(1, size), size), (0, max(0, size - 1))])
    step = rng.choice([1, 1, 1, 1, 2, 2, 3, 4, 8, 16, 7, -1, -1, -2, -3, -8])
    if step > 0:
        return slice(first, last, step)
    return slice(last - 1, first - 1 if first else None, step) if last else slice(0, 0)


class Strides(NamedTuple):
    """Memory of an ndarray: its strides and the place of its first element, in bytes, and how many bytes it takes."""

    strides: tuple[int, ...]
    offset: int
    size: int


def strides(rng: random.Random, shape: tuple[int, ...], width: int) -> Strides:
    """Strides of an ndarray that overlap nowhere: dense or with gaps, in any order, some axes backwards."""
    order = list(range(len(shape)))
    if rng.random() < 0.4:
        rng.shuffle(order)
    unit = width
    if rng.random() < 0.15:
        # As a field of a record that is no multiple of its size.
        unit = rng.choice([1, 2, 4]) if width > 1 else 1
    found, step = [0] * len(shape), width
    for k in reversed(order):
        if rng.random() < 0.25:
            step += unit * rng.choice([1, 1, 2, 3, 7])
        found[k] = step
        step *= max(1, shape[k])
    offset = 0
    for k, size in enumerate(shape):
        if rng.random() < 0.15 and size:
            offset += found[k] * (size - 1)
            found[k] = -found[k]
    size = sum((n - 1) * abs(s) for n, s in zip(shape, found, strict=True)) + width if math.prod(shape) else 0
    return Strides(tuple(found), offset, size)


def dense_strides(shape: tuple[int, ...], width: int) -> Strides:
    """Strides of a row-major ndarray."""
    found = tuple(math.prod(shape[k + 1 :]) * width for k in range(len(shape)))
    return Strides(found, 0, math.prod(shape) * width)


def places_of(shape: tuple[int, ...], of: Strides) -> np.ndarray:
    """The first byte of every element of such an ndarray."""
    places = np.full(shape, of.offset, np.int64)
    for axis, (size, step) in enumerate(zip(shape, of.strides, strict=True)):
        along = np.arange(size, dtype=np.int64) * step
        places += along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return places
