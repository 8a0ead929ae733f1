"""b is a simple function of a: the conjugate, the absolute value, inverted bits, rounding to whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from strided.diagnosis.bit_patterns import own_bits, pattern_words
from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.observations import Observations, Probe, Test, Values, share_of
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import are_equal, common_dtype, converted, is_float
from strided.layout.element_types import element_type_of_dtype


class _Operation(NamedTuple):
    """A function: `where` and words of the pattern, its test, and whether mismatches alone show it."""

    where: str
    words: str
    test: Test
    is_told_by_mismatches: bool = False


def operation(observed: Observations) -> Pattern | None:
    """The first function that explains all mismatches; one that keeps some values must fit all elements."""
    dtype = common_dtype(observed.a.dtype, observed.b.dtype)
    if dtype is None or not is_no_chance(observed, 0):
        return None
    for each in _operations(observed, dtype):
        share = observed.share_of_mismatches if each.is_told_by_mismatches else observed.share_in_whole_array
        if share(each.test) == 1:
            return Pattern("operation", each.where, 1.0, observed.sentence(f"b is {each.words}", 1, each.test))
    return None


def _operations(observed: Observations, dtype: np.dtype[np.generic]) -> Iterator[_Operation]:
    def of(function: Callable[[Values], Values]) -> Test:
        return _test(observed, function, dtype)

    if dtype.kind == "c":
        yield _Operation("conjugate", "the complex conjugate of a", of(np.conj), True)
        return
    if is_float(dtype) and _are_whole(observed.few.values):
        yield _Operation("truncated", "a truncated to whole numbers", of(np.trunc))
        yield _Operation("rounded", "a rounded to whole numbers", of(np.rint))
        yield _Operation("floor", "a rounded down to whole numbers", of(np.floor))
        yield _Operation("ceil", "a rounded up to whole numbers", of(np.ceil))
    if observed.a.dtype == observed.b.dtype and dtype.kind != "b":
        yield _Operation("bits inverted", "a with all bits of each element inverted", _of_bits(observed), True)
    if observed.tally.negated == observed.tally.count:
        yield _Operation("absolute value", "the absolute value of a", of(np.abs))


def _are_whole(values: Values) -> bool:
    with np.errstate(all="ignore"):
        own = converted(values, np.dtype(np.float64))
        return bool((own == np.rint(own)).all())


def _test(observed: Observations, change: Callable[[Values], Values], dtype: np.dtype[np.generic]) -> Test:
    def test(probe: Probe) -> float:
        with np.errstate(all="ignore"):
            changed = change(converted(observed.a.at(probe.points), dtype))
        return share_of(are_equal(changed, converted(probe.values, dtype), observed.tolerance))

    return test


def _of_bits(observed: Observations) -> Test:
    """The hypothesis that all bits are inverted; of narrow types, only the bits that they have."""
    bits = element_type_of_dtype(observed.a.dtype).bits

    def test(probe: Probe) -> float:
        a, b = (pattern_words(converted(x, x.dtype)) for x in (observed.a.at(probe.points), probe.values))
        return share_of((own_bits(a, bits) == own_bits(~b, bits)).all(axis=-1))

    return test
