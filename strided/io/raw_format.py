"""How an array lies in raw bytes, apart from its shape; and errors for bytes without a shape."""

from __future__ import annotations

from dataclasses import dataclass

from strided.arrays.buffers import extent
from strided.errors import UnsupportedError
from strided.files.magic import format_of
from strided.layout import Shape


@dataclass(frozen=True)
class RawFormat:
    """How an array lies in the bytes of a file, apart from its shape.

    Attributes
    ----------
    offset : int
        Bytes before the array.
    bitorder : {"little", "big"}
        Whether the first of the elements packed into a byte is in its low bits or its high bits.
    allow_excess : bool
        Whether any number of bytes may follow the array.
    """

    offset: int = 0
    bitorder: str = "little"
    allow_excess: bool = False

    @property
    def has_end(self) -> bool:
        """Whether the file must end with the array, up to what an allocator rounds up."""
        return not (self.offset or self.allow_excess)

    def bounds(self, size: int, shape: Shape, head: bytes, name: str) -> tuple[int, int]:
        """Start and stop of the array's bytes in a file of `size` bytes that begins with `head`; raises as `extent`."""
        return extent(size, shape, self.offset, self.allow_excess, head, name)


#: The format of a file that holds nothing but the array.
PLAIN = RawFormat()


class NoShapeError(UnsupportedError):
    """Raw bytes without a shape."""


class OtherFormatError(UnsupportedError):
    """Bytes without a shape that begin like another format's, or are empty."""


def no_shape(name: str, head: bytes, size: int) -> NoShapeError | OtherFormatError:
    """The error for `size` bytes without a shape that begin with `head`."""
    if not size:
        return OtherFormatError(f"{name} is empty")
    if (known := format_of(head, size)) is not None:
        return OtherFormatError(f"{name} is {known.name}: {known.advice}")
    return NoShapeError(
        f"raw bytes have no header: give the shape of {name}, as in 'bf16[17,300]{{1,0:T(8,128)(2,1)}}'; "
        "'strided identify' looks for it"
    )
