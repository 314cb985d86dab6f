"""`GraphExecutor`: runs the actions of a mesh where stages have microbatches of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.program.actions import Action, Op
from ..executor import Executor
from ..stage.runner import StageRunner
from ..wires.edges import SIGNAL, Edge
from ..wires.mailbox import Parcel
from .microbatch_parts import rows_of
from .parcel import GraphMailbox, GraphParcel, Sized

__all__ = ["GraphExecutor"]


class GraphExecutor(Executor):
    """One rank's share of a program whose stages have microbatches of different sizes.

    Parameters
    ----------
    runners, actions, edges, tied, plan, rank, mailbox, itemsize
        As in `Executor`.
    graphs : sequence of Graph
        For each stage, the graph at its microbatch.
    """

    def __init__(
        self, runners: Mapping[int, StageRunner], actions: Sequence[Action], edges: Sequence[Edge],
        tied: Sequence[Edge], plan: TrainingPlan, rank: int, mailbox: GraphMailbox, itemsize: int,
        graphs: Sequence[Graph],
    ) -> None:  # fmt: skip
        self.graphs = graphs
        sizes = [graph.batch for graph in graphs]
        # An edge has at most so many parts; so many numbers are kept free for each, so that parts' tags differ.
        self._apart = max(sizes) // min(sizes)
        super().__init__(runners, actions, edges, tied, plan, rank, mailbox, itemsize)

    def _parcel(self, number: int, edge: Edge, *, back: bool = False) -> Parcel:
        """The parcel of an edge's value or, if `back`, of its gradient; it carries the sender's microbatches."""
        first = number * self._apart
        if edge.name == SIGNAL or edge.name not in self.graphs[0].index:  # of no microbatch's size
            return super()._parcel(first, edge, back=back)
        op = self.graphs[0].operators[self.graphs[0].index[edge.name]]
        a, b = (edge.target, edge.source) if back else (edge.source, edge.target)
        here, there = (edge.read, edge.made) if back else (edge.made, edge.read)
        sides = [
            Sized(graph.batch, graph.operators[graph.index[edge.name]].shape)
            for graph in (self.graphs[a], self.graphs[b])
        ]
        if sides[0].samples == sides[1].samples:
            return super()._parcel(first, replace(edge, full=sides[0].full), back=back)
        dim = rows_of(op, f"plan: transfer of stage {edge.source} to stage {edge.target}")
        way = Edge(a, b, edge.name, sides[0].full, here, there, edge.gradient, edge.dtype)
        return GraphParcel(first, way, sides[0], sides[1], dim, self.rank)

    def _receive(self, action: Action) -> None:
        parcels, turn = self._parcels(action)
        if action.microbatch < 0 or not any(isinstance(parcel, GraphParcel) for _, parcel in parcels):
            super()._receive(action)
            return
        store = self._values if action.op == Op.RECV_F else self._gradients
        for name, parcel in parcels:
            if not isinstance(parcel, GraphParcel):
                self._keep(action, name, turn, self.mailbox.receive(parcel, turn))
                continue
            for piece in parcel.pieces(turn):
                x = self.mailbox.receive(piece.parcel, turn)
                # A reader's microbatch is complete when all of its messages are added into zeros: parts do not overlap.
                values = store.setdefault((action.stage, piece.turn), {})
                if x.shape == parcel.whole:
                    self._add(values, name, x)
                    continue
                if name not in values:
                    values[name] = x.new_zeros(parcel.whole)
                values[name][piece.where] += x
