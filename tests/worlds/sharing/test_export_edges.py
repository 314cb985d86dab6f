"""Exports of worlds that nobody would make on purpose: names, leases, failures, demands beyond the cluster."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.runtime.export.sharing import TARGETS, export_sharing, holdings_at
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    MachineFailure,
    Policy,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate,
)  # fmt: skip

CLUSTER = SharedCluster.uniform(2, 4)
HOSTILE = (
    "sharing", "root", "shared", "Sharing", "app__root", "lease", "cluster", "a;rm -rf ~", "a\nb", "$(touch x)", "`x`",
    "", "x" * 500, "é", "a-b", "a_b", "A-B", "1", "-", "'; drop", '"',
)  # fmt: skip


def _world(names: Sequence[str], **changed: float) -> SharingWorld:
    return SharingWorld(CLUSTER, tuple(App.single(name, 0.0, 4000.0, gpus=4) for name in names), **changed)  # type: ignore[arg-type]


def test_accounts_are_apart_from_each_other_and_from_slurms_own(tmp_path: Path) -> None:
    export_sharing(_world(HOSTILE), baseline("drf"), "slurm", tmp_path / "s")
    lines = (tmp_path / "s/accounts.sh").read_text().splitlines()
    assert list(json.loads((tmp_path / "s/accounts.json").read_text()).values()) == list(HOSTILE)
    made = [line.split()[4] for line in lines if line.startswith("sacctmgr -i add account")]
    assert made[0] == "sharing"  # the parent of all others
    assert len(made) == len(set(made)) == 1 + len(HOSTILE)
    assert "root" not in made
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in made)
    # Every line is one command of ours: a shell that has no sacctmgr is asked what it would run.
    said = 'sacctmgr() { echo "ran $#"; }\n' + "\n".join(lines[1:])
    ran = subprocess.run(["bash", "-c", said], capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    commands = [line for line in lines if line.startswith("sacctmgr ")]
    assert ran.stdout.splitlines() == [f"ran {len(line.split()) - 1}" for line in commands]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s"]


@pytest.mark.parametrize("policy", ["drf", "fifo"])
def test_queues_are_apart_and_say_whose_they_are(tmp_path: Path, policy: str) -> None:
    export_sharing(_world(HOSTILE), baseline(policy), "kueue", tmp_path / "k")
    made = [d for d in yaml.safe_load_all((tmp_path / "k/queues.yaml").read_text()) if d["kind"] == "LocalQueue"]
    names = [d["metadata"]["name"] for d in made]
    assert len(names) == len(set(names)) == len(HOSTILE)
    assert [d["metadata"]["annotations"]["meshwright/app"] for d in made] == list(HOSTILE)


@pytest.mark.parametrize("target", TARGETS)
def test_two_apps_of_one_name_are_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(InputError, match="two apps are called 'a'"):
        export_sharing(_world(["a", "b", "a"]), baseline("fifo"), target, tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("lease", [math.inf, 1e300])
@pytest.mark.parametrize("target", TARGETS)
def test_a_lease_without_end_is_no_limit(tmp_path: Path, target: str, lease: float) -> None:
    export_sharing(_world(["a"], lease_s=lease), baseline("tiresias"), target, tmp_path / "o")
    if target == "slurm":
        assert "MaxTime=UNLIMITED" in (tmp_path / "o/slurm.conf.part").read_text()
        assert "MaxWall" not in (tmp_path / "o/accounts.sh").read_text()


def test_a_job_asks_for_no_more_than_there_is(tmp_path: Path) -> None:
    world = SharingWorld(CLUSTER, (App.single("a", 0.0, 100.0, gpus=10**9),))
    export_sharing(world, baseline("fifo"), "kueue", tmp_path / "k")
    job = yaml.safe_load((tmp_path / "k/job.yaml").read_text())
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 8
    export_sharing(world, baseline("fifo"), "slurm", tmp_path / "s")
    assert "#SBATCH --ntasks=8\n" in (tmp_path / "s/job.sh").read_text()


def test_the_extender_is_told_where_gpus_come_from(tmp_path: Path) -> None:
    export_sharing(_world(["a"]), baseline("srsf", placement="blind", seed=5), "scheduler-plugin", tmp_path / "o")
    about = json.loads((tmp_path / "o/arbiter.json").read_text())
    assert about["options"] == {"placement": "blind", "seed": 5}


@pytest.mark.parametrize("policy", [baseline("tiresias"), baseline("fifo"), Themis(fairness=0.5)], ids=lambda p: p.name)
def test_no_gpu_is_held_twice_nor_on_a_machine_that_is_gone(policy: Policy) -> None:
    rng = generator(0, "holdings")
    arrivals = rng.exponential(300.0, 8).cumsum()
    apps = tuple(
        App.single(f"app {k}", float(at), float(rng.uniform(2e3, 2e4)), gpus=int(rng.choice([1, 2, 4, 8])))
        for k, at in enumerate(arrivals)
    )
    world = SharingWorld(
        CLUSTER, apps, lease_s=300.0, machine_failures=(MachineFailure(0, 1000.0, 500.0),),
        app_failures=(AppFailure(3, 2000.0),),
    )  # fmt: skip
    result = simulate(world, policy, engine="simpy")
    times = [*rng.uniform(float(arrivals[0]), result.makespan_s, 60).tolist(), 1000.0, 1499.0]
    held_s = 0.0
    for at in times:
        try:
            held = holdings_at(result, at)
        except InputError:
            continue  # nobody has any
        gpus = [g for h in held for g in h.gpus]
        assert len(gpus) == len(set(gpus))
        assert not (1000 <= at < 1500 and min(gpus) < 4)
        assert not (at >= 2000 and 3 in {h.app for h in held})
        assert all(sum(h.machines.values()) == len(h.gpus) for h in held)
        held_s += len(gpus)
    assert held_s > 0
    with pytest.raises(InputError, match="no app holds GPUs"):
        holdings_at(result, result.makespan_s)
    with pytest.raises(InputError, match="compiled engine does not note down"):
        holdings_at(simulate(world, policy, engine="compiled"), 500.0)


def test_jobs_of_a_decision_wait_where_its_gpus_are(tmp_path: Path) -> None:
    """A LocalQueue names its ClusterQueue for good, so each app's must name the one that the decision gives GPUs to."""
    for policy in ("fifo", "tiresias", "drf"):
        out = tmp_path / policy
        export_sharing(_world(["a", "a\n- b", "c"]), baseline(policy), "kueue", out, at_s=1.0)
        local = [d for d in yaml.safe_load_all((out / "queues.yaml").read_text()) if d["kind"] == "LocalQueue"]
        decided = list(yaml.safe_load_all((out / "decision.yaml").read_text()))
        assert [d["spec"]["clusterQueue"] for d in local] == [d["metadata"]["name"] for d in decided]
        quotas = [d["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] for d in decided]
        assert sum(quotas) == 8
    assert '- app "a\\n- b": ' in (tmp_path / "fifo/README.md").read_text()
