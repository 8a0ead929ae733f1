"""Whether two elements are equal, and their distance in value and in ULPs.

Two arrays are compared in a type that holds the values of both (`common_dtype`). Most elements of most arrays have
equal bits; `unequal_bits` finds the others fast, and only those are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.arrays.base import Array
from strided.diagnosis.bit_patterns import patterns
from strided.layout.element_types import element_type_of_dtype, is_builtin
from strided.runtime.argument_checks import number

Mask = npt.NDArray[np.bool_]
#: Distances in steps, as unsigned integers of any width.
Steps = npt.NDArray[Any]

_DOUBLE, _SIGNED, _UNSIGNED = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """When two elements are equal: ``|a - b| <= atol + rtol * |b|``, or at most `max_ulp` ULPs apart.

    Raises
    ------
    ValueError
        A negative tolerance.
    """

    rtol: float = 0
    atol: float = 0
    max_ulp: int | np.integer[Any] | None = None
    equal_nan: bool = True

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "max_ulp"):
            value = getattr(self, name)
            if (value is not None or name != "max_ulp") and not number(value, name) >= 0:  # NaN
                raise ValueError(f"{name} must be 0 or more, not {value!r}")

    def __str__(self) -> str:
        if self.max_ulp is not None:
            return f"at most {self.max_ulp:,} ULPs apart"
        return f"|a - b| <= {self.atol:g} + {self.rtol:g} * |b|" if self.rtol or self.atol else ""


class Measured(NamedTuple):
    """Distances of pairs of elements; `unequal` and `unordered` (unequal, with a NaN) are masks.

    `distance` is ``|a - b|`` and `relative` is that divided by ``|b|``, both 0 for the unordered; `steps` are ULPs of
    floats, or ``|a - b|`` of integers.
    """

    unequal: Mask
    unordered: Mask
    distance: Array
    relative: npt.NDArray[np.float64]
    steps: Steps


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type's values have ULPs: floats, complex numbers, and the floats of ml_dtypes."""
    return dtype.kind in "fc" or (not is_builtin(dtype) and "f" in element_type_of_dtype(dtype).name)


@cache
def common_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type in which values of two types are compared; None if no type holds the values of both.

    Raises
    ------
    UnsupportedError
        XLA lacks a type.

    >>> common_dtype(np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e5m2)).name
    'bfloat16'
    >>> common_dtype(np.dtype(np.int32), np.dtype(np.float32)).name
    'float64'
    >>> common_dtype(np.dtype(np.int64), np.dtype(np.float32)) is None
    True
    """
    a, b = (element_type_of_dtype(each).dtype or each for each in (a, b))
    if a == b:
        return a
    if is_float(a) != is_float(b) and (_SIGNED in (a, b) or _UNSIGNED in (a, b)):
        return None
    if "c" in (a.kind, b.kind):
        return np.result_type(*(_builtin(each) for each in (a, b)), np.complex64)
    floats = [is_float(each) for each in (a, b)]
    if all(floats):
        choices = (a, b, np.dtype(np.float32), _DOUBLE)
        return next(each for each in choices if _holds(each, a) and _holds(each, b))
    if any(floats):
        return _DOUBLE
    if all(np.can_cast(each, _SIGNED) for each in (a, b)):
        return _SIGNED
    return _UNSIGNED if all(np.can_cast(each, _UNSIGNED) for each in (a, b)) else None


def _builtin(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A built-in type of NumPy that holds all values of a type."""
    if is_builtin(dtype):
        return dtype
    return np.dtype(np.float32) if is_float(dtype) else np.dtype(np.int8)


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether one type of floats holds every value of another."""
    if wide in (narrow, _DOUBLE):
        return True
    if narrow.itemsize > min(2, wide.itemsize):
        return False
    values = np.arange(1 << 8 * narrow.itemsize).astype(f"u{narrow.itemsize}").view(narrow)
    with np.errstate(all="ignore"):
        try:
            found = values.astype(wide)
        except TypeError:  # ml_dtypes has no cast between float8_e8m0fnu and other floats of a byte
            return False
        return np.array_equal(found.astype(_DOUBLE), values.astype(_DOUBLE), equal_nan=True)


def converted(values: Array, dtype: np.dtype[Any] | None) -> Array:
    """Values in a common type, exactly; unchanged if there is none or it is their own."""
    if dtype is None or values.dtype == dtype:
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind == "b":
        values = values.view(np.uint8) != 0  # any byte but 0 is true
    if dtype == np.float32 and values.dtype == ml_dtypes.bfloat16:
        # Several times faster than a cast.
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype.kind == "c" and not is_builtin(values.dtype):
        values = values.astype(_builtin(values.dtype))
    return values.astype(dtype)


def are_same_bits(a: Array, b: Array) -> bool:
    """A fast check whether two arrays have equal bits, which may miss some that do."""
    if a.dtype != b.dtype or not (a.flags.c_contiguous and b.flags.c_contiguous) or a.nbytes % 8:
        return False
    x, y = (each.reshape(-1).view(np.uint64) for each in (a, b))
    return bool((x == y).all())


def unequal_bits(a: Array, b: Array, *, equal_nan: bool) -> Mask:
    """Which pairs may differ: those with unequal bits, or unequal values if there is no common type."""
    if is_float(a.dtype) != is_float(b.dtype):
        return np.asarray((_doubles(a) != _doubles(b)) | (_rounded_away(a) != _rounded_away(b)))
    if a.dtype != b.dtype:
        return np.asarray(a != b)
    found = np.asarray(patterns(a) != patterns(b))
    if a.dtype.itemsize > 8:
        found = np.asarray(found.any(-1))
    if not equal_nan and is_float(a.dtype):
        found |= a != a  # NaN
    return found


def are_equal(a: Array, b: Array, tolerance: Tolerance) -> Mask:
    """Which pairs of elements of two flat arrays are equal."""
    dtype = common_dtype(a.dtype, b.dtype)
    with np.errstate(all="ignore"):
        x, y = converted(a, dtype), converted(b, dtype)
        mask = unequal_bits(x, y, equal_nan=tolerance.equal_nan)
        mask[mask] = measured(x[mask], y[mask], tolerance).unequal
    return ~mask


def measured(a: Array, b: Array, tolerance: Tolerance) -> Measured:
    """Element-wise distances of two flat arrays of one type, or of two types without a common one."""
    if is_float(a.dtype) != is_float(b.dtype):
        return _integers_and_floats(a, b, tolerance)
    if a.dtype.kind == "c":
        return _complex(a, b, tolerance)
    if is_float(a.dtype):
        return _floats(a, b, tolerance)
    return _integers(a, b, tolerance)


def _integers(a: Array, b: Array, tolerance: Tolerance) -> Measured:
    if a.dtype != b.dtype:
        a, b = (each.astype(_UNSIGNED if each.dtype == _UNSIGNED else _SIGNED) for each in (a, b))
    steps, size = _apart(a, b), np.abs(b.astype(_DOUBLE))
    relative = np.where(steps == 0, 0.0, steps / size)
    if tolerance.max_ulp is not None:
        unequal = steps > tolerance.max_ulp
    elif tolerance.rtol:
        near = steps <= tolerance.atol + tolerance.rtol * size  # also False for inf * 0
        unequal = (steps > 0) & ~near
    else:
        unequal = steps > min(int(min(tolerance.atol, 2.0**64)), 2**64 - 1)
    return Measured(unequal, np.zeros(a.shape, bool), steps, relative, steps)


def _doubles(values: Array) -> Array:
    """Values in double precision, to which 64-bit integers may be rounded."""
    return converted(values, np.dtype(np.complex128) if values.dtype.kind == "c" else _DOUBLE)


def _rounded_away(values: Array) -> Array:
    """The exact rounding error of 64-bit integers in double precision (value minus rounded); 0 for other types."""
    if is_float(values.dtype) or not values.size or max(int(values.max()), -int(values.min())) <= 2**53:
        return np.zeros(())
    high = (values >> values.dtype.type(32)).astype(_DOUBLE) * 2.0**32
    low = (values & values.dtype.type(2**32 - 1)).astype(_DOUBLE)
    found: Array = low - ((high + low) - high)  # only the sum rounds (T. J. Dekker, 1971)
    return found


def _integers_and_floats(a: Array, b: Array, tolerance: Tolerance) -> Measured:
    x, y, more = _doubles(a), _doubles(b), _rounded_away(a) - _rounded_away(b)
    steps = _ulps(x.real, y.real)
    if "c" in (x.dtype.kind, y.dtype.kind):
        steps = np.maximum(steps, _ulps(x.imag, y.imag))
    steps[(steps == 0) & (more != 0)] = 1  # an integer between two floats
    return _decided(x, y, np.abs(x - y + more), steps, tolerance)


def _floats(a: Array, b: Array, tolerance: Tolerance) -> Measured:
    x, y = a.astype(_DOUBLE, copy=False), b.astype(_DOUBLE, copy=False)
    return _decided(x, y, np.abs(x - y), _ulps(a, b), tolerance)


def _complex(a: Array, b: Array, tolerance: Tolerance) -> Measured:
    steps = np.maximum(_ulps(a.real, b.real), _ulps(a.imag, b.imag))
    x, y = a.astype(np.complex128), b.astype(np.complex128)
    return _decided(x, y, _complex_distance(x, y), steps, tolerance)


def _complex_distance(x: Array, y: Array) -> Array:
    """``|x - y|`` of complex numbers, where equal infinite parts count as equal.

    >>> with np.errstate(invalid="ignore"):
    ...     _complex_distance(np.array([complex(np.inf, 1)]), np.array([complex(np.inf, 3)])).tolist()
    [2.0]
    """
    distance: Array = np.abs(x - y)
    if np.isnan(distance).any():
        parts = ((x.real, y.real), (x.imag, y.imag))
        distance = np.hypot(*(np.where(one == other, 0, one - other) for one, other in parts))
    return distance


def _decided(x: Array, y: Array, distance: Array, steps: Steps, tolerance: Tolerance) -> Measured:
    if not np.isfinite(distance).all():
        return _decided_of_any(x, y, distance, steps, tolerance)
    size = np.abs(y)
    relative = distance / size
    if not distance.all():
        relative[distance == 0] = 0
    if tolerance.max_ulp is not None:
        unequal = steps > tolerance.max_ulp
    else:
        unequal = distance > 0
        if tolerance.atol or tolerance.rtol:
            unequal &= ~(distance <= tolerance.atol + tolerance.rtol * size)
    return Measured(unequal, np.zeros(unequal.shape, bool), distance, relative, steps)


def _decided_of_any(x: Array, y: Array, distance: Array, steps: Steps, tolerance: Tolerance) -> Measured:
    """As `_decided`, if distances may be infinite or NaN; modifies `distance` and `steps`."""
    same = (x == y) & ~(distance > 0)  # x and y may be rounded integers
    nan_x, nan_y = np.isnan(x), np.isnan(y)
    size = np.abs(y)
    # A complex inf+nanj is infinitely far from any number, which an infinite tolerance allows, as in NumPy.
    near = (distance <= tolerance.atol + tolerance.rtol * size) & np.isfinite(y)
    unordered = nan_x != nan_y
    steps[nan_x | nan_y] = 0
    # Equal infinities have distance 0; NaN has none.
    distance[same | nan_x | nan_y] = 0
    relative = distance / size
    relative[distance == 0] = 0
    relative[np.isinf(distance)] = np.inf
    if tolerance.max_ulp is not None:
        unequal = (steps > tolerance.max_ulp) | unordered
    else:
        unequal = ~(same | near | (nan_x & nan_y))
        unordered &= unequal
    if not tolerance.equal_nan:
        both = nan_x & nan_y
        unequal |= both
        unordered |= both
    return Measured(unequal, unordered, distance, relative, steps)


def magnitudes(steps: Steps) -> npt.NDArray[np.int64]:
    """Histogram of steps: how many are from ``2**k`` to ``2**(k + 1) - 1``, for k from 0 to 63; zeros do not count.

    >>> magnitudes(np.array([0, 1, 2, 3, 2**54 - 1], np.uint64)).nonzero()[0].tolist()
    [0, 1, 53]
    """
    if steps.itemsize == 8:
        # With the second-highest bit cleared, no number is rounded up to the next power of two.
        steps = steps & ~(steps >> np.uint64(1))
    exponents = steps.astype(_DOUBLE).view(np.int64) >> 52
    return np.bincount(exponents, minlength=1023 + 64)[1023:]


def _ulps(a: Array, b: Array) -> Steps:
    """Distances of floats in representable values: 1 for neighbours, 0 for -0 and 0; meaningless for NaN."""
    return _apart(ordinals(a), ordinals(b))


def ordinals(values: Array) -> Array:
    """The rank of each float among the values of its type, 0 for zero; meaningless for NaN.

    >>> ordinals(np.array([-0.0, 0.0, 5e-324, -np.inf])).tolist()
    [0, 0, 1, -9218868437227405312]
    """
    bits = element_type_of_dtype(values.dtype).bits
    size = values.dtype.itemsize
    pattern = np.ascontiguousarray(values).view(f"i{size}")
    if values.dtype == ml_dtypes.float8_e8m0fnu:
        return pattern.view(np.uint8).astype(np.int16)  # it has no sign
    if bits < 8 * size:
        pattern = pattern << (8 * size - bits) >> (8 * size - bits)
    # A negative float's pattern is that of -0 plus its magnitude. `np.where` would take ten times as long.
    sign = pattern >> (8 * size - 1)
    found: Array = (pattern & ((1 << (bits - 1)) - 1) ^ sign) - sign
    return found


def _apart(a: Array, b: Array) -> Steps:
    """``|a - b|`` of integers. It always fits, except for s64 beside u64, where it is clamped to 2**64 - 1."""
    if a.dtype == b.dtype:
        unsigned = f"u{a.itemsize}"
        apart: Steps = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)  # modulo a power of two
        return apart
    signed, other = (a, b) if a.dtype == _SIGNED else (b, a)
    size = np.abs(signed).astype(_UNSIGNED)
    total = other + size
    negative = np.where(total < other, np.uint64(2**64 - 1), total)
    return np.where(signed < 0, negative, np.where(other > size, other - size, size - other))
