"""Auctions as agents bid against the mixed-integer programme."""

from __future__ import annotations

import pytest
from market_milp import best_by_milp
from markets import market
from meshwright.planners.themis import Market
from meshwright.planners.themis.bids import log_worth
from meshwright.simulator.sharing import Machine, SharedCluster

CLUSTER = SharedCluster(tuple(Machine(4, 1, k % 2) for k in range(4)) + tuple(Machine(2, 1, k % 2) for k in range(4)))


@pytest.mark.parametrize("seed", range(10))
def test_allocations_are_worth_what_the_programme_says(seed: int) -> None:
    bids = market(CLUSTER, seed, 5, 10)
    made = Market(CLUSTER, tuple(range(CLUSTER.n_gpus)), bids)
    found = made.best()
    assert found.gap == 0
    total = sum(log_worth(row.rho) for row in found.rows.values())
    assert total == pytest.approx(best_by_milp(CLUSTER, made.offered, bids), abs=1e-6)
    for app in found.rows:
        without = made.best(without=app, known=found)
        others = sum(log_worth(row.rho) for row in without.rows.values())
        assert others == pytest.approx(best_by_milp(CLUSTER, made.offered, bids, app), abs=1e-6)
