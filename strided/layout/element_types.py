"""XLA's element types, and the NumPy types that hold their values.

Names and numbers are those of ``PrimitiveType`` in XLA's ``xla_data.proto``. Types that NumPy lacks come from
ml_dtypes. As in XLA's literals and ml_dtypes' arrays, a value of fewer than eight bits takes the low bits of a whole
byte, unless a layout packs it (``E(4)``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from strided.errors import UnsupportedError
from strided.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class ElementType:
    """One of XLA's primitive types.

    Attributes
    ----------
    name : str
        As XLA's text writes it: ``"bf16"``.
    number : int
        Its number in the ``PrimitiveType`` enumeration.
    bits : int
        Bits of a value; 0 for token and opaque.
    dtype : numpy.dtype or None
        The NumPy type of the values; None for token and opaque.
    """

    name: str
    number: int
    bits: int
    dtype: np.dtype[Any] | None

    @property
    def storage_bits(self) -> int:
        """Bits of one element that is not packed: `bits` rounded up to whole bytes.

        >>> element_type("s4").storage_bits, element_type("pred").storage_bits
        (8, 8)
        """
        return -(-self.bits // 8) * 8

    @property
    def is_array(self) -> bool:
        """Whether there are arrays of this type: not of token and opaque."""
        return self.dtype is not None

    @property
    def packs(self) -> bool:
        """Whether a layout may pack elements of this type into fewer than eight bits."""
        return 0 < self.bits < 8


def _table() -> Mapping[str, ElementType]:
    numbered: list[tuple[str, int, int, Any]] = [
        ("pred", 1, 1, np.bool_),
        ("s8", 2, 8, np.int8),
        ("s16", 3, 16, np.int16),
        ("s32", 4, 32, np.int32),
        ("s64", 5, 64, np.int64),
        ("u8", 6, 8, np.uint8),
        ("u16", 7, 16, np.uint16),
        ("u32", 8, 32, np.uint32),
        ("u64", 9, 64, np.uint64),
        ("f16", 10, 16, np.float16),
        ("f32", 11, 32, np.float32),
        ("f64", 12, 64, np.float64),
        ("opaque", 14, 0, None),
        ("c64", 15, 64, np.complex64),
        ("bf16", 16, 16, ml_dtypes.bfloat16),
        ("token", 17, 0, None),
        ("c128", 18, 128, np.complex128),
        ("f8e5m2", 19, 8, ml_dtypes.float8_e5m2),
        ("f8e4m3fn", 20, 8, ml_dtypes.float8_e4m3fn),
        ("s4", 21, 4, ml_dtypes.int4),
        ("u4", 22, 4, ml_dtypes.uint4),
        ("f8e4m3b11fnuz", 23, 8, ml_dtypes.float8_e4m3b11fnuz),
        ("f8e5m2fnuz", 24, 8, ml_dtypes.float8_e5m2fnuz),
        ("f8e4m3fnuz", 25, 8, ml_dtypes.float8_e4m3fnuz),
        ("s2", 26, 2, ml_dtypes.int2),
        ("u2", 27, 2, ml_dtypes.uint2),
        ("f8e4m3", 28, 8, ml_dtypes.float8_e4m3),
        ("f8e3m4", 29, 8, ml_dtypes.float8_e3m4),
        ("s1", 30, 1, ml_dtypes.int1),
        ("u1", 31, 1, ml_dtypes.uint1),
        ("f4e2m1fn", 32, 4, ml_dtypes.float4_e2m1fn),
        ("f8e8m0fnu", 33, 8, ml_dtypes.float8_e8m0fnu),
        ("f6e3m2fn", 35, 6, ml_dtypes.float6_e3m2fn),
        ("f6e2m3fn", 36, 6, ml_dtypes.float6_e2m3fn),
    ]
    return MappingProxyType(
        {n: ElementType(n, number, bits, None if t is None else np.dtype(t)) for n, number, bits, t in numbered}
    )


#: Every element type by name, in the order of their numbers. Left out are XLA's types for tuples, buffers and invalid.
ELEMENT_TYPES: Mapping[str, ElementType] = _table()

_BY_NUMBER = {t.number: t for t in ELEMENT_TYPES.values()}
#: What other libraries call these types, NumPy's names included.
_ALIASES = {t.dtype.name: t.name for t in ELEMENT_TYPES.values() if t.dtype is not None} | {
    "half": "f16", "float": "f32", "double": "f64", "bool_": "pred", "fp16": "f16", "fp32": "f32", "fp64": "f64",
    "cfloat": "c64", "cdouble": "c128", "short": "s16", "int": "s32", "long": "s64",
} | {f"i{t.bits}": t.name for t in ELEMENT_TYPES.values() if t.name[0] == "s"}  # fmt: skip

#: Module prefixes of other libraries' type names.
_LIBRARIES = frozenset({"", "jax.numpy", "jnp", "ml_dtypes", "np", "numpy", "tf", "torch"})

#: The start of a small float's name, or of a part of one: f8e4m3, f8, e5m2.
_SMALL_FLOAT = re.compile(r"f[468](?!\d)|e\dm\d")

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values() if t.dtype is not None}


def element_type(name: str) -> ElementType:
    """The element type with XLA's name `name`. UnsupportedError if there is none.

    >>> element_type("bf16").bits
    16
    """
    try:
        return ELEMENT_TYPES[name]
    except (KeyError, TypeError):
        advice = (
            did_you_mean(element_types_meant(str(name)))
            or f"those of arrays are {', '.join(n for n, t in ELEMENT_TYPES.items() if t.is_array)}"
        )
        raise UnsupportedError(f"no element type {name!r}; {advice}") from None


def element_types_meant(name: str) -> tuple[str, ...]:
    """XLA's names of the types that `name` may mean: it is another library's name, or a part of small floats' names.

    >>> element_types_meant("torch.bfloat16"), element_types_meant("fp4"), element_types_meant("e5m2")
    (('bf16',), ('f4e2m1fn',), ('f8e5m2', 'f8e5m2fnuz'))
    """
    library, _, last = name.lower().rpartition(".")
    if library not in _LIBRARIES:
        return ()
    known = last if last in ELEMENT_TYPES else _ALIASES.get(last)
    if known is not None:
        return (known,)
    part = re.sub("^(?:float|fp)", "f", last).replace("_", "")
    return tuple(t for t in ELEMENT_TYPES if part in t and _SMALL_FLOAT.match(t)) if _SMALL_FLOAT.match(part) else ()


def element_type_of_number(number: int) -> ElementType:
    """The element type of a ``PrimitiveType`` number.

    UnsupportedError if there is none (0 is invalid, 13 a tuple, 34 a buffer).

    >>> element_type_of_number(16).name
    'bf16'
    """
    try:
        return _BY_NUMBER[number]
    except (KeyError, TypeError):
        raise UnsupportedError(f"PrimitiveType {number!r} is not an element type of arrays") from None


def element_type_of_dtype(dtype: Any) -> ElementType:
    """The element type of a NumPy type, in either byte order. UnsupportedError if XLA has none.

    >>> element_type_of_dtype(np.float32).name
    'f32'
    """
    found = known_element_type(dtype)
    if found is None:
        raise UnsupportedError(
            f"XLA has no element type for dtype {np.dtype(dtype)}; convert the values with astype first"
        )
    return found


def known_element_type(dtype: Any) -> ElementType | None:
    """The element type of a NumPy type, in either byte order; None if XLA has none.

    >>> known_element_type("<U1") is None
    True
    """
    dtype = np.dtype(dtype)
    return _BY_DTYPE.get(dtype.newbyteorder("=") if dtype.kind in "iufc" else dtype)


def is_builtin(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of NumPy's own numeric types, in either byte order, which other libraries know, too.

    (``dtype.isbuiltin == 1`` does not do: it is 0 for some dtypes that are equal to a builtin one.)

    >>> is_builtin(np.dtype(np.float16)), is_builtin(np.dtype(ml_dtypes.bfloat16)), is_builtin(np.dtype(">f4"))
    (True, False, True)
    """
    return dtype.kind in "biufc" and dtype.isbuiltin != 2
