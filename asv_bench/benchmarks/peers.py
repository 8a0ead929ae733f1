"""The same conversions by other means: the NumPy idiom, torch, and jitted JAX.

All of them do what people write by hand: reshape to the grid of tiles, transpose, reshape back, cut the padding off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import strided as sd
from benchmarks.cases import Prepared


def _grid(shape: sd.Shape) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of the tiled buffer's axes, their row-major order, the padded sizes, and the logical order of those.

    None where tiles do not divide each other, or combine dimensions.
    """
    layout = shape.layout
    assert layout is not None
    order = tuple(reversed(layout.minor_to_major))
    sizes = [shape.dimensions[d] for d in order]
    leaves: list[list[int]] = [[k] for k in range(len(sizes))]  # of each physical dimension: axes, major first
    current = list(range(len(sizes)))
    for tile in layout.tiles:
        if len(tile) > len(current) or any(t < 0 for t in tile):
            return None
        grid, inner = [], []
        for axis, t in zip(current[len(current) - len(tile) :], tile, strict=True):
            owner = next(own for own in leaves if axis in own)
            if sizes[axis] % t and len(owner) > 1 and owner[0] != axis:
                return None
            sizes[axis] = -(-sizes[axis] // t)
            sizes.append(t)
            new = len(sizes) - 1
            owner.insert(owner.index(axis) + 1, new)
            grid.append(axis)
            inner.append(new)
        current = current[: len(current) - len(tile)] + grid + inner
    position = {axis: k for k, axis in enumerate(current)}
    permutation = tuple(position[axis] for own in leaves for axis in own)
    padded = tuple(math.prod(sizes[axis] for axis in own) for own in leaves)
    logical = tuple(order.index(d) for d in range(len(order)))
    return tuple(sizes[axis] for axis in current), permutation, padded, logical


def numpy_idiom(prepared: Prepared) -> Callable[[], object] | None:
    """Reshape, transpose, copy; None where the idiom does not apply (packed elements, combined dimensions)."""
    source, target = prepared.source, prepared.target
    if isinstance(target, sd.LayoutArray):
        return None if "E(" in f"{source.layout}{target.layout}" else _between(source, target)
    if source.xla_shape.element_bits != 8 * source.itemsize:
        return None
    read = _readable(source)
    if read is None:
        return None
    return lambda: np.copyto(target, read()[prepared.key])


def _readable(a: sd.LayoutArray) -> Callable[[], np.ndarray] | None:
    found = _grid(a.xla_shape)
    if found is None:
        return None
    sizes, permutation, padded, logical = found
    flat = a.buffer[: math.prod(sizes) * a.itemsize].view(_word(a))
    cut = tuple(slice(n) for n in a.xla_shape.dimensions)

    def read() -> np.ndarray:
        x = flat.reshape(sizes).transpose(permutation).reshape(padded).transpose(logical)[cut]
        return x.view(a.dtype)

    return read


def _word(a: sd.LayoutArray) -> np.dtype[Any]:
    return np.dtype(f"u{a.itemsize}") if a.itemsize <= 8 else a.dtype


def _between(source: sd.LayoutArray, target: sd.LayoutArray) -> Callable[[], object] | None:
    """From one layout to another: read as above, then the same backwards into a view of the target."""
    read, found = _readable(source), _grid(target.xla_shape)
    if read is None or found is None:
        return None
    sizes, permutation, padded, logical = found
    if math.prod(padded) != target.size:
        return _padded_between(read, target, found)
    view = target.buffer.view(target.dtype).reshape(sizes).transpose(permutation)
    back = tuple(np.argsort(logical))
    return lambda: np.copyto(view, read().transpose(back).reshape(view.shape))


def _padded_between(read: Callable[[], np.ndarray], target: sd.LayoutArray, found: Any) -> Callable[[], object]:
    sizes, permutation, padded, logical = found
    view = target.buffer.view(target.dtype).reshape(sizes).transpose(permutation)
    back = tuple(np.argsort(logical))

    def run() -> None:
        x = read().transpose(back)
        x = np.pad(x, [(0, p - n) for p, n in zip(padded, x.shape, strict=True)])
        np.copyto(view, x.reshape(view.shape))

    return run


def torch_idiom(prepared: Prepared) -> Callable[[], object] | None:
    """The same with torch's permute and copy_; None where torch is missing or the idiom does not apply."""
    try:
        import torch
    except ImportError:
        return None
    source, target = prepared.source, prepared.target
    if isinstance(target, sd.LayoutArray) or source.xla_shape.element_bits != 8 * source.itemsize:
        return None
    found = _grid(source.xla_shape)
    if found is None:
        return None
    sizes, permutation, padded, logical = found
    kind = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[source.itemsize]
    flat = torch.from_numpy(source.buffer.view(kind)[: math.prod(sizes)])
    out = torch.from_numpy(target.view(kind))
    cut = (*(slice(n) for n in source.xla_shape.dimensions),)

    def run() -> object:
        return out.copy_(flat.reshape(sizes).permute(permutation).reshape(padded).permute(logical)[cut][prepared.key])

    return run


def jax_idiom(prepared: Prepared) -> Callable[[], object] | None:
    """The same as one jitted JAX function on the CPU, result in memory of its own; None where it does not apply."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    source, target = prepared.source, prepared.target
    if isinstance(target, sd.LayoutArray) or source.xla_shape.element_bits != 8 * source.itemsize:
        return None
    found = _grid(source.xla_shape)
    if found is None or source.itemsize == 8:
        return None
    sizes, permutation, padded, logical = found
    cut = tuple(slice(n) for n in source.xla_shape.dimensions)
    flat = jnp.asarray(source.buffer.view(_word(source))[: math.prod(sizes)])
    convert = jax.jit(
        lambda x: x.reshape(sizes).transpose(permutation).reshape(padded).transpose(logical)[cut][prepared.key]
    )
    return lambda: convert(flat).block_until_ready()
