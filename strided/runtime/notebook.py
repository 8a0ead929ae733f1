"""HTML for notebooks of values of lower packages: a table of renderers that higher packages fill.

A shape cannot import the higher module that draws it. The table has its name, and it is imported on first use.
"""

from __future__ import annotations

from importlib import import_module

#: The module and its function that render a value as HTML, by the name of the value's class.
RENDERERS: dict[str, tuple[str, str]] = {}


def as_html(value: object) -> str | None:
    """A value as HTML; None if it has no renderer, so that the notebook shows its text."""
    if (found := RENDERERS.get(type(value).__name__)) is None:
        return None
    module, function = found
    html: str = getattr(import_module(module), function)(value)
    return html
