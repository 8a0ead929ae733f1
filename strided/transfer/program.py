"""Programs: the tasks of a copy as calls of kernels, which threads share and carry out without Python.

The tables of a task depend on where it lies only as far as tiles repeat: tasks that are alike have a `Template` in
common, and each has a shift of its own.
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

#: Tasks and bytes of the tables of a program that is kept for the next copy.
_MOST_KEPT, _KEPT_BYTES = 1 << 14, 1 << 20
#: Most tasks that are made before any of them is begun. The first ones are few.
_MOST_MADE = 1 << 10
#: Bytes of the target that one thread writes until it looks for Ctrl-C.
_LOOK_BYTES = 1 << 23
#: More than any number of tasks.
_ALL = 1 << 62

#: Scratch memory where a call is recorded.
SCRATCH = np.empty(kernels.SCRATCH_BYTES, np.uint8)

#: A copy from one buffer to another.
Copy: TypeAlias = Callable[[Bytes, Bytes], None]


class Call(NamedTuple):
    """One call of a kernel.

    Attributes
    ----------
    kernel : str
        Its name.
    arguments : tuple
        What it takes behind source and target: tables first. `SCRATCH` stands for every thread's own scratch memory.
    buffers : (int, int)
        What it takes as source and target: `records.SOURCE`, `records.TARGET`, or blocks from `records.BLOCK` on.
    units : (int, int)
        Bits that one of its offsets counts on both sides.
    """

    kernel: str
    arguments: tuple[Any, ...]
    buffers: tuple[int, int] = (records.SOURCE, records.TARGET)
    units: tuple[int, int] = (8, 8)


class Template(NamedTuple):
    """The calls of tasks that are alike, one after the other.

    Attributes
    ----------
    records : ndarray of int64
        Their records.
    calls : int
        How many they are.
    tables : tuple of ndarray
        What must live as long as the records.
    room_bytes : int
        What `run_tasks` needs for itself.
    """

    records: Table
    calls: int
    tables: tuple[Table, ...]
    room_bytes: int


class Task(NamedTuple):
    """A template, and the bits to shift the source and the target by."""

    template: Template
    shift: tuple[int, int]


class Program(NamedTuple):
    """Tasks as `run_tasks` takes them.

    Attributes
    ----------
    words : ndarray of int64
        The tasks, and their records.
    address : int
        Of the words.
    tasks : int
        How many they are.
    templates : tuple of Template
        What must live as long as the records.
    room_bytes : int
        What `run_tasks` needs for itself.
    """

    words: Table
    address: int
    tasks: int
    templates: tuple[Template, ...]
    room_bytes: int

    @property
    def kept_bytes(self) -> int:
        """The bytes of its tables, each counted once, and of itself."""
        tables = {id(table): table.nbytes for template in self.templates for table in template.tables}
        return sum(tables.values()) + self.words.nbytes


def template_of(calls: Sequence[Call]) -> Template:
    """The template of some calls.

    Raises
    ------
    NotCompiled
        A kernel is not ready. All of them are being compiled.
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


class Copying:
    """A copy by tasks, which are made when it is first carried out, and kept if they are few.

    Parameters
    ----------
    tasks : callable
        Lists the tasks, for as many threads as are set.
    task_bytes : int
        Bytes of the target that a task writes, about.
    block_bytes : tuple of int
        Bytes of each block between source and target, two at most.
    divides : bool
        Whether threads may share it.
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
        # Tasks are made for a number of threads.
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
        # If a kernel is missing, no thread has begun.
        first = list(islice(following, 1))
        self._carry_out(chain(first, following), source, target, threads)
        if made is not None:
            program = program_of(made)
            if program.kept_bytes <= _KEPT_BYTES:
                self._kept = threads, program

    def _carry_out(self, programs: Iterable[Program], source: Bytes, target: Bytes, threads: int) -> None:
        """Carry out programs, each by all threads."""
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
            # Ctrl-C comes to the thread that called.
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


def at_once(program: Program, block_bytes: tuple[int, ...] = ()) -> Copy:
    """The copy by a program of one task, on one thread."""
    run_tasks = kernels.wanted("run_tasks")

    def copy(source: Bytes, target: Bytes) -> None:
        # What is known by its address is held here, as a signal's handler may convert an array meanwhile: the thread's
        # memory, the program, and with it all tables whose addresses are in its records.
        _, address, tasks, _, size = program
        room_bytes, room, _words = _own.room
        if room_bytes < size:
            room, _words = _room(size)
        blocks = blocks_of(block_bytes) if block_bytes else []
        places = _places_of(blocks) if blocks else _NO_BLOCKS
        run_tasks(source, target, room, places, address, tasks, _UNCOUNTED, tasks)

    return copy


#: In place of the address of a counter: all tasks are one thread's.
_UNCOUNTED = 0


class _Own(threading.local):
    """A thread's own memory: the scratch of kernels, blocks, and the room of `run_tasks` with its bytes and address."""

    def __init__(self) -> None:
        self.scratch = self.blocks = np.empty(0, np.uint8)
        self.room: tuple[int, int, Table] = 0, 0, np.empty(0, np.int64)


_own = _Own()


def scratch() -> Bytes:
    """This thread's scratch memory for kernels."""
    if not _own.scratch.size:
        _own.scratch = empty_aligned(kernels.SCRATCH_BYTES)
    return _own.scratch


def _room(size: int) -> tuple[int, Table]:
    """The address of this thread's room for `run_tasks`, of at least so many bytes, and what has to be held for it."""
    if _own.room[0] < size:
        words = empty_aligned(size).view(np.int64)
        words[SCRATCH_AT] = address_of(scratch())
        _own.room = size, address_of(words), words
    return _own.room[1:]


def blocks_of(sizes: tuple[int, ...]) -> list[Bytes]:
    """This thread's memory for the blocks of a staged copy, of at least so many bytes each."""
    if not sizes:
        return []
    # All take as much as limits say, so that it is made once.
    each = max(*sizes, limits.current.staging_bytes // len(sizes)) + LINE_BYTES - 1 & -LINE_BYTES
    if _own.blocks.size < each * len(sizes):
        _own.blocks = empty_aligned(each * len(sizes))
    memory = _own.blocks
    return [memory[k * each : (k + 1) * each] for k in range(len(sizes))]


_NO_BLOCKS = (0,) * 2 * (BUFFERS - BLOCK)


def _places_of(blocks: Sequence[Bytes]) -> tuple[int, ...]:
    """The address and the bytes of each block, as `run_tasks` takes them; zeros for those that are not used."""
    places = [number for block in blocks for number in (address_of(block), block.size)]
    return *places, *_NO_BLOCKS[len(places) :]
