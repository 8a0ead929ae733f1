"""The marks of pictures in ASCII, for outputs whose encoding lacks them."""

from __future__ import annotations

#: For each mark one of its own that is no line, number or flag beside it. Keys change with the pictures.
_PLAIN = {
    **dict(zip("·░▒▓█", ".:*%#", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇", "_,-=+oO", strict=True)),
    "…": "~",
}


def in_plain_marks(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks, for `codecs.register_error`: ASCII for marks, else ``?``.

    >>> import codecs
    >>> codecs.register_error("plain marks", in_plain_marks)
    >>> "░░██·é".encode("ascii", "plain marks")
    b'::##.?'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "?") for c in lacking), error.end
