"""Pools of several device types in a case: planned, written, simulated again, shown on a page, and every bad input."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from kernel_tables import write_system
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.vllm.mixes import MixPlanning
from meshwright.profiles.llm import Iteration, KernelTables
from meshwright.simulator.llm import LLMPlan
from meshwright.simulator.llm.plan.costs import deployment_cost
from meshwright.worlds.faces import case, load, plan

STEP = Iteration((), decodes=8, context=8 * 300, outputs=8)
OPTIONS = {"tp": [1], "pp": 1, "batched_tokens": [512], "seeds": 2, "share_steps": 4}
MIXED: dict[str, Any] = {
    "model": "llama-3.1-8b", "devices": 1, "device": "h100-80gb", "pools": {"l40s-48gb": 2}, "lengths": "alpaca",
    "rate": 40.0, "duration": 5.0, "slo_ttft": 0.5, "slo_tpot": 0.03,
    "planner": {"name": "vllm", "objective": "cost", "options": OPTIONS},
}  # fmt: skip
LINE = [
    "plan", "llm", "--model", "llama-3.1-8b", "--devices", "1", "--pools", "l40s-48gb=2", "--lengths", "alpaca",
    "--rate", "40", "--duration", "5", "--slo-ttft", "0.5", "--slo-tpot", "0.03", "-o", "tp=1", "-o", "pp=1", "-o",
    "batched_tokens=[512]", "-o", "seeds=2", "-o", "share_steps=4",
]  # fmt: skip


def test_planned_saved_simulated(tmp_path: Path) -> None:
    made = plan(case("llm", **MIXED))
    assert isinstance(made.file, LLMPlan)
    assert [pool.spec.name for pool in made.file.mixed.pools] == ["h100-80gb", "l40s-48gb"]
    found = load(made.save(tmp_path / "plan.json"))
    result = found.simulate()
    assert result.attainment == made.file.predicted["attainment"]
    assert result.goodput == made.file.predicted["goodput"]
    assert made.file.predicted["price_per_hour"] == made.file.price_per_hour > 0


def test_a_price_that_is_said_decides() -> None:
    """At its own price the H100 is dearer than two L40Ss; for nothing much it is the answer."""
    dear, cheap = (
        plan(case("llm", **{**MIXED, "rate": 10.0, "price_per_hour": price})).file.used_by_type for price in (None, 0.1)
    )
    assert {spec.name for spec in dear} == {"l40s-48gb"}
    assert {spec.name for spec in cheap} == {"h100-80gb"}


def test_a_device_of_a_file_in_a_pool(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("like: l40s-48gb\nname: my-gpu\nprice_per_hour: 0.5\n")
    made = plan(case("llm", **{**MIXED, "pools": {"mine.yaml": 2}}), folder=tmp_path)
    assert "my-gpu" in {spec.name for spec in made.file.used_by_type}
    again = LLMPlan.load(made.save(tmp_path / "plan.json"))
    assert again.price_per_hour == made.file.price_per_hour


def test_each_type_has_its_own_kernel_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose device has tables is priced by them, the others by their rooflines; a plan that is read says so again."""
    write_system(tmp_path)
    fleet = {**MIXED, "rate": 80.0, "device": "l40s-48gb", "devices": 2, "pools": {"h100-80gb": 1}}
    both, one, none = (
        plan(case("llm", **fleet, kernels=kernels), folder=tmp_path)
        for kernels in ({"l40s-48gb": "toy", "h100-80gb": "toy"}, {"h100-80gb": "toy"}, None)
    )
    assert both.file.cost_source.count("nothing measured") == 0
    assert one.file.cost_source.startswith("roofline of l40s-48gb, nothing measured")
    assert one.file.cost_source.count("nothing measured") == 1
    assert none.file.cost_source.count("nothing measured") == 2
    for each in both.file.deployments:
        tables = {both.file.device_of(each).name: KernelTables.load(tmp_path / "toy")}
        by_table, by_roofline = (deployment_cost(both.file, each, found).seconds(STEP) for found in (tables, None))
        assert by_table != by_roofline
    monkeypatch.chdir(tmp_path)  # files that a plan's case names are looked for in the current folder
    again = load(both.file.save("plan.json")).simulate()
    assert (again.attainment, again.goodput) == (both.file.predicted["attainment"], both.file.predicted["goodput"])


def test_tables_that_are_not_there_are_said(tmp_path: Path) -> None:
    write_system(tmp_path)
    for kernels, says in (
        ({"h100-80gb": "nowhere"}, "kernels: "),
        ({"h100-80g": "toy"}, "kernels: unknown device 'h100-80g'"),
    ):
        with pytest.raises(InputError) as told:
            plan(case("llm", **MIXED, kernels=kernels), folder=tmp_path)
        assert str(told.value).startswith(says)
        assert "\n" not in str(told.value)


class Page(HTMLParser):
    """What a page would load from elsewhere, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.headings: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.outside += [
            f"{tag} {v}" for k, v in attrs if k in ("src", "href") and v and not v.startswith(("data:", "#"))
        ]

    def handle_data(self, data: str) -> None:
        if self._in in ("h1", "h2") and data.strip():
            self.headings.append(data.strip())


def test_the_page_needs_nothing_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, html = tmp_path / "plan.json", tmp_path / "plan.html"
    assert run([*LINE, "--objective", "cost", "--out", str(out), "--html", str(html)]) == 0
    capsys.readouterr()
    text = html.read_text("utf-8")
    page = Page(text)
    assert page.outside == []
    assert "@import" not in text
    assert not re.search(r"url\((?!#|\"?data:)", text)
    assert page.headings[0] == "Llama-3.1-8B on 1 node(s) x 1 h100-80gb + 1 node(s) x 2 l40s-48gb"
    assert page.headings[1:5] == [
        "What this rests on", "What is reached for what", "Everything that was tried to the end", "The plan",
    ]  # fmt: skip
    assert "Why the others lost" in page.headings
    made = LLMPlan.load(out)
    assert f"{made.predicted['attainment']:.2%}" in text
    assert "a guess; hosts and cooling are not counted" in text
    assert text.count("(the answer)") == 1
    assert text.count('<tr data-status="') >= 2


@pytest.mark.parametrize("objective", ["goodput", "devices"])
def test_plans_on_one_type_have_a_page_too(objective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [word for word in LINE if word not in ("--pools", "l40s-48gb=2")]
    assert run([*line, "--objective", objective, "--html", str(tmp_path / "plan.html")]) == 0
    assert f"written: {tmp_path / 'plan.html'}" in capsys.readouterr().out
    text = (tmp_path / "plan.html").read_text("utf-8")
    assert Page(text).outside == []
    assert text.count("(the answer)") == 1


def test_json_has_the_front_with_paired_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LINE, "--objective", "energy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    front = found["front"]["Llama-3.1-8B"]
    chosen = [p for p in front if p["attained_gap"] == {"mean": 0.0, "half_width": 0.0}]
    assert chosen
    assert all(p["mean_power_w"] <= p["board_power_w"] for p in front)
    assert set(found["one_type"]["Llama-3.1-8B"]) == {"h100-80gb", "l40s-48gb"}
    assert found["plan"]["pools"][0]["device"]["name"] == "l40s-48gb"


def test_no_plan_is_exit_code_three_with_the_smallest_change(capsys: pytest.CaptureFixture[str]) -> None:
    line = [*LINE, "--objective", "cost"]
    line[line.index("40")] = "900"
    assert run(line) == 3
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("planning: ")]
    assert len(said) == 1
    assert "is not reached on 1 node(s) x 1 h100-80gb + 1 node(s) x 2 l40s-48gb" in said[0]
    assert re.search(r"smallest change: \d+ more \S+ \(\d+\)", said[0])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pools": {"l40": 2}}, r"cluster.pools: .*unknown device 'l40'; did you mean 'l40s-48gb'\?; a file .* works"),
        ({"device": "h101"}, "cluster.device: .*a file that describes one works, too"),
        ({"pools": {"h100-80gb": 2}}, "cluster.pools: h100-80gb is the type of cluster.device already"),
        ({"pools": {"nowhere.yaml": 2}}, "cluster.pools: .*nowhere.yaml"),
        ({"pools": {"rtx-4090-24gb": 2}}, "cost needs price_per_hour of rtx-4090-24gb, which is not known"),
        ({"pools": {"l40s-48gb": 0}}, r"cluster.pools.l40s-48gb: should be greater than 0"),
        ({"planner": {"name": "fixed"}}, "planner fixed puts its engine on one device type"),
        (
            {"planner": {"objective": "rate"}, "model": ["llama-3.2-1b", "qwen2.5-1.5b"]},
            "rate is looked for of one model",
        ),
        ({"planner": {"options": {"share": True}}}, "models that share devices are planned on one type"),
    ],
)
def test_bad_input_is_said_in_a_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        plan(case("llm", **{**MIXED, **changes}))
    assert len(str(caught.value).splitlines()) == 1


def test_a_page_is_of_one_planner_that_searches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [word for word in LINE if word not in ("--pools", "l40s-48gb=2")][:-10]
    assert run([*line, "--planner", "fixed", "--html", str(tmp_path / "x.html")]) == 2
    assert "html: planner fixed tries nothing" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_python_gets_the_answer_itself() -> None:
    from meshwright.worlds.door import Asked
    from meshwright.worlds.llm.doors.plan import decided
    from meshwright.worlds.llm.options import PlanOptions

    found = decided(Asked((case("llm", **MIXED),), options=PlanOptions())).value
    assert isinstance(found, MixPlanning)
    assert found.chosen["Llama-3.1-8B"].value == pytest.approx(found.plan.price_per_hour)
