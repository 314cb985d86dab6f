"""Prompts with a common prefix and rounds of chat: what the columns say, and what engines make of them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMTrace, conversations, simulate_llm
from meshwright.simulator.llm.decoding.workloads import chat_rounds, with_prefix

COST = LinearCost(base_s=0.01, token_s=1e-3, context_s=1e-6)


def test_a_prefix_is_told_in_both_ways():
    plain = LLMTrace([0.0, 1.0], [5, 7], [3, 4], best_of=[2, 1], beam=[True, False])
    both = with_prefix(plain, 20, place=1)
    assert both.prompt_tokens.tolist() == [25, 27]
    assert both.request(0).shared_prefix == both.request(1).shared_prefix == 1
    assert both.tokens(0)[:20] == both.tokens(1)[:20]
    own = both.tokens(0)[20:] + both.tokens(1)[20:]
    assert len(set(own)) == 12  # every other token is of one prompt only
    assert not set(own) & set(both.tokens(0)[:20])
    assert not set(with_prefix(plain, 20, place=0).tokens(0)) & set(both.tokens(1)[:20])
    assert both.beam.tolist() == [True, False]
    assert both.select([1]).shared_prefix.tolist() == [1]
    assert both.to_frame().shared_prefix.tolist() == [1, 1]
    again = LLMTrace.of([both.request(0), both.request(1)])
    assert again.shared_prefix.tolist() == [1, 1]
    assert again.tokens(1) == both.tokens(1)


def test_bad_prefixes_are_said():
    plain = LLMTrace([0.0], [5], [3])
    with pytest.raises(InputError, match="tokens: expected an integer from 1"):
        with_prefix(plain, 0)
    with pytest.raises(InputError, match="place: expected"):
        with_prefix(plain, 5, place=-1)
    with pytest.raises(InputError, match="prefixes or turns of its own"):
        with_prefix(with_prefix(plain, 5), 5)
    with pytest.raises(InputError, match="prefixes or turns of its own"):
        with_prefix(conversations([5], [5], 5, rate=1.0), 5)


def test_engines_compute_a_shared_prefix_as_often_as_their_policy_says():
    """64 tokens in front of prompts of 16: prefill is all of it, the rest (reserved), or the rest but once (V1)."""
    n = 12
    shared = with_prefix(LLMTrace(np.arange(n) * 0.05, [16] * n, [20] * n), 64)

    def served(policy, **config):
        return simulate_llm(shared, policy=policy, config=config, cost=COST)

    plain = served("vllm-0.2", num_gpu_blocks=200)
    reserved = served("vllm-0.2", num_gpu_blocks=200, prefixes=(64,))
    orca = served("orca-oracle", num_slots=3200)
    v1 = served("vllm-v1", num_blocks=200, max_model_len=2048)
    assert [int(r.iterations.prefill.sum()) for r in (plain, orca)] == [n * 80, n * 80]
    assert int(reserved.iterations.prefill.sum()) == n * 16
    assert int(v1.iterations.prefill.sum()) == 64 + n * 16
    assert reserved.cached_tokens.tolist() == [64] * n
    assert reserved.prefix_hit_rate == pytest.approx(64 / 80)
    assert v1.cached_tokens.tolist() == [0] + [64] * (n - 1)
    assert reserved.normalized_latency < plain.normalized_latency
    assert reserved.memory_saving > 0
    assert plain.memory_saving == orca.memory_saving == 0
    # Alone a request saves nothing by a prefix that the provider keeps for it; two at a time share its 4 blocks.
    both = reserved.iterations.running == 2
    assert set(reserved.iterations.shared_tokens[both].tolist()) == {64}


def test_rounds_of_chat_are_the_end_of_what_was_said():
    """With messages and answers of fixed lengths a prompt is (j + 1) messages and j answers, cut to 1024."""
    drawn = chat_rounds([100], [300], 20_000, rate=5.0, rounds=3.0, seed=4)
    assert set(drawn.prompt_tokens.tolist()) == {100, 500, 900, 1024}
    assert set(drawn.output_tokens.tolist()) == {300}
    share = [float(np.mean(drawn.prompt_tokens == tokens)) for tokens in (100, 500, 900, 1024)]
    # As many rounds before as a geometric number less one: 1/3, 2/9, 4/27 and the rest.
    assert share == pytest.approx([1 / 3, 2 / 9, 4 / 27, 8 / 27], abs=4 * (0.25 / 20_000) ** 0.5)
    assert len(drawn) / drawn.arrival[-1] == pytest.approx(5.0, rel=0.03)
    cut = chat_rounds([100], [300], 50, rate=1.0, rounds=1.0, max_prompt=64, max_output=200)
    assert (set(cut.prompt_tokens.tolist()), set(cut.output_tokens.tolist())) == ({64}, {200})
    assert drawn.after is None
    assert drawn.prefix_ids is None


def test_bad_rounds_are_said():
    with pytest.raises(InputError, match="rounds: expected a mean >= 1"):
        chat_rounds([1], [1], 5, rate=1.0, rounds=0.5)
    with pytest.raises(InputError, match="expected pairs"):
        chat_rounds([1, 2], [1], 5, rate=1.0)
    with pytest.raises(InputError, match="max_output"):
        chat_rounds([1], [1], 5, rate=1.0, max_output=0)


def test_the_example_serves_a_mixture(capsys):
    main = runpy.run_path(str(Path(__file__).parents[4] / "examples/decoding_methods.py"))["main"]
    main()
    paged, chunks = capsys.readouterr().out.splitlines()
    assert paged.startswith("vLLM: ")
    assert chunks.startswith("Orca (Oracle): ")
    assert chunks.endswith(" 0% of the blocks saved")
    assert float(paged.split()[1]) < float(chunks.split()[2])
