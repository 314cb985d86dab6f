"""`check_state`: check what an agent says of its app against the world, before it goes into the books."""

from __future__ import annotations

from ....errors import InputError
from ....simulator.sharing.workload.app import Slowdown
from ....simulator.sharing.world import SharingWorld
from ..messages import State

__all__ = ["check_app", "check_state"]


def check_app(world: SharingWorld, app: int) -> None:
    """See that there is an app of this number.

    Raises
    ------
    InputError
        If not.
    """
    if not 0 <= app < len(world.apps):
        raise InputError(f"app: there are {len(world.apps)} (got {app})")


def check_state(world: SharingWorld, app: int, state: State) -> None:
    """See that an app can stand so: its phase, its jobs, each once, GPUs of the cluster, each of one job, and what it
    says that distance costs.

    Raises
    ------
    InputError
        If it cannot.
    """
    check_app(world, app)
    spec = world.apps[app]
    if state.phase >= len(spec.phases):
        raise InputError(f"app {spec.name!r}: phase: there are {len(spec.phases)} (got {state.phase})")
    known, jobs = spec.phases[state.phase].jobs, [j.job for j in state.jobs]
    if len(set(jobs)) < len(jobs) or not set(jobs) <= set(known):
        raise InputError(f"app {spec.name!r}: jobs: phase {state.phase} has {list(known)}, each once (got {jobs})")
    gpus = [g for j in state.jobs for g in j.gpus]
    if len(set(gpus)) < len(gpus) or not all(0 <= g < world.cluster.n_gpus for g in gpus):
        raise InputError(f"app {spec.name!r}: gpus: expected different ones below {world.cluster.n_gpus} (got {gpus})")
    if state.slowdown is not None:
        try:
            Slowdown(*state.slowdown)
        except InputError as error:
            raise InputError(f"app {spec.name!r}: slowdown: {str(error).removeprefix('Slowdown: ')}") from None
