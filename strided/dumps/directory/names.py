"""Parse XLA's names of dump files.

``[<time stamp>.]module_<number>.<module>[.cl_<number>].<what>``, where <what> is one of

* ``<stage>.txt``, ``<stage>.hlo.pb[.gz]``, ``<stage>.hlo``: a module, where <stage> is ``before_optimizations``,
  ``after_optimizations`` (with a prefix ``cpu_``, ``gpu_``, ...), or the number, pipeline and pass of an intermediate
  dump;
* ``<stage>-buffer-assignment.txt``, ``-buffer-assignment-values.txt``, ``-memory-usage-report.txt``,
  ``-live-range.txt``;
* ``snapshot.<run>.pb``, ``execution_<run>.hlo_snapshot.pb``, ``execution_<run>.hlo_unoptimized_snapshot.pb`` or
  ``.txt``: the arguments and results of one run.

A module's name may contain dots and numbers (``SyncTensorsGraph.6698``), and so may an intermediate stage
(``0012.pipeline.after_x.before_y``): a number begins a stage only if a pipeline and a pass follow it. In names of other
files, the end of the module's name is ambiguous; `with_modules` finds it by the other files of the folder.

XLA leaves out the module's name if the whole would be longer than 255 characters. Renamed files (``<program>.hlo.txt``,
``<program>.buffer-assignment.txt``) are recognised, too.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

#: The kinds of files, in the order in which they are listed.
KINDS = ("module", "snapshot", "allocations", "memory report", "used values", "live ranges", "folder", "other")

_NAMED_STAGE = r"(?:sm_\d+\.\d+[a-z]?_)?[A-Za-z0-9_]*(?:before|after)_[A-Za-z0-9_]+"
_NUMBERED_STAGE = r"\d{4,}\.(?!\d+\.)[^./]+\.[^/]*(?<!_optimizations)(?<!_optimizations\.hlo)"
_STAGE = rf"(?P<stage>{_NAMED_STAGE}|{_NUMBERED_STAGE})"
_WHAT = (
    ("snapshot", r"snapshot\.(?P<run>-?\d+)\.pb"),
    ("snapshot", r"execution_(?P<run>\d+)\.hlo_(?P<unoptimized>unoptimized_)?snapshot\.(?:pb|txt)"),
    ("allocations", rf"{_STAGE}-buffer-assignment\.txt"),
    ("used values", rf"{_STAGE}-buffer-assignment-values\.txt"),
    ("memory report", rf"{_STAGE}-memory-usage-report\.(?:txt|pb)"),
    ("live ranges", rf"{_STAGE}-live-range\.txt"),
    ("module", rf"{_STAGE}\.(?:txt|hlo|hlo\.txt|hlo\.pb|HloProto\.pb)"),
)
#: The same for files without the word "module" in their name.
_PLAIN = (
    ("allocations", r"buffer-assignment\.txt"),
    ("memory report", r"memory-usage-report\.txt"),
    ("module", r"(?:(?P<stage>before_optimizations)\.)?(?:hlo\.txt|hlo\.pb|HloProto\.pb|hlo)"),
)

_XLA = re.compile(r"(?P<prefix>.*?)module_(?:(?P<number>\d+)(?=\.|$)\.?)?(?P<rest>.*)", re.DOTALL)
_NOT_ASCII = re.compile(rb"[^\0-\x7f]")
_CL = re.compile(r"\.cl_\d+$")
_ENDS = [(kind, re.compile(rf"(?:(?P<module>.*?)\.)??{pattern}(?:\.gz)?", re.DOTALL)) for kind, pattern in _WHAT]
_PLAIN_ENDS = [(kind, re.compile(rf"(?P<module>.+?)\.{pattern}(?:\.gz)?", re.DOTALL)) for kind, pattern in _PLAIN]

#: The limit of file systems: 255 bytes or UTF-16 units.
_LONGEST = 255


@dataclass(frozen=True)
class DumpName:
    """The parsed name of a dump file.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    module : str
        The module's name; empty if XLA left it out.
    number : int or None
        XLA's number of the module within its process.
    time : str
        A time stamp or another prefix; usually empty.
    stage : str
        "before_optimizations", "cpu_after_optimizations", ...; empty for snapshots.
    run : str
        For a snapshot: the run.
    is_unoptimized : bool
        For a snapshot: whether it has the module before optimizations, and only arguments.
    rest : str
        For other files: what follows the number. `module` is then the part before its first dot.
    """

    kind: str
    module: str
    number: int | None = None
    time: str = ""
    stage: str = ""
    run: str = ""
    is_unoptimized: bool = False
    rest: str = ""

    @property
    def is_final(self) -> bool:
        """Whether it belongs to the module after all optimizations."""
        return self.stage == "" or self.stage.endswith("after_optimizations")


def parse_name(name: str) -> DumpName | None:
    """Parse a file's name; None if it is not one of XLA's.

    >>> parse_name("module_0004.jit_f.cpu_after_optimizations-buffer-assignment.txt")
    DumpName(kind='allocations', module='jit_f', number=4, time='', stage='cpu_after_optimizations', ...)
    >>> parse_name("module_0004.jit_f.snapshot.-12.pb").run
    '-12'
    """
    if len(name) > _LONGEST:
        return None
    xla = _XLA.fullmatch(name)
    if xla is None:
        for kind, pattern in _PLAIN_ENDS:
            if match := pattern.fullmatch(name):
                return DumpName(kind, match["module"], stage=match.groupdict("").get("stage", ""))
        return None
    number = None if xla["number"] is None else int(xla["number"][:18])
    time = xla["prefix"].strip("._")
    for kind, pattern in _ENDS:
        if match := pattern.fullmatch(xla["rest"]):
            found = match.groupdict("")
            module, unoptimized = _CL.sub("", found["module"]), bool(found.get("unoptimized"))
            return DumpName(kind, module, number, time, found.get("stage", ""), found.get("run", ""), unoptimized)
    module, rest = xla["rest"].split(".")[0], xla["rest"]
    return DumpName("other", module, number, time, rest=rest) if number is not None else None


def with_modules(names: Sequence[DumpName]) -> list[DumpName]:
    """The names of a folder, where the module of each other file is the longest that the folder's names confirm.

    >>> names = ["module_0001.f.12.before_optimizations.txt", "module_0001.f.12.thunk_sequence.txt"]
    >>> [name.module for name in with_modules([parse_name(name) for name in names])]
    ['f.12', 'f.12']
    """
    known: dict[tuple[str | None, int | None], set[str]] = defaultdict(set)
    for name in names:
        if not name.rest and name.module:
            known[name.time, name.number].add(name.module)
            known[None, name.number].add(name.module)  # other files may lack the time stamp
    found = []
    for name in names:
        modules = (known[name.time, name.number] or known[None, name.number]) if name.rest else ()
        fitting = [module for module in modules if _begins_with(name.rest, module)]
        found.append(replace(name, module=max(fitting, key=len)) if fitting else name)
    return found


def _begins_with(rest: str, module: str) -> bool:
    """Whether `rest` begins with a module's name. JAX's folders keep letters whose bytes XLA replaces by "_"."""
    spelt = _NOT_ASCII.sub(b"_", os.fsencode(rest)).decode()
    return any(f"{one}.".startswith(f"{module}.") for one in (rest, spelt))
