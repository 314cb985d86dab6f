"""`compare_sharing`: finish times of a world run for real beside those simulated, app by app.

``python -m meshwright.runtime.sharing.compare`` does so for a dozen apps, by policy and seed; see docs/sharing-run.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...simulator.sharing.cluster import Level
from ...simulator.sharing.policy.contract import Policy
from ...simulator.sharing.result.columns import SharingResult
from ...simulator.sharing.world import SharingWorld
from .choice import PolicyChoice
from .options import RunOptions
from .result import RealSharing
from .run import run_sharing

__all__ = ["SharingComparison", "compare_sharing", "within", "worst"]


@dataclass(frozen=True, eq=False)
class SharingComparison:
    """A real run and the simulation of its world with the measured times of checkpoint and container.

    Parameters
    ----------
    real : RealSharing
        What was measured.
    simulated : SharingResult
        What was predicted.
    """

    real: RealSharing
    simulated: SharingResult

    @property
    def finish_error(self) -> npt.NDArray[np.float64]:
        """Real over simulated finish time, less one, by app; NaN where an app did not complete in both."""
        both = self.real.completed & self.simulated.completed
        return np.where(both, self.real.finish / self.simulated.finish - 1.0, np.nan)

    @property
    def completion_error(self) -> npt.NDArray[np.float64]:
        """The same of the time from arrival to end: the stricter measure."""
        both = self.real.completed & self.simulated.completed
        return np.where(both, self.real.completion_s / self.simulated.completion_s - 1.0, np.nan)

    @property
    def same_grants(self) -> int:
        """Decisions until the first that gave other GPUs, or to another app."""
        pairs = zip(self.real.grants, self.simulated.grants, strict=False)
        same = [(a.app, a.gpus) == (b.app, b.gpus) for a, b in pairs]
        return same.index(False) if False in same else len(same)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each app: what was measured beside what was simulated."""
        real, simulated = self.real, self.simulated
        columns = zip(
            real.world.apps, real.completed.tolist(), real.finish.tolist(), simulated.finish.tolist(),
            self.finish_error.tolist(), self.completion_error.tolist(), real.rho.tolist(), simulated.rho.tolist(),
            strict=True,
        )  # fmt: skip
        names = (
            "completed", "real_finish_s", "simulated_finish_s", "finish_error", "completion_error", "real_rho",
            "simulated_rho",
        )  # fmt: skip
        return [
            {"policy": real.policy, "app": app.name, "arrival_s": app.arrival_s} | dict(zip(names, row, strict=True))
            for app, *row in columns
        ]

    def __str__(self) -> str:
        real, simulated, m = self.real, self.simulated, self.real.measured
        lines = [f"{'app':<12}{'arrives':>9}{'real end':>10}{'simulated':>11}{'off':>8}{'off, from arrival':>19}"]
        rows = zip(
            real.world.apps, real.finish, simulated.finish, self.finish_error, self.completion_error, strict=True
        )
        for app, r, s, f, c in rows:
            lines.append(f"{app.name:<12}{app.arrival_s:>9.0f}{r:>10.0f}{s:>11.0f}{f:>8.1%}{c:>19.1%}")
        off, waited = self.finish_error, self.completion_error
        lines += [
            f"finish times within 10 %: {within(off)} of {len(off)}; worst {worst(off):.1%}; counted from arrival: "
            f"{within(waited)} of {len(waited)}, worst {worst(waited):.1%}",
            f"decisions alike until the first that differs: {self.same_grants} of {len(simulated.grants)}; rounds "
            f"{m.rounds}, the longest {m.longest_round_s * 1e3:.0f} ms",
            f"measured: container {simulated.world.container_s:.3g} s, checkpoint {simulated.world.checkpoint_s:.3g} s "
            f"of the world; {m.steps} training steps, the latest {m.behind_s * 1e3:.0f} ms behind its slots",
            *_measured(real),
            *(f"lost: {lost}" for lost in real.lost),
        ]
        return "\n".join(lines)


def _measured(real: RealSharing) -> list[str]:
    """What agents measured of iterations, beside the slowdown that the world says; a line for each level."""
    lines: list[str] = []
    for level in Level:
        found = [
            (one, app.slowdown.levels[level])
            for app, levels in zip(real.world.apps, real.measured.profiled, strict=False)
            for one in levels
            if one.level == level
        ]
        if found:
            off = [one.mean / true - 1.0 for one, true in found]
            inside = sum(abs(one.mean - true) <= one.half_width for one, true in found)
            lines.append(
                f"slowdown in a {level.name.lower()}, measured by {len(found)} agents over "
                f"{sum(one.iterations for one, _ in found)} iterations: {np.median(off):+.2%} off in the median, "
                f"{max(off, key=abs):+.2%} at most; {inside} of {len(found)} intervals hold the world's"
            )
    return lines


def compare_sharing(
    world: SharingWorld, policy: Policy | PolicyChoice, options: RunOptions | None = None, **more: Any
) -> SharingComparison:
    """Run a world for real and simulate it with what was measured.

    Parameters
    ----------
    world, policy, options, **more
        See `run_sharing`.

    Raises
    ------
    InputError, RunError
        See `run_sharing`.
    """
    from ...simulator.sharing.reference.engine import simulate_reference

    real = run_sharing(world, policy, options, **more)
    made = policy.make() if isinstance(policy, PolicyChoice) else policy
    return SharingComparison(real, simulate_reference(real.measured_world(), made))


def within(errors: npt.NDArray[np.float64], limit: float = 0.1) -> int:
    """Apps whose error is at most so large; one that did not complete in both is none of them."""
    return int(np.sum(np.abs(errors) <= limit))


def worst(errors: npt.NDArray[np.float64]) -> float:
    """The largest error, without its sign; NaN if there is none."""
    return float(np.nanmax(np.abs(errors))) if np.isfinite(errors).any() else float("nan")


if __name__ == "__main__":
    from .compare_many import main

    sys.exit(main())
