"""Several device types in one plan: what it covers, what it costs, and what its file says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa import plan, plan_heterogeneous
from meshwright.profiles import DEVICES
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.hardware import LinkSpec
from meshwright.simulator import Cluster
from meshwright.simulator.cluster import JoinedClusters
from meshwright.simulator.topology import Level
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.simulate import simulate_training
from plain_prices import PlainPrices

V100, A100 = Cluster(1, 2, "v100-16gb"), Cluster(1, 2, "a100-40gb")


def made(clusters, *, microbatches=16, loss=0.5, **options):
    prices = [PlainPrices(c.device if isinstance(c.device, str) else "v100-16gb", loss=loss) for c in clusters]
    return plan_heterogeneous(
        zoo_graph("gpt3-350m"), clusters, global_batch=32, microbatches=microbatches, options={"n_layers": 8} | options,
        pricers=prices,
    )  # fmt: skip


def homogeneous(plan):
    """The same stages on the nodes of one cluster, which are as those of the clusters were."""
    data = json.loads(plan.to_json())
    nodes = [data["cluster"]["nodes"], *(c["nodes"] for c in data.pop("further_clusters"))]
    data["cluster"]["nodes"] = sum(nodes)
    for mesh in data["meshes"]:
        mesh["first_host"] += sum(nodes[: mesh.pop("cluster", 0)])
    return TrainingPlan.from_json(json.dumps(data))


def test_every_device_of_every_type_is_used():
    found = made([V100, A100])
    ids = [d for s in range(len(found.stages)) for d in found.mesh(s).device_ids]
    assert sorted(ids) == [0, 1, 2, 3]
    assert {found.mesh(s).cluster for s in range(len(found.stages))} == {V100, A100}
    assert [s.first for s in found.stages[1:]] == [s.last for s in found.stages[:-1]]
    assert found.stages[-1].last == len(zoo_graph("gpt3-350m").operators)
    assert found.clusters == (V100, A100)


def test_the_faster_type_gets_more_of_the_model():
    found = made([V100, A100])
    share = [sum(s.flops for s in found.stages if found.meshes[s.mesh].cluster == c) for c in (0, 1)]
    assert share[1] > 1.5 * share[0]  # 312 against 125 TFLOP/s
    assert found.predicted["seconds"] < made([V100, V100]).predicted["seconds"]


def test_one_cluster_in_two_halves_is_one_cluster():
    """Without transfers it does not matter where devices are, as long as no submesh spans both halves."""
    halves = made([V100, V100], recompute="none")
    whole = plan(
        zoo_graph("gpt3-350m"), Cluster(2, 2), global_batch=32, microbatches=16,
        options={"n_layers": 8, "recompute": "none"}, pricer=PlainPrices(loss=0.5),
    )  # fmt: skip
    assert halves.predicted["dp_seconds"] >= whole.predicted["dp_seconds"] * (1 - 1e-12)
    if all(m.hosts == 1 for m in whole.meshes):
        assert halves.predicted["dp_seconds"] == pytest.approx(whole.predicted["dp_seconds"], rel=1e-12)


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("overlap", [False, True])
def test_two_equal_clusters_are_simulated_as_one(engine, overlap):
    both = made([V100, V100], recompute="none", overlap=overlap)
    one = homogeneous(both)
    assert not one.further_clusters
    assert any(m.cluster for m in both.meshes)
    results = [simulate_training(p, engine=engine) for p in (both, one)]
    assert results[0].seconds == results[1].seconds
    assert (results[0].communication_s == results[1].communication_s).all()
    assert both.predicted["simulated_s"] == simulate_training(both).seconds
    assert both.predicted["seconds"] == pytest.approx(both.predicted["dp_seconds"], rel=1e-12)


def test_with_nothing_to_send_the_simulation_is_equation_2():
    """Links of 10^30 bytes/s and GPipe; with passes in one ratio on all stages both halves are flow shops."""
    free = LinkSpec(1e30, 0.0)
    fast = [
        Cluster(1, 2, replace(DEVICES[name], name=f"{name}, free", intra_node=free, inter_node=free))
        for name in ("v100-16gb", "a100-40gb")
    ]
    found = made(fast, loss=5.0, recompute="none", schedule="gpipe")
    assert [m.devices for m in found.meshes] == [1, 1, 1, 1]
    times = [s.forward_s + s.backward_input_s for s in found.stages]
    assert found.predicted["seconds"] == pytest.approx(sum(times) + 15 * max(times), rel=1e-12)
    even = [
        s.model_copy(update={"forward_s": t / 3, "backward_input_s": 2 * t / 3})
        for s, t in zip(found.stages, times, strict=True)
    ]
    result = simulate_training(found.model_copy(update={"stages": tuple(even)}))
    assert result.seconds == pytest.approx(found.predicted["seconds"], rel=1e-9)


def test_what_crosses_goes_at_the_slower_network():
    found = made([V100, A100])
    cross = next(
        t for t in found.transfers
        if found.meshes[found.stages[t.source].mesh].cluster != found.meshes[found.stages[t.target].mesh].cluster
    )  # fmt: skip
    link = simulate_training(found).links.links["forward", cross.source, cross.target]
    slow = min((c.spec.inter_node for c in (V100, A100)), key=lambda x: x.bandwidth_bytes_per_s)
    source, target = found.mesh(cross.source), found.mesh(cross.target)
    adapters = min(m.cluster.adapters(m.devices) for m in (source, target))
    assert link.seconds >= cross.bytes / (slow.bandwidth_bytes_per_s * adapters)
    assert {kind for kind, _ in link.resources} >= {"adapter out", "adapter in"}


def test_each_mesh_is_judged_by_its_own_memory():
    found = made([V100, A100])
    result = simulate_training(found)
    assert result.limit_bytes.tolist() == [found.mesh(s).cluster.spec.memory_bytes for s in range(len(found.stages))]
    assert result.fits
    # As much as only the larger device has, on each of them.
    grown = [s.model_copy(update={"state_bytes": 20 * 2**30}) for s in found.stages]
    larger = simulate_training(found.model_copy(update={"stages": tuple(grown)}))
    small = [m.cluster == 0 for m in found.meshes]
    assert (larger.peak_bytes > larger.limit_bytes).tolist() == small
    assert not larger.fits
    assert f"and has {16:.2f} GiB" in larger.explain()


def test_the_file_says_the_clusters_and_only_where_there_are_several(tmp_path):
    found = made([V100, A100])
    again = TrainingPlan.load(found.save(tmp_path / "plan.json"))
    assert again.to_json() == found.to_json()
    assert "v100-16gb + 1 node(s) x 2 a100-40gb" in again.explain()
    plain = homogeneous(made([V100, V100]))
    assert "further_clusters" not in plain.to_json()
    assert '"cluster": 0' not in plain.to_json()
    data = json.loads(found.to_json())
    data["meshes"][0]["cluster"] = 2
    with pytest.raises(InputError, match="there are 2 clusters"):
        TrainingPlan.from_json(json.dumps(data))


def test_joined_clusters_number_through():
    joined = JoinedClusters((Cluster(2, 2, "v100-16gb"), Cluster(1, 4, "a100-40gb")))
    assert [joined.node_of(d) for d in range(8)] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert joined.link(0, 1) == joined.clusters[0].spec.intra_node
    assert joined.link(4, 7) == joined.clusters[1].spec.intra_node
    assert (
        joined.link(3, 4)
        == joined.link(4, 3)
        == min((c.spec.inter_node for c in joined.clusters), key=lambda x: x.bandwidth_bytes_per_s)
    )
    first = [joined.adapter_of(d) for d in range(4)]
    assert min(joined.adapter_of(d) for d in range(4, 8)) == max(first) + 1
    with pytest.raises(InputError, match="levels"):
        JoinedClusters((Cluster(4, 2, levels=(Level(2),)), V100))


def test_microbatches_are_searched():
    found = made([V100, A100], microbatches=None)
    assert found.predicted["seconds"] <= made([V100, A100], microbatches=8).predicted["seconds"] * (1 + 1e-12)


def test_bad_input():
    with pytest.raises(InputError, match="at least one"):
        made([])
    with pytest.raises(InputError, match="several clusters go with"):
        made([V100, A100], epsilon=1e-3)
    with pytest.raises(InfeasibleError, match="use every device"):
        made([V100, A100], memory_fraction=0.01)
