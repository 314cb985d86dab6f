"""PipeDream's and Piper's own planners against their published loops, re-implemented, in one run; only printed."""

import json
import time
from itertools import pairwise

import numba
import numpy as np
from loops import table
from meshwright.planners.graphpipe import (
    PipeDreamProfile,
    PiperInstance,
    pipedream,
    pipedream_partition,
    piper,
    piper_partition,
)
from meshwright.planners.pipedream.kernel import level_table
from meshwright.planners.pipedream.states import antichain_states
from meshwright.profiles.graph import zoo_graph
from meshwright.seeds import generator
from meshwright.simulator.cluster import Cluster


def fastest(call, times=3):
    best = np.inf
    for _ in range(times):
        begin = time.thread_time()
        call()
        best = min(best, time.thread_time() - begin)
    return best


def two_branches(first, second):
    """A profile with (first + 1) · (second + 1) + 1 states, about."""
    rng = generator(1, "two branches")
    names = ["s", *(f"a{i}" for i in range(first)), *(f"b{i}" for i in range(second)), "j"]
    lines = [
        f"{name} -- Linear -- forward_compute_time={t:.3f}, backward_compute_time={2 * t:.3f}, "
        f"activation_size={a:.0f}, parameter_size={w:.0f}"
        for name, t, a, w in zip(
            names, rng.uniform(1, 30, len(names)), rng.uniform(1e5, 1e8, len(names)),
            rng.uniform(0, 1e8, len(names)), strict=True,
        )
    ]  # fmt: skip
    for letter, n in (("a", first), ("b", second)):
        chain = ["s", *(f"{letter}{i}" for i in range(n)), "j"]
        lines += [f"\t{x} -- {y}" for x, y in pairwise(chain)]
    return PipeDreamProfile.parse("\n".join(lines))


def test_pipedream_against_plain_loops():
    states = antichain_states(two_branches(5, 6))
    n, machines = len(states.compute_s), 8
    earlier = np.concatenate([[0.0], states.compute_s[:-1]])
    upper = np.triu(np.ones((n, n), bool))
    stage_s = np.where(upper, states.compute_s - earlier[:, None], np.inf)
    given = (states.activation_bytes, states.parameter_bytes, states.output_bytes, states.before, np.ones((n, n), bool))

    def ours():
        return level_table(n, stage_s, *given, machines, 1e9, 1.0, np.inf, 0.0, False, False, True)[0]

    plain = [[None if np.isinf(x) else x for x in row] for row in stage_s]
    lists = [x.tolist() for x in given]
    ours()
    begin = time.thread_time()
    theirs = table(n, plain, *lists, machines, 1e9, 1.0, np.inf, 0.0, False, True)
    loops = time.thread_time() - begin
    want = np.array([[[np.inf if x is None else x for x in cell] for cell in row] for row in theirs])
    np.testing.assert_allclose(ours()[upper], want[upper])
    mine = fastest(ours)
    print(
        f"\nPipeDream, {n} states, {machines} machines, all rows: plain Python loops take {loops / mine:,.0f} times as "
        "long"
    )
    large = two_branches(37, 38)
    whole = fastest(lambda: pipedream_partition(large, machines=(16,), bandwidths=(1e9,), compat=True))
    found = pipedream_partition(large, machines=(16,), bandwidths=(1e9,), compat=True)
    print(f"{found.states:,} states on 16 machines: {whole:.2f} s (the authors' on 1,490 states: 248 s)")


def bert(layers=32):
    """A chain of equal layers whose times and bytes are BERT's, as Piper's instance has it, to three digits."""
    rows = {1: (30.5, 40.7, 177, 606, 354, 48.2, 912), 2: (18.7, 24.9, 88.5, 342, 177, 48.2, 470)}
    rows |= {4: (11.9, 15.6, 44.3, 209, 88.5, 48.2, 249), 8: (9.4, 12.1, 22.1, 143, 44.3, 48.2, 139)}
    nodes = []
    for k in range(layers):
        options = {}
        for t, (fast, slow, w, a, b, a2, b2) in rows.items():
            sync = 0.0 if t == 1 else 31.5e6
            sides = ({str(k - 1): sync} if k else {}), ({str(k + 1): sync} if k + 1 < layers else {})
            options[t] = [
                {"id": name, "timePerSample": time_ms / 1e3, "parameterSize": w * 1e6, "memoryUsageA": x * 1e6,
                 "memoryUsageB": y * 1e6, "syncTimeFw": sides[0], "syncTimeBw": sides[1]}
                for name, time_ms, x, y in (("vanilla", fast, a, b), ("activation recomp", slow, a2, b2))
            ]  # fmt: skip
        nodes.append({"id": k, "TMPCs": options})
    edges = [{"sourceId": k, "destId": k + 1, "communicationCost": 31.5e6} for k in range(layers - 1)]
    data = {"maxMemoryPerDevice": 8 * 2**30, "maxDevices": 64, "bandwidth": 25 * 2**30, "mbsInBatch": 1920}
    return PiperInstance.parse(json.dumps(data | {"nodes": nodes, "edges": edges}))


@numba.njit
def published(n, tps, tensor, degrees, devices, bound):
    """dp[layers from the end][devices][sum of degrees] over a chain; tps[first, last, t, d, s], from stage times."""
    best = np.full((n + 1, devices + 1, bound + 1), np.inf)
    best[0] = 0.0
    for high in range(1, n + 1):
        for low in range(high):
            for t in range(len(tensor)):
                for g in range(len(degrees)):
                    d = degrees[g]
                    cost = tensor[t] * d
                    for k in range(cost, devices + 1):
                        for s in range(d, bound + 1):
                            value = max(best[low, k - cost, s - d], tps[high, low, t, g, s])
                            best[high, k, s] = min(best[high, k, s], value)
        for k in range(1, devices + 1):  # so many devices and degrees at most
            for s in range(1, bound + 1):
                best[high, k, s] = min(best[high, k, s], best[high, k - 1, s], best[high, k, s - 1])
    return best[n, devices, bound]


def test_piper_against_its_table():
    instance = bert(16)
    devices = 128
    mine = fastest(lambda: piper_partition(instance, devices=devices))
    found = piper_partition(instance, devices=devices)
    tps, tensor, degrees = stage_times(instance, devices)
    value = published(16, tps, tensor, degrees, devices, devices)
    np.testing.assert_allclose(value, found.seconds, rtol=1e-9)
    theirs = fastest(lambda: published(16, tps, tensor, degrees, devices, devices))
    print(
        f"\nPiper, 16 layers, {devices} devices: the published table alone, compiled, takes {theirs / mine:.1f} times "
        f"as long ({theirs:.3f} s against {mine:.3f} s with prices and all)"
    )
    whole = bert(32)
    for devices in (8, 64, 512):
        print(f"32 layers, {devices} devices: {fastest(lambda n=devices: piper_partition(whole, devices=n)):.3f} s "
              "(the authors': 0.3 to 17 s)")  # fmt: skip


def stage_times(instance, devices):
    """TPS of every run of layers by the paper's formula, options by the authors' rule: [upto, from, t, d, s]."""
    n, batch = len(instance.nodes), instance.microbatches
    tensor = np.array(sorted(instance.nodes[0].options))
    degrees = np.array([d for d in range(1, devices + 1) if batch % d == 0])
    tps = np.full((n + 1, n, len(tensor), len(degrees), devices + 1), np.inf)
    for high in range(1, n + 1):
        for low in range(high):
            count, ends = high - low, (high < n) + (low > 0)
            for i, t in enumerate(tensor.tolist()):
                fast, slow = instance.nodes[1].options[t]
                moved = ends * 2 * (instance.edges[0][2] + (0 if t == 1 else 31.5e6)) / instance.bandwidth
                for g, d in enumerate(degrees.tolist()):
                    reduce = 4 * (d - 1) * count * fast.parameter_bytes / d / batch / instance.bandwidth
                    for s in range(1, devices + 1):
                        y = -(-s // d)
                        for changed in range(count + 1):  # all layers are alike
                            used = (count - changed) * (fast.memory_a * y + fast.memory_b)
                            if used + changed * (slow.memory_a * y + slow.memory_b) <= instance.memory_bytes:
                                busy = (count - changed) * fast.seconds + changed * slow.seconds
                                tps[high, low, i, g, s] = (moved + busy) / d + reduce
                                break
    return tps, tensor, degrees


def test_on_our_costs():
    """Table 3.1 for MMT: the paper's PipeDream and Piper took 2.57 to 151 s, and 52.9 to 745 s (M1 Max)."""
    graph = zoo_graph("mmt")
    paper = {4: (2.57, 52.9), 8: (11.9, 126), 16: (44.3, 304), 32: (151, 745)}
    print()
    for n, (chain, lines) in paper.items():
        cluster = Cluster(n // 4, 4)
        for planner, theirs in ((pipedream, chain), (piper, lines)):
            planner(graph, cluster, global_batch=16 * n)
            seconds = fastest(lambda f=planner, c=cluster, b=16 * n: f(graph, c, global_batch=b), 1)
            print(
                f"{planner.__name__}, MMT, {n} devices: {seconds:.2f} s ({theirs / seconds:.0f}x less than the paper's)"
            )
