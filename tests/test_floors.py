"""The house: who may import whom, and what stays unloaded until it is needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import strided

PACKAGE = Path(strided.__file__).parent

#: The rooms from the ground up: each imports rooms before it, and itself.
ROOMS = [
    "foreign",
    "errors",
    "files",
    "formats",
    "gzipped",
    "regular",
    "once",
    "locks",
    "recent",
    "cpus",
    "threads",
    "dtypes",
    "nodes",
    "digits",
    "address",
    "tiling",
    "layout",
    "scanner",
    "notation",
    "indexing",
    "kernels",
    "plan",
    "region",
    "mapped",
    "gathering",
    "execution",
    "convert",
    "buffers",
    "padding",
    "wrapped",
    "progressions",
    "encode",
    "windows",
    "selecting",
    "indexed",
    "flags",
    "flat",
    "views",
    "streams",
    "sums",
    "reductions",
    "operands",
    "others",
    "ufuncs",
    "operators",
    "overlap",
    "shown",
    "functions",
    "dlpack",
    "protocols",
    "methods",
    "array",
    "npy",
    "pages",
    "reading",
    "export",
    "dumps",
    "inspect",
    "partners",
    "",  # strided/__init__.py: the public names
    "demo",
    "cli",
    "__main__",
]
#: Doors look down, never at each other.
DOORS = {"dumps", "inspect", "partners"}
#: Foreign modules that one room alone may know.
FOREIGN = {"numba": "kernels", "llvmlite": "kernels", "click": "cli", "dask": "partners", "xarray": "partners",
           "jax": "partners", "jaxlib": "partners", "torch": "partners", "pandas": "partners"}  # fmt: skip
#: What even the public door must not load.
HEAVY = [*FOREIGN, "rich", "scipy", "concurrent.futures.process", "multiprocessing", "unittest", "asyncio"]


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its name below ``strided``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix("__init__").removesuffix(".")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            below = f"{node.module}.{alias.name}".removeprefix("strided.")
            yield f"strided.{below}" if node.module.startswith("strided") and below in known else node.module


def imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules imported anywhere in a file, but for what only a type checker reads."""
    for node in runtime_nodes(tree):
        yield from imported(node, known)


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def room_of(module: str) -> str:
    return module.split(".")[0]


def test_every_file_has_its_room() -> None:
    assert {room_of(name) for name in modules()} <= set(ROOMS)


def test_no_file_imports_upwards() -> None:
    trees = modules()
    wrong = []
    for name, tree in trees.items():
        floor = ROOMS.index(room_of(name))
        for target in imports(tree, set(trees)):
            if target.split(".")[0] != "strided":
                continue
            room = room_of(target.removeprefix("strided").removeprefix("."))
            beside = room in DOORS and room_of(name) in DOORS and room != room_of(name)
            if beside or (ROOMS.index(room) > floor and room_of(name)):
                wrong.append(f"strided.{name} imports {target}")
    assert wrong == []


def test_modules_do_not_go_in_circles() -> None:
    trees = modules()
    below = {
        name: {
            t.removeprefix("strided").removeprefix(".") for t in imports(tree, set(trees)) if t.startswith("strided")
        }
        for name, tree in trees.items()
        if name
    }
    done: set[str] = set()
    while len(done) < len(below):
        ready = {name for name in below.keys() - done if below[name] - {name, ""} <= done}
        assert ready, f"imports go in circles among {sorted(below.keys() - done)}"
        done |= ready


def test_foreign_modules_stay_where_they_belong() -> None:
    trees = modules()
    wrong = [
        f"strided.{name} imports {target}"
        for name, tree in trees.items()
        for target in imports(tree, set(trees))
        if (owner := FOREIGN.get(target.split(".")[0])) is not None
        and room_of(name) != owner
        and name != f"partners.{target.split('.')[0]}"
    ]
    assert wrong == []


def loaded_by(code: str) -> set[str]:
    """The modules in a fresh interpreter after some code."""
    report = "import sys, json\n" + code + "\nprint(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", report], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


LIGHT = {
    "import": "import strided",
    "parsing": "import strided as sd; str(sd.parse('(bf16[3,5]{1,0:T(8,128)(2,1)}, s4[7]{0:E(4)})'))",
    "sizes and addresses": (
        "import strided as sd; s = sd.parse('bf16[300,500]{1,0:T(8,128)(2,1)}'); s.byte_size; s.offset_of((2, 3))\n"
        "s.offset_of(([0, 1], [2, 3])); s.index_at(17); s.index_at([1, 2])"
    ),
    "one element": (
        "import strided as sd\n"
        "a = sd.LayoutArray(bytes(4096 * 4096), 'f32[2048,2048]{1,0:T(8,128)}'); a[0, 0]; a[5, -1]"
    ),
    "a few elements": (
        "import strided as sd, numpy as np\n"
        "a = sd.LayoutArray(bytearray(2048 * 2048 * 4), 'f32[2048,2048]{1,0:T(8,128)}')\n"
        "np.asarray(a[3:9, ::400]); a[[1, 2], [3, 4]]; a[0, :10] = 1; repr(a); str(a); repr(a[::3])"
    ),
    "a small conversion": (
        "import strided as sd, numpy as np\n"
        "a = sd.LayoutArray.from_numpy(np.ones((30, 50), 'f4'), '{0,1:T(8,16)}'); a.to_numpy(); a.to_layout('{1,0}')"
    ),
}


@pytest.mark.parametrize("action", LIGHT)
def test_small_things_load_no_compiler(action: str) -> None:
    loaded = loaded_by(LIGHT[action])
    assert sorted(name for name in HEAVY if name in loaded) == []


def test_the_door_opens_onto_little() -> None:
    """The readers of dumps are loaded when their names are used."""
    assert [name for name in loaded_by("import strided") if name.startswith(("strided.dumps", "strided.inspect"))] == []


def test_public_names() -> None:
    assert len(set(strided.__all__)) == len(strided.__all__)
    for name in strided.__all__:
        assert getattr(strided, name) is not None
        assert name in dir(strided)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = strided.nothing


def test_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
