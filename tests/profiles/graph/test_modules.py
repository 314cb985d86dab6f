"""The tiny graphs compute what the torch modules compute, parameter by parameter: loss and every gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from interpreter import execute, run
from meshwright.kernels.training import top_k_gate
from meshwright.profiles.graph import Graph, build_graph, zoo_graph, zoo_module


def example(graph: Graph, seed: int = 0) -> dict[str, torch.Tensor]:
    """Inputs that fit the graph: indices below every table's and loss's size."""
    draw = torch.Generator().manual_seed(seed)
    values: dict[str, torch.Tensor] = {}
    for t in graph.inputs:
        if t.dtype == "int64":
            limits = []
            for i, k in graph.consumers[t.name]:
                op = graph.operators[i]
                over = op.parsed.operands[0][-1][0] if op.kind == "loss" else op.parsed.operands[1 - k][0][0]
                limits.append(op.sizes[over])
            values[t.name] = torch.randint(0, min(limits), t.shape, generator=draw)
        else:
            values[t.name] = torch.randn(t.shape, generator=draw, dtype=torch.float64)
    return values


def shaken(module: torch.nn.Module, seed: int = 1) -> torch.nn.Module:
    """The module in float64 with every parameter moved, so that no bias is zero and no norm is the identity."""
    draw = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p += 0.1 * torch.randn(p.shape, generator=draw)
    return module


def agree(graph: Graph, module: torch.nn.Module, rtol: float = 1e-10) -> None:
    """The graph, interpreted, gives the module's loss and gradients."""
    inputs = example(graph)
    parameters = dict(module.named_parameters())
    assert {t.name: t.shape for t in graph.parameters} == {n: tuple(p.shape) for n, p in parameters.items()}
    loss = module(*(inputs[t.name] for t in graph.inputs))
    loss.backward()
    leaves = {n: p.detach().clone().requires_grad_() for n, p in parameters.items()}
    made = run(graph, inputs | leaves)[graph.operators[-1].name]
    made.backward()
    assert torch.allclose(made, loss, rtol=rtol)
    scale = max(float(p.grad.abs().max()) for p in parameters.values())
    for name, p in parameters.items():
        assert float(p.grad.abs().max()) > 0, name
        assert torch.allclose(leaves[name].grad, p.grad, rtol=rtol, atol=rtol * scale), name


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe", "tiny-mlp", "tiny-resnet"])
def test_a_graph_computes_what_its_module_computes(name: str) -> None:
    torch.manual_seed(0)
    agree(zoo_graph(name, 3), shaken(zoo_module(name)))


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe"])
def test_fused_attention_computes_the_same(name: str) -> None:
    torch.manual_seed(0)
    agree(zoo_graph(name, 2, attention="fused"), shaken(zoo_module(name, attention="fused")))


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_the_gate_is_the_words_of_the_table(capacity: int) -> None:
    graph = build_graph("tiny-moe")
    op = next(op for op in graph.operators if op.kind == "gate")
    p = torch.randn(3, 12, 4, generator=torch.Generator().manual_seed(2)).softmax(-1)
    small = replace(
        op,
        loops=tuple(replace(x, size={"b": 3, "s": 12, "e": 4, "c": capacity}[x.name]) for x in op.loops),
        attributes=dict(op.attributes) | {"capacity": capacity},
    )
    found = top_k_gate(p, 2, capacity)
    assert torch.allclose(execute(small, [p]), found, atol=1e-7)
    assert int((found != 0).sum((1, 3)).max()) == capacity  # with 24 choices for 4 experts some queue is full


def test_big_modules_have_the_parameters_of_their_graphs() -> None:
    for name in ("gpt3-39b", "gshard-moe-70b", "wide-resnet-13b"):
        module = zoo_module(name, device="meta")
        ours = {t.name: t.shape for t in zoo_graph(name).parameters}
        assert {n: tuple(p.shape) for n, p in module.named_parameters()} == ours
