"""What the gate writes: plans' differences in words, JUnit XML, Markdown, GitHub's commands; whatever names hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.gate import (
    CaseReport,
    Finding,
    Report,
    Suite,
    github_annotations,
    junit,
    load_suite,
    markdown,
    text,
)
from meshwright.worlds.serving.guard import Decision, describe


def plan(*groups: tuple[str, str]) -> Decision:
    """``("op1pp2", "a b")`` -> a group of two devices with the models a and b; devices handed out in order."""
    made, free = [], 0
    for config, models in groups:
        op, pp = map(int, config.removeprefix("op").split("pp"))
        made.append({"config": config, "devices": list(range(free, free + op * pp)), "models": models.split()})
        free += op * pp
    return Decision.model_validate({"windows": [{"groups": made}]})


def windows(*parts: tuple[float, Decision]) -> Decision:
    made = [{"start": start, "groups": part.windows[0].model_dump()["groups"]} for start, part in parts]
    return Decision.model_validate({"windows": made, "schedule": True})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (plan(("op1pp1", "a")), plan(("op1pp1", "a")), ""),
        (
            plan(("op1pp4", "a b")),
            plan(("op1pp2", "a"), ("op1pp2", "b")),
            "a group of op1pp4 was split into 2 groups of op1pp2",
        ),
        (
            plan(("op1pp1", "a"), ("op1pp1", "b"), ("op1pp2", "c")),
            plan(("op2pp1", "a b"), ("op1pp2", "c")),
            "2 groups of op1pp1 were merged into a group of op2pp1",
        ),
        (
            plan(("op1pp4", "a"), ("op1pp2", "b")),
            plan(("op2pp2", "a"), ("op1pp2", "b")),
            "a group of op1pp4 was reconfigured to a group of op2pp2",
        ),
        (
            plan(("op1pp2", "a"), ("op1pp1", "b")),
            plan(("op1pp2", "a b")),
            "a group of op1pp1 was given up; 2 devices used instead of 3",
        ),
        (
            plan(("op1pp1", "a b"), ("op1pp1", "a")),
            plan(("op1pp1", "b"), ("op1pp1", "a c")),
            "fewer replicas: a (2 → 1); more replicas: c (0 → 1)",
        ),
        (
            plan(("op1pp1", "a b"), ("op1pp1", "c")),
            plan(("op1pp1", "a"), ("op1pp1", "c")),
            "without any replica now: b; 2 replicas in all instead of 3",
        ),
        (
            plan(("op1pp1", "a b"), ("op1pp1", "c d")),
            plan(("op1pp1", "a c"), ("op1pp1", "b d")),
            "replicas moved between groups: a group of op1pp1 gives b and takes c, "
            "a group of op1pp1 gives c and takes b",
        ),
        (
            plan(("op1pp1", "a"), ("op1pp1", "b")),
            plan(("op1pp1", "b"), ("op1pp1", "a")),
            "the same groups in another order or on other devices",
        ),
        (
            plan(("op1pp1", "m-2 m-10 m-1")),
            plan(("op1pp1", "x")),
            "without any replica now: m-1, m-2, m-10; more replicas: x (0 → 1); 1 replica in all instead of 3",
        ),
        (
            windows((0.0, plan(("op1pp1", "a"))), (60.0, plan(("op1pp1", "b")))),
            windows((0.0, plan(("op1pp1", "a"))), (60.0, plan(("op1pp1", "c")))),
            "1 of 2 windows differ; the first of them (from 60 s): without any replica now: b; "
            "more replicas: c (0 → 1)",
        ),
        (
            windows((0.0, plan(("op1pp1", "a")))),
            windows((0.0, plan(("op1pp1", "a"))), (9.0, plan(("op1pp1", "a")))),
            "the schedule has 2 windows instead of 1, or other starts",
        ),
    ],
)
def test_the_difference_of_two_plans_in_words(old: Decision, new: Decision, words: str) -> None:
    assert describe(old, new) == words


names = st.text(st.sampled_from("ab"), min_size=1, max_size=2)
groups = st.lists(
    st.tuples(st.sampled_from(["op1pp1", "op1pp2", "op2pp1", "op2pp2"]), st.sets(names).map(" ".join)), min_size=1
)


@given(groups, groups)
def test_two_plans_are_the_same_exactly_where_nothing_is_said(
    a: list[tuple[str, str]], b: list[tuple[str, str]]
) -> None:
    one, two = plan(*a), plan(*b)
    assert (describe(one, two) == "") == (one == two)
    assert "\n" not in describe(one, two)


def report(*cases: CaseReport, where: str = "") -> Report:
    return Report(Suite("s", (), Path(), where, {"a": 3}), cases, ())


def failing(case: str, said: str, kind: str = "worse") -> CaseReport:
    return CaseReport(case, "p", findings=(Finding(kind, said),))  # type: ignore[arg-type]


NASTY = "100 % <b>&\"' ]]> | `x` *y* \x00\x08\x1b[31m\ud800\ufffe ::set-output name=x::y\r\n::error::\n\u2028é✓"


def test_junit_counts_and_holds_anything() -> None:
    same = CaseReport("fine", "p", same=True)
    found = report(failing("a", NASTY), failing("b", "crashed", "error"), same, replace(same, notes=("a note",)))
    root = ET.fromstring(junit(found).encode())
    assert root.tag == "testsuites"
    (suite,) = root
    for element in (root, suite):
        assert [element.get(n) for n in ("tests", "failures", "errors")] == ["4", "1", "1"]
    assert [[child.tag for child in entry] for entry in suite] == [["failure"], ["error"], [], ["system-out"]]
    assert all(entry.tag == "testcase" and entry.get("classname") == "s.p" for entry in suite)
    assert suite[0][0].get("type") == "worse"
    assert "<b>&\"' ]]>" in (suite[0][0].text or "")


@given(st.text())
def test_junit_is_xml_whatever_is_said(said: str) -> None:
    assert len(ET.fromstring(junit(report(failing(said, said))).encode("utf-8"))[0]) == 1


@given(st.text())
def test_annotations_are_one_line_each_and_give_no_other_command(said: str) -> None:
    (line,) = github_annotations(report(failing(said, said)))
    assert "\n" not in line
    assert "\r" not in line
    about, _, _ = line.removeprefix("::error ").partition("::")
    assert about.startswith("title=s%3A ")
    assert "," not in about


def test_annotations_name_the_file_in_the_repository_only(tmp_path: Path) -> None:
    inside = report(failing("a", "x"), where=str(tmp_path / "ci/suite.yaml"))
    assert github_annotations(inside, tmp_path)[0].startswith("::error file=ci/suite.yaml,line=3,title=")
    assert github_annotations(inside, tmp_path / "elsewhere")[0].startswith("::error title=")


def test_markdown_shows_text_as_it_is() -> None:
    said = markdown(report(failing("a", NASTY), CaseReport("fine", "p", same=True)))
    assert said.startswith("## Planner gate: 1 of 2 cases failed\n")
    assert "<b>" not in said
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all(row.replace("\\|", "").count("|") == 8 for row in rows)
    assert markdown(report(CaseReport("fine", "p", same=True))).startswith("## Planner gate: passed\n")


def test_text_has_a_line_for_each_case() -> None:
    said = text(report(failing("a", "it is slow"), CaseReport("fine", "p", same=True)))
    assert [line.split()[-1] for line in said.splitlines()[1:3]] == ["FAIL", "same"]
    assert "FAIL a\n  it is slow\n" in said
    assert said.endswith("2 cases: 1 failed, 1 the same")


def test_lines_of_cases_are_known(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    case = "{cluster: {devices: 1}, workload: {rate: 1}}"
    file.write_text(f"suite: 2\nname: s\nworld: serving\ncases:\n\n- {{name: a, case: {case}}}\n")
    assert load_suite(file).lines == {"a": 6}
