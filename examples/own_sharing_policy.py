"""A sharing policy of your own: no app is spread over racks. Beside Tiresias, which takes the nearest that are free.

A policy is an object with a name, whether its grants are leased, and one method; it has no clock. The very same object
decides in the simulator and, by `meshwright.runtime.sharing.run_sharing`, over real training processes.

Run: ``python examples/own_sharing_policy.py`` (some seconds)
"""

from collections.abc import Mapping, Sequence

from meshwright.simulator.sharing import (
    AppView,
    SharedCluster,
    SharingResult,
    SharingWorld,
    WorkloadOptions,
    baseline,
    sharing_metrics,
    simulate,
    workload2,
)


class OneRack:
    """The app with the least GPU time so far takes what it can use, all of it in one rack."""

    name = "one-rack"
    preempts = True

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """Give GPUs on offer to apps: GPU -> number of the app."""
        free, given = set(offered), dict[int, int]()
        for view in sorted(apps, key=lambda v: (v.attained_s, v.index)):
            racks: dict[int, list[int]] = {}
            for gpu in sorted(free, key=lambda g: (g not in view.lapsed, g)):  # those that it had come first
                racks.setdefault(int(cluster.rack_of[gpu]), []).append(gpu)
            if view.held:  # it goes on where it is
                racks = {rack: gpus for rack, gpus in racks.items() if rack == cluster.rack_of[view.held[0]]}
            mine = max(racks.values(), key=len, default=[])[: view.wanted]
            if len(view.held) + len(mine) >= view.gang:
                given |= dict.fromkeys(mine, view.index)
                free.difference_update(mine)
        return given


def world() -> SharingWorld:
    """Apps of models that suffer from distance, on two racks of two machines of four GPUs."""
    options = WorkloadOptions(seed=1, apps=8, span_s=4 * 3600.0, scale=1 / 100, network_intensive=1.0)
    cluster = SharedCluster.uniform(4, 4, machines_per_rack=2)
    return SharingWorld(cluster, workload2(options), lease_s=600.0, checkpoint_s=0.3, container_s=1.5)


def compared() -> list[SharingResult]:
    """Both policies on the same apps."""
    return [simulate(world(), policy, engine="simpy") for policy in (OneRack(), baseline("tiresias"))]


if __name__ == "__main__":
    for result in compared():
        found = sharing_metrics(result)
        print(
            f"{result.policy}: max rho {found.max_rho:.2f}, {found.gpu_hours:.0f} GPU hours, "
            f"mean placement score {found.placement:.3f}"
        )
