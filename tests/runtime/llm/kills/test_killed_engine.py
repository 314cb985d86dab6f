"""An engine that is killed while it serves: what comes back, what is lost, and the simulation beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from meshwright.cli import run as command
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec, Iteration
from meshwright.simulator.llm import Fault, LLMTrace
from meshwright.simulator.llm.policy.work import Work

pytest.importorskip("torch", reason="the engine needs torch")

from meshwright.runtime.llm.engine import EngineConfig
from meshwright.runtime.llm.kills.beside import beside, drawing
from meshwright.runtime.llm.kills.forecast import drawn_loads, foresee
from meshwright.runtime.llm.kills.ledger import Ledger
from meshwright.runtime.llm.kills.process import EngineBuild, StepTold
from meshwright.runtime.llm.kills.rehearse import Rehearsed, linear_cost, other_requests, rehearse
from meshwright.runtime.llm.kills.run import check_script, serve_with_kills
from meshwright.runtime.llm.steps import EngineStep, Moment

SMALL = DecoderSpec("llama-test", 2, 64, 4, 128, 256, 2, 16, max_positions=256)
CONFIG = {"num_blocks": 64, "max_model_len": 128, "max_num_seqs": 8, "max_num_batched_tokens": 64}
BUILD = EngineBuild(SMALL, "vllm-v1", CONFIG, EngineConfig())
RUN = ["run", "llm", "--model", "tiny-llama"]


def requests(n: int = 60, every_s: float = 0.05) -> LLMTrace:
    return LLMTrace(every_s * (1.0 + np.arange(n)), 8 + np.arange(n) % 9, 20 + np.arange(n) % 7)


@pytest.fixture(scope="module")
def known():
    return rehearse(BUILD, requests(), rounds=2, seconds=1.0)


@pytest.fixture(scope="module")
def ran():
    return serve_with_kills(BUILD, requests(), [Fault(0, 1.5, 0.3)])


def test_every_request_is_served_whole_though_the_engine_was_killed(ran):
    result = ran.result
    assert result.finished.all()
    assert result.generated.tolist() == result.trace.output_tokens.tolist()
    assert len(ran.struck) == len(ran.comebacks) == 1
    [at], [back] = ran.struck, ran.comebacks
    assert at >= 1.5
    assert back.at_s >= at + 0.3
    assert 0 < back.load_s <= back.at_s - at - 0.3 + 0.01


def test_nothing_is_computed_while_it_is_away_and_what_it_had_begins_anew(ran):
    [at], [back], result = ran.struck, ran.comebacks, ran.result
    starts, ends = result.iterations.start, result.iterations.end
    assert not ((starts > at) & (starts < back.at_s)).any()
    assert (starts < at).any()
    assert (starts > back.at_s).any()
    anew = ran.retries > 0
    assert (result.first_token[anew] > back.at_s).all()
    assert (result.arrival[anew] <= at).all()
    waited = (result.arrival > at) & (result.arrival < back.at_s)
    assert waited.any()
    assert not ran.retries[waited].any()  # they never were anywhere
    assert (result.first_token[waited] > back.at_s).all()
    assert not ran.lost_tokens[~anew].any()
    assert (ends >= starts).all()


def test_a_kill_while_it_starts_begins_another_repair(known):
    """A start takes longer than importing torch: 0.2 s after it began it is still under way."""
    trace = requests(20)
    found = serve_with_kills(BUILD, trace, [Fault(0, 0.5, 0.1), Fault(0, 0.8, 0.1)])
    assert known.load_s.min() > 0.2
    assert len(found.struck) == 2
    assert len(found.comebacks) == 1
    assert found.result.finished.all()
    assert found.retries.max() == 1  # the second time nobody was there


def test_the_simulated_fleet_serves_the_same_requests_with_the_same_failure(known, ran, tmp_path: Path):
    kills = [Fault(0, 1.5, 0.3)]
    draws = foresee(BUILD, requests(), kills, known, draws=12)
    again = foresee(BUILD, requests(), kills, known, draws=12)
    found = beside(ran, draws, ttft=1.0, tpot=0.1, window_s=0.5)
    assert all(one.finished.all() for one in draws)
    assert [one.finish.tolist() for one in draws] == [one.finish.tolist() for one in again]
    assert found.totals.draws == 12
    tokens = int(requests().output_tokens.sum())
    assert found.throughput.real.sum() * 0.5 == pytest.approx(tokens)
    assert found.throughput.draws.sum(axis=1) * 0.5 == pytest.approx(tokens)
    assert found.attainment.real[0] >= 0
    assert json.loads(json.dumps(found.to_dict()))["requests"] == 60
    drawing(found).savefig(tmp_path / "k.png")
    assert (tmp_path / "k.png").stat().st_size > 1000


def test_a_tokens_step_is_kept_or_lost_by_hand():
    """Two tokens of one request, killed in between: one is lost, the other one is its first."""
    trace = LLMTrace([0.0, 5.0], [4, 4], [1, 1])
    ledger = Ledger(trace, 100.0)

    def step(begin: float, finished: list[int]) -> StepTold:
        work = Work(iteration=Iteration(decodes=1, context=5, outputs=1), emits=[0])
        return StepTold(Moment(100 + begin, 0.0, 101 + begin, 1.0, work.iteration, True), [work], work, finished, [])

    ledger.note(step(1.0, []))
    ledger.dies([step(2.0, [])], 3.5, True)
    assert (ledger.retries.tolist(), ledger.lost_tokens.tolist()) == ([1, 0], [2, 0])
    ledger.note(step(6.0, [0]))
    result = ledger.result("vllm-v1", ()).result
    assert result.first_token[0] == result.finish[0] == 7.0
    assert result.generated.tolist() == [1, 0]


def test_a_linear_cost_is_found_again():
    iterations = [Iteration(((k, 0),) if k % 3 else (), k, 20 * k, k) for k in range(1, 40)]
    steps = [EngineStep(float(k), 1e-3 + 1e-5 * i.tokens + 2e-7 * i.context, 1.0, i) for k, i in enumerate(iterations)]
    cost = linear_cost(steps)
    assert [cost.seconds(s.iteration) for s in steps] == pytest.approx([s.seconds for s in steps], rel=1e-6)


def test_starts_to_come_are_as_uncertain_as_those_seen_allow():
    drawn = drawn_loads(np.array([2.0, 2.2, 1.8, 2.0]), 4000, 0)
    assert float(np.median(drawn)) == pytest.approx(2.0, abs=0.02)
    # Student, 3 degrees of freedom: 3.182 sd sqrt(1 + 1/4), the sd of these four being 0.1633.
    assert np.quantile(drawn, 0.975) == pytest.approx(2.0 + 3.182 * 0.1633 * 1.25**0.5, rel=0.05)
    assert drawn.min() >= 0.9


def test_other_requests_are_none_of_the_trace_and_of_its_lengths():
    trace = requests(40)
    others = other_requests(trace, 0, 0, 1.0)
    assert 1 <= len(others) < 40
    assert set(others.prompt_tokens.tolist()) <= set(trace.prompt_tokens.tolist())
    assert others.prompt_tokens.tolist() != trace.prompt_tokens[: len(others)].tolist()
    late = other_requests(trace, 0, 0, 0.5, waited_s=0.5)
    assert late.prompt_tokens.tolist() == others.prompt_tokens.tolist()
    assert late.arrival == pytest.approx(np.maximum(0, others.arrival - 0.5))


@pytest.mark.parametrize(
    ("kills", "said"),
    [
        ([], "one time at least"),
        ([Fault(1, 1.0, 1.0)], "one engine, number 0"),
        ([Fault(0, 1.0, float("inf"))], "its repair ends"),
    ],
)
def test_a_wrong_script_is_refused(kills, said):
    with pytest.raises(InputError, match=said):
        check_script(requests(3), kills)


def test_what_cannot_be_killed_is_refused():
    with pytest.raises(InputError, match="expected one of vllm-v1, sarathi"):
        EngineBuild(SMALL, "vllm-0.2", {}, EngineConfig())
    with pytest.raises(InputError, match="one process"):
        EngineBuild(SMALL, "vllm-v1", CONFIG, EngineConfig(tp=2))
    with pytest.raises(InputError, match="2 rounds or more"):
        rehearse(BUILD, requests(3), rounds=1)
    conversation = LLMTrace([0.0, 1.0], [4, 9], [2, 2], after=[-1, 0])
    with pytest.raises(InputError, match="leave conversations"):
        check_script(conversation, [Fault(0, 1.0, 1.0)])
    nothing = Rehearsed(np.array([1.0, 1.0]), [[], []])
    with pytest.raises(InputError, match="no step to learn from"):
        nothing.costs()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--repair", "1"], "repair: goes with kills"),
        (["--png", "x.png"], "png: goes with kills"),
        (["--kills", "2", "--rate", "5"], "slo_ttft"),
        (["--kills", "2", "--slo-ttft", "1", "--concurrency", "2"], "concurrency: does not go with kills"),
        (["--kills", "2", "--slo-ttft", "1", "--serve"], "serve: does not go with kills"),
        (["--kills", "999", "--slo-ttft", "1", "--rate", "5"], "the last request arrives at"),
        (["--kills", "-1", "--slo-ttft", "1", "--rate", "5"], "kills"),
    ],
)
def test_the_command_says_what_does_not_go_together(more, said, capsys):
    assert command([*RUN, *more]) == 2
    assert said in capsys.readouterr().err
