"""`Shared`: a case with its apps, and the policies that are compared on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....errors import InputError
from ....simulator.sharing import App, Policy, SharingWorld
from ....traces import ClusterLog
from ...door import Asked
from ..build import policy_of, world_of
from ..case import PolicyCase, SharingCase
from ..data import load_data
from ..logs import log_files, read_log
from ..plan import SharingPlan

__all__ = ["Shared", "shared_of"]


@dataclass(frozen=True, slots=True)
class Shared:
    """What is shared, and who may decide.

    Parameters
    ----------
    name : str
        What tables call the case.
    case : SharingCase
        What is simulated, whatever the policy.
    planners : mapping of str to PolicyCase
        By what tables call them.
    apps : tuple of App
        By arrival.
    log : ClusterLog, optional
        The job log that they are from.
    """

    name: str
    case: SharingCase
    planners: Mapping[str, PolicyCase]
    apps: tuple[App, ...]
    log: ClusterLog | None = None

    @property
    def world(self) -> SharingWorld:
        """What is simulated."""
        return world_of(self.case, self.apps)

    def policy(self, called: str) -> Policy:
        """What decides, by what tables call it."""
        return policy_of(self.case, self.planners[called])


def shared_of(asked: Asked, seed: int | None = None) -> Shared:
    """What is asked at a door that takes plans; with another seed, another draw.

    Raises
    ------
    InputError
        All that is wrong with the case.
    """
    case = asked.case
    if not isinstance(case, SharingCase):
        raise InputError(f"case: expected one of the sharing world (got {type(case).__name__})")
    if seed is not None:
        case = case.model_copy(update={"seed": seed})
    plans: Sequence[SharingPlan] = [plan for plan in asked.plans.values() if isinstance(plan, SharingPlan)]
    planners = {plan.decided.called: plan.decided for plan in plans}
    if len(planners) < len(plans):  # files of the same policy: tables call them by their files
        planners = dict(zip(asked.plans, (plan.decided for plan in plans), strict=True))
    checked = [case.model_copy(update={"planner": planner}) for planner in planners.values()] or [case]
    data = load_data(checked, asked.folder)
    work = case.workload
    log = None if work is None or not log_files(work) else read_log(work, asked.folder)  # with what was left out of it
    name = asked.name or next((plan.name for plan in plans if plan.name), "case")
    return Shared(name, case, planners, data.apps(case), log)
