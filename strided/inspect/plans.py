"""The plan of a conversion, without carrying it out."""

from __future__ import annotations

from strided import kernels
from strided.arrays.buffer_spec import spec_of
from strided.errors import LayoutError
from strided.layout import AnyShape, Layout
from strided.layout.parser import array_shape, parse
from strided.planning.plan import Plan, Storage, plan_copy


def plan_between(source: str | AnyShape, target: str | AnyShape | Layout) -> Plan:
    """The plan of a conversion from a shape to another shape or layout.

    Parameters
    ----------
    source : str or Shape
    target : str, Shape or Layout
        A shape must have the dimensions and the element type of `source`.

    Raises
    ------
    LayoutError
        The shapes differ in dimensions or element type, or their size is unknown.
    NotationError
        A text is neither a shape nor a layout.
    UnsupportedError
        A tuple, a token, or a split layout.

    >>> plan_between("f32[1024,1024]{1,0:T(8,128)}", "{1,0}").kernel
    'rows'
    """
    first = array_shape(source)
    wanted = parse(target) if isinstance(target, str) else target
    second = first.with_layout(wanted) if isinstance(wanted, Layout) else array_shape(wanted)
    if (first.dimensions, first.element_type) != (second.dimensions, second.element_type):
        raise LayoutError(f"{first} and {second} are not the same array: elements or dimensions differ")
    storages = [Storage(spec_of(shape).element_bits) for shape in (first, second)]
    return plan_copy(first.address_map, second.address_map, *storages)


def compiled_kernels() -> tuple[str, ...]:
    """The names of the kernels that are compiled and loaded in this process.

    A conversion that needs another kernel uses NumPy while that one is compiled.

    >>> _ = kernels.load("copy")
    >>> "copy" in compiled_kernels()
    True
    """
    return kernels.loaded()
