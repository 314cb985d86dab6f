"""docs/accuracy.md is what the command writes: computed lines anew, measured ones by their form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.reproduce.accuracy import Options, make, markdown
from meshwright.reproduce.accuracy.here import MEASURED
from meshwright.reproduce.accuracy.options import WORLDS
from meshwright.reproduce.accuracy.page import row
from meshwright.reproduce.accuracy.published import PUBLISHED, computed, experts, mixtures
from meshwright.reproduce.accuracy.published.fresh import split
from meshwright.reproduce.accuracy.published.later import chosen, reported
from meshwright.reproduce.accuracy.published.llm import printed
from meshwright.reproduce.accuracy.published.megatron import points
from meshwright.reproduce.accuracy.published.parallel import runs
from meshwright.reproduce.accuracy.published.training import (
    EXPERT_SOURCES,
    FRESH_SOURCES,
    LATER_SOURCES,
    MIXTURE_SOURCES,
    PARALLEL_SOURCES,
    SOURCES,
)
from meshwright.reproduce.claims import Expectation, at_least

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"


def rows_of(text: str, heading: str) -> list[list[str]]:
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    [mine] = [block for block in part if block.startswith(heading)]
    lines = [line for line in mine.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize(
    "world", ["serving", "training", *(pytest.param(w, marks=pytest.mark.slow) for w in ("llm", "sharing"))]
)
def test_the_page_states_what_is_computed(world: str) -> None:
    text = PAGE.read_text("utf-8")
    found = computed(world, 0, lambda line: None)
    assert found
    assert [line.what for line in found if row(line) not in text] == []


def test_the_page_has_every_world_measured_here() -> None:
    text = PAGE.read_text("utf-8")
    rows = rows_of(text, "Held against this machine")
    assert {cells[0] for cells in rows} == set(WORLDS)
    for cells in rows:
        assert len(cells) == 11
        assert cells[2] == "this machine"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells[4])
        assert re.fullmatch(r"\d+", cells[6]), f"{cells[0]} was not measured: {cells[7]}"
        assert re.fullmatch(r"\d+\.\d (%|points)", cells[7])
        assert re.fullmatch(r"[+-]\d+\.\d (%|points)", cells[8])
    assert re.search(r"Made on \d{4}-\d\d-\d\d in \d+ s, on \d+ cores? of .*, with meshwright ", text)
    assert re.search(r"others on the machine took \d+\.\d% of the cores", text)


def test_every_world_has_both_kinds() -> None:
    assert set(PUBLISHED) == set(MEASURED) == set(WORLDS)


def test_every_source_of_runs_is_told_of() -> None:
    assert {point.source for point in points()} == set(SOURCES)
    assert {point.source for point in (*chosen(), *reported())} == set(LATER_SOURCES)
    assert {point.source for part in split() for point in part} == set(FRESH_SOURCES)
    assert {point.source for point in runs()} == set(PARALLEL_SOURCES)
    assert {point.source for part in mixtures.split() for point in part} == set(MIXTURE_SOURCES)
    assert {point.source for part in experts.split() for point in part} == set(EXPERT_SOURCES)


def test_what_is_not_run_is_a_line_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = make(Options(here=False, worlds=("serving",)))
    [line] = [line for line in found.lines if line.kind == "here"]
    assert line.errors is None
    assert "--no-here" in line.missing
    assert "Nothing was measured on the machine" in markdown(found)
    assert json.loads(json.dumps(found.to_dict()))["used"] is None


def test_what_breaks_is_a_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from meshwright.errors import RunError
    from meshwright.reproduce.accuracy import gather as module

    def broken(*given: object) -> None:
        raise RunError("worker 1\nwas killed")

    monkeypatch.setattr(module, "measured", broken)
    [line] = module._here("serving", module.machine(), Options(), lambda line: None)
    assert (line.errors, line.missing) == (None, "broke off: worker 1 was killed")


def test_the_command_writes_page_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from meshwright.reproduce.accuracy import gather as module

    monkeypatch.setattr(module, "computed", lambda world, seed, tell: computed("serving", seed, tell)[:1])
    assert run(["reproduce", "accuracy", "--no-here", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "accuracy.md").read_text("utf-8").startswith("# How wrong it is")
    kept = json.loads((tmp_path / "accuracy.json").read_text("utf-8"))
    assert {line["kind"] for line in kept["lines"]} == {"published", "here"}
    assert "AlpaServe" in capsys.readouterr().out
    assert run(["reproduce", "accuracy", "--no-here", "--json", "--out", str(tmp_path / "page.md")]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == kept["machine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accuracy.json", "accuracy.md", "page.md"]


@pytest.mark.parametrize(
    ("paper", "figure"),
    [("1.67×", 1.67), ("32.9 %", 32.9), ("0.70 s", 0.7), ("up to 22×", None), ("1.7× to 2.7×", None)],
)
def test_a_figure_that_a_paper_prints(paper: str, figure: float | None) -> None:
    assert printed(Expectation("faster", "§1", paper, at_least(1)).judge(2.0)) == figure
    assert printed(Expectation("calibrated, not predicted", "§1", paper, at_least(1)).judge(2.0)) is None
