"""Traced graphs: equal to the zoo's builders for the zoo's modules, and executable to the same loss for others."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
import torch
import traced_modules
from interpreter import run
from meshwright.profiles.graph import Graph, Operator, from_torch, leaders, repeats, zoo_graph, zoo_module
from meshwright.profiles.graph.fused.values import apart, together
from test_modules import example, shaken
from torch import nn
from torch.nn import functional as F


def meta(graph: Graph) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty(t.shape, dtype=getattr(torch, t.dtype), device="meta") for t in graph.inputs)


def plain(op: Operator) -> tuple[object, ...]:
    """What an operator is, apart from the names of its loops."""
    letters = {name: f"x{i}" for i, name in enumerate(op.parsed.loops)}
    formula = [[tuple(letters[x] for x in g) for g in dims] for dims in (*op.parsed.operands, op.parsed.result)]
    loops = sorted((letters[x.name], x.size, x.batch, x.split) for x in op.loops)
    kind = "contraction" if op.kind == "dispatch" else op.kind  # a trace does not see that a mask is one-hot
    return kind, formula, loops, op.dtype, op.flops, op.attributes.get("scale", 1.0)


@cache
def traced_zoo(name: str) -> Graph:
    return from_torch(zoo_module(name, device="meta"), meta(zoo_graph(name, 2)))


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe", "tiny-mlp", "tiny-resnet"])
def test_traced_modules_are_the_graphs_of_the_zoo(name: str) -> None:
    zoo = zoo_graph(name, 2)
    traced = traced_zoo(name)
    assert {t.name: (t.shape, t.dtype) for t in traced.parameters} == {
        t.name: (t.shape, t.dtype) for t in zoo.parameters
    }
    heavy = [[op for op in g.operators if op.heavy] for g in (traced, zoo)]
    # Spatial sizes of 1 x 1 kernels are "()" in a trace; formulas are compared for everything else.
    for ours, theirs in zip(*heavy, strict=True):
        assert (plain(ours) == plain(theirs)) or (ours.kind == "convolution" and ours.flops == theirs.flops)
    assert traced.with_batch(8).batch == 8
    assert [op.flops for op in traced.with_batch(6).operators if op.heavy] == [
        op.flops for op in zoo.with_batch(6).operators if op.heavy
    ]
    if name in ("tiny-gpt", "tiny-mlp"):  # operator by operator
        assert [plain(op) for op in traced.operators] == [plain(op) for op in zoo.operators]
        softmaxes = [op for op in traced.operators if op.kind == "softmax"]
        assert all(op.attributes.get("causal") for op in softmaxes)


def test_a_module_far_too_large_for_memory_is_traced() -> None:
    zoo = zoo_graph("gpt3-39b")
    with torch.device("meta"):
        from meshwright.kernels.training import GPT

        module = GPT(layers=2, hidden=8192, heads=64, vocab=51200, seq=1024).half()
    traced = from_torch(module, meta(zoo))
    per_layer = [op.flops for op in zoo.operators if op.layer == 0 and op.heavy]
    assert [op.flops for op in traced.operators if op.layer == 1 and op.heavy] == per_layer
    assert repeats(traced)[1:3] == (1, 1)


def same_as_module(module: nn.Module, inputs: dict[str, torch.Tensor], **options: object) -> Graph:
    """The traced graph, executed by the plain interpreter, gives the module's loss and gradients in float64."""
    module = shaken(module)
    graph = from_torch(module, tuple(inputs.values()), **options)  # type: ignore[arg-type]
    made = dict(zip((t.name for t in graph.inputs), (*inputs.values(), options.get("labels")), strict=False))
    parts = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    held = apart(parts, graph.parameters)
    leaves = {t.name: held[t.name].detach().clone().requires_grad_(t.trainable) for t in graph.parameters}
    found = run(graph, {**made, **leaves})[graph.operators[-1].name]
    result = module(*inputs.values())
    if options.get("loss") == "cross_entropy":
        result = F.cross_entropy(result.flatten(0, -2), options["labels"].flatten())  # type: ignore[union-attr]
    result.backward()
    found.backward()
    assert torch.allclose(found, result, rtol=1e-9)
    scale = max(float(p.grad.abs().max()) for p in module.parameters() if p.grad is not None)
    gradients = together({t.name: leaves[t.name].grad for t in graph.parameters if t.trainable}, graph.parameters)
    for name, p in module.named_parameters():
        if name in gradients:
            assert torch.allclose(gradients[name], p.grad, rtol=1e-9, atol=1e-9 * scale), name
        else:
            assert p.grad is None, name
    assert gradients.keys() == {n for n, p in module.named_parameters() if p.grad is not None}
    heavy = [op.flops for op in graph.operators if op.heavy]
    assert [op.flops for op in graph.with_batch(3 * graph.batch).operators if op.heavy] == [3 * f for f in heavy]
    return graph


def images(n: int, side: int) -> torch.Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def labels(*shape: int, classes: int = 5) -> torch.Tensor:
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(4))


def test_a_vision_transformer() -> None:
    torch.manual_seed(0)
    graph = same_as_module(traced_modules.Vit(), {"images": images(2, 8)}, loss="cross_entropy", labels=labels(2))
    assert Counter(op.kind for op in graph.operators)["attention"] == 2


def test_a_convnet() -> None:
    torch.manual_seed(0)
    graph = same_as_module(traced_modules.Convnet(), {"images": images(2, 16)}, loss="cross_entropy", labels=labels(2))
    convolutions = [op for op in graph.operators if op.kind == "convolution"]
    grouped = [op for op in convolutions if op.inputs[0].endswith("hardswish")]
    (g, k), (_, c) = grouped[0].parsed.result[1], grouped[0].parsed.operands[0][1]
    assert (grouped[0].sizes[g], grouped[0].sizes[k], grouped[0].sizes[c]) == (4, 3, 2)
    assert g in grouped[0].cuttable
    assert k not in grouped[0].cuttable
    assert c not in grouped[0].cuttable


def test_an_mlp_mixer() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    same_as_module(traced_modules.Mixer(), {"x": x})


def test_a_hugging_face_like_decoder() -> None:
    torch.manual_seed(0)
    graph = same_as_module(
        traced_modules.Hf(),
        {"input_ids": labels(2, 6, classes=20)},
        loss="cross_entropy",
        labels=labels(2, 6, classes=20),
    )
    tied = [op for op in graph.operators if "wte.weight" in op.inputs]
    assert [op.kind for op in tied] == ["embedding", "contraction"]
    assert [op.attributes.get("causal") for op in graph.operators if op.kind == "softmax"] == [True, True]


def test_a_module_that_makes_its_mask_only_where_it_is_not_compiled() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            if mask is None and not torch.compiler.is_compiling():
                mask = torch.ones(x.shape[:-1]).tril()
            return (self.linear(x) * mask[..., None]).square().mean()  # type: ignore[index]

    x = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    before = torch.compiler.is_compiling
    same_as_module(Masked(), {"x": x.view(2, 2, 6, 8)})
    assert torch.compiler.is_compiling is before


def test_what_a_module_asserts_of_its_values_is_left_out() -> None:
    class Asserting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            torch._check(ids.max().item() < 5)
            return self.table(ids).square().mean()

    same_as_module(Asserting(), {"ids": labels(2, 6)})


def test_torchs_own_encoder_layer() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    same_as_module(traced_modules.Encoder(), {"x": x}, loss="cross_entropy", labels=labels(2, classes=3))


GROUPS = [list(traced_modules.FUNCTIONS)[k::4] for k in range(4)]


@pytest.mark.parametrize("names", GROUPS, ids=["-".join(names)[:40] for names in GROUPS])
def test_functions_of_many_kinds(names: list[str]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    same_as_module(traced_modules.Functions(names), {"x": x})


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe", "tiny-resnet"])
def test_traced_modules_of_the_zoo_compute_the_same(name: str) -> None:
    torch.manual_seed(0)
    module, graph = shaken(zoo_module(name)), traced_zoo(name)
    inputs = example(zoo_graph(name, 2))
    found = run(graph, inputs | dict(module.named_parameters()))[graph.operators[-1].name]
    assert torch.allclose(found, module(*inputs.values()), rtol=1e-10)
    assert all(graph.operators[i].heavy for i in leaders(graph) if i >= 0)
