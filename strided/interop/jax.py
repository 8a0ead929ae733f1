"""JAX: convert arrays and layouts to and from ``strided``.

`from_jax` wraps the buffer of an array on the CPU; `to_jax` converts values. `layout_from_jax` and `layout_to_jax`
convert layouts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strided.arrays.base import ArrayBase
from strided.arrays.layout_array import LayoutArray
from strided.errors import UnsupportedError
from strided.layout import Layout, Shape
from strided.layout.element_types import ElementType, element_type_of_dtype, known_element_type
from strided.layout.parser import layout_of
from strided.runtime.missing import advising
from strided.transfer.flat_memory import bytes_at

with advising(__name__, "strided[jax]"):
    import jax
    import jax.numpy as jnp
    from jax.experimental.layout import Format
    from jax.experimental.layout import Layout as JaxLayout

#: Fields of a Layout that JAX's Layout lacks, with their defaults.
_ONLY_OURS = {
    "tail_padding_alignment_in_elements": 1,
    "memory_space": 0,
    "split_configs": (),
    "dynamic_shape_metadata_prefix_bytes": 0,
    "padded_dimensions": (),
}


def from_jax(array: jax.Array, *, copy: bool | None = None) -> LayoutArray:
    """Wrap a ``jax.Array`` in the CPU's memory, in the layout of its ``format``; read-only.

    Elements of four and two bits are packed, the first one of a byte in its low bits: XLA stores them so, whatever the
    format says.

    Parameters
    ----------
    array : jax.Array
        An array on one device, a CPU.
    copy : bool, optional
        By default the array's own memory is wrapped if JAX can be kept from freeing it, which is always so except for
        packed integers, whose bytes are copied. False wraps these, too; the caller must then neither delete nor donate
        the array while the result is in use. True always copies.

    Raises
    ------
    TypeError
        Not a ``jax.Array``.
    UnsupportedError
        The array is deleted, traced, on several devices, not in the CPU's memory, tiled, or of a type that XLA lacks.
    """
    if not isinstance(array, jax.Array):
        raise TypeError(f"a jax.Array is wanted, not {type(array).__name__}; LayoutArray.from_numpy takes the others")
    _check_place(array)
    shape = _shape_of(array)
    array.block_until_ready()
    size = shape.byte_size
    keeper: Any = array
    if size and not copy:
        try:
            # An unconsumed capsule keeps JAX from freeing or donating the memory; a reference to the array does not.
            keeper = array.__dlpack__()
        except (RuntimeError, TypeError, BufferError):
            copy = copy is None  # with False, the memory is wrapped anyway
    memory = np.empty(0, np.uint8)
    if size:
        memory = bytes_at(array.unsafe_buffer_pointer(), size, keeper, writeable=False)
    if copy:
        memory = memory.copy()
    memory.flags.writeable = False
    return LayoutArray(memory, shape)


def to_jax(a: LayoutArray) -> jax.Array:
    """The values as a ``jax.Array`` on JAX's default device, in that device's default layout.

    Parameters
    ----------
    a : LayoutArray
        An array in any layout. Its values are copied.

    Returns
    -------
    jax.Array
        An array of the same shape and dtype.

    Raises
    ------
    TypeError
        Not a `LayoutArray`.
    UnsupportedError
        JAX lacks the dtype (six bits, non-native byte order) or would convert it (64 bits without ``jax_enable_x64``,
        integers of one bit).
    """
    if not isinstance(a, ArrayBase):
        raise TypeError(f"a LayoutArray is wanted, not {type(a).__name__}; jax.numpy.asarray takes the others")
    if not a.dtype.isnative:
        raise UnsupportedError(f"JAX has no {a.dtype}, which is not in native byte order: use astype first")
    wanted = a.dtype if known_element_type(a.dtype) is None else jax.dtypes.canonicalize_dtype(a.dtype)
    if wanted != a.dtype:
        raise UnsupportedError(f"JAX would make {wanted} of {a.dtype}: set jax_enable_x64 or convert with astype first")
    return as_jax(a)


def as_jax(a: ArrayBase) -> jax.Array:
    """The values as a ``jax.Array``, whose dtype is the one that ``jnp.asarray`` gives for an ndarray.

    UnsupportedError if JAX lacks the dtype (six bits), or would take it for booleans (integers of one bit).
    """
    kind = element_type_of_dtype(a.dtype)
    _check_one_bit(kind)
    if kind.bits == 6:
        raise UnsupportedError(f"JAX has no {a.dtype}; convert with astype first")
    # A new ndarray, which JAX may use without a copy.
    return jnp.asarray(a.to_numpy())


def layout_to_jax(layout: Layout | str) -> JaxLayout:
    """Convert a layout, or its text, to ``jax.experimental.layout.Layout``, for ``Format`` and ``device_put``.

    Parameters
    ----------
    layout : Layout or str
        As in ``"{1,0:T(8,128)}"``. The order, tiles and packing are kept.

    Raises
    ------
    TypeError
        Neither a layout nor text.
    NotationError
        The text is not a layout.
    UnsupportedError
        The layout has what JAX's cannot express: a memory space, an alignment, splits, a prefix, legacy padding.
    """
    if not isinstance(layout, Layout | str):
        raise TypeError(f"a Layout or its text is wanted, not {type(layout).__name__}")
    layout = layout_of(layout)
    beyond = [name for name, usual in _ONLY_OURS.items() if getattr(layout, name) != usual]
    if beyond:
        raise UnsupportedError(f"JAX's layouts have no {', '.join(beyond)}, which {layout} has")
    return JaxLayout(
        major_to_minor=layout.minor_to_major[::-1],
        tiling=tuple(tile.dimensions for tile in layout.tiles),
        sub_byte_element_size_in_bits=layout.element_size_in_bits,
    )


def layout_from_jax(layout: JaxLayout | Format, dtype: Any = None) -> Layout:
    """Convert a layout from ``jax.experimental.layout.Layout``, or from a ``Format`` that has one.

    Parameters
    ----------
    layout : jax.experimental.layout.Layout or Format
        ``tiling=None`` means no tiles.
    dtype : dtype-like, optional
        Dtype of the elements. Integers narrower than eight bits are then packed if the layout has a tiling and does not
        give the element size, as in JAX.

    Raises
    ------
    UnsupportedError
        The layout is unknown (``None``) or left to the compiler (``Layout.AUTO``).
    LayoutError
        The layout is invalid.
    """
    given = layout.layout if isinstance(layout, Format) else layout
    if not isinstance(given, JaxLayout):
        raise UnsupportedError(f"{given!r} is no concrete layout; take the format of an array")
    bits = given.sub_byte_element_size_in_bits
    if not bits and dtype is not None and given.tiling is not None:
        kind = element_type_of_dtype(dtype)
        bits = kind.bits if kind.bits in (2, 4) and kind.name[0] in "su" else 0
    return Layout(given.major_to_minor[::-1], given.tiling or (), element_size_in_bits=bits)


def _check_place(array: jax.Array) -> None:
    """Raise UnsupportedError unless the array is one buffer in the CPU's memory."""
    if isinstance(array, jax.core.Tracer):
        raise UnsupportedError("inside a JAX transformation an array has no memory yet; wrap the result outside")
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise UnsupportedError(f"XLA has no element type for {array.dtype}; of keys, wrap jax.random.key_data(keys)")
    if array.is_deleted():
        raise UnsupportedError("the jax.Array was deleted or donated; its buffer is gone")
    devices = array.sharding.device_set
    if len(devices) != 1:
        raise UnsupportedError(
            f"the jax.Array lies on {len(devices)} devices; wrap each array.addressable_shards[i].data, "
            "or bring it to one with jax.device_put"
        )
    (device,) = devices
    if device.platform != "cpu":
        raise UnsupportedError(
            f"the jax.Array lies on {device}, where memory cannot be wrapped; jax.device_get brings the values here"
        )


def _shape_of(array: jax.Array) -> Shape:
    """The shape and layout of an array's buffer."""
    kind = element_type_of_dtype(array.dtype)
    _check_one_bit(kind)
    layout = layout_from_jax(array.format)
    if layout.tiles:
        # The CPU accepts a tiled layout and allocates memory for it, but stores the elements without tiles.
        raise UnsupportedError(f"XLA does not carry out the tiles of {layout} on the CPU; np.asarray gives the values")
    bits = kind.bits if kind.bits in (2, 4) else 0
    return Shape(kind.name, array.shape, Layout(layout.minor_to_major, element_size_in_bits=bits))


def _check_one_bit(kind: ElementType) -> None:
    if kind.bits == 1 and kind.name != "pred":
        raise UnsupportedError(f"JAX takes {kind.name} for booleans; convert with astype first")
