"""A small world, all of it: rows and tables of few elements, every width, step and first place, beside a page's end.

``python -m tests.fuzz.small_world SEED``. With ``--seconds`` as much of the world is tried as there is time for, in an
order that the seed gives. The oracle adds up steps.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.transfer import copy as transfer
from strided.transfer.copy import Region
from tests.fuzz import limits
from tests.fuzz.arena import Arena
from tests.fuzz.guard_pages import Record
from tests.fuzz.slots import buffer_of, slots_of


class Case(NamedTuple):
    """A copy between elements at equal steps, (extent, step) for each axis, and dense ones, there or back."""

    bits: int
    other_bits: int
    first: int
    axes: tuple[tuple[int, int], ...]
    turned: bool
    back: bool

    @property
    def places(self) -> np.ndarray:
        """The slots of the elements that lie at equal steps."""
        places = np.full([n for n, _ in self.axes], self.first)
        for k, (extent, step) in enumerate(self.axes):
            places += (np.arange(extent) * step).reshape([-1 if k == i else 1 for i in range(len(self.axes))])
        return places


_WIDTHS = [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (1, 8), (2, 8), (4, 8)]


def rows() -> Iterator[Case]:
    """Elements of one axis at every step up to that of a word of the smallest, either way."""
    extents = [*range(1, 20), 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 130, 200]
    steps = [1, 2, 3, 4, 5, 7, 8, 16, 32, -1, -2, -4, -8]
    for widths, extent, step, first, back in itertools.product(_WIDTHS, extents, steps, range(5), (False, True)):
        start = first + (extent - 1) * -step if step < 0 else first
        yield Case(*widths, start, ((extent, step),), False, back)


def tables() -> Iterator[Case]:
    """Columns of tables whose rows are one word, or nearly: every range of columns, and every first place."""
    for bits, other in ((2, 8), (4, 8), (2, 2), (4, 4), (8, 8), (16, 16)):
        word = 32 // bits
        for row, lines in itertools.product((word - 1, word, word + 1, 2 * word), (1, 2, 15, 16, 17, 33, 64, 65)):
            ranges = [(a, b) for a in range(min(row, 9)) for b in range(a + 1, min(row, 9) + 1)]
            for (a, b), first, turned, back in itertools.product(
                ranges, (0, 1, word // 2), (False, True), (False, True)
            ):
                yield Case(bits, other, first + a, ((lines, row), (b - a, 1)), turned, back)


def check(case: Case, arenas: list[Arena], content: np.random.Generator) -> None:
    """Convert in buffers that end with the last element, which lies beside a page that is not there.

    Packed elements lie in either order in their bytes.
    """
    places = case.places
    from_high, to_high = (bool(high) for high in content.integers(0, 2, 2))
    shape = places.shape[::-1] if case.turned else places.shape
    step_sizes = [-(-(int(places.max()) + 1) * case.bits // 8), -(-places.size * case.other_bits // 8)]
    stepped = AddressMap.from_strides(places.shape, [step for _, step in case.axes], case.first)
    if case.turned:
        stepped = stepped.transposed((1, 0))
    dense = AddressMap.from_strides(shape, [int(np.prod(shape[k + 1 :])) for k in range(len(shape))])
    sides = [(stepped, case.bits, (places.T if case.turned else places).reshape(-1), step_sizes[0])]
    sides.append((dense, case.other_bits, np.arange(places.size), step_sizes[1]))
    (from_map, from_bits, from_places, from_size), (to_map, to_bits, to_places, to_size) = sides[
        :: -1 if case.back else 1
    ]
    source, target = arenas[0].place(from_size, at_end=True), arenas[1].place(to_size, at_end=True)
    source[:] = content.integers(0, 256, from_size, dtype=np.uint8)
    target[:] = content.integers(0, 256, to_size, dtype=np.uint8)
    wanted, numbers = slots_of(target, to_bits, high_first=to_high), slots_of(source, from_bits, high_first=from_high)
    wanted[to_places] = numbers[from_places] & np.uint64((1 << min(from_bits, to_bits)) - 1)
    kept = source.copy()
    transfer.copy(Region(source, from_map, from_bits, not from_high), Region(target, to_map, to_bits, not to_high))
    assert np.array_equal(target, buffer_of(wanted, to_bits, high_first=to_high)), case
    assert np.array_equal(source, kept), case


def campaign(seed: int, seconds: float, path: Path | None = None) -> int:
    """Check the world, or as much of it as there is time for; how many cases that was."""
    arenas, content, record = [Arena(1 << 16), Arena(1 << 16)], np.random.default_rng(seed), Record(path)
    limits.guard_own_memory()
    cases = [*rows(), *tables()]
    random.Random(seed).shuffle(cases)
    end = time.monotonic() + seconds
    for done, case in enumerate(cases):
        if done % 1000 == 0:
            limits.choose(random.Random(f"limits {seed} {done}"))
        record.write("seed", seed, "case", done, case)
        check(case, arenas, content)
        if time.monotonic() > end:
            return done + 1
    return len(cases)


def main() -> None:
    """Run the campaign and print its counts as JSON."""
    parser = argparse.ArgumentParser(description=campaign.__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--record", type=Path, help="file that says what is being done")
    given = parser.parse_args()
    faulthandler.enable()
    json.dump({"conversions": campaign(given.seed, given.seconds, given.record)}, sys.stdout)


if __name__ == "__main__":
    main()
