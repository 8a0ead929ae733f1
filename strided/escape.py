"""Escaping of foreign text before it is shown: names in a dump, file names, arguments.

Terminals, and partly pages and notebooks, obey control characters: an escape sequence can recolour the screen, rename
the window or hide text; a bidirectional mark can disguise a name; a line end can forge a line. So this package passes
whatever it shows through `visible`. Data such as `Module.to_text` is not changed.
"""

from __future__ import annotations

import unicodedata


def visible(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""`text` with unprintable characters escaped: control characters, line ends, zero-width and bidi marks.

    Parameters
    ----------
    text : str
    limit : int, optional
        Longer texts are shortened in the middle to about `limit` characters.
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
    r"""`text` with all characters escaped that do not take exactly one column, so that a caret below it fits.

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
