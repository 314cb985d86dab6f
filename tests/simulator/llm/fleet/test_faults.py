"""Engines that die: schedules worked by hand, and availability as renewal theory has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.errors import InputError
from meshwright.profiles import LinkSpec
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import Fault, Faults, LLMTrace, Pools, SimulateOptions, draw, simulate_llm

CONFIG = {"num_blocks": 101, "block_size": 4, "max_model_len": 64}
NEVER = float("inf")


def serve(trace, faults, cost=None, **more):
    return simulate_llm(trace, config=CONFIG, cost=cost or ConstantCost(1.0), **llm_asked(faults=faults, **more))


def test_lost_tokens_are_generated_again_elsewhere():
    # a on engine 0 from 0 on; it dies at 2.5: two tokens and half an iteration are lost; engine 1 begins anew at once.
    faults = Faults((Fault(0, 2.5, 1.0),), load_s=0.5)
    result = serve(LLMTrace([0.0], [8], [4]), faults, engines=2)
    assert result.token_times(0).tolist() == [3.5, 4.5, 5.5, 6.5]
    assert result.first_token.tolist() == [3.5]
    assert result.scheduled.tolist() == [0]
    assert result.engine.tolist() == [1]
    report = result.fleet
    assert report.retries.tolist() == [1]
    assert report.lost_tokens.tolist() == [2]
    assert report.deaths.tolist() == [1, 0]
    mine = report.engine == 0
    assert list(zip(report.state[mine].tolist(), report.start[mine], report.end[mine], strict=True)) == [
        ("up", 0, 2.5), ("down", 2.5, 3.5), ("starting", 3.5, 4), ("up", 4, 6.5)
    ]  # fmt: skip
    assert report.busy_s.tolist() == [2.5, 4]
    assert result.iterations.end[result.iterations.engine == 0].tolist() == [1, 2, 2.5]
    assert report.engine_seconds == 6.5 + 6.5 - 1
    assert report.availability == pytest.approx((5 + 6.5) / 13)


def test_tokens_that_are_kept_become_part_of_the_prompt():
    faults = Faults((Fault(0, 2.5, 1.0),), tokens="keep")
    result = serve(LLMTrace([0.0], [8], [4]), faults, LinearCost(base_s=0.5, token_s=0.0625), engines=2)
    # 1.0 for 8 tokens, then 0.5625 for one each: 1, 1.5625, 2.125; the rest is lost at 2.5. A prompt of 8 + 3 then
    # takes 0.5 + 11/16.
    assert result.token_times(0).tolist() == [1, 1.5625, 2.125, 2.5 + 0.5 + 11 / 16]
    assert result.generated.tolist() == [4]
    assert result.fleet.lost_tokens.tolist() == [0]


def test_who_has_nowhere_to_go_waits():
    result = serve(LLMTrace([0.0, 3.0], [8, 8], [4, 1]), Faults((Fault(0, 2.5, 1.0),), load_s=0.5, retry_s=0.25))
    # Retried at 2.75, in front of who arrives at 3; both begin when the engine is back at 4.
    assert result.first_token.tolist() == [5, 5]
    assert result.finish.tolist() == [8, 5]
    assert result.fleet.retries.tolist() == [1, 0]


def test_too_many_retries_fail_and_are_reported():
    faults = Faults(tuple(Fault(0, t) for t in (0.5, 1.0, 1.5, 2.0)), max_retries=2)
    result = serve(LLMTrace([0.0, 5.0], [8, 8], [4, 1]), faults)
    assert result.fleet.retries.tolist() == [3, 0]
    assert result.fleet.failed.tolist() == [True, False]
    assert result.ignored.tolist() == [True, False]
    assert np.isnan(result.finish[0])
    assert result.generated.tolist() == [0, 1]
    assert result.attainment() == 0.5
    assert not result.unfinished.any()


def test_when_the_last_engine_is_gone_for_good_everyone_fails():
    result = serve(LLMTrace([0.0, 5.0, 9.0], [8, 8, 8], [2, 4, 4]), Faults((Fault(0, 6.5, NEVER),)))
    assert result.finish[0] == 2
    assert result.fleet.failed.tolist() == [False, True, True]
    # In a closed loop those behind them are sent, and fail, too.
    result = serve(LLMTrace([0.0] * 4, [8] * 4, [4] * 4), Faults((Fault(0, 0.5, NEVER),)), concurrency=1)
    assert result.fleet.failed.all()
    # Others that die and come back for ever are no help: prompts have no engine any more.
    pools = Pools(1, 1, LinkSpec(400.0, 0.0), kv_bytes_per_token=100)
    result = serve(LLMTrace([0.0, 5.0], [8, 8], [1, 1]), Faults((Fault(0, 3.5, NEVER),), mtbf_s=50.0, mttr_s=1.0),
                   pools=pools)  # fmt: skip
    assert result.fleet.failed.tolist() == [False, True]
    # Stopped before a repair, they are unfinished.
    result = serve(LLMTrace([0.0], [8], [4]), Faults((Fault(0, 0.5, 9.0),)), until=3.0)
    assert result.unfinished.all()
    assert result.fleet.end_s == 3


def test_at_the_end_of_an_iteration_its_tokens_are_there_first():
    result = serve(LLMTrace([0.0], [8], [2]), Faults((Fault(0, 2.0, 1.0),)))
    assert result.finish.tolist() == [2]
    assert result.fleet.deaths.tolist() == [0]  # the simulation is over before


def test_an_engine_that_dies_forgets_its_cache():
    trace = LLMTrace([0.0, 10.0], [12, 12], [1, 1], prefix_ids=[range(12)] * 2, prefix_block=1)
    assert serve(trace, Faults((Fault(0, 20.0),))).cached_tokens.tolist() == [0, 8]
    assert serve(trace, Faults((Fault(0, 5.0),))).cached_tokens.tolist() == [0, 0]


def test_asynchronous_iterations_die_together():
    faults = Faults((Fault(0, 1.5, 1.0),))
    config = {**CONFIG, "async_scheduling": True}
    result = simulate_llm(
        LLMTrace([0.0], [8], [4]), config=config, cost=ConstantCost(1.0), options=SimulateOptions(faults=faults)
    )
    # Under way at 1.5: the second iteration, 1 to 2, and the third, decided and not begun.
    assert result.iterations.start[:2].tolist() == [0, 1]
    assert result.iterations.end[:2].tolist() == [1, 1.5]
    assert result.token_times(0).tolist() == [3.5, 4.5, 5.5, 6.5]


@pytest.mark.parametrize("policy", ["vllm-0.2", "orca-max"])
def test_any_policy_may_die(policy):
    config = {"vllm-0.2": {"num_gpu_blocks": 100, "block_size": 4, "max_model_len": 64},
              "orca-max": {"num_slots": 512, "max_model_len": 64, "max_num_seqs": 8}}[policy]  # fmt: skip
    for tokens in ("lose", "keep"):
        result = simulate_llm(LLMTrace([0.0], [8], [4]), policy=policy, config=config, cost=ConstantCost(1.0),
                              engines=2,
                              options=SimulateOptions(faults=Faults((Fault(0, 2.5, 1.0),), tokens=tokens)))  # fmt: skip
        again = [3.5, 4.5, 5.5, 6.5] if tokens == "lose" else [1, 2, 3.5, 4.5]
        assert result.token_times(0).tolist() == again


def test_either_end_of_a_transfer_may_die():
    pools = Pools(2, 2, LinkSpec(400.0, 0.0), kv_bytes_per_token=100)
    trace = LLMTrace([0.0], [4], [3])  # prompt 0 to 1, transfer 1 to 2, decode 2 to 4
    for engine in (0, 2):
        result = serve(trace, Faults((Fault(engine, 1.5, NEVER),)), pools=pools)
        # Again from the prompt, on what is left: 1.5 to 2.5, transfer to 3.5, decode to 5.5.
        assert result.token_times(0).tolist() == [2.5, 4.5, 5.5]
        assert result.fleet.first_engine.tolist() == [1]
        assert result.engine.tolist() == [3 if engine == 2 else 2]
        assert result.fleet.lost_tokens.tolist() == [1]
    kept = serve(trace, Faults((Fault(2, 2.5, NEVER),), tokens="keep"), pools=pools)
    # One token at 1; a prompt of 5 tokens 2.5 to 3.5 gives the second, two blocks go in 2 s, the third at 6.5.
    assert kept.token_times(0).tolist() == [1, 3.5, 6.5]


def test_without_decode_engines_prompts_are_held():
    pools = Pools(1, 1, LinkSpec(400.0, 0.0), kv_bytes_per_token=100)
    result = serve(LLMTrace([0.0], [4], [3]), Faults((Fault(1, 0.5, 2.0),)), pools=pools)
    assert result.token_times(0).tolist() == [1, 4.5, 5.5]
    assert result.fleet.retries.tolist() == [0]
    gone = serve(LLMTrace([0.0, 8.0], [4, 4], [3, 1]), Faults((Fault(1, 0.5, NEVER),)), pools=pools)
    assert gone.fleet.failed.tolist() == [True, False]


def test_availability_is_that_of_an_alternating_renewal_process():
    mtbf, mttr, load, engines, horizon = 50.0, 10.0, 2.0, 20, 2000.0
    result = serve(LLMTrace([0.0, horizon], [4, 4], [1, 1]), Faults(mtbf_s=mtbf, mttr_s=mttr, load_s=load),
                   engines=engines, seed=5)  # fmt: skip
    share = mtbf / (mtbf + mttr + load)
    # Renewal reward: variance of (up - share x cycle) per second of cycle.
    variance = ((1 - share) ** 2 * mtbf**2 + share**2 * mttr**2) / (mtbf + mttr + load)
    error = 4 * math.sqrt(variance / (engines * horizon)) + mtbf / horizon  # all begin whole
    assert result.fleet.availability == pytest.approx(share, abs=error)
    assert result.fleet.deaths.sum() == pytest.approx(engines * horizon / 62, rel=0.2)


def test_a_seed_is_a_run_and_engines_have_streams_of_their_own():
    trace = draw([30, 10], [10, 4], 200, rate=4.0, seed=0)
    cost = LinearCost(base_s=0.05, token_s=1e-3)

    def run(seed, engines=3):
        return serve(trace, Faults(mtbf_s=20.0, mttr_s=5.0), cost, engines=engines, seed=seed)

    one, same, other = run(1), run(1), run(2)
    assert np.array_equal(one.finish, same.finish)
    assert np.array_equal(one.fleet.spans()["end"], same.fleet.spans()["end"])
    assert not np.array_equal(one.fleet.start, other.fleet.start)
    more = run(1, engines=4)  # one engine more moves no other's deaths
    first = [s.loc[(s.engine == 0) & (s.state == "up"), "end"].iloc[0] for s in (one.fleet.spans(), more.fleet.spans())]
    assert first[0] == first[1]


def test_a_death_that_never_comes_changes_nothing():
    trace = draw([30, 10, 40], [10, 4, 20], 300, rate=6.0, seed=3)
    cost = LinearCost(base_s=0.05, token_s=1e-3, context_s=1e-5)
    for router in ("round_robin", "least_outstanding", "random", "prefix_affinity"):
        plain = simulate_llm(trace, config=CONFIG, cost=cost, engines=3, router=router, engine="simpy")
        fleet = serve(trace, Faults((Fault(0, 1e9),)), cost, engines=3, router=router)
        for name in ("arrival", "scheduled", "first_token", "finish", "engine", "preemptions", "generated"):
            assert np.array_equal(getattr(plain, name), getattr(fleet, name), equal_nan=True), (router, name)
        for name, column in plain.iterations.columns().items():
            assert np.array_equal(column, fleet.iterations.columns()[name]), name
        assert plain.fleet is None
        assert plain.itl(50) == fleet.itl(50)


BAD = (
    (lambda: Fault(-1, 1.0), "engine: expected an integer >= 0"),
    (lambda: Fault(0, math.nan), "at_s: expected finite seconds > 0"),
    (lambda: Fault(0, 0.0), "at_s: expected finite seconds > 0"),
    (lambda: Fault(0, 1.0, -1.0), "repair_s: expected seconds >= 0"),
    (lambda: Faults(), "nothing ever fails"),
    (lambda: Faults(mtbf_s=5.0), "go together"),
    (lambda: Faults(mtbf_s=0.0, mttr_s=1.0), "mtbf_s: expected finite seconds > 0"),
    (lambda: Faults([Fault(0, 1.0)]), "events: expected a tuple of Fault"),
    (lambda: Faults((Fault(0, 1.0),), tokens="forget"), "tokens: expected 'lose' or 'keep'"),
    (lambda: Faults((Fault(0, 1.0),), max_retries=-1), "max_retries: expected an integer >= 0"),
    (lambda: Faults((Fault(0, 1.0),), load_s=math.inf), "load_s: expected finite seconds >= 0"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), Faults((Fault(3, 1.0),))), "engine 3 does not exist; there are 1"),
    (lambda: serve(LLMTrace([0.0], [8], [4]), 7), "faults: expected Faults"),
    (lambda: serve(LLMTrace([0.0], [8], [4], best_of=[2]), Faults((Fault(0, 1.0),), tokens="keep")), "several seq"),
)


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_faults_are_one_line(make, said):
    with pytest.raises(InputError, match=said) as error:
        make()
    assert "\n" not in str(error.value)
