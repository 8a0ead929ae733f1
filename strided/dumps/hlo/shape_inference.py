"""Infer shapes that a text leaves out, by XLA's rules.

Most results have the shape and layout of the first operand; those with new sizes are row-major. If a rule needs more
than the text says, or operands do not match, the shape stays unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import ml_dtypes

from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.lexer import integer, integers, read_fields
from strided.errors import StridedError
from strided.layout import AnyShape, Shape, TupleShape
from strided.layout.element_types import element_type

#: Shapes of larger tuples stay unknown: a tuple that holds another one twice doubles with every line.
_MAX_LEAVES = 10_000

#: A rule takes the instruction, and the shapes of its operands followed by the result shape of the computation that it
#: calls. It may raise if shapes do not match.
Rule = Callable[[Instruction, Sequence[AnyShape]], "AnyShape | None"]

_PARTS = {"c64": "f32", "c128": "f64"}
_WHOLES = {"f32": "c64", "f64": "c128"}
_LABELS = re.compile(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)")


def left_out(
    missing: Iterable[Instruction], written: Callable[[Instruction], AnyShape | None]
) -> dict[Instruction, AnyShape]:
    """The shapes of instructions without one in the text, if they can be inferred.

    `missing` are these instructions in the module's order: operands and called computations come before their users.
    `written` returns the shape in an instruction's text.
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
        except (StridedError, LookupError, ValueError, ArithmeticError):
            continue
        if shape is not None and _count_leaves(shape, leaves) <= _MAX_LEAVES:
            found[instruction] = shape
    return found


def _count_leaves(shape: AnyShape, known: dict[int, int]) -> int:
    """The number of leaves and tuples in a shape, cached in `known` by id(), so that the shape must outlive it."""
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
    """The first operand's shape with the common element type, if all operands have its dimensions."""
    first, *others = parts = [_array(shape) for shape in shapes]
    name = _common_type(parts)
    return _retyped(first, name) if name and all(_sizes(one) == _sizes(first) for one in others) else None


def _of_type(names: Mapping[str, str]) -> Rule:
    """A rule: the first operand's shape with an element type that depends on its own."""

    def rule(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
        if instruction.opcode == "complex" and len({_array(shape).element_type for shape in shapes}) != 1:
            return None
        first = _same(instruction, shapes)
        name = None if first is None else names.get(first.element_type, names.get("", first.element_type))
        return None if first is None or name is None else _retyped(first, name)

    return rule


def _selected(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The selector's shape with the values' element type and size; a scalar selector gives the values' shape."""
    selector, values = _array(shapes[0]), _same(instruction, shapes[1:])
    if values is not None and values.rank and not selector.rank:
        return values
    if values is None or _sizes(selector) != _sizes(values) or selector.layout is None or values.layout is None:
        return None
    layout = replace(selector.layout, element_size_in_bits=values.layout.element_size_in_bits)
    return Shape(values.element_type, selector.dimensions, layout, dynamic=selector.dynamic)


def _mapped(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The operands' sizes with the element type of the called computation's result."""
    first, *others = map(_array, shapes[:-1])
    if any(_sizes(one) != _sizes(first) for one in others):
        return None
    return Shape(_array(shapes[-1]).element_type, first.dimensions, dynamic=first.dynamic)


def _resized(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The first operand's shape with one size turned into a dynamic bound."""
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
    if (name := _common_type(parts)) is None:
        return None
    (along,) = _numbers(instruction, "dimensions")
    sizes = list(parts[0].dimensions)
    sizes[along] = sum(part.dimensions[along] for part in parts)
    return Shape(name, tuple(sizes))


def _padded(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    shape, sizes = _static(shapes[0]), []
    if (name := _common_type((shape, _array(shapes[1])))) is None:
        return None
    for size, text in zip(shape.dimensions, instruction.attributes["padding"].split("x"), strict=True):
        low, high, between = [*map(int, text.split("_")), 0][:3]
        sizes.append(low + size + max(size - 1, 0) * between + high)
    return Shape(name, tuple(sizes))


def _multiplied(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    left, right = _static(shapes[0]), _static(shapes[1])
    batch, contracted = _numbers(instruction, "lhs_batch_dims"), _numbers(instruction, "lhs_contracting_dims")
    gone = {
        number
        for name in ("rhs_batch_dims", "rhs_contracting_dims", "rhs_group_dims")
        for number in _numbers(instruction, name)
    }
    name = _common_type((left, right))
    if name is None or not contracted:
        return None
    sizes = [left.dimensions[d] for d in batch]
    sizes += [size for d, size in enumerate(left.dimensions) if d not in {*batch, *contracted}]
    sizes += [size for d, size in enumerate(right.dimensions) if d not in gone]
    return Shape(name, tuple(sizes))


def _multiplied_by_groups(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """A ragged dot, of groups along a dimension of the left side; if that is contracted, each group has a result."""
    (ragged,), groups = _numbers(instruction, "lhs_ragged_dims"), _static(shapes[2]).dimensions[-1]
    kept = ragged not in {*_numbers(instruction, "lhs_batch_dims"), *_numbers(instruction, "lhs_contracting_dims")}
    group_dims, right = _numbers(instruction, "rhs_group_dims"), _array(shapes[1])
    if [right.dimensions[d] for d in group_dims] != [groups] * kept:
        return None
    product = _multiplied(instruction, shapes)
    if not isinstance(product, Shape) or ragged not in _numbers(instruction, "lhs_contracting_dims"):
        return product
    return Shape(product.element_type, (groups, *product.dimensions))


def _transformed(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """A Fourier transform: n real values have n/2 + 1 frequencies."""
    shape, lengths = _static(shapes[0]), _numbers(instruction, "fft_length")
    kind, sizes = instruction.attributes["fft_type"], shape.dimensions
    if not 1 <= len(lengths) <= min(3, shape.rank):
        return None
    if kind in ("FFT", "IFFT"):
        return shape if shape.element_type in _PARTS else None
    half = lengths[-1] // 2 + 1
    taken, given, names = {"RFFT": (lengths[-1], half, _WHOLES), "IRFFT": (half, lengths[-1], _PARTS)}[kind]
    if sizes[-len(lengths) :] != (*lengths[:-1], taken) or not lengths[-1]:
        return None
    name = names.get(shape.element_type)
    return None if name is None else Shape(name, (*sizes[:-1], given), _retyped(shape, name).layout)


def _largest(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The values and their indices."""
    shape, count = _static(shapes[0]), integer(instruction.attributes.get("k", ""))
    if count is None or not 0 <= count <= shape.dimensions[-1]:
        return None
    sizes = (*shape.dimensions[:-1], count)
    return TupleShape([Shape(shape.element_type, sizes), Shape("s32", sizes)])


def _reduced(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    gone, reduced = set(_numbers(instruction, "dimensions")), []
    *shapes, result = shapes
    for shape, name in zip(map(_array, shapes[: len(shapes) // 2]), _element_types(result), strict=True):
        kept = [d for d in range(shape.rank) if d not in gone]
        sizes, dynamic = [shape.dimensions[d] for d in kept], [shape.dynamic[d] for d in kept]
        reduced.append(Shape(name, tuple(sizes), dynamic=tuple(dynamic)))
    return _first_or_tuple(instruction, reduced)


def _scattered(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    """The arrays that are updated: in the operands, the indices and an update for each array follow."""
    return _first_or_tuple(instruction, shapes[: len(shapes) // 2])


def _windowed(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    sizes = _window_sizes(instruction, _static(shapes[0]).dimensions)
    initial = map(_array, shapes[len(shapes) // 2 :])
    return _first_or_tuple(instruction, [Shape(value.element_type, sizes) for value in initial])


def _convolved(instruction: Instruction, shapes: Sequence[AnyShape]) -> AnyShape | None:
    left, right = _static(shapes[0]), _static(shapes[1])
    labels = _LABELS.fullmatch(instruction.attributes["dim_labels"])
    name = _common_type((left, right))
    if labels is None or name is None or "?" in labels[0]:
        return None
    spatial = sorted(label for label in labels[1] if label.isdigit())
    windowed = _window_sizes(instruction, [left.dimensions[labels[1].index(label)] for label in spatial])
    groups = int(instruction.attributes.get("batch_group_count", "1"))
    sizes = dict(zip(spatial, windowed, strict=True))
    sizes["b"] = left.dimensions[labels[1].index("b")] // groups
    sizes["f"] = right.dimensions[labels[2].index("o")]
    return Shape(name, tuple(sizes[label] for label in labels[3]))


def _element_types(result: AnyShape) -> list[str]:
    """The element types of a computation's result: an array, or a tuple of arrays."""
    return [_array(leaf).element_type for leaf in (result.elements if isinstance(result, TupleShape) else [result])]


def _window_sizes(instruction: Instruction, bases: Sequence[int]) -> tuple[int, ...]:
    """The number of window positions along each dimension."""
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


def _common_type(shapes: Iterable[Shape]) -> str | None:
    """The common element type; of several float types, the one with most range, then precision; else None."""
    names = {shape.element_type for shape in shapes}
    if len(names) == 1:
        return names.pop()
    if not all(name.startswith(("f", "bf")) for name in names):
        return None
    best = max(map(_range_and_precision, names))
    found = [name for name in names if _range_and_precision(name) == best]
    return found[0] if len(found) == 1 else None


@cache
def _range_and_precision(name: str) -> tuple[int, int]:
    info = ml_dtypes.finfo(element_type(name).dtype)  # type: ignore[no-untyped-call]
    return math.frexp(float(info.max))[1], int(info.nmant)


def _sizes(shape: Shape) -> tuple[object, ...]:
    return shape.dimensions, shape.dynamic


def _retyped(shape: Shape, name: str) -> Shape:
    layout = shape.layout
    if layout is not None and name != shape.element_type:
        layout = replace(layout, element_size_in_bits=0)
    return Shape(name, shape.dimensions, layout, dynamic=shape.dynamic)


def _numbers(instruction: Instruction, name: str) -> tuple[int, ...]:
    numbers = integers(instruction.attributes.get(name, ""))
    if numbers is None:
        raise ValueError(f"{name} of {instruction.name} are no numbers")
    return numbers


#: Opcodes whose rule needs the called computation's result.
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
    "fft": _transformed,
    "get-dimension-size": _constant(Shape("s32", ())),
    "get-tuple-element": _element,
    "map": _mapped,
    "pad": _padded,
    "partition-id": _constant(Shape("u32", ())),
    "ragged-dot": _multiplied_by_groups,
    "reduce": _reduced,
    "reduce-window": _windowed,
    "replica-id": _constant(Shape("u32", ())),
    "scatter": _scattered,
    "select": _selected,
    "set-dimension-size": _resized,
    "sort": _first_or_tuple,
    "topk": _largest,
    "transpose": _transposed,
    "triangular-solve": _operand(1),
    "tuple": _tuple,
}
