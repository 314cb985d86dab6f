"""A recorded run and its simulation side by side: what `compare_vllm_run` finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....profiles.llm import Overheads
from ....reprs import Shown

__all__ = ["RunComparison"]

Column = npt.NDArray[np.float64]
METRICS = ("ttft", "tpot", "e2e")
CLIENTS = (
    "clients: requests come when they were recorded, as long as they were; front end engine: times begin at the "
    "engine's queue on both sides"
)
"""How requests are sent in a replay: nothing of it is assumed, so that TTFT has no range of ways."""


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison(Shown):
    """A recorded run and its simulation.

    Parameters
    ----------
    real, simulated : mapping
        Metric (``ttft, tpot, e2e``) -> seconds, one for each request that has it.
    further : array
        Tokens after the first of each request that has a TPOT.
    makespan : (float, float)
        Real and simulated makespan, seconds.
    over_time : list of dict
        For each tick of the run: real and simulated requests that run and wait, and KV use in percent.
    config : dict
        Engine arguments of the simulated engine.
    overheads : Overheads
        Host times of a step.
    notes : tuple of str
        Assumptions that were made.
    seconds : float
        Seconds that the simulation took.
    """

    real: dict[str, Column]
    simulated: dict[str, Column]
    further: Column
    makespan: tuple[float, float]
    over_time: list[dict[str, float]]
    config: dict[str, Any]
    overheads: Overheads
    notes: tuple[str, ...]
    seconds: float

    def error(self, metric: str, of: str = "mean") -> float:
        """Signed error of the mean or median of a metric, as a fraction of the real one."""
        figure = np.mean if of == "mean" else np.median
        if not len(self.real[metric]):
            return float("nan")
        return float(figure(self.simulated[metric]) / figure(self.real[metric]) - 1)

    def itl(self) -> dict[str, float]:
        """Mean time between two tokens of a request, over all tokens of all requests: seconds, and the error."""
        real, simulated = (float(np.average(s["tpot"], weights=self.further)) if len(self.further) else math.nan
                           for s in (self.real, self.simulated))  # fmt: skip
        return {"real_s": real, "simulated_s": simulated, "error": simulated / real - 1}

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        found: dict[str, Any] = {}
        for metric in METRICS:
            for of, figure in (("mean", np.mean), ("median", np.median)):
                for who, values in (("real", self.real), ("simulated", self.simulated)):
                    there = len(values[metric])
                    found[f"{metric}_{of}_{who}_s"] = float(figure(values[metric])) if there else float("nan")
                found[f"{metric}_{of}_error"] = self.error(metric, of)
        real, simulated = self.makespan
        return {
            **found,
            **{f"itl_mean_{name}": value for name, value in self.itl().items()},
            "makespan_real_s": real,
            "makespan_simulated_s": simulated,
            "makespan_error": simulated / real - 1,
            "requests": len(self.real["e2e"]),
            "over_time": self.over_time,
            "config": self.config,
            "overheads": self.overheads.to_dict(),
            "notes": list(self.notes),
            "clients": CLIENTS,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        said = self.to_dict()
        assumed = [note for note in self.notes if note.startswith("ASSUMED")]
        lines = [*assumed, CLIENTS, f"{'':<16}      real  simulated   error"]
        for metric in METRICS:
            for of in ("mean", "median"):
                real, simulated = said[f"{metric}_{of}_real_s"], said[f"{metric}_{of}_simulated_s"]
                name = metric.upper() if metric != "e2e" else "end to end"
                scale, unit = (1e3, "ms") if metric == "tpot" else (1.0, "s")
                lines.append(
                    f"{name + ', ' + of:<18} {scale * real:>7.2f} {scale * simulated:>10.2f} {unit:<2} "
                    f"{said[f'{metric}_{of}_error']:>+7.1%}"
                )
        itl = self.itl()
        shown = f"{1e3 * itl['real_s']:>7.2f} {1e3 * itl['simulated_s']:>10.2f} ms {itl['error']:>+7.1%}"
        lines.append(f"{'ITL, mean':<18} {shown}")
        real, simulated = self.makespan
        lines += [f"{'makespan':<18} {real:>7.2f} {simulated:>10.2f} s  {simulated / real - 1:>+7.1%}", ""]
        step = max(1, len(self.over_time) // 12)
        if self.over_time:
            lines.append(" time | running real  sim | waiting real  sim | KV use real    sim")
        for row in self.over_time[::step]:
            lines.append(
                f"{row['t']:>4.0f}s | {row['running_real']:>12.0f} {row['running_simulated']:>4.0f} | "
                f"{row['waiting_real']:>12.0f} {row['waiting_simulated']:>4.0f} | "
                f"{row['kv_real_pct']:>10.1f}% {row['kv_simulated_pct']:>5.1f}%"
            )
        config = ", ".join(f"{name} {value}" for name, value in self.config.items())
        lines += ["", f"{said['requests']} requests, simulated in {self.seconds:.1f} s", f"engine: {config}"]
        return "\n".join([*lines, self.overheads.explain(), *(note for note in self.notes if note not in assumed)])
