"""Partial results of reductions: of one block, and combined from two (see `block_reduce.Reduction`).

Within a block, NumPy adds in the dtype `work`; across blocks, double precision is used.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from strided.arrays.base import Array
from strided.arrays.block_reduce import Partial
from strided.arrays.blocks import Box

Axes = tuple[int, ...]


def _wide(x: Any) -> Array:
    """Floating point converted to double precision; other dtypes unchanged."""
    array: Array = np.asarray(x)
    if array.dtype.kind == "c":
        array = array.astype(np.complex128, copy=False)
    elif array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.float64)
    return array


def _count(values: Array, where: Any, axes: Axes) -> Array:
    """The number of elements of a block that are reduced."""
    if where is True:
        return np.asarray(math.prod(values.shape[k] for k in axes), np.intp)
    return np.add.reduce(np.broadcast_to(where, values.shape), axis=axes, dtype=np.intp, keepdims=True)


def _chosen(values: Array, where: Any, skip: bool) -> Any:
    """The mask `where`; with `skip`, without NaN elements."""
    if not skip or values.dtype.kind in "iub":
        return where
    found = values == values
    return found if where is True else found & where


def block_sum(values: Array, where: Any, box: Box, axes: Axes, *, work: np.dtype[Any], skip: bool) -> Partial:
    """The number of elements and their sum."""
    where = _chosen(values, where, skip)
    total = np.add.reduce(values, axis=axes, dtype=work, keepdims=True, where=where)
    return _count(values, where, axes), _wide(total)


def block_moments(values: Array, where: Any, box: Box, axes: Axes, *, work: np.dtype[Any], skip: bool) -> Partial:
    """The number of elements, their mean as a large and a small part, and the sum of squared deviations.

    Means of blocks are nearly equal; in a single part, rounding errors would exceed their differences.
    """
    where = _chosen(values, where, skip)
    own = None if values.dtype == work else values.astype(work)
    values = values if own is None else own
    n = _count(values, where, axes)
    add = partial(np.add.reduce, axis=axes, keepdims=True, where=where)
    some = np.maximum(n, 1)
    near = np.asarray(add(values) / some).astype(work, copy=False)
    with np.errstate(invalid="ignore"):  # an infinite mean, of which `reductions` warns
        apart = np.subtract(values, near, out=own)
    # `near` is rounded; the remainder corrects both the mean and the squares.
    rest = _wide(add(apart)) / some
    # As in NumPy, if the sum overflows, deviations from the mean are infinite.
    rest = np.where(np.isinf(near), 0, rest)
    squares = _wide(add(_squared(apart) if apart.dtype.kind == "c" else np.square(apart, out=apart)))
    return n, _wide(near), rest, np.maximum(squares - _squared(rest) * n, 0)


def _squared(x: Array) -> Array:
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x


def merged_moments(first: Partial, second: Partial) -> Partial:
    """`block_moments` of two combined, by the pairwise update of Chan, Golub and LeVeque (1979)."""
    (n, mean, rest, squares), (m, other, small, more) = first, second
    total = n + m
    share = m / np.maximum(total, 1)
    if np.any(opposite := np.isinf(mean) & (other == -mean)):
        np.add.reduce([mean[opposite], other[opposite]])  # to have NumPy warn of inf - inf
    with np.errstate(invalid="ignore"):  # infinite means
        apart = np.where(m == 0, 0, (other - mean) + (small - rest))
        step = apart * share + rest
        large = np.where(np.isinf(mean) | np.isinf(other), mean + other, mean + step)
        none = n == 0
        squares = squares + more
        squares = squares + np.where(none | np.isinf(squares), 0, _squared(apart) * (n * share))
        return total, np.where(none, other, large), np.where(none, small, step - (large - mean)), squares


def block_extreme(values: Array, where: Any, box: Box, axes: Axes, *, ufunc: np.ufunc, initial: Any) -> Partial:
    """The elements reduced by `ufunc`, such as `np.maximum`."""
    extra = {} if initial is None else {"initial": initial}
    return (np.asarray(ufunc.reduce(values, axis=axes, keepdims=True, where=where, **extra)),)


def block_place(values: Array, where: Any, box: Box, axes: Axes, *, function: Any, shape: tuple[int, ...]) -> Partial:
    """The extreme element and its index: along the one reduced axis, or among all elements."""
    if len(axes) == values.ndim:
        local = np.unravel_index(function(values), values.shape)
        index = tuple(i + block.start for i, block in zip(local, box, strict=True))
        ones = (1,) * values.ndim
        return values[local].reshape(ones).copy(), np.reshape(np.ravel_multi_index(index, shape), ones)
    index = function(values, axis=axes[0], keepdims=True)
    return np.take_along_axis(values, index, axes[0]), index + box[axes[0]].start


def first_place(first: Partial, second: Partial, *, better: np.ufunc) -> Partial:
    """The more extreme of two, where NaN comes first; of equal ones, that with the lower index."""
    (value, index), (other, place) = first, second
    is_nan, other_nan = value != value, other != other
    same = (value == other) | (is_nan & other_nan)
    with np.errstate(invalid="ignore"):  # complex NaN
        take = (better(other, value) | (other_nan & ~is_nan)) & ~same | (same & (place < index))
    return np.where(take, other, value), np.where(take, place, index)


def combined(first: Partial, second: Partial, *, ufunc: np.ufunc) -> Partial:
    """Two partial results combined by `ufunc`, array by array."""
    return tuple(ufunc(x, y) for x, y in zip(first, second, strict=True))
