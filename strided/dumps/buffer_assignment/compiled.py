"""The buffer assignment and the memory total of a program that JAX compiled."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from strided.dumps.protobuf.wire import bytes_field


class Compiled(Protocol):
    """The methods used of a ``jax.stages.Compiled``."""

    def memory_analysis(self) -> Any: ...

    def runtime_executable(self) -> Any: ...


def is_compiled(origin: Any) -> TypeGuard[Compiled]:
    """Whether an object is a result of ``jax.jit(f).lower(x).compile()``."""
    return all(callable(getattr(origin, name, None)) for name in ("memory_analysis", "runtime_executable"))


def hlo_proto_of(compiled: Compiled) -> bytes | None:
    """The HloProto of a compiled program, with its module and assignment; None if JAX does not provide both.

    Not all platforms have an assignment, and a program may consist of several modules.
    """
    assignment = getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None)
    executable = compiled.runtime_executable()
    if not assignment or not hasattr(executable, "hlo_modules"):
        return None
    try:
        modules = executable.hlo_modules()
    except RuntimeError:  # raised by XLA if the runtime does not keep modules
        return None
    if len(modules) != 1:
        return None
    return bytes_field(1, modules[0].as_serialized_hlo_module_proto()) + bytes_field(3, assignment)


def device_bytes_of(compiled: Compiled) -> int | None:
    """Bytes of each device's main memory that a compiled program uses, without its code; None if JAX does not say.

    Buffers that arguments and results share are counted once.
    """
    figures = compiled.memory_analysis()
    try:
        held: int = figures.argument_size_in_bytes + figures.output_size_in_bytes + figures.temp_size_in_bytes
        return held - figures.alias_size_in_bytes or None
    except AttributeError:  # other platforms have other figures, or none
        return None
