"""The threads of conversions: how many, shared by whom, stopped by what."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.runtime import threads
from tests.thinned import thinned


@pytest.fixture(autouse=True)
def _default_number() -> Iterator[None]:
    yield
    sd.set_num_threads(None)


def test_number_is_as_set_and_none_restores_the_default() -> None:
    default = sd.get_num_threads()
    assert default >= 1
    sd.set_num_threads(7)
    assert sd.get_num_threads() == 7
    sd.set_num_threads(None)
    assert sd.get_num_threads() == default


def test_default_is_no_more_than_the_affinity_mask_allows() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system has no affinity masks")
    assert sd.get_num_threads() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("number", [0, -1, 4097, 10**30, np.int64(2**40)])
def test_absurd_numbers_are_refused(number: int) -> None:
    sd.set_num_threads(3)
    with pytest.raises(ValueError, match="at least 1 and at most 4096"):
        sd.set_num_threads(number)
    assert sd.get_num_threads() == 3


@pytest.mark.parametrize("number", [2.0, "2", True, float("nan"), [2], np.float32(2), np.bool_(1), np.ones(2, int)])
def test_what_is_no_integer_is_refused(number: Any) -> None:
    with pytest.raises(TypeError, match="an integer or None, not "):
        sd.set_num_threads(number)


@pytest.mark.parametrize("number", [1, 4096, np.uint8(5)])
def test_a_number_of_any_integer_type_is_taken(number: int) -> None:
    sd.set_num_threads(number)
    assert sd.get_num_threads() == number
    assert type(sd.get_num_threads()) is int


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_piece_is_done_once(number: int) -> None:
    done: list[int] = []
    threads.run(done.append, ((k,) for k in range(1000)), threads=number)
    assert sorted(done) == list(range(1000))


def test_no_pieces() -> None:
    done: list[int] = []
    threads.run(done.append, [], threads=3)
    assert done == []


def test_pieces_are_begun_in_order() -> None:
    done: list[int] = []
    threads.run(done.append, ((k,) for k in range(100)), threads=1)
    assert done == list(range(100))


@pytest.mark.parametrize("number", [1, 2, 4])
def test_the_first_error_is_raised_and_stops_the_rest(number: int) -> None:
    begun: list[int] = []

    def work(k: int) -> None:
        begun.append(k)
        if k == 10:
            raise OSError("piece 10")
        time.sleep(0.0005)

    with pytest.raises(OSError, match="piece 10"):
        threads.run(work, ((k,) for k in range(10_000)), threads=number)
    assert len(begun) < 5000


@pytest.mark.parametrize("number", [1, 3])
def test_an_error_of_the_pieces_themselves_is_raised(number: int) -> None:
    def pieces() -> Iterator[tuple[int]]:
        yield (1,)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        threads.run(abs, pieces(), threads=number)


def test_a_conversion_inside_a_conversion_ends() -> None:
    done: list[int] = []

    def outer(k: int) -> None:
        threads.run(done.append, ((10 * k + i,) for i in range(10)), threads=4)

    threads.run(outer, ((k,) for k in range(50)), threads=4)
    assert sorted(done) == list(range(500))


def test_many_python_threads_at_once() -> None:
    def convert(n: int) -> int:
        done: list[int] = []
        threads.run(done.append, ((k,) for k in range(n)), threads=1 + n % 4)
        return len(done)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(convert, range(200))) == list(range(200))


def test_nothing_runs_any_more_once_run_has_returned() -> None:
    running = 0
    lock = threading.Lock()

    def work(k: int) -> None:
        nonlocal running
        with lock:
            running += 1
        time.sleep(0.001)
        if k == 3:
            raise KeyError(k)
        with lock:
            running -= 1

    with pytest.raises(KeyError, match=r"^3$"):
        threads.run(work, ((k,) for k in range(100)), threads=4)
    after = running
    time.sleep(0.02)
    assert running == after


def test_ctrl_c_stops_soon() -> None:
    begun = 0
    # A shell starts what runs in its background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work(k: int) -> None:
        nonlocal begun
        begun += 1
        if k == 20:
            _thread.interrupt_main()
        time.sleep(0.001)

    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(work, ((k,) for k in range(5000)), threads=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun < 1000


def _in_child(results: multiprocessing.SimpleQueue[int]) -> None:
    done: list[int] = []
    threads.run(done.append, ((k,) for k in range(100)), threads=3)
    results.put(len(done))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    threads.run(abs, ((k,) for k in range(100)), threads=3)  # so that the parent has helpers
    context = multiprocessing.get_context("fork")
    results: multiprocessing.SimpleQueue[int] = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(results,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert results.get() == 100


def test_at_interpreter_shutdown_the_caller_works_alone() -> None:
    code = (
        "import atexit, strided.runtime.threads as t\n"
        "done = []\n"
        "def late():\n"
        "    t.run(done.append, ((k,) for k in range(50)), threads=4)\n"
        "    print(len(done))\n"
        "import concurrent.futures.thread\n"
        "atexit.register(late)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.stdout.strip() == "50", out.stderr


class Rung(Exception):
    """What a signal's handler raises."""


def _ring(*_: Any) -> None:
    raise Rung


class Helped:
    """Work of which a helper does a long piece, while the calling thread's ends when that has begun."""

    def __init__(self) -> None:
        self.caller = threading.get_ident()
        self.working = threading.Event()
        self.ended: list[int] = []

    def __call__(self, piece: int) -> None:
        if threading.get_ident() == self.caller:
            self.working.wait(10)
        else:
            self.working.set()
            time.sleep(0.5)
            self.ended.append(piece)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_no_helper_works_on_after_a_handler_raised_while_it_was_waited_for() -> None:
    """Any exception, not Ctrl-C alone."""
    before = signal.signal(signal.SIGALRM, _ring)
    helped = Helped()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Rung):
            threads.run(helped, [(0,), (1,)], threads=2)
        assert len(helped.ended) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", thinned(["drain", "_ask", "close"], 3))
def test_no_helper_works_on_after_an_exception_as_a_function_begins(name: str) -> None:
    """Where signals' handlers run, too."""
    helped, stopped = Helped(), list[bool]()
    rung = False

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal rung
        if (
            event == "call"
            and frame.f_code.co_name == name
            and frame.f_code.co_filename == threads.__file__
            and not rung
        ):
            rung = True
            if name != "_ask":
                helped.working.wait(10)
            raise Rung

    pieces = ((k,) for k in range(2))
    usual = sys.getprofile()
    try:
        sys.setprofile(look)
        with pytest.raises(Rung):
            threads.run(helped, pieces, threads=2, stop=lambda: stopped.append(True))
    finally:
        sys.setprofile(usual)
    assert rung
    assert stopped or name == "close"  # all pieces were begun
    assert len(helped.ended) == helped.working.is_set()


def test_a_helper_that_leaves_leaves_the_work_to_others() -> None:
    caller, done = threading.get_ident(), list[int]()
    left = threading.Event()

    def pieces() -> Iterator[tuple[()]]:
        while len(done) < 5:
            yield ()

    def work() -> None:
        if threading.get_ident() != caller:
            left.set()
            raise threads.Leave
        left.wait(10)
        done.append(1)

    threads.run(work, pieces(), threads=3)
    assert len(done) == 5


def in_a_process(program: str) -> str:
    """What a program prints that must end by itself."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.slow
def test_a_finalizer_may_convert_while_helpers_are_started() -> None:
    program = """
import gc
import numpy as np, strided as sd
sd.set_num_threads(64)
x = np.zeros((1024, 4096), np.float32)

class Saved:
    def __init__(self):
        self.me = self
    def __del__(self):
        sd.LayoutArray.from_numpy(x, "{0,1}")
        print("finalized")

gc.collect()
gc.disable()
saved = Saved()
del saved
gc.enable()
gc.set_threshold(10)
sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")
print("done")
"""
    assert in_a_process(program).split()[-1] == "done"


def test_a_handler_may_convert_while_the_first_conversion_counts_cpus() -> None:
    """In the middle of any import: that would leave it half of a module, or a codec that is never found again."""
    program = """
import sys
from strided.runtime import threads

class Handler:
    def find_spec(self, name, *_):
        numbers.append(threads.get_num_threads())

numbers = []
sys.meta_path.insert(0, Handler())
expected = threads.get_num_threads()
sys.meta_path.pop(0)
assert numbers and set(numbers) == {1}, numbers
assert threads.get_num_threads() == expected
assert "encodings.ascii" not in sys.modules
print("done")
"""
    assert in_a_process(program).split() == ["done"]


def test_helpers_are_started_although_a_handler_raised_as_the_lock_was_taken() -> None:
    program = """
import sys
from strided.runtime import threads

class Interrupted(Exception):
    pass

def interrupting(frame, event, argument):
    if event == "c_return" and frame.f_code is threads._ask.__code__ and argument.__name__ == "acquire":
        sys.setprofile(None)
        raise Interrupted

sys.setprofile(interrupting)
try:
    threads.run(print, [("a",), ("b",)], threads=3)
except Interrupted:
    print("interrupted")
threads.run(lambda: None, [()] * 5, threads=3)
print(threads._started)
"""
    assert in_a_process(program).split() == ["interrupted", "2"]


def test_a_handler_may_convert_while_helpers_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, nested = threading.Thread.start, list[int]()

    def interrupted(self: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        threads.run(nested.append, [(k,) for k in range(5)], threads=3)
        start(self)

    monkeypatch.setattr(threads, "_started", 0)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    done: list[int] = []
    threads.run(done.append, [(k,) for k in range(5)], threads=3)
    assert sorted(done) == sorted(nested) == list(range(5))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_ctrl_c_is_ctrl_c_wherever_it_comes() -> None:
    """Waiting by what is written in Python, such as an Event, made a RuntimeError of some."""
    before, rung = signal.signal(signal.SIGALRM, _ring), 0
    try:
        for k in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00001 * k)
                threads.run(time.sleep, [(0.0002,)] * 12, threads=3)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Rung:
                rung += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung
