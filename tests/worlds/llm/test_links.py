"""`--link`: the link that a case says is what planners, plans and simulations use; what is assumed is said first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_tables import write_layers
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.devices import DEVICES
from meshwright.profiles.hardware import LinkSpec
from meshwright.profiles.llm import Iteration, KernelTables, decoder, iteration_cost
from meshwright.simulator.llm import LLMPlan
from meshwright.simulator.llm.plan.costs import deployment_cost
from meshwright.simulator.llm.plan.entries import ServedModel
from meshwright.worlds.llm.links import link_given, linked

TRAFFIC = ["--lengths", "alpaca", "--rate", "2", "--requests", "20"]
FIXED = ["--planner", "fixed", "--tensor-parallel-size", "2", "--device", "l40s-48gb", "--devices", "4"]
PLAN = ["plan", "llm", "--model", "llama-3.1-8b", *FIXED, *TRAFFIC]
SLOW = LinkSpec(1e9 * 16, 1e-6 * 20)


def planned(path: Path, *more: str) -> LLMPlan:
    assert run([*PLAN, *more, "--out", str(path)]) == 0
    return LLMPlan.load(path)


def simulated(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["simulate", str(path), "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)["plans"][0]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan on the type's own link."""
    path = tmp_path_factory.mktemp("plain") / "p.json"
    planned(path)
    return path


def test_a_plan_holds_the_link_and_its_steps_cost_by_it(tmp_path: Path) -> None:
    plan = planned(tmp_path / "p.json", "--link", "16,20")
    (each,) = plan.deployments
    assert plan.device_of(each).intra_node == SLOW
    spec = DEVICES["l40s-48gb"]
    step, model = Iteration((), 8, 4000, 8), plan.models[0].spec
    by_hand = iteration_cost(model, spec, tp=2, link=SLOW).seconds(step)
    assert deployment_cost(plan, each).seconds(step) == by_hand > iteration_cost(model, spec, tp=2).seconds(step)


def test_simulated_on_another_link_is_planned_on_it(
    tmp_path: Path, plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same figures whether the planner or the simulation is told; slower than on the type's own link."""
    there = tmp_path / "there.json"
    planned(there, "--link", "16,20")
    told = simulated(capsys, there)
    later = simulated(capsys, plain, "--link", "16,20")
    listed = simulated(capsys, plain, "--link", "l40s-48gb=16,20")
    own = simulated(capsys, plain)
    assert later["per_model"] == listed["per_model"] == told["per_model"] != own["per_model"]
    assert told["step_sent_share"]["Llama-3.1-8B"] > own["step_sent_share"]["Llama-3.1-8B"] > 0
    assert told["links"] == later["links"]


def test_what_is_assumed_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    planned(path)
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("ASSUMED: link between l40s-48gb devices of a node: 32 GB/s and 10 us, by the data sheet")
    assert run(["simulate", str(path)]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("ASSUMED: link between l40s-48gb")
    assert "of a step of Llama-3.1-8B rests on links)" in first
    assert run(["simulate", str(path), "--link", "16,20"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("link between l40s-48gb devices of a node: 16 GB/s and 20 us, as cluster.link says (")


def test_engines_of_one_device_send_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    assert run([*PLAN, "--tensor-parallel-size", "1", "--precision", "fp8", "--out", str(path)]) == 0
    assert "link" not in capsys.readouterr().out
    assert simulated(capsys, path)["links"] == []


def test_a_searched_engine_keeps_to_the_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Planner `vllm`, among mixes too: one type's link alone changes."""
    common = ["plan", "llm", "--model", "llama-3.1-8b", *TRAFFIC, "--device", "l40s-48gb", "-o", "tp=2", "-o", "pp=1",
              "-o", "batched_tokens=512", "-o", "seeds=1", "--slo-ttft", "2", "--slo-tpot", "1"]  # fmt: skip
    path = tmp_path / "p.json"
    assert run([*common, "--devices", "2", "--link", "16,20", "--out", str(path)]) == 0
    assert LLMPlan.load(path).cluster_spec.spec.intra_node == SLOW
    assert capsys.readouterr().out.startswith("link between l40s-48gb devices of a node: 16 GB/s and 20 us")
    mixed = [*common, "--devices", "2", "--pools", "h100-80gb=2", "--objective", "cost", "--link", "h100-80gb=16,20"]
    assert run([*mixed, "--out", str(path)]) == 0
    own, other = LLMPlan.load(path).mixed.pools
    assert (own.spec.intra_node, other.spec.intra_node) == (DEVICES["l40s-48gb"].intra_node, SLOW)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("0,14", "cluster.link: expected GB/s above 0 and microseconds from 0 on, like 36.5,14, or a device (got"),
        ("-3,14", "expected GB/s above 0"),
        ("inf,14", "expected GB/s above 0"),
        ("16,nan", "expected GB/s above 0"),
        ("16,-1", "microseconds from 0 on"),
        ("16", "cluster.link: should be text or a mapping"),
        ("h100", "did you mean h100-80gb?"),
        ("h100-80gb=16,20", "cluster.link: no device is a h100-80gb; there are l40s-48gb"),
        ("nothing=16,20", "cluster.link: unknown device 'nothing'"),
    ],
)
def test_wrong_links_are_one_line(said: str, why: str, plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plain
    for words in ([*PLAN, "--link", said], ["simulate", str(path), "--link", said]):
        capsys.readouterr()
        assert run(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert why in line


def test_shipped_types_stand_for_their_links() -> None:
    assert link_given("h100-80gb") == DEVICES["h100-80gb"].intra_node
    with pytest.raises(InputError, match="expected GB/s above 0"):
        link_given("1,2,3")


def test_tables_of_operators_bring_their_links(capsys: pytest.CaptureFixture[str]) -> None:
    tables = str(Path(__file__).parents[2] / "samples" / "kernels" / "a100_sxm")
    assert run([*PLAN, "--device", "a100-80gb", "--kernels", tables, "--link", "16,20"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("meshwright: cluster.link: the kernels of a100-80gb are tables of operators")


def test_a_measured_link_counts_unless_one_is_said(tmp_path: Path, plain: Path) -> None:
    """Tables of layers may hold the link of their machine: it is believed before a data sheet, and after a person."""
    tables = KernelTables.load(write_layers(tmp_path))
    assert tables.layers is not None
    measured = replace(tables, layers=replace(tables.layers, link=LinkSpec(5e9, 1e-4)))
    step = Iteration((), 8, 4000, 8)

    def seconds(plan: LLMPlan, some: KernelTables) -> float:
        pair = plan.deployments[0].model_copy(update={"tp": 1, "pp": 2})
        return deployment_cost(plan, pair, some).seconds(step)

    plan = LLMPlan.load(plain).model_copy(update={"models": (ServedModel.of(decoder("Llama-3.2-1B"), name="x"),)})
    plan = plan.model_copy(update={"deployments": (plan.deployments[0].model_copy(update={"model": "x"}),)})
    said = linked(plan, {"l40s-48gb": SLOW})
    assert seconds(plan, measured) > seconds(said, tables) > seconds(plan, tables)
    assert seconds(said, measured) == seconds(said, tables)
