"""The closed forms, against published values and against each other."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.serving import queueing as q


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 1.5), (0.8, 3.0), (0.9, 5.5)])
def test_md1(rate, expected):
    assert q.md1(rate, 1.0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 2.0), (0.8, 5.0)])
def test_mm1(rate, expected):
    assert q.mm1(rate, 1.0) == pytest.approx(expected, rel=1e-12)


def test_pollaczek_khinchine_lies_between_and_beyond_its_two_special_cases():
    assert q.mg1(0.5, 1.0, 4.0) == pytest.approx(3.5, rel=1e-12)
    assert q.md1(0.5, 1.0) < q.mg1(0.5, 1.0, 0.5) < q.mm1(0.5, 1.0)


def test_erlang_formulas():
    assert q.erlang_b(4, 3.0) == pytest.approx(0.20611, abs=5e-6)
    assert q.mmc(3.2, 1.0, 4) == pytest.approx(1.74554, abs=5e-6)
    assert q.erlang_c(1, 0.7) == pytest.approx(0.7, rel=1e-12)  # one server: waits whoever finds it busy
    np.testing.assert_allclose(q.mmc([0.3, 0.9], 1.0, 1), q.mm1([0.3, 0.9], 1.0), rtol=1e-12)


def test_non_preemptive_priority():
    np.testing.assert_allclose(q.mm1_priority([0.2, 0.6], 1.0), [2.0, 6.0], rtol=1e-12)
    np.testing.assert_allclose(q.mm1_priority([0.8], 1.0), q.mm1(0.8, 1.0), rtol=1e-12)
    # Work is conserved: over all classes the mean wait is that of first come, first served.
    waits = q.mm1_priority([0.2, 0.6], 1.0) - 1
    assert (0.2 * waits[0] + 0.6 * waits[1]) / 0.8 == pytest.approx(float(q.mm1(0.8, 1.0)) - 1, rel=1e-12)
    np.testing.assert_array_equal(np.isinf(q.mm1_priority([0.5, 0.7], 1.0)), [False, True])


@pytest.mark.parametrize(("rate", "expected"), [(1.0, 1.5), (1.6, 3.0)])
def test_w_simple_is_the_papers_special_case(rate, expected):
    assert q.w_simple(rate, 1.0) == pytest.approx(expected, rel=1e-12)
    assert q.w_simple(rate, 1.0) == pytest.approx(1 + rate / (4 - 2 * rate), rel=1e-12)


def test_w_simple_skewed():
    assert q.w_simple(1.0, 1.0, 0.8) == pytest.approx(2.625, rel=1e-12)
    assert q.w_simple(0.9, 1.0, 1.0) == pytest.approx(float(q.md1(0.9, 1.0)), rel=1e-12)
    assert q.w_simple(1.5, 1.0, 0.8) == np.inf


@pytest.mark.parametrize(("rate", "expected"), [(1.0, 1.25), (1.6, 2.0)])
def test_w_pipeline_waits_half_as_long(rate, expected):
    assert q.w_pipeline(rate, 1.0, 0.5) == pytest.approx(expected, rel=1e-12)
    assert (q.w_simple(rate, 1.0) - 1) == pytest.approx(2 * (q.w_pipeline(rate, 1.0, 0.5) - 1), rel=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_frontier_is_where_the_two_placements_meet(share):
    x = np.linspace(0.01, 0.99 / share, 60)
    alpha, beta = q.frontier(x, share)
    simple = q.w_simple(x, 1.0, share)
    np.testing.assert_allclose(q.w_pipeline(x, alpha, alpha / 2), simple, rtol=1e-9)
    np.testing.assert_allclose(q.w_pipeline(x, 1.0, beta / 2), simple, rtol=1e-9)
    assert (alpha >= 1).all()
    assert (beta >= 1).all()


def test_frontier_has_the_shape_of_figure_10():
    alpha, beta = q.frontier(np.linspace(0.001, 1.999, 400))
    peak = int(np.argmax(alpha))
    assert 0 < peak < 399  # little overhead is bearable at both ends
    assert alpha[0] == pytest.approx(1, abs=1e-3)
    assert alpha[-1] == pytest.approx(1, abs=1e-2)
    assert beta[0] == pytest.approx(np.sqrt(2), abs=1e-3)  # W_m ~ rate * D_m**2 / 2: twice the wait at sqrt(2)
    assert (np.diff(beta) < 0).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: q.md1(-1, 1),
        lambda: q.md1(float("nan"), 1),
        lambda: q.mm1(1, 0),
        lambda: q.mg1(1, 1, -0.1),
        lambda: q.mmc(1, 1, 0),
        lambda: q.erlang_b(True, 1.0),
        lambda: q.erlang_c(2, -1.0),
        lambda: q.mm1_priority([], 1.0),
        lambda: q.w_simple(1, 1, 1.5),
        lambda: q.w_pipeline(1, 1, 1.5),
        lambda: q.frontier(0.0),
        lambda: q.frontier(2.0),
        lambda: q.frontier(1.3, 0.8),
    ],
)
def test_senseless_parameters_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_a_queue_over_capacity_has_no_mean():
    assert q.md1(1.0, 1.0) == q.mm1(2.0, 1.0) == q.mmc(4.0, 1.0, 4) == np.inf
    assert q.erlang_c(4, 5.0) == 1.0


def test_kingman_bounds_what_is_known_exactly():
    rate = np.array([0.1, 0.5, 0.9, 0.999])
    for cv2 in (0.0, 0.5, 1.0, 3.0):
        exact, bound = q.mg1(rate, 1.0, cv2), q.kingman(rate, 1.0, 1.0, cv2)
        assert (bound >= exact).all()
        assert bound[-1] / exact[-1] == pytest.approx(1.0, abs=0.002)
    assert q.kingman(1.0, 1.0, 1.0, 1.0) == np.inf
    with pytest.raises(InputError, match="arrivals_cv2"):
        q.kingman(0.5, 1.0, -1.0, 1.0)


def test_a_server_that_never_fails_is_erlangs():
    shares = q.failing_server(0.7, 1.0, 1e12, 0.0)
    assert shares.rejected == pytest.approx(float(q.erlang_b(1, 0.7)))
    assert shares.lost == pytest.approx(0.0, abs=1e-9)
