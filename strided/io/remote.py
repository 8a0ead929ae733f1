"""Arrays in files on other machines, read by ranges of bytes: HTTP, object stores, whatever fsspec knows."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.buffers import extent
from strided.arrays.classify import Copy, indexed
from strided.arrays.layout_array import LayoutArray
from strided.errors import BufferSizeError, UnsupportedError
from strided.files.magic import HEAD_BYTES
from strided.io.fetching import values_at, values_of
from strided.io.sparse_pages import blank_array, cut
from strided.layout import AnyShape, Layout, Shape
from strided.layout.parser import array_shape
from strided.runtime.aliases import Table

#: Bytes between two runs that are read along with them: a request takes about as long as these take to arrive.
GAP_BYTES = 64 << 10
#: Bytes of one request at most.
REQUEST_BYTES = 8 << 20

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+::?//|[A-Za-z][A-Za-z0-9+.\-]+::")


def is_url(path: object) -> bool:
    """Whether a path is one of fsspec's: ``https://...``, ``s3://...``, ``simplecache::https://...``.

    >>> is_url("https://example.org/x.bin"), is_url("dump:argument0"), is_url("x.bin")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


class RemoteArray:
    """An array in a file on another machine. What is indexed is fetched; nothing is kept.

    `strided.open` makes one of a URL. Keys are NumPy's and give ndarrays, or scalars.

    Attributes
    ----------
    url : str
    xla_shape : Shape
    shape : tuple of int
    ndim : int
    size : int
        Elements.
    dtype : numpy.dtype
    nbytes : int
        Bytes of the values, without padding.
    chunk_shape : tuple of int
        Shape of chunks that suits reading it: whole tiles, some megabytes, together in the file.
    """

    url: str
    xla_shape: Shape
    shape: tuple[int, ...]
    ndim: int
    size: int
    dtype: np.dtype[Any]
    nbytes: int
    chunk_shape: tuple[int, ...]
    blank: LayoutArray

    def __init__(
        self,
        url: str,
        shape: str | AnyShape,
        offset: int = 0,
        *,
        bitorder: str = "little",
        allow_excess: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.url, self.xla_shape, self._options = url, array_shape(shape), dict(options or {})
        self._system, self._path = _file_system(url, self._options)
        self.blank = blank_array(self.xla_shape, bitorder)
        try:
            size = self._system.info(self._path)["size"]
        except FileNotFoundError as error:  # which tells the place alone, or what a store calls it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url) from error
        if size is None:
            raise UnsupportedError(f"{url}: the server does not say how many bytes it holds; download it first")
        head = self._bytes(0, min(HEAD_BYTES, size))
        try:
            self._start, _ = extent(size, self.xla_shape, offset, allow_excess, head, url)
        except BufferSizeError as error:
            if error.found_format is None:
                raise
            advice = "give the offset of the array's bytes in it, or download it"
            raise error.with_message(f"{url} begins as {error.found_format} does: {advice}") from None
        self._arguments = url, str(self.xla_shape), offset, bitorder, allow_excess, self._options
        self.shape, self.ndim, self.size = self.blank.shape, self.blank.ndim, self.blank.size
        self.dtype, self.nbytes, self.chunk_shape = self.blank.dtype, self.blank.nbytes, self.blank.chunk_shape

    @property
    def layout(self) -> Layout:
        """The layout of the file."""
        assert self.xla_shape.layout is not None
        return self.xla_shape.layout

    def __getitem__(self, key: Any) -> Any:
        selected = indexed(self.blank.address_map, key)
        if isinstance(selected, (AddressMap, Copy)):
            map_ = selected.map if isinstance(selected, Copy) else selected
            return values_of(self.blank._with_map(map_), self._fetched, GAP_BYTES)
        return values_at(self.blank, key, selected, self._fetched, GAP_BYTES)

    def to_numpy(self) -> npt.NDArray[Any]:
        """All values as a new ndarray."""
        values: npt.NDArray[Any] = self[...]
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the values are fetched: there is no ndarray without a copy")
        return self.to_numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def __len__(self) -> int:
        return len(self.blank)

    def __contains__(self, value: Any) -> bool:
        return value in self.to_numpy()

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<RemoteArray {self.xla_shape} at {self.url!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._arguments

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "strided.RemoteArray", *map(str, self._arguments), str(self._system.ukey(self._path))

    def _fetched(self, view: LayoutArray, ranges: Table) -> LayoutArray:
        """A view of the array with some ranges of its bytes fetched, in memory of its own."""
        found = blank_array(self.xla_shape, self.blank.bitorder)
        parts = cut(ranges, REQUEST_BYTES)
        starts, stops = ([self._start + part[k] for part in parts] for k in (0, 1))
        contents = self._system.cat_ranges([self._path] * len(parts), starts, stops, on_error="raise") if parts else []
        for (start, stop), content in zip(parts, contents, strict=True):
            self._check(content, start, stop)
            found.buffer[start:stop] = np.frombuffer(content, np.uint8)
        return found._with_map(view.address_map)

    def _bytes(self, start: int, stop: int) -> bytes:
        content: bytes = self._system.cat_file(self._path, start=start, end=stop) if stop > start else b""
        self._check(content, start, stop)
        return content

    def _check(self, content: bytes, start: int, stop: int) -> None:
        """Raise if a part has not the size that was asked for."""
        if len(content) > stop - start:
            raise UnsupportedError(f"{self.url}: the server sends whole files, not ranges of bytes; download it first")
        if len(content) < stop - start:
            raise BufferSizeError(
                f"{self.url} was truncated: {len(content)} of {stop - start} bytes came from byte {start} on",
                actual=start + len(content),
                needed=stop,
            )


def _again(*arguments: Any) -> RemoteArray:
    """An unpickled array: the file is looked up again."""
    url, shape, offset, bitorder, allow_excess, options = arguments
    return RemoteArray(url, shape, offset, bitorder=bitorder, allow_excess=allow_excess, options=options)


def _file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        import fsspec  # an extra, and slow to import
    except ImportError:
        raise UnsupportedError(f"{url} needs fsspec: pip install 'strided[remote]'") from None
    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise UnsupportedError(f"{url}: {error}") from None
    return system, path
