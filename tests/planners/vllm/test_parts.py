"""Parts of the LLM planner: halving, the split of a budget, placing engines in nodes, traffic under other seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.vllm import Candidate, DrawnTraffic, EngineShape, GivenTraffic, LLMDemand
from meshwright.planners.vllm.choice import Front, split
from meshwright.planners.vllm.halving import Kinds, Rung, rungs, successive_halving
from meshwright.planners.vllm.layouts import place
from meshwright.planners.vllm.scoring import Score, score_of
from meshwright.planners.vllm.search import Bracket, Finalist
from meshwright.profiles.llm import decoder
from meshwright.seeds import generator
from meshwright.simulator import Cluster
from meshwright.simulator.llm import LLMResult, LLMTrace, conversations
from meshwright.simulator.llm.result.iterations import Iterations, TokenRuns
from meshwright.traces.lengths import length_profile


def noisy(truth: list[float], seed: int):
    """Scores whose noise falls with the budget, the same noise for all in a round."""

    def evaluate(some: list[int], budget: int) -> list[float]:
        noise = generator(seed, "noise", budget).normal(0, 1 / budget, len(truth))
        return [truth[i] + float(noise[i]) for i in some]

    return evaluate


def test_rungs() -> None:
    assert rungs(27, 900, eta=3, finalists=3, smallest=1) == (100, 300, 900)
    assert rungs(27, 900, eta=3, finalists=3, smallest=200) == (200, 300, 900)
    assert rungs(3, 900, eta=3, finalists=3, smallest=1) == (900,)
    assert rungs(27, 900, eta=1, finalists=3, smallest=1) == (900,)
    assert rungs(27, 100, eta=3, finalists=3, smallest=200) == (100,)


def test_keeping_all_ranks_all_on_everything() -> None:
    truth = [3.0, 1.0, 2.0, 3.0]
    found = successive_halving(range(4), 10, lambda some, _: [truth[i] for i in some], lambda s: (s,), eta=1)
    assert [c for c, _ in found.last] == [0, 3, 2, 1]  # of equals the first
    assert found.rounds == (Rung(10, 4),)
    assert not found.dropped


def test_halving_keeps_one_in_eta_and_says_whom_it_dropped() -> None:
    truth = list(np.linspace(0, 1, 27))
    found = successive_halving(
        range(27), 900, lambda some, _: [truth[i] for i in some], lambda s: (s,), eta=3, finalists=3, smallest=1
    )
    assert found.rounds == (Rung(100, 27), Rung(300, 9), Rung(900, 3))
    assert [c for c, _ in found.last] == [26, 25, 24]
    assert [(c, b) for c, _, b in found.dropped[:2]] == [(23, 300), (22, 300)]
    assert [*sorted(c for c, *_ in found.dropped), 24, 25, 26] == list(range(27))


def test_halving_finds_the_best_through_noise_that_falls_with_the_budget() -> None:
    hits = 0
    for seed in range(20):
        truth = generator(seed, "truth").permutation(27).tolist()
        best = successive_halving(
            range(27), 900, noisy(truth, seed), lambda s: (s,), eta=3, finalists=3, smallest=1
        ).last[0][0]
        hits += truth[best] == 26
    assert hits == 20


def test_the_best_of_each_kind_goes_on_unless_it_is_far_behind() -> None:
    """Two cuts with room to spare for a while, and one that bears the load: what the first round sees is the room."""
    short, whole = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0], [0.1, 0.2, 0.3, 1.0, 0.9, 0.8]

    def evaluate(some: Sequence[int], budget: int) -> list[float]:
        return [(whole if budget == 300 else short)[i] for i in some]

    def best(kinds: Kinds[int, float] | None = None) -> int:
        found = successive_halving(
            range(6), 300, evaluate, lambda s: (s,), eta=3, finalists=2, smallest=1, kinds=kinds
        )  # fmt: skip
        assert sorted([c for c, _ in found.last] + [c for c, *_ in found.dropped]) == list(range(6))
        return found.last[0][0]

    def within(gap: float) -> Kinds[int, float]:
        return Kinds(lambda c: c // 3, lambda score, top: score > top - gap)

    assert best() == 1  # the others were dropped
    assert best(within(math.inf)) == 3
    assert best(within(4.0)) == 3
    assert best(within(2.0)) == 1


@pytest.mark.parametrize("name", ["eta", "finalists", "smallest"])
def test_halving_refuses_numbers_below_one(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: expected an integer >= 1"):
        successive_halving([1], 10, lambda s, _: list(s), lambda s: (s,), **{name: 0})


SHAPE = EngineShape(1, 1, 1, "vllm-v1", 16, 2048, 256, True, False, 0.9, 2048, 100)


def bracket(devices: int, value: float) -> Bracket:
    score = Score(value, value, value, 0.0, 0.0, 0.0, 0.0)
    return Bracket(devices, (Finalist(Candidate(SHAPE, devices), (score,)),), (), (Rung(1, 1),))


@pytest.mark.parametrize("how", ["sum", "least"])
@pytest.mark.parametrize("seed", range(15))
def test_split_is_the_best_of_all_splits(how: str, seed: int) -> None:
    rng = generator(seed, "split")
    fronts = [
        Front(str(m), tuple(bracket(n, float(v)) for n, v in zip((1, 2, 3, 5), rng.random(4).round(2), strict=True)))
        for m in range(3)
    ]
    weights = rng.integers(1, 5, 3).tolist()

    def rank(chosen: tuple[Bracket, ...]) -> tuple[float, ...]:
        values = [b.best.value for b in chosen]
        total = sum(w * v for w, v in zip(weights, values, strict=True))
        return (total,) if how == "sum" else (min(values), total)

    every = [c for c in itertools.product(*(f.brackets for f in fronts)) if sum(b.devices for b in c) <= 7]
    found = split(fronts, weights, 7, how)  # pyright: ignore[reportArgumentType]
    assert rank(tuple(found)) == pytest.approx(max(map(rank, every)))
    assert split(fronts, weights, 2, how) == []  # pyright: ignore[reportArgumentType]


def test_of_equal_splits_the_one_with_fewest_devices() -> None:
    front = Front("m", (bracket(1, 0.5), bracket(2, 1.0), bracket(4, 1.0)))
    assert [b.devices for b in split([front, front], [1, 1], 8, "sum")] == [2, 2]
    assert [b.devices for b in front.pareto] == [1, 2]


def test_place_keeps_tensor_parallelism_within_nodes() -> None:
    cluster = Cluster(2, 4, "h100-80gb")
    rows = place([(1, 1), (4, 4), (2, 2), (1, 1)], cluster)
    assert rows == [(6,), (0, 1, 2, 3), (4, 5), (7,)]
    assert place([(8, 4)], cluster) == [(0, 1, 2, 3, 4, 5, 6, 7)]
    assert place([(3, 3), (3, 3), (2, 2)], cluster) is None  # 2 free devices, one in each node
    assert place([(1, 1)] * 9, cluster) is None


def test_given_traffic_keeps_arrivals_and_pairs() -> None:
    given = LLMTrace([0.0, 1.0, 2.0, 3.0], [10, 20, 30, 40], [1, 2, 3, 4])
    traffic = GivenTraffic(given)
    assert traffic.trace(0) is given
    other = traffic.trace(5)
    assert other.arrival.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (other.prompt_tokens == 10 * other.output_tokens).all()
    assert sorted(other.output_tokens.tolist()) == [1, 2, 3, 4]
    chats = conversations([10, 20], [5, 6], 20, rate=1.0, seed=0)
    assert GivenTraffic(chats).trace(3) is chats


def test_drawn_traffic_draws_lengths_and_arrivals_apart() -> None:
    slow, fast = (DrawnTraffic(length_profile("alpaca"), rate, 50).trace(1) for rate in (1.0, 10.0))
    np.testing.assert_array_equal(slow.prompt_tokens, fast.prompt_tokens)
    np.testing.assert_allclose(slow.arrival, 10 * fast.arrival)
    with pytest.raises(InputError, match="rate: expected finite"):
        DrawnTraffic(length_profile("alpaca"), 0.0)


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "slack"),
    [(4.0, math.inf, 1 - 3 / 4), (math.inf, 0.5, 1 - 0.25 / 0.5), (4.0, 0.5, 1 - 3 / 4), (12.0, 0.5, 1 - 0.25 / 0.5),
     (2.0, 0.5, 1 - 3 / 2)],
)  # fmt: skip
def test_slack_is_what_is_left_of_the_tighter_limit(ttft_s: float, tpot_s: float, slack: float) -> None:
    """Ten requests alike: the first token 3 s after arrival, then 8 more a quarter of a second apart. One that never
    finished counts for nothing, one of a single token has no time between tokens."""
    n = 10
    arrival = np.arange(n + 2, dtype=float)
    first = arrival + 3.0
    none = np.zeros(0, dtype=np.int64)
    times = np.zeros(0)
    result = LLMResult(
        LLMTrace(arrival, [5] * (n + 2), [9] * (n + 1) + [2]), arrival, arrival, first,
        np.concatenate([(first + 8 * 0.25)[:-2], first[-2:-1], [np.nan]]), np.array([9] * n + [1, 0]),
        np.zeros(n + 2, dtype=np.int64), np.zeros(n + 2, dtype=np.int64), np.zeros(n + 2, dtype=np.int64),
        np.zeros(n + 2, dtype=np.bool_),
        Iterations(none, times, times, *[none] * 9, 1, 1), TokenRuns(none, none, none),
    )  # fmt: skip
    demand = LLMDemand(decoder("llama-3.1-8b"), GivenTraffic(result.trace), ttft_s, tpot_s)
    score = score_of(result, demand)
    assert score.slack == pytest.approx(slack, rel=1e-12)
