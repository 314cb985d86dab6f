"""What a cost is kept by: the unit, the backend and its version, and the machine that it was measured on."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .graph import InferenceGraph, Value, ones

__all__ = ["Machine", "cost_key", "this_cpu", "unit_key"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and how costs are measured.

    Parameters
    ----------
    cpu : str
        The processor's model.
    threads : int
        Of the process.
    """

    cpu: str
    threads: int = 1


@cache
def this_cpu() -> str:
    """This machine's processor, as its system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def unit_key(graph: InferenceGraph, members: int) -> str:
    """A digest of what a set of nodes (bits) computes, equal for units that differ in weights and names alone.

    It holds operators, attributes, how they are joined, which values are results, and shape, type and strides of all
    that is read.
    """
    numbers = dict[str, str]()
    nodes, read = list[object](), list[object]()

    def number(name: str) -> str:
        if name not in numbers:
            kind = "p" if name in graph.constants else "i"
            numbers[name] = f"{kind}{len(numbers)}"
            read.append([numbers[name], *_described(graph.values[name])])
        return numbers[name]

    for k in ones(members):
        node = graph.nodes[k]
        inputs = [number(name) for name in node.inputs]
        numbers[node.id] = f"n{len(nodes)}"
        nodes.append([node.op, inputs, node.attributes])
    results = [numbers[name] for name in graph.results(members)]
    text = json.dumps([nodes, read, results], default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def cost_key(unit: str, backend: str, version: str, machine: Machine) -> str:
    """A digest of a unit on a backend of a version on a machine."""
    text = json.dumps([unit, backend, version, machine.cpu, machine.threads])
    return hashlib.sha256(text.encode()).hexdigest()


def _described(value: Value) -> tuple[object, ...]:
    return value.shape, value.dtype, value.strides
