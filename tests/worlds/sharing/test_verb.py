"""`meshwright simulate`: what it prints and writes for a shared cluster whose figures are known by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from meshwright.cli import run

# Two apps of one job of 1000 GPU seconds each, on one machine of two GPUs; both can use both GPUs. Alone an app takes
# 500 s. No overheads, and leases that never end: first in, first out gives all to the first, then all to the second.
WORLD = """\
world: sharing
name: by hand
cluster: {machines: [{gpus: 2}]}
apps:
  - {name: a, jobs: [{work: 1000, gpus: 2}]}
  - {name: b, jobs: [{work: 1000, gpus: 2}]}
lease: 1 d
overheads: {checkpoint: 0, container: 0}
planners: [fifo, drf]
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "world.yaml"
    path.write_text(WORLD)
    return path


def test_json_holds_the_figures_known_by_hand(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "world.yaml", "--json", "--engine", "simpy"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["world"], said["gpus"], said["apps"], said["lease_s"]) == ("by hand", 2, 2, 86400.0)
    fifo, drf = said["policies"]
    # a: 500 s beside b; N_avg 2, so T_id 2 * 500, rho 0.5. b: 1000 s, on average 1.5 apps, so rho 1000/750.
    assert [app["jct_s"] for app in fifo["per_app"]] == pytest.approx([500, 1000])
    assert [app["rho"] for app in fifo["per_app"]] == pytest.approx([0.5, 4 / 3])
    assert fifo["max_rho"] == pytest.approx(4 / 3)
    assert fifo["fair_share"] == 0.5
    assert fifo["jain"] == pytest.approx((0.5 + 4 / 3) ** 2 / (2 * (0.25 + 16 / 9)))
    assert fifo["gpu_hours"] == pytest.approx(2000 / 3600)
    assert (fifo["makespan_s"], fifo["utilisation"]) == (pytest.approx(1000), pytest.approx(1))
    # Equal shares: both take 1000 s beside each other: rho 1, perfectly fair.
    assert [app["rho"] for app in drf["per_app"]] == pytest.approx([1, 1])
    assert (drf["max_rho"], drf["fair_share"], drf["jain"]) == (pytest.approx(1), 1, pytest.approx(1))


def test_table_has_a_row_for_each_policy(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "world.yaml", "--planner", "drf,fifo", "--per-app", "--engine", "simpy"]) == 0
    out = capsys.readouterr().out
    first, _, *rows = out.splitlines()
    assert first.startswith("by hand: 2 GPUs (1 x 2) in 1 rack, 2 apps of 2 jobs, lease 86400 s")
    assert [row.split()[0] for row in rows[:2]] == ["drf", "fifo"]
    assert rows[1].split()[1:4] == ["1.333", "0.5", "0.8288"]  # (1/2 + 4/3)² / (2 (1/4 + 16/9)) = 0.82877
    assert rows.count("drf") == rows.count("fifo") == 1  # a table by app of each


def test_files_hold_what_json_does(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "world.yaml", "--json", "--out", "r.json", "--engine", "simpy"]) == 0
    assert json.loads(capsys.readouterr().out) == {**json.loads(Path("r.json").read_text()), "out": "r.json"}
    assert run(["simulate", "world.yaml", "--out", "r.csv", "--engine", "simpy"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written: r.csv"
    rows = _rows("r.csv")
    assert [(r["policy"], r["app"]) for r in rows] == [("fifo", "a"), ("fifo", "b"), ("drf", "a"), ("drf", "b")]
    assert float(rows[1]["rho"]) == pytest.approx(4 / 3)


def test_a_timeline_as_rows_trace_and_picture(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "world.yaml", "--timeline"]
    assert run([*words, "t.csv", "--planner", "fifo"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written: t.csv"
    rows = [(r["policy"], r["gpu"], r["app"], float(r["start_s"]), float(r["end_s"])) for r in _rows("t.csv")]
    # First in, first out: both GPUs are a's for 500 s, then b's. On the way nobody stands still.
    assert rows == [("fifo", g, app, start, start + 500) for g in "01" for app, start in (("a", 0), ("b", 500))]
    assert all(r["resumes_s"] == r["start_s"] for r in _rows("t.csv"))
    assert run([*words, "t.json"]) == 0
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert named == {0: "fifo: machine 0 (rack 0)", 1: "drf: machine 0 (rack 0)"}
    # Under drf each has one of the GPUs for 1000 s.
    spans = sorted((e["tid"], e["args"]["app"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 1)
    assert spans == [(0, "a", 0, 1e9), (1, "b", 0, 1e9)]
    assert run([*words, "t.png"]) == run([*words, "t.svg"]) == 0
    assert Path("t.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("t.svg").read_text()


def _rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_gpus_by_lot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # Eight machines of two GPUs; apps of two GPUs come one after the other to a cluster that is otherwise empty. The
    # nearest two are a machine's; two by lot are one machine's only once in fifteen times.
    monkeypatch.chdir(tmp_path)
    apps = "".join(f"  - {{name: a{k}, arrival: {k} h, jobs: [{{work: 60, gpus: 2, gang: 2}}]}}\n" for k in range(9))
    Path("w.yaml").write_text(
        f"world: sharing\ncluster: {{machines: [{{gpus: 2, count: 8}}]}}\nplanners: [tiresias]\napps:\n{apps}"
    )
    placed = []
    for words in (["-o", "placement=blind"], []):
        assert run(["simulate", "w.yaml", "--json", "--engine", "simpy", *words]) == 0
        said = json.loads(capsys.readouterr().out)
        (tiresias,) = said["policies"]
        placed.append((tiresias["options"], tiresias["placement"] == 1))
    assert placed == [({"placement": "blind"}, False), ({}, True)]
    assert run(["simulate", "w.yaml", "-o", "placement=blind", "--dry-run"]) == 0
    assert "GPUs by lot" in capsys.readouterr().out


def test_example_is_a_world_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["new", "sharing", "--example", "cluster"]) == 0
    Path("example.yaml").write_text(capsys.readouterr().out)
    assert run(["simulate", "example.yaml", "--dry-run"]) == 0
    assert "24 apps" in capsys.readouterr().out
    assert run(["new", "sharing", "--example", "here"]) == 0
    Path("here.yaml").write_text(capsys.readouterr().out)
    assert run(["simulate", "here.yaml", "--dry-run"]) == 0
    assert "4 GPUs (2 x 2) in 2 racks, 6 apps" in capsys.readouterr().out
    assert run(["new", "sharing", "--example", "there"]) == 2
    assert "--example: no example 'there'" in capsys.readouterr().err


def test_options_stand_instead_of_the_file(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--lease", "60", "-o", "fairness=0.25", "--planner", "themis", "--dry-run"]
    assert run(["simulate", "world.yaml", *words]) == 0
    out = capsys.readouterr().out
    assert "lease 60 s" in out
    assert "f = 0.25" in out


def test_an_auction_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Four GPUs, two apps whose 1/rho is as large as the number of GPUs: two each is the best product, 2 * 2 against
    # 1 * 3. Alone the other would have four: each costs the other 2/4, so each keeps half of two.
    some = ", ".join(f"{{gpus: {n}, rho: {1 / n:.4f}}}" for n in range(1, 5))
    rows = f"[{{gpus: 0, rho: unbounded}}, {some}]"
    path = tmp_path / "bids.yaml"
    path.write_text(
        f"world: sharing\ncluster: {{machines: [{{gpus: 4}}]}}\nbids:\n"
        f"  - app: a\n    rows: &rows {rows}\n  - app: b\n    rows: *rows\nauction: {{rounding: floor}}\n"
    )
    assert run(["simulate", "sharing", "--bids", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(r["app"], r["won"], r["kept"], r["paid"]) for r in said["apps"]] == [("a", 2, 1, 1), ("b", 2, 1, 1)]
    assert [r["share"] for r in said["apps"]] == pytest.approx([0.5, 0.5])
    assert len(said["leftover"]) == 2
    assert sorted([*said["gpus"]["a"], *said["gpus"]["b"], *said["leftover"]]) == [0, 1, 2, 3]
    # With one GPU each 1/rho is 1. Two idle GPUs would help both; nobody would rather have the other's one.
    assert [r["rho"] for r in said["apps"]] == [1, 1]
    assert said["pareto"] == {"before_payments": True, "after_payments": False}
    assert said["envy"] == {"before_payments": [], "after_payments": []}
    assert run(["simulate", "sharing", "--bids", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "left over: 2; gap 0", "Pareto efficient: yes before payments, no after",
        "envy: none before payments, none after", "rho <= 1 with what they keep: 2 of 2 apps",
    ]  # fmt: skip


def test_envy_is_told_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One GPU for two apps: whoever has none would rather have it, and nothing is fairer.
    path = tmp_path / "bids.yaml"
    rows = "[{gpus: 0, rho: 9}, {gpus: 1, rho: RHO}]"
    path.write_text(
        "world: sharing\ncluster: {devices: 1}\nbids:\n"
        f"  - {{app: keen, rows: {rows.replace('RHO', '1')}}}\n  - {{app: calm, rows: {rows.replace('RHO', '3')}}}\n"
        "auction: {payments: false}\n"
    )
    assert run(["simulate", "sharing", "--bids", str(path)]) == 0
    out = capsys.readouterr().out
    assert "envy: calm of keen before payments, calm of keen after" in out
    assert "Pareto efficient: yes before payments, yes after" in out
