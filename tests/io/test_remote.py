"""Arrays behind URLs: values are NumPy's, and only the bytes that a key needs are fetched."""

from __future__ import annotations

import http.server
import pickle
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from strided.io import remote  # noqa: E402

pytestmark = pytest.mark.partners

SHAPE = "f32[400,3000]{1,0:T(8,128)}"
VALUES = np.arange(1_200_000, dtype=np.float32).reshape(400, 3000)


class Server(http.server.ThreadingHTTPServer):
    """Serves one folder with ranges of bytes, and counts the bytes that it sent."""

    daemon_threads = True

    def __init__(self, folder: Path, *, ranges: bool = True, tells_size: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.ranges, self.tells_size, self.sent = folder, ranges, tells_size, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        content, code = path.read_bytes(), 200
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        size = len(content)
        headers = {"Accept-Ranges": "bytes" if self.server.ranges else "none"}
        if found and self.server.ranges:
            start, stop = int(found[1]), min(size, int(found[2] or size - 1) + 1)
            content, code = content[start:stop], 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.server.tells_size:
            self.send_header("Content-Length", str(len(content)))
        else:
            self.send_header("Connection", "close")  # which alone shows the end
        self.end_headers()
        if self.command == "GET":
            self.server.sent += len(content)
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    sd.LayoutArray.from_numpy(VALUES, SHAPE).buffer.tofile(tmp_path / "x.bin")
    with Server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


KEYS: list[Any] = [
    (3, 4),
    np.s_[17],
    np.s_[5:9, 100:700:3],
    np.s_[::-50, ...],
    np.s_[..., None, -1],
    [7, 300, 7],
    ([1, 399], [2, 2999]),
    np.arange(400) % 150 == 3,
    np.s_[10:10],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys(server: Server, key: Any) -> None:
    a = sd.open(f"{server.url}/x.bin", SHAPE)
    found, wanted = a[key], VALUES[key]
    assert type(found) is type(wanted)
    assert np.array_equal(found, wanted)
    assert server.sent < VALUES.nbytes / 2


def test_only_what_a_key_needs_is_fetched(server: Server) -> None:
    a = sd.open(f"{server.url}/x.bin", SHAPE)
    assert server.sent == remote.HEAD_BYTES
    a[0, 0]
    assert server.sent <= remote.HEAD_BYTES + 4
    before = server.sent
    a[8:16, :128]  # one tile
    assert server.sent - before == 4096
    before = server.sent
    assert np.array_equal(np.asarray(a), VALUES)
    assert VALUES.nbytes <= server.sent - before <= a.xla_shape.byte_size  # nothing twice


def test_its_page_has_its_order_of_bits(server: Server) -> None:
    array: Any = sd.open(f"{server.url}/x.bin", "u4[64]{0:E(4)}", bitorder="big", allow_excess=True)
    assert '"is_big_endian_packed":true' in sd.explore(array).html


def test_what_it_says_of_itself(server: Server) -> None:
    a: Any = sd.open(f"{server.url}/x.bin", SHAPE)
    assert (a.shape, a.ndim, a.size, a.dtype, a.nbytes, len(a)) == (
        (400, 3000),
        2,
        1_200_000,
        np.float32,
        4_800_000,
        400,
    )
    assert str(a.layout) == "{1,0:T(8,128)}"
    assert repr(a) == f"<RemoteArray {SHAPE} at '{server.url}/x.bin'>"
    again = pickle.loads(pickle.dumps(a))
    assert np.array_equal(again[399], VALUES[399])
    with pytest.raises(IndexError, match="400"):
        a[400]
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(a, copy=False)
    with pytest.raises(TypeError, match="unsized"):
        len(sd.open(f"{server.url}/x.bin", "f32[]", offset=8))


@pytest.mark.parametrize("shape", ["s4[17,129]{1,0:T(8,128)(8,1)E(4)}", "bf16[3,5]{0,1:M(64)}", "f32[]", "f32[0,3]"])
def test_other_shapes(tmp_path: Path, shape: str) -> None:
    content = np.random.default_rng(0).integers(0, 256, sd.parse_shape(shape).buffer_byte_size, np.uint8)
    (tmp_path / "y.bin").write_bytes(content.tobytes())
    wanted = np.asarray(sd.LayoutArray(content, shape))
    found = sd.open(f"file://{tmp_path}/y.bin", shape)
    assert np.asarray(found).tobytes() == wanted.tobytes()


def test_other_file_systems() -> None:
    raw = sd.LayoutArray.from_numpy(VALUES[:20], "{0,1:T(8,128)}")
    fsspec.filesystem("memory").pipe("/bucket/x.bin", b"head" + raw.buffer.tobytes())
    for url in ("memory://bucket/x.bin", "simplecache::memory://bucket/x.bin"):
        a = sd.open(url, raw.xla_shape, offset=4)
        assert np.array_equal(a[3:7, ::9], VALUES[3:7, ::9])


def test_errors(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}/x.bin"
    with pytest.raises(FileNotFoundError, match=r"No such file.*http://.*/none\.bin") as missing:
        sd.open(f"{server.url}/none.bin", SHAPE)
    assert missing.value.filename == f"{server.url}/none.bin"
    with pytest.raises(sd.BufferSizeError, match="takes"):
        sd.open(url, "f32[4000,3000]")
    with pytest.raises(ValueError, match="read-only"):
        sd.open(url, SHAPE, mode="r+")
    with pytest.raises(sd.UnsupportedError, match="nowhere"):
        sd.open("nowhere://x.bin", SHAPE)
    a = sd.open(url, SHAPE)
    (tmp_path / "x.bin").write_bytes(bytes(5000))
    with pytest.raises((sd.BufferSizeError, OSError), match=r"x\.bin"):  # fsspec may tell it first
        a[300]


def test_a_server_without_ranges(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(4096))
    with Server(tmp_path, ranges=False) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(sd.UnsupportedError, match="whole files"):
            sd.open(f"{server.url}/x.bin", "f32[8,128]")
        server.shutdown()


def test_a_server_that_does_not_say_how_long_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(4096))
    with Server(tmp_path, ranges=False, tells_size=False) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(sd.UnsupportedError, match=r"x\.bin: the server does not say how many bytes it holds"):
            sd.open(f"{server.url}/x.bin", "f32[8,128]")
        server.shutdown()


@pytest.mark.slow
def test_dask_with_workers_of_little_memory(server: Server) -> None:
    """Two processes fetch chunks; neither gets the whole array."""
    distributed = pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    a = sd.open(f"{server.url}/x.bin", SHAPE)
    d = da.from_array(a, chunks=(80, 3000))
    with distributed.Client(
        n_workers=2, threads_per_worker=1, memory_limit="800MB", dashboard_address=None, processes=True
    ) as client:
        assert float(d.sum(dtype="f8").compute(scheduler=client)) == VALUES.sum(dtype=np.float64)
        assert np.array_equal(d[100:103, ::700].compute(scheduler=client), VALUES[100:103, ::700])


def test_a_file_with_a_header_behind_a_url() -> None:
    system = fsspec.filesystem("memory")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with system.open("/x.npy", "wb") as file:
        np.save(file, values)
    with pytest.raises(sd.BufferSizeError, match=r"begins as a .npy file does: give the offset"):
        sd.open("memory://x.npy", "f32[2,3]")
    found = sd.open("memory://x.npy", "f32[2,3]", offset=128)
    assert np.array_equal(found, values)
    assert 5.0 in found
    assert 7.0 not in found
