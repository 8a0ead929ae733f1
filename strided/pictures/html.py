"""Values as HTML for notebooks: a title, a table of properties, and collapsible sections.

Only pictures set colours, so that the notebook's light or dark theme applies. Without its style, as in an untrusted
notebook, a value is still a readable table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from strided.escape import visible
from strided.pictures.grid import has_cells
from strided.pictures.svg import svg
from strided.pictures.svg_elements import ALONE

_STYLE = (
    ".strided-value{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:100%}"
    ".strided-value table{border-collapse:collapse;margin:2px 0 4px;font-size:inherit;border:0}"
    ".strided-value tr,.strided-value tr:nth-child(even){background:none}"
    ".strided-value th,.strided-value td{padding:1px 14px 1px 0;text-align:left;border:0;vertical-align:top;"
    "background:none}"
    ".strided-value th{font-weight:normal;opacity:.65;white-space:nowrap}"
    ".strided-value thead th{border-bottom:1px solid;font-size:90%}"
    ".strided-value .strided-number{text-align:right;font-variant-numeric:tabular-nums}"
    ".strided-value code,.strided-value pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
    "font-size:12px;background:none;color:inherit;padding:0;margin:0}"
    ".strided-value pre{max-height:24em;overflow:auto;line-height:1.3;white-space:pre}"
    ".strided-value summary{cursor:pointer;opacity:.8;margin:2px 0}"
    ".strided-value .strided-scroll{overflow-x:auto;max-height:32em}"
)

#: The attribute has a value, so that it is valid XML, too.
_OPEN = " open='open'"


@dataclass(frozen=True, slots=True)
class Section:
    """A collapsible part of a value.

    Attributes
    ----------
    title : str
    content : str
        HTML.
    is_open : bool
    """

    title: str
    content: str
    is_open: bool = False


def card(title: str, about: str, rows: Iterable[tuple[str, object]] = (), sections: Iterable[Section] = ()) -> str:
    """A value as HTML: its class (`title`), its text (`about`), its properties and its sections.

    >>> "<th>padding</th><td>37.5%</td>" in card("Shape", "f32[3,5]", [("padding", "37.5%")])
    True
    """
    cells = "".join(f"<tr><th>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in rows)
    folded = "".join(
        f"<details{_OPEN * part.is_open}><summary>{escaped(part.title)}</summary>{part.content}</details>"
        for part in sections
    )
    return (
        f"<div class='strided-value'><style>{_STYLE}</style>"
        f"<div><b>{escaped(title)}</b> <code>{escaped(about)}</code></div>"
        f"{f'<table>{cells}</table>' if cells else ''}{folded}</div>"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], more: int = 0) -> str:
    """A table as HTML, with numbers aligned to the right; `more` is the number of rows left out.

    >>> "<td class='strided-number'>1,200</td>" in table(("name", "bytes"), [("p", 1200)])
    True
    """
    head = "".join(f"<th>{escaped(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    rest = f"<tr><td colspan='{len(heads)}'>... and {more:,} more</td></tr>" if more else ""
    return f"<div class='strided-scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}{rest}</tbody></table></div>"


def escaped(value: object) -> str:
    r"""A value as text that is safe in HTML.

    >>> escaped("a<b"), escaped("a\x00")
    ('a&lt;b', 'a\\x00')
    """
    return escape(visible(str(value)))


def preformatted(text: str) -> str:
    """Lines of text as HTML."""
    return f"<pre>{escape(visible(text, keep=chr(10)))}</pre>"


def picture(svg: str) -> str:
    """An SVG picture in a scrolling frame, without its style for separate files, which a page's policy may refuse."""
    return f"<div class='strided-scroll'>{svg.replace(ALONE, '')}</div>"


def layout_section(shape: object, title: str = "layout") -> list[Section]:
    """The picture of a layout as a collapsed section; none if there is nothing to draw."""
    return [Section(title, picture(svg(shape, max_rows=9, max_columns=12, memory=16)))] if has_cells(shape) else []


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<td class='strided-number'>{value:,}</td>"
    return f"<td>{escaped(value)}</td>"
