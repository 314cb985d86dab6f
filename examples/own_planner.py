"""A planner of one's own: pack models by load into equal groups, replicate the busiest, keep what simulates best.

Run: ``python examples/own_planner.py``, or ``meshwright plan serving --planner examples/own_planner.py:plan …``.
Its tests stand in test_own_planner.py; docs/own-planner.md explains both.
"""

from meshwright.planners import Problem, trivial
from meshwright.simulator import Group, ParallelConfig, Placement, Plan


def plan(problem: Problem, *, largest: int = 8) -> Plan:
    """The best of the trivial placement and one packing for each configuration of at most `largest` devices."""
    candidates = [trivial.placement(problem)]  # so the answer is never worse than it
    candidates += [packed(problem, config) for config in shared_configs(problem) if config.n_devices <= largest]
    attained = [problem.simulate(candidate).attainment for candidate in candidates]
    best = candidates[attained.index(max(attained))]  # the first of equals: the same problem gives the same plan
    return problem.plan(best, name="load-packing", options={"largest": largest}, evaluations=len(candidates))


def shared_configs(problem: Problem) -> list[ParallelConfig]:
    """The configurations under which every model fits, fewest devices first."""
    first, *others = (problem.configs(model) for model in problem.models)
    return [config for config in first if all(config in other for other in others)]


def load(problem: Problem) -> dict[str, float]:
    """Device-seconds that the traffic asks of each model."""
    counts = dict(zip(problem.trace.models, problem.trace.counts().tolist(), strict=True))
    return {
        model: counts.get(model, 0) * sum(problem.profiles[model].latency(problem.smallest_config(model)))
        for model in problem.models
    }


def packed(problem: Problem, config: ParallelConfig) -> Placement:
    """Equal groups; the model with most load per replica goes to the least loaded group with room, again and again."""
    groups = [Group(config) for _ in range(problem.cluster.n_devices // config.n_devices)]
    replicas = dict.fromkeys(problem.models, 0)
    work = load(problem)

    def loaded(group: Group) -> float:
        return sum(work[model] / replicas[model] for model in group.models)

    while True:
        # Models without a replica come first, then those with most load for each replica that they have.
        for model in sorted(problem.models, key=lambda m: (replicas[m] > 0, -work[m] / max(replicas[m], 1))):
            room = [
                g for g, group in enumerate(groups)
                if model not in group.models and problem.fits(Group(config, [*group.models, model]))
            ]  # fmt: skip
            if room:
                g = min(room, key=lambda g: (loaded(groups[g]), g))
                groups[g] = Group(config, [*groups[g].models, model])
                replicas[model] += 1
                break
        else:
            return Placement(groups)  # nothing fits any more


if __name__ == "__main__":
    from meshwright import profiles, simulator, traces

    models = profiles.load("alpaserve-v100").instances({"bert-1.3b": 8, "bert-2.6b": 4})
    traffic = traces.gamma(rate=20.0, cv=4.0, duration=120.0, models=list(models)).with_slo_scale(5.0, models)
    task = Problem(simulator.Cluster(nodes=1, devices_per_node=8), tuple(models), traffic, models)
    print(plan(task).explain())
    print(f"the trivial plan attains {trivial.plan(task).predicted['attainment']:.2%}")
