"""The Python array API standard: an array that names its namespace, for libraries written to the standard.

A `LayoutArray` has no ``__array_namespace__``: libraries use an array that has one by the standard alone and no longer
convert it; array-api-compat refuses it beside an ndarray, and xarray indexes it differently. Add one for a library that
follows the standard.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from strided.arrays.layout_array import LayoutArray


class NamespacedArray(LayoutArray):
    """A `LayoutArray` that names NumPy as its namespace.

    So do its views. NumPy's functions take it like any `LayoutArray`, and return ndarrays, whose namespace is the same.
    """

    __slots__ = ()

    def __array_namespace__(self, *, api_version: Any = None) -> ModuleType:
        """NumPy's own namespace.

        Raises
        ------
        ValueError
            NumPy does not follow this version of the standard.
        """
        namespace: ModuleType = self.stand_in().__array_namespace__(api_version=api_version)
        return namespace


def with_namespace(a: LayoutArray) -> NamespacedArray:
    """The same array, on the same memory, with ``__array_namespace__``.

    Parameters
    ----------
    a : LayoutArray
        In any layout.

    Returns
    -------
    LayoutArray
        Of a subclass. Its views have the namespace too; results of NumPy's functions are ndarrays.

    Raises
    ------
    TypeError
        No LayoutArray.

    >>> import numpy as np
    >>> import strided as sd
    >>> x = with_namespace(sd.LayoutArray.from_numpy(np.eye(3, dtype=np.float32), "{1,0:T(2,128)}"))
    >>> xp = x.__array_namespace__()
    >>> xp.sum(xp.permute_dims(x, (1, 0))[0])
    np.float32(1.0)
    """
    if not isinstance(a, LayoutArray):
        raise TypeError(f"with_namespace takes a LayoutArray, not {type(a).__name__}")
    return NamespacedArray._on(a._memory)._with_map(a._map)
