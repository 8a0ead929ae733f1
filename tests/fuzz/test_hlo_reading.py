"""Campaign: one program in XLA's form and in the forms of people says the same.

It is written once as XLA prints it, and once with its tokens divided by any blanks, line ends and comments, with
percent signs and shapes where they may stand or be left out, and with instructions in the place of operands that nobody
else uses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from strided.dumps.hlo import Module, read_hlo

SHAPES = ("f32[2,3]{1,0}", "f32[2,3]{0,1:T(8,128)S(1)}", "s4[2,3]{1,0:E(4)}", "f32[2,3]{1,0:T(2,128)(2,1)}")
UNARY = ("negate", "abs", "copy", "exponential-minus-one", "log-plus-one")
BINARY = ("add", "multiply", "atan2", "subtract")
ATTRIBUTES = (
    ('metadata={op_name="a = f32[] add(b, c) }{"}', "frontend_attributes={k=\"v\"}"),
    ('backend_config={"a": "}", "b": [1, {"c": 2}]}',),
    ("replica_groups=[2,2]<=[4]", 'custom_call_target="//x"'),
    (),
)  # fmt: skip


class Node:
    """One instruction: operands by their place in the computation."""

    def __init__(self, name: str, shape: str, opcode: str, operands: list[Node], attributes: tuple[str, ...]) -> None:
        self.name, self.shape, self.opcode, self.operands, self.attributes = name, shape, opcode, operands, attributes
        self.number, self.uses, self.is_nested = 0, 0, False


def program(chance: random.Random) -> list[Node]:
    """The instructions of an entry, in their order."""
    nodes: list[Node] = []
    for n in range(chance.randint(1, 3)):
        nodes.append(Node(f"p{n}", chance.choice(SHAPES), "parameter", [], ()))
        nodes[-1].number = n
    for n in range(chance.randint(1, 12)):
        first = chance.choice(nodes)
        same = [node for node in nodes if node.shape == first.shape]
        operands = [first] if chance.random() < 0.5 else [first, chance.choice(same)]
        opcode = chance.choice(UNARY if len(operands) == 1 else BINARY)
        nodes.append(Node(f"n.{n}-x", first.shape, opcode, operands, chance.choice(ATTRIBUTES)))
    for node in nodes:
        for operand in node.operands:
            operand.uses += 1
    return nodes


def nest(chance: random.Random, nodes: list[Node]) -> list[Node]:
    """The same with some instructions inside others; they run right before those, and XLA names them."""
    for node in nodes[:-1]:
        node.is_nested = node.uses == 1 and not node.attributes and node.opcode != "parameter" and chance.random() < 0.4
    counts: dict[str, int] = {}
    found: list[Node] = []

    def put(node: Node) -> None:
        for operand in node.operands:
            if operand.is_nested:
                put(operand)
                count = counts[operand.opcode] = counts.get(operand.opcode, -1) + 1
                operand.name = f"{operand.opcode}.anon" + (f".{count}" if count else "")
        found.append(node)

    for node in nodes:
        if not node.is_nested:
            put(node)
    return found


def canonical(nodes: list[Node]) -> str:
    lines = []
    for node in nodes:
        inside = str(node.number) if node.opcode == "parameter" else ", ".join(f"%{o.name}" for o in node.operands)
        root = "ROOT " if node is nodes[-1] else ""
        attributes = "".join(f", {text}" for text in node.attributes)
        lines.append(f"  {root}%{node.name} = {node.shape} {node.opcode}({inside}){attributes}\n")
    return f"HloModule m\n\nENTRY %e {{\n{''.join(lines)}}}\n"


def free(chance: random.Random, nodes: list[Node]) -> str:
    def blank(*, needed: bool = True) -> str:
        if chance.random() < 0.7:
            return " " if needed else ""
        return chance.choice((" ", "\n", "\n   ", " /* x = f32[] y(z) */ ", "\t", "\r\n", " // } (\n", "\n\n"))

    def percent() -> str:
        return chance.choice(("%", ""))

    def call(node: Node) -> str:
        shape = "" if node.opcode != "parameter" and chance.random() < 0.3 else f"{node.shape}{blank()}"
        inside = str(node.number) if node.opcode == "parameter" else f"{blank(needed=False)},{blank()}".join(
            map(operand, node.operands)
        )  # fmt: skip
        return f"{shape}{node.opcode}{blank(needed=False)}({blank(needed=False)}{inside}{blank(needed=False)})"

    def operand(node: Node) -> str:
        if node.is_nested:
            return call(node)
        return f"{node.shape}{blank()}{percent()}{node.name}" if chance.random() < 0.3 else f"{percent()}{node.name}"

    def attribute(text: str) -> str:
        name, value = text.split("=", 1)
        value = value.replace("<=", f"{blank(needed=False)}<=")
        return f"{blank(needed=False)},{blank(needed=False)}{name}={blank(needed=False)}{value}"

    text = f"HloModule m{blank()}ENTRY{blank()}{percent()}e{blank()}{{{blank()}"
    for node in nodes:
        if not node.is_nested:
            root = f"ROOT{blank()}" if node is nodes[-1] else ""
            attributes = "".join(map(attribute, node.attributes))
            text += f"{root}{percent()}{node.name} ={blank()}{call(node)}{attributes}{blank()}"
    return f"{text}}}{blank(needed=False)}\n"


def facts(module: Module) -> list[tuple[object, ...]]:
    found = []
    for i in module.instructions:
        attributes = [(name, "".join(text.split())) for name, text in i.attributes.items()]
        found.append((i.name, i.opcode, i.shape, i.operand_names, i.is_root, i.parameter_number, attributes))
    return found


def test_programs_in_any_form_are_one_program(
    fuzz_seconds: float, fuzz_seed: int, record_property: Callable[[str, object], None]
) -> None:
    chance, count, end = random.Random(fuzz_seed), 0, time.monotonic() + fuzz_seconds
    while time.monotonic() < end or count < 20:
        nodes = nest(chance, program(chance))
        text = free(chance, nodes)
        module = read_hlo(text)
        assert facts(module) == facts(read_hlo(canonical(nodes))), text
        assert module.unread == ()
        count += 1
    record_property("programs", count)
    print(f"{count} programs")
