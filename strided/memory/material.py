"""Collects what files, texts, exceptions and programs say about the memory of one program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeVar

from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations
from strided.dumps.buffer_assignment.compiled import Compiled, device_bytes_of, hlo_proto_of, is_compiled
from strided.dumps.buffer_assignment.proto import ALONE, is_alone
from strided.dumps.detect import recognise
from strided.dumps.directory.dump import Dump, open_dump
from strided.dumps.directory.names import parse_name
from strided.dumps.directory.programs import Program
from strided.dumps.hlo import Module, read_hlo
from strided.dumps.hlo.mlir import refuse_bytecode
from strided.dumps.hlo.text import NO_COMPUTATION
from strided.dumps.source import (
    BYTE_ORDER_MARK,
    PROBE_BYTES,
    is_contents,
    is_text,
    open_head,
    open_source,
    refuse_utf16,
)
from strided.dumps.usage_report import usage_report_text
from strided.errors import DumpError, DumpWarning, UnsupportedError, warn
from strided.memory.heap_trace import HeapTrace, read_traces
from strided.memory.usage_text import UsageText, is_of_runtime, read_usage_text, usage_in

_Part = TypeVar("_Part")

#: Part of every message of a program that ran out of memory.
_EXHAUSTED = "RESOURCE_EXHAUSTED"
_HEADER = re.compile(r"^HloModule[ \t]", re.MULTILINE)
#: The beginning of HLO or of a buffer assignment behind other text.
_BEHIND = re.compile(r"^[^\n]{0,2000}?(HloModule(?= \w)|BufferAssignment:)", re.MULTILINE)
#: How the memory usage report of XLA for CPU and GPU begins.
_ALLOCATED = re.compile(r"\s*Total bytes used: \d")
_OF_ALLOCATIONS = "is a memory usage report of XLA for CPU or GPU: the buffer assignment of the dump is read instead"


class Material:
    """What is known about one program, from one or several sources. `index` selects a module of a text with several."""

    def __init__(self, index: SupportsIndex | None = None) -> None:
        self.index = index
        self.module: Module | None = None
        self.module_before: Module | None = None
        self.assignment: BufferAssignment | None = None
        self.traces: Sequence[HeapTrace] = ()
        self.text: UsageText | None = None
        self.limits: UsageText | None = None  # a text that lists no buffers; there may also be one that does
        self.device_bytes: int | None = None
        self.path: str | None = None
        self.notes: list[str] = []
        self._unread: dict[str, Exception] = {}

    def add(self, source: Any) -> None:
        """Read one more source."""
        if isinstance(source, Module):
            self._add_module(source)
        elif isinstance(source, BufferAssignment):
            self.assignment = source
        elif isinstance(source, Program):
            own = Material(self.index)
            own._add_program(source)
            self.take(own)
        elif isinstance(source, BaseException):
            self._add_usage(_usage_in_error(source))
        elif hasattr(source, "as_text"):  # the result of jax.jit(f).lower(x).compile()
            self._add_module(read_hlo(source.as_text()))
            if is_compiled(source):
                self._add_compiled(source)
        elif isinstance(source, str) and is_contents(source, _is_report):
            self._add_text(source, None)
        elif isinstance(source, Dump) or (isinstance(source, (str, os.PathLike)) and os.path.isdir(source)):
            own = Material(self.index)  # separate, so that a damaged program is noticed
            own._add_dump(source if isinstance(source, Dump) else open_dump(source))
            self.take(own)
        else:
            self._add_file(source)

    def _add_compiled(self, source: Compiled) -> None:
        if (proto := hlo_proto_of(source)) is not None:
            self._add_assignment(memoryview(proto))
        else:
            self.device_bytes = device_bytes_of(source)

    def _add_module(self, module: Module) -> None:
        if module.is_scheduled:
            self.module = module
        else:
            self.module_before = module

    def fits(self, other: Material) -> bool:
        """Whether `other` may be about the same program: it has other kinds of content, and no other program's name."""
        parts = ("module", "module_before", "assignment", "text", "limits")
        twice = any(getattr(self, part) is not None and getattr(other, part) is not None for part in parts)
        names = {one.name for one in (*self.modules(), *other.modules()) if one.name}
        texts = (self.text, self.limits, other.text, other.limits)
        names |= {text.module for text in texts if text is not None and text.module}
        return not twice and len(names) <= 1

    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return self.assignment is None and self.text is None and self.limits is None and not self.modules()

    def modules(self) -> list[Module]:
        """The modules after and before optimizations that are known."""
        return [one for one in (self.module, self.module_before) if one is not None]

    def take(self, other: Material) -> None:
        """Add what `other` knows about the same program."""
        self.module = self.module or other.module
        self.module_before = self.module_before or other.module_before
        self.assignment, self.traces = self.assignment or other.assignment, self.traces or other.traces
        self.text, self.limits = self.text or other.text, self.limits or other.limits
        self.device_bytes = self.device_bytes or other.device_bytes
        self.path = self.path or other.path
        self.notes += other.notes

    def _add_dump(self, dump: Dump) -> None:
        programs = dump.programs
        if not programs:
            raise DumpError("the folder holds no program that XLA dumped", path=str(dump.path))
        for program in sorted(programs, key=self._weight, reverse=True):
            self._read_program(program)
            if not self.is_empty():
                break
        if len(programs) > 1:
            most = "takes most" if not self._unread else "takes most of what can be read"
            self.notes.append(f"the dump holds {len(programs)} programs; this one, {program.label}, {most}")
        self._tell_unread()

    def _add_program(self, program: Program) -> None:
        self._read_program(program)
        self._tell_unread()

    def _read_program(self, program: Program) -> None:
        self.module = self._part(lambda: program.module)
        self.module_before = self._part(lambda: program.module_before)
        protos = [file for file in program.files if file.kind == "module" and ".pb" in file.path.suffixes]
        for file in protos:
            if file.name is not None and file.name.is_final:
                source = self._part(partial(open_source, file.path))
                if source is not None:
                    self._add_assignment(source.view)
        if self.assignment is None:
            self.assignment = self._part(lambda: program.allocations)
        if (usage := self._part(lambda: _usage_of(program))) is not None:
            self._add_usage(usage)

    def _part(self, read: Callable[[], _Part]) -> _Part | None:
        """The result of `read`; None for a damaged file, since other files of the program may suffice."""
        try:
            return read()
        except (DumpError, UnsupportedError, OSError) as error:
            self._unread[str(error)] = error
            return None

    def _tell_unread(self) -> None:
        """Warn of files that could not be read; raise the first error if nothing else is known."""
        errors = list(self._unread.values())
        if errors and self.is_empty():
            raise errors[0]
        for error in errors:
            warn(f"left out: {error}", DumpWarning)

    def _weight(self, program: Program) -> int:
        """The total memory of a program; 0 if unknown."""
        usage = self._part(lambda: _usage_of(program))
        if usage is not None and 0 in usage.spaces and usage.spaces[0].total is not None:
            return usage.spaces[0].total.bytes
        assignment = self._part(lambda: program.allocations)
        return 0 if assignment is None else assignment.bytes_by_memory_space().get(0, 0)

    def _add_assignment(self, view: memoryview) -> None:
        try:
            self.assignment = read_allocations(view, kind="proto")
        except DumpError:
            return
        self.traces = read_traces(view)

    def _add_file(self, source: Any) -> None:
        # Determine the kind from the beginning, so that unsupported files are not read whole.
        head = memoryview(open_head(source, PROBE_BYTES))
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        self.path = self.path or path
        if is_text(head):
            self._add_text(str(open_source(source).view, "utf-8", "backslashreplace"), source)
            return
        refuse_bytecode(head, path)
        refuse_utf16(head, path)
        kind = recognise(source)
        if kind == "memory report":
            self._add_usage(read_usage_text(_text_of(open_source(source).view), path))
            return
        if kind == "binary" and is_alone(head):
            raise DumpError(ALONE, path=path)
        if kind not in ("hlo", "snapshot"):
            raise UnsupportedError(f"{path or 'this'} is no HLO, no buffer assignment and no text about memory")
        module = read_hlo(source, index=self.index)
        self._add_module(module)
        if kind == "hlo":
            self._add_assignment(open_source(source).view)
        if self.assignment is not None:
            self.module = module

    def _add_text(self, text: str, source: Any) -> None:
        """Read a text; `source` is its file, if any."""
        origin = text if source is None else source
        if text.removeprefix(BYTE_ORDER_MARK).lstrip().startswith("BufferAssignment:"):
            self.assignment = read_allocations(origin)
            return
        header = _HEADER.search(text, 0, 1 << 16)
        usage = usage_in(text[: header.start()] if header else text)  # a log may go on with HLO
        if usage is None and _ALLOCATED.match(text):
            raise UnsupportedError(f"{self.path or 'this'} {_OF_ALLOCATIONS}")
        if usage is None and (header or not (_EXHAUSTED in text or is_of_runtime(text))):
            try:
                self._add_module(read_hlo(origin, index=self.index))
            except DumpError as error:
                if header or error.message != NO_COMPUTATION:
                    raise
                raise _unknown(text, self.path) from error
        else:
            self._add_usage(usage or read_usage_text(text, self.path))  # raises

    def _add_usage(self, text: UsageText) -> None:
        if text.lists_buffers:
            self.text = text
        else:
            self.limits = text


def _is_report(line: str) -> bool:
    """Whether a line is about memory usage."""
    return _EXHAUSTED in line or usage_in(line) is not None


def _usage_in_error(error: BaseException) -> UsageText:
    """The memory usage in an exception's message, or in one behind it. DumpError as for `read_usage_text`."""
    texts = ["\n".join([str(one), *getattr(one, "__notes__", ())]) for one in _errors_behind(error)]
    found = next((usage for text in texts if (usage := usage_in(text)) is not None), None)
    return found or read_usage_text(next(filter(is_of_runtime, texts), texts[0]))  # raises


def _errors_behind(error: BaseException) -> Iterator[BaseException]:
    """An exception, and its causes, contexts and group members: libraries that run programs wrap their errors."""
    todo, seen = [error], {id(error)}
    for one in todo:
        yield one
        gathered = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *gathered):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                todo.append(other)


def _unknown(text: str, path: str | None) -> DumpError:
    """The error for a text of no known kind. (Prefixes of log lines are removed only from memory usage reports.)"""
    message = "no HLO, no buffer assignment and no text about memory"
    if (found := _BEHIND.search(text)) is None:
        return DumpError(message, path=path)
    message += f": cut off what a log put before {found[1]!r} and each line that follows"
    return DumpError(message, path=path, line=text.count("\n", 0, found.end()) + 1)


def _usage_of(program: Program) -> UsageText | None:
    """The memory usage report of a program; None if there is none. Errors as for `read_usage_text`."""
    files = [file for file in program.files if file.kind == "memory report"]
    for file in sorted(files, key=lambda file: ".pb" in file.path.suffixes):
        view, path = open_source(file.path)
        text = _text_of(view)
        return None if _ALLOCATED.match(text) or not text else read_usage_text(text, path)
    return None


def _text_of(view: memoryview) -> str:
    """A memory usage report (text or a protobuf message) as text; empty for a message without tables."""
    return str(view, "utf-8", "backslashreplace") if is_text(view) else usage_report_text(view) or ""


def material_of(source: Any, index: int | None = None) -> Material:
    """What a source, or a list of sources, says about one program."""
    found = Material(index)
    for one in source if isinstance(source, (list, tuple)) else [source]:
        found.add(one)
    return found


def sorted_by_program(sources: Sequence[str | bytes | Program], index: int | None = None) -> list[Material]:
    """What sources say about each program: an error, a module and an assignment are joined if their names agree."""
    found: list[tuple[Any, Material]] = []
    for source in sources:
        name = parse_name(os.path.basename(source)) if isinstance(source, str) else None
        key = None if name is None else (os.path.dirname(str(source)), name.time, name.number, name.module)
        own = material_of(source, index)
        for n, (other, home) in enumerate(found):
            if (None in (key, other) or key == other) and home.fits(own):
                home.take(own)
                found[n] = (other or key, home)
                break
        else:
            found.append((key, own))
    return [one for _, one in found]
