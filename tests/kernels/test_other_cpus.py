"""The kernels as code for other CPUs than the one at hand, compiled by processes of their own.

These take the longest of all tests: compiling the kernels once takes one to two minutes of a core.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from strided.kernels import kernel_of
from strided.kernels.disk_cache import SWITCH
from strided.kernels.llvm import LINE, register_bytes
from tests import paths


def printed(code: str, cpu: str, features: str) -> str:
    """What some code prints where kernels are compiled for a CPU, and kept nowhere."""
    environment = os.environ | {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, SWITCH: "0"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, cwd=paths.ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=900
    ).stdout


def calls_on_arm(name: str) -> set[str]:
    """The functions of a compiler's runtime library that a kernel calls once it is code for ARM."""
    (text,) = kernel_of(name).compiled.inspect_llvm().values()
    assert not re.findall(r"llvm\.(?:x86|aarch64|arm)\.[\w.]*", text)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu="generic", opt=2)
    text = re.sub(r'target triple = ".*"', f'target triple = "{triple}"', text)
    text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{machine.target_data}"', text)
    module = llvm.parse_assembly(text)
    module.verify()
    return set(re.findall(r"\bbl\s+(__\w+)", machine.emit_assembly(module)))


of_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names features of x86")


@of_x86
@pytest.mark.parametrize(
    ("name", "tuned"),
    [
        ("haswell", {"skylake": "haswell", "znver3": "znver3", "znver4": "haswell", "znver5": "znver5"}),
        ("x86-64", {"skylake": "x86-64", "znver5": "znver5"}),
        pytest.param("znver3", {"haswell": "znver3", "znver5": "znver3"}, marks=pytest.mark.slow),
        pytest.param("znver5", {"znver3": "znver5", "znver5": "znver5"}, marks=pytest.mark.slow),
    ],
)
def test_caches_are_those_of_the_cpu_at_hand_unless_the_name_of_one_of_amd_is_given(name, tuned):
    code = f"""
from strided.kernels import llvm
for at_hand in {list(tuned)}:
    llvm.get_host_cpu_name = lambda: at_hand
    llvm.tuned_cpu.cache_clear()
    print(llvm.tuned_cpu())
"""
    assert printed(code, name, "").split() == list(tuned.values())


@of_x86
@pytest.mark.slow
def test_kernels_are_right_with_least_features_and_code_for_arm_too():
    """LLVM makes do with what a CPU has, slower, but the same bytes.

    Where registers are as short as ARM's no instruction of one CPU alone is named, and LLVM needs no help.
    """
    code = """
from strided.kernels import HOMES
from tests.kernels.test_fast import check_all
from tests.kernels.test_other_cpus import calls_on_arm
check_all()
print([name for name in HOMES if calls_on_arm(name)])
"""
    assert printed(code, "x86-64", "") == "[]\n"


@of_x86
@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "features"),
    [
        ("x86-64", "+sse4.2"),
        # AMD's go a way of their own.
        pytest.param(
            "znver3",
            "-sse4a",
            marks=pytest.mark.skipif(llvm.get_host_cpu_name() == "znver3", reason="this CPU's, which all tests try"),
        ),
    ],
)
def test_kernels_are_right_on_lesser_cpus(cpu, features):
    code = "from tests.kernels.test_fast import check_all; check_all()"
    assert not printed(code, cpu, features)


@of_x86
@pytest.mark.slow
@pytest.mark.skipif(register_bytes() < LINE, reason="this CPU lacks AVX-512")
@pytest.mark.skipif(llvm.get_host_cpu_name() == "znver5", reason="this CPU's, which all tests try")
def test_transposes_are_right_on_amd_cpus_with_registers_of_64_bytes():
    """They write lines straight from registers, which the other CPUs with such registers do not."""
    lacking = "-sse4a,-clzero,-avx512vp2intersect,-avx512bf16,-avxvnni"
    assert not printed("from tests.kernels.test_fast import check_transposes; check_transposes()", "znver5", lacking)
