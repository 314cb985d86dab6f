"""The report: what is in its files, that it needs nothing from outside, that nothing said in a study breaks it."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from cases_to_report import EVIL, NASTY, SMALL, answer, study_of, told
from meshwright import studies
from meshwright.errors import InputError
from meshwright.studies import report
from meshwright.studies.questions.answer import Effect
from meshwright.studies.report.layout import kind_of, layout
from meshwright.studies.report.results import gather
from meshwright.worlds.serving.panels import panels
from meshwright.worlds.serving.solve import solve


class Page(HTMLParser):
    """Tags, attributes and text of a page, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.values: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            self.values.append((tag, name, value or ""))
            if name == "id":
                self.ids[value or ""] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A small study that is really run, with its question."""
    folder = tmp_path_factory.mktemp("report")
    with studies.Session.open(study_of(folder, SMALL)) as session:
        session.run()
        return folder, report.write(session, folder / "out", {"executor": f"here {EVIL}"})


def test_everything_is_written(written: tuple[Path, list[Path]]) -> None:
    folder, files = written
    out = folder / "out"
    names = {str(p.relative_to(out)) for p in files}
    figures = {
        f"figures/{n}.{kind}" for n in ("probes", "attainment", "latency", "difference") for kind in ("png", "csv")
    }
    assert {"points.csv", "summary.csv", "report.html"} | figures <= names
    assert all(p.stat().st_size for p in files)
    points = pd.read_csv(out / "points.csv")
    assert points["point"].tolist() == list(range(len(points)))
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    for words in ("90 % attainment", "Placement", "Worst burst", "Utilisation", "bert-1.3b-0…3", "find: highest rate"):
        assert words in page.text, words
    assert page.tags["svg"] >= 6
    assert page.ids.most_common(1)[0][1] == 1, "ids are unique"
    if "points.parquet" in names:
        again = pd.read_parquet(out / "points.parquet")
        pd.testing.assert_series_equal(again["attainment"], points["attainment"], check_exact=True)


def test_the_same_results_give_the_same_bytes(written: tuple[Path, list[Path]], tmp_path: Path) -> None:
    _, files = written
    with studies.Session.open(study_of(tmp_path, SMALL)) as session:
        session.run()
        again = report.write(session, tmp_path / "elsewhere", {"executor": f"here {EVIL}"})
    assert [p.name for p in again] == [p.name for p in files]
    for a, b in zip(files, again, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name


def test_the_page_needs_nothing_from_outside(written: tuple[Path, list[Path]]) -> None:
    text = (written[0] / "out" / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//[a-z]|@import|url\((?!#)", text)
    page = Page(text)
    assert not [v for v in page.values if v[1] in ("src", "srcset", "action", "formaction", "background")]
    outside = [v for _, name, v in page.values if name in ("href", "xlink:href") and not v.startswith(("#", "data:,"))]
    assert not outside
    assert str(written[0]) not in text, "no path of this machine"


NASTY_STUDY = f"""
study: 1
name: {NASTY!r}
cluster: {{devices: 4}}
models: {{bert-1.3b: 2}}
workload: {{rate: 8, duration: 20}}
planners:
  - {{name: selective-replication, label: {NASTY!r}}}
  - {{name: round-robin, label: "{"long " * 30}"}}
axes: {{devices: [4, 8]}}
replications: 2
"""


def test_nothing_that_is_said_breaks_the_page(tmp_path: Path) -> None:
    text = NASTY_STUDY.replace(repr(NASTY), '"' + NASTY.replace('"', '\\"') + '"')
    study = study_of(tmp_path, text)

    def measure(p: studies.Point) -> dict[str, object]:
        if p.planner != NASTY:
            return {"status": "failed", "error": f"ValueError: {NASTY}"}
        return {
            "attainment": 0.9 + 0.01 * p.replication,
            "mean_latency": 0.2,
            "notes": f"odd: {NASTY}",
            "decision": NASTY,
        }

    found = answer(NASTY, {2: 0.5, 4: 1.0}, 4, sentence=f"{NASTY} needs 4.", question=f"what {NASTY}")
    report.write(told(study, measure, [found]), tmp_path / "out", {NASTY: NASTY})  # type: ignore[arg-type]
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page = Page(source)
    assert page.tags["script"] == 1, "ours alone"
    assert EVIL not in source
    assert page.text.count(NASTY) >= 8
    assert not [v for v in page.values if v[1].startswith("on")]


def test_models_are_escaped_in_drawings(tmp_path: Path) -> None:
    study = study_of(tmp_path, SMALL)
    case, data = study.case(next(study.points())), study.share()
    ((name, whole),) = data.profiles.items()
    evil = replace(data, profiles={name: replace(whole, models={NASTY: whole["bert-1.3b"]}, aliases={})})
    bodies = "".join(p.body for p in panels(solve(case.model_copy(update={"models": (NASTY,)}), evil)))
    assert EVIL not in bodies
    assert Page(bodies).text.count(NASTY) >= 2


def test_a_study_without_any_result_says_so(tmp_path: Path) -> None:
    study = study_of(tmp_path, SMALL)
    nothing = told(study, lambda p: {"status": "infeasible", "error": "model x needs 20 GiB; give more memory"})
    report.write(nothing, tmp_path / "out")  # type: ignore[arg-type]
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "No point has a result: 16 infeasible. The first says: model x needs 20 GiB; give more memory" in page.text
    assert page.text.count("model x needs 20 GiB") >= 9, "in every row, too"


def test_an_answer_of_none_is_said_and_the_best_point_is_drawn(tmp_path: Path) -> None:
    study = study_of(tmp_path, SMALL)
    none = answer("round-robin", {1: 0.2, 16: 0.8}, None)
    best = told(study, lambda p: {"attainment": 0.5 + p.values[0][1] / 100, "devices": 1.0}, [none])
    report.write(best, tmp_path / "out")  # type: ignore[arg-type]
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "round-robin misses it." in page.text
    assert "selective-replication at devices 8, cv 1" in page.text


def test_ten_thousand_rows_stay_small_and_keep_the_bad_ones(tmp_path: Path) -> None:
    rates = ", ".join(map(str, range(1, 5001)))
    study = study_of(tmp_path, SMALL.replace("{devices: [4, 8], cv: [1, 4]}", f"{{rate: [{rates}]}}"))

    def measure(p: studies.Point) -> dict[str, object]:
        if p.values[0][1] == 4999:
            return {"status": "failed", "error": "the needle"}
        return {"attainment": 1 / p.values[0][1], "mean_latency": float(p.values[0][1])}

    report.write(told(study, measure), tmp_path / "out")  # type: ignore[arg-type]
    source = (tmp_path / "out" / "report.html").read_bytes()
    assert len(source) < 1_000_000
    page = Page(source.decode())
    assert page.text.count("the needle") >= 2
    assert "500 of 10,000 rows are here" in page.text
    assert len(pd.read_csv(tmp_path / "out" / "summary.csv")) == 10_000


def test_a_refused_percentile_says_why_in_its_cell(tmp_path: Path) -> None:
    study = study_of(tmp_path, SMALL)
    note = "p99_latency refused: p99 needs 10000 finished requests, there are 12"

    def measure(p: studies.Point) -> dict[str, object]:
        tail = {"p99_latency": 1.0} if p.planner == "round-robin" else {"notes": note}
        return {"attainment": 0.9, "mean_latency": 0.5, **tail}

    report.write(told(study, measure), tmp_path / "out")  # type: ignore[arg-type]
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert len([v for tag, name, v in page.values if tag == "abbr" and name == "title" and v.startswith(note)]) == 4


def test_what_breaks_first_is_ranked(tmp_path: Path) -> None:
    study = study_of(tmp_path, SMALL)
    parts = [
        answer("round-robin", {1: 0.9, 2: 1}, 2, part=True, change=c, short=f"the {n} (90 %)", quantity=q)
        for n, q, c in (
            ("rate +10 %", "workload.rate", 0.1), ("SLO −40 %", "workload.slo", -0.4), ("CV", "workload.cv", None),
        )
    ]  # fmt: skip
    table = (Effect("rate", 0.1, 13.2, parts[0].probes[0].estimate),)
    whole = answer("round-robin", {}, None, table=table, sentence="round-robin breaks first by the rate.")
    session = told(study, lambda p: {"attainment": 0.9}, [whole, *parts])
    report.write(session, tmp_path / "out")  # type: ignore[arg-type]
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert [v for tag, name, v in page.values if tag == "i" and v.startswith("width")] == [
        "width: 25.0%",
        "width: 100.0%",
    ]
    words = page.text[page.text.index("What breaks first\n") :]
    assert words.index("the rate +10\u00a0%") < words.index("the SLO −40\u00a0%") < words.index("the CV")


def test_a_drawing_that_fails_does_not_cost_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(tmp_path, SMALL)

    def broken(*_: object) -> None:
        raise ValueError("no picture today")

    monkeypatch.setattr(type(study.world), "panels", broken)
    report.write(told(study, lambda p: {"attainment": 0.9}), tmp_path / "out")  # type: ignore[arg-type]
    assert "no picture today" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("here already")
    with pytest.raises(InputError, match="out"):
        report.write(told(study_of(tmp_path, SMALL), lambda p: {}), tmp_path / "out")  # type: ignore[arg-type]


def test_questions_points_do_not_bend_the_curves(tmp_path: Path) -> None:
    """A question that changes another field has points that are not the base case's."""
    study = study_of(tmp_path, SMALL)
    session = told(study, lambda p: {"attainment": 0.9})
    stray = session.rows.iloc[[0, 1]].assign(attainment=0.1, **{"workload.slo_scale": 99.0})
    rows = pd.concat([session.rows.assign(**{"workload.slo_scale": 3.0}), stray], ignore_index=True)
    session.rows = rows
    results = gather(session)  # type: ignore[arg-type]
    assert len(results.summary) == 9
    assert len(results.design) == 8
    assert (results.design["attainment"] == 0.9).all()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 4, 8], "log"), ([1, 10, 100], "log"), ([1, 2, 3, 4], "linear"), ([10, 20, 40, 60, 80], "linear"),
        ([0, 1, 10], "linear"), ([-1, 1, 10], "linear"), ([4, 8], "linear"), (["a", "b"], "category"),
        ([True, False], "category"), ([1.0], "linear"), ([None, "a"], "category"),
    ],
)  # fmt: skip
def test_axes_that_grow_by_factors_are_logarithmic(values: list[object], kind: str) -> None:
    assert kind_of(pd.Series(values)) == kind


def test_panels_of_a_grid_and_of_scattered_points() -> None:
    grid = pd.DataFrame([(x, y, z) for x in (1, 2, 4) for y in ("a", "b") for z in range(5)], columns=["x", "y", "z"])
    plan = layout(grid, ["x", "y", "z"])
    assert [p.path for p in plan.panels] == ["z"] * 6, "the numbers with most values run along x"
    assert (plan.hidden, plan.panels[0].fixed, plan.panels[-1].fixed) == (0, {"x": 1, "y": "a"}, {"x": 4, "y": "b"})
    assert layout(grid, ["x", "y"]).panels[0].path == "x"
    assert layout(grid, ["z"]).panels[0].fixed == {}
    many = pd.DataFrame([(x, y) for x in range(9) for y in range(8)], columns=["x", "y"])
    plan = layout(many, ["x", "y"])
    assert (len(plan.panels), plan.hidden) == (6, 2)
    assert [p.fixed["y"] for p in plan.panels] == [0, 1, 3, 4, 6, 7]
    scattered = pd.DataFrame({"x": [0.1, 0.5, 0.9], "y": [7.0, 3.0, 5.0]})
    plan = layout(scattered, ["x", "y"])
    assert [(p.path, p.joined) for p in plan.panels] == [("x", False), ("y", False)]
    assert layout(grid[:0], ["x"]).panels == ()
