"""Cases that are many and much alike: some of them in every run, all with ``--long``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

#: Examples that Hypothesis makes of a test: in a plain run, and with ``--long``.
EXAMPLES, LONG_EXAMPLES = 10, 60


def thinned(cases: Iterable[Any], step: int) -> list[Any]:
    """All cases as parameters of a test; all but every `step`-th, counted from the first, are slow.

    Parameters
    ----------
    cases : iterable
        What `pytest.mark.parametrize` takes: values, tuples of several values, or results of `pytest.param`. A tuple
        that is one value needs `pytest.param`.
    step : int
        Prime to the period of cases that repeat, so that those that stay are of all kinds.
    """
    return [case if k % step == 0 else _slow(case) for k, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    known = hasattr(case, "marks")
    values = case.values if known else case if isinstance(case, tuple) else (case,)
    marks = (*case.marks, pytest.mark.slow) if known else pytest.mark.slow
    return pytest.param(*values, marks=marks, id=case.id if known else None)


def examples(count: int) -> settings:
    """Settings of a test that takes so many examples with ``--long``, and fewer or more as the profile has it."""
    return settings(max_examples=count * settings.default.max_examples // LONG_EXAMPLES)
