"""The evaluator that every planner scores on: (which group holds which models) -> unserved requests, incrementally.

A `State` lists groups as (configuration, models held). Requests of models that share no group, directly or through
others, never meet: the state falls apart into *components* (groups linked through shared models), and what a component
attains depends on nothing else. So a move re-simulates only the components that it touches, with the very answer that
simulating everything would give.

Groups of a state are unordered; `canonical` fixes the order in which they are simulated and emitted (dispatch breaks
ties by it), so that equal states have equal scores and one simulation serves them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...jit import kernel
from ...simulator.placement import Group, Placement
from ...simulator.serving.compiled.counting import count
from ...simulator.serving.compiled.engine import POLICY
from .instance import Instance

__all__ = ["Evaluator", "GroupState", "Score", "State", "canonical", "components", "members"]

GroupState = tuple[int, int]
"""(number of the configuration, models held as a bit mask)."""

State = tuple[GroupState, ...]
"""The groups, in canonical order."""

STREAM_BYTES = 256 * 2**20
"""Request streams of model subsets are kept up to this many bytes; the oldest goes first. There are as many subsets as
a search meets, up to 2^models, and a stream can be cut out of the trace again at any time."""


def canonical(groups: Iterable[GroupState]) -> State:
    """The order in which groups are simulated and emitted: by configuration, then by models held."""
    return tuple(sorted(groups))


@lru_cache(maxsize=1 << 16)
def members(mask: int) -> tuple[int, ...]:
    """Models of a bit mask, ascending."""
    return tuple(m for m in range(mask.bit_length()) if mask >> m & 1)


def components(groups: Iterable[GroupState]) -> list[tuple[int, State]]:
    """Groups linked through shared models: (union of their models, the groups) for each; empty groups are left out."""
    found: list[tuple[int, list[GroupState]]] = []
    for group in groups:
        mask = group[1]
        if not mask:
            continue
        touching = [c for c in found if c[0] & mask]
        joined = [group]
        for c in touching:
            mask |= c[0]
            joined = c[1] + joined
        if touching:
            found = [c for c in found if not c[0] & mask]
        found.append((mask, joined))
    return [(mask, canonical(groups)) for mask, groups in found]


@dataclass(frozen=True, eq=False, slots=True)
class Score:
    """What a state attains.

    Parameters
    ----------
    unserved : int
        Requests that miss their SLO, those of models without a replica included.
    by_model : ndarray of int64, shape (n_models,)
        The same for each model.
    busy : dict[GroupState, float]
        Seconds that the average stage of each non-empty group works; of equal groups, the average.
    """

    unserved: int
    by_model: npt.NDArray[np.int64]
    busy: dict[GroupState, float]


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """What one component attains."""

    unserved: int
    models: npt.NDArray[np.intp]
    by_model: npt.NDArray[np.int64]
    busy: dict[GroupState, float]


@kernel
def _lay_out(config, member):
    """CSR of (model, group) pairs of ``member[g, m]``: where each model begins, group and latency row of each pair."""
    n_groups, n_models = member.shape
    start = np.zeros(n_models + 1, np.int32)
    for m in range(n_models):
        held = 0
        for g in range(n_groups):
            held += member[g, m]
        start[m + 1] = start[m] + held
    pair_group = np.empty(start[n_models], np.int32)
    pair_row = np.empty(start[n_models], np.int32)
    p = 0
    for m in range(n_models):
        for g in range(n_groups):
            if member[g, m]:
                pair_group[p] = g
                pair_row[p] = config[g] * n_models + m
                p += 1
    return start, pair_group, pair_row


class Evaluator:
    """Scores states of one instance; remembers every component that it has simulated.

    Parameters
    ----------
    instance : Instance
        The problem.

    Attributes
    ----------
    instance : Instance
        The problem.
    evaluations : int
        Components simulated so far, abandoned ones included.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.evaluations = 0
        self._parts: dict[tuple[GroupState, ...], _Part | int] = {}
        self._streams: dict[int, tuple[npt.NDArray, ...]] = {}
        self._stream_bytes = 0
        self._rows: dict[int, npt.NDArray[np.uint8]] = {}
        self._counts = [int(c) for c in instance.counts]
        n, c = instance.n_models, len(instance.configs)
        self._latency = np.ascontiguousarray(instance.latency.reshape(c * n, -1))
        self._hop = np.ascontiguousarray(instance.hop.reshape(c * n))
        self._all = (1 << n) - 1
        self._every = np.arange(instance.n_requests)

    def requests(self, mask: int) -> int:
        """Requests that ask for the models of a bit mask."""
        return sum(self._counts[m] for m in members(mask))

    def score(self, state: State) -> Score:
        """What a state attains."""
        by_model = self.instance.counts.copy()
        busy: dict[GroupState, float] = {}
        for _, groups in components(state):
            part = self.part(groups)
            assert part is not None
            by_model[part.models] = part.by_model
            busy.update(part.busy)
        return Score(int(by_model.sum()), by_model, busy)

    def unserved(self, state: State, limit: int | None = None) -> int | None:
        """Requests that miss their SLO under a state; None as soon as they are known to exceed `limit`."""
        parts = components(state)
        held = 0
        for mask, _ in parts:
            held |= mask
        lost = self.requests(self._all & ~held)
        for _, groups in parts:
            part = self.part(groups, None if limit is None else limit - lost)
            if part is None:
                return None
            lost += part.unserved
        return None if limit is not None and lost > limit else lost

    def total(self, state: State) -> int:
        """Requests that miss their SLO under a state."""
        lost = self.unserved(state)
        assert lost is not None
        return lost

    def attainment(self, state: State) -> float:
        """Fraction of all requests attained under a state."""
        return (self.instance.n_requests - self.total(state)) / self.instance.n_requests

    def part(self, groups: tuple[GroupState, ...], limit: int | None = None) -> _Part | None:
        """What one component (groups in canonical order) attains; None if more than `limit` requests are unserved."""
        known = self._parts.get(groups)
        if isinstance(known, _Part):
            return known if limit is None or known.unserved <= limit else None
        if limit is not None and (limit < 0 or (known is not None and known > limit)):
            return None  # `known`: abandoned before, when it had at least so many unserved
        mask = 0
        for _, held in groups:
            mask |= held
        arrival, slo, model = self._stream(mask)
        n = len(arrival)
        config = np.array([c for c, _ in groups], dtype=np.int64)
        member = np.stack([self._row(held) for _, held in groups])
        attained = np.zeros(self.instance.n_models, dtype=np.int64)
        busy = np.zeros(len(groups))
        stages = self.instance.stages[config]
        laid: Any = _lay_out(config, member)
        counted: Any = count  # the checker counts what is laid out as one
        good, seen, _ = counted(
            arrival, model, slo, self._every[:n], *laid, self._latency, self._hop, stages,
            POLICY[self.instance.dispatch], self.instance.admission, self.instance.overhead,
            n if limit is None else limit, attained, np.zeros(len(groups), dtype=np.int64), busy,
        )  # fmt: skip
        self.evaluations += 1
        if limit is not None and seen - good > limit:
            self._parts[groups] = seen - good
            return None
        models = np.array(members(mask))
        average: dict[GroupState, list[float]] = {}
        for group, seconds in zip(groups, (busy / stages).tolist(), strict=True):
            average.setdefault(group, []).append(seconds)
        part = _Part(
            n - good,
            models,
            self.instance.counts[models] - attained[models],
            {group: sum(s) / len(s) for group, s in average.items()},
        )
        self._parts[groups] = part
        return part

    def placement(self, state: State) -> Placement:
        """The placement that a state stands for, groups in canonical order."""
        i = self.instance
        return Placement([Group(i.configs[c], [i.models[m] for m in members(mask)]) for c, mask in state])

    def state(self, placement: Placement) -> State:
        """The state of a placement whose models and configurations the instance knows."""
        number = {name: m for m, name in enumerate(self.instance.models)}
        return canonical(
            (self.instance.index(group.config), sum(1 << number[name] for name in group.models))
            for group in placement.groups
        )

    def _row(self, mask: int) -> npt.NDArray[np.uint8]:
        row = self._rows.get(mask)
        if row is None:
            row = np.zeros(self.instance.n_models, dtype=np.uint8)
            row[list(members(mask))] = 1
            self._rows[mask] = row
        return row

    def _stream(self, mask: int) -> tuple[npt.NDArray, ...]:
        """Arrival, SLO and model of the requests for the models of `mask`."""
        stream = self._streams.get(mask)
        if stream is None:
            i = self.instance
            if mask == self._all:
                stream = (i.arrival, i.slo, i.model)
            else:
                rows = np.flatnonzero(self._row(mask).view(bool)[i.model])
                stream = (i.arrival[rows], i.slo[rows], i.model[rows])
            self._stream_bytes += sum(column.nbytes for column in stream)
            while self._streams and self._stream_bytes > STREAM_BYTES:
                oldest = self._streams.pop(next(iter(self._streams)))
                self._stream_bytes -= sum(column.nbytes for column in oldest)
            self._streams[mask] = stream
        return stream
