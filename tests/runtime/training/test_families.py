"""Families of architectures in small: traced, planned, simulated, exported and run on two processes as their modules.

Whole models of timm, torchvision and diffusers: `tests/profiles/graph/trace/test_libraries.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from family_modules import FAMILIES, made
from meshwright.profiles.graph import from_torch
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.export.options import ExportOptions
from meshwright.runtime.export.training.torch.files import torch_files
from meshwright.runtime.training import Own, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.simulator.training.simulate import simulate_training

EXACT, SINGLE = 1e-10, 1e-5
DRAWS = ("drop path",)
ROUNDED = ("swin", "s4")
SLOW = ("tagger", "dense", "vae")


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in FAMILIES])
def test_loss_and_every_gradient_are_the_modules(session: Any, name: str) -> None:
    module, inputs, loss, labels = made(name)
    graph = from_torch(module, inputs, loss=loss, labels=labels, name=name)
    plan = hand_plan(graph, meshes=[(2, 1)], microbatches=2, global_batch=8)
    own = None if name in DRAWS else Own(module=ModuleLoss(module, inputs, loss, labels))
    run = run_training(plan, graph, dtype="float64", compare=True, own=own, session=session)
    assert run.difference.largest < EXACT, run.difference
    assert len(run.gradients) == len([t for t in graph.parameters if t.trainable])
    if name in ROUNDED:
        single = run_training(plan, graph, dtype="float32", own=own, session=session)
        assert single.losses[0] == pytest.approx(run.losses[0], rel=SINGLE)
    assert simulate_training(plan).seconds >= 0.0
    files = torch_files(plan, graph, ExportOptions())
    assert {"plan.json", "graph.json", "train.py"} <= files.keys()
