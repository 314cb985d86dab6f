"""Every planner of training refuses a batch that nobody means, before it looks for what divides it."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.planners.batches import MAX_BATCH, divisors
from meshwright.planners.training import TRAINING_PLANNERS, training_planner
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster


@pytest.mark.parametrize("name", TRAINING_PLANNERS)
@pytest.mark.parametrize("batch", [10**18, MAX_BATCH + 1, 0, True])
def test_a_batch_that_nobody_means_is_refused(name: str, batch: int) -> None:
    expected = "at most 10,000,000 samples" if batch > 1 else "a positive integer"
    with pytest.raises(InputError, match=f"global_batch: expected {expected}"):
        training_planner(name)(zoo_graph("gpt3-350m"), Cluster(1, 2), global_batch=batch)


def test_divisors_are_those_that_leave_nothing() -> None:
    for n in range(1, 200):
        assert divisors(n) == tuple(k for k in range(1, n + 1) if n % k == 0)
