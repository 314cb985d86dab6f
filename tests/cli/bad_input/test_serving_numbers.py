"""Every number that the serving world takes where nothing really runs, by its fields, at values that nobody means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from extremes import called
from meshwright.cli import run
from meshwright.worlds.door import Options
from meshwright.worlds.leaves import leaves
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.options import PlanOptions, SimulateOptions
from meshwright.worlds.serving.world import WORLD

PLAN = "plan serving --profile p.json --models a,b --devices 2 --slo 2 --out o.json"
CALLS: dict[str, type[Options]] = {
    f"{PLAN} --rate 2 --duration 5": PlanOptions,
    f"{PLAN} --trace t.csv": PlanOptions,
    "simulate plan.json --profile p.json --rate 2 --duration 5": SimulateOptions,
    "simulate plan.json --profile p.json --trace t.csv": SimulateOptions,
}
VALUES = ("1" + "0" * 18, "-1", "nan", "inf", "1e-18")


def numbers(options: type[Options]) -> Iterator[tuple[str, bool]]:
    """Flags that hold a number, and whether it is whole; of a plan's score those that are said anew."""
    also = WORLD.doors["simulate"].also
    for leaf in (*leaves(ServingCase), *leaves(options)):
        said = options is PlanOptions or leaf.circumstance or leaf.path.startswith(also)
        if said and {"number", "whole number"} & set(leaf.kinds):
            yield leaf.flag, "number" not in leaf.kinds


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize("call", CALLS)
def test_a_number_that_nobody_means_ends_soon(call: str, world: Any) -> None:
    right = call.split()
    assert run(right) == 0  # here: what it loads and compiles, the forks have
    wrong: list[str] = []
    for option, whole in numbers(CALLS[call]):
        for value in VALUES[:2] if whole else VALUES:
            words = list(right)
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
            ended = called([*words, f"{option}={value}"], world.folder)
            if ended.complaint:
                wrong.append(f"{option}={value}: {ended.complaint}")
    assert not wrong, "\n".join(wrong)


def test_the_fields_that_are_walked() -> None:
    planned = {name for name, _ in numbers(PlanOptions)}
    scored = {name for name, _ in numbers(SimulateOptions)}
    assert {"--devices", "--rate", "--cv", "--duration", "--slo", "--max-batch", "--overhead", "--seed"} <= planned
    assert scored < planned
    assert {"--rate", "--warmup", "--max-batch"} <= scored
