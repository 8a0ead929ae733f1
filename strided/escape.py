"""Foreign text made safe to show: names in a dump, file names, arguments.

A terminal obeys the control characters in what is printed on it, and so do pages and notebooks in part: an escape
sequence recolours the screen, renames the window or hides what follows; a character that turns the direction of writing
makes a name read as another one; a line end forges a line. So everything that this package shows to people passes
foreign text through `visible`. Texts that are data are not changed: `Module.to_text`, attributes.
"""

from __future__ import annotations

import unicodedata


def visible(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""`text` with an escape for every character that does not print: controls, line ends, zero-width and bidi marks.

    Parameters
    ----------
    text : str
    limit : int, optional
        Of longer texts the start and the end are shown, in about `limit` characters.
    keep : str
        Characters that stay as they are though they do not print, such as line ends.

    >>> print(visible("a\x1b[31mb\n\u202ec"))
    a\x1b[31mb\n\u202ec
    >>> visible("abcdefghijklmnopqrstuvwxyz", 12)
    'abcdefg ... wxyz'
    """
    if limit is not None and len(text) > limit:
        end = limit // 3
        text = f"{text[: limit - 1 - end]} ... {text[len(text) - end :]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def in_columns(text: str) -> str:
    r"""`text` with an escape for every character that does not take exactly one column, from left to right.

    So a mark in the line below stands under the right place: it is as long as what is shown of the text before it.

    >>> print(in_columns("name\t\U0001f600"))
    name\t\U0001f600
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _takes_one_column(c) else _escape(c) for c in text)


def _takes_one_column(c: str) -> bool:
    return c.isprintable() and (
        c.isascii()
        or (
            unicodedata.east_asian_width(c) not in ("W", "F")
            and unicodedata.category(c) not in ("Mn", "Me")
            and unicodedata.bidirectional(c) not in ("R", "AL", "AN")
        )
    )


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
