"""Foreign text made safe to show: names in a dump, file names, arguments.

Terminals, and in part pages and notebooks, obey control characters: an escape sequence recolours the screen, renames
the window or hides what follows; a mark that reverses the direction of writing disguises a name; a line end forges a
line. So whatever this package shows to people passes through `visible`. Data such as `Module.to_text` stay unchanged.
"""

from __future__ import annotations

import unicodedata


def visible(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""`text` with characters that do not print escaped: controls, line ends, zero-width and bidi marks.

    Parameters
    ----------
    text : str
    limit : int, optional
        Longer texts are cut to about `limit` characters, the start and the end.
    keep : str
        Characters that are not escaped, such as line ends.

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
    r"""`text` with characters escaped that do not take exactly one column, so that a mark below stands in its place.

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
