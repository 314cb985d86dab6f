"""Work over processes: same answers in the same order, errors handed on, deaths told."""

from __future__ import annotations

import os

import pytest
from meshwright.errors import InputError, RunError
from meshwright.planners.alpa import plan
from meshwright.planners.alpa.inter.pricing.workers import in_processes
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_order_is_kept(workers):
    assert in_processes(lambda x: (x, x * x), range(7), workers) == [(x, x * x) for x in range(7)]


def test_errors_come_through():
    def work(x):
        if x == 3:
            raise InputError("three is wrong")
        return x

    with pytest.raises(InputError, match="three is wrong"):
        in_processes(work, range(5), 2)


def test_a_death_is_told():
    parent = os.getpid()

    def work(x):
        if os.getpid() != parent:
            os._exit(9)
        return x

    with pytest.raises(RunError, match="workers=1"):
        in_processes(work, range(4), 2)


def test_a_plan_does_not_depend_on_the_workers():
    made = [
        plan(
            zoo_graph("tiny-gpt"), Cluster(1, 2), global_batch=8, microbatches=4, options={"workers": n, "n_layers": 3}
        )
        for n in (1, 2)
    ]
    one, two = (p.model_copy(update={"planner": p.planner.model_copy(update={"seconds": 0.0})}) for p in made)
    assert one.to_json() == two.to_json()
