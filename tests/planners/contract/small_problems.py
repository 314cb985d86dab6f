"""Small planning problems that the planner tests share: few models, few devices, a short trace."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st
from meshwright.planners.alpaserve.evaluator import Evaluator, State, canonical
from meshwright.planners.alpaserve.instance import Instance, build_instance
from meshwright.profiles import DeviceSpec, LinkSpec, ModelProfile, ParallelConfig
from meshwright.simulator import Cluster
from meshwright.traces import Trace

CONFIGS = [ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1), ParallelConfig(1, 4), ParallelConfig(2, 2)]
SPEED = {1: 1.0, 2: 0.6}


def device(memory_bytes: int = 100) -> DeviceSpec:
    """A device that holds `memory_bytes` of weights."""
    link = LinkSpec(1e9, 0.0)
    return DeviceSpec("toy", memory_bytes, memory_bytes, 1e12, 1e11, link, link, "made for tests")


def profile(name: str, latency: float, weight: float = 40.0, hop: float = 0.0) -> ModelProfile:
    """A model that is cut evenly: `weight` bytes and `latency` seconds in all."""
    return ModelProfile.from_stages(
        name,
        {c: {1: [latency * SPEED[c.op] / c.pp] * c.pp} for c in CONFIGS},
        {c: [weight / c.n_devices] * c.pp for c in CONFIGS},
        hop_s=hop,
    )


def problem(
    n_models: int = 3, n_devices: int = 4, n: int = 200, seed: int = 0, scale: float = 3.0, load: float = 0.9
) -> tuple[Cluster, list[str], Trace, dict[str, ModelProfile]]:
    """A problem with bursty traffic that no placement attains wholly, as a rule."""
    random = np.random.default_rng(seed)
    names = [f"m{i}" for i in range(n_models)]
    profiles = {name: profile(name, float(random.uniform(0.5, 2.0))) for name in names}
    gaps = random.gamma(0.25, 4.0, n) / load / n_devices * 1.2
    trace = Trace(np.cumsum(gaps), random.integers(0, n_models, n), names)
    return Cluster(1, n_devices, device()), names, trace.with_slo_scale(scale, profiles), profiles


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Random problems: latencies, weights, hops, SLOs, dispatch, admission, overhead."""
    n_models = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**20))
    random = np.random.default_rng(seed)
    names = [f"m{i}" for i in range(n_models)]
    profiles = {
        name: profile(
            name, float(random.uniform(0.2, 2.0)), float(random.integers(1, 130)), float(random.choice([0.0, 0.05]))
        )
        for name in names
    }
    n = draw(st.integers(1, 60))
    arrival = np.cumsum(random.exponential(draw(st.sampled_from([0.05, 0.3, 1.0])), n))
    model = random.integers(0, n_models, n)
    slo = random.uniform(0.1, 6.0, n) if draw(st.booleans()) else np.full(n, 2.0)
    return build_instance(
        Cluster(1, draw(st.integers(1, 5)), device(130)), names, Trace(arrival, model, names, slo), profiles,
        dispatch=draw(st.sampled_from(["shortest_queue", "earliest_finish", "earliest_free"])),
        admission=draw(st.booleans()), overhead=draw(st.sampled_from([0.0, 0.1])),
    )  # fmt: skip


@st.composite
def states(draw: st.DrawFn, instance: Instance) -> State:
    """Any groups that the devices allow, with any models (memory aside)."""
    groups = []
    left = instance.n_devices
    while left and draw(st.booleans()):
        able = [c for c, config in enumerate(instance.configs) if config.n_devices <= left]
        if not able:
            break
        c = draw(st.sampled_from(able))
        left -= instance.configs[c].n_devices
        groups.append((c, draw(st.integers(0, 2**instance.n_models - 1))))
    return canonical(groups or [(0, 1)])


def fits(instance: Instance, state: State) -> bool:
    """Whether the weights of a state fit, summed anew."""
    for config, mask in state:
        held = [m for m in range(instance.n_models) if mask >> m & 1]
        if held and not (instance.weight[config, held].sum(axis=0) <= instance.memory_bytes).all():
            return False
    return True


def best_selection(evaluator: Evaluator, groups: tuple[int, ...]) -> int:
    """Fewest unserved requests over every selection for given groups, by trying all."""
    instance = evaluator.instance
    every = product(range(2**instance.n_models), repeat=len(groups))
    return min(
        evaluator.total(state)
        for state in {canonical(zip(groups, masks, strict=True)) for masks in every}
        if fits(instance, state)
    )


def all_groups(instance: Instance, left: int, least: int = 0) -> list[tuple[int, ...]]:
    """Every multiset of configurations on at most `left` devices."""
    found: list[tuple[int, ...]] = [()]
    for c in range(least, len(instance.configs)):
        n = instance.configs[c].n_devices
        if n <= left:
            found += [(c, *rest) for rest in all_groups(instance, left - n, c)]
    return found
