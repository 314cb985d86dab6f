"""Profile and plan files that are wrong: each through the library and through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from meshwright import planners, profiles, traces
from meshwright.cli import run
from meshwright.errors import InfeasibleError, InputError, OutOfProfileError
from meshwright.profiles import Layer, LayerTable, ModelProfile, ParallelConfig, Provenance, compose, load
from meshwright.profiles.comm import CommModel
from meshwright.profiles.hardware import LinkSpec
from meshwright.simulator import Cluster, Group, Placement, Plan, simulate

ONE, PIPE = ParallelConfig(1, 1), ParallelConfig(1, 2)
TRAFFIC = "--rate 2 --duration 20"
PLAN = f"plan serving --devices 2 --models a,b {TRAFFIC} --out o.json --profile"

BROKEN: dict[str, tuple[str | bytes, str, str]] = {  # content, what a profile reader says, what a plan reader says
    "empty": ("", "not valid JSON", "not JSON"),
    "truncated": ('{"format": "meshwright-', "x.json:1: column 12: not valid JSON", "x.json:1: not JSON"),
    "binary": (b"\x80\x04\x95\xff", "x.json: byte 0: not UTF-8 text", "x.json: not a Meshwright plan: not UTF-8 text"),
    "nested lists": ("[" * 100_000, "x.json: not a profile: nested too deep", "nested too deep"),
    "nested objects": ('{"a":' * 100_000, "x.json: not a profile: nested too deep", "nested too deep"),
    "huge integer": ('{"version": ' + "9" * 5000 + "}", "thousands of digits", "thousands of digits"),
    "another format": ('{"format": "x", "version": 1}', "format: expected 'meshwright-profiles'", "not a Meshwright"),
    "a list": ("[1]", "top level: expected an object (got [1])", "x.json: not a Meshwright plan"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_no_json(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    content, of_profile, of_plan = BROKEN[case]
    world.write("x.json", content)
    raises(InputError, lambda: profiles.load("x.json"), of_profile)
    refused(f"{PLAN} x.json", of_profile)
    refused("profile check x.json", of_profile)
    raises(InputError, lambda: Plan.load("x.json"), of_plan)
    refused(f"simulate x.json {TRAFFIC}", of_plan)
    refused("export x.json --to torchrun --out o", of_plan)
    refused(f"run x.json {TRAFFIC}", of_plan)


def test_folders_and_missing_files(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    (world.folder / "x.json").mkdir()
    raises(InputError, lambda: profiles.load("x.json"), "x.json: expected a profile file (got a folder)")
    refused(f"{PLAN} x.json", "x.json: expected a profile file (got a folder)")
    raises(InputError, lambda: Plan.load("x.json"), "x.json: cannot read the plan: Is a directory")
    refused(f"simulate x.json {TRAFFIC}", "x.json: cannot read the plan: Is a directory")
    raises(InputError, lambda: Plan.load("y.json"), "y.json: cannot read the plan: No such file")
    refused(f"simulate y.json {TRAFFIC}", "y.json: cannot read the plan: No such file")
    raises(InputError, lambda: profiles.load("alpaserve-v10"), "did you mean 'alpaserve-v100'?")
    refused(f"{PLAN} alpaserve-v10", "did you mean 'alpaserve-v100'?")


def _latency(config: str, batch: str, stages: list[float]) -> Callable[[Any], object]:
    return lambda d: d["models"]["a"]["configs"][config]["latency_s"].update({batch: stages})


def _cell(value: float) -> Callable[[Any], object]:
    return _latency("op1pp1", "1", [value])


CELL = "models.a.configs.op1pp1.latency_s.1[0]"

WRONG_PROFILES: dict[str, tuple[Callable[[Any], object], str]] = {
    "NaN latency": (_cell(float("nan")), f"{CELL}: must be positive and finite (got nan)"),
    "negative latency": (_cell(-1), f"{CELL}: must be positive and finite (got -1)"),
    "latency zero": (_cell(0), f"{CELL}: must be positive and finite (got 0)"),
    "schema version": (lambda d: d.update(version=9), "version: expected schema version 1 (got 9); update meshwright"),
    "overhead": (lambda d: d.update(overhead_s=-1), "overhead_s: must be finite and >= 0 (got -1)"),
    "configuration": (lambda d: d["models"]["a"]["configs"].update(op3={}), "configuration (got 'op3')"),
    "unknown key": (lambda d: d.update(modles={}), "unknown field (got 'modles'); did you mean 'models'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_PROFILES)
def test_profiles(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    change, part = WRONG_PROFILES[case]
    path = world.changed("x.json", "p.json", change)
    raises(InputError, lambda: load(path), part)
    refused(f"{PLAN} x.json", "x.json: ", part)
    refused(f"simulate plan.json --profile x.json {TRAFFIC}", "x.json: ", part)


def test_all_errors_of_a_profile(world: Any, refused: Callable[..., str]) -> None:
    def change(document: Any) -> None:
        document["overhead_s"] = -1
        _cell(-1)(document)

    world.changed("x.json", "p.json", change)
    refused(f"{PLAN} x.json", "overhead_s", "latency_s", lines=2)


def test_profile_without_the_batch(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    plan, trace = Plan.load("plan.json"), traces.read("t.csv")
    where = "op1pp2: no entry for batch 4; profiled batches: 1"
    raises(OutOfProfileError, lambda: simulate(plan.placement, trace, world.profiles, batching=4), where)
    refused(f"simulate plan.json --profile p.json --max-batch 4 {TRAFFIC}", where)
    bare = {"a": ModelProfile.from_stages("a", {ONE: {2: [0.4], 8: [1.0]}})}
    part = "profile 'a': no entry for batch 1 in any configuration; profiled batches: 2, 8"
    only = trace.select(["a"])
    raises(OutOfProfileError, lambda: planners.alpaserve.plan(Cluster(1, 1), ["a"], only, bare), part)

    def change(document: Any) -> None:
        configs = document["models"]["a"]["configs"]
        configs["op1pp1"]["latency_s"] = {"2": [0.4], "8": [1.0]}
        del configs["op1pp2"]

    world.changed("x.json", "p.json", change)
    refused(f"{PLAN} x.json", "serving.max_batch: 'a' was not profiled at batch 1; profiled batches: 2, 8")


def test_profile_without_the_configuration(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    trace = traces.read("t.csv")
    wide = Placement([Group(ParallelConfig(4, 1), ["a", "b"])])
    part = "no entry for op4pp1; nearest profiled: "
    raises(OutOfProfileError, lambda: simulate(wide, trace, world.profiles), part)
    world.changed("x.json", "p.json", lambda d: [d["models"][m]["configs"].pop("op1pp2") for m in "ab"])
    refused(f"simulate plan.json --profile x.json {TRAFFIC}", "no entry for op1pp2; nearest profiled: op1pp1")


def test_profile_of_another_device(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    raises(InputError, lambda: load("p.json", device="a100-40gb"), "holds for 'v100-16gb'", "'a100-40gb'")
    part = "cluster.device: profile 'hand' holds for 'v100-16gb' (got 'a100-40gb'); name a profile of that device"
    refused(f"{PLAN} p.json --device a100-40gb", part)
    world.changed("x.json", "p.json", lambda d: d.update(device="a100-40gb"))
    refused(f"simulate plan.json --profile x.json {TRAFFIC}", "(got a cluster of 'v100-16gb')")


def test_profile_that_changed_since_the_plan(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world.changed("x.json", "p.json", _latency("op1pp2", "1", [0.3, 0.2]))
    assert load("x.json").digest() != world.profiles.digest()
    assert run(["simulate", "plan.json", "--profile", "x.json", *TRAFFIC.split()]) == 0
    assert (
        "warning: plan.json: was planned with other latencies than x.json holds (a, op1pp2)" in capsys.readouterr().err
    )
    assert run(["simulate", "plan.json", "--profile", "p.json", *TRAFFIC.split()]) == 0
    assert capsys.readouterr().err == ""


def test_latency_that_falls_with_batch_is_one_line(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world.changed("x.json", "p.json", _latency("op1pp1", "2", [0.1]))
    assert run(["plan", *PLAN.split()[1:], "x.json"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: x.json: models.a.configs.op1pp1: stage 0 falls from 0.4 s at batch 1")
    assert err.count("\n") == 1
    with pytest.warns(profiles.ProfileWarning, match="stage 0 falls"):
        load("x.json")


def _group(**fields: Any) -> Callable[[Any], object]:
    return lambda d: d["groups"][0].update(fields)


WRONG_PLANS: dict[str, tuple[Callable[[Any], object], str]] = {
    "version": (lambda d: d.update(version=2), "version: this Meshwright reads version 1 (got 2)"),
    "device twice": (_group(devices=[0, 0]), "groups[0].devices[1]: device 0 belongs to groups[0] already"),
    "no such device": (_group(devices=[0, 9]), "groups[0].devices[1]: device 9 does not exist; the cluster has 0 … 1"),
    "larger than the cluster": (lambda d: d["cluster"].update(devices_per_node=1), "the cluster has 0 … 0"),
    "absurd degree": (_group(op=10**18), "needs 2000000000000000000 devices (got 2)"),
    "unknown model": (_group(models=["zz"]), "groups[0].models[0]: unknown model 'zz'; the plan lists a, b"),
    "model twice in a group": (_group(models=["a", "a"]), "'a' is in this group twice"),
    "zero nodes": (lambda d: d["cluster"].update(nodes=0), "cluster.nodes: "),
    "negative overhead": (lambda d: d["serving"].update(overhead_s=-1), "serving.overhead_s: "),
    "unknown dispatch": (lambda d: d["serving"].update(dispatch="fifo"), "serving.dispatch: "),
    "SLO zero": (lambda d: d["models"][0].update(slo_s=0), "models[0].slo_s: "),
    "unknown key": (lambda d: d["serving"].update(dispach="x"), "unknown key; did you mean 'dispatch'?"),
}


@pytest.mark.parametrize("case", WRONG_PLANS)
def test_plans(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    change, part = WRONG_PLANS[case]
    path = world.changed("x.json", "plan.json", change)
    raises(InputError, lambda: Plan.load(path), part)
    refused(f"simulate x.json {TRAFFIC}", "x.json", part)
    refused("export x.json --to k8s --image i --out o", "x.json", part)
    refused(f"run x.json {TRAFFIC}", "x.json", part)


def test_plan_without_models(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    world.changed("x.json", "plan.json", lambda d: (d.update(models=[]), d["groups"][0].update(models=[])))
    raises(InputError, lambda: Plan.load("x.json"), "models: ", "at least 1")
    refused(f"simulate x.json {TRAFFIC}", "models: ", "at least 1")


def test_plan_for_another_cluster(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    plan = Plan.load("plan.json")
    part = "made for devices of type 'v100-16gb', the cluster has 'a100-40gb'"
    raises(InputError, lambda: plan.validate_for(Cluster(1, 2, "a100-40gb"), world.profiles), part)
    raises(InputError, lambda: plan.validate_for(Cluster(1, 1), world.profiles), "device 1 does not exist")
    document = json.loads((world.folder / "plan.json").read_text())
    document["models"] = [{**m, "name": "x" + m["name"]} for m in document["models"]]
    document["groups"] = [{**g, "models": ["x" + m for m in g["models"]]} for g in document["groups"]]
    world.write("x.json", json.dumps(document))
    refused(f"simulate plan.json x.json {TRAFFIC}", "x.json: serves other models than plan.json")


def test_plan_that_its_own_cluster_cannot_hold(
    world: Any, raises: Callable[..., str], refused: Callable[..., str]
) -> None:
    path = world.changed("x.json", "plan.json", lambda d: d["cluster"]["device"].update(usable_memory_bytes=2**30))
    plan = Plan.load(path)
    part = "weights need 2.79 GiB on each device, 1.00 GiB are usable; take a model off it or cut it finer"
    raises(InfeasibleError, lambda: plan.validate_for(plan.cluster_spec, plan.planned_profiles()), part)
    refused(f"simulate x.json {TRAFFIC}", part, code=3)


def test_model_that_fits_nowhere(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    trace = traces.poisson(rate=1.0, duration=20.0, models=["big"], slo=2.0)
    part = "model 'big' fits no group of this cluster; it would with 27.94 GiB usable on each device (as op1pp2; 13.00"
    raises(InfeasibleError, lambda: planners.alpaserve.plan(Cluster(1, 2), ["big"], trace, world.profiles), part)
    big = f"plan serving --profile p.json --devices 2 --models big {TRAFFIC} --out o.json"
    refused(big, part, code=3)
    every = refused(f"{big} --planner selective-replication,dedicated", "selective-replication: ", code=3)
    assert "dedicated: " in every


def test_placements(world: Any, raises: Callable[..., str]) -> None:
    one = Group(ONE, ["a"], devices=[0])
    wrong: dict[str, Callable[[], object]] = {
        "expected at least one group": lambda: Placement([]),
        "device 0 belongs to an earlier group": lambda: Placement([one, one]),
        "needs 2 distinct devices (got (0, 0))": lambda: Group(PIPE, ["a"], devices=[0, 0]),
        "needs 2 distinct devices (got (0,))": lambda: Group(PIPE, ["a"], devices=[0]),
        "a group holds a model once (got 'a' twice)": lambda: Group(ONE, ["a", "a"]),
        "expected a ParallelConfig": lambda: Group((1, 1), ["a"]),  # type: ignore[arg-type]
        "device 2 does not exist": lambda: Placement([Group(ONE, ["a"], [2])]).check(Cluster(1, 2), world.profiles),
        "no profile for model 'zz'": lambda: Placement([Group(ONE, ["zz"])]).check(Cluster(1, 2), {}),
        "Cluster.devices_per_node": lambda: Cluster(1, 0),
        "Cluster.nodes": lambda: Cluster(-1, 8),
        "did you mean 'v100-16gb'?": lambda: Cluster(1, 1, "v100-16g"),
    }
    for part, make in wrong.items():
        raises(InputError, make, part)
    heavy = Placement([Group(ONE, ["big"])])
    raises(InfeasibleError, lambda: heavy.check(Cluster(1, 1), world.profiles), "55.88 GiB", "13.00 GiB are usable")


def test_more_stages_than_layers(raises: Callable[..., str]) -> None:
    table = LayerTable("m", (Layer("only", {1: {1: 0.1}}, {1: 4.0}),), Provenance("by hand"))
    comm = CommModel(p2p=LinkSpec(1e9, 1e-6))
    message = raises(InfeasibleError, lambda: compose(table, comm, configs=[PIPE]), "2 stages")
    assert "1 layer" in message
