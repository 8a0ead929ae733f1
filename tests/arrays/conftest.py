"""Fixtures of the tests of arrays."""

from __future__ import annotations

import pytest

from strided.arrays import block_reduce, blocks, reductions


@pytest.fixture
def small_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array streams, in blocks of a few elements."""
    monkeypatch.setattr(reductions, "STREAM_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(block_reduce, "_SEGMENT", 3)
