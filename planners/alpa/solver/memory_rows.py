"""`MemoryRows`: the memory constraints of an instance, one for each time step.

Few of them ever bind, so a model only gets those that have been violated. But all are checked every time: a choice
counts as a solution only if it fits at every time step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from .model import Model
from .problem import Floats, ShardingProblem

__all__ = ["MemoryRows"]


class MemoryRows:
    """Bytes of every time step, for choices and for what can still be chosen.

    Parameters
    ----------
    problem : ShardingProblem
        The instance.
    """

    def __init__(self, problem: ShardingProblem) -> None:
        self.problem = problem
        self.leader = [problem.leader(v) for v in range(problem.n_nodes)]
        self.members: dict[int, list[int]] = {}
        for v, leader in enumerate(self.leader):
            self.members.setdefault(leader, []).append(v)
        live = problem.live if problem.memory_bytes > 0 else ()
        self.bound = problem.memory_bytes * (1 + 1e-12)  # sums of some thousand sizes: rounding alone must not refuse
        columns = [v for nodes in live for v in nodes]
        ends = np.cumsum([0, *(len(nodes) for nodes in live)])
        self._live: Any = np.zeros((0, problem.n_nodes))
        if live:
            from scipy import sparse  # a quarter of a second to import: memory rarely binds

            self._live = sparse.csr_array(
                (np.ones(len(columns)), columns, ends), shape=(len(live), problem.n_nodes), dtype=np.float64
            )
        self.candidates = np.arange(len(live))

    def usage(self, full: Mapping[int, int]) -> Floats:
        """Bytes at each time step for a strategy per leader."""
        sizes = [float(self.problem.memory[v][full[leader]]) for v, leader in enumerate(self.leader)]
        return self._live @ np.array(sizes)

    def fits(self, full: Mapping[int, int]) -> bool:
        """Whether every time step holds the choice."""
        return not len(self.candidates) or bool((self.usage(full) <= self.bound).all())

    def trim(self, model: Model) -> None:
        """Forget time steps that nothing left can overfill, and tensors that are live in no other one.

        Raises
        ------
        InfeasibleError
            If a time step does not fit whatever is chosen.
        """
        if not len(self.candidates):
            model.needs = {}
            self._forget_rows(model)
            return
        least, most = np.empty(self.problem.n_nodes), np.empty(self.problem.n_nodes)
        for v, leader in enumerate(self.leader):
            sizes = self.problem.memory[v][model.active[leader]]
            if leader not in model.unary:
                sizes = sizes[:1]  # folded: equal wherever it matters
            least[v], most[v] = sizes.min(), sizes.max()
        needs = self._live @ least
        if needs.max() > self.bound:
            step = int(needs.argmax())
            raise InfeasibleError(
                f"time step {step} holds {len(self.problem.live[step])} nodes that take at least {needs[step]:.6g}"
                f" bytes per device, whatever is chosen; M is {self.problem.memory_bytes:.6g}: use more devices, more"
                " memory or smaller microbatches"
            )
        over = (self._live @ most) > self.bound
        self.candidates = np.flatnonzero(over)
        self._forget_rows(model)
        matters = (over.astype(float) @ self._live > 0) & (most > least)
        model.needs = {}
        for leader in model.unary:
            sizes = [self.problem.memory[v][model.active[leader]] for v in self.members[leader] if matters[v]]
            if sizes:
                model.needs[leader] = np.array(sizes)

    def _forget_rows(self, model: Model) -> None:
        """Drop the model's rows that nothing left can overfill."""
        keep = np.isin(model.steps, self.candidates)
        model.room, model.steps = model.room[keep], model.steps[keep]
        kept = {node: needs[keep] for node, needs in model.memory.items()}
        model.memory = {node: needs for node, needs in kept.items() if needs.any()}

    def add(self, model: Model, steps: Sequence[int]) -> None:
        """Make these time steps rows of the model."""
        new = [step for step in steps if step not in model.steps]
        if not new:
            return
        before = len(model.room)
        rows: dict[int, Floats] = {}
        room = np.full(len(new), self.bound)
        for at, step in enumerate(new):
            for v in self.problem.live[step]:
                leader = self.leader[v]
                sizes = self.problem.memory[v][model.active[leader]]
                least = sizes.min() if leader in model.unary else sizes[0]
                room[at] -= least
                if leader in model.unary and (sizes > least).any():
                    if leader not in rows:
                        rows[leader] = np.zeros((len(new), len(sizes)))
                    rows[leader][at] += sizes - least
        for leader in {*rows, *model.memory}:
            k = len(model.unary[leader])
            old = model.memory.get(leader, np.zeros((before, k)))
            added = rows.get(leader, np.zeros((len(new), k)))
            least = added.min(axis=1)  # tensors of one node can have their smallest size at different strategies
            room -= least
            model.memory[leader] = np.vstack([old, added - least[:, None]])
        model.room = np.concatenate([model.room, room])
        model.steps = np.concatenate([model.steps, np.array(new, np.int64)])

    def worst(self, usage: Floats, most: int = 1) -> npt.NDArray[np.int64]:
        """The most overfilled time steps."""
        order = np.argsort(-usage, kind="stable")[:most]
        return order[usage[order] > self.bound]
