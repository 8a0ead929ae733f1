"""Write an HloSnapshot, which XLA's own tools can read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from strided.dumps.literals.writer import literal_pieces, message_pieces
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.wire import Buffer
from strided.dumps.snapshots.snapshot import Values
from strided.errors import UnsupportedError
from strided.escape import visible
from strided.files.atomic import replaced
from strided.runtime.argument_checks import string

#: The longest message that protobuf's parsers read, in bytes.
MAX_MESSAGE_BYTES = (1 << 31) - 1


def write_snapshot(
    target: str | os.PathLike[str] | BinaryIO,
    arguments: Sequence[Any],
    result: Any = None,
    *,
    module: Buffer | None = None,
    platform: str = "",
) -> None:
    """Write an HloSnapshot, which XLA's own tools can read.

    Parameters
    ----------
    target : path or binary file
        An earlier file is replaced once the new one is complete on disk; otherwise it stays.
    arguments : sequence of LayoutArray, array-like, or tuples of such
        By parameter number. A LayoutArray keeps its dimension order, but not its tiles and padding.
    result : LayoutArray, array-like, or a tuple or list of such, optional
        Several results are a tuple. None means that the run did not finish.
    module : buffer, optional
        The bytes of an HloModuleProto, such as `Snapshot.module_proto`.
    platform : str, optional

    Raises
    ------
    TypeError
        `target` is neither a path nor a file, `arguments` is no sequence, or `platform` no string.
    UnsupportedError
        A type that XLA lacks, more than the 2 GiB that protobuf reads, or a `platform` that UTF-8 cannot encode.
        Nothing is written.
    DumpError
        Tuples are nested deeper than protobuf reads.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from strided import read_snapshot
    >>> file = io.BytesIO()
    >>> write_snapshot(file, [np.int8([1, 2])], np.int8(3), platform="cpu")
    >>> read_snapshot(file.getvalue()).platform
    'cpu'
    """
    if not isinstance(target, (str, os.PathLike)) and not hasattr(target, "writelines"):
        raise TypeError(f"expected a path or a binary file to write to, not {type(target).__name__}")
    if not isinstance(arguments, Iterable) or isinstance(arguments, (str, bytes, Mapping)):
        raise TypeError(f"arguments must be a sequence of arrays, not {type(arguments).__name__}")
    pieces: list[Buffer] = []
    try:
        name = string(platform, "platform").encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"platform {visible(platform)!r} has characters that UTF-8 lacks") from None
    if module is not None:
        pieces += message_pieces(1, message_pieces(1, [wire.as_view(module)]))
    for argument in arguments:
        pieces += message_pieces(2, literal_pieces(argument))
    returned = () if result is None else tuple(result) if isinstance(result, Values) else result
    pieces += message_pieces(3, literal_pieces(returned))
    if platform:
        pieces.append(wire.bytes_field(4, name))
    size = sum(map(len, pieces))
    if size > MAX_MESSAGE_BYTES:
        raise UnsupportedError(f"a snapshot of {size} bytes; protobuf reads messages of less than 2 GiB")
    if isinstance(target, (str, os.PathLike)):
        with replaced(target) as file:
            file.writelines(pieces)
    else:
        target.writelines(pieces)
