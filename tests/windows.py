"""What Windows does otherwise with files, for tests on Linux."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strided.files import atomic


def as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files keep their names while this process has them open or mapped, or may not write them."""
    if not sys.platform.startswith("linux"):
        pytest.skip("asks Linux which files are open")
    platform = SimpleNamespace(platform="win32", getfilesystemencoding=sys.getfilesystemencoding)
    monkeypatch.setattr(atomic, "sys", platform)
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    monkeypatch.setattr(os, "fsync", _fsync)
    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, _refused_in_use(getattr(os, name)))


def _fsync(descriptor: int) -> None:
    import fcntl  # which is there where this is called

    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _refused_in_use(operation: Callable[..., Any]) -> Callable[..., Any]:
    def refused(*paths: Any, **options: Any) -> Any:
        if "dir_fd" not in options and any(map(_is_in_use, paths)):
            raise PermissionError(errno.EACCES, "Access is denied", str(paths[0]), None, *map(str, paths[1:]))
        return operation(*paths, **options)

    return refused


def _is_in_use(path: Any) -> bool:
    """Whether a file, or one in a folder, is open or mapped here, or may not be written."""
    place = os.path.realpath(path)
    seen = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    seen += [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    is_read_only = os.path.isfile(place) and not os.stat(place).st_mode & 0o200
    return is_read_only or any(each == place or each.startswith(f"{place}/") for each in seen)
