"""Table 3.1 without machines: ways that the searches try as they are printed, and stages that they price."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report import Frame, Progress, quiet
from ..sensitivity import Sensitivity, Swing
from .printed import Apart, graphpipe_loops, pipedream_loops
from .setting import Setting, cluster_of
from .systems import MODELS, OPTIONS, PIPER_STATES, graph_of

if TYPE_CHECKING:
    from ...planners.graphpipe.task import Task

__all__ = ["counted", "counts_in_words", "moved"]

APART: tuple[tuple[Apart, str], ...] = (("one", "one branch at a time"), ("groups", "branches in groups"))


def task_of(model: str, gpus: int, branches: int = 0) -> Task:
    """Prices and tree of a model with so many branches, by default as many as §3.7.2 says."""
    from ...planners.graphpipe.options import GraphPipeOptions
    from ...planners.graphpipe.task import Task

    found = MODELS[model]
    options = GraphPipeOptions.of({**OPTIONS, "footprint": Setting().footprint})
    graph, cluster = graph_of(model, branches or found.branches_searched), cluster_of(gpus)
    return Task.of(graph, cluster, found.batches[gpus], options, Setting().costs(cluster.spec))


def counted(gpus: Sequence[int], progress: Progress = quiet, models: Sequence[str] = tuple(MODELS)) -> Frame:
    """Rows of model, GPUs and how branches are parted: ways tried, seconds in plain Python, and stages priced.

    Every search has one microbatch size, the middle one of those that divide the mini-batch.
    """
    import pandas as pd

    from ...planners.graphpipe.candidates import candidates_of

    jobs = [(model, n) for model in models for n in gpus]
    rows: list[dict[str, Any]] = []
    for k, (model, n) in enumerate(jobs):
        progress(k, len(jobs), f"{model} on {n} GPUs: the printed loops")
        task = task_of(model, n)
        size = task.costs.microbatches[len(task.costs.microbatches) // 2]
        began = time.process_time()
        chain = pipedream_loops(task.costs, size, task.memory_bytes, n)
        chain_s = time.process_time() - began
        runs = task.costs.n_units * (task.costs.n_units + 1) // 2
        priced = len(candidates_of(task.tree, task.costs, task.memory_bytes).units)
        piper = piper_stages(task) if model == "mmt" else math.nan  # of the others it has millions
        for apart, _ in APART:
            began = time.process_time()
            mine = graphpipe_loops(task.tree, task.costs, size, task.memory_bytes, n, apart)
            rows.append({
                "model": model, "gpus": n, "microbatch": size, "apart": apart, "pipedream_tried": chain.tried,
                "graphpipe_tried": mine.tried, "tried_ratio": chain.tried / mine.tried,
                "seconds_ratio": chain_s / max(time.process_time() - began, 1e-9), "pipedream_tps": chain.tps,
                "graphpipe_tps": mine.tps, "pipedream_stages": runs, "our_tree_stages": priced,
                "stages_ratio": runs / priced, "piper_stages": piper,
            })  # fmt: skip
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def piper_stages(task: Task) -> int:
    """Differences of two downsets: the stages that Piper may choose from."""
    from ...planners.piper.downsets import downsets

    n = task.costs.n_units
    states = downsets(n, task.edges, PIPER_STATES, "piper")
    nothing = np.zeros((n, 1))
    return len(states.pairs(nothing, nothing[:, 0], [1], math.inf, 1)[0])


def counts_in_words(frame: Frame) -> str:
    """Ways tried by PipeDream over Algorithm 2's, for each model and number of GPUs."""
    said: list[str] = []
    for apart, name in APART:
        part = frame[frame.apart == apart]
        each = "; ".join(
            f"{MODELS[str(m)].title}: " + ", ".join(f"{r.gpus}: {r.tried_ratio:.3g}" for r in rows.itertuples())
            for m, rows in part.groupby("model", sort=False)
        )
        said.append(f"{name}: {each}")
    return "ways that the printed loops try on the same prices, PipeDream's over Algorithm 2's. " + ". ".join(said)


def moved(frame: Frame, ours: float, paper: float) -> Sensitivity:
    """The largest ratio of PipeDream to GraphPipe by what is compared, instead of seconds of our programs."""
    tried = {apart: float(frame[frame.apart == apart].tried_ratio.max()) for apart, _ in APART}
    seconds = {apart: float(frame[frame.apart == apart].seconds_ratio.max()) for apart, _ in APART}
    names = dict(APART)

    def swing(what: str, values: dict[str, float]) -> Swing:
        return Swing(what, names["groups"], names["one"], values["groups"], values["one"])

    stages = float(frame.stages_ratio.max())
    return Sensitivity(
        "PipeDream's search over GraphPipe's, the largest", paper, ours, "PipeDream over GraphPipe",
        (
            swing("ways tried, as printed", tried), swing("seconds, as printed, in plain Python", seconds),
            Swing("our programs, by", "seconds", "stages that they price", ours, stages),
        ),
        f"{paper:g}× is near what the printed loops try where Algorithm 2 parts one branch from the others at a time "
        f"({tried['one']:.3g}× at most); where it may part them in groups, which finds better stages, they try "
        f"{tried['groups']:.3g}× at most; both fall with more GPUs, as in the paper",
    )  # fmt: skip
