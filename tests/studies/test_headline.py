"""A headline compares decisions within the same traffic: the easiest traffic is not a decision of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases_to_report import told
from meshwright import studies
from meshwright.studies.headline import headline
from meshwright.studies.report.headline import headline_sentence
from meshwright.studies.report.results import gather
from meshwright.worlds import WORLDS, world
from meshwright.worlds.fields import is_circumstance, paths

MET = {
    "serving": {
        "seed", "models", "profile", "speed", "workload", "serving.overhead", "warmup", "cluster.price_per_hour",
        "planner.planned_for", "planner.lost_groups", "serving.times", "serving.draws", "serving.spread",
        "serving.admission_quantile", "failures", "loading", "scaling",
    },
    "llm": {"seed", "model", "kernels", "workload", "warmup", "cluster.price_per_hour", "cluster.link",
            "times", "draws", "spread", "failures", "loading", "scaling"},
    "sharing": {"seed", "apps", "workload", "overheads", "failures", "max_time", "cluster.contention", "times", "draws",
                "spread"},
    "inference": {"seed", "model", "workload", "costs"},
    "training": {
        "seed", "model", "shape", "profile", "speed", "kernels", "cluster.price_per_hour", "cluster.link_scale",
        "workload.global_batch", "workload.sequence", "workload.slo", "workload.run_samples", "workload.deadline",
        "workload.slo_scale", *(f"failures.{name}" for name in ("mtbf", "node_mtbf", "weibull", "mttr", "run_time")),
    },
}  # fmt: skip
"""Of each world what is met; all other fields are decided."""


@pytest.mark.parametrize("name", WORLDS)
def test_every_field_is_a_decision_or_a_circumstance(name: str) -> None:
    case = world(name).case
    for path in paths(case):
        expected = any(path == met or path.startswith(f"{met}.") for met in MET[name])
        assert is_circumstance(case, path) == expected, path
    assert is_circumstance(case, "workload.slo_scale" if name in ("training", "inference") else "workload.rate_scale")
    assert not is_circumstance(case, "backends" if name == "inference" else "cluster.devices")


STUDY: dict[str, Any] = {
    "study": 1, "cluster": {"devices": 4}, "models": {"bert-1.3b": 4}, "planners": ["round-robin", "dedicated"],
    "workload": {"rate": 8, "duration": 20, "slo_scale": 5}, "replications": 2,
}  # fmt: skip


def of(study: studies.Study, value: Any) -> tuple[Any, str]:
    results = gather(told(study, lambda p: {"attainment": value(dict(p.values), p.planner)}))  # type: ignore[arg-type]
    assert results.headline is not None
    return results.headline, headline_sentence(results, results.headline)


def test_the_easiest_traffic_does_not_win() -> None:
    """Four devices do best under the light rate, eight under each rate by itself: eight it is, over both rates."""
    study = studies.Study.from_dict(STUDY | {"axes": {"rate": [8, 32], "devices": [4, 8]}})

    def value(values: dict[str, Any], planner: str) -> float:
        light = values["workload.rate"] == 8
        return (0.5 if not light else 0.9) + values["cluster.devices"] / 100 + (0.01 if planner == "dedicated" else 0)

    found, sentence = of(study, value)
    assert dict(found.point.values)["cluster.devices"] == 8
    assert found.point.planner == "dedicated"
    assert (found.low, found.high, found.met, found.rivals, found.wins) == (
        pytest.approx(0.59), pytest.approx(0.99), 2, 4, 2,
    )  # fmt: skip
    assert sentence == (
        "dedicated attains 59 to 99 % with devices 8 over 2 circumstances (rate 8 to 32): on average the best of 4 "
        "decisions under the same ones, and none does better in any."
    )


def test_where_only_traffic_varies_the_range_is_said() -> None:
    study = studies.Study.from_dict(STUDY | {"planners": ["round-robin"], "axes": {"rate": [8, 16, 32], "cv": [1, 4]}})
    found, sentence = of(study, lambda values, _: 1 - values["workload.rate"] / 100)
    assert (found.rivals, found.met) == (1, 6)
    assert sentence == "round-robin attains 68 to 92 % over 6 circumstances (rate 8 to 32; cv 1 to 4)."


def test_where_only_decisions_vary_the_best_is_said() -> None:
    study = studies.Study.from_dict(STUDY | {"axes": {"devices": [4, 8]}})
    found, sentence = of(study, lambda values, _: values["cluster.devices"] / 10)
    assert found.circumstances == ()
    assert sentence == "round-robin attains 80 ± 0 % with devices 8, the best of 4 combinations."


def test_a_sample_in_which_no_two_decisions_meet_compares_none() -> None:
    said = STUDY | {"planners": ["round-robin"], "axes": {"rate": [8, 16, 32], "devices": [4, 8, 12]}, "design": "list"}
    found, sentence = of(studies.Study.from_dict(said), lambda values, _: values["cluster.devices"] / 20)
    assert found.rivals == 1
    assert "best" not in sentence
    assert "20 to 60 %" in sentence


def test_nothing_planned_has_no_headline() -> None:
    study = studies.Study.from_dict(STUDY | {"axes": {"rate": [8, 16]}})
    frame = told(study, lambda p: {"status": "infeasible", "error": "no"}).rows
    assert headline(frame, study) is None


def test_the_example_sweep_says_so_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meshwright.studies import report

    study = studies.Study.from_dict(STUDY | {"axes": {"rate": [4, 8], "devices": [4, 8]}}, tmp_path)
    with studies.Session.open(study) as session:
        session.run()
        report.write(session, tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "over 2 circumstances (rate 4 to 8)" in page
    assert "drawn under the first of them" in page
