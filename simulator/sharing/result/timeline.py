"""Who had which GPU when: as a table, as a Gantt chart, and as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ...palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from .columns import SharingResult, Spell

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["app_colour", "chrome_trace", "draw_gantt", "gpu_timeline"]

COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY)
LIGHTER = (0.0, 0.3, 0.55, 0.75)
"""Apps beyond the colours take them again, mixed with so much white."""
DARKER = 0.55
"""How much black is mixed in while a job restarts."""

Box = list[tuple[float, float]]


def gpu_timeline(result: SharingResult) -> pd.DataFrame:
    """A table with a row for each GPU and each span of time in which a job had it together with the same other GPUs.

    Returns
    -------
    DataFrame
        policy, gpu, machine, rack, app, phase, job; start_s, resumes_s and end_s: the job had the GPU from `start_s` to
        `end_s`, and stood still (container, checkpoint) until `resumes_s`. By GPU, then by time.

    Raises
    ------
    InputError
        If the compiled engine made the result: it does not note down what jobs have.
    """
    import pandas as pd

    cluster, apps = result.world.cluster, result.world.apps
    rows = [
        {
            "policy": result.policy, "gpu": g, "machine": int(cluster.machine_of[g]), "rack": int(cluster.rack_of[g]),
            "app": apps[s.app].name, "phase": s.phase, "job": s.job, "start_s": s.start_s, "resumes_s": s.resumes_s,
            "end_s": s.end_s,
        }
        for s in _spells(result) for g in s.gpus
    ]  # fmt: skip
    columns = ["policy", "gpu", "machine", "rack", "app", "phase", "job", "start_s", "resumes_s", "end_s"]
    return pd.DataFrame(rows, columns=columns).sort_values(["gpu", "start_s"], ignore_index=True)


def chrome_trace(result: SharingResult) -> dict[str, Any]:
    """Chrome trace events of a result: a process for each machine, a thread for each GPU, with jobs and their restarts.

    Raises
    ------
    InputError
        If the compiled engine made the result: it does not record which GPUs jobs had.
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


def app_colour(number: int) -> tuple[float, float, float]:
    """The colour of an app in the chart: 28 that differ, then the same again."""
    from matplotlib.colors import to_rgb

    white = LIGHTER[number // len(COLOURS) % len(LIGHTER)]
    r, g, b = (c + (1.0 - c) * white for c in to_rgb(COLOURS[number % len(COLOURS)]))
    return r, g, b


def draw_gantt(result: SharingResult, ax: Axes) -> Axes:
    """A row per GPU, a colour per app, dark while a job restarts; lines between machines; grey where one is gone.

    Raises
    ------
    InputError
        If the compiled engine made the result.
    """
    from matplotlib.collections import PolyCollection

    cluster, hour = result.world.cluster, 3600.0
    bars: dict[int, tuple[list[Box], list[Box]]] = {}
    for s in _spells(result):
        still, works = bars.setdefault(s.app, ([], []))
        still += [_box(s.start_s / hour, s.resumes_s / hour, g) for g in s.gpus if s.resumes_s > s.start_s]
        works += [_box(s.resumes_s / hour, s.end_s / hour, g) for g in s.gpus if s.end_s > s.resumes_s]
    for app, (still, works) in sorted(bars.items()):
        colour, name = app_colour(app), result.world.apps[app].name
        dark = tuple(c * (1.0 - DARKER) for c in colour)
        ax.add_collection(PolyCollection(works, facecolors=[colour], linewidths=0, label=name))
        ax.add_collection(PolyCollection(still, facecolors=[dark], linewidths=0, label="_"))
    for m, times in enumerate(_gone(result)):
        gpus = [g for g in range(cluster.n_gpus) if cluster.machine_of[g] == m]
        for a, b in times:
            ax.fill_between([a / hour, b / hour], gpus[0], gpus[-1] + 0.9, color="#BBBBBB", alpha=0.6, lw=0)
        if gpus[0]:
            ax.axhline(gpus[0] - 0.05, color="#888888", lw=0.4)
    last = max([result.makespan_s / hour, 1e-9])
    ax.set(xlabel="time (h)", ylabel="GPU", xlim=(0, last), ylim=(0, cluster.n_gpus), title=result.policy)
    ax.grid(False)
    return ax


def _box(left: float, right: float, gpu: int) -> Box:
    return [(left, gpu), (right, gpu), (right, gpu + 0.9), (left, gpu + 0.9)]


def _gone(result: SharingResult) -> list[list[tuple[float, float]]]:
    """When each machine is gone, seconds."""
    gone: list[list[tuple[float, float]]] = [[] for _ in result.world.cluster.machines]
    for f in result.world.machine_failures:
        gone[f.machine].append((f.at_s, min(f.at_s + f.repair_s, result.makespan_s)))
    return [[(a, b) for a, b in times if b > a] for times in gone]


def _spells(result: SharingResult) -> tuple[Spell, ...]:
    if not result.spells and len(result.grants):
        raise InputError(
            "timeline: the compiled engine does not note down which GPUs each job had; simulate with engine='simpy'"
        )
    return result.spells
