"""A directive that draws the packages and their imports from the code while the page is built.

    ```{package-picture}
    ```

The rows are the layers that import-linter holds (pyproject.toml), the arrows the imports that `ast` finds. An arrow
that others imply is left out, and so are arrows to the lowest rows, which everything may import.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive

_ROOT = Path(__file__).resolve().parents[2]
_BOX, _BOX_HEIGHT, _PITCH, _GAP, _THREAD = 180, 42, 72, 24, 16
_FONT = "font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace'"
_ARROW = (
    "<defs><marker id='import' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
    "<path d='M0,0 L8,4 L0,8 z' fill='currentColor'/></marker></defs>"
)

Edges = dict[str, set[str]]


class Package(NamedTuple):
    """What a box says of a package."""

    modules: int
    lines: int
    question: str


class Thread(NamedTuple):
    """Where the arrows to a package pass a row that lies between."""

    target: str
    row: int


def layers() -> list[list[str]]:
    """The rows of the contract from top to bottom, without `__main__`."""
    with open(_ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [row.split(" | ") for row in rows if row != "__main__"]


def read(name: str) -> tuple[Package, set[str]]:
    """The figures of a package or a module, and the others that it imports."""
    folder = _ROOT / "strided" / name
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    trees = [ast.parse(text) for text in texts]
    first = next(tree for file, tree in zip(files, trees, strict=True) if file.stem in ("__init__", name))
    question = (ast.get_docstring(first) or "").partition("\n")[0]
    used = {other for tree in trees for node in ast.walk(tree) for other in _imported(node)}
    return Package(len(files), sum(text.count("\n") for text in texts), question), used - {name}


def _imported(node: ast.AST) -> list[str]:
    """The parts of `strided` that one statement imports."""
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == "strided":
        paths = [f"strided.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        paths = [node.module or ""]
    else:
        return []
    return [path.split(".")[1] for path in paths if path.startswith("strided.")]


def reduced(edges: Edges) -> Edges:
    """The edges without those that a longer way implies."""

    def beyond(start: str) -> set[str]:
        return set().union(*({after} | beyond(after) for after in edges[start])) if edges[start] else set()

    return {name: afters - set().union(*map(beyond, afters)) for name, afters in edges.items()}


def draw() -> str:
    """The picture, as SVG text."""
    rows = layers()
    found = {name: read(name) for row in rows for name in row}
    level = {name: k for k, row in enumerate(rows) for name in row}
    drawn_down_to = len(rows) - 3
    edges = reduced(
        {name: {to for to in found[name][1] if level[name] < level.get(to, 0) <= drawn_down_to} for name in level}
    )
    cells, links = _threaded(rows, edges, level)
    places = _places(cells, links)
    width = max(x for x, _ in places.values()) + _BOX // 2 + 8
    height = _PITCH * (len(rows) - 1) + _BOX_HEIGHT + 16
    drawn = [_arrow(links, places, start, after) for start in level for after in links[start]]
    drawn += [_box(name, found[name][0], *places[name]) for name in level]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' viewBox='0 0 {width:g} {height}' width='{width:g}' "
        f"height='{height}' fill='none' stroke='currentColor' {_FONT}><title>The packages of strided, and which "
        f"imports which</title>{_ARROW}{''.join(drawn)}</svg>"
    )


def _threaded(
    rows: list[list[str]], edges: Edges, level: dict[str, int]
) -> tuple[list[list[str | Thread]], dict[str | Thread, list[str | Thread]]]:
    """The cells of each row, and what each is linked to in the row below: long arrows get a thread in every row."""
    cells: list[list[str | Thread]] = [list(row) for row in rows]
    links: dict[str | Thread, list[str | Thread]] = defaultdict(list)
    for start, afters in edges.items():
        for target in sorted(afters):
            here: str | Thread = start
            for row in range(level[start] + 1, level[target] + 1):
                there = target if row == level[target] else Thread(target, row)
                if isinstance(there, Thread) and there not in cells[row]:
                    cells[row].append(there)
                if there not in links[here]:
                    links[here].append(there)
                here = there
    return cells, links


def _places(
    cells: list[list[str | Thread]], links: dict[str | Thread, list[str | Thread]]
) -> dict[str | Thread, tuple[float, float]]:
    """The top centre of each cell. Each row is sorted by where its neighbours lie, a few times down and up."""
    above: dict[str | Thread, list[str | Thread]] = defaultdict(list)
    for start, afters in links.items():
        for after in afters:
            above[after].append(start)
    x: dict[str | Thread, float] = {}

    def spread(row: list[str | Thread]) -> None:
        sizes = [_BOX if isinstance(cell, str) else _THREAD for cell in row]
        left = -(sum(sizes) + _GAP * (len(row) - 1)) / 2
        for cell, size in zip(row, sizes, strict=True):
            x[cell] = left + size / 2
            left += size + _GAP

    for row in cells:
        spread(row)
    for turn in range(8):
        neighbours = links if turn % 2 else above
        for row in cells[::-1] if turn % 2 else cells:
            near = {cell: [x[other] for other in neighbours[cell]] or [x[cell]] for cell in row}
            row.sort(key=lambda cell: sum(near[cell]) / len(near[cell]))
            spread(row)
    shift = min(x.values()) - _BOX / 2 - 8
    return {cell: (x[cell] - shift, 8 + _PITCH * k) for k, row in enumerate(cells) for cell in row}


def _arrow(
    links: dict[str | Thread, list[str | Thread]],
    places: dict[str | Thread, tuple[float, float]],
    start: str,
    after: str | Thread,
) -> str:
    """The way from a box down to the next one, between the boxes of the rows that it passes."""
    x, y = places[start][0], places[start][1] + _BOX_HEIGHT
    path = f"M{x:g},{y:g}"
    while True:
        below, top = places[after]
        middle = (y + top) / 2
        path += f" C{x:g},{middle:g} {below:g},{middle:g} {below:g},{top:g}"
        if isinstance(after, str):
            return f"<path d='{path}' stroke-opacity='0.6' marker-end='url(#import)'/>"
        x, y = below, top + _BOX_HEIGHT
        path += f" L{x:g},{y:g}"
        after = links[after][0]


def _box(name: str, package: Package, x: float, y: float) -> str:
    """The name of a package and its size; its question shows under the pointer."""
    modules = "1 module" if package.modules == 1 else f"{package.modules} modules"
    texts = [(18, 14, "bold", name), (35, 11, "normal", f"{modules}, {package.lines:,} lines")]
    return (
        f"<g><title>{escape(package.question)}</title><rect x='{x - _BOX / 2:g}' y='{y:g}' width='{_BOX}' "
        f"height='{_BOX_HEIGHT}' rx='5' fill='currentColor' fill-opacity='0.06'/>"
        + "".join(
            f"<text x='{x:g}' y='{y + down:g}' font-size='{size}' font-weight='{weight}' text-anchor='middle' "
            f"fill='currentColor' stroke='none'>{escape(text)}</text>"
            for down, size, weight, text in texts
        )
        + "</g>"
    )


class PackagePicture(Directive):
    """The packages as SVG inside the page, so that it takes the page's colours."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", f'<div class="package-picture">{draw()}</div>', format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("package-picture", PackagePicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
