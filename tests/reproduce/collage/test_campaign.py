"""Campaigns as files, part by part; figures drawn from one that was made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from campaigns import MADE, campaign, contest
from meshwright.errors import InputError, LimitError
from meshwright.reproduce import FIGURES, reproduce
from meshwright.reproduce.collage import shown
from meshwright.reproduce.collage.campaign import parts, store
from meshwright.reproduce.collage.campaign.parts import Part, every_part
from meshwright.reproduce.collage.campaign.records import Campaign

NAMES = [name for name in FIGURES if name.startswith("collage/")]


def test_a_campaign_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = campaign()
    path = store.save(whole, tmp_path / "c.json")
    assert store.load(path).made == MADE
    assert store.load(path).contests[0].ways[0].ms == pytest.approx(whole.contests[0].ways[0].ms, rel=1e-4)
    assert store.load(path).steps == whole.steps
    assert store.load(path).plannings == whole.plannings


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "expected a campaign"),
        ({"version": 2}, "expected a campaign"),
        ({"made": {}}, "made: 'cpu' is missing"),
        ({"contests": [{"model": 3}]}, r"contests\[0\]: 'batch' is missing"),
    ],
)
def test_a_damaged_campaign_is_one_line(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = store.save(campaign(), tmp_path / "c.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=said) as error:
        store.load(path)
    assert len(str(error.value).splitlines()) == 1


def test_parts_cover_what_the_figures_need() -> None:
    """The thesis' five with their steps and planning times, other batches, and our three networks."""
    every = every_part()
    assert len(every) == 5 * 2 + 5 + 4 + 3
    assert every[0] == Part("contest", "dcgan")
    assert all(
        part.within(campaign()) for part in every if part.model not in ("resnet-18", "resnet-50", "mobilenet-v2")
    )


def test_what_is_there_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill the same call goes on with the part that was under way."""
    asked: list[str] = []

    def measure(have: Campaign, part: Part, *rest: object) -> Campaign:
        asked.append(str(part))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return replace(have, contests=(*have.contests, contest(part.model, part.batch)))

    monkeypatch.setattr(parts, "_here", lambda watch: MADE)
    monkeypatch.setattr(parts, "_with", measure)
    wanted, path = [Part("contest", name) for name in ("dcgan", "bert-base")], tmp_path / "c.json"
    with pytest.raises(KeyboardInterrupt):
        parts.measured(path, wanted)
    assert [one.model for one in parts.measured(path, wanted).contests] == ["dcgan", "bert-base"]
    assert asked == ["contest of dcgan", "contest of bert-base", "contest of bert-base"]
    monkeypatch.setattr(parts, "_here", lambda watch: replace(MADE, cpu="another"))
    with pytest.raises(InputError, match="begun with other processor: a processor, here another"):
        parts.measured(path, wanted)


def test_a_part_that_cannot_be_measured_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told at the end, and tried again by the next call."""

    def measure(have: Campaign, part: Part, *rest: object) -> Campaign:
        if part.model == "dcgan":
            raise LimitError("no placement within 120 s")
        return replace(have, contests=(*have.contests, contest(part.model, part.batch)))

    monkeypatch.setattr(parts, "_here", lambda watch: MADE)
    monkeypatch.setattr(parts, "_with", measure)
    path = tmp_path / "c.json"
    with pytest.raises(LimitError, match="contest of dcgan: no placement"):
        parts.measured(path, [Part("contest", name) for name in ("dcgan", "bert-base")])
    assert [one.model for one in store.load(path).contests] == ["bert-base"]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn_from_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every claim that the module states is judged, and the machine stands in the notes."""
    monkeypatch.setattr(shown, "load", campaign)
    report = reproduce(name, fast=True, out=tmp_path)
    assert {claim.text for claim in report.claims} == {
        one.text for one in import_module(FIGURES[name].module).EXPECTED.values()
    }
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "not on this machine" in report.notes[0]


def test_a_campaign_that_lacks_a_part_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "load", lambda: replace(campaign(), steps=()))
    with pytest.raises(InputError, match=r"lacks steps of bert-base .*campaign --out"):
        reproduce("collage/fig11", fast=True, out=tmp_path)
