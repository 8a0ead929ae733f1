"""What is touched lies inside the buffer, or nothing is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import strided as sd
from strided.planning.runs import runs_around
from strided.runtime import limits
from strided.transfer.bounds import holds, holds_view, least_size, refuse_outside
from strided.transfer.chunks import chunks
from strided.transfer.copy import fill
from strided.transfer.region import Region
from tests.regions import map_of, row_major

UNEVEN = "f32[12,40]{1,0:T(6,8)(4,2)}"


def region(size: int, *, base: int = 0) -> Region:
    return Region(np.zeros(size, np.uint8), replace(row_major((3, 5)), base=base), 16)


@pytest.mark.parametrize(("size", "base", "held"), [(30, 0, True), (29, 0, False), (32, 1, True), (30, -1, False)])
def test_a_view_is_held_to_its_last_byte(size: int, base: int, held: bool) -> None:
    found = region(size, base=base)
    assert holds_view(found) is held
    if not held:
        with pytest.raises(sd.BufferSizeError, match=f"the view takes the bytes from .* buffer of {size} bytes"):
            refuse_outside(found, found.storage.byte_span(base, base + 14), "view")


def test_an_irregular_view_is_refused_by_the_offset_of_its_last_element() -> None:
    map_ = map_of(UNEVEN)
    assert not map_.is_regular
    needed = 4 * (int(map_.offsets().max()) + 1)
    refuse_outside(Region(np.zeros(needed, np.uint8), map_, 32), None, "source")
    with pytest.raises(sd.BufferSizeError, match="the source takes the bytes") as error:
        refuse_outside(Region(np.zeros(needed - 1, np.uint8), map_, 32), None, "source")
    assert (error.value.actual, error.value.needed) == (needed - 1, needed)


@pytest.mark.parametrize("small_elements", [0, 100], ids=["by a plan", "by NumPy"])
@pytest.mark.parametrize("base", [-1, 2])
def test_nothing_is_filled_if_elements_lie_outside(base: int, small_elements: int) -> None:
    found = region(32, base=base)
    with limits.replaced(small_elements=small_elements, tiny_elements=small_elements, compile_first=1):
        with pytest.raises(sd.BufferSizeError, match="the destination takes the bytes"):
            fill(found, 0x101)
        assert not found.buffer.any()
        fill(found._replace(map=replace(found.map, base=1)), 0x101)
    assert found.buffer.tolist() == [0] * 2 + [1] * 30


@pytest.mark.parametrize("small_elements", [0, 100], ids=["by a plan", "by NumPy"])
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_nothing_is_filled_if_the_last_byte_is_not_there(bits: int, small_elements: int) -> None:
    """Of an odd number of elements, half of a byte may be the last one's."""
    memory = np.zeros(-(-15 * bits // 8), np.uint8)
    with limits.replaced(small_elements=small_elements, tiny_elements=small_elements, compile_first=1):
        with pytest.raises(sd.BufferSizeError, match=f"buffer of {memory.size - 1} bytes"):
            fill(Region(memory[:-1], row_major((3, 5)), bits), 1)
        assert not memory.any()
        fill(Region(memory, row_major((3, 5)), bits), 1)
    assert memory[-1] == (bits < 16)


@pytest.mark.parametrize("size", range(25, 130))
def test_runs_are_made_longer_within_their_room(size: int) -> None:
    """As lines or bytes, where all of that is there."""
    for start in (0, 3, 10):
        (found,) = runs_around(replace(row_major((3, 5)), base=start), 8, 8, room=8 * size)
        assert (found.base, found.loops) == (0 if size >= 64 else start, ())
        assert found.base + found.run_bytes == (64 if size >= 64 else start + 15)


def test_no_buffer_is_large_enough_for_what_begins_before_it() -> None:
    assert least_size((0, 7)) == 7
    assert not holds(region(32), (-1, 7))
    assert least_size((-1, 7)) > 1 << 62
    assert least_size(None) > 1 << 62


@pytest.mark.parametrize(
    ("shape", "first"), [((1 << 60, 3), (21840, 3)), ((3, 1 << 60), (1, 1 << 16)), ((1 << 60, 0), None)]
)
def test_boxes_of_a_long_axis_are_not_listed_first(shape: tuple[int, ...], first: tuple[int, ...] | None) -> None:
    box = next(chunks(shape), None)
    assert first == (None if box is None else tuple(stop - start for start, stop in box))
