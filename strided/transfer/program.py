"""Programs: the tasks of a copy as kernel calls, which threads share and execute without Python.

Since tiles repeat, many tasks differ only in their offsets. They share a `Template`, and each has its own shift.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strided import kernels
from strided.kernels import records
from strided.kernels.records import BLOCK, BUFFERS, OF_TASK, SCRATCH_AT
from strided.planning.boxes import LINE_BYTES
from strided.runtime import limits
from strided.runtime.aliases import Bytes, Table
from strided.runtime.threads import Leave, get_num_threads, run
from strided.transfer.flat_memory import address_of, empty_aligned

#: The most tasks, and bytes of tables, of a program that is kept for the next copy.
_MOST_KEPT, _KEPT_BYTES = 1 << 14, 1 << 20
#: The most tasks of a batch. The first batches are smaller.
_MOST_MADE = 1 << 10
#: Bytes of the target that the calling thread writes between checks for Ctrl-C.
_LOOK_BYTES = 1 << 23
#: More than any number of tasks.
_ALL = 1 << 62

#: Stands for a thread's scratch memory in the arguments of a call.
SCRATCH = np.empty(kernels.SCRATCH_BYTES, np.uint8)

#: A copy from one buffer to another.
Copy: TypeAlias = Callable[[Bytes, Bytes], None]


class Call(NamedTuple):
    """One kernel call.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    arguments : tuple
        Its arguments behind source and target: tables first. `SCRATCH` stands for the thread's scratch memory.
    buffers : (int, int)
        Its source and target: `records.SOURCE`, `records.TARGET`, or a block, from `records.BLOCK` on.
    units : (int, int)
        Units of its source and target offsets, in bits.
    """

    kernel: str
    arguments: tuple[Any, ...]
    buffers: tuple[int, int] = (records.SOURCE, records.TARGET)
    units: tuple[int, int] = (8, 8)


class Template(NamedTuple):
    """The calls of tasks that differ only in their shifts.

    Attributes
    ----------
    records : ndarray of int64
        The records of the calls, in order.
    calls : int
        Number of calls.
    tables : tuple of ndarray
        Tables whose addresses are in the records; they must live as long.
    room_bytes : int
        Memory that `run_tasks` needs for itself.
    """

    records: Table
    calls: int
    tables: tuple[Table, ...]
    room_bytes: int


class Task(NamedTuple):
    """A template, and the shifts of source and target in bits."""

    template: Template
    shift: tuple[int, int]


class Program(NamedTuple):
    """Tasks in the form that `run_tasks` takes.

    Attributes
    ----------
    words : ndarray of int64
        The tasks, and the records of their templates.
    address : int
        Address of `words`.
    tasks : int
        Number of tasks.
    templates : tuple of Template
        The templates, which hold the tables that records refer to.
    room_bytes : int
        Memory that `run_tasks` needs for itself.
    """

    words: Table
    address: int
    tasks: int
    templates: tuple[Template, ...]
    room_bytes: int

    @property
    def kept_bytes(self) -> int:
        """Bytes of `words` and of the tables, each counted once."""
        tables = {id(table): table.nbytes for template in self.templates for table in template.tables}
        return sum(tables.values()) + self.words.nbytes


def template_of(calls: Sequence[Call]) -> Template:
    """The template of some calls.

    Raises
    ------
    NotCompiled
        A kernel is not ready. All that are missing are being compiled.
    """
    entries = kernels.entries_of([call.kernel for call in calls])
    found = [
        records.record(*entry, call.arguments, call.buffers, call.units, SCRATCH)
        for entry, call in zip(entries, calls, strict=True)
    ]
    own = [[each for each in call.arguments if isinstance(each, np.ndarray) and each is not SCRATCH] for call in calls]
    shifted = max((tables[0].nbytes for tables in own if tables), default=0)
    return Template(
        np.array([number for each in found for number in each], np.int64),
        len(calls),
        tuple(table for tables in own for table in tables),
        records.ROOM_BYTES + shifted,
    )


def program_of(tasks: Sequence[Task]) -> Program:
    """The program of some tasks."""
    places: dict[int, int] = {}
    templates: list[Template] = []
    rows, end = [], OF_TASK * len(tasks)
    for template, shift in tasks:
        place = places.get(id(template))
        if place is None:
            place = places[id(template)] = end
            end += template.records.size
            templates.append(template)
        rows.append((place, template.calls, *shift))
    words = np.concatenate([np.array(rows, np.int64).reshape(-1), *(template.records for template in templates)])
    room = max((template.room_bytes for template in templates), default=0)
    return Program(words, address_of(words), len(tasks), tuple(templates), room)


class ParallelCopy:
    """A copy by tasks, which are made when it is first called, and kept if they are few.

    Parameters
    ----------
    tasks : callable
        Iterates over the tasks, for the current number of threads.
    task_bytes : int
        Approximate bytes of the target that a task writes.
    block_bytes : tuple of int
        Bytes of each staging block, two at most.
    divides : bool
        Whether threads may share the tasks.
    """

    def __init__(
        self, tasks: Callable[[], Iterator[Task]], task_bytes: int, block_bytes: tuple[int, ...], divides: bool
    ) -> None:
        self._tasks, self._block_bytes, self._divides = tasks, block_bytes, divides
        self._until_look = max(1, _LOOK_BYTES // max(1, task_bytes))
        self._kept: tuple[int, Program] | None = None

    def __call__(self, source: Bytes, target: Bytes) -> None:
        """Copy.

        Raises
        ------
        NotCompiled
            A kernel is not ready.
        """
        threads = get_num_threads() if self._divides else 1
        # The tasks depend on the number of threads.
        if self._kept is not None and self._kept[0] == threads:
            program = self._kept[1]
            self._carry_out([program], source, target, min(threads, program.tasks))
            return
        made: list[Task] | None = []

        def programs() -> Iterator[Program]:
            nonlocal made
            tasks, size = self._tasks(), threads
            while some := list(islice(tasks, size)):
                if made is not None:
                    made = made + some if len(made) + len(some) <= _MOST_KEPT else None
                size = min(4 * size, _MOST_MADE)
                yield program_of(some)

        following = programs()
        # Make the first batch now, so that NotCompiled is raised before any thread starts.
        first = list(islice(following, 1))
        self._carry_out(chain(first, following), source, target, threads)
        if made is not None:
            program = program_of(made)
            if program.kept_bytes <= _KEPT_BYTES:
                self._kept = threads, program

    def _carry_out(self, programs: Iterable[Program], source: Bytes, target: Bytes, threads: int) -> None:
        """Execute programs, each with all threads."""
        run_tasks = kernels.wanted("run_tasks")
        caller = threading.get_ident()
        counter, stopped = np.zeros(1, np.int64), False

        def pieces() -> Iterator[tuple[Program, Table]]:
            nonlocal counter
            for program in programs:
                counter = np.zeros(1, np.int64)
                while counter[0] < program.tasks and not stopped:
                    yield program, counter

        def work(program: Program, taken: Table) -> None:
            # Only the calling thread returns to look for Ctrl-C.
            is_caller = threading.get_ident() == caller
            most = self._until_look if is_caller else _ALL
            try:
                room, _words = _room(program.room_bytes)
                blocks = blocks_of(self._block_bytes)
            except MemoryError:
                if is_caller:
                    raise
                raise Leave from None
            counted = address_of(taken)
            run_tasks(source, target, room, _places_of(blocks), program.address, program.tasks, counted, most)

        def stop() -> None:
            nonlocal stopped
            stopped = True
            counter[0] = _ALL

        run(work, pieces(), threads=threads, stop=stop)


def single_task_copy(program: Program, block_bytes: tuple[int, ...] = ()) -> Copy:
    """The copy by a program of one task, in the calling thread."""
    run_tasks = kernels.wanted("run_tasks")

    def copy(source: Bytes, target: Bytes) -> None:
        # Keep references to all memory that is passed by address: the thread's memory, the program, and with it the
        # tables. A signal handler may convert another array meanwhile, and replace the thread's memory.
        _, address, tasks, _, size = program
        room_bytes, room, _words = _thread_memory.room
        if room_bytes < size:
            room, _words = _room(size)
        blocks = blocks_of(block_bytes) if block_bytes else []
        places = _places_of(blocks) if blocks else _NO_BLOCKS
        run_tasks(source, target, room, places, address, tasks, _NO_COUNTER, tasks)

    return copy


#: Passed instead of the address of a counter if one thread does all tasks.
_NO_COUNTER = 0


class _ThreadMemory(threading.local):
    """A thread's memory: scratch for kernels, staging blocks, and room for `run_tasks` as (bytes, address, memory)."""

    def __init__(self) -> None:
        self.scratch = self.blocks = np.empty(0, np.uint8)
        self.room: tuple[int, int, Table] = 0, 0, np.empty(0, np.int64)


_thread_memory = _ThreadMemory()


def scratch() -> Bytes:
    """This thread's scratch memory for kernels."""
    if not _thread_memory.scratch.size:
        _thread_memory.scratch = empty_aligned(kernels.SCRATCH_BYTES)
    return _thread_memory.scratch


def _room(size: int) -> tuple[int, Table]:
    """This thread's room for `run_tasks`, of at least `size` bytes: its address, and the array that keeps it alive."""
    if _thread_memory.room[0] < size:
        words = empty_aligned(size).view(np.int64)
        words[SCRATCH_AT] = address_of(scratch())
        _thread_memory.room = size, address_of(words), words
    return _thread_memory.room[1:]


def blocks_of(sizes: tuple[int, ...]) -> list[Bytes]:
    """This thread's memory for the blocks of a staged copy, of at least `sizes` bytes."""
    if not sizes:
        return []
    # Allocate what the limits allow at the first time, so that it need not grow.
    each = max(*sizes, limits.current.staging_bytes // len(sizes)) + LINE_BYTES - 1 & -LINE_BYTES
    if _thread_memory.blocks.size < each * len(sizes):
        _thread_memory.blocks = empty_aligned(each * len(sizes))
    memory = _thread_memory.blocks
    return [memory[k * each : (k + 1) * each] for k in range(len(sizes))]


_NO_BLOCKS = (0,) * 2 * (BUFFERS - BLOCK)


def _places_of(blocks: Sequence[Bytes]) -> tuple[int, ...]:
    """The address and size of each block, as `run_tasks` takes them; zeros for unused ones."""
    places = [number for block in blocks for number in (address_of(block), block.size)]
    return *places, *_NO_BLOCKS[len(places) :]
