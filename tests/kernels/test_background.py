"""Kernels compiled in the background: by a process that ends with its parent, whatever happens, and leaves nothing.

The lock of a kernel is held by the test, so that its compilation lasts as long as the test wants.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from strided.kernels import background, compile_process, kernel_of
from strided.kernels.compile import kernel
from tests import paths
from tests.thinned import thinned

fcntl = pytest.importorskip("fcntl")
#: Other systems have limits of address space that they do not keep, and do not say how much of it is in use.
limited = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does it")

#: What processes begin with: `read()` asks for the kernel `copy` and checks what NumPy makes of it meanwhile.
_BEGIN = """
import os, signal, sys, time
import numpy as np, strided as sd
from strided import kernels
values = np.arange(90000, dtype=np.float32)
array = sd.LayoutArray(values.tobytes(), "f32[90000]{0}")

def read():
    assert (array.to_numpy() == values).all()

def until(condition):
    while not condition():
        time.sleep(0.01)

def ready():
    return "copy" in kernels._loaded

def compiling():
    return kernels._compiler._child is not None

read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where kernels are kept."""
    path = tmp_path / "cache" / "strided"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def lock(folder: Path) -> Iterator[int]:
    """The lock without which the kernel is not compiled."""
    handle = os.open(folder / "copy.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield handle
    os.close(handle)


def process(code: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process in a group of its own that runs some code."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder.parent), "STRIDED_COMPILE": ""} | environment
    # From 3.12 on, Python warns of every fork of a process with threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _BEGIN + code]
    return subprocess.Popen(
        command,
        cwd=paths.ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def said(process: subprocess.Popen[str]) -> str:
    """What a process printed that ends well."""
    with process:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    return out


def kept(folder: Path) -> list[str]:
    """The kernels in a folder, in which nothing else is."""
    assert {path.suffix for path in folder.iterdir()} == {".nbc"}
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


#: Whether the kernel was compiled elsewhere.
_HITS = """
until(ready)
read()
print(kernels.kernel_of("copy").compiled.stats.cache_hits)
"""
#: How often it was said that there is no kernel, and why.
_WARNED = """
import warnings
until(lambda: kernels._compiler.failed)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    read()
    read()
assert not ready()
print(len(said), *(str(each.message).partition(", ")[2].partition("instead, ")[2] for each in said))
"""


#: Asks another compiler for the kernel, and prints whether it starts a process, and why it failed.
_ASK_ANOTHER = """
another = kernels.background.Compiler(kernels.load)
another._made_by = lambda command: print("started") or []
another.ask("copy")
until(lambda: another.failed)
print(another.failed["copy"])
"""


def has_ended(pid: int) -> bool:
    """Whether there is no such process any more, within some seconds."""
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_a_kernel_is_ready_some_time_later_and_then_on_disk(folder: Path) -> None:
    code = """
assert not ready()
until(lambda: ready() and not compiling())
read()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child")
"""
    assert said(process(code, folder)) == "no child\n"
    assert kept(folder) == ["copy", "run_tasks"]
    # From disk, without a process.
    code = "import subprocess\nsubprocess.Popen = None\nuntil(ready)\nread()\nprint(*kernels._loaded)"
    assert said(process(code, folder)) == "run_tasks copy\n"


@pytest.mark.slow
def test_a_child_that_is_forked_meanwhile_converts_and_compiles_by_itself(folder: Path, lock: int) -> None:
    code = """
until(compiling)
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    until(ready)
else:
    print(compiling(), flush=True)
    read()
    until(compiling)
    until(ready)
    read()
"""
    running = process(code, folder)
    assert running.stdout is not None
    assert running.stdout.readline() == "False\n"
    fcntl.flock(lock, fcntl.LOCK_UN)
    assert said(running) == "0\n"
    assert kept(folder) == ["copy", "run_tasks"]


@pytest.mark.slow
def test_forks_wait_while_a_kernel_is_loaded(folder: Path) -> None:
    """No lock of Numba's or LLVM's is held in the child."""
    code = """
import threading
inside, go_on = threading.Event(), threading.Event()
compile = kernels.kernel_of("copy").compile

def slowly(**how):
    inside.set()
    go_on.wait()
    return compile(**how)

kernels.kernel_of("copy").compile = slowly
until(inside.is_set)
threading.Timer(0.2, go_on.set).start()
child = os.fork()
assert ready()
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    read()
    kernels.load("fill")
    os._exit(0)
"""
    assert said(process(code, folder)) == "0\n"


@pytest.mark.slow
def test_forks_wait_on_when_a_signal_comes(folder: Path) -> None:
    """Python forks whatever a handler raises meanwhile: the child would find half of Numba, and wait for the rest."""
    code = """
import threading
from strided.kernels import background
loading, forked = threading.Event(), threading.Event()

def load():
    with background.undisturbed():
        loading.set()
        time.sleep(1)
        print("loaded", not forked.is_set())

thread = threading.Thread(target=load)
thread.start()
loading.wait()
sys.unraisablehook = lambda what: print(what.exc_type.__name__)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
child = os.fork()
forked.set()
if not child:
    os._exit(0)
os.waitpid(child, 0)
thread.join()
"""
    assert said(process(code, folder)).splitlines() == ["loaded True", "KeyboardInterrupt"]


@pytest.mark.slow
def test_forks_wait_for_another_thread_that_waits_for_its_kernel(folder: Path) -> None:
    code = """
import threading
inside, compile = threading.Event(), kernels.kernel_of("fill").compile

def slowly(**how):
    inside.set()
    time.sleep(0.2)
    return compile(**how)

kernels.kernel_of("fill").compile = slowly
threading.Thread(target=kernels.load, args=("fill",)).start()
until(inside.is_set)
child = os.fork()
assert "fill" in kernels._loaded
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    os._exit(0)
"""
    assert said(process(code, folder, STRIDED_COMPILE="first")) == "0\n"


@pytest.mark.slow
def test_forks_wait_while_a_process_is_started(folder: Path) -> None:
    """The child would have half a module, and wait for the rest for ever."""
    code = """
import threading
until(ready)
inside = threading.Event()

class Slow:
    def find_spec(name, *_):
        if name == "subprocess":
            inside.set()
            time.sleep(0.2)

sys.meta_path.insert(0, Slow)
sys.modules.pop("subprocess")
kernels.is_ready("fill")
until(inside.is_set)
child = os.fork()
import subprocess
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    os._exit(0)
"""
    assert said(process(code, folder)) == "0\n"


@pytest.mark.parametrize(
    "end", thinned(["", "1 / 0", "os.kill(os.getpid(), signal.SIGINT)", "os._exit(1)", "os.abort()"], 5)
)
def test_nothing_is_left_when_the_process_ends(end: str, folder: Path, lock: int) -> None:
    running = process(f"until(compiling)\nprint(kernels._compiler._child.pid, flush=True)\n{end}", folder)
    assert running.stdout is not None
    child = int(running.stdout.readline())
    with running:
        running.communicate(timeout=60)
    assert has_ended(child)
    assert not list(folder.glob("*.nbc*"))


@pytest.mark.slow
def test_a_forked_child_that_lives_on_does_not_keep_the_compiler_of_its_parent(folder: Path, lock: int) -> None:
    code = """
until(compiling)
print(kernels._compiler._child.pid, flush=True)
if os.fork():
    os._exit(0)
time.sleep(60)
"""
    with process(code, folder) as running:
        try:
            assert running.stdout is not None
            assert has_ended(int(running.stdout.readline()))
        finally:
            os.killpg(running.pid, signal.SIGKILL)


@limited
@pytest.mark.slow
def test_a_process_that_has_little_memory_left_is_not_ended(folder: Path, lock: int) -> None:
    code = """
import resource
kernels.kernel_of("copy")
until(compiling)  # a process that began with the limit would ask for memory for ever
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), -1))
print(flush=True)
"""
    running = process(code + _WARNED, folder)
    assert running.stdout is not None
    running.stdout.readline()
    fcntl.flock(lock, fcntl.LOCK_UN)  # the kernel comes only now
    assert "MB of address space are left" in said(running)


@pytest.mark.slow
@limited
def test_where_little_memory_is_left_no_process_is_started(folder: Path, lock: int) -> None:
    code = """
import resource
until(compiling)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), -1))
"""
    assert re.fullmatch(r"\d+ MB of address space are left \(ulimit -v\)\n", said(process(code + _ASK_ANOTHER, folder)))


@limited
@pytest.mark.slow
def test_numba_is_not_imported_where_it_finds_too_little_memory(folder: Path) -> None:
    code = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20), -1))
try:
    kernels.load("copy")
except MemoryError as error:
    print(error)
"""
    found = said(process(code, folder, OPENBLAS_NUM_THREADS="1"))
    assert re.fullmatch(r"1\d\d MB of address space are left \(ulimit -v\)\n", found)


@limited
@pytest.mark.slow
def test_no_process_is_started_that_would_find_too_little_memory(folder: Path, lock: int) -> None:
    code = """
import resource
until(compiling)
resource.setrlimit(resource.RLIMIT_AS, (1000 << 20, -1))
"""
    expected = "a process may take 1000 MB of address space (ulimit -v); compiling takes 1024 MB\n"
    assert said(process(code + _ASK_ANOTHER, folder, OPENBLAS_NUM_THREADS="1")) == expected


@pytest.mark.slow
def test_code_of_another_version_is_not_taken(folder: Path, tmp_path: Path) -> None:
    """The package is upgraded while a process runs: what the new one compiles is not for this one."""
    paths.copy_of_package(tmp_path)
    with open(tmp_path / "strided/kernels/contiguous.py", "a", encoding="utf-8") as file:
        file.write("# A new version.\n")
    code = f"""
kernels.kernel_of("fill")
sys.path.insert(0, {str(tmp_path)!r})
compiler, handed_over = kernels._compiler, []
made_by = compiler._made_by
compiler._made_by = lambda command: handed_over.append(list(made_by(command))) or handed_over[-1]
compiler.ask("fill")
until(lambda: "fill" in kernels._loaded)
print(len(handed_over[-1][0]) > 1000, kernels.kernel_of("fill").compiled.stats.cache_hits)
"""
    assert said(process(code, folder)).split() == ["True", "Counter()"]


@pytest.mark.slow
def test_a_compiler_that_hangs_is_killed_at_the_end(folder: Path, lock: int) -> None:
    code = """
kernels.background.compile_process.END_SECONDS = 0.1
until(compiling)
os.kill(kernels._compiler._child.pid, signal.SIGSTOP)
"""
    assert said(process(code, folder)) == ""


@pytest.mark.slow
def test_ctrl_c_at_the_terminal_does_not_reach_the_compiler(folder: Path, lock: int) -> None:
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its jobs in the background ignore it
until(compiling)
try:
    print("compiling", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    until(ready)
    read()
    print("ready")
"""
    running = process(code, folder)
    assert running.stdout is not None
    assert running.stdout.readline() == "compiling\n"
    os.killpg(running.pid, signal.SIGINT)
    fcntl.flock(lock, fcntl.LOCK_UN)
    assert said(running) == "ready\n"


@pytest.mark.slow
def test_ctrl_c_at_the_very_end_says_nothing(folder: Path) -> None:
    """LLVM must not be torn down under the thread, so the end waits."""
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)
inside = []

def slowly(**how):
    inside.append(0)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    print("done", flush=True)

kernels.kernel_of("copy").compile = slowly
kernels.kernel_of("copy").is_on_disk = lambda: True
until(lambda: inside)
"""
    assert said(process(code, folder)) == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("switched", [True, False], ids=["switched off", "no folder"])
def test_without_a_folder_kernels_are_handed_over_all_the_same(switched: bool, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "file").touch()
    environment = {"STRIDED_CACHE": "0"} if switched else {}
    file = tmp_path / "file" / "strided"
    assert ": 1" in said(process(_HITS, file, TMPDIR=str(temporary), **environment))
    # Whatever its end, it leaves nothing.
    with process("until(compiling)\nos._exit(1)", file, TMPDIR=str(temporary), **environment) as running:
        assert running.communicate(timeout=60) == ("", "")
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_on_a_full_disk_kernels_are_handed_over_all_the_same(folder: Path) -> None:
    code = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    # Bytecode that Python cuts off at the limit, it takes for whole afterwards.
    assert ": 1" in said(process(code + _HITS, folder, PYTHONDONTWRITEBYTECODE="1"))
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_what_else_the_process_prints_does_not_matter(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')", encoding="utf-8")
    assert ": 1" in said(process(_HITS, folder, PYTHONPATH=f"{tmp_path}{os.pathsep}{paths.ROOT}")).splitlines()[1]


def test_an_isolated_process_has_an_isolated_one_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, variables such as PYTHONPATH may lead to code that is not to be run."""
    for isolated, ignores, option in ((1, 1, "-I"), (0, 1, "-E"), (0, 0, "-P")):
        monkeypatch.setattr(sys, "flags", SimpleNamespace(isolated=isolated, ignore_environment=ignores))
        command = compile_process.command_of(["copy"], None)
        assert command is not None
        assert command[1] == option


@pytest.mark.slow
@pytest.mark.parametrize(
    "without",
    ["sys.executable = ''", "sys.executable = '/bin/python-that-is-not-there'", "sys.frozen = True"],
)
def test_without_another_process_the_thread_compiles(without: str, folder: Path) -> None:
    assert said(process(f"{without}\nuntil(ready)\nread()\nprint('ready')", folder)) == "ready\n"


@pytest.mark.slow
def test_without_a_compiler_numpy_goes_on_and_says_so_once(folder: Path) -> None:
    code = """
def fails(**how):
    raise RuntimeError("no compiler")

kernels.kernel_of("copy").compile = fails
"""
    assert said(process(code + _WARNED, folder)) == "1 several times as slowly: RuntimeError('no compiler')\n"


class Loader:
    """Kernels that are loaded, with what was handed over; one of them cannot be."""

    def __init__(self, bad: str = "") -> None:
        self.loaded: dict[str, bytes] = {}
        self.bad = bad

    def __call__(self, name: str, code: bytes) -> None:
        if name == self.bad:
            raise RuntimeError(f"no {name}")
        self.loaded[name] = code


def asked_for(
    load: Loader, made_by: list[list[bytes | Exception]], names: str
) -> tuple[background.Compiler, list[str]]:
    """A compiler that has done with some kernels, all asked for at once, and what it had processes compile.

    `made_by` is what each of these hands over, until it is ended by an exception.
    """
    compiler, asked = background.Compiler(load), list[str]()

    def made(command: list[str]) -> Iterator[bytes]:
        asked.append(command[command.index("-c") + 2])
        for code in made_by.pop(0):
            if isinstance(code, Exception):
                raise code
            yield code

    compiler._made_by = made  # type: ignore[method-assign]
    compiler._found_on_disk = lambda name: name == "copy"  # type: ignore[method-assign]
    for name in names.split():
        compiler.ask(name)
    end = time.monotonic() + 60
    while compiler._serving.locked() or not all(compiler._asked.values()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return compiler, asked


def test_a_kernel_that_cannot_be_loaded_leaves_the_others() -> None:
    load = Loader("nest16")
    compiler, asked = asked_for(load, [[b"8", b"16", b"32"]], "nest8 copy nest16 nest32")
    assert asked == ["nest8,nest16,nest32"]
    assert load.loaded == {"nest8": b"8", "nest32": b"32"}
    assert str(compiler.failed.pop("nest16")) == "no nest16"
    assert not compiler.failed


def test_what_a_process_handed_over_before_it_was_killed_is_taken() -> None:
    """And what it had not begun is compiled by another."""
    load, killed = Loader(), compile_process.Crashed("ended by signal 9")
    compiler, asked = asked_for(load, [[b"8", killed], [b"32", b"64"]], "nest8 nest16 nest32 nest64")
    assert asked == ["nest8,nest16,nest32,nest64", "nest32,nest64"]
    assert load.loaded == {"nest8": b"8", "nest32": b"32", "nest64": b"64"}
    assert "signal 9" in str(compiler.failed.pop("nest16"))
    assert not compiler.failed


def test_what_no_process_hands_over_is_compiled_here() -> None:
    for answer in ([OSError()], [b"8"], [], [b"8", OSError()], [MemoryError()], [ValueError("embedded null byte")]):
        load = Loader()
        compiler, asked = asked_for(load, [list(answer)], "nest8 nest16")
        assert asked == ["nest8,nest16"]
        assert load.loaded == {"nest8": b"8" if b"8" in answer else b"", "nest16": b""}
        assert not compiler.failed


@pytest.mark.slow
def test_a_compiler_that_is_killed_is_not_tried_again(folder: Path, lock: int) -> None:
    """What kills it, such as too little memory, must not come over this process."""
    code = "until(compiling)\nos.kill(kernels._compiler._child.pid, signal.SIGKILL)\n"
    assert "ended by signal 9" in said(process(code + _WARNED, folder))


@pytest.mark.slow
def test_of_several_processes_one_compiles(folder: Path, lock: int) -> None:
    code = f"kernels.compile_process.compile_for_parent('copy', {str(folder)!r}, 1)"
    command = [sys.executable, "-c", f"import strided.kernels.compile_process\nfrom strided import kernels\n{code}"]
    with subprocess.Popen(command, cwd=paths.ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as waiting:
        usual = kernel_of("copy")
        kernel(*usual.arguments)(usual.compiled.py_func).compile([folder])
        (file,) = folder.glob("*.nbc")
        before = file.stat().st_ino
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.wait() == 0
    assert file.stat().st_ino == before
    assert [path.suffix for path in folder.iterdir()] == [".nbc"]


def test_conversions_at_the_very_end_need_no_thread(folder: Path) -> None:
    code = """
import atexit
atexit.register(read)
"""
    assert said(process(code, folder)) == ""


#: What follows sees the thread that compiles being started: what was asked for before is no longer.
_STARTING = """
import threading
kernels._compiler.close()
kernels._compiler = kernels.background.Compiler(kernels.load)
sd.set_num_threads(1)
start = threading.Thread.start
tiled = sd.LayoutArray(np.zeros(1 << 22, np.uint8), "f32[1024,1024]{1,0:T(8,128)}")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs signals")
def test_a_handler_may_want_a_kernel_while_the_thread_is_started(folder: Path) -> None:
    code = f"""{_STARTING}
def starting(self):
    start(self)
    signal.raise_signal(signal.SIGUSR1)

signal.signal(signal.SIGUSR1, lambda *_: print("handler", tiled.to_numpy().shape))
threading.Thread.start = starting
tiled.to_layout("{{0,1}}")
threading.Thread.start = start
print("done")
"""
    assert said(process(code, folder)).splitlines()[-2:] == ["handler (1024, 1024)", "done"]


@pytest.mark.slow
def test_after_ctrl_c_while_the_thread_is_started_kernels_are_compiled(folder: Path) -> None:
    code = f"""{_STARTING}
def starting(self):
    threading.Thread.start = start
    signal.raise_signal(signal.SIGINT)

threading.Thread.start = starting
try:
    read()
except KeyboardInterrupt:
    print("interrupted")
until(lambda: read() or ready())
print("done")
"""
    assert said(process(code, folder)).split() == ["interrupted", "done"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs signals")
def test_a_handler_may_want_the_kernel_that_its_thread_loads(folder: Path) -> None:
    """Where conversions wait for their kernels, it would wait for itself: NumPy converts."""
    code = """
from strided.kernels import disk_cache
load = disk_cache.DiskCache.load_overload
tiled = sd.LayoutArray(np.ones(1 << 20, np.float32).tobytes(), "f32[1024,1024]{1,0:T(8,128)}")

def loading(self, *rest):
    disk_cache.DiskCache.load_overload = load
    signal.raise_signal(signal.SIGUSR1)
    return load(self, *rest)

signal.signal(signal.SIGUSR1, lambda *_: print("handler", tiled.to_numpy().all()))
disk_cache.DiskCache.load_overload = loading
print("done", tiled.to_numpy().all())
"""
    assert said(process(code, folder, STRIDED_COMPILE="first")).split() == ["handler", "True", "done", "True"]


#: What a process hands over; the last code is cut.
_HANDED_OVER = b"hello" + b"strided kernels:" + b"".join(n.to_bytes(8, "little") + bytes(n) for n in (3, 0, 5))[:-1]


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no signal there")
def test_whoever_is_ended_by_broken_pipes_may_stop_a_process_that_has_ended() -> None:
    code = """
import os, signal, sys
from strided.kernels.compile_process import CompileProcess
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with CompileProcess([sys.executable, "-c", ""]) as process:
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.stop()
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=False).returncode == 0


@pytest.mark.parametrize(("code", "is_crash"), [(0, False), (1, False), (3, True), (250, True)])
def test_a_crash_is_told_by_its_exit_code_on_windows(code: int, is_crash: bool) -> None:
    """Where there are no signals. What only raises an exception can be tried in this process."""
    command = [sys.executable, "-c", f"import os; os.write(1, {_HANDED_OVER!r}); os._exit({code})"]
    made, ended = list[bytes](), ""
    with compile_process.CompileProcess(command) as process:
        try:
            for each in process.codes():
                made.append(each)
        except compile_process.Crashed as error:
            ended = str(error)
    assert made == [bytes(3), b""]
    assert ended == is_crash * f"the process that compiles them ended with exit code {code}"


def test_no_lock_is_made_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, where it could not be removed while it is open."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with compile_process._alone(tmp_path / "copy.lock"):
        assert list(tmp_path.iterdir()) == []


@limited
def test_no_kernel_is_compiled_here_where_llvm_would_end_the_process(folder: Path) -> None:
    code = """
import resource
from strided import kernels
kernels.kernel_of("copy")
resource.setrlimit(resource.RLIMIT_AS, (900 << 20, -1))
try:
    kernels.load("copy")
except MemoryError as error:
    print(error)
"""
    assert "compiling takes 1024 MB" in said(process(code, folder))
