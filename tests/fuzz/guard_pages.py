"""Random conversions between inaccessible pages, held against an oracle: ``python -m tests.fuzz.guard_pages SEED``.

A *world* is a pair of random layouts of one array. Windows, strided ndarrays, index arrays, fills and whole arrays are
converted between them, each several times, in buffers that end or begin beside a page that nobody may touch. Worlds
follow from the seed and their number alone. What is about to be done is written down first, in a file that outlives the
process: `tests/fuzz/test_guard_pages.py` reads it where the process has died.

With ``--large`` the arrays have up to some million elements, and most are converted with the limits that users have:
tasks of many rows, blocks, and lines written past the caches meet in no small array.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import strided as sd
from strided.transfer import copy as transfer
from strided.transfer.copy import Region
from tests import oracle
from tests.fuzz import layouts, limits
from tests.fuzz.arena import Arena, Bytes
from tests.fuzz.layouts import Window
from tests.fuzz.slots import Places, Slots, buffer_of, bytes_until, converted, first_byte, places_of, slots_of

#: Worlds that share one choice of limits.
_SHARED = 10
_ARENA_BYTES = [1 << 14, 1 << 19, 1 << 26]
#: Elements of large arrays: about so many.
_MANY = [1 << 18, 1 << 20, 1 << 21, 3 << 20]
_RECORD_BYTES = 1 << 12
_WHOLE = Window((), (), False)


class Wrong(AssertionError):
    """A conversion gave other bytes than it must."""


class Record:
    """What is about to be done, in a file that is still there when the process is not."""

    def __init__(self, path: Path | None) -> None:
        self.text = ""
        self._memory = None
        if path is not None:
            path.write_bytes(bytes(_RECORD_BYTES))
            with open(path, "r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _RECORD_BYTES)

    def write(self, *words: object) -> None:
        """Say what comes next."""
        self.text = " | ".join(map(str, words))
        if self._memory is not None:
            data = self.text.encode()[: _RECORD_BYTES - 9]
            self._memory[: len(data) + 9] = b"--------" + data + b"\0"

    def step(self, number: int, source: Placed, target: Placed) -> None:
        """Say which time it is, and where the buffers begin (B) or end (E): so many bytes from a page not there."""
        if self._memory is not None:
            ends = (f"{'BE'[placed.at_end]}{placed.gap:02}" for placed in (source, target))
            self._memory[:8] = f"{number:1}{''.join(ends)} ".encode()


class AxisMap:
    """An array in some layout: the numbers in all slots of its buffer, and where its elements are."""

    def __init__(self, world: World, bits: int, like: AxisMap | None = None) -> None:
        rng = world.rng
        akin = (
            like is not None
            and not world.is_compiled
            and rng.random() < (0.5 if bits == like.bits < 8 else 0.2) * (not world.has_runs)
        )
        for _ in range(20):
            self.case = self._drawn(world, bits, like if akin else None, is_first=like is None)
            if oracle.bytes_needed(self.case.spec) <= _ARENA_BYTES[-1]:
                break
        else:
            self.case = layouts.row_major(world.element_type, world.sizes, bits)
        self.bits, self.high_first = bits, bits < 8 and rng.random() < 0.5
        if akin and like is not None and bits == like.bits and rng.random() < 0.6:
            self.high_first = like.high_first
        self.size = oracle.bytes_needed(self.case.spec)
        self.places = places_of(self.case.spec)
        self.content: Bytes = world.numbers.integers(0, 256, self.size, dtype=np.uint8)
        self.array = self.wrapped(self.content.copy())
        if bits >= 8 > world.bits:
            self.put(self.places, converted(self.numbers(self.places), world.bits, 8, signed=world.signed))

    @staticmethod
    def _drawn(world: World, bits: int, akin: AxisMap | None, *, is_first: bool) -> layouts.Case:
        given = world.rng, world.element_type, world.sizes, bits
        if world.has_columns:
            return layouts.of_columns(*given) if is_first else layouts.row_major(*given[1:])
        if world.has_odd_tiles:
            is_plain = bits == 8 and world.rng.random() < 0.6
            return layouts.row_major(*given[1:]) if is_plain else layouts.in_odd_tiles(*given)
        if world.is_compiled:
            is_chosen = world.is_relaid or is_first == world.is_read
            return layouts.as_compiled(*given) if is_chosen else layouts.row_major(*given[1:])
        if world.is_permuted:
            return layouts.permuted(*given)
        if akin is not None:
            return layouts.akin(world.rng, akin.case, bits)
        return (layouts.with_runs if world.has_runs and world.rng.random() < 0.8 else layouts.layout)(*given)

    def __str__(self) -> str:
        return f"{self.case.text}{' high first' if self.high_first else ''}"

    def wrapped(self, buffer: Bytes) -> sd.LayoutArray:
        """The array on a buffer."""
        return sd.LayoutArray(buffer, self.case.text, bitorder="big" if self.high_first else "little")

    def slots(self) -> Slots:
        """The numbers in all slots."""
        return slots_of(self.content, self.bits, high_first=self.high_first)

    def numbers(self, places: Places) -> Slots:
        """The numbers at some places."""
        return self.slots()[places.reshape(-1)]

    def after(self, places: Places, numbers: Slots) -> Bytes:
        """The content with other numbers at some places, all else as it is."""
        slots = self.slots()
        slots[places.reshape(-1)] = numbers
        changed = buffer_of(slots, self.bits, high_first=self.high_first)
        return np.concatenate([changed, self.content[changed.size :]])

    def put(self, places: Places, numbers: Slots) -> None:
        """Change the content."""
        self.content = self.after(places, numbers)


class Buffer(NamedTuple):
    """A region, and which of its array's bytes its buffer has."""

    region: Region
    first: int
    last: int


class World:
    """A pair of layouts, and conversions between them."""

    def __init__(self, seed: int, number: int, arenas: Arenas, record: Record, *, large: bool) -> None:
        self.rng = rng = random.Random(f"{seed} {number}")
        self.numbers = np.random.default_rng([seed, number])
        self.arenas, self.record, self.counts = arenas, record, Counter[str]()
        kind = rng.random()
        self.has_runs, self.is_compiled, self.is_read, self.is_relaid = (
            kind < 0.25,
            kind > 0.85,
            kind > 0.9,
            kind > 0.95,
        )
        self.is_permuted = large and 0.25 < kind < 0.5
        self.element_type, self.bits = rng.choice(layouts.PACKED if self.has_runs else layouts.TYPES)
        chance = rng.random()
        # Packed elements take many for vectors.
        most = 1 << 21 if chance < 0.003 else 1 << 15 if chance < (0.1 if self.bits >= 8 else 0.4) else 1500
        dimensions = layouts.dimensions_of_runs if self.has_runs else layouts.dimensions
        if self.is_compiled:
            dimensions, most = layouts.dimensions_of_tiles, max(most, 1 << 13)
        if large and rng.random() < 0.5:
            dimensions = layouts.dimensions_of_rows
        self.sizes = dimensions(rng, most)
        if large:
            self.sizes = layouts.grown(rng, self.sizes, rng.choice(_MANY) * (2 if self.bits < 8 else 1))
        self.has_columns = large and random.Random(f"columns {seed} {number}").random() < 0.06
        if self.has_columns:
            self.sizes = layouts.dimensions_of_columns(rng)
        self.has_odd_tiles = not large and random.Random(f"odd tiles {seed} {number}").random() < 0.08
        if self.has_odd_tiles:
            self.element_type, self.bits = rng.choice(layouts.PACKED)
            self.sizes = layouts.dimensions_in_odd_tiles(rng)
        self.signed = self.element_type.startswith("s") and rng.random() < 0.5
        record.write(seed, number, "layouts", self.element_type, self.sizes)
        packs = self.bits < 8
        wide = 0.5 if self.has_odd_tiles else 0.25
        widths = [max(8, self.bits) if packs and rng.random() < wide else self.bits for _ in range(2)]
        first = AxisMap(self, widths[0])
        self.sides = [first, AxisMap(self, widths[1], first)]
        self.name = f"seed {seed} world {number}"

    def run(self) -> None:
        """All conversions of this world."""
        large = max(side.size for side in self.sides) > 1 << 20
        acts = (
            [self.windows] * 6
            + [self.ndarray] * (30 if self.has_columns else 4)
            + [self.relayout, self.out_of, self.assign, self.fill]
        )
        acts += [self.gather, self.scatter, self.same]
        self.relayout(*self.sides)
        for _ in range(3 if large else 14):
            act = self.rng.choice(acts)
            act(*(self.sides if self.rng.random() < 0.5 else self.sides[::-1]))

    def say(self, act: str, *words: object) -> None:
        """Write down what is done next."""
        self.counts[act] += act != "copy"
        self.record.write(self.name, act, *words)

    # --- regions ----------------------------------------------------------------------------------------------------

    def windows(self, source: AxisMap, target: AxisMap) -> None:
        """A window of one layout into the same window of the other; of the same buffer kind, or another window."""
        window = self.window()
        self.copy(source, window, target, window)

    def window(self) -> Window:
        """Some part of the arrays."""
        if self.has_columns and self.rng.random() < 0.8:
            return layouts.columns(self.rng, self.sizes)
        return layouts.window(self.rng, self.sizes)

    def same(self, source: AxisMap, target: AxisMap) -> None:
        """A window into another window of the same shape, in as many elements."""
        one, other = (layouts.window(self.rng, self.sizes) for _ in range(2))
        shapes = one.of(source.places).shape, other.of(target.places).shape
        if len(shapes[0]) == len(shapes[1]):
            sizes = tuple(map(min, *shapes)) if shapes[0] else ()
            cut = Window(tuple(slice(0, n) for n in sizes), (), False)
            self.copy(source, one, target, other, cut)

    def copy(self, source: AxisMap, one: Window, target: AxisMap, other: Window, cut: Window = _WHOLE) -> None:
        """Copy a window of one side into a window of another, in buffers that have all or only what it takes."""
        places, goal = cut.of(one.of(source.places)), cut.of(other.of(target.places))
        maps = cut.of(one.of(source.array)), cut.of(other.of(target.array))
        if not all(isinstance(x, sd.LayoutArray) for x in maps):
            return
        numbers = converted(source.numbers(places), source.bits, target.bits, signed=self.signed)
        wanted = target.after(goal, numbers)
        for _ in range(2):
            from_, to = self.buffer(source, maps[0], places), self.buffer(target, maps[1], goal)
            self.convert(from_, to, wanted[to.first : to.last], source, one, target, other, cut.key)

    def buffer(self, side: AxisMap, view: Any, places: Places) -> Buffer:
        """The buffer of a view: all of its array's, or with nothing before or behind the elements."""
        map_, first, last = view.address_map, 0, side.size
        if self.rng.random() < 0.6:
            last = bytes_until(places, side.bits)
            first = first_byte(places, side.bits) if self.rng.random() < 0.5 else 0
            map_ = replace(map_, base=map_.base - first * 8 // side.bits)
        region = Region(side.content[first:last], map_, side.bits, not side.high_first, self.signed and side.bits < 8)
        return Buffer(region, first, last)

    def convert(self, from_: Buffer, to: Buffer, wanted: Bytes, *words: object) -> None:
        """Carry it out some times, in several places of memory, and look at all bytes."""
        large = wanted.size > 1 << 18
        self.say("copy", *words, from_[1:], to[1:])
        for k in range(2 if large else 8):
            source = self.arenas.place(0, from_.region.buffer, self.rng)
            target = self.arenas.place(1, to.region.buffer, self.rng)
            self.record.step(k, source, target)
            with source.arena.read_only():
                transfer.copy(from_.region._replace(buffer=source.buffer), to.region._replace(buffer=target.buffer))
            target.check(wanted, self.record)
            self.counts["copy"] += 1

    def ndarray(self, source: AxisMap, target: AxisMap) -> None:
        """Between a window and an ndarray of any strides, there or back."""
        window = self.window()
        places, view = window.of(source.places), window.of(source.array)
        if not isinstance(view, sd.LayoutArray) or not places.size:
            return
        bits, shape = max(8, source.bits), places.shape
        width = bits // 8
        if self.has_columns and self.rng.random() < 0.7:
            strides = layouts.dense_strides(shape, width)
        else:
            strides = layouts.strides(self.rng, shape, width)
        if strides.size > _ARENA_BYTES[-1]:
            return
        memory = self.numbers.integers(0, 256, strides.size, dtype=np.uint8)
        at = layouts.places_of(shape, strides).reshape(-1, 1) + np.arange(width)
        x = np.ndarray(shape, f"V{width}", memory, strides.offset, strides.strides)
        own, other = Buffer(transfer.region_of_ndarray(x), 0, strides.size), self.buffer(source, view, places)
        if self.rng.random() < 0.5:
            numbers = converted(slots_of(memory[at].reshape(-1), bits), bits, source.bits, signed=False)
            wanted = source.after(places, numbers)[other.first : other.last]
            self.convert(own, other, wanted, "ndarray", strides, "to", source, window)
        else:
            wanted = memory.copy()
            numbers = converted(source.numbers(places), source.bits, bits, signed=self.signed)
            wanted[at] = buffer_of(numbers, bits).reshape(-1, width)
            self.convert(other, own, wanted, source, window, "to ndarray", strides)

    # --- the public door --------------------------------------------------------------------------------------------

    def opened(self, side: AxisMap, which: int) -> tuple[Placed, sd.LayoutArray]:
        """An array on a buffer of its own size in an arena."""
        placed = self.arenas.place(which, side.content, self.rng)
        return placed, side.wrapped(placed.buffer)

    def values(self, side: AxisMap, numbers: Slots, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers as an ndarray of the array's type."""
        return buffer_of(numbers, max(8, side.bits)).view(side.array.dtype).reshape(shape)

    def drawn(self, shape: tuple[int, ...]) -> Slots:
        """Random numbers for as many elements."""
        count = int(np.prod(shape, dtype=np.int64))
        pairs = self.numbers.integers(0, 1 << min(63, self.bits), (count, 2 if self.bits == 128 else 1))
        return pairs.astype(np.uint64)

    def check(self, to: Placed, side: AxisMap, places: Places, numbers: Slots) -> None:
        """Hold a buffer against its content with other numbers at some places.

        Of elements of fewer than eight bits that have a byte each, the low bits count.
        """
        if side.bits > self.bits:
            mask = np.full(side.size, 0xFF, np.uint8)
            mask[places.reshape(-1)] = (1 << self.bits) - 1
            to.buffer[:] = to.buffer & mask | side.after(places, numbers) & ~mask
        to.check(side.after(places, numbers), self.record)

    def bits_of(self, side: AxisMap, places: Places) -> Slots:
        """The numbers of elements, of their own bits alone."""
        numbers = side.numbers(places)
        return numbers & np.uint64((1 << self.bits) - 1) if self.bits < 8 else numbers

    def same_values(self, found: Any, side: AxisMap, places: Places) -> None:
        """Hold values against the oracle's."""
        wanted = self.values(side, self.bits_of(side, places), places.shape)
        found = np.asarray(found)
        if self.bits < 8:
            found, wanted = found.view(np.uint8) & ((1 << self.bits) - 1), wanted.view(np.uint8)
        if found.shape != wanted.shape or found.tobytes() != wanted.tobytes():
            raise Wrong(f"other values: {self.record.text}")

    def out_of(self, source: AxisMap, target: AxisMap) -> None:
        """A window's values into an array between pages, and as one of the package's own making."""
        placed, array = self.opened(source, 0)
        window = layouts.window(self.rng, self.sizes)
        places, view = window.of(source.places), window.of(array)
        if not isinstance(view, sd.LayoutArray):
            return
        dtype = source.array.dtype
        to = self.arenas.place(1, np.full(places.size * dtype.itemsize, 0xA5, np.uint8), self.rng)
        self.say("to_numpy", source, window)
        with placed.arena.read_only():
            self.same_values(view.to_numpy(out=to.buffer.view(dtype).reshape(places.shape)), source, places)
            self.same_values(view.to_numpy(), source, places)
        to.check(to.buffer, self.record)

    def relayout(self, source: AxisMap, target: AxisMap) -> None:
        """`to_layout` into a buffer; what is padding there stays, or becomes 0."""
        placed, array = self.opened(source, 0)
        keeps, at = self.rng.random() < 0.5, target.places
        text = target.case.layout_text
        to = self.arenas.place(1, target.content, self.rng)
        self.say("to_layout", source, target, keeps)
        with placed.arena.read_only():
            array.to_layout(
                None if text == "{}" else text,
                "unknown" if keeps else "zero",
                to.buffer,
                bitorder="big" if target.high_first else "little",
            )
        if not keeps:
            found = slots_of(to.buffer, target.bits, high_first=target.high_first)
            found[at.reshape(-1)] = 0
            if found[: oracle.elements_by_formula(target.case.spec)].any():
                raise Wrong(f"padding that is not 0: {self.record.text}")
            kept = target.content
            target.content = to.buffer.copy()
        self.check(to, target, at, self.bits_of(source, source.places))
        if not keeps:
            target.content = kept

    def assign(self, source: AxisMap, target: AxisMap) -> None:
        """An ndarray, one value, or another array's window written into a window."""
        to, array = self.opened(target, 1)
        window = layouts.window(self.rng, self.sizes, drops=False)
        key, places = (*window.key, ...), target.places[(*window.key, ...)]
        if self.rng.random() < 0.4:
            placed, other = self.opened(source, 0)
            numbers = self.bits_of(source, source.places[key])
            self.say("window write", source, target, key)
            with placed.arena.read_only():
                array[key] = other[key]
        else:
            shape = tuple(n if self.rng.random() < 0.9 else 1 for n in places.shape)
            drawn = self.drawn(shape)
            values = self.values(target, drawn, shape)
            if self.rng.random() < 0.3:
                values = np.asfortranarray(values)
            index = np.broadcast_to(np.arange(len(drawn)).reshape(shape), places.shape).reshape(-1)
            numbers = drawn[index]
            self.say("assignment", target, key, shape)
            array[key] = values
        self.check(to, target, places, numbers)

    def fill(self, source: AxisMap, target: AxisMap) -> None:
        """One value in all elements of a window."""
        window = layouts.window(self.rng, self.sizes, drops=False)
        key, places = (*window.key, ...), target.places[(*window.key, ...)]
        numbers = self.drawn(())
        for _ in range(2):
            to, array = self.opened(target, 1)
            self.say("fill", target, key, numbers)
            array[key] = self.values(target, numbers, ())
            self.check(to, target, places, np.repeat(numbers, places.size, axis=0))

    def index(self, side: AxisMap) -> tuple[Any, ...] | None:
        """A key with index arrays or a mask."""
        if not self.sizes or 0 in self.sizes:
            return None
        count, kind = self.rng.choice([1, 3, 40, 2100]), self.rng.random()
        if kind < 0.2 and side.places.size < 1 << 16:
            return (self.numbers.random(self.sizes) < self.rng.choice([0.02, 0.5, 1]),)
        if kind < 0.6:
            return tuple(self.numbers.integers(-n, n, count) for n in self.sizes)
        axis = self.rng.randrange(len(self.sizes))
        rest = [slice(None) if self.rng.random() < 0.6 else layouts.part(self.rng, n) for n in self.sizes[axis + 1 :]]
        if side.places.size // self.sizes[axis] * count > 1 << 18:
            count = 2
        return (*(slice(None),) * axis, self.numbers.integers(-self.sizes[axis], self.sizes[axis], count), *rest)

    def gather(self, source: AxisMap, target: AxisMap) -> None:
        """Elements at index arrays and masks."""
        key = self.index(source)
        if key is not None:
            for _ in range(2):
                placed, array = self.opened(source, 0)
                self.say("gather", source, [np.shape(k) if isinstance(k, np.ndarray) else k for k in key])
                with placed.arena.read_only():
                    self.same_values(array[key], source, source.places[key])

    def scatter(self, source: AxisMap, target: AxisMap) -> None:
        """Values written at index arrays and masks."""
        key = self.index(target)
        if key is not None:
            places = target.places[key]
            numbers = self.drawn(places.shape)
            to, array = self.opened(target, 1)
            self.say("scatter", target, [np.shape(k) if isinstance(k, np.ndarray) else k for k in key])
            array[key] = self.values(target, numbers, places.shape)
            self.check(to, target, places, numbers)


class Placed:
    """A buffer in an arena."""

    def __init__(self, arena: Arena, content: Bytes, *, at_end: bool, gap: int) -> None:
        self.arena, self.at_end, self.gap = arena, at_end, gap
        self.buffer = arena.place(content.size, at_end=at_end, gap=gap)
        self.buffer[:] = content
        self._margins = arena.margins(content.size, at_end=at_end, gap=gap)
        for margin in self._margins:
            margin[:] = 0x5A

    def check(self, wanted: Bytes, record: Record) -> None:
        """Hold what is there against what must be."""
        if not np.array_equal(self.buffer, wanted):
            places = np.flatnonzero(self.buffer != wanted)
            raise Wrong(f"{len(places)} of {wanted.size} bytes wrong, the first at {places[0]}: {record.text}")
        if any((margin != 0x5A).any() for margin in self._margins):
            raise Wrong(f"bytes outside the buffer were written: {record.text}")


class Arenas:
    """Arenas of several sizes, for sources and for targets."""

    def __init__(self) -> None:
        self._own = [[Arena(size) for size in _ARENA_BYTES] for _ in range(2)]

    def place(self, which: int, content: Bytes, rng: random.Random) -> Placed:
        """Content beside an inaccessible page."""
        arena = next(own for own, size in zip(self._own[which], _ARENA_BYTES, strict=True) if content.size <= size)
        # Mostly beside the page; a few bytes from it, lines begin elsewhere.
        return Placed(arena, content, at_end=rng.random() < 0.7, gap=rng.randrange(64) if rng.random() < 0.35 else 0)


def campaign(
    seed: int,
    seconds: float,
    *,
    large: bool = False,
    first: int = 0,
    worlds: int = 1 << 62,
    path: Path | None = None,
) -> Counter[str]:
    """Worlds from a number on, as many as there is time for; how many conversions of each kind they were."""
    arenas, record, counts = Arenas(), Record(path), Counter[str]()
    limits.guard_own_memory()
    end = time.monotonic() + seconds
    for number in range(first, first + worlds):
        if number % _SHARED == 0 or number == first:
            chosen = limits.choose(random.Random(f"limits {seed} {number // _SHARED}"), large=large)
        world = World(seed, number, arenas, record, large=large)
        try:
            world.run()
        except Exception as error:
            raise Wrong(f"seed {seed}, world {number}, {chosen}: {record.text}") from error
        counts += world.counts
        counts["worlds"] += 1
        if time.monotonic() > end:
            break
    return counts


def main() -> None:
    """Run a campaign and print its counts as JSON."""
    parser = argparse.ArgumentParser(description=campaign.__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--large", action="store_true", help="arrays of up to some million elements")
    parser.add_argument("--world", type=int, default=0, help="the first world")
    parser.add_argument("--worlds", type=int, default=1 << 62, help="how many worlds at most")
    parser.add_argument("--record", type=Path, help="file that says what is being done")
    given = parser.parse_args()
    faulthandler.enable()
    counts = campaign(
        given.seed, given.seconds, large=given.large, first=given.world, worlds=given.worlds, path=given.record
    )
    counts["conversions"] = sum(counts.values()) - counts["worlds"]
    json.dump(counts, sys.stdout)


if __name__ == "__main__":
    main()
