"""Data of an array's values for a page: a map, and all values of a small array."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import run_boxes
from strided.layout.element_types import is_builtin
from strided.layout.parser import array_shape
from strided.layout.sizes import tile_of
from strided.pictures.folding import Counts, Folding, coarser, folding, refolded

#: The most elements whose values a page has: about half a megabyte.
MOST_VALUES = 1 << 16
#: Cells of a map: 128 KB for each of its four planes.
MOST_ROWS, MOST_COLUMNS = 128, 256
#: Levels of a large map: each has this many times as many rows and columns.
SCALES = (1, 2, 4)
#: The most cells of a finer level that has minimum and maximum beside the mean, a byte each.
_MOST_EXTREMES = 1 << 17
#: About how many elements of an array are read for its map.
MOST_SAMPLED = 1 << 24
#: Elements of one block.
_BLOCK_ELEMENTS = 1 << 21

_Part = tuple[np.ufunc, npt.NDArray[Any]]


def values_data(array: Any) -> dict[str, Any] | None:
    """All values of an array in row-major order, exact; None if there are too many."""
    if array.size > MOST_VALUES:
        return None
    values = array.to_numpy()
    kind = values.dtype.kind
    found: dict[str, Any] = {**_printing(values.dtype), "is_boolean": kind == "b"}
    if kind in "iu" and values.dtype.itemsize == 8:
        name = f"{kind}8"
        numbers = values.astype(f"<{name}")
    elif kind == "c":
        name, numbers = "c16", values.astype("<c16")
    else:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            name, numbers = "f8", values.astype("<f8")
    return found | {"kind": name, "data": _in_base64(numbers, numbers.dtype.str)}


def map_data(
    array: Any, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS, scales: Sequence[int] = (1,)
) -> dict[str, Any] | None:
    """Minimum, maximum, mean, and number of NaNs and infinities, in each cell of a map of an array.

    The array is read once; of a large one, only evenly spaced rows, whose step along each dimension is in `sample`.
    `finer` has a level for each further scale, with about that many times as many rows and columns, and a byte per
    value. None for an array of complex numbers, or of fewer than two elements.
    """
    if array.size < 2 or array.dtype.kind == "c":
        return None
    order, tile = array.layout.minor_to_major[::-1], tile_of(array_shape(array.xla_shape))
    for rows in (most_rows * scales[-1], most_rows):
        finest = folding(array.shape, rows, most_columns * scales[-1], tile)
        steps = _steps(finest, len(array.shape))
        cells = _sampled(finest, steps)
        if math.prod(cells.shape) <= 2 * MOST_SAMPLED:
            break  # otherwise more rows would require reading too much
    found = _reductions(array[tuple(slice(None, None, step) for step in steps)], cells, order)
    levels: dict[tuple[int, int], dict[str, Any]] = {}
    for scale in scales:
        cells = coarser(finest, min(rows, scale * most_rows), scale * most_columns)
        if (cells.rows, cells.columns) not in levels:
            level = _finer_level if levels else _coarsest_level
            levels[cells.rows, cells.columns] = _labels(finest, cells) | level(found, finest, cells)
    coarsest, *finer = levels.values()
    return coarsest | {"sample": list(steps), "finer": finer}


class _Reductions(NamedTuple):
    """For each cell, the numbers of finite and other elements; the sum, minimum and maximum of the finite ones."""

    finite: Counts
    others: Counts
    parts: dict[str, _Part]

    def planes(
        self, names: Iterable[str], finest: Folding, cells: Folding
    ) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
        """The named planes (mean, least, largest) of a coarser map; NaN in cells without finite values."""
        finite = refolded(self.finite, finest, cells)
        for name in names:
            ufunc, part = self.parts[name]
            with np.errstate(over="ignore", invalid="ignore"):
                plane = refolded(part, finest, cells, ufunc)
                plane = np.where(finite, plane / finite if name == "mean" else plane, np.nan)
            yield name, plane


def _reductions(array: Any, cells: Folding, order: Sequence[int]) -> _Reductions:
    """Reduce an array to cells, in one pass over blocks, in the given order of dimensions."""
    least, largest, total = (np.full(cells.cells, start) for start in (np.inf, -np.inf, 0.0))
    others = cells.counts()
    for box in run_boxes(array.shape, _BLOCK_ELEMENTS, order):
        key: Any = (*box, ...)
        values = _as_floats(np.asarray(array[key]))
        low = high = summed = values
        if not (is_finite := np.isfinite(values)).all():
            low, high, summed = (np.where(is_finite, values, otherwise) for otherwise in (np.inf, -np.inf, 0))
            cells.add(others, box, ~is_finite)
        cells.accumulate(np.minimum, least, box, low)
        cells.accumulate(np.maximum, largest, box, high)
        with np.errstate(over="ignore", invalid="ignore"):
            cells.accumulate(np.add, total, box, summed)
    parts: dict[str, _Part] = {"mean": (np.add, total), "least": (np.minimum, least), "largest": (np.maximum, largest)}
    return _Reductions(cells.sizes().reshape(cells.cells) - others, others, parts)


def _coarsest_level(found: _Reductions, finest: Folding, cells: Folding) -> dict[str, Any]:
    """The planes of the coarsest map, in single precision."""
    planes = {name: _in_base64(plane, "<f4") for name, plane in found.planes(found.parts, finest, cells)}
    return {"planes": planes | {"not finite": _in_base64(refolded(found.others, finest, cells), "<f4")}}


def _finer_level(found: _Reductions, finest: Folding, cells: Folding) -> dict[str, Any]:
    """The planes of a finer map, a byte per value; only the mean if cells are many or single elements."""
    is_element = bool(cells.sizes().max() == 1)
    has_extremes = cells.rows * cells.columns <= _MOST_EXTREMES and not is_element
    names = found.parts if has_extremes else ["mean"]
    planes = {name: _in_bytes(plane) for name, plane in found.planes(names, finest, cells)}
    marks = np.packbits(refolded(found.others, finest, cells) > 0, bitorder="little")
    return {"planes": planes, "is_element": is_element, "marks": _in_base64(marks, "u1") if marks.any() else None}


def _labels(finest: Folding, cells: Folding) -> dict[str, Any]:
    """The labels of rows and columns, and where each starts among those of the finest level."""
    narrow_finest, narrow = (replace(each, shape=(*each.shape[:-1], 1), width=1) for each in (finest, cells))
    rows = refolded(np.arange(finest.rows), narrow_finest, narrow, np.minimum)
    return {
        "rows": cells.rows,
        "columns": cells.columns,
        "row_labels": cells.row_labels(),
        "column_labels": cells.column_labels(),
        "row_starts": rows[:, 0].tolist(),
        "column_starts": [*range(0, finest.columns, cells.width // finest.width)],
    }


def _in_bytes(plane: npt.NDArray[Any]) -> dict[str, Any]:
    """Values quantised to bytes, from the lowest (0) to the highest (254); 255 means not finite."""
    codes, is_finite = np.full(plane.shape, 255, np.uint8), np.isfinite(plane)
    finite = plane[is_finite]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    half = high / 2 - low / 2  # high - low could overflow
    codes[is_finite] = np.rint(254 * ((finite / 2 - low / 2) / half)) if half else 0
    return {"low": low, "high": high, "data": _in_base64(codes, "u1")}


def _steps(cells: Folding, ndim: int) -> tuple[int, ...]:
    """A sampling step for each dimension that leaves few enough elements, some in each cell, and all columns."""
    steps = [1] * len(cells.shape)
    most = max(1, -(-math.prod(cells.shape) // MOST_SAMPLED))
    steps[cells.split] = max(step for step in range(1, most + 1) if cells.height % step == 0)
    for dimension in range(cells.split + 1, len(cells.shape) - 1):
        rest = -(-most // math.prod(steps))
        steps[dimension] = min(cells.shape[dimension], rest)
    return tuple(steps[len(steps) - ndim :])


def _sampled(cells: Folding, steps: tuple[int, ...]) -> Folding:
    """The same cells for the array sampled at these steps."""
    all_steps = (*(1 for _ in range(len(cells.shape) - len(steps))), *steps)
    shape = tuple(-(-n // step) for n, step in zip(cells.shape, all_steps, strict=True))
    return replace(cells, shape=shape, height=cells.height // all_steps[cells.split])


def _as_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values as floats, accurate enough for a picture."""
    if values.dtype in (np.float32, np.float64):
        return values
    if values.dtype.kind in "iu" and values.dtype.itemsize > 2:
        return values.astype(np.float64)
    return values.astype(np.float32)  # holds every value of smaller types


def _in_base64(numbers: npt.NDArray[Any], dtype: str) -> str:
    """Numbers as base64, little endian."""
    with np.errstate(over="ignore", invalid="ignore"):
        return base64.b64encode(np.ascontiguousarray(numbers, np.dtype(dtype)).tobytes()).decode()


def _printing(dtype: np.dtype[Any]) -> dict[str, int]:
    """How to print floats: NumPy's with the fewest unique digits, those of ml_dtypes with six; {} for integers."""
    if dtype.kind in "fc" and is_builtin(dtype):
        kind = np.finfo(dtype)
        return {"bits": kind.nmant + 1, "least_exponent": int(kind.minexp)}
    return {} if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")) else {"digits": 6}
