"""Jobs per CPU second of the sharing world's compiled engine: two weeks, 256 GPUs, 1,000 apps; only printed."""

import time

import pytest
from meshwright.simulator.sharing import (
    SharingWorld,
    WorkloadOptions,
    baseline,
    simulate,
    themis_256,
    themis_testbed,
    workload1,
    workload2,
)


@pytest.mark.parametrize("policy", ["tiresias", "fifo", "srtf"])
@pytest.mark.parametrize("scale", [0.01, 0.05])
@pytest.mark.parametrize("workload", [workload1, workload2], ids=["workload1", "workload2"])
def test_two_weeks(workload, scale, policy, benchmark):
    simulate(SharingWorld(themis_testbed(), workload(WorkloadOptions(apps=3, scale=0.01))), baseline(policy))
    apps = workload(WorkloadOptions(apps=1000, scale=scale))
    world, jobs = SharingWorld(themis_256(), apps), sum(len(app.jobs) for app in apps)
    load = sum(app.total_work_s for app in apps) / (world.cluster.n_gpus * 14 * 86400)
    begin = time.thread_time()
    result = simulate(world, baseline(policy))
    seconds = time.thread_time() - begin
    print(
        f"\n{workload.__name__}, work x {scale}: {jobs} jobs, load {load:.2f}: {policy} {seconds:.2f} s, "
        f"{jobs / seconds:.0f} jobs per CPU second, {len(result.grants)} grants"
    )
    benchmark.pedantic(lambda: simulate(world, baseline(policy)), rounds=1)
