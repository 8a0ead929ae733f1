"""Make names unique as XLA does when it reads text.

Names of instructions, and separately of computations, are unique in a module. A name that is taken gets the next free
number of its stem: ``p``, ``p.1``, ``p.2``. ``p`` and ``p.0`` have the same number.
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

#: Names to search at a time.
_BATCH = 1 << 12

T = TypeVar("T", Instruction, Computation)

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.\-]")
_NUMBERED = re.compile(r"(.+)\.([+-]?[0-9]{1,18})", re.DOTALL)
#: Unusual spellings of numbers: ``p.0`` is ``p``, and ``p.07`` is ``p.7``.
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
        """Free all names except the first `count`."""
        for stem, number in self._given[count:]:
            self._taken[stem].discard(number)
            self._next.pop(stem, None)
        del self._given[count:]

    def unique(self, name: str) -> str:
        """Take and return `name`, or the next free name of its stem."""
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
    """`name` with only the characters that XLA allows, changed if it is a reserved word of XLA or LLVM.

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
    """Rename computations and instructions as XLA would; return the computations' new names by their old ones."""
    instructions = [one for computation in computations for one in computation.instructions]
    elements = [one for one in instructions if one.is_implied]
    if elements:
        instructions = [one for one in instructions if not one.is_implied]
    for one, written, name in _changes(instructions):
        one.computation.note_renamed(written, name)
    for one in elements:
        # An element of a tuple is named after the tuple.
        (whole,), written = one.operand_names, one.name
        name = f"{whole}{MARK}{written.rpartition(MARK)[2]}"
        if name != written:
            one.name = name
            one.computation.note_renamed(written, name)
    new_names = {}
    for computation, written, name in _changes([computation for computation in computations if computation.name]):
        if computation.signature:  # not a body printed inside its caller, which has no name in the text
            new_names[written] = name
    return new_names


def _changes(named: list[T]) -> Iterator[tuple[T, str, str]]:
    """The computations or instructions that XLA would rename, each with its old and new name."""
    names = [one.name for one in named]
    if _differ(names) and not _are_unusual(names) and _RESERVED.isdisjoint(names):
        return
    uniquer = NameUniquer()
    for one, written in zip(named, names, strict=True):
        one.name = uniquer.unique(written)
        if one.name != written:
            yield one, written, one.name


def _differ(names: list[str]) -> bool:
    """Whether all names are distinct, by sorted hashes, which take an eighth of the memory of a set."""
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    hashes.sort()
    return not (hashes[1:] == hashes[:-1]).any() or len(set(names)) == len(names)


def _are_unusual(names: list[str]) -> bool:
    """Whether XLA might change some name although it is unique; False for names that XLA printed."""
    batches = ("\n".join(["", *names[k : k + _BATCH]]) for k in range(0, len(names), _BATCH))
    return not {name[:1] for name in names} <= _STARTS or any(
        "\n__" in batch
        or batch.encode("utf-8", "surrogatepass").translate(None, _ALLOWED)
        or (any(part in batch for part in (".0", ".-", ".+")) and _UNUSUAL_NUMBER.search(batch) is not None)
        for batch in batches
    )
