"""Tables of the modules for other libraries, which `strided.interop` fills.

They contain only names; a module is imported after its library was.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

#: Our module that registers our arrays with a library, by the library's module.
INTRODUCTIONS: dict[str, str] = {}
#: Our module, and its function that converts our array to the library's, by library.
CONVERSIONS: dict[str, tuple[str, str]] = {}


def introduce() -> bool:
    """Register our arrays with all imported libraries. Returns whether there was a new one."""
    new = [own for library, own in INTRODUCTIONS.items() if library in sys.modules and own not in sys.modules]
    for own in new:
        import_module(own)
    return bool(new)


def convert(library: str, array: Any) -> Any:
    """An array converted to a library's own."""
    module, function = CONVERSIONS[library]
    return getattr(import_module(module), function)(array)
