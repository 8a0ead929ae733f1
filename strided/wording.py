"""How numbers, sizes, names and long lines are put in what people read.

Reports, errors and cards say the same thing in the same words, because each of these is written once, here.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Sequence

from strided.escape import visible

#: Narrower than this no text is laid out, whatever the width asked for.
_LEAST_WIDTH = 20
_UNITS = "KMGTPE"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things in words; many are `one` with an s, unless `many` says otherwise.

    >>> counted(1, "array"), counted(1024, "array"), counted(0, "copy", "copies")
    ('1 array', '1,024 arrays', '0 copies')
    """
    return f"{number:,} {one if abs(number) == 1 else many or one + 's'}"


def size_text(size: int) -> str:
    """A number of bytes as XLA writes it: rounded down to the next smaller unit, then to the nearest.

    >>> size_text(24044546048), size_text(16_960_000_000), size_text(548 * 1024), size_text(512)
    ('22.39GiB', '15.79GiB', '548.0KiB', '512B')
    """
    if size < 1 << 10:
        return f"{size}B"
    unit = 0
    while size >= 1 << 20 and unit < len(_UNITS) - 1:  # a text may claim more than there are units for
        size, unit = size >> 10, unit + 1
    return f"{size / 1024:.{2 if unit else 1}f}{_UNITS[unit]}iB"


def some(names: Iterable[str], none: str = "none") -> str:
    """The first eight of some names, made visible, for an error.

    >>> some("abcdefghij"), some([])
    ('a, b, c, d, e, f, g, h, ...', 'none')
    """
    first = list(map(visible, itertools.islice(names, 9)))
    return ", ".join(first[:8] + ["..."] * (len(first) > 8)) or none


def did_you_mean(names: Sequence[str]) -> str:
    """The question after what may be meant, made visible; empty if there is nothing to ask after.

    >>> did_you_mean(["f6e3m2fn", "f6e2m3fn"]), did_you_mean(["ls"]), did_you_mean([])
    ('did you mean f6e3m2fn or f6e2m3fn?', 'did you mean ls?', '')
    """
    *others, last = map(visible, names or ("",))
    return f"did you mean {', '.join(others)}{' or ' * bool(others)}{last}?" * bool(last)


def wrapped(text: str, width: int, hang: str | None = None, *, whole_words: bool = False) -> list[str]:
    """A paragraph in lines of at most `width` columns; nothing is broken at a hyphen, as file names and options have.

    Parameters
    ----------
    text : str
    width : int
        Fewer than twenty columns count as twenty.
    hang : str, optional
        What all lines but the first begin with: by default the blanks that the text begins with, and two more.
    whole_words : bool
        Whether a word that is longer than a line stays whole, so that it can be copied, and its line becomes longer.

    >>> wrapped("  verdict  row-major-tiled", 20), wrapped("", 20)
    (['  verdict', '    row-major-tiled'], [''])
    """
    width = max(_LEAST_WIDTH, width)
    if len(text) <= width:
        return [text]
    if hang is None:
        hang = " " * (len(text) - len(text.lstrip()) + 2)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=hang,
        break_long_words=not whole_words,
        break_on_hyphens=False,
    )
    return lines or [""]  # blanks alone are a line, too
