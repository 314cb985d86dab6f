"""GraphPipe, PipeDream and Piper from the command line: plans made, compared, simulated, drawn and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.training import TRAINING_PLANNERS, planner_options
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.simulator.training import simulate_training
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.plan.graph_words import stage_graph
from stage_plans import branched_plan

Say = Callable[..., str]
PLAN = "plan training --model tiny-mmt --devices 4 --device cpu-core --global-batch 16"


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command line in an empty folder; what it prints."""
    monkeypatch.chdir(tmp_path)

    def check(words: str, code: int = 0, err: bool = False) -> str:
        capsys.readouterr()
        found = run(words.split())
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured.err if err else captured.out

    return check


def test_three_planners_beside_each_other(say: Say):
    out = say(f"{PLAN} --planner pipedream,piper,graphpipe --out plan.json")
    table = out.partition("\n\n")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines()}
    assert "nan" not in table  # what a planner does not predict is simulated
    seconds = {name: float(rows[name][1]) for name in ("pipedream", "piper", "graphpipe")}
    assert min(seconds.values()) == seconds["graphpipe"]
    plan = TrainingPlan.load("plan.json")
    assert plan.planner.name == "graphpipe"
    graph = stage_graph(plan)
    assert (f"stages form a graph of depth {graph.depth} ({len(plan.stages)} stages)" in out) == graph.branches
    assert simulate_training(plan).seconds == pytest.approx(seconds["graphpipe"], rel=1e-3)


def test_sequential_plans_are_chains(say: Say):
    for planner in ("pipedream", "piper"):
        out = say(f"{PLAN} --planner {planner} --out {planner}.json")
        assert "stages form a graph" not in out
        plan = TrainingPlan.load(f"{planner}.json")
        assert stage_graph(plan).depth == len(plan.stages)


def test_a_number_of_microbatches_is_one_size(say: Say):
    for planner in ("graphpipe", "pipedream", "piper"):
        say(f"{PLAN} --planner {planner} --microbatches 4 --out plan.json")
        plan = TrainingPlan.load("plan.json")
        assert {plan.microbatch_of(s) for s in range(len(plan.stages))} == {4}
    err = say(f"{PLAN} --planner piper --microbatches 4 -o microbatches=[2]", code=2, err=True)
    assert "give one of the two" in err


def test_options_are_passed_on(say: Say):
    say(f"{PLAN} --planner graphpipe -o topology=chain -o devices=[1] -o optimizer=sgd --out plan.json")
    plan = TrainingPlan.load("plan.json")
    assert not stage_graph(plan).branches
    assert all(plan.mesh(s).n_devices == 1 for s in range(len(plan.stages)))
    assert plan.model.optimizer == "sgd"
    assert plan.planner.options["topology"] == "chain"


@pytest.mark.parametrize(
    ("words", "parts", "code"),
    [
        (f"{PLAN} --planner graphpip", ("'graphpip' plans no training; did you mean 'graphpipe'?",), 2),
        (f"{PLAN} --planner graphpipe -o topolgy=chain", ("unknown option 'topolgy'; did you mean 'topology'?",), 2),
        (f"{PLAN} --planner graphpipe -o schedule=2f2b", ("schedule: unknown value '2f2b'",), 2),
        (f"{PLAN} --planner graphpipe -o microbatches=[3]", ("3 samples do not divide the global batch of 16",), 2),
        (f"{PLAN} --planner pipedream -o microbatches=[3]", ("3 samples do not divide the global batch of 16",), 2),
        (f"{PLAN} --planner piper -o max_sates=9", ("unknown option 'max_sates'; did you mean 'max_states'?",), 2),
        (f"{PLAN} --planner graphpipe --microbatches 5", ("5 do not divide the global batch of 16",), 2),
        (
            f"{PLAN} --planner piper -o max_states=4",
            ("downsets", "our limit of 4", "not known", "-o max_states=", "graphpipe"),
            1,
        ),
        (f"{PLAN} --planner graphpipe --rate 3", ("No such option: --rate",), 2),
    ],
)
def test_one_line_each(say: Say, words: str, parts: tuple[str, ...], code: int):
    lines = [x for x in say(words, code=code, err=True).splitlines() if not x.startswith("planning: ")]
    assert len(lines) == 1, lines
    assert lines[0].startswith("meshwright")
    for part in parts:
        assert part in lines[0], lines


@pytest.mark.parametrize("planner", ["graphpipe", "pipedream", "piper"])
def test_what_fits_nowhere_says_what_would(say: Say, planner: str):
    """A plan that may fill a millionth of 4 GiB: nothing fits, and what would is named."""
    words = f"{PLAN} --planner {planner} -o memory_fraction=0.000001"
    lines = [x for x in say(words, code=3, err=True).splitlines() if not x.startswith("planning: ")]
    assert len(lines) == 1, lines
    assert "GiB" in lines[0] or "KiB" in lines[0] or "MiB" in lines[0]


@pytest.mark.parametrize("planner", ["graphpipe", "pipedream", "piper", "terapipe"])
def test_a_cyclic_graph_is_refused(say: Say, planner: str):
    say("graph tiny-mmt --out graph.json")
    document = json.loads(Path("graph.json").read_text())
    first, later = document["operators"][0], document["operators"][5]
    first["inputs"][0] = later["name"]
    Path("graph.json").write_text(json.dumps(document))
    words = f"plan training --planner {planner} --model graph.json --devices 4 --device cpu-core --global-batch 16"
    lines = say(words, code=2, err=True).splitlines()
    assert len(lines) == 1
    assert "cycle" in lines[0]
    assert first["name"] in lines[0]


def test_help_lists_every_option(say: Say):
    for planner in TRAINING_PLANNERS:
        out = say(f"plan training --planner {planner} -o help")
        assert f"options of {planner} " in out
        for field in fields(planner_options(planner)):
            assert f"\n  {field.name}=" in out
    together = say("plan training --planner pipedream,piper,graphpipe -o help --json")
    groups = {tuple(g["planners"]): g["options"] for g in json.loads(together)}
    assert set(groups) == {("pipedream", "piper"), ("graphpipe",)}
    assert all(option["text"] and option["values"] for options in groups.values() for option in options)


def test_simulated_and_drawn(say: Say, tmp_path: Path):
    branched_plan().save("plan.json")
    out = say("simulate plan.json --png plan.png --timeline trace.json")
    assert "8 microbatches through 5 stages in a graph of depth 3 on 5 mesh(es)" in out
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    assert any(e.get("name") == "F" or str(e.get("name", "")).startswith("F") for e in events)
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_targets_that_have_no_stage_graphs_refuse(say: Say):
    say(f"{PLAN} --planner graphpipe -o devices=[1] --out plan.json")
    for target in ("megatron", "deepspeed"):
        lines = say(f"export plan.json --to {target} --out x", code=2, err=True).splitlines()
        assert len(lines) == 1
        assert not Path("x").exists()


@pytest.mark.parametrize(("name", "branches"), [("mmt", 4), ("mmt-2", 2), ("candle-uno-16", 16), ("dlrm", 7)])
def test_graphs_of_branches(say: Say, name: str, branches: int):
    assert say(f"graph {name} --json")
    document = json.loads(say(f"graph {name} --json"))
    assert document["name"] == name
    layers = {"mmt": 8, "candle-uno": 4, "dlrm": 4}[name.rstrip("-0123456789")]
    assert document["layers"] >= branches * layers


def test_plans_with_orders_of_their_own_are_of_one_model(say: Say, monkeypatch: pytest.MonkeyPatch):
    """A sequential plan and one of a stage graph count their stages in different orders of the same operators."""
    from meshwright.worlds.training.doors import compare

    def reached(plans: dict[str, TrainingPlan], graph: Graph, **rest: object) -> None:
        assert graph.digest == zoo_graph("tiny-mmt").digest
        raise InputError(f"reached with {', '.join(plans)}")

    for planner, more in (("graphpipe", "-o devices=[1]"), ("pipedream", ""), ("piper", "")):
        say(f"{PLAN} --planner {planner} {more} --out {planner}.json")
    monkeypatch.setattr(compare, "compare_training", reached)
    err = say("compare graphpipe.json pipedream.json piper.json", code=2, err=True)
    assert "reached with graphpipe.json, pipedream.json, piper.json" in err
    say(f"{PLAN.replace('tiny-mmt', 'tiny-mlp')} --planner pipedream --out other.json")
    assert "trains another model" in say("compare pipedream.json other.json", code=2, err=True)
