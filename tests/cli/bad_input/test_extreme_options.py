"""Every number that a verb takes, walked by the verbs themselves, at values that no machine holds or that are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from extremes import called
from meshwright.cli import run
from meshwright.cli.main import app
from meshwright.errors import InputError
from meshwright.worlds.before import LONGEST_S, check_real_time

CALLS = {
    "trace generate": ["out.csv --rate 2 --duration 5 --models 2", "out.csv --process maf1-like --rate 2 --models 2"],
    "trace info": ["t.csv"],
    "trace convert": ["t.csv -o o.csv"],
    "trace fit": ["t.csv", "t.csv --resample o.csv"],
    "graph": ["gpt3-350m"],
    "profile plan": ["tiny-gpt --max-devices 2 --out o.json"],
    "study": ["s.yaml --no-report --workers 1"],
}
"""Verb -> right calls that take next to nothing. An option of the call is replaced by the one that is tried."""

SLOW = {"study", "trace generate"}
"""Of many options or calls: half a minute of CPU each."""

ELSEWHERE = {"trace fetch", "regress", "reproduce", "demo", "profile measure"}
"""Verbs whose right calls take minutes, processes or a network. What they must refuse first is below. Verbs of worlds
are walked by the fields of each world's case, in files of their own."""

REFUSED = [
    "profile measure tiny-gpt --training --out o.json --devices 1000000000000000000",
    "profile measure tiny-gpt --training --out o.json --rounds 1000000000000000000",
    "profile measure tiny-gpt --training --out o.json --most -1",
    "regress standard --workers 1000000000",
    "run plan.json --rate 1e18 --duration 5 --slo 1",
    "run llm --model tiny-llama --requests 1 --rate 1e-18",
    "run llm --model tiny-llama --requests 1000000000",
    "compare plan.json --rate 1e18 --duration 5",
    "export plan.json --to k8s --out o --port 1000000000",
]
VALUES = ("1" + "0" * 18, "-1", "nan", "inf", "1e-18")


def numbers(verb: str) -> Iterator[tuple[str, bool]]:
    """Options of a verb that hold a number, and whether it is whole."""
    command: Any = typer.main.get_command(app)
    for word in verb.split():
        command = command.get_command(None, word)
    for option in command.params:
        kind = str(option.type_descriptor.annotation)
        if "int" in kind or "float" in kind:
            yield option.opts[0], "int" in kind


def verbs(command: Any, before: str = "") -> Iterator[str]:
    for name in command.list_commands(None):
        inner = command.get_command(None, name)
        if hasattr(inner, "list_commands"):
            yield from verbs(inner, f"{before}{name} ")
        else:
            yield before + name


@pytest.fixture
def folder(world: Any) -> Path:
    world.write(
        "s.yaml",
        "study: 1\ncluster: {devices: 2}\nmodels: [a]\nprofile: p.json\nworkload: {rate: 2, duration: 5, slo: 2}\n"
        "planners: [selective-replication]\n",
    )
    return world.folder


def test_every_verb_with_numbers_is_here() -> None:
    known = {verb for verb in verbs(typer.main.get_command(app)) if any(numbers(verb))}
    assert known == CALLS.keys() | ELSEWHERE


@pytest.mark.parametrize("verb", [pytest.param(v, marks=pytest.mark.slow) if v in SLOW else v for v in CALLS])
def test_a_number_that_nobody_means_ends_soon(verb: str, folder: Path) -> None:
    wrong: list[str] = []
    for call in CALLS[verb]:
        right = [*verb.split(), *call.split()]
        assert run(right) == 0  # here: what it loads and compiles, the forks have
        for option, whole in numbers(verb):
            for value in VALUES[:2] if whole else VALUES:
                words = list(right)
                if option in words:
                    at = words.index(option)
                    del words[at : at + 2]
                ended = called([*words, f"{option}={value}"], folder)
                if ended.complaint:
                    wrong.append(f"{verb} {call} {option}={value}: {ended.complaint}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("call", REFUSED)
def test_work_of_minutes_is_refused_first(call: str, folder: Path) -> None:
    ended = called(call.split(), folder)
    assert ended.code == 2, ended
    assert not ended.complaint


def test_a_real_run_waits_a_week_at_most() -> None:
    check_real_time(np.array([0.0, LONGEST_S]))
    with pytest.raises(InputError, match="a real run lasts at most 604800 s"):
        check_real_time(np.array([0.0, 2 * LONGEST_S]))
