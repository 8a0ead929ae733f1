"""Write single attributes of an instruction, from its decoded proto message, as XLA prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol, TypeAlias

from strided.dumps.hlo.braced import is_json_object
from strided.dumps.hlo.convolution import window
from strided.dumps.hlo.header import in_braces
from strided.dumps.hlo.literal_text import value_text
from strided.dumps.hlo.metadata import metadata_text, origin_text, parts_text, payload_of
from strided.dumps.hlo.quoting import as_bytes, quote
from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf.decode import Fields, Message, decode, enum_names
from strided.dumps.protobuf.wire import Field
from strided.dumps.sharding.sharding import Sharding
from strided.dumps.sharding.text import numbered
from strided.errors import StridedError
from strided.layout import AnyShape, Shape, TupleShape


class Names(Protocol):
    """What the writers need to know of a message's module."""

    @property
    def shape(self) -> AnyShape | None: ...
    def operand_shape(self, number: int) -> AnyShape | None: ...
    def instruction_name(self, id: int) -> str: ...
    def computation_name(self, id: int) -> str: ...
    def payload(self, id: int) -> memoryview | bytes: ...


#: The most characters for which a tuple's single sharding is printed for each leaf.
MAX_TEXT = 1 << 20

#: The thread that XLA does not print.
MAIN_THREAD = "main"

#: Writes one attribute; None if XLA prints nothing.
Writer: TypeAlias = Callable[[Message, Names], str | None]

# ---- small parts -----------------------------------------------------------------------------------------------------


def text_or_braces(value: str | bytes | memoryview) -> str:
    """A value as XLA prints it: without quotes if it looks like a JSON object."""
    data = as_bytes(value)
    if b"{" in data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = ""
        if is_json_object(text):
            return text
    return quote(data)


def frontend_attribute_values(message: Message) -> dict[str, str]:
    """The attributes of a FrontendAttributes message, sorted by key; the last value of a key wins."""
    last = {entry.get("key", ""): entry.get("value", "") for entry in message.get("map", ())}
    return dict(sorted(last.items()))


def frontend_attributes_text(values: Mapping[str, str]) -> str:
    """Frontend attributes as XLA prints them."""
    return in_braces(f"{key}={text_or_braces(value)}" for key, value in values.items())


def listed(field: str) -> Writer:
    """The writer of a list, even an empty one."""
    return lambda message, names: in_braces(message.get(field, ()))


def listed_if_any(field: str) -> Writer:
    """The writer of a list; nothing for an empty one."""
    return lambda message, names: in_braces(message[field]) if message.get(field) else None


def number(field: str) -> Writer:
    """The writer of a number."""
    return lambda message, names: str(message.get(field, 0))


def number_unless(field: str, *usual: int) -> Writer:
    """The writer of a number; nothing for any of `usual`, of which the first is the default."""
    return lambda message, names: None if message.get(field, usual[0]) in usual else str(message[field])


def flag(field: str) -> Writer:
    """The writer of ``true``; nothing for false."""
    return lambda message, names: "true" if message.get(field) else None


def quoted(field: str) -> Writer:
    """The writer of a quoted string; nothing for an empty one."""
    return lambda message, names: quote(message[field]) if message.get(field) else None


def word(field: str, enum: str, *, lower: bool = False, silent: int | None = None, prefix: str = "") -> Writer:
    """The writer of an enum's value; in lower case and without a prefix if these are given, nothing for `silent`."""

    def write(message: Message, names: Names) -> str | None:
        number = message.get(field, 0)
        text = _enumerator(enum, number)
        return None if number == silent else text.lower().removeprefix(prefix) if lower or prefix else text

    return write


def _enumerator(enum: str, number: int) -> str:
    """The name of a value of an enumeration, or its number if that has none."""
    return enum_names(enum).get(number, str(number))


def shown(field: str, show: Callable[[Any], str]) -> Writer:
    """The writer of a field, converted by `show`; nothing if it is absent."""
    return lambda message, names: show(message[field]) if field in message else None


def within(field: str, write: Writer) -> Writer:
    """The writer of a nested message, which may be absent."""
    return lambda message, names: write(message.get(field, {}), names)


# ---- larger parts ----------------------------------------------------------------------------------------------------

#: Default `type` of a comparison, by the first letters of the operands' element type.
_COMPARISONS = {"f": "FLOAT", "b": "FLOAT", "c": "FLOAT", "s": "SIGNED"}


def write_comparison_type(message: Message, names: Names) -> str | None:
    kind = message.get("comparison_type", "")
    operand = names.operand_shape(0)
    usual = _COMPARISONS.get(operand.element_type[0], "UNSIGNED") if isinstance(operand, Shape) else ""
    return kind if kind and kind != usual else None


def write_comparison_order(message: Message, names: Names) -> str | None:
    """Newer compilers give the order separately from the type; the default is partial for floats, else total."""
    order = message.get("comparison_order", "")
    operand = names.operand_shape(0)
    usual = "PARTIAL" if isinstance(operand, Shape) and operand.element_type[0] in "fbc" else "TOTAL"
    return order if order and order != usual else None


def write_slice(message: Message, names: Names) -> str:
    dimensions = message.get("slice_dimensions", ())
    fields = ["start", "limit"] + (["stride"] if any(d.get("stride", 0) != 1 for d in dimensions) else [])
    parts = (":".join(str(d.get(field, 0)) for field in fields) for d in dimensions)
    return in_braces((f"[{part}]" for part in parts), ", ")


def write_padding(message: Message, names: Names) -> str:
    dimensions = message.get("padding_config", {}).get("dimensions", ())
    fields = ["edge_padding_low", "edge_padding_high"]
    fields += ["interior_padding"] if any(d.get("interior_padding") for d in dimensions) else []
    return "x".join("_".join(str(d.get(field, 0)) for field in fields) for d in dimensions)


def write_precision(message: Message, names: Names) -> str | None:
    """One word for each operand; for ragged and scaled dots, only for the first two."""
    found = message.get("precision_config", {}).get("operand_precision", ())
    count = 2 if message.get("opcode") in ("ragged-dot", "scaled-dot") else len(message.get("operand_ids", ()))
    found = [*found[:count], *[0] * (count - len(found))]
    return in_braces(_enumerator("PrecisionConfig.Precision", n).lower() for n in found) if any(found) else None


def write_aliasing(message: Message, names: Names) -> str | None:
    parts = []
    for alias in message.get("output_operand_aliasing", ()):
        place = f"({alias.get('operand_index', 0)}, {in_braces(alias.get('operand_shape_index', ()))})"
        parts.append(f"{in_braces(alias.get('output_shape_index', ()))}: {place}")
    return in_braces(parts, ", ") if parts else None


def dot_dimensions(side: str, *, always: bool = True) -> Writer:
    """The writer of one list of a dot's dimensions, ragged or not."""

    def write(message: Message, names: Names) -> str | None:
        outer = message.get("ragged_dot_dimension_numbers", message)
        found = outer.get("dot_dimension_numbers", {}).get(f"{side}_dimensions", ())
        return in_braces(found) if found or always else None

    return write


def write_sparsity(message: Message, names: Names) -> str | None:
    sides = []
    for side in ("lhs", "rhs"):
        if found := message.get("sparsity_config", {}).get(side):
            count, block, dimension, stride = (
                found.get(field, 0) for field in ("num_non_zero", "block_size", "dimension", "stride")
            )
            place = f" idx={found['idx']}" if found.get("idx") else ""
            sides.append(f"{side}={{sparsity={count}x{block} dimension={dimension} stride={stride}{place}}}")
    return in_braces(sides, " ") if sides else None


def write_block_scaling(message: Message, names: Names) -> str | None:
    sides = []
    for side in ("lhs", "rhs"):
        found = message.get("block_scaling_config", {}).get(side)
        if found is None:
            continue
        parts = [f"scale_idx={found.get('scale_idx', 0)}"]
        parts += [f"zero_idx={found['zero_idx']}"] if "zero_idx" in found else []
        parts += [f"{name}={'x'.join(map(str, found[name]))}" for name in ("strides", "steps") if found.get(name)]
        sides.append(f"{side}={in_braces(parts, ' ')}")
    return in_braces(sides, " ") if sides else None


def write_shuffle_mode(message: Message, names: Names) -> str:
    return "rotate" if "rotate" in message.get("shuffle_mode", {}) else "invalid"


def write_shifts(message: Message, names: Names) -> str | None:
    rotate = message.get("shuffle_mode", {}).get("rotate")
    return None if rotate is None else in_braces(rotate.get("shifts", ()))


def write_operand_layouts(message: Message, names: Names) -> str | None:
    if not message.get("constrain_layout"):
        return None
    return in_braces(message.get("operand_shapes_with_layout", ()), ", ")


def constant_text(view: memoryview) -> str:
    """The value of a constant, from its LiteralProto."""
    literal = Literal.of_proto(view)
    return value_text(literal.value, literal.shape, shapes=True)


def write_slice_sizes(message: Message, names: Names) -> str | None:
    """The sizes of the slices that a collective permute moves: one list in the proto, one for each slice in text."""
    sizes = message.get("dynamic_slice_sizes")
    if not sizes:
        return None
    left, shown = iter(sizes), []
    for rank in _slice_ranks(names.operand_shape(0), names.operand_shape(2)) or (len(sizes),):
        slice_sizes = list(islice(left, rank))
        if rank and not slice_sizes:
            break  # protos of several buffers may have fewer lists than their shapes
        shown.append(in_braces(slice_sizes))
    return in_braces(shown)


def _slice_ranks(moved: AnyShape | None, starts: AnyShape | None) -> list[int]:
    """The rank of each slice. A buffer has one slice, or one for each element of its tuple of starts."""
    ranks: list[int] = []
    pairs: Iterable[tuple[AnyShape | None, AnyShape | None]] = [(moved, starts)]
    if isinstance(moved, TupleShape):
        pairs = zip(moved.elements, starts.elements if isinstance(starts, TupleShape) else (), strict=False)
    for buffer, start in pairs:
        inner = start.elements if isinstance(start, TupleShape) else ()
        many = bool(inner) and isinstance(inner[0], TupleShape)
        ranks += [len(buffer.dimensions)] * (len(inner) if many else 1) if isinstance(buffer, Shape) else []
    return ranks


def write_pairs(message: Message, names: Names) -> str:
    pairs = message.get("source_target_pairs", ())
    return in_braces(in_braces((pair.get("source", 0), pair.get("target", 0))) for pair in pairs)


def write_domain(message: Message, names: Names) -> str | None:
    # The names "entry" and "exit" are exchanged between XLA's text and its proto.
    exit_, entry = (message.get(f"domain_{side}_sharding") for side in ("entry", "exit"))
    if entry is None or exit_ is None:
        return None
    sides = f"entry={sharding_text(entry, metadata=False)}, exit={sharding_text(exit_, metadata=False)}"
    return f'{{kind="sharding", {sides}}}'


def write_replication(message: Message, names: Names) -> str | None:
    found = message.get("parameter_replication", {}).get("replicated_at_leaf_buffers")
    return None if found is None else in_braces("true" if flag else "false" for flag in found)


def write_prefetch(message: Message, names: Names) -> str | None:
    found = message.get("cross_program_prefetch_index")
    return str(found) if found is not None else "0" if message.get("is_cross_program_prefetch") else None


def write_window(message: Message, names: Names) -> str | None:
    return window(message["window"].get("dimensions", ())) if message.get("window", {}).get("dimensions") else None


def write_inferred_dimension(message: Message, names: Names) -> str | None:
    found = next(iter(message.get("dimensions", ())), -1)
    return None if found == -1 else str(found)


def write_thread(message: Message, names: Names) -> str | None:
    thread = message.get("async_execution_thread")
    return quote(thread) if thread and thread != MAIN_THREAD else None


def write_lower(message: Message, names: Names) -> str | None:
    options = message.get("triangular_solve_options") or message.get("cholesky_options", {})
    return "true" if options.get("lower") else None


def write_sharding(message: Message, names: Names) -> str | None:
    return sharding_text(message["sharding"], names.shape) if "sharding" in message else None


def write_frontend_attributes(message: Message, names: Names) -> str | None:
    values = frontend_attribute_values(message.get("frontend_attributes", {}))
    return frontend_attributes_text(values) if values else None


def write_predecessors(message: Message, names: Names) -> str | None:
    found = message.get("control_predecessor_ids")
    return in_braces((f"%{names.instruction_name(id)}" for id in found), ", ") if found else None


def write_statistics(message: Message, names: Names) -> str | None:
    found = message.get("statistics_viz", {})
    if not found.get("statistics"):
        return None
    stats = (f"{s.get('stat_name', '')}={s.get('stat_val', 0.0):g}" for s in found["statistics"])
    return f"{{visualizing_index={found.get('stat_index_to_visualize', 0)},{','.join(stats)}}}"


def write_accuracy(message: Message, names: Names) -> str | None:
    found = message.get("result_accuracy", {})
    if found.get("mode"):
        return f"{{mode={_enumerator('ResultAccuracy.Mode', found['mode']).lower()}}}"
    if "tolerance" in found:
        atol, rtol, ulps = (found["tolerance"].get(name, 0) for name in ("atol", "rtol", "ulps"))
        return f"{{tolerance={{atol={atol:g},rtol={rtol:g},ulps={ulps}}}}}"
    return None


def write_origin(message: Message, names: Names) -> str | None:
    """The original value; a comment if the message is of jaxlib 0.5 or 0.6, which declared it differently."""
    if "original_value" not in message:
        return None
    try:
        return f"{{{origin_text(decode('OriginalValueProto', message['original_value']))}}}"
    except StridedError as error:
        return f"{{/* {error} */}}"


def write_metadata(message: Message, names: Names) -> str | None:
    text = metadata_text(message.get("metadata", {}), names.payload)
    return None if text is None else f"{{{text}}}"


def write_backend_config(message: Message, names: Names) -> str | None:
    config = backend_config_of(message, names)
    return text_or_braces(config) if config else None


def backend_config_of(message: Message, names: Names) -> bytes | memoryview:
    """The backend's own configuration; empty if there is none."""
    config: memoryview | bytes = message.get("backend_config", b"")
    return config or payload_of(message.get("backend_config_payload", {}), names.payload)


# ---- shardings -------------------------------------------------------------------------------------------------------


def sharding_text(view: memoryview, shape: AnyShape | None = None, *, metadata: bool = True) -> str:
    """The canonical text of an OpSharding; a comment if it is invalid.

    `shape` is the instruction's: if that is a tuple and the sharding is not, it is printed for each leaf.
    """
    try:
        found = Sharding.from_proto(view)
        text = (_with_metadata(found, view) if metadata else found).text(metadata=metadata)
    except StridedError as error:
        return _unassigned(view) or f"{{/* {error} */}}"
    if isinstance(shape, TupleShape) and found.kind != "tuple":
        leaves = sum(1 for _ in shape.leaves())
        if leaves * len(text) <= MAX_TEXT:
            return f"{{{numbered([text] * leaves)}}}"
    return text


def _unassigned(view: memoryview) -> str | None:
    """The text of a maximal sharding on device -1 (not yet assigned), or of a tuple with such parts; else None.

    `Sharding` does not allow that device.
    """
    try:
        message = decode("OpSharding", view)
        if _is_unassigned(message):
            return "{maximal device=-1}"
        parts = []
        for part in message.get("tuple_shardings", ()):
            inner = decode("OpSharding", part)
            if _is_tuple(inner):
                return None
            parts.append("{maximal device=-1}" if _is_unassigned(inner) else Sharding.from_proto(part).text())
    except StridedError:
        return None
    return f"{{{numbered(parts)}}}" if _is_tuple(message) and parts else None


def _sharding_type(message: Message) -> str | None:
    return enum_names("OpSharding.Type").get(message.get("type", 0))


def _is_tuple(message: Message) -> bool:
    return _sharding_type(message) == "TUPLE"


def _is_unassigned(message: Message) -> bool:
    return _sharding_type(message) == "MAXIMAL" and list(message.get("tile_assignment_devices", ())) == [-1]


def _with_metadata(sharding: Sharding, view: memoryview) -> Sharding:
    """`sharding` with the metadata of `view`, the message that it was read from."""
    inner = Fields("OpSharding", view)
    if sharding.kind == "tuple":
        parts = zip(sharding.elements, _views(inner["tuple_shardings"]), strict=True)
        return replace(sharding, elements=tuple(_with_metadata(*part) for part in parts))
    records = inner["metadata"]
    if sharding.named is not None:
        named = (Fields("NamedShardingProto", one) for one in _views(inner["named_sharding"]))
        records = [record for one in named for record in one["metadata"]]
    if not records:
        return sharding
    return replace(sharding, metadata=tuple(parts_text(decode("OpMetadata", record)) for record in _views(records)))


def _views(found: Iterable[Field]) -> Iterator[memoryview]:
    return (field.view("OpSharding") for field in found)
