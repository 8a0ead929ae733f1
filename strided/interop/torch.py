"""torch: tensors that share the memory if the layout is plain strides, else of copied values.

``torch.from_dlpack(a)`` only shares; `to_torch` does both, and keeps torch from writing to read-only memory.
"""

from __future__ import annotations

from strided.arrays import dlpack
from strided.arrays.base import Array, ArrayBase
from strided.arrays.layout_array import LayoutArray
from strided.errors import UnsupportedError
from strided.runtime.missing import advising

with advising(__name__, "strided[torch]"):
    import torch


def to_torch(a: LayoutArray, *, copy: bool | None = None) -> torch.Tensor:
    """Convert to a tensor on the CPU, including bfloat16 and the float8 types that torch has.

    Parameters
    ----------
    a : LayoutArray
    copy : bool, optional
        By default the tensor shares the memory if that is writeable and in plain, non-negative strides. False requires
        sharing; True always copies.

    Raises
    ------
    TypeError
        Not a `LayoutArray`.
    BufferError
        `copy` is False and torch cannot share the memory.
    UnsupportedError
        torch lacks the dtype.
    """
    if not isinstance(a, ArrayBase):
        raise TypeError(f"a LayoutArray is wanted, not {type(a).__name__}; torch.as_tensor takes the others")
    refusal = _why_not_shared(a)
    if copy is False and refusal:
        raise BufferError(refusal)
    copied = bool(copy or refusal)
    try:
        return torch.from_dlpack(_Capsule(a.to_numpy() if copied else a.as_strided(), copied))
    except BufferError as error:
        raise UnsupportedError(f"torch has no {a.dtype}; convert with astype first ({error})") from None


class _Capsule:
    """A DLPack exporter for an ndarray that supports bfloat16 and float8."""

    def __init__(self, values: Array, copied: bool) -> None:
        self._values, self._copied = values, copied

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()

    def __dlpack__(self, *, stream: object = None, **options: object) -> object:
        return dlpack.capsule(self._values, copied=self._copied, stream=stream, **options)


def _why_not_shared(a: LayoutArray) -> str | None:
    """Why torch cannot share the memory; None if it can."""
    try:
        values = a.as_strided()
    except BufferError as error:
        return str(error)
    if not values.flags.writeable:
        return f"{a.xla_shape} is read-only, which torch does not know; to_torch() without copy=False copies it"
    if dlpack.runs_backwards(values):
        return f"the view of {a.xla_shape} runs backwards, which torch's strides cannot express; to_torch() copies it"
    return None
