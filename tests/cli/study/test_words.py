"""What `meshwright study` says while it works: spans of time, estimates, what an interrupt left, one line per kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.cli.study.overrides import overridden
from meshwright.cli.study.progress import Shower, span
from meshwright.cli.study.words import interval
from meshwright.errors import InputError
from meshwright.studies import load
from meshwright.studies.progress import Progress

STUDY = """study: 1
name: tiny
cluster: {devices: 2}
models: {bert-1.3b: 2}
workload: {rate: 4, duration: 20}
planners: [{name: alpaserve, options: {beam_size: 2}}, selective-replication]
axes: {devices: [1, 2]}
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    return load(path)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (119, "119 s"), (120, "2 min"), (360, "6 min"), (400, "6.7 min"),
     (5699, "95 min"), (6000, "1.7 h"), (36_000, "10 h"), (86_400, "24 h"), (1e6, "12 days")],
)  # fmt: skip
def test_spans_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert span(seconds) == words


@given(st.floats(0, 1e7))
def test_a_span_is_short_and_never_wrong_by_more_than_a_twentieth(seconds: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
    words = span(seconds).split()
    said = sum(float(n) * units[u] for n, u in zip(words[::2], words[1::2], strict=True))
    assert abs(said - seconds) <= max(0.05 * seconds, 0.06)


def test_the_estimate_leaves_the_first_point_and_what_was_kept_out(study) -> None:
    shower = Shower(study, "processes", 2)
    assert shower.estimate() is None
    shower(Progress(done=800, kept=800, failed=0, total=1024, elapsed_s=1.0))
    shower(Progress(done=801, kept=800, failed=0, total=1024, elapsed_s=30.0))
    assert shower.estimate() is None, "the first waits for workers to start"
    shower(Progress(done=811, kept=800, failed=0, total=1024, elapsed_s=40.0))
    assert shower.left_s() == pytest.approx(213.0)
    assert shower.estimate() == "1,024 points (800 are in the store): about 4.2 min on 2 processes"
    elsewhere = Shower(study, "dask://h:1", None)
    for done in (1, 99):
        elsewhere(Progress(done, 0, 0, 100, float(done)))
    assert elsewhere.estimate() == "100 points: about 100 s on dask://h:1"


def test_an_interrupt_says_what_is_kept_and_what_to_do(study) -> None:
    shower = Shower(study, "processes", 1)
    assert shower.interrupted() == "interrupted; nothing was evaluated; the same command begins again"
    shower(Progress(37, 0, 0, 100, 5.0))
    assert shower.interrupted() == "interrupted; 37 of 100 points kept; the same command goes on from there"
    shower.finished = True
    assert shower.interrupted() == "interrupted; every point is kept; the same command writes the report"


@pytest.mark.parametrize(
    ("mean", "half_width", "words"),
    [(99.2213, 0.4812, "99.22 ± 0.48"), (87.0, 1.63, "87.0 ± 1.6"), (0.161104, 0.00009, "0.1611 ± 0.0001"),
     (1234.5, 56.7, "1234 ± 57"), (100.0, 0.0, "100.00 ± 0.00"), (99.5, float("nan"), "99.5"),
     (float("nan"), 0.0, "-")],
)  # fmt: skip
def test_a_mean_has_the_digits_that_its_interval_allows(mean: float, half_width: float, words: str) -> None:
    assert interval(mean, half_width) == words


def test_other_planners_bring_neither_options_nor_labels_of_the_files_first(study) -> None:
    other = overridden(study, ["selective-replication"], 3)
    assert list(other.planners) == ["selective-replication"]
    assert other.replications == 3
    assert not other.case(next(iter(other.points()))).planner.options
    assert other.digest != study.digest
    assert overridden(study, [], None) is study
    with pytest.raises(InputError, match="each once"):
        overridden(study, ["alpaserve", "alpaserve"], None)
