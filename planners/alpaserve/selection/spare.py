"""Memory left over costs nothing: fill it with replicas that do no harm, for traffic that the planner did not see."""

from __future__ import annotations

from ..evaluator import Evaluator, State, canonical
from .room import Room

__all__ = ["fill_spare_memory"]


def fill_spare_memory(evaluator: Evaluator, state: State) -> State:
    """Add replicas while memory is left and no more requests are unserved.

    In each step the model with the most requests per replica that fits somewhere gets one in the group whose models
    have the fewest requests (each shared among its replicas). A replica that would lose requests is skipped for good.
    A model without a replica comes first, even one without requests. The answer never attains less than `state`.

    Parameters
    ----------
    evaluator : Evaluator
        Scores.
    state : State
        Where to begin.
    """
    instance = evaluator.instance
    counts = instance.counts
    room = Room(instance, (1 << instance.n_models) - 1)
    unserved = evaluator.total(state)
    barred: set[tuple[int, int, int]] = set()

    def load(mask: int) -> float:
        return sum(counts[m] / replicas[m] for m in range(instance.n_models) if mask >> m & 1)

    while True:
        replicas = [sum(mask >> m & 1 for _, mask in state) for m in range(instance.n_models)]
        demand = sorted(range(instance.n_models), key=lambda m: (replicas[m] > 0, -counts[m] / max(replicas[m], 1), m))
        groups = sorted(set(state), key=lambda g: (load(g[1]), g))
        step = next(
            (
                (model, group)
                for model in demand
                for group in groups
                if room.free(group) >> model & 1 and (model, *group) not in barred
            ),
            None,
        )
        if step is None:
            return state
        model, (config, held) = step
        grown = list(state)
        grown.remove((config, held))
        candidate = canonical([*grown, (config, held | 1 << model)])
        after = evaluator.unserved(candidate, limit=unserved)
        if after is not None:
            state, unserved = candidate, after
        else:
            barred.add((model, config, held))  # groups that hold the same models are alike: none of them is tried again
