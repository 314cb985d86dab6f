"""What a case file or a file of bids may hold and must not: nothing that is given is left out silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.worlds.cases import read_case
from meshwright.worlds.sharing.build import cluster_of
from meshwright.worlds.sharing.case import SharingCase

BIDS = {
    "world": "sharing",
    "cluster": "{machines: [{gpus: 4}]}",
    "bids": "[{app: a, rows: [{gpus: 0, rho: unbounded}, {gpus: 4, rho: 1}]}]",
}
WORLD = {
    "world": "sharing",
    "cluster": "{machines: [{gpus: 4, count: 2}]}",
    "apps": "[{name: a, jobs: [{work: 100, gpus: 2}]}]",
    "planners": "[fifo]",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _file(folder: Path, keys: dict[str, str]) -> str:
    (folder / "f.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items() if value))
    return "f.yaml"


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("meshwright: ")
    return line


@pytest.mark.parametrize("key", ["fairness: 0.5", "visibility: current", "leftovers: idle"])
def test_one_auction_has_no_knob_of_the_policy(folder: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    line = _refused(capsys, "sharing", "--bids", _file(folder, BIDS | {"auction": f"{{{key}}}"}))
    assert f"auction.{key.split(':')[0]}: unknown key; known: payments, rounding" in line


@pytest.mark.parametrize("row", ["{gpus: 2, rho: 1, group: 2}", "{gpus: 2, rho: 1, place: rack, group: 1}"])
def test_a_group_is_of_machines(folder: Path, capsys: pytest.CaptureFixture[str], row: str) -> None:
    bids = f"[{{app: a, rows: [{{gpus: 0, rho: unbounded}}, {row}]}}]"
    assert "bids[0].rows[1]: group: goes with place: machines" in _refused(
        capsys, "sharing", "--bids", _file(folder, BIDS | {"bids": bids})
    )


@pytest.mark.parametrize("rack", [5, 999_999])
def test_racks_may_have_any_number(folder: Path, capsys: pytest.CaptureFixture[str], rack: int) -> None:
    bids = "[{app: a, rows: [{gpus: 0, rho: unbounded}, {gpus: 2, rho: 1, place: rack}]}]"
    cluster = f"{{machines: [{{gpus: 1, rack: {rack}}}, {{gpus: 2, rack: 0}}, {{gpus: 1, rack: {rack}}}]}}"
    assert run(["simulate", "sharing", "--bids", _file(folder, BIDS | {"bids": bids, "cluster": cluster})]) == 0
    assert "4 on offer" in capsys.readouterr().out


def test_nothing_on_offer_and_a_bid_for_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "sharing", "--bids", _file(folder, BIDS | {"offered": "[]"})]) == 0
    assert "left over: 0" in capsys.readouterr().out
    assert (
        run(["simulate", "sharing", "--bids", _file(folder, BIDS | {"bids": "[{app: a, rows: [{gpus: 0, rho: 3}]}]"})])
        == 0
    )
    assert "left over: 4" in capsys.readouterr().out


def test_machines_stand_in_the_racks_that_the_file_says(folder: Path) -> None:
    machines = "{machines: [{gpus: 4, count: 3, rack: 7}, {gpus: 2, count: 3}, {gpus: 4, rack: 2}], racks: 2}"
    _file(folder, WORLD | {"cluster": machines})
    case = read_case("f.yaml")
    assert isinstance(case, SharingCase)
    cluster = cluster_of(case.cluster)
    assert [m.rack for m in cluster.machines] == [7, 7, 7, 0, 1, 0, 2]


def test_a_rack_of_a_huge_number_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _refused(capsys, _file(folder, WORLD | {"cluster": "{machines: [{gpus: 4, rack: 1000000000000}]}"}))
    assert "cluster.machines[0].rack: should be less than 1000000 (got 1000000000000)" in line


@pytest.mark.parametrize("words", ["--per-app", "--engine simpy", "--seeds 3", "--timeline t.png", "--out r.csv"])
def test_what_an_auction_has_no_use_for_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    line = _refused(capsys, "sharing", "--bids", _file(folder, BIDS), *words.split())
    name = words.split()[0].removeprefix("--").replace("-", "_")
    assert f"{name}: is for cases, and f.yaml holds bids" in line


@pytest.mark.parametrize("words", ["--planner themis", "-o fairness=0.5", "--devices 4", "--set lease=60"])
def test_nothing_of_a_case_goes_with_an_auction(folder: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    line = _refused(capsys, "sharing", "--bids", _file(folder, BIDS), *words.split())
    assert "--bids: goes with neither case nor plan" in line


def test_a_dry_run_of_bids_auctions_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "sharing", "--bids", _file(folder, BIDS), "--dry-run"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "f: 4 GPUs (1 x 4) in 1 rack, 4 on offer, 1 bidder"
    assert "nothing was auctioned" in last


@pytest.mark.parametrize("lease", ["1.0e-300", "1.0e-9"])
def test_a_lease_that_no_clock_tells_apart_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], lease: str
) -> None:
    line = _refused(capsys, _file(folder, WORLD | {"lease": lease, "planners": "[themis]"}))
    assert "f.yaml:5: lease: expected 0.001 s or more" in line


def test_a_case_and_a_study_are_told_from_each_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", _file(folder, WORLD)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "f.yaml: is a case" in line
    assert "meshwright simulate f.yaml" in line
    line = _refused(capsys, _file(folder, {"study": "1", **WORLD}))
    assert line == "meshwright: f.yaml: is a study, which asks about a case: meshwright study f.yaml"
