"""Closed forms of queueing theory, which simulations are checked against; and AlpaServe §3.4 with its Figure 10.

Every function takes numbers or arrays and broadcasts; rates are per second, times seconds. ``W`` is the mean time that
a request spends in the system, waiting and service. A queue at or over capacity has no mean: the answer is ``inf``. A
parameter that makes no sense (negative, NaN, no server) is an `InputError`.

Sources: L. Kleinrock, Queueing Systems I, ch. 3 and 5, and II, ch. 2 (the bound for G/G/1) and 3 (priorities);
AlpaServe (OSDI '23), §3.4.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError

__all__ = ["Frontier", "Shares", "erlang_b", "erlang_c", "failing_server", "frontier", "kingman", "md1", "mg1", "mm1",
           "mm1_priority", "mmc", "w_pipeline", "w_simple"]  # fmt: skip

FloatArray = npt.NDArray[np.float64]


def _checked(
    name: str, value: npt.ArrayLike, low: float = 0.0, high: float = np.inf, *, open_low: bool = False
) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    wrong = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if open_low:
        wrong |= array == low
    if wrong.any():
        bounds = f"{'>' if open_low else '>='} {low:g}" + (f" and <= {high:g}" if np.isfinite(high) else "")
        raise InputError(f"{name}: expected finite numbers {bounds} (got {array[wrong].flat[0]})")
    return array


def _servers(servers: int) -> int:
    if isinstance(servers, bool) or not isinstance(servers, int | np.integer) or servers < 1:
        raise InputError(f"servers: expected a positive integer (got {servers!r})")
    return int(servers)


def mg1(rate: npt.ArrayLike, service_s: npt.ArrayLike, cv2: npt.ArrayLike) -> FloatArray:
    """W of M/G/1, first come first served (Pollaczek and Khinchine).

    Parameters
    ----------
    rate : array_like
        Poisson arrival rate, per second.
    service_s : array_like
        Mean service time, seconds.
    cv2 : array_like
        Squared coefficient of variation of the service time.
    """
    lam, mean = _checked("rate", rate), _checked("service_s", service_s, open_low=True)
    rho = lam * mean
    second_moment = mean**2 * (1 + _checked("cv2", cv2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rho < 1, mean + lam * second_moment / (2 * (1 - rho)), np.inf)[()]


def md1(rate: npt.ArrayLike, service_s: npt.ArrayLike) -> FloatArray:
    """W of M/D/1: ``D + rate * D**2 / (2 * (1 - rate * D))``."""
    return mg1(rate, service_s, 0.0)


def mm1(rate: npt.ArrayLike, service_s: npt.ArrayLike) -> FloatArray:
    """W of M/M/1: ``1 / (1 / service_s - rate)``."""
    return mg1(rate, service_s, 1.0)


def kingman(
    rate: npt.ArrayLike, service_s: npt.ArrayLike, arrivals_cv2: npt.ArrayLike, service_cv2: npt.ArrayLike
) -> FloatArray:
    """Upper bound on W of G/G/1, first come first served: ``mean + rate * (var_a + var_s) / (2 * (1 - load))``.

    Interarrival times are independent of each other, and so are service times: slow seconds that come in runs can
    exceed it. The bound is approached as the load nears 1 (J. F. C. Kingman, 1962).

    Parameters
    ----------
    rate : array_like
        Arrival rate, per second.
    service_s : array_like
        Mean service time, seconds.
    arrivals_cv2, service_cv2 : array_like
        Squared coefficients of variation of the times between arrivals and of the service times.
    """
    lam, mean = _checked("rate", rate, open_low=True), _checked("service_s", service_s, open_low=True)
    rho = lam * mean
    variance = _checked("arrivals_cv2", arrivals_cv2) / lam**2 + _checked("service_cv2", service_cv2) * mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rho < 1, mean + lam * variance / (2 * (1 - rho)), np.inf)[()]


class Shares(NamedTuple):
    """What becomes of the requests to a server that fails, as shares that sum to 1.

    Parameters
    ----------
    served, lost, rejected : ndarray
        Served; lost in service by a failure; rejected because the server was busy or away.
    """

    served: FloatArray
    lost: FloatArray
    rejected: FloatArray


def failing_server(
    rate: npt.ArrayLike, service_s: npt.ArrayLike, mtbf_s: npt.ArrayLike, mttr_s: npt.ArrayLike
) -> Shares:
    """Shares of M/D/1/1 whose server fails at exponential intervals, idle or busy, and loses what it serves.

    While the server is up, a cycle is an idle time, ended by an arrival or a failure, and a service, which survives
    with probability ``q = exp(-service_s / mtbf_s)``. So it is idle ``1 / (1 - a q)`` times per life, where
    ``a = rate / (rate + 1 / mtbf_s)`` is the chance that the arrival comes first; Poisson arrivals see time averages.

    Parameters
    ----------
    rate : array_like
        Poisson arrival rate, per second.
    service_s : array_like
        Service time, seconds.
    mtbf_s, mttr_s : array_like
        Mean time in which the server is up, and mean time until it is back, seconds.
    """
    lam, d = _checked("rate", rate, open_low=True), _checked("service_s", service_s, open_low=True)
    up, down = _checked("mtbf_s", mtbf_s, open_low=True), _checked("mttr_s", mttr_s)
    dies = -np.expm1(-d / up)
    idle = 1 / (1 / up + lam * dies)  # seconds of a life: 1 / (1 - a q) times 1 / (rate + 1 / mtbf_s)
    accepted = idle / (up + down)
    return Shares(accepted * (1 - dies), accepted * dies, 1 - accepted)


def erlang_b(servers: int, offered: npt.ArrayLike) -> FloatArray:
    """Fraction of requests lost by M/G/c/c, which has no queue.

    Parameters
    ----------
    servers : int
        Servers.
    offered : array_like
        Offered load, rate times mean service time.
    """
    load = _checked("offered", offered)
    # The recursion over the servers: the sum of load**c / c! would overflow from about 170 servers on.
    blocked = np.ones_like(load)
    for c in range(1, _servers(servers) + 1):
        blocked = load * blocked / (c + load * blocked)
    return blocked[()]


def erlang_c(servers: int, offered: npt.ArrayLike) -> FloatArray:
    """Fraction of requests of M/M/c that must wait; 1 at or over capacity."""
    blocked, load, c = erlang_b(servers, offered), np.asarray(offered, dtype=np.float64), _servers(servers)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(load < c, blocked / (1 - load / c * (1 - blocked)), 1.0)[()]


def mmc(rate: npt.ArrayLike, service_s: npt.ArrayLike, servers: int) -> FloatArray:
    """W of M/M/c with one queue for all servers."""
    lam, mean = _checked("rate", rate), _checked("service_s", service_s, open_low=True)
    load = lam * mean
    waits = erlang_c(servers, load)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(load < servers, mean + waits * mean / (servers - load), np.inf)[()]


def mm1_priority(rates: Sequence[float], service_s: float) -> FloatArray:
    """W of each class of a non-preemptive priority M/M/1, shape ``(len(rates),)``.

    Parameters
    ----------
    rates : sequence of float
        Poisson arrival rate of each class, the most urgent first.
    service_s : float
        Mean service time of every class, seconds.
    """
    lam, mean = _checked("rates", rates), _checked("service_s", service_s, open_low=True)
    if lam.ndim != 1 or not len(lam):
        raise InputError(f"rates: expected one rate for each class (got shape {lam.shape})")
    upto = np.cumsum(lam) * mean  # load of this class and all above
    above = np.concatenate(([0.0], upto[:-1]))
    residual = upto[-1] * mean  # sum of rate * E[S^2] / 2, exponential service
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(upto < 1, mean + residual / ((1 - above) * (1 - upto)), np.inf)


def w_simple(rate: npt.ArrayLike, latency_s: npt.ArrayLike, share: npt.ArrayLike = 0.5) -> FloatArray:
    """Mean latency of the simple placement: two models, a device each (AlpaServe §3.4).

    Parameters
    ----------
    rate : array_like
        Total Poisson arrival rate of both models, per second.
    latency_s : array_like
        Single-device latency D, seconds.
    share : array_like
        Share p of the requests that ask for the first model.
    """
    lam, d, p = _checked("rate", rate), _checked("latency_s", latency_s, open_low=True), _checked("share", share, 0, 1)
    # An idle device adds nothing, even where the other is over capacity; 0 * inf must not appear.
    with np.errstate(invalid="ignore"):
        first, second = (np.where(q > 0, q * mg1(q * lam, d, 0.0), 0.0) for q in (p, 1 - p))
    return (first + second)[()]


def w_pipeline(rate: npt.ArrayLike, latency_s: npt.ArrayLike, slowest_s: npt.ArrayLike) -> FloatArray:
    """Mean latency of one pipeline that serves all models: ``D_s + rate * D_m**2 / (2 * (1 - rate * D_m))`` (§3.4).

    Parameters
    ----------
    rate : array_like
        Total Poisson arrival rate, per second.
    latency_s : array_like
        Latency D_s of one request through all stages, seconds.
    slowest_s : array_like
        Latency D_m of the slowest stage, seconds.
    """
    total, slowest = _checked("latency_s", latency_s, open_low=True), _checked("slowest_s", slowest_s, open_low=True)
    if (slowest > total).any():
        raise InputError("slowest_s: one stage cannot take longer than all of them (latency_s)")
    return (total - slowest + md1(rate, slowest))[()]


class Frontier(NamedTuple):
    """The overheads at which two pipelined models fare as the simple placement does (Figure 10).

    Parameters
    ----------
    alpha : ndarray
        Greatest communication overhead: ``D_s = 2 D_m = alpha D``.
    beta : ndarray
        Greatest unevenness: ``D_s = D``, ``D_m = beta D / 2``.
    """

    alpha: FloatArray
    beta: FloatArray


def frontier(utilization: npt.ArrayLike, share: npt.ArrayLike = 0.5) -> Frontier:
    """Greatest overheads of model parallelism with ``w_pipeline <= w_simple`` (AlpaServe §3.4, Figure 10).

    Both follow from a quadratic. With D = 1, x = rate * D and W = w_simple:
    ``3 x alpha**2 - (8 + 4 x W) alpha + 8 W = 0`` and ``x beta**2 + 4 x (W - 1) beta - 8 (W - 1) = 0``.

    Parameters
    ----------
    utilization : array_like
        Total utilization x = rate * D of the two devices, > 0; below 2 if the models share the requests evenly.
    share : array_like
        Share of the requests that ask for the first model.

    Raises
    ------
    InputError
        Where the simple placement is at or over capacity: any overhead that keeps the pipeline stable would do.
    """
    x, p = _checked("utilization", utilization, open_low=True), _checked("share", share, 0, 1)
    w = w_simple(x, 1.0, p)
    if np.isinf(w).any():
        limit = float(np.min(1 / np.maximum(p, 1 - p)))
        raise InputError(
            f"utilization: expected values below {limit:g}, where simple placement is stable (got {x.max()})"
        )
    middle = 8 + 4 * x * w
    alpha = 16 * w / (middle + np.sqrt(middle**2 - 96 * x * w))  # the smaller root, without cancellation
    wait = w - 1
    beta = 2 * (np.sqrt(wait**2 + 2 * wait / x) - wait)
    return Frontier(alpha, beta)
