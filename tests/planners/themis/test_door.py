"""What an auction is given: every slip is one error that says where and what, and nothing is taken silently."""

from __future__ import annotations

import math
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Bid, Place, Row, Themis, auction, lying_experiment, tipping_point
from meshwright.simulator.sharing import SharedCluster

CLUSTER = SharedCluster.uniform(2, 4)
BIDS = tuple(Bid(a, (Row(0, math.inf), Row(2, 2.0), Row(4, 1.0))) for a in range(2))
NOTHING = Row(0, 1.0)


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ((8,), r"GPUs 0 … 7 \(got 8\)"),
        ((-1,), r"GPUs 0 … 7 \(got -1\)"),  # not the last, as an index would be
        ((0, 0), "GPU 0 stands twice"),
        ((1.5,), r"GPUs 0 … 7 \(got 1.5\)"),
        ((True,), r"GPUs 0 … 7 \(got True\)"),
        (("a",), r"GPUs 0 … 7 \(got 'a'\)"),
    ],
)
def test_gpus_on_offer_are_the_clusters_once_each(offered: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError, match=f"offered: .*{said}") as caught:
        auction(CLUSTER, offered, BIDS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row(1, -math.inf), "rho: expected a positive number"),
        (Row(1, 0.0), "rho: expected a positive number"),
        (Row(1, None), "rho: expected a positive number"),  # type: ignore[arg-type]
        (Row(1, "2"), "rho: expected a positive number"),  # type: ignore[arg-type]
        (Row(2.5, 1.0), "gpus: expected an integer"),  # type: ignore[arg-type]
        (Row(True, 1.0), "gpus: expected an integer"),
        (Row("2", 1.0), "gpus: expected an integer"),  # type: ignore[arg-type]
        (Row(-1, 1.0), "gpus: expected an integer >= 0"),
        (Row(2, 1.0, 7), "place: expected a Place"),  # type: ignore[arg-type]
        (Row(2, 1.0, "rack"), "place: expected a Place"),  # type: ignore[arg-type]
        (Row(2, 1.0, Place.MACHINES), r"group: expected 1 … 2 GPUs on a machine \(got 0\)"),
        (Row(2, 1.0, Place.MACHINES, -2), "group: expected 1 … 2"),
        (Row(2, 1.0, Place.RACK, 2), "group: only with Place.MACHINES"),
        (Row(2, 1.0, Place.ANYWHERE, 1), "group: only with Place.MACHINES"),
        (Row(2, 1.0, Place.ANYWHERE, 0, 0), "region: only of one machine or one rack"),
        (Row(2, 1.0, Place.MACHINES, 1, 0), "region: only of one machine or one rack"),
        (Row(2, 1.0, Place.MACHINES, 2, -7), "region: expected integers"),
        (Row(2, 1.0, Place.MACHINES, 2, 0.5), "region: expected integers"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_row_is_refused_by_its_number(row: Row, said: str) -> None:
    with pytest.raises(InputError, match=f"^bid of app 3: row 1: .*{said}"):
        Bid(3, (NOTHING, row))


@pytest.mark.parametrize(("place", "what"), [(Place.MACHINES, "2 machines"), (Place.RACK, "1 racks?")])
def test_a_region_must_be_there(place: Place, what: str) -> None:
    group = 2 if place == Place.MACHINES else 0
    with pytest.raises(InputError, match=f"bid of app 0: region: there (are|is) {what}"):
        auction(CLUSTER, range(8), [Bid(0, (NOTHING, Row(2, 0.5, place, group, 2)))])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fairness": "0.8"}, r"\[0, 1\]"),
        ({"fairness": None}, r"\[0, 1\]"),
        ({"fairness": math.inf}, r"\[0, 1\]"),
        ({"seed": 1.5}, "Themis.seed: expected an integer"),
        ({"seed": -1}, "Themis.seed: expected an integer"),
        ({"seed": 1 << 64}, "Themis.seed: expected an integer"),  # lots are of 64 bits in compiled code
        ({"steps": 0}, "Themis.steps: expected an integer in 1"),
        ({"steps": 2.0}, "Themis.steps: expected an integer"),
        ({"rounding": None}, "Themis.rounding: expected one of"),
        ({"visibility": "none"}, "Themis.visibility: expected one of"),
        ({"leftovers": ""}, "Themis.leftovers: expected one of"),
    ],
)
def test_settings_are_refused_by_their_name(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Themis(**changed)


def test_an_auction_wants_a_rounding_and_steps() -> None:
    with pytest.raises(InputError, match="rounding: expected 'floor', 'nearest' or 'random'"):
        auction(CLUSTER, range(8), BIDS, rounding="up")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="steps: expected an integer >= 1"):
        auction(CLUSTER, range(8), BIDS, steps=0)
    with pytest.raises(InputError, match="app 0 bids twice"):
        auction(CLUSTER, range(8), [BIDS[0], BIDS[0]])


def test_lies_want_a_seed_and_none_tip_where_there_are_none() -> None:
    with pytest.raises(InputError, match="seeds: expected an integer >= 1"):
        lying_experiment(seeds=0)
    assert tipping_point(()) is None


def test_nothing_to_sell_and_nobody_to_buy() -> None:
    nobody = auction(CLUSTER, range(8), ())
    assert (nobody.gpus, nobody.leftover, nobody.gap) == ({}, tuple(range(8)), 0)
    nothing = auction(CLUSTER, (), BIDS)
    assert (dict(nothing.gpus), nothing.leftover) == ({}, ())
    assert nothing.allocation.running == 0


@pytest.mark.parametrize("gpus", [9, 10**9, 10**30])
def test_a_demand_larger_than_the_cluster_wins_nothing(gpus: int) -> None:
    huge = Bid(0, (Row(0, math.inf), Row(gpus, 1e-3), Row(gpus, 1e-6, Place.MACHINES, gpus)))
    outcome = auction(CLUSTER, range(8), (huge, BIDS[1]))
    assert {app: len(g) for app, g in outcome.gpus.items()} == {1: 4}
    assert outcome.share[1] == 1


def test_a_bid_of_any_size_does_not_starve_the_others() -> None:
    """ρ are the bidder's own words: the most that it may say does not keep another from running."""
    loud = Bid(0, (Row(0, math.inf), Row(1, 1e300), Row(8, 5e-324)))
    outcome = auction(CLUSTER, range(8), (loud, BIDS[1]), payments=False)
    assert outcome.allocation.running == 2
    assert {app: len(g) for app, g in outcome.gpus.items()} == {0: 1, 1: 4}
