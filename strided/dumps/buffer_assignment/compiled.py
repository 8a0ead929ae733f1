"""What JAX tells of a program that it compiled: the buffer assignment, apart from the module, and its total."""

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


def device_bytes_of(compiled: Compiled) -> int | None:
    """The bytes that a compiled program takes of each device's main memory, its code aside; None if JAX tells none.

    Results that take the buffers of arguments count once.
    """
    figures = compiled.memory_analysis()
    try:
        held: int = figures.argument_size_in_bytes + figures.output_size_in_bytes + figures.temp_size_in_bytes
        return held - figures.alias_size_in_bytes or None
    except AttributeError:  # other platforms tell other figures, or none
        return None
