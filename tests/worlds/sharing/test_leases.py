"""When leases end is a field: of the case, of its flag, of what is simulated and exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.runtime.export.sharing.fit import fit_of

CASE = """world: sharing
cluster: {machines: [{gpus: 2}]}
lease: 60
overheads: {checkpoint: 0, container: 0}
apps:
  - {name: a, jobs: [{work: 100}]}
  - {name: b, jobs: [{work: 25}]}
  - {name: c, arrival: 10, jobs: [{work: 500}]}
  - {name: d, arrival: 30, jobs: [{work: 500}]}
planners: [tiresias]
"""


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_who_made_way_goes_on_when_a_lease_ends(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """c takes over b's GPU at 25 s; a makes way for d at 60 s. Apart, c's lease is over at 85 s, and a goes on with
    the 40 s that it lacks; together, both GPUs are on offer at 60 s, and next at 120 s."""
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text(CASE)
    for lease_ends, finish_s in (("apart", 125.0), ("together", 160.0)):
        said = ["--lease-ends", lease_ends, "--engine", engine, "--out", "out.json"]
        assert run(["simulate", "case.yaml", *said]) == 0
        assert ("(all end together)" in capsys.readouterr().out) == (lease_ends == "together")
        document = json.loads(Path("out.json").read_text())
        assert document["lease_ends"] == lease_ends
        assert document["policies"][0]["per_app"][0]["finish_s"] == finish_s


def test_what_is_neither_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "case.yaml").write_text(CASE + "lease_ends: never\n")
    assert run(["simulate", str(tmp_path / "case.yaml")]) == 2
    assert "lease_ends: should be 'apart' or 'together' (got 'never')" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["kueue", "slurm"])
def test_what_a_target_does_not_keep_is_said(target: str) -> None:
    said = f"Leases of different apps do not end together on {target.capitalize()}."
    assert said in fit_of(target, "tiresias", True, 600.0, together=True).differences
    assert said not in fit_of(target, "tiresias", True, 600.0).differences
