"""Options of every door of every world: what is wrong is said in the project's words, with where and what was given."""

from __future__ import annotations

import re
from pathlib import Path

import meshwright
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.worlds.door import DoorName
from meshwright.worlds.faces import checked_options
from meshwright.worlds.leaves import leaves
from meshwright.worlds.registry import names, open_world

DOORS = [(world, door) for world in names() for door in open_world(world).doors]
WRONG = ({"no": "such"}, ["x"], "no such", -1, float("nan"), [])
NOT_OURS = re.compile(r"[Ii]nput|valid|unable|validation|permitted|Field required|tuple|dict\b|\d validation")
"""Words of the library that checks types."""


@pytest.mark.parametrize(("world", "door"), DOORS)
def test_no_word_is_the_librarys(world: str, door: DoorName) -> None:
    kind = open_world(world).doors[door].options
    said = 0
    for leaf in leaves(kind):
        for value in WRONG:
            try:
                checked_options(kind, {leaf.path: value}, f"{door}: ")
            except InputError as error:
                said += 1
                (line,) = str(error).splitlines()
                assert re.match(rf"{door}: {leaf.path}(\[\d\]|\.\w+)*: should (be|have) ", line), line
                assert not NOT_OURS.search(line), line
                assert "(got " in line
    assert said > 0 or not kind.model_fields


@pytest.mark.parametrize(("world", "door"), DOORS)
def test_a_misspelt_option_has_a_neighbour(world: str, door: DoorName) -> None:
    kind = open_world(world).doors[door].options
    for name in kind.model_fields:
        if len(name) > 3:
            with pytest.raises(InputError, match=f"^unknown option '{name[:-1]}q'; did you mean '"):
                checked_options(kind, {f"{name[:-1]}q": 1})


def test_a_misspelt_word_has_one_too() -> None:
    kind = open_world("serving").doors["simulate"].options
    with pytest.raises(InputError, match=r"^engine: should be 'compiled' or .* \(got 'compild'\); did you mean 'compi"):
        checked_options(kind, {"engine": "compild"})


def test_all_that_is_wrong_is_said_at_once() -> None:
    kind = open_world("serving").doors["measure"].options
    with pytest.raises(InputError) as caught:
        checked_options(kind, {"seconds": 0, "batches": ["x", 1]})
    assert str(caught.value).splitlines() == [
        "batches[0]: should be a whole number (got 'x')", "seconds: should be greater than 0 (got 0)",
    ]  # fmt: skip


SIZES = {"iterations", "rounds", "retries", "threads", "workers", "concurrency", "num_blocks", "max_tokens", "max_seqs",
         "max_context", "lengths", "contexts", "samples", "batches", "op", "pp", "sweep", "seeds", "port"}  # fmt: skip


@pytest.mark.parametrize(("world", "door"), DOORS)
def test_sizes_have_an_end(world: str, door: DoorName) -> None:
    """Beyond it no machine answers; torch dies without a word of 100,000,000 threads."""
    kind = open_world(world).doors[door].options
    for name in SIZES & kind.model_fields.keys():
        value = 10**12 if "whole number" in next(leaf for leaf in leaves(kind) if leaf.path == name).kinds else [10**12]
        with pytest.raises(InputError, match=rf"^{name}(\[0\])?: should be less than or equal to \d+ \(got 10{{12}}\)"):
            checked_options(kind, {name: value})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "simulate PLAN --rate 3 -s cluster.devices=3",
            "--set: cluster.devices: is decided by the plan, and cannot be",
        ),
        ("simulate PLAN --rate 3 -s planner.options.beam=3", "--set: planner.options.beam: is decided by the plan"),
        (
            "plan llm --model opt-13b --rate 6 --lengths sharegp --devices 8",
            "shipped lengths; did you mean 'sharegpt'?",
        ),
        (
            "plan llm --model opt-13 --rate 6 --lengths sharegpt --devices 8",
            "meshwright: model: unknown model 'opt-13'",
        ),
        ("plan training --devices 2 --global-batch 16 --speed a10=2", "speed: unknown device 'a10'; did you mean"),
        (
            "plan training --devices 2 --global-batch 16 --speed a100=2",
            "speed: unknown device 'a100'; several begin so: a100-40gb, a100-80gb",
        ),
        ("compare llm --model tiny-llama --loads 0", "loads[0]: should be greater than 0 (got 0)"),
    ],
)
def test_the_command_line_says_so_too(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(Path(meshwright.__file__).parent / "examples" / "plan.json")
    assert run(words.replace("PLAN", plan).split()) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
