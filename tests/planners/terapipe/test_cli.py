"""`meshwright plan training --planner terapipe`, `measure training` and `-o slice_profile=FILE`, as they are called."""

from __future__ import annotations

import json

import pytest
from meshwright.cli import run
from meshwright.planners.terapipe import SliceProfile
from meshwright.simulator.training.plan.file import TrainingPlan

PLAN = "plan training --planner terapipe --model tiny-gpt --devices 2 --device cpu-core --global-batch 4 -o pipe=2"


def call(words, capsys):
    """Exit code, and what went to stdout and stderr."""
    capsys.readouterr()
    code = run(words.split())
    out, err = capsys.readouterr()
    return code, out, err


def test_plans_are_written_and_simulated(tmp_path, capsys):
    path = tmp_path / "plan.json"
    code, out, err = call(f"{PLAN} -o granularity=4 --out {path}", capsys)
    assert code == 0, err
    assert "slices, in the order in which they are fed" in out
    assert "over slices" in out
    made = TrainingPlan.load(path)
    assert made.schedule == "terapipe"
    assert made.planner.options["granularity"] == 4
    _, out, _ = call(f"simulate {path} --json", capsys)
    assert json.loads(out)["plans"][0]["seconds"] == pytest.approx(made.predicted["simulated_s"])


def test_planners_beside_each_other(capsys):
    words = PLAN.replace("terapipe", "terapipe,megatron").replace(" -o pipe=2", "") + " --json"
    code, out, err = call(words, capsys)
    assert code == 0, err
    assert {p["planner"] for p in json.loads(out)["plans"]} == {"terapipe", "megatron"}


def test_measured_slices_are_planned_with(tmp_path, capsys):
    pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "slices.json"
    words = f"measure training --model tiny-gpt --lengths 4,8,12,16 --contexts 0,4,8 --fast --out {path}"
    code, out, err = call(words, capsys)
    assert code == 0, err
    assert "block" in out
    profile = SliceProfile.load(path)
    assert set(profile.parts) == {"before", "block", "after"}
    assert all(t > 0 for part in profile.parts.values() for t in (*part.forward_s, *part.backward_s))
    code, out, err = call(f"{PLAN} -o samples=1 -o granularity=4 -o slice_profile={path}", capsys)
    assert code == 0, err
    assert "slices: measured on" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{PLAN} -o tokens=[8,7]", "slices sum to 15; a sequence has 16 tokens"),
        (f"{PLAN} -o granularity=5", "5 does not divide the sequence of 16 tokens; use 4"),
        (f"{PLAN} -o pipe_stages=2", "unknown option 'pipe_stages'"),
        (f"{PLAN} -o op=2", "2 x 2 need 4 devices"),
        (PLAN.replace("pipe=2", "pipe=4"), "need 4 devices"),
        (PLAN.replace("tiny-gpt", "tiny-moe"), "deals tokens out to experts"),
        (f"{PLAN} -o slice_profile=nothing.json", "cannot read the slice profile"),
        (PLAN.replace("terapipe", "data").replace("pipe=2", "slice_profile=x"), "unknown option 'slice_profile'"),
        ("measure training --model bert-large", "not causal"),
        ("measure training --model tiny-gpt --contexts 4,8", "0 among them"),
        ("measure training --model tiny-gpt --lengths 0", "lengths[0]: should be greater than or equal to 1"),
        ("measure training --model tiny-gpt --device cuda", "No such option: --device"),
        ("measure training --model tiny-gpt,cpu-gpt-s", "unknown model 'tiny-gpt,cpu-gpt-s'"),
        ("measure training --model tiny-gpt --rounds 2", "rounds: are for the stages of a plan"),
    ],
)
def test_bad_input(words, expected, capsys):
    code, _, err = call(words, capsys)
    assert code != 0
    assert expected in err
    assert len(err.strip().splitlines()) == 1
