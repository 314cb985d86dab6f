"""Every number that the LLM world takes where nothing really runs, by its fields, at values that nobody means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from extremes import called
from meshwright.cli import run
from meshwright.worlds.door import Options
from meshwright.worlds.leaves import leaves
from meshwright.worlds.llm.case import LLMCase
from meshwright.worlds.llm.options import PlanOptions, SimulateOptions

TRAFFIC = "--model tiny-llama --device cpu-core --devices 1 --lengths alpaca --rate 1 --duration 5"
CALLS: dict[str, type[Options]] = {
    f"plan llm {TRAFFIC} --slo-ttft 5 --slo-tpot 1 -o tp=1,pp=1 --out o.json": PlanOptions,
    f"simulate llm {TRAFFIC} --planner fixed --slo-ttft 5": SimulateOptions,
}
VALUES = ("1" + "0" * 18, "-1", "nan", "inf", "1e-18")


def numbers(options: type[Options]) -> Iterator[tuple[str, bool]]:
    """Flags that hold a number, and whether it is whole."""
    for leaf in (*leaves(LLMCase), *leaves(options)):
        if {"number", "whole number"} & set(leaf.kinds):
            yield leaf.flag, "number" not in leaf.kinds


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize("call", CALLS)
def test_a_number_that_nobody_means_ends_soon(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    right = call.split()
    assert run(right) == 0  # here: what it loads and compiles, the forks have
    wrong: list[str] = []
    for option, whole in numbers(CALLS[call]):
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
    known = {name for name, _ in numbers(PlanOptions)}
    assert {"--devices", "--rate", "--duration", "--slo-ttft", "--target", "--max-num-seqs", "--workers"} <= known
