"""XLA's shardings: which slice of a global array each device holds.

A sharding is a word (``{replicated}``, ``{maximal device=3}``, ...), a grid of devices over the array's dimensions, a
mesh with named axes (another way to write a grid), or a tuple of these, one per leaf of a tuple shape.

A dimension of size D that is cut into g tiles is cut every c = ceil(D/g) elements: tile i holds
``[min(i*c, D), min((i+1)*c, D))``. Leading tiles are full, one may be short, the rest are empty. Every buffer has the
full shard shape: short shards are padded at their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from strided.dumps.protobuf.wire import as_view
from strided.dumps.sharding.proto import read_sharding_proto, write_sharding_proto
from strided.dumps.sharding.text import read_sharding, sharding_text
from strided.dumps.sharding.value import ShardingValue
from strided.errors import LayoutError, UnsupportedError
from strided.escape import visible
from strided.layout import Shape
from strided.runtime.argument_checks import whole
from strided.wording import counted

#: A slice for every dimension.
Index = tuple[slice, ...]


class Sharding(ShardingValue):
    """How an array, or a tuple of arrays, is distributed over devices. Prints as XLA's canonical text.

    Devices are logical partition numbers (positions in the device assignment), not hardware ids.

    Attributes
    ----------
    kind : str
        "tiled", "replicated", "maximal", "manual", "unknown", "unreduced" or "tuple".
    grid : TileAssignment or None
        If tiled: the device of each tile. Its last dimensions, one per subgroup, are not dimensions of the array.
    subgroups : tuple of str
        The kinds of these dimensions: "replicated", "unreduced" (partial sums), "manual" or "maximal".
    device : int or None
        The device, if maximal.
    elements : tuple of Sharding
        For a tuple: a sharding for each leaf, in order.
    named : NamedSharding or None
        The mesh and its axes, if named; the other attributes are equivalent.
    group : Group or None
        ``shard_as`` or ``shard_like``.
    metadata : tuple of str
        XLA's metadata as text; neither printed nor compared.
    num_devices : int or None
        The number of devices, if known; neither printed nor compared.

    >>> Sharding.parse("{devices=[2,4]<=[8]}").num_devices, Sharding.parse("{replicated}").num_devices
    (8, None)
    >>> sharding = Sharding.parse("{devices=[2,4]<=[8]}")
    >>> sharding.shard_shape((3, 5)), sharding.slices((3, 5))[6]
    ((2, 2), (slice(2, 3, None), slice(4, 5, None)))
    """

    elements: tuple[Sharding, ...]

    @classmethod
    def parse(cls, text: str) -> Sharding:
        """Parse a sharding's text, in any of XLA's forms.

        Raises
        ------
        NotationError
            The text is invalid; the message shows what was expected, and where.
        UnsupportedError
            An iota of more than 65,536 devices whose canonical form would be a list.

        >>> print(Sharding.parse("{devices=[2,4]<=[2,4]T(0,1)}"))
        {devices=[2,4]<=[8]}
        """
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a sharding, not {type(text).__name__}")
        return read_sharding(text, cls)

    @classmethod
    def from_proto(cls, data: bytes | bytearray | memoryview) -> Sharding:
        """Read a sharding from the bytes of an OpSharding message, named or not.

        Parameters
        ----------
        data : bytes or another contiguous buffer

        Raises
        ------
        DumpError
            An invalid message or sharding.
        UnsupportedError
            As for `parse`.
        """
        return read_sharding_proto(as_view(data), cls)

    def to_proto(self) -> bytes:
        """Write the sharding as an OpSharding message, without metadata.

        >>> Sharding.from_proto(Sharding.parse("{maximal device=3}").to_proto())
        Sharding.parse('{maximal device=3}')
        """
        return write_sharding_proto(self)

    # ---- text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return visible(self.text())

    def text(self, *, metadata: bool = False) -> str:
        """XLA's text, with or without metadata.

        >>> Sharding.parse('{replicated metadata={op_name="f"}}').text()
        '{replicated}'
        """
        return sharding_text(self, metadata=metadata)

    def __repr__(self) -> str:
        return f"Sharding.parse({self.text(metadata=True)!r})"

    # ---- slices -----------------------------------------------------------------------------------------------------

    @property
    def tile_counts(self) -> tuple[int, ...]:
        """The number of tiles along each dimension of the array; empty without a grid."""
        return () if self.grid is None else self.grid.dimensions[: len(self.grid.dimensions) - len(self.subgroups)]

    def unnamed(self) -> Sharding:
        """The same sharding without axis names, in XLA's older form.

        >>> print(Sharding.parse("{mesh['x'=2,'y'=4], [{'y'}, {'x'}]}").unnamed())
        {devices=[4,2]<=[2,4]T(1,0)}
        """
        return replace(self, named=None, elements=tuple(element.unnamed() for element in self.elements))

    def shard_shape(self, global_dims: Sequence[SupportsIndex] | Shape) -> tuple[int, ...]:
        """The dimensions of every device's buffer, in elements; short shards fill only a part of it.

        Parameters
        ----------
        global_dims : sequence of int, or a Shape
            Dimensions of the whole array, in elements.

        Raises
        ------
        UnsupportedError
            The sharding is a tuple.
        LayoutError
            Not as many dimensions as the grid has, or one of unknown size.

        >>> Sharding.parse("{devices=[4]<=[4]}").shard_shape((5,))
        (2,)
        """
        dims = self._checked(global_dims)
        counts = self.tile_counts or (1,) * len(dims)
        return tuple(-(-size // count) for size, count in zip(dims, counts, strict=True))

    def slices(
        self, global_dims: Sequence[SupportsIndex] | Shape, num_devices: SupportsIndex | None = None
    ) -> DeviceSlices:
        """The slice of the global array that each device holds, by device number.

        Parameters
        ----------
        global_dims : sequence of int, or a Shape
            Dimensions of the whole array, in elements.
        num_devices : int, optional
            The number of devices, if the sharding does not determine it.

        Returns
        -------
        DeviceSlices
            ``[device]`` is a tuple of slices, or None if the device holds nothing.

        Raises
        ------
        UnsupportedError
            The sharding is a tuple, or does not determine where data lie (manual, unknown).
        LayoutError
            Not as many dimensions as the grid has, one of unknown size, or too few devices.

        >>> Sharding.parse("{maximal device=1}").slices((4,), num_devices=3)
        DeviceSlices([None, (slice(0, 4, None),), None])
        """
        dims = self._checked(global_dims)
        if self.kind in ("manual", "unknown"):
            raise UnsupportedError(f"{self} does not say which part of the array a device holds")
        if "maximal" in self.subgroups:
            raise UnsupportedError(f"{self}: it is not known where the maximal subgroup's devices keep their data")
        needed = self.num_devices or (0 if self.device is None else self.device + 1)
        count = self.num_devices if num_devices is None else whole(num_devices, "num_devices")
        if count is not None and count < needed:
            raise LayoutError(f"{self} needs {needed} devices, there are {count}")
        return DeviceSlices(self, dims, count)

    def _checked(self, global_dims: Any) -> tuple[int, ...]:
        if self.kind == "tuple":
            raise UnsupportedError("a tuple has a sharding for each leaf: take one of its elements")
        given = getattr(global_dims, "dimensions", global_dims)
        if not isinstance(given, Iterable):
            raise TypeError(f"global_dims must be a sequence of sizes or a Shape, not {type(given).__name__}")
        dims = tuple(whole(size, "the size of a dimension") for size in given)
        if self.grid is not None and len(dims) != len(self.tile_counts):
            raise LayoutError(
                f"{self} cuts {counted(len(self.tile_counts), 'dimension')}, the array has {len(dims)}: {dims}"
            )
        if any(size < 0 for size in dims):
            raise LayoutError(f"no slices of an array of unknown size: {dims}")
        return dims


class DeviceSlices:
    """The slice of each device, by device number, computed on demand, as returned by `Sharding.slices`.

    ``len`` and iteration need the number of devices (see `Sharding.num_devices`).
    """

    def __init__(self, sharding: Sharding, dims: tuple[int, ...], num_devices: int | None) -> None:
        self._sharding, self._dims, self._num_devices = sharding, dims, num_devices
        self._shard = sharding.shard_shape(dims)

    def __getitem__(self, device: SupportsIndex) -> Index | None:
        device = whole(device, "the number of a device")
        if device < 0 or (self._num_devices is not None and device >= self._num_devices):
            raise IndexError(f"device {device} is out of range for {self._num_devices} devices")
        if self._sharding.device is not None and device != self._sharding.device:
            return None
        if self._sharding.grid is None:
            return tuple(slice(0, size) for size in self._dims)
        cell = self._sharding.grid.cell_of(device)
        return None if cell is None else self.of_tile(cell)

    def of_tile(self, cell: Sequence[SupportsIndex]) -> Index:
        """The slice of the tile at `cell`; coordinates beyond the array's rank are ignored.

        IndexError for fewer coordinates than the array's rank, TypeError if `cell` is no sequence of integers.

        >>> Sharding.parse("{devices=[2,2]<=[4]}").slices((3, 5)).of_tile((1, 0))
        (slice(2, 3, None), slice(0, 3, None))
        """
        if not isinstance(cell, Iterable):
            raise TypeError(f"cell must be a sequence of coordinates, not {type(cell).__name__}")
        at = [whole(k, "a coordinate of a tile") for k in cell]
        if len(at) < len(self._dims):
            raise IndexError(
                f"a tile of an array of {len(self._dims)} dimensions has as many coordinates, not {len(at)}"
            )
        return tuple(
            slice(min(k * step, size), min((k + 1) * step, size))
            for k, step, size in zip(at, self._shard, self._dims, strict=False)
        )

    def __len__(self) -> int:
        if self._num_devices is None:
            raise TypeError(f"{self._sharding} does not say how many devices there are: pass num_devices")
        return self._num_devices

    def __iter__(self) -> Iterator[Index | None]:
        return (self[device] for device in range(len(self)))

    def __repr__(self) -> str:
        if self._num_devices is None or self._num_devices > 64:
            return f"<slices of {self._dims} as {self._sharding}>"
        return f"DeviceSlices({list(self)})"


def as_sharding(value: Any) -> Sharding:
    """Convert a sharding, its text, or XLA's HloSharding (which prints as that text) to a Sharding."""
    if isinstance(value, (Sharding, str)):
        return value if isinstance(value, Sharding) else Sharding.parse(value)
    if type(value).__name__ != "HloSharding":
        raise TypeError(f"expected a Sharding, or the text of one, not {type(value).__name__}")
    return Sharding.parse(str(value))
