"""The rank that all others wait for under expert parallelism, against draws of gates token by token."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import NO_OVERHEADS, Iteration, decoder, iteration_cost
from meshwright.profiles.llm.experts import distinct_experts, popularity
from meshwright.profiles.llm.fullest_rank import fullest_rank

QWEN = decoder("Qwen3-30B-A3B")


def gates(experts: int, k: int, ranks: int, tokens: int, skew: float, layers: int = 200) -> tuple[float, float]:
    """Every token chooses k different experts by their popularity; the fullest rank's rows, and the most experts."""
    rng = np.random.default_rng(5)
    rows, distinct = np.zeros(layers), np.zeros(layers)
    for layer in range(layers):
        weight = rng.permutation(np.log(popularity(experts, k, skew)))
        keys = weight + rng.gumbel(size=(tokens, experts))
        chosen = np.zeros((tokens, experts), dtype=bool)
        np.put_along_axis(chosen, np.argpartition(-keys, k - 1, axis=1)[:, :k], True, axis=1)
        by_rank = chosen.reshape(tokens, ranks, experts // ranks)
        rows[layer] = by_rank.sum(axis=(0, 2)).max()
        distinct[layer] = by_rank.any(axis=0).sum(axis=1).max()
    return float(rows.mean()), float(distinct.mean())


@pytest.mark.parametrize("skew", [0.0, 0.7])
@pytest.mark.parametrize(("ranks", "tokens"), [(2, 4), (2, 64), (8, 16), (8, 256), (32, 64), (32, 1024)])
def test_against_gates_that_are_drawn(ranks: int, tokens: int, skew: float) -> None:
    rows, distinct = fullest_rank(128, 8, ranks, np.array([float(tokens)]), skew)
    real_rows, real_distinct = gates(128, 8, ranks, tokens, skew)
    assert rows[0] == pytest.approx(real_rows, rel=0.08)
    assert distinct[0] == pytest.approx(real_distinct, rel=0.08)


def test_chance_goes_with_the_batch_and_popularity_stays() -> None:
    many = np.array([1e6])
    even = many * 8 / 16
    assert fullest_rank(128, 8, 16, many, 0.0)[0] == pytest.approx(even, rel=0.01)
    assert fullest_rank(128, 8, 16, many, 0.7, balanced=True)[0] == pytest.approx(even, rel=0.01)
    assert fullest_rank(128, 8, 16, many, 0.7)[0] > 1.3 * even
    assert fullest_rank(128, 8, 16, np.array([32.0]), 0.7, balanced=True)[0] > 1.1 * 32 * 8 / 16


def test_one_rank_has_all() -> None:
    tokens = np.array([1.0, 7, 300])
    rows, distinct = fullest_rank(128, 8, 1, tokens)
    assert rows.tolist() == (8 * tokens).tolist()
    assert distinct == pytest.approx(distinct_experts(128, 8, tokens))


def test_the_step_waits_for_it() -> None:
    """Of 16 ranks the fullest computes a third more than its share; balanced, hardly more."""
    step, gpu = Iteration(((12000, 0),), 0, 0, 1), device("h100-80gb")
    seconds: dict[bool, float] = {}
    for balanced in (False, True):
        cost = iteration_cost(QWEN, gpu, dp=16, ep=16, balanced=balanced, overheads=NO_OVERHEADS)
        seconds[balanced] = next(p.seconds for p in cost.explain(step) if p.name == "experts")
    assert 1.2 < seconds[False] / seconds[True] < 1.7


def test_tokens_are_sent_to_the_ranks_of_their_experts_alone() -> None:
    """Of 8 experts a token, on 64 ranks, at most 8 copies go out; gathering takes every token to every rank."""
    step, gpu = Iteration((), 64 * 128, 64 * 128 * 500, 64 * 128), device("h100-80gb")
    sent: dict[str, float] = {}
    for way in ("allgather_reducescatter", "deepep_high_throughput"):
        cost = iteration_cost(QWEN, gpu, dp=64, ep=64, all2all=way, balanced=True, overheads=NO_OVERHEADS)
        sent[way] = sum(p.seconds for p in cost.explain(step) if p.name in ("dispatch to experts", "combine experts"))
    assert sent["deepep_high_throughput"] < 0.25 * sent["allgather_reducescatter"]


@pytest.mark.parametrize(("field", "value"), [("all2all", "pplx"), ("balanced", 1), ("skew", -1.0)])
def test_wrong_options_are_one_line(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{field}: expected") as caught:
        iteration_cost(QWEN, device("h100-80gb"), dp=2, ep=2, **{field: value})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
