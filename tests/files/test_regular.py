"""Only regular files are read: a FIFO does not block, a device does not flood, a link in a circle spoils nothing."""

from __future__ import annotations

import errno
import io
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import pytest

import strided as sd
from strided import cli
from strided.dumps.detect import recognise
from strided.dumps.source import open_source
from strided.errors import DumpError
from strided.files import regular
from strided.files.regular import open_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")

TEXT = b"HloModule m\n\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump folder with things that are not regular files, direct and behind links, and one whole module."""
    (tmp_path / "module_0001.f.before_optimizations.txt").write_bytes(TEXT)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(tmp_path)  # the names of sockets are short
        listening.bind("socket")
        os.chdir(here)
    for name, target in {
        "zeros": "/dev/zero",
        "piped": "pipe",
        "loop": "loop",
        "first": "second",
        "second": "first",
        "nowhere": "nothing",
        "module_0001.f.after_optimizations.txt": "/dev/zero",
        "module_0001.f.after_optimizations-buffer-assignment.txt": "pipe",
        "module_0001.f.snapshot.1.pb": "/dev/zero",
        "module_0002.g.before_optimizations.txt": "loop",
        "linked.hlo.txt": "module_0001.f.before_optimizations.txt",
    }.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


@pytest.mark.parametrize("name", ["zeros", "pipe", "piped", "socket", "loop", "nowhere", "."])
@pytest.mark.parametrize("read", [open_source, recognise, sd.read_hlo, sd.read_dump, sd.read_snapshot,
                                  sd.read_allocations, sd.load_npy, open_regular])  # fmt: skip
def test_readers_refuse_what_is_no_file(folder, name, read):
    with pytest.raises((DumpError, OSError), match=re.escape(str(folder))) as refused:
        read(folder / name)
    if name in ("zeros", "pipe", "piped"):
        kind = "a character device" if name == "zeros" else "a FIFO"
        assert str(refused.value) == f"{folder / name}: {kind}; only regular files are read"


@pytest.mark.parametrize("options", [{}, {"mode": "c"}, {"mode": "r+"}, {"mapped": False}], ids=str)
@pytest.mark.parametrize("name", ["pipe", "piped", "."])
def test_arrays_are_opened_in_files_alone(folder, name, options):
    error = IsADirectoryError if name == "." else DumpError
    words = (
        "a folder, where a file is expected" if name == "." else f"{folder / name}: a FIFO; only regular files are read"
    )
    with pytest.raises(error, match=re.escape(words)):
        sd.open(folder / name, "u8[4]", **options)


def test_a_file_is_read_and_closed(folder):
    with open_regular(folder / "linked.hlo.txt") as file:
        assert file.read() == TEXT
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file.fileno(), b"x")  # opened for reading alone, as files that may not be written are


def test_folders_are_listed_without_a_wait(folder):
    dump = sd.open_dump(folder)
    shown = str(dump)
    assert [program.name for program in dump.programs] == ["linked", "f"]
    assert dump.program("f").module_before is not None
    assert dump.program("f").module is None
    assert dump.program("linked").module is not None
    for name in ("zeros", "pipe", "piped", "module_0001.f.snapshot.1.pb"):
        assert f"  {name}: " in shown
    assert "zeros: a character device; only regular files are read" in shown
    assert "pipe: a FIFO; only regular files are read" in shown
    assert "loop" not in shown


def test_the_command_lists_them(folder, capsys):
    for path in (folder, folder / "zeros", folder / "pipe"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["ls", str(path)])
        out, err = capsys.readouterr()
        assert "only regular files are read" in out + err
        assert ended.value.code == (0 if path == folder else 2)


@pytest.mark.parametrize("writable", [False, True])
def test_a_folder_is_named_where_it_cannot_be_opened(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, and to be written."""

    def denied(path: object, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(IsADirectoryError, match="a folder, where a file is expected"):
        open_regular(tmp_path, writable=writable)
    with pytest.raises(PermissionError, match=r"denied.*x'"):
        open_regular(tmp_path / "x", writable=writable)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_while_a_file_is_opened_is_no_other_error(tmp_path: Path) -> None:
    """A descriptor that is closed twice may be another file's the second time."""
    (tmp_path / "x").write_bytes(TEXT)

    def interrupted(at: int) -> bool:
        """Whether Ctrl-C came, as the function calls something or that returns, for the time `at`."""
        left = at

        def profile(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            left -= frame.f_code.co_name != "interrupted"  # which ends the profile
            if left == 0:
                raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            open_regular(tmp_path / "x").close()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False

    assert sum(map(interrupted, range(1, 100))) > 10


def test_files_without_a_descriptor_are_what_they_say() -> None:
    assert regular.is_seekable(io.BytesIO(b"0123"))
    with open(os.devnull, "rb") as file:
        assert regular.is_seekable(file)


class TestWithoutPlaces:
    """Where the system reads at the place of a file alone, as Windows and older versions of macOS do."""

    @pytest.fixture(autouse=True)
    def without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(regular, "READS_AT_PLACES", False)

    def test_threads_that_share_a_file_read_what_they_ask_for(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(bytes(range(200)))
        found: dict[int, bytes] = {}

        class Slow(io.BufferedReader):
            def seek(self, place: int, whence: int = 0, /) -> int:
                at = super().seek(place, whence)
                time.sleep(0.01)  # another thread may go on
                return at

        def read(file: BinaryIO, at: int) -> None:
            content = bytearray(3)
            regular.read_at(file, memoryview(content), at)
            found[at] = bytes(content)

        with Slow(io.FileIO(tmp_path / "x")) as file:
            threads = [threading.Thread(target=read, args=(file, at)) for at in (0, 50, 100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert found == {at: bytes(range(at, at + 3)) for at in (0, 50, 100)}

    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        content = bytearray(4)
        with open(tmp_path / "x", "w+b") as file:
            file.write(b"0123456789")
            regular.read_at(file, memoryview(content), 2)
            regular.write_at(file, memoryview(b"ab"), 3)
            regular.read_at(file, memoryview(content), 2)
        assert content == b"2ab5"


def test_a_path_of_bytes_is_named_in_errors(folder: Path) -> None:
    with pytest.raises(DumpError, match="pipe: a FIFO"):
        open_regular(os.fsencode(folder / "pipe"))


@pytest.mark.parametrize("read", [sd.open_dump, sd.read_dump, open_source])
def test_a_text_in_place_of_a_path_is_named_in_part(read: Callable[[str], object]) -> None:
    text = "arguments { }\n" * 1000
    with pytest.raises(OSError, match=r"arguments") as caught:
        read(text)
    assert len(str(caught.value)) < 400
