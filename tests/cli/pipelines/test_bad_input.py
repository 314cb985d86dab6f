"""What is wrong with a plan of a stage graph or of token slices: one line through every verb, exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.planners.training import training_planner
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from stage_plans import branched_plan, sliced_plan

Edit = Callable[[dict[str, Any]], object]
Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Write a plan that was edited, run a command line that must refuse it in one line; nothing is written."""
    monkeypatch.chdir(tmp_path)

    def check(plan: dict[str, Any], words: str, *parts: str, code: int = 2) -> str:
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        before = {p: p.lstat().st_mtime_ns for p in tmp_path.rglob("*")}
        capsys.readouterr()
        found = run(words.split())
        out, err = capsys.readouterr()
        assert (found, out) == (code, ""), err
        lines = [line for line in err.splitlines() if not line.startswith("comparing")]
        assert len(lines) == 1, err
        assert lines[0].startswith("meshwright: ")
        for part in parts:
            assert part in err, err
        assert "internal error" not in err
        assert {p: p.lstat().st_mtime_ns for p in tmp_path.rglob("*")} == before, "a file was made or changed"
        return err

    return check


def graph_plan(*edits: Edit, **changes: Any) -> dict[str, Any]:
    return _edited(branched_plan(), edits) | changes


def slices(*edits: Edit, **changes: Any) -> dict[str, Any]:
    return _edited(sliced_plan(), edits) | changes


def _edited(plan: Any, edits: tuple[Edit, ...]) -> dict[str, Any]:
    document = json.loads(plan.to_json())
    for edit in edits:
        edit(document)
    return document


def stage(number: int, **values: Any) -> Edit:
    return lambda d: d["stages"][number].update(values)


def orders(*texts: str) -> Edit:
    def edit(d: dict[str, Any]) -> None:
        d["schedule"] = "explicit"
        for entry, text in zip(d["stages"], texts, strict=True):
            entry["order"] = text

    return edit


def one_f_one_b(warm: int) -> str:
    return f"{warm}F {'1B 1F ' * (8 - warm)}{warm}B"


GOOD_ORDERS = tuple(one_f_one_b(n) for n in (3, 2, 3, 2, 1))
TRANSFER = {"target": 0, "value": "z", "bytes": 1.0}


@pytest.mark.parametrize(
    "verb", ["simulate plan.json", "run plan.json", "compare plan.json", "export plan.json --to torch --out x"]
)
@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (graph_plan(stage(1, microbatch=3), schedule="kfkb"), ("stages[1].microbatch", "3", "32")),
        (
            graph_plan(*(stage(s, microbatch=6) for s in (0, 1)), schedule="kfkb", global_batch=48, microbatches=3),
            ("transfers[", "stages 1 and 4", "6 and 16 samples"),
        ),
        (graph_plan(lambda d: d["transfers"].append({"source": 4, **TRANSFER})), ("transfers", "circle")),
        (graph_plan(orders(*GOOD_ORDERS[:4], "8F 7B 1X")), ("stages[4].order", "'1X'")),
        (slices(lambda d: d["slices"][0].update(tokens=[48, 0])), ("slices[0].tokens[1]", "greater than 0")),
    ],
    ids=["microbatch", "neither divides", "circle", "order", "no tokens"],
)  # fmt: skip
def test_every_verb_refuses(refused: Refused, verb: str, plan: dict[str, Any], parts: tuple[str, ...]):
    refused(plan, verb, "plan.json:", *parts)


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (graph_plan(stage(0, microbatch=2)), ("schedule", "1f1b", "kfkb")),
        (graph_plan(stage(1, warmup=99), schedule="kfkb"), ("stages[1].warmup", "1 … 8", "99")),
        (graph_plan(stage(1, warmup=1, k=2), schedule="kfkb"), ("stages[1].warmup", "2 … 8", "got 1")),
        (graph_plan(stage(1, k=0), schedule="kfkb"), ("stages[1].k", "greater than 0")),
        (graph_plan(orders(*GOOD_ORDERS[:4], "")), ("stages[4].order", "got nothing")),
        (graph_plan(orders(*GOOD_ORDERS[:4], "8F 7B")), ("stages[4].order", "8 F and 7 B")),
        (graph_plan(orders(*GOOD_ORDERS[:4], "1B 8F 7B")), ("stages[4].order", "backward pass 0", "put 1 F before it")),
        (graph_plan(lambda d: d["model"].update(order=[0, 0, 1])), ("model.order",)),
        (graph_plan(schedule="kfbk"), ("unknown schedule 'kfbk'; did you mean 'kfkb'?",)),
        (graph_plan(schedule="terapipe_1f2b"), ("did you mean 'terapipe_1f1b'?",)),
        (slices(lambda d: d["slices"][0].update(count=7), microbatches=7, global_batch=32), ("slices", "28", "32")),
        (slices(lambda d: d["slices"][0].update(samples=5)), ("slices", "40", "32")),
        (slices(stage(1, slice_forward_s=[[0.1]])), ("stages[1].slice_forward_s", "2")),
        (slices(stage(1, slice_backward_s=[])), ("stages[1].slice_backward_s",)),
        (slices(schedule="1f1b"), ("terapipe",)),
    ],
)
def test_simulate_refuses(refused: Refused, plan: dict[str, Any], parts: tuple[str, ...]):
    refused(plan, "simulate plan.json", *parts)


def test_slices_of_unlike_lengths_are_refused(refused: Refused):
    """64 tokens in some microbatches and 60 in others: one sequence length is expected."""

    def edit(d: dict[str, Any]) -> None:
        d["slices"] = [{"samples": 4, "tokens": tokens, "count": 4} for tokens in ([48, 16], [48, 12])]
        for entry in d["stages"]:
            for name in ("slice_forward_s", "slice_backward_s"):
                entry[name] = entry[name] * 2

    refused(slices(edit), "simulate plan.json", "slices", "64", "60")


@pytest.mark.parametrize(
    "verb", ["simulate plan.json", "run plan.json", "compare plan.json", "export plan.json --to torch --out x"]
)
def test_slices_that_are_not_the_sequence(refused: Refused, verb: str):
    """The tiny GPT's samples have 16 tokens; a plan of slices of 10 and 5 is refused by every verb."""
    planned = training_planner("terapipe")(
        zoo_graph("tiny-gpt"), Cluster(1, 2, "cpu-core"), global_batch=4,
        options={"pipe": 2, "op": 1, "data": 1, "tokens": [10, 6]},
    )  # fmt: skip
    document = json.loads(planned.to_json())
    for entry in document["slices"]:
        entry["tokens"] = [10, 5]
    refused(document, verb, "slices.0.tokens", "sum to the 16 tokens", "'tiny-gpt' (got 15)")


def test_a_deadlock_names_the_stages(refused: Refused):
    """Stage 1 wants two forward passes before it gives anything back, stage 0 gives it one."""
    plan = graph_plan(orders("1F 1B 7F 7B", "2F 2B 6F 6B", *GOOD_ORDERS[2:]))
    refused(plan, "simulate plan.json", "deadlock", "(stage 0) waits", "for stage 1", "(stage 1) waits", "for stage 0")


def test_another_schedule_must_fit_the_plan(refused: Refused):
    plan = graph_plan(stage(1, k=2), schedule="kfkb")
    refused(plan, "simulate plan.json --schedule 1f1b", "schedule: stages[1].k: ", "kfkb")


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_good_plans_are_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str):
    """The plans that the tests above break, whole: the refusals are for what was broken."""
    plans = [graph_plan(), graph_plan(orders(*GOOD_ORDERS)), graph_plan(schedule="kfkb"), slices()]
    for k, plan in enumerate(plans):
        (tmp_path / f"{k}.json").write_text(json.dumps(plan))
        assert run(["simulate", str(tmp_path / f"{k}.json"), "--engine", engine]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert all(f"toy, {name}" in out for name in ("1f1b", "explicit", "kfkb", "terapipe"))
