"""Closed forms of the schedules against an independent run of every action."""

import pytest
from meshwright.simulator.training.configuration.memory import chunks_in_flight
from meshwright.simulator.training.configuration.schedule import bubble_fraction, pipeline_time
from pipelines import run

CASES = [(1, 1, 3), (2, 1, 1), (2, 1, 4), (4, 1, 2), (4, 1, 8), (2, 2, 4), (4, 2, 4), (4, 2, 8), (4, 3, 4), (8, 3, 16)]


@pytest.mark.parametrize(("pp", "interleave", "microbatches"), CASES)
@pytest.mark.parametrize(("embedding", "head"), [(0.0, 0.0), (0.0, 0.6), (0.3, 0.9), (-0.5, -0.25), (-0.4, 0.5)])
def test_time_is_that_of_the_run(pp, interleave, microbatches, embedding, head):
    """Exactly without interleaving where the last stage is the slowest, and with equal chunks; else within 5 % of so
    short an iteration: chunks of the ends are not like the others."""
    if pp == 1 and embedding + head < 0:
        pytest.skip("one stage has all layers")
    ends = [(x / 3, 2 * x / 3) for x in (embedding, head)]
    seconds, _ = run([1.0] * pp, [2.0] * pp, interleave, microbatches, *ends)
    ours = float(pipeline_time(3.0, embedding, head, 0.0, pp, interleave, microbatches, overlap=True).total)
    if (interleave == 1 and (head >= max(embedding, 0) or pp == 1)) or embedding == head == 0:
        assert ours == pytest.approx(seconds, rel=1e-12)
    else:
        assert ours == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize(("pp", "interleave", "microbatches"), CASES)
def test_time_is_never_below_the_run_when_the_first_stage_is_the_slowest(pp, interleave, microbatches):
    seconds, _ = run([1.1] + [1.0] * (pp - 1), [2.2] + [2.0] * (pp - 1), interleave, microbatches)
    ours = float(pipeline_time(3.0, 0.3, 0.0, 0.0, pp, interleave, microbatches, overlap=True).total)
    assert seconds * (1 - 1e-12) <= ours <= seconds * 1.06


@pytest.mark.parametrize(("pp", "interleave", "microbatches"), CASES)
def test_chunks_in_flight_are_those_of_the_run(pp, interleave, microbatches):
    _, peak = run([1.0] * pp, [2.0] * pp, interleave, microbatches)
    first, last = chunks_in_flight(pp, interleave, microbatches)
    assert (float(first), float(last)) == (peak[0], peak[-1])


@pytest.mark.parametrize(("pp", "microbatches"), [(3, 6), (4, 8), (8, 16)])
@pytest.mark.parametrize(("first", "last"), [(-0.5, -0.25), (-0.5, 0.5), (-1.0, -1.0)])
def test_ends_with_fewer_layers(pp, microbatches, first, last):
    """Middle stages may be the slowest; the closed form is at or above the run, by at most what an end lacks."""
    forward, backward = [1.0] * pp, [2.0] * pp
    for rank, extra in ((0, first), (-1, last)):
        forward[rank] += extra / 3
        backward[rank] += 2 * extra / 3
    seconds, _ = run(forward, backward, 1, microbatches)
    ours = float(pipeline_time(3.0, first, last, 0.0, pp, 1, microbatches, overlap=True).total)
    assert seconds - 1e-9 <= ours <= seconds - min(first, last) + 1e-9


def test_bubble_fraction():
    assert float(bubble_fraction(8, 64, 3)) == pytest.approx(7 / 192)
    even = pipeline_time(3.0, 0.0, 0.0, 0.0, 8, 3, 64, overlap=True)
    assert float(even.bubble / even.work) == pytest.approx(7 / 192)


def test_transfers_are_counted():
    plain = pipeline_time(3.0, 0.0, 0.0, 0.1, 4, 1, 8, overlap=True)
    assert float(plain.transfer) == pytest.approx(2 * 8 * 0.1 + 2 * 3 * 0.1)
    headed = pipeline_time(3.0, 0.0, 0.5, 0.1, 4, 1, 8, overlap=True)  # the last stage has one neighbour
    assert float(headed.transfer) == pytest.approx(8 * 0.1 + 2 * 3 * 0.1)
    two = pipeline_time(3.0, 0.0, 0.0, 0.1, 2, 1, 8, overlap=True)
    assert float(two.transfer) == pytest.approx(8 * 0.1 + 2 * 0.1)
    hidden = pipeline_time(3.0, 0.0, 0.0, 0.1, 4, 2, 8, overlap=True)
    assert float(hidden.transfer) == pytest.approx(2 * 7 * 0.1)
    shown = pipeline_time(3.0, 0.0, 0.0, 0.1, 4, 2, 8, overlap=False)
    assert float(shown.transfer) == pytest.approx(2 * 2 * 8 * 0.1 + 2 * 3 * 0.1)
    assert float(pipeline_time(3.0, 0.0, 0.0, 0.1, 1, 1, 8, overlap=False).transfer) == 0
