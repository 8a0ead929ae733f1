"""Parse shardings with a mesh; and device lists and metadata (kept as text), which both forms have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from strided.dumps.sharding.named import AXIS_LISTS, REDUCTIONS, Axis, DimensionSharding, Mesh, NamedSharding
from strided.dumps.sharding.tile_assignment import TileAssignment, device_number
from strided.layout.lexer import Lexer

T = TypeVar("T")

#: Words for one device without axes: jaxlib 0.10 prints the first, 0.12 the second.
ONE_DEVICE = ("maximal_mesh", "single_device")


def read_device(lexer: Lexer) -> int:
    """Parse a device number."""
    return lexer.build(lexer.start, device_number, lexer.required_integer("a device number"))


def read_iota(lexer: Lexer, start: int, dimensions: list[int]) -> TileAssignment:
    """Parse an iota such as ``[2,4]T(1,0)``, for a grid of these dimensions."""
    lexer.expect("[", "'[' and the sizes of the iota")
    sizes = lexer.integers("a size of the iota")
    lexer.expect("]")
    order = []
    if len(sizes) > 1:
        lexer.expect("T", f"T(...) to order the {len(sizes)} dimensions of the iota")
        lexer.expect("(")
        order = lexer.integers("a dimension of the iota")
        lexer.expect(")")
    elif lexer.token == "T":
        lexer.fail(f"T(...) orders the dimensions of an iota: [{sizes[0]}] has only one", lexer.start)
    return lexer.build(start, TileAssignment.iota, dimensions, sizes, order)


def read_named(lexer: Lexer, make: Callable[..., T]) -> T:
    """Parse a sharding with a mesh, up to its closing brace; `make` builds it."""
    word = lexer.take_word()
    lexer.expect("[", "'[' and the axes of the mesh")
    start = lexer.end
    if word in ONE_DEVICE:
        _expect_word(lexer, "device_id=")
        mesh = Mesh((), TileAssignment.listed((), (read_device(lexer),)))
        lexer.expect("]")
        metadata: tuple[str, ...] = ()
        if lexer.take(","):
            _expect_word(lexer, "metadata=")
            metadata = read_metadata(lexer)
        lexer.expect("}")
        return make(named=NamedSharding(mesh), metadata=metadata)
    mesh = _mesh(lexer, start)
    lexer.take(",")
    return _assignment(lexer, mesh, start, make)


def _mesh(lexer: Lexer, start: int) -> Mesh:
    axes = [] if lexer.take("]") else lexer.listed(lambda: _mesh_axis(lexer))
    if axes:
        lexer.expect("]", "',' or ']'")
    names, sizes = tuple(name for name, _ in axes), [size for _, size in axes]
    devices = lexer.build(start, TileAssignment.iota, sizes) if sizes else None
    if lexer.token == "," and lexer.peek() == "device_ids":
        lexer.advance()
        _expect_word(lexer, "device_ids=")
        lexer.expect("(")
        if lexer.token == "[":
            devices = read_iota(lexer, start, sizes)
        else:
            devices = lexer.build(start, TileAssignment.listed, sizes, lexer.integers("a device number"))
        lexer.expect(")")
    return lexer.build(start, Mesh, names, devices)


def _mesh_axis(lexer: Lexer) -> tuple[str, int]:
    name = lexer.string("the quoted name of an axis")
    lexer.expect("=")
    return name, lexer.required_integer("the size of an axis")


def _assignment(lexer: Lexer, mesh: Mesh, start: int, make: Callable[..., T]) -> T:
    """Parse what follows a mesh: the axes of each dimension or one word, then lists of axes, and metadata."""
    index = {name: k for k, name in enumerate(mesh.names)}
    axes = _first_axes(lexer, index)
    metadata: tuple[str, ...] = ()
    while not lexer.take("}"):
        lexer.expect(",", "',' or '}'")
        at, word = lexer.start, lexer.take_word()
        if word == "metadata=":
            metadata += read_metadata(lexer)
            continue
        name = word.rstrip("=")
        others = AXIS_LISTS if "dim_shardings" in axes else ()
        if not word.endswith("=") or name not in others:
            wanted = "replicated=, unreduced=, manual= or metadata=" if others else "metadata="
            lexer.fail(f"expected {wanted}, found {repr(word) if word else lexer.shown()}", at)
        if name in axes:
            lexer.fail(f"{word} stands twice", at)
        if name == "unreduced" and lexer.word:
            axes["reduction"] = _reduction(lexer)
        axes[name] = _axes(lexer, index, ends=False)[0]
    return lexer.build(start, lambda: make(named=NamedSharding(mesh, **axes), metadata=metadata))


def _first_axes(lexer: Lexer, index: Mapping[str, int]) -> dict[str, Any]:
    """Parse dimensions in brackets, or a word for all axes, as fields of a `NamedSharding`."""
    at, word = lexer.start, lexer.take_word()
    wanted = "replicated, manual, unreduced or '['"
    if not word:
        dims = lexer.bracketed("[]", lambda: DimensionSharding(*_axes(lexer, index, ends=True)), wanted)
        return {"dim_shardings": tuple(dims)}
    name = word.removesuffix("=")
    if word not in (*AXIS_LISTS, "unreduced="):
        lexer.fail(f"expected {wanted}, found {word!r}", at)
    if name == "replicated":
        return {}
    if not index:
        lexer.fail(f"a mesh without axes cannot be {name}", at)
    axes: dict[str, Any] = {name: tuple(map(Axis, range(len(index))))}
    if word == "unreduced=":
        axes["reduction"] = _reduction(lexer)
        if lexer.token == "{":
            axes[name] = _axes(lexer, index, ends=False)[0]
    return axes


def _reduction(lexer: Lexer) -> str:
    if lexer.word not in REDUCTIONS:
        lexer.fail(f"expected {', '.join(REDUCTIONS)}")
    return lexer.take_word()


def _expect_word(lexer: Lexer, word: str) -> None:
    if lexer.word != word:
        lexer.fail(f"expected {word}")
    lexer.take_word()


def _axes(lexer: Lexer, index: Mapping[str, int], *, ends: bool) -> tuple[tuple[Axis, ...], bool]:
    """Parse axes in braces; return them, and whether they end with a ``?``, which is allowed if `ends`."""
    lexer.expect("{", "'{' and the axes of a dimension")
    axes: list[Axis] = []
    if lexer.take("}"):
        return (), False
    while True:
        if ends and lexer.take("?"):
            lexer.expect("}", "'}' after '?'")
            return tuple(axes), True
        axes.append(_axis(lexer, index))
        if not lexer.take(","):
            break
    lexer.expect("}", "',' or '}'")
    return tuple(axes), False


def _axis(lexer: Lexer, index: Mapping[str, int]) -> Axis:
    at = lexer.start
    name = lexer.string("the quoted name of an axis")
    number = index.get(name, -1)
    if number < 0 and name.isascii() and name.isdigit() and len(name) < 10:
        number = int(name)
    if not 0 <= number < len(index):
        lexer.fail(f"the mesh has no axis {name!r}", at)
    if not lexer.take(":"):
        return Axis(number)
    lexer.expect("(")
    pre_size = lexer.required_integer("the factor before a sub-axis")
    lexer.expect(")")
    size = lexer.required_integer("the size of a sub-axis")
    return lexer.build(at, Axis.part, number, pre_size, size)


def read_metadata(lexer: Lexer) -> tuple[str, ...]:
    """Parse ``{...}`` or ``{{...}, {...}}`` from the first brace; return the records as text."""
    lexer.expect("{")
    if not lexer.take("{"):
        return tuple(filter(None, [_record(lexer)]))
    records = [_record(lexer)]
    while lexer.take(","):
        lexer.expect("{", "'{' to open the next record")
        records.append(_record(lexer))
    lexer.expect("}", "',' or '}' after a record of the metadata")
    return tuple(filter(None, records))


def _record(lexer: Lexer) -> str:
    """Parse a record up to its closing brace: names and values, separated by blanks or commas."""
    start, seen = lexer.start, set[str]()
    while not lexer.take("}"):
        if seen:
            lexer.take(",")
        if lexer.word in seen:
            lexer.fail(f"{lexer.word} stands twice", lexer.start)
        if not lexer.word.endswith("="):
            lexer.fail("expected name=value or '}'")
        seen.add(lexer.take_word())
        _skip_value(lexer)
    return lexer.text[start : lexer.end - 1].strip()


def _skip_value(lexer: Lexer) -> None:
    """Skip a string, a number, a bool, or numbers in braces."""
    if lexer.text.startswith(("'", '"'), lexer.start):
        lexer.string("a string")
    elif lexer.take("{"):
        if not lexer.take("}"):
            lexer.integers("a number")
            lexer.expect("}", "',' or '}'")
    elif lexer.word in ("true", "false"):
        lexer.take_word()
    else:
        lexer.required_integer("a string or a number")
