"""Tables that all threads share: bounded, whatever the threads do, and safe to fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from strided.runtime import cache
from strided.runtime.cache import BoundedCache
from strided.runtime.lazy import lazy


def test_the_oldest_goes_first_and_a_replaced_value_drops_none() -> None:
    table = BoundedCache[str, int](2)
    for key, value in [("a", 1), ("b", 2), ("a", 3), ("c", 4)]:
        assert table.keep(key, value) == value
    assert (table.get("a"), table.get("b"), table.get("c"), len(table)) == (None, 2, 4, 2)


def test_many_threads_add_at_once_and_the_limit_holds() -> None:
    """A dict that is popped while another thread looks for its first key raises, once in some ten thousand times."""
    table = BoundedCache[int, int](16)
    start, longest = threading.Barrier(8), 0

    def add(first: int) -> int:
        start.wait(timeout=60)
        most = 0
        for n in range(first, first + 20_000):
            table.keep(n, n)
            most = max(most, len(table))
        return most

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            longest = max(pool.map(add, range(0, 8 * 20_000, 20_000)))
    finally:
        sys.setswitchinterval(interval)
    assert longest == 16


def test_whatever_runs_while_a_value_is_kept_may_keep_another() -> None:
    """A finalizer or a signal's handler that converts, in the thread that has the lock."""
    program = """
from strided.runtime.cache import BoundedCache

table = BoundedCache(2)

class Dropped:
    def __del__(self):
        table.keep("finalizer", 3)

table.keep(1, Dropped())
table.keep(2, 2)
table.keep(3, 3)
assert table.get("finalizer") == table.get(3) == 3
table.keep(4, 4)
assert len(table) == 2
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "done\n"


def test_threads_that_compute_a_value_at_once_share_the_first() -> None:
    together = threading.Barrier(2)

    class Owner:
        @lazy
        def value(self) -> object:
            together.wait(timeout=60)
            return object()

    owner = Owner()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: owner.value, range(2))
    assert first is second is owner.value


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_forked_while_the_lock_is_held_goes_on() -> None:
    table = BoundedCache[int, int](2)
    with cache._lock():
        child = os.fork()
        if not child:
            os._exit(table.keep(1, 7))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
