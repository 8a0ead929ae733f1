"""Compiles HLO for TPU ahead of time, without one: ``python -m strided.interop.tpu_compiler REQUEST.json``.

The request names the HLO text, the topology, the number of devices, and the layouts that the program asks for.
`strided.memory.verify` runs this in a process of its own, because the compiler ends the process on some requests; what
it says of memory is in the dump that ``XLA_FLAGS`` asks for, or on standard error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def compile_request(request: dict[str, Any]) -> None:
    """Compile the text of a request.

    Raises
    ------
    ImportError
        JAX or libtpu is not installed, or is one that has other internals.
    Exception
        Whatever the compiler raises.
    """
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax.experimental import topologies
    from jaxlib import _hlo, _jax
    from jaxlib.mlir import ir

    topology = topologies.get_topology_desc(request["topology"], platform="tpu")
    replicas, partitions = request["replicas"], request["partitions"]
    devices = topology.devices[: replicas * partitions]
    module = _hlo.hlo_module_from_text(request["hlo"])
    stable = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    with mlir.make_ir_context():
        program = ir.Module.parse(stable)
        main = next(op for op in program.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
        for name in ("arg", "res"):
            modes = request[f"{name}_layouts"]
            given = list(main.attributes[f"{name}_attrs"]) if f"{name}_attrs" in main.attributes else []
            if modes and len(given) in (0, len(modes)):
                attributes = [
                    ir.DictAttr.get(
                        {named.name: named.attr for named in (given[n] if given else ())}
                        | {"mhlo.layout_mode": ir.StringAttr.get(mode)}
                    )
                    for n, mode in enumerate(modes)
                ]
                main.attributes[f"{name}_attrs"] = ir.ArrayAttr.get(attributes)
        options = compiler.get_compile_options(
            num_replicas=replicas,
            num_partitions=partitions,
            device_assignment=np.array([device.id for device in devices]).reshape(replicas, partitions),
        )
        devices[0].client.compile(program, _jax.DeviceList(tuple(devices)), options)


if __name__ == "__main__":
    compile_request(json.loads(Path(sys.argv[1]).read_text("utf-8")))
