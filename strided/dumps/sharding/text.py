r"""The text of a sharding, as XLA's parser takes it and as XLA prints it.

::

    sharding = leaf | "{" [leaf {"," leaf}] "}"
    leaf     = "{" part {part} "}"                                       parts in any order, separated by blanks
    part     = "replicated" | "manual" | "unknown" | "unreduced" | "maximal" | "device=" int
             | "devices=[" ints "]" ( ints | "<=[" ints "]" ["T(" ints ")"] )
             | "last_tile_dim_replicate" | "last_tile_dims={" [kind {"," kind}] "}"
             | ("shard_as" | "shard_like") int | "metadata={" ... "}"
    leaf     = "{" "maximal_mesh[device_id=" int "]" "}"
             | "{" mesh [","] (word | "[" cuts "]" {"," word "={" axes "}"}) ["," "metadata={" ... "}"] "}"
    mesh     = "mesh[" [name "=" int {"," ...}] "]" [",device_ids=(" (ints | "[" ints "]" ["T(" ints ")"]) ")"]
    cut      = "{" [axis {"," axis}] ["," "?"] "}"
    axis     = name [":(" int ")" int]                                   names are quoted; a quoted number is an index

Blanks and comments stand between any two tokens, but not between ``devices`` and its ``=``. What XLA's parser takes by
mistake and its verifier refuses later (grids that do not match their devices, negative sizes, contradicting words) is
refused here at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from strided.dumps.sharding.named_text import read_device, read_iota, read_named
from strided.dumps.sharding.scanner import Scanner
from strided.dumps.sharding.tile_assignment import TileAssignment
from strided.dumps.sharding.value import KINDS, SUBGROUPS, Group, ShardingValue

T = TypeVar("T")


def read_sharding(text: str, make: Callable[..., T]) -> T:
    """The sharding that `text` spells, built by ``make(kind=, grid=, subgroups=, device=, ...)`` (see `Sharding`).

    Raises
    ------
    NotationError
        Shows what was expected, and where.
    """
    scanner = Scanner(text)
    scanner.need("{", "'{' to open a sharding")
    if scanner.take("}"):
        value = make(kind="tuple")
    elif scanner.take("{"):
        elements = [_leaf(scanner, make)]
        while scanner.take(","):
            scanner.need("{", "'{' to open the next element of the tuple")
            elements.append(_leaf(scanner, make))
        scanner.need("}", "',' or '}' after an element of the tuple")
        value = make(kind="tuple", elements=tuple(elements))
    else:
        value = _leaf(scanner, make)
    scanner.skip()
    if scanner.position < len(text):
        raise scanner.expected("nothing after the sharding")
    return value


def _leaf(scanner: Scanner, make: Callable[..., T]) -> T:
    start = scanner.position
    word = scanner.word()
    if word in ("mesh", "maximal_mesh"):
        return read_named(scanner, word, make)
    scanner.position = start
    return _tiled(scanner, make)


# ---- words and device lists -----------------------------------------------------------------------------------------


def _tiled(scanner: Scanner, make: Callable[..., T]) -> T:
    start = scanner.position
    found: dict[str, Any] = {}
    while not scanner.take("}"):
        scanner.skip()
        at = scanner.position
        word = scanner.word()
        part = "kind" if word in KINDS else "group" if word in ("shard_as", "shard_like") else word.rstrip("=")
        if part in found:
            raise scanner.error(f"{word!r} contradicts or repeats an earlier word", at)
        if word in KINDS:
            found[part] = word
        elif word in ("shard_as", "shard_like"):
            found[part] = Group(word.removeprefix("shard_"), scanner.integer("the number of a shard group"))
        elif word == "last_tile_dim_replicate":
            found[part] = ("replicated",)
        elif word in _PARTS:
            found[part] = _PARTS[word](scanner)
        else:
            scanner.position = at
            raise scanner.expected(f"{', '.join(KINDS)}, devices=, another part of a sharding or '}}'")
    return _build(scanner, start, found, make)


def _devices(scanner: Scanner) -> TileAssignment:
    scanner.skip()
    start = scanner.position
    scanner.need("[", "'[' and the sizes of the grid")
    dimensions = scanner.integers("a size of the grid")
    scanner.need("]")
    if not scanner.take("<="):
        devices = scanner.integers("a list of devices or '<='")
        if len(devices) < 2:
            raise scanner.error("one device alone is written {maximal device=...}", start)
        return scanner.at(start, TileAssignment.listed, dimensions, devices)
    return read_iota(scanner, start, dimensions)


def _subgroups(scanner: Scanner) -> tuple[str, ...]:
    scanner.need("{")
    kinds: list[str] = []
    if scanner.take("}"):
        return ()
    while True:
        scanner.skip()
        at = scanner.position
        kind = scanner.word()
        if kind not in SUBGROUPS:
            scanner.position = at
            raise scanner.expected(f"one of {', '.join(SUBGROUPS)}")
        kinds.append(kind)
        if not scanner.take(","):
            break
    scanner.need("}", "',' or '}'")
    return tuple(kinds)


_PARTS: Mapping[str, Callable[[Scanner], Any]] = {
    "device=": read_device,
    "devices=": _devices,
    "last_tile_dims=": _subgroups,
    "metadata=": Scanner.metadata,
}


def _build(scanner: Scanner, start: int, found: dict[str, Any], make: Callable[..., T]) -> T:
    kind, grid, device = found.get("kind"), found.get("devices"), found.get("device")
    subgroups = found.get("last_tile_dims", ()) + found.get("last_tile_dim_replicate", ())
    extras = {"group": found.get("group"), "metadata": found.get("metadata", ())}
    if "last_tile_dim_replicate" in found and len(subgroups) > 1:
        raise scanner.error("last_tile_dim_replicate and last_tile_dims= exclude each other", start)
    if kind is None:
        if grid is None or device is not None:
            raise scanner.error(f"expected {', '.join(KINDS)} or devices=", start)
        if len(subgroups) > len(grid.dimensions):
            words = f"{len(subgroups)} kinds of last_tile_dims= for a grid of {len(grid.dimensions)} dimensions"
            raise scanner.error(words, start)
        return scanner.at(start, lambda: make(kind="tiled", grid=grid, subgroups=subgroups, **extras))
    if kind == "maximal" and (device is None or grid is not None):
        raise scanner.error("a maximal sharding needs its one device: maximal device=0", start)
    if subgroups or grid is not None or (device is not None and kind != "maximal"):
        raise scanner.error(f"a sharding that is {kind} lists no devices", start)
    return make(kind=kind, device=device, **extras)


# ---- printing --------------------------------------------------------------------------------------------------------


def sharding_text(sharding: ShardingValue, *, metadata: bool = False) -> str:
    """XLA's text of a sharding; with the metadata where they are wanted."""
    if sharding.kind == "tuple":
        shown = (sharding_text(element, metadata=metadata) for element in sharding.elements)
        return "{" + ", ".join(f"/*index={k}*/{t}" if k and not k % 5 else t for k, t in enumerate(shown)) + "}"
    bare = len(sharding.metadata) == 1 and sharding.named is None
    records = ", ".join(sharding.metadata if bare else (f"{{{one}}}" for one in sharding.metadata))
    extra = f"metadata={{{records}}}" if metadata and sharding.metadata else ""
    if sharding.named is not None:
        return f"{{{', '.join(filter(None, (sharding.named.text(), extra)))}}}"
    head = sharding.kind if sharding.grid is None else f"devices={sharding.grid}"
    if sharding.kind == "maximal":
        head = f"maximal device={sharding.device}"
    last = f"last_tile_dims={{{', '.join(sharding.subgroups)}}}" if sharding.subgroups else ""
    last = "last_tile_dim_replicate" if sharding.subgroups == ("replicated",) else last
    return "{" + " ".join(filter(None, (head, last, str(sharding.group or ""), extra))) + "}"
