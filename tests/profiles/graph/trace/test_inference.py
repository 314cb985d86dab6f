"""Graphs of inference: what they say is what the module gives, and every operator finds its way back to what runs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from inference_modules import REFUSED, RIGHT, Calls
from interpreter import run
from meshwright.errors import InputError
from meshwright.kernels.networks import network
from meshwright.profiles.graph import Graph, calls, from_json, from_torch, inference_program, signature, to_json
from meshwright.profiles.graph.trace import check
from meshwright.profiles.graph.trace import module as tracing
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

NETWORKS = ("dcgan-filters8", "resnet3d-50-image16-frames4-base8", "bert-base-layers1-hidden16-heads2-seq8-vocab20")


def example(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = RIGHT[name]
    return build().eval(), example(shape)


def plain_results(graph: Graph, module: nn.Module, x: Tensor) -> list[Tensor]:
    """By the other interpreter of these tests, which knows nothing of the one that `from_torch` checks with."""
    parts = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    values = {t.name: parts[t.name].detach() for t in graph.parameters}
    values = {key: v.double() if v.is_floating_point() else v for key, v in values.items()}
    found = run(graph, values | {graph.inputs[0].name: x.double() if x.is_floating_point() else x})
    return [found[key] for key in graph.results]


def check_parts(graph: Graph, module: nn.Module, x: Tensor, groups: list[list[int]]) -> None:
    """Groups of operators, run one after another, give what the module gives, to the bit."""
    program = inference_program(module, (x,), graph)
    values = {graph.inputs[0].name: x}
    with torch.no_grad():
        for group in groups:
            part = program.part(group)
            assert set(part.inputs) <= values.keys()
            given = part.module(*(values[key] for key in part.inputs))
            values |= zip(part.results, given if len(part.results) > 1 else [given], strict=True)
        for key, expected in zip(graph.results, tree_leaves(module(x)), strict=True):
            assert torch.equal(values[key], expected)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_traced_is_what_the_module_gives(name: str) -> None:
    module, x = made(name)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    graph = from_torch(module, (x,), name=name, inference=True)
    assert "; compared with it in float64: its " in graph.source
    expected = tree_leaves(module.double()(x.double()))
    for ours, theirs in zip(plain_results(graph, module, x), expected, strict=True):
        assert torch.allclose(ours.double(), theirs.double(), rtol=1e-10, atol=1e-10)
    assert all(torch.equal(value, before[key]) for key, value in module.float().state_dict().items())
    assert all(op.nodes and not op.saves for op in graph.operators)
    assert from_json(to_json(graph)) == graph
    grown = graph.with_batch(6)
    assert [op.flops for op in grown.operators] == [3 * op.flops for op in graph.operators]
    units = [list(group) for group in calls(graph)]
    assert sorted(i for group in units for i in group) == list(range(len(graph.operators)))
    check_parts(graph, module, x, units)
    check_parts(graph, module, x, [list(range(len(graph.operators)))])
    draw, pairs = random.Random(0), list[list[int]]()
    while units:  # consecutive calls together, as placements have them
        count = draw.randint(1, 3)
        pairs.append([i for group in units[:count] for i in group])
        units = units[count:]
    check_parts(graph, module, x, pairs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_inference_is_one_line(name: str) -> None:
    build, shape, message = REFUSED[name]
    module = build()
    if "training" not in name:
        module.eval()
    with pytest.raises(InputError) as caught:
        from_torch(module, (example(shape),), inference=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_inference_has_no_loss() -> None:
    module, x = nn.Linear(6, 6).eval(), example((2, 6))
    with pytest.raises(InputError, match="inference=True has no loss; leave loss and labels out"):
        from_torch(module, (x,), loss="mse", labels=x, inference=True)
    with pytest.raises(InputError, match="give loss=, or inference=True"):
        from_torch(module, (x,))


@pytest.mark.parametrize(
    ("part", "shape", "kind"),
    [
        (nn.Sequential(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False)), (2, 4, 6, 6), "call"),
        (nn.Sequential(nn.Conv3d(4, 4, 1), nn.MaxPool3d(2)), (2, 4, 4, 6, 6), "call"),
        (nn.ConvTranspose2d(4, 3, 2), (2, 4, 6, 6), "convolution"),
        (nn.BatchNorm2d(4).eval(), (2, 4, 6, 6), "norm"),
    ],
)
def test_training_graphs_say_what_only_inference_said(part: nn.Module, shape: tuple[int, ...], kind: str) -> None:
    graph = from_torch(Calls(lambda x, part: part(x).mean(), part), (example(shape),))
    assert kind in {op.kind for op in graph.operators}


def test_flops_of_a_transposed_convolution_are_those_of_the_convolution_back() -> None:
    forward = from_torch(nn.Conv2d(4, 8, 4, 2, 1, bias=False).eval(), (example((1, 4, 12, 12)),), inference=True)
    back = from_torch(nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False).eval(), (example((1, 8, 6, 6)),), inference=True)
    assert forward.operators[0].flops == back.operators[0].flops == 2 * 4 * 8 * 16 * 36
    assert replace(back.operators[0], flops=-1.0).flops == back.operators[0].flops


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_traced(name: str) -> None:
    net = network(name)
    graph = from_torch(net.module, net.inputs(1), name=name, inference=True)
    assert graph.params == net.parameters
    (x,) = net.inputs(2)
    sized = graph.with_batch(2)
    (ours,) = plain_results(sized, net.module, x)
    with torch.no_grad():
        theirs = net.module.double()(x.double() if x.is_floating_point() else x)
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9 * float(theirs.abs().max()))
    check_parts(sized, net.module.float(), x, [list(group) for group in calls(graph)])


def wrong(x: Tensor) -> Tensor:
    return x + 1e-9 * x.abs().max()


def test_a_graph_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = made("batch norm")
    honest = tracing.exported

    def dishonest(module: Any, *rest: Any) -> Any:
        return honest(nn.Sequential(module[0], module[1], nn.SiLU()).eval(), *rest)

    monkeypatch.setattr(tracing, "exported", dishonest)
    with pytest.raises(InputError, match=r"result 0 is .* of its size from the module's"):
        from_torch(module, (x,), inference=True)


def test_a_difference_of_rounding_in_another_precision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-10 is far below float32: a result that is off by 1e-9 of its size is refused."""
    module, x = made("dropout")
    honest = check.ModuleLoss.results
    monkeypatch.setattr(check.ModuleLoss, "results", lambda self, *a: [wrong(y) for y in honest(self, *a)])
    with pytest.raises(InputError, match="result 0 is"):
        from_torch(module, (x,), inference=True)


def test_large_modules_are_held_against_torch_call_by_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "FLOPS", 0)
    for name in ("batch norm", "transposed with all there is", "three dimensions", "pads that are not counted"):
        module, x = made(name)
        source = from_torch(module, (x,), inference=True).source
        assert source.endswith("distinct calls compared with torch's on small sizes"), source  # and none left out


def test_a_module_without_weights_is_traced() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    graph = from_torch(module, (torch.empty(1, 3, 8, 8),), inference=True)
    assert [op.kind for op in graph.operators] == ["convolution", "elementwise", "norm", "elementwise"]
    assert {t.name: t.trainable for t in graph.parameters}["1.running_var"] is False


def test_parts_of_what_is_not_the_graphs_module_are_refused() -> None:
    module, x = made("batch norm")
    graph = from_torch(module, (x,), name="net", inference=True)
    other = nn.Sequential(nn.Conv2d(4, 6, 5), module[1], nn.ReLU()).eval()
    with pytest.raises(
        InputError, match=r"operator '0.add' came from call 'conv2d', of which this module has a result"
    ):
        inference_program(other, (x,), graph)
    with pytest.raises(InputError, match="of which this module has no such call; trace it anew"):
        inference_program(nn.Sequential(module[0], nn.ReLU()).eval(), (x,), graph)
    training = from_torch(nn.Sequential(nn.Linear(6, 6)), (example((2, 6)),), loss="mse", labels=example((2, 6)))
    with pytest.raises(InputError, match="a training graph cannot be run in parts"):
        inference_program(module, (x,), training)
    with pytest.raises(InputError, match=r"operator '0.linear' came from no call"):
        calls(training)
    program = inference_program(module, (x,), graph)
    with pytest.raises(InputError, match=r"operators '0.conv' and '0.add' are one call, 'conv2d'; take both"):
        program.part([0])
    with pytest.raises(InputError, match="expected positions 0 … 3"):
        program.part([4])


def test_a_result_that_is_read_too_is_another_computation() -> None:
    """Repeated units are found by signatures: a value that must leave is not one that may stay inside."""
    both = from_torch(Calls(lambda x: ((y := x.relu()), y.tanh())).eval(), (example((2, 6)),), inference=True)
    last = from_torch(Calls(lambda x: x.relu().tanh()).eval(), (example((2, 6)),), inference=True)
    assert both.results == ("relu", "tanh")
    assert signature(both, 0, 2) != signature(last, 0, 2)
