"""docs/sharing.md: its files load, and it names every key that a file may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from meshwright.simulator.sharing import BASELINES
from meshwright.studies import Study
from meshwright.wording import models_in
from meshwright.worlds.cases import CaseFile, called, read_case
from meshwright.worlds.sharing.bids import BidsFile, RowCase, load_bids
from meshwright.worlds.sharing.build import apps_of, cluster_of
from meshwright.worlds.sharing.case import SharingCase
from pydantic import BaseModel

TEXT = (Path(__file__).resolve().parents[3] / "docs/sharing.md").read_text(encoding="utf-8")


def test_files_of_the_page_load(tmp_path: Path) -> None:
    kinds = []
    for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL):
        path = tmp_path / "block.yaml"
        path.write_text(block, encoding="utf-8")
        if "study: 1" in block:
            assert len(Study.from_text(block, "block.yaml")) == 3 * 3 * 3 * 3
            kinds.append("study")
        elif "bids:" in block:
            assert len(load_bids(path).bids) == 2
            kinds.append("bids")
        else:
            case = read_case(path)
            assert isinstance(case, SharingCase)
            assert (cluster_of(case.cluster).n_gpus, len(apps_of(case, tmp_path))) == (40, 4)
            assert [called(planner) for planner in CaseFile(path).planners] == ["themis", "by lot", "fifo"]
            kinds.append("case")
    assert kinds == ["case", "bids", "study"]


def _keys(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields)
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            found |= _keys(inner)
    return found


@pytest.mark.parametrize("model", [SharingCase, BidsFile, RowCase])
def test_every_key_is_named(model: type[BaseModel]) -> None:
    keys = _keys(model) | ({"planners"} if model is SharingCase else set())
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|```yaml.*?```", TEXT, re.DOTALL))))
    assert keys - named == set()
    assert set(BASELINES) <= set(re.findall(r"`([a-z0-9-]+)`", TEXT))
