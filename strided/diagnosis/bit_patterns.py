"""The bits of values as unsigned integers, which tell values apart that compare equal, and NaNs from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: A factor for hashes of patterns and numbers: 2**64 over the golden ratio, made odd, by which those in turn lie far
#: apart (Knuth, TAOCP 3, 6.4: Fibonacci hashing).
FIBONACCI = np.uint64(0x9E3779B97F4A7C15)


def patterns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of each value as one unsigned integer; of complex128 as two, along a last axis.

    >>> patterns(np.array([1.0, -1.0], np.float16)).tolist()
    [15360, 48128]
    >>> patterns(np.array([0, 5e-324j])).tolist()
    [[0, 0], [0, 1]]
    """
    size = values.dtype.itemsize
    return values.view(f"u{size}") if size <= 8 else pattern_words(values)


def own_bits(patterns: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Patterns, or words of them, of elements of so many bits, without what fills the byte of a narrow one.

    >>> own_bits(np.array([0xF3], np.uint8), 4).tolist()
    [3]
    """
    own: npt.NDArray[Any] = patterns & patterns.dtype.type((1 << min(bits, 8 * patterns.itemsize)) - 1)
    return own


def pattern_words(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of values as words of at most 64 bits, with a last axis for the words of an element.

    >>> pattern_words(np.array([[1.0, -0.0]], np.float16)).tolist()
    [[[15360], [32768]]]
    """
    size = min(8, values.dtype.itemsize)
    # One axis first: NumPy does not cut the only element of an array without axes.
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(f"u{size}").reshape(*values.shape, values.dtype.itemsize // size)
