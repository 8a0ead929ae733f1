"""Sphinx configuration: Markdown through MyST, pictures drawn from the package while the pages are built."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import inventories
from sphinx.pycode import ModuleAnalyzer

import strided

project = "strided"
author = "The strided developers"
copyright = "The strided developers"
release = version = strided.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "code_links",
    "explorer",
    "layout_picture",
    "package_picture",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # the pages that autosummary makes are the latter
templates_path = ["_templates"]
exclude_patterns = ["_build", "_tables", "_templates"]
default_role = "code"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes that a class names in its docstring are not listed a second time
autosummary_generate = True
autodoc_mock_imports = ["dask", "jax", "jaxlib", "torch", "xarray", "zarr"]  # the pages are built without the partners
toc_object_entries_show_parents = "hide"

intersphinx_mapping = inventories.write(Path(__file__).parent / "_build" / "inventories")

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "strided"
html_static_path = ["_static"]
html_css_files = ["strided.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
GRAPHS = Path(__file__).parents[1] / "asv_bench" / ".asv" / "html"  # what `asv publish` wrote, if it did
if GRAPHS.is_dir():
    tags.add("graphs")  # type: ignore[name-defined] # noqa: F821 # Sphinx gives this file `tags`

html_sidebars = {"index": [], "start": []}  # the other pages list their neighbours


def _comments_of_constants(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Say of a constant what stands above it in the module that defines it: its own docstring is that of its type."""
    if what != "data":
        return
    constant = name.rpartition(".")[2]
    for module in [module for module in sys.modules if module.startswith("strided.")]:
        if getattr(sys.modules[module], constant, None) is thing:
            comments = ModuleAnalyzer.for_module(module).find_attr_docs()
            lines[:] = comments.get(("", constant), lines)


def _title_examples(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Give examples that follow a section without a title of their own one: napoleon takes them for a part of it."""
    first = next((k for k, line in enumerate(lines) if line.startswith(">>>")), None)
    if first is not None and "Examples" not in lines:
        lines[first:first] = ["Examples", "--------"]


def _whole_sentences(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Keep colons in the first line of a property: napoleon takes what stands before one for a type."""
    if what in ("property", "attribute", "data") and lines and ":" in lines[0]:
        lines[0] = f": {lines[0]}"


def _attributes_apart(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Give attributes that share a line one each, as napoleon does for parameters alone."""
    if "Attributes" not in lines:
        return
    kept: list[str] = []
    for line in lines:
        names, colon, rest = line.partition(" : ")
        if colon and ", " in names and names.replace(", ", "").isidentifier():
            *others, names = names.split(", ")
            kept += [f"{other} : {rest}" for other in others]
        kept.append(f"{names}{colon}{rest}")
    lines[:] = kept


def _keep_options_whole(app: object, doctree: Any) -> None:
    """Mark options in code: browsers break words after dashes. Those wider than a phone's tables may break."""
    for literal in doctree.findall(lambda node: node.tagname == "literal"):
        words = literal.astext().split()
        if words and words[0].startswith("--") and max(map(len, words)) <= 24:
            literal["classes"].append("option")


def _without_mocks(app: object, what: str, name: str, *rest: Any) -> tuple[str, None] | None:
    """Leave out the signature that a class gets from a base: a library that is not there, or a protocol."""
    signature = rest[2] or ""
    return ("", None) if what == "class" and signature.startswith("(*args") else None


def _take_graphs_along(app: Any, exception: Exception | None) -> None:
    """Copy the graphs of the benchmarks beside the pages."""
    if exception is None and GRAPHS.is_dir():
        shutil.copytree(GRAPHS, Path(app.outdir) / "graphs", dirs_exist_ok=True)


def setup(app: object) -> None:
    app.connect("autodoc-process-signature", _without_mocks)  # type: ignore[attr-defined]
    app.connect("doctree-read", _keep_options_whole)  # type: ignore[attr-defined]
    app.connect("build-finished", _take_graphs_along)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _attributes_apart, priority=420)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _whole_sentences, priority=410)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _comments_of_constants, priority=390)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _title_examples, priority=400)  # type: ignore[attr-defined] # before napoleon
