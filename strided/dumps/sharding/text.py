r"""Parse a sharding in the text forms of XLA's parser, and print it as XLA does.

::

    sharding = leaf | "{" [leaf {"," leaf}] "}"
    leaf     = "{" part {part} "}"                                       parts in any order, separated by blanks
    part     = "replicated" | "manual" | "unknown" | "unreduced" | "maximal" | "device=" int
             | "devices=[" ints "]" ( ints | "<=[" ints "]" ["T(" ints ")"] )
             | "last_tile_dim_replicate" | "last_tile_dims={" [kind {"," kind}] "}"
             | ("shard_as" | "shard_like") int | "metadata={" ... "}"
    leaf     = "{" ("maximal_mesh" | "single_device") "[device_id=" int "]" ["," "metadata={" ... "}"] "}"
             | "{" mesh [","] (word ["=" op ["{" axes "}"]] | "[" [dim {"," dim}] "]" {"," word "=" [op] "{" axes "}"})
                   ["," "metadata={" ... "}"] "}"                         op, after unreduced: sum, max or min
    mesh     = "mesh[" [name "=" int {"," ...}] "]" [",device_ids=(" (ints | "[" ints "]" ["T(" ints ")"]) ")"]
    dim      = "{" [axis {"," axis}] ["," "?"] "}"
    axis     = name [":(" int ")" int]                                   names are quoted; a quoted number is an index

Blanks and comments may separate any two tokens, except ``devices`` and its ``=``. What XLA refuses only in its verifier
(grids that do not match their devices, negative sizes, contradicting words) is refused here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from strided.dumps.sharding.named_text import ONE_DEVICE, read_device, read_iota, read_metadata, read_named
from strided.dumps.sharding.tile_assignment import TileAssignment
from strided.dumps.sharding.value import KINDS, SUBGROUPS, Group, ShardingValue
from strided.layout.lexer import Lexer
from strided.wording import counted

T = TypeVar("T")


def read_sharding(text: str, make: Callable[..., T]) -> T:
    """Parse a sharding, which ``make(kind=, grid=, subgroups=, device=, ...)`` builds (see `Sharding`).

    NotationError shows what was expected, and where.
    """
    lexer = Lexer(text, strict=True)
    is_attribute = lexer.token == "sharding"  # an instruction's attribute, with its name
    lexer.expect("{", "'{' to open a sharding" + ", as after 'sharding='" * is_attribute)
    if lexer.take("}"):
        value = make(kind="tuple")
    elif lexer.take("{"):
        elements = [_leaf(lexer, make)]
        while lexer.take(","):
            lexer.expect("{", "'{' to open the next element of the tuple")
            elements.append(_leaf(lexer, make))
        lexer.expect("}", "',' or '}' after an element of the tuple")
        value = make(kind="tuple", elements=tuple(elements))
    else:
        value = _leaf(lexer, make)
    if lexer.token:
        lexer.fail("expected nothing after the sharding")
    return value


def _leaf(lexer: Lexer, make: Callable[..., T]) -> T:
    return read_named(lexer, make) if lexer.word in ("mesh", *ONE_DEVICE) else _tiled(lexer, make)


# ---- words and device lists -----------------------------------------------------------------------------------------


def _tiled(lexer: Lexer, make: Callable[..., T]) -> T:
    start = lexer.end
    found: dict[str, Any] = {}
    while not lexer.take("}"):
        word = lexer.word
        part = "kind" if word in KINDS else "group" if word in _GROUPS else word.rstrip("=")
        if part in found:
            lexer.fail(f"{word!r} contradicts or repeats an earlier word", lexer.start)
        if word not in _PARTS:
            lexer.fail(f"expected {', '.join(KINDS)}, devices=, another part of a sharding or '}}'")
        lexer.take_word()
        found[part] = _PARTS[word](lexer)
    return _build(lexer, start, found, make)


def _devices(lexer: Lexer) -> TileAssignment:
    start = lexer.start
    lexer.expect("[", "'[' and the sizes of the grid")
    dimensions = lexer.integers("a size of the grid")
    lexer.expect("]")
    if not lexer.take("<="):
        devices = lexer.integers("a list of devices or '<='")
        if len(devices) < 2:
            lexer.fail("one device alone is written {maximal device=...}", start)
        return lexer.build(start, TileAssignment.listed, dimensions, devices)
    return read_iota(lexer, start, dimensions)


def _group(kind: str, lexer: Lexer) -> Group:
    return Group(kind, lexer.required_integer("the number of a shard group"))


def _subgroup(lexer: Lexer) -> str:
    if lexer.word not in SUBGROUPS:
        lexer.fail(f"expected one of {', '.join(SUBGROUPS)}")
    return lexer.take_word()


_GROUPS = ("shard_as", "shard_like")

#: The parsers of what follows each word of a sharding.
_PARTS: Mapping[str, Callable[[Lexer], Any]] = {
    **{kind: lambda lexer, kind=kind: kind for kind in KINDS},  # type: ignore[misc]
    **{word: partial(_group, word.removeprefix("shard_")) for word in _GROUPS},
    "device=": read_device,
    "devices=": _devices,
    "last_tile_dim_replicate": lambda lexer: ("replicated",),
    "last_tile_dims=": lambda lexer: tuple(lexer.bracketed("{}", lambda: _subgroup(lexer))),
    "metadata=": read_metadata,
}


def _build(lexer: Lexer, start: int, found: dict[str, Any], make: Callable[..., T]) -> T:
    kind, grid, device = found.get("kind"), found.get("devices"), found.get("device")
    subgroups = found.get("last_tile_dims", ()) + found.get("last_tile_dim_replicate", ())
    extras = {"group": found.get("group"), "metadata": found.get("metadata", ())}
    if "last_tile_dim_replicate" in found and len(subgroups) > 1:
        lexer.fail("last_tile_dim_replicate and last_tile_dims= exclude each other", start)
    if kind is None:
        if grid is None or device is not None:
            lexer.fail(f"expected {', '.join(KINDS)} or devices=", start)
        if len(subgroups) > len(grid.dimensions):
            there = counted(len(grid.dimensions), "dimension")
            lexer.fail(f"{len(subgroups)} kinds of last_tile_dims= for {there} of the grid", start)
        return lexer.build(start, lambda: make(kind="tiled", grid=grid, subgroups=subgroups, **extras))
    if kind == "maximal" and (device is None or grid is not None):
        lexer.fail("a maximal sharding needs its one device: maximal device=0", start)
    if subgroups or grid is not None or (device is not None and kind != "maximal"):
        lexer.fail(f"a sharding that is {kind} lists no devices", start)
    return make(kind=kind, device=device, **extras)


# ---- printing --------------------------------------------------------------------------------------------------------


def sharding_text(sharding: ShardingValue, *, metadata: bool = False) -> str:
    """XLA's text of a sharding, with or without metadata."""
    if sharding.kind == "tuple":
        return f"{{{numbered(sharding_text(element, metadata=metadata) for element in sharding.elements)}}}"
    bare = len(sharding.metadata) == 1 and sharding.named is None
    records = ", ".join(sharding.metadata if bare else (f"{{{one}}}" for one in sharding.metadata))
    extra = f"metadata={{{records}}}" if metadata and sharding.metadata else ""
    if sharding.named is not None:
        return f"{{{', '.join(filter(None, (sharding.named.text(), extra)))}}}"
    head = sharding.kind if sharding.grid is None else f"devices={sharding.grid}"
    device = "" if sharding.device is None else f"device={sharding.device}"
    last = f"last_tile_dims={{{', '.join(sharding.subgroups)}}}" if sharding.subgroups else ""
    last = "last_tile_dim_replicate" if sharding.subgroups == ("replicated",) else last
    return "{" + " ".join(filter(None, (head, device, last, str(sharding.group or ""), extra))) + "}"


def numbered(parts: Iterable[str]) -> str:
    """A list as XLA prints it: a comment numbers every fifth part."""
    return ", ".join(f"/*index={n}*/{part}" if n and n % 5 == 0 else part for n, part in enumerate(parts))
