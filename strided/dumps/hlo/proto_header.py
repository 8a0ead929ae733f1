"""The header of a module in its HloModuleProto; the text of its attributes is printed on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from strided.dumps.hlo.attribute_writers import frontend_attribute_values, frontend_attributes_text, text_or_braces
from strided.dumps.hlo.header import Alias, Donor, EntryLayout, SourceTables, in_braces
from strided.dumps.hlo.metadata import array_text
from strided.dumps.protobuf.decode import Fields, decode
from strided.dumps.protobuf.shapes import read_program_shape
from strided.runtime.lazy import lazy

#: The log modes that are printed.
_LOG_MODES = {1: "default", 2: "fusion_debugger"}
_ALIAS_KINDS = {1: "may-alias", 2: "must-alias"}

#: Prints a module in a recovery table, with an indent for each line.
PrintModule: TypeAlias = Callable[[memoryview, str], str]


class ProtoHeader:
    """A header in the fields of an HloModuleProto.

    `print_module` prints a nested module, `depth` is the number of modules around this one. DumpError for invalid
    messages, except the source tables, which are read on demand.
    """

    is_scheduled: bool
    aliases: tuple[Alias, ...]
    donors: tuple[Donor, ...]
    replica_count: int
    num_partitions: int
    frontend_attributes: dict[str, str]

    def __init__(self, found: Fields, print_module: PrintModule, depth: int) -> None:
        self._found, self._print_module, self._depth = found, print_module, depth
        self.is_scheduled = "schedule" in found
        self.aliases = tuple(map(_alias, found.decoded("input_output_alias").get("entries", ())))
        self.donors = tuple(map(_donor, found.decoded("buffer_donor").get("entries", ())))
        devices = found.decoded("device_assignment")
        self.replica_count = max(devices.get("replica_count", 1), 1)
        self.num_partitions = max(devices.get("computation_count", 1), 1)
        self.frontend_attributes = frontend_attribute_values(found.decoded("frontend_attributes"))
        self._config = (
            found["backend_config"][-1].view("HloModuleProto.backend_config") if "backend_config" in found else b""
        )
        self._recoveries = found.decoded("original_value_recovery_table").get("entries", ())
        self.entry_layout: EntryLayout | None = None
        if "host_program_shape" in found:
            shape = read_program_shape(*found.merged("host_program_shape"))
            if shape.result is not None:
                self.entry_layout = EntryLayout(tuple(shape.parameters), shape.result)

    @lazy
    def attributes(self) -> Mapping[str, str]:
        return dict(self._attributes())

    def _attributes(self) -> Iterator[tuple[str, str]]:
        """The attributes that a proto has, in the text's order."""
        if self.is_scheduled:
            yield "is_scheduled", "true"
        if self.aliases:
            yield "input_output_alias", _listed(self.aliases)
        if self.donors:
            yield "buffer_donor", _listed(self.donors)
        if self.entry_layout is not None:
            yield "entry_computation_layout", f"{{{self.entry_layout}}}"
        for name, count in (("replica_count", self.replica_count), ("num_partitions", self.num_partitions)):
            if count > 1:
                yield name, str(count)
        if self.frontend_attributes:
            yield "frontend_attributes", frontend_attributes_text(self.frontend_attributes)
        if self._config:
            yield "backend_config", text_or_braces(self._config)
        if self._recoveries:
            yield "origin_recovery_table", f"{{\n{''.join(self._recovery_lines())}}}"
        if lines := list(self._debug_lines()):
            yield "debug_attributes", "{\n" + ",\n".join(lines) + "\n}"

    def _recovery_lines(self) -> Iterator[str]:
        """How each removed array is recovered: from which array and by which module; sorted by the arrays' names."""
        found = {_array_key(entry.get("old_original_array", {})): entry for entry in self._recoveries}
        tab = "  " * (2 * self._depth + 1)
        for _, entry in sorted(found.items(), key=lambda pair: pair[0]):
            old, new = (array_text(entry.get(f"{side}_original_array", {})) for side in ("old", "new"))
            module = "" if (view := entry.get("recovery_module")) is None else self._print_module(view, tab)
            yield f"{tab}{old} : {new}{module}\n"

    def _debug_lines(self) -> Iterator[str]:
        """The debug attributes of each array, sorted by the arrays' names."""
        found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for field in self._found["debug_attributes"]:
            entry = decode("DebugAttributeTableEntryProto", field.view("HloModuleProto.debug_attributes"), field.at)
            records = found.setdefault(_array_key(entry.get("original_array", {})), [])
            records += map(_debug_text, entry.get("debug_attributes", ()))
        for (name, index), records in sorted(found.items()):
            if records:
                array = {"instruction_name": name, "shape_index": index}
                yield f"  {array_text(array)}:({','.join(records)})"

    @lazy
    def tables(self) -> SourceTables:
        found = self._found.decoded("stack_frame_index")
        frames = ((f.get("file_location_id", 0), f.get("parent_frame_id", 0)) for f in found.get("stack_frames", ()))
        return SourceTables(
            dict(enumerate(found.get("file_names", ()), 1)),
            dict(enumerate(found.get("function_names", ()), 1)),
            dict(enumerate(found.get("file_locations", ()), 1)),
            dict(enumerate(frames, 1)),
        )


def _array_key(array: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """A sort key for an OriginalArrayProto: the instruction, and the index in its tuple."""
    return array.get("instruction_name", ""), tuple(array.get("shape_index", ()))


def _debug_text(record: Mapping[str, Any]) -> str:
    mode = _LOG_MODES.get(record.get("log_mode", 0))
    parts = [f"log_mode={mode}"] if mode else []
    parts += [f"callback_id={record['callback_id']}"] if record.get("callback_id") else []
    parts += ["partitioned=true"] if record.get("partitioned") else []
    parts += [f"op_id={record['op_id']}"] if record.get("op_id") else []
    return in_braces(parts)


def _alias(entry: Mapping[str, Any]) -> Alias:
    return Alias(
        tuple(entry.get("output_shape_index", ())),
        entry.get("parameter_number", 0),
        tuple(entry.get("parameter_shape_index", ())),
        _ALIAS_KINDS.get(entry.get("kind", 0), "undefined-alias"),
    )


def _donor(entry: Mapping[str, Any]) -> Donor:
    return Donor(entry.get("parameter_number", 0), tuple(entry.get("parameter_shape_index", ())))


def _listed(entries: Iterable[object]) -> str:
    return f"{{ {', '.join(map(str, entries))} }}"
