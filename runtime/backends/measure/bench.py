"""`Bench`: compiles units, holds them against eager, and times them in their places until their costs are known."""

from __future__ import annotations

import pickle
from collections.abc import Callable, MutableSequence
from dataclasses import replace
from typing import Any

from ....profiles.backends import Backend, Compiled
from ..capture import recorded
from ..flat import flat
from ..program import Group, Program
from ..subgraph import subgraph
from ..transfer import restored
from .agreement import Wrong, disagreement
from .job import Job, Unit
from .overheads import context_ms, layout_ms
from .passes import packed
from .spread import median_and_spread

__all__ = ["Bench"]

EAGER = "torch-onednn"
"""What runs in a pass where nothing is timed."""


class Bench:
    """All of a job.

    Parameters
    ----------
    job : Job
        What to do.
    tensors : dict
        The network's parameters and inputs.
    mark : mutable sequence of int
        ``mark[0]`` says to others which unit is being called.
    tell : function
        Takes what has been found out, as keyword arguments.
    """

    def __init__(self, job: Job, tensors: Any, mark: MutableSequence[int], tell: Callable[..., None]) -> None:
        self.job, self.options, self.mark, self.tell = job, job.options, mark, tell
        network = replace(job.network, tensors=tensors["parameters"], example=tuple(tensors["example"]))
        self.network = restored(network)
        self.graph = self.network.graph
        self._eager = dict[int, Compiled]()
        self._backends = dict[str, Backend]()
        self._compiled = dict[int, Compiled]()
        self._places = dict[int, int]()

    def run(self) -> None:
        """Do the job; each result is told as soon as it is known."""
        for k, layout in enumerate(self.job.layouts):
            self.tell(layout=k, cost_ms=layout_ms(layout))
        for k, name in enumerate(self.job.contexts):
            self.tell(context=k, cost_ms=context_ms(self._backend(name)))
        units = {unit.number: unit for unit in self.job.units}
        several = {u.number for u in self.job.units if len(self.graph.results(u.places[0])) > 1}
        by_backend = dict[str, dict[int, tuple[int, ...]]]()
        for unit in self.job.units:
            by_backend.setdefault(unit.backend, {})[unit.number] = unit.places
        for places in by_backend.values():
            for one in packed(places, several):
                self._places |= one
        values = recorded(self.network.module, self.network.example)
        for unit in self.job.units:
            self._prepare(unit, values)
        del values
        self._time({number: units[number] for number in self._compiled}, several)

    def _prepare(self, unit: Unit, values: dict[str, Any]) -> None:
        """Compile a unit and hold it against eager."""
        members = self._places[unit.number]
        part = subgraph(self.network, [node.id for k, node in enumerate(self.graph.nodes) if members >> k & 1])
        real = [values[name] for name in self.graph.reads(members)]
        self.mark[0] = unit.number
        error, reason = None, ""
        try:
            backend = self._backend(unit.backend)
            with backend.held():
                run = backend.compile(part, [one.clone() for one in real])
                error = disagreement(run, flat(part), real, self.options.seed)
            if error > self.options.tolerance:
                reason = f"wrong: it differs from eager by {error:.2g} of the largest value"
            else:
                self._compiled[unit.number] = run
        except Wrong as wrong:
            reason = f"wrong: {wrong}"
        except Exception as raised:
            reason = _said(raised)
        self.mark[0] = -1
        finite = error if error is not None and error < 1e300 else None
        self.tell(unit=unit.number, error=finite, reason=reason)

    def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            self._backends[name] = pickle.loads(self.job.backends[name])
        return self._backends[name]

    def _time(self, waiting: dict[int, Unit], several: set[int]) -> None:
        """Rounds through the network, until every unit's cost is known; the first is to warm up."""
        samples = {number: list[float]() for number in waiting}
        programs, turn = self._programs(waiting, several), 0
        while waiting:
            first, gone = turn % len(programs), list[int]()
            for program, numbers in programs[first:] + programs[:first]:
                try:
                    laps = program.timed(self.network.example, self.mark, numbers)
                except Exception as raised:
                    if self.mark[0] < 0:
                        raise
                    gone.append(self.mark[0])
                    self.mark[0] = -1
                    self.tell(unit=gone[-1], error=None, reason=_said(raised))
                    continue
                for number, lap in zip(numbers, laps, strict=False):  # it ends after the last unit
                    if number >= 0 and turn:
                        samples[number].append(lap / 1e6)
                self.tell(turn=turn)
            settled = [number for number in waiting if number not in gone and self._settled(samples[number])]
            for number in settled:
                cost, spread = median_and_spread(samples[number])
                self.tell(cost=number, cost_ms=cost, spread=min(spread, 1e6), rounds=len(samples[number]))
            for number in (*settled, *gone):
                del waiting[number]
            if waiting and (settled or gone):
                programs = self._programs(waiting, several)
            turn += 1

    def _settled(self, samples: list[float]) -> bool:
        enough = len(samples) >= self.options.least_rounds
        return len(samples) >= self.options.most_rounds or (
            enough and median_and_spread(samples)[1] <= self.options.spread
        )

    def _programs(self, waiting: dict[int, Unit], several: set[int]) -> list[tuple[Program, list[int]]]:
        """Passes that time every waiting unit, each with the units of its groups; -1 for what is not timed."""
        out = list[tuple[Program, list[int]]]()
        for name in dict.fromkeys(unit.backend for unit in waiting.values()):
            places = {n: (self._places[n],) for n, unit in waiting.items() if unit.backend == name}
            held = {name: self._backend(name).held}
            for timed in packed(places, several):
                groups = [Group(name, bits, self._compiled[number]) for number, bits in timed.items()]
                taken = 0
                for bits in timed.values():
                    taken |= bits
                rest = [k for k in range(len(self.graph.nodes)) if not taken >> k & 1]
                groups += [Group(f"{EAGER} untimed", 1 << k, self._alone(k)) for k in rest]
                program = Program(self.graph, groups, held)
                number_of = {bits: number for number, bits in timed.items()}
                out.append((program, [number_of.get(group.members, -1) for group in program.groups]))
        return out

    def _alone(self, k: int) -> Compiled:
        if k not in self._eager:
            self._eager[k] = flat(subgraph(self.network, [self.graph.nodes[k].id]))
        return self._eager[k]


def _said(raised: Exception) -> str:
    said = str(raised).strip().splitlines()
    return f"raised {type(raised).__name__}: {said[0][:200] if said else 'no message'}"
