"""Elements of SVG pictures as strings: boxes, lines, text, and the document around them.

Lines and text take the colour of the page's text, so that a picture is legible on light and dark pages. A picture in a
file of its own sets its own background.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from strided.escape import visible

#: Okabe and Ito's colours, which colour-blind people can distinguish; drawn light, so that text on them is legible.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00")
#: The fill of padding. It is drawn as lines: an SVG pattern needs an identifier, which could clash within a page.
HATCH = "hatch"

_FONT = "font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace' font-size='12'"
#: Style for a file of its own; inside a page, `svg:root` matches nothing.
ALONE = "<style>svg:root{color-scheme:light dark;color:CanvasText;background:Canvas}</style>"
#: Distance between hatch lines along an edge.
_HATCH_STEP = 8


def document(drawn: Iterable[str], width: float, height: float, title: str) -> str:
    """The SVG text of a picture. Control characters of the title are escaped, because XML allows none."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
        f"height='{height:g}' {_FONT} fill='currentColor' stroke='none'><title>{escape(visible(title))}</title>"
        f"{ALONE}{''.join(drawn)}</svg>"
    )


def box(x: float, y: float, width: float, height: float, fill: str, opacity: float = 0.4, edge: float = 0.25) -> str:
    """A filled rectangle; `edge` is the opacity of the line around it."""
    hatched = _hatch(x, y, width, height) if fill == HATCH else ""
    filled = "fill='none'" if hatched else f"fill='{fill}' fill-opacity='{opacity:g}'"
    around = f" stroke='currentColor' stroke-opacity='{edge:g}' stroke-width='0.7'" if edge else ""
    return f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' {filled}{around}/>{hatched}"


def _hatch(x: float, y: float, width: float, height: float) -> str:
    """Diagonal lines in a rectangle, which continue in a neighbouring one."""
    moves = []
    for c in range(_HATCH_STEP * int((x + y) // _HATCH_STEP + 1), math.ceil(x + y + width + height), _HATCH_STEP):
        left, right = max(x, c - y - height), min(x + width, c - y)
        moves.append(f"M{left:g} {c - left:g}L{right:g} {c - right:g}")
    return f"<path d='{''.join(moves)}' stroke='currentColor' stroke-opacity='0.35' stroke-width='1.2'/>"


def line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    """A line; `width` is its thickness."""
    return (
        f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='currentColor' stroke-width='{width:g}' "
        f"stroke-linecap='square'/>"
    )


def text(x: float, y: float, words: str, opacity: float = 1, anchor: str = "middle") -> str:
    """Text at a point; `anchor` is SVG's text-anchor: "start", "middle" or "end"."""
    faint = "" if opacity == 1 else f" fill-opacity='{opacity:g}'"
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}'{faint}>{escape(words)}</text>"
