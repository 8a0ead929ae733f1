"""How values of lower packages look in notebooks: a table of names, filled from above.

A shape cannot import the module that draws it. It asks here, and that module is loaded with the first picture.
"""

from __future__ import annotations

from importlib import import_module

#: The module and its function that make HTML of a value, by the name of the value's class.
RENDERERS: dict[str, tuple[str, str]] = {}


def as_html(value: object) -> str | None:
    """A value as HTML; None, upon which a notebook prints its text, if nothing draws it."""
    if (found := RENDERERS.get(type(value).__name__)) is None:
        return None
    module, function = found
    html: str = getattr(import_module(module), function)(value)
    return html
