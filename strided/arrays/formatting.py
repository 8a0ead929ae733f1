"""Text of an array: ``str``, ``repr``, HTML and one line. Only the corners of a large array are read."""

from __future__ import annotations

import sys

import numpy as np

from strided.arrays.base import Array, ArrayBase
from strided.wording import size_text


def print_threshold() -> int:
    """NumPy's print option `threshold` as an int; it may be infinite."""
    return int(min(np.get_printoptions()["threshold"], sys.maxsize))


def corners(a: ArrayBase) -> tuple[Array, int]:
    """The values to print (only the corners of a large array), and the threshold to print them with.

    The corners have one additional entry along each long axis, which NumPy replaces by dots.
    """
    # With edgeitems=0 NumPy shows the last entry.
    threshold, edge = print_threshold(), max(1, int(np.get_printoptions()["edgeitems"]))
    if a.size <= threshold:
        return a.to_numpy(), threshold
    picks = [np.arange(n) if n <= 2 * edge + 1 else np.r_[0 : edge + 1, n - edge : n].astype(np.intp) for n in a.shape]
    found: Array = a[np.ix_(*picks)]
    return found, 0


def text(a: ArrayBase) -> str:
    """The values as ``str`` of an ndarray shows them."""
    values, threshold = corners(a)
    return np.array2string(values, threshold=threshold) if values.ndim else str(values)


def representation(a: ArrayBase) -> str:
    """The values as ``repr`` of an ndarray shows them, the type, and the shape of the buffer."""
    prefix = f"{type(a).__name__}("
    values, threshold = corners(a)
    shown = prefix
    shown += np.array2string(values, threshold=threshold, separator=", ", prefix=prefix) if a.size else "[]"
    if not a.size and a.shape != (0,):
        shown += f", shape={a.shape}"
    about = f"dtype={a.dtype.name}, {_origin(a)})"
    return f"{shown},\n{' ' * len(prefix)}{about}" if a.size and needs_line(f"{shown},", about) else f"{shown}, {about}"


def _origin(a: ArrayBase) -> str:
    """The spec of the buffer, and whether the array is a view of it."""
    return f"{'view of ' if a.is_view else ''}{a.spec}"


def needs_line(text: str, more: str) -> bool:
    """Whether `more` needs a line of its own, as in NumPy, because the last line would become too long with it."""
    last = len(text) - (text.rfind("\n") + 1)
    return last + 1 + len(more) > float(np.get_printoptions()["linewidth"])  # which may be infinite


def in_line(a: ArrayBase, width: int) -> str:
    """The class and the spec of the buffer in at most `width` characters."""
    about = f"{type(a).__name__} {_origin(a)}"
    return about if len(about) <= width else about[: max(0, width - 3)] + "..."


def as_html(a: ArrayBase) -> str:
    """A table of properties, the picture of the layout, and the values, for notebooks."""
    from strided.pictures.html import Section, card, layout_section, preformatted  # only notebooks need them

    buffer = a._memory.buffer.nbytes
    rows: list[tuple[str, object]] = [
        ("shape", a.shape),
        ("dtype", a.dtype.name),
        ("values", size_text(a.nbytes)),
        ("buffer", size_text(buffer)),
    ]
    if not a.is_view and buffer:
        rows.append(("padding", f"{1 - a.size * a._memory.bits / (8 * buffer):.1%}"))
    if a.file is not None:
        rows.append(("file", f"{a.file.path} ({a.file.mode})"))
    sections = [Section("values", preformatted(text(a)), is_open=True), *layout_section(a.spec)]
    return card(type(a).__name__, _origin(a), rows, sections)
