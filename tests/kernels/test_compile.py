"""How kernels are compiled and kept on disk: nothing that is wrong with a cache may ever be noticed."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

from strided.kernels import compile, contiguous, disk_cache
from strided.kernels.compile import BYTES, NUMBER, WRITABLE, kernel, part
from strided.kernels.disk_cache import SWITCH, DiskCache
from tests import paths


def add(source, target, number):
    """Put the first byte and a number together."""
    target[0] = source[0] + number


def fresh():
    return kernel(BYTES, WRITABLE, NUMBER)(add)


def result(kernel, number=2):
    target = np.zeros(1, np.uint8)
    kernel(np.array([40], np.uint8), target, number)
    return int(target[0])


def printed(code, package, cache):
    """The words that some code prints, run in a process with another copy of the package and another cache."""
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache), SWITCH: ""}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout.split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path


def test_code_on_disk_is_for_the_caches_that_it_was_made_for(folder, monkeypatch):
    """The same instructions serve other CPUs, but not as fast."""
    assert result(fresh()) == 42
    made = set(folder.rglob("*.nbc"))
    monkeypatch.setattr(disk_cache, "tuned_cpu", lambda: "another")
    assert result(fresh()) == 42
    assert len(set(folder.rglob("*.nbc")) - made) == 1


def test_a_kernel_is_compiled_once_for_all_kinds_of_arguments(folder):
    kernel = fresh()
    read_only = np.array([40], np.uint8)
    read_only.flags.writeable = False
    target = np.zeros(1, np.uint8)
    for number in (2, True, np.int32(2), np.int64(2)):
        kernel(read_only, target, number)
    assert result(kernel) == 42
    assert len(kernel.compiled.signatures) == 1
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(np.zeros(1, np.float32), target, 2)


def test_a_part_that_is_not_linked_is_an_error_not_a_crash(folder, monkeypatch):
    @part
    def sum_of(a, b):
        return a + b

    def add(source, target, number):
        target[0] = sum_of(source[0], number)

    assert result(kernel(BYTES, WRITABLE, NUMBER)(add)) == 42
    monkeypatch.setattr(compile, "_called", lambda library, found: found)
    with pytest.raises(RuntimeError, match=r"^not linked: \w*sum_of"):
        kernel(BYTES, WRITABLE, NUMBER)(add).compile([])


def test_threads_may_meet_at_the_first_call(folder):
    kernel = fresh()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: result(kernel), range(8))) == {42}


def test_a_second_process_finds_the_code_on_disk(folder):
    first, second = fresh(), fresh()
    assert result(first) == result(second) == 42
    assert sum(first.compiled.stats.cache_misses.values()) == 1
    assert sum(second.compiled.stats.cache_hits.values()) == 1


def test_the_switch_leaves_the_disk_alone(folder, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    assert result(fresh()) == 42
    assert not list(folder.rglob("*"))


@pytest.mark.slow
def test_an_upgrade_compiles_only_what_it_touches(tmp_path):
    """The package is copied, used, moved and changed in one file."""
    code = """
from strided.kernels import load
for name in ("encode_varints", "copy", "fill"):
    print(name, sum(load(name).stats.cache_hits.values()))
"""
    package = paths.copy_of_package(tmp_path / "before")

    def hits():
        return printed(code, package, tmp_path / "cache")[1::2]

    assert hits() == ["0", "0", "0"]
    package = package.rename(tmp_path / "after")
    for name in ("kernels/contiguous.py", "planning/plan.py", "kernels/__init__.py"):
        with open(package / "strided" / name, "a", encoding="utf-8") as file:
            file.write("# A new version.\n")
    assert hits() == ["1", "0", "0"]
    with open(package / "strided/kernels/simd_bytes.py", "a", encoding="utf-8") as file:
        file.write("# What two of them import.\n")
    assert hits() == ["1", "0", "0"]


@pytest.mark.slow
def test_code_of_what_runs_is_not_kept_as_that_of_a_later_upgrade(tmp_path):
    """A process imports sources; they are changed; it compiles. Another process must not find that code."""
    package = paths.copy_of_package(tmp_path / "package")

    def run(code):
        return printed(code, package, tmp_path / "cache")

    show = "print(*(sum(kernels.load(name).stats.cache_hits.values()) for name in ('copy', 'fill')))"
    changing = f"""
from pathlib import Path
import strided
from strided import kernels
kernels.kernel_of("copy")
for name in ("contiguous", "simd_bytes"):
    with open(Path(strided.__file__).with_name("kernels") / f"{{name}}.py", "a", encoding="utf-8") as file:
        file.write("# A new version.\\n")
{show}
"""
    assert run(changing) == ["0", "0"]
    assert run(f"from strided import kernels\n{show}") == ["0", "0"]
    assert run(f"from strided import kernels\n{show}") == ["1", "1"]
    # Constants of the package, which is imported long before, count by their values.
    show = "print(sum(kernels.load('transpose_runs').stats.cache_hits.values()))"
    constant = f"from strided import kernels\nkernels.SHORT_ROW_BYTES += 1\n{show}"
    assert run(f"from strided import kernels\n{show}") == run(constant) == ["0"]
    assert run(constant) == ["1"]


def test_code_for_another_cpu_is_not_used(folder, monkeypatch):
    first = fresh().compiled
    monkeypatch.setattr(type(first.targetctx.codegen()), "magic_tuple", lambda _: ("another", "cpu", ""))
    assert not fresh().compiled.stats.cache_hits


def test_code_of_other_versions_types_and_sources_is_not_used(folder, monkeypatch):
    """Not even where it lies under the name of what is looked for."""
    fresh().compiled  # noqa: B018
    assert fresh().is_on_disk()
    (file,) = folder.rglob("*.nbc")

    def is_used(kernel):
        cache = kernel._cache(None)
        (path,) = cache._files(cache._state(kernel._dispatcher.targetctx))
        assert path != file
        path.write_bytes(file.read_bytes())
        return kernel.is_on_disk()

    for module, name in ((sys, "version"), (numba, "__version__"), (llvmlite, "__version__")):
        with monkeypatch.context() as within:
            within.setattr(module, name, "another")
            assert not is_used(fresh())
    assert not is_used(kernel(WRITABLE, WRITABLE, NUMBER)(add))
    changed = fresh()
    changed._sources = b"changed"
    assert not is_used(changed)


def test_without_sources_no_code_is_kept(folder, monkeypatch):
    """Nothing would tell it from that of another version."""

    def missing(module):
        raise OSError("could not get source code")

    monkeypatch.setattr(disk_cache, "_source", missing)
    monkeypatch.setattr(disk_cache, "hash_of_sources", disk_cache.hash_of_sources.__wrapped__)
    assert result(fresh()) == 42
    assert not list(folder.rglob("*.nbc"))


def test_code_depends_on_what_is_imported_by_what_a_module_imports():
    needed = disk_cache._needed(contiguous.__name__)
    assert {f"strided.kernels.{name}" for name in ("contiguous", "simd_bytes", "compile", "llvm")} <= needed


@pytest.mark.parametrize(
    ("name", "value"), [("OPT", type(numba.config.OPT)("0")), ("LOOP_VECTORIZE", 0), ("SLP_VECTORIZE", 1)]
)
def test_code_that_is_optimised_otherwise_is_not_used(name, value, folder, monkeypatch):
    with monkeypatch.context() as within:
        within.setattr(numba.config, name, value)
        fresh().compiled  # noqa: B018
    assert not fresh().compiled.stats.cache_hits


def test_of_each_kernel_few_files_are_kept(folder, monkeypatch):
    for cpu in "abc":
        monkeypatch.setattr(type(fresh()._dispatcher.targetctx.codegen()), "magic_tuple", lambda _, cpu=cpu: (cpu,))
        monkeypatch.setattr(disk_cache, "_MOST_KEPT", 2)
        fresh().compiled  # noqa: B018
    assert len(list(folder.rglob("add-*.nbc"))) == 2
    assert fresh().compiled.stats.cache_hits


def test_of_each_kernel_those_files_are_kept_that_were_used_last(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "_MOST_KEPT", 2)

    def hits(cpu):
        with monkeypatch.context() as within:
            within.setattr(type(fresh()._dispatcher.targetctx.codegen()), "magic_tuple", lambda _: (cpu,))
            found = bool(fresh().compiled.stats.cache_hits)
        for path in folder.rglob("add-*.nbc"):  # an hour goes by
            os.utime(path, times=(path.stat().st_atime - 3600, path.stat().st_mtime - 3600))
        return found

    assert [hits(cpu) for cpu in "abacab"] == [False, False, True, False, True, False]


def test_what_killed_processes_leave_counts_among_the_files_of_a_kernel(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "_MOST_KEPT", 2)
    fresh().compiled  # noqa: B018
    for number in range(3):  # what killed processes leave
        folder.joinpath("strided", f"add-{number}.nbc.{number}").touch()
    disk_cache._drop_oldest(next(folder.rglob("add-*.nbc")), "add")
    assert len(list(folder.rglob("add-*"))) == 2


def test_what_was_just_written_is_kept_though_a_clock_was_ahead(folder, monkeypatch):
    monkeypatch.setattr(disk_cache, "_MOST_KEPT", 2)
    for number in range(3):
        path = folder.joinpath("strided", f"add-{number}.nbc")
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, times=(1 << 32, 1 << 32))  # in the year 2106
    fresh().compiled  # noqa: B018
    assert fresh().compiled.stats.cache_hits


def test_a_damaged_file_is_a_miss(folder):
    assert result(fresh()) == 42
    (damaged,) = folder.rglob("*.nbc")
    whole = damaged.read_bytes()
    flipped = whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :]
    for content in (b"", b"no pickle", whole[: len(whole) // 2], flipped):
        damaged.write_bytes(content)
        again = fresh()
        assert result(again) == 42
        assert not again.compiled.stats.cache_hits
        mended = fresh()  # its size may differ: names in it are numbered
        assert result(mended) == 42
        assert mended.compiled.stats.cache_hits


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs in folders")
def test_what_is_no_file_is_a_miss(folder):
    """A FIFO is not waited for."""
    assert result(fresh()) == 42
    (kept,) = folder.rglob("*.nbc")
    kept.unlink()
    os.mkfifo(kept)
    done = []
    thread = threading.Thread(target=lambda: done.append(result(fresh())), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert done == [42]


def test_a_full_disk_is_no_matter(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert result(fresh()) == 42
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_made_is_no_matter(folder, monkeypatch):
    (folder / "file").write_bytes(b"")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "file"))
    assert result(fresh()) == 42


def test_a_folder_that_cannot_be_written_is_tried_once(folder, monkeypatch):
    """Before Python 3.13 `tempfile` goes on for hours on Windows."""
    touch = Path.touch

    def refused(path, *arguments, **options):
        if path.parent == folder / "first":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        touch(path, *arguments, **options)

    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: pytest.fail("it goes on for hours"))
    monkeypatch.setattr(disk_cache, "folders", lambda: [folder / "first", folder / "second"])
    assert disk_cache.writable_folder() == folder / "second"
    assert list((folder / "second").iterdir()) == []


def test_code_in_a_folder_that_cannot_be_written_is_used(folder, monkeypatch):
    """As in an image of a container whose kernels were compiled by another user."""
    fresh().compiled  # noqa: B018
    written = []
    monkeypatch.setattr(disk_cache, "_write", lambda path, data: written.append(path))
    monkeypatch.setattr(disk_cache, "folders", lambda: [folder / "file", folder / "strided"])
    assert fresh().compiled.stats.cache_hits
    assert not written


@pytest.mark.parametrize("cache", ["", "relative"])
def test_folders_do_not_depend_on_where_a_process_is(cache, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", "/home/of/mine")
    assert Path("/home/of/mine/.cache/strided") in disk_cache.folders()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # nobody's account
    assert len(disk_cache.folders()) == 1


def test_compiling_leaves_the_garbage_collector_alone(folder, monkeypatch):
    """It belongs to the whole process: what is switched off meanwhile must stay so."""
    on = []
    monkeypatch.setattr(DiskCache, "load_overload", lambda *_: on.append(gc.isenabled()))
    fresh().compiled  # noqa: B018
    assert on == [True]


@pytest.mark.slow
def test_numbas_switch_for_debugging_does_not_reach_kernels() -> None:
    """``NUMBA_DISABLE_JIT`` is meant for the functions of whoever sets it; theirs stay uncompiled, ours do not."""
    code = """
import numba, numpy as np, strided as sd
a = sd.LayoutArray.from_numpy(np.arange(90000, dtype=np.float32).reshape(300, 300), "{1,0:T(8,128)}")
assert a.to_numpy().tolist() == np.arange(90000).reshape(300, 300).tolist()
assert numba.config.DISABLE_JIT == 1
def own(): pass
assert numba.njit(own) is own
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO", "NUMBA_ENABLE_PROFILING"])
def test_what_numba_adds_for_debugging_is_not_kept_for_others(name: str) -> None:
    """The name of the file does not tell: whoever finds it later would have the checks, too."""
    code = "from strided import kernels; print(len(kernels.kernel_of('fill').code([])))"

    def size(**environment: str) -> int:
        command = [sys.executable, "-c", code]
        return int(subprocess.run(command, capture_output=True, env=os.environ | environment, check=True).stdout)

    assert abs(size(**{name: "1"}) - size()) < 1000
