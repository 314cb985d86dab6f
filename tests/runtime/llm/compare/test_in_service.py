"""What iterations take in service, over their cost: by kind and batch, from other requests."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import Iteration, LinearCost
from meshwright.profiles.llm.cost.in_service import Factors, InService, kind_of

COST = LinearCost(base_s=1.0, token_s=0.1)


def decodes(n: int) -> Iteration:
    return Iteration((), n, 10 * n, n)


PROMPT, BOTH = Iteration(((10, 0),), outputs=1), Iteration(((10, 0),), 2, 20, 3)


def test_factors_are_time_over_cost_by_kind_and_batch() -> None:
    cycles = [(decodes(1), 0.5 * COST.seconds(decodes(1)))] * 5 + [(decodes(9), 1.5 * COST.seconds(decodes(9)))] * 5
    cycles += [(PROMPT, 1.2 * COST.seconds(PROMPT))] * 3 + [(BOTH, 0.9 * COST.seconds(BOTH))] * 4
    learnt = InService.of(COST, cycles)
    for iteration, factor in ((decodes(1), 0.5), (decodes(5), 1.0), (decodes(9), 1.5), (decodes(30), 1.5),
                              (PROMPT, 1.2), (BOTH, 0.9)):  # fmt: skip
        assert learnt.seconds(iteration) == pytest.approx(factor * COST.seconds(iteration))
    assert str(learnt) == "decodes x 0.500 to 1.500 (10); both x 0.900 (4); prompts x 1.200 (3)"


def test_one_disturbed_iteration_moves_nothing() -> None:
    cycles = [(decodes(2), COST.seconds(decodes(2)))] * 6 + [(decodes(2), 50.0)]
    assert InService.of(COST, cycles).seconds(decodes(2)) == pytest.approx(COST.seconds(decodes(2)))


def test_a_kind_that_did_not_occur_takes_the_factor_of_all() -> None:
    learnt = InService.of(COST, [(decodes(2), 2 * COST.seconds(decodes(2)))] * 8)
    assert learnt.seconds(PROMPT) == pytest.approx(2 * COST.seconds(PROMPT))


def test_kinds() -> None:
    assert [kind_of(i) for i in (decodes(3), BOTH, PROMPT)] == ["decodes", "both", "prompts"]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="no undisturbed iteration"):
        InService.of(COST, [])
    with pytest.raises(InputError, match="one above 0"):
        Factors((1, 2), (1.0,), 3)
