"""Speed of the configuration search on GPT-3 175B and 64 A100s; printed, not asserted. calculon's search of this case
has 666,368 combinations of its own options and evaluates 51 a CPU second (25,876 of them took 501 CPU seconds)."""

from dataclasses import replace
from itertools import product

from meshwright.planners.megatron import devices_for, model_shape, search
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape

GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
CLUSTER = Cluster(8, 8, "a100-80gb")


def test_one_software(benchmark):
    result = benchmark.pedantic(lambda: search(GPT3, CLUSTER, 64), rounds=3)
    print(f"\n{result.combinations:,} combinations, {result.evaluated:,} evaluated: {result.seconds:.2f} CPU s")
    assert result.combinations == result.evaluated + result.pruned


def test_sixteen_kinds_of_software(benchmark):
    kinds = [
        replace(CORE, name=f"{f}{d}{p}{s}", flash=f, overlap_data=d, overlap_pipeline=p, scatter_gather=s)
        for f, d, p, s in product((True, False), repeat=4)
    ]
    result = benchmark.pedantic(lambda: search(GPT3, CLUSTER, 64, stack=kinds), rounds=3)
    print(f"\n{result.combinations:,} combinations, {result.evaluated:,} evaluated: {result.seconds:.2f} CPU s")
    assert result.combinations == 1_204_224


def test_ten_million_with_experts(benchmark):
    """Combinations per CPU second of a space with experts over that of a dense one: printed, beside the counts."""
    mixtral, qwen = (model_shape(name, 4096) for name in ("mixtral-8x7b-v0.1", "qwen3-235b-a22b"))
    every = dict.fromkeys(("cp", "context", "etp", "overlap_experts", "schedule", "offload_optimizer"), "all")
    dense = search(GPT3, CLUSTER, 64)

    def run():
        wide = search(mixtral, Cluster(8, 8, "h100-80gb"), 256, must_fit=False, **every)
        return wide, search(
            qwen, Cluster(32, 8, "h100-80gb"), 1024, cp=(1, 2, 4, 8), overlap_experts="all", offload_optimizer="all"
        )

    for result in benchmark.pedantic(run, rounds=1):
        ratio = (result.combinations / result.seconds) / (dense.combinations / dense.seconds)
        print(
            f"\n{result.combinations:,} combinations, {result.evaluated:,} evaluated: {result.seconds:.2f} CPU s, "
            f"{ratio:.1f} times the combinations a second of GPT-3's space"
        )
        assert result.combinations > 10_000_000
        assert result.combinations == result.evaluated + result.pruned


def test_many_cluster_sizes(benchmark):
    def run():
        return devices_for(GPT3, CLUSTER, 1536, days=30, tokens=300e9, devices=range(8, 2049, 8))

    found = benchmark.pedantic(run, rounds=1)
    print(f"\n{len(found.tried)} cluster sizes tried, {found.devices} devices will do: {found.days:.1f} days")
    assert found.days <= 30
