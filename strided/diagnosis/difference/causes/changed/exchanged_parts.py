"""b has a's elements with parts exchanged: bytes, halves, bytes of 16-bit units, real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from strided.diagnosis.bit_patterns import pattern_words
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values, share_of
from strided.diagnosis.difference.result import Pattern


def exchanged_parts(observed: Observations) -> Pattern | None:
    """The parts that are exchanged in all or nearly all mismatches."""
    a, b = observed.a, observed.b
    if a.dtype != b.dtype:
        return None
    for where, words, change in _exchanges(a.dtype):

        def test(probe: Probe, change: Callable[[Values], Values] = change) -> float:
            changed = pattern_words(change(a.at(probe.points)))
            return share_of((changed == pattern_words(probe.values)).all(axis=-1))

        if share := observed.share_of_mismatches(test):
            return Pattern("swap", where, share, observed.sentence(f"b has {words}", share, test))
    return None


def _exchanges(dtype: np.dtype[np.generic]) -> Iterator[tuple[str, str, Callable[[Values], Values]]]:
    """Possible exchanges in elements of a type: `where` and words of the pattern, and a function that does it."""
    is_complex = dtype.kind == "c"
    size = dtype.itemsize // (2 if is_complex else 1)
    if size > 1:  # of complex numbers those of each part
        yield "bytes", "the bytes of each element in reverse order", lambda x: _exchanged(x, size, size)
    if is_complex:
        where = "real and imaginary parts"
        yield where, f"the {where} exchanged", lambda x: _exchanged(x, dtype.itemsize, 2)
    unit = "part" if is_complex else "element"
    if size > 2:
        halves = f"{4 * size}-bit halves"
        yield halves, f"the two {halves} of each {unit} exchanged", lambda x: _exchanged(x, size, 2)
        yield "16 bits", f"the two bytes of each 16 bits of each {unit} exchanged", lambda x: _exchanged(x, 2, 2)
    if size == 8:
        quarters = "16-bit quarters"
        yield quarters, f"the four {quarters} of each {unit} in reverse order", lambda x: _exchanged(x, size, 4)


def _exchanged(values: Values, size: int, parts: int) -> Values:
    """Values with the `parts` parts of each unit of `size` bytes in reverse order.

    >>> [hex(i) for i in _exchanged(np.array([0x11112222], np.uint32), 4, 2)]
    ['0x22221111']
    """
    units = np.ascontiguousarray(values).view(f"u{size // parts}").reshape(-1, parts)
    found: Values = np.ascontiguousarray(units[:, ::-1]).reshape(-1).view(values.dtype)
    return found
