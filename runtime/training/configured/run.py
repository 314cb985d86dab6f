"""`run_configured`: a configuration trains on processes of this machine, and is held against one process."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....reprs import Shown
from ....simulator.training.plan.file import TrainingPlan
from ..decoder.config import Adam, Config, Way
from ..session import TrainingSession
from .plan import config_of

__all__ = ["ConfiguredRun", "run_configured"]


@dataclass(frozen=True, eq=False, repr=False)
class ConfiguredRun(Shown):
    """What was seen.

    Parameters
    ----------
    config : Config
        The decoder, and the way that it was trained.
    losses, norms : tuple of float
        For each iteration, mean loss of its tokens, and the norm of all gradients together, before its step.
    seconds : tuple of float
        Of the slowest rank, for each iteration.
    apart : float, optional
        The largest relative difference of the loss, the norm, the gradients and the weights after the first step from
        those of one process, both in float64; None if it was not asked for. Gradients and weights relative to the
        largest of their tensor, or where these are but rounding, to a millionth of the largest gradient of all, and to
        a step of the optimizer.
    worst : str
        Which it is.
    """

    config: Config
    losses: tuple[float, ...]
    norms: tuple[float, ...]
    seconds: tuple[float, ...]
    apart: float | None = None
    worst: str = ""

    @property
    def median_s(self) -> float:
        """Median seconds of an iteration; the first is warm-up where there are others."""
        return float(np.median(self.seconds[1:] or self.seconds))

    def _headline(self) -> str:
        return f"{self.config.way.processes} processes, loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}"


def run_configured(
    plan: TrainingPlan | Config, *, steps: int = 3, seed: int = 0, dtype: str = "float32", compare: bool = True,
    timeout_s: float = 180.0, clip: float = 0.0,
) -> ConfiguredRun:  # fmt: skip
    """Train by a plan of the configuration search, a process for each of its devices, gloo between them.

    Parameters
    ----------
    plan : TrainingPlan or Config
        What to train, and how. Parameters and tokens are drawn from the seed, the same for every way.
    steps, seed, dtype
        Of the run; "float32", "float64" or "bfloat16".
    compare : bool
        Whether the same is trained by one process, for the difference.
    timeout_s : float
        How long a process waits for another at most, seconds.
    clip : float
        Largest norm of all gradients together; 0: any.

    Raises
    ------
    InputError
        On a plan that the decoder cannot train by.
    RunError
        If a process fails.
    """
    config = plan if isinstance(plan, Config) else config_of(plan)
    way = config.way
    job: dict[str, Any] = {
        "kind": "decoder", "shape": asdict(config.shape), "way": asdict(way), "seed": seed, "dtype": dtype,
        "steps": steps, "adam": {"clip": clip}, "keep": False,
    }  # fmt: skip
    exact = {**job, "dtype": "float64", "steps": 1, "keep": True}
    with TrainingSession(way.processes, timeout_s=timeout_s) as session:
        answers = session.run(job)
        shared = _kept(session.run(exact)) if compare else {}
    seconds = tuple(max(each) for each in zip(*(a["seconds"] for a in answers), strict=True))
    run = ConfiguredRun(config, tuple(answers[0]["losses"]), tuple(answers[0]["norms"]), seconds)
    if not compare:
        return run
    with TrainingSession(1, timeout_s=timeout_s) as session:
        alone = _kept(session.run({**exact, "way": asdict(Way(global_batch=way.global_batch))}))
    apart = _apart(shared, alone)
    worst = max(apart, key=lambda name: apart[name])
    return replace(run, apart=apart[worst], worst=worst)


def _kept(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Loss, norm, and every gradient and weight, by name; read before the session's folder goes."""
    import torch

    first = answers[0]
    found: dict[str, Any] = {"loss": torch.tensor(first["losses"]), "norm": torch.tensor(first["norms"])}
    for what in ("gradients", "weights"):
        values = torch.load(Path(first["arrays"]) / f"{what}.pt", weights_only=True)
        found |= {f"{what} of {name}": x for name, x in values.items()}
    return found


def _apart(found: dict[str, Any], whole: dict[str, Any]) -> dict[str, float]:
    """Largest difference of each tensor, as a part of its largest element."""
    if set(found) != set(whole):
        return {f"{name}, which only one of them has": float("inf") for name in set(found) ^ set(whole)}
    slope = 1e-6 * max(float(x.abs().max()) for name, x in whole.items() if name.startswith("gradients"))
    return {
        name: float((x - whole[name]).abs().max())
        / max(float(whole[name].abs().max()), Adam().lr if name.startswith("weights") else slope)
        for name, x in found.items()
    }
