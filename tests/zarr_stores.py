"""Zarr stores for tests, written without the zarr library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import strided as sd


def chunked(path: Path, values: npt.NDArray[Any], chunk: tuple[int, ...]) -> Any:
    """An array opened from a store of such chunks, the last ones filled up with zeros."""
    for cell in np.ndindex(*(-(-n // step) for n, step in zip(values.shape, chunk, strict=True))):
        part = values[tuple(slice(k * step, (k + 1) * step) for k, step in zip(cell, chunk, strict=True))]
        whole = np.zeros(chunk, values.dtype)
        whole[tuple(map(slice, part.shape))] = part
        file = path.joinpath("c", *map(str, cell))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(whole.tobytes())
    found = {
        "zarr_format": 3, "node_type": "array", "shape": values.shape, "data_type": values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {},
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(found), encoding="utf-8")
    return sd.open(path)
