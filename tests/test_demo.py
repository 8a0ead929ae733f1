"""The demo: one screen, and all of it true."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from strided import LayoutArray
from strided.demo import SHAPE, expected, run, sample


def test_it_fits_one_screen() -> None:
    lines = run().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)


def test_the_sample_holds_what_it_should() -> None:
    array = LayoutArray(sample(), SHAPE)
    np.testing.assert_array_equal(array, expected())
    raw = np.frombuffer(sample(), ml_dtypes.bfloat16)
    padding = array.xla_shape.is_padding(np.arange(raw.size))
    assert padding.sum() == raw.size - array.size
    assert np.isnan(raw[padding].astype(np.float32)).any(), "padding is what it may be: anything"


def test_it_says_so_when_a_value_is_wrong(monkeypatch: object) -> None:
    damaged = bytearray(sample())
    damaged[0] ^= 1
    monkeypatch.setattr("strided.demo.sample", lambda: bytes(damaged))  # type: ignore[attr-defined]
    text = run()
    assert "654 of 655 elements equal" in text
    assert text.endswith("NOT the same values.")


def test_what_it_says() -> None:
    text = run()
    assert "slot 1283 = 1*1024 + 1*256 + 1*2 + 1*1, bytes 2566 to 2567" in text
    assert "655 of 655 elements equal the cosines that NumPy computes." in text
    assert text.endswith("4096 -> 1310 -> 4096 bytes, the same values.")
