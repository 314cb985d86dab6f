"""`SliceExecutor`: runs the actions of a mesh where microbatches are cut into token slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....profiles.graph.token_flow import TokenFlow
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.program.actions import Action
from ..executor import Executor
from ..wires.edges import Edge, edges_of, tied_edges
from ..wires.mailbox import Mailbox, Parcel
from .stage import SliceStage
from .turns import Turn, first_turns

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SliceExecutor", "SliceMailbox"]

Shape = tuple[int, ...]


class SliceParcel(Parcel):
    """A tensor that crosses slice by slice, each slice in a shape of its own.

    Parameters
    ----------
    whole : Parcel
        The parcel for whole sequences; its fields become this one's.
    of_turn : tuple of Parcel
        The parcel of each slice, by its turn.
    """

    def __init__(self, whole: Parcel, of_turn: tuple[Parcel, ...]) -> None:
        vars(self).update(vars(whole))
        self.of_turn = of_turn


class SliceMailbox(Mailbox):
    """Sends and receives messages of one rank; a `SliceParcel` goes in the shape of the slice whose turn it is."""

    def send(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Send this rank's part, without waiting."""
        super().send(_now(parcel, turn), turn, x)

    def post(self, parcel: Parcel, turn: int) -> None:
        """Post receives, so that messages travel while this rank computes; repeats do nothing."""
        super().post(_now(parcel, turn), turn)

    def receive(self, parcel: Parcel, turn: int) -> Tensor:
        """Wait for all messages of a slice; returns this rank's shard at the target."""
        return super().receive(_now(parcel, turn), turn)


def _now(parcel: Parcel, turn: int) -> Parcel:
    return parcel.of_turn[turn] if isinstance(parcel, SliceParcel) else parcel


class SliceExecutor(Executor):
    """Runs one rank's part of a sliced program.

    Parameters
    ----------
    runners : mapping
        Stage of this rank's mesh -> its runner.
    actions : sequence of Action
        This mesh's actions, in order.
    plan, graph : TrainingPlan, Graph
        What is run.
    tokens : TokenFlow
        Which tensors of the graph have tokens, and in which dimension.
    turns : sequence of Turn
        All slices of an iteration.
    rank : int
        This rank.
    dtype : torch.dtype
        Number format of messages.
    """

    def __init__(
        self, runners: Mapping[int, SliceStage], actions: Sequence[Action], plan: TrainingPlan, graph: Graph,
        tokens: TokenFlow, turns: Sequence[Turn], rank: int, dtype: Any,
    ) -> None:  # fmt: skip
        self._turns, self._tokens = tuple(turns), tokens
        self._first = first_turns(self._turns)
        self._shapes = {
            (n, edge.name): edge.full
            for n in {turn.samples for turn in turns}
            for edge in edges_of(plan, graph.with_batch(n))
        }
        super().__init__(
            runners, actions, edges_of(plan, graph), tied_edges(plan, graph), plan, rank,
            SliceMailbox(dtype, len(turns)), dtype.itemsize,
        )  # fmt: skip

    def _turn(self, action: Action) -> int:
        return self._first[action.microbatch] + action.slice if action.microbatch >= 0 else -1

    def _parcel(self, number: int, edge: Edge, *, back: bool = False) -> Parcel:
        whole = super()._parcel(number, edge, back=back)
        if (self._turns[0].samples, edge.name) not in self._shapes:
            return whole  # a tied parameter
        made: dict[Shape, Parcel] = {}  # slices of one shape share a parcel; the turn in the tag keeps messages apart
        every: list[Parcel] = []
        for turn in self._turns:
            full = self._shapes[turn.samples, edge.name]
            shape = self._tokens.shape(edge.name, full, turn.offset, turn.length)
            if shape not in made:
                made[shape] = super()._parcel(number, replace(edge, full=shape), back=back)
            every.append(made[shape])
        return SliceParcel(whole, tuple(every))
