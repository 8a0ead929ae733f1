"""Programs: tasks that threads share without Python, and their records."""

from __future__ import annotations

import gc
import itertools
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided import kernels
from strided.kernels import records
from strided.kernels.compile import words_of
from strided.planning import plan
from strided.runtime import cache, limits
from strided.runtime.threads import _Job
from strided.transfer import copy as transfer
from strided.transfer import program
from strided.transfer.program import Call, ParallelCopy, Task, blocks_of, program_of, single_task_copy, template_of
from tests.regions import Guarded, expected, map_of
from tests.thinned import thinned

RUN = 64


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    sd.set_num_threads(None)


def tasks_of(count: int) -> Iterator[Task]:
    """One for each run of `RUN` bytes; neighbours change places."""
    template = template_of([Call("copy", (0, 0, RUN, 0))])
    for k in range(count):
        yield Task(template, (8 * RUN * k, 8 * RUN * (k ^ 1)))


def swapped(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.reshape(-1, 2, RUN)[:, ::-1].reshape(-1)


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
@pytest.mark.parametrize("count", [2, 4, 60, 5000])
def test_every_task_is_done_whoever_takes_it(count: int, threads: int) -> None:
    sd.set_num_threads(threads)
    rng = np.random.default_rng(0)
    copy = ParallelCopy(lambda: tasks_of(count), RUN, (), True)
    for _ in range(3):  # tasks are made, then kept
        source, target = rng.integers(0, 256, count * RUN, np.uint8), np.zeros(count * RUN, np.uint8)
        copy(source, target)
        np.testing.assert_array_equal(target, swapped(source))


@pytest.mark.parametrize(("divides", "threads"), [(True, 4), (False, 1)])
def test_tasks_that_may_meet_in_a_byte_are_done_by_one_thread(
    divides: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(*arguments: Any, threads: int, stop: Callable[[], None]) -> None:
        asked.append(threads)
        threads_run(*arguments, threads=threads, stop=stop)

    threads_run = program.run
    monkeypatch.setattr(program, "run", run)
    sd.set_num_threads(4)
    copy = ParallelCopy(lambda: tasks_of(60), RUN, (), divides)
    source, target = np.ones(60 * RUN, np.uint8), np.zeros(60 * RUN, np.uint8)
    for _ in range(2):  # tasks are made, then kept
        copy(source, target)
    assert asked == [threads] * 2
    assert target.all()


def test_tasks_are_made_for_a_number_of_threads() -> None:
    asked = []

    def tasks() -> Iterator[Task]:
        asked.append(sd.get_num_threads())
        return tasks_of(100)

    copy = ParallelCopy(tasks, RUN, (), True)
    source, target = np.arange(100 * RUN, dtype=np.uint8), np.zeros(100 * RUN, np.uint8)
    for threads in (2, 2, 3, 3, 2):
        sd.set_num_threads(threads)
        copy(source, target)
    assert asked == [2, 3, 2]


def test_many_tasks_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strided.transfer.program._MOST_KEPT", 99)
    source, target = np.arange(100 * RUN, dtype=np.uint8), np.zeros(100 * RUN, np.uint8)
    for count, kept in ((98, True), (100, False)):
        copy = ParallelCopy(lambda count=count: tasks_of(count), RUN, (), True)
        copy(source, target)
        assert (copy._kept is not None) == kept


@pytest.mark.parametrize("threads", [1, 4])
def test_what_goes_wrong_while_tasks_are_made_is_raised(threads: int) -> None:
    sd.set_num_threads(threads)

    def tasks() -> Iterator[Task]:
        yield from itertools.islice(tasks_of(1 << 20), 300)
        raise ArithmeticError("no more")

    source, target = np.zeros(300 * RUN, np.uint8), np.ones(300 * RUN, np.uint8)
    copy = ParallelCopy(tasks, RUN, (), True)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="no more"):
            copy(source, target)
    assert copy._kept is None


@pytest.mark.parametrize("threads", thinned([4, 1], 2))
@pytest.mark.parametrize("begun", thinned([300, 0], 2))
@pytest.mark.slow
def test_what_goes_wrong_keeps_no_buffer_alive(threads: int, begun: int) -> None:
    """A file that is mapped can be closed."""
    sd.set_num_threads(threads)

    def tasks() -> Iterator[Task]:
        yield from itertools.islice(tasks_of(1 << 20), begun)
        raise ArithmeticError("no more")

    buffers = np.zeros(300 * RUN, np.uint8), np.ones(300 * RUN, np.uint8)
    alive = [weakref.ref(buffer) for buffer in buffers]
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ArithmeticError, match="no more"):
            ParallelCopy(tasks, RUN, (), True)(*buffers)
        del buffers
        assert wait_until(lambda: not any(one() is not None for one in alive))
    finally:
        gc.enable()


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether something is so within a second: helpers may end later than the copy."""
    return any(condition() or time.sleep(0.01) for _ in range(100))


def test_blocks_are_as_large_as_the_plan_says() -> None:
    """Limits may have changed since."""
    with limits.replaced(staging_bytes=1 << 13):
        assert [block.size for block in blocks_of((1 << 14,))] == [1 << 14]
        assert [block.size >= 5000 for block in blocks_of((5000, 100))] == [True, True]
        assert blocks_of(()) == []


def test_memory_that_a_copy_uses_outlives_another_copy_within(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler or a finalizer may convert an array, with more memory, before the kernels begin."""
    sizes, lost = (5000, 100), []

    def run_tasks(*_: Any) -> None:
        own = program._thread_memory
        used = [weakref.ref(memory.base) for memory in (own.room[2], own.blocks)]
        program._room(own.room[0] + 8)
        blocks_of((own.blocks.size + 1,))
        lost.append([memory() is None for memory in used])

    task = next(tasks_of(1))
    monkeypatch.setattr(kernels, "wanted", lambda _: run_tasks)
    nothing = np.zeros(RUN, np.uint8)
    single_task_copy(program_of([task]), sizes)(nothing, nothing)
    assert lost == [[False, False]]


def test_ctrl_c_between_two_lines_ends_the_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the calling thread takes any task."""
    sd.set_num_threads(3)
    size = 1 << 26
    template = template_of([Call("copy", (0, 0, size, 0))])
    source, target = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    program = program_of([Task(template, (0, 0))] * (1 << 17))

    def interrupted(job: Any) -> None:
        time.sleep(0.1)
        raise KeyboardInterrupt

    drain = _Job.drain
    caller = threading.get_ident()
    monkeypatch.setattr(_Job, "drain", lambda job: (interrupted if threading.get_ident() == caller else drain)(job))
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        ParallelCopy(lambda: iter(()), size, (), True)._carry_out([program], source, target, 3)
    assert time.perf_counter() - start < 20


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs a signal to this thread")
@pytest.mark.parametrize("threads", thinned([3, 1], 2))
def test_ctrl_c_ends_a_long_copy_soon(threads: int) -> None:
    sd.set_num_threads(threads)
    size = 1 << 26
    template = template_of([Call("copy", (0, 0, size, 0))])
    source, target = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    # As many as take minutes. All write the same bytes.
    program = program_of([Task(template, (0, 0))] * (1 << 17))
    copy = ParallelCopy(lambda: iter(()), size, (), True)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        copy._carry_out([program], source, target, threads)
    assert time.perf_counter() - start < 20
    timer.join()


@pytest.mark.slow
def test_the_tables_live_as_long_as_the_copy() -> None:
    """They are known by their addresses alone, and what made them may be forgotten."""
    maps = map_of("bf16[40,300]{1,0:T(8,128)(2,1)}"), map_of("bf16[40,300]{1,0}")
    with limits.replaced(small_elements=0, tiny_elements=0):
        source, target = (Guarded(map_, 16, seed=k) for k, map_ in enumerate(maps))
        conversion = transfer._conversion(source.region, target.region)
        assert conversion.run is not None
        cache.forget()
        transfer._executions.cache_clear()
        gc.collect()
        others = [np.full(n, -1, np.int64) for n in range(1, 2000)]  # what was freed is taken for these
        wanted = expected(source.region, target)
        conversion.run(source.region.buffer, target.region.buffer)
        np.testing.assert_array_equal(target.memory, wanted)
        assert len(others) == 1999


def test_a_shift_moves_offsets_by_the_units_of_each_side() -> None:
    """In the numbers of a run, and in the first table; bytes, and elements of four bits."""
    source = np.random.default_rng(1).integers(0, 256, 400, np.uint8)
    target = np.zeros(400, np.uint8)
    single_task_copy(program_of([Task(template_of([Call("copy", (3, 5, 20, 0))]), (80, 160))]))(source, target)
    np.testing.assert_array_equal(target[25:45], source[13:33])
    assert not target[:25].any()
    assert not target[45:].any()

    outer, pieces = np.array([[2, 4], [40, 60]]), np.array([[0, 0, 6]])
    call = Call("nest_bits", (outer, pieces, (1, 1), np.array([[0, 0, 1]]), (0, 0), 4, 8, 0, 0, 0), units=(4, 8))
    target = np.zeros(400, np.uint8)
    single_task_copy(program_of([Task(template_of([call]), (64, 64))]))(source, target)
    nibbles = np.stack([source & 15, source >> 4], axis=1).reshape(-1)
    for from_, to in outer:
        np.testing.assert_array_equal(target[to + 8 : to + 14], nibbles[from_ + 16 : from_ + 22])


@pytest.mark.parametrize("name", list(kernels.HOMES))
def test_a_record_has_room_for_the_arguments_of_every_kernel(name: str) -> None:
    assert words_of(kernels.kernel_of(name).arguments) <= records.MOST_ARGUMENTS


def test_calls_that_no_record_holds_are_refused() -> None:
    for arguments, words in ((tuple(range(99)), "113 int64"), ((0, 0, RUN), "17 int64")):
        with pytest.raises(TypeError, match=f"{words} of arguments for a kernel that takes 18"):
            template_of([Call("copy", arguments)])
    for table in (np.zeros((4, 4), np.int64)[:, :2], np.zeros((2, 2), np.int32)):
        with pytest.raises(TypeError, match="no table"):
            template_of([Call("nest8", (table, table, (0, 0), table, (0, 0)))])


def test_plans_of_fills_have_no_shift() -> None:
    found = plan.plan_fill(map_of("f32[20,300]{1,0:T(8,128)}"), plan.Storage(32))
    assert found is not None
    assert found.shift == (0, 0)
