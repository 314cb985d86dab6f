"""`meshwright profile list | show | check | plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright import profiles
from meshwright.cli import run


def test_list_names_every_shipped_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in profiles.shipped())
    assert run(["profile", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(profiles.shipped())
    assert rows[0]["digest"] == profiles.load("alpaserve-v100").digest()


def test_show_a_set_and_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "show", "alpaserve-v100"]) == 0
    text = capsys.readouterr().out
    assert "bert-104b  4600.0 ms  208.00 GB" in text
    assert run(["profile", "show", "alpaserve-v100", "--model", "bert-2.7b", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["model"] == "bert-2.6b"
    eight = next(row for row in shown["configs"] if row["config"] == "op1pp8")
    assert eight["devices"] == 8
    assert eight["stages_s"]["1"][-1] == eight["slowest_stage_s"] == 0.033864
    assert eight["source"].startswith("recovered")


def test_check_says_sound_doubtful_or_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = profiles.save(profiles.load("alpaserve-v100-oct2022"), tmp_path / "p.json")
    assert run(["profile", "check", str(path)]) == 0
    assert "sound: 1 model(s)" in capsys.readouterr().out

    document = json.loads(path.read_text())
    cells = document["models"]["bert-1.3b"]["configs"]["op1pp1"]["latency_s"]
    cells["16"] = [0.1]
    path.write_text(json.dumps(document))
    assert run(["profile", "check", str(path), "--json"]) == 1
    (doubt,) = json.loads(capsys.readouterr().out)["doubts"]
    assert "op1pp1: stage 0 falls" in doubt

    cells["16"], cells["8"] = [-1], []
    path.write_text(json.dumps(document))
    assert run(["profile", "check", str(path)]) == 2
    told = capsys.readouterr().err
    assert "op1pp1.latency_s.16[0]: must be positive and finite (got -1)" in told
    assert "op1pp1.latency_s.8: expected 1 values, one per stage (got 0)" in told


def test_plan_writes_a_set_that_the_others_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.json"
    words = ["profile", "plan", "tiny-gpt", "--out", str(out), "--ops", "1,2", "--max-devices", "4", "--size", "seq=32"]
    assert run(words) == 0
    told = capsys.readouterr()
    assert "tiny-gpt-seq32" in told.out
    assert "planning tiny-gpt-seq32: op 2, batch 1" in told.err
    made = profiles.load(out)
    assert (made.name, made.device) == ("mine", "v100-16gb")
    assert [str(c) for c in made["tiny-gpt-seq32"].configs] == ["op1pp1", "op1pp2", "op1pp4", "op2pp1", "op2pp2"]
    assert run(["profile", "check", str(out)]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpt4"], "models: unknown model 'gpt4'"),
        (["tiny-gpt", "tiny-gpt"], "'tiny-gpt' is given twice"),
        (["tiny-gpt", "--ops", "1,x"], "--ops: expected integers with commas between, such as 1,2,4 (got '1,x')"),
        (["tiny-gpt", "--ops", "12"], "12 devices are no whole nodes of 8"),
        (["tiny-gpt", "--size", "seq"], "--size: expected KEY=NUMBER"),
        (["tiny-gpt", "--size", "width=2"], "has no size 'width'"),
        (["graph.json", "--size", "seq=2"], "is no model of the zoo"),
        (["tiny-gpt", "--device", "v10"], "v10"),
    ],
)
def test_plan_says_in_one_line_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(["profile", "plan", *words, "--out", str(tmp_path / "x.json")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "alpaserve-v10"], "did you mean 'alpaserve-v100'?"),
        (["show", "alpaserve-v100", "--model", "gpt"], "has no 'gpt'; it holds bert-1.3b"),
        (["check", "no-such-file.json"], "no shipped set and no file of that name"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
