"""Read HLO modules in protobuf form: an HloModuleProto, by itself or inside an HloProto, HloSnapshot or the like.

Name, opcode and id of each instruction are read at once, the rest on demand. Two things differ from text, and are
converted to the text's form. Instructions are ordered by a separate schedule. And an asynchronous operation whose body
is one instruction becomes that instruction's start or done (``slice-start``), without a computation for the body
(see `ProtoInstruction.async_body`), unless some update has operands of its own, as on SparseCores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

from strided.dumps.hlo.attribute_writers import MAIN_THREAD
from strided.dumps.hlo.computation import Computation, has_one_operation
from strided.dumps.hlo.module import Module
from strided.dumps.hlo.proto_header import ProtoHeader
from strided.dumps.hlo.proto_instruction import ProtoComputation, ProtoInstruction, Records
from strided.dumps.protobuf.decode import Fields
from strided.dumps.protobuf.file_bytes import View, loaded
from strided.dumps.protobuf.wire import BYTES, Field, fields, join, read_varint, take
from strided.errors import DumpError

_V = TypeVar("_V", bound=View)

#: The most messages around a module: an HloSnapshot has an HloProto, which has the module, each as field 1.
_MAX_WRAPPERS = 3

_OPCODE = re.compile(rb"[a-z][a-z0-9\-]*")

#: The deepest nesting of modules in recovery tables.
_MAX_MODULES = 16


def read_proto(data: memoryview, path: str | None = None) -> Module:
    """Read the module in a message that is or contains one. DumpError, with the byte, if there is none."""
    view, at = find_module(data)
    return _module_at(view, at, path)


def find_module(data: _V) -> tuple[_V, int]:
    """The HloModuleProto in `data`, which is all of it or nested in its first field, and its offset in bytes.

    A length before the message, as in unoptimized snapshots, is skipped. DumpError if there is no module.
    """
    try:
        return _module_in(data, 0)
    except DumpError as error:
        try:
            length, start = read_varint(data, 0, "a length")
            return _module_in(take(data, start, length, "a message of that length"), start)
        except DumpError:
            raise error from None


def _module_in(view: _V, at: int) -> tuple[_V, int]:
    for _ in range(_MAX_WRAPPERS):
        inner: dict[int, Field] = {}
        for field in fields(view, "HloModuleProto", at):
            if field.number == 3 and field.kind == BYTES and _is_computation(field):
                return view, at
            if field.number == 1 and field.kind == BYTES:
                join(inner, field, "HloModuleProto")
        if not inner:
            break
        view, at = inner[1].view("HloModuleProto"), inner[1].at
    raise DumpError("no HloModuleProto in these bytes", position=at)


def _is_computation(field: Field) -> bool:
    """Whether a field holds a computation, rather than an HloProto's buffer assignment, which has the same number."""
    try:
        for inner in fields(field.value, "HloComputationProto", field.at):
            if inner.number == 2 and inner.kind == BYTES:
                names = {f.number: f for f in fields(inner.value, "HloInstructionProto", inner.at)}
                return 2 in names and names[2].kind == BYTES and bool(_OPCODE.fullmatch(loaded(names[2].value)))
    except DumpError:
        pass
    return False


class ProtoModule(Module):
    """A module read from an HloModuleProto; it and its parts are pickled as these bytes."""

    records: Records
    _proto: tuple[memoryview, int]

    def __reduce__(self) -> tuple[Any, ...]:
        view, at = self._proto
        return _module_at, (bytes(view), at, self.path)


def _module_at(view: bytes | memoryview, at: int, path: str | None) -> ProtoModule:
    """The module in an HloModuleProto; `at` is the byte at which it begins, for errors."""
    return _ModuleReader(memoryview(view), at, path).module()


class _ModuleReader:
    """One pass over the fields of an HloModuleProto."""

    def __init__(self, view: memoryview, at: int, path: str | None, depth: int = 0) -> None:
        self.view, self.path, self.at, self.depth = view, path, at, depth
        self.found = Fields("HloModuleProto", view, at)
        self.context = Records([field.view("HloModuleProto.payloads") for field in self.found["payloads"]])
        self.computations: list[ProtoComputation] = []
        self.calls: dict[Computation, list[tuple[int, ...]]] = {}
        sequences = self.found.decoded("schedule").get("sequences", ())
        self.schedule = {one.get("key", 0): one.get("value", {}).get("instruction_ids", []) for one in sequences}
        for field in self.found["computations"]:
            self._read_computation(field)
        self.computations.sort(key=lambda computation: computation.id)
        _unfold_async(self.context)

    def _read_computation(self, outer: Field) -> None:
        name, thread, id, root = "", "", 0, 0
        config: bytes | memoryview = b""
        found: list[ProtoInstruction] = []
        for field in fields(outer.view("HloModuleProto.computations"), "HloComputationProto", outer.at):
            number = field.number
            if number == 2:
                found.append(ProtoInstruction(field.view("HloComputationProto.instructions"), field.at, self.context))
            elif number == 1:
                name = field.text("HloComputationProto.name")
            elif number == 5:
                id = field.integer("HloComputationProto.id")
            elif number == 6:
                root = field.integer("HloComputationProto.root_id")
            elif number == 8:
                thread = field.text("HloComputationProto.execution_thread")
            elif number == 9:
                config = field.view("HloComputationProto.backend_config")
        if not found:
            raise DumpError(f"HloComputationProto: the computation {name!r} holds no instruction", position=outer.at)
        self.context.instructions.update((instruction.id, instruction) for instruction in found)
        next((i for i in reversed(found) if i.id == root), found[-1]).is_root = True
        calls = [(i.id, i.called_computation_ids) for i in found if i.called_computation_ids]
        computation = ProtoComputation(name, tuple(self._scheduled(id, found)))
        computation.id, computation.execution_thread = id, "" if thread == MAIN_THREAD else thread
        computation.backend_config = str(config, "utf-8", "backslashreplace") if config else None
        self.computations.append(computation)
        self.calls[computation] = [ids for _, ids in sorted(calls)]
        self.context.computations[id] = computation

    def _scheduled(self, id: int, found: list[ProtoInstruction]) -> list[ProtoInstruction]:
        """The instructions of a computation, in the order of its schedule if that is complete."""
        order, by_id = self.schedule.get(id), {instruction.id: instruction for instruction in found}
        if order is None or sorted(order) != sorted(instruction.id for instruction in found):
            return found
        return [by_id[number] for number in order]

    def module(self) -> ProtoModule:
        hidden = {i.async_body for i in self.context.instructions.values() if i.async_body is not None}
        shown = [computation for computation in self._in_order() if computation not in hidden]
        if not shown:
            raise DumpError("HloModuleProto: no computation", position=self.at, path=self.path)
        entry_id = self.found.integer("entry_computation_id")
        entry_name = self.found.text("entry_computation_name")
        named = (computation for computation in shown if computation.name == entry_name)
        entry = self.context.computations.get(entry_id) or next(named, shown[-1])
        module = ProtoModule(
            self.found.text("name"),
            ProtoHeader(self.found, self._print_module, self.depth),
            shown,
            entry,
            unread=self.context.unread,
            path=self.path,
        )
        module.records, module._proto = self.context, (self.view, self.at)
        for computation in hidden:
            computation.module = module
        return module

    def _print_module(self, view: memoryview, tab: str) -> str:
        """The text of a module in the recovery table; a comment if it cannot be printed."""
        try:
            if self.depth == _MAX_MODULES:
                raise DumpError(f"modules nested more than {_MAX_MODULES} deep")
            text = _ModuleReader(view, 0, self.path, self.depth + 1).module().to_text(indent=f"{tab}  ")
        except DumpError as error:
            return f" /* {error} */"
        return f',\n{tab}"\n{text}\n{tab}"'

    def _in_order(self) -> list[Computation]:
        """The computations in the text's order: callees before callers, in the order of the calls."""
        known = self.context.computations
        calls = {c: [[known[id] for id in ids if id in known] for ids in groups] for c, groups in self.calls.items()}
        called = {callee for groups in calls.values() for group in groups for callee in group}
        done: list[Computation] = []
        begun: set[Computation] = set()
        # In cycles, which only damaged protos have, every computation is called: the second round visits those.
        for computation in [*(c for c in self.computations if c not in called), *self.computations]:
            waiting: list[tuple[Computation, Iterator[list[Computation]]]]
            waiting = [(computation, iter(calls[computation]))] if computation not in begun else []
            begun.add(computation)
            while waiting:
                caller, groups = waiting[-1]
                group = next(groups, None)
                if group is None:
                    done.append(caller)
                    waiting.pop()
                    continue
                for callee in reversed(group):  # all callees of an instruction come before their own callees
                    if callee not in begun:
                        begun.add(callee)
                        waiting.append((callee, iter(calls[callee])))
        return done


def _unfold_async(context: Records) -> None:
    """Give asynchronous operations with a one-instruction body the short form, as in text (see `asynchronous`).

    Newer compilers pass operands to updates, which jaxlib 0.10.2 refuses; their text then shows all bodies.
    """
    instructions = context.instructions.values()
    if any(i.opcode == "async-update" and len(i.operand_ids) > 1 for i in instructions):
        return
    bodies: dict[int, Computation | None] = {}  # by operation's id; None if it has no short form
    for instruction in instructions:
        link: ProtoInstruction | None = instruction
        # The first operand of done and update is their start, or an update of it.
        chain: list[ProtoInstruction] = []
        while link is not None and link.opcode in ("async-update", "async-done") and link.id not in bodies:
            bodies[link.id] = None  # for cycles in a damaged proto
            chain.append(link)
            link = context.instructions.get(link.operand_ids[0]) if link.operand_ids else None
        if link is None:
            continue
        if link.opcode == "async-start" and link.id not in bodies:
            called = link.called_computation_ids
            body = context.computations.get(called[0]) if called else None
            bodies[link.id] = body if body is not None and has_one_operation(body) else None
        bodies.update((one.id, bodies.get(link.id)) for one in chain)
    for id, body in bodies.items():
        if body is not None:
            operation = context.instructions[id]
            operation.async_body = body
            operation.opcode = f"{body.root.opcode}-{operation.opcode.removeprefix('async-')}"
