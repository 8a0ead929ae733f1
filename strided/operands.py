"""Arrays in a layout where NumPy wants ndarrays: handed over, and written back afterwards.

`Operands` turns every array in a layout among some arguments into an ndarray: its own memory where the layout is plain
strides, a converted copy where it is not. What NumPy wrote to a copy goes back to the buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strided.indexed import Indexed
from strided.wrapped import Array


class Operands:
    """Arguments of one call."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Indexed, Array]] = {}
        #: Arrays whose own memory was handed over.
        self._plain: list[tuple[Indexed, Array]] = []

    def handed(self, x: Any) -> Any:
        """An argument for NumPy: arrays become ndarrays, also within lists, tuples and dicts."""
        if isinstance(x, Indexed):
            return self._ndarray(x)
        if type(x) in (list, tuple):
            return type(x)(self.handed(item) for item in x)
        if type(x) is dict:
            return {name: self.handed(item) for name, item in x.items()}
        return x

    def _ndarray(self, array: Indexed) -> Array:
        if array.is_strided:
            found = array._as_strided()
            self._plain.append((array, found))
            self._copies[id(found)] = array, found
            return found
        for given, found in self._copies.values():
            if given is array:
                return found
        found = array.to_numpy()
        # As in NumPy, views of a read-only array are read-only, and nothing is written to it.
        found.flags.writeable = array._memory.buffer.flags.writeable
        self._copies[id(found)] = array, found
        return found

    def returned(self, result: Any) -> Any:
        """What NumPy returned, with the array in a layout where it returned the ndarray that it got for it."""
        if type(result) is tuple:
            return tuple(self.returned(item) for item in result)
        given = self._copies.get(id(result))
        return result if given is None else given[0]

    def touch(self) -> None:
        """Remember of files that their bytes may be changed: NumPy writes to what it was given, or others do."""
        for array, _ in self._plain:
            if array.file is not None and array.size:
                array.file.touch()

    def touch_shared(self, result: Any) -> None:
        """The same of arrays that a result may be a view of."""
        for array, found in self._plain:
            if array.file is not None and array.size and _may_hold(result, found):
                array.file.touch()

    def write_back(self, *arrays: Any) -> None:
        """Write what NumPy put into the copies of these arrays to their buffers."""
        for array in arrays:
            for given, found in self._copies.values():
                if given is array and not given.is_strided:
                    given[...] = found
                    break


def _may_hold(result: Any, memory: Array) -> bool:
    """Whether something may lead to the memory of an array."""
    if isinstance(result, np.ndarray):
        return result.dtype.hasobject or bool(np.may_share_memory(result, memory))
    if isinstance(result, (tuple, list)):
        return any(_may_hold(item, memory) for item in result)
    return not isinstance(result, (np.generic, np.dtype, int, float, complex, str, bytes, type(None)))
