"""What a stage keeps, counted by hand."""

from __future__ import annotations

import pytest
from meshwright.planners.alpa.inter.flops import has_gradient
from meshwright.planners.alpa.intra import Analysis, IntraOptions, IntraPlan, score
from meshwright.profiles.graph import Builder, Graph, roofline, zoo_graph
from meshwright.profiles.hardware import device
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh

COSTS = roofline(device("v100-16gb"))
BATCH, H, F = 8, 16, 24


def mesh(devices: int = 4) -> LogicalMesh:
    return Mesh(Cluster(1, devices, "v100-16gb"), 1, devices).view((1, devices))


def two_layers(dtype: str = "float16") -> Graph:
    """relu(relu(x w0) w1), a layer each."""
    g = Builder("two", batch=BATCH, dtype=dtype)
    x = g.input("x", H, dtype=dtype)
    for n, (i, o) in enumerate(((H, F), (F, H))):
        g.layer = n
        y = g.add(f"mul{n}", "contraction", "b h, h f -> b f", x, g.parameter(f"w{n}", i, o), saves=(0, 1))
        x = g.add(f"relu{n}", "elementwise", "b f -> b f", y, saves=(-1,), fn="relu")
    return Graph("two", BATCH, tuple(g.inputs), tuple(g.parameters), tuple(g.operators))


def data_parallel(graph: Graph, **options) -> IntraPlan:
    """Axis 1 on the batch; weights whole unless the option cuts them."""
    fixed = {op.name: ("", "b") for op in graph.operators if op.heavy}
    if options.get("zero") != 3:
        fixed |= {t.name: "R" * len(t.shape) for t in graph.parameters}
    return score(graph, 0, len(graph.operators), mesh(), COSTS, fixed, IntraOptions(**options))


PARAMS = 2 * H * F


@pytest.mark.parametrize(
    ("options", "per_parameter"),
    [
        ({}, 16),
        ({"microbatches": 4}, 16),
        ({"zero": 2}, 2 + 14 / 4),
        ({"zero": 2, "microbatches": 4}, 2 + 2 + 12 / 4),  # gradients add up whole
        ({"zero": 2, "microbatches": 4, "reduce_every_microbatch": True}, 2 + 14 / 4),
        ({"zero": 3}, 16 / 4),
        ({"zero": 3, "microbatches": 4}, 14 / 4 + 2),
        ({"optimizer": "sgd"}, 2 + 2 + 4),
    ],
)
def test_state(options, per_parameter):
    assert data_parallel(two_layers(), **options).state_bytes == PARAMS * per_parameter


def test_state_of_float32_is_the_same():
    assert data_parallel(two_layers("float32")).state_bytes == PARAMS * 16


@pytest.mark.parametrize(
    ("recompute", "elements"),
    [
        ("none", H + F + H),  # x, both results
        ("full", H + F),  # what each layer reads
        ("selective", H + F + H),  # no attention
    ],
)
def test_activations(recompute, elements):
    plan = data_parallel(two_layers(), recompute=recompute)
    assert plan.activation_bytes == BATCH * elements * 2 / 4


def test_recomputing_takes_the_forward_pass_again():
    plain, full = data_parallel(two_layers()), data_parallel(two_layers(), recompute="full")
    assert full.forward_s == plain.forward_s
    assert full.backward_input_s == pytest.approx(plain.backward_input_s + plain.forward_s)
    # Gradients of the result and of what is read; at most in the first layer's relu.
    assert plain.work_bytes == BATCH * (F + F) * 2 / 4
    # Recomputed: the second layer's own result as well, at most in its product.
    assert full.work_bytes == BATCH * (F + H + H) * 2 / 4


def test_selective_recomputation_drops_the_softmax():
    graph = zoo_graph("tiny-gpt", BATCH)
    plain, selective = data_parallel(graph), data_parallel(graph, recompute="selective")
    softmax = next(op for op in graph.operators if op.kind == "softmax")
    layers = sum(op.kind == "softmax" for op in graph.operators)
    assert plain.activation_bytes - selective.activation_bytes == layers * softmax.bytes / 4
    core = [op for op in graph.operators if op.name.endswith((".scores", ".softmax", ".context"))]
    again = sum(COSTS.times(op, {"b": 4}).forward_s for op in core)
    assert selective.backward_input_s - plain.backward_input_s == pytest.approx(again, rel=1e-9)


def test_the_loss_of_a_language_model_keeps_its_logits():
    graph = zoo_graph("tiny-gpt", BATCH)
    loss = graph.operators[-1]
    plan = data_parallel(graph)
    logits = graph.bytes_of(loss.inputs[0])
    assert plan.work_bytes >= logits / 4
    n = len(graph.operators)
    fixed = {"head": ("", "b"), "embedding.weight": "RR"}
    alone = score(graph, n - 2, n, mesh(), COSTS, fixed)
    # The head keeps what it reads; the loss the logits and the labels.
    kept = graph.bytes_of("norm") + logits + graph.bytes_of("labels")
    assert alone.activation_bytes == kept / 4


def test_zero_moves_as_many_bytes():
    """§4.2: an all-reduce becomes a reduce-scatter and an all-gather of the same volume, once an iteration."""
    plain, zero = data_parallel(two_layers()), data_parallel(two_layers(), zero=2)
    assert {c.collective for c in plain.collectives} == {"all_reduce"}
    assert zero.counts == {"reduce.reduce_scatter": 2, "update.all_gather": 2}

    def step(plan: IntraPlan) -> float:  # the optimiser step itself is four times shorter where the state is cut
        return sum(c.seconds for c in plan.collectives if c.phase in ("reduce", "update"))

    assert step(zero) == pytest.approx(step(plain))
    assert zero.reduce_s + zero.update_s - step(zero) == pytest.approx(
        (plain.update_s + plain.reduce_s - step(plain)) / 4
    )


def test_overlap_hides_the_reduction():
    graph = two_layers()
    plain, hidden = data_parallel(graph), data_parallel(graph, overlap=True)
    backward = plain.backward_input_s + plain.backward_weight_s
    assert hidden.reduce_s == max(0.0, plain.reduce_s - backward)
    assert hidden.objective == plain.objective


def test_zero_3_gathers_in_both_passes():
    plan = data_parallel(two_layers(), zero=3)
    gathers = [c for c in plan.collectives if c.collective == "all_gather"]
    assert [(c.phase, c.value, c.n_bytes) for c in gathers] == [
        (phase, name, H * F * 2.0) for name in ("w0", "w1") for phase in ("forward", "backward")
    ]
    assert plan.counts["reduce.reduce_scatter"] == 2


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_gate_s_mask_has_no_gradient_but_is_computed_again_with_its_layer(recompute):
    graph = zoo_graph("tiny-moe")
    analysis = Analysis(graph)
    masks = [i for i, op in enumerate(graph.operators) if op.attributes.get("fn") == "nonzero"]
    assert masks
    for i in masks:
        assert graph.operators[i].name not in analysis.differentiable
        assert graph.operators[i].inputs[0] in analysis.differentiable  # the weights that combine reads
        assert analysis.repeated(recompute)[i] == (recompute == "full")
    assert not any(has_gradient(graph)[graph.operators[i].name] for i in masks)
