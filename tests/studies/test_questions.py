"""Answers to questions against the truth of a toy world: exhaustive scans, closed forms, coverage, what is said."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.seeds import generator
from meshwright.simulator.metrics import Estimate
from meshwright.studies import Outcome, Point, questions
from meshwright.studies.questions.bisection import Rule
from meshwright.worlds import Case
from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cluster(Part):
    devices: int = Field(default=8, gt=0)


class Workload(Part):
    rate: float = 4.0
    rate_scale: float = 1.0
    cv: float = 1.0
    cv_scale: float = 1.0
    slo: float | None = None
    slo_scale: float | None = 5.0
    trace: str | None = None


class Planner(Part):
    name: str = "exact"


class Toy(Case):
    cluster: Cluster = Cluster()
    workload: Workload = Workload()
    planner: Planner = Planner()


class ToySession:
    """Asks and evaluates as a session does, in the manner of `evaluate(case, planner) -> Outcome or attainment`."""

    def __init__(self, evaluate, replications=1, planners=("exact",), confidence=0.95):
        world = SimpleNamespace(name="toy", case=Toy)
        self.study = SimpleNamespace(
            world=world, base=Toy(), planners={p: {"name": p} for p in planners}, replications=replications, seed=0,
            confidence=confidence, case=self.case, questions=(),
        )  # fmt: skip
        self.function, self.asked, self.batches = evaluate, {}, []

    def case(self, point):
        said = {"cluster": {}, "workload": {}, "planner": {"name": point.planner}, "seed": point.replication}
        for path, value in point.values:
            part, _, name = path.partition(".")
            said[part][name] = value
        return Toy.model_validate(said)

    def ask(self, values, planner, replication):
        key = (tuple(sorted(values.items())), planner, replication)
        return self.asked.setdefault(key, Point(len(self.asked), tuple(values.items()), planner, replication))

    def evaluate(self, points):
        points = list(points)
        self.batches.append(len(points))
        for point in reversed(points):  # an executor's order is its own
            found = self.function(self.case(point), point.planner)
            yield point, found if isinstance(found, Outcome) else Outcome(metrics={"attainment": float(found)})


def ask(session, question, **more):
    return questions.answer(session, questions.question({"find": question, **more}))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 64), st.integers(1, 64))
def test_fewest_devices_is_exact_and_probes_little(need, high):
    session = ToySession(lambda case, _: case.cluster.devices >= need)
    (answer,) = ask(session, "fewest devices", high=high)
    assert answer.value == (need if need <= high else None)
    assert answer.monotone
    assert len(answer.probes) <= 2 + math.ceil(math.log2(high + 1))
    if answer.value:
        assert dict(answer.point.values) == {"cluster.devices": need}
        assert f"needs {need} device" in answer.sentence
    else:
        assert f"even {high} device" in answer.sentence
        assert "raise high" in answer.sentence


@settings(deadline=None, max_examples=40)
@given(st.floats(0.6, 31.0), st.sampled_from([0.1, 0.02, 1e-4]))
def test_highest_rate_and_tightest_slo_are_within_the_tolerance(edge, tolerance):
    (rate,) = ask(ToySession(lambda c, _: c.workload.rate <= edge), "highest rate", tolerance=tolerance)
    assert rate.value <= edge < rate.value * (1 + tolerance) * (1 + 1e-12)
    assert rate.quantity == "workload.rate"
    (slo,) = ask(ToySession(lambda c, _: c.workload.slo_scale >= edge), "tightest slo", high=40, tolerance=tolerance)
    hardest = max(edge, 5 / 8)  # the range's end
    assert hardest <= slo.value <= hardest * (1 + tolerance) * (1 + 1e-12)


def test_a_question_with_nothing_between_its_ends():
    session = ToySession(lambda case, _: case.cluster.devices >= 2)
    (answer,) = ask(session, "fewest devices", low=4, high=4)
    assert answer.value == 4
    assert "at most 4 devices" in answer.sentence
    assert "that is the end of the range" in answer.sentence
    (answer,) = ask(session, "highest rate", low=2, high=2)
    assert "at least 2 requests/s" in answer.sentence


def test_md1_highest_rate_for_a_mean_latency():
    """Mean time in an M/D/1 queue, simulated here by Lindley's recursion: the highest rate has a closed form.

    W = D + x D / (2 (1 - x)) for utilisation x, so W <= w asks for x <= 2 (w - D) / (2 w - D).
    """

    def simulated(case, _):
        gaps = generator(case.seed, "arrivals").exponential(1.0, 40_000) / case.workload.rate
        wait, total = 0.0, 0.0
        for gap in gaps.tolist():
            total += wait
            wait = max(0.0, wait + 1.0 - gap)
        return Outcome(metrics={"mean_latency": 1.0 + total / len(gaps)})

    w = 1.8
    exact = 2 * (w - 1) / (2 * w - 1)
    session = ToySession(simulated, replications=6)
    (answer,) = ask(session, "highest rate", low=0.2, high=0.95, metric="mean_latency", at_most=w, tolerance=0.005)
    assert answer.low <= exact <= answer.high
    assert answer.value == pytest.approx(exact, rel=0.03)
    assert answer.high / answer.low < 1.1


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Attainment falls linearly in the rate, with noise that all rates of a replication share; 90 % intervals."""
    truth, spread, studies = 6.0, 0.01, 300

    def noisy(k):
        noise = spread * generator(k, "noise").normal(size=5)
        return lambda c, _: 0.9 + 0.01 * (truth - c.workload.rate) + noise[c.seed]

    def few(noise):
        at_truth = {"workload": Workload(rate=truth)}
        return lambda c, p: 0.03 * (c.cluster.devices - 6) + noise(c.model_copy(update=at_truth), p)

    covered = {"rate": 0, "devices": 0}
    for k in range(studies):
        rate = ToySession(noisy(k), replications=5, confidence=0.9)
        (answer,) = ask(rate, "highest rate", target=0.9, low=1, high=40)
        covered["rate"] += answer.low <= truth <= answer.high

        (answer,) = ask(
            ToySession(few(noisy(k)), replications=5, confidence=0.9), "fewest devices", target=0.9, high=12
        )
        covered["devices"] += (answer.low or 1) <= 6 <= (answer.high or 12)
    # Outward by at most the tolerance, so not far above 90 % either.
    error = 3 * math.sqrt(0.9 * 0.1 / studies)
    assert 0.9 - error <= covered["rate"] / studies <= 0.9 + error + 0.03
    assert covered["devices"] / studies >= 0.9 - error  # whole numbers cover more


def test_one_replication_has_no_interval():
    (answer,) = ask(ToySession(lambda c, _: 1 - c.workload.rate / 100), "highest rate", target=0.95)
    assert (answer.low, answer.high) == (None, None)
    assert "one replication, no interval" in answer.sentence


def test_intervals_that_reach_beyond_the_range_say_so():
    def steps(case, _):  # half of the replications need four devices more
        return case.cluster.devices >= 5 + 4 * (case.seed % 2)

    (answer,) = ask(ToySession(steps, replications=4), "fewest devices", target=0.5, high=8)
    assert answer.value == 5
    assert answer.high is None
    assert "8 or more" in answer.sentence


def test_an_attainment_that_is_not_monotone_is_said():
    """The search for the interval's ends meets a value that contradicts the answer."""
    table = {8: 1.0, 7: 1.0, 6: 1.0, 5: 0.5, 4: 0.995, 3: 0.5, 2: 0.2, 1: 0.1}
    noise = {3: 1.0, 4: 0.01, 5: 0.0}

    def bumpy(case, _):
        n = case.cluster.devices
        return table[n] + noise.get(n, 0.0) * (case.seed - 0.5)

    session = ToySession(bumpy, replications=2)
    (answer,) = ask(session, "fewest devices", high=8)
    tried = {p.value: p.estimate.mean for p in answer.probes}
    expected = [v for v in tried if tried[v] >= 0.99 and any(w > v and tried[w] < 0.99 for w in tried)]
    assert answer.monotone == (not expected)
    assert ("not monotone" in answer.sentence) == bool(expected)
    assert expected  # the toy does what it is made for
    assert all(tried[v] >= 0.99 for v in tried if v >= answer.value)


def test_no_plan_counts_as_no_attainment_and_is_said():
    def packed(case, _):
        short = Outcome("infeasible", error="m0 fits no device")
        return short if case.cluster.devices < 3 else 1.0

    (answer,) = ask(ToySession(packed, replications=2), "fewest devices")
    assert answer.value == 3
    assert "with 2 devices no plan fits" in answer.sentence
    assert {p.value: p.estimate.mean for p in answer.probes}[2] == 0
    (answer,) = ask(ToySession(packed), "fewest devices", high=2)
    assert answer.value is None
    assert "no plan fits (m0 fits no device)" in answer.sentence
    (answer,) = ask(ToySession(packed), "fewest devices", metric="mean_latency", at_most=1.0, high=2)
    assert answer.value is None


def test_a_failing_point_ends_its_planners_search_alone():
    def broken(case, planner):
        return Outcome("failed", error="ValueError: no") if planner == "broken" else case.cluster.devices >= 3

    bad, good = ask(ToySession(broken, planners=("broken", "exact")), "fewest devices", high=8)
    assert bad.value is None
    assert bad.error == "64 devices, replication 0: ValueError: no".replace("64", "8")
    assert good.value == 3


@pytest.mark.parametrize(
    ("metrics", "notes", "says"),
    [
        ({"attainment": 1.0}, ("p99_latency refused: p99 needs 10000",), "lengthen the traffic"),
        ({"attainment": 1.0, "goodput": 9.0}, (), "no metric 'p99_latency'; there are attainment, goodput"),
        ({"attainment": 1.0, "p50_latency": 0.1}, (), "no metric 'p99_latency'; did you mean 'p50_latency'?"),
    ],
)
def test_a_metric_that_is_missing_is_explained(metrics, notes, says):
    session = ToySession(lambda *_: Outcome(metrics=metrics, notes=notes))
    (answer,) = ask(session, "fewest devices", metric="p99_latency", at_most=0.5)
    assert says in answer.error
    assert says in answer.sentence


def test_planners_and_questions_are_followed_side_by_side():
    session = ToySession(lambda c, p: c.cluster.devices >= {"a": 9, "b": 14}[p], planners=("a", "b"), replications=3)
    found = questions.answers(session, ["fewest devices", {"find": "highest rate", "given": {"devices": 20}}])
    assert [a.value for a in found] == [9, 14, 32, 32]
    assert session.batches[0] == 2 * 2 * 2 * 3  # two questions, two planners, two ends, three replications
    assert questions.headline(found).startswith(
        "a needs 9 devices (95 % interval 9 … 9) for 99 % attainment; b needs 14 devices (95 % interval 14 … 14). a"
    )
    before = len(session.asked)
    questions.answers(session, ["fewest devices"])
    assert len(session.asked) == before  # the same question asks for the same points


def test_unstable_answers_say_so():
    def hot(case, _):
        return Outcome(metrics={"attainment": 1.0}, notes=("unstable: utilisation 1.07 on group 3; the mean grows",))

    (answer,) = ask(ToySession(hot), "fewest devices")
    assert "unstable: utilisation 1.07" in answer.sentence


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"find": "fewest device"}, "did you mean 'fewest devices'"),
        ({"find": "fewest devices", "target": 0}, "greater than 0"),
        ({"find": "fewest devices", "target": "101 %"}, "less than or equal to 1"),
        ({"find": "fewest devices", "low": 1.5}, "should be a whole number"),
        ({"find": "fewest devices", "low": True}, "should be a whole number"),
        ({"find": "fewest devices", "low": 0}, "greater than 0"),
        ({"find": "fewest devices", "low": 9, "high": 8}, "low <= high"),
        ({"find": "highest rate", "low": -1}, "greater than 0"),
        ({"find": "highest rate", "high": float("nan")}, "finite"),
        ({"find": "highest rate", "tolerance": 0}, "greater than 0"),
        ({"find": "highest rate", "taget": 0.9}, "unknown key; did you mean 'target'"),
        ({"find": {"highest": "a", "lowest": "b"}}, "expected {highest: FIELD}"),
        ({"find": {"highest": "workload.cv"}, "low": -1, "high": 2}, "low must be a number > 0"),
        ({"find": "what breaks first", "factors": ["rates"]}, "did you mean 'rate'"),
        ({"find": "fewest devices", "metric": "p99_latency"}, "give one of at_most and at_least"),
        ({"find": "fewest devices", "at_most": 0.5}, "attainment has a target"),
        ({"target": 0.99}, "find: missing"),
    ],
)
def test_questions_that_make_no_sense_are_refused(question, says):
    with pytest.raises(InputError) as caught:
        questions.question(question)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"find": {"lowest": "cluster.devises"}, "low": 1, "high": 2}, "did you mean"),
        ({"find": {"highest": "seed"}, "low": 1, "high": 2}, "replications count the seed up"),
        ({"find": {"lowest": "planner.name"}, "low": "a", "high": "b"}, "is no number"),
        ({"find": "fewest devices", "given": {"rat": 2}}, "no field 'rat'"),
        ({"find": "highest rate", "low": 100}, "above high"),
        ({"find": "headroom"}, "no measured traffic"),
        ({"find": "fewest devices", "given": {"devices": 2}}, "leave it out of given"),
        ({"find": "what breaks first", "factors": ["memory"], "replan": True}, "have no cluster.memory"),
        ({"find": "what breaks first"}, "set replan: true"),
    ],
)
def test_questions_that_the_study_cannot_answer_are_refused_before_any_work(question, says):
    session = ToySession(lambda *_: pytest.fail("evaluated"))
    session.study.questions = (questions.question(question),)
    with pytest.raises(InputError) as caught:
        list(questions.cases(session.study))
    assert says in str(caught.value)


def test_what_breaks_first_in_a_world_whose_truth_is_known():
    """Attainment is 1 - rate_scale x devices-lost penalty: each factor breaks at a place that can be worked out."""

    def fragile(case, _):
        w = case.workload
        return (
            1.0 if w.rate_scale <= 1.5 and w.cv_scale <= 1.2 and w.slo_scale >= 3 and case.cluster.devices > 5 else 0.5
        )

    first, *parts = ask(ToySession(fragile), "what breaks first", replan=True, changes=["10 %", "50 %"])
    assert [p.quantity for p in parts] == [
        "workload.cv_scale", "cluster.devices", "workload.slo_scale", "workload.rate_scale"
    ]  # fmt: skip
    assert [p.change for p in parts] == [pytest.approx(c, abs=0.03) for c in (0.2, -3 / 8, -0.4, 0.5)]
    assert parts[1].value == 6
    assert parts[1].change == -3 / 8
    assert first.value == abs(parts[0].change)
    assert first.sentence.startswith("exact breaks first with the CV +2")
    effects = {(e.factor, e.change): e.estimate.mean for e in first.table}
    assert effects["devices", -0.5] == 0.5
    assert effects["devices", -0.1] == 1.0
    assert effects["slo", 0.5] == effects["rate", 0.1] == 1.0
    already, *parts = ask(ToySession(lambda *_: 0.5), "what breaks first", replan=True)
    assert "misses it in the base case already: 50 %" in already.sentence
    assert already.value == 0
    never, *parts = ask(ToySession(lambda *_: 1), "what breaks first", replan=True)
    assert never.value is None
    assert "is not broken for 99 % attainment" in never.sentence
    assert all(p.change is None for p in parts)


@pytest.mark.parametrize("at_most", [False, True])
def test_sure_is_the_worse_end_of_the_interval_and_possible_the_better(at_most):
    rule = Rule("latency" if at_most else "attainment", 0.9, at_most)
    good, bad = (-1, 1) if at_most else (1, -1)
    for mean, sure, possible in ((0.9 + good * 0.2, True, True), (0.9, False, True), (0.9 + bad * 0.2, False, False)):
        estimate = Estimate(mean, 0.1, 4)
        assert (rule.surely(estimate), rule.possibly(estimate)) == (sure, possible)
        assert rule.holds(mean) == (mean == 0.9 or sure)
