"""docs/training-plans.md names every planner and target, and its lines of code are those that exports write."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from hand_plans import hand_plan
from meshwright.planners.alpa import BASELINES, AlpaOptions
from meshwright.planners.training import TRAINING_PLANNERS, training_planner
from meshwright.runtime.export.training import TRAINING_TARGETS
from meshwright.runtime.export.training.torch import chain_files
from meshwright.simulator.training.plan.file import OperatorEntry
from meshwright.simulator.training.plan.layers import blocks

PAGE = (Path(__file__).resolve().parents[3] / "docs/training-plans.md").read_text(encoding="utf-8")


def test_planners_and_targets_are_named() -> None:
    pipelines = {"terapipe", "graphpipe", "pipedream", "piper"}
    assert set(TRAINING_PLANNERS) == {"alpa", *BASELINES, *pipelines}
    assert {name: training_planner(name) for name in BASELINES} == dict(BASELINES)
    table = PAGE.partition("| `--planner` | |")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z0-9-]+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert named == sorted(TRAINING_PLANNERS, key=named.index)
    for target in TRAINING_TARGETS:
        assert f"--to {target}" in PAGE


def test_options_are_fields() -> None:
    known = {f.name for f in fields(AlpaOptions)} | {"layers"}
    said = PAGE.partition("`planners.alpa.AlpaOptions`:")[2].partition("\n\n")[0]
    names = re.findall(r"`(\w+)=", said)
    assert len(names) >= 4
    assert set(names) <= known


def test_the_lines_of_torch_are_what_is_written() -> None:
    from meshwright.planners.alpa import plan as alpa
    from meshwright.profiles.graph.models.language import Llama
    from meshwright.simulator import Cluster

    graph = Llama(layers=1, hidden=16, heads=4, ffn=32, vocab=32, seq=4, dtype="float32").graph("small")
    plan = alpa(graph, Cluster(1, 4, "cpu-core"), global_batch=4, microbatches=2, options={"stages": "one"})
    cut = OperatorEntry(axes=("b", "n"), result="S0RS1R", operands=("S0RR", "RS1R"))
    stage = plan.stages[0]
    kept = stage.parameters | {"layers.0.attention.q.weight": "RS1R"}
    stage = stage.model_copy(
        update={"logical": (2, 2), "operators": stage.operators | {"layers.0.attention.q": cut}, "parameters": kept}
    )
    plan = plan.model_copy(update={"stages": (stage,)})
    text = chain_files(plan, graph.with_batch(plan.microbatch))["stages.py"].text
    snippet = PAGE.partition("```python\nlayers_0_attention_q = ")[2].partition("```")[0].strip()
    written = text.partition("layers_0_attention_q = ")[2].partition("\n        )")[0] + "\n)"
    assert " ".join(snippet.split()) == " ".join(written.split())


def test_numbers_that_are_not_the_layers_fold_too() -> None:
    """Wide-ResNet's layers are numbered through, its names by stage and block."""
    from meshwright.profiles.graph import zoo_graph

    graph = zoo_graph("tiny-resnet")
    operators = {
        op.name: OperatorEntry(axes=("", ""), result="R" * len(op.shape), operands=tuple("R" for _ in op.inputs))
        for op in graph.operators
    }
    stage = hand_plan().stages[0].model_copy(update={"operators": operators, "parameters": {}})
    found = [block for block in blocks(stage, graph) if block.layers]
    assert sum(len(block.layers) for block in found) == len({op.layer for op in graph.operators if op.layer >= 0})
    assert all(plain.startswith("*.") for block in found for _, plain, _ in block.operators)
    assert {plain for block in found for _, plain, _ in block.operators} >= {"*.conv1", "*.conv2", "*.conv3"}
