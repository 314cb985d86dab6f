"""Seconds of Collage's op level on 1,000 operators and 7,700 matches against Algorithm 1 as published; only printed."""

import time

import numpy as np
import pytest
from drawn_placements import chain_of_blocks
from meshwright.planners.collage import groups, place, published_placement, read_instance


def fastest(call, times=3):
    best = np.inf
    for _ in range(times):
        begin = time.thread_time()
        call()
        best = min(best, time.thread_time() - begin)
    return best


@pytest.mark.parametrize(("reach", "boundary"), [("private", 0.0), ("private", 0.1), ("several", 0.0)])
def test_a_thousand_operators(reach, boundary, benchmark):
    given = chain_of_blocks(1, 1000, 7700, reach) | {"boundary_cost": boundary}
    instance = read_instance(given)
    ours, reading = fastest(lambda: place(instance)), fastest(lambda: read_instance(given))
    theirs, found = fastest(lambda: published_placement(instance), 1), place(instance)
    patterns = fastest(lambda: groups([{**n, "op": k % 5} for k, n in enumerate(given["nodes"])]))
    print(
        f"\n{len(instance.nodes)} operators, {len(instance.matches)} matches ({reach}), boundary {boundary} ms: "
        f"{ours:.2f} s and {found.states} states, {ours / theirs:.2f} of Algorithm 1 as published; reading "
        f"{reading:.2f} s, its groups {patterns:.2f} s"
    )
    benchmark.pedantic(lambda: place(instance), rounds=3)
