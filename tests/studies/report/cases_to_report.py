"""Studies and hand-made results for the tests of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
from meshwright import studies
from meshwright.simulator.metrics import Estimate
from meshwright.studies import Point, Study
from meshwright.studies.questions.answer import Answer, Probe

EVIL = "<script>alert(1)</script>"
NASTY = f"{EVIL} \"quoted\" & 'single' $x^2$ «ünïcode» 模型"

SMALL = """
study: 1
name: small
cluster: {devices: 4}
models: {bert-1.3b: 4}
workload: {rate: 12, cv: 4, duration: 40, slo_scale: 3}
planners: [selective-replication, round-robin]
axes: {devices: [4, 8], cv: [1, 4]}
replications: 2
question: {find: highest rate, target: 90 %, low: 6, high: 12, tolerance: 0.3}
"""


def study_of(folder: Path, text: str) -> Study:
    path = folder / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return studies.load(path)


@dataclass
class Told:
    """What a report asks of a session, with rows that nobody evaluated."""

    study: Study
    rows: pd.DataFrame
    shared: Any
    answers: Sequence[Answer] = ()

    def frame(self) -> pd.DataFrame:
        return self.rows


def told(study: Study, measure: Any, answers: Sequence[Answer] = ()) -> Told:
    """A session whose point `p` came to what `measure(p)` says: metrics, or status, error and notes."""
    plain = {"status": "ok", "notes": "", "decision": "", "error": ""}
    rows = [
        {**dict(p.values), "planner": p.planner, "replication": p.replication, **plain, **measure(p)}
        for p in study.points()
    ]
    return Told(study, pd.DataFrame(rows), SimpleNamespace(data=study.share()), answers)


def answer(planner: str, found: Mapping[float, float], value: float | None, **more: Any) -> Answer:
    """A hand-made answer about the number of devices: value -> mean attainment of the probes."""
    probes = tuple(
        Probe(v, Estimate(mean, 0.02, 3), (Point(0, (("cluster.devices", int(v)),), planner),))
        for v, mean in sorted(found.items())
    )
    at = next((p for p in probes if p.value == value), None)
    said: dict[str, Any] = {
        "question": "fewest devices for 99 % attainment", "planner": planner, "quantity": "cluster.devices",
        "value": value, "low": None if value is None else value - 1, "high": None if value is None else value + 1,
        "target": 0.99, "estimate": None if at is None else at.estimate, "probes": probes, "monotone": True,
        "sentence": f"{planner} needs {value} devices for 99 % attainment." if value else f"{planner} misses it.",
        "point": None if at is None else at.points[0], "short": f"needs {value} devices",
    }  # fmt: skip
    return Answer(**said | more)
