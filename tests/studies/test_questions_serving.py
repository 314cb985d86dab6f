"""Questions about the serving world: against exhaustive scans, the planner's own inverse questions, queueing theory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from meshwright import profiles, traces
from meshwright.errors import InputError
from meshwright.planners import alpaserve
from meshwright.simulator import Cluster
from meshwright.simulator.serving.queueing import md1
from meshwright.studies import Session, Study

BASE = {
    "study": 1, "name": "questions", "cluster": {"devices": 6}, "models": {"bert-1.3b": 6},
    "workload": {"rate": 8, "cv": 3, "duration": 40, "slo_scale": 5}, "planners": ["selective-replication"],
}  # fmt: skip


def session(tmp_path: Path | None = None, **more) -> Session:
    said = {key: {**BASE[key], **value} if key == "workload" else value for key, value in more.items()}
    return Session.open(Study.from_dict(BASE | said, tmp_path or "."))


def ask(tmp_path: Path | None = None, **more):
    with session(tmp_path, **more) as running:
        running.run()
        return running.answers, running.frame()


def mean(running: Session, **values) -> float:
    replications = range(running.study.replications)
    points = [running.ask(values, None, r) for r in replications]
    return sum(o.metrics.get("attainment", 0.0) for _, o in running.evaluate(points)) / len(points)


def test_fewest_devices_and_highest_rate_against_trying_all():
    questions = [
        {"find": "fewest devices", "target": 0.97, "high": 10},
        {"find": "highest rate", "target": 0.97, "low": 2, "high": 40, "tolerance": 0.1},
    ]
    (fewest, rate), _ = ask(questions=questions, replications=3)
    with session(replications=3) as running:
        scanned = {n: mean(running, devices=n) for n in range(1, 11)}
        assert all(scanned[n] >= 0.97 for n in range(int(fewest.value), 11))
        assert fewest.value == 1 or scanned[fewest.value - 1] < 0.97
        assert fewest.estimate.mean == pytest.approx(scanned[fewest.value], abs=1e-12)
        assert fewest.low <= fewest.value <= fewest.high
        rates = [2 * 20 ** (k / 20) for k in range(21)]
        fine = [mean(running, rate=r) >= 0.97 for r in rates]
    # Attainment need not be monotone: the answer is an edge of the scan, and nothing misses far below it.
    assert any(
        a and not b and low / 1.2 <= rate.value <= high * 1.2
        for low, high, a, b in zip(rates, rates[1:], fine, fine[1:], strict=False)
    )


def test_the_same_as_the_planners_own_questions_of_one_trace():
    models = profiles.load("alpaserve-v100").instances({"bert-1.3b": 6})
    slo = 5 * models["bert-1.3b-0"].single_device_latency()
    trace = traces.gamma(8, 3, 40, list(models), slo=slo, seed=0)
    options = {"planner": alpaserve.selective_replication, "overhead": models.overhead_s}
    own = alpaserve.fewest_devices(list(models), trace, models, high=10, target=0.97, **options)
    tight = alpaserve.tightest_slo(
        Cluster.of(6, "v100-16gb"), list(models), trace, models, low=0.625, high=40, target=0.97, **options
    )
    questions = [{"find": "fewest devices", "target": 0.97, "high": 10}, {"find": "tightest slo", "target": "97 %"}]
    (fewest, slo_scale), _ = ask(questions=questions)
    assert fewest.value == own.value
    assert slo_scale.value == tight.value
    assert [p.value for p in fewest.probes] == [p.value for p in own.probes]


def test_mean_latency_of_one_device_against_md1():
    """One model on one device, Poisson, everything admitted: the rate at which the mean time is 1.5 services."""
    service = profiles.load("alpaserve-v100")["bert-1.3b"].single_device_latency()
    exact = 0.5 / service  # md1 says: D + x D / (2 (1 - x)) = 1.5 D at x = 1/2
    assert md1(exact, service) == pytest.approx(1.5 * service)
    (answer,), _ = ask(
        cluster={"devices": 1}, models={"bert-1.3b": 1}, serving={"admission": False, "overhead": 0},
        workload={"rate": 1, "cv": 1, "duration": 3000}, replications=8,
        question={
            "find": "highest rate", "metric": "mean_latency", "at_most": 1.5 * service, "tolerance": 0.005,
            "low": 0.1 / service, "high": 0.9 / service,
        },
    )  # fmt: skip
    assert answer.low <= exact <= answer.high
    assert answer.high / answer.low < 1.1


def test_cheapest_cluster_is_the_fewest_devices_times_their_price():
    common = {"find": "cheapest cluster", "devices": ["v100-16gb", "a100-40gb"], "target": 0.97, "high": 10}
    more = {"speed": {"a100-40gb": 2.0}, "replications": 2}
    (best, *parts), frame = ask(question=common | {"prices": {"a100-40gb": 6.0}}, **more)
    assert [a.part for a in (best, *parts)] == [False, True, True]
    costs = {name: part.value * price for (name, price), part in zip(
        {"v100-16gb": 3.06, "a100-40gb": 6.0}.items(), parts, strict=True)}  # fmt: skip
    assert best.value == pytest.approx(min(costs.values()))
    assert min(costs, key=costs.get) in best.sentence.split(" per hour")[0]
    priced = frame[frame["cluster.device"] == "a100-40gb"]
    assert (priced["cost_per_hour"] == 6.0 * priced["n_devices"]).all()
    (fewest,), _ = ask(question={"find": "fewest devices", "target": 0.97, "high": 10}, replications=2)
    assert parts[0].value == fewest.value
    tie = 3.06 * parts[0].value / parts[1].value
    (best, *_), _ = ask(question=common | {"prices": {"a100-40gb": tie}}, **more)
    assert "which cost the same" in best.sentence


def test_what_breaks_first_keeps_the_base_cases_plan():
    factors = ["rate", "slo", "speed", "devices", "device fails"]
    (summary, *parts), frame = ask(
        question={"find": "what breaks first", "target": 0.9, "factors": factors}, replications=2,
        workload={"rate": 6}, planners=["alpaserve"],
    )  # fmt: skip
    assert summary.value == 0 or sorted(p.quantity for p in parts) == sorted(
        ["workload.rate_scale", "workload.slo_scale", "speed.v100-16gb", "cluster.devices", "planner.lost_groups"]
    )
    ranked = [abs(p.change) for p in parts if p.change is not None]
    assert ranked == sorted(ranked)
    assert ranked[0] == pytest.approx(summary.value)
    # The plan is the base case's, whatever the rate; a plan made anew would differ.
    base = frame[frame.replication == 0].decision.iloc[0]
    kept = frame[(frame.replication == 0) & (frame["workload.rate_scale"] > 1)]
    assert len(kept) > 3
    assert set(kept.decision) == {base}
    changes = {(e.factor, e.change): e.estimate.mean for e in summary.table}
    assert changes["rate", 0.25] <= changes["rate", -0.25]
    assert changes["slo", -0.25] <= changes["slo", 0.25]
    assert ("device fails", pytest.approx(-1 / 6)) in list(changes)


def test_what_breaks_first_can_plan_anew():
    asked = {"find": "what breaks first", "target": 0.9, "factors": ["rate"], "changes": [], "limit": 8}
    (kept, _), _ = ask(question=asked, planners=["alpaserve"], workload={"rate": 6})
    (anew, _), frame = ask(question=asked | {"replan": True}, planners=["alpaserve"], workload={"rate": 6})
    assert len(set(frame.decision)) > 1
    assert anew.value >= kept.value * 0.98
    assert "planned anew" in anew.sentence


@pytest.fixture
def measured(tmp_path):
    """A trace and a plan for it, as files."""
    models = profiles.load("alpaserve-v100").instances({"bert-1.3b": 6})
    trace = traces.gamma(8, 2, 240, list(models), seed=3)
    traces.write(trace, tmp_path / "requests.csv")
    planned = trace.with_slo_scale(5, models)
    plan = alpaserve.plan(Cluster.of(6, "v100-16gb"), list(models), planned, models, overhead=models.overhead_s)
    plan.save(tmp_path / "plan.json")
    return tmp_path


def test_headroom_of_a_plan_file_and_of_the_planner_agree(measured):
    workload = {"trace": "requests.csv", "resample": True, "slo_scale": 5}
    both = [{"find": "headroom", "target": 0.95, "of": ["rate", "slo"]}]
    both.append(both[0] | {"plan": "plan.json"})
    said = BASE | {"workload": workload, "planners": ["alpaserve"], "replications": 2, "questions": both}
    with Session.open(Study.from_dict(said, measured)) as running:
        running.run()
        rate, slo, rate_of_file, slo_of_file = running.answers
        frame = running.frame().loc[len(running.study) :]  # the points of the questions
    assert (rate.value, slo.value) == (rate_of_file.value, slo_of_file.value)
    assert rate_of_file.planner == "plan.json"
    assert "× the rate of today" in rate.sentence
    assert len(set(frame.decision)) == 1
    assert set(frame["workload.resample"]) == {True}
    with (
        pytest.raises(InputError, match=r"missing\.json"),
        Session.open(Study.from_dict(said | {"questions": [{"find": "headroom", "plan": "missing.json"}]}, measured)),
    ):
        pass


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"find": "cheapest cluster", "devices": ["cpu-core"]}, "the price of 'cpu-core' is not known"),
        ({"find": "cheapest cluster", "devices": ["v100-16g"]}, "v100-16gb"),
        ({"find": "cheapest cluster", "devices": ["a100-40gb"]}, "a100-40gb"),
        ({"find": "cheapest cluster", "prices": {"a100-40gb": 1}}, "not among devices"),
        ({"find": "headroom"}, "no measured traffic"),
        ({"find": "what breaks first", "factors": ["overhead"]}, "no relative change"),
        ({"find": {"highest": "workload.rat"}, "low": 1, "high": 2}, "did you mean"),
    ],
)
def test_what_cannot_be_asked_is_said_before_any_work(question, says):
    with pytest.raises(InputError) as caught, session(question=question):
        pytest.fail("opened")
    assert says in str(caught.value)


def test_an_interrupted_question_goes_on_from_its_store(tmp_path):
    question = {"find": "fewest devices", "target": 0.97, "high": 10}
    study = Study.from_dict(BASE | {"question": question, "replications": 2})
    whole, part = tmp_path / "whole.db", tmp_path / "part.db"
    with Session.open(study, whole) as running:
        running.run()
        expected = running.answers

    class Stop(Exception):
        pass

    def stop_after(progress):
        if progress.done >= 5:
            raise Stop

    with pytest.raises(Stop), Session.open(study, part, progress=stop_after) as running:
        running.run()
    with Session.open(study, part) as running:
        kept = running.facts.kept
        running.run()
        assert running.answers == expected
    assert kept >= 4
    assert part.read_bytes() == whole.read_bytes()
    assert math.isfinite(expected[0].value)
