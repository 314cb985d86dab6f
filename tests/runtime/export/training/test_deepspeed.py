"""What is exported for DeepSpeed is what its own `DeepSpeedConfig` takes, started as the exported README says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from meshwright.profiles.graph import Graph
from meshwright.runtime.export.training import export_training
from meshwright.simulator.training.plan.file import TrainingPlan
from sharded_plans import sharded_plan
from test_uniform import GPT, GROUPED, PLANS, zero

CASES: dict[str, tuple[TrainingPlan, Graph]] = {
    **{name: PLANS[name] for name in ("zero2", "zero3", "unequal", "experts")},
    "tensor": (sharded_plan(GROUPED, (4,), (2, 2)), GROUPED),
    "tensor only": (sharded_plan(GPT, (4,), (1, 4)), GPT),
    "data": (sharded_plan(GPT, (4,), (4, 1)), GPT),
    "zero3 on 4": (sharded_plan(GPT, (4,), (4, 1), stages=zero(3)), GPT),
    "pipeline": (sharded_plan(GPT, (2, 2), (1, 1)), GPT),
    "sgd": (sharded_plan(GPT, (4,), (2, 1)).model_copy(
        update={"model": sharded_plan(GPT, (4,), (2, 1)).model.model_copy(update={"optimizer": "momentum"})}), GPT),
}  # fmt: skip


def exported(name: str, folder: Path) -> tuple[dict[str, Any], int]:
    """The configuration, and the processes that the command of its README starts."""
    plan, graph = CASES[name]
    export_training(plan, "deepspeed", folder, graph=graph)
    nodes, each = map(int, re.findall(r"--num_(?:nodes|gpus) (\d+)", (folder / "README.md").read_text()))
    return json.loads((folder / "ds_config.json").read_text()), nodes * each


@pytest.mark.parametrize("name", CASES)
def test_the_batch_is_what_deepspeed_checks(name: str, tmp_path: Path) -> None:
    """DeepSpeedConfig._batch_assertion and _set_batch_related_parameters, of 0.14 to 0.19, with the world started."""
    said, world = exported(name, tmp_path / "d")
    plan = CASES[name][0]
    micro, times = said["train_micro_batch_size_per_gpu"], said["gradient_accumulation_steps"]
    assert world == sum(m.hosts * m.devices for m in plan.meshes)
    assert said.get("train_batch_size", micro * times * world) == micro * times * world
    assert plan.global_batch % (micro * times) == 0
    assert world % (plan.global_batch // (micro * times)) == 0  # the data-parallel groups are a part of the world
    assert "train_batch_size" in said or plan.global_batch < micro * times * world
    assert not (said.get("fp16", {}).get("enabled") and said.get("bf16", {}).get("enabled"))


REAL = """
import sys, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=0, world_size=int(sys.argv[1]), store=FakeStore())
import deepspeed
from deepspeed.runtime.config import DeepSpeedConfig
deepspeed.init_distributed(dist_init_required=False)
c = DeepSpeedConfig(sys.argv[2])
print("took", c.world_size, c.train_micro_batch_size_per_gpu, c.gradient_accumulation_steps,
      c.optimizer_name, c.zero_optimization_stage, c.train_batch_size)
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None,
                    reason="deepspeed is not installed; the rule that it checks is tested above")  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_deepspeeds_own_class_takes_it(name: str, tmp_path: Path) -> None:
    said, world = exported(name, tmp_path / "d")
    ran = subprocess.run(
        [sys.executable, "-c", REAL, str(world), str(tmp_path / "d" / "ds_config.json")],
        capture_output=True, text=True, env=os.environ | {"DS_ACCELERATOR": "cpu"}, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    line = next(x for x in ran.stdout.splitlines() if x.startswith("took "))
    micro, times = said["train_micro_batch_size_per_gpu"], said["gradient_accumulation_steps"]
    stage, kind = said["zero_optimization"]["stage"], said["optimizer"]["type"].lower()
    assert line.lower().split()[1:] == [str(x) for x in (world, micro, times, kind, stage, micro * times * world)]
