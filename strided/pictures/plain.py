"""ASCII substitutes for the marks of pictures, for outputs whose encoding lacks them."""

from __future__ import annotations

#: Each mark has its own substitute, which must not look like a line, number or flag in the same picture.
_PLAIN = {
    **dict(zip("·░▒▓█", ".:*%#", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇", "_,-=+oO", strict=True)),
    "…": "~",
}


def in_plain_marks(error: UnicodeError) -> tuple[str, int]:
    """An error handler for `codecs.register_error`: ASCII substitutes for marks, ``?`` for other characters.

    >>> import codecs
    >>> codecs.register_error("plain marks", in_plain_marks)
    >>> "░░██·é".encode("ascii", "plain marks")
    b'::##.?'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "?") for c in lacking), error.end
