"""`Executor`: runs the actions of one mesh's program on one of its ranks.

Each action is given to the stage's `StageRunner` (computing) or to the rank's `Mailbox` (messages); in between, the
executor holds what was received until it is read, and what was made until it is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.program.actions import Action, Op
from .stage.runner import StageRunner
from .wires.edges import SIGNAL, Edge, crossing
from .wires.mailbox import Mailbox, Parcel

if TYPE_CHECKING:
    from torch import Tensor

    from .own.clipping import Clipping

__all__ = ["Executor", "Span"]

AHEAD = 4
"""Receives that are posted before their turn, so that messages travel while this rank computes. A guess: more of them
hide more delays, and each holds a buffer."""


class Span(NamedTuple):
    """One action as it ran on one rank.

    Parameters
    ----------
    op : str
        Kind of the action, one of `Op`.
    stage, microbatch, slice : int
        Which.
    start, end : float
        Seconds since the start of its iteration.
    cpu : float
        CPU seconds of its thread: less than `end` − `start` where it waited or another process had its core.
    collective : float
        Seconds that it spent in collectives.
    slice : int
        Which token slice.
    helpers : float
        CPU seconds of the process's other threads meanwhile: gloo's, which move messages.
    """

    op: str
    stage: int
    microbatch: int
    start: float
    end: float
    cpu: float
    collective: float
    slice: int = 0
    helpers: float = 0.0


class Executor:
    """Runs one rank's part of a program.

    Parameters
    ----------
    runners : mapping
        Stage of this rank's mesh -> its runner.
    actions : sequence of Action
        This mesh's actions, in order.
    edges, tied : sequence of Edge
        All tensors that cross between stages, and gradients of parameters that several stages share. All ranks have
        them in the same order, since an edge's position gives its messages their tags.
    plan : TrainingPlan
        What is run.
    rank : int
        This rank.
    mailbox : Mailbox
        Sends and receives its messages.
    itemsize : int
        Bytes of an element that is sent.
    """

    def __init__(
        self, runners: Mapping[int, StageRunner], actions: Sequence[Action], edges: Sequence[Edge],
        tied: Sequence[Edge], plan: TrainingPlan, rank: int, mailbox: Mailbox, itemsize: int,
    ) -> None:  # fmt: skip
        mesh_of = [stage.mesh for stage in plan.stages]
        self.runners, self.actions, self.mailbox = runners, list(actions), mailbox
        self.plan, self.rank, self.itemsize = plan, rank, itemsize
        self.forward: dict[tuple[int, int], list[tuple[str, Parcel]]] = {}
        self.backward: dict[tuple[int, int], list[tuple[str, Parcel]]] = {}
        self.tied: dict[tuple[int, int], list[tuple[str, Parcel]]] = {}
        # Both ends must number a parcel alike: even numbers carry values, odd ones their gradients, tied ones follow.
        for number, edge in enumerate(edges):
            if edge.source in runners or edge.target in runners:
                key = edge.source, edge.target
                self.forward.setdefault(key, []).append((edge.name, self._parcel(2 * number, edge)))
                if edge.gradient:
                    back = self._parcel(2 * number + 1, edge, back=True)
                    self.backward.setdefault((edge.target, edge.source), []).append((edge.name, back))
        for number, edge in enumerate(tied, start=2 * len(edges)):
            if edge.source in runners or edge.target in runners:
                self.tied.setdefault((edge.source, edge.target), []).append((edge.name, self._parcel(number, edge)))
        self.near = {(a, b) for a in runners for b in runners if a != b and mesh_of[a] == mesh_of[b]}
        self._values: dict[tuple[int, int], dict[str, Tensor]] = {}  # what came in, for (stage, microbatch)
        self._made: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._gradients: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._returned: dict[tuple[int, int], dict[str, Tensor]] = {}
        self._readers: dict[tuple[int, int, str], int] = {}
        self._others: dict[tuple[str, int], dict[int, Tensor]] = {}  # (parameter, stage) -> other stage -> gradient
        self._split = {(a.stage, self._turn(a)) for a in self.actions if a.op == Op.W}
        self._settled = False
        self._scale: float | None = None
        self.clipping: Clipping | None = None
        """What bounds the norm of the gradients, if anything does; set before the first iteration."""
        self._token: Any = mailbox.token()
        self.began = 0.0
        """When the last iteration began, on the clock of `run`; ranks of one machine share it."""

    def _parcel(self, number: int, edge: Edge, *, back: bool = False) -> Parcel:
        """The parcel that brings an edge's value to its reader or, if `back`, the gradient to the value's maker."""
        here, there = (edge.read, edge.made) if back else (edge.made, edge.read)
        ways = crossing(self.plan, edge, self.itemsize, back=back)
        return Parcel(number, edge.full, here, there, self.rank, ways, edge.dtype)

    def _turn(self, action: Action) -> int:
        """Number under which runners and messages know an action's microbatch; subclasses number slices instead."""
        return action.microbatch

    def run(self, iteration: int, clock: Callable[[], float] = time.perf_counter) -> list[Span]:
        """Run one iteration and return the times of every action."""
        self._settled, self._scale = False, None
        for store in (self._values, self._made, self._gradients, self._returned, self._others):
            store.clear()
        receives = [i for i, a in enumerate(self.actions) if a.op in (Op.RECV_F, Op.RECV_B)]
        posted = 0
        begin = self.began = clock()
        spans: list[Span] = []
        for i, action in enumerate(self.actions):
            while posted < len(receives) and (posted < AHEAD or receives[posted - AHEAD] < i):
                self._post(self.actions[receives[posted]])
                posted += 1
            start, cpu, every = clock(), time.thread_time(), time.process_time()
            before = self._collective_seconds(action.stage)
            self._do(action, iteration)
            spent = self._collective_seconds(action.stage) - before
            end, cpu, every = clock(), time.thread_time() - cpu, time.process_time() - every
            what = action.op, action.stage, action.microbatch
            spans.append(Span(*what, start - begin, end - begin, cpu, spent, action.slice, max(0.0, every - cpu)))
        self.mailbox.settle()
        return spans

    def _collective_seconds(self, stage: int) -> float:
        return self.runners[stage].comm.seconds

    def _parcels(self, action: Action) -> tuple[list[tuple[str, Parcel]], int]:
        """Parcels (by the names of their tensors) that a transfer moves, and the turn that it belongs to."""
        sends = action.op in (Op.SEND_F, Op.SEND_B)
        key = (action.stage, action.peer) if sends else (action.peer, action.stage)
        if action.microbatch < 0:
            return self.tied.get(key, []), 0
        table = self.forward if action.op in (Op.SEND_F, Op.RECV_F) else self.backward
        return table.get(key, []), self._turn(action)

    def _post(self, action: Action) -> None:
        parcels, turn = self._parcels(action)
        for _, parcel in parcels:
            self.mailbox.post(parcel, turn)

    def _do(self, action: Action, iteration: int) -> None:
        runner, turn = self.runners[action.stage], self._turn(action)
        key = action.stage, turn
        if action.op == Op.F:
            self._near_receive(action, self.forward, self._values)
            self._made[key] = runner.forward(turn, self._values.pop(key, {}))
            self._near_send(action, self.forward, self._made)
        elif action.op == Op.B:
            self._near_receive(action, self.backward, self._gradients)
            self._made.pop(key, None)  # sent by now
            gradients = self._gradients.pop(key, {})
            self._returned[key] = runner.backward(turn, gradients, weights=key not in self._split)
            self._near_send(action, self.backward, self._returned)
        elif action.op == Op.W:
            runner.backward_weights(turn)
        elif action.op == Op.REDUCE:
            runner.reduce()
        elif action.op == Op.UPDATE:
            self._settle_tied()
            runner.update(iteration, self._clipped())
        elif action.op in (Op.SEND_F, Op.SEND_B):
            self._send(action)
        else:
            self._receive(action)

    def _clipped(self) -> float:
        """What gradients are multiplied by; all ranks find it together, before their first update."""
        if self._scale is None:
            self._scale = 1.0 if self.clipping is None else self.clipping.scale(self.runners)
        return self._scale

    def _send(self, action: Action) -> None:
        parcels, turn = self._parcels(action)
        for name, parcel in parcels:
            self.mailbox.send(parcel, turn, self._token if name == SIGNAL else self._outgoing(action)[name])

    def _outgoing(self, action: Action) -> Mapping[str, Tensor]:
        if action.microbatch < 0:
            return self.runners[action.stage].gradients
        return (self._made if action.op == Op.SEND_F else self._returned)[action.stage, self._turn(action)]

    def _receive(self, action: Action) -> None:
        parcels, turn = self._parcels(action)
        for name, parcel in parcels:
            self._keep(action, name, turn, self.mailbox.receive(parcel, turn))

    def _keep(self, action: Action, name: str, turn: int, x: Tensor) -> None:
        """Store a received tensor where the action that reads it looks for it."""
        if action.microbatch < 0:
            self._others.setdefault((name, action.stage), {})[action.peer] = x
        elif name == SIGNAL:
            return
        elif action.op == Op.RECV_F:
            self._values.setdefault((action.stage, turn), {})[name] = x
        else:
            self._add(self._gradients.setdefault((action.stage, turn), {}), name, x)

    @staticmethod
    def _add(store: dict[str, Tensor], name: str, x: Tensor) -> None:
        store[name] = store[name] + x if name in store else x

    # Programs have no transfers between stages of one mesh; the executor makes them, before and after a pass. Pairs of
    # stages are sorted so that all ranks of the mesh send and receive in one order.

    def _near_send(
        self, action: Action, table: Mapping[tuple[int, int], list[tuple[str, Parcel]]],
        store: Mapping[tuple[int, int], Mapping[str, Tensor]],
    ) -> None:  # fmt: skip
        turn = self._turn(action)
        for a, b in sorted(self.near):
            if a == action.stage:
                for name, parcel in table.get((a, b), []):
                    self.mailbox.send(parcel, turn, store[a, turn][name])

    def _near_receive(
        self, action: Action, table: Mapping[tuple[int, int], list[tuple[str, Parcel]]],
        store: dict[tuple[int, int], dict[str, Tensor]],
    ) -> None:  # fmt: skip
        turn = self._turn(action)
        for a, b in sorted(self.near):
            if b == action.stage:
                for name, parcel in table.get((a, b), []):
                    x = self.mailbox.receive(parcel, turn)
                    self._add(store.setdefault((b, turn), {}), name, x)

    def _settle_tied(self) -> None:
        """Add up the gradients of parameters that several stages share (tied embeddings).

        Every stage adds in the order of stages: sums of floats depend on the order, and copies of a weight must stay
        bit for bit the same.
        """
        if self._settled:
            return
        self._settled = True
        for a, b in sorted(self.near):
            for name, parcel in self.tied.get((a, b), []):
                self.mailbox.send(parcel, 0, self.runners[a].gradients[name])
        for a, b in sorted(self.near):
            for name, parcel in self.tied.get((a, b), []):
                self._others.setdefault((name, b), {})[a] = self.mailbox.receive(parcel, 0)
        totals: dict[tuple[str, int], Tensor] = {}
        for (name, stage), others in self._others.items():
            parts = others | {stage: self.runners[stage].gradients[name]}
            first, *rest = (parts[s] for s in sorted(parts))
            total = first.clone()
            for part in rest:
                total += part
            totals[name, stage] = total
        for (name, stage), total in totals.items():
            self.runners[stage].gradients[name] = total
