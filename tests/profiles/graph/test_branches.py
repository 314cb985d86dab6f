"""Graphs of several branches: sizes of §3.10.3 by closed forms, branches that share nothing, and torch beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import torch
from interpreter import run
from meshwright.errors import InputError
from meshwright.profiles.graph import BRANCHES, DLRM, MMT, CandleUno, Graph, build_graph, in_zoo, zoo_graph
from torch.nn import functional as F

H, SEQ = 1024, 256


def heavy_flops(graph: Graph) -> float:
    return sum(op.flops for op in graph.operators if op.heavy)


@pytest.mark.parametrize(("name", "n"), [("mmt", 4), ("mmt-2", 2), ("mmt-4", 4), ("mmt-16", 16)])
def test_mmt_has_eight_layers_a_branch(name: str, n: int) -> None:
    graph = zoo_graph(name, 3)
    layers = 8 * n
    per_layer = 12 * H**2 + 13 * H  # four projections and two of four times the width, with biases; two norms
    assert graph.params == layers * per_layer + n * H * 1000 + 1000
    assert len({op.layer for op in graph.operators if op.layer >= 0}) == layers
    per_sample = layers * (24 * SEQ * H**2 + 4 * SEQ**2 * H) + 2 * n * H * 1000
    assert heavy_flops(graph) == 3 * per_sample
    assert graph.inputs[0].shape == (3, SEQ, H)


@pytest.mark.parametrize(("name", "n"), [("dlrm", 7), ("dlrm-2", 2), ("dlrm-8", 8)])
def test_dlrm_has_dense_and_sparse_branches(name: str, n: int) -> None:
    graph, wide = zoo_graph(name), 4096
    layer = wide**2 + wide
    joined = n * (wide + 100 * 64)  # the embeddings of a bag are concatenated
    assert next(op for op in graph.operators if op.name == "concat").shape == (1, joined)
    post = joined * wide + wide + 3 * layer
    assert graph.params == 4 * n * layer + n * 1_000_000 * 64 + post + 2 * wide + 2
    assert heavy_flops(graph) == 2 * (4 * n * wide**2 + joined * wide + 3 * wide**2 + 2 * wide)
    assert sum(t.shape == (1, 100) for t in graph.inputs) == n


@pytest.mark.parametrize(("name", "n"), [("candle-uno", 7), ("candle-uno-2", 2), ("candle-uno-16", 16)])
def test_candle_uno_has_four_layers_a_branch(name: str, n: int) -> None:
    graph, wide = zoo_graph(name, 5), 4096
    assert graph.params == 4 * n * (wide**2 + wide) + n * wide + 1
    assert heavy_flops(graph) == 5 * 2 * (4 * n * wide**2 + n * wide)


def test_the_case_study_has_four_attentions_and_eight_linear_layers_a_branch() -> None:
    graph = zoo_graph("case-study-3-7-4")
    assert graph.params == 8 * (4 * (H**2 + H) + 2 * 4 * H**2 + 4 * H + H)
    assert sum(op.name.endswith("softmax") for op in graph.operators) == 8
    assert [op.name for op in graph.operators[-2:]] == ["concat", "loss"]
    assert not any(op.kind == "norm" for op in graph.operators)


@pytest.mark.parametrize("name", [*BRANCHES, "tiny-mmt-5", "candle-uno-16"])
def test_branches_stand_one_after_another_and_share_nothing(name: str) -> None:
    graph = zoo_graph(name)
    meet = graph.index["concat"]
    ends = [graph.index[x] for x in graph.operators[meet].inputs]
    assert ends == sorted(ends)
    assert ends[-1] == meet - 1
    first, seen = 0, set[str]()
    for end in ends:
        branch = graph.operators[first : end + 1]
        own, read = {op.name for op in branch}, {x for op in branch for x in op.inputs}
        outside = read - own
        assert outside <= graph.tensors.keys()
        assert not outside & seen
        assert len(outside & {t.name for t in graph.inputs}) == 1
        seen |= outside
        first = end + 1


def test_one_branch_more_is_one_layer_tag_more_for_each_of_its_layers() -> None:
    few, many = zoo_graph("tiny-uno-2"), zoo_graph("tiny-uno-3")
    assert max(op.layer for op in many.operators) - max(op.layer for op in few.operators) == 3
    assert zoo_graph("tiny-uno") == build_graph("tiny-uno")
    assert few.operators == zoo_graph("tiny-uno").operators  # two is its own number


@pytest.mark.parametrize("name", ["mmt-2", "tiny-mmt", "case-study-3-7-4"])
def test_fused_attention_is_for_those_that_have_attention(name: str) -> None:
    matmuls, fused = zoo_graph(name, 2), zoo_graph(name, 2, attention="fused")
    assert (fused.params, heavy_flops(fused)) == (matmuls.params, heavy_flops(matmuls))
    assert len(fused.operators) < len(matmuls.operators)


def test_numbers_of_branches_are_checked() -> None:
    assert in_zoo("mmt-16")
    assert not in_zoo("mmt-17")
    assert not in_zoo("tiny-gpt-2")
    with pytest.raises(InputError, match=re.escape("model 'mmt-17': branches: expected 2 to 16 (got 17)")):
        zoo_graph("mmt-17")
    with pytest.raises(InputError, match=re.escape("unknown model 'candle-un-4'; did you mean candle-uno")):
        zoo_graph("candle-un-4")
    with pytest.raises(InputError, match=re.escape("branches: expected a positive integer (got 0)")):
        CandleUno(branches=0).graph("x")
    with pytest.raises(InputError, match="attention: dlrm-8 has none"):
        zoo_graph("dlrm-8", attention="fused")


Values = Mapping[str, torch.Tensor]


def uno_by_torch(v: Values, branches: int, layers: int) -> torch.Tensor:
    ends: list[torch.Tensor] = []
    for k in range(branches):
        x = v[f"features.{k}"]
        for i in range(layers):
            at = f"branches.{k}.layers.{i}"
            x = F.relu(x @ v[f"{at}.weight"] + v[f"{at}.bias"])
        ends.append(x)
    return F.mse_loss(torch.cat(ends, 1) @ v["head.weight"] + v["head.bias"], v["targets"])


def dlrm_by_torch(v: Values, branches: int, layers: int) -> torch.Tensor:
    ends: list[torch.Tensor] = []
    for k in range(branches):
        x = v[f"dense.{k}"]
        for i in range(layers):
            x = F.relu(x @ v[f"dense.{k}.layers.{i}.weight"] + v[f"dense.{k}.layers.{i}.bias"])
        ends.append(x)
    ends += [F.embedding(v[f"sparse.{k}.rows"], v[f"sparse.{k}.weight"]).flatten(1) for k in range(branches)]
    x = torch.cat(ends, 1)
    for i in range(2):
        x = F.relu(x @ v[f"post.{i}.weight"] + v[f"post.{i}.bias"])
    return F.cross_entropy(x @ v["head.weight"] + v["head.bias"], v["labels"])


def mmt_by_torch(v: Values, branches: int, layers: int) -> torch.Tensor:
    ends: list[torch.Tensor] = []
    for k in range(branches):
        x = v[f"features.{k}"]
        for i in range(layers):
            w = {key.removeprefix(f"branches.{k}.layers.{i}."): value for key, value in v.items()}
            h, heads, size = x.shape[-1], *w["attention.q.weight"].shape[1:]
            y = F.layer_norm(x, (h,), w["norm1.weight"], w["norm1.bias"])
            q, key, value = (
                (y @ w[f"attention.{p}.weight"].reshape(h, -1) + w[f"attention.{p}.bias"].flatten())
                .unflatten(-1, (heads, size)).transpose(1, 2)
                for p in "qkv"
            )  # fmt: skip
            y = F.scaled_dot_product_attention(q, key, value).transpose(1, 2).flatten(2)
            x = x + y @ w["attention.out.weight"].reshape(-1, h) + w["attention.out.bias"]
            y = F.layer_norm(x, (h,), w["norm2.weight"], w["norm2.bias"])
            y = F.gelu(y @ w["mlp.up.weight"] + w["mlp.up.bias"])
            x = x + y @ w["mlp.down.weight"] + w["mlp.down.bias"]
        ends.append(x)
    x = torch.cat(ends, -1).mean(1)
    return F.cross_entropy(x @ v["head.weight"] + v["head.bias"], v["labels"])


@pytest.mark.parametrize(
    ("name", "branches", "layers", "reference"),
    [
        ("tiny-uno", 2, 3, uno_by_torch), ("tiny-uno-3", 3, 3, uno_by_torch), ("tiny-dlrm", 2, 2, dlrm_by_torch),
        ("tiny-mmt", 2, 2, mmt_by_torch), ("tiny-mmt-3", 3, 2, mmt_by_torch),
    ],
)  # fmt: skip
def test_branches_compute_what_torch_computes(name: str, branches: int, layers: int, reference: object) -> None:
    graph = zoo_graph(name, 3)
    draw = torch.Generator().manual_seed(0)
    values: dict[str, torch.Tensor] = {}
    for t in (*graph.inputs, *graph.parameters):
        if t.dtype == "int64":
            values[t.name] = torch.randint(0, 2 if t.name == "labels" else 64, t.shape, generator=draw)
        else:
            values[t.name] = torch.randn(t.shape, generator=draw, dtype=torch.float64)
    leaves = {t.name: values[t.name].requires_grad_() for t in graph.parameters}
    want = reference(values, branches, layers)  # type: ignore[operator]
    made = run(graph, values)["loss"]
    assert torch.allclose(made, want, rtol=1e-12)
    wants, found = (torch.autograd.grad(x, list(leaves.values())) for x in (want, made))
    scale = max(float(a.abs().max()) for a in wants)
    for parameter, a, b in zip(leaves, wants, found, strict=True):
        if not parameter.endswith("attention.k.bias"):  # a softmax does not see what is added to all its scores
            assert float(a.abs().max()) > 1e-6 * scale, parameter
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12 * scale), parameter


def test_builders_take_the_number_of_branches() -> None:
    assert len(MMT(branches=3, layers=1, hidden=8, heads=2, ffn=8, seq=4).graph("a").inputs) == 4
    one = DLRM(branches=2, sparse=1, hidden=8, rows=4, width=2, bag=3).graph("b")
    assert next(op for op in one.operators if op.name == "concat").shape == (1, 2 * 8 + 1 * 3 * 2)
