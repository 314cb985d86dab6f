"""What is compiled and what is run as Python while nothing is compiled give the same program and the same times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshwright import jit
from meshwright.jit import Plain
from meshwright.simulator.training import Link, Timing, check_program, make_program, timing_kernels
from meshwright.simulator.training import compiled as engine
from meshwright.simulator.training.policy import kernels as orders
from meshwright.simulator.training.program import kernels as actions
from meshwright.simulator.training.timing import prepared

KERNELS = [
    x for module in (engine, timing_kernels, orders, actions) for x in vars(module).values() if isinstance(x, Plain)
]


def everything(schedule: str) -> list[Any]:
    """All columns, words and moments of a small iteration: slices and uneven stages where it has them."""
    slices = (3, 3, 3, 3) if schedule.startswith("terapipe") else ()
    sizes: Any = [4, 8, 4, 4] if schedule == "kfkb" else 4
    program = make_program(
        schedule, 4, sizes, n_meshes=2 if schedule in ("interleaved_1f1b", "zb_v") else 4, slices=slices
    )
    check_program(program)
    pairs = [(way, a, b) for a in range(3) for way, a, b in (("forward", a, a + 1), ("backward", a + 1, a))]
    links = {pair: Link(0.25, 0.125, (("out", pair[1]), ("in", pair[2]))) for pair in pairs}
    found: list[Any] = list(vars(program.columns).values())
    for overlap in (False, True):
        costs = prepared(program, Timing([1.0, 2.0, 1.5, 1.0], 2.0, [1.0, 0.5, 1.0, 1.0], 0.5, 0.25, links, overlap))
        times = engine.run_compiled(program, costs)
        found += [costs.duration, costs.messages.word, times.start, times.finish, times.sent, times.arrived]
    return found


def test_each_of_them_is_tried() -> None:
    assert len(KERNELS) == 10


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "kfkb", "terapipe"])
def test_both_ways_give_the_same(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "RENT_S", np.inf)
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "_bought", False)
        monkeypatch.setattr(kernel, "_spent_s", 0.0)
    plain = everything(schedule)
    assert not any(kernel._bought for kernel in KERNELS)
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "_bought", True)
    compiled = everything(schedule)
    assert [x.dtype for x in plain] == [x.dtype for x in compiled]
    for x, y in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(x, y)
