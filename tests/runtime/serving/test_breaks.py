"""Workers that are killed at their time and started again: the group comes back, with the same weights."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.runtime import Session
from meshwright.runtime.serving.breaks import Break, breaks_of
from meshwright.runtime.serving.controller import Script
from meshwright.simulator import Group, Placement
from meshwright.simulator.failures import Failures, ScriptedFailure
from meshwright.traces import Trace

pytest.importorskip("torch")

MODEL = "cpu-bert-tiny"
ONE, PIPELINE = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    MODEL: ModelProfile.from_stages(
        MODEL, {ONE: {b: [0.002 * b] for b in (1, 2, 4)}, PIPELINE: {b: [0.001 * b] * 2 for b in (1, 2, 4)}}
    )
}


def trace(seconds: float, gap: float = 0.02, slo: float = 2.0) -> Trace:
    arrival = np.arange(0.0, seconds, gap)
    return Trace(arrival, np.zeros(len(arrival), dtype=int), (MODEL,), slo)


def test_breaks_of_devices_and_groups() -> None:
    placement = Placement([Group(PIPELINE, [MODEL]), Group(ONE, [MODEL])])
    script = Failures(
        events=(
            ScriptedFailure(1.0, "device", 1, 2.0),
            ScriptedFailure(2.0, "device", 0, 3.0),  # while the other stage is away: nothing to kill
            ScriptedFailure(4.0, "group", 1, 1.0),
            ScriptedFailure(9.0, "group", 0),
        )
    )
    found = breaks_of(placement, script.draw(placement, 3, 3, 10.0, 0))
    assert found == (Break(0, (1,), 1.0, 5.0), Break(1, (0,), 4.0, 5.0), Break(0, (0, 1), 9.0))


@pytest.mark.parametrize("retried", [True, False])
def test_a_killed_group_comes_back(retried: bool) -> None:
    placement = Placement([Group(PIPELINE, [MODEL]), Group(ONE, [MODEL])])
    with Session(placement, (MODEL,), PROFILES, device="cpu") as session:
        load_s = session.fleet.rehearse_restart(0)
        length = 1.0 + 3 * load_s
        requests = trace(length)
        script = Script((Break(0, (1,), 0.3, 0.5),), retried)
        result = session.execute(session.prepare(requests, dispatch="earliest_free"), script=script)
        again = session.run(trace(0.3))
    assert [f.group for f in result.failures] == [0]
    assert result.failures[0].planned
    assert not result.unplanned
    assert 0.3 <= result.failures[0].at < 0.5
    (back,) = result.comebacks
    assert back.group == 0
    assert back.at_s == pytest.approx(0.5 + back.load_s, abs=0.3)
    away = (requests.arrival > 0.5) & (requests.arrival < back.at_s - 0.05)
    assert (result.group[away] == 1).all()  # the other group serves meanwhile
    assert (result.group[requests.arrival > back.at_s] == 0).any()  # and the restarted one afterwards
    if retried:
        assert not result.failed.any()
        assert not result.rejected.any()
    assert (result.attempts <= 2).all()
    first = result.check[result.group == 1][0]
    assert np.allclose(result.check[~result.rejected], first, rtol=1e-4)  # the same weights
    assert not again.rejected.any()
    assert set(again.group.tolist()) <= {0, 1}


def test_while_the_only_group_is_away_requests_are_rejected() -> None:
    placement = Placement([Group(ONE, [MODEL])])
    with Session(placement, (MODEL,), PROFILES, device="cpu") as session:
        result = session.execute(session.prepare(trace(1.0)), script=Script((Break(0, (0,), 0.3),)))
    assert result.rejected[result.trace.arrival > 0.35].all()
    assert not result.rejected[result.trace.arrival < 0.2].any()
    assert not result.comebacks
    assert not result.unplanned


def test_batches_go_on_after_a_restart() -> None:
    placement = Placement([Group(PIPELINE, [MODEL]), Group(ONE, [MODEL])])
    with Session(placement, (MODEL,), PROFILES, device="cpu", batching=4) as session:
        load_s = session.fleet.rehearse_restart(0)
        requests = trace(1.0 + 3 * load_s, gap=0.005)
        result = session.execute(session.prepare(requests), script=Script((Break(0, (0,), 0.2, 0.4),)))
    assert len(result.comebacks) == 1
    assert not result.failed.any()
    assert (result.group[requests.arrival > result.comebacks[0].at_s] == 0).any()
