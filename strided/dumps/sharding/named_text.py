"""The text of shardings that name a mesh, and the lists of devices that both forms share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from strided.dumps.sharding.named import Axis, DimensionSharding, Mesh, NamedSharding
from strided.dumps.sharding.scanner import Scanner
from strided.dumps.sharding.tile_assignment import TileAssignment

T = TypeVar("T")


def read_device(scanner: Scanner) -> int:
    scanner.skip()
    at = scanner.position
    device = scanner.integer("a device number")
    if device < 0:
        raise scanner.error(f"a device number is at least 0, found {device}", at)
    return device


def read_iota(scanner: Scanner, start: int, dimensions: list[int]) -> TileAssignment:
    scanner.need("[", "'[' and the sizes of the iota")
    sizes = scanner.integers("a size of the iota")
    scanner.need("]")
    order = []
    if len(sizes) > 1:
        scanner.need("T", f"T(...) to order the {len(sizes)} dimensions of the iota")
        scanner.need("(")
        order = scanner.integers("a dimension of the iota")
        scanner.need(")")
    return scanner.at(start, TileAssignment.iota, dimensions, sizes, order)


def read_named(scanner: Scanner, word: str, make: Callable[..., T]) -> T:
    scanner.need("[", "'[' and the axes of the mesh")
    start = scanner.position
    if word == "maximal_mesh":
        if scanner.word() != "device_id=":
            scanner.position = start
            raise scanner.expected("device_id=")
        mesh = Mesh((), TileAssignment.listed((), (read_device(scanner),)))
        scanner.need("]")
        metadata: tuple[str, ...] = ()
        if scanner.take(","):
            metadata = _metadata_part(scanner)
        scanner.need("}")
        return make(named=NamedSharding(mesh), metadata=metadata)
    mesh = _mesh(scanner, start)
    scanner.take(",")
    return _assignment(scanner, mesh, start, make)


def _mesh(scanner: Scanner, start: int) -> Mesh:
    names: list[str] = []
    sizes: list[int] = []
    if not scanner.take("]"):
        while True:
            names.append(scanner.string("the quoted name of an axis"))
            scanner.need("=")
            sizes.append(scanner.integer("the size of an axis"))
            if not scanner.take(","):
                break
        scanner.need("]", "',' or ']'")
    devices = scanner.at(start, TileAssignment.iota, sizes) if sizes else None
    before = scanner.position
    if scanner.take(",") and scanner.word() == "device_ids=":
        scanner.need("(")
        if scanner.take("["):
            scanner.position -= 1
            devices = read_iota(scanner, start, sizes)
        else:
            devices = scanner.at(start, TileAssignment.listed, sizes, scanner.integers("a device number"))
        scanner.need(")")
    else:
        scanner.position = before
    return scanner.at(start, Mesh, tuple(names), devices)


def _assignment(scanner: Scanner, mesh: Mesh, start: int, make: Callable[..., T]) -> T:
    axes: dict[str, Any] = {}
    metadata: tuple[str, ...] = ()
    every = tuple(map(Axis, range(len(mesh.names))))
    index = {name: k for k, name in enumerate(mesh.names)}
    scanner.skip()
    at = scanner.position
    word = scanner.word()
    if word in ("replicated", "unreduced", "manual"):
        if word != "replicated":
            if not every:
                raise scanner.error(f"a mesh without axes cannot be {word}", at)
            axes[word] = every
    elif word:
        raise scanner.error("expected replicated, manual, unreduced or '['", at)
    else:
        axes["cuts"] = _cuts(scanner, index)
    while not scanner.take("}"):
        scanner.need(",", "',' or '}'")
        scanner.skip()
        at = scanner.position
        word = scanner.word()
        if word == "metadata=":
            metadata += scanner.metadata()
            continue
        name = word.rstrip("=")
        if "cuts" not in axes or not word.endswith("=") or name not in ("replicated", "unreduced", "manual"):
            raise scanner.error("expected replicated=, unreduced=, manual= or metadata=", at)
        if name in axes:
            raise scanner.error(f"{word} stands twice", at)
        axes[name] = _axes(scanner, index, ends=False)[0]
    return scanner.at(start, lambda: make(named=NamedSharding(mesh, **axes), metadata=metadata))


def _metadata_part(scanner: Scanner) -> tuple[str, ...]:
    if scanner.word() != "metadata=":
        raise scanner.expected("metadata=")
    return scanner.metadata()


def _cuts(scanner: Scanner, index: Mapping[str, int]) -> tuple[DimensionSharding, ...]:
    scanner.need("[", "replicated, manual, unreduced or '['")
    cuts: list[DimensionSharding] = []
    if scanner.take("]"):
        return ()
    while True:
        cuts.append(DimensionSharding(*_axes(scanner, index, ends=True)))
        if not scanner.take(","):
            break
    scanner.need("]", "',' or ']'")
    return tuple(cuts)


def _axes(scanner: Scanner, index: Mapping[str, int], *, ends: bool) -> tuple[tuple[Axis, ...], bool]:
    """The axes between braces, and whether a ``?`` ends them (only where it may: `ends`)."""
    scanner.need("{", "'{' and the axes of a dimension")
    axes: list[Axis] = []
    if scanner.take("}"):
        return (), False
    while True:
        if ends and scanner.take("?"):
            scanner.need("}", "'}' after '?'")
            return tuple(axes), True
        axes.append(_axis(scanner, index))
        if not scanner.take(","):
            break
    scanner.need("}", "',' or '}'")
    return tuple(axes), False


def _axis(scanner: Scanner, index: Mapping[str, int]) -> Axis:
    scanner.skip()
    at = scanner.position
    name = scanner.string("the quoted name of an axis")
    number = index.get(name, -1)
    if number < 0 and name.isascii() and name.isdigit() and len(name) < 10:
        number = int(name)
    if not 0 <= number < len(index):
        raise scanner.error(f"the mesh has no axis {name!r}", at)
    if not scanner.take(":"):
        return Axis(number)
    scanner.need("(")
    pre_size = scanner.integer("the factor before a sub-axis")
    scanner.need(")")
    size = scanner.integer("the size of a sub-axis")
    if pre_size < 1 or size < 2:
        raise scanner.error("a sub-axis needs a size of 2 or more behind a factor of 1 or more", at)
    return Axis(number, pre_size, size)
