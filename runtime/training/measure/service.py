"""`with_service`: what a plan's stages, hosts and messages take while all of it runs, and how that varies.

It is read from the spans of runs of the plan itself: all ranks work, threads of gloo move messages on the same cores,
and what shares a core shares it. A stage's times are the means; what single passes took, as multiples of these, stays
as a recording over time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.spread import Spread
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.service import MessageTimes, ServiceEntry
from ....simulator.training.program.actions import Program
from ....simulator.training.program.columns import RECV_B, RECV_F, REDUCE, SEND_B, SEND_F, UPDATE, B, F, W
from ....simulator.training.program.messages import messages_of
from ....simulator.training.varying.drawn import streams_of
from ..result import TrainingRun
from ..slices.turns import turns_of
from .cores import counted

__all__ = ["drift", "with_service"]

Floats = npt.NDArray[np.float64]
Key = tuple[int, ...]

MOST_WINDOWS = 1500
"""Windows of a recording, so that plan files stay small: 0.1 MB for two devices."""

QUANTILES = 20
"""Quantiles kept of messages' factors. A guess: a hundred messages say little beyond."""

SHORT = 0.1
"""Work that takes less than this share of its mesh's longest is left out of the recording: its ratio says how coarse
the clock is rather than how fast the core."""


@dataclass(frozen=True, eq=False)
class _Iteration:
    """When a mesh was done with each action: when the slowest of its ranks was. Rows as the program's.

    Parameters
    ----------
    run : int
        In which run.
    seconds : float
        Of the iteration.
    begin : ndarray, shape (n_meshes,)
        When each mesh began its first action, seconds after the iteration's start.
    took : ndarray, shape (n,)
        From when the mesh was done with the action before (or began), until it was done with this one.
    end : ndarray, shape (n,)
        When it was done, seconds after the iteration's start.
    asked, done : ndarray, shape (n,)
        Start and end on the clock that all ranks share.
    """

    run: int
    seconds: float
    begin: Floats
    took: Floats
    end: Floats
    asked: Floats
    done: Floats


def with_service(
    plan: TrainingPlan, program: Program, runs: Sequence[TrainingRun], *, by_turns: bool = False
) -> TrainingPlan:
    """The plan with times in service: in its stages, and in its `service`.

    Where a mesh has several ranks its time is that of the slowest, action by action, and all of its devices share one
    recording: who waited for whom is in it.

    Parameters
    ----------
    plan : TrainingPlan
        The plan that was run.
    program : Program
        Its program.
    runs : sequence of TrainingRun
        Runs of it; other work may lie between them.
    by_turns : bool
        Whether what is to be simulated are the iterations between these, of the same runs: how fast the machine was in
        each run is then known, and not a matter of chance.

    Raises
    ------
    InputError
        Without a run.
    """
    if not runs:
        raise InputError("measure: expected a run of the plan")
    iterations = [_iteration(program, runs[r], r, i) for r, i in counted(runs)]
    keys = _keys(plan, program)
    means = _means(keys, iterations)
    messages, spread = _messages(program, iterations)
    service = ServiceEntry(
        begin_s=tuple(np.mean([x.begin for x in iterations], axis=0).tolist()),
        messages=messages,
        passes=_passes(plan, program, keys, means, iterations, by_turns).to_dict(),
        message_spread=spread.to_dict(),
    )
    stages = tuple(_stage(plan, s, means) for s in range(len(plan.stages)))
    return plan.model_copy(update={"stages": stages, "service": service, "overlap": True})


def drift(runs: Sequence[TrainingRun]) -> float:
    """By what share iterations took longer in the second half of the runs than in the first; 0 for a single run."""
    halves: tuple[list[float], list[float]] = ([], [])
    for r, i in counted(runs):
        halves[2 * r >= len(runs)].append(runs[r].seconds[i])
    return float(np.mean(halves[1]) / np.mean(halves[0]) - 1.0) if all(halves) and len(runs) > 1 else 0.0


def _iteration(program: Program, run: TrainingRun, number: int, i: int) -> _Iteration:
    offsets = program.columns.offsets
    n = len(program)
    took, end, asked, done = (np.zeros(n) for _ in range(4))
    begin = np.zeros(program.n_meshes)
    for mesh in range(program.n_meshes):
        ranks = [rank for rank, home in enumerate(run.mesh_of_rank) if home == mesh]
        rows = slice(int(offsets[mesh]), int(offsets[mesh + 1]))
        if rows.start == rows.stop:
            continue
        starts, ends = (
            np.array([[getattr(span, what) for span in run.spans[i][rank]] for rank in ranks])
            for what in ("start", "end")
        )
        zero = np.array([run.began[i][rank] for rank in ranks])[:, None]
        asked[rows], done[rows] = (starts + zero).max(axis=0), (ends + zero).max(axis=0)
        last = ends.max(axis=0)
        begin[mesh] = starts[:, 0].max()
        end[rows] = last
        took[rows] = np.diff(last, prepend=begin[mesh])
    return _Iteration(number, run.seconds[i], begin, np.maximum(took, 0.0), end, asked, done)


def _keys(plan: TrainingPlan, program: Program) -> list[Key]:
    """For each action what it is, so that actions of one key are the same work; () for messages."""
    c = program.columns
    entry = {t.microbatch: t.entry for t in turns_of(plan)} if plan.slices else {}
    keys: list[Key] = []
    for op, stage, microbatch, piece in zip(c.op, c.stage, c.microbatch, c.slice, strict=True):
        if op in (SEND_F, SEND_B, RECV_F, RECV_B):
            keys.append(())
        elif plan.slices and op in (F, B):
            keys.append((int(op), int(stage), entry[int(microbatch)], int(piece)))
        else:
            keys.append((int(op), int(stage)))
    return keys


def _means(keys: Sequence[Key], iterations: Sequence[_Iteration]) -> dict[Key, float]:
    found: dict[Key, list[float]] = {}
    for x in iterations:
        for key, took in zip(keys, x.took.tolist(), strict=True):
            if key:
                found.setdefault(key, []).append(took)
    return {key: float(np.mean(took)) for key, took in found.items()}


def _stage(plan: TrainingPlan, s: int, means: dict[Key, float]) -> Any:
    once = {"reduce_s": means.get((REDUCE, s), 0.0), "update_s": means.get((UPDATE, s), 0.0)}
    if plan.slices:
        from .calibrate_slices import with_slice_times

        ways = [
            [[means[op, s, e, j] for j in range(len(entry.tokens))] for e, entry in enumerate(plan.slices)]
            for op in (F, B)
        ]
        return with_slice_times(plan, s, ways[0], ways[1]).model_copy(update=once)
    halves = {"forward_s": F, "backward_input_s": B, "backward_weight_s": W}
    return plan.stages[s].model_copy(update={name: means.get((op, s), 0.0) for name, op in halves.items()} | once)


def _passes(
    plan: TrainingPlan, program: Program, keys: Sequence[Key], means: dict[Key, float], runs: Sequence[_Iteration],
    by_turns: bool,
) -> Spread:  # fmt: skip
    """The recording: iterations are put one after the other, as if nothing had lain between them."""
    mesh_of = program.columns.mesh
    longest = np.zeros(program.n_meshes)
    for row, key in enumerate(keys):
        if key:
            longest[mesh_of[row]] = max(longest[mesh_of[row]], means[key])
    rows = [row for row, key in enumerate(keys) if key and means[key] > SHORT * longest[mesh_of[row]]]
    if not rows:
        return Spread()
    expected = np.array([means[keys[row]] for row in rows])
    since = np.concatenate(([0.0], np.cumsum([x.seconds for x in runs])))
    took = np.array([x.took[rows] for x in runs])
    levels, of = took.sum(axis=1) / expected.sum(), np.array([x.run for x in runs])
    by_run = np.array([levels[of == r].mean() for r in of])
    level_sd = _level_sd(levels, by_run, of, by_turns)
    usual = by_run[:, None] * expected if by_turns else np.broadcast_to(expected, took.shape)
    start = np.array([x.end[rows] for x in runs]) - took + since[:-1, None]
    real = took > 0  # a rank may be done when the slowest one is done with more
    window_s = max(float(np.median(expected)), float(since[-1]) / MOST_WINDOWS)
    streams = streams_of(plan)
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    for mesh, devices in enumerate(streams):
        mine = real & (mesh_of[rows] == mesh)[None, :]
        for device in devices:
            parts.append((start[mine], took[mine], usual[mine], np.full(int(mine.sum()), device, dtype=np.int64)))
    begins, lasts, shares, device = (np.concatenate(x) for x in zip(*parts, strict=True))
    found = Spread.of_visits(begins, lasts, shares, device, window_s)
    # A path has mean 1 over time, also where its device idled. What is wanted is mean 1 over the work that was done.
    windows = ((begins + lasts / 2 - begins.min()) / found.window_s).astype(np.int64).clip(0, len(found.paths[0]) - 1)
    paths: list[tuple[float, ...]] = []
    for d, path in enumerate(np.asarray(found.paths)):
        mine = device == d
        paths.append(tuple(np.round(path * shares[mine].sum() / (path[windows[mine]] @ shares[mine]), 4).tolist()))
    return replace(found, paths=tuple(paths), level_sd=level_sd)


def _level_sd(levels: Floats, by_run: Floats, of: npt.NDArray[np.int64], by_turns: bool) -> float:
    """How well the mean is known: its standard error from the levels of separate runs.

    From few runs that error is itself uncertain: Student's t says by how much the interval widens. It is no more than
    the spread of single iterations, which is taken for a single run: all of it may lie in one slow second. Of
    iterations that tell by turns it is the standard error within runs, whose levels are known.
    """
    from scipy.stats import norm, t

    def wider(free: int) -> float:
        return float(t.ppf(0.975, free) / norm.ppf(0.975))

    apart = by_run[np.unique(of, return_index=True)[1]]
    most = min(0.49, float(levels.std(ddof=1))) if len(levels) > 1 else 0.0
    if by_turns:
        left, free = levels - by_run, len(levels) - len(apart)
        return min(most, wider(free) * float(np.sqrt(left @ left / free / len(levels)))) if free > 0 else most
    if len(apart) < 2:
        return most
    return min(most, wider(len(apart) - 1) * float(apart.std(ddof=1)) / math.sqrt(len(apart)))


def _messages(program: Program, iterations: Sequence[_Iteration]) -> tuple[tuple[MessageTimes, ...], Spread]:
    """Times of each pair's messages, and how they vary.

    A receive that began when the message's send was long done is the host's work alone. One that had to wait ends when
    the message is there and the host has worked: seconds from the send's start, less that work.
    """
    messages = messages_of(program)
    sender = np.full(messages.n_messages, -1)
    number, kinds, pair = messages.message, program.columns.op, messages.pair
    sends = np.flatnonzero(np.isin(kinds, (SEND_F, SEND_B)))
    receives = np.flatnonzero(np.isin(kinds, (RECV_F, RECV_B)))
    sender[number[sends]] = sends
    found: list[MessageTimes] = []
    factors: list[Floats] = []
    for k, (what, source, target) in enumerate(messages.pairs):
        out, into = sends[pair[sends] == k], receives[pair[receives] == k]
        of = sender[number[into]]
        send = np.array([x.took[out] for x in iterations])
        wait = np.array([x.took[into] for x in iterations])
        asked, done = (np.array([x.asked[into] for x in iterations]), np.array([x.done[into] for x in iterations]))
        left, gone = (np.array([x.asked[of] for x in iterations]), np.array([x.done[of] for x in iterations]))
        there, late = asked > 2 * gone - left, asked < left
        receive_s = float(np.mean(wait[there])) if there.any() else 0.0
        flights = np.maximum((done - left)[late] - receive_s, 0.0)
        seconds = float(flights.mean()) if len(flights) and flights.mean() > 0 else None
        if seconds is not None:
            factors.append(flights / seconds)
        found.append(
            MessageTimes(
                what=what, source=source, target=target, seconds=seconds, send_s=float(send.mean()), receive_s=receive_s
            )
        )
    every = np.concatenate(factors) if factors else np.ones(1)
    quantiles = np.quantile(every, (np.arange(QUANTILES) + 0.5) / QUANTILES).clip(min=1e-3)
    return tuple(found), Spread(visits=tuple((quantiles / quantiles.mean()).tolist()))
