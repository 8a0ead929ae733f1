"""Forks in the middle of what a child could not go on with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def printed(program: str) -> str:
    """What a process prints that runs a program."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize(
    ("module", "call"),
    [("strided.runtime.machine", "strided.get_num_threads()"), ("logging", "strided.kernels.background.undisturbed()")],
)
@pytest.mark.slow
def test_forks_wait_while_another_thread_imports_what_conversions_need(module: str, call: str) -> None:
    """Python keeps the lock of a module that was being imported, so that the child waits for ever."""
    program = f"""
import os, signal, sys, threading, time
import strided, strided.kernels.background

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            begun.set()
            time.sleep(0.2)

assert {module!r} not in sys.modules
begun = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: {call})
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(5)
    {call}
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""
    assert printed(program) == "0\n"


@pytest.mark.slow
def test_two_threads_that_fork_at_once_leave_the_lock_free() -> None:
    """The first one freed the lock in place of the second one, which then took it and never freed it."""
    program = """
import os, threading, time

def let_the_second_wait():
    if threading.current_thread() is first:
        second.start()
        time.sleep(0.2)

os.register_at_fork(after_in_parent=let_the_second_wait)
from strided.kernels import background

def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

background.undisturbed()
first, second = threading.Thread(target=fork), threading.Thread(target=fork)
first.start()
first.join()
second.join()
print(background.undisturbed().acquire(timeout=1))
"""
    assert printed(program) == "True\n"


def test_forks_wait_before_they_hold_what_another_thread_needs_to_go_on() -> None:
    """Importing Numba takes the lock of logging, which forks hold, too: they would wait for each other."""
    program = """
import os, threading, time
from strided.kernels import background

def work():
    with background.undisturbed():
        import logging
        begun.set()
        time.sleep(0.2)  # the fork begins
        logging.getLogger("strided")

begun = threading.Event()
thread = threading.Thread(target=work)
thread.start()
begun.wait()
start = time.monotonic()
child = os.fork()
if not child:
    os._exit(not background.undisturbed().acquire(timeout=1))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - start < 5)
thread.join()
"""
    assert printed(program) == "0 True\n"


@pytest.mark.slow
def test_forks_wait_for_a_lock_that_is_named_while_they_wait() -> None:
    """Python runs the hooks that were there when the fork began, and it went on in the middle of Numba's import."""
    program = """
import os, threading, time
from strided.runtime import locks

lock, begun, is_busy = locks.own_lock(threading.RLock), threading.Event(), False

def work():
    global is_busy
    with locks.importing():
        begun.set()
        time.sleep(0.2)  # the fork waits for this
        locks.hold_forks(lock, 10)
        lock().acquire()
    is_busy = True
    time.sleep(0.2)
    is_busy = False
    lock().release()

thread = threading.Thread(target=work)
thread.start()
begun.wait()
child = os.fork()
if not child:
    os._exit(is_busy or not lock().acquire(timeout=1) or not locks.importing().acquire(timeout=1))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
print(lock().acquire(timeout=1), locks.importing().acquire(timeout=1))
# Both are free for others, too.
lock().release(), locks.importing().release()
other = threading.Thread(target=lambda: print(lock().acquire(timeout=1), locks.importing().acquire(timeout=1)))
other.start()
other.join()
"""
    assert printed(program) == "0\nTrue True\nTrue True\n"
