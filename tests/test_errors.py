"""Warnings name the line that asked, however deep in the package they are raised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import strided as sd

HLO = "HloModule m\n\nENTRY e {\n  ROOT a = f32[] parameter(0)\n  what\n}\n"
ALLOCATIONS = b"BufferAssignment:\nallocation 0: size 8:\n value: <1 a @0> (size=8,offset=0): f32[2]{0}\nwhat\n"
LARGE = sd.LayoutArray.from_numpy(np.full((1 << 20, 4), np.nan), "{0,1}")


ASKED: dict[str, Callable[[], object]] = {
    "layout": lambda: sd.parse("f32[3,5]{1,0:T(2,2}"),
    "array": lambda: sd.LayoutArray(bytes(96), "f32[3,5]{1,0:T(2,2}"),
    "program": lambda: sd.read_hlo(HLO),
    "dump": lambda: sd.read_dump(HLO.encode()),
    "allocations": lambda: sd.read_allocations(ALLOCATIONS),
    "NumPy's function": lambda: np.nanmax(LARGE),
    "method": lambda: LARGE.var(axis=1, ddof=4),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_warning_names_the_line_that_asked(what: str) -> None:
    with pytest.warns((sd.StridedWarning, RuntimeWarning), match=r"\S") as caught:
        ASKED[what]()
    assert {one.filename for one in caught} == {__file__}
