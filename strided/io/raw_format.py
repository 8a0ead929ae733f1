"""How an array lies in raw bytes, apart from its shape; and the errors for bytes without one."""

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
        Bytes in front of the array.
    bitorder : {"little", "big"}
        Which element of a byte comes first, if elements are packed: that in the low bits, or in the high ones.
    allow_excess : bool
        Whether any number of bytes may follow the array.
    """

    offset: int = 0
    bitorder: str = "little"
    allow_excess: bool = False

    @property
    def has_end(self) -> bool:
        """Whether the file ends with the array, but for what an allocator rounds up; with an offset it may go on."""
        return not (self.offset or self.allow_excess)

    def bounds(self, size: int, shape: Shape, head: bytes, name: str) -> tuple[int, int]:
        """Start and stop of the array's bytes in a file of `size` bytes that begins with `head`; errors of `extent`."""
        return extent(size, shape, self.offset, self.allow_excess, head, name)


#: A file that begins and ends with the array.
PLAIN = RawFormat()


class NoShapeError(UnsupportedError):
    """Raw bytes without a shape."""


class OtherFormatError(UnsupportedError):
    """Bytes without a shape that begin as those of a format that is not read here; also no bytes at all."""


def no_shape(name: str, head: bytes, size: int) -> NoShapeError | OtherFormatError:
    """The error for bytes without a shape, `size` of them, that begin with `head`."""
    if not size:
        return OtherFormatError(f"{name} is empty")
    if (known := format_of(head, size)) is not None:
        return OtherFormatError(f"{name} is {known.name}: {known.advice}")
    return NoShapeError(
        f"raw bytes do not say what they are: give the shape of {name}, as in 'bf16[17,300]{{1,0:T(8,128)(2,1)}}'; "
        "'strided identify' looks for it"
    )
