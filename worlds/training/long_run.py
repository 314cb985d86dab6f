"""A whole run on machines that fail: what a case says of failures and checkpoints, simulated by its iteration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import InputError
from ...profiles.graph.memory import parameter_bytes
from ...simulator.training.goodput import (
    Checkpoints,
    GoodputResult,
    Machines,
    best_interval_s,
    node_mtbf_s,
    simulate_goodput,
)
from .case import TrainingCase

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...simulator.cluster import Cluster
    from ...simulator.training import TransformerShape
    from .solve import TrainingSolved

__all__ = ["LongRun", "check_failing", "graph_bytes", "long_run", "machines_of", "shape_bytes", "simulated_run"]

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class LongRun:
    """A run with failures.

    Parameters
    ----------
    result : GoodputResult
        The draws.
    iteration_s : float
        Of one iteration.
    tokens : int
        Of a sample; 0: samples are none.
    best : bool
        Whether the interval is the best one.
    """

    result: GoodputResult
    iteration_s: float
    tokens: int
    best: bool

    def metrics(self, values: Mapping[str, float]) -> dict[str, float]:
        """By their names; `values` are those of an iteration."""
        result, share = self.result, float(self.result.goodput.mean())
        parts = result.shares
        found = {
            "effective_share": share,
            "effective_share_expected": result.expected_goodput(),
            "effective_samples_per_s": values["samples_per_s"] * share,
            "checkpoint_interval_s": result.checkpoints.interval_s,
            "checkpoint_stall_s": result.checkpoints.stall_s,
            "failures_per_day": DAY_S * float(result.failures.sum() / result.wall_s.sum()),
            "lost_share": parts["lost"],
            "restart_share": parts["restart"],
            "waiting_share": parts["waiting"],
        }
        if "tokens_per_s" in values:
            found["effective_tokens_per_s"] = values["tokens_per_s"] * share
        return found

    def notes(self) -> list[str]:
        """What a reader should know of it."""
        given_up = int((~self.result.finished).sum())
        return (
            [f"{given_up} of {len(self.result.records)} runs hardly come forward and were given up"] if given_up else []
        )

    def lines(self, samples_per_s: float) -> list[str]:
        """For people."""
        result, machines = self.result, self.result.machines
        mean, (low, high), saves = result.interval(), result.run_interval(), result.checkpoints
        work = samples_per_s * mean.mean
        text = [
            f"over {result.work_s / DAY_S:.4g} days of training: {machines.nodes} nodes"
            + (f" and {machines.spares} that stand by" if machines.spares else "")
            + f", a failure every {_time(machines.system_mtbf_s)}",
            f"  a checkpoint every {_time(saves.interval_s)}{' (best)' if self.best else ''}, which stops training for "
            f"{_time(saves.stall_s)}; a restart takes {_time(saves.restart_s)}",
            f"  goodput {mean.mean:.2%} ± {mean.half_width:.2%} of {len(result.records)} runs"
            + ("" if math.isnan(result.expected_goodput()) else f"; in closed form {result.expected_goodput():.2%}"),
            f"  {work:.6g} samples/s"
            + (f", {work * self.tokens:.6g} tokens/s" if self.tokens else "")
            + f"; a run takes {float(result.wall_s.mean()) / DAY_S:.4g} days, 95 % of runs {low / DAY_S:.4g} to "
            f"{high / DAY_S:.4g}",
            "  of the time: " + ", ".join(f"{part} {share:.2%}" for part, share in result.shares.items() if share > 0),
        ]
        return text + [f"  {note}" for note in self.notes()]


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "never"
    for unit, long in (("d", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * long:
            return f"{seconds / long:.3g} {unit}"
    return f"{seconds:.3g} s"


def graph_bytes(graph: Graph, optimizer: str = "adam") -> float:
    """Bytes of a checkpoint of a graph: weights and optimizer states, once; gradients are not saved."""
    total = 0.0
    for tensor in graph.parameters:
        if tensor.trainable:
            weight, _, state = parameter_bytes(tensor.dtype, optimizer, tensor.shape)
            total += tensor.elements * (weight + state)
        else:
            total += tensor.bytes
    return total


def shape_bytes(shape: TransformerShape, dtype: str = "bfloat16") -> float:
    """The same of a decoder, with Adam."""
    weight, _, state = parameter_bytes(dtype, "adam")
    return shape.params * (weight + state)


def machines_of(case: TrainingCase, cluster: Cluster) -> Machines:
    """The nodes that a run on a cluster uses, and how they fail.

    Raises
    ------
    InputError
        If replicas do not divide the nodes.
    """
    said = case.failures
    try:
        return Machines(
            nodes=cluster.nodes, spares=said.spares, mttr_s=said.mttr, shape=said.weibull, replicas=said.replicas,
            mtbf_s=node_mtbf_s(cluster.devices_per_node, said.mtbf, said.node_mtbf), least_replicas=said.least_replicas,
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"failures.{str(error).removeprefix('machines: ')}") from None


def check_failing(case: TrainingCase, cluster: Cluster, checkpoint_bytes: float) -> None:
    """Refuse failures of which the costs are not known, and checkpoints that are longer than their interval.

    Raises
    ------
    InputError
        With the path of the field.
    """
    if case.failures.some:
        machines_of(case, cluster)
        saves = case.checkpoint
        stall, late, _ = _costs(case, checkpoint_bytes)
        longest = max(stall, late)
        if saves.interval != "best" and longest > saves.interval:
            raise InputError(
                f"checkpoint.bandwidth: a checkpoint of {checkpoint_bytes / 1e9:.4g} GB takes {longest:.4g} s, longer "
                f"than its interval of {saves.interval:g} s; write fewer, or faster"
            )


def _costs(case: TrainingCase, checkpoint_bytes: float) -> tuple[float, float, float]:
    """Seconds of standing still, in the background, and of a restart."""
    said = case.checkpoint
    if said.cost is None and said.bandwidth is None:
        raise InputError(
            "checkpoint.cost: nobody says what a checkpoint costs; give checkpoint.cost (seconds) or "
            "checkpoint.bandwidth"
        )
    writes = 0.0 if said.bandwidth is None else checkpoint_bytes / said.bandwidth
    stall = writes if said.cost is None else said.cost
    return stall, max(0.0, writes - stall), said.restart + writes


def simulated_run(
    case: TrainingCase, cluster: Cluster, iteration_s: float, checkpoint_bytes: float, tokens: int
) -> LongRun | None:
    """The run of a case on a cluster, given one iteration of it; None if nothing fails.

    Raises
    ------
    InputError
        As `check_failing`.
    """
    if not case.failures.some:
        return None
    check_failing(case, cluster, checkpoint_bytes)
    said, work = case.failures, case.workload
    machines = machines_of(case, cluster)
    stall, late, restart = _costs(case, checkpoint_bytes)
    run_s = said.run_time
    if work.run_samples is not None:
        run_s = work.run_samples / work.global_batch * iteration_s
    run_s = max(run_s, iteration_s)
    best = case.checkpoint.interval == "best"
    if best:
        wanted = min(best_interval_s(stall, machines.system_mtbf_s), run_s) if stall > 0 else iteration_s
    else:
        wanted = float(case.checkpoint.interval)
    # Between whole iterations, and never before the last one is written.
    count = max(1, round(wanted / iteration_s), math.ceil(max(stall, late) / iteration_s))
    saves = Checkpoints(count * iteration_s, stall, late, restart)
    result = simulate_goodput(run_s, machines, saves, runs=said.draws, seed=case.seed)
    return LongRun(result, iteration_s, tokens, best)


def long_run(solved: TrainingSolved) -> LongRun | None:
    """The run of a solved case; None if nothing fails."""
    cluster = solved.plan.cluster_spec
    return simulated_run(solved.case, cluster, solved.result.seconds, solved.checkpoint_bytes, solved.tokens)
