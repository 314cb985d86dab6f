"""`LLMPlanResult`: what came of a plan's requests, model by model and deployment by deployment, and together."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....reprs import Shown
from ...metrics import goodput, percentile
from ...plots import draw_cdf, panels
from ...summary import Figure, Summary
from ..result.columns import LLMResult
from ..result.objectives import Judgement
from .entries import Deployment
from .file import LLMPlan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

__all__ = ["LLMPlanResult"]


@dataclass(frozen=True, eq=False, repr=False)
class LLMPlanResult(Shown):
    """Outcome of the requests of all models of a plan.

    Parameters
    ----------
    plan : LLMPlan
        What was simulated.
    results : mapping of str to LLMResult
        Model -> its requests.
    """

    plan: LLMPlan
    results: Mapping[str, LLMResult]

    def __len__(self) -> int:
        return sum(len(r) for r in self.results.values())

    def limits(self, model: str) -> tuple[float, float]:
        """Limits of TTFT and of TPOT of every request of a model, seconds; infinite where the plan says none."""
        said = self.plan.model(model).promises
        return said.ttft_s, said.tpot_s

    @property
    def has_limits(self) -> bool:
        """Whether the plan states a latency limit for any of its models."""
        return any(m.promises.some for m in self.plan.models)

    @cached_property
    def judgements(self) -> dict[str, Judgement]:
        """Model -> how its requests fared by what the plan promises."""
        return {name: self.plan.model(name).promises.judge(result) for name, result in self.results.items()}

    def good(self, model: str) -> float:
        """Requests of a model that attained what was promised: a count, but for missed percentiles (`Judgement`)."""
        judged = self.judgements[model]
        share = judged.attainment * len(self.results[model])
        return share if judged.verdicts else round(share)

    @property
    def attainment(self) -> float:
        """Share of all requests that attained what their model promises; without any limit, that finished."""
        return sum(self.good(m) for m in self.results) / len(self)

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last finish, all models together; NaN if nothing finished."""
        spans = np.array([r.span for r in self.results.values()])
        if np.isnan(spans).all():
            return float("nan")
        return float(np.nanmax(spans[:, 1]) - np.nanmin(spans[:, 0]))

    @property
    def goodput(self) -> float:
        """Requests within both limits, per second of the time over which requests arrived, all models together."""
        begins, ends = zip(*(r.arrival_span for r in self.results.values()), strict=True)
        last = max((r.span[1] for r in self.results.values() if r.finished.any()), default=float("nan"))
        return goodput(sum(self.good(m) for m in self.results), min(begins), max(ends), last)

    @property
    def made_by(self) -> str:
        """Names of the simulation engines that computed it."""
        return ", ".join(sorted({r.made_by for r in self.results.values()}))

    def percentiles(self, metric: str, at: Sequence[float]) -> tuple[float, ...]:
        """Percentiles of a latency over the finished requests of all models, seconds; see `LLMResult.values`."""
        values = np.concatenate([r.values(metric) for r in self.results.values()])
        return tuple(percentile(values, p) for p in at)

    def figures(self) -> dict[str, dict[str, float]]:
        """Of each model: requests, attainment of both limits and of each, goodput, latencies (seconds)."""
        rows: dict[str, dict[str, float]] = {}
        for name, result in self.results.items():
            ttft, tpot = self.limits(name)
            good = self.judgements[name].attainment * (len(result) if result.counted is None else result.counted.sum())
            rows[name] = {
                "requests": len(result),
                "attainment": self.judgements[name].attainment,
                "ttft_attainment": result.attainment(ttft=ttft),
                "tpot_attainment": result.attainment(tpot=tpot),
                "goodput_per_s": goodput(good, *result.arrival_span, result.span[1]),
                "ttft_p50_s": result.ttft(50),
                "ttft_p90_s": result.ttft(90),
                "tpot_p50_s": result.tpot(50),
                "tpot_p90_s": result.tpot(90),
                "preemptions": int(result.preemptions.sum()),
            }
        return rows

    def per_model(self) -> pd.DataFrame:
        """`figures` as a table, one row per model."""
        import pandas as pd

        rows = self.figures()
        return pd.DataFrame(list(rows.values()), index=pd.Index(list(rows), name="model"))

    def predictions(self) -> dict[str, Any]:
        """The predictions that a plan file carries: those figures of `summary` and `figures` that are finite."""
        return {
            "predicted": _finite(self.summary()),
            "predicted_per_model": {name: _finite(row) for name, row in self.figures().items()},
        }

    def deployment_figures(self) -> dict[str, dict[str, float | str]]:
        """Of each deployment: its requests, how busy its engines were, the largest share of KV memory held."""
        rows: dict[str, dict[str, float | str]] = {}
        for deployment, numbers in self._engines():
            result = self.results[deployment.model]
            mine = np.isin(result.iterations.engine, numbers)
            busy = float((result.iterations.end[mine] - result.iterations.start[mine]).sum())
            low, high = result.span
            used = result.iterations.used_tokens[mine]
            one_kind = len(self.plan.deployments_of(deployment.model)) == 1
            room = result.iterations.capacity_tokens if one_kind else deployment.slots // deployment.schedulers
            rows[deployment.name] = {
                "model": deployment.model,
                "engines": deployment.replicas,
                "devices": deployment.replicas * deployment.devices_per_engine,
                "requests": int(np.isin(result.engine, numbers).sum()),
                "busy": busy / ((high - low) * deployment.replicas * deployment.schedulers) if high > low else np.nan,
                "kv_peak": float(used.max() / room) if len(used) and room else 0.0,
            }
        return rows

    def per_deployment(self) -> pd.DataFrame:
        """`deployment_figures` as a table, one row per deployment."""
        import pandas as pd

        rows = self.deployment_figures()
        return pd.DataFrame(list(rows.values()), index=pd.Index(list(rows), name="deployment"))

    def _engines(self) -> list[tuple[Deployment, npt.NDArray[np.int64]]]:
        """Of each deployment the numbers of its engines (batches in flight) in the result of its model.

        Engines that are started by load have further numbers; their role says whose they are.
        """
        found: list[tuple[Deployment, npt.NDArray[np.int64]]] = []
        for model, result in self.results.items():
            at = 0
            mine = self.plan.deployments_of(model)
            for deployment in sorted(mine, key=lambda d: d.role == "decode"):  # stable; pools number prefill first
                count = deployment.replicas * deployment.schedulers
                numbers = np.arange(at, at + count)
                if result.fleet is not None and deployment.share is None:
                    numbers = np.flatnonzero(np.array(result.fleet.roles) == deployment.role)
                found.append((deployment, numbers))
                at += count
        return found

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        said = (
            "that attained what their model promises" if self.has_limits else "that finished: the plan sets no limits"
        )
        devices = len(self.plan.used_devices)
        return Summary(
            repr(self),
            [
                Figure("requests", float(len(self)), "", "that were asked"),
                Figure("attainment", self.attainment, "", f"share of requests {said}"),
                Figure("goodput", self.goodput, "1/s", "those, per second of arrivals"),
                Figure("goodput_per_device", self.goodput / devices, "1/s", "over the devices that are used"),
                Figure("devices", float(devices), "", "that are used"),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per request of every model; the columns of `LLMResult.to_frame`, and ``served_model``."""
        import pandas as pd

        frames: list[Any] = [r.to_frame().assign(served_model=name) for name, r in self.results.items()]  # pyright: ignore[reportUnknownMemberType]
        return pd.concat(frames, ignore_index=True)

    def plot(self) -> Drawing:
        """Time to first token and per further token of each model, as a matplotlib figure."""
        with panels(2.6, columns=2, title=repr(self)) as (figure, axes):
            for ax, metric in zip(axes, ("ttft", "tpot"), strict=True):
                draw_cdf(ax, {name: r.values(metric) for name, r in self.results.items()}, f"{metric.upper()} (s)")
        return figure

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def _headline(self) -> str:
        return (
            f"{len(self)} requests, {self.attainment:.2%} within their limits, goodput "
            f"{self.goodput:.4g}/s on {len(self.plan.used_devices)} devices"
        )


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in figures.items() if np.isfinite(value)}
