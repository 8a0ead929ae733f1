"""Protos with texts and numbers of any kind in them: ours is the text that jaxlib prints.

jaxlib stands in a process of its own, since some protos end it. Those, and protos that it refuses, are counted and left
out: that ours never ends so is what `tests/dumps/test_hlo_proto.py` asks.
"""

from __future__ import annotations

import base64
import copy
import json
import random
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from strided.dumps.hlo import read_hlo
from strided.dumps.hlo.proto import find_module
from strided.dumps.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT
from tests.dumps.test_hlo_printing import MODULES, RENUMBERED
from tests.dumps.test_hlo_proto import built, tree
from tests.hlo_samples import PAIRS, proto_of
from tests.jaxlib_release import skip_with_other_words

pytest.importorskip("jaxlib", reason="jaxlib is not installed")
pytestmark = pytest.mark.jax

_SERVER = """
import base64, json, sys
from jaxlib import _hlo
for line in sys.stdin:
    try:
        module = _hlo.HloModule.from_serialized_hlo_module_proto(base64.b64decode(line))
        answer = module.to_string()
    except Exception:
        answer = None
    print(json.dumps(answer), flush=True)
"""


class Jaxlib:
    """jaxlib's printer in another process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.outcomes: Counter[str] = Counter()

    def text(self, proto: bytes) -> str | None:
        """What it prints; None where it refuses the proto or dies of it."""
        if self._process is None:
            pipe = subprocess.PIPE
            command = [sys.executable, "-c", _SERVER]
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(base64.b64encode(proto).decode() + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.close()
            self.outcomes["died"] += 1
            return None
        text: str | None = json.loads(answer)
        self.outcomes["refused" if text is None else "printed"] += 1
        return text

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


# ---- what is changed: only what XLA takes as it comes ----------------------------------------------------------------

#: What makes trouble in texts, one beside the other.
_PIECES = [
    *"abc1\"'\\{}[]=, \n\té\x01%\x7f\u202e",
    "b/c",
    "//",
    "/*",
    "*/",
    "{}",
    '{"b":1,"a":[2]}',
    "mesh[",
    "->",
    "ROOT",
]


def _text(chance: random.Random) -> bytes:
    return "".join(chance.choices(_PIECES, k=chance.randint(0, 6))).encode()


def _braced(chance: random.Random) -> bytes:
    return b"{" + _text(chance) + b"}" if chance.random() < 0.5 else _text(chance)


def _number(chance: random.Random) -> int:
    return chance.choice([0, 1, 2, 3, 7, 12, 100, 2**31 - 1])


def _any_number(chance: random.Random) -> int:
    return chance.choice([_number(chance), 2**63 - 1, 2**64 - 1, chance.getrandbits(64)])


def _bits(count: int) -> Callable[[random.Random], bytes]:
    return lambda chance: chance.choice([chance.randbytes(count), b"\0" * count, b"\0" * (count - 2) + b"\x80\x3f"])


#: By message and number of the field; kinds of fields that a list may hold packed are left alone.
_CHANGES: dict[tuple[str, int], Callable[[random.Random], Any]] = {
    **{("OpMetadata", number): _text for number in (1, 2, 3, 12, 16)},
    **{("OpMetadata", number): _number for number in (4, 17, 18, 19)},
    **{("HloInstructionProto", number): _braced for number in (22, 27, 28, 43)},
    **{("HloInstructionProto", number): _number for number in (18, 19, 26, 50, 58, 66, 81, 95)},
    **{("HloInstructionProto", number): lambda chance: chance.randint(0, 1) for number in (47, 60, 65, 67, 69, 71, 85)},
    ("HloInstructionProto", 24): _bits(4),
    **{("FrontendAttributes.MapEntry", number): _braced for number in (1, 2)},
    **{("WindowDimension", number): _any_number for number in (1, 2, 3, 4, 5, 6)},
    ("WindowDimension", 7): lambda chance: chance.randint(0, 1),
    **{("HloInstructionProto.SliceDimensions", number): _any_number for number in (1, 2, 3)},
    **{("PaddingConfig.PaddingConfigDimension", number): _any_number for number in (1, 2, 3)},
    **{("SourceTarget", number): _any_number for number in (1, 2)},
    ("Statistic", 1): _text,
    ("Statistic", 2): _bits(8),
    ("StatisticsViz", 1): _any_number,
    ("OriginalArrayProto", 1): _text,
    ("Payload", 1): _braced,
    **{("TriangularSolveOptions", number): lambda chance: chance.randint(0, 1) for number in (1, 2, 3)},
    ("TriangularSolveOptions", 4): lambda chance: chance.randint(0, 3),
    **{("ResultAccuracy.Tolerance", number): _bits(8) for number in (1, 2)},
}
_VALUES = {BYTES: bytes, VARINT: int, FIXED32: bytes, FIXED64: bytes}


def _places(message: str, nodes: list[list[Any]]) -> list[tuple[list[Any], Callable[[random.Random], Any]]]:
    """The fields of a tree that may be changed, with what makes new values of them."""
    found = []
    for node in nodes:
        number, kind, inner, value = node
        change = _CHANGES.get((message, number))
        if inner:
            found += _places(inner, value)
        elif change is not None and isinstance(change(random.Random(0)), _VALUES[kind]):
            found.append((node, change))
    return found


def test_changed_protos_print_as_jaxlib_prints_them(
    fuzz_seconds: float, fuzz_seed: int, record_property: Callable[[str, object], None]
) -> None:
    skip_with_other_words()
    chance = random.Random(fuzz_seed)
    samples = [proto for _, proto, _ in MODULES]
    samples += [bytes(find_module(memoryview(proto_of(name)))[0]) for name in PAIRS if name not in RENUMBERED]
    samples = [proto for proto in samples if len(proto) < 5_000]
    trees = [tree("HloModuleProto", memoryview(proto)) for proto in samples]
    jaxlib, end = Jaxlib(), time.monotonic() + fuzz_seconds
    try:
        while time.monotonic() < end or not jaxlib.outcomes["printed"]:
            nodes = copy.deepcopy(chance.choice(trees))
            places = _places("HloModuleProto", nodes)
            for node, change in chance.sample(places, min(len(places), chance.randint(1, 8))):
                node[3] = change(chance)
            proto = built(nodes)
            wanted = jaxlib.text(proto)
            if wanted is None:
                assert jaxlib.outcomes["printed"] or jaxlib.outcomes.total() < 100, "jaxlib prints nothing"
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_hlo(proto).to_text()
            header, _, lines = found.rstrip("\n").partition("\n")
            header = re.sub(r", (replica_count|num_partitions)=\d+", "", header)
            assert f"{header}\n{lines}" == wanted.rstrip("\n"), base64.b64encode(proto).decode()
    finally:
        jaxlib.close()
    record_property("outcomes", dict(jaxlib.outcomes))
    print(dict(jaxlib.outcomes))
