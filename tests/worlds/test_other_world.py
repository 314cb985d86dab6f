"""The machinery of studies runs on a world that is not serving: the one that the documentation shows."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from meshwright import studies
from meshwright.errors import InputError
from meshwright.seeds import generator
from meshwright.studies import report
from meshwright.studies.summary import best, differences, summarise
from meshwright.worlds import WORLDS

DOC = Path(__file__).parents[2] / "docs" / "studies-worlds.md"


@pytest.fixture
def exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the world as a module on the path, and its study."""
    found = re.findall(r"```(python|yaml)\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    blocks = {kind: text for kind, text in found if "WORLD = " in text or "world: exchange" in text}
    (tmp_path / "exchange.py").write_text(blocks["python"])
    (tmp_path / "study.yaml").write_text(blocks["yaml"])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(WORLDS, "exchange", "exchange")
    yield tmp_path
    sys.modules.pop("exchange", None)


def lost(lines: int, load: float) -> float:
    """Erlang's formula as a sum."""
    terms = [1.0]
    for n in range(1, lines + 1):
        terms.append(terms[-1] * load / n)
    return terms[-1] / sum(terms)


def test_a_study_of_it_is_run_questioned_summarised_and_reported(exchange: Path) -> None:
    study = studies.load(exchange / "study.yaml")
    with studies.Session.open(study, exchange / "store.db") as session:
        session.run()
        frame = session.frame()
        written = report.write(session, exchange / "out")
        answers = {answer.planner: answer for answer in session.answers}
    assert {"report.html", "points.csv", "summary.csv"} <= {path.name for path in written}
    loads = [5 * generator(r, "length of a call").gamma(100.0, 0.01) for r in range(10)]

    table = summarise(frame, study)
    row = table[(table.planner == "full") & (table["workload.rate"] == 5) & (table["cluster.devices"] == 8)]
    assert row["attainment"].item() == pytest.approx(sum(1 - lost(8, load) for load in loads) / 10)
    assert row["replications"].item() == 10
    apart = differences(frame, study)
    assert (apart["difference"].dropna() < 0).all()  # half the lines lose more
    assert apart["differs"].any()

    fewest = next(n for n in range(1, 41) if sum(1 - lost(n, load) for load in loads) / 10 >= 0.95)
    assert answers["full"].value == pytest.approx(fewest, abs=1)  # the interval, not the mean, must clear the target
    assert answers["half"].value in (2 * answers["full"].value, 2 * answers["full"].value + 1)
    point = best(frame[: len(study)], study)
    assert point is not None
    assert (point.planner, dict(point.values)["workload.rate"]) == ("full", 2)


def test_workers_have_it_too_and_the_store_is_the_same(exchange: Path) -> None:
    study = studies.load(exchange / "study.yaml")
    for workers in (1, 2):
        study.run(exchange / f"{workers}.db", workers=workers)
    assert (exchange / "1.db").read_bytes() == (exchange / "2.db").read_bytes()


def test_what_it_finds_wrong_is_said_before_any_work(exchange: Path) -> None:
    study = studies.load(exchange / "study.yaml").but(planners=["full", "both"])
    with pytest.raises(InputError, match="unknown planner 'both'; expected one of full, half"):
        studies.Session.open(study)
