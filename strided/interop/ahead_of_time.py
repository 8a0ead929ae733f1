"""A program that compiles HLO text for a TPU, without needing one. It reads and writes JSON.

`strided.memory.ahead_of_time` runs it in a separate process, because the compiler aborts on some requests. It needs jax
and libtpu, and imports nothing from this package.

The layouts of arguments and results are those of the module's `arg_layout_modes` and `out_layout_modes`, which JAX
writes from its `Format`s.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

#: Keeps the compiler from querying the network for TPUs, writing logs, and locking out other processes.
_QUIET = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
    "TPU_ACCELERATOR_TYPE": "",
    "TPU_LOG_DIR": "disabled",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
#: Topologies of slices by their number of dimensions, smallest first.
_SLICES = {
    2: ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
    3: ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
}
_FLAT = ("v2", "v3", "v5e", "v6e")


def main() -> None:
    """Read a request from standard input; print the compiled module and its memory statistics, or the error."""
    request = json.load(sys.stdin)
    os.environ.update(_QUIET)
    try:
        answer = _compiled(**request)
    except Exception as error:  # whatever the compiler raises is reported
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


def _compiled(text: str, generation: str, replicas: int, partitions: int) -> dict[str, Any]:
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
    from jaxlib import _hlo
    from jaxlib.mlir import ir

    module = _hlo.hlo_module_from_text(text)
    devices = _devices(generation, replicas * partitions)
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    for each in (options, build):
        each.num_replicas, each.num_partitions = replicas, partitions
    build.use_spmd_partitioning = partitions > 1
    build.use_shardy_partitioner = partitions > 1 and "xla.sdy.meshes" in text
    numbers = np.array([device.id for device in devices]).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    with mlir.make_ir_context():
        program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto()))
        _set_layouts(program, ir)
        done = devices[0].client.compile(
            program, executable_devices=xla_client.DeviceList(tuple(devices)), compile_options=options
        )
    figures = done.get_compiled_memory_stats()
    memory = {name: getattr(figures, name) for name in dir(figures) if name.endswith("_in_bytes")}
    return {"text": done.hlo_modules()[0].to_string(), "memory": memory}


def _devices(generation: str, wanted: int) -> Any:
    from jax.experimental import topologies

    for size in _SLICES[2 if generation in _FLAT else 3]:
        topology = topologies.get_topology_desc(platform="tpu", topology_name=f"{generation}:{size}")
        if len(topology.devices) >= wanted:
            return topology.devices[:wanted]
    raise ValueError(f"no known slice of {generation} has {wanted} devices")


def _set_layouts(program: Any, ir: Any) -> None:
    """Turn the module's frontend attributes on layouts into attributes of its arguments and results."""
    said = program.operation.attributes
    record = said["mhlo.frontend_attributes"] if "mhlo.frontend_attributes" in said else {}
    main = next(operation for operation in program.body if operation.name.value == "main")
    for which, name in (("arg_attrs", "arg_layout_modes"), ("res_attrs", "out_layout_modes")):
        if name not in record:
            continue
        modes = [{"mhlo.layout_mode": ir.StringAttr.get(mode)} for mode in record[name].value.split(";")]
        old = main.attributes[which] if which in main.attributes else [{} for _ in modes]
        kept = [{a.name: a.attr for a in map(attributes.__getitem__, range(len(attributes)))} for attributes in old]
        if len(kept) != len(modes):
            raise ValueError(f"{name} names {len(modes)} layouts for {len(kept)} values")
        merged = [ir.DictAttr.get(attributes | mode) for attributes, mode in zip(kept, modes, strict=True)]
        main.attributes[which] = ir.ArrayAttr.get(merged)


if __name__ == "__main__":
    main()
