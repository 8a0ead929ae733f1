"""Tuning constants: the sizes at which the package changes its ways, each with its reason and its benchmark.

All code reads `current`. Tests replace values with `replaced`; ``STRIDED_FORCE_KERNELS=1`` in the environment sets
every threshold to zero, so that plans and kernels do the smallest copy. Constants that are compiled into kernels stay
with these; `docs/maintainers.md` has tables of all that was measured, and of what is kept for later use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from strided.runtime.cache import forget

FORCE = "STRIDED_FORCE_KERNELS"
"""Environment variable that has kernels do everything if it is ``1``, for tests; read on import."""
COMPILE = "STRIDED_COMPILE"
"""Environment variable that has conversions wait for their kernels if it is ``first``; read on import."""


class Limits(NamedTuple):
    """Sizes in elements, bytes, bits or counts, as their names end."""

    # Thresholds: below these NumPy, one thread or a simpler way does it.

    #: Up to this NumPy copies alone while no kernel is loaded (loading Numba takes 0.2 s and more), and the first time
    #: a conversion is asked for (planning takes longer than the copy). `small.Conversions`, `startup`.
    small_elements: int = 1 << 12
    #: The same for a conversion asked for again. `small.Conversions`.
    tiny_elements: int = 1 << 7
    #: From this on a gather or scatter is worth loading Numba, and a mask a kernel. `small.Gather`.
    loading_elements: int = 1 << 16
    #: From this on offsets are worth calling a loaded kernel. `small.Gather`.
    offsets_elements: int = 1 << 10
    #: The same for index arrays, whose tables take longer to make. `small.Gather`.
    indexed_elements: int = 1 << 11
    #: Arrays of up to so many are converted as a whole for an index array or a mask: finding where the elements lie
    #: takes longer. Not measured beyond 4,096.
    whole_elements: int = 1 << 12
    #: From this on an array of plain strides is copied to an ndarray straight from its buffer: less is done by NumPy
    #: before a plan is made. Measured by hand.
    direct_bytes: int = 1 << 15
    #: From this size of the result on arrays are joined straight from their buffers. Measured by hand.
    joined_bytes: int = 1 << 23
    #: The same for one of the arrays, on average, if they are views of one buffer. Measured by hand.
    joined_part_bytes: int = 1 << 17
    #: From this on the kernel decodes and encodes varints, at several times NumPy's 100 MB/s. `snapshots.Varints`.
    varint_bytes: int = 1 << 24
    #: From this on a staged copy is worth its planning. `small.Planning`.
    staged_elements: int = 1 << 12
    #: From this on packed rows are worth the planning of their squares, which takes up to 20 ms. `small.Planning`.
    squared_elements: int = 1 << 18
    #: From this size of the target on lines are written past the caches, which are too small for it anyway: stores
    #: without reading first. `convert`, `compare.py`.
    stream_bytes: int = 1 << 22
    #: Up to this one thread fills alone: it is done before another has begun. Not measured.
    shared_fill_bytes: int = 1 << 20

    # Tasks: boxes for threads to share. One should take some hundred microseconds; preparing it takes about twenty.

    #: Target of one task of a vector kernel; larger arrays have up to eight times larger ones. `convert`, `compare.py`.
    vector_task_bytes: int = 1 << 21
    #: Tasks of a large array, which keep many threads busy to the end. `convert.Large`.
    many_tasks: int = 32
    #: Lanes of one task of a transposition: the target's rows written side by side, each on a page of its own.
    #: `compare.py`, rows "transpose".
    transposed_lanes: int = 1024
    #: Rows of one task that are pages apart in the source, if another axis goes on beside them: more than the CPU has
    #: streams for, few enough to come back to each page soon. `sweep.py`.
    far_rows: int = 32
    #: Elements of one task of the nest. No benchmark; 2^12 to 2^21 measured alike.
    nest_task_elements: int = 1 << 18
    #: Least extent along the source's nearest axis in such a task: a square of a transposition needs both its sides.
    #: No benchmark; 16 to 256 measured alike.
    nest_breadth: int = 64
    #: Bytes and runs of one task of a fill. Not measured.
    fill_task_bytes: int = 1 << 21
    fill_task_runs: int = 1 << 14
    #: Elements of one task of a gather: 512 KB of offsets. `small.Gather`.
    gather_task_elements: int = 1 << 16
    #: Elements whose offsets are computed at once: 512 KB a side. Not measured.
    offset_chunk_elements: int = 1 << 16
    #: Rows of a table in one task, 1.5 MB at most. Not measured.
    table_rows: int = 1 << 16
    #: Rows of which more are taken as groups that are alike: 6 KB of a table. `sweep.py`, short rows.
    group_rows: int = 1 << 8

    # Blocks: parts of a task that stay in a cache.

    #: Bytes of the source in one block if only the source is tiled: a few tiles side by side, half of the first-level
    #: cache. `compare.py`, rows of tiles to row-major.
    tiled_block_bytes: int = 1 << 14
    #: Rows of the source read side by side: about as many streams as a CPU prefetches. `compare.py`, tall tiles.
    streams: int = 8
    #: All blocks of a staged copy: half of the second-level cache of many CPUs. `compare.py`, rows "columns".
    staging_bytes: int = 1 << 20
    #: A block of a staged copy along its contiguous axis. `compare.py`, rows "columns".
    staging_lane_bytes: int = 1 << 11

    # Choice of kernels.

    #: Shorter runs become wider elements: two words of 64 bits are the least worth a vector. `compare.py`, sub-tiles.
    run_bits: int = 128
    #: Longest rows that are moved as one, by an instruction or two; longer ones line by line. `compare.py`, short rows.
    short_row_bits: int = 1 << 10
    #: Least part of the squares of a transposition that must be there, one in so many: with less the nest is as fast.
    #: `sweep.py`.
    turned_squares: int = 32
    #: Longest runs on both sides that are moved as elements of a transposition. `compare.py`, rows "runs".
    moved_run_bits: int = 2048
    #: The same for runs of packed elements: more than a word, which is better moved as a whole. `sweep.py`.
    packed_run_elements: int = 33
    #: The same for runs that are filled; shorter ones go through the nest. Not measured.
    fill_run_bytes: int = 16
    #: Shorter runs of a transposition are made longer at the cost of those on the other side: a cache line. `specs`.
    line_bits: int = 512
    #: Axes of a transposition are joined until a row of the target is this long: a page. `compare.py`, short rows.
    long_row_bytes: int = 1 << 12
    #: Words on a side of the smallest square worth transposing. `compare.py`, rows "columns".
    square_words: int = 16
    #: Boxes a plan may have: with more, one nest over tables does them all. `compare.py`, odd sizes.
    boxes: int = 16
    #: Runs with less between them are filled as one where what lies there is written later.
    fill_gap_bytes: int = 1 << 8
    #: Boxes that partial tiles may make of a fill. Not measured.
    fill_boxes: int = 256

    # Memory and files.

    #: Memory from this size on has its pages made before it is written, this many bytes in one call: a third of the
    #: time that page faults take. `convert`.
    populated_bytes: int = 1 << 22
    populated_piece_bytes: int = 1 << 24
    #: Windows of mapped files: advice on pages is worth it if these are fewer than one in `sparse_pages` of those
    #: spanned, for spans from `advised_bytes` on; it takes up to this many runs and ranges. `files`.
    sparse_pages: int = 4
    advised_bytes: int = 1 << 20
    advised_runs: int = 1 << 16
    advised_ranges: int = 1 << 12

    # Compilation.

    #: 1 has conversions wait for their kernels, for tests and benchmarks: else NumPy begins, and kernels go on.
    compile_first: int = 0


#: The first group of fields: those that decide whether plans and kernels are used at all.
_THRESHOLDS = Limits._fields[: Limits._fields.index("vector_task_bytes")]


def forced(limits: Limits) -> Limits:
    """Limits with every threshold zero, and kernels that are waited for.

    >>> forced(Limits()).small_elements, forced(Limits()).many_tasks
    (0, 32)
    """
    return limits._replace(**dict.fromkeys(_THRESHOLDS, 0), compile_first=1)


def _asked_for() -> Limits:
    """The limits that the environment asks for."""
    limits = Limits(compile_first=int(os.environ.get(COMPILE) == "first"))
    return forced(limits) if os.environ.get(FORCE) == "1" else limits


current = _asked_for()
"""The limits in force. Read it as ``limits.current``: tests replace it."""


def use(limits: Limits) -> None:
    """Set the limits in force, and forget all plans made with others."""
    global current
    current = limits
    forget()


@contextmanager
def replaced(**values: int) -> Iterator[Limits]:
    """Within this, some limits have other values, for all threads. For tests.

    >>> with replaced(small_elements=0) as limits:
    ...     limits.small_elements
    0
    """
    before = current
    use(before._replace(**values))
    try:
        yield current
    finally:
        use(before)
