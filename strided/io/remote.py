"""Arrays in remote files, read by byte ranges through fsspec: HTTP, object stores and others."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.errors import BufferSizeError, UnsupportedError
from strided.files.magic import HEAD_BYTES
from strided.io.fetching import FetchedArray
from strided.io.raw_format import RawFormat
from strided.io.sparse_pages import blank_array, cut
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape
from strided.runtime.aliases import Table

#: Gaps of at most so many bytes are read with the runs around them: another request would take about as long.
GAP_BYTES = 64 << 10
#: The most bytes of one request.
REQUEST_BYTES = 8 << 20

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+::?//|[A-Za-z][A-Za-z0-9+.\-]+::")


def is_url(path: object) -> bool:
    """Whether a path is a URL for fsspec: ``https://...``, ``s3://...``, ``simplecache::https://...``.

    >>> is_url("https://example.org/x.bin"), is_url("dump:argument0"), is_url("x.bin")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


class RemoteArray(FetchedArray):
    """An array in a remote file. Indexing fetches the elements; nothing is cached.

    `strided.open` returns one for a URL. Indexing is NumPy's and returns ndarrays or scalars.

    Attributes
    ----------
    url : str
    xla_shape : Shape
    shape : tuple of int
    ndim : int
    size : int
        Number of elements.
    dtype : numpy.dtype
    nbytes : int
        Bytes of the values, without padding.
    chunk_shape : tuple of int
        A shape of chunks suited to reading: whole tiles of some megabytes that lie together in the file.
    """

    url: str
    xla_shape: Shape
    shape: tuple[int, ...]
    ndim: int
    size: int
    dtype: np.dtype[Any]
    nbytes: int
    chunk_shape: tuple[int, ...]

    _gap_bytes = GAP_BYTES

    def __init__(self, url: str, shape: str | AnyShape, raw: RawFormat, options: dict[str, Any] | None) -> None:
        parsed = array_shape(shape)
        self.url, self._raw, self._options = url, raw, dict(options or {})
        self._system, self._path = _file_system(url, self._options)
        super().__init__(blank_array(parsed, raw.bitorder))
        self._start = self._checked_start()
        self.ndim, self.nbytes, self.chunk_shape = self.blank.ndim, self.blank.nbytes, self.blank.chunk_shape

    def _checked_start(self) -> int:
        """The offset of the array's bytes in the file, once the file's size and first bytes have been checked."""
        size = self._file_size()
        head = self._bytes(0, min(HEAD_BYTES, size))
        try:
            return self._raw.bounds(size, self.xla_shape, head, self.url)[0]
        except BufferSizeError as error:
            if error.found_format is None:
                raise
            advice = "give the offset of the array's bytes in it, or download it"
            raise error.with_message(f"{self.url} begins as {error.found_format} does: {advice}") from None

    def _file_size(self) -> int:
        try:
            size: int | None = self._system.info(self._path)["size"]
        except FileNotFoundError as error:  # whose message may lack the URL
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url) from error
        if size is None:
            raise UnsupportedError(f"{self.url}: the server does not say how many bytes it holds; download it first")
        return size

    def __len__(self) -> int:
        return len(self.blank)

    def __contains__(self, value: Any) -> bool:
        return value in self.to_numpy()

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<RemoteArray {self.xla_shape} at {self.url!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteArray, self._arguments  # the file is looked up again

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return "strided.RemoteArray", *map(str, self._arguments), str(self._system.ukey(self._path))

    @property
    def _arguments(self) -> tuple[Any, ...]:
        return self.url, str(self.xla_shape), self._raw, self._options

    def _fetched(self, view: LayoutArray, ranges: Table) -> LayoutArray:
        """A view of new memory into which these ranges of the array's bytes were fetched."""
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
        """Raise an error unless the content has the requested size."""
        if len(content) > stop - start:
            raise UnsupportedError(f"{self.url}: the server sends whole files, not ranges of bytes; download it first")
        if len(content) < stop - start:
            raise BufferSizeError(
                f"{self.url} was truncated: {len(content)} of {stop - start} bytes came from byte {start} on",
                actual=start + len(content),
                needed=stop,
            )


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
