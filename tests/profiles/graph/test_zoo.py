"""The zoo's parameters are the papers', its FLOPs closed forms, and what is shipped is what is built."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import pytest
from meshwright.errors import InputError
from meshwright.profiles.graph import PAPER_PARAMS, ZOO, Graph, build_graph, zoo_graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.profiles.graph.models.transformer import GPT

# How the tables print their #params, and so by how much rounding moves them: half of the last digit. Table 8's "6.8B"
# is Table 4's 6.7, and Table 6's 350M and 2.6B are names, not roundings: 24 layers of 1024 make 356M, 32 of 2560 2.65B.
ROUNDING = {
    "gpt3-350m": 10e6, "gpt3-1.3b": 0.05e9, "gpt3-2.6b": 0.06e9, "gpt3-6.7b": 0.05e9, "gpt3-15b": 0.5e9,
    "gpt3-39b": 0.5e9, "gshard-moe-380m": 5e6, "gshard-moe-1.3b": 0.05e9, "gshard-moe-2.4b": 0.05e9,
    "gshard-moe-10b": 0.5e9, "gshard-moe-27b": 0.5e9, "gshard-moe-70b": 0.5e9, "wide-resnet-250m": 5e6,
    "wide-resnet-1b": 0.5e9, "wide-resnet-2b": 0.5e9, "wide-resnet-4b": 0.5e9, "wide-resnet-6.8b": 0.1e9,
    "wide-resnet-13b": 0.5e9,
}  # fmt: skip
GPTS = {"350m": (1024, 24), "1.3b": (2048, 24), "2.6b": (2560, 32), "6.7b": (4096, 32), "15b": (5120, 48),
       "39b": (8192, 48)}  # fmt: skip


def heavy_flops(graph: Graph) -> float:
    return sum(op.flops for op in graph.operators if op.heavy)


@pytest.mark.parametrize("name", PAPER_PARAMS)
def test_parameters_are_those_of_the_tables(name: str) -> None:
    assert abs(build_graph(name).params - PAPER_PARAMS[name]) <= ROUNDING[name]


@pytest.mark.parametrize(("size", "h", "layers"), [(s, h, n) for s, (h, n) in GPTS.items()])
def test_gpt_has_the_closed_forms(size: str, h: int, layers: int) -> None:
    vocab, s, batch = 51200, 1024, 4
    graph = zoo_graph(f"gpt3-{size}", batch)
    whole = 72 * batch * layers * s * h**2 * (1 + s / (6 * h) + vocab / (12 * layers * h))
    assert 3 * heavy_flops(graph) == pytest.approx(whole, rel=1e-12)
    per_layer = 12 * h**2 + 13 * h  # weights, biases and norms
    assert graph.params == layers * per_layer + vocab * h + s * h + 2 * h


def test_moe_has_the_closed_forms() -> None:
    h, layers, experts, s, vocab = 1024, 16, 16, 1024, 32000
    graph = zoo_graph("gshard-moe-2.4b", 2)
    tokens, ffn, places = 2 * s, 8 * h, math.ceil(2 * s / experts)
    attention = 2 * tokens * 4 * h * h + 4 * tokens * s * h
    dense = 4 * tokens * h * ffn
    masks = 2 * 2 * tokens * experts * places * h
    moe = 4 * (2 * experts * places) * h * ffn + 2 * tokens * h * experts + masks
    assert heavy_flops(graph) == layers * attention + layers // 2 * (dense + moe) + 2 * tokens * h * vocab
    mlp = 2 * h * ffn + ffn + h
    rest = 4 * h * h + 4 * h + 4 * h
    per_expert = experts * mlp + h * experts
    assert graph.params == layers * rest + layers // 2 * (mlp + per_expert) + vocab * h + s * h + 2 * h


def test_resnet_50_has_its_published_parameters_and_flops() -> None:
    # ResNet-50 has width factor 1 and base 64: 25,557,032 parameters with 1000 classes, 4.09 GMACs at 224 x 224 with
    # the stride in the 3 x 3 convolution (torchvision's figures).
    from meshwright.profiles.graph.models.vision import ResNet

    graph = ResNet(blocks=(3, 4, 6, 3), base=64, width=1, classes=1000).graph("resnet-50")
    assert graph.params == 25_557_032
    assert heavy_flops(graph) / 2 == pytest.approx(4.089e9, rel=1e-3)
    deep = ResNet(blocks=(3, 4, 23, 3), base=64, width=1, classes=1000).graph("resnet-101")
    assert deep.params == 44_549_160


def test_wide_resnet_50_2_of_torchvision_is_another_reading() -> None:
    # Their width factor widens both inner convolutions, and would make 424M parameters of "250M".
    assert build_graph("wide-resnet-250m").params < 260e6


def test_bert_large_and_llama_have_their_published_parameters() -> None:
    assert build_graph("llama-7b").params == 6_738_415_616
    # BERT-large uncased: 335,141,888 with its pooler; here without it, and with the head's dense layer, norm and bias.
    assert build_graph("bert-large").params == 335_141_888 - (1024**2 + 1024) + (1024**2 + 3 * 1024 + 30522)


def test_grouped_queries_share_keys() -> None:
    shape = {"layers": 1, "hidden": 64, "heads": 8, "ffn": 128, "vocab": 32, "seq": 16}
    few, many = Llama(kv_heads=2, **shape).graph("g"), Llama(**shape).graph("m")
    assert many.params - few.params == 2 * 64 * (8 - 2) * 8
    scores = [next(op for op in g.operators if op.name.endswith("scores")) for g in (few, many)]
    assert scores[0].flops == scores[1].flops == 2 * 8 * 16 * 16 * 8


@pytest.mark.parametrize(("size", "heads"), [("350m", 16), ("6.7b", 32), ("39b", 64)])
def test_a_gpt_layer_saves_what_megatron_counts(size: str, heads: int) -> None:
    # Korthikanti et al. (2022), Eq. 1: sbh (34 + 5 as/h) bytes in half precision. Dropout, which the graphs leave out,
    # is 2 sbh of it (two masks) and 3 a s² b (a mask and its result).
    h, s, batch = GPTS[size][0], 1024, 2
    graph = zoo_graph(f"gpt3-{size}", batch)
    saved = {
        op.name if k < 0 else op.inputs[k] for op in graph.operators if op.layer == 3 for k in op.saves
    } - graph.tensors.keys()
    assert sum(graph.bytes_of(name) for name in saved) == s * batch * h * 32 + 2 * heads * s * s * batch
    fused = zoo_graph(f"gpt3-{size}", batch, attention="fused")
    saved = {
        op.name if k < 0 else op.inputs[k] for op in fused.operators if op.layer == 3 for k in op.saves
    } - fused.tensors.keys()
    assert sum(fused.bytes_of(name) for name in saved) == s * batch * h * 32


@pytest.mark.parametrize("name", ["gpt3-1.3b", "llama-7b", "bert-large", "tiny-moe"])
def test_fused_attention_has_the_same_parameters_and_flops(name: str) -> None:
    matmuls, fused = zoo_graph(name, 2), zoo_graph(name, 2, attention="fused")
    assert fused.params == matmuls.params
    assert heavy_flops(fused) == heavy_flops(matmuls)
    assert all(op.kind != "softmax" or op.name.endswith("gate.softmax") for op in fused.operators)


@pytest.mark.parametrize("name", ZOO)
def test_shipped_graphs_are_the_built_ones(name: str) -> None:
    shipped, built = zoo_graph(name), build_graph(name)
    assert shipped.to_json() == built.to_json()
    assert shipped == built
    assert shipped.operators[-1].kind == "loss"
    assert shipped.operators[-1].shape == ()


def test_a_batch_grows_activations_and_no_parameters() -> None:
    one, six = zoo_graph("tiny-resnet"), zoo_graph("tiny-resnet", 6)
    assert six.parameters == one.parameters
    assert [t.shape[0] for t in six.inputs] == [6, 6]
    for a, b in zip(one.operators, six.operators, strict=True):
        assert b.flops == (6 * a.flops)
        assert b.bytes == (a.bytes if a.kind == "loss" else 6 * a.bytes)
    assert six.with_batch(1) == one
    assert six.digest == one.digest


@pytest.mark.parametrize(
    ("name", "near"), [("gpt3-39", "gpt3-39b"), ("GPT3-6.7B", "gpt3-6.7b"), ("wideresnet-1b", "wide-resnet-1b")]
)
def test_an_unknown_name_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"unknown model {name!r}; did you mean {near}")):
        zoo_graph(name)
    with pytest.raises(InputError, match="known: gpt3-350m"):
        zoo_graph("???")


def test_wrong_shapes_have_one_clear_line() -> None:
    with pytest.raises(InputError, match=r"heads: expected a divisor of hidden 64 \(got 7\)"):
        GPT(layers=1, hidden=64, heads=7, vocab=8, seq=4).graph("g")
    with pytest.raises(InputError, match=r"attention: expected 'matmuls' or 'fused' \(got 'flash'\)"):
        zoo_graph("tiny-gpt", attention="flash")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="attention: tiny-mlp has none"):
        zoo_graph("tiny-mlp", attention="fused")
    with pytest.raises(InputError, match="batch: expected a positive integer"):
        zoo_graph("tiny-mlp", 0)


def test_planning_graphs_need_no_torch() -> None:
    code = (
        "import sys; from meshwright.profiles.graph import zoo_graph; "
        "zoo_graph('tiny-gpt', 4); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
