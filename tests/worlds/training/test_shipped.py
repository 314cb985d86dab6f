"""The shipped cases of large models: parameters as published, plans come out, errors are those that the page prints."""

from __future__ import annotations

from pathlib import Path

import meshwright
import pytest
from meshwright.cli import run
from meshwright.reproduce.accuracy.published.shipped import CASES, row
from meshwright.worlds.registry import open_world

DOCS = Path(meshwright.__file__).parent / "docs"
PAGE = (DOCS / "configuration-search.md").read_text("utf-8")
FILES = (
    "training-deepseek-v3.yaml", "training-llama-4-maverick.yaml", "training-llama-3-405b.yaml",
    "training-llama-3-70b.yaml", "training-mixtral-8x7b.yaml", "training-mixtral-8x22b.yaml",
)  # fmt: skip


def test_every_case_is_an_example_of_the_world():
    assert tuple(case.file for case in CASES) == FILES == tuple(open_world("training").examples.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_case_is_what_its_source_says(case):
    further = case.shape.mtp_layers and 0.022  # DeepSeek-V3's 671B leave out the layer for a further token
    assert case.shape.params == pytest.approx(case.parameters, rel=0.01 + further)
    ours, best = case.fastest("published"), case.fastest("searched")
    assert ours.tp * ours.pp * ours.dp * ours.cp == best.tp * best.pp * best.dp * best.cp == case.cluster.n_devices
    assert ours.estimate.fits
    assert best.estimate.fits
    assert best.seconds < ours.seconds
    assert row(case) in PAGE.splitlines()


def test_a_case_is_written_and_planned_by_one_command_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["new", "training", "--example", "mixtral-8x7b"]) == 0
    Path("case.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["plan", "case.yaml", "--out", "plan.json"]) == 0
    said = capsys.readouterr().out
    assert "published         2.92" in said
    assert "searched          2.8" in said
    assert Path("plan.json").is_file()
