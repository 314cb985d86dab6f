"""Sessions: run, ask and tell, resume, retry; on the tiny world in this process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.studies import Outcome, Point, Session
from meshwright.studies.progress import Progress
from tiny_world import evaluated, tiny_study


def test_the_frame_has_a_row_per_point(tmp_path: Path) -> None:
    frame = tiny_study(tmp_path, 3, replications=2).run()
    assert list(frame.columns) == [
        "x", "planner", "replication", "status", "attainment", "cost", "notes", "decision", "error",
    ]  # fmt: skip
    assert list(frame["x"]) == [0, 0, 1, 1, 2, 2]
    assert list(frame["cost"]) == [0, 1, 1, 2, 2, 3]
    assert list(frame.index) == list(range(6))


def test_what_is_in_the_store_is_not_evaluated_again(tmp_path: Path) -> None:
    store = tmp_path / "s"
    study = tiny_study(tmp_path, 6)
    with Session.open(study, store) as session:
        first = list(session.evaluate(list(study.points())[:4]))
    seen: list[Progress] = []
    with Session.open(study, store, progress=seen.append) as session:
        session.run()
        assert session.facts.kept == 4
        assert session.facts.evaluated == 2
    assert [x for x, _, _ in evaluated(tmp_path)] == list(range(6))
    assert [p.index for p, _ in first] == [0, 1, 2, 3]
    assert (seen[-1].done, seen[-1].kept, seen[-1].total, seen[-1].failed) == (6, 4, 6, 0)
    assert all(p.done <= p.total for p in seen)
    before = store.read_bytes()
    assert len(study.run(store)) == 6
    assert store.read_bytes() == before
    study.run(tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == before


@pytest.mark.parametrize("how", ["fail 2", "exit 2", "infeasible 2"])
def test_a_point_that_goes_wrong_is_a_row(tmp_path: Path, how: str) -> None:
    frame = tiny_study(tmp_path, 4, how=how).run()
    assert list(frame["status"]) == ["ok", "ok", how.split()[0].replace("exit", "failed").replace("fail ", "failed")
                                     if how != "fail 2" else "failed", "ok"]  # fmt: skip
    expected = {"fail": "ValueError: no good at <object object at 0x…>", "exit": "SystemExit: 3"}
    assert frame["error"][2] == expected.get(how.split()[0], "nothing fits; 1 more device would")


def test_failed_points_are_tried_again_when_asked(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 4, how="fail 2")
    assert list(study.run(tmp_path / "s")["status"]).count("failed") == 1
    (tmp_path / "mended").touch()
    assert list(study.run(tmp_path / "s")["status"]).count("failed") == 1
    assert len(evaluated(tmp_path)) == 4
    assert set(study.run(tmp_path / "s", retry_failed=True)["status"]) == {"ok"}
    assert [x for x, _, _ in evaluated(tmp_path)] == [0, 1, 2, 3, 2]
    study.run(tmp_path / "fresh")
    assert (tmp_path / "fresh").read_bytes() == (tmp_path / "s").read_bytes()


def test_ask_and_tell(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 3)
    with Session.open(study, tmp_path / "s") as session:
        first = session.ask()
        assert first == Point(0, (("x", 0),), "a")
        asked = session.ask({"x": 40}, replication=2)
        assert asked == Point(3, (("x", 40),), "a", 2)
        assert session.ask({"x": 40}, "a", 2) == asked
        assert session.ask({"x": 41}) == Point(4, (("x", 41),), "a")
        session.tell(first, Outcome(metrics={"attainment": 0.25}))
        assert session.ask({"x": 0}) == first  # known: the design's own row
        assert [o.metrics["cost"] for _, o in session.evaluate([asked])] == [42.0]
        rest = [session.ask() for _ in range(3)]
        assert [p and p.index for p in rest] == [1, 2, None]
        with pytest.raises(InputError, match="is there already"):
            session.tell(first, Outcome())
    with Session.open(study, tmp_path / "s") as session:
        assert session.ask() == Point(1, (("x", 1),), "a")
        assert session.ask({"x": 40}, replication=2) == asked
        assert session.ask({"x": 99}) == Point(4, (("x", 99),), "a")


def test_a_design_that_says_the_same_thing_twice_evaluates_it_once(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 3)
    twice = [*study.points(), Point(7, (("x", 1),), "a")]
    with Session.open(study) as session:
        rows = list(session.evaluate(twice))
        assert [p.index for p, _ in rows] == [0, 1, 2, 7]
        assert rows[3][1] == rows[1][1]
        assert len(session.frame()) == 3
        assert session.progress.done == session.progress.total == 4


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        ({"values": {"y": 1}}, "no field 'y'"),
        ({"values": {"x": "many"}}, "x"),
        ({"values": {"x": 1}, "planner": "b"}, "no planner 'b' in this study; there are a"),
        ({"values": {"x": 1}, "replication": -1}, "replication: expected a whole number >= 0"),
    ],
)
def test_asking_wrong_is_said(tmp_path: Path, ask: dict, what: str) -> None:
    with Session.open(tiny_study(tmp_path, 3)) as session, pytest.raises(InputError, match=what):
        session.ask(**ask)


def test_data_that_changed_since_are_refused(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 3)
    (tmp_path / "data.txt").write_text("one")
    study.run(tmp_path / "s")
    (tmp_path / "data.txt").write_text("two")
    with pytest.raises(InputError, match=r"read 'data.txt' as it was .* has changed since .*; give another --out"):
        study.run(tmp_path / "s")


def test_a_session_that_cannot_open_leaves_the_store_to_others(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 3)
    for _ in range(2):
        with pytest.raises(InputError, match="there is no 'dusk://h:1'; did you mean 'dask'"):
            Session.open(study, tmp_path / "s", executor="dusk://h:1")
    study.run(tmp_path / "s")


def test_points_are_drawn_as_they_are_needed(tmp_path: Path) -> None:
    """A million points take no memory: the runner is never far ahead of what has come back."""
    study = tiny_study(tmp_path, 1000, how="quiet")
    drawn = 0

    def points() -> Sequence[Point]:
        nonlocal drawn
        for point in study.points():
            drawn += 1
            yield point

    with Session.open(study) as session:
        for i, _ in enumerate(session.evaluate(points())):
            assert drawn <= i + 70
    assert drawn == 1000


def test_a_consumer_that_stops_early(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, 10)
    with Session.open(study, tmp_path / "s", workers=2) as session:
        for _ in session.evaluate(study.points()):
            break
        kept = len(session.store)
        assert 1 <= kept < 10
        session.run()
    study.run(tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "s").read_bytes()
    shutil.rmtree(tmp_path)
