"""Whole tiles that were written in column-major order of their grid but are read in row-major order, or the reverse."""

from __future__ import annotations

import math

from strided.diagnosis.difference.causes.moved.slots import from_slots, in_memory
from strided.diagnosis.difference.causes.observations import Observations
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern


def tile_order(observed: Observations) -> Pattern | None:
    """The order in which b has a's tiles."""
    b = in_memory(observed.b)
    if b is None or not b.layout.tiles:
        return None
    tile = b.layout.tiles[0].dimensions
    if len(tile) != 2 or len(observed.shape) < 2:
        return None
    sides = zip(b.layout.minor_to_major, reversed(tile), strict=False)
    columns, rows = (-(-observed.shape[d] // n) for d, n in sides)
    if min(rows, columns) == 1:
        return None
    orders = ("column by column", "row by row")
    for down, across, words, instead in ((rows, columns, *orders), (columns, rows, *orders[::-1])):

        def origin(slots: Numbers, down: int = down, across: int = across) -> Numbers:
            return _slots_of_other_order(slots, down, across, math.prod(tile))

        test = observed.moved(from_slots(b, origin))
        if share := observed.share_in_whole_array(test):
            said = f"the tiles of b are a's, {words} of their grid instead of {instead}"
            sentence = observed.sentence(said, share, test)
            return Pattern("tiles", words, share, sentence)
    return None


def _slots_of_other_order(slots: Numbers, down: int, across: int, tile: int) -> Numbers:
    """Slots after the tiles of a grid are renumbered from column-major to row-major order.

    >>> import numpy as np
    >>> _slots_of_other_order(np.arange(6), down=2, across=3, tile=1).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    plane, within = divmod(slots, down * across * tile)
    number, within = divmod(within, tile)
    turned: Numbers = (plane * down * across + number % down * across + number // down) * tile + within
    return turned
