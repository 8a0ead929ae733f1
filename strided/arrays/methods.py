"""The methods of an ndarray.

Each calls NumPy's function of the same name, or NumPy's method on the converted array. In-place methods change the
buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np

from strided.arrays import blocks, reductions
from strided.arrays.arguments import with_each
from strided.arrays.base import Array, ArrayBase
from strided.arrays.keys import length_of
from strided.layout.element_types import is_builtin
from strided.transfer import copy as transfer

#: A method with the parameters of NumPy's method of the same name.
Method: TypeAlias = Callable[..., Any]


def _function(function: Callable[..., Any], name: str, *unknown: str) -> Method:
    """A method that calls one of NumPy's functions; `unknown` are keywords of the function that the method lacks."""

    def method(self: ArrayBase, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys().isdisjoint(unknown):
            return getattr(self.stand_in(), name)(*args, **kwargs)  # NumPy raises
        try:
            return function(self, *args, **kwargs)
        except TypeError:
            # NumPy's methods have other error messages than its functions.
            given, named = with_each((args, kwargs), lambda array: array.stand_in(writeable=True))
            getattr(self.stand_in(), name)(*given, **named)
            raise

    return _named(method, name, f"As ``numpy.{name}`` of this array.", function)


def _converted(name: str) -> Method:
    """A method of ndarray, called on the converted array."""

    def method(self: ArrayBase, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._values(), name)(*args, **kwargs)

    return _named(method, name, f"As ``numpy.ndarray.{name}`` of the converted array.", getattr(np.ndarray, name))


def _changing(name: str) -> Method:
    """An in-place method of ndarray: called on a copy, which is written back."""

    def method(self: ArrayBase, *args: Any, **kwargs: Any) -> Any:
        if self.is_strided:
            return getattr(self.as_strided(), name)(*args, **kwargs)
        # NumPy raises for a read-only array, whatever the values.
        values = self.to_numpy() if self.flags.writeable else self.stand_in()
        try:
            return getattr(values, name)(*args, **kwargs)
        finally:
            # Also after an error: as in NumPy, what was changed before it stays.
            if values.flags.writeable:
                self[...] = values

    return _named(method, name, f"As ``numpy.ndarray.{name}``: the buffer is changed.", getattr(np.ndarray, name))


def _named(method: Any, name: str, doc: str, original: Callable[..., Any]) -> Method:
    """A method with a name, a docstring, and the signature of NumPy's function."""
    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    method.__wrapped__ = original  # for `inspect.signature`
    return method  # type: ignore[no-any-return]


def _clip(a: ArrayBase, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """``numpy.clip`` with the parameters of the method: either bound is optional."""
    return np.clip(a, min, max, out=out, **kwargs)


class Methods(ArrayBase):
    """Mixin: NumPy's methods, and Python's special ones."""

    __slots__ = ()

    # Reductions: large arrays stream.

    sum: Method = _function(np.sum, "sum")
    prod: Method = _function(np.prod, "prod")
    mean: Method = _function(np.mean, "mean")
    var: Method = _function(np.var, "var", "correction")
    std: Method = _function(np.std, "std", "correction")
    max: Method = _function(np.max, "max")
    min: Method = _function(np.min, "min")
    argmax: Method = _function(np.argmax, "argmax")
    argmin: Method = _function(np.argmin, "argmin")
    any: Method = _function(np.any, "any")
    all: Method = _function(np.all, "all")

    def count(self, predicate: Callable[[Array], Array], axis: Any = None) -> Any:
        """The number of elements for which a function of ndarrays is true: ``a.count(np.isnan)``; large arrays stream.

        ValueError for a function that does not give a value for each element.

        >>> import strided as sd
        >>> int(sd.LayoutArray(np.array([1, np.nan, np.nan], np.float32), "f32[3]").count(np.isnan))
        2
        """
        return reductions.count(self, predicate, axis)

    # Other functions: these get the converted array.

    argpartition: Method = _function(np.argpartition, "argpartition")
    argsort: Method = _function(np.argsort, "argsort")
    clip: Method = _function(_clip, "clip")
    cumprod: Method = _function(np.cumprod, "cumprod")
    cumsum: Method = _function(np.cumsum, "cumsum")
    dot: Method = _function(np.dot, "dot")
    dump: Method = _converted("dump")
    dumps: Method = _converted("dumps")
    nonzero: Method = _function(np.nonzero, "nonzero")
    repeat: Method = _function(np.repeat, "repeat")
    round: Method = _function(np.round, "round")
    searchsorted: Method = _function(np.searchsorted, "searchsorted")
    tofile: Method = _converted("tofile")
    tolist: Method = _converted("tolist")
    trace: Method = _function(np.trace, "trace")

    def choose(self, *choices: Any, **options: Any) -> Any:
        """As ``numpy.ndarray.choose``: `choices` are several arrays, or one sequence of them."""
        if not choices:
            self.stand_in().choose(**options)  # NumPy raises
        return np.choose(self, choices[0] if len(choices) == 1 else choices, **options)

    # Changing the array.

    partition: Method = _changing("partition")
    setfield: Method = _changing("setfield")
    sort: Method = _changing("sort")

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Set the elements at flat indices; no others are written."""
        np.put(self, indices, values, mode)  # type: ignore[arg-type]

    def fill(self, value: Any) -> None:
        """Set every element to a value; ValueError if the array is read-only."""
        self._memory.begin_writing()
        one = np.empty((), self.dtype)
        one.fill(value._values() if isinstance(value, ArrayBase) else value)
        self[...] = one

    def byteswap(self, inplace: bool = False) -> Any:
        """The elements with their bytes reversed, in an ndarray; in the buffer itself with `inplace`."""
        if inplace and not self.flags.writeable:
            raise ValueError("array to be byte-swapped is read-only")
        swapped = self._values().byteswap()
        if not inplace:
            return swapped
        self[...] = swapped
        return self

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Raises ValueError unless the shape stays the same, because the buffer has a fixed size."""
        wanted = shape[0] if len(shape) == 1 else shape
        if not shape or wanted is None or np.ravel(wanted).tolist() == [*self.shape]:
            return
        raise ValueError("cannot resize this array: it does not own its data")

    # Conversions.

    def item(self, *args: Any) -> Any:
        """One element as a Python scalar; arguments as for ``numpy.ndarray.item``."""
        if not args:
            return self._one().item()
        self.stand_in().item(*args)
        index = args[0] if len(args) == 1 else args
        if isinstance(index, tuple) and len(index) == 1:
            (index,) = index  # as in NumPy, a flat index
        if isinstance(index, tuple):
            return self[tuple(int(i) for i in index)].item()
        return self.flat[int(index)].item()

    def tobytes(self, order: Any = "C") -> bytes:
        """The values as bytes, in logical order and without padding; ``a.buffer.tobytes()`` are the physical bytes."""
        if order in ("C", "c") and not self.flags.c_contiguous:
            return self.dense_bytes().tobytes()  # NumPy is slow at copying in another order of axes
        return self._values().tobytes(order)

    def astype(
        self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """The values as another dtype, in an ndarray; the array itself if it has that dtype and `copy` is False."""
        # `np.dtype` does not accept a DType class; `astype` finds the dtype that it stands for.
        is_class = isinstance(dtype, type) and issubclass(dtype, np.dtype)
        wanted = np.empty(0, self.dtype).astype(dtype, casting=casting).dtype if is_class else np.dtype(dtype)
        if not copy and wanted == self.dtype:
            np.empty(0, self.dtype).astype(wanted, order, casting, subok)  # raises for an invalid order or casting
            place = (order or "K").upper()
            if place in ("K", "A") or (self.flags.c_contiguous if place == "C" else self.flags.f_contiguous):
                return self
        # Not block by block: objects, strings (whose length depends on the values), subarrays (which add axes).
        is_number = wanted.itemsize and not wanted.hasobject and wanted.subdtype is None
        is_number = is_number and not (wanted.kind in "mM" and np.datetime_data(wanted)[0] == "generic")
        if not reductions.streams(self) or self.is_strided or order not in ("K", "C") or not is_number:
            return self._values().astype(dtype if is_class else wanted, order, casting, subok, True)
        np.empty(0, self.dtype).astype(wanted, casting=casting)
        result = transfer.empty_aligned(self.size * wanted.itemsize).view(wanted).reshape(self.shape)
        read = blocks.Reader(self)
        boxes = blocks.tile_boxes(self._map, max(self.itemsize, wanted.itemsize))
        blocks.run_all(lambda box: np.copyto(result[box], read(box), casting=casting), boxes)
        return result

    def getfield(self, dtype: Any, offset: int = 0) -> Array:
        """Some bytes of each element as another dtype; a view if the array has strides."""
        return np.asarray(self).getfield(dtype, offset)

    def conjugate(self, out: Any = None, /) -> Any:
        """The complex conjugates; the array itself if its dtype is a real one of NumPy's."""
        if out is not None and not isinstance(out, (np.ndarray, ArrayBase)):
            np.ndarray.conjugate(self.stand_in(), out)  # type: ignore[call-arg]  # NumPy raises
        if not is_builtin(self.dtype) or self.dtype.kind == "c":
            np.empty(0, self.dtype).conjugate()  # raises for dtypes that are not numeric
            return np.conjugate(self, out)
        if out is None:
            return self
        np.copyto(out, self)
        return out

    conj = conjugate

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """The slices along an axis for which a condition is true, as ``numpy.compress``."""
        return np.compress(condition, self, axis, out)

    def flatten(self, order: Any = "C") -> Array:
        """A one-dimensional copy of the elements."""
        backwards = order in ("F", "f")
        if backwards or order in ("C", "c"):
            # Convert directly into memory that the result owns; a second copy by NumPy would be slow.
            source = self._with_map(self._map.reversed_axes) if backwards else self
            flat = np.empty(self.size, self.dtype)
            source.to_numpy(out=flat.reshape(source.shape))
            return flat
        return self._values().flatten(order)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """The elements at indices along an axis, or of the flattened array. Only these are read."""
        return np.take(self, indices, axis, out, mode)

    @property
    def base(self) -> Array:
        """The buffer, which owns the memory."""
        return self.buffer

    @property
    def device(self) -> str:
        """The array API's device: the CPU."""
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """The array itself: the CPU is the only device."""
        self.stand_in().to_device(device, stream=stream)
        return self

    # Python's protocols.

    def __len__(self) -> int:
        return length_of(self.shape)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        if not reductions.streams(self) or np.ndim(value):
            return bool(np.any(self == value))
        read = blocks.Reader(self)
        return any(bool(np.any(read(box) == value)) for box in blocks.tile_boxes(self._map, self.itemsize))

    def __delitem__(self, key: Any) -> NoReturn:
        raise ValueError("cannot delete array elements")

    def _one(self) -> Array:
        """The values if there is one element; otherwise a stand-in, for which NumPy raises."""
        return self.to_numpy() if self.size == 1 else self.stand_in()

    def __bool__(self) -> bool:
        return bool(self._one())

    def __int__(self) -> int:
        return int(self._one())

    def __float__(self) -> float:
        return float(self._one())

    def __complex__(self) -> complex:
        return complex(self._one())

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __index__(self) -> int:
        return self._one().__index__()

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec) if self.shape else format(self[()], spec)
