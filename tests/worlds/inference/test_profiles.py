"""The shipped profiles of a placement: what the page says of them, served."""

from __future__ import annotations

from pathlib import Path

import meshwright
from meshwright.profiles import load

FILE = Path(__file__).parents[3] / "examples" / "dcgan-profiles.json"


def attained(name: str, rate: float) -> float:
    case = meshwright.case(
        "serving", models={name: 1}, profile=str(FILE), devices=1, device="cpu-core", rate=rate, duration=60, slo=0.05
    )
    return case.plan().simulate().attainment


def test_a_placement_serves_more_than_each_backend_alone() -> None:
    names = list(load(FILE).models)
    assert names[0] == "dcgan"
    assert len(names) == 4
    served = {name: attained(name, 90.0) for name in names}
    assert served["dcgan"] > 0.99
    assert max(value for name, value in served.items() if name != "dcgan") < served["dcgan"] - 0.02
