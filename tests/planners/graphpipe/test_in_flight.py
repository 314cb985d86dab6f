"""Table 3.2: all rows, brute-force simulation of two stages, Figure 3.5, and the choice of k."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import two_stages
from meshwright.errors import InputError
from meshwright.planners.graphpipe.schedule.in_flight import (
    Config,
    Successor,
    held_samples,
    in_flight,
    in_flight_offset,
    last_in_flight,
    schedule_stage,
)

SIZES = (1, 2, 4)
POWERS = (1, 2, 4, 8)


def paper_row(kx: int, bx: int, ky: int, by: int, i: int) -> int:
    """The ten rows as printed; exactly one holds."""
    x, y, m = kx * bx, ky * by, max(bx, by)
    rows = [
        (m < x < y, i + 2 * m),
        (m == x < y, i + m),
        (bx <= by < y < x, i + x - y + 2 * by),
        (bx <= by == y < x, i + x),
        (by <= bx < y < x, i + x - y + 2 * bx),
        (by <= bx == y < x, i + x),
        (m == y == x, i + y),
        (m < y == x, i + 2 * m),
        (bx <= x < by <= y, i + by),
        (by <= y < bx <= x, i + x - y + bx),
    ]
    values = {value for holds, value in rows if holds}
    assert len(values) == 1, "the rows overlap or leave a gap"
    return values.pop()


def test_vectorised_table_is_the_printed_one():
    grid = np.array(list(itertools.product(POWERS, repeat=4)))
    ours = in_flight(grid[:, 0], grid[:, 1], grid[:, 2], grid[:, 3], 16)
    assert ours.tolist() == [paper_row(*map(int, row), 16) for row in grid]
    assert len(grid) == 256


@pytest.mark.parametrize(("backward", "agree"), [(1.0, 81), (2.0, 78)])
def test_brute_force_simulation(backward: float, agree: int):
    """Discrete simulation over B = 64: 81 of 81 where backward takes as long as forward, 78 where twice as long."""
    differ = []
    for kx, bx, ky, by in itertools.product(SIZES, repeat=4):
        table = int(in_flight(kx, bx, ky, by, ky * by))
        counted = two_stages.fewest(64, kx, bx, ky, by, 1.0, backward)
        if counted != -(-table // bx):
            differ.append(((kx, bx, ky, by), -(-table // bx), counted))
    assert 81 - len(differ) == agree
    for (kx, bx, ky, by), table, counted in differ:  # one microbatch short, at k = 4 and equal microbatches
        assert (kx, ky, bx) == (4, 4, by)
        assert counted == table + 1


def test_figure_3_5():
    """S1 and S3 take two samples, S2 one: S1 holds 4 microbatches if S2 runs 1F1B, 3 if it runs 2F2B."""
    held = {}
    last = last_in_flight(Config(2, 1))
    for k2 in (1, 2):
        second = int(in_flight(k2, 1, 1, 2, last))
        first = int(in_flight(1, 2, k2, 1, second))
        held[k2] = int(held_samples(first, 2, 64)) // 2
    assert held == {1: 4, 2: 3}


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_uniform_1f1b_holds_one_microbatch_per_later_stage(depth: int):
    held = last_in_flight(Config(4))
    for _ in range(depth - 1):
        held = int(in_flight(1, 4, 1, 4, held))
    assert held == 4 * depth


def test_k_is_the_argmin_of_the_maximum_over_successors():
    after = [Successor(4, 1, 4), Successor(1, 4, 9), Successor(2, 2, 6)]
    for b in POWERS:
        by_hand = [max(int(in_flight(k, b, y.k, y.microbatch, y.in_flight)) for y in after) for k in POWERS]
        k, most = schedule_stage(b, after, POWERS)
        assert most == min(by_hand)
        assert k == POWERS[by_hand.index(most)]
    assert schedule_stage(2, [], (1, 2)) == (1, 2)


def test_whole_microbatches_and_no_more_than_there_are():
    assert held_samples([7, 8, 40], [2, 2, 2], 32).tolist() == [8, 8, 32]


def test_refusals():
    with pytest.raises(InputError, match="positive"):
        in_flight_offset(0, 1, 1, 1)
    with pytest.raises(InputError, match="at least one sample"):
        in_flight(1, 1, 1, 1, 0)
    with pytest.raises(InputError, match="at least one k"):
        schedule_stage(1, [], ())
