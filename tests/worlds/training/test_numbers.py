"""Every number that planning of training takes, walked by the fields themselves, at values that nobody means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from extremes import called
from meshwright.cli import run
from meshwright.worlds.leaves import leaves
from meshwright.worlds.training.case import TrainingCase
from meshwright.worlds.training.options import PlanOptions

CALLS = [
    "plan training --planner megatron --model tiny-gpt --devices 2 --global-batch 4 --out o.json",
    "plan training --planner search --model gpt3-350m --devices 2 --global-batch 8 -o tp=1,zero=0,recompute=none",
]
VALUES = ("1" + "0" * 18, "-1", "nan", "inf", "1e-18")


def numbers() -> Iterator[tuple[str, bool]]:
    """Options that hold a number, and whether it is whole."""
    for leaf in (*leaves(TrainingCase), *leaves(PlanOptions)):
        if {"number", "whole number"} & set(leaf.kinds):
            yield leaf.flag, "number" not in leaf.kinds


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize("call", CALLS)
def test_a_number_that_nobody_means_ends_soon(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    right = call.split()
    assert run(right) == 0  # here: what it loads and compiles, the forks have
    wrong: list[str] = []
    for option, whole in numbers():
        for value in VALUES[:2] if whole else VALUES:
            words = list(right)
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
            ended = called([*words, f"{option}={value}"], tmp_path)
            if ended.complaint:
                wrong.append(f"{option}={value}: {ended.complaint}")
    assert not wrong, "\n".join(wrong)


def test_the_fields_that_are_walked() -> None:
    assert {"--devices", "--memory", "--global-batch", "--layers", "--days", "--top"} <= {name for name, _ in numbers()}
