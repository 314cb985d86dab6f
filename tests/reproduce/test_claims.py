"""The tolerance rules, and what becomes of a claim."""

import math

import pytest
from meshwright.errors import InputError
from meshwright.reproduce import Expectation, at_least, at_most, between, up_to, within


@pytest.mark.parametrize(
    ("rule", "ours", "verdict"),
    [
        (within(2.0, 0.1), 2.19, "holds"),
        (within(2.0, 0.1), 1.81, "holds"),
        (within(2.0, 0.1), 2.21, "does not hold"),
        (within(2.0, 0.1, partly=0.5), 2.21, "partly"),
        (within(2.0, 0.1, partly=0.5), 0.99, "does not hold"),
        (at_least(5.0), 5.0, "holds"),
        (at_least(5.0), 4.99, "does not hold"),
        (at_least(5.0, partly=2.0), 2.0, "partly"),
        (at_least(5.0), math.inf, "holds"),
        (at_most(5.0, partly=6.0), 5.5, "partly"),
        (at_most(5.0, partly=6.0), 6.5, "does not hold"),
        (between(1.0, 2.0), 1.5, "holds"),
        (between(1.0, 2.0, partly=(0.0, 3.0)), 0.5, "partly"),
        (between(-math.inf, math.inf), math.nan, "does not hold"),
        (within(2.5, 0.2, partly=0.5, beyond="above"), 5.6, "beyond"),
        (within(2.5, 0.2, partly=0.5, beyond="above"), 3.01, "beyond"),
        (within(2.5, 0.2, partly=0.5, beyond="above"), 1.3, "partly"),
        (within(2.5, 0.2, partly=0.5, beyond="below"), 3.1, "partly"),
        (between(1.7, 2.7, beyond="below"), 1.0, "beyond"),
        (up_to(22, 0.25), 30.0, "beyond"),
        (up_to(22, 0.25), 16.0, "does not hold"),
    ],
)
def test_rules(rule, ours, verdict):
    assert rule(ours) == verdict


def test_rules_say_their_tolerance():
    assert within(1.3, 0.05, partly=0.15).text == "within 5% of 1.3; partly: within 15%"
    assert at_least(5.0, partly=2.0).text == "at least 5; partly: at least 2"
    assert at_most(0.05).text == "at most 0.05"
    assert (
        within(2.5, 0.2, partly=0.5, beyond="above").text == "within 20% of 2.5; partly: within 50%; beyond: above it"
    )
    assert up_to(22, 0.25).text == "our maximum within 25% of 22; beyond: above it"
    assert between(16, 16, partly=(16, 32)).text == "exactly 16; partly: 16 to 32"


@pytest.mark.parametrize(
    "make",
    [
        lambda: between(2, 1),
        lambda: between(1, 2, partly=(1.5, 3)),
        lambda: within(-1, 0.1),
        lambda: between(1, math.inf, beyond="above"),
    ],
)
def test_impossible_rules_are_refused(make):
    with pytest.raises(InputError, match="rule"):
        make()


def test_the_reason_is_given_only_where_a_claim_fails():
    expected = Expectation("faster", "§1", "2×", at_least(2.0, partly=1.5), "{:.1f}×")
    assert expected.judge(2.5, why="bad luck").why == ""
    failed = expected.judge(1.0, why="bad luck")
    assert (failed.verdict, failed.why, failed.ours) == ("does not hold", "bad luck", "1.0×")
    assert expected.judge(1.7, why="bad luck").why == "bad luck"


def test_a_claim_is_plain_json_even_when_infinite():
    claim = Expectation("faster", "§1", "2×", at_least(2.0)).judge(math.inf)
    assert claim.verdict == "holds"
    assert claim.to_json()["value"] is None


def test_findings_that_were_judged_count():
    finding = Expectation("faster", "§1", "2×", at_least(2.0))
    assert finding.judge(1.0).counts
    asked = finding.needs_gpu("meshwright reproduce a/fig1")
    assert (asked.verdict, asked.why, asked.counts) == ("needs a GPU", "meshwright reproduce a/fig1", False)
    given = Expectation("printed", "§1", "2", at_least(2.0), kind="given")
    assert not given.judge(2.0).counts
    with pytest.raises(InputError, match="expected kind finding"):
        Expectation("printed", "§1", "2", at_least(2.0), kind="guess")
