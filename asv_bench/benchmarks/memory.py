"""How fast is a report on the memory of a large program, and of a log?

The program is 12 MB of HLO text: 60,000 instructions in their order, each of which takes the value of one far
before it. Beside it stands the time to read the module alone.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import strided as sd
from benchmarks.cases import TOY

_LOG = Path(__file__).parents[2] / "tests" / "data" / "memory" / "hbm_train_step_v4.report.txt.gz"
_INSTRUCTIONS = 600 if TOY else 60_000
#: How far before an instruction the one lies whose value it takes.
_DISTANCE = 40


def large_program() -> str:
    """A scheduled module of that size as text."""
    shapes = [f"f32[{rows},{columns}]{{1,0:T(8,128)}}" for rows in (8, 1000, 4096) for columns in (2, 64, 128, 300)]
    lines = [f'  %v.0 = {shapes[0]} parameter(0), metadata={{op_name="x"}}']
    for n in range(1, _INSTRUCTIONS):
        place = f'metadata={{op_name="jit(train)/layer_{n % 96}/dot_general" source_file="/home/me/model.py"'
        operands = f"%v.{n - 1}, %v.{max(0, n - _DISTANCE)}"
        lines.append(
            f'  %v.{n} = {shapes[n % len(shapes)]} custom-call({operands}), custom_call_target="f", '
            f"{place} source_line={n % 800}}}"
        )
    lines[-1] = lines[-1].replace("  %", "  ROOT %", 1)
    return "HloModule large, is_scheduled=true\n\nENTRY %main () -> f32[] {\n" + "\n".join(lines) + "\n}\n"


class Reports:
    """The report of a whole program, the module alone, and the report of a log."""

    timeout = 120

    def setup(self) -> None:
        self.text = large_program()
        if not _LOG.exists():
            raise NotImplementedError("the tests' data are not part of this copy")
        self.log = gzip.decompress(_LOG.read_bytes()).decode()

    def time_report_of_12_mb_of_hlo(self) -> None:
        sd.memory_report(self.text)

    def time_read_12_mb_of_hlo(self) -> None:
        sd.read_hlo(self.text)

    def time_report_of_a_log(self) -> None:
        sd.memory_report(self.log)
