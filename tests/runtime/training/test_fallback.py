"""Calls that no handler says, from the module to a run on two devices: kept, and cut over the batch or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from meshwright.planners.alpa import AlpaOptions  # noqa: E402
from meshwright.planners.alpa import plan as alpa  # noqa: E402
from meshwright.profiles.graph import Graph, from_torch, load_graph, save_graph  # noqa: E402
from meshwright.runtime.training import TrainingSession, run_training  # noqa: E402
from meshwright.runtime.training.hand_plan import hand_plan  # noqa: E402
from meshwright.simulator.cluster import Cluster  # noqa: E402
from meshwright.simulator.training import simulate_training  # noqa: E402
from meshwright.simulator.training.plan.file import TrainingPlan  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

WITHIN = 1e-10
Function = Callable[[Any, Any], Any]


def definite(x: Any) -> Any:
    return x @ x.mT + 3 * torch.eye(3, dtype=x.dtype)


BY_ROWS: Mapping[str, Mapping[str, Function]] = {
    "few": {
        "cumprod": lambda m, x: x.cumprod(-1),
        "grid_sampler": lambda m, x: F.grid_sample(x[:, None], torch.tanh(x[:, :, None, :2]), align_corners=False),
        "kthvalue": lambda m, x: x.kthvalue(2, -1)[0],
        "gru": lambda m, x: m.gru(x)[0],
        "linalg_inv": lambda m, x: torch.linalg.inv(definite(x)),
    },
    "scans": {
        "cumprod": lambda m, x: x.reshape(-1, 6).cumprod(-1),
        "logcumsumexp": lambda m, x: x.logcumsumexp(-1),
        "cummax": lambda m, x: x.cummax(1)[0],
        "kthvalue": lambda m, x: x.kthvalue(2, -1)[0],
        "median": lambda m, x: x.median(-1)[0],
        "quantile": lambda m, x: x.quantile(0.3, -1),
        "erfinv": lambda m, x: torch.erfinv(0.9 * torch.tanh(x)),
        "atan2": lambda m, x: torch.atan2(x, x + 2),
    },
    "images": {
        "upsample_bilinear2d": lambda m, x: F.interpolate(x[:, None], size=(9, 11), mode="bilinear"),
        "upsample_nearest1d": lambda m, x: F.interpolate(x, size=11),
        "upsample_bicubic2d": lambda m, x: F.interpolate(x[:, None], size=(5, 7), mode="bicubic"),
        "im2col": lambda m, x: F.unfold(x[:, None], (2, 3)),
        "col2im": lambda m, x: F.fold(x.reshape(-1, 18)[:, :12].reshape(-1, 4, 3), (2, 4), (2, 2)),
        "adaptive_avg_pool2d": lambda m, x: F.adaptive_avg_pool2d(x[:, None], (2, 5)),
        "adaptive_max_pool1d": lambda m, x: F.adaptive_max_pool1d(x, 4),
        "pad": lambda m, x: m.round(x),
    },
    "layers": {
        "lstm": lambda m, x: m.lstm(x.transpose(0, 1))[0],
        "gru": lambda m, x: m.gru(x)[0],
        "bilinear": lambda m, x: m.both(x, x + 1),
    },
    "matrices": {
        "linalg_svdvals": lambda m, x: torch.linalg.svdvals(x),
        "linalg_cholesky": lambda m, x: torch.linalg.cholesky(definite(x)),
        "linalg_qr": lambda m, x: torch.linalg.qr(x.mT)[1],
        "matrix_exp": lambda m, x: torch.matrix_exp(0.1 * definite(x)),
        "cdist": lambda m, x: torch.cdist(x, x + 1),
        "cross": lambda m, x: torch.cross(x[..., :3], x[..., 3:], dim=-1),
    },
    "places": {
        "scatter_reduce": lambda m, x: torch.zeros_like(x).scatter_reduce(2, (x > 0).long(), x, "amax"),
        "index_add": lambda m, x: x.index_add(1, torch.tensor([0, 2]), x[:, :2]),
        "index_fill": lambda m, x: (x + 0).index_fill_(1, torch.tensor([0]), 2.0),
        "fmod": lambda m, x: torch.fmod(x, 2.0),
    },
}  # fmt: skip
"""Group -> word of aten -> a function that calls it. No row of what they make depends on another one."""

TOGETHER: Mapping[str, Function] = {
    "cumprod": lambda m, x: x.cumprod(0),
    "slice": lambda m, x: x[:1],
    "flip": lambda m, x: x.flip(0) * x,
    "index_put": lambda m, x: x.index_put((torch.tensor([0, 1]), torch.tensor([0, 1])), torch.tensor(1.0)),
}  # fmt: skip
"""The same of functions whose rows are made of each other, or of which one is another than the rest."""


class Calls(nn.Module):
    """The sum of what functions make of a projection."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = tuple(functions.values())
        self.line, self.gru, self.lstm = nn.Linear(6, 6), nn.GRU(6, 5, batch_first=True), nn.LSTM(6, 5)
        self.both = nn.Bilinear(6, 6, 4)
        self.round = nn.Conv1d(3, 4, 3, padding_mode="circular", padding=1)

    def forward(self, x: Any) -> Any:
        return sum(function(self, self.line(x)).square().mean() for function in self.functions)


def traced(functions: Mapping[str, Function]) -> Graph:
    torch.manual_seed(0)
    return from_torch(Calls(functions), (torch.zeros(4, 3, 6),), name="calls")


def calls(graph: Graph) -> dict[str, bool]:
    """Word of aten -> whether the call may be cut over its rows, of the fallback operators."""
    found: dict[str, bool] = {}
    for op in graph.operators:
        if op.kind == "call":
            rows = str(op.attributes.get("rows", ""))
            # A table of constants has no rows.
            if rows or op.inputs:
                found[str(op.attributes["target"]).split(".")[1]] = rows in op.cuttable
            assert set(op.cuttable) <= {rows}, op
    return found


@pytest.fixture(scope="module")
def session():
    with TrainingSession(2, timeout_s=120.0) as started:
        yield started


def trained(session: TrainingSession, graph: Graph, *plans: TrainingPlan) -> None:
    for plan in plans:
        run = run_training(plan, graph, iterations=2, dtype="float64", compare=True, session=session)
        assert run.difference.largest < WITHIN, (plan.planner.name, run.difference)


def hand_plans(graph: Graph) -> tuple[TrainingPlan, TrainingPlan]:
    """Both devices cut the batch; or are stages, one after another."""
    data = hand_plan(graph, meshes=[(2, 1)], global_batch=8, microbatches=2)
    return data, hand_plan(graph, meshes=[(1, 1)] * 2, global_batch=8, microbatches=2)


@pytest.mark.parametrize("group", [pytest.param(x, marks=[pytest.mark.slow] * (x != "few")) for x in BY_ROWS])
def test_rows_that_are_independent_are_cut(session, group):
    graph = traced(BY_ROWS[group])
    found = calls(graph)
    assert set(BY_ROWS[group]) <= set(found)
    assert all(found.values()), found
    plans = hand_plans(graph)
    said = {name: entry.fallback for name, entry in plans[0].stages[0].operators.items() if entry.fallback}
    assert {op.name: "batch" for op in graph.operators if op.kind == "call" and "rows" in op.attributes} == {
        name: how for name, how in said.items() if how == "batch"
    }
    trained(session, graph, *plans)


def test_rows_that_depend_on_each_other_are_kept_whole(session, tmp_path):
    """By the rules, by Alpa, and after a way through a file."""
    graph = traced(TOGETHER)
    assert calls(graph) == dict.fromkeys(TOGETHER, False)
    assert load_graph(save_graph(graph, tmp_path / "g.json")) == graph
    options = AlpaOptions(stages="one")
    cluster = Cluster(nodes=1, devices_per_node=2, device="v100-16gb")
    planned = alpa(graph, cluster, global_batch=8, microbatches=2, options=options)
    assert TrainingPlan.load(planned.save(tmp_path / "plan.json")) == planned
    said = planned.explain(graph, operators="none")
    assert "fallback: 4 operators kept as torch's own calls, whose loops are not known" in said
    assert (
        "replicated: cumprod (its rows depend on each other), slice (its result does not grow with the batch)" in said
    )
    assert simulate_training(planned).seconds == pytest.approx(planned.predicted["seconds"], rel=0.2)
    trained(session, graph, *hand_plans(graph), planned)
