"""Graphs of inference of the zoo: what is shipped is what is traced, without torch; and nobody trains one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from meshwright.errors import InputError
from meshwright.planners.training import TRAINING_PLANNERS, training_planner
from meshwright.profiles.devices import DEVICES
from meshwright.profiles.graph import (
    INFERENCE,
    ZOO,
    build_graph,
    differentiable,
    from_json,
    in_zoo,
    network_of,
    repeats,
    roofline,
    save_graph,
    to_json,
    token_flow,
    zoo_graph,
    zoo_module,
)  # fmt: skip
from meshwright.profiles.graph.memory import saved, state_bytes
from meshwright.profiles.graph.named import graph_of
from meshwright.profiles.graph.networks import traced_network
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.simulator import Cluster

# Products of convolutions and linear layers of one sample, 10⁹: torchvision 0.15's documentation of the weights
# (GFLOPS, which it counts as products), Table 2 of NASNet's paper ("564 M") and of MobileNetV2's ("300 M").
PRODUCTS = {"resnet-18": 1.81, "resnet-50": 4.09, "resnext-50": 4.23, "mobilenet-v2": 0.30, "nasnet-a": 0.564}
PARAMETERS = {
    "resnet-18": 11.69, "resnet-50": 25.56, "resnext-50": 25.03, "resnet3d-50": 47.02, "mobilenet-v2": 3.50,
    "nasnet-a": 5.29, "dcgan": 3.58, "bert-base": 85.05,
}  # fmt: skip
"""Millions; sources in tests/kernels/networks."""


@pytest.mark.parametrize("name", INFERENCE)
def test_shipped_graphs_are_inference(name: str) -> None:
    graph = zoo_graph(name)
    assert graph.inference
    assert round(graph.params / 1e6, 2) == PARAMETERS[name]
    assert graph.results == (graph.operators[-1].name,)
    assert all(op.nodes and not op.saves for op in graph.operators)
    assert "et al." in graph.source
    assert in_zoo(name)
    assert name not in ZOO
    assert graph_of(name) == graph
    assert zoo_graph(name, 8).forward_flops == 8 * graph.forward_flops
    assert zoo_graph(name, 8).digest == graph.digest
    assert from_json(to_json(graph)) == graph
    if name in PRODUCTS:
        products = sum(op.flops for op in graph.operators if op.heavy) / 2e9
        assert products == pytest.approx(PRODUCTS[name], rel=0.01)


def test_what_is_in_them() -> None:
    kinds = {name: Counter(op.kind for op in zoo_graph(name).operators) for name in INFERENCE}
    assert kinds["resnet-50"]["convolution"] == 53
    assert kinds["resnet-50"]["norm"] == 53
    assert sum(bool(op.attributes.get("transposed")) for op in zoo_graph("dcgan").operators) == 5
    assert kinds["bert-base"]["softmax"] == 12
    uncounted = [op for op in zoo_graph("nasnet-a").operators if op.attributes.get("count_include_pad") is False]
    assert len(uncounted) == 2 * 12 + 2 * 4  # two poolings in each of 12 normal cells and of 4 reduction cells
    assert {len(op.attributes["kernel"]) for op in zoo_graph("resnet3d-50").operators if op.kind == "pool"} == {3}  # type: ignore[arg-type]
    # The first layer reads the input, the last one is a result, all others are alike.
    assert repeats(zoo_graph("bert-base")) == (0, *[1] * 10, 11)


def test_the_smallest_traced_anew_is_what_is_shipped() -> None:
    assert to_json(traced_network("dcgan")) == to_json(zoo_graph("dcgan"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in INFERENCE if name != "dcgan"])
def test_traced_anew_is_what_is_shipped(name: str) -> None:
    assert to_json(traced_network(name)) == to_json(zoo_graph(name))


def test_sizes_stand_behind_a_name() -> None:
    graph = zoo_graph("bert-base-layers2-hidden32-heads2-seq8")
    assert graph.name == "bert-base-layers2-hidden32-heads2-seq8"
    assert (graph.items_per_sample, graph.items) == (8.0, "tokens")
    assert graph.params == network_of(graph.name).parameters == 2 * (12 * 32 * 32 + 13 * 32)
    assert "compared with it in float64: its result" in graph.source


def test_shipped_graphs_need_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from meshwright.profiles.graph import INFERENCE, network_of, zoo_graph\n"
        "print([len(zoo_graph(name, 4).operators) for name in INFERENCE])\n"
        "for function in (zoo_graph, network_of):\n"
        "    try: function('bert-base-layers2')\n"
        "    except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == str([len(zoo_graph(name).operators) for name in INFERENCE])
    assert (
        lines[1:] == ["network 'bert-base-layers2': needs torch; pip install -e '.[torch]' in Meshwright's folder"] * 2
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zoo_graph("resnet50"), "unknown model 'resnet50'; did you mean resnet-50"),
        (lambda: zoo_graph("resnet-50-depth3"), "'depth3' is no size of resnet-50, said once; its sizes are image224"),
        (lambda: zoo_graph("resnet-50", attention="fused"), "resnet-50 is a graph of inference; leave the option out"),
        (lambda: build_graph("bert-base", sizes={"layers": 2}), "write sizes behind its name, with zoo_graph"),
        (lambda: zoo_module("dcgan"), "'dcgan' is a network of inference; its module is network_of"),
        (lambda: network_of("dcgan-image64"), "'image64' is no size of dcgan"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


NO_LOSS = r"^graph 'dcgan': a graph of inference has no loss, so it cannot be trained; give a training graph"


@pytest.mark.parametrize("name", TRAINING_PLANNERS)
def test_planners_of_training_refuse_them(name: str) -> None:
    cluster = Cluster(nodes=1, devices_per_node=2, device="v100-16gb")
    with pytest.raises(InputError, match=NO_LOSS):
        training_planner(name)(zoo_graph("dcgan"), cluster, global_batch=4)


def test_so_do_plans_by_hand_and_what_follows_tokens_and_gradients() -> None:
    graph = zoo_graph("dcgan")
    for door in (differentiable, token_flow, lambda graph: hand_plan(graph, meshes=[(1, 1)])):
        with pytest.raises(InputError, match=NO_LOSS):
            door(graph)


def test_a_plan_of_training_is_not_run_on_one(tmp_path) -> None:
    """The door of the simulator, the runtime and the exports: the graph of a plan."""
    from meshwright.simulator.training.plan.graph import check_graph, planned_graph

    plan = hand_plan(zoo_graph("tiny-mlp"), meshes=[(1, 1)], global_batch=4)
    with pytest.raises(InputError, match=NO_LOSS):
        check_graph(plan, zoo_graph("dcgan"))
    save_graph(zoo_graph("dcgan"), tmp_path / "graph.json")
    other = plan.model_copy(update={"model": plan.model.model_copy(update={"graph": "graph.json"})})
    with pytest.raises(InputError, match=NO_LOSS):
        planned_graph(other, tmp_path / "plan.json")


def test_memory_of_inference_is_its_weights() -> None:
    graph = zoo_graph("mobilenet-v2")
    assert state_bytes(graph) == sum(t.bytes for t in graph.parameters) == 4 * (3_504_872 + 2 * 17_056)
    assert list(saved(graph, range(len(graph.operators)))) == []


def test_a_norm_that_is_given_its_statistics_costs_what_an_elementwise_function_does() -> None:
    costs = roofline(DEVICES["a100-80gb"])
    made = {op.kind: op for op in zoo_graph("resnet-50", 8).operators if op.shape == (8, 64, 112, 112)}
    assert costs.times(made["norm"], {}).forward_s == costs.times(made["elementwise"], {}).forward_s > 0
