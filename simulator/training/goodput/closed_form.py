"""Closed forms for a run whose nodes fail at random, exponentially: Young's, Daly's, and exact ones.

With M seconds between failures, τ of computing between checkpoints, δ of standing still for one, b in the background,
and R for a restart (which may fail too):

- from one checkpoint that counts to the next take, in the mean, ``M e^((R+b)/M) (e^((τ+δ)/M) − 1)`` seconds. For b = 0
  that is Daly's "complete model" (Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
  Future Generation Computer Systems 22, 2006). With b > 0: a failure falls back to the last checkpoint that counts, so
  after it R + τ + δ + b must go well to the next, where without failure τ + δ would; the first one takes τ + δ + b.
- the best τ makes the derivative of that by τ, at a given amount of work, zero: (1 − τ/M) e^((τ+δ)/M) = 1, so
  τ = M (1 + W(−e^(−δ/M − 1))) with Lambert's W; R and b do not move it. Young's √(2δM) (1974) is its first order,
  Daly's has more.
- nodes that fail at rate λ each, are repaired at rate μ each, N in use and S that stand by, are a birth-death process:
  the run waits when more than S are away. Failures come as before while it does not wait, so waiting only stretches
  time by 1 / (1 − P(more than S away)), over a long run.
"""

from __future__ import annotations

# scipy brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from .checkpoints import Checkpoints
from .machines import Machines

__all__ = ["Expected", "best_interval_s", "daly_s", "expected", "waiting_share", "young_s"]


@dataclass(frozen=True, slots=True, repr=False)
class Expected(Shown):
    """What a run takes in the mean.

    Parameters
    ----------
    work_s : float
        Its work: seconds of computing without any failure.
    wall_s : float
        Seconds until its last checkpoint is whole; infinite where that is beyond float64.
    waiting : float
        Share of that in which it waits for nodes.
    """

    work_s: float
    wall_s: float
    waiting: float

    @property
    def goodput(self) -> float:
        """Share of the time that was work."""
        return self.work_s / self.wall_s

    def _headline(self) -> str:
        return f"{self.work_s:g} s of work in {self.wall_s:g} s: goodput {self.goodput:.4f}"


def _checked(stall_s: float, mtbf_s: float) -> None:
    if not (math.isfinite(stall_s) and stall_s > 0):
        raise InputError(
            f"best interval: a checkpoint that costs nothing has none; expected seconds > 0 (got {stall_s})"
        )
    if not mtbf_s > 0:
        raise InputError(f"best interval: mtbf_s: expected seconds > 0 (got {mtbf_s})")


def young_s(stall_s: float, mtbf_s: float) -> float:
    """Young's interval (A first order approximation to the optimum checkpoint interval, 1974), seconds: √(2δM)."""
    _checked(stall_s, mtbf_s)
    return math.sqrt(2 * stall_s * mtbf_s)


def daly_s(stall_s: float, mtbf_s: float) -> float:
    """Daly's interval (2006, of higher order), seconds: √(2δM) (1 + √(δ/2M)/3 + (δ/2M)/9) − δ for δ < 2M, else M."""
    _checked(stall_s, mtbf_s)
    if stall_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = stall_s / (2 * mtbf_s)
    return math.sqrt(2 * stall_s * mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - stall_s


def best_interval_s(stall_s: float, mtbf_s: float) -> float:
    """The interval of the highest expected goodput, seconds; infinite where nothing fails.

    Parameters
    ----------
    stall_s : float
        For how long a checkpoint stops training, seconds, > 0.
    mtbf_s : float
        Between failures of all nodes in use, seconds.
    """
    _checked(stall_s, mtbf_s)
    if math.isinf(mtbf_s):
        return math.inf
    from scipy.special import lambertw as found  # pyright: ignore[reportUnknownVariableType]

    lambert: Any = found  # pyright: ignore[reportUnknownVariableType]
    ratio = stall_s / mtbf_s
    if ratio < 1e-8:  # W near its branch point loses digits; the series' next term is below a ten-thousandth here
        return daly_s(stall_s, mtbf_s)
    return mtbf_s * (1 + float(lambert(-math.exp(-ratio - 1)).real))


def expected(work_s: float, machines: Machines, checkpoints: Checkpoints) -> Expected:
    """The exact mean time of a run, for exponential lives; of its waiting for nodes the share of a long run.

    Parameters
    ----------
    work_s : float
        Seconds of computing that the run takes without failures.
    machines, checkpoints : Machines, Checkpoints
        What fails; what is saved.

    Raises
    ------
    InputError
        If there is no closed form: lives that are not exponential, strikes, runs that shrink.
    """
    if not (math.isfinite(work_s) and work_s > 0):
        raise InputError(f"goodput: work_s: expected finite seconds > 0 (got {work_s})")
    if machines.shape != 1 or machines.strikes or machines.least < machines.replicas:
        raise InputError(
            "goodput: no closed form of Weibull lives, strikes, or runs that go on with fewer replicas; simulate them"
        )
    m, tau, c = machines.system_mtbf_s, checkpoints.interval_s, checkpoints
    count = segments(work_s, tau)
    last = work_s - (count - 1) * tau
    if math.isinf(m):
        return Expected(work_s, work_s + count * c.stall_s + c.background_s, 0.0)

    def takes(stretch_s: float, late_s: float) -> float:
        try:
            return m * math.exp((c.restart_s + late_s) / m) * math.expm1(stretch_s / m)
        except OverflowError:
            return math.inf

    b = c.background_s
    if count == 1:
        up = takes(last + c.stall_s + b, 0.0)
    else:
        up = takes(tau + c.stall_s + b, 0.0) + takes(last + c.stall_s, b)
        up += (count - 2) * takes(tau + c.stall_s, b) if count > 2 else 0.0
    waiting = waiting_share(machines)
    return Expected(work_s, up / (1 - waiting), waiting)


def segments(work_s: float, each_s: float) -> int:
    """Checkpoints of a run, the last one at its end; a rounding error is no work."""
    return max(1, math.ceil(work_s / each_s * (1 - 1e-12)))


def waiting_share(machines: Machines) -> float:
    """Share of a long time in which more nodes are away than stand by."""
    n, s = machines.nodes, machines.spares
    ratio = machines.mttr_s / machines.mtbf_s
    if ratio == 0:
        return 0.0
    away = np.arange(1, n + s + 1)
    used = np.minimum(n, n + s - away + 1)  # of which one fails next, with one fewer away
    logs = np.concatenate([[0.0], np.cumsum(np.log(used * ratio / away))])
    weights = np.exp(logs - logs.max())
    return float(weights[s + 1 :].sum() / weights.sum())
