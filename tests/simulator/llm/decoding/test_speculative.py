"""Speculative decoding: the closed form, the two ends of acceptance, what a step costs, and slots for drafts."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import NO_OVERHEADS, ConstantCost, Iteration, LinearCost, decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, simulate_llm
from meshwright.simulator.llm.decoding.speculative import Speculative, SpeculativeCost, SpeculativeIteration

CONFIG = {
    "num_blocks": 4000, "block_size": 16, "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 64,
    "enable_prefix_caching": False,
}  # fmt: skip


def serve(speculative, *, n=4, prompt=32, output=400, cost=None, seed=0, **config):
    trace = LLMTrace(np.zeros(n), np.full(n, prompt), np.full(n, output))
    return simulate_llm(
        trace,
        config=CONFIG | config,
        cost=cost or ConstantCost(1.0),
        options=SimulateOptions(speculative=speculative),
        seed=seed,
    )


@pytest.mark.parametrize(("k", "a"), [(1, 0.5), (4, 0.0), (4, 0.7), (4, 1.0), (8, 0.9)])
def test_the_closed_form(k, a):
    closed = k + 1 if a == 1 else (1 - a ** (k + 1)) / (1 - a)
    assert Speculative(k, a).expected_tokens == pytest.approx(closed)


def test_acceptances_by_position():
    assert Speculative(3, (0.9, 0.5, 0.2)).expected_tokens == pytest.approx(1 + 0.9 + 0.45 + 0.09)


@pytest.mark.parametrize("acceptance", [0.6, (0.9, 0.6, 0.3, 0.1)])
def test_tokens_per_step_are_those_of_the_closed_form(acceptance):
    """Every step takes a second: tokens after the first over the steps they took, within 4 standard errors."""
    s = Speculative(4, acceptance)
    found = serve(s, n=64, output=500)
    steps = found.finish - found.first_token
    # The last step of each is cut by the end of its output: at most k tokens of 499.
    per_step = 499 / steps
    chances = np.cumprod(s.chances)
    variance = float(sum((2 * i + 1) * c for i, c in enumerate(chances)) - chances.sum() ** 2)
    error = np.sqrt(variance / steps.sum())
    assert abs(499 * 64 / steps.sum() - s.expected_tokens) < 4 * error + s.tokens / 2 / steps.mean()
    assert per_step.std() > 0


def test_all_drafts_kept():
    """1 token from the prompt, then k + 1 a step: ceil(399 / 5) steps."""
    found = serve(Speculative(4, 1.0), n=3, output=400)
    assert (found.finish - found.first_token).tolist() == [80.0] * 3
    assert found.generated.tolist() == [400] * 3


def test_no_draft_kept_is_plain_decoding_and_the_price_of_trying():
    """One token a step, k + 1 rows through the matrices and the draft's time on top."""
    cost = LinearCost(base_s=1e-2, token_s=1e-4)
    plain = serve(None, n=2, output=100, cost=cost)
    tried = serve(Speculative(4, 0.0, draft_s=1e-3), n=2, output=100, cost=cost)
    assert tried.generated.tolist() == [100, 100]
    more = 99 * (2 * 4 * 1e-4 + 1e-3)
    took, plainly = (r.finish - r.first_token for r in (tried, plain))
    # The last step but for its drafts: none are proposed beyond it, but they are beside it.
    assert took == pytest.approx(plainly + more)


def test_a_draft_model_decodes_k_times():
    target, draft = LinearCost(1.0, token_s=0.01), LinearCost(0.1, token_s=0.001, context_s=1e-4)
    cost = SpeculativeCost(target, Speculative(3, 0.5, draft=draft))
    step = SpeculativeIteration(((50, 0), (4, 96)), 0, 0, 5, verified=1, proposing=2, proposing_context=150)
    drafts = sum(0.1 + 0.002 + 1e-4 * (150 + 2 * i) for i in range(3))
    assert cost.seconds(step) == pytest.approx(1.54 + (0.1 + 0.05) + drafts)
    assert cost.seconds(Iteration((), 1, 9, 1)) == target.seconds(Iteration((), 1, 9, 1))


def test_verification_reads_keys_and_values_once():
    """On a device: 5 rows of one long sequence cost what one decode of it costs and little more."""
    cost = iteration_cost(decoder("Llama-3.1-8B"), device("h100-80gb"), overheads=NO_OVERHEADS)
    decode = cost.seconds(Iteration((), 1, 8192, 1))
    verify = cost.seconds(Iteration(((5, 8187),), 0, 0, 5))
    assert decode < verify < 1.1 * decode


def test_drafts_and_what_follows_have_slots():
    """Two requests of 8 blocks in a pool of 14: drafts make room run out, requests are preempted, all ends."""
    found = serve(Speculative(4, 0.5), n=2, prompt=32, output=80, num_blocks=15)
    assert found.generated.tolist() == [80, 80]
    assert found.preemptions.sum() > 0
    with pytest.raises(InputError, match="blocks"):
        serve(Speculative(4, 0.5), n=1, prompt=32, output=90, num_blocks=9)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_prompts_are_admitted_without_slots_for_drafts(engine):
    """Two prompts of 2 blocks in a pool of 5, where slots for drafts would take a third of each: both begin at once."""
    trace, config = LLMTrace(np.zeros(2), [32, 32], [4, 4]), CONFIG | {"num_blocks": 6}
    options = SimulateOptions(speculative=Speculative(4, 0.5))
    found = simulate_llm(trace, config=config, cost=ConstantCost(1.0), options=options, engine=engine)
    assert found.iterations.running[0] == 2
    assert found.iterations.used_tokens[0] == 64
    assert found.iterations.wasted_tokens[0] == 0


def test_draws_of_a_request_do_not_depend_on_others():
    alone, beside = serve(Speculative(4, 0.6), n=1), serve(Speculative(4, 0.6), n=8)
    assert alone.finish[0] - alone.first_token[0] == beside.finish[0] - beside.first_token[0]
    other = serve(Speculative(4, 0.6), n=8, seed=1)
    assert (other.finish != beside.finish).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Speculative(0, 0.5), "tokens"),
        (lambda: Speculative(2, (0.5,)), "expected one number or 2"),
        (lambda: Speculative(2, 1.5), r"shares in \[0, 1\]"),
        (lambda: Speculative(2, 0.5, draft_s=-1.0), "draft_s"),
        (lambda: serve(Speculative(2, 0.5), async_scheduling=True), "async_scheduling=False"),
    ],
)
def test_wrong_options(make, said):
    with pytest.raises(InputError, match=said):
        make()
