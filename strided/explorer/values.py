"""The values of an array as data for a page: all of a small one, and a map of any."""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import boxes, even_cuts, run_block
from strided.layout.element_types import is_builtin
from strided.layout.parser import array_shape
from strided.layout.sizes import tile_of
from strided.pictures.folding import Folding, folding

#: Elements of the largest array whose values a page holds: about half a megabyte.
MOST_VALUES = 1 << 16
#: Cells of a map: 128 KB for each of its four planes.
MOST_ROWS, MOST_COLUMNS = 128, 256
#: About how many elements of an array are read for its map.
MOST_SAMPLED = 1 << 24
#: Elements of one block.
_BLOCK_ELEMENTS = 1 << 21


def values_data(array: Any) -> dict[str, Any] | None:
    """All values of a LayoutArray or the like in row-major order, exact; None if there are too many."""
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
        with np.errstate(invalid="ignore"):  # a NaN that signals
            name, numbers = "f8", values.astype("<f8")
    return found | {"kind": name, "data": _packed(numbers, numbers.dtype.str)}


def map_data(array: Any, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS) -> dict[str, Any] | None:
    """Least, largest and mean value, and the number of NaNs and infinities, of each cell of a map of an array.

    The array is read once, block by block; of a large one, rows at even distances in every cell, which `sample` names:
    the step along each dimension. None for an array of complex numbers, of one element or of none.
    """
    if array.size < 2 or array.dtype.kind == "c":
        return None
    order, tile = array.layout.minor_to_major[::-1], tile_of(array_shape(array.xla_shape))
    cells = folding(array.shape, most_rows, most_columns, tile)
    steps = _steps(cells, len(array.shape))
    array, labels, cells = array[tuple(slice(None, None, step) for step in steps)], cells, _sampled(cells, steps)
    least, largest, total = (np.full(cells.cells, start) for start in (np.inf, -np.inf, 0.0))
    other = cells.counts()
    for box in boxes(even_cuts(array.shape, run_block(array.shape, _BLOCK_ELEMENTS, order)), order):
        key: Any = (*box, ...)
        values = _as_floats(np.asarray(array[key]))
        low = high = summed = values
        if not (is_finite := np.isfinite(values)).all():
            low, high, summed = (np.where(is_finite, values, otherwise) for otherwise in (np.inf, -np.inf, 0))
            cells.add(other, box, ~is_finite)
        cells.accumulate(np.minimum, least, box, low)
        cells.accumulate(np.maximum, largest, box, high)
        cells.accumulate(np.add, total, box, summed)
    count = cells.sizes().reshape(cells.cells) - other
    with np.errstate(invalid="ignore"):
        mean = total / count
    planes = {"mean": mean, "least": least, "largest": largest, "not finite": other}
    return {
        "rows": cells.rows,
        "columns": cells.columns,
        "row_labels": labels.row_labels(),
        "column_labels": labels.column_labels(),
        "sample": list(steps),
        "planes": {
            name: _packed(np.where(count, plane, np.nan) if plane is not other else plane, "<f4")
            for name, plane in planes.items()
        },
    }


def _steps(cells: Folding, ndim: int) -> tuple[int, ...]:
    """The steps along each dimension that leave few enough elements, and some of each cell; columns stay whole."""
    steps = [1] * len(cells.shape)
    most = max(1, -(-math.prod(cells.shape) // MOST_SAMPLED))
    steps[cells.split] = max(step for step in range(1, most + 1) if cells.height % step == 0)
    for dimension in range(cells.split + 1, len(cells.shape) - 1):
        rest = -(-most // math.prod(steps))
        steps[dimension] = min(cells.shape[dimension], rest)
    return tuple(steps[len(steps) - ndim :])


def _sampled(cells: Folding, steps: tuple[int, ...]) -> Folding:
    """The same cells, of an array from which elements at those steps are taken."""
    all_steps = (*(1 for _ in range(len(cells.shape) - len(steps))), *steps)
    shape = tuple(-(-n // step) for n, step in zip(cells.shape, all_steps, strict=True))
    return replace(cells, shape=shape, height=cells.height // all_steps[cells.split])


def _as_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values in a type of floats, nearly: enough for a picture."""
    if values.dtype in (np.float32, np.float64):
        return values
    if values.dtype.kind in "iu" and values.dtype.itemsize > 2:
        return values.astype(np.float64)
    return values.astype(np.float32)  # holds every value of smaller types


def _packed(numbers: npt.NDArray[Any], dtype: str) -> str:
    """Numbers as base64, little endian."""
    with np.errstate(over="ignore", invalid="ignore"):
        return base64.b64encode(np.ascontiguousarray(numbers, np.dtype(dtype)).tobytes()).decode()


def _printing(dtype: np.dtype[Any]) -> dict[str, int]:
    """How NumPy prints a value: with as few digits as tell it apart, or ml_dtypes: with six. Nothing for integers."""
    if dtype.kind in "fc" and is_builtin(dtype):
        kind = np.finfo(dtype)
        return {"bits": kind.nmant + 1, "least_exponent": int(kind.minexp)}
    return {} if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")) else {"digits": 6}
