"""Published runs with experts: the page says the errors that `reproduce.accuracy.published` computes, and what a device
waits for launches, expert by expert."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import meshwright
import pytest
from meshwright.planners.megatron import model_shape
from meshwright.reproduce.accuracy.published import experts, mixtures
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, estimate

PAGE = (Path(meshwright.__file__).parent / "docs" / "training-estimate.md").read_text("utf-8")
PARTS = {mixtures: ("chosen by", "reported, errors known"), experts: ("chosen by", "**reported**")}


@pytest.mark.parametrize("module", PARTS, ids=lambda module: module.__name__.split(".")[-1])
def test_the_page_says_what_is_computed(module):
    lines = PAGE.splitlines()
    for part, points in zip(PARTS[module], module.split(), strict=True):
        for point in points:
            error, _ = point.errors()
            assert error is not None
            said = f"{100 * error:+.1f} %".replace("-", "−")
            [line] = [line for line in lines if line.startswith(f"| {part} | {point.source} | {point.name} |")]
            assert line.endswith(f"| {said} |")


def test_each_run_is_in_one_part():
    for module, count in ((mixtures, 9), (experts, 9)):
        chosen, reported = ({(p.source, p.name) for p in part} for part in module.split())
        assert not chosen & reported
        assert len(chosen) + len(reported) == len(list(module.runs())) == count


def test_a_device_waits_for_launches_of_its_experts_where_nothing_is_dropped():
    shape = replace(model_shape("qwen3-30b-a3b", 4096))
    said = {"tp": 1, "pp": 1, "dp": 8, "microbatch": 1, "global_batch": 64, "zero": 1, "etp": 1, "check_memory": False}

    def waited(ep: int, capacity: float = 0.0, stack=CORE) -> float:
        given = replace(shape, experts=replace(shape.experts, capacity=capacity, imbalance=1.0))
        return estimate(given, Cluster(1, 8, "h100-80gb"), ep=ep, stack=stack, **said).breakdown.time.launch

    one = 8 * shape.layers * sum(CORE.expert_ops) * CORE.op_s  # 8 microbatches
    assert waited(8) == pytest.approx(16 * one)
    assert waited(4) == pytest.approx(32 * one)
    assert waited(8, capacity=1.0) == 0
    assert waited(8, stack=replace(CORE, expert_ops=(0, 0))) == 0
