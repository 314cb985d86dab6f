"""The authors' fast simulator, restated in a dozen lines, against ours with the shipped profile and their constants."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright import profiles, simulator, traces
from meshwright.profiles import ParallelConfig
from meshwright.profiles.alpaserve import shipped as alpaserve_v100
from meshwright.seeds import generator


def authors_goodput(arrival, model, slo, groups, stages) -> int:
    """One pass in order of arrival; earliest last-stage clock, first of equals; commit only what is in time."""
    clocks = [[0.0] * config.pp for config, _ in groups]
    good = 0
    for t, m, limit in zip(arrival, model, slo, strict=True):
        hosts = [g for g, (_, held) in enumerate(groups) if m in held]
        if not hosts:
            continue
        g = min(hosts, key=lambda host: clocks[host][-1])
        config = groups[g][0]
        now, new = t, []
        for k in range(config.pp):
            now = max(now, clocks[g][k]) + stages[m][config][k] * (1 + 0.009 * config.pp)
            new.append(now)
        if now + 0.011 - t <= limit:
            clocks[g] = new
            good += 1
    return good


@pytest.mark.parametrize("set_name", ["alpaserve-v100", "alpaserve-v100-s3", "alpaserve-v100-table2"])
def test_artifact_constants_give_the_authors_goodput(set_name: str) -> None:
    names = ["bert-1.3b", "bert-2.6b", "moe-2.4b"]
    bare = profiles.load(set_name)
    theirs = alpaserve_v100.with_artifact_overheads(bare)
    rng = generator(11, "arrivals")
    n = 3000
    arrival = np.sort(rng.uniform(0.0, 50.0, n))
    model = rng.integers(0, 3, n)
    trace = traces.Trace(arrival, model, names).with_slo_scale(2.0, bare)
    groups = [
        (ParallelConfig(1, 8), names),
        (ParallelConfig(1, 4), names[:2]),
        (ParallelConfig(4, 1), names[1:]),
        (ParallelConfig(1, 1), names[:1]),
    ]
    placement = simulator.Placement([simulator.Group(config=c, models=held) for c, held in groups])
    result = simulator.simulate(placement, trace, theirs, dispatch="earliest_free", overhead=theirs.overhead_s)
    stages = {m: {c: bare[m].latency(c) for c, _ in groups} for m in names}
    slo = [2.0 * bare[names[m]].single_device_latency() for m in model]
    expected = authors_goodput(arrival, [names[m] for m in model], slo, groups, stages)
    assert 0.3 * n < expected < 0.95 * n  # neither idle nor hopeless
    assert result.attainment == pytest.approx(expected / n, abs=1e-12)
