"""Print constants of proto instructions as XLA does: ``{ { 1, 2.5 }, { nan, -inf } }``, in logical order.

More than ten elements, and tuples, print as ``{...}`` unless large constants are requested. As in XLA, a float is
printed with the digits that are always safe for its type if these are exact, else with as many as any value may need.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.dumps.literals.literal import Literal
from strided.errors import DumpError
from strided.layout import AnyShape, Shape, TupleShape
from strided.layout.element_types import element_type

#: The most elements that are printed.
MAX_ELEMENTS = 10
#: The most empty rows that are printed. XLA has no limit, but a few bytes may claim any number of them.
_MAX_EMPTY_ROWS = 1 << 8

#: Decimal digits that are always safe, and digits that any value may need.
_DIGITS = {"f32": (6, 9), "f64": (15, 17)}


def literal_text(view: memoryview, shape: AnyShape, at: int, *, large: bool) -> str:
    """The text of a LiteralProto; with `large`, also of tuples and arrays of many elements.

    `shape` is the instruction's; the order of the elements is that of the literal's own. DumpError, at byte `at`, for
    missing values or another shape.
    """
    small = isinstance(shape, Shape) and element_type(shape.element_type).is_array and shape.size <= MAX_ELEMENTS
    if not small and not large:
        return "{...}"
    literal = Literal.of_proto(view, at)
    if literal.shape.text(layout=False) != shape.text(layout=False):
        raise DumpError(f"a constant {shape} whose literal is {literal.shape}", position=at)
    return value_text(literal.value, literal.shape)


def value_text(value: Any, shape: AnyShape, *, shapes: bool = False) -> str:
    """The text of a literal's value: an array, a tuple of values, or None; with `shapes`, each array follows its shape.

    >>> from strided import parse
    >>> value_text((np.int32([1, 2]), (np.float32(3),)), parse("(s32[2], (f32[]))"), shapes=True)
    '( s32[2]{0} {1, 2}, ( f32[] 3 ) )'
    """
    if isinstance(shape, TupleShape):
        elements = zip(value, shape.elements, strict=True)
        return f"( {', '.join(value_text(*pair, shapes=shapes) for pair in elements)} )"
    if value is None or not isinstance(shape, Shape):
        return "token"
    text = array_text(np.asarray(value), shape.element_type)
    return f"{shape} {text}" if shapes else text


def array_text(values: npt.NDArray[Any], name: str) -> str:
    """The text of an array of element type `name`, with braces around every row.

    >>> array_text(np.float32([[0.1, 2], [np.nan, -np.inf]]), "f32")
    '{ { 0.1, 2 }, { nan, -inf } }'
    """
    if values.ndim == 0:
        return ("false", "true")[bool(values)] if name == "pred" else _element(name)(values[()])
    if not values.size and math.prod(itertools.takewhile(bool, values.shape)) > _MAX_EMPTY_ROWS:
        return "{...}"
    return _rows(values, _element(name), values.ndim, ())


def _rows(values: npt.NDArray[Any], show: Callable[[Any], str], rank: int, index: tuple[int, ...]) -> str:
    """The text of one level of braces; comments number the rows above rank three."""
    if values.ndim > 1:
        inner = ", ".join(_rows(row, show, rank, (*index, i)) for i, row in enumerate(values))
    else:
        inner = ", ".join(map(show, values))
    if rank == 1 or (values.ndim == 1 and len(values) <= 1):
        return f"{{{inner}}}"
    if rank > 3 and index and values.ndim > 1:
        comment = f"/*i{len(index) - 1}={index[-1]}*/"
        inner = f"{comment} {inner}" if len(values) else comment
    return f"{{ {inner} }}"


@cache
def _element(name: str) -> Callable[[Any], str]:
    kind = element_type(name)
    if name in ("c64", "c128"):
        part = _element("f32" if name == "c64" else "f64")
        return lambda value: f"({part(value.real)}, {part(value.imag)})"
    if kind.dtype is None or kind.dtype.kind in "iub" or name[0] in "su" or name == "pred":
        return lambda value: str(int(value))
    return _float_text(name, kind.dtype)


def _float_text(name: str, dtype: np.dtype[Any]) -> Callable[[Any], str]:
    mantissa_bits = int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call]
    quiet = 1 << mantissa_bits - 1 if mantissa_bits else 0
    unsigned = np.dtype(f"u{dtype.itemsize}")
    top_bit = 1 << (8 * dtype.itemsize - 1)
    # Types without infinities have a single NaN.
    one_nan = not bool(np.isinf(np.array(np.inf, np.float32).astype(dtype)))
    safe, needed = _DIGITS.get(name, (0, math.ceil(1 + (mantissa_bits + 1) * math.log10(2))))

    def show(value: Any) -> str:
        number = float(value)
        if math.isnan(number):
            bits = int(np.asarray(value, dtype).view(unsigned))
            payload = bits & (1 << mantissa_bits) - 1
            sign = "-" if bits & top_bit and name != "f8e8m0fnu" else ""
            return f"{sign}nan" if one_nan or payload == quiet else f"{sign}nan({payload:#x})"
        if safe:
            text = f"{number:.{safe}g}"
            if dtype.type(text) == value:
                return text
        return f"{number:.{needed}g}"

    return show
