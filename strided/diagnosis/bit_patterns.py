"""The bits of values as unsigned integers, which distinguish 0 from -0, and NaNs from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: A factor for hashes: 2**64 over the golden ratio, made odd, which spreads consecutive numbers widely (Fibonacci
#: hashing; Knuth, TAOCP 3, 6.4).
FIBONACCI = np.uint64(0x9E3779B97F4A7C15)


def patterns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of each value as one unsigned integer; for complex128 as two, along a new last axis.

    >>> patterns(np.array([1.0, -1.0], np.float16)).tolist()
    [15360, 48128]
    >>> patterns(np.array([0, 5e-324j])).tolist()
    [[0, 0], [0, 1]]
    """
    size = values.dtype.itemsize
    return values.view(f"u{size}") if size <= 8 else pattern_words(values)


def own_bits(patterns: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Patterns of elements of `bits` bits, with the unused bits of a narrow element's byte cleared.

    >>> own_bits(np.array([0xF3], np.uint8), 4).tolist()
    [3]
    """
    own: npt.NDArray[Any] = patterns & patterns.dtype.type((1 << min(bits, 8 * patterns.itemsize)) - 1)
    return own


def pattern_words(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of values as words of at most 64 bits, with a new last axis for the words of an element.

    >>> pattern_words(np.array([[1.0, -0.0]], np.float16)).tolist()
    [[[15360], [32768]]]
    """
    size = min(8, values.dtype.itemsize)
    # Flattened first, because NumPy does not split the element of a 0-d array.
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(f"u{size}").reshape(*values.shape, values.dtype.itemsize // size)
