"""The buffer assignment of a program that JAX compiled: it hands out the module and the assignment apart."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from strided.dumps.protobuf.wire import bytes_field


class Compiled(Protocol):
    """What is used of a ``jax.stages.Compiled``."""

    def memory_analysis(self) -> Any: ...

    def runtime_executable(self) -> Any: ...


def is_compiled(origin: Any) -> TypeGuard[Compiled]:
    """Whether it is what ``jax.jit(f).lower(x).compile()`` gives."""
    return all(callable(getattr(origin, name, None)) for name in ("memory_analysis", "runtime_executable"))


def hlo_proto_of(compiled: Compiled) -> bytes | None:
    """The HloProto of a compiled program: its module, and beside it the assignment; None if JAX does not give both.

    Not all platforms have an assignment, and a program may be made of several modules.
    """
    assignment = getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None)
    executable = compiled.runtime_executable()
    if not assignment or not hasattr(executable, "hlo_modules"):
        return None
    try:
        modules = executable.hlo_modules()
    except RuntimeError:  # XLA's own, for a runtime that keeps none
        return None
    if len(modules) != 1:
        return None
    return bytes_field(1, modules[0].as_serialized_hlo_module_proto()) + bytes_field(3, assignment)
