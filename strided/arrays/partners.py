"""What arrays ask of the modules that know other libraries: a table that `strided.interop` fills.

It holds only names; a module is imported once its library is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

#: Our module that introduces our arrays to a library, by the module of the library that must have been imported.
INTRODUCTIONS: dict[str, str] = {}
#: Our module and its function that makes a library's array of one of ours, by the library.
CONVERSIONS: dict[str, tuple[str, str]] = {}


def introduce() -> bool:
    """Introduce our arrays to the libraries that are loaded; whether any of them did not know them before."""
    new = [own for library, own in INTRODUCTIONS.items() if library in sys.modules and own not in sys.modules]
    for own in new:
        import_module(own)
    return bool(new)


def convert(library: str, array: Any) -> Any:
    """An array as a library's own."""
    module, function = CONVERSIONS[library]
    return getattr(import_module(module), function)(array)
