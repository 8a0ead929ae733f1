"""Whatever bytes say: a reader ends in a value or in a refusal that it documents, in little time and memory.

By hand: ``pytest tests/fuzz/test_readers.py -s --fuzz-seconds 500 --fuzz-seed 3``. Coverage guides it (with atheris) in
``python -m tests.fuzz.guided READER``.
"""

from __future__ import annotations

import random
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strided.errors import StridedWarning
from tests.fuzz.mutation import inputs
from tests.fuzz.readers import READERS, Reader, shown

resource = pytest.importorskip("resource")

#: Bytes that memory is counted in.
_UNIT = 1 if sys.platform == "darwin" else 1024
#: Seconds of the processor's time after which an input of a few kilobytes counts as one that never ends.
_NEVER = 60
#: What reading an input of a few kilobytes may add to the memory of the process, in bytes.
_MEMORY = 256 << 20


class Endless(BaseException):
    """An input that is still being read after very long."""


@contextmanager
def watched() -> Iterator[None]:
    """Within this, what takes very long is broken off, and what takes much memory is refused."""

    def ring(*_: object) -> None:
        raise Endless

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    old = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, _NEVER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _UNIT
    assert grown < _MEMORY, f"{grown >> 20} MiB for one input"


def read(reader: Reader, data: bytes) -> bool:
    """Whether a reader takes an input; fails where it neither takes nor refuses it as it should."""
    with warnings.catch_warnings(), watched():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", StridedWarning)
        # NumPy's own word on files of Python 2.
        warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required additional header parsing")
        try:
            reader.read(data)
        except reader.refusals as error:
            shown(str(error))
            return False
    return True


@pytest.mark.parametrize("name", READERS)
def test_readers_take_or_refuse_any_input(name, fuzz_seconds, fuzz_seed, record_property):
    reader, rng = READERS[name], random.Random(f"{name} {fuzz_seed}")
    seeds = reader.seeds()
    assert any(read(reader, seed) for seed in seeds), "the seeds themselves are refused"
    end, count, taken = time.monotonic() + fuzz_seconds / 8, 0, 0
    for data in inputs(seeds, rng):
        try:
            taken += read(reader, data)
        except BaseException:
            print(f"\n{name}, input {count} of seed {fuzz_seed}: {data!r}")
            raise
        count += 1
        if time.monotonic() > end:
            break
    record_property("inputs", count)
    print(f"{name}: {count} inputs, {taken} of them taken")
