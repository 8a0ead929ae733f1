"""Formatting of numbers, sizes, names and long lines, the same in reports, errors and cards."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Collection, Iterable, Sequence

from strided.escape import visible

#: The least width of wrapped text, in columns.
_LEAST_WIDTH = 20
_UNITS = "KMGTPE"
#: The most names that are compared for suggestions, and the most characters of each: comparing takes time.
_COMPARED, _LONGEST_COMPARED = 10_000, 200


def counted(number: int, one: str, many: str = "") -> str:
    """A number with a noun; the plural is `many`, by default `one` with an s.

    >>> counted(1, "array"), counted(1024, "array"), counted(0, "copy", "copies")
    ('1 array', '1,024 arrays', '0 copies')
    """
    return f"{number:,} {one if abs(number) == 1 else many or one + 's'}"


def size_text(size: int) -> str:
    """A number of bytes as XLA formats it: truncated to the next smaller unit, then rounded.

    >>> size_text(24044546048), size_text(16_960_000_000), size_text(548 * 1024), size_text(512)
    ('22.39GiB', '15.79GiB', '548.0KiB', '512B')
    """
    if size < 1 << 10:
        return f"{size}B"
    unit = 0
    while size >= 1 << 20 and unit < len(_UNITS) - 1:  # a text may claim sizes beyond the largest unit
        size, unit = size >> 10, unit + 1
    return f"{size / 1024:.{2 if unit else 1}f}{_UNITS[unit]}iB"


def times_text(factor: float) -> str:
    """A factor with three significant digits, or rounded to an integer; never with an exponent.

    >>> times_text(1.0), times_text(56.889), times_text(1024), times_text(1e6), times_text(float("inf"))
    ('1', '56.9', '1,024', '1,000,000', 'inf')
    """
    return f"{factor:.3g}" if factor < 999.5 else f"{factor:,.0f}"


def some(names: Iterable[str], none: str = "none") -> str:
    """The first eight names, escaped, for an error message.

    >>> some("abcdefghij"), some([])
    ('a, b, c, d, e, f, g, h, ...', 'none')
    """
    first = list(map(visible, itertools.islice(names, 9)))
    return ", ".join(first[:8] + ["..."] * (len(first) > 8)) or none


def range_key(start: int, stop: int) -> str:
    """The indices from `start` to `stop` as in NumPy's brackets.

    >>> range_key(8, 16), range_key(3, 4)
    ('8:16', '3')
    """
    return str(start) if stop == start + 1 else f"{start}:{stop}"


def did_you_mean(names: Sequence[str]) -> str:
    """The question "did you mean ...?" for these names, escaped; empty if there are none.

    >>> did_you_mean(["f6e3m2fn", "f6e2m3fn"]), did_you_mean(["ls"]), did_you_mean([])
    ('did you mean f6e3m2fn or f6e2m3fn?', 'did you mean ls?', '')
    """
    *others, last = map(visible, names or ("",))
    return f"did you mean {', '.join(others)}{' or ' * bool(others)}{last}?" * bool(last)


def names_meant(name: str, names: Collection[str]) -> str:
    """Suggests which of `names` is meant by `name`, or lists them. The last part of a path may stand for it.

    Names that begin with `name` are preferred to those of similar spelling.

    >>> names_meant("argumnt0", ["jit_f/argument0", "g/b"]), names_meant("g", ["jit_f/argument0", "g/b"])
    ('did you mean jit_f/argument0?', 'did you mean g/b?')
    >>> names_meant("w1", ["wo.1", "w1.1"]), names_meant("w", ["w1", "v", "w2"]), names_meant("xyz", ["a"])
    ('did you mean w1.1?', 'there are w1, w2', 'there are a')
    """
    import difflib  # only errors need it

    wholes = [each for each in itertools.islice(names, _COMPARED) if len(each) <= _LONGEST_COMPARED]
    if begun := [each for each in wholes if each.startswith(name) or _last_part(each).startswith(name)]:
        return did_you_mean(begun) if len(begun) == 1 else f"there are {some(begun)}"
    by_end = {_last_part(each): each for each in reversed(wholes)} | {each: each for each in wholes}
    close = difflib.get_close_matches(name[:_LONGEST_COMPARED], by_end, n=1)
    return did_you_mean([by_end[each] for each in close]) or f"there are {some(names)}"


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


def wrapped(text: str, width: int, hang: str | None = None, *, whole_words: bool = False) -> list[str]:
    """A paragraph in lines of at most `width` columns. Lines do not break at hyphens, as in file names and options.

    Parameters
    ----------
    text : str
    width : int
        At least 20; smaller values count as 20.
    hang : str, optional
        The indent of all lines but the first: by default that of the text and two more blanks.
    whole_words : bool
        Whether to keep a word whole that is longer than a line, so that it can be copied.

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
    return lines or [""]  # a text of blanks is one line
