"""Compiles a program with the TPU compiler, without a TPU: `compile_hlo`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import strided.interop
from strided.dumps.hlo import read_hlo
from strided.errors import UnsupportedError
from strided.memory.partitions import partitions_of

_COMPILER = Path(strided.interop.__file__).with_name("ahead_of_time.py")


@dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes
    ----------
    text : str
        The module after optimizations.
    memory : mapping of str to int
        The compiler's figures for one device, in bytes: ``argument_size_in_bytes``, ``temp_size_in_bytes``,
        ``peak_memory_in_bytes``, ...
    """

    text: str
    memory: Mapping[str, int]


def compiler_is_installed() -> bool:
    """Whether jax and libtpu are installed."""
    return all(importlib.util.find_spec(name) for name in ("jax", "jaxlib", "libtpu"))


def compile_hlo(text: str, generation: str = "v5e", *, timeout: float = 120, dump_to: str | None = None) -> Compiled:
    """Compile an HLO text for one generation of TPUs. This needs jax and libtpu, but no TPU.

    The compiler runs in a separate process. Arguments and results have the layouts in the header's `arg_layout_modes`
    and `out_layout_modes`, where JAX records a `Format`; without these, the default layouts.

    Parameters
    ----------
    text : str
        The module before optimizations, as from `Module.to_text(print_large_constants=True)` or a dump.
    generation : str
        ``"v2"``, ``"v3"``, ``"v4"``, ``"v5e"``, ``"v5p"``, ``"v6e"`` or ``"tpu7x"``.
    timeout : float
        Seconds after which the compiler is stopped.
    dump_to : str, optional
        A folder for the compiler's dumps; they contain its memory usage report even if it rejects the program.

    Raises
    ------
    UnsupportedError
        jax or libtpu is not installed, or the compiler rejected the program, crashed, or timed out. ``args[0]`` is its
        whole message, such as the report of a program that runs out of memory.
    DumpError
        The text is not a module.
    """
    if not compiler_is_installed():
        raise UnsupportedError("compiling for a TPU needs jax and libtpu: pip install jax libtpu")
    module = read_hlo(text)
    request = {
        "text": text,
        "generation": generation,
        "replicas": module.replica_count,
        "partitions": partitions_of(module),
    }
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={dump_to} --xla_dump_hlo_as_text"
    environment = os.environ | ({} if dump_to is None else {"XLA_FLAGS": flags})
    command = [sys.executable, "-P", str(_COMPILER)]  # -P: do not add the script's folder to sys.path
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"the compiler was stopped after {timeout:g} seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UnsupportedError(f"the compiler crashed with exit status {done.returncode}: {last}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise UnsupportedError(f"the compiler does not take this program: {answer['error']}")
    return Compiled(**answer)
