"""Stage costs: sets and ranges agree with sums by hand; seconds per sample fall with the samples of a device."""

from itertools import pairwise

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.graphpipe import StageCosts
from meshwright.profiles.graph import differentiable, parameter_bytes, roofline, zoo_graph
from meshwright.profiles.graph.memory import saved, state_bytes
from meshwright.seeds import generator
from meshwright.simulator.cluster import Cluster

CLUSTER = Cluster(2, 4, "v100-16gb")


@pytest.fixture(scope="module", params=["tiny-gpt", "tiny-moe", "tiny-resnet"])
def costs(request):
    return StageCosts.of(
        zoo_graph(request.param), CLUSTER, global_batch=16, microbatches=(1, 2, 4, 8), devices=(1, 2, 4, 8)
    )


def by_hand(costs, inside):
    """Costs of a set of operators, value by value."""
    graph = costs.graph
    ops = [op for i, op in enumerate(graph.operators) if i in inside]
    names = {op.name for op in ops}
    reached = differentiable(graph)
    tensors = {x.name: x for x in graph.parameters}
    state = gradient = 0.0
    for name in {n for op in ops for n in op.inputs} & set(tensors):
        t = tensors[name]
        if name in reached:
            parts = parameter_bytes(t.dtype, "adam", t.shape)
            state, gradient = state + t.elements * sum(parts), gradient + t.elements * parts[1]
        else:
            state += t.bytes
    kept = {n for i in inside if graph.operators[i].name in reached for n in saved(graph, range(i, i + 1))}
    read = {n for op in ops for n in op.inputs if n in graph.index} - names
    sent = {op.name for op in ops if any(i not in inside for i, _ in graph.consumers[op.name])}

    def size(found):
        return sum(graph.bytes_of(n) for n in found) / graph.batch

    return {
        "state_bytes": state, "gradient_bytes": gradient, "activation_bytes": size(kept), "received_bytes": size(read),
        "sent_bytes": size(sent), "returned_bytes": size(read & reached),
    }  # fmt: skip


def test_sets_are_counted_value_by_value(costs):
    rng = generator(3, "sets")
    masks = rng.random((12, costs.n_units)) < rng.uniform(0.1, 0.9, (12, 1))
    found = costs.of_sets(masks)
    for row, mask in enumerate(masks):
        for name, value in by_hand(costs, set(np.flatnonzero(mask).tolist())).items():
            assert getattr(found, name)[row] == pytest.approx(value), name


def test_ranges_are_sets(costs):
    n = costs.n_units
    for order in (np.arange(n), generator(5, "order").permutation(n) if n < 40 else np.arange(n)):
        ranges = costs.of_ranges(order)
        pairs = [(i, j) for i in range(0, n, 5) for j in range(i, n, 3)]
        masks = np.zeros((len(pairs), n), bool)
        for row, (i, j) in enumerate(pairs):
            masks[row, order[i : j + 1]] = True
        sets = costs.of_sets(masks)
        for name in sets.__dataclass_fields__:
            if name in ("sent_bytes", "received_bytes", "returned_bytes") and order[0] != 0:
                continue  # what a run receives is defined for topological orders
            got = np.array([getattr(ranges, name)[i, j] for i, j in pairs])
            np.testing.assert_allclose(got, getattr(sets, name), rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_whole_graph_is_the_models_state(costs):
    whole = costs.of_sets(np.ones((1, costs.n_units), bool))
    assert whole.state_bytes[0] == pytest.approx(state_bytes(costs.graph), rel=1e-6)
    assert whole.sent_bytes[0] == whole.received_bytes[0] == 0.0


def test_time_per_sample_is_its_formula():
    graph = zoo_graph("gpt3-350m")
    costs = StageCosts.of(graph, CLUSTER, global_batch=32, microbatches=(4, 8), devices=(1, 2, 4, 8))
    n = costs.n_units
    ranges = costs.of_ranges()
    model = roofline(CLUSTER.spec)
    op_s = np.cumsum([model.times(op, {}).total_s for op in graph.with_batch(2).operators])
    i, j = 50, n // 2
    update = ranges.update_bytes[i, j] / CLUSTER.spec.memory_bandwidth_bytes_per_s
    gradient = ranges.gradient_bytes[i, j]
    ring = 2 * 3 * 10e-6 + 2 * 3 / 4 * gradient / 150e9  # four devices of a node
    sent = sum(x[i, j] * 8 / 3.1e9 + 30e-6 for x in (ranges.sent_bytes, ranges.returned_bytes))  # one adapter
    expected = (op_s[j] - op_s[i - 1] + sent) / 8 + (ring + update) / 32
    assert costs.tps(ranges, 8, 4)[i, j] == pytest.approx(expected)
    assert np.isinf(costs.tps(ranges, 4, 8)).all()  # eight devices have no half sample each


def test_fewer_samples_on_a_device_take_longer_each():
    """The V100's waves and tiles: a product of few rows takes as long as one of many."""
    costs = StageCosts.of(
        zoo_graph("gpt3-350m"), CLUSTER, global_batch=32, microbatches=(1, 2, 4, 8, 16, 32), devices=(1,)
    )
    whole = costs.of_sets(np.ones((1, costs.n_units), bool))
    each = [float(costs.tps(whole, b, 1)[0]) for b in costs.microbatches]
    assert all(a > b for a, b in pairwise(each))


def test_memory_counts_samples_of_all_devices(costs):
    whole = costs.of_sets(np.ones((1, costs.n_units), bool))
    extra = costs.memory(whole, 4, 2, 8) - costs.memory(whole, 4, 2, 4)
    assert extra == pytest.approx(whole.activation_bytes * 4 / 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"microbatches": (3,)}, "3 samples do not divide the global batch of 16"),
        ({"microbatches": (1,), "devices": (2,)}, "divides a microbatch"),
        ({"global_batch": 0}, "global_batch: expected a positive integer"),
        ({"units": [[0, 1]]}, "expected each of"),
    ],
)
def test_bad_input_is_one_line(changes, said):
    asked = {"global_batch": 16, "microbatches": (4,), "devices": (1,)} | changes
    with pytest.raises(InputError, match=said):
        StageCosts.of(zoo_graph("tiny-gpt"), CLUSTER, **asked)
