"""The training world: what a case says is what is planned and simulated, and nothing else moves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright import studies
from meshwright.errors import InputError
from meshwright.planners.bisection import Bisection
from meshwright.planners.megatron import model_shape, search
from meshwright.planners.training import training_planner
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.hardware import device
from meshwright.simulator import Cluster
from meshwright.simulator.training import simulate_training
from meshwright.studies import Session
from meshwright.studies.questions import cheapest
from meshwright.worlds.fields import set_fields
from meshwright.worlds.outcome import Outcome
from meshwright.worlds.training.case import TrainingCase
from meshwright.worlds.training.clusters import cluster_of
from meshwright.worlds.training.solve import plan, solve
from meshwright.worlds.training.world import WORLD
from pydantic import ValidationError

BASE: dict[str, Any] = {"cluster": {"devices": 2}, "model": "tiny-gpt", "workload": {"global_batch": 8}, "planner": {
    "name": "data"}}  # fmt: skip
DECODER = "layers=4,hidden=256,heads=4,vocab=1024,seq=128"
SEARCH: dict[str, Any] = {"model": DECODER, "planner__name": "search"}


def case_of(**fields: Any) -> TrainingCase:
    """The base case with other fields, given as ``workload__slo=…``."""
    said = json.loads(json.dumps(BASE))
    for name, value in fields.items():
        *inner, last = name.split("__")
        place = said
        for step in inner:
            place = place.setdefault(step, {})
        place[last] = value
    return TrainingCase.model_validate_json(json.dumps(said), strict=True)


def evaluate(folder: Path = Path(), **fields: Any) -> Outcome:
    case = case_of(**fields)
    return WORLD.evaluate(case, WORLD.share([case], folder))


def complaints(folder: Path = Path(), **fields: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        WORLD.share([case_of(**fields)], folder)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name", ["data", "megatron", "pipedream"])
def test_a_case_is_the_planner_called_by_hand(name: str) -> None:
    case = case_of(planner__name=name, planner__options={"memory_fraction": 0.5}, workload__microbatches=2)
    solved = solve(case, WORLD.share([case], Path()))
    by_hand = training_planner(name)(
        zoo_graph("tiny-gpt"), Cluster(1, 2, "v100-16gb"), global_batch=8, microbatches=2,
        options={"memory_fraction": 0.5},
    )  # fmt: skip
    assert solved.plan.stages == by_hand.stages
    assert solved.result.seconds == simulate_training(by_hand).seconds
    assert solved.tokens == 16


def test_the_search_is_its_estimate() -> None:
    # Without a pipeline: of uneven stages (the output layer's) the closed form is up to a bubble's worth above.
    case = case_of(**SEARCH, cluster__memory="4 GiB", planner__options={"zero": [0, 1], "pp": 1})
    shared = WORLD.share([case], Path())
    best = search(model_shape(DECODER), cluster_of(case), 8, zero=(0, 1), pp=1, memory=2**32, top=1).best[0]
    outcome = WORLD.evaluate(case, shared)
    assert outcome.metrics["iteration_s"] == pytest.approx(best.seconds, rel=1e-9)
    assert outcome.metrics["mfu"] == pytest.approx(best.mfu, rel=1e-9)
    assert outcome.metrics["tokens_per_s"] == pytest.approx(8 * 128 / best.seconds)
    made = plan(case, shared)
    assert made.planner.name == "search"
    assert simulate_training(made).seconds == outcome.metrics["iteration_s"]


def test_limits_are_what_attainment_asks_for() -> None:
    took = evaluate(**SEARCH).metrics["iteration_s"]
    assert "attainment" not in evaluate(**SEARCH).metrics
    assert any("no attainment" in note for note in evaluate(**SEARCH).notes)
    run = {"workload__run_samples": 8000, "workload__deadline": 1001 * took}
    for fields, kept in (
        ({"workload__slo": took}, 1), ({"workload__slo": 0.99 * took}, 0), (run, 1),
        ({**run, "workload__slo_scale": 0.9}, 0), ({**run, "workload__slo": 0.5 * took}, 0),
        ({"workload__slo": 0.5 * took, "workload__slo_scale": 2.0}, 1),
    ):  # fmt: skip
        metrics = evaluate(**SEARCH, **fields).metrics
        assert metrics["attainment"] == kept, fields
        assert metrics["goodput"] == pytest.approx(kept * 8 / took)
    metrics = evaluate(**SEARCH, **run, cluster__price_per_hour=3600.0).metrics
    assert metrics["run_days"] == pytest.approx(1000 * took / 86400)
    assert metrics["run_cost"] == pytest.approx(2 * 1000 * took)
    assert metrics["cost_per_sample"] == pytest.approx(2 * took / 8)


def test_what_if_moves_the_way_it_must() -> None:
    """Slower links, slower devices, more layers and a larger batch take no less time; more memory no more."""
    slow = {"cluster__device": "a100-80gb", "cluster__devices": 4, "cluster__devices_per_node": 2, **SEARCH}
    base = evaluate(**slow).metrics["iteration_s"]
    assert evaluate(**slow, cluster__link_scale=0.01).metrics["iteration_s"] > base
    assert evaluate(**slow, cluster__inter_node_bandwidth="1 Mbit/s").metrics["iteration_s"] > base
    assert evaluate(**slow, speed={"a100-80gb": 0.01}).metrics["iteration_s"] > base
    assert evaluate(**slow, speed={"h100-80gb": 0.01}).metrics["iteration_s"] == base
    assert evaluate(**slow, shape__layers=64).metrics["iteration_s"] > 1.5 * base
    assert evaluate(**slow, workload__global_batch=800).metrics["iteration_s"] > base
    assert evaluate(**slow, workload__sequence=4096).metrics["iteration_s"] > base
    assert evaluate(**slow, cluster__memory="320 GiB").metrics["iteration_s"] <= base
    assert evaluate(**slow, cluster__memory="320 GiB").metrics["memory_headroom"] > evaluate(**slow).metrics[
        "memory_headroom"]  # fmt: skip


def test_sizes_reach_graphs_of_the_zoo() -> None:
    case = case_of(shape__layers=6, shape__hidden=64, workload__sequence=32)
    shared = WORLD.share([case], Path())
    graph = shared.graph_of(case)
    assert (graph.name, graph.items_per_sample) == ("tiny-gpt-layers6-hidden64-seq32", 32)
    assert graph.params > 3 * zoo_graph("tiny-gpt").params
    assert WORLD.evaluate(case, shared).metrics["tokens_per_s"] > 0


def test_the_cluster_is_what_the_case_says() -> None:
    case = case_of(
        cluster__devices=12, cluster__memory="20 GiB", cluster__intra_node_bandwidth="100 GB/s",
        cluster__inter_node_bandwidth="40 Gbit/s", cluster__link_scale=0.5, speed={"v100-16gb": 2.0},
    )  # fmt: skip
    cluster, spec = cluster_of(case), device("v100-16gb")
    assert (cluster.nodes, cluster.devices_per_node) == (2, 6)
    assert cluster.spec.memory_bytes == 20 * 2**30
    assert cluster.spec.intra_node.bandwidth_bytes_per_s == 50e9
    assert cluster.spec.inter_node.bandwidth_bytes_per_s == 2.5e9
    assert cluster.spec.peak_flops == 2 * spec.peak_flops
    assert cluster_of(case_of()) == Cluster(1, 2, "v100-16gb")


def test_what_no_planner_sees_shares_a_plan() -> None:
    fields = {"workload__slo": 1.0, "cluster__price_per_hour": 9.0, "planner__label": "x", "seed": 7}
    shared = WORLD.share([case_of()], Path())
    assert plan(case_of(), shared) is plan(case_of(**fields), shared)
    assert plan(case_of(), shared) is not plan(case_of(planner__options={"zero": 3}), shared)


def test_no_room_is_infeasible_and_says_what_would_help() -> None:
    for fields in ({}, {"planner__name": "search"}):
        outcome = evaluate(**{**fields, "model": "gpt3-39b", "cluster__devices": 1, "workload__global_batch": 1})
        assert outcome.status == "infeasible"
        assert "GiB" in outcome.error
        assert "devices" in outcome.error
    outcome = evaluate(**SEARCH, cluster__devices=7)  # 7 divides nothing
    assert outcome.status == "infeasible"
    outcome = evaluate(planner__name="inter-only", cluster__devices=3)
    assert (outcome.status, "power of two" in outcome.error) == ("infeasible", True)
    assert evaluate(planner__name="terapipe", cluster__devices=3).status == "infeasible"


NET = """\
from torch import nn, randn, zeros, int64
def net():
    module = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    return {"module": module, "inputs": (randn(2, 8),), "loss": "cross_entropy", "labels": zeros(2, dtype=int64)}
"""


def test_a_module_is_traced_where_the_study_lies_and_its_content_tells_points_apart(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET.replace("WIDTH", "16"))
    case = case_of(model="net.py:net")
    shared = WORLD.share([case], tmp_path)
    assert WORLD.evaluate(case, shared).status == "ok"
    first = WORLD.digests(case, shared)
    (tmp_path / "net.py").write_text(NET.replace("WIDTH", "32"))
    again = WORLD.share([case], tmp_path)
    assert first.keys() == {"net.py:net"}
    assert WORLD.digests(case, again) != first
    assert plan(case, again) is not plan(case, shared)
    (line,) = complaints(tmp_path, model="net.py:net", shape__layers=3)
    assert line.startswith("model: shape.layers: net.py:net has sizes of its own")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"planner__name": "alpha"}, "planner.name: 'alpha' plans no training; did you mean 'alpa'?"),
        ({"planner__name": "alpaserve"}, "planner.name: 'alpaserve' plans no training"),
        ({"planner__options": {"memory_fracton": 1}}, "planner.options: .*did you mean 'memory_fraction'?"),
        ({"planner__options": {"zero": 7}}, "planner.options: alpa: zero: expected 0, 2 or 3"),
        ({"model": "gpt3-1.4b"}, "model: unknown model 'gpt3-1.4b'; did you mean gpt3-1.3b?"),
        ({"model": "nowhere.py:net"}, "model: .*nowhere.py: no such file"),
        ({"cluster__device": "v100-61gb"}, "cluster: unknown device 'v100-61gb'; did you mean"),
        ({"cluster__device": "v100"}, "cluster: unknown device 'v100'; several begin so: v100-16gb, v100-32gb"),
        ({"kernels": "folder"}, "kernels: are for planner search, not for 'data'"),
        ({"shape__experts": 4}, "model: 'tiny-gpt': has no size 'experts'"),
        (
            {**SEARCH, "planner__options": {"tpp": 1}},
            "planner.options: search: unknown option 'tpp'; did you mean 'tp'?",
        ),
        ({**SEARCH, "planner__options": {"recompute": "ful"}}, "planner.options: search: recompute: expected some of"),
        ({**SEARCH, "workload__microbatches": 2}, "workload.microbatches: planner search chooses them"),
        ({**SEARCH, "shape__experts": 2}, "model: shape.experts: planner search models no experts"),
        ({**SEARCH, "shape__heads": 7}, "model: model.heads: expected a divisor of hidden 256"),
        ({**SEARCH, "model": "gpt-5"}, "model: .*gpt-5"),
        ({**SEARCH, "kernels": "nowhere"}, "kernels: .*nowhere"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_its_field(fields: dict[str, Any], said: str) -> None:
    import re

    (line,) = complaints(**fields)
    assert re.match(said.replace("?", r"\?"), line), line


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cluster__memory": "32"}, "expected bytes"),
        ({"cluster__memory": 32}, "greater than or equal to 1048576"),
        ({"cluster__inter_node_bandwidth": "25 GB"}, "expected bytes per second"),
        ({"workload__deadline": "3 weeks", "workload__run_samples": 9}, "expected seconds"),
        ({"workload__deadline": 5.0}, "Give run_samples"),
        ({"workload__microbatches": 3}, "3 do not divide the global batch of 8; the nearest that do: 2"),
        ({"workload__global_batch": 10**9}, "less than or equal to 10000000"),
        ({"cluster__devices": 10**6}, "less than or equal to 100000"),
        ({"cluster__link_scale": 0.0}, "greater than or equal to"),
    ],
)
def test_a_field_of_a_wrong_unit_or_size_is_refused_at_once(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        case_of(**fields)


STUDY = f"""\
study: 1
world: training
cluster: {{devices: 4, device: a100-80gb}}
model: "{DECODER}"
workload: {{global_batch: 64, slo: 0.0085}}
planners: [search]
questions:
  - {{find: fewest devices, target: 100 %, step: 2, high: 9}}
  - {{find: what breaks first, target: 100 %, factors: [slo, links], changes: [10 %], replan: true}}
  - {{find: headroom, target: 100 %}}
"""


def run_study(path: Path) -> None:
    with Session.open(studies.load(path)) as session:
        session.run()


def test_questions_of_a_study_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    with Session.open(studies.load(path)) as session:
        session.run()
        answers = session.answers
    assert not [a.error for a in answers if a.error]
    fewest, breaks, headroom = answers[0], answers[1], answers[-1]
    tried = {point.value for point in fewest.probes}
    assert fewest.value in (2, 4, 6, 8)
    assert tried <= {2, 4, 6, 8}
    assert breaks.short.startswith("breaks first with")
    assert "the SLO of today" in headroom.sentence
    took = evaluate(**{**SEARCH, "workload__global_batch": 64, "cluster__devices": 4, "cluster__device": "a100-80gb"})
    assert headroom.value == pytest.approx(took.metrics["iteration_s"], rel=0.03)


def test_plans_that_cannot_be_kept_are_said_to(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    for old, new, said in (
        (", replan: true", "", "cannot be kept .* set replan: true"),
        ("find: headroom", "find: headroom, plan: p.json", "name no plan file"),
        ("find: headroom", "find: headroom, of: [rate]", "headroom"),
    ):
        path.write_text(STUDY.replace(old, new))
        with pytest.raises(InputError, match=said):
            run_study(path)


def test_devices_come_in_steps() -> None:
    for step in (1, 2, 8, 16):
        for need in range(1, 129):
            rule, known = Bisection(step, 128 // step * step, "low", 0.0, True, step=step), dict[float, bool]()
            while (value := rule.next(known)) is not None:
                assert value % step == 0
                known[value] = value >= need
            assert rule.reached(known) == -(-need // step) * step


@pytest.mark.parametrize(
    ("world", "rest"),
    [
        ("llm", "workload: {rate: 4, requests: 10, lengths: alpaca, slo_ttft: 1}\nplanners: [fixed]\n"),
        ("training", "workload: {global_batch: 8, slo: 1}\nplanners: [data]\n"),
        ("serving", "models: {bert-1.3b: 1}\nworkload: {rate: 4, duration: 5}\n"),
    ],
)
def test_the_cheapest_cluster_may_be_of_another_type_in_every_world(tmp_path: Path, world: str, rest: str) -> None:
    path = tmp_path / "s.yaml"
    ask = "question: {find: cheapest cluster, devices: [a100-80gb, h100-80gb], high: 2}\n"
    path.write_text(f"study: 1\nworld: {world}\ncluster: {{devices: 1, device: a100-80gb}}\n{rest}{ask}")
    study = studies.load(path)
    for found in cheapest.searches(study, study.questions[0]):
        assert set_fields(study.base, found.quantity.values(2)).cluster.devices == 2


def test_panels_draw_the_plan_the_iteration_and_the_memory() -> None:
    case = case_of(planner__name="pipedream", cluster__devices=4)
    panels = WORLD.panels(case, WORLD.share([case], Path()))
    assert [panel.title for panel in panels] == ["Plan", "One iteration", "Memory"]
    for panel in panels:
        assert "<script" not in panel.body
        assert "planned in" not in panel.body  # seconds of this machine are no part of an answer
    assert panels[1].body.count('<div class="row lane">') == len(solve(case, WORLD.share([case], Path())).plan.meshes)
