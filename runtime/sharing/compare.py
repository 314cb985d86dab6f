"""`compare_sharing`: finish times of a world run for real beside those simulated, app by app.

``python -m meshwright.runtime.sharing.compare`` runs a dozen apps; see docs/sharing-run.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, MeshwrightError
from ...simulator.sharing.policies import BASELINES, baseline
from ...simulator.sharing.policy import Policy
from ...simulator.sharing.result import SharingResult
from ...simulator.sharing.world import SharingWorld
from .result import RealSharing
from .run import run_sharing

__all__ = ["SharingComparison", "compare_sharing", "main"]


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

    def __str__(self) -> str:
        real, simulated, m = self.real, self.simulated, self.real.measured
        lines = [f"{'app':<12}{'arrives':>9}{'real end':>10}{'simulated':>11}{'off':>8}{'off, from arrival':>19}"]
        rows = zip(
            real.world.apps, real.finish, simulated.finish, self.finish_error, self.completion_error, strict=True
        )
        for app, r, s, f, c in rows:
            lines.append(f"{app.name:<12}{app.arrival_s:>9.0f}{r:>10.0f}{s:>11.0f}{f:>8.1%}{c:>19.1%}")
        off, waited = np.abs(self.finish_error), np.abs(self.completion_error)
        good, n = int(np.sum(off <= 0.1)), len(off)
        lines += [
            f"finish times within 10 %: {good} of {n}; worst {_worst(off):.1%}; counted from arrival: "
            f"{int(np.sum(waited <= 0.1))} of {n}, worst {_worst(waited):.1%}",
            f"decisions alike until the first that differs: {self.same_grants} of {len(simulated.grants)}; rounds "
            f"{m.rounds}, the longest {m.longest_round_s * 1e3:.0f} ms",
            f"measured: container {simulated.world.container_s:.3g} s, checkpoint {simulated.world.checkpoint_s:.3g} s "
            f"of the world; {m.steps} training steps, the latest {m.behind_s * 1e3:.0f} ms behind its slots",
            *(f"lost: {lost}" for lost in real.lost),
        ]
        return "\n".join(lines)


def compare_sharing(world: SharingWorld, policy: Policy, **options: Any) -> SharingComparison:
    """Run a world for real and simulate it with what was measured.

    Parameters
    ----------
    world, policy
        See `run_sharing`.
    **options
        See `run_sharing`.

    Raises
    ------
    InputError, RunError
        See `run_sharing`.
    """
    from ...simulator.sharing.reference import simulate_reference

    real = run_sharing(world, policy, **options)
    return SharingComparison(real, simulate_reference(real.measured_world(), policy))


def _worst(errors: npt.NDArray[np.float64]) -> float:
    return float(np.nanmax(errors)) if np.isfinite(errors).any() else float("nan")


def _policy(name: str, lease_s: float) -> Policy:
    if name == "themis":
        from ...planners.themis import Themis

        return Themis()
    if name not in BASELINES:
        raise InputError(f"policy: unknown sharing policy {name!r}; known: themis, {', '.join(BASELINES)}")
    return baseline(name, lease_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare on a dozen apps. Exit code 2 on wrong arguments."""
    from .dozen import dozen

    parser = argparse.ArgumentParser(prog="meshwright.runtime.sharing.compare", description=__doc__)
    parser.add_argument("--policy", default="themis", help="themis (default), or a baseline by name")
    parser.add_argument("--seed", type=int, default=0, help="of the apps (default 0)")
    parser.add_argument("--apps", type=int, default=12, help="how many (default 12)")
    parser.add_argument("--time-scale", type=float, default=100.0, help="seconds of the world per real one (100)")
    parser.add_argument("--slot-steps", type=float, default=40.0, help="training steps per slot and real second (40)")
    parser.add_argument("--lease", type=float, default=600.0, help="seconds of a lease (600)")
    options = parser.parse_args(arguments)
    try:
        world = dozen(options.seed, apps=options.apps, lease_s=options.lease)
        policy = _policy(options.policy, options.lease)
        print(compare_sharing(world, policy, time_scale=options.time_scale, slot_steps=options.slot_steps))
    except MeshwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
