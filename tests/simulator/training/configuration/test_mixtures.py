"""Published runs with experts: the page says the errors that `reproduce.accuracy.published.mixtures` computes."""

from __future__ import annotations

from pathlib import Path

import meshwright
from meshwright.reproduce.accuracy.published.mixtures import runs, split

PAGE = (Path(meshwright.__file__).parent / "docs" / "training-estimate.md").read_text("utf-8")


def test_the_page_says_what_is_computed():
    lines = PAGE.splitlines()
    for part, points in zip(("chosen by", "reported"), split(), strict=True):
        for point in points:
            error, _ = point.errors()
            assert error is not None
            said = f"{100 * error:+.1f} %".replace("-", "−")
            assert f"| {part} | {point.source} | {point.name} | {said} |" in lines


def test_each_run_is_in_one_part():
    chosen, reported = ({(p.source, p.name) for p in part} for part in split())
    assert not chosen & reported
    assert len(chosen) + len(reported) == len(list(runs())) == 9
