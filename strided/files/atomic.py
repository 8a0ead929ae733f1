"""Write files whole or not at all.

A new file replaces an old one once it is complete and on disk: its bytes are synced, then it gets its name, then the
folder is synced. A full disk, a signal, a crash or a loss of power leaves either the old file or the whole new one.

Until then the file has no name where the system supports that (``O_TMPFILE`` on Linux), so that it is freed however
the process ends. Elsewhere, and for folders everywhere, it has a temporary name beside its target and is locked while
its writer lives. The next writer into the same folder removes what a killed one left: only temporary names of this
machine, owned by this user, and locked by nobody. On Windows, which has other locks, they stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO

from strided.files.paths import real_path

if sys.platform != "win32":
    import fcntl

#: Bytes of the target's name in a temporary one; file systems allow 255 in all.
_SHOWN_BYTES = 180
#: The ending of temporary names.
_PART = ".part"
#: Bytes to copy at a time.
COPY_BYTES = 1 << 20
#: Linux's folder of this process's open files.
_OWN_FILES = "/proc/self/fd"
#: Arguments of Linux's renameat2.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
#: Errors of a file system that lacks an operation, such as syncing.
_CANNOT = frozenset({errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

#: Errors of writes that find no room.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else [])})


@contextlib.contextmanager
def naming_in_write_errors(path: str | os.PathLike[str], temporary: str | None = None) -> Iterator[None]:
    """Within this, an OSError for lack of space names the file, and any other has `path` in place of `temporary`."""
    try:
        yield
    except OSError as error:
        named = str(error.filename)
        if error.filename is None and error.errno in _NO_ROOM:
            below = ""
        elif temporary is not None and named.startswith(temporary):
            below = named.removeprefix(temporary)
        else:
            raise
        raise OSError(error.errno, error.strerror, os.fsdecode(path) + below) from error


def resolved(path: str | os.PathLike[str]) -> tuple[str, os.stat_result | None]:
    """The path to write to, with symbolic links resolved, and the status of the file there, or None.

    OSError if it is no regular file, or for a loop of links.
    """
    target = real_path(path)
    try:
        there = os.stat(path)  # not of `target`: the file of /dev/stdout may have no path
    except FileNotFoundError:
        if not path:
            raise
        return target, None
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, where a file is expected", os.fspath(path))
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return target, there


def refuse_existing(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError if the path exists."""
    if resolved(path)[1] is not None:
        raise path_taken(path)


def refuse_same(source: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Raise OSError if the path is that of the source itself."""
    there = resolved(path)[1]
    if there is not None and os.path.samestat(source, there):
        raise OSError(errno.EINVAL, "source and target are the same file", os.fspath(path))


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a new file, which replaces `path` if the block ends without an error.

    Raises
    ------
    FileExistsError
        Without `overwrite`, the file exists, or appears meanwhile.
    OSError
        The file cannot be written; an earlier file stays.
    """
    target, there = resolved(path)
    if os.path.basename(os.fsdecode(path)) in ("", os.curdir, os.pardir):  # "new/" and "new/." are no files
        raise IsADirectoryError(errno.EISDIR, "a folder, where a file is expected", os.fspath(path))
    if there is not None and not overwrite:
        raise path_taken(path)
    folder, name = os.path.split(target)
    sweep(folder)
    temporary = os.path.join(folder, _temporary_name(name))
    try:
        with naming_in_write_errors(path, temporary), _make_file(folder, temporary) as file:
            if there is not None:  # the new file is never more widely readable than the old one
                _permit(file, there.st_mode | stat.S_IRUSR | stat.S_IWUSR)
            yield file
            if there is not None:
                _permit(file, there.st_mode)
            _sync(file)
            _publish(file, temporary, target, overwrite=overwrite)
        _sync_folder(folder)
    except FileExistsError:
        raise path_taken(path) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


@contextlib.contextmanager
def replaced_folder(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[str]:
    """Make a new folder, which replaces `path` and its contents if the block ends without an error.

    Until then it has a temporary name beside it. On Linux the two exchange places in one step. Elsewhere a process that
    is killed between two steps may leave the earlier folder under a hidden name that ends in ``.old``, which nothing
    removes.

    Raises
    ------
    FileExistsError
        Without `overwrite`, the path exists, or appears meanwhile.
    OSError
        A file cannot be written; an earlier folder stays.
    """
    target = real_path(path)
    if os.path.lexists(target) and not overwrite:
        raise path_taken(path)
    folder, name = os.path.split(target)
    sweep(folder)
    temporary = os.path.join(folder, _temporary_name(name))
    old = f"{temporary.removesuffix(_PART)}.old"
    with naming_in_write_errors(path, temporary), contextlib.ExitStack() as locks:
        try:
            _make_folder(temporary, locks)
            _copy_permissions(target, temporary)
            yield temporary
            _sync_all(temporary)
            if overwrite:
                _put_in_place(temporary, target, old)
            else:
                _publish_folder(temporary, target, path)
            _sync_folder(folder)
        finally:
            # In `finally`, because Ctrl-C may arrive as soon as the new folder has its name.
            if os.path.lexists(old) and os.path.lexists(target):
                with contextlib.suppress(OSError):
                    os.rename(old, temporary)  # a temporary name, which any writer may remove
            _remove(temporary)


def _copy_permissions(earlier: str, folder: str) -> None:
    """Give a folder the permissions of an earlier one, if it exists, and its owner all of them."""
    if sys.platform != "win32":
        with contextlib.suppress(FileNotFoundError):
            os.chmod(folder, stat.S_IMODE(os.stat(earlier).st_mode) | stat.S_IRWXU)


def _remove(folder: str) -> None:
    """Remove a folder if it exists. Ctrl-C, which may arrive meanwhile, is raised once the folder is gone."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def path_taken(path: str | os.PathLike[str]) -> FileExistsError:
    """The error for a path that exists."""
    words = f"{os.strerror(errno.EEXIST)}; overwrite=True replaces it"
    return FileExistsError(errno.EEXIST, words, os.fspath(path))


def _put_in_place(temporary: str, target: str, old: str) -> None:
    """Give a complete folder its name. An earlier folder gets the temporary name, or `old` if that takes two steps.

    If the second step fails, the earlier folder gets its name back.
    """
    if _exchange(temporary, target):
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(temporary, target)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(target):
            os.rename(old, target)
        raise


def _exchange(one: str, other: str) -> bool:
    """Try to exchange two files or folders in one step; return whether that was done.

    False, with nothing changed, if one of them does not exist or the system cannot do it.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # needed only here

    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # since glibc 2.28
    if rename is None:
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def _publish_folder(temporary: str, target: str, path: str | os.PathLike[str]) -> None:
    """Give a complete folder its name. FileExistsError if the name is taken."""
    if os.path.lexists(target):
        raise path_taken(path)
    try:
        os.rename(temporary, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # it appeared just now
            raise path_taken(path) from None
        raise


def _make_file(folder: str, temporary: str) -> BinaryIO:
    """Make a new file, without a name if possible."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir(_OWN_FILES):
        with contextlib.suppress(OSError):  # unsupported; any other error recurs below
            file = os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), "w+b")
            _lock(file.fileno())
            return file
    return _make_named_file(temporary)


def _make_named_file(temporary: str) -> BinaryIO:
    while True:
        file = open(temporary, "x+b")
        _lock(file.fileno())
        # Before it was locked, another writer may have removed it as abandoned.
        if _is_at(file.fileno(), temporary):
            return file
        file.close()


def _make_folder(temporary: str, locks: contextlib.ExitStack) -> None:
    """Make a folder and, except on Windows, lock it until the stack closes."""
    while True:
        os.mkdir(temporary)
        if sys.platform == "win32":
            return
        with contextlib.suppress(FileNotFoundError):  # removed as abandoned, as above
            descriptor = locks.enter_context(_opened(temporary, os.O_DIRECTORY))
            _lock(descriptor)
            if _is_at(descriptor, temporary):
                return


def _publish(file: BinaryIO, temporary: str, target: str, *, overwrite: bool) -> None:
    """Give a complete file its name."""
    if not _is_at(file.fileno(), temporary):
        try:
            _link(file, temporary if overwrite else target)
        except FileExistsError:
            raise
        except OSError:  # the system cannot name it: copy its bytes to a named file
            file.seek(0)
            with _make_named_file(temporary) as copy:
                shutil.copyfileobj(file, copy, COPY_BYTES)
                _permit(copy, os.fstat(file.fileno()).st_mode)
                _sync(copy)
                _publish(copy, temporary, target, overwrite=overwrite)
            return
        if not overwrite:
            return
    if sys.platform == "win32":
        file.close()  # which cannot rename open files
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # refuses an existing target, unlike a rename
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        if os.path.lexists(target):
            raise path_taken(target) from None
        os.rename(temporary, target)


def _link(file: BinaryIO, name: str) -> None:
    """Give a nameless file a name."""
    # The source is a symbolic link, which Python follows only if a folder's descriptor is given.
    with _opened(os.path.dirname(name), os.O_DIRECTORY) as folder:
        os.link(f"{_OWN_FILES}/{file.fileno()}", os.path.basename(name), dst_dir_fd=folder, follow_symlinks=True)


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """Open a file or folder for reading, with additional flags; yield its descriptor."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _permit(file: BinaryIO, mode: int) -> None:
    if sys.platform != "win32":  # which cannot rename or remove read-only files
        os.fchmod(file.fileno(), mode & 0o777)


def _sync(file: BinaryIO) -> None:
    """Write the bytes to disk."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def _sync_folder(folder: str) -> None:
    """Write a folder's entries to disk if the system can."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), _opened(folder, os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def _sync_all(folder: str) -> None:
    """Write all files below a folder, and the folders' entries, to disk."""
    for place, _, files in os.walk(folder):
        for each in files:
            with open(os.path.join(place, each), "r+b") as file:  # Windows syncs only what can be written
                _sync(file)
        _sync_folder(place)


# ---- abandoned temporary files --------------------------------------------------------------------------------------


def _temporary_name(name: str) -> str:
    """A hidden name that contains the target's name and identifies the machine."""
    # A character cut in half is dropped: macOS and Windows refuse such names.
    shown = os.fsencode(name)[:_SHOWN_BYTES].decode(sys.getfilesystemencoding(), "ignore")
    return f".{shown}.strided-{_machine()}-{secrets.token_hex(8)}{_PART}"


def _machine() -> str:
    """Eight digits for this machine: on a network file system, other machines' locks may be invisible."""
    name = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{zlib.crc32(os.fsencode(name)):08x}"


@lru_cache(maxsize=256)
def sweep(folder: str) -> None:
    """Remove what killed writers left in a folder; done once per process, because listing takes time."""
    if sys.platform == "win32":
        return
    ours = re.compile(rf"\..*\.strided-{_machine()}-[0-9a-f]{{16}}{re.escape(_PART)}", re.DOTALL)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            if ours.fullmatch(entry.name) and is_plain:
                _remove_abandoned(entry.path)


def _remove_abandoned(path: str) -> None:
    """Remove a temporary file or folder if it is this user's and not locked, so that its writer must be dead."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), _opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(status, os.lstat(path)):
                (shutil.rmtree if stat.S_ISDIR(status.st_mode) else os.unlink)(path)


def _lock(descriptor: int) -> None:
    """Lock an open file or folder, if the system has locks; without them, nothing is ever removed as abandoned."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
