"""Tuning constants: thresholds and sizes, each with its reason and its benchmark.

All code reads `current`. Tests replace values with `replaced`; ``STRIDED_FORCE_KERNELS=1`` in the environment sets
every threshold to zero, so that plans and kernels do even the smallest copy. Constants that are compiled into kernels
stay with these; `docs/maintainers.md` has tables of all that was measured, and of the sizes of caches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from strided.runtime.cache import forget

FORCE = "STRIDED_FORCE_KERNELS"
"""Environment variable: ``1`` makes kernels do everything, for tests; read on import."""
COMPILE = "STRIDED_COMPILE"
"""Environment variable: ``first`` makes conversions wait for their kernels; read on import."""


class Limits(NamedTuple):
    """Sizes in elements, bytes or bits, by the ends of their names; others are counts."""

    # Thresholds: below these, NumPy, a single thread or a simpler method is used.

    #: Up to this size NumPy copies while no kernel is loaded (loading Numba takes 0.2 s and more), and the first time a
    #: conversion is done (planning takes longer than the copy). `small.Conversions`, `startup`.
    small_elements: int = 1 << 12
    #: The same for a conversion that was done before. `small.Conversions`.
    tiny_elements: int = 1 << 7
    #: The least size of a gather or scatter that is worth loading Numba, and of a mask that is worth a kernel.
    #: `small.Gather`.
    loading_elements: int = 1 << 16
    #: The fewest offsets that are worth calling a loaded kernel. `small.Gather`.
    offsets_elements: int = 1 << 10
    #: The same for index arrays, whose tables take longer to make. `small.Gather`.
    indexed_elements: int = 1 << 11
    #: Arrays of up to this size are converted as a whole for an index array or a mask: computing offsets takes longer.
    #: Not measured beyond 4,096.
    whole_elements: int = 1 << 12
    #: The least size of a strided array that is copied to an ndarray directly from its buffer: NumPy copies smaller
    #: ones before a plan is made. Measured by hand.
    direct_bytes: int = 1 << 15
    #: The least size of the result for which arrays are joined directly from their buffers. Measured by hand.
    joined_bytes: int = 1 << 23
    #: The least average size of the arrays for that, if they are views of one buffer. Measured by hand.
    joined_part_bytes: int = 1 << 17
    #: The least size for which a kernel decodes and encodes varints, several times as fast as NumPy's 100 MB/s.
    #: `snapshots.Varints`.
    varint_bytes: int = 1 << 24
    #: The least size for which a staged copy is worth its planning. `small.Planning`.
    staged_elements: int = 1 << 12
    #: The least size for which packed rows are worth planning squares, which takes up to 20 ms. `small.Planning`.
    squared_elements: int = 1 << 18
    #: The least size of a target that is written by streaming stores, which do not read lines first: the caches are too
    #: small for it anyway. `convert`, `compare.py`.
    stream_bytes: int = 1 << 22
    #: Up to this size a single thread fills: it ends before another would start. Not measured.
    shared_fill_bytes: int = 1 << 20

    # Tasks: boxes that threads share. A task should take some hundred microseconds; preparing it takes about twenty.

    #: Target of one task of a vector kernel; up to eight times as much for larger arrays. `convert`, `compare.py`.
    vector_task_bytes: int = 1 << 21
    #: Tasks of a large array, which keep many threads busy to the end. `convert.Large`.
    many_tasks: int = 32
    #: Lanes of one task of a transposition: rows of the target that are written together, each on a page of its own.
    #: `compare.py`, rows "transpose".
    transposed_lanes: int = 1024
    #: Rows of one task that are pages apart in the source, if another axis continues on the same pages: more than the
    #: CPU has streams for, but few enough to return to each page soon. `sweep.py`.
    far_rows: int = 32
    #: Elements of one task of the nest. No benchmark; 2^12 to 2^21 measured alike.
    nest_task_elements: int = 1 << 18
    #: Least extent of such a task along the source's fastest axis: a square of a transposition needs both of its sides.
    #: No benchmark; 16 to 256 measured alike.
    nest_breadth: int = 64
    #: Bytes and runs of one task of a fill. Not measured.
    fill_task_bytes: int = 1 << 21
    fill_task_runs: int = 1 << 14
    #: Elements of one task of a gather: 512 KB of offsets. `small.Gather`.
    gather_task_elements: int = 1 << 16
    #: Elements whose offsets are computed at a time: 512 KB on each side. Not measured.
    offset_chunk_elements: int = 1 << 16
    #: The most rows of a table in one task: 1.5 MB. Not measured.
    table_rows: int = 1 << 16
    #: The most rows of a group; axes with more are cut into equal groups, which share a table of 6 KB. `sweep.py`,
    #: short rows.
    group_rows: int = 1 << 8

    # Blocks: parts of a task that fit in a cache.

    #: Bytes of the source in one block if only the source is tiled: a few adjacent tiles, half of the first-level
    #: cache. `compare.py`, rows of tiles to row-major.
    tiled_block_bytes: int = 1 << 14
    #: Rows of the source that are read together: about as many streams as a CPU prefetches. `compare.py`, tall tiles.
    streams: int = 8
    #: All blocks of a staged copy: half of the second-level cache of many CPUs. `compare.py`, rows "columns".
    staging_bytes: int = 1 << 20
    #: Length of a block of a staged copy along its contiguous axis. `compare.py`, rows "columns".
    staging_lane_bytes: int = 1 << 11

    # Choice of kernels.

    #: Shorter runs become wider elements: at least two words of 64 bits are worth a vector. `compare.py`, sub-tiles.
    run_bits: int = 128
    #: The longest rows that are copied whole, by an instruction or two; longer ones are copied line by line.
    #: `compare.py`, short rows.
    short_row_bits: int = 1 << 10
    #: The least part of the squares of a transposition that is filled, one in this many: with less the nest is as fast.
    #: `sweep.py`.
    turned_squares: int = 32
    #: The longest runs on both sides that are transposed as elements. `compare.py`, rows "runs".
    moved_run_bits: int = 2048
    #: The same for runs of packed elements: more than a word, which is better copied whole. `sweep.py`.
    packed_run_elements: int = 33
    #: The shortest runs for the kernel that fills; shorter ones are filled by the nest. Not measured.
    fill_run_bytes: int = 16
    #: Shorter runs of a transposition are lengthened at the cost of those on the other side: a cache line. `specs`.
    line_bits: int = 512
    #: Axes of a transposition are joined until a row of the target is this long: a page. `compare.py`, short rows.
    long_row_bytes: int = 1 << 12
    #: Words on a side of the smallest square worth transposing. `compare.py`, rows "columns".
    square_words: int = 16
    #: The most boxes of a plan: instead of more, one nest over tables copies everything. `compare.py`, odd sizes.
    boxes: int = 16
    #: The largest gap between runs that are filled as one, if the elements in the gap are written later.
    fill_gap_bytes: int = 1 << 8
    #: The most boxes into which partial tiles may cut a fill. Not measured.
    fill_boxes: int = 256

    # Memory and files.

    #: The least size of memory whose pages are populated before it is written, and the bytes of one such call: takes a
    #: third of the time of page faults. `convert`.
    populated_bytes: int = 1 << 22
    populated_piece_bytes: int = 1 << 24
    #: Read-ahead for mapped files: advise the system of the pages of a view if they are fewer than one in
    #: `sparse_pages` of the span, which has at least `advised_bytes`; with at most this many runs and ranges. `files`.
    sparse_pages: int = 4
    advised_bytes: int = 1 << 20
    advised_runs: int = 1 << 16
    advised_ranges: int = 1 << 12

    # Compilation.

    #: 1 makes conversions wait for their kernels, for tests and benchmarks: otherwise NumPy begins meanwhile.
    compile_first: int = 0


#: The first group of fields: those that decide whether plans and kernels are used at all.
_THRESHOLDS = Limits._fields[: Limits._fields.index("vector_task_bytes")]


def forced(limits: Limits) -> Limits:
    """Limits with every threshold zero and `compile_first` set.

    >>> forced(Limits()).small_elements, forced(Limits()).many_tasks
    (0, 32)
    """
    return limits._replace(**dict.fromkeys(_THRESHOLDS, 0), compile_first=1)


def _asked_for() -> Limits:
    """The limits by the environment variables."""
    limits = Limits(compile_first=int(os.environ.get(COMPILE) == "first"))
    return forced(limits) if os.environ.get(FORCE) == "1" else limits


current = _asked_for()
"""The limits in force. Read it as ``limits.current``: tests replace it."""


def use(limits: Limits) -> None:
    """Set the limits in force, and clear all caches that depend on them."""
    global current
    current = limits
    forget()


@contextmanager
def replaced(**values: int) -> Iterator[Limits]:
    """Context in which some limits have other values, in all threads. For tests.

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
