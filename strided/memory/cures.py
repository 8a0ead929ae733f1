"""Cures: changes to a program that reduce its memory usage, with the sizes that the compiler's rule gives.

Each candidate is another shape for the same values, with the layout of `strided.tpu.default_layout`. It is listed only
if it saves memory at the peak. The peak may then move to another position, so only a compilation gives the new total.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from strided.errors import StridedError
from strided.layout import Shape
from strided.memory.buffers import Buffer, Cure, has_tiles
from strided.memory.report import MemoryReport
from strided.tpu.default_layout import COLUMNS, default_layout

#: The least share of the peak for a buffer to get cures, and the most buffers that do. Less padding than that share is
#: ignored: on TPU every scalar has some.
_LEAST_SHARE, _MOST_BUFFERS = 1 / 1000, 100
#: The highest rank of arrays that get cures: higher ones have too many ways to merge dimensions.
_MAX_RANK = 7

_NARROWER = {"f64": "f32", "f32": "bf16", "c128": "c64", "s64": "s32", "u64": "u32"}


class Candidate(NamedTuple):
    """Another shape for a buffer, and the JAX code for the change."""

    kind: str
    after: Shape
    jax: str


def with_cures(report: MemoryReport, generation: str) -> MemoryReport:
    """The report with cures for its buffers, sorted by wasted bytes at the peak, then by size there."""
    least = report.peak_bytes * _LEAST_SHARE

    def place(b: Buffer) -> tuple[int, bool, int, str]:
        return (-b.wasted_bytes if b.wasted_bytes > least else 0, not b.is_at_peak, -b.bytes, b.name)

    largest = sorted(report.buffers, key=place)
    if report.space:  # the rule is about main memory
        return replace(report, buffers=tuple(largest))
    treated = 0
    for n, buffer in enumerate(largest):
        if buffer.is_at_peak and buffer.bytes > least and treated < _MOST_BUFFERS:
            treated += 1
            largest[n] = replace(buffer, cures=cures_of(buffer, generation))
    return replace(report, buffers=tuple(largest))


def cures_of(buffer: Buffer, generation: str) -> tuple[Cure, ...]:
    """The cures for one buffer, at most one of each kind, sorted by saved bytes."""
    shape = buffer.tiled_shape
    if shape is None:
        return ()
    found: dict[str, Cure] = {}
    for candidate in candidates(shape, _ends(buffer), generation):
        saved = buffer.bytes - candidate.after.byte_size
        best = found.get(candidate.kind)
        if saved > 0 and (best is None or saved > best.saved_bytes):
            certainty = "computed" if buffer.kind in ("argument", "result") else "estimate"
            found[candidate.kind] = Cure(
                kind=candidate.kind,
                before=shape,
                after=candidate.after,
                saved_bytes=saved,
                jax=candidate.jax,
                certainty=certainty,
            )
    return tuple(sorted(found.values(), key=lambda cure: -cure.saved_bytes))


def _ends(buffer: Buffer) -> tuple[str, ...]:
    """Whether a buffer is an input or output of the program ("in", "out", as in `jit` and `vmap`); both if donated.

    A result with other dimensions or another layout than the donated argument cannot take its memory.
    """
    return ("in",) * (buffer.kind == "argument") + ("out",) * (buffer.kind == "result" or buffer.is_donated)


@lru_cache(maxsize=1024)
def candidates(shape: Shape, ends: tuple[str, ...], generation: str) -> tuple[Candidate, ...]:
    """Other shapes for the same values, with default layouts; of equal sizes, smaller changes come first."""
    if not 1 <= shape.rank <= _MAX_RANK or 0 in shape.dimensions:
        return ()
    proposed = itertools.chain(
        _reorders(shape, ends, generation), _merges(shape), _splits(shape), _pads(shape), _narrowings(shape, generation)
    )
    found = []
    for kind, after, jax in proposed:
        if not has_tiles(after):
            try:
                after = after.with_layout(default_layout(after, generation))
            except StridedError:
                continue
        if after.byte_size < shape.byte_size:
            found.append(Candidate(kind, after, jax))
    return tuple(found)


def _with_dimensions(shape: Shape, dimensions: Sequence[int]) -> Shape:
    return Shape(shape.element_type, tuple(dimensions))


def _reorders(shape: Shape, ends: Sequence[str], generation: str) -> Iterator[Candidate]:
    """Candidates with the order of dimensions that takes the least memory."""
    try:
        default = default_layout(shape, generation)
    except StridedError:
        return
    assert shape.layout is not None
    if shape.rank < 2 or default.minor_to_major == shape.layout.minor_to_major:
        return
    order = default.minor_to_major[::-1]
    if ends:
        layout = f"Format(Layout(major_to_minor={order}), sharding)"
        asked = ", ".join(f"{end}_shardings={layout}" for end in ends)
        yield Candidate("layout", shape.with_layout(default), f"jax.jit(f, {asked})")
    after = _with_dimensions(shape, [shape.dimensions[d] for d in order])
    rows, columns = (shape.dimensions[d] for d in shape.layout.minor_to_major[1::-1])
    if order != tuple(range(shape.rank)):  # otherwise the program's order is best, and only the layout differs
        yield Candidate("transpose", after, f"x = jnp.transpose(x, {order})")
    batch = order[-1]
    is_last = batch == shape.rank - 1  # then only the layout would change
    if shape.rank > 2 and not is_last and rows * columns <= 8 * COLUMNS and shape.dimensions[batch] > columns:
        others = (*shape.dimensions[:batch], *shape.dimensions[batch + 1 :])
        after = _with_dimensions(shape, (*others, shape.dimensions[batch]))
        axes = ", ".join(f"{end}_axes=-1" for end in ends) or f"in_axes={batch}, out_axes=-1"
        yield Candidate("vectorize", after, f"jax.vmap(f, {axes})(x)  # the batch comes last")


def _merges(shape: Shape) -> Iterator[Candidate]:
    """All ways to merge adjacent dimensions, those that merge fewer first."""
    cuts = range(1, shape.rank)
    for left in range(shape.rank - 1, 0, -1):
        for kept in itertools.combinations(cuts, left - 1):
            edges = (0, *kept, shape.rank)
            dimensions = [math.prod(shape.dimensions[a:b]) for a, b in itertools.pairwise(edges)]
            yield Candidate("merge", _with_dimensions(shape, dimensions), f"x = x.reshape({_sizes(dimensions)})")


def _splits(shape: Shape) -> Iterator[Candidate]:
    """One dimension split in two, where the inner size fits the columns or rows of a tile.

    Candidates of equal size are ordered by their cost elsewhere. Inner sizes of whole tile lines keep the order of the
    elements. So do those of four rows or fewer, which fill only a part of each register. Splits that put another
    dimension last in memory come last: the compiler may then hold a second, padded copy of the array.
    """
    dimensions = list(enumerate(shape.dimensions))
    rows_first = [*dimensions[-2::-1], dimensions[-1]]
    for (d, size), inner in (
        *itertools.product(dimensions, (COLUMNS, 8 * COLUMNS)),
        *itertools.product(rows_first, (4, 2, 1)),
        *itertools.product(dimensions, (8, 16, 32)),
    ):
        if size > inner and size % inner == 0:
            split = (*shape.dimensions[:d], size // inner, inner, *shape.dimensions[d + 1 :])
            yield Candidate("split", _with_dimensions(shape, split), f"x = x.reshape({_sizes(split)})")


def _pads(shape: Shape) -> Iterator[Candidate]:
    """One dimension padded to a multiple of the columns of a tile, then split."""
    for d, size in enumerate(shape.dimensions):
        for inner in (COLUMNS, 8 * COLUMNS):
            more = -size % inner
            if more and size > inner:
                dimensions = (*shape.dimensions[:d], (size + more) // inner, inner, *shape.dimensions[d + 1 :])
                widths = tuple((0, more if k == d else 0) for k in range(shape.rank))
                line = f"x = jnp.pad(x, {widths}).reshape({_sizes(dimensions)})"
                yield Candidate("pad-to", _with_dimensions(shape, dimensions), line)


def _narrowings(shape: Shape, generation: str) -> Iterator[Candidate]:
    """Half the bits, if the order is already the best: otherwise a reorder saves memory without losing precision."""
    narrower = _NARROWER.get(shape.element_type)
    if narrower is None:
        return
    after = Shape(narrower, shape.dimensions)
    after = after.with_layout(default_layout(after, generation))
    assert after.layout is not None
    assert shape.layout is not None
    if after.layout.minor_to_major == shape.layout.minor_to_major:
        yield Candidate("dtype", after, f"x = x.astype(jnp.{after.dtype.name})  # half the precision or range")


def _sizes(dimensions: Sequence[int]) -> str:
    return ", ".join(map(str, dimensions))
