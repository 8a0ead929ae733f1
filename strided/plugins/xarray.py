"""A backend engine for xarray: `xarray.open_dataset("dump", engine="strided")`.

xarray finds it by the entry point ``strided`` in ``xarray.backends``.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from strided.arrays.layout_array import LayoutArray, map_array
from strided.dumps.detect import recognise
from strided.dumps.directory.dump import open_dump
from strided.dumps.directory.names import parse_name
from strided.dumps.snapshots.snapshot import read_snapshot
from strided.files.regular import open_regular
from strided.io.containers import Container, open_container
from strided.io.zarr_store import ZarrArray, ZarrStore, is_zarr
from strided.layout import AnyShape
from strided.opening import open_array


class StridedBackend(BackendEntrypoint):
    """Dump folders, snapshots, zarr stores and raw buffers as datasets, read lazily."""

    description = "Buffers in XLA's layouts: dump folders, snapshots, raw device memory (strided)"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "shape", "dims", "offset", "bitorder")

    def open_dataset(
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        shape: str | AnyShape | None = None,
        dims: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        offset: int = 0,
        bitorder: str = "little",
    ) -> xr.Dataset:
        """Open a dataset with a variable for each array.

        Parameters
        ----------
        filename_or_obj : path
            A dump folder, a snapshot, a ``.npy``, ``.npz``, ``.safetensors`` or ``.zarr``, or with `shape`, a file of
            raw bytes.
        drop_variables : str or iterable of str, optional
            Arrays to leave out.
        shape : str or Shape, optional
            For raw bytes: the shape and layout. The variable is named after the file, without its extension.
        dims : sequence of str, or mapping from names of variables to such, optional
            Names of dimensions; by default the variable's with ``_0``, ``_1``, ...
        offset, bitorder
            For raw bytes, as for `strided.open`.

        Raises
        ------
        DumpError, BufferSizeError, NotationError, UnsupportedError, OSError
            As for `strided.open_dump`, `strided.read_snapshot` and `strided.open`.
        """
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        path = Path(filename_or_obj)
        if shape is not None:
            opening = partial(open_array, path, shape, offset=offset, bitorder=bitorder)
            arrays: Iterable[tuple[str, Callable[[], Any]]] = [(path.stem, opening)]
        else:
            arrays = _arrays(path)
        variables = {
            name: _variable(name, array, dims)
            for name, opening in arrays
            if name not in dropped and isinstance(array := opening(), (LayoutArray, ZarrArray))
        }
        return xr.Dataset(variables, attrs={"source": os.fspath(path)})

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether a path is that of a snapshot, by its name, or of a folder with dump files."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        path = Path(filename_or_obj)
        if path.is_dir():
            return any(parse_name(one.name) is not None for one in path.iterdir())
        found = parse_name(path.name)
        return found is not None and found.kind == "snapshot"


class _Lazy(BackendArray):
    """An array that xarray indexes lazily, and pickles by its path if it is mapped."""

    def __init__(self, array: LayoutArray | ZarrArray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, lambda basic: np.asarray(self.array[basic])
        )


def _arrays(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The names of the arrays in a file or folder, each with a function that opens it, which may fail."""
    if path.is_dir():
        folder: Mapping[str, Any] = ZarrStore(os.fspath(path)) if is_zarr(path) else open_dump(path)
        yield from ((name, partial(operator.getitem, folder, name)) for name in folder)
        return
    if recognise(path) == "snapshot":
        snapshot = read_snapshot(path)
        for what, values in (("argument", snapshot.arguments), ("result", snapshot.results)):
            for number in range(len(values)):
                yield f"{what}{number}", partial(operator.getitem, values, number)
        return
    with open_regular(path) as file:
        if container := open_container(file, os.fspath(path)):
            yield from ((name, partial(_mapped, container, name)) for name in container)
            return
    yield path.stem, partial(open_array, path)


def _mapped(container: Container, name: str) -> LayoutArray:
    shape, offset = container.place(name)
    return map_array(container.path, shape, offset=offset)


def _variable(name: str, array: LayoutArray | ZarrArray, dims: Any) -> xr.Variable:
    given = dims.get(name) if isinstance(dims, Mapping) else dims
    names = tuple(given) if given is not None else tuple(f"{name}_{k}" for k in range(array.ndim))
    if len(names) != array.ndim:
        raise ValueError(f"{name} has {array.ndim} dimensions, {array.xla_shape}, but dims has {len(names)}: {names}")
    encoding = {"preferred_chunks": dict(zip(names, array.chunk_shape, strict=True))}
    return xr.Variable(names, indexing.LazilyIndexedArray(_Lazy(array)), {"xla_shape": str(array.xla_shape)}, encoding)
