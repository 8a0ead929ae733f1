"""Names as XLA gives them when it reads text.

Names are unique in a module, those of instructions apart from those of computations. A name that was taken before gets
the next free number, counted for each stem: ``p``, ``p.1``, ``p.2``. ``p`` and ``p.0`` are the same number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_letters
from sys import intern
from typing import TypeVar

import numpy as np

from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.tuple_elements import MARK
from strided.layout.element_types import ELEMENT_TYPES

#: Names that are searched at a time.
_BATCH = 1 << 12

T = TypeVar("T", Instruction, Computation)

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.\-]")
_NUMBERED = re.compile(r"(.+)\.([+-]?[0-9]{1,18})", re.DOTALL)
#: Numbers with another spelling: ``p.0`` is ``p``, and ``p.07`` is ``p.7``.
_UNUSUAL_NUMBER = re.compile(r"\.[+-]?0[0-9]*$|\.[+-][0-9]+$", re.MULTILINE)
_STARTS = frozenset(ascii_letters + "_")
_ALLOWED = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-\n"
_RESERVED = {name for name in ELEMENT_TYPES if name not in ("tuple", "buffer")}


class NameUniquer:
    """Makes unique names.

    >>> names = NameUniquer()
    >>> [names.unique(name) for name in ("p", "p", "p.7", "p.0", "2x", "f32")]
    ['p', 'p.1', 'p.7', 'p.2', '_x', 'f32_']
    """

    def __init__(self) -> None:
        self._taken: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        self._given: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self._given)

    def forget(self, count: int) -> None:
        """Take back all names but the first `count`."""
        for stem, number in self._given[count:]:
            self._taken[stem].discard(number)
            self._next.pop(stem, None)
        del self._given[count:]

    def unique(self, name: str) -> str:
        """`name`, or the nearest free name; it is then taken."""
        name = sanitized(name)
        numbered = _NUMBERED.fullmatch(name)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        taken = self._taken.setdefault(stem, set())
        if number in taken:
            number = self._next.get(stem, 0)
            while number in taken:
                number += 1
            self._next[stem] = number + 1
        taken.add(number)
        self._given.append((intern(stem), number))
        return f"{stem}.{number}" if number or numbered else stem


def sanitized(name: str) -> str:
    """`name` with XLA's letters only, and no word that XLA or LLVM keep for themselves.

    >>> sanitized("__x$y"), sanitized("")
    ('a_x_y', 'name')
    """
    if not name:
        return "name"
    first = name[0] if name[0].isascii() and (name[0].isalpha() or name[0] == "_") else "_"
    name = first + _FORBIDDEN.sub("_", name[1:])
    if name in _RESERVED:
        name += "_"
    return "a" + name[1:] if name.startswith("__") and not name.startswith("__xla_") else name


def rename(computations: Sequence[Computation]) -> dict[str, str]:
    """Rename computations and instructions as XLA would; returns the computations' new names by the written ones."""
    instructions = [one for computation in computations for one in computation.instructions]
    elements = [one for one in instructions if one.is_implied]
    if elements:
        instructions = [one for one in instructions if not one.is_implied]
    for one, written, name in _changes(instructions):
        one.computation.note_renamed(written, name)
    for one in elements:
        # Each is named after what it is an element of.
        (whole,), written = one.operand_names, one.name
        name = f"{whole}{MARK}{written.rpartition(MARK)[2]}"
        if name != written:
            one.name = name
            one.computation.note_renamed(written, name)
    new_names = {}
    for computation, written, name in _changes([computation for computation in computations if computation.name]):
        if computation.signature:  # a body printed inside its caller has no name in the text
            new_names[written] = name
    return new_names


def _changes(named: list[T]) -> Iterator[tuple[T, str, str]]:
    """Computations or instructions that XLA would rename, each with its old and new name."""
    names = [one.name for one in named]
    if _differ(names) and not _are_unusual(names) and _RESERVED.isdisjoint(names):
        return
    uniquer = NameUniquer()
    for one, written in zip(named, names, strict=True):
        one.name = uniquer.unique(written)
        if one.name != written:
            yield one, written, one.name


def _differ(names: list[str]) -> bool:
    """Whether all names differ. Sorted hashes take an eighth of the memory of a set."""
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    hashes.sort()
    return not (hashes[1:] == hashes[:-1]).any() or len(set(names)) == len(names)


def _are_unusual(names: list[str]) -> bool:
    """Whether XLA might change some name although it is unique; never a name that XLA printed."""
    batches = ("\n".join(["", *names[k : k + _BATCH]]) for k in range(0, len(names), _BATCH))
    return not {name[:1] for name in names} <= _STARTS or any(
        "\n__" in batch
        or batch.encode("utf-8", "surrogatepass").translate(None, _ALLOWED)
        or (any(part in batch for part in (".0", ".-", ".+")) and _UNUSUAL_NUMBER.search(batch) is not None)
        for batch in batches
    )
