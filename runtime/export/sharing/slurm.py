"""Slurm: nodes, partition and priorities for slurm.conf, gres.conf, topology.conf, accounts and QOS, a job script."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence

from ....simulator.sharing import SharingWorld
from ..names import dns_names
from ..tree import File, json_text
from .fit import Fit
from .holdings import Holding

__all__ = ["slurm"]

PARTITION, QOS, PARENT = "sharing", "lease", "sharing"
TAKEN = (PARENT, "root")
CENTURY_S = 100 * 365 * 86400.0
SHORT_HALF_LIFE = "0-00:05:00"
SIGNAL_S = 60


def slurm(world: SharingWorld, fit: Fit, preempts: bool, held: Sequence[Holding]) -> dict[str, File]:
    """The files; slurm.conf's are a part to include, not the whole."""
    accounts = _account_names(world)
    files = {
        "slurm.conf.part": File(_conf(world, fit, preempts)),
        "gres.conf": File(_gres(world)),
        "topology.conf": File(_topology(world)),
        "accounts.sh": File(_accounts(world, accounts, preempts), executable=True),
        "job.sh": File(_job(world, accounts[0], preempts), executable=True),
        "accounts.json": File(json_text({a: app.name for a, app in zip(accounts, world.apps, strict=True)})),
    }
    if held:
        files["decision.sh"] = File(_decision(accounts, held), executable=True)
    return files


def _account_names(world: SharingWorld) -> list[str]:
    """An account for each app; none is one that Slurm or these files have already."""
    made = [re.sub(r"[^a-z0-9]", "_", name) for name in dns_names(app.name for app in world.apps).values()]
    return [f"app__{name}" if name in TAKEN else name for name in made]


def lease_time(world: SharingWorld) -> str:
    """The lease as Slurm writes times: whole minutes, rounded up; one longer than a century is no limit."""
    if world.lease_s > CENTURY_S:
        return "UNLIMITED"
    minutes = max(1, math.ceil(world.lease_s / 60))
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def _conf(world: SharingWorld, fit: Fit, preempts: bool) -> str:
    lines = ["# Include this in slurm.conf; machine-K stands for the name of node K."]
    for number, machine in enumerate(world.cluster.machines):
        lines.append(f"NodeName=machine-{number} Gres=gpu:{machine.gpus} State=UNKNOWN")
    last = len(world.cluster.machines) - 1
    nodes = f"machine-[0-{last}]" if last else "machine-0"
    limit = lease_time(world) if preempts else "UNLIMITED"
    lines += [
        f"PartitionName={PARTITION} Nodes={nodes} Default=YES MaxTime={limit} QOS={QOS} OverSubscribe=NO State=UP",
        "GresTypes=gpu",
        "SelectType=select/cons_tres",
        "SchedulerType=sched/backfill",
        "TopologyPlugin=topology/tree",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=associations,limits,qos",
        "JobRequeue=1",
        "PreemptType=preempt/none",  # GPUs come back by time limits: no job is more than another
        "PreemptMode=OFF",
    ]
    if fit.order == "arrival":
        lines.append("PriorityType=priority/basic")
        return "\n".join(lines) + "\n"
    decay = "0" if fit.order == "usage" else SHORT_HALF_LIFE
    lines += [
        "PriorityType=priority/multifactor",
        f"PriorityDecayHalfLife={decay}",
        # Slurm takes no half-life of 0 without a reset
        f"PriorityUsageResetPeriod={'YEARLY' if decay == '0' else 'NONE'}",
        "PriorityCalcPeriod=00:01:00",
        "PriorityWeightFairshare=1000000",
        "PriorityWeightAge=0",
        "PriorityWeightJobSize=0",
        "PriorityWeightPartition=0",
        "PriorityWeightQOS=0",
    ]
    return "\n".join(lines) + "\n"


def _gres(world: SharingWorld) -> str:
    kinds: dict[int, list[int]] = defaultdict(list)
    for number, machine in enumerate(world.cluster.machines):
        kinds[machine.gpus].append(number)
    lines: list[str] = []
    for gpus, numbers in sorted(kinds.items(), reverse=True):
        nodes = ",".join(f"machine-{n}" for n in numbers)
        files = f"/dev/nvidia[0-{gpus - 1}]" if gpus > 1 else "/dev/nvidia0"
        lines.append(f"NodeName={nodes} Name=gpu File={files}")
    return "\n".join(lines) + "\n"


def _topology(world: SharingWorld) -> str:
    racks: dict[int, list[int]] = defaultdict(list)
    for number, machine in enumerate(world.cluster.machines):
        racks[machine.rack].append(number)
    lines = [f"SwitchName=rack-{r} Nodes={','.join(f'machine-{n}' for n in ns)}" for r, ns in sorted(racks.items())]
    lines.append(f"SwitchName=core Switches={','.join(f'rack-{r}' for r in sorted(racks))}")
    return "\n".join(lines) + "\n"


def _accounts(world: SharingWorld, accounts: Sequence[str], preempts: bool) -> str:
    lines = ["#!/bin/sh", "# A QOS whose limit is the lease, and an account for each app, all with the same share."]
    lines += ["set -eu", f"sacctmgr -i add qos {QOS}"]
    if preempts and lease_time(world) != "UNLIMITED":
        lines.append(f"sacctmgr -i modify qos {QOS} set MaxWall={lease_time(world)}")
    lines.append(f"sacctmgr -i add account {PARENT} Fairshare=1 DefaultQOS={QOS} QOS={QOS}")
    for account, app in zip(accounts, world.apps, strict=True):
        most = min(app.max_gpus, world.cluster.n_gpus)  # what it can use: the app's demand
        lines.append(f"sacctmgr -i add account {account} Parent={PARENT} Fairshare=1 GrpTRES=gres/gpu={most}")
    return "\n".join(lines) + "\n"


def _job(world: SharingWorld, account: str, preempts: bool) -> str:
    tasks = min(world.apps[0].jobs[0].gpus, world.cluster.n_gpus)  # a job of more would wait for ever
    lines = [
        "#!/bin/sh",
        f"#SBATCH --partition={PARTITION}",
        f"#SBATCH --account={account}",
        f"#SBATCH --qos={QOS}",
        f"#SBATCH --ntasks={tasks}",
        "#SBATCH --gpus-per-task=1",
        "#SBATCH --switches=1",  # as near as can be had
        "#SBATCH --requeue",
    ]
    if preempts:
        lines += [
            f"#SBATCH --time={lease_time(world)}",
            f"#SBATCH --signal=B:USR1@{SIGNAL_S}",
            "# When the lease is nearly over: save, and stand in line again.",
            'trap \'kill -USR1 "$step"; wait "$step"; scontrol requeue "$SLURM_JOB_ID"\' USR1',
        ]
    lines += ["srun python train.py --resume checkpoint &", "step=$!", 'wait "$step"']
    return "\n".join(lines) + "\n"


def _decision(accounts: Sequence[str], held: Sequence[Holding]) -> str:
    """A limit for each account: the GPUs that it holds. Reservations hold nodes and cores, and GPUs in no version for
    sure: which machines they are on is a comment, for `sbatch --nodelist`."""
    given = {h.app: h for h in held}
    lines = ["#!/bin/sh", "# What was decided, as limits of accounts.", "set -eu"]
    for number, account in enumerate(accounts):
        gpus = len(given[number].gpus) if number in given else 0
        where = ",".join(f"machine-{m}" for m in given[number].machines) if gpus else "nowhere"
        lines.append(f"sacctmgr -i modify account {account} set GrpTRES=gres/gpu={gpus}  # {where}")
    return "\n".join(lines) + "\n"
