"""`meshwright reproduce --check`: verdicts that are others than those kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.reproduce import verdicts

ASKED = ["reproduce", "alpaserve/fig08", "--fast"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A figure, once."""
    out = tmp_path_factory.mktemp("out")
    assert run([*ASKED, "--out", str(out)]) == 0
    return out


@pytest.fixture
def kept(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is kept of it."""
    path = tmp_path / "verdicts.json"
    told = json.loads((made / "alpaserve/fig08.json").read_text("utf-8"))
    claims = [
        {"claim": c["text"], "kind": c["kind"], "verdict": c["verdict"], "ours": c["ours"]} for c in told["claims"]
    ]
    run_ = {"date": "2026-11-01", "meshwright": "0.1.0", "seed": 0, "claims": claims, "source": "run", "cpu_s": 1.0}
    path.write_text(json.dumps({"alpaserve/fig08": {"fast": run_}}))
    monkeypatch.setattr(verdicts.load, "__defaults__", (path,))
    return path


def test_the_same_verdicts_pass(kept: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ASKED, "--check", "--out", str(made)]) == 0
    assert capsys.readouterr().out == "1 figures and tables: verdicts as kept\n"


def test_another_verdict_fails_with_the_difference(kept: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(kept.read_text())
    first = next(c for c in told["alpaserve/fig08"]["fast"]["claims"] if c["kind"] == "finding")
    now, first["verdict"] = first["verdict"], "needs a GPU"
    kept.write_text(json.dumps(told))
    assert run([*ASKED, "--check", "--json", "--out", str(made)]) == 1
    [line] = json.loads(capsys.readouterr().out)
    assert line.startswith(f"alpaserve/fig08: needs a GPU -> {now}: {first['claim']} (paper ")


def test_what_is_not_kept_is_not_made(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "vllm/fig12", "--fast", "--check", "--out", str(tmp_path / "new")]) == 2
    assert "no fast verdicts are kept of vllm/fig12; --remember keeps them" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
