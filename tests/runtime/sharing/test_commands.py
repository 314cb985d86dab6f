"""The commands around real runs: comparisons by policy and seed (the runs themselves simulated), and bad arguments."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.runtime.sharing import Measured, PolicyChoice, RealSharing, RunOptions, load_world_document
from meshwright.runtime.sharing import compare_many as module
from meshwright.runtime.sharing.__main__ import main
from meshwright.runtime.sharing.compare import SharingComparison
from meshwright.runtime.sharing.dozen import dozen
from meshwright.simulator.sharing import BASELINES, SharingResult, SharingWorld, simulate_reference

Call = tuple[SharingWorld, PolicyChoice, RunOptions, dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What is asked to be run; instead of running, every app ends a twentieth later than simulated."""
    asked: list[Call] = []

    def compare(world: SharingWorld, policy: PolicyChoice, options: RunOptions, **more: Any) -> SharingComparison:
        asked.append((world, policy, options, more))
        simulated = simulate_reference(world, policy.make())
        late = SharingResult(
            world, simulated.policy, simulated.start, simulated.finish * 1.05, simulated.gpu_seconds,
            simulated.contention, simulated.completed, simulated.grants, simulated.placed,
        )  # fmt: skip
        return SharingComparison(RealSharing.from_run(late, RunOptions(), Measured(), ()), simulated)

    monkeypatch.setattr(module, "compare_sharing", compare)
    return asked


def test_policies_and_seeds_are_run_one_by_one(
    calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "compare --policy themis,tiresias --seed 1,2 --apps 4 --time-scale 50 --arbiter process --out"
    assert main([*words.split(), str(tmp_path / "c.csv")]) == 0
    assert [(p.name, p.options.get("seed"), o.seed) for _, p, o, _ in calls] == [
        ("themis", 1, 1), ("tiresias", 1, 1), ("themis", 2, 2), ("tiresias", 2, 2),
    ]  # fmt: skip
    assert all(o.time_scale == 50 and more["arbiter"] == "process" for _, _, o, more in calls)
    assert calls[0][0] == calls[1][0] == dozen(1, apps=4)  # the same apps under each policy
    assert calls[2][0] == dozen(2, apps=4)
    out = capsys.readouterr().out
    assert "finish times within 10 %: 16 of 16 in 4 runs" in out
    assert out.count("finish times within 10 %: 4 of 4; worst 5.0%") == 4
    for seed in (1, 2):
        (line,) = [line for line in out.splitlines() if line.startswith(f"seed {seed}, by max rho: ")]
        worst = {p: simulate_reference(dozen(seed, apps=4), PolicyChoice(p).make()).rho.max() for p in ("tiresias",)}
        assert f"{worst['tiresias']:.2f}" in out
        assert "themis" in line
        assert "tiresias" in line
    rows = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert len(rows) == 16
    assert {row["policy"] for row in rows} == {"themis", "tiresias"}
    assert all(float(row["finish_error"]) == pytest.approx(0.05) for row in rows)


def test_a_single_run_has_no_summary_and_json_has_no_nan(
    calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--policy", "srsf", "--apps", "2", "--out", str(tmp_path / "c.json")]) == 0
    assert "by max rho" not in capsys.readouterr().out
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [row["app"] for row in rows] == ["app 0", "app 1"]


def test_options_reach_the_policy_and_a_file_the_world(calls: list[Call], tmp_path: Path) -> None:
    world = tmp_path / "w.json"
    assert main(["dozen", "--seed", "7", "--apps", "3", "--out", str(world)]) == 0
    assert load_world_document(world) == dozen(7, apps=3)
    assert main(["compare", "--world", str(world), "--policy", "srsf", "--option", "placement=blind"]) == 0
    assert main(["compare", "--world", str(world), "--option", "fairness=0.5", "--option", "rounding=floor"]) == 0
    assert [w for w, _, _, _ in calls] == [dozen(7, apps=3)] * 2
    assert calls[0][1] == PolicyChoice("srsf", {"seed": 0, "lease_s": 600.0, "placement": "blind"})
    assert calls[1][1] == PolicyChoice("themis", {"seed": 0, "fairness": 0.5, "rounding": "floor"})


@pytest.mark.parametrize("name", ["themis", *BASELINES])
def test_every_policy_can_be_compared(calls: list[Call], name: str) -> None:
    assert main(["compare", "--policy", name, "--apps", "3"]) == 0
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare --policy themsi", "unknown sharing policy 'themsi'; did you mean 'themis'?"),
        ("compare --policy themis,fifo,themis", "--policy: expected names of policies, each once"),
        ("compare --policy ,", "--policy: expected names of policies"),
        ("compare --policy fifo,themis --option fairness=2", "policy fifo: unknown option 'fairness'"),
        ("compare --option fairness=2", "in [0, 1] (got 2)"),
        ("compare --option fairness", "--option: expected key=value"),
        ("compare --seed 1,x", "--seed: expected whole numbers >= 0"),
        ("compare --seed -1", "--seed: expected whole numbers >= 0"),
        ("compare --apps 0", "--apps: expected an integer >= 1 (got 0)"),
        ("compare --lease 0", "lease_s"),
        ("compare --world nothing.json", "nothing.json: cannot be read"),
        ("compare --out .", "expected a file to write"),
        ("serve --resume nothing.jsonl", "nothing.jsonl: cannot be read"),
        ("serve --resume a --journal b", "--resume: the journal says the world"),
        ("serve --time-scale 0", "time_scale: expected a finite number > 0"),
        ("serve --policy nobody", "unknown sharing policy 'nobody'"),
        ("agents --port 1", "no arbiter at 127.0.0.1:1"),
        ("extend nothing.json", "nothing.json: cannot be read"),
    ],
)
def test_slips_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[Call], capsys: pytest.CaptureFixture[str],
    words: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert said in err
    assert calls == []


def test_a_journal_of_another_run_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text('{"op": "task"}\n')
    assert main(["serve", "--apps", "1", "--journal", str(path)]) == 2
    assert "another run's journal stands there" in capsys.readouterr().err
    assert path.read_text() == '{"op": "task"}\n'
