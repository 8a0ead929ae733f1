"""Hypothesis strategies: layouts, texts, NumPy keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests import oracle
from tests.cases import ARRAY_TYPES, PACKED_TYPES, PRIMITIVE_TYPES, Case
from tests.oracle import COMBINE, Index

#: Elements a buffer may have: the oracle visits each.
MOST_ELEMENTS = 3000


def element_types() -> st.SearchStrategy[str]:
    return st.sampled_from(list(ARRAY_TYPES))


@st.composite
def dimensions(draw: st.DrawFn, *, max_rank: int = 6, empty: bool = True) -> Index:
    """Sizes whose product stays small; zero now and then."""
    left = 200
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, max_rank))):
        size = draw(st.integers(1, max(1, min(left, 9))))
        left //= size
        sizes.append(size)
    if empty and sizes and draw(st.integers(0, 14)) == 0:
        sizes[draw(st.integers(0, len(sizes) - 1))] = 0
    return tuple(sizes)


@st.composite
def tiles(draw: st.DrawFn, max_rank: int) -> tuple[int | str, ...]:
    rank = draw(st.integers(1, max_rank))
    entry = st.one_of(st.integers(1, 5), st.just(COMBINE)) if draw(st.booleans()) else st.integers(1, 5)
    return (*(draw(entry) for _ in range(rank - 1)), draw(st.integers(1, 8)))


@st.composite
def cases(draw: st.DrawFn, *, max_rank: int = 6, empty: bool = True, legacy: bool = True, max_tiles: int = 3) -> Case:
    """An array type with any layout that has addresses."""
    sizes = draw(dimensions(max_rank=max_rank, empty=empty))
    rank = len(sizes)
    order = tuple(draw(st.permutations(range(rank))))
    element_type = draw(element_types())
    packed = element_type in PACKED_TYPES and draw(st.booleans())
    bits = ARRAY_TYPES[element_type]["bits"] if packed else 0
    if legacy and rank and draw(st.integers(0, 5)) == 0:
        padded = tuple(size + draw(st.integers(0, 2)) for size in sizes)
        return Case(element_type, sizes, order, element_bits=bits, padded_dimensions=padded)
    stack: tuple[tuple[int | str, ...], ...] = ()
    current = rank
    for _ in range(draw(st.integers(0, max_tiles))):
        tile = draw(tiles(min(5, max(1, current + 1))))
        grown = Case(element_type, sizes, order, (*stack, tile), element_bits=bits)
        if math.prod(oracle.expand(grown.spec)[0]) > MOST_ELEMENTS:
            break
        stack = grown.tiles
        current = len(oracle.expand(grown.spec)[0])
    tail = draw(st.sampled_from([1, 1, 1, 2, 3, 8, 64]))
    return Case(element_type, sizes, order, stack, tail, bits)


# --- NumPy keys -----------------------------------------------------------------------------------------------------


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    """Slices with every sign, beyond the ends too."""
    bound = st.one_of(st.none(), st.integers(-size - 3, size + 3))
    step = st.one_of(st.none(), st.integers(-size - 2, size + 2).filter(bool))
    return slice(draw(bound), draw(bound), draw(step))


def integers(size: int, *, wrong: bool = False) -> st.SearchStrategy[int]:
    beyond = 1 if wrong or not size else 0
    return st.integers(-size - beyond, size - 1 + beyond)


@st.composite
def basic_keys(draw: st.DrawFn, shape: Index, *, wrong: bool = False) -> Any:
    """Integers, slices, ``None`` and one ``...``; mistaken ones too where `wrong`."""
    key: list[Any] = []
    taken = draw(st.integers(0, len(shape)))
    ellipsis = draw(st.one_of(st.none(), st.integers(0, taken)))
    for place in range(taken):
        if place == ellipsis:
            key.append(Ellipsis)
        while draw(st.integers(0, 6)) == 0:
            key.append(None)
        axis = place if ellipsis is None or place < ellipsis else len(shape) - taken + place
        size = shape[axis]
        choices: list[st.SearchStrategy[Any]] = [slices(size)]
        if size or wrong:
            number = integers(size, wrong=wrong)
            choices += [number, number.map(np.int16), number.map(lambda n: np.asarray(n, np.int64))]
        key.append(draw(st.one_of(choices)))
    if ellipsis == taken:
        key.append(Ellipsis)
    if wrong and draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), draw(st.sampled_from([0, Ellipsis, 1.5, "a", None, slice(None)])))
    return key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


@st.composite
def index_arrays(draw: st.DrawFn, size: int, shape: Index, *, wrong: bool = False) -> Any:
    count = math.prod(shape)
    if not size and not wrong:
        count, shape = 0, (0,)
    numbers = draw(st.lists(integers(size, wrong=wrong), min_size=count, max_size=count))
    array = np.array(numbers, draw(st.sampled_from([np.int8, np.int32, np.int64, ">i4"]))).reshape(shape)
    return array.tolist() if array.ndim and draw(st.integers(0, 3)) == 0 and array.size else array


@st.composite
def masks(draw: st.DrawFn, shape: Index) -> np.ndarray:
    count = math.prod(shape)
    return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(shape)


@st.composite
def keys(draw: st.DrawFn, shape: Index, *, wrong: bool = False) -> Any:
    """Any NumPy key: index arrays and masks among the basic ones; mistaken ones too where `wrong`."""
    if draw(st.integers(0, 2)) == 0:
        return draw(basic_keys(shape, wrong=wrong))
    common = draw(st.sampled_from([(1,), (2,), (3,), (2, 3), (), (0,), (1, 2), (2, 1)]))
    key: list[Any] = []
    axis = 0
    ellipsis_at = draw(st.one_of(st.none(), st.integers(0, len(shape))))
    while axis < len(shape):
        if ellipsis_at == axis and Ellipsis not in [k if k is Ellipsis else None for k in key]:
            key.append(Ellipsis)
            axis += draw(st.integers(0, len(shape) - axis))
            continue
        kind = draw(st.integers(0, 9))
        size = shape[axis]
        if kind == 0:
            key.append(None)
            continue
        if kind <= 2:
            key.append(draw(slices(size)))
        elif kind == 3 and (size or wrong):
            key.append(draw(integers(size, wrong=wrong)))
        elif kind <= 5:
            span = draw(st.integers(1, len(shape) - axis))
            mask = draw(masks(shape[axis : axis + span]))
            if wrong and draw(st.integers(0, 3)) == 0:
                mask = np.concatenate([mask, mask[:1]]) if len(mask) else np.ones((1, *mask.shape[1:]), bool)
            key.append(mask)
            axis += span
            continue
        elif kind == 6 and draw(st.booleans()):
            key.append(draw(st.sampled_from([True, False, np.True_, np.array(True)])))
            continue
        else:
            narrowed = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in common)
            key.append(draw(index_arrays(size, narrowed, wrong=wrong)))
        axis += 1
        if draw(st.integers(0, 7)) == 0:
            break
    return key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


# --- shape texts ----------------------------------------------------------------------------------------------------


def array_texts() -> st.SearchStrategy[str]:
    """Canonical texts of array types."""
    return cases(legacy=False).map(lambda case: case.text)


def shape_texts() -> st.SearchStrategy[str]:
    """Canonical texts of shapes: arrays, tokens, buffers and tuples of them."""
    leaf = st.one_of(
        array_texts(), st.sampled_from(["token[]", "opaque[]"]), array_texts().map(lambda text: f"b({text})")
    )
    return st.recursive(leaf, lambda inner: st.lists(inner, max_size=12).map(tuple_text), max_leaves=20)


def tuple_text(elements: list[str]) -> str:
    """As XLA prints a tuple: a comment counts every fifth element."""
    return "(" + ", ".join((f"/*index={k}*/" if k and k % 5 == 0 else "") + e for k, e in enumerate(elements)) + ")"


#: Pieces that mangled texts are made of.
FRAGMENTS = [
    *PRIMITIVE_TYPES,
    *"(){}[],:*?<=-+#TLESDMPb0123456789 \t\n\r\x00\x0bé/",
    *[
        "<=",
        "SC(",
        "T(",
        "L(",
        "E(",
        "/*",
        "*/",
        "//",
        "f32[3,5]{1,0",
        "9" * 30,
        "-0",
        "D(D,C+~)",
        "f32[]",
        "()",
        "\ud800",
    ],
]


def garbage() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a few bits turned, and pieces cut off, inserted or repeated."""
    raw = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(raw)))
        match draw(st.integers(0, 3)):
            case 0 if place < len(raw):
                raw[place] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del raw[place:]
            case 2:
                raw[place:place] = draw(st.binary(max_size=6))
            case _:
                raw[place:place] = raw[: draw(st.integers(0, len(raw)))]
    return bytes(raw)
