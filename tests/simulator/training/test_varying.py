"""Iterations whose times vary: order statistics of ranks, intervals of runs, plans that carry what was measured."""

import json
import math

import numpy as np
import pytest
from how_many import examples
from meshwright.errors import InputError
from meshwright.profiles.spread import Spread
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
    simulate_iterations,
    simulate_training,
)
from meshwright.simulator.training.plan.service import MessageTimes, ServiceEntry
from scipy import integrate, stats


def plan(stages=1, devices=1, microbatches=1, *, schedule="inference", n_bytes=0.0, **more):
    """Equal stages of `devices` on a node each; a pass takes 1 s forward and 2 s backward."""
    made = [
        StageEntry(mesh=s, logical=(devices, 1), first=s, last=s + 1, forward_s=1.0, backward_input_s=2.0,
                   state_bytes=1e9, activation_bytes=1e8)
        for s in range(stages)
    ]  # fmt: skip
    chained = [
        TransferEntry(source=s, target=s + 1, value=f"x{s}", bytes=n_bytes, source_spec="RR", target_spec="RR")
        for s in range(stages - 1)
    ]
    fields = {
        "model": ModelEntry(name="by hand"), "global_batch": 64 * microbatches, "microbatches": microbatches,
        "schedule": schedule, "meshes": tuple(MeshEntry(hosts=1, devices=devices, first_host=s) for s in range(stages)),
        "stages": tuple(made), "transfers": tuple(chained) if n_bytes else (), "overlap": True,
        "planner": PlannerEntry(name="by hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
    }  # fmt: skip
    return TrainingPlan.of(Cluster(stages, devices, "v100-16gb"), **{**fields, **more})


def quantiles(law, n=4000):
    return tuple(law.ppf((np.arange(n) + 0.5) / n).tolist())


@pytest.mark.parametrize("ranks", [1, 2, 8])
@pytest.mark.parametrize(
    "law", [stats.expon(), stats.norm(1.0, 0.1), stats.lognorm(0.5, scale=math.exp(-0.125))], ids=["exp", "norm", "log"]
)
def test_a_step_takes_the_expected_maximum_of_its_ranks(law, ranks):
    """Order statistics: E max = integral of x dF(x)^n; of exponential times the harmonic number H_n."""
    found = simulate_iterations(
        plan(devices=ranks), TrainingTimes(Spread(visits=quantiles(law))), Repeats(iterations=200, draws=20, seed=3)
    ).seconds
    expected = integrate.quad(lambda u: law.ppf(u ** (1 / ranks)), 0, 1)[0]
    if law.dist.name == "expon":
        assert expected == pytest.approx(sum(1 / k for k in range(1, ranks + 1)), rel=1e-6)
    error = found.std() / math.sqrt(found.size)
    assert abs(found.mean() - expected) < 4 * error + 1e-3  # 4,000 quantiles leave the outermost tail out


def test_what_averages_out_and_what_does_not():
    """Independent visits: a run's mean spreads as 1/sqrt(n). Slow runs longer than it: as one visit does."""
    n = examples(25, anew=100)
    repeats = Repeats(iterations=n, draws=300, seed=1)
    apart = simulate_iterations(plan(), TrainingTimes(Spread(visits=quantiles(stats.norm(1, 0.1)))), repeats)
    along = simulate_iterations(
        plan(), TrainingTimes(Spread(runs=quantiles(stats.norm(1, 0.1)), correlation_s=1e5)), repeats
    )
    assert apart.of_runs().std() == pytest.approx(0.1 / math.sqrt(n), rel=0.15)
    assert along.of_runs().std() == pytest.approx(0.1, rel=0.15)
    low, high = along.interval_s()
    # Four standard errors of a 2.5 % quantile of 300.
    assert low == pytest.approx(1 - 0.196, abs=0.062)
    assert high == pytest.approx(1 + 0.196, abs=0.062)


def test_the_level_is_one_number_of_a_run():
    found = simulate_iterations(
        plan(), TrainingTimes(Spread(level_sd=0.05)), Repeats(iterations=3, stretches=2, draws=400)
    )
    assert (np.ptp(found.seconds, axis=1) < 1e-12).all()
    assert found.of_runs("median").std() == pytest.approx(0.05, rel=0.15)
    assert found.steady_s == 1.0


def test_stretches_meet_slow_seconds_of_their_own():
    times = TrainingTimes(Spread(paths=((0.5, 1.5),), window_s=1000.0))
    found = simulate_iterations(plan(), times, Repeats(iterations=4, stretches=6, draws=200)).seconds
    each = found.reshape(200, 6, 4)
    assert (np.ptp(each, axis=2) == 0).all()
    assert set(np.unique(each)) == {0.5, 1.5}
    assert found.mean(axis=1).std() == pytest.approx(0.5 / math.sqrt(6), rel=0.2)


def test_plans_on_the_same_devices_meet_the_same_seconds():
    times = TrainingTimes(Spread(runs=(0.8, 1.0, 1.3), correlation_s=5.0))
    one, two = (draw_times(times, p, 40.0, 7) for p in (plan(devices=2), plan(2, 1)))
    np.testing.assert_array_equal(one.passes.slow, two.passes.slow)
    assert one.devices == ((0, 1),)
    assert two.devices == ((0,), (1,))


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_a_drawn_iteration_is_told_as_it_was(engine):
    made = plan(2, 2, 3, schedule="1f1b", n_bytes=1e6)
    times = TrainingTimes(Spread(visits=(0.9, 1.0, 1.4)), Spread(visits=(0.5, 2.0)))
    drawn = draw_times(times, made, 100.0, 0)
    result = simulate_training(made, engine=engine, drawn=drawn)
    assert result.seconds > simulate_training(made).seconds
    assert (result.busy_s > simulate_training(made).busy_s).all()
    assert (result.waiting_s >= 0).all()
    assert result.seconds == simulate_training(made, drawn=drawn).seconds


def test_what_was_measured_is_simulated(tmp_path):
    service = ServiceEntry(
        begin_s=(0.5, 0.25),
        messages=(
            MessageTimes(what="forward", source=0, target=1, seconds=0.125, send_s=0.25, receive_s=0.0625),
            MessageTimes(what="backward", source=1, target=0, seconds=0.125, send_s=0.25, receive_s=0.0625),
        ),
        passes=Spread(visits=(0.9, 1.1)).to_dict(),
    )
    made = plan(2, 1, 1, schedule="1f1b", n_bytes=1e6, service=service)
    # begin, F0, message (the send goes on beside it), receive, F1, B1, message, receive, B0
    assert simulate_training(made).seconds == 0.5 + 1.0 + 0.125 + 0.0625 + 1.0 + 2.0 + 0.125 + 0.0625 + 2.0
    assert simulate_training(made, engine="simpy").seconds == simulate_training(made).seconds
    made.save(tmp_path / "plan.json")
    again = TrainingPlan.load(tmp_path / "plan.json")
    assert again == made
    assert again.service == service
    assert simulate_iterations(again, repeats=Repeats(draws=10)).seconds.std() > 0
    assert "service" not in json.loads((plan().save(tmp_path / "bare.json")).read_text())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"begin_s": [0.1]}, "service.begin_s: expected one for each of 2 meshes (got 1)"),
        ({"begin_s": [0.1, -1.0]}, "service.begin_s[1]: should be greater"),
        ({"messages": [{"what": "forward", "source": 0, "target": 7}]}, "stage 7 does not exist; the plan has 2"),
        ({"passes": {"visits": [1.0, -2.0]}}, "expected positive finite factors (got -2.0)"),
        ({"passes": {"paths": [[1.0], [1.0, 1.0]]}}, "expected one length"),
        ({"message_spread": {"quantiles": [1.0]}}, "unknown field 'quantiles'"),
    ],
)
def test_a_wrong_measurement_is_one_line(change, says, tmp_path):
    path = plan(2, 1).save(tmp_path / "plan.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "service": change}))
    with pytest.raises(InputError) as error:
        TrainingPlan.load(path)
    assert says in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("bad", [{"draws": 0}, {"iterations": 0}, {"stretches": -1}, {"draws": True}])
def test_no_runs_have_no_interval(bad):
    with pytest.raises(InputError, match="expected an integer >= 1"):
        Repeats(**bad)


def test_an_interval_needs_a_probability():
    found = simulate_iterations(plan(), repeats=Repeats(iterations=1, draws=1))
    with pytest.raises(InputError, match="between 0 and 1"):
        found.interval_s(1.0)
