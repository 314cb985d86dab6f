"""Planning for any single loss over draws of times and failures: against trying all placements, loss by loss."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners import PLANNERS, PlannerSource, Problem
from meshwright.profiles import DEVICES, ModelProfile, ParallelConfig, ProfileSet, Provenance
from meshwright.profiles.spread import NO_VARIATION, Spread, Variation
from meshwright.seeds import spawned
from meshwright.simulator import Cluster, Group, Placement, Plan, simulate
from meshwright.simulator.failures import Failures
from meshwright.simulator.serving import Conditions, Outages, draw_times
from meshwright.simulator.serving.breakdowns import Breakdowns
from meshwright.traces import gamma

ONE, PIPELINE = ParallelConfig(1, 1), ParallelConfig(1, 2)
MODELS = ("a", "b")
WIDE = Variation(stages=Spread(visits=(0.6, 0.9, 1.0, 1.5), runs=(0.8, 1.0, 1.2), correlation_s=2.0))
FAILING = Breakdowns(Failures(mtbf_s=30.0, mttr_s=8.0))
CLUSTER = Cluster(2, 1, replace(DEVICES["v100-16gb"], usable_memory_bytes=13 * 10**9))
DRAWS = 6


def known(variation: Variation = WIDE) -> ProfileSet:
    models = {
        name: ModelProfile.from_stages(
            name, {ONE: {1: [base], 2: [1.5 * base]}, PIPELINE: {1: [0.52 * base, 0.53 * base], 2: [0.8 * base] * 2}},
            weight_bytes={ONE: [6e9], PIPELINE: [3e9, 3e9]},
        )
        for name, base in zip(MODELS, (0.06, 0.1), strict=True)
    }  # fmt: skip
    return ProfileSet("hand", "v100-16gb", models, Provenance("by hand"), variation=variation)


def traffic(seed: int) -> Any:
    return gamma(12.0, 3.0, 40.0, list(MODELS), slo=0.3, seed=seed)


def planned(seed: int = 0, variation: Variation = WIDE, **options: Any) -> Plan:
    return PLANNERS["alpaserve"](CLUSTER, MODELS, traffic(seed), known(variation), seed=seed, draws=DRAWS, **options)


def after_losses(
    placement: Placement, seed: int, variation: Variation, failing: Breakdowns | None, batching: int | None = None
) -> list[list[float]]:
    """Attainment in each draw after the loss of each device: the groups that had it are not there at all."""
    trace, found = traffic(seed), []
    for gone in range(CLUSTER.n_devices):
        kept = [g for g, group in enumerate(placement.groups) if gone not in (group.devices or ())]
        if not any(placement.groups[g].models for g in kept):
            found.append([0.0] * DRAWS)
            continue
        left = Placement([placement.groups[g] for g in kept])
        each = []
        for k in range(DRAWS):
            own, times, away = spawned(seed, k), None, None
            if not variation.constant:
                times = draw_times(variation, left, trace.duration + 60.0, own)
            if failing is not None:
                of_all = failing.outages(placement, CLUSTER, known(), float(trace.arrival[-1]), own)
                rows = [r for r in range(len(of_all)) if of_all.group[r] in kept]
                index = [kept.index(int(of_all.group[r])) for r in rows]
                away = Outages(np.array(index, dtype=np.int64), of_all.down_s[rows], of_all.up_s[rows])
            met = Conditions(times, away)
            each.append(simulate(left, trace, known(variation), conditions=met, batching=batching).attainment)
        found.append(each)
    return found


def judged(each: list[list[float]], criterion: str | float) -> float:
    of_one = [float(np.mean(row) if criterion == "mean" else np.quantile(row, criterion)) for row in each]
    return min(of_one)


def all_placements() -> list[Placement]:
    held = ((), ("a",), ("b",), ("a", "b"))
    singles = [Placement([Group(ONE, m, (0,)), Group(ONE, n, (1,))]) for m, n in product(held, repeat=2) if m or n]
    return [*singles, *(Placement([Group(PIPELINE, m, (0, 1))]) for m in held if m)]


@pytest.mark.parametrize(
    ("seed", "criterion", "variation", "failing", "loss"),  # a node is one device here
    [
        (0, "mean", WIDE, None, "device"),
        (1, 0.0, WIDE, None, "node"),
        (0, 0.0, NO_VARIATION, FAILING, "node"),
        (1, "mean", WIDE, FAILING, "device"),
    ],
)
def test_no_placement_survives_better(
    seed: int, criterion: str | float, variation: Variation, failing: Breakdowns | None, loss: str
) -> None:
    said: dict[str, Any] = {"survive": loss, "criterion": criterion}
    said |= {} if failing is None else {"failures": failing}
    said |= {} if variation.constant else {"times": "drawn"}
    plan = planned(seed, variation, **said)
    best = max(judged(after_losses(one, seed, variation, failing), criterion) for one in all_placements())
    seen = judged(after_losses(plan.placement, seed, variation, failing), criterion)
    assert plan.predicted["survive_worst"] == pytest.approx(seen, abs=1e-12)
    assert seen == pytest.approx(best, abs=1e-12)
    assert plan.predicted["survive_gain"] >= 0
    word = "failures" if failing is not None else "drawn"
    assert plan.predicted["survive_worst"] <= plan.predicted[f"{word}_mean"]
    assert plan.planner.options["survive"] == loss


@pytest.mark.parametrize("options", [{"times": "drawn"}, {"survive": "device"}, {"times": "drawn", "survive": "node"}])
def test_what_is_drawn_and_lost_is_predicted_in_batches_where_it_is_served_in_them(options: dict[str, str]) -> None:
    problem = Problem(CLUSTER, MODELS, traffic(0), known(), max_batch=2, seed=0, options={"draws": DRAWS, **options})
    plan = PlannerSource.find("alpaserve").plan(problem)
    assert isinstance(plan, Plan)
    assert plan.predicted["attainment"] == simulate(plan.placement, traffic(0), known(), batching=2).attainment
    variation = WIDE if "times" in options else NO_VARIATION
    if "survive" in options:
        seen = judged(after_losses(plan.placement, 0, variation, None, batching=2), "mean")
        assert plan.predicted["survive_worst"] == pytest.approx(seen, abs=1e-12)
    if "times" in options:
        each = []
        for k in range(DRAWS):
            times = draw_times(WIDE, plan.placement, traffic(0).duration + 60.0, spawned(0, k))
            met = Conditions(times)
            each.append(simulate(plan.placement, traffic(0), known(), batching=2, conditions=met).attainment)
        assert plan.predicted["drawn_mean"] == pytest.approx(np.mean(each), abs=1e-12)
        assert plan.predicted["drawn_worst"] == min(each)


def test_what_cannot_be_is_refused_before_any_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr("meshwright.planners.alpaserve.planner.Search", never)
    with pytest.raises(InputError, match="does not say how times vary"):
        planned(variation=NO_VARIATION, times="drawn", survive="device")
    with pytest.raises(InputError, match="survive: node: the cluster has one node"):
        PLANNERS["alpaserve"](Cluster(1, 2), MODELS, traffic(0), known(), survive="node", times="drawn")
