"""The report in a real browser: nothing is fetched, nothing fails, nothing sticks out, the table sorts and filters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import NEEDS_BROWSER, STICKS_OUT, show, started
from cases_to_report import NASTY, SMALL, answer, study_of, told
from meshwright import studies
from meshwright.studies import Point, report

pytestmark = NEEDS_BROWSER
LOOKS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]

LARGE = f"""
study: 1
name: {"A long name " * 12}
cluster: {{devices: 64}}
models: {{bert-1.3b: 40, bert-2.6b: 30, moe-1.3b: 30}}
workload: {{rate: 160, cv: 4, duration: 20, slo_scale: 3}}
planners:
  - round-robin
  - {{name: selective-replication, label: {"a-label-without-any-blank-" * 6}}}
  - {{name: selective-replication, label: two}}
  - {{name: selective-replication, label: three}}
  - {{name: selective-replication, label: four}}
  - {{name: selective-replication, label: five}}
axes: {{rate_scale: [1, 2, 4], cv: [1, 2, 4, 8], slo_scale: [1, 2, 3]}}
replications: 3
"""

SMALLEST_LETTERS = """
let least = 99;
for (const text of document.querySelectorAll(".cards svg text")) {
  const box = text.ownerSVGElement.getBoundingClientRect(), view = text.ownerSVGElement.viewBox.baseVal;
  least = Math.min(least, parseFloat(getComputedStyle(text).fontSize) * box.width / view.width);
}
return least;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with started(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def measure(p: Point) -> dict[str, object]:
    """Figures of any size for a point."""
    values = dict(p.values)
    load = values["workload.rate_scale"] * values["workload.cv"] / values["workload.slo_scale"]
    if load > 10:
        return {"status": "infeasible", "error": f"nothing fits at {load:g}; {NASTY}"}
    notes = "p99_latency refused: p99 needs 10000 finished requests, there are 12; unstable: utilisation 1.1"
    return {
        "attainment": 1 / (1 + load / 9) - p.replication / 50,
        "mean_latency": load**2,
        "devices": 64.0,
        "notes": notes,
    }


@pytest.fixture(scope="module", params=["small", "large"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study that is really run with its question, and a large one with long names and a cluster of 64."""
    folder = tmp_path_factory.mktemp("page")
    if request.param == "small":
        with studies.Session.open(study_of(folder, SMALL)) as session:
            session.run()
            report.write(session, folder / "out", {"date": "today"})
    else:
        study = study_of(folder, LARGE)
        found = [answer(p, {8: 0.5, 16: 0.9, 24: 1.0, 64: 1.0}, 24) for p in study.planners]
        report.write(told(study, measure, found[:5]), folder / "out", {"date": "today"})  # type: ignore[arg-type]
    return folder / "out" / "report.html"


def test_nothing_fails_and_nothing_is_fetched(browser: Any, page: Path) -> None:
    import json

    browser.get_log("browser")
    browser.get_log("performance")
    show(browser, page)
    assert browser.get_log("browser") == []
    said = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in said if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []


def test_figures_are_there(browser: Any, page: Path) -> None:
    show(browser, page, 390)
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.cards svg')].map(e => [e.clientWidth, e.clientHeight])"
    )
    assert len(sizes) >= 6
    assert all(w > 200 and h > 120 for w, h in sizes)
    assert browser.execute_script(SMALLEST_LETTERS) >= 9
    cells = browser.execute_script("return [...document.querySelectorAll('.dev')].map(e => e.clientWidth)")
    assert cells
    assert min(cells) > 20
    drawn = browser.execute_script("return document.querySelectorAll('.row.lane rect').length")
    assert drawn > 20


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nothing_sticks_out(browser: Any, page: Path, width: int, scheme: str) -> None:
    show(browser, page, width, scheme)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true;")
    over, found = browser.execute_script(STICKS_OUT)
    assert over <= 0
    assert found == []


def brightness(colour: str) -> int:
    """Of ``rgb(1, 2, 3)``: 6."""
    return sum(int(x) for x in colour[4:-1].split(","))


def test_dark_is_dark_and_lines_follow(browser: Any, page: Path) -> None:
    script = """const seen = (e, what) => getComputedStyle(e)[what];
    return [seen(document.body, "backgroundColor"), seen(document.querySelector(".cards svg text"), "fill"),
            seen(document.querySelector(".key"), "fill")];"""
    show(browser, page, scheme="light")
    light = browser.execute_script(script)
    show(browser, page, scheme="dark")
    dark = browser.execute_script(script)
    assert brightness(light[0]) > 600 > 200 > brightness(dark[0])
    assert brightness(light[1]) < 200 < 600 < brightness(dark[1])
    assert light[2] != dark[2]


def column(browser: Any, name: str) -> tuple[Any, list[str]]:
    """The button of a column and its cells, in the table's order."""
    script = """const table = document.querySelector("table"), heads = [...table.tHead.rows[0].cells];
    const i = heads.findIndex(h => h.textContent.trim() === arguments[0]);
    return [heads[i].querySelector("button"), [...table.tBodies[0].rows].map(r => r.cells[i].textContent)];"""
    return tuple(browser.execute_script(script, name))


def numbers(cells: list[str]) -> list[float]:
    return [float(text.split(" ")[0].replace(",", "")) for text in cells if text not in ("–", "refused")]


def test_the_table_sorts_numbers_both_ways_by_click_and_by_keyboard(browser: Any, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, page)
    button, before = column(browser, "attainment (%)")
    assert numbers(before) != sorted(numbers(before))

    def state() -> str:
        return browser.execute_script("return arguments[0].parentElement.getAttribute('aria-sort')", button)

    browser.execute_script("arguments[0].scrollIntoView()", button)
    button.click()
    assert state() == "ascending"
    _, up = column(browser, "attainment (%)")
    assert numbers(up) == sorted(numbers(before))
    button.send_keys(Keys.ENTER)
    assert state() == "descending"
    _, down = column(browser, "attainment (%)")
    assert numbers(down) == sorted(numbers(before), reverse=True)
    unknown = sum(text in ("–", "refused") for text in before)
    assert all(text in ("–", "refused") for text in [*up[len(up) - unknown :], *down[len(down) - unknown :]])
    other, names = column(browser, "planner")
    other.send_keys(Keys.SPACE)
    assert state() == "none"
    assert column(browser, "planner")[1] == sorted(names, key=str.lower)


def shown(browser: Any, status: str = "") -> int:
    """Rows of the table that are seen; with a status, those that have it, seen or not."""
    script = """return [...document.querySelectorAll("tbody tr")]
        .filter(r => arguments[0] ? r.dataset.status === arguments[0] : !r.hidden).length"""
    return browser.execute_script(script, status)


def said(browser: Any) -> str:
    return browser.execute_script("return document.querySelector('output').value")


def test_the_table_filters_by_words_and_status(browser: Any, page: Path) -> None:
    show(browser, page)
    box = browser.find_element("css selector", "input[type=search]")
    every = shown(browser)
    assert said(browser) == f"{every} of {every} rows"
    box.send_keys("ROUND-robin")
    some = shown(browser)
    assert 0 < some < every
    assert said(browser) == f"{some} of {every} rows"
    box.send_keys(" no such row")
    assert shown(browser) == 0
    box.clear()
    box.send_keys("x")
    box.send_keys("\ue003")
    assert shown(browser) == every
    states = browser.execute_script("return [...document.querySelectorAll('select option')].map(o => o.value)")
    assert states[0] == ""
    choose = "const s = document.querySelector('select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    browser.execute_script(choose, states[-1])
    assert shown(browser) == shown(browser, states[-1]) > 0


def test_it_prints_all_of_it(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = browser.execute_script("return getComputedStyle(document.querySelector('.tools')).display")
    height = browser.execute_script("return getComputedStyle(document.querySelector('.scroll')).maxHeight")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert (hidden, height) == ("none", "none")
