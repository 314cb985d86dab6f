"""The parts of a real run, one by one: meter, checkpoints, books, the service, and what bad input says."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from meshwright.errors import InputError, RunError
from meshwright.runtime.sharing.agent.link import Link
from meshwright.runtime.sharing.agent.meter import Meter
from meshwright.runtime.sharing.arbiter.lease_clock import Arbiter
from meshwright.runtime.sharing.arbiter.ledger import Ledger
from meshwright.runtime.sharing.conduct import check_agents
from meshwright.runtime.sharing.messages import Hello, JobState, State
from meshwright.runtime.sharing.options import RunOptions, check_slots, phase_steps, total_steps
from meshwright.runtime.sharing.run import run_sharing
from meshwright.simulator.sharing import App, AppView, Job, SharedCluster, SharingWorld, baseline

TWO = SharingWorld(SharedCluster.uniform(1, 2), (App.single("a", 0, 100, gpus=2), App.single("b", 5, 50)), lease_s=60.0)


def test_a_meter_covers_steps_at_its_rate() -> None:
    meter = Meter(2.5)
    assert (meter.steps, meter.due(0)) == (3, math.inf)
    meter.start(10.0, 0.5)
    assert [meter.due(k) for k in range(4)] == [12.0, 14.0, 15.0, math.inf]  # the last is half a step
    assert meter.at(9.0) == 0.0
    meter.stop(13.0, 1)
    assert (meter.credit, meter.due(1)) == (1.5, math.inf)
    meter.start(20.0, 1.0)
    assert meter.due(1) == 20.5


def test_a_meter_does_not_owe_what_the_machine_did_not_do() -> None:
    meter = Meter(10.0)
    meter.start(0.0, 1.0)
    meter.stop(8.0, 2)  # eight were covered, two were run: one more may be begun
    assert meter.credit == 3.0


def test_steps_of_an_app_follow_from_its_work() -> None:
    app = App.halving("search", 0, [Job(10.0), Job(10.0)], 400.0)
    options = RunOptions(time_scale=50.0, slot_steps=3.0)
    # 400 s in two phases: 10 iterations of 10 s for each of two jobs, 20 for the better one
    assert phase_steps(app, 0, 1, options) == pytest.approx(100 / 50 * 3)
    assert [total_steps(app, j, options) for j in (0, 1)] == [6 + 12, 6]


def test_a_checkpoint_resumes_bit_for_bit(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from meshwright.runtime.sharing import Trainer, trained

    whole = trained(3, 1, 0, 9)
    first = trained(3, 1, 0, 4)
    first.save(tmp_path / "job.npz")
    second = Trainer(3, 1, 0)
    second.load(tmp_path / "job.npz")
    for _ in range(5):
        second.step()
    assert all(bool((w == second.weights()[k]).all()) for k, w in whole.weights().items())
    assert any(bool((w != first.weights()[k]).any()) for k, w in whole.weights().items())
    assert trained(3, 1, 1, 9).weights()["0.bias"].ne(whole.weights()["0.bias"]).any()  # another job


def arrived(at_s: float, left_s: float) -> State:
    return State(at_s=at_s, phase=0, jobs=(JobState(job=0, left_s=left_s),))


def test_books_of_a_lease_by_hand() -> None:
    ledger = Ledger(TWO, baseline("tiresias"))
    ledger.arrive(0, arrived(0.0, 100.0))
    assert ledger.decide().given == {0: (0, 1)}
    ledger.update(0, State(at_s=0.0, phase=0, jobs=(JobState(job=0, left_s=100.0, gpus=(0, 1)),)))
    assert (ledger.offered(), ledger.next_lease_s()) == ([], 60.0)
    ledger.arrive(1, arrived(5.0, 50.0))
    assert ledger.lapse(61.0)
    assert (ledger.now_s, ledger.offered()) == (60.0, [0, 1])
    decision = ledger.decide()  # the newcomer has had the least; the other keeps one
    assert decision.given == {0: (1,), 1: (0,)}
    assert decision.taken == {0: {0}}
    ledger.update(1, State(at_s=115.0, phase=0, over=True))
    record = ledger.records[1]
    assert (record.start_s, record.finish_s, record.gpu_s) == (60.0, 115.0, 55.0)
    assert record.contention == 2.0  # both were there all its life
    assert ledger.owner == [-1, 0]


def test_gpus_that_no_job_uses_go_back() -> None:
    ledger = Ledger(TWO, baseline("fifo"))
    ledger.arrive(0, arrived(0.0, 100.0))
    ledger.decide()
    ledger.update(0, State(at_s=1.0, phase=0, jobs=(JobState(job=0, left_s=99.0, gpus=(1,)),)))
    assert ledger.owner == [-1, 0]
    assert ledger.next_lease_s() == math.inf  # fifo leases nothing


class Giver:
    """Gives what it is told to give."""

    name, preempts = "giver", True

    def __init__(self, given: Mapping[int, int]) -> None:
        self.given = given

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        return self.given


@pytest.mark.parametrize("given", [{7: 0}, {0: 1}])
def test_a_policy_cannot_give_what_is_not_there(given: dict[int, int]) -> None:
    ledger = Ledger(TWO, Giver(given))
    ledger.arrive(0, arrived(0.0, 100.0))
    with pytest.raises(RunError, match="policy giver gave GPU"):
        ledger.decide()


def test_an_agent_that_does_not_answer_is_ended_and_named() -> None:
    ended: list[int] = []
    world = SharingWorld(SharedCluster.uniform(1, 1), (App.single("mute", 0, 10),))

    async def run() -> Arbiter:
        arbiter = Arbiter(world, baseline("fifo"), RunOptions(answer_s=0.05), ended.append)
        arbiter.end = lambda app: (ended.append(app), arbiter.gone(app, "killed by SIGKILL"))  # type: ignore[assignment]
        arbiter.hello(0, Hello(app="mute", step_s=1e-3))
        arbiter.happened(0, arrived(0.0, 10.0))
        await asyncio.wait_for(arbiter.run(), 10.0)
        return arbiter

    arbiter = asyncio.run(run())
    assert ended == [0]
    assert not arbiter.ledger.records[0].completed
    assert re.search(r"did not answer 'report' within 0\.05 s|no sign of life", str(arbiter.lost[0]))


def test_the_service_says_what_is_wrong_with_a_message() -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    import httpx
    from meshwright.runtime.sharing.arbiter.service import application

    arbiter = Arbiter(TWO, baseline("fifo"), RunOptions(), lambda app: None)
    messages = [
        ("/apps/2/hello", '{"app": "c", "step_s": 0.001}'),
        ("/apps/0/hello", '{"app": "b", "step_s": 0.001}'),
        ("/apps/0/state", '{"at_s": -1, "phase": 0}'),
        ("/apps/0/state", '{"at_s": 1, "phase": 0, "jobs": [{"job": 0, "left_s": "much"}]}'),
        ("/apps/0/hello", '{"app": "a", "step_s": 0.001}'),
    ]

    async def talk() -> tuple[list[httpx.Response], httpx.Response]:
        transport = httpx.ASGITransport(application(arbiter))
        headers = {"Content-Type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://arbiter", headers=headers) as client:
            return [await client.post(where, content=what) for where, what in messages], await client.get("/")

    answers, books = asyncio.run(talk())
    assert [a.status_code for a in answers] == [404, 409, 422, 422, 200]
    assert answers[0].json()["detail"] == "app: there are 2 (got 2)"
    assert answers[1].json()["detail"] == "arbiter: app 0 is 'a' here (got 'b')"
    assert books.json()["gpus"] == [None, None]
    assert not arbiter.ledger.active


def test_an_agent_without_arbiter_ends_with_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr("meshwright.runtime.sharing.agent.link.os._exit", leave)
    monkeypatch.setattr("meshwright.runtime.sharing.agent.link.WAIT_S", 0.0)
    with pytest.raises(SystemExit):
        Link(1, 0, "lonely", 0.0).say("state", arrived(0.0, 1.0))
    assert codes == [3]
    assert "agent of app 'lonely': the arbiter at 127.0.0.1:1 does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"time_scale": 0.0}, "time_scale: expected a finite number > 0"),
        ({"slot_steps": math.nan}, "slot_steps: expected a finite number > 0"),
        ({"seed": -1}, "seed: expected an integer >= 0"),
        ({"folder": "."}, "folder: . is not empty"),
    ],
)
def test_wrong_options_say_so(given: dict[str, object], said: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=said):
        run_sharing(TWO, baseline("fifo"), RunOptions(**given))  # type: ignore[arg-type]


def test_more_gpus_than_slots_are_refused() -> None:
    world = SharingWorld(SharedCluster.uniform(1000, 8), ())
    with pytest.raises(InputError, match=r"cluster: 8000 GPUs are slots on \d+ cores, at most 2 per core"):
        check_slots(world, RunOptions())


def test_cores_that_are_too_slow_are_named_with_a_rate_that_works() -> None:
    arbiter = Arbiter(TWO, baseline("fifo"), RunOptions(slot_steps=1e7), lambda app: None)
    for number, app in enumerate(TWO.apps):
        arbiter.agents[number].hello = Hello(app=app.name, step_s=1e-3)
    with pytest.raises(InputError, match=r"2 slots of 1e\+07 steps/s of 1 ms need 2e\+04 cores.* lower slot_steps to"):
        check_agents(arbiter)
    arbiter.agents[1].gone = "killed by SIGKILL"
    with pytest.raises(RunError, match="agent of app 'b' did not start: killed by SIGKILL"):
        check_agents(arbiter)


def test_an_old_lease_ends_no_new_one() -> None:
    """At 60 s to the digit; GPUs that are granted anew then are leased until 120 s, whatever the first lease said."""
    ledger = Ledger(TWO, baseline("tiresias"))
    ledger.arrive(0, arrived(0.0, 1000.0))
    ledger.decide()
    assert not ledger.lapse(59.999)
    assert ledger.offered() == []
    assert ledger.lapse(60.0)
    assert ledger.offered() == [0, 1]
    assert ledger.next_lease_s() == math.inf
    ledger.decide()  # the only app goes on
    assert ledger.next_lease_s() == 120.0
    assert not ledger.lapse(119.0)
    assert (ledger.offered(), ledger.leased_until(0)) == ([], 120.0)
    ledger.update(0, State(at_s=70.0, phase=0, jobs=(JobState(job=0, left_s=900.0, gpus=(1,)),)))
    assert ledger.offered() == [0]
    ledger.advance(80.0)
    ledger.decide()  # the one that came back is leased anew: until 140 s
    assert ledger.lapse(120.0)
    assert ledger.offered() == [1]
    assert ledger.lapse(140.0)
    assert ledger.offered() == [0, 1]
