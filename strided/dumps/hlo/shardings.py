"""OpSharding messages as XLA prints them: canonical, with their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from strided.dumps.hlo.metadata import parts_text
from strided.dumps.protobuf.decode import decode
from strided.dumps.protobuf.wire import Field, fields
from strided.dumps.sharding.sharding import Sharding
from strided.errors import StridedError
from strided.layout import AnyShape, TupleShape

#: Characters up to which a sharding given once for a tuple is printed for each leaf.
MAX_TEXT = 1 << 20


def sharding_text(view: memoryview, shape: AnyShape | None = None, *, metadata: bool = True) -> str:
    """The text of an OpSharding; one that describes no sharding says so in a comment.

    Parameters
    ----------
    view : memoryview
    shape : Shape, optional
        The instruction's. Where it is a tuple and the sharding none, each leaf has that sharding.
    metadata : bool
    """
    try:
        found = Sharding.from_proto(view)
        text = (_with_metadata(found, view) if metadata else found).text(metadata=metadata)
    except StridedError as error:
        return _unassigned(view) or f"{{/* {error} */}}"
    if isinstance(shape, TupleShape) and found.kind != "tuple":
        leaves = sum(1 for _ in shape.leaves())
        if leaves * len(text) <= MAX_TEXT:
            return f"{{{', '.join(f'/*index={n}*/{text}' if n and n % 5 == 0 else text for n in range(leaves))}}}"
    return text


def _unassigned(view: memoryview) -> str | None:
    """The text of a sharding on one device that has no number yet: `Sharding` knows none, XLA calls it -1."""
    try:
        message = decode("OpSharding", view)
    except StridedError:
        return None
    alone = message.get("type") == 1 and list(message.get("tile_assignment_devices", ())) == [-1]
    return "{maximal device=-1}" if alone else None


def _with_metadata(sharding: Sharding, view: memoryview) -> Sharding:
    """`sharding` with the metadata in `view`, from which it was read."""
    inner = [field for field in fields(view, "OpSharding", 0) if field.number in (5, 7, 14)]
    if sharding.kind == "tuple":
        parts = (_with_metadata(*pair) for pair in zip(sharding.elements, _views(inner, 5), strict=True))
        return replace(sharding, elements=tuple(parts))
    records = list(_views(inner, 7))
    if sharding.named is not None:
        named = [field for one in _views(inner, 14) for field in fields(one, "NamedShardingProto", 0)]
        records = list(_views(named, 6))
    if not records:
        return sharding
    return replace(sharding, metadata=tuple(parts_text(decode("OpMetadata", record)) for record in records))


def _views(found: list[Field], number: int) -> Iterator[memoryview]:
    return (field.view("OpSharding") for field in found if field.number == number)
