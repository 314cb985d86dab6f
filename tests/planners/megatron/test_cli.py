"""`meshwright plan training --planner search`: tables, JSON, CSV, and one line for everything that is wrong."""

import csv
import json

import pytest
from meshwright.cli import run
from meshwright.planners.megatron import megatron_flags, search
from meshwright.simulator import Cluster
from meshwright.simulator.training import TrainingPlan, TransformerShape, simulate_training

SHAPE = TransformerShape(8, 1024, 16, vocab=8192, seq=512)
MODEL = "layers=8,hidden=1024,heads=16,vocab=8192,seq=512"
BASE = [
    *("plan", "training", "--planner", "search", "--model", MODEL), *("--global-batch", "16"),
    *("--devices", "4", "--device", "a100-80gb"),
]  # fmt: skip


def said(capsys, *words):
    code = run(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_table(capsys):
    code, out, err = said(capsys, *BASE, "--top", "2")
    best = search(SHAPE, Cluster(1, 4, "a100-80gb"), 16, top=2).best
    assert code == 0, err
    assert out.index(str(best[0])) < out.index(str(best[1]))
    assert "combinations in" in out


def test_json_and_csv(capsys, tmp_path):
    path = tmp_path / "all.csv"
    code, out, _ = said(capsys, *BASE, "--json", "--csv", str(path), "-o", "zero=0,1,recompute=none,full")
    answer = json.loads(out)
    expected = search(SHAPE, Cluster(1, 4, "a100-80gb"), 16, zero=(0, 1), recompute=("none", "full"))
    assert code == 0
    assert answer["combinations"] == expected.combinations
    assert [one["seconds"] for one in answer["best"]] == [one.seconds for one in expected.best]
    assert answer["evaluated"] == answer["fit"] + answer["out_of_memory"]
    assert sum(answer["best"][0]["time"].values()) == pytest.approx(answer["best"][0]["seconds"])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == answer["evaluated"]
    assert {row["zero"] for row in rows} == {"0", "1"}


def test_sweep_and_days(capsys):
    code, out, _ = said(capsys, *BASE, "--sweep", "1,2,4,12", "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["1", "2", "4", "12", "out"]
    assert answer["12"] is None
    assert answer["1"]["seconds"] > answer["2"]["seconds"] > answer["4"]["seconds"]
    _, table, _ = said(capsys, *BASE, "--sweep", "1,12")
    assert "no combination is possible" in table
    day = 86_400 * 16 * 512  # tokens of one iteration a second
    length = 1e4 * 16 * 512
    two, one = (1e4 * answer[n]["seconds"] / 86_400 for n in ("2", "1"))
    code, out, _ = said(
        capsys, *BASE, "--days", str((one + two) / 2), "--tokens", str(length), "--sweep", "1,2,4", "--json"
    )
    assert code == 0
    assert json.loads(out)["devices"] == 2
    assert length < day  # less than a day's at one iteration a second
    code, out, _ = said(capsys, *BASE, "--days", str((one + two) / 2), "--tokens", str(length), "--sweep", "1,2,4")
    assert out.startswith("2 x a100-80gb: 10,000 iterations in ")


def test_flags_of_the_fastest(capsys):
    code, out, _ = said(capsys, *BASE, "-o", "tp=2,pp=2,zero=0", "--flags")
    best = search(SHAPE, Cluster(1, 4, "a100-80gb"), 16, tp=2, pp=2, zero=0).best[0]
    assert code == 0
    assert out.splitlines() == megatron_flags(best, SHAPE, 16)


def test_plan_of_the_fastest(capsys, tmp_path):
    path = tmp_path / "plan.json"
    code, out, _ = said(capsys, *BASE, "-o", "pp=2,4", "-o", "interleave=1,2", "--json", "--out", str(path))
    plan = TrainingPlan.load(path)
    assert code == 0
    assert plan.predicted["seconds"] == json.loads(out)["best"][0]["seconds"]
    assert simulate_training(plan).seconds == pytest.approx(plan.predicted["seconds"], rel=0.02)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--model", "no-such"], 2, "unknown model 'no-such'"),
        (["--global-batch", "0"], 2, "global_batch: should be greater than 0 (got 0)"),
        (["--global-batch", "x"], 2, "global_batch: should be"),
        (["--cluster", "8"], 2, "No such option: --cluster"),
        (["--devices", "1000000"], 2, "cluster.devices: should be less than or equal to 100000 (got 1000000)"),
        (["--sequence", "0"], 2, "workload.sequence: should be greater than 0 (got 0)"),
        (["-o", "dtype=int8"], 2, "dtype: expected one of"),
        (["--memory", "0"], 2, "cluster.memory: should be greater than or equal to 1048576 (got 0)"),
        (["--memory", "nan"], 2, "cluster.memory: expected bytes"),
        (["--memory", "3 apples"], 2, "cluster.memory: expected bytes, such as 13 GiB or 16 GB (got '3 apples')"),
        (["-o", "software=nccl"], 2, "software: unknown value 'nccl'; known: core, megatron-2022"),
        (["--top", "0"], 2, "top: should be greater than or equal to 1 (got 0)"),
        (["-o", "tp=3"], 2, "no product of tp {3}"),
        (["-o", "pp=1;2"], 2, "pp: expected positive integers (got '1;2')"),
        (["-o", "dp=-1"], 2, "dp: expected positive integers (got -1)"),
        (["-o", "microbatch=5"], 2, "what comes closest breaks: global_batch"),
        (["-o", "interleave=x"], 2, "search: interleave: expected"),
        (["-o", "recompute=half"], 2, "recompute: expected some of none, selective, full"),
        (["-o", "zero=4"], 2, "zero: expected 0, 1, 2 or 3"),
        (["--microbatches", "4"], 2, "microbatches: planner search chooses them"),
        (["--picture", "x.png"], 2, "picture: shows operators"),
        (["--sweep", "6"], 2, "devices: expected full nodes of 4"),
        (["--sweep", "12"], 3, "nothing fits on any of 12 devices"),
        (["--days", "3"], 2, "days, tokens: give both or none"),
        (["--days", "0", "--tokens", "1e9"], 2, "days: should be greater than 0 (got 0.0)"),
        (["--days", "3", "--tokens", "-1"], 2, "tokens: should be greater than 0 (got -1.0)"),
        (["--days", "1e-9", "--tokens", "1e12", "--sweep", "4"], 3, "no size of"),
        (["--days", "3", "--tokens", "1e9", "--csv", "x.csv"], 2, "csv, out: do not go with days"),
        (["--sweep", "1,2", "--csv", "x.csv"], 2, "csv, out: expected one number of devices"),
        (["--csv", "/dev/null/x"], 2, "/dev/null"),
        (["--out", "/dev/null/x"], 2, "/dev/null"),
        (["--flags", "--sweep", "2"], 2, "flags: does not go with"),
        (["--memory", "10 MiB"], 3, "the smallest needs"),
    ],
)
def test_bad_input(capsys, words, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _, err = said(capsys, *BASE, *words)
    assert found == code
    lines = [line for line in err.splitlines() if not line.startswith("planning: ")]
    assert len(lines) == 1, err
    assert message in err
    assert list(tmp_path.iterdir()) == []
