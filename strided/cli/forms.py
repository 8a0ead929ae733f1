"""The formats in which `strided show` prints values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from strided import inspect
from strided.arrays import formatting
from strided.arrays.blocks import Box, run_boxes
from strided.layout.element_types import is_builtin, known_element_type
from strided.transfer.copy import pattern_of

#: Elements to read at a time.
_BLOCK_ELEMENTS = 1 << 18
#: The most elements that are printed as JSON, whose text is held in memory as a whole.
_MOST_JSON = 1 << 22
#: Bins of a histogram; fewer if the values are integers of a smaller range.
_BINS = 16


def hexadecimal(array: Any) -> str:
    """The elements' bits in hexadecimal, the highest first. Of a large array only the corners are read.

    >>> print(hexadecimal(np.array([1, -2], np.int16)))
    [0001 fffe]
    >>> print(hexadecimal(np.array([1, -2], ">i2")))
    [0001 fffe]
    """
    is_whole = isinstance(array, np.ndarray)
    values, threshold = (array, formatting.print_threshold()) if is_whole else formatting.corners(array)
    bits = _bits(values.dtype)
    values = values.astype(values.dtype.newbyteorder("<")) if values.dtype.byteorder == ">" else values

    def text(element: Any) -> str:
        return f"{pattern_of(element, bits):0{-(-bits // 4)}x}"

    untyped = np.ascontiguousarray(values).view(f"V{values.dtype.itemsize}").reshape(values.shape)
    return np.array2string(untyped, threshold=threshold, formatter={"void": text})


def csv(array: Any) -> Iterator[str]:
    """The values as comma-separated text, in pieces: a line for each row along the last axis, or value of a 1-D array.

    >>> "".join(csv(np.array([[0.1, 2], [3, np.nan]], np.float32))).splitlines()
    ['0.1,2.0', '3.0,nan']
    """
    if len(array.shape) < 2:
        array = array[:, None] if array.shape else np.asarray(array).reshape(1, 1)
    for box in _blocks(array):
        values = _plain_type(np.asarray(array[box]))
        end = "\n" if box[-1].stop == array.shape[-1] else ","
        for row in values.reshape(-1, values.shape[-1]) if values.size else ():
            yield ",".join(map(str, row)) + end


def json_text(array: Any) -> str:
    """Shape, type and values as JSON; NaN, infinities and times become strings, complex numbers pairs.

    >>> json_text(np.array([[0.1, np.inf]], np.float32))
    '{"shape": [1, 2], "dtype": "float32", "values": [[0.1, "inf"]]}'
    """
    if array.size > _MOST_JSON:
        raise click.UsageError(f"{array.size:,} values are too many for JSON: select a part by an index, or use --csv")
    values = np.asarray(array)
    plain = np.empty(values.size, object)
    for place, value in enumerate(_plain_type(values).reshape(-1)):
        plain[place] = _plain(value)
    found = {"shape": list(values.shape), "dtype": values.dtype.name, "values": plain.reshape(values.shape).tolist()}
    return json.dumps(found)


def _blocks(array: Any) -> Iterator[Box]:
    """The blocks, in row-major order, in which an array is read."""
    return run_boxes(array.shape, _BLOCK_ELEMENTS)


def _plain(value: Any) -> Any:
    """A value as an object that `json` can write."""
    if isinstance(value, (complex, np.complexfloating)):
        return [_plain(value.real), _plain(value.imag)]
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, np.timedelta64) or not isinstance(value, (float, np.number, np.bool_)):
        return str(value)  # to NumPy, timedelta64 is an integer
    if isinstance(value, (np.bool_, np.integer)):
        return value.item()
    # The shortest text that reads back as this value: a float32 of 0.1 gives 0.1, not 0.10000000149011612.
    number = float(str(value))
    return number if np.isfinite(number) else str(value)


def _plain_type(values: Any) -> Any:
    """The same values in a built-in type of NumPy, which prints them exactly."""
    if is_builtin(values.dtype) or not are_numbers(values.dtype):
        return values
    return values.astype(np.int8 if np.can_cast(values.dtype, np.int8) else np.float64)


def statistics_json(summary: inspect.Statistics) -> str:
    """A summary as JSON."""
    return json.dumps(_summary_dict(summary), indent=2)


def _summary_dict(summary: inspect.Statistics) -> dict[str, Any]:
    return {
        "size": summary.size,
        "min": _plain(summary.minimum),
        "max": _plain(summary.maximum),
        "mean": _plain(summary.mean),
        "nan": summary.nan,
        "inf": summary.inf,
    }


def histogram_json(array: Any, summary: inspect.Statistics) -> str:
    """A summary as JSON with a histogram, whose list of bins is empty without finite values.

    >>> json.loads(histogram_json(np.array([1, 1]), inspect.statistics(np.array([1, 1]))))["histogram"]
    [{'from': 1, 'to': 1, 'count': 2}]
    """
    bars = [{"from": _plain(low), "to": _plain(high), "count": n} for low, high, n in _histogram(array, summary)]
    return json.dumps(_summary_dict(summary) | {"histogram": bars}, indent=2)


def histogram_text(array: Any, summary: inspect.Statistics, width: int) -> str:
    """A histogram of the finite values as text.

    >>> print(histogram_text(np.array([1, 1, 3]), inspect.statistics(np.array([1, 1, 3])), 30))
    from  to  count
       1   1      2  ############
       2   2      0
       3   3      1  ######
    """
    bars = _histogram(array, summary)
    if not bars:
        return f"no {'finite value' if array.size else 'elements'}: there is nothing to draw"
    show = str if isinstance(bars[0][0], int) else "{:.6g}".format
    rows = [("from", "to", "count"), *((show(start), show(stop), f"{count:,}") for start, stop, count in bars)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(n) for cell, n in zip(row, widths, strict=True)) for row in rows]
    room = max(1, width - len(lines[0]) - 3)
    most = max(count for _, _, count in bars)
    marks = ["", *("#" * -(-count * room // most) for _, _, count in bars)]
    return "\n".join(f"{line}  {mark}".rstrip() for line, mark in zip(lines, marks, strict=True))


def _histogram(array: Any, summary: inspect.Statistics) -> list[tuple[float, float, int]]:
    """The edges of each bin and its number of finite values; a bin excludes its upper edge, except the last.

    Integers of a small range have a bin each. Empty without finite values; UsageError for complex ones.
    """
    low, high = summary.minimum, summary.maximum
    if low is None or high is None:
        if summary.mean is not None:
            raise click.UsageError("complex values have no order")
        return []
    # Both extremes are scaled before they are added, so that no sum overflows.
    whole = isinstance(low, int) and high - low < _BINS
    share = np.linspace(0, 1, 1 + (1 if low == high else _BINS))
    edges = [*range(int(low), int(high) + 1)] if whole else (low * (1 - share) + high * share).tolist()
    counts = np.zeros(len(edges) - (not whole), np.int64)
    for box in _blocks(array):
        values = _plain_type(np.asarray(array[(*box, ...)])).reshape(-1)
        if whole:
            places = values - values.dtype.type(low) if values.dtype.kind in "iu" else values.astype(np.uint8) - low
        else:
            places = np.searchsorted(edges, values[np.isfinite(values)].astype(np.float64), side="right") - 1
        counts += np.bincount(np.clip(places.astype(np.intp), 0, len(counts) - 1), minlength=len(counts))
    between = zip(edges, edges, strict=True) if whole else itertools.pairwise(edges)
    return [(start, stop, count) for (start, stop), count in zip(between, counts.tolist(), strict=True)]


def are_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether the values of a type are numbers, unlike strings and times in a ``.npy`` file."""
    return dtype.kind in "biufc" or dtype.isbuiltin == 2  # 2: registered, as by ml_dtypes


def _bits(dtype: np.dtype[Any]) -> int:
    found = None if dtype == np.bool_ else known_element_type(dtype)
    return 8 * dtype.itemsize if found is None else found.bits
