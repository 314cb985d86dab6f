"""Times in service, from spans: what a simulated run is made of is read back from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.spread import Spread
from meshwright.runtime.training import TrainingRun
from meshwright.runtime.training.compare.plans import compare_measured, held_against
from meshwright.runtime.training.compare.table import Compared, TrainingComparison
from meshwright.runtime.training.compare.turns import by_turns
from meshwright.runtime.training.executor import Span
from meshwright.runtime.training.measure.cores import counted, own_shares
from meshwright.runtime.training.measure.service import drift, with_service
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import (
    MeshEntry,
    ModelEntry,
    Repeats,
    StageEntry,
    TrainingPlan,
    TrainingTimes,
    TransferEntry,
    draw_times,
    plan_program,
    simulate_iterations,
    simulate_training,
)
from meshwright.simulator.training.plan.service import MessageTimes, ServiceEntry

SERVICE = ServiceEntry(
    begin_s=(0.002, 0.003),
    messages=(
        MessageTimes(what="forward", source=0, target=1, seconds=0.004, send_s=0.001, receive_s=0.0005),
        MessageTimes(what="backward", source=1, target=0, seconds=0.003, send_s=0.0015, receive_s=0.0005),
    ),
)


def plan(devices: int = 1, **more: Any) -> TrainingPlan:
    stages = tuple(
        StageEntry(mesh=s, logical=(devices, 1), first=s, last=s + 1, forward_s=0.03 + 0.01 * s,
                   backward_input_s=0.07 - 0.01 * s, reduce_s=0.005, update_s=0.01, state_bytes=1e9,
                   activation_bytes=1e8)
        for s in range(2)
    )  # fmt: skip
    transfer = TransferEntry(source=0, target=1, value="x", bytes=1e6, source_spec="RR", target_spec="RR")
    entries = {
        "model": ModelEntry(name="by hand"), "global_batch": 16, "microbatches": 4, "schedule": "1f1b",
        "meshes": tuple(MeshEntry(hosts=1, devices=devices, first_device=s * devices) for s in range(2)),
        "stages": stages, "transfers": (transfer,), "overlap": True, "service": SERVICE,
        "planner": PlannerEntry(name="by hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
    }  # fmt: skip
    return TrainingPlan.of(Cluster(1, 2 * devices, "cpu-core"), **{**entries, **more})


def as_run(made: TrainingPlan, iterations: int = 4, times: TrainingTimes | None = None, seed: int = 0) -> TrainingRun:
    """A run whose spans are those of simulated iterations; the ranks of a mesh all take as long as it."""
    devices = made.meshes[0].hosts * made.meshes[0].devices
    drawn = draw_times(times or TrainingTimes(), made, 100.0, seed)
    seconds, spans, now = [], [], 0.0
    for i in range(iterations):
        found = simulate_training(made, drawn=drawn.at(now, i))
        columns, ranks = found.program.columns, []
        for mesh in range(2):
            rows = range(int(columns.offsets[mesh]), int(columns.offsets[mesh + 1]))
            actions = [found.program.action(row) for row in rows]
            mine = tuple(
                Span(a.op, a.stage, a.microbatch, float(s), float(f), float(f - s), 0.0)
                for a, s, f in zip(actions, found.times.start[rows], found.times.finish[rows], strict=True)
            )
            ranks += [mine] * devices
        seconds.append(float(found.times.finish.max()))
        spans.append(tuple(ranks))
        now += found.seconds
    began = tuple((100.0 * i,) * len(spans[0]) for i in range(iterations))
    homes = tuple(mesh for mesh in range(2) for _ in range(devices))
    return TrainingRun(tuple(seconds), (), tuple(spans), homes, {}, made.microbatches_of, began=began)


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_run_is_made_of_is_read_back(devices: int) -> None:
    made = plan(devices)
    bare = made.model_copy(update={"service": None})
    found = with_service(bare, plan_program(made), [as_run(made), as_run(made)])
    for was, now in zip(made.stages, found.stages, strict=True):
        for name in ("forward_s", "backward_input_s", "reduce_s", "update_s"):
            assert getattr(now, name) == pytest.approx(getattr(was, name), rel=1e-9), name
    assert found.service is not None
    assert found.service.begin_s == pytest.approx(SERVICE.begin_s)
    for was, now in zip(SERVICE.messages, found.service.messages, strict=True):
        assert (now.what, now.source, now.target) == (was.what, was.source, was.target)
        assert now.send_s == pytest.approx(was.send_s)
        assert (now.seconds or 0.0) + now.receive_s == pytest.approx((was.seconds or 0.0) + was.receive_s)
    # Gradients are always waited for, so that the host's part of that is not to be told; activations are there before.
    assert found.service.messages[0].receive_s == pytest.approx(SERVICE.messages[0].receive_s)
    assert found.service.messages[1].receive_s == 0.0
    assert simulate_training(found).seconds == pytest.approx(simulate_training(made).seconds, rel=1e-6)
    spread = Spread.from_dict(found.service.passes)
    assert len(spread.paths) == 2 * devices
    assert np.ptp(spread.paths) < 1e-3
    assert spread.level_sd < 1e-9


def test_a_recording_predicts_runs_of_the_same_machine() -> None:
    """Slow seconds that come and go: of 40 other runs, most lie inside the 95 % interval; the mean is met."""
    made = plan()
    times = TrainingTimes(Spread(visits=(0.95, 1.0, 1.05), runs=(0.9, 0.97, 1.02, 1.11), correlation_s=1.0))
    program = plan_program(made)
    found = with_service(made, program, [as_run(made, 8, times, seed) for seed in range(6)])
    expected = simulate_iterations(found, repeats=Repeats(7, 6, 100))
    low, high = expected.interval_s(0.95, "median")
    others = np.array([as_run(made, 8, times, 100 + seed).seconds[1:] for seed in range(120)]).reshape(20, 42)
    medians = np.median(others, axis=1)
    assert expected.expected_s("median") == pytest.approx(medians.mean(), rel=0.02)
    assert ((medians >= low) & (medians <= high)).mean() >= 0.85
    assert (high - low) / medians.mean() < 0.12


def test_a_slow_rank_of_its_mesh_is_the_meshs_time() -> None:
    made = plan(2)
    run = as_run(made)
    slower = [[*ranks] for ranks in run.spans]
    for ranks in slower:  # the second rank of mesh 0 waits at the end; the first is done earlier
        ranks[1] = tuple(s._replace(start=s.start * 0.9, end=s.end * 0.9, cpu=s.cpu * 0.9) for s in ranks[1])
    late = replace(run, spans=tuple(tuple(ranks) for ranks in slower))
    found = with_service(made, plan_program(made), [late])
    assert found.stages[0].forward_s == pytest.approx(made.stages[0].forward_s)


def test_iterations_that_others_disturbed_do_not_count() -> None:
    run = as_run(plan(), 6)
    spans = [[*ranks] for ranks in run.spans]
    spans[3][0] = tuple(s._replace(cpu=0.5 * s.cpu) for s in spans[3][0])
    disturbed = replace(run, spans=tuple(tuple(x) for x in spans))
    assert own_shares(disturbed)[3] < 0.8
    assert counted([disturbed]) == [(0, 1), (0, 2), (0, 4), (0, 5)]
    together = replace(disturbed, cores=((1,), (1,)))  # both ranks on one core: the other one had it
    assert counted([together]) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    alone = replace(disturbed, cores=((0,), (1,)))
    assert counted([alone]) == counted([disturbed])
    assert counted([as_run(plan(), 1)]) == [(0, 0)]


def test_drift_is_the_change_between_halves() -> None:
    made = plan()
    run = as_run(made)
    later = replace(run, seconds=tuple(1.1 * s for s in run.seconds))
    assert drift([run, run, later, later]) == pytest.approx(0.1)
    assert drift([run]) == 0.0


def test_nothing_is_read_from_no_run() -> None:
    with pytest.raises(InputError, match="expected a run"):
        with_service(plan(), plan_program(plan()), [])


def test_a_plan_that_was_not_measured_is_not_held_against_its_run() -> None:
    bare = plan(service=None)
    with pytest.raises(InputError, match=r"a\.json was not measured in service; meshwright measure a\.json"):
        compare_measured({"a.json": bare}, {})


def test_a_difference_is_put_down_to_machine_and_model() -> None:
    row = Compared("p", 1.0, (0.95, 1.05), 1.1, 0.98, 1.06, 0.99, 12, alone_s=0.9)
    assert row.difference == pytest.approx(-0.1 / 1.1)
    assert row.level == pytest.approx(-0.08 / 1.1)
    assert row.level + row.rest == pytest.approx(row.difference)
    assert not row.inside
    told = str(TrainingComparison((row,)))
    assert (
        "what stages take had changed by +7.3% since it was measured; waiting and what is not modelled: +1.8%" in told
    )
    assert "0 of 1 inside the interval" in told


def test_iterations_of_unequal_pace_are_not_put_down_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that an iteration does is `pace` times as long: its seconds are, too, so their mean is that of the means."""
    made, pace = plan(), (1.0, 1.0, 1.0, 1.0, 1.6)
    monkeypatch.setattr("meshwright.runtime.training.compare.plans._program", lambda one, _: plan_program(one))
    run = as_run(made, 5)
    spans = tuple(
        tuple(tuple(x._replace(start=f * x.start, end=f * x.end, cpu=f * x.cpu) for x in mine) for mine in ranks)
        for f, ranks in zip(pace, run.spans, strict=True)
    )
    run = replace(run, spans=spans, seconds=tuple(f * s for f, s in zip(pace, run.seconds, strict=True)))
    steady = simulate_training(made).seconds
    row = held_against("p", with_service(made, plan_program(made), [as_run(made)]), Any, [run])
    assert row.measured_s == pytest.approx(steady * 4.6 / 4)  # the first is left out
    assert row.again_s == pytest.approx(row.measured_s, rel=1e-6)
    assert row.level == pytest.approx(4 / 4.6 - 1, rel=1e-6)
    assert row.rest == pytest.approx(row.jitter, abs=1e-6)


def test_threads_that_move_messages_are_ours() -> None:
    run = as_run(plan(), 3)
    spans = [[*ranks] for ranks in run.spans]
    spans[1] = [tuple(s._replace(cpu=0.9 * s.cpu) for s in mine) for mine in spans[1]]
    others = replace(run, spans=tuple(tuple(x) for x in spans))
    assert own_shares(others)[1] == pytest.approx(0.9)
    spans[1] = [tuple(s._replace(helpers=s.cpu / 9) for s in mine) for mine in spans[1]]
    assert own_shares(replace(run, spans=tuple(tuple(x) for x in spans)))[1] == pytest.approx(1.0)


def paced(run: TrainingRun, factor: float) -> TrainingRun:
    """The run with all that it does `factor` times as long."""
    spans = tuple(
        tuple(
            tuple(x._replace(start=factor * x.start, end=factor * x.end, cpu=factor * x.cpu) for x in mine)
            for mine in ranks
        )
        for ranks in run.spans
    )
    return replace(run, spans=spans, seconds=tuple(factor * s for s in run.seconds))


def test_runs_are_taken_by_turns() -> None:
    run = replace(as_run(plan(), 7), seconds=tuple(range(7)), losses=tuple(range(10, 17)))
    (told,), (judged,) = by_turns([run])
    assert told.seconds == (0, 1, 4, 5)
    assert judged.seconds == (0, 2, 3, 6)
    assert judged.losses == (10, 12, 13, 16)
    assert judged.spans == tuple(run.spans[i] for i in (0, 2, 3, 6))
    assert judged.began == tuple(run.began[i] for i in (0, 2, 3, 6))


def disturbed(run: TrainingRun, *iterations: int) -> TrainingRun:
    """The run with cores that others had for a tenth of the time in some iterations."""
    spans = [
        tuple(tuple(s._replace(cpu=0.9 * s.cpu) for s in mine) for mine in ranks) if i in iterations else ranks
        for i, ranks in enumerate(run.spans)
    ]
    return replace(run, spans=tuple(spans))


def test_a_pair_counts_where_both_of_it_had_their_cores() -> None:
    """Otherwise a slow round of which one iteration was disturbed would weigh on one side alone."""
    runs = [replace(as_run(plan(), 7), seconds=tuple(10 * r + i for i in range(7))) for r in range(3)]
    told, judged = by_turns([disturbed(runs[0], 2), runs[1], disturbed(runs[2], 1, 3, 6)])
    assert [x.seconds for x in told] == [(0, 4, 5), (10, 11, 14, 15)]
    assert [x.seconds for x in judged] == [(0, 3, 6), (10, 12, 13, 16)]
    told, judged = by_turns([disturbed(runs[0], *range(7))])  # all that there is
    assert [x.seconds for x in told + judged] == [(0, 1, 4, 5), (0, 2, 3, 6)]


def test_the_pace_of_a_run_is_known_where_its_iterations_tell_by_turns() -> None:
    """Rounds at 0.8 to 1.2 of the usual pace: told by the iterations between, an interval does not hold the rounds'."""
    made = plan()
    program = plan_program(made)
    times = TrainingTimes(Spread(visits=(0.97, 1.0, 1.03)))
    runs = [paced(as_run(made, 9, times, seed), f) for seed, f in enumerate((0.8, 1.2, 1.0, 0.9, 1.1))]
    told, judged = by_turns(runs)
    widths: list[float] = []
    for turns in (False, True):
        found = with_service(made, program, told, by_turns=turns)
        expected = simulate_iterations(found, repeats=Repeats(4, 5, 100))
        low, high = expected.interval_s(0.95)
        real = float(np.mean([s for run in judged for s in run.seconds[1:]]))
        assert low <= real <= high
        widths.append((high - low) / real)
    assert widths[1] < 0.05 < 0.2 < widths[0]
