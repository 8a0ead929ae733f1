"""NumPy's functions that write to their first argument: ``np.put(a, ...)``, ``np.copyto(a, ..., where=...)``.

They write only the selected elements, because other threads may write to others. They return NotImplemented where NumPy
would raise. Then NumPy is called with a converted array, and what it wrote before the error is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strided.arrays import masks, overlap
from strided.arrays.arguments import is_writeable
from strided.arrays.base import ArrayBase, broadcasts
from strided.arrays.encode import cast_as_array
from strided.runtime import limits

Function = Callable[..., Any]


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Any:
    if type(dst) is np.ndarray and where is True and casting in ("no", "equiv", "safe", "same_kind", "unsafe"):
        return _copy_out(src, dst)
    if not isinstance(dst, ArrayBase) or not isinstance(casting, str):
        return NotImplemented
    if where is not True:
        return _copyto_where(dst, src, casting, where)
    is_scalar = isinstance(src, (np.generic, int, float, complex))
    if not is_scalar and not isinstance(src, (np.ndarray, ArrayBase)):
        return NotImplemented
    target = np.empty(() if is_scalar and dst.size else 0, dst.dtype)
    target.flags.writeable = is_writeable(dst)  # NumPy checks this before dtypes
    if is_scalar:
        np.copyto(target, src, casting=casting)  # type: ignore[arg-type]  # checks the value
    elif not is_writeable(dst) or not np.can_cast(src.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        # NumPy raises; for 0-d arrays with another message than for others.
        np.copyto(target, np.zeros(0 if src.ndim else (), src.dtype), casting=casting)  # type: ignore[arg-type]
    if dst.size or not is_scalar:
        dst[...] = target if is_scalar else src
    return None


def _copy_out(array: Any, out: np.ndarray[Any, Any]) -> Any:
    """Copy an array to an ndarray of the same shape and dtype directly from its buffer."""
    if not isinstance(array, ArrayBase) or (array.is_strided and array.nbytes < limits.current.direct_bytes):
        return NotImplemented
    if out.shape != array.shape or out.dtype != array.dtype or not out.flags.writeable or overlap.repeats(out):
        return NotImplemented
    array.to_numpy(out)
    return None


def _copyto_where(dst: ArrayBase, src: Any, casting: Any, where: Any) -> Any:
    mask = np.asarray(where)
    if not is_writeable(dst) or mask.dtype != np.bool_:
        return NotImplemented
    if not broadcasts(mask.shape, dst.shape) or not broadcasts(np.shape(src), dst.shape):
        return NotImplemented
    mask = np.broadcast_to(mask, dst.shape)
    if np.ndim(src) and isinstance(src, (np.ndarray, ArrayBase)) and src.dtype == dst.dtype:
        np.copyto(np.empty(0, dst.dtype), np.empty(0, src.dtype), casting=casting)  # raises for an invalid casting
        masks.put(dst, mask, np.broadcast_to(np.asarray(src), dst.shape))
        return None
    # Like NumPy, cast only the selected values; but always cast a single value for several elements.
    given = src if np.ndim(src) == 0 else np.broadcast_to(np.asarray(src), dst.shape)[mask]
    is_cast = bool(np.ndim(where)) or bool(where) or (np.ndim(src) == 0 and dst.size > 1)
    values = np.empty(np.shape(given) if dst.size else 0, dst.dtype)
    try:
        np.copyto(values, given, casting=casting, where=is_cast)
    except Exception:
        return NotImplemented  # NumPy raises after writing the values before
    dst[mask] = values
    return None


def _put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> Any:
    places = np.asarray(ind).reshape(-1)
    if not is_writeable(a) or not np.can_cast(places.dtype, np.intp) or not (places.size and a.size):
        return NotImplemented
    places = places.astype(np.intp)
    if mode == "wrap":
        places %= a.size
    elif mode == "clip":
        places = places.clip(0, a.size - 1)
    elif mode != "raise" or places.min() < -a.size or places.max() >= a.size:
        return NotImplemented
    a.flat[places] = v
    return None


def _place(arr: Any, mask: Any, vals: Any) -> Any:
    chosen = np.asarray(mask).astype(np.bool_, copy=False)
    if not is_writeable(arr) or chosen.size != arr.size or not np.size(vals):
        return NotImplemented
    if overlap.may_share(arr, overlap.as_memory(vals)):
        return NotImplemented  # NumPy reads some values after they were overwritten
    _judge(np.place, arr, vals)
    arr.flat[chosen.reshape(-1)] = vals
    return None


def _putmask(a: Any, mask: Any, values: Any) -> Any:
    chosen = np.asarray(mask).astype(np.bool_, copy=False)
    if not is_writeable(a) or chosen.size != a.size or not np.size(values):
        return NotImplemented
    _judge(np.putmask, a, values)
    given = cast_as_array(values, a.dtype).reshape(-1)
    if given.size in (1, a.size):
        masks.put(a, chosen.reshape(a.shape), given.reshape(a.shape if given.size > 1 else ()))
        return None
    places = np.flatnonzero(chosen)
    a.flat[places] = given[places % given.size]
    return None


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> Any:
    # NumPy implements this function and the next in Python, by assignments that work for layout arrays.
    return np.fill_diagonal._implementation(a, val, wrap) if is_writeable(a) else NotImplemented  # type: ignore[attr-defined]


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> Any:
    if not is_writeable(arr):
        return NotImplemented
    if axis is None:
        places = np.asarray(indices)
        if places.ndim != 1 or places.dtype.kind not in "iu" or not broadcasts(np.shape(values), places.shape):
            return NotImplemented
        return _put(arr, places.astype(np.intp), np.broadcast_to(cast_as_array(values, arr.dtype), places.shape))
    return np.put_along_axis._implementation(arr, indices, values, axis)  # type: ignore[attr-defined]


def _judge(function: Function, array: ArrayBase, values: Any) -> None:
    """Raise what NumPy raises if it does not cast the values to the array's dtype."""
    is_array = isinstance(values, (np.ndarray, ArrayBase)) and values.ndim
    function(np.empty(1, array.dtype), np.zeros(1, np.bool_), np.empty(0, values.dtype) if is_array else values)


#: NumPy's functions and their implementations for layout arrays.
INPLACE_FUNCTIONS: dict[Function, Function] = {
    np.copyto: _copyto,
    np.put: _put,
    np.place: _place,
    np.putmask: _putmask,
    np.fill_diagonal: _fill_diagonal,
    np.put_along_axis: _put_along_axis,
}
