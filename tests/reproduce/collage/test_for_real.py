"""A small campaign that is measured: two backends, a small DCGAN."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.reproduce.collage.campaign import contests, parts
from meshwright.reproduce.collage.campaign.parts import Part
from meshwright.reproduce.collage.campaign.timing import Watch

pytest.importorskip("torch")

MODEL = "dcgan-filters4"
TWO = ("torch-onednn", "torch-jit")


@pytest.mark.slow
def test_a_campaign_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator stands in one group of the op level, the search begins there, kept costs make planning quick."""
    for name in ("BACKENDS", "STEPS", "PLANNED"):
        monkeypatch.setattr(parts, name, TWO)
    monkeypatch.setattr(parts, "NETWORKS", (MODEL,))
    monkeypatch.setattr(contests, "FRAMEWORKS", dict.fromkeys(TWO, ""))
    path, wanted = tmp_path / "campaign.json", [Part("contest", MODEL), Part("steps", MODEL), Part("planning", MODEL)]
    found = parts.measured(path, wanted, watch=Watch(5, 1.0))
    one = found.contest(MODEL)
    assert one is not None
    assert one.search is not None
    names = ["torch-onednn", "torch-jit", "control", "Collage, op level", "Collage, graph level", "Collage"]
    assert [way.name for way in one.ways] == names
    assert all(len(way.ms) >= 5 for way in one.ways)
    assert one.operators == sum(len(unit.ops) for unit in one.op_level)
    assert one.search.ratio[0] == 1.0
    assert len(one.search.ratio) >= 2
    assert [way.name for way in found.steps[0].ways] == list(TWO)
    planned = found.plannings[0]
    assert planned.units > 0
    assert planned.again_profile_s < planned.profile_s
    monkeypatch.setattr(parts, "_with", None)  # nothing is measured again
    assert parts.measured(path, wanted, watch=Watch(5, 1.0)).contests == found.contests
