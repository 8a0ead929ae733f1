"""Numbers as text: exact, or for sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Whole numbers up to this are written with all their digits.
_MOST_WHOLE = 1e15


def shortest(number: Any, dtype: np.dtype[Any]) -> str:
    """The fewest digits from which a float of this type can be read back; all digits of a whole number.

    >>> shortest(np.float32(0.1), np.dtype(np.float32)), shortest(1 / 3, np.dtype(np.float64))
    ('0.1', '0.3333333333333333')
    >>> shortest(np.float16(65504), np.dtype(np.float16)), shortest(1e30, np.dtype(np.float64))
    ('65504', '1e+30')
    """
    own = float(number)
    if own.is_integer() and abs(own) <= _MOST_WHOLE:
        return f"{own:.0f}"
    texts = (f"{own:.{digits}g}" for digits in range(1, 18))
    return next((text for text in texts if dtype.type(float(text)) == number), f"{own:.17g}")


def grouped(text: str) -> str:
    """A number for a sentence, with thousands separators if it is whole.

    >>> grouped("-1234567"), grouped("1234.5")
    ('-1,234,567', '1234.5')
    """
    return f"{int(text):,}" if text.removeprefix("-").isdigit() else text


def range_words(least: str, most: str) -> str:
    """A range for a sentence; one of its ends may be empty.

    >>> range_words("-1", "1"), range_words("0", ""), range_words("", "1000")
    ('to the range -1 to 1', 'to at least 0', 'to at most 1,000')
    """
    low, high = (grouped(each) for each in (least, most))
    if low and high:
        return f"to the range {low} to {high}"
    return f"to at least {low}" if low else f"to at most {high}"
