"""The counting of work itself: it must see what is quadratic, and follow patterns as Python does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.dumps.hlo import lexer
from tests.steps import Counted, Machine, check_linear, steps


@given(
    st.sampled_from(
        [r"a*b", r"(?:ab|a|(?!))*+b", r"(?:a|ab)*b", r"(a+?)(b??)c", r"[^a]+|a{2,3}", r"\ba\b|^b$", r"(?<!a)b(?=c)",
         r"(?>a+)b", r"\d\D\S\W",
         r"(?:\s++|//[^\n]*+|(?!))*+", r"(?s).a.", r"(?m)^a.*$", r"a{,2}?b", r"(?:a{2,}|b)+?c", r"[\w.-]+ = "]
    ),
    st.text("abc 1=/\n", max_size=12),
    st.integers(0, 12),
)  # fmt: skip
def test_the_machine_ends_where_python_does(pattern, text, position):
    counted = Counted(re.compile(pattern), lambda more: None)
    real = re.compile(pattern)
    for name in ("match", "fullmatch", "search"):
        found, expected = getattr(counted, name)(text, position), getattr(real, name)(text, position)
        assert (found and found.span()) == (expected and expected.span())
    assert counted.findall(text, position) == real.findall(text, position)
    assert [m.span() for m in counted.finditer(text)][:1] == [m.span() for m in real.finditer(text)][:1]


@pytest.mark.parametrize(
    ("pattern", "growth"), [(r"a*+b", 2), (r"a*a*b", 8), (r"(?:a*)*+b", 2), (r"a*b", 2), (r"a*a*a*b", 16)]
)
def test_the_machine_counts_backtracking(pattern, growth):
    machine, found = Machine(re.compile(pattern)), []
    for size in (40, 80):
        machine.steps = 0
        assert machine.end_of("a" * size, 0, whole=False) is None
        found.append(machine.steps)
    assert growth / 2.5 <= found[1] / found[0] <= growth * 1.3


def test_quadratic_work_is_seen(monkeypatch):
    monkeypatch.setattr(lexer, "_SPACE", re.compile(r"a*b"))

    def work(size):
        return lambda: [lexer.skip_space("a" * size, k) for k in range(0, size, 8)]

    with pytest.raises(AssertionError, match="steps at 100"):
        check_linear(work, 100)
    check_linear(lambda size: lambda: lexer.split_list("a," * size), 100)


def test_lines_are_counted():
    assert steps(lambda: None) == 0
    assert steps(lambda: lexer.inside("{a}")) == 2
    assert steps(lambda: [lexer.inside("{a}") for _ in range(10)]) == 20
