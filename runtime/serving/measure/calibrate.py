"""`calibrate`: measure what a running placement really costs: stage latencies, hops, and the overhead of dispatch.

Measured through the very path that requests take (controller, pipes, workers, torch.distributed), once with one job in
the house at a time and once with every device at work. What is found goes into a profile set, so that the simulator,
the controller's admission and a planner all reckon with it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....errors import InputError, RunError
from ....profiles.profile import ModelProfile, Provenance
from ....profiles.profile_set import ProfileSet
from ....reprs import Shown
from ..session import Session
from .probe import Probe, ProbeJob

__all__ = ["Calibration", "calibrate"]

OWN = 0.9
"""Share of a stage visit in which its thread must have had its core for the visit to count (on a CPU). What other
processes take is no property of the model; the little that the controller and the system take on the same core is
part of serving, and is there in every run. Where too few visits count, CPU time stands in."""

UNDISTURBED = 0.98
"""The same for jobs that overhead and hops are read from: those are small beside what an interruption adds."""

Key = tuple[int, int, int]
"""Group, model, batch size."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Shown):
    """Latencies that were measured on a running session.

    Parameters
    ----------
    profiles : ProfileSet
        The session's profiles with measured latencies in place of theirs, and with `overhead_s` and `hop_s` set.
    overhead_s : float
        Median seconds from arrival to the start of the first stage, plus those from the end of the last to the answer.
    hop_s : Mapping[int, float]
        Group -> median seconds from the end of a stage to the start of the next, while all devices are otherwise idle.
    alone, together : Mapping[Key, tuple of float]
        Mean latency of each stage, seconds, with a single job under way, and with all devices at work.
    """

    profiles: ProfileSet
    overhead_s: float
    hop_s: Mapping[int, float]
    alone: Mapping[Key, tuple[float, ...]]
    together: Mapping[Key, tuple[float, ...]]

    @property
    def interference(self) -> float:
        """Median ratio of stage latencies with all devices at work to those alone."""
        ratios = [b / a for key in self.alone for a, b in zip(self.alone[key], self.together[key], strict=True)]
        return float(np.median(ratios))

    def explain(self) -> str:
        """The measurements in one line."""
        hops = [hop for hop in self.hop_s.values() if hop > 0]
        hop = f", hop {np.median(hops) * 1e3:.2f} ms" if hops else ""
        slower = f"devices slow each other by {self.interference - 1:.1%}"
        return f"dispatch overhead {self.overhead_s * 1e3:.2f} ms{hop}, {slower}"


@dataclass(frozen=True, eq=False)
class _Pass:
    """One measuring pass: per job, times of arrival and answer, and of each stage."""

    jobs: list[ProbeJob]
    finish: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    cpu: npt.NDArray[np.float64]

    @property
    def undisturbed(self) -> npt.NDArray[np.bool_]:
        """Jobs in which every thread had its core all the time, shape (n,)."""
        took = np.nansum(self.seconds, axis=1)
        return np.nansum(self.cpu, axis=1) >= UNDISTURBED * took

    def latencies(self, pp: list[int]) -> dict[Key, tuple[float, ...]]:
        """Latency of each stage by kind of job: the mean of visits (queues add them up) that nobody else held up.

        What takes less than a tenth of a visit, the controller and the system on the same core, is part of serving.
        """
        rows: dict[Key, list[int]] = {}
        for i, job in enumerate(self.jobs):
            rows.setdefault((job.group, job.model, job.batch), []).append(i)
        return {
            key: tuple(_typical(self.seconds[mine, k], self.cpu[mine, k]) for k in range(pp[key[0]]))
            for key, mine in rows.items()
        }


def _typical(seconds: npt.NDArray[np.float64], cpu: npt.NDArray[np.float64]) -> float:
    own = cpu >= OWN * seconds
    # The mean, because queues add visits up; fewer than three visits would be chance.
    return float(np.mean(seconds[own]) if own.sum() >= min(3, len(own)) else np.median(cpu))


def calibrate(session: Session, *, repeats: int = 6, together_s: float = 3.0, load: float = 0.5) -> Calibration:
    """Measure stage latencies, overhead and hops of a running session.

    Parameters
    ----------
    session : Session
        A session that is started.
    repeats : int
        Jobs per model and group that run alone.
    together_s : float
        Approximate seconds of the pass with all devices at work.
    load : float
        How busy devices are expected to be, 0 … 1. Latencies of the profile are interpolated between those measured
        alone (0) and together (1).

    Raises
    ------
    InputError
        On an argument out of range, or a session that holds no model.
    RunError
        If a group is lost.
    """
    if repeats < 1 or not together_s > 0 or not 0 <= load <= 1:
        raise InputError(
            f"calibrate: expected repeats >= 1, together_s > 0 and 0 <= load <= 1 (got {repeats}, {together_s}, {load})"
        )
    pp = [group.config.pp for group in session.placement.groups]
    expected = _expected(session)
    if not expected:
        raise InputError("calibrate: the session holds none of its models")
    first = _measure(session, _one_by_one(expected, repeats))
    alone = first.latencies(pp)
    together = _measure(session, _back_to_back(alone, together_s)).latencies(pp)
    overhead = _overhead(first, pp)
    hops = {g: _hop(first, g, n) for g, n in enumerate(pp)}
    return Calibration(_profiles(session, alone, together, load, overhead, hops), overhead, hops, alone, together)


def _expected(session: Session) -> dict[Key, float]:
    """Latency by the profile of every (group, model, batch) that the session holds, seconds."""
    out: dict[Key, float] = {}
    for task in session.tasks:
        if task.rank == 0:
            config = session.placement.groups[task.group].config
            for hosted in task.models:
                profile = session.profiles[session.models[hosted.model]]
                for batch in session.batches:
                    known = [b for b in profile.batches(config) if b <= batch]
                    out[task.group, hosted.model, batch] = sum(profile.latency(config, known[-1])) * batch / known[-1]
    return out


def _one_by_one(expected: Mapping[Key, float], repeats: int) -> list[ProbeJob]:
    """Every kind of job in turn, `repeats` times, so far apart that each finds an idle house."""
    jobs: list[ProbeJob] = []
    at = 0.0
    for _ in range(repeats):
        for (group, model, batch), seconds in expected.items():
            jobs.append(ProbeJob(at, group, model, batch))
            at += 1.3 * seconds + 0.005  # a guess: the profile may be 30 % off, and an answer takes a few milliseconds
    return jobs


def _back_to_back(alone: Mapping[Key, tuple[float, ...]], seconds: float) -> list[ProbeJob]:
    """Jobs of every kind that keep every group's slowest stage busy for `seconds`.

    They arrive one by one, a little faster than they are served: handling arrivals takes cores too.
    """
    jobs: list[ProbeJob] = []
    for group in sorted({key[0] for key in alone}):
        kinds = [key for key in alone if key[0] == group]
        at = 0.0
        for _ in range(max(3, round(seconds / sum(max(alone[key]) for key in kinds)))):
            for key in kinds:
                jobs.append(ProbeJob(at, *key))
                at += 0.97 * max(alone[key])  # 3 % faster: enough that a queue builds up, too little for a long one
    return sorted(jobs, key=lambda job: job.at)


def _measure(session: Session, jobs: list[ProbeJob]) -> _Pass:
    probe = Probe(jobs)
    served = session.serve([job.at for job in jobs], probe)
    if served.controller.failures:
        raise RunError(f"calibrate: {served.controller.failures[0]}")
    width = max(group.config.pp for group in session.placement.groups)
    start, seconds, cpu = (np.full((len(jobs), width), np.nan) for _ in range(3))
    for spans in served.spans:
        start[spans.job, spans.stage] = spans.start
        seconds[spans.job, spans.stage] = spans.seconds
        cpu[spans.job, spans.stage] = spans.cpu
    return _Pass(jobs, probe.finish, start, seconds, cpu)


def _overhead(measured: _Pass, pp: list[int]) -> float:
    """Seconds that dispatch and answer add to a job that found an idle house."""
    rows = np.arange(len(measured.jobs))
    last = np.array([pp[job.group] - 1 for job in measured.jobs])
    at = np.array([job.at for job in measured.jobs])
    idle = np.concatenate(([True], measured.finish[:-1] < at[1:]))
    batch = np.array([job.batch for job in measured.jobs])
    end = measured.start[rows, last] + measured.seconds[rows, last]
    added = measured.start[:, 0] - at + measured.finish - end
    kept = idle & (batch == batch.min())
    return _quiet_median(added[kept], measured.undisturbed[kept])


def _hop(measured: _Pass, group: int, pp: int) -> float:
    batch = min(job.batch for job in measured.jobs)
    rows = [i for i, job in enumerate(measured.jobs) if job.group == group and job.batch == batch]
    if pp == 1 or not rows:
        return 0.0
    gaps = measured.start[rows, 1:pp] - measured.start[rows, : pp - 1] - measured.seconds[rows, : pp - 1]
    quiet = np.repeat(measured.undisturbed[rows], pp - 1)
    return max(_quiet_median(gaps.ravel(), quiet), 0.0)


def _quiet_median(values: npt.NDArray[np.float64], quiet: npt.NDArray[np.bool_]) -> float:
    """Median of jobs that nobody disturbed; the lower quartile of all where there are none to speak of."""
    return float(np.median(values[quiet]) if quiet.sum() >= 3 else np.percentile(values, 25))


def _profiles(
    session: Session, alone: Mapping[Key, tuple[float, ...]], together: Mapping[Key, tuple[float, ...]], load: float,
    overhead: float, hops: Mapping[int, float],
) -> ProfileSet:  # fmt: skip
    """The session's profiles with what was measured; groups of one configuration are averaged."""
    given = session.profiles
    models: dict[str, ModelProfile] = {name: given[name] for name in session.models if name in given}
    found: dict[tuple[int, int], list[int]] = {}
    for group, model, batch in alone:
        if batch == session.batches[0]:
            found.setdefault((model, group), [])
    by_config: dict[tuple[int, object], list[int]] = {}
    for model, group in found:
        by_config.setdefault((model, session.placement.groups[group].config), []).append(group)
    for (model, _), groups in by_config.items():
        name, config = session.models[model], session.placement.groups[groups[0]].config
        profile = models[name]
        latency = dict(profile.stage(config).latency)
        for batch in session.batches:
            a = np.mean([alone[g, model, batch] for g in groups], axis=0)
            b = np.mean([together[g, model, batch] for g in groups], axis=0)
            latency[batch] = tuple(float(x) for x in (1 - load) * a + load * b)
        stage = replace(
            profile.stage(config), latency=latency, hop_s=float(np.mean([hops[g] for g in groups])),
            source="calibrated on the running placement",
        )  # fmt: skip
        models[name] = replace(profile, stages={**profile.stages, config: stage})
    source = Provenance(
        "meshwright.runtime.serving.measure.calibrate: undisturbed stage visits through the real serving path",
        device=str(getattr(given, "device", "")),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        notes=f"stage latencies {load:.0%} of the way from one job in the house to all devices at work; others: "
        f"{getattr(getattr(given, 'provenance', None), 'source', 'as given')}",
    )
    name = f"{getattr(given, 'name', 'profiles')}+calibrated"
    return ProfileSet(name, str(getattr(given, "device", "")), models, source, overhead)
