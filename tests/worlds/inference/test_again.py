"""What was chosen, timed again: a plan is no slower than the best backend alone, and what does not run is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_costs import table
from meshwright.errors import InfeasibleError
from meshwright.runtime.collage.rounds import CONTROL, Rounds
from meshwright.worlds import faces
from meshwright.worlds.inference.doors.again import ALONE, Again, plan_as_timed
from meshwright.worlds.inference.plan import InferencePlan
from meshwright.worlds.inference.solve import choose, singles


def again(ms: dict[str, float], broken: dict[str, str] | None = None, noise: float = 0.02) -> Again:
    first = next(iter(ms.values()))
    rounds = {name: (value,) * 5 for name, value in ms.items()}
    return Again(Rounds({**rounds, CONTROL: (first * (1 + noise),) * 5}), broken or {})


def planned(timed: Again) -> InferencePlan:
    """The cheapest placement, four groups on two backends, as it was timed."""
    case = faces.case("inference", planner="collage-op", model="resnet-18", backends=["one", "all"])
    costs = table()
    alone = {f"{ALONE}{name}": choice for name, choice in singles(costs).items()}
    return plan_as_timed(case, costs, "mixed", choose(case, costs), alone, timed, 0.0)  # type: ignore[arg-type]


ALL, ONE = f"{ALONE}all", f"{ALONE}one"


@pytest.mark.parametrize(
    ("mixed", "groups", "says"),
    [
        (2.0, 4, ()),
        (2.96, 1, ("0.987x what all takes alone, and 2.0% is noise",)),  # a tie
        (3.3, 1, ("1.100x what all takes alone",)),
    ],
)
def test_one_backend_takes_its_place_where_it_is_as_fast(mixed: float, groups: int, says: tuple[str, ...]) -> None:
    plan = planned(again({ALL: 3.0, ONE: 4.0, "mixed": mixed}))
    assert len(plan.groups) == groups
    assert plan.measured["placement"] == (mixed if groups == 4 else 3.0)
    assert len(plan.notes) == len(says)
    assert all(part in plan.notes[0] for part in says)
    assert ("as placed" in plan.measured) is (groups == 1)
    assert plan.measured["noise"] == pytest.approx(0.02)


def test_a_placement_that_is_wrong_or_crashes_is_no_plan() -> None:
    plan = planned(again({ALL: 3.0, ONE: 2.9}, {"mixed": "crashes: signal 11"}))
    assert [group.backend for group in plan.groups] == ["one"] * 4
    assert "do not run: crashes: signal 11; so one runs all of it" in plan.notes[0]
    plan = planned(again({ONE: 4.0, "mixed": 2.0}, {ALL: "wrong: it differs"}))
    assert len(plan.groups) == 4
    assert plan.notes == ("all alone does not run: wrong: it differs",)
    with pytest.raises(InfeasibleError, match="the placement does not run: hangs"):
        planned(again({CONTROL: 1.0}, {ALL: "x", ONE: "x", "mixed": "hangs"}))


def test_a_process_is_renewed_before_it_holds_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from meshwright.runtime.backends import MeasureOptions, capture
    from meshwright.worlds.inference.doors.measuring import Trials, trials

    class Counted(trials.Course):
        made = 0

        def __init__(self, *said: object) -> None:
            Counted.made += 1
            super().__init__(*said)  # type: ignore[arg-type]

        def times(self, placements: object) -> dict[str, object]:  # type: ignore[override]
            return dict.fromkeys(placements)  # type: ignore[call-overload]

    monkeypatch.setattr(trials, "Course", Counted)
    captured = capture(torch.nn.Linear(4, 4).eval(), [torch.randn(1, 4)])
    monkeypatch.setattr(trials, "HELD_BYTES", 1.0)  # of 80 bytes of weights
    with Trials(captured, ["torch-onednn"], MeasureOptions()) as tried:
        start = (("torch-onednn", ("start",)),)
        for k in range(6):
            tried.times({"start": start, "try": (("torch-onednn", (str(k),)),)})
    assert Counted.made == 2  # the start and three tries, the start and three tries
