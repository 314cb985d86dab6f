"""docs/sharing.md: its files load, and it names every key that a file may have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from meshwright.simulator.sharing import BASELINES
from meshwright.studies import Study
from meshwright.wording import models_in
from meshwright.worlds.sharing.bids import BidsFile, RowCase, load_bids
from meshwright.worlds.sharing.file import SharingFile, load_world
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
            loaded = load_world(path)
            assert (loaded.world.cluster.n_gpus, len(loaded.world.apps)) == (40, 4)
            kinds.append("world")
    assert kinds == ["world", "bids", "study"]


def _keys(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields)
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            found |= _keys(inner)
    return found


@pytest.mark.parametrize("model", [SharingFile, BidsFile, RowCase])
def test_every_key_is_named(model: type[BaseModel]) -> None:
    keys = _keys(model) - {"planner", "label"}  # of studies
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|```yaml.*?```", TEXT, re.DOTALL))))
    assert keys - named == set()
    assert set(BASELINES) <= set(re.findall(r"`([a-z0-9-]+)`", TEXT))
