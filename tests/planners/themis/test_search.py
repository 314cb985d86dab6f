"""Packing against brute force, bounds at any prices, what a search that was stopped says, and what is proven."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from how_many import examples
from markets import market
from meshwright.jit import kernel
from meshwright.planners.themis import Market, auction
from meshwright.planners.themis.bids import log_worth
from meshwright.planners.themis.kernels.bounds import Goods, bounds
from meshwright.planners.themis.kernels.filling import complete, fill
from meshwright.planners.themis.kernels.packing import FITS, NEVER, pack
from meshwright.planners.themis.kernels.prices import fillings, price_count, priced, scarcities
from meshwright.seeds import generator
from meshwright.simulator.sharing import Machine, SharedCluster, themis_256, themis_testbed

MACHINES, RACK = 1, 2


@cache
def from_python(part: Any) -> Any:
    """Parts of kernels have no way in for Python."""
    return kernel(lambda *given: part(*given), cache=False)


ODD = SharedCluster(tuple(Machine(size, 1, k % 2) for k, size in enumerate((5, 5, 3, 3, 2, 4))))


def drawn_rows(seed: int) -> Goods:
    """Rows of groups and in racks, any or named, one for each app, on a few machines."""
    rng = generator(seed, "packing")
    n, racks = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    rack = np.sort(rng.integers(0, racks, n))
    free = rng.integers(0, 7, n)
    rows: list[tuple[int, int, int, int]] = []
    for _ in range(int(rng.integers(2, 7))):
        gpus, named = int(rng.integers(1, 9)), rng.random() < 0.15
        if rng.random() < 0.35:
            rows.append((gpus, RACK, 0, int(rng.integers(0, racks)) if named else -1))
        else:
            group = gpus if named else int(rng.integers(1, min(gpus, 6) + 1))
            rows.append((gpus, MACHINES, group, int(rng.integers(0, n)) if named else -1))
    gpus, place, group, region = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    rack_free = np.bincount(rack, weights=free, minlength=racks).astype(np.int64)
    start = np.arange(len(rows) + 1)
    return Goods(start, gpus, place, group, region, np.zeros(len(rows)), free, rack, rack_free)


def fits_by_force(goods: Goods) -> bool:
    items: list[tuple[int, bool, int]] = []
    for n, place, group, region in zip(goods.gpus, goods.place, goods.group, goods.region, strict=True):
        if place == RACK:
            items.append((int(n), True, int(region)))
        else:
            items += [(min(int(group), int(n) - at), False, int(region)) for at in range(0, int(n), int(group))]
    items.sort(reverse=True)

    @cache
    def go(k: int, free: tuple[int, ...], slack: tuple[int, ...]) -> bool:
        if k == len(items):
            return True
        size, in_rack, region = items[k]
        for p in range(len(slack) if in_rack else len(free)):
            r = p if in_rack else int(goods.rack[p])
            if region in (-1, p) and slack[r] >= size and (in_rack or free[p] >= size):
                less = tuple(s - size * (q == r) for q, s in enumerate(slack))
                if go(k + 1, free if in_rack else tuple(f - size * (q == p) for q, f in enumerate(free)), less):
                    return True
        return False

    return go(0, tuple(goods.free.tolist()), tuple(goods.rack_free.tolist()))


def test_rows_are_packed_whenever_they_fit() -> None:
    answers = {FITS: 0, NEVER: 0}
    drawn = examples(200, anew=600)
    for seed in range(drawn):
        goods = drawn_rows(seed)
        n = len(goods.gpus)
        free, slack, places = goods.free.copy(), goods.rack_free.copy(), np.full((n, 9), -1)
        answer, _ = from_python(pack)(goods, np.arange(n), n, free, slack, places)
        assert (answer == FITS) == fits_by_force(goods), seed
        answers[answer] += 1
        if answer == FITS:
            left, room = goods.free.copy(), goods.rack_free.copy()
            for k in range(n):
                group = goods.gpus[k] if goods.place[k] == RACK else goods.group[k]
                for x, at in enumerate(range(0, goods.gpus[k], group)):
                    size, p = min(group, goods.gpus[k] - at), places[k, x]
                    assert goods.region[k] in (-1, p)
                    left[p] -= 0 if goods.place[k] == RACK else size
                    room[p if goods.place[k] == RACK else goods.rack[p]] -= size
            assert left.min() >= 0
            assert room.min() >= 0
            np.testing.assert_array_equal(left, free)
            np.testing.assert_array_equal(room, slack)
    assert min(answers.values()) > drawn / 8  # both are tried


def test_tight_fillings_are_found_and_wasteful_ones_refused() -> None:
    """16 machines of 8 and 28 of 4 GPUs; threes waste one on a four, sevens one on an eight."""
    free = np.array([8] * 16 + [4] * 28)
    into = np.zeros((44, 5), dtype=np.int64)
    order, rack = np.arange(44), np.zeros(44, dtype=np.int64)
    sizes = np.array([8, 5, 4, 3, 2])
    counts = np.array([3, 8, 3, 20, 51])
    # two threes on fours waste the two GPUs that there are more: 8 × (5 + 3), 5 × (3 + 3 + 2)
    first = np.array([0, 1, 3, 2, 4])
    assert from_python(fill)(sizes[first], counts[first], free.copy(), np.array([240]), rack, order, into)
    assert (into @ sizes[first] <= free).all()
    np.testing.assert_array_equal(into.sum(0), counts[first])
    # three sevens and a GPU to spare
    assert from_python(complete)(np.array([8, 7, 4, 2]), np.array([3, 3, 22, 53]), free, order, into[:, :4])[0] == NEVER
    assert from_python(complete)(np.array([8, 7, 4, 2]), np.array([3, 3, 22, 52]), free, order, into[:, :4])[0] == FITS


@pytest.mark.parametrize("seed", range(6))
def test_no_allocation_is_worth_more_than_a_bound_at_any_prices(seed: int) -> None:
    rng = generator(seed, "prices")
    made = Market(ODD, tuple(range(ODD.n_gpus)), market(ODD, seed, 5, 8))
    best = made.best()
    assert best.gap == 0
    worth = sum(log_worth(row.rho) for row in best.rows.values())
    rows, columns, value = made.tables
    racks = np.array([ODD.machines[m].rack for m in made.order])
    goods = Goods(
        columns["start"], columns["gpus"], columns["place"], columns["group"], columns["region"], value,
        columns["free"], racks, np.bincount(racks, weights=columns["free"]).astype(np.int64),
    )  # fmt: skip
    scarce, alive = from_python(scarcities)(goods), np.ones(len(value), dtype=bool)
    top = int(goods.free.max())
    for scale in (0.0, 0.01, 0.1, 1.0):
        price = rng.uniform(0, scale, price_count(goods)) * (rng.random(price_count(goods)) < 0.5)
        price[0] = 0
        net = value.copy()
        from_python(priced)(goods, scarce, price, alive, net)
        plus = from_python(fillings)(goods, price, scarce.named, np.empty(top + 1), np.empty(top + 1, dtype=np.int64))
        racks_at = top + 1 + len(goods.free)
        plus += float(price[racks_at : racks_at + len(scarce.supply)] @ scarce.supply)
        table = from_python(bounds)(np.arange(len(rows)), goods, net, alive, ODD.n_gpus)
        assert table[0, -1] + plus >= worth - 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_stopped_search_says_how_much_it_may_have_missed(seed: int) -> None:
    bids = market(ODD, seed, 6, 10)
    made = Market(ODD, tuple(range(ODD.n_gpus)), bids)
    best, early = (sum(log_worth(r.rho) for r in a.rows.values()) for a in (made.best(), made.best(steps=1)))
    gap = made.best(steps=1).gap
    assert early <= best <= early + gap + 1e-9
    outcome = auction(ODD, range(ODD.n_gpus), bids, steps=1)
    assert outcome.gap >= gap
    assert all(0 < c <= 1 for c in outcome.share.values())


@pytest.mark.parametrize("seed", range(6))
def test_payments_at_once_are_those_of_a_search_without_each(seed: int) -> None:
    bids = market(ODD, seed, 6, 10)
    made = Market(ODD, tuple(range(ODD.n_gpus)), bids)
    best, others = made.with_and_without()
    assert set(others) == {app for app, row in best.rows.items() if row.gpus}
    for app, (logs, gap) in others.items():
        assert gap == 0
        alone = Market(ODD, made.offered, tuple(b for b in bids if b.app != app)).best()
        assert math.fsum(logs.values()) == pytest.approx(math.fsum(alone.logs().values()), abs=1e-9)


@pytest.mark.parametrize(("cluster", "most"), [(themis_testbed(), 32), (themis_256(), 32)], ids=["64", "256"])
def test_auctions_of_the_paper_s_sizes_are_proven(cluster: SharedCluster, most: int) -> None:
    for seed in range(8):
        assert auction(cluster, range(cluster.n_gpus), market(cluster, seed, most=most), steps=20_000).gap == 0
