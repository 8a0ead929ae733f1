"""Shapes that a text leaves out, inferred by XLA's rules.

Most operations have the shape of their first operand, with its layout; those that compute new sizes are row-major.
If a rule needs more than the text says, or operands do not fit each other, the shape stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.lexer import inside, integer, read_fields, split_list
from strided.errors import StridedError
from strided.layout import AnyShape, Shape, TupleShape

#: A tuple of the same tuple twice doubles with every line: the shapes of larger ones stay unknown.
_MAX_LEAVES = 10_000

#: A rule takes the instruction, the shapes of its operands, and last the result of the computation that it calls. It
#: may raise if the shapes do not fit each other.
Rule = Callable[[Instruction, Sequence[AnyShape]], "AnyShape | None"]

_PARTS = {"c64": "f32", "c128": "f64"}
_WHOLES = {"f32": "c64", "f64": "c128"}
_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")


def left_out(
    missing: Iterable[Instruction], written: Callable[[Instruction], AnyShape | None]
) -> dict[Instruction, AnyShape]:
    """The shapes of instructions whose text has none, where they follow from others.

    `missing` are those instructions in the order of the module: operands and called computations before what uses them.
    `written` gives the shape that an instruction's text has.
    """
    found: dict[Instruction, AnyShape] = {}
    leaves: dict[int, int] = {}

    def shape_of(instruction: Instruction) -> AnyShape:
        shape = found.get(instruction) or written(instruction)
        if shape is None:
            raise ValueError(f"the shape of {instruction.name} is not known")
        return shape

    for instruction in missing:
        try:
            if (rule := _RULES.get(instruction.opcode)) is None:
                continue
            shapes = [shape_of(operand) for operand in instruction.operands]
            if instruction.opcode in _CALLING:
                shapes.append(shape_of(instruction.called_computations[0].root))
            shape = rule(instruction, shapes)
        except (StridedError, IndexError, ValueError):
            continue
        if shape is not None and _count_leaves(shape, leaves) <= _MAX_LEAVES:
            found[instruction] = shape
    return found


def _count_leaves(shape: AnyShape, known: dict[int, int]) -> int:
    """Number of leaves of a shape, counting each tuple once. The shape must outlive `known`."""
    waiting = [shape]
    while waiting:
        one = waiting[-1]
        elements = one.elements if isinstance(one, TupleShape) else ()
        unknown = [element for element in elements if id(element) not in known]
        if unknown:
            waiting += unknown
            continue
        known[id(one)] = 1 + sum(known[id(element)] for element in elements)
        waiting.pop()
    return known[id(shape)]


# ---- rules -----------------------------------------------------------------------------------------------------------


def _operand(place: int) -> Rule:
    return lambda instruction, shapes: shapes[place]


def _constant(shape: Shape) -> Rule:
    return lambda instruction, shapes: shape


def _tuple(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    return TupleShape(shapes)


def _first_or_tuple(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _element(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    index = integer(instruction.attributes.get("index", ""))
    whole = shapes[0]
    return None if index is None or index < 0 or not isinstance(whole, TupleShape) else whole.elements[index]


def _same(instruction: Instruction, shapes: Sequence[AnyShape]) -> Shape | None:
    """The first operand's shape, if all have its type and dimensions."""
    first, *others = map(_array, shapes)
    fits = all((one.element_type, *_sizes(one)) == (first.element_type, *_sizes(first)) for one in others)
    return first if fits else None


def _of_type(names: Mapping[str, str]) -> Rule:
    """The first operand's shape with another element type, by its own."""

    def rule(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
        first = _same(instruction, shapes)
        name = None if first is None else names.get(first.element_type, names.get("", first.element_type))
        return None if first is None or name is None else _retyped(first, name)

    return rule


def _selected(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The shape of the selector, with the element type and size of the values; one bit for all chooses them whole."""
    selector, values = _array(shapes[0]), _same(instruction, shapes[1:])
    if values is not None and values.rank and not selector.rank:
        return values
    if values is None or _sizes(selector) != _sizes(values) or selector.layout is None or values.layout is None:
        return None
    layout = replace(selector.layout, element_size_in_bits=values.layout.element_size_in_bits)
    return Shape(values.element_type, selector.dimensions, layout, dynamic=selector.dynamic)


def _mapped(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The sizes of the operands, with the element type that the called computation gives."""
    first, *others = map(_array, shapes[:-1])
    if any(_sizes(one) != _sizes(first) for one in others):
        return None
    return Shape(_array(shapes[-1]).element_type, first.dimensions, dynamic=first.dynamic)


def _resized(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The first operand's shape, of which one size is now only a bound."""
    shape, (along,) = _array(shapes[0]), _numbers(instruction, "dimensions")
    if not 0 <= along < shape.rank:
        return None
    dynamic = tuple(is_bound or d == along for d, is_bound in enumerate(shape.dynamic))
    return Shape(shape.element_type, shape.dimensions, shape.layout, dynamic=dynamic)


def _transposed(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    shape, order = _array(shapes[0]), _numbers(instruction, "dimensions")
    if sorted(order) != list(range(shape.rank)) or shape.layout is None:
        return None
    layout = replace(shape.layout, minor_to_major=tuple(order.index(d) for d in shape.layout.minor_to_major))
    dynamic = [shape.dynamic[d] for d in order]
    return Shape(shape.element_type, tuple(shape.dimensions[d] for d in order), layout, dynamic=tuple(dynamic))


def _concatenated(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    parts = [_static(shape) for shape in shapes]
    if not _have_one_type(parts):
        return None
    (along,) = _numbers(instruction, "dimensions")
    sizes = list(parts[0].dimensions)
    sizes[along] = sum(part.dimensions[along] for part in parts)
    return Shape(parts[0].element_type, tuple(sizes))


def _padded(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    shape, sizes = _static(shapes[0]), []
    if not _have_one_type((shape, _array(shapes[1]))):
        return None
    for size, text in zip(shape.dimensions, instruction.attributes["padding"].split("x"), strict=True):
        low, high, between = [*map(int, text.split("_")), 0][:3]
        sizes.append(low + size + max(size - 1, 0) * between + high)
    return Shape(shape.element_type, tuple(sizes))


def _multiplied(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    left, right = _static(shapes[0]), _static(shapes[1])
    batch, contracted = _numbers(instruction, "lhs_batch_dims"), _numbers(instruction, "lhs_contracting_dims")
    gone = {*_numbers(instruction, "rhs_batch_dims"), *_numbers(instruction, "rhs_contracting_dims")}
    if left.element_type != right.element_type or not contracted:
        return None
    sizes = [left.dimensions[d] for d in batch]
    sizes += [size for d, size in enumerate(left.dimensions) if d not in {*batch, *contracted}]
    sizes += [size for d, size in enumerate(right.dimensions) if d not in gone]
    return Shape(left.element_type, tuple(sizes))


def _reduced(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    gone, reduced = set(_numbers(instruction, "dimensions")), []
    *shapes, result = shapes
    for shape, name in zip(map(_array, shapes[: len(shapes) // 2]), _element_types(result), strict=True):
        kept = [d for d in range(shape.rank) if d not in gone]
        sizes, dynamic = [shape.dimensions[d] for d in kept], [shape.dynamic[d] for d in kept]
        reduced.append(Shape(name, tuple(sizes), dynamic=tuple(dynamic)))
    return _first_or_tuple(instruction, reduced)


def _scattered(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The arrays that are updated; the indices follow, and an update for each array."""
    return _first_or_tuple(instruction, shapes[: len(shapes) // 2])


def _windowed(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    sizes = _window_sizes(instruction, _static(shapes[0]).dimensions)
    initial = map(_array, shapes[len(shapes) // 2 :])
    return _first_or_tuple(instruction, [Shape(value.element_type, sizes) for value in initial])


def _convolved(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    left, right = _static(shapes[0]), _static(shapes[1])
    labels = _LABELS.fullmatch(instruction.attributes["dim_labels"])
    if labels is None or left.element_type != right.element_type or "?" in labels[0]:
        return None
    spatial = sorted(label for label in labels[1] if label.isdigit())
    windowed = _window_sizes(instruction, [left.dimensions[labels[1].index(label)] for label in spatial])
    groups = int(instruction.attributes.get("batch_group_count", "1"))
    sizes = dict(zip(spatial, windowed, strict=True))
    sizes["b"] = left.dimensions[labels[1].index("b")] // groups
    sizes["f"] = right.dimensions[labels[2].index("o")]
    return Shape(left.element_type, tuple(sizes[label] for label in labels[3]))


def _element_types(result: AnyShape) -> list[str]:
    """Element types of what a computation gives: an array, or a tuple of arrays."""
    return [_array(leaf).element_type for leaf in (result.elements if isinstance(result, TupleShape) else [result])]


def _window_sizes(instruction: Instruction, bases: Sequence[int]) -> tuple[int, ...]:
    """Number of positions of a window along each dimension."""
    fields = read_fields(instruction.attributes.get("window", "{}"))

    def numbers(name: str, default: str) -> list[str]:
        return fields[name].split("x") if name in fields else [default] * len(bases)

    sizes = []
    defaults = {"size": "1", "stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1"}
    parts = (numbers(name, default) for name, default in defaults.items())
    for base, size, stride, pad, outer, inner in zip(bases, *parts, strict=True):
        low, high = map(int, pad.split("_"))
        whole = low + (max((base - 1) * int(outer) + 1, 0) if base else 0) + high
        window = (int(size) - 1) * int(inner) + 1 if int(size) else 0
        sizes.append(0 if not whole or window > whole else (whole - window) // int(stride) + 1)
    return tuple(sizes)


def _array(shape: AnyShape) -> Shape:
    if not isinstance(shape, Shape) or shape.layout is None:
        raise ValueError(f"no array: {shape}")
    return shape


def _static(shape: AnyShape) -> Shape:
    if any(_array(shape).dynamic):
        raise ValueError(f"dynamic sizes: {shape}")
    return _array(shape)


def _have_one_type(shapes: Iterable[Shape]) -> bool:
    """Whether all have one element type. Of several floating-point types, XLA takes one that need not be the first."""
    return len({shape.element_type for shape in shapes}) == 1


def _sizes(shape: Shape) -> tuple[object, ...]:
    return shape.dimensions, shape.dynamic


def _retyped(shape: Shape, name: str) -> Shape:
    layout = shape.layout
    if layout is not None and name != shape.element_type:
        layout = replace(layout, element_size_in_bits=0)
    return Shape(name, shape.dimensions, layout, dynamic=shape.dynamic)


def _numbers(instruction: Instruction, name: str) -> list[int]:
    return [int(part) for part in split_list(inside(instruction.attributes.get(name, "")))]


#: Opcodes whose rule needs the result of the called computation.
_CALLING = {"call", "conditional", "map", "reduce"}

_SAME = (
    "acos acosh add and asin asinh atan2 atanh cbrt ceil cosine cosh count-leading-zeros divide erf exp2 exponential "
    "exponential-minus-one floor log log-plus-one log2 logistic maximum minimum mulhi multiply negate not or popcnt "
    "power remainder round-nearest-afz round-nearest-even rsqrt shift-left shift-right-arithmetic shift-right-logical "
    "sign sine sinh sqrt subtract tan tanh xor"
).split()

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(
        ["add-dependency", "cholesky", "copy", "domain", "reverse", "select-and-scatter", "shuffle", "while"],
        _operand(0),
    ),
    **dict.fromkeys(["abs", "imag", "real"], _of_type(_PARTS)),
    **dict.fromkeys(["compare", "is-finite"], _of_type({"": "pred"})),
    "after-all": _constant(Shape("token", ())),
    "call": _operand(-1),
    "clamp": _operand(1),
    "complex": _of_type(_WHOLES),
    "concatenate": _concatenated,
    "conditional": _operand(-1),
    "convolution": _convolved,
    "dot": _multiplied,
    "get-dimension-size": _constant(Shape("s32", ())),
    "get-tuple-element": _element,
    "map": _mapped,
    "pad": _padded,
    "partition-id": _constant(Shape("u32", ())),
    "reduce": _reduced,
    "reduce-window": _windowed,
    "replica-id": _constant(Shape("u32", ())),
    "scatter": _scattered,
    "select": _selected,
    "set-dimension-size": _resized,
    "sort": _first_or_tuple,
    "transpose": _transposed,
    "triangular-solve": _operand(1),
    "tuple": _tuple,
}
