"""Pages that explain a layout or an array: one file each, which a browser opens without a network."""

from __future__ import annotations

import html
from typing import Any

from strided.errors import UnsupportedError
from strided.explore.layouts import layout_data
from strided.explore.page import Page, assemble
from strided.explore.values import MOST_VALUES, map_data, values_data
from strided.inspect.describe import rows_of
from strided.inspect.plans import plan_between
from strided.layout import Layout, Shape
from strided.layout.parser import array_shape, layout_of

__all__ = ["Page", "explore"]


def explore(target: Any, *, to: str | Layout | None = None) -> Page:
    """A page that shows where the elements of an array lie: the array beside its memory.

    Pointing at an element or a slot lights the other; an index, a slice or a byte can be typed. The sum behind each
    address is shown step by step, and for a slice the bytes that it touches.

    Parameters
    ----------
    target : Shape, str, LayoutArray, or an array behind a URL
        An array shows its values too, one by one if it has at most 65,536 elements, and as a map of cells.
    to : str or Layout, optional
        Another layout, to be shown beside it, with the plan of the conversion.

    Returns
    -------
    Page
        `save` writes it to a file; a notebook shows it.

    Raises
    ------
    NotationError
        The text is not a shape.
    UnsupportedError
        The shape has no addresses (a tuple, a dimension of unknown size, a split layout), or the array is a view.

    Examples
    --------
    >>> page = explore("bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> page
    <Page bf16[17,300]{1,0:T(8,128)(2,1)}: ... characters; save() writes it>
    """
    array = target if hasattr(target, "xla_shape") else None
    if array is None:
        shape, bitorder = array_shape(target), "little"
    elif getattr(array, "is_view", False):
        raise UnsupportedError("a view is a part of a buffer: explore the whole array that it is a view of")
    else:
        shape, bitorder = array_shape(array.xla_shape), getattr(getattr(array, "blank", array), "bitorder", "little")
    values = None if array is None else values_data(array)
    facts = [*rows_of(shape)]
    if array is not None and values is None:
        facts.append(("values", f"as a map: there are more than {MOST_VALUES:,}"))
    data: dict[str, Any] = {"layouts": [layout_data(shape, bitorder)], "values": values}
    if array is not None:
        data["map"] = found = map_data(array)
        if found is not None and max(found["sample"]) > 1:
            steps = " by ".join(map(str, found["sample"]))
            facts.append(("sample", f"the map shows one element of {steps} along the dimensions"))
    more = ""
    if to is not None:
        other = Shape(shape.element_type, shape.dimensions, layout_of(to))
        data["layouts"].append(layout_data(other))
        plan = html.escape(str(plan_between(shape, other)))
        more = f"<section><h2>The conversion</h2><pre class='plan'>{plan}</pre></section>\n"
    return assemble(str(shape), facts, "main", data, more)
