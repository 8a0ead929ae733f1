"""Real HLO dumps for the tests, and what it means that two modules are the same program."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from strided.dumps.hlo import Instruction, Module, read_hlo
from strided.errors import StridedError
from tests import paths

DATA = paths.DATA / "hlo"

#: Programs of which both text and proto are here.
PAIRS = sorted(path.name.removesuffix(".hlo.pb.gz") for path in DATA.glob("*.hlo.pb.gz"))


def text_path(name: str) -> Path:
    path = DATA / f"{name}.hlo.txt.gz"
    return path if path.exists() else DATA / f"{name}.txt.gz"


def proto_path(name: str) -> Path:
    return DATA / f"{name}.hlo.pb.gz"


def text_of(name: str) -> str:
    return gzip.decompress(text_path(name).read_bytes()).decode()


def proto_of(name: str) -> bytes:
    return gzip.decompress(proto_path(name).read_bytes())


def recorded(name: str) -> list[tuple[str, bytes]]:
    """Texts of XLA's printer with the protos that it printed."""
    rows = json.loads(gzip.decompress((DATA / name).read_bytes()))
    return [(text, base64.b64decode(proto)) for text, proto in rows]


def module_text(body: str, header: str = "HloModule m") -> str:
    """A module around the lines of its entry."""
    lines = "".join(f"  {line}\n" for line in body.strip().split("\n"))
    return f"{header}\n\nENTRY e {{\n{lines}}}\n"


def entry_of(body: str) -> list[Instruction]:
    return list(read_hlo(module_text(body)).entry.instructions)


def facts(instruction: Instruction, *, metadata: bool = True) -> dict[str, Any]:
    """All that a dump says of an instruction. Percent signs in attributes are the printer's choice."""
    attributes = {name: text.replace("%", "") for name, text in instruction.attributes.items()}
    if not metadata:
        attributes.pop("metadata", None)
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "shape": str(instruction.shape),
        "operands": [operand.name for operand in instruction.operands],
        "attributes": list(attributes.items()),
        "callees": [computation.name for computation in instruction.called_computations],
        "literal": instruction.literal,
        "parameter": instruction.parameter_number,
        "memory_space": instruction.memory_space,
        "sharding": instruction.sharding,
        "frontend": instruction.frontend_attributes,
        "backend_config": instruction.backend_config,
        "is_root": instruction.is_root,
        "users": [user.name for user in instruction.users],
        "predecessors": [before.name for before in instruction.control_predecessors],
    }


def ask_everything(module: Module) -> int:
    """Ask a module all there is to ask; what may fail fails with our own errors. Gives the number of instructions."""

    def ask(question: Any) -> None:
        try:
            question()
        except StridedError:
            pass

    for name in ("is_scheduled", "replica_count", "num_partitions", "entry_layout", "aliases", "donors", "results"):
        ask(lambda name=name: getattr(module, name))
    for question in (
        module.to_text,
        lambda: str(module),
        lambda: str(module.tables),
        lambda: module.frontend_attributes,
    ):
        ask(question)
    assert repr(module)
    for computation in module.computations:
        assert repr(computation)
        ask(lambda computation=computation: (str(computation), computation.root, computation.parameters))
    for instruction in module.instructions:
        assert repr(instruction)
        for name in (
            "shape operands operand_names users attributes called_computations control_predecessors memory_space "
            "sharding metadata frontend_attributes backend_config stack literal value parameter_number __str__"
        ).split():
            ask(lambda name=name, instruction=instruction: str(getattr(instruction, name)))
    ask(lambda: module.find("a*", opcode="*", shape="f32[2]", memory_space=0))
    return len(module.instructions)
