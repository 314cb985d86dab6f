"""How much of a sharing policy another system can be told in its own settings, said plainly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Fit", "fit_of"]

Order = Literal["arrival", "share", "usage"]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a system keeps of a policy.

    Parameters
    ----------
    kept : {"partly", "no"}
        Whether its settings order apps as the policy does (with the differences that are named), or do not.
    order : {"arrival", "share", "usage"}
        What its settings order apps by: who came first, who has the least now, who had the least so far.
    differences : tuple of str
        What is otherwise than in the simulation. A sentence each.
    """

    kept: Literal["partly", "no"]
    order: Order
    differences: tuple[str, ...]


BIDS = "What GPUs are worth to an app, its ρ in each placement, is nowhere in {system}: nobody bids and nobody pays."
ESTIMATES = "{system} does not know {what}, by which {policy} orders apps."

UNKNOWN = {
    "finish-time": ("an app's estimate of its finish-time fairness ρ", "share"),
    "gandiva": ("what placement the free GPUs would give an app", "arrival"),
    "optimus": ("how an app's throughput grows with one GPU more", "share"),
    "slaq": ("how fast an app's loss falls", "usage"),
    "srtf": ("an app's remaining time", "arrival"),
    "srsf": ("an app's remaining GPU time", "usage"),
    "tiresias-2q": ("queues that an app leaves once it has had so much GPU time", "usage"),
}
"""Policies that neither system can be told -> what is missing, and what comes nearest."""

ORDERS: dict[str, Order] = {"fifo": "arrival", "drf": "share", "tiresias": "usage"}
"""Policies that are an order of apps by something that both systems know."""

COMMON = {
    "kueue": (
        "A Kueue workload has the GPUs that it asks for or none: jobs neither grow nor shrink with what is free.",
        "A workload is placed by the topology's levels as well as can be had, not by slots within a machine.",
    ),
    "slurm": (
        "A Slurm job has the GPUs that it asks for or none: jobs neither grow nor shrink with what is free.",
        "The backfill scheduler may start jobs out of order where they delay nobody.",
        "Racks are switches of topology/tree; slots within a machine are not known.",
    ),
}

LEASES = {
    "kueue": "Kueue has no leases: GPUs come back when a workload ends or is preempted, and not after {lease:g} s.",
    "slurm": "A lease is a job's time limit of {lease:g} s: job.sh saves its state and queues again, and pays for a "
    "restart even if it gets the same GPUs back. Slurm counts limits in minutes.",
}


def fit_of(target: str, policy: str, preempts: bool, lease_s: float, *, together: bool = False) -> Fit:
    """What `target` keeps of a policy.

    Parameters
    ----------
    target : {"kueue", "slurm"}
        The system.
    policy : str
        Name of the policy; one of nobody's list counts as not expressible.
    preempts : bool
        Whether it leases GPUs.
    lease_s : float
        For how long, seconds.
    together : bool
        Whether all leases end at once.
    """
    system = target.capitalize()
    said = list(COMMON[target])
    if preempts:
        said.insert(0, LEASES[target].format(lease=lease_s))
        if together:
            said.insert(1, f"Leases of different apps do not end together on {system}.")
    if policy in ORDERS:
        order = ORDERS[policy]
        if order == "share" and target == "slurm":
            said.insert(
                0, "Slurm knows what accounts used, not their present share: fair share with a short half-life."
            )
        if order == "usage" and target == "kueue":
            said.insert(0, "Kueue lets usage decay: a half-life of ten years stands for none.")
        if order == "usage" and target == "slurm":
            said.insert(0, "Usage does not decay, and Slurm then wants it reset now and then: once a year.")
        return Fit("partly", order, tuple(said))
    if policy == "themis":
        return Fit("no", "share", (BIDS.format(system=system), *said))
    what, order = UNKNOWN.get(policy, ("what this policy decides by", "arrival"))
    return Fit("no", _order(order), (ESTIMATES.format(system=system, what=what, policy=policy), *said))


def _order(name: str) -> Order:
    return "share" if name == "share" else "usage" if name == "usage" else "arrival"
