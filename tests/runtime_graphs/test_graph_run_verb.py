"""`meshwright run` takes plans whose stages form a graph; the page on runs says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from meshwright.cli import app
from meshwright.simulator.training.plan import TrainingPlan
from typer.testing import CliRunner

PAGE = Path(__file__).parents[2] / "docs" / "training-run.md"


def test_the_example_of_the_page_is_written_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## Stages that form a graph") :]
    (block, *_) = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", section)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(line[4:] for line in block.splitlines()), {})
    plan = TrainingPlan.load("branches.json")
    assert plan.microbatches_of == (2, 8, 4)
    assert sorted((t.source, t.target) for t in plan.transfers) == [(0, 2), (1, 2)]
    done = CliRunner().invoke(app, ["run", "branches.json", "--iterations", "2"])
    assert done.exit_code == 0, done.output
    assert "tiny-mmt: 3 processes, 2 to 8 microbatches, kfkb" in done.output
    assert "against one device: equal" in done.output
