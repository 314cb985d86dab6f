"""Options and outputs that are wrong: each through the library and through the command line."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright import planners, seeds, traces
from meshwright.cli import run
from meshwright.errors import InputError, OutOfProfileError
from meshwright.files import check_target, whole_file, write_text
from meshwright.profiles import ParallelConfig
from meshwright.runtime import export
from meshwright.simulator import Cluster, Plan, simulate

TRAFFIC = "--rate 2 --duration 20"
PLAN = f"plan serving --profile p.json {TRAFFIC} --out o.json"
TWO = f"{PLAN} --devices 2 --models a,b"

Parts = str | tuple[str, str]
"""What the library says, and what is said of the field of the case where that is refused first."""

FIFO = (
    "unknown policy 'fifo'; expected one of shortest_queue",
    "serving.dispatch: should be 'shortest_queue', 'earliest_finish' or 'earliest_free' (got 'fifo')",
)
NEGATIVE = (
    "overhead: expected finite seconds >= 0 (got -1",
    "serving.overhead: should be greater than or equal to 0 (got -1.0)",
)
NAN = ("overhead: expected finite seconds >= 0 (got nan)", "serving.overhead: should be a number (got 'nan')")
ENGINE = (
    "unknown engine 'compild'; expected one of compiled, simpy",
    "engine: should be 'compiled' or 'simpy' (got 'compild')",
)
SEED = ("seed: expected an integer >= 0 (got -1)", "seed: should be greater than or equal to 0 (got -1)")
BATCH = "serving.max_batch: should be greater than 0 (got "

PLANNING: dict[str, tuple[dict[str, Any], str, Parts]] = {
    "dispatch": ({"dispatch": "fifo"}, "--dispatch fifo", FIFO),
    "overhead": ({"overhead": -1.0}, "--overhead=-1", NEGATIVE),
    "overhead NaN": ({"overhead": math.nan}, "--overhead=nan", NAN),
    "beam": ({"beam": 0}, "-o beam=0", "beam: expected a positive integer (got 0)"),
    "beam text": ({"beam": "x"}, "-o beam=x", "beam: expected a positive integer (got 'x')"),
    "max_op": ({"max_op": 0}, "-o max_op=0", "max_op: expected a positive integer"),
    "selection": ({"selection": "fats"}, "-o selection=fats", "selection: expected one of fast, greedy (got 'fats')"),
    "memory": ({"memory": "x"}, "-o memory=x", "memory: unknown rule 'x'; expected one of per_stage, max_stage"),
    "threshold": ({"bucket_threshold": -1}, "-o bucket_threshold=-1", "bucket_threshold: expected a fraction"),
    "seed": ({"seed": -1}, "--seed=-1", SEED),
}


def both(parts: Parts) -> tuple[str, str]:
    """What the library says and what the verb says, where it is the same too."""
    return parts if isinstance(parts, tuple) else (parts, parts)


@pytest.mark.parametrize("case", PLANNING)
def test_planning(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    given, words, parts = PLANNING[case]
    part, said = both(parts)
    trace = traces.read("t.csv")
    raises(InputError, lambda: planners.alpaserve.plan(Cluster(1, 2), ["a", "b"], trace, world.profiles, **given), part)
    refused(f"{TWO} {words}", said)


def test_planners_and_their_options(raises: Callable[..., str], refused: Callable[..., str]) -> None:
    part = "unknown planner 'alpaserv'; expected one of alpaserve, "
    raises(InputError, lambda: planners.planner("alpaserv"), part)
    refused(f"{TWO} --planner alpaserv", part)
    refused(f"{TWO} --planner alpaserve,", "unknown planner ''")
    refused(f"{TWO} -o bem=2", "planner.options: planner 'alpaserve' has no option 'bem'")
    refused(f"{TWO} -o beam", "--options: expected NAME=VALUE")
    refused(f"{TWO} -o beam={'[' * 50_000}", "--options: expected a list or a mapping as JSON writes it")
    refused(f"{TWO} -o beam={'9' * 5_000}", "--options: ")


def test_clusters(raises: Callable[..., str], refused: Callable[..., str]) -> None:
    raises(InputError, lambda: Cluster(1, 0), "Cluster.devices_per_node: expected a positive integer (got 0)")
    refused(f"{PLAN} --models a,b --devices 0", "cluster.devices: should be greater than 0 (got 0)")
    refused(f"{PLAN} --models a,b --devices=-3", "cluster.devices: should be greater than 0 (got -3)")
    refused(
        f"{PLAN} --models a,b --devices 8 --devices-per-node 0", "cluster.devices_per_node: should be greater than 0"
    )
    refused(f"{PLAN} --models a,b --cluster 1x8", "No such option: --cluster")
    raises(InputError, lambda: Cluster(1, 2, "v100-16g"), "unknown device 'v100-16g'; did you mean 'v100-16gb'?")
    refused(
        f"{PLAN} --models a,b --devices 2 --device v100-16g", "unknown device 'v100-16g'; did you mean 'v100-16gb'?"
    )


def test_models(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    trace, cluster = traces.read("t.csv"), Cluster(1, 2)
    plan = planners.alpaserve.plan
    raises(InputError, lambda: plan(cluster, [], trace, world.profiles), "models: expected at least one model")
    raises(InputError, lambda: plan(cluster, ["a", "a"], trace, world.profiles), "models: 'a' is listed twice")
    raises(InputError, lambda: plan(cluster, ["zz"], trace, world.profiles), "models: no profile for 'zz'")
    refused(f"{PLAN} --devices 2 --models a,a", "'a' is named twice")
    refused(f"{PLAN} --devices 2 --models a=0", "models: expected at least one model")
    refused(f"{PLAN} --devices 2 --models a=99999999999", "models.a: should be less than or equal to 100000 (got")
    raises(OutOfProfileError, lambda: world.profiles["bigg"], "unknown model 'bigg'; did you mean 'big'")
    refused(f"{PLAN} --devices 2 --models a,bigg", "unknown model 'bigg'; did you mean 'big'")
    refused(f"{PLAN} --devices 2 --models bigg", "models: 'bigg' is neither", "did you mean 'big'")


SIMULATING: dict[str, tuple[dict[str, Any], str, Parts]] = {
    "engine": ({"engine": "compild"}, "--engine compild", ENGINE),
    "dispatch": ({"dispatch": "fifo"}, "--dispatch fifo", FIFO),
    "overhead": ({"overhead": -1.0}, "--overhead=-1", NEGATIVE),
    "overhead NaN": ({"overhead": math.nan}, "--overhead nan", NAN),
    "overhead infinite": (
        {"overhead": math.inf},
        "--overhead inf",
        (NAN[0].replace("nan", "inf"), NAN[1].replace("nan", "inf")),
    ),
    "batch 0": ({"batching": 0}, "--max-batch 0", ("expected a positive integer (got 0)", f"{BATCH}0)")),
    "batch negative": ({"batching": -1}, "--max-batch=-1", ("expected a positive integer (got -1)", f"{BATCH}-1)")),
}


@pytest.mark.parametrize("case", SIMULATING)
def test_simulating(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    given, words, parts = SIMULATING[case]
    part, said = both(parts)
    plan, trace = Plan.load("plan.json"), traces.read("t.csv")
    raises(InputError, lambda: simulate(plan.placement, trace, world.profiles, **given), part)
    refused(f"simulate plan.json {TRAFFIC} {words} --timeline o.json", said)


def test_warm_up(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    result = simulate(Plan.load("plan.json").placement, traces.read("t.csv"), world.profiles)
    for warmup in ("-1", "nan", "1e9"):
        raises(InputError, lambda w=warmup: result.trim(float(w)), "warm")
        refused(f"simulate plan.json {TRAFFIC} --warmup={warmup} --timeline o.json", "warm")


def test_two_ways_to_say_one_thing(refused: Callable[..., str]) -> None:
    refused("simulate plan.json", "workload: give one of rate (generated traffic) and trace (a file)")
    refused(
        "simulate plan.json --trace t.csv --rate 2", "workload: give one of rate (generated traffic) and trace (a file)"
    )
    refused(f"simulate plan.json {TRAFFIC} --slo 1 --slo-scale 2", "workload: give one of slo (seconds) and slo_scale")
    refused(f"{TWO} --slo 1 --slo-scale 2", "workload: give one of slo (seconds) and slo_scale")


def test_slo_below_the_best_latency_is_said(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Not an error: a sweep of SLO scales begins there. The library answers 0, the verbs say why."""
    plan, trace = Plan.load("plan.json"), traces.read("t.csv").with_slo(0.01)
    assert simulate(plan.placement, trace, world.profiles).attainment == 0.0
    for words in (f"simulate plan.json {TRAFFIC} --slo 0.01", f"{TWO} --slo 0.01"):
        capsys.readouterr()
        assert run(words.split()) == 0
        err = capsys.readouterr().err
        assert err.startswith("warning: SLO 0.01 s of 'a' is below its best latency, 0.4 s: no request of it can be")
        assert err.count("\n") == 1
    assert run(f"simulate plan.json {TRAFFIC} --slo 0.4".split()) == 0  # exactly the best latency: no warning
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0", None, math.nan])
def test_seeds(seed: Any, raises: Callable[..., str]) -> None:
    raises(InputError, lambda: seeds.generator(seed, "x"), "seed: expected an integer >= 0")


@pytest.mark.parametrize("degrees", [(0, 1), (1, 0), (-1, 1), (1.5, 1), (True, 1)])
def test_degrees(degrees: tuple[Any, Any], raises: Callable[..., str]) -> None:
    raises(InputError, lambda: ParallelConfig(*degrees), "expected a positive integer")


def test_export(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    plan = Plan.load("plan.json")
    raises(InputError, lambda: export(plan, to="k8", out="o"), "unknown target 'k8'; did you mean 'k8s'?")
    refused("export plan.json --to k8 --out o", "unknown target 'k8'; did you mean 'k8s'?")
    refused("export plan.json --to k8s", "export: --out is missing")
    refused("export plan.json --to torchrun --out o --port 80", "export: port: expected 1024")
    refused("export plan.json --to torchrun --out o --port 99999999", "port: should be less than or equal to 65535")


UNWRITABLE = {
    "a folder": ("folder", "expected a file to write (got a folder)"),
    "below a file": ("t.csv/x", "expected a folder above it (got the file "),
    "a pipe": ("pipe", "expected a file to write (got a device, pipe or socket)"),
    "a long name": ("x" * 300, "File name too long"),
    "a link in a circle": ("circle", "cannot be written"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_outputs_that_cannot_be_written(
    case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before any work: no planner and no simulation may have run."""
    name, part = UNWRITABLE[case]
    (world.folder / "folder").mkdir()
    (world.folder / "circle").symlink_to("circle")
    os.mkfifo("pipe")
    raises(InputError, lambda: check_target(name), part)
    raises(InputError, lambda: write_text(name, "x"), part)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("work began before the output was tried")

    monkeypatch.setitem(planners.PLANNERS, "alpaserve", never)
    monkeypatch.setattr("meshwright.simulator.simulate", never)
    monkeypatch.setattr("meshwright.traces.read", never)
    refused(f"plan serving --profile p.json --devices 2 --models a,b {TRAFFIC} --out {name}", part)
    refused(f"simulate plan.json {TRAFFIC} --timeline {name}", part)
    refused(f"simulate plan.json {TRAFFIC} --png {name}", part)
    refused(f"trace convert t.csv --out {name}", part)
    refused(f"trace generate {name}", part)
    refused(f"trace fit t.csv --table {name}", part)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_is_locked(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    (world.folder / "locked").mkdir(mode=0o555)
    raises(InputError, lambda: check_target("locked/o.json"), "nothing may be written to")
    refused(f"simulate plan.json {TRAFFIC} --timeline locked/o.json", "nothing may be written to")


def test_output_that_exists_is_replaced_whole(world: Any) -> None:
    before = world.write("o.json", "x" * 100_000).stat().st_ino
    assert run(TWO.split()) == 0
    assert Plan.load("o.json").models
    assert (world.folder / "o.json").stat().st_ino != before  # a reader of the old file goes on reading it whole


def test_a_link_is_followed_and_a_device_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "x"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe"):
        write_text(tmp_path / "pipe", "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = write_text(tmp_path / "o", "old")

    def write() -> None:
        with whole_file(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "o", "x")
    assert list(tmp_path.iterdir()) == []


def test_results_are_the_same_after_all_this(world: Any) -> None:
    """The world that every refusal starts from is a right one."""
    assert run(f"simulate plan.json {TRAFFIC}".split()) == 0
    assert np.isfinite(simulate(Plan.load("plan.json").placement, traces.read("t.csv"), world.profiles).finish).any()
