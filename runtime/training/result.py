"""`TrainingRun`: what a real run of a plan took, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...reprs import Shown
from ...simulator.plots import panels
from ...simulator.summary import Figure, Summary
from .difference import Difference
from .executor import Span
from .own.names import StateNames

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing
    from torch import Tensor

__all__ = ["TrainingRun"]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(Shown):
    """Times, losses and, where asked for, arrays of a real run of a plan.

    Parameters
    ----------
    seconds : tuple of float
        For each iteration, the time from the common start until the last rank ends.
    losses : tuple of float
        Mean loss of each iteration's microbatches.
    spans : tuple of tuple of tuple of Span
        Times of every action: for each iteration, for each rank.
    mesh_of_rank : tuple of int
        Mesh of each rank.
    collectives : mapping
        Stage -> '<pass>.<collective>' -> number of calls on the stage's first rank, over all iterations.
    microbatches : tuple of int
        Microbatches of an iteration, for each stage.
    gradients, weights : mapping
        Parameter -> whole array, of the last iteration; empty if they were not asked for.
    difference : Difference, optional
        How far the run is from the single-device run, if that was asked for.
    heard : mapping
        Rank -> operator of torch.distributed -> number of calls that torch's CommDebugMode counted, if asked for.
    began : tuple of tuple of float
        For each iteration, for each rank, when its spans' clock began, on one clock for all.
    cores : tuple of tuple of int
        For each rank the cores that it could run on; empty where the system does not say.
    names, kept
        The user's state dict, entry by entry, and what of it the loss does not depend on.
    """

    seconds: tuple[float, ...]
    losses: tuple[float, ...]
    spans: tuple[tuple[tuple[Span, ...], ...], ...]
    mesh_of_rank: tuple[int, ...]
    collectives: Mapping[int, Mapping[str, int]]
    microbatches: tuple[int, ...]
    gradients: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    difference: Difference | None = None
    heard: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    began: tuple[tuple[float, ...], ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()
    names: StateNames | None = None
    kept: Mapping[str, Tensor] = field(default_factory=dict[str, "Tensor"])

    def state_dict(self) -> dict[str, Tensor]:
        """The weights after the last step by the user's own names, tied ones and buffers too.

        ``module.load_state_dict(run.state_dict())`` takes them. Floating-point ones are of the run's dtype; entries
        that the loss does not depend on are as they were given.

        Raises
        ------
        InputError
            If weights were not kept: say ``RunOptions(keep=True)``.
        """
        if not self.weights:
            raise InputError("run: the weights were not kept; say RunOptions(keep=True), or give data or weights")
        if self.names is None:
            import torch

            return {name: torch.as_tensor(x) for name, x in self.weights.items()}
        return self.names.state(self.weights, self.kept)

    @property
    def median_s(self) -> float:
        """Median seconds of an iteration. The first includes warm-up and is left out, unless it is the only one."""
        return float(np.median(self.seconds[1:] or self.seconds))

    def only(self, iterations: Sequence[int]) -> TrainingRun:
        """The run as if these had been its iterations; the first of a run is taken for its warm-up."""
        kept = {
            name: tuple(getattr(self, name)[i] for i in iterations)
            for name in ("seconds", "losses", "spans", "began")
            if getattr(self, name)
        }
        return replace(self, **kept)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        return Summary(
            repr(self),
            [
                Figure("seconds", self.median_s, "s", "of one iteration, median"),
                Figure("iterations", float(len(self.seconds)), "", "that were run"),
                Figure("ranks", float(len(self.mesh_of_rank)), "", "processes"),
                Figure("first_loss", self.losses[0] if self.losses else float("nan"), "", "of the first iteration"),
                Figure("last_loss", self.losses[-1] if self.losses else float("nan"), "", "of the last iteration"),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per action of every iteration and rank: what it was, when it began and ended (seconds)."""
        import pandas as pd

        rows = [
            {
                "iteration": k, "rank": rank, "mesh": self.mesh_of_rank[rank], "op": span.op, "stage": span.stage,
                "microbatch": span.microbatch, "slice": span.slice, "start_s": span.start, "finish_s": span.end,
                "cpu_s": span.cpu,
            }
            for k, ranks in enumerate(self.spans) for rank, spans in enumerate(ranks) for span in spans
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def plot(self) -> Drawing:
        """Seconds and loss of each iteration, as a matplotlib figure."""
        with panels(2.6, columns=2, title=repr(self)) as (figure, (left, right)):
            left.plot(range(len(self.seconds)), self.seconds, "o-")
            left.set(xlabel="iteration", ylabel="seconds", ylim=(0, None))
            right.plot(range(len(self.losses)), self.losses, "o-")
            right.set(xlabel="iteration", ylabel="loss")
        return figure

    def _headline(self) -> str:
        loss = f", loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}" if self.losses else ""
        ranks = f"{len(self.mesh_of_rank)} ranks"
        return f"{len(self.seconds)} iterations on {ranks}: {self.median_s:.4g} s per iteration{loss}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def collectives_of(self, stage: int) -> dict[str, float]:
        """A stage's collectives as plans count them: per microbatch, or per iteration for reduce and update."""
        n = len(self.seconds)
        once = ("reduce.", "update.")
        return {
            name: count / n / (1 if name.startswith(once) else self.microbatches[stage])
            for name, count in sorted(self.collectives[stage].items())
        }
