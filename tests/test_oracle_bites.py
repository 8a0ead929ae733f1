"""The comparisons must fail where something is wrong: a wrong layout, bit, byte, value, type or error is caught.

Each test takes what is right, makes it a little wrong, and requires that the check of `tests/checks.py` notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests import oracle
from tests.cases import CORPUS, Case, patterns_of, some_values
from tests.checks import (
    Guarded,
    check_addresses,
    check_same,
    check_same_assignment,
    encoded,
    same_error,
    same_values,
    shape_of,
)


def mutations(case: Case) -> Iterator[tuple[str, Case]]:
    """Layouts that are a little wrong."""
    order, tiles = case.minor_to_major, case.tiles
    if len(order) > 1:
        yield "reversed order", replace(case, minor_to_major=order[::-1])
        yield "two dimensions swapped", replace(case, minor_to_major=(order[1], order[0], *order[2:]))
    if tiles:
        last, first = tiles[-1], tiles[0]
        yield "no tiles", replace(case, tiles=())
        yield "last tile forgotten", replace(case, tiles=tiles[:-1])
        yield "first tile forgotten", replace(case, tiles=tiles[1:])
        if oracle.COMBINE not in last:
            yield "last tile turned round", replace(case, tiles=(*tiles[:-1], last[::-1]))
        if oracle.COMBINE not in first:
            yield "first tile turned round", replace(case, tiles=(first[::-1], *tiles[1:]))
        yield "tile too large by one", replace(case, tiles=((*first[:-1], int(first[-1]) + 1), *tiles[1:]))
        yield "tiles in another order", replace(case, tiles=tiles[::-1])
        yield "one tile twice", replace(case, tiles=(*tiles, last))
        if oracle.COMBINE in first:
            yield "one instead of a star", replace(case, tiles=(tuple(1 if t == "*" else t for t in first), *tiles[1:]))
    else:
        yield "a tile too many", replace(case, tiles=((2, 2),))
    if case.tail_alignment > 1:
        yield "no alignment", replace(case, tail_alignment=1)
    yield "alignment", replace(case, tail_alignment=case.tail_alignment * 7)
    if case.dimensions:
        padded = tuple(n + 1 for n in case.dimensions)
        if not tiles:
            yield "padded by one", replace(case, padded_dimensions=padded)


def test_wrong_layouts_are_caught_by_their_addresses() -> None:
    """Every wrong layout whose slots differ is caught; and most of the mutations do make a difference."""
    caught = harmless = 0
    for text in CORPUS.values():
        case = Case.parse(text)
        right = oracle.slots(case.spec)
        for _, wrong in mutations(case):
            if oracle.slots(wrong.spec) == right:
                harmless += 1
                continue
            with pytest.raises((AssertionError, IndexError)):
                check_addresses(shape_of(wrong), case.spec)
            caught += 1
        check_addresses(shape_of(case), case.spec)
    assert caught > 200
    assert caught > 2 * harmless


def test_wrong_layouts_are_caught_by_their_values() -> None:
    """The oracle's buffer read by another layout gives other values, or does not fit."""
    caught = 0
    for text in CORPUS.values():
        case = Case.parse(text)
        values = some_values(case, 3)
        buffer = encoded(case, values)
        places = oracle.offsets(case.spec)
        for _, wrong in mutations(case):
            if oracle.offsets(wrong.spec) == places:
                continue
            try:
                found = oracle.decode(wrong.spec, buffer)
            except (AssertionError, IndexError):
                found = {}
            if found == patterns_of(values, case.bits):
                continue  # few elements of few values: a wrong place may hold the right one
            with pytest.raises((AssertionError, sd.BufferSizeError)):
                same_values(sd.LayoutArray(buffer, shape_of(wrong)), values, case.bits)
            caught += 1
    assert caught > 150


@pytest.mark.parametrize("text", ["s4[7]{0:E(4)}", "u2[5,3]{0,1:T(2,2)E(2)}", "pred[13]{0:E(1)}"])
def test_the_wrong_order_of_bits_is_caught(text: str) -> None:
    case = Case.parse(text)
    values = some_values(case, 1)
    with pytest.raises(AssertionError):
        same_values(sd.LayoutArray(encoded(case, values, high_first=True), text), values, case.bits)
    with pytest.raises(AssertionError):
        same_values(sd.LayoutArray(encoded(case, values), text, bitorder="big"), values, case.bits)


@pytest.mark.parametrize("text", ["s4[7]", "s4[7]{0:E(4)}"])
def test_packed_is_not_unpacked(text: str) -> None:
    case = Case.parse(text)
    values = some_values(case, 1)
    other = replace(case, element_bits=4 - case.element_bits)
    with pytest.raises((AssertionError, sd.BufferSizeError)):
        same_values(sd.LayoutArray(encoded(case, values) + b"\x00" * 3, other.text), values, 4)


CASE = Case.parse("s16[3,5]{0,1:T(2,2)}")


def test_one_wrong_bit_is_caught() -> None:
    values = some_values(CASE)
    for index in np.ndindex(3, 5):
        wrong = values.copy()
        wrong[index] ^= 1 << (index[1] * 3)
        with pytest.raises(AssertionError):
            same_values(sd.LayoutArray(encoded(CASE, wrong), CASE.text), values)


def test_nan_bits_and_signs_of_zero_count() -> None:
    same_values(np.array([np.nan]), np.array([np.nan]))
    for a, b in ((0.0, -0.0), (np.nan, -np.nan)):
        with pytest.raises(AssertionError):
            same_values(np.array([a]), np.array([b]))


@pytest.mark.parametrize("got", [np.zeros(3, "f8"), np.zeros((3, 1), "f4"), np.zeros((1, 3), "f4"), np.zeros(3, ">f4")])
def test_another_type_or_shape_is_caught(got: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        same_values(got, np.zeros(3, "f4"))


@pytest.mark.parametrize("place", [0, -1, 32, -33])
def test_a_byte_outside_the_buffer_is_missed(place: int) -> None:
    guarded = Guarded(b"abc")
    assert guarded.content() == b"abc"
    guarded.whole[place] ^= 1
    with pytest.raises(AssertionError, match="the buffer"):
        guarded.content()


def test_errors_in_other_words_or_of_another_type_are_caught() -> None:
    same_error(IndexError("no"), IndexError("no"))
    same_error(None, None)
    for got, expected in [
        (IndexError("no"), IndexError("No")),
        (ValueError("no"), IndexError("no")),
        (None, IndexError("no")),
        (IndexError("no"), None),
    ]:
        with pytest.raises(AssertionError, match=r"NumPy (says|raises|accepts)"):
            same_error(got, expected)


class Skewed:
    """A LayoutArray that answers a key with the answer to another one."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.buffer = np.zeros(1, np.uint8)

    def __getitem__(self, key: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ((0, 0), np.zeros((), np.int16)),  # an array for a scalar
        ((0, 0), 0),  # Python's integer for NumPy's
        ((0, 0), np.int16(1)),
        ([0], sd.LayoutArray(bytes(10), "s16[1,5]")),  # a view for a copy
        (slice(1), np.zeros((1, 5), np.int16)),  # a copy for a view
        ([0], np.zeros((5,), np.int16)),
        ([0], np.zeros((1, 5), np.int32)),
        (9, np.zeros(5, np.int16)),  # a value for an error
    ],
)
def test_answers_to_a_key_that_numpy_would_not_give_are_caught(key: Any, answer: Any) -> None:
    reference = np.zeros((3, 5), np.int16)
    with pytest.raises(AssertionError):
        check_same(Skewed(answer), reference, key)  # type: ignore[arg-type]
    check_same(sd.LayoutArray(bytes(30), "s16[3,5]"), reference, key)


@pytest.mark.parametrize("slip", ["nothing written", "padding written", "a neighbour written", "another value written"])
def test_assignments_that_go_wrong_are_caught(slip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = sd.LayoutArray.__setitem__

    def slipping(self: sd.LayoutArray, key: Any, value: Any) -> None:
        if slip == "another value written":
            return original(self, key, value + 1)
        if slip != "nothing written":
            original(self, key, value)
        if slip == "padding written":
            self.buffer[-1] = 0
        if slip == "a neighbour written":
            self.buffer[0] ^= 1
        return None

    check_same_assignment(CASE, some_values(CASE), (1, 2), 7)
    monkeypatch.setattr(sd.LayoutArray, "__setitem__", slipping)
    with pytest.raises(AssertionError):
        check_same_assignment(CASE, some_values(CASE), (1, 2), 7)
