"""Arrays with ``__array_namespace__``, for libraries that follow the Python array API standard.

A `LayoutArray` has no ``__array_namespace__``. With one, libraries would use it by the standard only, and no longer
convert it; array-api-compat would refuse to mix it with ndarrays, and xarray would index it differently. Use
`with_namespace` for a library that requires it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from strided.arrays.layout_array import LayoutArray


class NamespacedArray(LayoutArray):
    """A `LayoutArray` whose namespace is NumPy, as is that of its views.

    NumPy's functions take it like any `LayoutArray`, and return ndarrays, which have the same namespace.
    """

    __slots__ = ()

    def __array_namespace__(self, *, api_version: Any = None) -> ModuleType:
        """The namespace, which is NumPy's.

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
        An array in any layout.

    Returns
    -------
    LayoutArray
        An instance of `NamespacedArray`.

    Raises
    ------
    TypeError
        `a` is not a LayoutArray.

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
