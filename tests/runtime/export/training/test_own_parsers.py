"""Configurations for nanotron, torchtitan and Megatron-core: what they say, and what the target's own classes read."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.runtime.export.training import export_training
from meshwright.runtime.export.training.megatron import arguments
from meshwright.runtime.export.training.nanotron import configuration
from meshwright.runtime.export.training.torchtitan import parallelism
from meshwright.simulator import Cluster
from meshwright.simulator.plan.clusters import cluster_entry
from meshwright.simulator.training.plan.file import TrainingPlan
from sharded_plans import sharded_plan
from test_uniform import GPT, GROUPED, zero

PLANS: dict[str, TrainingPlan] = {
    "data": sharded_plan(GROUPED, (4,), (4, 1)),
    "zero2": sharded_plan(GROUPED, (4,), (4, 1), stages=zero(2)),
    "zero3": sharded_plan(GROUPED, (4,), (4, 1), stages=zero(3)),
    "tensor": sharded_plan(GROUPED, (4,), (2, 2)),
    "pipeline": sharded_plan(GROUPED, (2, 2), (2, 2)),
}
SIZES = {name: (p.meshes[0].hosts * p.meshes[0].devices * len(p.meshes)) for name, p in PLANS.items()}


def in_its_own(target: str, code: str, *arguments: object) -> Any:
    """What a program prints as JSON, in a process of its own; skipped where the target is not installed."""
    if importlib.util.find_spec(target) is None:
        pytest.skip(f"{target} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("name", [n for n in PLANS if n != "zero3"])
def test_nanotron_is_told_the_plans_degrees(name: str, tmp_path: Path) -> None:
    plan = PLANS[name]
    export_training(plan, "nanotron", tmp_path / "n", graph=GROUPED)
    said = yaml.safe_load((tmp_path / "n" / "config.yaml").read_text())
    way, tokens = said["parallelism"], said["tokens"]
    assert way["dp"] * way["tp"] * way["pp"] == SIZES[name]
    assert tokens["micro_batch_size"] * tokens["batch_accumulation_per_replica"] * way["dp"] == plan.global_batch
    assert said["optimizer"]["zero_stage"] == (1 if name == "zero2" else 0)
    assert said["model"]["model_config"]["num_key_value_heads"] == 2


NANOTRON = """
import json, sys, types
# The wheel of 0.4 imports itself in a circle (config, engine, logging, config): logging is let in first.
stubs = ("nanotron.config", "nanotron.config.config")
for name in stubs:
    sys.modules[name] = stub = types.ModuleType(name)
    stub.LoggingArgs, stub.__path__ = object, []
import nanotron.logging
for name in stubs:
    del sys.modules[name]
from nanotron.config import get_config_from_file
found = get_config_from_file(sys.argv[1])
way = found.parallelism
print(json.dumps([way.dp, way.pp, way.tp, type(way.pp_engine).__name__, way.tp_mode.name, found.global_batch_size,
                  type(found.model.model_config).__name__, found.model.model_config.num_key_value_heads]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero2", "pipeline"])
def test_nanotron_reads_its_configuration(name: str, tmp_path: Path) -> None:
    export_training(PLANS[name], "nanotron", tmp_path / "n", graph=GROUPED)
    found = in_its_own("nanotron", NANOTRON, tmp_path / "n" / "config.yaml")
    dp, pp, tp = (2, 2, 2) if name == "pipeline" else (4, 1, 1)
    engine = "OneForwardOneBackwardPipelineEngine"
    assert found == [dp, pp, tp, engine, "ALL_REDUCE", PLANS[name].global_batch, "LlamaConfig", 2]


@pytest.mark.parametrize("name", PLANS)
def test_torchtitan_is_told_the_plans_degrees(name: str, tmp_path: Path) -> None:
    plan, said = PLANS[name], parallelism(PLANS[name], GROUPED)
    export_training(plan, "torchtitan", tmp_path / "t", graph=GROUPED)
    tree = ast.parse((tmp_path / "t" / "planned.py").read_text())
    called = {n.func.id: n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    written = {k.arg: ast.literal_eval(k.value) for k in called["ParallelismConfig"].keywords}
    training = {k.arg: ast.literal_eval(k.value) for k in called["TrainingConfig"].keywords}
    assert written == said
    replicas = said["data_parallel_replicate_degree"] * said["data_parallel_shard_degree"]
    assert replicas * said["tensor_parallel_degree"] * said["pipeline_parallel_degree"] == SIZES[name]
    assert said["data_parallel_shard_degree"] == (replicas if name.startswith("zero") else 1)
    assert (said["fsdp_reshard_after_forward"] == "always") == (name == "zero3")
    assert plan.global_batch % (training["local_batch_size"] * replicas) == 0
    if name == "pipeline":
        parts = said["module_fqns_per_model_part"]
        assert [len(p) for p in parts] == [3, 4]
        assert parts[0][0] == "tok_embeddings"
        assert parts[1][-2:] == ["norm", "lm_head"]
        samples = said["pipeline_parallel_microbatch_size"] * plan.microbatches
        assert training["local_batch_size"] == samples  # the pipeline's microbatches are those of the plan


TORCHTITAN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from torchtitan.config import ConfigManager
found = ConfigManager().parse_args(["--module", "planned", "--config", "planned"])
from torchtitan.distributed.parallel_dims import ParallelDims
dims = ParallelDims.from_config(found.parallelism, int(sys.argv[2]))
from torchtitan.models.llama3 import Llama3Model
import torch
with torch.device("meta"):
    built = found.model_spec.model.build()
count = sum(p.numel() for p in built.parameters())
print(json.dumps([dims.dp_replicate, dims.dp_shard, dims.tp, dims.pp, found.training.global_batch_size, count]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensor", "zero3", "pipeline"])
def test_torchtitan_reads_its_configuration(name: str, tmp_path: Path) -> None:
    export_training(PLANS[name], "torchtitan", tmp_path / "t", graph=GROUPED)
    found = in_its_own("torchtitan", TORCHTITAN, tmp_path / "t", SIZES[name])
    said = parallelism(PLANS[name], GROUPED)
    degrees = [said[f"{x}_degree"] for x in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel",
                                             "pipeline_parallel")]  # fmt: skip
    assert found[:4] == degrees
    assert found[4] == PLANS[name].global_batch
    assert found[5] == GROUPED.params


MEGATRON = """
import json, sys
from megatron.core.transformer.transformer_config import TransformerConfig
said = json.loads(sys.argv[1])
known = {f.name for f in fields(TransformerConfig)}
found = TransformerConfig(**{k: v for k, v in said.items() if k in known})
print(json.dumps([sorted(set(said) - known), {k: getattr(found, k) for k in said if k in known}]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero2", "tensor", "pipeline"])
def test_megatron_cores_configuration_takes_the_sizes(name: str) -> None:
    """Megatron-LM's parser is in no wheel; the fields that its arguments of the same names fill are core's."""
    said: dict[str, Any] = {}
    for line in arguments(PLANS[name], GROUPED.with_batch(PLANS[name].microbatch)):
        key, _, value = line.removeprefix("--").partition(" ")
        said[key.replace("-", "_")] = int(value) if value.isdigit() else value or True
    unknown, found = in_its_own("megatron", MEGATRON, json.dumps(said))
    assert {k: said[k] for k in found} == found
    assert {"num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size",
            "tensor_model_parallel_size", "pipeline_model_parallel_size"} <= set(found)  # fmt: skip
    assert set(unknown) <= OTHERS


OTHERS = {
    "micro_batch_size", "global_batch_size", "seq_length", "max_position_embeddings", "position_embedding_type",
    "swiglu", "group_query_attention", "disable_bias_linear", "untie_embeddings_and_output_weights", "optimizer",
    "use_distributed_optimizer", "normalization",
}  # fmt: skip
"""Arguments of Megatron-LM that other parts of it read: its data, its optimizer, its model's builder."""


@pytest.mark.parametrize("target", ["nanotron", "torchtitan"])
def test_what_they_cannot_do_is_refused_in_a_line(target: str, tmp_path: Path) -> None:
    def refused(plan: TrainingPlan, graph: Graph, what: str) -> None:
        with pytest.raises(InputError, match=what) as caught:
            export_training(plan, target, tmp_path / "x", graph=graph)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "x").exists()

    plan = PLANS["pipeline"]
    refused(sharded_plan(GPT, (4,), (2, 1)), GPT, "lacks")
    refused(plan.model_copy(update={"schedule": "zb_h1"}), GROUPED, "zb_h1")
    sgd = plan.model.model_copy(update={"optimizer": "sgd"})
    refused(plan.model_copy(update={"model": sgd}), GROUPED, "optimizer sgd")
    other = cluster_entry(Cluster(1, 2, "a100-40gb"))
    refused(plan.model_copy(update={"further_clusters": (other,)}), GROUPED, "one kind of device")
    if target == "nanotron":
        refused(PLANS["zero3"], GROUPED, "ZeRO stage 3")
        uneven = Llama(layers=3, hidden=32, heads=8, kv_heads=2, ffn=64, vocab=64, seq=8, dtype="bfloat16").graph("odd")
        refused(sharded_plan(uneven, (1, 2), (2, 1)), uneven, "shares layers out")
        assert len(configuration(plan, GROUPED)["parallelism"]) == 6
