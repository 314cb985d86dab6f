"""Resharding: the paper's Table 2, steps that really do what they say, and the cheapest of all sequences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.alpa.intra import ShardingSpec, all_specs, reshard
from meshwright.planners.alpa.intra.sharding.reshard import gradient_costs, reshard_costs
from meshwright.planners.alpa.intra.sharding.specs import spec_set
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh

S = ShardingSpec.parse
M = 2.0 * 64 * 64
MESHES = [((2, 2), (2, 2)), ((2, 4), (2, 4)), ((2, 4), (4, 2)), ((1, 8), (2, 4)), ((2, 4), (8, 1)), ((1, 4), (1, 4))]


def mesh(hosts: int = 2, devices: int = 4, shape: tuple[int, int] = (2, 4)) -> LogicalMesh:
    return Mesh(Cluster(hosts, devices, "v100-16gb"), hosts, devices).view(shape)


@pytest.mark.parametrize("physical", [(2, 2), (2, 4), (2, 8)])
def test_table_2(physical):
    m = mesh(*physical, physical)
    n0, n1 = physical

    def seconds(source: str, target: str) -> float:
        return reshard(S(source), S(target), (64, 64), 2, m).seconds

    assert seconds("RR", "S0S1") == 0
    assert seconds("S0R", "RR") == pytest.approx(m.seconds("all_gather", M, (0,)))
    assert seconds("S0S1", "S0R") == pytest.approx(m.seconds("all_gather", M / n0, (1,)))
    assert seconds("S0R", "RS0") == pytest.approx(m.seconds("all_to_all", M / n0, (0,)))
    assert seconds("S0S1", "S01R") == pytest.approx(m.seconds("all_to_all", M / (n0 * n1), (1,)))


def scatter(values: np.ndarray, spec: ShardingSpec, shape: tuple[int, int], axes=(), rng=None) -> dict:
    """What each device holds; along `axes` it is parts that add up to the values."""
    held = {}
    for at in np.ndindex(*shape):
        held[at] = values[spec.slices(values.shape, shape, at)].copy()
    if axes:
        groups = itertools.product(*(range(shape[a]) if a not in axes else (0,) for a in (0, 1)))
        for first in groups:
            members = [at for at in np.ndindex(*shape) if all(at[a] == first[a] for a in (0, 1) if a not in axes)]
            parts = rng.integers(-9, 9, (len(members), *held[members[0]].shape))
            parts[-1] = held[members[0]] - parts[:-1].sum(axis=0)
            for at, part in zip(members, parts, strict=True):
                held[at] = part
    return held


def run(step, held: dict, before: ShardingSpec, shape: tuple[int, int], full: tuple[int, ...]) -> dict:
    """One step on real arrays, by what each kind of collective does among the devices of a group."""
    result = {}
    for at in held:
        group = [x for x in held if all(x[a] == at[a] for a in (0, 1) if a not in step.axes)]
        if step.kind == "slice":
            value, origin = held[at], before.slices(full, shape, at)
        elif step.kind in ("all_reduce", "reduce_scatter"):
            value, origin = sum(held[x] for x in group), before.slices(full, shape, at)
        else:  # an all-gather, or an all-to-all: every device gets what it needs of the group's parts
            value = np.full(full, -(10**9))
            for x in group:
                value[before.slices(full, shape, x)] = held[x]
            origin = tuple(slice(0, n) for n in full)
        want = step.spec.slices(full, shape, at)
        local = tuple(slice(w.start - o.start, w.stop - o.start) for w, o in zip(want, origin, strict=True))
        result[at] = value[local]
        assert result[at].shape == step.spec.local_shape(full, shape)
    return result


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(st.data())
def test_steps_bring_the_right_slices(data):
    physical, logical = data.draw(st.sampled_from(MESHES))
    m = mesh(*physical, logical)
    shape = data.draw(st.sampled_from([(8,), (8, 16), (16, 8, 8)]))
    partial = tuple(data.draw(st.sets(st.sampled_from([a for a in (0, 1) if logical[a] > 1]))))
    specs = all_specs(shape, logical)
    source = data.draw(st.sampled_from([s for s in specs if not s.axes & set(partial)]))
    target = data.draw(st.sampled_from(specs))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(0, 1000, shape)
    held = scatter(values, source, logical, sorted(partial), rng)
    way = reshard(source, target, shape, 4, m, partial, scatter=data.draw(st.booleans()))
    spec = source
    for step in way.steps:
        held = run(step, held, spec, logical, shape)
        larger = max(spec.local_bytes(shape, 4, logical), step.spec.local_bytes(shape, 4, logical))
        assert step.n_bytes == larger
        assert step.seconds == (0 if step.kind == "slice" else m.seconds(step.kind, larger, step.axes))
        spec = step.spec
    assert spec == target
    assert not way.steps or way.steps[-1].partial == ()
    for at, value in held.items():
        assert (value == values[target.slices(shape, logical, at)]).all()


def neighbours(spec: ShardingSpec, shape, m: LogicalMesh):
    """All single steps from a spec, told from the slices alone: (next spec, seconds)."""
    logical = m.shape
    for other in all_specs(shape, logical):
        for axes in ((0,), (1,), (0, 1)):
            if any(logical[a] == 1 for a in axes):
                continue
            moved = [(spec.dimension(a), other.dimension(a)) for a in axes]
            still = all(spec.dimension(a) == other.dimension(a) for a in (0, 1) if a not in axes)
            if not still or len(set(moved)) > 1 or moved[0][0] == moved[0][1]:
                continue
            groups_hold_it = all(_same_cells(spec, other, shape, logical, at, axes) for at in np.ndindex(*logical))
            if not groups_hold_it:
                continue
            source, target = moved[0]
            if source < 0:
                yield other, 0.0
            else:
                kind = "all_gather" if target < 0 else "all_to_all"
                n_bytes = max(s.local_bytes(shape, 2, logical) for s in (spec, other))
                yield other, m.seconds(kind, n_bytes, axes)


def _same_cells(spec, other, shape, logical, at, axes) -> bool:
    """Whether what a device holds next is held by its group now, and nothing that leaves a group's share moves."""
    ids = np.arange(np.prod(shape)).reshape(shape)
    group = [x for x in np.ndindex(*logical) if all(x[a] == at[a] for a in (0, 1) if a not in axes)]
    now = set().union(*(ids[spec.slices(shape, logical, x)].ravel().tolist() for x in group))
    return set(ids[other.slices(shape, logical, at)].ravel().tolist()) <= now


@pytest.mark.parametrize(("physical", "logical"), MESHES)
@pytest.mark.parametrize("shape", [(8,), (8, 8), (8, 2, 8)])
def test_no_sequence_is_cheaper(physical, logical, shape):
    m = mesh(*physical, logical)
    specs = all_specs(shape, logical)
    costs = reshard_costs(shape, 2, m)
    steps = {s: list(neighbours(s, shape, m)) for s in specs}
    for i, source in enumerate(specs):
        best = {source: 0.0}
        for _ in specs:  # Bellman–Ford
            for spec in list(best):
                for other, seconds in steps[spec]:
                    if best[spec] + seconds < best.get(other, np.inf):
                        best[other] = best[spec] + seconds
        for j, target in enumerate(specs):
            assert costs[i, j] == pytest.approx(best[target], rel=1e-12)
            assert reshard(source, target, shape, 2, m).seconds == pytest.approx(best[target], rel=1e-9)


@pytest.mark.parametrize(("physical", "logical"), MESHES)
def test_metric_properties(physical, logical):
    m = mesh(*physical, logical)
    costs = reshard_costs((16, 8, 32), 2, m)
    assert (np.diagonal(costs) == 0).all()
    assert (costs >= 0).all()
    assert (costs <= (costs[:, :, None] + costs[None]).min(axis=1) + 1e-15).all()
    assert (costs[0] == 0).all()  # the first spec is whole everywhere


@pytest.mark.parametrize(("physical", "logical"), MESHES)
def test_sums_may_be_scattered_or_not(physical, logical):
    m = mesh(*physical, logical)
    live = [a for a in (0, 1) if logical[a] > 1]
    rows, number = gradient_costs((16, 16), 2, m)
    specs = spec_set((16, 16), logical).index
    for (spec, partial), row in number.items():
        for target, column in specs.items():
            free = reshard(spec, target, (16, 16), 2, m, partial)
            reduced = reshard(spec, target, (16, 16), 2, m, partial, scatter=False)
            assert rows[row, column] == pytest.approx(free.seconds, rel=1e-9)
            assert free.seconds <= reduced.seconds * (1 + 1e-9)
            assert not any(step.kind == "reduce_scatter" for step in reduced.steps)
    whole = specs[S("RR")]
    a = live[-1]
    cut = S(f"S{a}R")
    # Into a cut: one reduce-scatter, half of an all-reduce.
    assert rows[number[S("RR"), (a,)], specs[cut]] == pytest.approx(m.seconds("reduce_scatter", 512, (a,)))
    assert rows[number[S("RR"), (a,)], whole] <= m.seconds("all_reduce", 512, (a,)) * (1 + 1e-12)


def test_fused_steps_have_no_fixed_cost():
    m = mesh()
    way = reshard(S("S1R"), S("RR"), (64, 64), 2, m, fused=True)
    link = m.link((1,))
    assert way.seconds == pytest.approx(3 / 4 * M / link.bandwidth_bytes_per_s, rel=1e-6)


def test_bad_input():
    m = mesh()
    with pytest.raises(InputError, match=r"S01R does not go with shape \(6, 6\)"):
        reshard(S("S01R"), S("RR"), (6, 6), 2, m)
    with pytest.raises(InputError, match="with sums along"):
        reshard(S("S0R"), S("RR"), (8, 8), 2, m, partial=(0,))
