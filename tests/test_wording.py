"""What people read is worded alike everywhere: sizes, questions, and lines that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.wording import did_you_mean, names_meant, size_text, wrapped

WORDS = st.lists(st.text("ab-{}:,", min_size=1, max_size=12), min_size=1).map(" ".join)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KiB"),
        ((1 << 20) - 1, "1024.0KiB"),
        (1 << 20, "1.00MiB"),
        ((1 << 30) - 1, "1024.00MiB"),
        (1 << 30, "1.00GiB"),
        (5 << 40, "5.00TiB"),
        (1 << 53, "8.00PiB"),
        ((1 << 63) - 1, "8.00EiB"),
        (5 << 80, "5242880.00EiB"),
    ],
)
def test_sizes_are_those_of_xla(size: int, text: str) -> None:
    assert size_text(size) == text


def test_names_that_begin_alike_come_before_those_spelled_alike() -> None:
    names = ["p__blocks___0___wo__.1", "p__blocks___0___w2__.1", "p__blocks___0___w1__.1"]
    assert names_meant("p__blocks___0___w1", names) == "did you mean p__blocks___0___w1__.1?"
    assert names_meant("p__blocks___0___w", names) == f"there are {', '.join(names)}"


def test_looking_for_names_takes_no_time_for_any_length() -> None:
    names = ["x" * 1_000_000, "weight", *(str(k) for k in range(20_000))]
    assert names_meant("wieght", names) == "did you mean weight?"
    assert names_meant("y" * 1_000_000, names).startswith("there are ")


def test_what_may_be_meant_is_made_visible() -> None:
    assert did_you_mean(["a\x1b[31m", "b", "c"]) == r"did you mean a\x1b[31m, b or c?"


@given(WORDS, st.integers(-1, 100), st.sampled_from([None, "", "    "]), st.booleans())
def test_lines_fit_and_lose_nothing(text: str, width: int, hang: str | None, whole_words: bool) -> None:
    lines = wrapped(text, width, hang, whole_words=whole_words)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= max(20, width) for line in lines)
    assert all(line.startswith("  " if hang is None else hang) for line in lines[1:])
    assert [word for line in lines for word in line.split()] == text.split()  # cut neither at hyphens nor elsewhere


def test_blanks_alone_are_a_line() -> None:
    assert wrapped(" " * 30, 20) == wrapped("", 20) == [""]


def test_a_word_longer_than_a_line_is_cut_or_stays_whole() -> None:
    assert wrapped("  " + "a" * 30, 20) == ["  " + "a" * 18, "    " + "a" * 12]
    assert wrapped("see " + "a" * 30, 20, whole_words=True) == ["see", "  " + "a" * 30]
