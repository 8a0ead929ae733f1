"""What a newcomer tries by mistake is answered in one line with what to do, never with the bytes of a buffer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

RAW: Any = b"\x00secret " * 2


@pytest.mark.parametrize(
    ("mistake", "error", "words"),
    [
        (lambda: sd.inspect.describe("{1,0}"), sd.LayoutError, "{1,0} is a layout alone; write the shape with it"),
        (lambda: sd.LayoutArray("f32[4]", RAW), TypeError, "not bytes; the buffer comes first, then its shape"),
        (lambda: sd.LayoutArray("x.bin", "f32[4]"), TypeError, "strided.open opens a file"),
        (lambda: sd.LayoutArray(Path("x.bin"), "f32[4]"), TypeError, "strided.open opens a file"),
        (lambda: sd.LayoutArray(RAW, (2, 2)), TypeError, "as in 'f32[3,5]'"),  # type: ignore[arg-type]
        (lambda: sd.LayoutArray(RAW, np.float32), TypeError, "not type; write it with"),  # type: ignore[arg-type]
        (lambda: sd.parse((3, 5)), TypeError, "expected text such as 'f32[3,5]', not tuple"),  # type: ignore[arg-type]
        (lambda: sd.open("f32[4]", "x.bin"), TypeError, "the path comes first, then the shape"),
        (lambda: sd.open(RAW, "f32[4]"), TypeError, "strided.LayoutArray(buffer, shape) wraps bytes"),
        (lambda: sd.open(RAW.strip(b"\0"), "f32[4]"), TypeError, "expected a path, not bytes"),
        (lambda: sd.open(np.zeros(4), "f32[4]"), TypeError, "expected a path, not ndarray"),  # type: ignore[call-overload]
        (lambda: sd.open(".", "f32[4]"), IsADirectoryError, "strided.open_dump opens a folder"),
        (lambda: sd.explore("."), TypeError, "open it first: strided.open, open_dump or read_hlo"),
        (lambda: sd.read_hlo("."), IsADirectoryError, "strided.open_dump opens a folder"),
        (lambda: sd.array([1]), AttributeError, "strided.LayoutArray"),
        (lambda: sd.load("x.npy"), AttributeError, "open(path) a .npy"),
    ],
    ids=range(16),
)
def test_mistakes(mistake: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as caught:
        mistake()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


#: All types of floats in eight bits.
_FLOAT8 = "f8e5m2, f8e4m3fn, f8e4m3b11fnuz, f8e5m2fnuz, f8e4m3fnuz, f8e4m3, f8e3m4 or f8e8m0fnu"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("float32", "f32"), ("bfloat16", "bf16"), ("torch.bfloat16", "bf16"), ("np.int8", "s8"), ("i64", "s64"),
        ("bool", "pred"), ("F32", "f32"), ("float8_e4m3fn", "f8e4m3fn"), ("complex64", "c64"), ("half", "f16"),
        ("fp8", _FLOAT8), ("f8", _FLOAT8), ("float8", _FLOAT8), ("f4", "f4e2m1fn"), ("FP4", "f4e2m1fn"),
        ("e4m3", "f8e4m3fn, f8e4m3b11fnuz, f8e4m3fnuz or f8e4m3"), ("fp8_e5m2", "f8e5m2 or f8e5m2fnuz"),
        ("float6", "f6e3m2fn or f6e2m3fn"),
    ],
)  # fmt: skip
def test_names_of_types_in_other_libraries(name: str, meant: str) -> None:
    with pytest.raises(sd.NotationError, match=rf"did you mean {meant}\?"):
        sd.parse(f"{name}[3,5]")
    with pytest.raises(sd.LayoutError, match=rf"did you mean {meant}\?"):
        sd.Shape(name, (3, 5))
    with pytest.raises(sd.NotationError, match=rf"did you mean {meant}\?"):
        sd.inspect.identify(b"1234", name.rpartition(".")[2])


def test_a_name_that_nobody_has_is_not_explained() -> None:
    with pytest.raises(sd.NotationError, match="expected an element type, found 'frob'"):
        sd.parse("frob[3]")
