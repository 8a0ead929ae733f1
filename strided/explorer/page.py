"""Build a page as one self-contained HTML file with style, script and data.

The page's content security policy allows only this style and this script, by their hashes. Data are JSON without ``<``,
so that names and values from files cannot become HTML.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from strided.escape import visible
from strided.files.atomic import replaced
from strided.pictures.html import escaped
from strided.runtime.argument_checks import path_text

_ASSETS = resources.files("strided.explorer") / "assets"
#: The style sheets of a page, by its main script.
_STYLES = {"main": ("page.css",), "programs": ("page.css", "programs.css")}
_IMPORT = re.compile(r'^import (?:\{[^}]*\}|\* as \w+) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=class|const|function|async)", re.MULTILINE)
#: In JSON: an escaped backslash (so that it does not begin a match), a surrogate pair, or another escaped character.
_ESCAPED = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\u[0-9a-f]{4}")


@dataclass(frozen=True)
class Page:
    """An HTML page.

    Attributes
    ----------
    title : str
    html : str
    """

    title: str
    html: str

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the page to a file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written. FileExistsError if it exists and `overwrite` is False.
        """
        with replaced(path_text(path, "path"), overwrite=overwrite) as file:
            file.write(self.html.encode())

    def __repr__(self) -> str:
        return f"<Page {visible(self.title)}: {len(self.html):,} characters; save() writes it>"

    def _repr_html_(self) -> str:
        frame = html.escape(self.html, quote=True)
        style = "width:100%;height:46rem;border:0"
        return f"<iframe title='{escaped(self.title)}' srcdoc=\"{frame}\" style='{style}'></iframe>"


def build_page(
    title: str, facts: Sequence[tuple[str, object]], main: str, data: Mapping[str, Any], more: str = ""
) -> Page:
    """Build a page of a title, rows of facts, the view of a main script, and more HTML below it."""
    style, script = "".join(map(asset, _STYLES[main])), bundled(main)
    rows = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in facts)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    content = _as_json(data).replace("<", "\\u003c")
    return Page(
        title,
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escaped(title)}</h1><dl class='facts'>{rows}</dl></header>\n"
        f"<main id='view'></main>\n{more}"
        "<noscript>This page needs JavaScript, all of which is in this file.</noscript>\n"
        "<footer>Made by strided. This file is complete: it loads nothing.</footer>\n"
        f'<script type="application/json" id="data">{content}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n',
    )


def packed(content: Mapping[str, Any]) -> dict[str, str]:
    """Data for a page as compressed JSON in base64."""
    return {"gzip": base64.b64encode(gzip.compress(_as_json(content).encode(), 6, mtime=0)).decode()}


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """The text of an asset file."""
    return (_ASSETS / name).read_text(encoding="utf-8")


@lru_cache(maxsize=32)
def bundled(main: str) -> str:
    """A script and the modules that it imports, concatenated; their names must be unique."""
    ordered: list[str] = []

    def add(name: str) -> None:
        for needed in _IMPORT.findall(asset(f"{name}.js")):
            if needed not in ordered:
                add(needed)
        ordered.append(name)

    add(main)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(f"{name}.js"))) for name in ordered)


def _as_json(data: Mapping[str, Any]) -> str:
    """Data as JSON, with unprintable characters escaped by `visible`: bidi marks could disguise a name."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return _ESCAPED.sub(lambda found: _made_visible(found[0]), text)


@lru_cache(maxsize=1024)
def _made_visible(code: str) -> str:
    return code if code == r"\\" else json.dumps(visible(json.loads(f'"{code}"')))[1:-1]


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
