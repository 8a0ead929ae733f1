"""Shapes that are not one array: tuples, and buffers ``b(...)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias, TypeVar

from strided.layout.shape import Shape
from strided.layout.validation import FieldError
from strided.runtime import notebook

_T = TypeVar("_T")


@dataclass(frozen=True, repr=False)
class BufferShape:
    """``b(...)``: a buffer that holds one array. LayoutError if `shape` is not that of an array.

    >>> str(BufferShape(Shape("f32", (3,))))
    'b(f32[3]{0})'
    """

    shape: Shape

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape) or self.shape.layout is None:
            raise FieldError("shape", f"a buffer holds one array, not {self.shape}")

    @property
    def byte_size(self) -> int:
        """Bytes of the array, padding included."""
        return self.shape.byte_size

    def text(self, *, layout: bool = True) -> str:
        """XLA's text, with or without layouts."""
        return f"b({self.shape.text(layout=layout)})"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str | None:
        return notebook.as_html(self)

    def __repr__(self) -> str:
        return f"BufferShape({self.shape!r})"


def unbuffered(shape: BufferShape | _T) -> Shape | _T:
    """The array that a buffer holds; anything else as it is.

    >>> str(unbuffered(BufferShape(Shape("f32", (3,))))), str(unbuffered(Shape("s8", ())))
    ('f32[3]{0}', 's8[]')
    """
    return shape.shape if isinstance(shape, BufferShape) else shape


class TupleShape:
    """A tuple of shapes, possibly nested. Immutable.

    Parameters
    ----------
    elements : iterable of Shape, BufferShape or TupleShape

    Raises
    ------
    TypeError
        `elements` is not iterable, or an element is not a shape.

    Examples
    --------
    >>> pair = TupleShape([Shape("f32", (2,)), Shape("s32", ())])
    >>> str(pair), len(pair), str(pair[1])
    ('(f32[2]{0}, s32[])', 2, 's32[]')
    """

    # No method recurses: XLA's tuples may be nested 32,768 deep.

    __slots__ = ("__weakref__", "_hash", "elements")

    elements: tuple[AnyShape, ...]
    _hash: int

    def __init__(self, elements: Iterable[AnyShape]) -> None:
        put = object.__setattr__
        if not isinstance(elements, Iterable):
            raise TypeError(f"a tuple shape holds shapes: expected a sequence of them, not {elements!r}")
        put(self, "elements", tuple(elements))
        for e in self.elements:
            if not isinstance(e, (Shape, BufferShape, TupleShape)):
                raise TypeError(f"a tuple shape holds shapes, not {e!r}")
        put(self, "_hash", hash(tuple(map(hash, self.elements))))

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError("a TupleShape is immutable")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name)

    def __len__(self) -> int:
        return len(self.elements)

    def __iter__(self) -> Iterator[AnyShape]:
        return iter(self.elements)

    def __getitem__(self, i: SupportsIndex) -> AnyShape:
        return self.elements[i]

    def _tokens(self) -> Iterator[Shape | BufferShape | str]:
        """The tree in depth-first order, with "(" and ")" around the elements of each tuple."""
        stack: list[Iterator[AnyShape]] = [iter(self.elements)]
        yield "("
        while stack:
            for e in stack[-1]:
                if isinstance(e, TupleShape):
                    yield "("
                    stack.append(iter(e.elements))
                    break
                yield e
            else:
                stack.pop()
                yield ")"

    @classmethod
    def _from_tokens(cls, tokens: Sequence[Shape | BufferShape | str]) -> TupleShape:
        stack: list[list[AnyShape]] = [[]]
        for token in tokens:
            if token == "(":
                stack.append([])
            elif isinstance(token, str):
                done = cls(stack.pop())
                stack[-1].append(done)
            else:
                stack[-1].append(token)
        whole = stack[0][0]
        assert isinstance(whole, TupleShape)
        return whole

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape | BufferShape]]:
        """The ShapeIndex (the position at each level) and the shape of every leaf: every shape that is not a tuple.

        >>> [(i, str(s)) for i, s in TupleShape([TupleShape([Shape("f32", (2,))]), Shape("token", ())]).leaves()]
        [((0, 0), 'f32[2]{0}'), ((1,), 'token[]')]
        """
        index = [-1]
        for token in self._tokens():
            if token == "(":
                index[-1] += 1
                index.append(-1)
            elif token == ")":
                index.pop()
            elif not isinstance(token, str):
                index[-1] += 1
                yield tuple(index[1:]), token

    @property
    def byte_size(self) -> int:
        """Bytes of all arrays, padding included, without the tuples' tables of pointers."""
        return sum(leaf.byte_size for _, leaf in self.leaves())

    def text(self, *, layout: bool = True) -> str:
        """XLA's text, with or without layouts; as in XLA, a comment numbers every fifth element of a tuple."""
        out: list[str] = []
        counts = [0]
        for token in self._tokens():
            if token == ")":
                counts.pop()
                out.append(")")
                continue
            if len(counts) > 1 and counts[-1]:
                out.append(", ")
                if counts[-1] % 5 == 0:
                    out.append(f"/*index={counts[-1]}*/")
            counts[-1] += 1
            if token == "(":
                counts.append(0)
                out.append("(")
            elif not isinstance(token, str):
                out.append(token.text(layout=layout))
        return "".join(out)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str | None:
        return notebook.as_html(self)

    def __repr__(self) -> str:
        out: list[str] = []
        for token in self._tokens():
            out.append("TupleShape([" if token == "(" else "]), " if token == ")" else f"{token!r}, ")
        return "".join(out).replace(", ])", "])").removesuffix(", ")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TupleShape):
            return NotImplemented
        return self is other or (self._hash == other._hash and list(self._tokens()) == list(other._tokens()))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleShape._from_tokens, (list(self._tokens()),)


AnyShape: TypeAlias = Shape | BufferShape | TupleShape


def subshape(shape: AnyShape | None, index: Iterable[int]) -> AnyShape | None:
    """The shape at a ShapeIndex inside nested tuples, or None if there is none.

    >>> pair = TupleShape([Shape("f32", (2,)), TupleShape([Shape("s32", ())])])
    >>> str(subshape(pair, (1, 0))), subshape(pair, (0, 0)), subshape(pair, (-1,))
    ('s32[]', None, None)
    """
    for k in index:
        shape = shape[k] if isinstance(shape, TupleShape) and 0 <= k < len(shape) else None
    return shape


def arrays_of(shape: AnyShape | None) -> Iterator[Shape]:
    """The array shapes in a shape: itself, the one in a buffer, or all in a tuple.

    >>> [str(array) for array in arrays_of(TupleShape([Shape("f32", (2,)), Shape("token", ())]))]
    ['f32[2]{0}']
    """
    for leaf in (leaf for _, leaf in shape.leaves()) if isinstance(shape, TupleShape) else (shape,):
        array = unbuffered(leaf)
        if isinstance(array, Shape) and array.layout is not None:
            yield array
