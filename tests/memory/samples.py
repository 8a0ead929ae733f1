"""Programs and reports that the tests of memory have in common."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.paths import DATA

MEMORY = DATA / "memory"
REPORTS = sorted(MEMORY.glob("*report.txt.gz"))
MATMUL = [MEMORY / f"complex_matmul.{what}.txt.gz" for what in ("hlo", "buffer-assignment", "memory-usage-report")]

HLO = """HloModule f, is_scheduled=true

ENTRY %main (x: f32[1000,2]) -> f32[] {
  %x = f32[1000,2]{1,0:T(8,128)} parameter(0), metadata={op_name="params['w']"}
  %y = f32[1000,2]{1,0:T(8,128)} sine(%x), metadata={op_name="jit(f)/sin" source_file="/home/me/model.py" source_line=7}
  %z = f32[1000,2]{0,1:T(2,128)} copy(%y)
  ROOT %r = f32[]{:T(128)} custom-call(%z), custom_call_target="sum", metadata={op_name="jit(f)/sum"}
}
"""


def text_of(path: Path) -> str:
    """The text in a file, which may be compressed."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


OLD = """Ran out of memory in memory space hbm. Used 18.81G of 15.48G hbm. Exceeded hbm capacity by 3.33G.

  Largest program allocations in hbm:

  1. Size: 4.00G
     Operator: op_type="Mul" op_name="jit(f)/mul"
     Shape: f32[1048576,8]{1,0:T(8,128)}
     Unpadded size: 32.00M
     Extra memory due to padding: 3.97G (128.0x expansion)
     XLA label: %fusion.1 = f32[1048576,8]{1,0:T(8,128)} fusion(%p0)
     Allocation type: HLO temp
     ==========================
"""

ERROR = "E1122 14:27:30.188 10947 compiler.cc:3563] Ran out of memory in memory space hbm. Used 30.12G of 15.25G hbm. "

LOGS = [f"{ERROR}HLO module: jit_step. Memory usage report: \n\n{text_of(REPORTS[0])}\nand so on\n", OLD]

#: What an error says of MATMUL, and no more.
MATMUL_ERROR = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (203.5K) exceeds available HBM (100.0K). HLO module: jit_f."
)
