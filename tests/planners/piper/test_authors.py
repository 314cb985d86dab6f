"""Piper's own planner on its own JSON: brute force over lines of stages, the authors' rule for options, bad files."""

import itertools
import json

import numpy as np
import pytest
from loops import lines
from meshwright.errors import InfeasibleError, InputError, LimitError
from meshwright.planners.graphpipe import PiperInstance, PiperStage, piper_partition, piper_value
from meshwright.seeds import generator


def option(name, seconds, weights, a, b, into, out):
    return {
        "id": name, "timePerSample": seconds, "parameterSize": weights, "memoryUsageA": a, "memoryUsageB": b,
        "syncTimeFw": into, "syncTimeBw": out,
    }  # fmt: skip


def drawn(rng, n, edges, *, tensor=(1, 2), recompute=True, microbatches=4, activations=2e7):
    """An instance by hand: nodes 10, 11, …; with t devices a node takes a bit more than 1/t of its time."""
    names = [10 + k for k in range(n)]
    nodes = []
    for k in range(n):
        time, weights = float(rng.uniform(0.01, 0.1)), float(rng.uniform(1e6, 5e7))
        a, b = float(rng.uniform(0.05, 1) * activations), 2 * weights
        into, out = [names[x] for x, y in edges if y == k], [names[y] for x, y in edges if x == k]
        options = {}
        for t in tensor:
            sync = 0.0 if t == 1 else float(rng.uniform(1e5, 1e6))
            sides = {str(x): sync for x in into}, {str(x): sync for x in out}
            options[str(t)] = [option("vanilla", 1.1 * time / t, weights / t, a / t, b / t, *sides)]
            if recompute:
                more = option("activation recomp", 1.4 * time / t, weights / t, a / t / 8, b / t + a / t, *sides)
                options[str(t)].append(more)
        nodes.append({"id": names[k], "name": "Layer", "TMPCs": options})
    return {
        "maxMemoryPerDevice": 3e8, "maxDevices": 4, "bandwidth": 1e9, "mbsInBatch": microbatches, "nodes": nodes,
        "edges": [
            {"sourceId": names[a], "destId": names[b], "communicationCost": float(rng.uniform(1e5, 5e6))}
            for a, b in edges
        ],
    }  # fmt: skip


def read(data):
    return PiperInstance.parse(json.dumps(data))


def every_stage(instance, nodes, t, choose):
    """Stages of these nodes on t devices, one for each way to give them options."""
    options = [instance.nodes[v].options.get(t, ()) for v in nodes]
    for picked in choose(instance, nodes, options):
        yield tuple(instance.nodes[v].number for v in nodes), tuple(o.name for o in picked)


def brute(instance, edges, memory, choose):
    """The least TPS over lines of stages, t, d and what `choose` allows, all by the paper's formula."""
    degrees = [d for d in range(1, instance.devices + 1) if instance.microbatches % d == 0]
    tensor = sorted({t for node in instance.nodes for t in node.options})
    best = np.inf
    for line in lines(len(instance.nodes), edges):
        for shape in itertools.product([(t, d) for t in tensor for d in degrees], repeat=len(line)):
            if sum(t * d for t, d in shape) > instance.devices or sum(d for _, d in shape) > instance.microbatches:
                continue
            ways, left = [], sum(d for _, d in shape)
            for nodes, (t, d) in zip(line, shape, strict=True):
                y = -(-left // d)
                ways.append([
                    PiperStage(numbers, t, d, names)
                    for numbers, names in every_stage(instance, nodes, t, lambda *a, y=y: choose(*a, y, memory, edges))
                ])  # fmt: skip
                left -= d
            for stages in itertools.product(*ways):
                best = min(best, value(instance, stages, memory))
    return best


def value(instance, stages, memory):
    return piper_value(
        instance, stages, microbatches=instance.microbatches, memory_bytes=memory, bandwidth=instance.bandwidth
    )


def anything(_instance, _nodes, options, _y, _memory, _edges):
    return itertools.product(*options)


def the_authors_rule(instance, nodes, options, y, memory, edges):
    """All fastest, or as few changes to the other option as memory wants: least seconds per byte first; and what is
    chosen for more microbatches in flight may be kept for fewer."""
    inside = {instance.nodes[v].number for v in nodes}

    def cost(v, o):
        number, moved = instance.nodes[v].number, 0.0
        for a, b, c in instance.edges:
            if a == number and b not in inside:
                moved += 2 * (c + o.sync_backward[b])
            if b == number and a not in inside:
                moved += 2 * (c + o.sync_forward[a])
        return o.seconds + moved / instance.bandwidth

    for more in range(y, instance.devices + 1):
        picked = [min(each, key=lambda o, v=v: cost(v, o)) for v, each in zip(nodes, options, strict=True)]
        used = sum(o.memory_a * more + o.memory_b for o in picked)
        swaps = []
        for i, (v, each) in enumerate(zip(nodes, options, strict=True)):
            for o in each:
                saved = (picked[i].memory_a - o.memory_a) * more + picked[i].memory_b - o.memory_b
                if saved > 1e-9:
                    swaps.append(((cost(v, o) - cost(v, picked[i])) / saved, i, saved, o))
        for _, i, saved, o in sorted(swaps, key=lambda s: s[:2]):
            if used <= memory:
                break
            used, picked[i] = used - saved, o
        if used <= memory:
            yield tuple(picked)


GRAPHS = {
    "chain": (4, [(0, 1), (1, 2), (2, 3)]),
    "diamond": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "two ends": (4, [(0, 2), (1, 2), (1, 3)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_without_options_it_is_brute_force(name):
    n, edges = GRAPHS[name]
    seen = set()
    for trial in range(3):
        instance = read(drawn(generator(trial, name), n, edges, recompute=False))
        for memory in (1.2e8, 2e8, 1e9):
            expected = brute(instance, edges, memory, anything)
            seen.add(np.isinf(expected))
            if np.isinf(expected):
                with pytest.raises(InfeasibleError, match="nothing fits"):
                    piper_partition(instance, memory_bytes=memory)
                continue
            found = piper_partition(instance, memory_bytes=memory)
            assert found.seconds == pytest.approx(expected, rel=1e-9)
            assert value(instance, found.stages, memory) == pytest.approx(found.seconds, rel=1e-12)
            assert found.devices <= instance.devices
    assert False in seen


@pytest.mark.parametrize("name", ["chain", "diamond"])
def test_with_options_it_is_the_authors_rule(name):
    n, edges = GRAPHS[name]
    recomputed = 0
    for trial in range(2):
        instance = read(drawn(generator(trial, f"options {name}"), n, edges, tensor=(1,), activations=2e8))
        for memory in (2e8, 3e8):
            expected = brute(instance, edges, memory, the_authors_rule)
            if np.isinf(expected):
                with pytest.raises(InfeasibleError):
                    piper_partition(instance, memory_bytes=memory)
                continue
            found = piper_partition(instance, memory_bytes=memory)
            assert found.seconds == pytest.approx(expected, rel=1e-9)
            assert value(instance, found.stages, memory) == pytest.approx(found.seconds, rel=1e-12)
            assert found.seconds >= brute(instance, edges, memory, anything) * (1 - 1e-12)
            recomputed += sum(o != "vanilla" for s in found.stages for o in s.options)
    assert recomputed


def test_what_is_forbidden_is_not_used_and_never_faster():
    n, edges = GRAPHS["diamond"]
    instance = read(drawn(generator(5, "forbid"), n, edges, microbatches=8))
    free = piper_partition(instance, devices=8)
    for kept, rule in (
        ({"data_parallel": False}, lambda s: s.data_parallel == 1),
        ({"tensor_parallel": False}, lambda s: s.tensor_parallel == 1),
        ({"recompute": "never"}, lambda s: set(s.options) == {"vanilla"}),
        ({"recompute": "always"}, lambda s: set(s.options) == {"activation recomp"}),
    ):
        found = piper_partition(instance, devices=8, memory_bytes=1e9, **kept)
        assert all(map(rule, found.stages))
        assert found.seconds >= piper_partition(instance, devices=8, memory_bytes=1e9).seconds * (1 - 1e-12)
    assert free.downsets == 6  # of a diamond


def test_fewer_stages_in_flight_take_less_memory():
    """s is a sum of replicas: the first stage holds ⌈s/d⌉ microbatches, the last one."""
    instance = read(drawn(generator(2, "flight"), 2, [(0, 1)], tensor=(1,), recompute=False, microbatches=2))
    first, second = (node.options[1][0] for node in instance.nodes)
    line = [PiperStage((10,), 1, 1, ("vanilla",)), PiperStage((11,), 1, 1, ("vanilla",))]
    least = max(2 * first.memory_a + first.memory_b, second.memory_a + second.memory_b)
    assert np.isfinite(value(instance, line, least))
    assert np.isinf(value(instance, line, least * 0.999))


def test_too_many_downsets_are_refused():
    edges = [(0, k) for k in range(1, 8)]
    instance = read(drawn(generator(1, "many"), 8, edges, tensor=(1,), recompute=False))
    with pytest.raises(LimitError, match=r"has 129 downsets.*our limit of 100 .*-o max_downsets=129"):
        piper_partition(instance, max_downsets=100)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("nodes"), "nodes is missing"),
        (lambda d: d.update(bandwidth=0), "bandwidth: expected a number above 0"),
        (lambda d: d.update(mbsInBatch=1.5), "mbsInBatch: expected a whole number"),
        (lambda d: d["nodes"].append(d["nodes"][0]), "id 10 is there twice"),
        (lambda d: d["edges"].append({"sourceId": 10, "destId": 99, "communicationCost": 1}), "there is no node 99"),
        (lambda d: d["edges"].append(d["edges"][0]), "the edge 10 -> 11 is there twice"),
        (lambda d: d["edges"].append({"sourceId": 11, "destId": 10, "communicationCost": 1}), "syncTimeFw"),
        (lambda d: d["nodes"][0]["TMPCs"]["1"][0].update(syncTimeBw={}), r"syncTimeBw: expected the nodes \[11\]"),
        (
            lambda d: d["nodes"][0]["TMPCs"]["1"][0].update(memoryUsageA=-1),
            "memoryUsageA: expected a number at least 0",
        ),
        (lambda d: d["nodes"][0]["TMPCs"]["1"].append(d["nodes"][0]["TMPCs"]["1"][0]), "at most 2 options"),
        (lambda d: d["nodes"][0].update(TMPCs={"none": []}), "expected numbers of devices"),
        (lambda d: d["nodes"][0].update(TMPCs={}), "at least one option"),
    ],
)
def test_bad_instances_are_one_line(change, said):
    data = drawn(generator(1, "bad"), 2, [(0, 1)])
    change(data)
    with pytest.raises(InputError, match=said) as error:
        PiperInstance.parse(json.dumps(data), "it.json")
    assert str(error.value).startswith("it.json")
    assert "\n" not in str(error.value)


def test_files_and_cycles(tmp_path):
    data = drawn(generator(1, "file"), 2, [(0, 1)])
    path = tmp_path / "it.json"
    path.write_text(json.dumps(data))
    assert PiperInstance.load(path) == read(data)
    data["maxBatchSize"] = data.pop("mbsInBatch")  # as the authors' README has it
    assert read(data) == PiperInstance.load(path)
    with pytest.raises(InputError, match="cannot read"):
        PiperInstance.load(tmp_path / "none.json")
    with pytest.raises(InputError, match="not JSON"):
        PiperInstance.parse("{")
    with pytest.raises(InputError, match=r"nodes 10, 11 wait for each other in a circle"):
        read(drawn(generator(1, "circle"), 2, [(0, 1), (1, 0)]))
    with pytest.raises(InputError, match="recompute: expected"):
        piper_partition(PiperInstance.load(path), recompute="sometimes")
