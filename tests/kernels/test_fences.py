"""What threads see of each other: lines written past the caches are fenced, and no two threads take one task.

No run shows that a fence is missing, on x86 least of all. So these look at LLVM's code of each kernel, which is kept
with the machine code: no kernel is compiled anew for it.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

import pytest

from strided.kernels import HOMES, kernel_of

_NAME = r'("[^"]+"|[\w.$-]+)'
_FUNCTION = re.compile(rf"^define [^\n]*?@{_NAME}\([^\n]*\{{\n(.*?)^\}}", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(rf"^{_NAME}:", re.MULTILINE)
_NEXT = re.compile(rf"label %{_NAME}")
_CALL = re.compile(rf"\bcall [^\n]*?@{_NAME}\(")
_STREAMING, _FENCE = "!nontemporal", "  fence seq_cst"


class Block(NamedTuple):
    """A block of LLVM's code, line by line, and the blocks that may come next."""

    lines: list[str]
    following: list[str]


class Code:
    """LLVM's code of a kernel, with all that it calls."""

    def __init__(self, text: str, kernel: str) -> None:
        self._bodies = dict(_FUNCTION.findall(text))
        parts = _LABEL.split("start:\n" + self._bodies[kernel])
        self._blocks = {
            label: Block(body.splitlines(), _NEXT.findall(body))
            for label, body in zip(parts[1::2], parts[2::2], strict=True)
        }
        self._known: dict[str, bool] = {}

    def _streams(self, line: str) -> bool:
        """Whether a line writes past the caches, or calls what does."""
        called = _CALL.search(line)
        if called is None or called[1] not in self._bodies:
            return _STREAMING in line
        if ", i64 0)" in line:  # `streaming`, which comes last
            return False
        if called[1] not in self._known:
            self._known[called[1]] = any(map(self._streams, self._bodies[called[1]].splitlines()))
        return self._known[called[1]]

    def _before_fences(self) -> set[str]:
        """The blocks from whose end a fence is reached."""
        found: set[str] = set()
        waiting = {
            label for label, block in self._blocks.items() if any(line.startswith(_FENCE) for line in block.lines)
        }
        while waiting:
            new = {label for label, block in self._blocks.items() if waiting & {*block.following}} - found
            found |= new
            waiting = new
        return found

    def unfenced(self) -> list[str]:
        """What writes past the caches, or calls what does, where no fence is reached from."""
        before, found = self._before_fences(), []
        for label, block in self._blocks.items():
            since: list[str] = []
            for line in block.lines:
                if line.startswith(_FENCE):
                    since = []
                elif self._streams(line):
                    since.append(line)
            found += since if label not in before else []
        return found


def code_of(name: str) -> tuple[str, str]:
    """LLVM's code of a kernel and of all that it calls, and the name of its function there."""
    (made,) = kernel_of(name).compiled.overloads.values()
    return str(made.library._get_module_for_linking()), made.fndesc.llvm_func_name


@pytest.mark.parametrize("name", HOMES)
@pytest.mark.slow
def test_what_is_written_past_the_caches_is_fenced(name: str) -> None:
    text, own = code_of(name)
    assert (_STREAMING in text) == ("streaming" in inspect.signature(kernel_of(name).compiled.py_func).parameters)
    assert not Code(text, own).unfenced()
    # Without any one of its fences it is found out.
    first = text.index(f"@{own}(")
    end = text.index("\n}", first)
    fences = [found.start() for found in re.finditer(_FENCE, text) if first < found.start() < end]
    for at in fences:
        assert Code(f"{text[:at]}{text[at + len(_FENCE) :]}", own).unfenced()
    assert bool(fences) == (_STREAMING in text)


def test_tasks_are_counted_by_one_instruction() -> None:
    """Else two threads may take the same task now and then: bytes that it reads and writes again would be torn."""
    text, _ = code_of("run_tasks")
    assert "atomicrmw add" in text
