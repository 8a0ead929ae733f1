"""Comparisons: a buffer with the oracle, an array with NumPy, guard bytes around both.

`tests/test_oracle_bites.py` shows that each of them fails where it must.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests import oracle
from tests.cases import Case, patterns_of

#: Bytes before and behind a buffer that nobody may touch. Odd, so that no element is aligned.
GUARD = 33


class Guarded:
    """A buffer between guard bytes; where it is not `writable` nobody can touch anything."""

    def __init__(self, content: bytes | bytearray, *, writable: bool = True) -> None:
        fence = bytes(range(101, 101 + GUARD))
        self.whole = np.frombuffer(bytearray(fence + content + fence), np.uint8)
        self.buffer = self.whole[GUARD : GUARD + len(content)]
        self.buffer.flags.writeable = writable
        self._fence = fence

    def content(self) -> bytes:
        """What is in the buffer, once the guards were found in order."""
        assert self.whole[:GUARD].tobytes() == self._fence, "bytes before the buffer were written"
        assert self.whole[len(self.whole) - GUARD :].tobytes() == self._fence, "bytes behind the buffer were written"
        return self.buffer.tobytes()


def shape_of(case: Case) -> sd.Shape:
    """The case as the package's value: through its text, or for a legacy layout from numbers."""
    if not case.padded_dimensions:
        shape = sd.parse(case.text)
        assert isinstance(shape, sd.Shape)
        return shape
    layout = sd.Layout(
        case.minor_to_major, padded_dimensions=case.padded_dimensions, element_size_in_bits=case.element_bits
    )
    return sd.Shape(case.element_type, case.dimensions, layout)


def poison(case: Case) -> int:
    """A pattern for padding that would be seen if it were read as data: all bits set (1 for pred in whole bytes)."""
    return 1 if case.element_type == "pred" else (1 << case.bits) - 1


def encoded(case: Case, values: np.ndarray, *, high_first: bool = False) -> bytes:
    """The buffer that the oracle makes of the values, its padding poisoned."""
    patterns = patterns_of(values, case.bits)
    return bytes(oracle.encode(case.spec, patterns, padding=poison(case), high_first=high_first))


# --- addresses against the oracle -----------------------------------------------------------------------------------


def check_addresses(shape: sd.Shape, spec: oracle.Spec) -> None:
    """Every element and every slot, both ways, in one call each, some of them one by one, and where they end."""
    places, slots, rank = oracle.offsets(spec), oracle.slots(spec), len(spec.dimensions)
    offsets = np.array(list(places.values()), np.int64)
    if rank:
        indices = np.array(list(places), np.int64).reshape(len(places), rank)
        got = shape.offset_of(tuple(indices.T))
        assert isinstance(got, np.ndarray)
        assert got.dtype == np.int64
        assert np.array_equal(got, offsets), "offset_of"
        found = np.stack(shape.index_at(np.arange(len(slots))), axis=-1)
        assert [None if i[0] < 0 else tuple(i) for i in found.tolist()] == slots, "index_at"
    for index, offset in list(places.items())[:: max(1, len(places) // 7)]:
        one = shape.offset_of(index)
        assert type(one) is int
        assert one == offset, "offset_of"
    for offset in range(0, len(slots), max(1, len(slots) // 11)):
        assert shape.index_at(offset) == slots[offset], "index_at"
    assert shape.byte_size == oracle.bytes_allocated(spec)
    assert shape.address_byte_size == oracle.bytes_by_formula(spec)
    _, error = outcome(lambda: shape.index_at(len(slots)))
    assert isinstance(error, IndexError)


# --- values against the oracle --------------------------------------------------------------------------------------


def same_values(got: Any, expected: Any, bits: int | None = None) -> None:
    """Same shape, same dtype, the same bits in every element (of small types: the low ones)."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert np.array_equal(_low_bits(got, bits), _low_bits(expected, bits))


def _low_bits(values: np.ndarray, bits: int | None) -> np.ndarray:
    """All bytes, in row-major order; of elements of fewer than eight bits only these."""
    # Copied first: the `tobytes` of NumPy 2.0 takes at most 32 axes of what is not contiguous.
    found = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    if bits is None or bits >= 8 * values.dtype.itemsize:
        return found
    assert values.dtype.itemsize == 1
    return found & np.uint8((1 << bits) - 1)


# --- NumPy has the last word ----------------------------------------------------------------------------------------


def numpy_is(version: str) -> bool:
    """Whether NumPy is of this version, such as "2.4", or newer."""
    return bool(np.lib.NumpyVersion(np.__version__) >= f"{version}.0")


def needs_numpy(version: str, reason: str) -> pytest.MarkDecorator:
    """Skip what can be held against NumPy from a version on alone; `reason` says what older ones lack."""
    return pytest.mark.skipif(not numpy_is(version), reason=f"NumPy before {version}: {reason}")


def unread(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """An array of bytes with these strides that has no memory: it may be asked for views, and never read."""
    return np.lib.stride_tricks.as_strided(np.zeros(0, np.int8), shape, strides)


def numpy_reshapes(x: np.ndarray, shape: tuple[int, ...], order: str = "C") -> bool:
    """Whether NumPy finds a view of this shape. No element is read."""
    if numpy_is("2.1"):
        return outcome(lambda: x.reshape(shape, order=order, copy=False))[1] is None
    # It has no `copy=False`; but a shape that is set needs a view.
    seen, wanted = (x.T.view(), shape[::-1]) if order == "F" else (x.view(), shape)
    return outcome(lambda: setattr(seen, "shape", wanted))[1] is None


def outcome(action: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What comes back, and what is raised."""
    # NumPy goes on with an exception set, and Python 3.13 drops that if its collector comes to run meanwhile.
    collects = gc.isenabled()
    gc.disable()
    try:
        return action(), None
    except Exception as error:
        return None, error
    finally:
        if collects:
            gc.enable()


def same_error(got: Exception | None, expected: Exception | None) -> None:
    """NumPy's exception in NumPy's words, or none."""
    if expected is None:
        if got is not None:
            raise AssertionError(f"NumPy accepts it; got {got!r}") from got
        return
    assert got is not None, f"NumPy raises {expected!r}"
    assert type(got) is type(expected), f"NumPy raises {expected!r}, got {got!r}"
    assert str(got) == str(expected), f"{str(got)!r}, NumPy says {str(expected)!r}"


def same_outcome(
    mine: Callable[[], Any], theirs: Callable[[], Any], same: Callable[[Any, Any], object] = lambda got, expected: None
) -> tuple[Any, Any] | None:
    """What both give, once compared by `same`; None where NumPy refuses it, and `mine` does in the same words."""
    expected, wanted = outcome(theirs)
    got, error = outcome(mine)
    same_error(error, wanted)
    if wanted is not None:
        return None
    same(got, expected)
    return got, expected


def check_same(array: sd.LayoutArray, reference: np.ndarray, key: Any) -> None:
    """``array[key]`` is what ``reference[key]`` is: value, dtype, shape and type, view or copy; or the same exception.

    `reference` owns its data: only so can a view be told from a copy.
    """
    assert reference.base is None
    both = same_outcome(lambda: array[key], lambda: reference[key])
    if both is None:
        return
    got, expected = both
    if not isinstance(expected, np.ndarray):
        assert type(got) is type(expected)
    elif expected.base is reference:
        assert isinstance(got, sd.LayoutArray), "NumPy gives a view"
        assert np.shares_memory(got.buffer, array.buffer) == (array.buffer.size > 0)
    else:
        assert type(got) is np.ndarray, "NumPy gives a copy"
    same_values(got, expected)


def check_same_assignment(case: Case, values: np.ndarray, key: Any, new: Any) -> None:
    """``array[key] = new`` changes the elements that NumPy changes, and not one bit beside them."""
    guarded = Guarded(encoded(case, values))
    array = sd.LayoutArray(guarded.buffer, shape_of(case))
    reference = values.copy()
    same_outcome(lambda: array.__setitem__(key, new), lambda: reference.__setitem__(key, new))
    assert guarded.content() == encoded(case, reference)


def random_layout(rng: np.random.Generator, dimensions: tuple[int, ...], element_type: str) -> Case:
    """Some layout for these dimensions."""
    order = tuple(int(d) for d in rng.permutation(len(dimensions)))
    stacks = [
        (),
        (),
        ((2, 4),),
        ((2, 4), (2, 1)),
        ((8, 128),),
        ((4,),),
        ((3, 2), (2, 1)),
        (("*", 4),),
        ((2, 2, 2), (3,)),
    ]
    return Case(element_type, dimensions, order, stacks[rng.integers(len(stacks))])
