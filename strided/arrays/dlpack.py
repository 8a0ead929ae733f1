"""DLPack capsules of ndarrays, including dtypes that NumPy cannot export.

NumPy makes the capsule, with unsigned integers for dtypes of ml_dtypes. Then the dtype is corrected, and the flag for
copies is set, in DLPack's structure, whose layout is fixed.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from strided.arrays.base import Array

#: DLPack's type codes of dtypes that NumPy lacks.
_CODES = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
#: `numpy.dtype.isbuiltin` of dtypes that a library registered, such as ml_dtypes.
_USER_DEFINED = 2
#: ``DLPACK_FLAG_BITMASK_IS_COPIED``.
_IS_COPIED = 1 << 1


def capsule(values: Array, *, copied: bool, **options: Any) -> Any:
    """A DLPack capsule of an ndarray's memory; `copied` says whether that was copied for it.

    Raises
    ------
    BufferError
        DLPack has no such type, or the consumer does not support read-only memory.
    """
    code = _CODES.get(values.dtype.name)
    if code is None and values.dtype.isbuiltin == _USER_DEFINED:
        raise BufferError(f"DLPack has no type {values.dtype.name}; astype converts the values to one that it has")
    made = _capsule(values if code is None else values.view(f"u{values.itemsize}"), **options)
    whole, tensor = _structures(made)
    if code is not None:
        tensor.code, tensor.bits = code, 8 * values.itemsize
    if copied and whole is not None:
        whole.flags |= _IS_COPIED
    return made


def _capsule(values: Array, **options: Any) -> Any:
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # only unversioned capsules, and only the option `stream`
        device = options.get("dl_device")
        if device is not None and tuple(device) != values.__dlpack_device__():
            raise BufferError("the device must be the CPU: this is memory of the process")
        return values.__dlpack__(stream=options.get("stream"))
    return values.__dlpack__(**options)


def runs_backwards(values: Array) -> bool:
    """Whether an array has a negative stride."""
    return any(stride < 0 and n > 1 for n, stride in zip(values.shape, values.strides, strict=True))


class _Tensor(ctypes.Structure):
    """``DLTensor``, up to the type of its elements."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _structures(capsule: Any) -> tuple[_Versioned | None, _Tensor]:
    """The structures in a capsule that was not consumed yet; unversioned ones have no `_Versioned`."""
    pointer_of, name_of = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    address = pointer_of(capsule, name)
    if name == b"dltensor_versioned":
        whole = _Versioned.from_address(address)
        return whole, whole.tensor
    return None, _Tensor.from_address(address)
