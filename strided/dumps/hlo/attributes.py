"""The attributes of a proto instruction, with the names and in the order of XLA's text.

`OWN` lists the attributes particular to each opcode, `CALLEES` the names under which it prints the computations that it
calls, and `COMMON` what any instruction may print after those. `WRITERS` write each from the decoded message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from strided.dumps.hlo import attribute_writers as writers
from strided.dumps.hlo.attribute_writers import Names, Writer
from strided.dumps.hlo.convolution import dim_labels, window
from strided.dumps.hlo.header import in_braces
from strided.dumps.hlo.quoting import quote
from strided.dumps.hlo.replica_groups import replica_groups
from strided.dumps.protobuf.decode import Message
from strided.layout import AnyShape, Shape

#: The name of an attribute and its text.
Attribute: TypeAlias = tuple[str, str]

T = TypeVar("T")


def attributes_of(opcode: str, message: Message, names: Names) -> list[Attribute]:
    """The attributes of an instruction with this opcode in its proto, in the order of XLA's text."""
    own = OWN.get(opcode, "dimensions" if message.get("dimensions") else "").split()
    return [*_written(own, message, names), *_callees_text(opcode, message, names), *_written(COMMON, message, names)]


def async_start_attributes_of(
    message: Message, names: Names, opcode: str, wrapped: Message, wrapped_names: Names
) -> list[Attribute]:
    """The attributes of an asynchronous start in the short form of its body's only instruction, `wrapped`.

    They include those of `wrapped` before its origin, so that a name may occur twice; its frontend attributes only if
    the start has none.
    """
    inner = attributes_of(opcode, wrapped, wrapped_names)
    unprinted = set(LAST) | ({"frontend_attributes"} if message.get("frontend_attributes", {}).get("map") else set())
    return [
        *_written(["async_execution_thread"], message, names),
        *((name, text) for name, text in inner if name not in unprinted),
        *_written(["output_to_operand_aliasing", *COMMON], message, names),
    ]


def _written(wanted: Iterable[str], message: Message, names: Names) -> Iterator[Attribute]:
    for name in wanted:
        text = WRITERS[name](message, names)
        if text is not None:
            yield _PRINTED_AS.get(name, name), text


def callee_ids(opcode: str, ids: Sequence[int], operand: AnyShape | None) -> dict[str, int | Sequence[int]]:
    """The ids of the computations that an instruction calls, by the attribute that prints them: one, or a list.

    `operand` is the shape of its first operand.

    >>> callee_ids("while", (1, 2), None), callee_ids("fusion", (3,), None), callee_ids("custom-call", (4,), None)
    ({'condition': 2, 'body': 1}, {'calls': 3}, {'called_computations': (4,)})
    """
    if not ids:
        return {}
    keys, reversed_ids = CALLEES.get(opcode, (_CALLS, False))
    if opcode == "conditional" and len(ids) == 2 and isinstance(operand, Shape) and operand.element_type == "pred":
        keys = _BRANCHES
    if len(keys.split()) == len(ids) and keys not in LISTS:
        return dict(zip(keys.split(), reversed(ids) if reversed_ids else ids, strict=True))
    return {keys.split()[0]: ids}


def _callees_text(opcode: str, message: Message, names: Names) -> Iterator[Attribute]:
    ids = message.get("called_computation_ids", ())
    for key, called in callee_ids(opcode, ids, names.operand_shape(0)).items():
        if isinstance(called, int):
            yield key, f"%{names.computation_name(called)}"
        else:
            yield key, in_braces((f"%{names.computation_name(id)}" for id in called), ", ")


# ---- tables ----------------------------------------------------------------------------------------------------------


def _each(names: str, writer: Callable[[str], Writer]) -> dict[str, Writer]:
    """Make the writers of several attributes of one kind."""
    return {name: writer(name) for name in names.split()}


def _inside(message: str, names: str, writer: Callable[[str], Writer]) -> dict[str, Writer]:
    """As `_each`, for fields of a nested message."""
    return {name: writers.within(message, writer(name)) for name in names.split()}


_GATHER, _SCATTER = "gather_dimension_numbers", "scatter_dimension_numbers"
_SOLVE = "triangular_solve_options"
_RAGGED = "ragged_dot_dimension_numbers"

#: Writers by attribute; most attributes have the name of their field.
WRITERS: Mapping[str, Writer] = {
    **_each(
        "constrain_layout custom_call_has_side_effect has_dynamic_root indices_are_sorted is_composite "
        "is_host_transfer is_reverse is_stable unique_indices use_global_device_ids",
        writers.flag,
    ),
    **_each("delta exponent_bits feature_index k mantissa_bits num_carries", writers.number),
    **_each("dimensions dynamic_slice_sizes fft_length", writers.listed),
    **_each("infeed_config outfeed_config", writers.quoted),
    **_inside(_GATHER, "collapsed_slice_dims offset_dims start_index_map", writers.listed),
    **_inside(_GATHER, "operand_batching_dims start_indices_batching_dims", writers.listed_if_any),
    **_inside(_GATHER, "index_vector_dim", writers.number),
    **_inside(_SCATTER, "inserted_window_dims scatter_dims_to_operand_dims update_window_dims", writers.listed),
    **_inside(_SCATTER, "input_batching_dims scatter_indices_batching_dims", writers.listed_if_any),
    **_inside(_SOLVE, "left_side unit_diagonal", writers.flag),
    "algorithm": writers.within(
        "precision_config", writers.word("algorithm", "PrecisionConfig.Algorithm", silent=0, prefix="alg_")
    ),
    "api_version": writers.word("custom_call_api_version", "CustomCallApiVersion", silent=1),
    "async_execution_thread": writers.write_thread,
    "backend_config": writers.write_backend_config,
    "block_scaling_config": writers.write_block_scaling,
    "batch_group_count": writers.number_unless("batch_group_count", 0, 1),
    "channel_id": writers.number_unless("channel_id", 0),
    "control-predecessors": writers.write_predecessors,
    "convolution_kind": writers.word("conv_kind", "ConvolutionKind", silent=0, prefix="convolution_kind_"),
    "cross_program_prefetch_index": writers.write_prefetch,
    "custom_call_target": lambda message, names: quote(message.get("custom_call_target", "")),
    "dim_labels": writers.shown("convolution_dimension_numbers", dim_labels),
    "direction": lambda message, names: str(message.get("comparison_direction", "")),
    "distribution": writers.word("distribution", "RandomDistribution", lower=True),
    "domain": writers.write_domain,
    "epsilon": lambda message, names: f"{message.get('epsilon', 0.0):g}",
    "feature_group_count": writers.number_unless("feature_group_count", 0, 1),
    "fft_type": writers.word("fft_type", "FftType"),
    "frontend_attributes": writers.write_frontend_attributes,
    "index": writers.number("tuple_index"),
    "inferred_dimension": writers.write_inferred_dimension,
    "iota_dimension": lambda message, names: str(next(iter(message.get("dimensions", ())), 0)),
    "is_associative": lambda message, names: {1: "true", 2: "false"}.get(message.get("is_associative", 0)),
    "kind": lambda message, names: str(message.get("fusion_kind", "")),
    "largest": lambda message, names: "true" if message.get("largest") else "false",
    "lhs_batch_dims": writers.dot_dimensions("lhs_batch", always=False),
    "lhs_contracting_dims": writers.dot_dimensions("lhs_contracting"),
    "lhs_ragged_dims": writers.within(_RAGGED, writers.listed_if_any("lhs_ragged_dimensions")),
    "literal": writers.shown("literal", writers.constant_text),
    "lower": writers.write_lower,
    "metadata": writers.write_metadata,
    "order": writers.write_comparison_order,
    "operand_layout_constraints": writers.write_operand_layouts,
    "operand_precision": writers.write_precision,
    "origin": writers.write_origin,
    "outfeed_shape": writers.shown("outfeed_shape", str),
    "output_to_operand_aliasing": writers.write_aliasing,
    "padding": writers.write_padding,
    "padding_type": writers.word("padding_type", "PaddingType", silent=0),
    "parameter_replication": writers.write_replication,
    "replica_groups": lambda message, names: replica_groups(message),
    "result_accuracy": writers.write_accuracy,
    "rhs_batch_dims": writers.dot_dimensions("rhs_batch", always=False),
    "rhs_contracting_dims": writers.dot_dimensions("rhs_contracting"),
    "rhs_group_dims": writers.within(_RAGGED, writers.listed_if_any("rhs_group_dimensions")),
    "rng_algorithm": writers.word("rng_algorithm", "RandomAlgorithm", lower=True),
    "scatter_index_vector_dim": writers.within(_SCATTER, writers.number("index_vector_dim")),
    "schedule": writers.word("custom_call_schedule", "CustomCallSchedule", silent=0),
    "permuted_slice_sizes": writers.write_slice_sizes,
    "root_is_dynamic": lambda message, names: "true" if message.get("has_dynamic_root") else "false",
    "sharding": writers.write_sharding,
    "shifts": writers.write_shifts,
    "shuffle_mode": writers.write_shuffle_mode,
    "slice": writers.write_slice,
    "slice_sizes": writers.listed("gather_slice_sizes"),
    "source_target_pairs": writers.write_pairs,
    "sparsity_config": writers.write_sparsity,
    "split_dimensions": writers.listed_if_any("dimensions"),
    "statistics": writers.write_statistics,
    "transpose_a": writers.within(_SOLVE, writers.word("transpose_a", "TriangularSolveOptions.Transpose", silent=0)),
    "type": writers.write_comparison_type,
    "window": writers.write_window,
    "window_if_there": writers.shown("window", lambda found: window(found.get("dimensions", ()))),
}

#: Attributes printed under the name of another one.
_PRINTED_AS = {
    "permuted_slice_sizes": "slice_sizes",
    "rng_algorithm": "algorithm",
    "root_is_dynamic": "has_dynamic_root",
    "scatter_index_vector_dim": "index_vector_dim",
    "shuffle_mode": "mode",
    "split_dimensions": "dimensions",
    "window_if_there": "window",
}

_COLLECTIVE = "channel_id replica_groups constrain_layout"
_ALL_REDUCE = f"{_COLLECTIVE} use_global_device_ids"
_CONVOLUTION = "dim_labels feature_group_count batch_group_count"
_PERMUTE = "channel_id source_target_pairs permuted_slice_sizes"
_SCALING = "sparsity_config block_scaling_config"
_DOT_DIMENSIONS = "lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims"


def _alike(opcodes: str, value: T) -> dict[str, T]:
    return dict.fromkeys(opcodes.split(), value)


#: The attributes particular to each opcode, in order.
OWN: Mapping[str, str] = {
    **_alike("all-gather all-gather-start", f"{_COLLECTIVE} dimensions use_global_device_ids"),
    **_alike("all-reduce all-reduce-start", _ALL_REDUCE),
    "all-to-all": f"{_COLLECTIVE} split_dimensions",
    "async-start": "async_execution_thread output_to_operand_aliasing",
    "async-update": "output_to_operand_aliasing",
    **_alike("batch-norm-grad batch-norm-inference batch-norm-training", "epsilon feature_index"),
    **_alike("broadcast concatenate get-dimension-size map reduce reverse set-dimension-size transpose", "dimensions"),
    "cholesky": "lower",
    "collective-broadcast": f"{_COLLECTIVE} has_dynamic_root",
    **_alike("collective-permute collective-permute-start", _PERMUTE),
    "collective-reduce": f"{_ALL_REDUCE} root_is_dynamic",
    "compare": "direction type order",
    "convolution": f"window {_CONVOLUTION} convolution_kind operand_precision algorithm {_SCALING}",
    "copy-start": "cross_program_prefetch_index",
    "custom-call": (
        f"window_if_there {_CONVOLUTION} operand_precision padding_type custom_call_target operand_layout_constraints "
        "custom_call_has_side_effect literal output_to_operand_aliasing schedule api_version"
    ),
    "domain": "domain",
    "dot": f"{_DOT_DIMENSIONS} operand_precision algorithm {_SCALING}",
    "dynamic-slice": "dynamic_slice_sizes",
    "fft": "fft_type fft_length",
    "fusion": "kind output_to_operand_aliasing",
    "gather": (
        "offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims "
        "index_vector_dim slice_sizes indices_are_sorted"
    ),
    "get-tuple-element": "index",
    "infeed": "infeed_config",
    "iota": "iota_dimension",
    "outfeed": "outfeed_shape outfeed_config",
    "pad": "padding",
    "parameter": "parameter_replication",
    "ragged-all-to-all": _COLLECTIVE,
    "ragged-dot": f"{_DOT_DIMENSIONS} lhs_ragged_dims rhs_group_dims operand_precision algorithm",
    **_alike("recv recv-done send send-done", "channel_id is_host_transfer"),
    "reduce-precision": "exponent_bits mantissa_bits",
    "reduce-scatter": f"{_ALL_REDUCE} dimensions",
    **_alike("reduce-window select-and-scatter", "window"),
    "reshape": "inferred_dimension",
    "rng": "distribution",
    "rng-bit-generator": "rng_algorithm",
    "rng-get-and-update-state": "delta",
    "scaled-dot": f"{_DOT_DIMENSIONS} operand_precision algorithm",
    "scan": "dimensions num_carries is_reverse is_associative",
    "scatter": (
        "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_index_vector_dim indices_are_sorted unique_indices"
    ),
    "shuffle": "dimensions shuffle_mode shifts",
    "slice": "slice",
    "sort": "dimensions is_stable",
    "topk": "k largest is_stable",
    "triangular-solve": "left_side lower unit_diagonal transpose_a",
}

#: The attributes for callees of opcodes not in the table below, and of a conditional with a pred operand.
_CALLS, _BRANCHES = "calls", "true_computation false_computation"
#: The attributes under which an opcode prints its callees, and whether its proto has them in reverse order.
CALLEES: Mapping[str, tuple[str, bool]] = {
    **_alike(
        "all-reduce all-reduce-start call collective-reduce map reduce reduce-scatter reduce-window scan scatter sort "
        "topk",
        ("to_apply", False),
    ),
    "conditional": ("branch_computations", False),
    "custom-call": ("called_computations", False),
    "select-and-scatter": ("select scatter", False),
    "while": ("condition body", True),
}

#: All of these attributes, each once.
CALLEE_NAMES = tuple(dict.fromkeys(" ".join((_CALLS, _BRANCHES, *(names for names, _ in CALLEES.values()))).split()))
#: Those that print a list in braces even for a single computation.
LISTS = ("branch_computations", "called_computations")

#: What any instruction may print last, and (`COMMON`) after its callees.
LAST = ("origin", "metadata", "backend_config")
COMMON = (*"is_composite sharding frontend_attributes control-predecessors statistics result_accuracy".split(), *LAST)
