"""Agents measure iterations: what a job times reaches the books, the bids, and what is said of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.planners.themis.bidding import bid_of
from meshwright.runtime.sharing import RunOptions
from meshwright.runtime.sharing.__main__ import main
from meshwright.runtime.sharing.arbiter.checks import check_state
from meshwright.runtime.sharing.arbiter.ledger import Ledger
from meshwright.runtime.sharing.compare import SharingComparison
from meshwright.runtime.sharing.dozen import dozen
from meshwright.runtime.sharing.messages import JobState, State
from meshwright.simulator.sharing import App, Beliefs, SharedCluster, SharingWorld, Slowdown, simulate
from meshwright.simulator.sharing.policy.learning import trimmed

FAR = Slowdown(1.0, 1.0, 1.3, 1.8)
RACKS = SharedCluster.uniform(2, 1, machines_per_rack=1)
APP = App.single("vgg", 0.0, 3600.0, gpus=2, slowdown=FAR)
START = Beliefs("learned", start=Slowdown(1, 1, 1, 1))


def stands(slowdown: tuple[float, float, float, float] | None = None) -> State:
    return State(at_s=0.0, phase=0, jobs=(JobState(job=0, left_s=3600.0),), slowdown=slowdown)


@pytest.mark.parametrize(
    ("beliefs", "told", "rho"),
    [
        (Beliefs(), (1.0, 1.0, 1.0, 1.5), 1.8),  # known: what an agent measured beside does not count
        (replace(START, slowdown="assumed"), (1.0, 1.0, 1.0, 1.5), 1.0),
        (START, None, 1.0),
        (START, (1.0, 1.0, 1.0, 1.5), 1.5),
    ],
)
def test_what_an_agent_reports_is_what_it_bids_with(
    beliefs: Beliefs, told: tuple[float, float, float, float] | None, rho: float
) -> None:
    """3600 GPU seconds on two GPUs across racks, alone: ρ is the slowdown that is believed."""
    ledger = Ledger(SharingWorld(RACKS, (APP,), beliefs=beliefs), Themis())
    ledger.arrive(0, stands(told))
    rows = bid_of(RACKS, (0, 1), ledger.view(0)).rows
    assert min(row.rho for row in rows if row.gpus == 2) == pytest.approx(rho)


@pytest.mark.parametrize("told", [(1.0, 1.0, 1.5, 1.2), (0.9, 1.0, 1.0, 1.0)])
def test_a_slowdown_that_cannot_be_is_refused(told: tuple[float, float, float, float]) -> None:
    with pytest.raises(InputError, match=r"app 'vgg': slowdown: expected finite factors >= 1 that do not fall"):
        check_state(SharingWorld(RACKS, (APP,)), 0, stands(told))


def test_a_trimmed_mean_is_not_moved_by_one_step_that_was_stuck() -> None:
    times = [1.0 + 0.01 * math.sin(k) for k in range(40)]
    mean, deviation = trimmed(times)
    stuck, wider = trimmed([*times[:-1], 50.0])
    assert mean == pytest.approx(1.0, abs=2e-3)
    assert stuck == pytest.approx(mean, abs=2e-3)
    assert wider < 2 * deviation < 0.05
    assert trimmed([2.0]) == (2.0, 0.0)
    with pytest.raises(InputError, match="expected at least one value"):
        trimmed([])


def test_a_trimmed_means_interval_covers_the_mean() -> None:
    """95 of 100 intervals of 50 normal times hold their mean; the deviation takes account of what was left out."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(1000):
        mean, deviation = trimmed((1.0 + 0.1 * rng.standard_normal(50)).tolist())
        held += abs(mean - 1.0) <= 1.96 * deviation / math.sqrt(50)
    assert 920 <= held <= 975


def test_commands_say_what_agents_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--across-racks", "0.5"]) == 2
    assert "--across-racks: expected a finite factor >= 1 (got 0.5)" in capsys.readouterr().err


def test_real_agents_measure_what_distance_costs(tmp_path: Path) -> None:
    """Across racks jobs are paced 1.8 times slower, and agents assume 1.3. What they time says 1.8, and they bid so."""
    pytest.importorskip("torch")
    pytest.importorskip("uvicorn")
    from meshwright.runtime.sharing import RealSharing, run_sharing

    apps = (App.single("a", 0, 900, gpus=2, slowdown=FAR), App.single("b", 20, 500, gpus=2, slowdown=FAR))
    world = SharingWorld(RACKS, apps, lease_s=150.0, container_s=10.0, checkpoint_s=2.0, beliefs=Beliefs("learned"))
    options = RunOptions(time_scale=60.0, slots_per_core=4, slot_steps=40.0)
    watched = Watched()
    real = run_sharing(world, watched, options)
    assert real.completed.all()
    (far,) = [one for one in real.measured.profiled[0] if one.level == 3]
    assert far.mean == pytest.approx(1.8, rel=0.05)
    assert far.believed == pytest.approx(1.8, rel=0.05)
    assert far.iterations > 50
    assert watched.believed[0] == 1.3  # before anything ran
    assert watched.believed[-1] == pytest.approx(1.8, rel=0.05)  # what reached the arbiter's bids
    found = SharingComparison(real, simulate(real.measured_world(), Themis()))
    assert "slowdown in a cluster, measured by" in str(found)
    kept = RealSharing.load(real.save(tmp_path / "real.json"))
    assert kept.measured.profiled == real.measured.profiled
    assert kept.world.beliefs == Beliefs("learned")


class Watched(Themis):
    """Themis, that keeps what app 0 believed of racks at each decision of the last run it decided."""

    def begin(self) -> None:
        super().begin()
        self.believed: list[float] = []

    def assign(self, cluster, offered, apps):  # type: ignore[no-untyped-def]
        if not hasattr(self, "believed"):
            self.begin()
        self.believed += [v.slowdown.cluster for v in apps if v.index == 0]
        return super().assign(cluster, offered, apps)


def test_a_dozen_with_a_slowdown_of_its_own() -> None:
    made = dozen(1, slowdown=FAR, beliefs=START)
    assert {app.slowdown for app in made.apps} == {FAR}
    assert made.beliefs == START
    assert dozen(1).beliefs == Beliefs()
