"""`strided.diff`: where two arrays differ, and how the mismatches lie in memory."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np

from strided.diagnosis.difference.causes.find import causes_of
from strided.diagnosis.difference.operands import Operand, operand_of
from strided.diagnosis.difference.places import extent, places
from strided.diagnosis.difference.result import Bin, Difference, Mismatch, Pattern, percent
from strided.diagnosis.difference.scan import scan
from strided.diagnosis.difference.tally import Tally
from strided.diagnosis.difference.values import Tolerance, is_float
from strided.pictures.marks import MarkMap
from strided.runtime.aliases import Progress
from strided.runtime.argument_checks import check_progress, whole

#: The share of mismatches from which they are "everywhere".
_EVERYWHERE = 0.9
#: The most mismatches that are listed as single elements.
_FEW = 8


def diff(
    a: Any,
    b: Any,
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | np.integer[Any] | None = None,
    equal_nan: bool = True,
    limit: SupportsIndex = 10,
    progress: Progress | None = None,
) -> Difference:
    """Find where two arrays differ, by how much, and what the mismatches have in common.

    Elements are equal if ``|a - b| <= atol + rtol * |b|``, or with `max_ulp`, if they are at most that many ULPs apart.
    -0 equals 0. As in `numpy.isclose`, an infinity in `b` equals only itself, whatever `rtol` and `atol`. Values of two
    types are equal if they are the same number; nothing is rounded.

    Parameters
    ----------
    a, b : LayoutArray, ShardedArray, ZarrArray, ndarray, or (path, shape)
        Arrays of equal shape, in any layouts and types. A file is read in parts, never as a whole; the path of a
        ``.npy`` file needs no shape.
    rtol, atol : float
        Relative tolerance, and absolute tolerance in units of the values.
    max_ulp : int, optional
        The most ULPs between equal elements, for each part of complex numbers; 0 means equal values. The other
        tolerances are then ignored.
    equal_nan : bool
        Whether NaN equals NaN.
    limit : int
        The most mismatches to list.
    progress : callable, optional
        Called after each block with its number of elements, by one thread at a time.

    Returns
    -------
    Difference
        Its text is a report with a map of the mismatches.

    Raises
    ------
    ValueError
        The shapes differ, or a tolerance or `limit` is negative.
    UnsupportedError
        XLA lacks the element type, raw bytes have no shape, or a whole dump folder is given (use
        `strided.diagnosis.difference.diff_dumps`).
    DumpError
        A shard is missing.
    OSError
        A file cannot be opened.

    Examples
    --------
    >>> import numpy as np
    >>> import strided as sd
    >>> values = np.arange(4096, dtype=np.float32).reshape(16, 256)
    >>> a = sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}")
    >>> b = a.copy()
    >>> b[8:, 128:] += 1
    >>> found = diff(a, b)
    >>> found.count, found.first, found.max_abs, found.patterns[0].kind
    (1024, (8, 128), 1.0, 'tile')
    >>> print(found.patterns[0].sentence)
    all 1,024 mismatches lie in the tile at rows 8 to 15, columns 128 to 255: bytes 12288 to 16383 of a; every ...
    """
    check_progress(progress)
    tolerance = Tolerance(rtol, atol, max_ulp, equal_nan)
    return compared(operand_of(a, "a"), operand_of(b, "b"), tolerance, limit, progress)


def compared(
    a: Operand, b: Operand, tolerance: Tolerance, limit: SupportsIndex, progress: Progress | None = None
) -> Difference:
    """The difference of two operands; arguments and errors as for `diff`."""
    if a.shape != b.shape:
        raise ValueError(f"the shapes differ: a is {list(a.shape)}, b is {list(b.shape)}")
    limit = whole(limit, "limit", 0)
    tally = scan(a, b, tolerance, limit=limit, progress=progress)
    has_ulps = is_float(a.dtype) or is_float(b.dtype)
    listed = _mismatches(a, b, tally)
    return Difference(
        a=str(a),
        b=str(b),
        tolerance=str(tolerance),
        count=tally.count,
        total=math.prod(tally.shape),
        unordered=tally.unordered,
        max_abs=float(tally.max_abs) if has_ulps else tally.max_abs,
        max_rel=tally.max_rel,
        max_ulp=tally.max_steps,
        histogram=tuple(Bin(1 << k, 2 << k, int(n)) for k, n in enumerate(tally.histogram) if n),
        first=listed[0].index if listed else None,
        mismatches=listed[:limit],
        padding_differs=tally.padding_bytes,
        bytes_differ=tally.element_bytes,
        patterns=tuple(_patterns(a, b, tolerance, tally)) if tally.count else (),
        has_ulps=has_ulps,
        map=MarkMap(tally.cells, tally.map_counts, "differs", tally.nan_counts, "NaN"),
    )


def _mismatches(a: Operand, b: Operand, tally: Tally) -> tuple[Mismatch, ...]:
    if not tally.count:
        return ()
    points = tally.points(tally.first)
    return tuple(
        Mismatch(index, x, y, a.byte_of(index), b.byte_of(index))
        for index, x, y in zip(tally.indices(tally.first), a.at(points), b.at(points), strict=True)
    )


def _patterns(a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> list[Pattern]:
    """What the mismatches have in common, the most informative first."""
    cause, common = causes_of(a, b, tolerance, tally)
    where = places(a, b, tally)
    found = [*_if_any(cause), *where, *_if_any(common), *_bit_patterns(a, tally)]
    total = math.prod(tally.shape)
    if not found and tally.count <= _FEW:
        return _elements(tally)
    if not where and (not found or tally.count >= _EVERYWHERE * total):
        text = "the mismatches are scattered over the array, in no known pattern"
        if tally.count >= _EVERYWHERE * total:
            text = f"{'all' if tally.count == total else 'nearly all'} elements differ"
        found += _if_any(extent(tally)) or [Pattern("everywhere", "...", 1.0, text)]
    return found


def _if_any(pattern: Pattern | None) -> list[Pattern]:
    return [] if pattern is None else [pattern]


def _elements(tally: Tally) -> list[Pattern]:
    shown = [", ".join(map(str, index)) for index in tally.indices(tally.places)]
    return [Pattern("element", where, 1 / tally.count, f"a single element at [{where}] differs") for where in shown]


def _bit_patterns(a: Operand, tally: Tally) -> list[Pattern]:
    """Changes of bits that mismatches share: of the sign, or of one byte."""
    found = []
    if (share := tally.negated / tally.count) >= _EVERYWHERE:
        part = "every mismatch" if share == 1 else f"{percent(share)} of the mismatches"
        found.append(Pattern("sign", "", share, f"in {part} only the sign differs: b is -a"))
    size = a.dtype.itemsize
    changed = [k for k in range(size) if tally.changed_bits >> 8 * k & 0xFF]
    if not found and size > 1 and len(changed) == 1 and tally.count > 1 and not tally.same_bits:
        sentence = f"every mismatch differs in byte {changed[0]} of the {size} bytes of an element alone"
        found.append(Pattern("byte", str(changed[0]), 1.0, sentence))
    return found
