"""Limits: replaced for a time, and plans with them."""

from __future__ import annotations

import re

import pytest

from strided.planning.plan import Storage, plan_copy
from strided.runtime import limits
from tests import paths
from tests.regions import map_of, row_major

_ROW = re.compile(r"^\| `([a-z_]+)` \| `(\d+)(?: << (\d+))?` \|", re.MULTILINE)


def test_replaced_limits_come_back_whatever_happens() -> None:
    before = limits.current
    with limits.replaced(boxes=3) as inside:
        assert inside is limits.current
        assert inside == before._replace(boxes=3)
    with pytest.raises(ZeroDivisionError), limits.replaced(boxes=3):
        _ = 1 / 0
    assert limits.current is before


def test_plans_of_other_limits_are_forgotten() -> None:
    question = map_of("bf16[96,300]{1,0:T(8,128)(2,1)}"), row_major((96, 300)), Storage(16), Storage(16)
    before = plan_copy(*question)
    with limits.replaced(run_bits=1 << 20):
        assert plan_copy(*question).kernel != before.kernel
    assert plan_copy(*question) == before


def test_forcing_kernels_moves_thresholds_alone() -> None:
    usual = limits.Limits()
    moved = {name for name, value in limits.forced(usual)._asdict().items() if value != getattr(usual, name)}
    assert {"small_elements", "tiny_elements", "loading_elements", "stream_bytes", "varint_bytes"} <= moved
    assert not moved & {"vector_task_bytes", "staging_bytes", "boxes", "populated_bytes"}


def test_the_page_for_maintainers_lists_every_limit_with_its_value() -> None:
    page = (paths.ROOT / "docs" / "maintainers.md").read_text(encoding="utf-8")
    listed = {name: int(low) << int(high or 0) for name, low, high in _ROW.findall(page)}
    assert listed == limits.Limits()._asdict()
