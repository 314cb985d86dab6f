"""`export_sharing`: the files that set up a sharing policy elsewhere."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .... import __version__
from ....errors import InputError, install_hint
from ....simulator.sharing import Policy, SharingWorld, simulate
from ....wording import nearest
from ...sharing.documents import to_text
from ..options import DNS_LABEL
from ..tree import File, compact, write_tree
from .fit import Fit, fit_of
from .holdings import Holding, holdings_at
from .kueue import kueue
from .plugin import plugin
from .slurm import slurm

__all__ = ["TARGETS", "export_sharing"]

TARGETS = ("kueue", "slurm", "scheduler-plugin")
"""What a policy can be written for."""

WORDS = {
    "partly": "These settings order apps as {policy} does. What is otherwise:",
    "no": "**These settings are not {policy}**: {system} cannot express it. They are the nearest that there is, and "
    "`plugin/` holds a scheduler extender that runs the policy itself. What is otherwise without it:",
}
NEXT = {
    "kueue": "1. `sh node-labels.sh` tells Kubernetes the racks; put your nodes' names in.\n"
    "2. Put `kueue-config.yaml` into Kueue's own configuration, and restart its controller.\n"
    "3. `kubectl apply -f namespace.yaml -f queues.yaml`; `job.yaml` shows what a job says.\n",
    "slurm": "1. Include `slurm.conf.part` in slurm.conf; gres.conf and topology.conf stand beside it.\n"
    "2. `sh accounts.sh` makes the accounts and the QOS; `accounts.json` says whose they are.\n"
    "3. `job.sh` shows what a job says.\n",
    "scheduler-plugin": "1. Write `estimates` in `extender.py`: what each app's agent says of itself.\n"
    "2. `python extender.py arbiter.json` in the pod of a second kube-scheduler with `--config scheduler.yaml`.\n\n"
    "Or let agents say it over HTTP: `python -m meshwright.runtime.sharing extend arbiter.json` answers\n"
    f"kube-scheduler in extender.py's place ({install_hint('serve')};\n"
    "docs/sharing-run.md lists what agents send).\n",
}
DECIDED = {
    "kueue": "Apply it after `queues.yaml`: each app's jobs wait in a ClusterQueue of its own, with just those GPUs.",
    "slurm": "Run it after `accounts.sh`: each account may use so many GPUs and no more.",
}


def export_sharing(
    world: SharingWorld, policy: Policy, to: str, out: str | Path, *, force: bool = False,
    namespace: str = "meshwright", at_s: float | None = None,
) -> list[Path]:  # fmt: skip
    """Write the files that set up a policy on another system, and a README.md that says what of it they keep.

    Parameters
    ----------
    world : SharingWorld
        The cluster and its apps; an app becomes a queue, or an account.
    policy : Policy
        Who gets GPUs.
    to : {"kueue", "slurm", "scheduler-plugin"}
        For what.
    out : path
        Folder to write to: new, empty, or an earlier export's.
    force : bool
        Write although `out` holds other files.
    namespace : str
        Kubernetes namespace.
    at_s : float, optional
        Also write what is decided at this instant of a simulation, as limits of queues or accounts.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        On an unknown target, a world without apps or with two of one name, an instant when nobody holds GPUs, or a
        folder with other files. Nothing is written then.
    """
    if to not in TARGETS:
        near = nearest(str(to), TARGETS)
        hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(TARGETS)}"
        raise InputError(f"export: unknown target {to!r} of a shared cluster; {hint}")
    if not re.fullmatch(DNS_LABEL, namespace):
        raise InputError(
            f"export: namespace: expected lower-case letters, digits and '-', up to 63 (got {namespace!r})"
        )
    if not world.apps:
        raise InputError("export: the world has no apps; an app becomes a queue or an account")
    names = Counter(app.name for app in world.apps)
    if twice := [name for name, times in names.items() if times > 1]:
        raise InputError(f"export: two apps are called {twice[0]!r}; a queue or an account is made by name")
    held: Sequence[Holding] = ()
    if at_s is not None:
        if to == "scheduler-plugin":
            raise InputError("export: at: the plugin decides by itself; leave it out, or export to kueue or slurm")
        held = holdings_at(simulate(world, policy, engine="simpy"), at_s)
    if to == "scheduler-plugin":
        files = plugin(world, policy)
        files["README.md"] = File(_plugin_readme(policy.name))
    else:
        together = world.lease_ends == "together"
        fit = fit_of(to, policy.name, policy.preempts, world.lease_s, together=together)
        files = kueue(world, fit, namespace, held) if to == "kueue" else slurm(world, fit, policy.preempts, held)
        if fit.kept == "no":
            files |= {f"plugin/{name}": file for name, file in plugin(world, policy).items()}
        files["README.md"] = File(_readme(world, to, policy.name, fit, held, at_s))
    digest = hashlib.sha256(to_text(world).encode()).hexdigest()
    about = {"target": to, "policy": policy.name, "meshwright": __version__, "world_sha256": digest}
    return write_tree(files, out, about, force)


def _readme(
    world: SharingWorld, to: str, policy: str, fit: Fit, held: Sequence[Holding], at_s: float | None
) -> str:  # fmt: skip
    system = to.capitalize()
    lines = [f"# {policy} on {system}", "", WORDS[fit.kept].format(policy=policy, system=system), ""]
    lines += [f"- {sentence}" for sentence in fit.differences]
    lines += ["", "## To begin", "", NEXT[to].rstrip("\n")]
    if held:
        name = "decision.yaml" if to == "kueue" else "decision.sh"
        lines += ["", "## The decision", ""]
        lines.append(f"`{name}` holds what {policy} decided by {at_s:g} s of the simulation: how many GPUs, not which.")
        lines += [DECIDED[to], ""]
        for h in held:
            app = compact(world.apps[h.app].name)  # on one line, whatever it is called
            lines.append(f"- app {app}: {len(h.gpus)} GPUs on machines {', '.join(map(str, h.machines))}")
    if fit.kept == "no":
        lines += ["", "## The plugin", "", NEXT["scheduler-plugin"].rstrip("\n"), "", *_STUB]
    return "\n".join(lines) + "\n"


_STUB = (
    "It is a stub, and lacks four things that only your cluster can say:",
    "",
    "- `estimates`: the agents. Until it is written every decision raises NotImplementedError. With\n"
    "  `extend arbiter.json --views-only` agents report to a service, and `extender.py arbiter.json URL` asks it.",
    "- Eviction: when a lease is over `Arbiter.lapsed` names the pods; who deletes them, and has them save, is yours.",
    "- Ends: when a pod or an app is done, `Arbiter.used.pop(pod)` or `Arbiter.leave(app)`; nobody else tells it.",
    "- Which GPU of a node a pod gets: Kubernetes' device plugin chooses, the extender counts.",
)


def _plugin_readme(policy: str) -> str:
    lines = [f"# {policy} as a scheduler extender", "", NEXT["scheduler-plugin"].rstrip("\n"), "", *_STUB]
    return "\n".join(lines) + "\n"
