"""Single attributes of an instruction, from its decoded proto message to the text that XLA prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from strided.dumps.hlo.constants import array_text
from strided.dumps.hlo.header import index_text
from strided.dumps.hlo.messages import enum_names
from strided.dumps.hlo.syntax import as_bytes, closing, escape
from strided.dumps.hlo.windows import dim_labels, window
from strided.dumps.literals.literal import Literal
from strided.dumps.sharding.sharding import Sharding
from strided.errors import StridedError
from strided.layout import AnyShape, Shape, TupleShape

Message: TypeAlias = Mapping[str, Any]


class Names(Protocol):
    """What a message needs to know of its module."""

    @property
    def shape(self) -> AnyShape | None: ...

    def operand_shape(self, number: int) -> AnyShape | None: ...

    def instruction_name(self, id: int) -> str: ...

    def computation_name(self, id: int) -> str: ...

    def payload(self, id: int) -> memoryview | bytes: ...


#: Writes one attribute; None where XLA prints nothing.
Writer: TypeAlias = Callable[[Message, Names], str | None]

# ---- small parts -----------------------------------------------------------------------------------------------------


def numbers(values: Iterable[int]) -> str:
    return index_text(values)


def text_or_braces(value: str | bytes | memoryview) -> str:
    """A value as XLA prints it: bare where it is one braced text, else quoted."""
    data = as_bytes(value)
    if data[:1] == b"{":
        text = data.decode("utf-8", "backslashreplace")
        if closing(text, 0) == len(text):
            return text
    return f'"{escape(data)}"'


def frontend_attributes(message: Message) -> str | None:
    """A FrontendAttributes message, its keys in alphabetical order; None where it is empty."""
    entries = sorted((entry.get("key", ""), entry.get("value", "")) for entry in message.get("map", ()))
    return f"{{{','.join(f'{key}={text_or_braces(value)}' for key, value in entries)}}}" if entries else None


def sharding(view: memoryview) -> str:
    """An OpSharding; one that describes no sharding says so in a comment."""
    try:
        return str(Sharding.from_proto(view))
    except StridedError as error:
        return f"{{/* {error} */}}"


def listed(field: str) -> Writer:
    return lambda message, names: numbers(message.get(field, ()))


def listed_if_any(field: str) -> Writer:
    return lambda message, names: numbers(message[field]) if message.get(field) else None


def number(field: str) -> Writer:
    return lambda message, names: str(message.get(field, 0))


def number_unless(field: str, *usual: int) -> Writer:
    return lambda message, names: None if message.get(field, usual[0]) in usual else str(message[field])


def flag(field: str) -> Writer:
    return lambda message, names: "true" if message.get(field) else None


def quoted(field: str) -> Writer:
    return lambda message, names: f'"{escape(message[field])}"' if message.get(field) else None


def word(field: str, enum: str, *, lower: bool = False, silent: int | None = None) -> Writer:
    def write(message: Message, names: Names) -> str | None:
        number = message.get(field, 0)
        text = enum_names(enum).get(number, str(number))
        return None if number == silent else text.lower() if lower else text

    return write


def within(field: str, write: Writer) -> Writer:
    """The writer of a message inside the message; nothing where there is none."""
    return lambda message, names: write(message.get(field, {}), names)


# ---- larger parts ----------------------------------------------------------------------------------------------------

#: What `type` a comparison has when nobody says so, by the first letters of the operands' element type.
_COMPARISONS = {"f": "FLOAT", "b": "FLOAT", "c": "FLOAT", "s": "SIGNED"}


def write_comparison_type(message: Message, names: Names) -> str | None:
    kind = message.get("comparison_type", "")
    operand = names.operand_shape(0)
    usual = _COMPARISONS.get(operand.element_type[0], "UNSIGNED") if isinstance(operand, Shape) else ""
    return kind if kind and kind != usual else None


def write_slice(message: Message, names: Names) -> str:
    dimensions = message.get("slice_dimensions", ())
    fields = ["start", "limit"] + (["stride"] if any(d.get("stride", 0) != 1 for d in dimensions) else [])
    parts = (":".join(str(d.get(field, 0)) for field in fields) for d in dimensions)
    return f"{{{', '.join(f'[{part}]' for part in parts)}}}"


def write_padding(message: Message, names: Names) -> str:
    dimensions = message.get("padding_config", {}).get("dimensions", ())
    fields = ["edge_padding_low", "edge_padding_high"]
    fields += ["interior_padding"] if any(d.get("interior_padding") for d in dimensions) else []
    return "x".join("_".join(str(d.get(field, 0)) for field in fields) for d in dimensions)


def write_precision(message: Message, names: Names) -> str | None:
    found = message.get("precision_config", {}).get("operand_precision", ())
    known = enum_names("PrecisionConfig.Precision")
    return f"{{{','.join(known.get(n, str(n)).lower() for n in found)}}}" if any(found) else None


def write_algorithm(message: Message, names: Names) -> str | None:
    number = message.get("precision_config", {}).get("algorithm", 0)
    text = enum_names("PrecisionConfig.Algorithm").get(number, str(number))
    return text.lower().removeprefix("alg_") if number else None


def write_aliasing(message: Message, names: Names) -> str | None:
    parts = []
    for alias in message.get("output_operand_aliasing", ()):
        place = f"({alias.get('operand_index', 0)}, {numbers(alias.get('operand_shape_index', ()))})"
        parts.append(f"{numbers(alias.get('output_shape_index', ()))}: {place}")
    return f"{{{', '.join(parts)}}}" if parts else None


def dot_dimensions(side: str, *, always: bool = True) -> Writer:
    """The writer of one list of a dot's dimensions, ragged or not."""

    def write(message: Message, names: Names) -> str | None:
        outer = message.get("ragged_dot_dimension_numbers", message)
        found = outer.get("dot_dimension_numbers", {}).get(f"{side}_dimensions", ())
        return numbers(found) if found or always else None

    return write


def write_associative(message: Message, names: Names) -> str | None:
    return {1: "true", 2: "false"}.get(message.get("is_associative", 0))


def write_convolution_kind(message: Message, names: Names) -> str | None:
    number = message.get("conv_kind", 0)
    text = enum_names("ConvolutionKind").get(number, str(number))
    return text.lower().removeprefix("convolution_kind_") if number else None


def write_sparsity(message: Message, names: Names) -> str | None:
    sides = []
    for side in ("lhs", "rhs"):
        if found := message.get("sparsity_config", {}).get(side):
            count, block, dimension, stride = (
                found.get(field, 0) for field in ("num_non_zero", "block_size", "dimension", "stride")
            )
            sides.append(f"{side}={{sparsity={count}x{block} dimension={dimension} stride={stride}}}")
    return f"{{{' '.join(sides)}}}" if sides else None


def write_operand_layouts(message: Message, names: Names) -> str | None:
    if not message.get("constrain_layout"):
        return None
    return f"{{{', '.join(map(str, message.get('operand_shapes_with_layout', ())))}}}"


def write_literal(message: Message, names: Names) -> str | None:
    if "literal" not in message:
        return None
    literal = Literal.of_proto(message["literal"])
    if not isinstance(literal.shape, Shape):
        return "{...}"
    return f"{literal.shape} {array_text(literal.value.to_numpy(), literal.shape.element_type)}"


def write_pairs(message: Message, names: Names) -> str:
    pairs = (f"{{{p.get('source', 0)},{p.get('target', 0)}}}" for p in message.get("source_target_pairs", ()))
    return f"{{{','.join(pairs)}}}"


def write_domain(message: Message, names: Names) -> str | None:
    # XLA's text calls entry what its proto calls exit.
    exit_, entry = (message.get(f"domain_{side}_sharding") for side in ("entry", "exit"))
    if entry is None or exit_ is None:
        return None
    return f'{{kind="sharding", entry={sharding(entry)}, exit={sharding(exit_)}}}'


def write_replication(message: Message, names: Names) -> str | None:
    found = message.get("parameter_replication", {}).get("replicated_at_leaf_buffers")
    return None if found is None else f"{{{','.join('true' if flag else 'false' for flag in found)}}}"


def write_prefetch(message: Message, names: Names) -> str | None:
    found = message.get("cross_program_prefetch_index")
    return str(found) if found is not None else "0" if message.get("is_cross_program_prefetch") else None


def write_window(message: Message, names: Names) -> str | None:
    return window(message["window"].get("dimensions", ())) if message.get("window", {}).get("dimensions") else None


def write_dim_labels(message: Message, names: Names) -> str | None:
    found = message.get("convolution_dimension_numbers")
    return None if found is None else dim_labels(found)


def write_iota_dimension(message: Message, names: Names) -> str:
    return str(next(iter(message.get("dimensions", ())), 0))


def write_lower(message: Message, names: Names) -> str | None:
    options = message.get("triangular_solve_options") or message.get("cholesky_options", {})
    return "true" if options.get("lower") else None


def write_transpose(message: Message, names: Names) -> str | None:
    return word("transpose_a", "TriangularSolveOptions.Transpose", silent=0)(message, names)


def write_sharding(message: Message, names: Names) -> str | None:
    return sharding(message["sharding"]) if "sharding" in message else None


def write_frontend_attributes(message: Message, names: Names) -> str | None:
    return frontend_attributes(message.get("frontend_attributes", {}))


def write_predecessors(message: Message, names: Names) -> str | None:
    found = message.get("control_predecessor_ids")
    return f"{{{', '.join('%' + names.instruction_name(id) for id in found)}}}" if found else None


def write_statistics(message: Message, names: Names) -> str | None:
    found = message.get("statistics_viz", {})
    if not found.get("statistics"):
        return None
    stats = (f"{s.get('stat_name', '')}={s.get('stat_val', 0.0):g}" for s in found["statistics"])
    return f"{{visualizing_index={found.get('stat_index_to_visualize', 0)},{','.join(stats)}}}"


def write_accuracy(message: Message, names: Names) -> str | None:
    found = message.get("result_accuracy", {})
    if found.get("mode"):
        return f"{{mode={enum_names('ResultAccuracy.Mode').get(found['mode'], str(found['mode'])).lower()}}}"
    if "tolerance" in found:
        atol, rtol, ulps = (found["tolerance"].get(name, 0) for name in ("atol", "rtol", "ulps"))
        return f"{{tolerance={{atol={atol:g},rtol={rtol:g},ulps={ulps}}}}}"
    return None


def write_origin(message: Message, names: Names) -> str | None:
    found = message.get("original_value")
    if found is None:
        return None
    if found.get("is_synthetic_call"):
        return "{[synthetic_call]}"
    arrays = {tuple(e.get("shape_index", ())): e.get("original_array") for e in found.get("elements", ())}

    def show(shape: AnyShape | None, index: tuple[int, ...]) -> str:
        if isinstance(shape, TupleShape):
            return f"({', '.join(show(element, (*index, i)) for i, element in enumerate(shape.elements))})"
        array = arrays.get(index)
        if array is None:
            return "{}"
        inner = array.get("shape_index", ())
        return f'{{"{array.get("instruction_name", "")}"{" " + numbers(inner) if inner else ""}}}'

    return f"{{{show(names.shape, ())}}}"


_METADATA = (
    ("op_type", str), ("op_name", str), ("source_file", str), ("source_line", int), ("source_end_line", int),
    ("source_column", int), ("source_end_column", int), ("profile_type", list), ("deduplicated_name", str),
    ("scheduling_name", str), ("stack_frame_id", int),
)  # fmt: skip


def write_metadata(message: Message, names: Names) -> str | None:
    found = message.get("metadata", {})
    parts = []
    for name, kind in _METADATA:
        value = found.get(name)
        if value:
            shown = f'"{escape(value)}"' if kind is str else numbers(value) if kind is list else str(value)
            parts.append(f"{name}={shown}")
    if payload := _payload(found.get("metadata_payload", {}), names):
        parts.append(f'metadata_payload="{escape(payload)}"')
    return f"{{{' '.join(parts)}}}" if parts else None


def _payload(message: Message, names: Names) -> memoryview | bytes:
    """A Payload, in place or among those of the module."""
    found: memoryview | bytes = message.get("value", b"")
    return found or (names.payload(message["id"]) if "id" in message else b"")


def write_backend_config(message: Message, names: Names) -> str | None:
    config: memoryview | bytes = message.get("backend_config", b"")
    config = config or _payload(message.get("backend_config_payload", {}), names)
    return text_or_braces(config) if config else None


def write_outfeed_shape(message: Message, names: Names) -> str | None:
    return str(message["outfeed_shape"]) if "outfeed_shape" in message else None
