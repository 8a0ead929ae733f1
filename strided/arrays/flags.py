"""``a.flags``: NumPy's flags of an array's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from strided.arrays.base import ArrayBase

_NumpyFlags = type(np.empty(0).flags)


class Flags:
    """The flags of an array, with NumPy's names."""

    __slots__ = ("_array",)

    def __init__(self, array: ArrayBase) -> None:
        self._array = array

    def _has(self, name: str) -> bool:
        """The flag of an ndarray on the same memory; False if the array has no strides."""
        return self._array.is_strided and bool(getattr(self._array._as_strided().flags, name))

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return self._has("c_contiguous")

    @property
    def f_contiguous(self) -> bool:
        """Whether the elements lie in column-major order without gaps."""
        return self._has("f_contiguous")

    contiguous = c_contiguous
    fortran = f_contiguous

    @property
    def aligned(self) -> bool:
        """Whether every element is aligned for its dtype."""
        memory = self._array._memory
        return memory.bits < 8 or memory.elements.flags.aligned

    @property
    def owndata(self) -> bool:
        """False: the buffer owns the memory."""
        return False

    @property
    def writebackifcopy(self) -> bool:
        """False: this is the array itself."""
        return False

    @property
    def writeable(self) -> bool:
        """Whether elements can be assigned to."""
        return bool(self._array._memory.buffer.flags.writeable)

    @writeable.setter
    def writeable(self, value: bool) -> None:
        array = self._array
        if bool(value) == self.writeable:
            return
        if not value:
            array._memory = array._memory.read_only()
            return
        buffer = array._memory.buffer.view()
        try:
            buffer.flags.writeable = True
        except ValueError:
            raise ValueError("cannot set WRITEABLE flag to True of this array") from None
        array._memory = replace(array._memory, buffer=buffer)

    @property
    def fnc(self) -> bool:
        """Column-major and not row-major."""
        return self._has("fnc")

    @property
    def forc(self) -> bool:
        """Column-major or row-major."""
        return self._has("forc")

    @property
    def behaved(self) -> bool:
        """Aligned and writeable."""
        return self.aligned and self.writeable

    @property
    def carray(self) -> bool:
        """Behaved and row-major."""
        return self.behaved and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Behaved and column-major, not row-major."""
        return self.behaved and self.fnc

    def __getitem__(self, name: str) -> bool:
        found = _FLAGS.get(name)
        if found is None:
            raise KeyError("Unknown flag")
        return bool(getattr(self, found))

    def __setitem__(self, name: str, value: bool) -> None:
        if _FLAGS.get(name) != "writeable":
            raise KeyError("Unknown flag")
        self.writeable = value

    @property
    def num(self) -> int:
        """The flags as a bit mask."""
        return sum(bit for bit, name in _BITS.items() if self[name])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Flags, _NumpyFlags)):
            return NotImplemented
        return self.num == other.num

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
        return "\n".join(f"  {name} : {self[name]}" for name in names) + "\n"


#: Bits of `Flags.num`, as NumPy numbers them.
_BITS = {1: "C", 2: "F", 4: "OWNDATA", 0x100: "ALIGNED", 0x400: "WRITEABLE", 0x2000: "WRITEBACKIFCOPY"}

_FLAGS = {name.upper(): name for name in vars(Flags) if not name.startswith("_") and name != "num"}
_FLAGS |= {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned"}
_FLAGS |= {"X": "writebackifcopy", "B": "behaved", "CA": "carray", "FA": "farray"}
