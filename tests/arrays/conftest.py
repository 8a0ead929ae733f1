"""Fixtures of the tests of arrays."""

from __future__ import annotations

import pytest

from strided.arrays import block_reduce, blocks, encode, reductions


@pytest.fixture
def small_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array streams, in blocks of a few elements."""
    monkeypatch.setattr(reductions, "STREAM_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(block_reduce, "_SEGMENT", 3)
    monkeypatch.setattr(encode, "_SHARED_CAST_BYTES", 0)


@pytest.fixture(params=["as a whole", "in blocks"])
def either_way(request: pytest.FixtureRequest) -> None:
    """Arrays are converted as a whole, as small ones are, and block by block, as large ones."""
    if request.param == "in blocks":
        request.getfixturevalue("small_streams")
