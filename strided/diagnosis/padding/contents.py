"""Classify lines of padding by their contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: The kinds of contents; lines have the index of their kind.
KINDS = ("zero", "constant", "stale", "finite", "nan", "noise")
ZERO, CONSTANT, STALE, FINITE, NAN, NOISE = range(len(KINDS))

Kinds = npt.NDArray[np.int64]

#: With fewer elements, noise cannot be distinguished from data.
_LEAST_NOISE = 100
#: How often two leading bytes of noise are equal at most, relative to uniform independent bytes. For 8-bit weights with
#: a normal distribution over the whole range, the ratio is 1.8.
_NOISE = 1.3


def is_nan(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """A mask of NaN values."""
    if values.dtype.kind in "iub" or (values.dtype.kind == "V" and np.can_cast(values.dtype, np.int8)):
        return np.zeros(values.shape, np.bool_)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        return np.asarray(np.isnan(values), np.bool_)


def kinds_of(values: npt.NDArray[Any], bits: npt.NDArray[Any]) -> Kinds:
    """The kind of each line by itself: lines that may turn out stale or noise are "finite" or "nan" so far.

    >>> from strided.diagnosis.bit_patterns import pattern_words
    >>> lines = np.array([[0, 0, 0], [7, 7, 7], [1, 2, 0], [np.nan] * 3, [np.nan, 1, 2]])
    >>> [KINDS[kind] for kind in kinds_of(lines, pattern_words(lines))]
    ['zero', 'constant', 'finite', 'nan', 'nan']
    """
    found = np.full(len(values), FINITE)
    is_constant = (bits == bits[:, :1]).all(axis=(1, 2))
    found[is_constant] = CONSTANT
    found[is_constant & ~bits[:, 0].any(axis=1)] = ZERO
    left = np.flatnonzero(found != ZERO)
    found[left[is_nan(values[left]).any(axis=1)]] = NAN
    return found


def are_numbers(kinds: Kinds, numbers: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which lines hold numbers that are not all equal; `numbers` marks elements that are neither zero nor NaN."""
    return np.asarray((kinds == FINITE) | ((kinds == NAN) & numbers.any(axis=1)))


def leading_bytes(bits: npt.NDArray[Any], element_bits: int) -> Kinds:
    """A histogram of the leading byte; zeros for packed elements."""
    if element_bits < 8:
        return np.zeros(256, np.int64)
    leading = bits[..., -1] >> bits.dtype.type(8 * bits.dtype.itemsize - 8)
    return np.bincount(leading.astype(np.uint8).reshape(-1), minlength=256)


def is_noise(counts: Kinds) -> bool:
    """Whether leading bytes are distributed uniformly, unlike those of numbers.

    >>> from strided.diagnosis.bit_patterns import pattern_words
    >>> numbers = np.random.default_rng(0)
    >>> is_noise(leading_bytes(pattern_words(numbers.integers(0, 2**32, 1000, np.uint32)), 32))
    True
    >>> is_noise(leading_bytes(pattern_words(numbers.normal(size=1000).astype(np.float16)), 16))
    False
    """
    size, share = int(counts.sum()), counts.astype(np.float64)
    return size >= _LEAST_NOISE and bool((share * (share - 1)).sum() * 256 < _NOISE * size * (size - 1))
