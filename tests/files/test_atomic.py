"""Files whole or not at all: killed writers, lost races, file systems that cannot, and the order of syncing."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

import strided as sd
from strided.files import atomic
from strided.files.atomic import replaced, replaced_folder, sweep
from tests.thinned import thinned
from tests.windows import as_on_windows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are others there")

#: With nameless files of the system, and without.
WAYS = ["nameless", "named"]


def skip_if_missing(way: str) -> None:
    if way == "nameless" and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    skip_if_missing(request.param)
    if request.param == "named":
        monkeypatch.delattr("os.O_TMPFILE", raising=False)
    sweep.cache_clear()
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_takes_its_place_when_it_is_complete(tmp_path: Path, way: str) -> None:
    target = tmp_path / "x"
    for content in (b"first", b"second"):
        with replaced(target) as file:
            file.write(content)
            assert target.exists() == (content == b"second")
            assert len(names(tmp_path)) == (way == "named") + target.exists()
        assert target.read_bytes() == content
        assert names(tmp_path) == ["x"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def _write_and_fail(file: BinaryIO) -> None:
    file.write(b"half")
    raise ValueError("not this one")


def test_an_error_leaves_what_was_there(tmp_path: Path, way: str) -> None:
    target = tmp_path / "x"
    for left in ([], ["x"]):
        with pytest.raises(ValueError, match="not this one"), replaced(target) as file:
            _write_and_fail(file)
        assert names(tmp_path) == left
        target.write_bytes(b"old")
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_permissions_stay_and_nobody_reads_meanwhile(tmp_path: Path, way: str, mode: int) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")
    target.chmod(mode)
    with replaced(target) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode | 0o600
        file.write(b"new")
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert target.read_bytes() == b"new"


def test_a_target_that_somebody_else_makes_meanwhile_stays(tmp_path: Path, way: str) -> None:
    target = tmp_path / "x"
    with pytest.raises(FileExistsError, match="overwrite=True") as caught, replaced(target, overwrite=False):
        target.write_bytes(b"theirs")
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"theirs"
    assert names(tmp_path) == ["x"]
    with pytest.raises(FileExistsError, match="overwrite=True"), replaced(target, overwrite=False):
        raise AssertionError("not reached")
    with replaced(tmp_path / "y", overwrite=False) as file:
        file.write(b"ours")
    assert (tmp_path / "y").read_bytes() == b"ours"


def test_the_longest_names_and_strange_ones(tmp_path: Path, way: str) -> None:
    for name in ("a" * 255, "\N{SNOWMAN}" * 85, os.fsdecode(b"\xff\xfe"), "-", " "):
        with replaced(tmp_path / name) as file:
            file.write(b"x")
        assert names(tmp_path) == [name]
        (tmp_path / name).unlink()


def test_what_is_no_file_is_refused(tmp_path: Path, way: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, match in (
        (tmp_path, "a folder, where a file is expected"),
        (f"{tmp_path / 'new'}{os.sep}", "a folder, where a file is expected"),
        (os.path.join(tmp_path, "new", os.curdir), "a folder, where a file is expected"),
        (os.path.join(tmp_path, "new", os.pardir), "a folder, where a file is expected"),
        ("", "No such file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "none" / "x", "No such file"),
    ):
        with pytest.raises(OSError, match=match), replaced(target):
            raise AssertionError("not reached")
    assert names(tmp_path) == ["pipe"]


# --- the order of things ----------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The system calls that matter, in their order."""
    seen: list[str] = []

    def noting(name: str, what: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            found = real(*arguments, **options)
            seen.append(what(*arguments))
            return found

        monkeypatch.setattr(os, name, call)

    noting("fsync", lambda fd: "sync folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync file")
    noting("replace", lambda *_: "name")
    noting("link", lambda source, target: "link")
    return seen


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "save_npy": lambda source, target: sd.save_npy(target, np.arange(3)),
    "convert_file": lambda source, target: sd.convert_file(source, "u8[10]", target),
    "write_snapshot": lambda source, target: sd.write_snapshot(target, [np.arange(3)]),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_syncs_before_it_names_and_the_folder_after(
    writer: str, tmp_path: Path, way: str, calls: list[str]
) -> None:
    (tmp_path / "source").write_bytes(bytes(10))
    target = tmp_path / "x.npy"
    target.write_bytes(b"old")
    WRITERS[writer](tmp_path / "source", target)
    link = ["link"] if way == "nameless" else []
    assert calls == ["sync file", *link, "name", "sync folder"]
    assert target.read_bytes() != b"old"


def test_what_is_synced_is_all_of_it(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits in a buffer of Python's while the system syncs."""
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: sizes.append(os.fstat(fd).st_size))
    with replaced(tmp_path / "x") as file:
        file.write(b"abc")
    assert sizes[0] == 3


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.EBADF, errno.EACCES])
def test_a_folder_that_cannot_be_synced_does_no_harm(
    number: int, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with replaced(tmp_path / "x") as file:
        file.write(b"abc")
    assert (tmp_path / "x").read_bytes() == b"abc"


def test_a_file_that_cannot_be_synced(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file system cannot sync, the file is written all the same; if the disk fails, it is not."""
    (tmp_path / "x").write_bytes(b"old")
    for number, content in ((errno.EIO, b"old"), (errno.ENOSPC, b"old"), (errno.EINVAL, b"new")):

        def fsync(fd: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)
        if content == b"old":
            with pytest.raises(OSError, match=os.strerror(number)) as failed, replaced(tmp_path / "x") as file:
                file.write(b"new")
            # Other errors may come from reading as well as from writing.
            assert failed.value.filename == (str(tmp_path / "x") if number == errno.ENOSPC else None)
        else:
            with replaced(tmp_path / "x") as file:
                file.write(b"new")
        assert (tmp_path / "x").read_bytes() == content
        assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_without_a_name_that_can_get_none_is_copied(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: str, target: str, **options: Any) -> None:
        if source.startswith("/proc"):
            raise PermissionError(errno.EPERM, "not here")
        real(source, target, **options)

    monkeypatch.setattr(os, "link", link)
    if overwrite:
        (tmp_path / "x").write_bytes(b"old")
    with replaced(tmp_path / "x", overwrite=overwrite) as file:
        file.write(b"abc")
        file.seek(1)
    assert (tmp_path / "x").read_bytes() == b"abc"
    assert names(tmp_path) == ["x"]


def test_file_systems_without_hard_links(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)
    with replaced(tmp_path / "x", overwrite=False) as file:
        file.write(b"abc")
    with pytest.raises(FileExistsError, match="overwrite=True"), replaced(tmp_path / "y", overwrite=False):
        (tmp_path / "y").write_bytes(b"theirs")
    assert (tmp_path / "y").read_bytes() == b"theirs"
    assert names(tmp_path) == ["x", "y"]


# --- killed writers ---------------------------------------------------------------------------------------------------

#: A writer that waits at a given place to be killed.
_WRITER = """
import os, sys, time
if sys.argv[2] == "named":
    vars(os).pop("O_TMPFILE", None)
from strided.files import atomic

place = sys.argv[3]

def stop(name):
    if name == place:
        print("there", flush=True)
        time.sleep(60)

def around(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        stop("before " + name)
        found = real(*arguments, **options)
        stop("after " + name)
        return found
    setattr(os, name, call)

for name in ("fsync", "link", "replace"):
    around(name)
stop("start")
with atomic.replaced(sys.argv[1]) as file:
    stop("begun")
    file.write(b"new" * 100_000)
    file.flush()
    stop("written")
stop("end")
"""

#: The same for a folder, which changes places with the earlier one in one step or in two.
_FOLDER_WRITER = """
import os, shutil, sys, time
from strided.files import atomic

def stop(name):
    if name == sys.argv[2]:
        print("there", flush=True)
        time.sleep(60)

exchange = atomic._exchange
def exchanged(*paths):
    found = sys.argv[3] == "one step" and exchange(*paths)
    stop("after exchange")
    return found
atomic._exchange = exchanged

rename, renames = os.rename, []
def renamed(*arguments):
    stop(f"before rename {len(renames)}")
    renames.append(rename(*arguments))
    stop(f"after rename {len(renames) - 1}")
os.rename = renamed
with atomic.replaced_folder(sys.argv[1]) as folder:
    stop("begun")
    os.mkdir(f"{folder}/inner")
    with open(f"{folder}/inner/file", "w", encoding="utf-8") as file:
        file.write("new")
    stop("written")
"""
PLACES = ["start", "begun", "written", "before fsync", "after fsync", "before link", "after link", "before replace",
          "after replace", "end"]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "place"),
    # Files that have names from the start are not linked.
    thinned([(way, place) for way in WAYS for place in PLACES if way == "nameless" or not place.endswith("link")], 5),
)
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(way: str, place: str, tmp_path: Path) -> None:
    skip_if_missing(way)
    target = tmp_path / "x"
    target.write_bytes(b"old")
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(target), way, place], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    # Another writer in the folder leaves this one alone.
    sweep.cache_clear()
    with replaced(tmp_path / "other") as file:
        file.write(b"other")
    has_name = (way == "named" and place not in ("start", "after replace", "end")) or place in (
        "after link", "before replace",
    )  # fmt: skip
    assert len(names(tmp_path)) == 2 + has_name
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert target.read_bytes() == (b"new" * 100_000 if place in ("after replace", "end") else b"old")
    assert len(names(tmp_path)) == 2 + has_name
    sweep.cache_clear()
    with replaced(tmp_path / "other") as file:
        file.write(b"other")
    assert names(tmp_path) == ["other", "x"]


def killed_writer_of_a_folder(target: Path, place: str, steps: str) -> list[str]:
    """Kill a writer of a folder at a place, with another writer beside it; the names it leaves, when a third swept."""
    command = [sys.executable, "-c", _FOLDER_WRITER, str(target), place, steps]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    before = names(target.parent)
    sweep.cache_clear()
    with replaced_folder(target.with_name("other")) as folder:
        Path(folder, "file").write_text("other", encoding="utf-8")
    if place not in ("after exchange", "after rename 2"):  # then only the earlier folder is left, which nobody needs
        assert names(target.parent) == sorted([*before, "other"]), "the living are left alone"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    sweep.cache_clear()
    with replaced(target.with_name("more")) as file:
        file.write(b"more")
    return [name for name in names(target.parent) if name not in ("other", "more")]


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    target = tmp_path / "x"
    (target / "inner").mkdir(parents=True)
    (target / "inner" / "file").write_text("old", encoding="utf-8")
    return target


def content_of(folder: Path) -> str:
    return (folder / "inner" / "file").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "place", thinned(["begun", "written", "after rename 0", "after rename 1", "after rename 2"], 3)
)
def test_what_a_killed_writer_of_a_folder_leaves_is_removed(place: str, old_folder: Path) -> None:
    left = killed_writer_of_a_folder(old_folder, place, "two steps")
    kept = {name: content_of(old_folder.with_name(name)) for name in left}
    if place in ("after rename 0", "after rename 1"):  # between the two renames, and before the third
        old = kept.pop(next(name for name in left if name.endswith(".old")))
        assert old == "old"
    assert kept == {"after rename 0": {}, "after rename 1": {"x": "new"}, "after rename 2": {"x": "new"}}.get(
        place, {"x": "old"}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes two steps")
@pytest.mark.parametrize(("place", "content"), [("written", "old"), ("after exchange", "new")])
def test_a_folder_is_replaced_in_one_step(place: str, content: str, old_folder: Path) -> None:
    """A writer that is killed leaves a folder under its name, and nothing else."""
    assert killed_writer_of_a_folder(old_folder, place, "one step") == ["x"]
    assert content_of(old_folder) == content


@pytest.mark.skipif(sys.platform == "win32", reason="it has other permissions")
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o777])
def test_a_folder_is_as_private_as_the_earlier_one(mode: int, old_folder: Path) -> None:
    old_folder.chmod(mode)
    with replaced_folder(old_folder) as folder:
        assert stat.S_IMODE(os.stat(folder).st_mode) == mode
    assert stat.S_IMODE(old_folder.stat().st_mode) == mode


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")
def test_ctrl_c_while_a_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = []

    def interrupt(descriptor: int) -> None:
        locked.append(descriptor)
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "_lock", interrupt)
    with pytest.raises(KeyboardInterrupt), replaced_folder(tmp_path / "x"):
        pass
    assert names(tmp_path) == []
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):  # its lock would keep others from removing it
        os.fstat(locked[0])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_writer_killed_at_any_moment(way: str, tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")
    for number in range(60):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, str(target), way, ""], stdout=subprocess.PIPE)
        time.sleep(0.02 + 0.004 * number)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert target.read_bytes() in (b"old", b"new" * 100_000)
    sweep.cache_clear()
    with replaced(tmp_path / "other") as file:
        file.write(b"other")
    assert names(tmp_path) == ["other", "x"]


def test_only_what_is_surely_ours_and_dead_is_removed(tmp_path: Path) -> None:
    machine = atomic._machine()
    dead = f".x.strided-{machine}-0123456789abcdef.part"
    kept = [
        f".x.strided-{'0' * 8 if machine != '0' * 8 else '1' * 8}-0123456789abcdef.part",  # of another machine
        ".x.0123abcd.part",  # of another program, or of an older version
        f"x.strided-{machine}-0123456789abcdef.part",
        f".x.strided-{machine}-0123456789abcdef.part.bak",
        f".x.strided-{machine}-0123456789ABCDEF.part",
    ]
    folder, link = f".d.strided-{machine}-0123456789abcdef.part", f".l.strided-{machine}-0123456789abcdef.part"
    for name in (dead, *kept):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / folder / "inner").mkdir(parents=True)
    (tmp_path / folder / "inner" / "file").write_bytes(b"")
    (tmp_path / link).symlink_to(tmp_path / kept[0])
    sweep.cache_clear()
    sweep(str(tmp_path))
    assert names(tmp_path) == sorted([*kept, link])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to others")
def test_files_of_other_users_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f".x.strided-{atomic._machine()}-0123456789abcdef.part"
    path.write_bytes(b"")
    os.chown(path, 12345, 12345)
    sweep.cache_clear()
    sweep(str(tmp_path))
    assert path.exists()


def test_a_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise many files in one folder would take quadratic time."""
    listed: list[str] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    for k in range(5):
        sd.save_npy(tmp_path / f"{k}.npy", np.arange(k))
    assert len(listed) == 1


def test_a_writer_that_loses_its_name_before_it_locks_it_takes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a file is locked, another writer may take it for left behind."""
    monkeypatch.delattr("os.O_TMPFILE", raising=False)
    real, swept = atomic._lock, []

    def lock(file: Any) -> None:
        if not swept:
            swept.append(1)
            sweep.cache_clear()
            sweep(str(tmp_path))
            assert names(tmp_path) == []
        real(file)

    monkeypatch.setattr(atomic, "_lock", lock)
    with replaced(tmp_path / "x") as file:
        file.write(b"abc")
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"abc"


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "too late to be seen"])
@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
def test_what_comes_to_lie_where_a_folder_is_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool, seen: bool
) -> None:
    target = tmp_path / "x"
    other = target / "other" if is_folder else target

    def write() -> None:
        with replaced_folder(target, overwrite=False) as folder:
            Path(folder, "file").write_text("ours", encoding="utf-8")
            if is_folder:
                target.mkdir()
            other.write_text("theirs", encoding="utf-8")
            if not seen:
                monkeypatch.setattr(os.path, "lexists", lambda path: False)

    with pytest.raises(FileExistsError, match="overwrite=True") as found:
        write()
    assert found.value.filename == str(target)
    assert other.read_text(encoding="utf-8") == "theirs"
    assert names(tmp_path) == ["x"]


@pytest.fixture(params=["one step", "two steps"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In how many steps folders change places: in one if the system can."""
    if request.param == "two steps":
        monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("steps")
def test_a_folder_takes_its_place_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "x"
    for content in ("first", "second"):
        with replaced_folder(target) as folder:
            Path(folder, "file").write_text(content, encoding="utf-8")
            assert target.exists() == (content == "second")
        assert (target / "file").read_text(encoding="utf-8") == content
        assert names(tmp_path) == ["x"]
    with pytest.raises(FileExistsError, match="overwrite=True"), replaced_folder(target, overwrite=False):
        pass
    with (
        pytest.raises(ValueError, match="not this one"),
        replaced_folder(target) as folder,
        open(folder + "/f", "wb") as f,
    ):
        _write_and_fail(f)
    assert (target / "file").read_text(encoding="utf-8") == "second"
    assert names(tmp_path) == ["x"]


def test_ctrl_c_between_two_steps_leaves_the_earlier_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    target = tmp_path / "x"
    with replaced_folder(target) as folder:
        Path(folder, "file").write_text("second", encoding="utf-8")
    rename = os.rename

    def interrupted(source: str, place: str) -> None:
        if place == str(target) and "second" not in Path(source, "file").read_text(encoding="utf-8"):
            raise KeyboardInterrupt  # when the old folder has gone, and the new one has not come
        rename(source, place)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), replaced_folder(target) as folder:
        Path(folder, "file").write_text("third", encoding="utf-8")
    assert (target / "file").read_text(encoding="utf-8") == "second"
    assert names(tmp_path) == ["x"]


@pytest.mark.usefixtures("steps")
def test_ctrl_c_behind_the_swap_of_two_folders_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would ever remove the earlier folder, which has a name of its own meanwhile."""
    target = tmp_path / "x"
    with replaced_folder(target) as folder:
        Path(folder, "file").write_text("first", encoding="utf-8")
    sync = atomic._sync_folder

    def interrupted(place: str) -> None:
        if place == str(tmp_path):  # when the new folder has its name; on a slow disk this takes the longest
            raise KeyboardInterrupt
        sync(place)

    monkeypatch.setattr(atomic, "_sync_folder", interrupted)
    with pytest.raises(KeyboardInterrupt), replaced_folder(target) as folder:
        Path(folder, "file").write_text("second", encoding="utf-8")
    assert (target / "file").read_text(encoding="utf-8") == "second"
    assert names(tmp_path) == ["x"]


@pytest.mark.usefixtures("steps")
def test_ctrl_c_while_the_earlier_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    with replaced_folder(target) as folder:
        for k in range(3):
            Path(folder, str(k)).write_text("first", encoding="utf-8")
    unlink, unlinked = os.unlink, []

    def interrupted(*arguments: Any, **options: Any) -> None:
        unlink(*arguments, **options)
        unlinked.append(arguments)
        if len(unlinked) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), replaced_folder(target) as folder:
        Path(folder, "file").write_text("second", encoding="utf-8")
    assert names(target) == ["file"]
    assert names(tmp_path) == ["x"]


def test_an_error_within_a_folder_names_the_place_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long") as caught, replaced_folder(tmp_path / "x") as folder:
        os.mkdir(os.path.join(folder, 300 * "n"))
    assert caught.value.filename == str(tmp_path / "x" / (300 * "n"))
    assert names(tmp_path) == []


# --- other systems ----------------------------------------------------------------------------------------------------


def test_files_take_their_places_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_windows(monkeypatch)
    for content in (b"first", b"second"):
        with replaced(tmp_path / "x") as file:
            file.write(content)
        assert (tmp_path / "x").read_bytes() == content
    with replaced(tmp_path / "y", overwrite=False) as file:
        file.write(b"other")
    for content in (b"first", b"second"):
        with replaced_folder(tmp_path / "folder") as folder:
            Path(folder, "file").write_bytes(content)
        assert (tmp_path / "folder" / "file").read_bytes() == content
    assert names(tmp_path) == ["folder", "x", "y"]


@pytest.mark.parametrize("why", ["open", "mapped", "read-only"])
def test_what_windows_does_not_replace_is_named_and_stays(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_windows(monkeypatch)
    target = tmp_path / "x"
    target.write_bytes(b"old")
    used = target.open("rb") if why == "open" else sd.open(target, "u8[3]") if why == "mapped" else target.chmod(0o444)
    with pytest.raises(PermissionError, match="denied") as caught, replaced(target) as file:
        file.write(b"new")
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]
    if why == "open":
        used.close()


def test_a_folder_that_cannot_take_its_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_windows(monkeypatch)
    with pytest.raises(PermissionError, match="denied") as caught, replaced_folder(tmp_path / "x") as folder:
        used = open(f"{folder}/file", "wb")
    used.close()
    assert caught.value.filename == str(tmp_path / "x")
    assert names(tmp_path) == []


@pytest.mark.parametrize("start", ["", "a"])
def test_names_are_cut_between_characters(start: str, tmp_path: Path) -> None:
    """macOS and Windows have no names that are no text."""
    name = start + "\N{CYRILLIC SMALL LETTER ZHE}" * 100
    temporary = atomic._temporary_name(name)
    assert name[:90] in temporary
    assert len(temporary.encode()) <= 255
