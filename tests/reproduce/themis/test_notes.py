"""How footnote 3 is measured and judged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from meshwright.reproduce.themis.experiments.points import ITERATION_SPREAD, Point, world_of
from meshwright.reproduce.themis.notes import note3
from meshwright.simulator.sharing import Beliefs


def frame(**values: dict[str, float]) -> pd.DataFrame:
    """Three draws, every metric 1 but for what is said: belief -> metric -> value."""
    ones = dict.fromkeys(note3.METRICS, 1.0)
    return pd.DataFrame([{"seed": s, "belief": b} | ones | values.get(b, {}) for s in range(3) for b in note3.BELIEFS])


def test_claims_can_fail() -> None:
    def verdicts(**values: dict[str, float]) -> list[str]:
        return [claim.verdict for claim in note3.judged(frame(**values))]

    assert verdicts() == ["holds", "holds", "holds", "partly", "partly"]
    assert verdicts(assumed={"max_rho": 1.2, "mean_completion_s": 1.1}) == ["holds"] * 5
    bad = {"max_rho": 1.2, "mean_completion_s": 1.03, "gpu_hours": 1.05}
    assert verdicts(learned=bad) == ["does not hold", "partly", "does not hold", "does not hold", "does not hold"]


def test_points_differ_in_what_agents_know_alone() -> None:
    known, learned = (world_of(Point("themis", seed=3, belief=b)) for b in ("known", "learned"))  # type: ignore[arg-type]
    assert known.apps == learned.apps
    assert learned.beliefs == Beliefs("learned", spread=ITERATION_SPREAD, seed=3)


@pytest.mark.slow
def test_the_figure_is_made(tmp_path: Path) -> None:
    report = note3.run(True, tmp_path, 0)
    assert len(report.claims) == 5
    assert all(path.is_file() for path in report.files)
