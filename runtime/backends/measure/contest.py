"""`Contest`: whole programs, compiled once, held against eager and timed by turns; what a `Course` asks its process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import replace
from time import process_time_ns
from typing import Any

from ....profiles.backends import Backend, Compiled, ones
from ..capture import recorded
from ..flat import flat
from ..program import Group, Program
from ..subgraph import subgraph
from ..transfer import restored
from .agreement import disagreement
from .job import Job
from .spread import median_and_spread

__all__ = ["Contest"]

GROUP_ROUNDS = 5
"""Rounds in which groups are timed one by one; the other rounds time the program as a whole."""


class Contest:
    """Programs of one network.

    Parameters
    ----------
    job : Job
        The network, the backends and the options; its units are not looked at.
    tensors, mark
        As of `bench.Bench`.
    """

    def __init__(self, job: Job, tensors: Any, mark: MutableSequence[int]) -> None:
        self.job, self.options, self.mark = job, job.options, mark
        self.network = restored(
            replace(job.network, tensors=tensors["parameters"], example=tuple(tensors["example"]))
        )  # fmt: skip
        self.graph = self.network.graph
        self._backends = {name: pickle.loads(held) for name, held in job.backends.items()}
        self._compiled = dict[tuple[str, int], Compiled]()
        self._values = recorded(self.network.module, self.network.example)
        self._whole = flat(subgraph(self.network, [node.id for node in self.graph.nodes]))

    def answer(self, entries: Sequence[Sequence[Any]], tell: Callable[..., None]) -> list[dict[str, Any]]:
        """Per entry (groups as pairs of a backend and a set of nodes in bits) what it takes, or why it cannot.

        Parameters
        ----------
        entries : sequence
            The programs.
        tell : function
            Called with nothing that matters, as a sign of life.
        """
        answers = list[dict[str, Any]]()
        programs = dict[int, Program]()
        for number, groups in enumerate(entries):
            self.mark[0] = number
            try:
                programs[number] = self._program(groups, tell)
                answers.append(self._checked(programs[number]))
            except Exception as raised:
                said = str(raised).strip().splitlines()
                answers.append({"reason": f"{type(raised).__name__}: {said[0][:200] if said else 'no message'}"})
                programs.pop(number, None)
            if answers[-1]["reason"]:
                programs.pop(number, None)
            tell()
        for number, found in self._timed(programs, tell).items():
            answers[number] |= found
        self.mark[0] = -1
        return answers

    def _program(self, groups: Sequence[tuple[str, int]], tell: Callable[..., None]) -> Program:
        made = list[Group]()
        for name, members in groups:
            made.append(Group(name, members, self._unit(name, members)))
            tell()
        return Program(self.graph, made, {name: one.held for name, one in self._backends.items()})

    def _unit(self, name: str, members: int) -> Compiled:
        if (name, members) not in self._compiled:
            backend: Backend = self._backends[name]
            part = subgraph(self.network, [self.graph.nodes[k].id for k in ones(members)])
            with backend.held():
                example = [self._values[one].clone() for one in self.graph.reads(members)]
                self._compiled[name, members] = backend.compile(part, example)
        return self._compiled[name, members]

    def _checked(self, program: Program) -> dict[str, Any]:
        """Against eager, and whether the same input gives the same bits again."""
        import torch

        error = disagreement(lambda *given: (program(*given),), self._whole, self.network.example, self.options.seed)
        same = torch.equal(program(*self.network.example), program(*self.network.example))
        wrong = error > self.options.tolerance
        reason = f"wrong: it differs from eager by {error:.2g} of the largest value" if wrong else ""
        return {"error": min(error, 1e300), "same_bits": same, "reason": reason}

    def _timed(self, programs: dict[int, Program], tell: Callable[..., None]) -> dict[int, dict[str, Any]]:
        """Rounds of all programs, in rotated order, until every median is known."""
        example = self.network.example
        samples, laps = {n: list[float]() for n in programs}, {n: list[list[int]]() for n in programs}
        order, turn = list(programs), 0
        while order and not self._known(samples, turn - 1):
            for number in order[turn % len(order) :] + order[: turn % len(order)]:
                self.mark[0] = number
                begin = process_time_ns()
                programs[number](*example)
                if turn:  # the first round is to warm up
                    samples[number].append((process_time_ns() - begin) / 1e6)
                if turn < GROUP_ROUNDS:
                    count = len(programs[number].groups)
                    laps[number].append(programs[number].timed(example, self.mark, [number] * count))
                tell()
            turn += 1
        out = dict[int, dict[str, Any]]()
        for number, program in programs.items():
            cost, spread = median_and_spread(samples[number])
            columns = zip(*laps[number], strict=True)
            out[number] = {
                "ms": cost, "spread": min(spread, 1e6), "samples_ms": samples[number],
                "groups": [[group.backend, group.members] for group in program.groups],
                "groups_ms": [median_and_spread(column)[0] / 1e6 for column in columns],
            }  # fmt: skip
        return out

    def _known(self, samples: dict[int, list[float]], rounds: int) -> bool:
        if rounds < self.options.least_rounds:
            return False
        close = all(median_and_spread(one)[1] <= self.options.spread for one in samples.values())
        return close or rounds >= self.options.most_rounds
