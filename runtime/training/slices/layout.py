"""`SliceLayout`: a stage's operators with their loops over tokens cut to one slice, for every slice of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ....errors import InputError
from ....profiles.graph import Graph
from ....profiles.graph.notation import Dims
from ....profiles.graph.token_flow import Role, TokenFlow
from ....simulator.training.plan.file import TrainingPlan
from ..stage.layout import OperatorRun, StageLayout
from ..wires.comm import MeshComm
from ..wires.routes import Route
from .turns import Turn

__all__ = ["SliceLayout", "token_dims"]


def token_dims(dims: Dims, roles: Mapping[str, Role]) -> dict[int, Role]:
    """Dimensions of a tensor over which an operator's loops over tokens run, each with the loop's role."""
    return {d: roles[group[0]] for d, group in enumerate(dims) if group and group[0] in roles}


@dataclass(eq=False)
class SliceLayout:
    """One stage of a sliced plan on one device.

    Parameters
    ----------
    stages : mapping
        Samples of a microbatch -> the stage as it runs whole sequences of so many samples.
    tokens : TokenFlow
        Which tensors of the graph have tokens, and in which dimension.
    """

    stages: Mapping[int, StageLayout]
    tokens: TokenFlow
    _made: dict[tuple[int, int, int], tuple[OperatorRun, ...]] = field(
        default_factory=dict[tuple[int, int, int], tuple[OperatorRun, ...]]
    )

    @classmethod
    def of(
        cls, plan: TrainingPlan, graph: Graph, number: int, comm: MeshComm, tokens: TokenFlow, samples: Iterable[int]
    ) -> SliceLayout:
        """Read a stage of a plan.

        Raises
        ------
        InputError
            If it cannot be run so: devices cut its tokens too, or what `StageLayout` refuses.
        """
        made = {n: StageLayout.of(plan, graph.with_batch(n), number, comm) for n in sorted(set(samples))}
        for stage in made.values():
            for run in stage.operators:
                _check(number, run, tokens)
                _check_loss(run, graph)
        return cls(made, tokens)

    @property
    def any(self) -> StageLayout:
        """The stage for any of the microbatch sizes: shardings of parameters and values are the same for all."""
        return next(iter(self.stages.values()))

    def operators(self, turn: Turn) -> tuple[OperatorRun, ...]:
        """The stage's operators, cut to a slice."""
        key = turn.samples, turn.offset, turn.length
        if key not in self._made:
            self._made[key] = tuple(self._cut(run, turn) for run in self.stages[turn.samples].operators)
        return self._made[key]

    def _cut(self, run: OperatorRun, turn: Turn) -> OperatorRun:
        roles = self.tokens.loops.get(run.op.name)
        if not roles:
            return run
        local = run.local
        sizes, start = dict(local.sizes), dict(local.start)
        # Causal attention: queries are the slice's own tokens, keys are those and all before.
        for loop, role in roles.items():
            sizes[loop] = turn.length if role == "query" else turn.offset + turn.length
            start[loop] = turn.offset if role == "query" else 0
        op = local.op
        if op.kind == "loss" and "ignore_index" in op.attributes:  # the mean is over the whole sequence's labels
            op = replace(op, attributes={**op.attributes, "reduction": "sum"})
        return replace(run, local=replace(local, op=op, sizes=sizes, start=start))


def _check(number: int, run: OperatorRun, tokens: TokenFlow) -> None:
    """Refuse plans in which devices share a slice's tokens among them, or redistribute tensors along the tokens."""
    roles = tokens.loops.get(run.op.name, {})
    loop = next((x for x in roles if x in run.local.cut), "")
    ways = [(run.result, run.op.parsed.result)]
    for k, (name, dims) in enumerate(zip(run.op.inputs, run.op.parsed.operands, strict=True)):
        if name in tokens.values:  # of others, slices read some rows when they are whole
            ways += [(run.operands[k], dims), (run.back[k], dims)]
    moved = any(_along(route) & set(token_dims(dims, roles)) for route, dims in ways)
    if loop or moved:
        what = f"cut the token loop {loop!r}" if loop else "move its tokens"
        raise InputError(
            f"plan: stages.{number}.operators.{run.op.name}: devices of the mesh {what}, which token slices cut too; "
            "cut other loops (samples, heads), or train without slices"
        )


def _along(route: Route) -> set[int]:
    return {d for hop in route.hops for d in (hop.dim, hop.other) if d >= 0}


def _check_loss(run: OperatorRun, graph: Graph) -> None:
    if run.op.kind == "loss" and "ignore_index" in run.op.attributes and run.op.inputs[1] in graph.index:
        raise InputError(
            f"graph {graph.name!r}: operator {run.op.name!r}: the labels that count are known only when all slices are "
            f"done: {run.op.inputs[1]!r} is computed, not an input; train it without slices"
        )
