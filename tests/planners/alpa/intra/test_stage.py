"""Stages: brute force over all strategies agrees with the solver, and a plan's accounts with what it minimised."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from how_many import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa.intra import Analysis, IntraOptions, ShardingSpec, score, solve_stage
from meshwright.planners.alpa.intra.plan import evaluate, memory
from meshwright.planners.alpa.intra.pricing import Pricing
from meshwright.planners.alpa.intra.sharding.specs import spec_set
from meshwright.planners.alpa.intra.stage_model import StageModel, build_stage
from meshwright.profiles.graph import Builder, Graph, roofline, zoo_graph
from meshwright.profiles.hardware import device
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh

COSTS = roofline(device("v100-16gb"))
MESHES = [(1, 2), (2, 2), (1, 4), (2, 4)]


def mesh(shape: tuple[int, int], hosts: int = 0) -> LogicalMesh:
    n = shape[0] * shape[1]
    hosts = hosts or shape[0]
    return Mesh(Cluster(hosts, n // hosts, "v100-16gb"), hosts, n // hosts).view(shape)


@st.composite
def graphs(draw) -> Graph:
    """Short chains of matmuls with what stands between them in networks."""
    g = Builder("drawn", batch=8, dtype=draw(st.sampled_from(["float16", "float32"])))
    width = draw(st.sampled_from([8, 16]))
    x = g.input("features", width, dtype=g.dtype)
    skip = None
    for n in range(draw(st.integers(1, 2))):
        wide = draw(st.sampled_from([8, 16, 32]))
        g.layer = n
        y = g.add(f"mul{n}", "contraction", "b h, h f -> b f", x, g.parameter(f"w{n}", width, wide), saves=(0, 1))
        if n == 1 and draw(st.booleans()):  # a twin, which shares the copy of what both read
            z = g.add("twin", "contraction", "b h, h f -> b f", x, g.parameter("w", width, wide), saves=(0, 1))
            y = g.add("gated", "elementwise", "b f, b f -> b f", y, z, saves=(0, 1), fn="mul")
        for what in draw(st.sets(st.sampled_from(["bias", "relu", "norm", "residual"]))):
            if what == "bias":
                y = g.add(f"bias{n}", "elementwise", "b f, f -> b f", y, g.parameter(f"c{n}", wide), fn="add")
            elif what == "relu":
                y = g.add(f"relu{n}", "elementwise", "b f -> b f", y, saves=(-1,), fn="relu")
            elif what == "norm":
                y = g.add(f"norm{n}", "softmax", "b f -> b f", y, statistic="f", saves=(-1,))
            elif skip is not None and skip[1] == wide:
                y = g.add(f"sum{n}", "elementwise", "b f, b f -> b f", y, skip[0], fn="add")
        skip = (y, wide)
        x, width = y, wide
    return Graph(g.name, g.batch, tuple(g.inputs), tuple(g.parameters), tuple(g.operators))


OPTIONS = st.builds(
    IntraOptions,
    microbatches=st.sampled_from([1, 4]),
    in_flight=st.sampled_from([1, 3]),
    zero=st.sampled_from([0, 2, 3]),
    recompute=st.sampled_from(["none", "full"]),
    sequence_parallel=st.booleans(),
    reduce_every_microbatch=st.booleans(),
    compute=st.sampled_from(["model", "zero"]),
)


def all_choices(model: StageModel) -> tuple[list[int], np.ndarray]:
    """Nodes that choose, and every choice of theirs as a row."""
    free = [v for v, leader in enumerate(model.leader) if v == leader]
    sizes = [len(model.seconds[v]) for v in free]
    assume(math.prod(sizes) <= 60_000)
    return free, np.stack([a.ravel() for a in np.indices(sizes)], axis=1)


def whole(model: StageModel, free: list[int], rows: np.ndarray) -> np.ndarray:
    """Strategy of every node, for every choice."""
    return rows[:, [free.index(leader) for leader in model.leader]]


def costs_of(model: StageModel, chosen: np.ndarray) -> np.ndarray:
    total = sum(s[chosen[:, v]] for v, s in enumerate(model.seconds))
    return total + sum(e.table.total[chosen[:, e.source], chosen[:, e.target]] for e in model.edges)


def peaks_of(model: StageModel, chosen: np.ndarray, in_flight: int) -> np.ndarray:
    base = sum(
        (s + in_flight * a)[chosen[:, v]] for v, (s, a) in enumerate(zip(model.state, model.activation, strict=True))
    )
    again = {g: sum(m[chosen[:, v]] for v, m in held) for g, held in model.again.items()}
    work = [m[chosen[:, v]] + again.get(model.group[v], 0.0) for v, m in model.work.items()]
    return base + np.max(work, axis=0)


# The solver alone is held against brute force in ../solver, on hundreds of instances; here, what it is given.
@settings(
    max_examples=examples(10, anew=30),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(graphs(), st.sampled_from(MESHES), OPTIONS, st.floats(0, 1), st.data())
def test_brute_force(graph, shape, options, tightness, data):
    m = mesh(shape)
    first = data.draw(st.integers(0, max(0, len(graph.operators) - 2)))
    pricing = Pricing(Analysis(graph), m, COSTS, options)
    model = build_stage(pricing, first, len(graph.operators))
    free, rows = all_choices(model)
    chosen = whole(model, free, rows)
    costs, peaks = costs_of(model, chosen), peaks_of(model, chosen, options.in_flight)
    best = solve_stage(graph, first, len(graph.operators), m, COSTS, options)
    assert best.status == "optimal"
    assert best.objective == pytest.approx(costs.min(), rel=1e-9)
    # With memory for as little as possible, as much as the fastest needs, and something between.
    fastest = peaks[np.argmin(costs)]
    limit = math.ceil(peaks.min() + tightness * (fastest - peaks.min()))
    bounded = replace(options, memory_bytes=float(limit))
    tight = solve_stage(graph, first, len(graph.operators), m, COSTS, bounded)
    assert tight.objective == pytest.approx(costs[peaks <= limit].min(), rel=1e-9)
    needed = tight.state_bytes + options.in_flight * tight.activation_bytes + tight.work_bytes
    assert needed <= limit * (1 + 1e-12)
    if peaks.min() > 2:
        too_little = replace(options, memory_bytes=float(peaks.min()) - 1)
        with pytest.raises(InfeasibleError, match="at least"):
            solve_stage(graph, first, len(graph.operators), m, COSTS, too_little)
    # Any choice's plan takes what the tables say, collective by collective.
    for at in data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=3, max_size=3)):
        plan = evaluate(pricing, model, chosen[at].tolist(), 0.0, "feasible")
        assert plan.objective == pytest.approx(costs[at], rel=1e-9)
        if options.compute == "model":
            total = plan.seconds + (plan.reduce_s + plan.update_s) / options.microbatches
            assert total == pytest.approx(costs[at], rel=1e-9)
        state, activation, work = memory(model, chosen[at].tolist())
        assert state + options.in_flight * activation + work == pytest.approx(peaks[at])


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe", "tiny-resnet", "tiny-mlp"])
@pytest.mark.parametrize("shape", [(1, 4), (2, 4)])
@pytest.mark.parametrize(
    "options",
    [
        IntraOptions(microbatches=4),
        IntraOptions(zero=2, recompute="selective", sequence_parallel=True),
        IntraOptions(zero=3, recompute="full", force_batch=True, microbatches=2, reduce_every_microbatch=True),
    ],
    ids=["plain", "zero2", "zero3"],
)
def test_accounts_of_whole_models(name, shape, options):
    graph = zoo_graph(name, 8)
    plan = solve_stage(graph, 0, len(graph.operators), mesh(shape), COSTS, options)
    total = plan.seconds + (plan.reduce_s + plan.update_s) / options.microbatches
    assert total == pytest.approx(plan.objective, rel=1e-9)
    assert plan.bound == pytest.approx(plan.objective, rel=1e-9)
    assert plan.compute_s + plan.communication_s == pytest.approx(plan.seconds, rel=1e-9)
    assert sum(plan.counts.values()) == len(plan.collectives)
    assert set(plan.operators) == {op.name for op in graph.operators}
    # Links are busy for as long as collectives take, but for latencies; devices of a node have their ports.
    phases = {"forward": "forward", "backward_input": "backward", "reduce": "reduce", "update": "update"}
    for name, busy in plan.traffic.items():
        seconds = sum(c.seconds for c in plan.collectives if c.phase == phases[name])
        assert 0.0 < max(busy) <= seconds * (1 + 1e-9)
    assert {phases[name] for name in plan.traffic} == {c.phase for c in plan.collectives if c.seconds > 0}
    if options.zero == 3:  # every weight that can be is cut along all axes
        for tensor in graph.parameters:
            specs = spec_set(tensor.shape, shape)
            assert specs.share[specs.index[ShardingSpec.parse(plan.parameters[tensor.name])]] == specs.share.min()
    if options.force_batch and shape[0] > 1:
        loops = {op.name: op.loop(plan.operators[op.name].axes[0]) for op in graph.operators if op.heavy}
        experts = {op for op, loop in loops.items() if not loop.batch}
        assert all(".moe." in op and loops[op].name == "e" for op in experts)


def test_more_choice_never_costs_more():
    """What restricts the choice costs time, what widens it saves some."""
    graph, m = zoo_graph("tiny-gpt", 8), mesh((2, 4))

    def best(**options) -> float:
        return solve_stage(graph, 0, len(graph.operators), m, COSTS, IntraOptions(**options)).objective

    plain = best()
    assert best(sequence_parallel=True) <= plain * (1 + 1e-9)
    assert best(force_batch=True) >= plain * (1 - 1e-9)
    assert best(zero=3) >= plain * (1 - 1e-9)
    assert best(recompute="full") > best(recompute="selective") > plain
    assert best(microbatches=8) < plain


def test_given_choices_are_scored():
    graph, m = zoo_graph("tiny-mlp", 8), mesh((1, 4))
    n = len(graph.operators)
    heavy = [op.name for op in graph.operators if op.heavy]
    data = score(graph, 0, n, m, COSTS, dict.fromkeys(heavy, ("", "b")))
    best = solve_stage(graph, 0, n, m, COSTS)
    assert all(data.operators[name].axes == ("", "b") for name in heavy)
    assert all(c.phase in ("reduce", "update") or c.n_bytes == 4 for c in data.collectives)  # 4: the loss
    assert data.objective >= best.objective * (1 - 1e-12)
    # Scoring the best plan's own choices gives the best plan.
    choice = {name: entry.axes for name, entry in best.operators.items() if name in heavy}
    again = score(graph, 0, n, m, COSTS, {**choice, **best.parameters})
    assert again.objective == pytest.approx(best.objective, rel=1e-12)
    # All pairs of mappings of the first two layers, everything else free: the least of them is the best plan.
    pairs = itertools.product("bhf", repeat=2)
    scores = [score(graph, 0, n, m, COSTS, {heavy[0]: ("", a), heavy[1]: ("", b)}).objective for a, b in pairs]
    assert min(scores) == pytest.approx(best.objective, rel=1e-12)


def test_twins_share_one_copy():
    """Megatron's fused q, k, v: one all-reduce of the gradient of what all three read, not three."""
    graph = zoo_graph("tiny-gpt", 8)
    n = len(graph.operators)
    heads = ("attention.q", "attention.k", "attention.v", "attention.scores", "attention.context", "attention.out")
    megatron = {f"layers.{i}.{what}": ("b", "n") for i in range(4) for what in heads}
    megatron |= {f"layers.{i}.mlp.{what}": ("b", "f") for i in range(4) for what in ("up", "down")}
    plan = score(graph, 0, n, mesh((2, 4)), COSTS, megatron)
    size = 8 * 16 * 32 * 4 / 2
    layers = [c for c in plan.collectives if c.operator.startswith("layers.") and c.phase in ("forward", "backward")]
    assert [(c.collective, c.axes, c.n_bytes) for c in layers] == [("all_reduce", (1,), size)] * 4 * 4
    assert sum(c.phase == "backward" for c in layers) == 2 * 4  # per layer: of q, k, v together, and of the MLP
