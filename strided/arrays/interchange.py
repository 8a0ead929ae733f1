"""Protocols of other libraries and of Python: NumPy's, buffers, DLPack, copies, pickles, dask's tokens, text."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.arrays import array_functions, dlpack, formatting, overlap, partners
from strided.arrays.base import Array, ArrayBase, LayoutBuffer
from strided.arrays.buffer_spec import BufferSpec
from strided.arrays.buffers import flat_bytes
from strided.arrays.encode import encode, spec_for
from strided.files.mapping import MappedFile, map_file
from strided.layout import Layout
from strided.layout.element_types import is_builtin, known_element_type
from strided.transfer import copy as transfer
from strided.transfer.by_numpy import WORDS
from strided.transfer.flat_memory import address_of

#: ``PyBUF_FORMAT``: the consumer of a buffer requests its format.
_WITH_FORMAT = 4


class Interchange(ArrayBase):
    """Mixin: the protocols of other libraries and of Python."""

    __slots__ = ()

    # NumPy.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        # Leave casts that are not same_kind to the caller: NumPy passes the dtype before it checks the casting rule.
        if dtype is not None and copy is not False and not np.can_cast(self.dtype, dtype, "same_kind"):
            dtype = None
        if self.is_strided:
            return np.array(self.as_strided(), dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError(
                "Unable to avoid copy while creating an array as requested.\n"
                f"{self._why_no_strides()}; with copy=None it is converted."
            )
        if not copy and (dtype is None or dtype == self.dtype):
            # An ndarray would return its own memory, so make the copy read-only: writes would be lost silently.
            return overlap.read_only_values(self.dense_bytes(), self)
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # NumPy reads this attribute at every conversion, so formatting a longer message would take noticeable time.
        if not (is_builtin(self.dtype) and self.is_strided):
            raise AttributeError("only plain strides of NumPy's own types have an array interface; to_numpy() converts")
        return self.as_strided().__array_interface__

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next along each axis.

        Raises
        ------
        AttributeError
            The array has no strides.
        """
        return self._attribute(self._as_strided).strides

    @property
    def data(self) -> Array:
        """The elements as an ndarray on the same memory, if the array has strides.

        Not a memoryview: netCDF4 treats any object whose `data` is a memoryview as an ndarray, and fails.

        Raises
        ------
        AttributeError
            The array has no strides; ``a.buffer`` has the bytes of any layout.
        """
        return self._attribute(self.as_strided)

    @property
    def ctypes(self) -> Any:
        """Address and shape for ctypes, if the array is C-contiguous.

        Many consumers, safetensors among them, use only the address.

        Raises
        ------
        AttributeError
            The array is not C-contiguous; ``a.as_strided().ctypes`` works for any strided array.
        """
        if not self._attribute(self._as_strided).flags.c_contiguous:
            raise AttributeError(
                f"{self._description()} does not lie in row-major order without gaps, which an address alone cannot "
                "tell; to_numpy() converts it, as_strided().ctypes has its strides"
            )
        return self.as_strided().ctypes

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory for ``memoryview(a)`` and other consumers of buffers, if the array has strides.

        Python 3.12 and later call it. The buffer protocol has no format for dtypes that NumPy lacks; consumers that do
        not request a format get their bytes.

        Raises
        ------
        BufferError
            The array has no strides, or the dtype has no format.
        """
        values = self.as_strided()
        if not flags & _WITH_FORMAT and not (is_builtin(self.dtype) and self.dtype.isnative):
            values = values.view(f"u{self.itemsize}")
        try:
            return values.data
        except ValueError:
            raise BufferError(f"a buffer has no name for {self.dtype}; a.view('u{self.itemsize}') has one") from None

    @staticmethod
    def _attribute(strided: Callable[[], Array]) -> Array:
        """Call `strided`; a BufferError (no strides) becomes an AttributeError."""
        try:
            return strided()
        except BufferError as refused:
            raise AttributeError(str(refused)) from None

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return array_functions.call(func, tuple(types), args, kwargs)

    # DLPack.

    def __dlpack_device__(self) -> tuple[Any, int]:
        return np.empty(0).__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the same memory, if the array has strides; of a copy with ``copy=True``.

        Raises
        ------
        BufferError
            The array has no strides, or a negative one; or DLPack has no such type.
        """
        values = self.to_numpy() if copy else self.as_strided()
        if dlpack.runs_backwards(values):
            # Few consumers support negative strides; torch crashes.
            raise BufferError(f"the view of {self.spec} runs backwards; to_numpy() or copy=True copies it")
        return dlpack.capsule(values, copied=bool(copy), stream=stream, max_version=max_version, dl_device=dl_device)

    def __jax_array__(self) -> Any:
        """The values as a ``jax.Array``, of the dtype that JAX uses for theirs. JAX's functions call this."""
        return partners.convert("jax", self)

    # Copies.

    def copy(self, order: str = "K") -> Self:
        """The same values in a new buffer: in the same layout, or row-major ("C") or column-major ("F").

        Of a view, only its values are copied, row-major by default. An array in a read-only file mapping is not copied,
        but mapped again: nothing is read, and assignments to the copy stay in memory. Later writes to the file may
        become visible in the copy; `to_numpy` and ``mapped=False`` read the file instead.
        """
        if order not in ("C", "F", "A", "K"):
            np.empty(0).copy(order)  # type: ignore[arg-type]
            order = (order or "C").upper()
        memory = self._memory
        if memory.file is not None and memory.file.mode != "r+" and memory.file.is_the_file and order in ("A", "K"):
            found = self._mapped_anew("c")
            if found is not None:
                return found
        if order in ("A", "K") and not self.is_view:
            buffer = transfer.copied(self.region.buffer)
            return self._on(replace(memory, buffer=buffer, excess=0, file=None))
        if not _is_of_xla(self.dtype):
            bits = self._with_map(self._map, replace(memory, dtype=np.dtype(WORDS[self.itemsize])))
            copied = bits.copy(order)
            return copied._with_map(copied._map, replace(copied._memory, dtype=self.dtype))
        layout = _contiguous(self.ndim, memory.bits if memory.bits < 8 else 0, is_column_major=order == "F")
        return self._on(
            encode(self, spec_for(self.shape, self.dtype, layout, self.element_type), bitorder=self.bitorder)
        )

    def _mapped_anew(self, mode: str) -> Self | None:
        """The same view through a new mapping of the file; None if the path no longer leads to it."""
        memory, file = self._memory, self._memory.file
        assert file is not None
        file.check()
        anew = file.mapped_anew(_start_in_file(memory.buffer, file), memory.buffer.size, mode)
        return None if anew is None else self._with_map(self._map, replace(memory, buffer=anew.content, file=anew))

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    @classmethod
    def _on(cls, memory: LayoutBuffer) -> Self:
        """The whole array in a buffer."""
        array = object.__new__(cls)
        array._memory, array._map = memory, memory.spec.address_map
        return array

    def __reduce_ex__(self, protocol: Any) -> Any:
        memory, file = self._memory, self._memory.file
        if file is not None and file.is_the_file:
            file.check()
            seen = (self._map, memory.dtype, memory.bits) if self.is_view else None
            where = file.path, file.mode, _start_in_file(memory.buffer, file), memory.buffer.size
            return _unpickled, (type(self), where, memory.spec, memory.bitorder, memory.excess, seen)
        array = self.copy() if self.is_view else self
        memory = array._memory
        seen = (array._map, memory.dtype, memory.bits) if array.is_view else None
        content: Any = array.region.buffer.view()
        content.flags.writeable = self.flags.writeable
        if protocol >= 5:
            content = pickle.PickleBuffer(content)
        else:
            content = content.tobytes() if not content.flags.writeable else bytearray(content)
        return _unpickled, (type(self), content, memory.spec, memory.bitorder, memory.excess, seen)

    # Tokens and text.

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        partners.introduce()
        memory, file = self._memory, self._memory.file
        about = type(self).__name__, str(memory.spec), str(memory.dtype), memory.bitorder, repr(self._map)
        # Writes through a mapping need not change the file's time, so only a read-only one is identified by its file.
        if file is not None and file.mode != "r+" and file.is_the_file:
            return (*about, *file.identity, _start_in_file(memory.buffer, file))
        import hashlib  # only dask needs it

        return (*about, hashlib.blake2b(self.region.buffer.data, digest_size=20).hexdigest())

    def __str__(self) -> str:
        return formatting.text(self)

    def __repr__(self) -> str:
        return formatting.representation(self)

    def _repr_html_(self) -> str:
        return formatting.as_html(self)

    def _repr_inline_(self, max_width: int) -> str:
        return formatting.in_line(self, max_width)


def _is_of_xla(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is that of an element type. `view` may give others, also other byte orders."""
    found = known_element_type(dtype)
    return found is not None and found.dtype == dtype


@lru_cache(maxsize=256)
def _contiguous(ndim: int, packed_bits: int, *, is_column_major: bool) -> Layout:
    """The layout of a copy, cached: the same object need not be validated again."""
    return Layout(range(ndim) if is_column_major else range(ndim)[::-1], element_size_in_bits=packed_bits)


def _start_in_file(buffer: Array, file: MappedFile) -> int:
    """The position in the file of a buffer that maps it, in bytes."""
    return file.offset + (address_of(buffer) - address_of(file.content) if buffer.size else 0)


def _unpickled(
    cls: type[ArrayBase],
    content: Any,
    spec: BufferSpec,
    bitorder: str,
    excess: int,
    seen: tuple[AddressMap, np.dtype[Any], int] | None,
) -> ArrayBase:
    """An unpickled array. If `content` is a tuple, these are the arguments to map its file again."""
    file = map_file(*content) if isinstance(content, tuple) else None
    buffer = flat_bytes(content) if file is None else file.content
    map_, dtype, bits = seen or (spec.address_map, spec.dtype, spec.element_bits)
    return object.__new__(cls)._with_map(map_, LayoutBuffer(buffer, spec, dtype, bits, bitorder, excess, file))
