"""`PlannerContract`: what every planner keeps, as tests that a planner's author subclasses and runs with pytest."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from ...errors import InfeasibleError, InputError, MeshwrightError
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from .. import trivial
from ..alpaserve.clockwork import ScheduledPlan
from . import checks as checks
from . import door
from .fresh import Unreachable, plan_afresh, reach_of
from .problem import Problem
from .problems import contract_problems, infeasible_problem
from .source import PlannerSource

__all__ = ["PlannerContract", "contract_problems"]


class PlannerContract:
    """Tests that every planner passes. Subclass it in a test file and name the planner; pytest does the rest.

    Attributes
    ----------
    planner : callable or str
        The planner: ``staticmethod(plan)``, or a name as ``--planner`` takes it (``"mine.py:plan"`` is looked for
        beside the test file first).
    options : Mapping[str, Any]
        Options that it is tested with.
    clairvoyant : bool
        Declares an oracle: a schedule that knows the future of its trace on purpose (Clockwork++).
    warm_up_s : float
        Seconds of traffic that a schedule over time may know before its first placement.
    names_are_labels : bool
        Demands also that models called otherwise, in the same order, get the same plan with the other names.

    Examples
    --------
    A whole test file::

        from meshwright.planners.contract.suite import PlannerContract
        from mine import plan

        class TestMine(PlannerContract):
            planner = staticmethod(plan)
    """

    planner: ClassVar[Any]
    options: ClassVar[Mapping[str, Any]] = {}
    clairvoyant: ClassVar[bool] = False
    warm_up_s: ClassVar[float] = 0.0
    names_are_labels: ClassVar[bool] = False

    def problems(self) -> Mapping[str, Problem]:
        """The problems to test on, by name; override it to add some of your own."""
        return contract_problems()

    def reveal(self, future: Trace) -> None:
        """Put the traffic that is to come wherever your planner's surroundings would keep it. Override it.

        The contract calls it before planning, and then demands the same plan as without. By default the future is
        nowhere but in memory.
        """

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Each test that asks for a `case` runs on each of `problems`. (pytest calls this.)"""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", list(self.problems()))

    # ---- the plan is valid

    def test_plan_is_valid(self, case: str) -> None:
        """Every device exists, has one group and holds what fits its memory; only the problem's models are placed."""
        problem = self._problem(case)
        for _, placement in checks.schedule_of(self._plan(problem, case)):
            devices = [d for group in placement.groups for d in group.devices or ()]
            wrong = [d for d in devices if not 0 <= d < problem.cluster.n_devices or devices.count(d) > 1]
            if wrong:
                self._fail(case, f"device {wrong[0]} does not exist or has two groups", "number devices from 0, once")
            foreign = [m for m in placement.models if m not in problem.models]
            if foreign:
                self._fail(case, f"{foreign[0]!r} is placed but not asked for", "place problem.models, not profiles")
            over = checks.overfull(problem, placement)
            if over:
                self._fail(case, f"memory is exceeded: {over}", "ask problem.fits(Group(config, models)) first")

    def test_prediction_is_what_the_simulator_says(self, case: str) -> None:
        """The metrics that the plan predicts are those of a fresh simulation of the problem's own trace."""
        problem = self._problem(case)
        plan = self._plan(problem, case)
        for name, value in problem.predict(plan.placement).items():
            if name in plan.predicted and plan.predicted[name] != value:
                self._fail(
                    case, f"predicts {name} {plan.predicted[name]!r}, the simulator says {value!r}",
                    "let problem.plan(placement, name=…) make the plan: it predicts",
                )  # fmt: skip

    def test_plan_survives_a_file(self, case: str, tmp_path: Path) -> None:
        """The plan, saved and loaded, is the same plan."""
        plan = self._plan(self._problem(case), case)
        if isinstance(plan, Plan) and Plan.load(plan.save(tmp_path / "plan.json")) != plan:
            self._fail(case, "the plan that was saved is not the one that was loaded", "give options as JSON values")

    # ---- the same problem, the same plan

    def test_same_problem_same_plan(self, case: str) -> None:
        """Planned again: from a copy, and from one with its mappings in another order."""
        first = checks.decided(self._plan(self._problem(case), case))
        again = {"again": lambda: self._problem(case), "with its mappings in another order": self._reordered(case)}
        for when, problem in again.items():
            self._same(first, self._plan(problem(), case), case, f"planned {when}")

    def test_same_plan_after_other_problems(self) -> None:
        """Planned in one order and in the reverse: what was planned before leaves nothing behind."""
        first = {case: checks.decided(self._plan(self._problem(case), case)) for case in self.problems()}
        for case in reversed(list(first)):
            self._same(first[case], self._plan(self._problem(case), case), case, "planned after other problems")

    def test_same_plan_in_a_fresh_process(self) -> None:
        """Planned in another process, which hashes text otherwise: nothing that only this process holds decides."""
        planner = self._planner()
        problems = {case: self._problem(case) for case in self.problems()}
        try:
            answers = plan_afresh(reach_of(planner), problems)
        except Unreachable as error:
            if isinstance(planner, PlannerSource):
                self._fail("all problems", f"no plan from a fresh process: {error}", "it must do without this one")
            _skip(f"the planner cannot be found from a fresh process: {error}")
        for case, problem in problems.items():
            first = checks.decided(self._plan(problem, case))
            self._same(first, answers[case], case, "planned in a fresh process")

    def test_problem_is_left_alone(self, case: str) -> None:
        """Planning changes nothing in the problem, which other planners get too."""
        problem = replace(self.problems()[case], options=self._problem(case).options)
        before = checks.fingerprint(problem)
        self._plan(problem, case)
        if checks.fingerprint(problem) != before:
            self._fail(
                case, "the problem is not what it was before planning", "work on copies: np.array(trace.arrival)"
            )

    # ---- no peeking at the future

    def test_future_changes_nothing(self, case: str) -> None:
        """The plan is the same whatever traffic is to come: it depends on the problem alone."""
        first = checks.decided(self._plan(self._problem(case), case))
        for draw in range(2):
            future = checks.future_of(self._problem(case), draw)
            self.reveal(future)
            self._same(first, self._plan(self._problem(case), case), case, "planned while another future is known")
            del future

    def test_schedule_does_not_foresee(self, case: str) -> None:
        """Placements up to a moment depend on no traffic after it."""
        if self.clairvoyant:
            _skip("declared clairvoyant: an oracle to compare with, not a planner to run")
        problem = self._problem(case)
        plan = self._plan(problem, case)
        if not isinstance(plan, ScheduledPlan):
            return  # a fixed placement is decided before the traffic that it serves
        schedule = checks.schedule_of(plan)
        moments = [start for start, _ in schedule[1:]] + [problem.trace.duration / 2]
        for t in sorted(moments):
            if t < self.warm_up_s:
                continue
            other = checks.schedule_of(self._plan(checks.other_after(problem, t), case))
            if [w for w in schedule if w[0] <= t] != [w for w in other if w[0] <= t]:
                self._fail(
                    case, f"traffic after {t:.6g} s changes placements up to then",
                    "plan a window from the traffic before it (warm_up_s says what the first one may know), or declare "
                    "clairvoyant = True",
                )  # fmt: skip

    # ---- worth having

    def test_never_worse_than_the_trivial_plan(self, case: str) -> None:
        """On its own trace the plan attains at least what one replica of each model does (`trivial.placement`)."""
        problem = self._problem(case)
        floor = trivial.placement(problem)
        mine = problem.simulate(self._plan(problem, case).placement).attainment
        least = problem.simulate(floor).attainment
        if mine < least:
            self._fail(
                case, f"attains {mine:.2%}, the trivial plan {least:.2%}:\n{floor}",
                "begin from meshwright.planners.trivial.placement(problem), and keep it where nothing is better",
            )  # fmt: skip

    def test_models_called_otherwise(self, case: str) -> None:
        """Where `names_are_labels`: other names, same plan."""
        if not self.names_are_labels:
            _skip("names_are_labels is not set")
        problem = self._problem(case)
        names = {name: f"z{len(problem.models) - m}" for m, name in enumerate(problem.models)}
        back = {new: old for old, new in names.items()}
        other = checks.schedule_of(self._plan(checks.renamed(problem, names), case))
        found = [(t, [(g.config, g.devices, tuple(back[m] for m in g.models)) for g in p.groups]) for t, p in other]
        first = checks.schedule_of(self._plan(problem, case))
        if found != [(t, [(g.config, g.devices, g.models) for g in p.groups]) for t, p in first]:
            self._fail(
                case, "models called otherwise are placed otherwise", "break ties by problem.models, not by name"
            )

    # ---- errors

    def test_nothing_fits_is_infeasible(self) -> None:
        """Where no model fits any group, the planner raises InfeasibleError."""
        try:
            found = self._run(replace(infeasible_problem(), options=dict(self.options)))
        except InfeasibleError:
            return
        except MeshwrightError as error:
            self._fail(
                "nothing fits", f"raises {error!r}", "raise InfeasibleError: problem.smallest_config(model) does"
            )
        self._fail(
            "nothing fits", f"plans {found.placement}", "raise InfeasibleError: problem.smallest_config(model) does"
        )

    def test_unknown_option_is_refused(self) -> None:
        """An option that the planner does not have is refused, not dropped in silence."""
        case = next(iter(self.problems()))
        problem = self._problem(case)
        try:
            self._run(replace(problem, options={**problem.options, "no_such_option": 1}))
        except InputError:
            return
        self._fail(case, "an option no_such_option is taken in silence", "name options in the signature, without **")

    # ---- how

    def _problem(self, case: str) -> Problem:
        problem = checks.copied(self.problems()[case])
        return replace(problem, options={**problem.options, **self.options})

    def _reordered(self, case: str) -> Callable[[], Problem]:
        return lambda: checks.other_order(self._problem(case))

    def _planner(self) -> PlannerSource | Callable[..., object]:
        given = inspect.getattr_static(type(self), "planner", None)
        given = given.__func__ if isinstance(given, staticmethod) else given
        if isinstance(given, PlannerSource):
            return given
        if isinstance(given, str):
            beside = Path(inspect.getfile(type(self))).parent
            here = (beside / given.rpartition(":")[0]).is_file()
            return PlannerSource.find(given, beside if here else None)
        if not callable(given):
            raise InputError(
                f"{type(self).__name__}.planner: expected staticmethod(plan), or a name such as 'mine.py:plan' "
                f"(got {given!r})"
            )
        door.check_signature(given, getattr(given, "__name__", "planner"))
        return given

    def _run(self, problem: Problem) -> Plan | ScheduledPlan:
        planner = self._planner()
        if isinstance(planner, PlannerSource):
            return planner.plan(problem)
        return door.call(planner, problem, getattr(planner, "__name__", "planner"))

    def _plan(self, problem: Problem, case: str) -> Plan | ScheduledPlan:
        """The plan; an error is a failure, for each of the problems has one."""
        __tracebackhide__ = True
        try:
            return self._run(problem)
        except InfeasibleError as error:
            self._fail(case, f"there is a plan, but: {error}", "the trivial one: meshwright.planners.trivial")
        except MeshwrightError as error:
            self._fail(case, str(error), "", error.__cause__)

    def _same(self, first: str, found: Plan | ScheduledPlan | str, case: str, when: str) -> None:
        __tracebackhide__ = True
        text = found if isinstance(found, str) else checks.decided(found)
        if text != first:
            lines = zip(first.splitlines(), text.splitlines(), strict=False)
            a, b = next(((a.strip(), b.strip()) for a, b in lines if a != b), ("", ""))
            self._fail(
                case, f"{when}, the plan is another one: {b[:150]!r} instead of {a[:150]!r}",
                "use nothing but the problem: no module state, no clock, no unseeded random numbers (problem.seed), no "
                "order of a set",
            )  # fmt: skip

    def _fail(self, case: str, what: str, mend: str, cause: BaseException | None = None) -> NoReturn:
        __tracebackhide__ = True
        hint = f"\n  how to mend: {mend}" if mend else ""
        raise AssertionError(f"on {case!r}: {what}{hint}") from cause


def _skip(why: str) -> NoReturn:
    import pytest

    pytest.skip(why)
