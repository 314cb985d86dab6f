"""Fixed ways of sharding a model, for the baselines of §8.1 and §8.2.

Each is a mapping *operator -> (loop on axis 0, loop on axis 1)*: the loop that each mesh axis cuts. An empty string
means that the operator repeats its work along this axis. Specs, collectives and memory follow from the loops, as they
do for Alpa's own choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ...errors import InputError
from ...profiles.graph import Graph, Operator

__all__ = ["METHODS", "Axes", "data_parallel", "expert_parallel", "heuristic", "megatron"]

Axes = Mapping[str, tuple[str, str]]
Shape = tuple[int, int]


def data_parallel(graph: Graph, mesh: Shape) -> Axes:
    """Every operator is cut along the batch by all devices.

    Raises
    ------
    InputError
        If the microbatch has too few samples to cut.
    """
    return {op.name: _batch(graph, op, mesh) for op in graph.operators}


def expert_parallel(graph: Graph, mesh: Shape) -> Axes:
    """Operators on experts are cut along the experts by axis 1 and along their groups by axis 0, all others along the
    batch by both (GShard, DeepSpeed-MoE).

    Raises
    ------
    InputError
        If the microbatch has too few samples, or there are fewer experts than axis 1 has devices.
    """
    found: dict[str, tuple[str, str]] = {}
    expert_of: dict[str, str] = {}  # operator -> its expert loop
    parameters = {t.name for t in graph.parameters}
    for op in graph.operators:
        shared = _everywhere(op) if op.heavy and any(name in parameters for name in op.inputs) else set[str]()
        loop = next((x.name for x in op.loops if x.name in shared and not x.batch), "")
        if not loop and op.name not in expert_of and not op.heavy:  # a bias or function of experts' results
            loop = next((expert_of[name] for name in op.inputs if name in expert_of), "")
            loop = loop if loop in op.cuttable else ""
        if not loop:
            found[op.name] = _batch(graph, op, mesh)
            continue
        expert_of[op.name] = loop
        experts = op.sizes[loop]
        if experts % mesh[1]:
            raise InputError(
                f"operator {op.name!r}: {experts} experts cannot be dealt to {mesh[1]} devices; take a divisor"
            )
        first = _batch_loop(op) if mesh[0] > 1 else ""
        if first and op.sizes[first] % mesh[0]:
            first = loop if experts % (mesh[0] * mesh[1]) == 0 else ""
        found[op.name] = (first, loop if mesh[1] > 1 else "")
    return found


def megatron(graph: Graph, mesh: Shape) -> Axes:
    """Axis 0: data parallelism. Axis 1: Megatron-LM's tensor parallelism.

    A product with a weight whose input is whole cuts the columns of the weight (and gives a cut result); one whose
    input is cut cuts the rows (and sums its result over axis 1). So attention is cut by heads, the first product of an
    MLP by columns, the second by rows, embedding and logits by the vocabulary. Norms and residuals repeat their work.

    Raises
    ------
    InputError
        If the microbatch, heads or vocabulary cannot be cut so.
    """
    parameters = {t.name for t in graph.parameters}
    cut: dict[str, int] = {}  # operator -> dimension of its result that axis 1 cuts
    found: dict[str, tuple[str, str]] = {}
    for op in graph.operators:
        first = _batch_loop(op) if mesh[0] > 1 else ""
        if first and op.sizes[first] % mesh[0]:
            raise _too_few(op, first, mesh[0])
        second = _tensor_parallel(op, parameters, cut) if mesh[1] > 1 else ""
        if second and op.sizes[second] % mesh[1]:
            raise InputError(
                f"operator {op.name!r}: loop {second!r} of {op.sizes[second]} cannot be cut into {mesh[1]}; "
                "take a tensor-parallel degree that divides it"
            )
        found[op.name] = (first, second)
        at = [d for d, group in enumerate(op.parsed.result) if group and group[0] == second]
        if at:
            cut[op.name] = at[0]
    return found


def heuristic(graph: Graph, mesh: Shape) -> Axes:
    """GSPMD with the largest dimension of every input and parameter marked as cut, and the marks propagated (§8.2).

    Each operator takes over the cut of its largest operand that has one. If none has, or the cut does not divide the
    loop evenly, a heavy operator is cut along its largest loop that divides. Products of one value with several weights
    are cut alike, because they share the copy of that value.
    """
    n = mesh[0] * mesh[1]
    parameters = {t.name for t in graph.parameters}
    alike: dict[tuple[str, str], str] = {}
    cut: dict[str, int] = {}
    for t in (*graph.inputs, *graph.parameters):
        best = [d for d in range(len(t.shape)) if t.shape[d] % n == 0 and t.shape[d] == max(t.shape)]
        if best:
            cut[t.name] = best[0]
    found: dict[str, tuple[str, str]] = {}
    for op in graph.operators:
        votes: list[tuple[int, str]] = []
        for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
            if name in cut and dims[cut[name]]:
                votes.append((graph.bytes_of(name), dims[cut[name]][0]))
        # A stable sort: of operands of equal size, the first decides, as GSPMD's propagation visits them in order.
        loop = next((x for _, x in sorted(votes, key=lambda v: -v[0]) if _cuts(op, x, n)), "")
        if not loop and op.heavy:
            fitting = [x for x in op.cuttable if _cuts(op, x, n)]
            # Nothing upstream decides: the largest loop cuts most evenly; of equal ones the first.
            loop = max(fitting, key=lambda x: op.sizes[x], default="")
        if op.heavy and len(op.inputs) > 1 and op.inputs[1] in parameters:
            shared = alike.setdefault((op.inputs[0], op.formula), loop)
            loop = shared if not shared or _cuts(op, shared, n) else loop
        found[op.name] = (loop if mesh[0] > 1 else "", loop if mesh[1] > 1 else "")
        at = [d for d, group in enumerate(op.parsed.result) if group and group[0] == loop]
        if at:
            cut[op.name] = at[0]
    return found


METHODS: Mapping[str, Callable[[Graph, Shape], Axes]] = MappingProxyType(
    {
        "data_parallel": data_parallel,
        "expert_parallel": expert_parallel,
        "megatron": megatron,
        "heuristic": heuristic,
    }
)
"""Name -> function of (graph at the microbatch's size, logical mesh shape)."""


def _batch_loop(op: Operator) -> str:
    """The largest loop that grows with the batch and may be cut."""
    loops = [x for x in op.loops if x.batch and x.split != "whole"]
    return max(loops, key=lambda x: x.size).name if loops else ""


def _batch(graph: Graph, op: Operator, mesh: Shape) -> tuple[str, str]:
    loop, n = _batch_loop(op), math.prod(mesh)
    if loop and op.sizes[loop] % n:
        raise _too_few(op, loop, n)
    return (loop if mesh[0] > 1 else "", loop if mesh[1] > 1 else "")


def _too_few(op: Operator, loop: str, n: int) -> InputError:
    return InputError(f"operator {op.name!r}: a batch of {op.sizes[loop]} cannot be cut into {n}; take a multiple")


def _cuts(op: Operator, loop: str, n: int) -> bool:
    return loop in op.cuttable and op.sizes[loop] % n == 0


def _everywhere(op: Operator) -> set[str]:
    """Loops that the result and all operands have: those of experts, where one operand is a weight."""
    common = {x for group in op.parsed.result for x in group}
    for dims in op.parsed.operands:
        common &= {x for group in dims for x in group}
    return common


def _tensor_parallel(op: Operator, parameters: set[str], cut: Mapping[str, int]) -> str:
    """The loop that axis 1 cuts; empty for none."""
    inherited = [dims[cut[name]][0] for name, dims in zip(op.inputs, op.parsed.operands, strict=True) if name in cut]
    if inherited and inherited[0] in op.cuttable:
        return inherited[0]
    weights = [d for name, d in zip(op.inputs, op.parsed.operands, strict=True) if name in parameters]
    if op.kind == "embedding":  # rows of the table
        return weights[0][0][0] if weights else ""
    if op.heavy and weights:
        activations = {
            x
            for name, dims in zip(op.inputs, op.parsed.operands, strict=True)
            if name not in parameters
            for group in dims
            for x in group
        }
        columns = [g[0] for g in op.parsed.result if g and g[0] not in activations and g[0] in op.cuttable]
        return columns[0] if columns else ""
    return ""
