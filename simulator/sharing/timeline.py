"""Who had which GPU when: as a Chrome trace (chrome://tracing, Perfetto) and as a Gantt chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ..palette import CYCLE
from .result import SharingResult, Spell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["chrome_trace", "draw_gantt"]


def chrome_trace(result: SharingResult) -> dict[str, Any]:
    """Trace events: a process per machine, a thread per GPU; what a job does on it, and while it restarts.

    Raises
    ------
    InputError
        If the compiled engine made the result: it does not note down what jobs have.
    """
    cluster, apps = result.world.cluster, result.world.apps
    events: list[dict[str, Any]] = []
    for m, machine in enumerate(cluster.machines):
        named = {"name": f"machine {m} (rack {machine.rack})"}
        events.append({"ph": "M", "name": "process_name", "pid": m, "tid": 0, "args": named})
    for g in range(cluster.n_gpus):
        pid = int(cluster.machine_of[g])
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": g, "args": {"name": f"GPU {g}"}})
    for s in _spells(result):
        name = f"{apps[s.app].name}, job {s.job}"
        more = {"app": apps[s.app].name, "job": s.job, "phase": s.phase, "gpus": list(s.gpus)}
        for g in s.gpus:
            at = {"ph": "X", "pid": int(cluster.machine_of[g]), "tid": g, "args": more}
            if s.resumes_s > s.start_s:
                still = (s.resumes_s - s.start_s) * 1e6
                events.append({**at, "name": f"{name}: restart", "cat": "restart", "ts": s.start_s * 1e6, "dur": still})
            if s.end_s > s.resumes_s:
                works = (s.end_s - s.resumes_s) * 1e6
                events.append({**at, "name": name, "cat": "work", "ts": s.resumes_s * 1e6, "dur": works})
    return {"displayTimeUnit": "ms", "traceEvents": events}


def draw_gantt(result: SharingResult, ax: Axes) -> Axes:
    """A row per GPU, a colour per app, pale while a job restarts; lines between machines.

    Raises
    ------
    InputError
        If the compiled engine made the result.
    """
    cluster = result.world.cluster
    labelled: set[int] = set()
    for s in _spells(result):
        colour = CYCLE[s.app % len(CYCLE)]
        for g in s.gpus:
            ax.broken_barh(
                [(s.start_s / 3600, (s.resumes_s - s.start_s) / 3600)], (g, 0.9), facecolors=colour, alpha=0.35
            )
            ax.broken_barh(
                [(s.resumes_s / 3600, (s.end_s - s.resumes_s) / 3600)], (g, 0.9), facecolors=colour,
                label="_" if s.app in labelled else result.world.apps[s.app].name,
            )  # fmt: skip
            labelled.add(s.app)
    for g in range(1, cluster.n_gpus):
        if cluster.machine_of[g] != cluster.machine_of[g - 1]:
            ax.axhline(g - 0.05, color="#888888", lw=0.4)
    ax.set(xlabel="time (h)", ylabel="GPU", ylim=(0, cluster.n_gpus), title=result.policy)
    ax.grid(False)
    return ax


def _spells(result: SharingResult) -> tuple[Spell, ...]:
    if not result.spells and len(result.grants):
        raise InputError(
            "timeline: the compiled engine does not note down which GPUs each job had; simulate with engine='simpy'"
        )
    return result.spells
