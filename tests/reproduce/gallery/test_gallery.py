"""The gallery's page, and what need not be made again for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsers import NEEDS_BROWSER, STICKS_OUT, show, started
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.reproduce import Expectation, Sensitivity, Swing, at_least, batch, within
from meshwright.reproduce.batch import Batch, Failed, following
from meshwright.reproduce.claims import Claim
from meshwright.reproduce.gallery import page
from meshwright.reproduce.gallery.sums import Sum, of_papers
from meshwright.reproduce.made import Made, read
from meshwright.reproduce.report import Session
from meshwright.reproduce.style import canvas

NASTY = '<b onload="x">&'
LEAD = Expectation(f"leads by a lot {NASTY}", "§1", "2×", within(2.0, 0.1, partly=0.3, beyond="above"), "{:.1f}×")
GIVEN = Expectation("as printed", "Table 1", "1", at_least(1.0), kind="given")
SWING = Sensitivity("lead", 2.0, 1.5, "×", (Swing("memory, 15 GiB", "1 GiB", "30 GiB", 1.4, 2.2),), "some 20 GiB")


def made(tmp_path: Path, name: str, *claims: Claim, sensitivity: tuple[Sensitivity, ...] = ()) -> Made:
    """A figure with an empty panel, as read again from what a run writes."""
    session = Session(name, True, tmp_path, 0)
    with canvas() as (figure, _):
        session.figure(figure)
    session.finish(claims, notes=("assumed",), sensitivity=sensitivity)
    found = read(tmp_path, name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def three(tmp_path: Path) -> list[Made]:
    return [
        made(tmp_path, "alpaserve/fig01", LEAD.judge(2.0), GIVEN.judge(1.0)),
        made(tmp_path, "alpaserve/fig02", LEAD.judge(5.0), sensitivity=(SWING,)),
        made(tmp_path, "vllm/fig12", LEAD.judge(1.5, why="a cause"), LEAD.needs_gpu("meshwright run-there")),
    ]


def test_what_a_run_wrote_is_read_again(three: list[Made], tmp_path: Path) -> None:
    assert three[1].claims == (LEAD.judge(5.0),)
    assert three[1].sensitivity == (SWING,)
    assert [path.name for path in three[1].pictures] == ["fig02.png", "fig02_sensitivity.png"]
    assert read(tmp_path, "alpaserve/fig04") is None
    (tmp_path / "alpaserve/fig01.json").write_text("{}")
    with pytest.raises(InputError, match="delete the file"):
        read(tmp_path, "alpaserve/fig01")


def test_findings_are_summed_by_paper(three: list[Made]) -> None:
    sums = of_papers(three)
    assert list(sums) == ["alpaserve", "vllm"]
    assert sums["alpaserve"].counts == {"holds": 1, "beyond": 1}
    assert (sums["alpaserve"].figures, sums["alpaserve"].others) == (2, 1)
    assert sums["vllm"].counts == {"partly": 1, "needs a GPU": 1}
    assert sum(sums.values(), Sum()).findings == 4


def test_the_page_says_it_all(three: list[Made]) -> None:
    text = page(three, [Failed("themis/fig01", "no plan")], out="there")
    assert "3 figures and tables. Of the findings 1 of 3 hold, 1 beyond, 1 partly, 1 needs a GPU, 1 not counted" in (
        text.replace("\u00a0", " ")
    )
    assert "(67% hold or are beyond)" in text
    assert NASTY not in text
    for said in ("a cause", "meshwright run-there", "some 20 GiB", "not made: no plan"):
        assert said in text
    assert "meshwright reproduce vllm/fig12 --fast --seed 0 --out there" in text
    assert text.count("<img") == 4
    assert "http" not in text.replace("http-equiv", "")


@NEEDS_BROWSER
def test_it_filters_and_nothing_sticks_out(three: list[Made], tmp_path: Path, browser: Any) -> None:
    index = tmp_path / "index.html"
    index.write_text(page(three), encoding="utf-8")
    for width in (390, 1280):
        show(browser, index, width)
        assert browser.execute_script(STICKS_OUT) == [0, []]
    assert browser.get_log("browser") == []

    def shown(**picked: str) -> list[str]:
        return browser.execute_script(
            "const t = document.getElementById('filter'), p = arguments[0];"
            "t.querySelector('input').value = p.text || '';"
            "t.querySelector('[name=paper]').value = p.paper || '';"
            "t.querySelector('[name=verdict]').value = p.verdict || '';"
            "t.querySelector('input').dispatchEvent(new Event('input'));"
            "return [...document.querySelectorAll('.figure-card')].filter(e => e.offsetParent).map(e => e.id);",
            picked,
        )

    assert len(shown()) == 3
    assert shown(text="a cause") == ["vllm/fig12"]
    assert shown(paper="alpaserve") == ["alpaserve/fig01", "alpaserve/fig02"]
    assert shown(verdict="beyond") == ["alpaserve/fig02"]
    assert shown(verdict="needs a GPU", paper="vllm") == ["vllm/fig12"]


def test_what_is_there_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["reproduce", "alpaserve/fig01", "--fast", "--out", str(tmp_path)]) == 0
    one = Batch(("alpaserve/fig01", "alpaserve/table1"), True, tmp_path)
    assert list(one.held()) == ["alpaserve/fig01"]
    assert replace(one, seed=1).held() == {}
    assert replace(one, fast=False).held() == {}
    monkeypatch.setattr(batch, "make", lambda *_: pytest.fail("made again"))
    assert run(["reproduce", "alpaserve/fig01", "--fast", "--gallery", str(tmp_path)]) == 0
    assert "alpaserve/4.1" in (tmp_path / "index.html").read_text("utf-8")
    told = json.loads((tmp_path / "alpaserve/fig01.json").read_text("utf-8"))
    told["claims"][0]["rule"] = "another"
    (tmp_path / "alpaserve/fig01.json").write_text(json.dumps(told))
    assert one.held() == {}
    (tmp_path / "alpaserve/fig01.png").unlink()
    assert one.held() == {}


def test_a_process_stays_with_a_paper_until_that_has_no_figure_left() -> None:
    """What figures of a paper share is computed once: it lives in the process that made the first of them."""
    todo = ["alpa/fig07", "alpa/fig09", "vllm/fig02", "themis/fig09"]
    assert following(todo, None, set()) == "alpa/fig07"
    assert following(todo, None, {"alpa"}) == "vllm/fig02"
    assert following(todo, "themis", {"alpa"}) == "themis/fig09"
    assert following(todo, "graphpipe", {"alpa", "vllm"}) == "themis/fig09"
    assert following(todo[:2], "themis", {"alpa"}) == "alpa/fig07"


def test_processes_make_them_and_an_error_is_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "alpaserve").mkdir()
    (tmp_path / "alpaserve/fig01.csv").mkdir()  # cannot be written
    asked = ["reproduce", "alpaserve/fig01", "alpaserve/table1", "--fast", "--gallery", str(tmp_path)]
    assert run(asked) == 1
    said = capsys.readouterr()
    assert "alpaserve/fig01: not made: " in said.err
    assert said.out == f"1 figures and tables; written: {tmp_path}/index.html\n"
    assert read(tmp_path, "alpaserve/table1") is not None
