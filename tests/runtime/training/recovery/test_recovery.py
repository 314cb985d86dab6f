"""Training that is killed goes on from its last checkpoint, bit for bit; what it takes is simulated."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
from meshwright.errors import InputError, RunError
from meshwright.profiles.graph.models.transformer import GPT
from meshwright.runtime.training import TrainingSession, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.recovery.beside import drawing, rows, simulated_work
from meshwright.runtime.training.recovery.forecast import Costs, forecast
from meshwright.runtime.training.recovery.result import Event, RecoveredRun, attempt_of
from meshwright.runtime.training.recovery.run import run_with_failures
from meshwright.runtime.training.recovery.saving import last_checkpoint
from meshwright.simulator.training.goodput import Strike

GRAPH = GPT(layers=2, hidden=32, heads=4, vocab=64, seq=16, dtype="float32").graph("tiny-gpt", 1)


@pytest.mark.parametrize(
    ("meshes", "options"), [([(1, 1)] * 2, {}), ([(2, 1)], {"zero": 2}), ([(1, 1)] * 2, {"optimizer": "adafactor"})]
)
def test_a_killed_run_ends_as_one_that_was_not(meshes: list[tuple[int, int]], options: dict[str, object]) -> None:
    """Also where the second kill comes while the first is being made good."""
    plan = hand_plan(GRAPH, meshes=meshes, **options)
    calm = run_training(plan, GRAPH, iterations=12)
    # Far enough into the run that a checkpoint is there, near enough that it is not over: 12 iterations take longer.
    # The calm run may have been the slower one by far, on a machine that others use.
    strikes = [Strike(0.35 * sum(calm.seconds), 1), Strike(0.35 * sum(calm.seconds) + 0.3, 0)]
    run = run_with_failures(plan, GRAPH, strikes=strikes, every=2, iterations=12)
    assert run.losses == calm.losses
    assert 1 <= len(run.struck) <= 2
    begins = [e.done for e in run.events if e.what == "begins"]
    assert begins[0] == 0
    assert all(done % 2 == 0 for done in begins)
    assert run.events[-1].done == 12
    assert list(run.to_frame().at_s) == sorted(run.to_frame().at_s)


def test_a_rank_that_nobody_killed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise RunError("run: rank 0 died during the run: killed by SIGKILL")

    monkeypatch.setattr(TrainingSession, "run", dies)
    with pytest.raises(RunError, match=r"^run: rank 0 died during the run: killed by SIGKILL$"):
        run_with_failures(hand_plan(GRAPH, meshes=[(1, 1)]), GRAPH, iterations=2, every=1)


def test_a_draft_is_no_checkpoint(tmp_path: Path) -> None:
    for name in ("checkpoint-10", "checkpoint-8", "draft-12", "checkpoint-x"):
        (tmp_path / name).mkdir()
    assert last_checkpoint(tmp_path) == 10
    assert last_checkpoint(tmp_path / "none") == 0


def test_journals_say_what_all_ranks_did(tmp_path: Path) -> None:
    """Rank 1 was killed in the third line."""
    lines = [{"what": "begins", "done": 4, "at_s": 1.0}, {"what": "iteration", "done": 5, "at_s": 2.0},
             {"what": "checkpoint", "done": 5, "at_s": 3.0}]  # fmt: skip
    (tmp_path / "journal-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines[1] |= {"at_s": 2.5, "loss": 0.5}
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "journal-1.jsonl").write_text(text[:-9])
    first, second = attempt_of(tmp_path, 2)
    assert (first.what, first.done, first.at_s) == ("begins", 4, 1.0)
    assert second == Event("iteration", 5, 2.5, 0.5)
    assert attempt_of(tmp_path, 2) == []


def by_hand() -> RecoveredRun:
    """Iterations of 1 s, an attempt's first of 3 s; checkpoints of 0.5 s every 2; killed at 6.75 s, in a checkpoint."""
    nan = math.nan
    events = [
        Event("begins", 0, 100.0, nan), Event("iteration", 1, 103.0, 0.9), Event("iteration", 2, 104.0, 0.8),
        Event("checkpoint", 2, 104.5, nan), Event("iteration", 3, 105.5, 0.7), Event("iteration", 4, 106.5, 0.6),
        Event("begins", 2, 111.0, nan), Event("iteration", 3, 114.0, 0.7), Event("iteration", 4, 115.0, 0.6),
        Event("checkpoint", 4, 115.5, nan), Event("iteration", 5, 116.5, 0.5), Event("iteration", 6, 117.5, 0.4),
        Event("checkpoint", 6, 118.0, nan),
    ]  # fmt: skip
    return RecoveredRun(2, 2, 6, tuple(events), ((106.75, 1),))


def test_the_simulation_of_a_run_by_its_own_costs_is_the_run() -> None:
    run = by_hand()
    assert run.losses == (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    assert list(run.restarts_s) == [6.25]  # ready after 4.25 s, and an iteration that takes 2 s longer
    assert list(run.starts_s) == [2.0, 2.0]
    costs = Costs.of(run)
    assert (set(costs.iteration_s), set(costs.checkpoint_s), set(costs.start_s)) == ({1.0}, {0.5}, {2.0})
    told = forecast(costs, [Strike(6.75, 1)], ranks=2, every=2, iterations=6)
    assert told.record.wall_s == run.wall_s == 18.0
    assert told.interval() == (18.0, 18.0)
    killed, done = rows(run, told)
    assert (killed["real_s"], killed["simulated_s"]) == (6.75, 6.75)
    assert (killed["lost_s"], killed["simulated_lost_s"]) == (2.25, 2.25)
    assert (done["real_s"], done["simulated_s"]) == (18, 18)
    assert simulated_work(run, told, [4.0, 6.0, 8.0, 14.0, 18.0]) == [2, 3.5, 2, 3, 6]
    assert run.work_at([4.0, 6.0, 14.0, 18.0]) == [2, 3, 3, 6]
    assert len(drawing(run, told).axes) == 1


def test_a_run_afterwards_tells_the_pace_too() -> None:
    """Iterations of 1 s before, of 2 s after: what lay between is expected at 1.5 s, and no longer as certain."""
    run = by_hand()
    slower = tuple(e._replace(at_s=100 + 2 * (e.at_s - 100)) for e in run.events if e.at_s < 106.75)
    before, after = Costs.of(run), RecoveredRun(2, 2, 4, slower, ())
    both = before.and_of(after)
    assert set(Costs.of(after).iteration_s) == {2.0}
    assert sorted(set(both.iteration_s)) == [1.0, 2.0]
    assert len(both.checkpoint_s) == len(before.checkpoint_s) + len(after.checkpoints_s)
    alone, told = (forecast(c, [], ranks=2, every=2, iterations=6) for c in (before, both))
    assert told.record.wall_s > alone.record.wall_s
    assert np.ptp(told.interval()) > np.ptp(alone.interval())


def test_an_iteration_that_differs_is_told() -> None:
    run = by_hand()
    wrong = tuple(e._replace(loss=0.1) if e == run.events[7] else e for e in run.events)
    with pytest.raises(RunError, match=r"^run: iteration 3: loss 0.1, 0.7 before it was killed$"):
        _ = RecoveredRun(2, 2, 6, wrong).losses


def test_few_measurements_make_a_wide_interval() -> None:
    strikes = [Strike(30.0, 0)]

    def width(restarts: list[float]) -> float:
        costs = Costs(np.full(6, 1.0), np.full(6, 0.1), np.array(restarts), np.zeros(3))
        low, high = forecast(costs, strikes, ranks=1, every=10, iterations=100).interval()
        return high - low

    assert width([5.0, 7.0]) > 2 * width([5.0, 7.0] * 10)
    assert width([6.0, 6.0, 6.0]) == pytest.approx(0.0, abs=1e-9)


def test_bad_input_is_one_line() -> None:
    plan = hand_plan(GRAPH, meshes=[(1, 1)] * 2)
    with pytest.raises(InputError, match=r"^run: strikes: there is no rank 2; those of the plan are 0 to 1$"):
        run_with_failures(plan, GRAPH, strikes=[Strike(1.0, 2)])
    with pytest.raises(InputError, match=r"^run: every: expected a positive integer \(got 0\)$"):
        run_with_failures(plan, GRAPH, every=0)
    with pytest.raises(InputError, match=r"^forecast: draws: expected at least 100 \(got 5\)$"):
        forecast(Costs.of(by_hand()), [], ranks=1, every=1, iterations=1, draws=5)
