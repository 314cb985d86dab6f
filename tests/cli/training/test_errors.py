"""What is wrong with a command line or a file about training: one line, an exit code, nothing written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_plans import hand_plan
from meshwright.cli import run
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.plan.clusters import cluster_entry

Refused = Callable[..., str]
PLAN = "plan training --planner alpa --model tiny-mlp --devices 2 --device cpu-core --global-batch 8"


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command line that must be refused in one line; nothing is printed or written."""
    monkeypatch.chdir(tmp_path)
    for name in ("plan.json", "two.json"):
        hand_plan().save(tmp_path / name)
    (tmp_path / "sharing.json").write_text('{"kind": "meshwright/sharing-plan"}')
    (tmp_path / "g.json").write_text(zoo_graph("tiny-mlp").to_json())

    def check(words: str, *parts: str, code: int = 2) -> str:
        before = {p: p.lstat().st_mtime_ns for p in tmp_path.rglob("*")}
        capsys.readouterr()
        found = run(words.split())
        out, err = capsys.readouterr()
        assert (found, out) == (code, ""), err
        lines = [line for line in err.splitlines() if not line.startswith("planning: ")]
        assert len(lines) == 1, err
        assert lines[0].startswith("meshwright")
        for part in parts:
            assert part in err, err
        assert "internal error" not in err
        assert {p: p.lstat().st_mtime_ns for p in tmp_path.rglob("*")} == before, "a file was made or changed"
        return err

    return check


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("plan training --devices 2 --global-batch 8 --model=", ("model: unknown model ''",)),
        ("plan training --model tiny-mpl --devices 2 --global-batch 8", ("model 'tiny-mpl'", "tiny-mlp?")),
        ("plan training --model no.json --devices 2 --global-batch 8", ("no.json: cannot read the graph",)),
        ("plan training --model no.py:f --devices 2 --global-batch 8", ("no.py: no such file",)),
        ("plan training --model tiny-mlp --devices 2", ("workload.global_batch: is missing",)),
        ("plan training --model tiny-mlp --global-batch 8", ("cluster.devices: is missing",)),
        ("plan training --model tiny-mlp --devices 1x2 --global-batch 8", ("cluster.devices: should be",)),
        ("plan training --model tiny-mlp --devices 2 --device v100 --global-batch 8", ("v100",)),
        ("plan training --model tiny-mlp --devices 0 --global-batch 8", ("cluster.devices: should be greater than 0",)),
        ("plan training --model tiny-mlp --devices 2 --global-batch 0", ("global_batch: should be greater than 0",)),
        (f"{PLAN} --microbatches 3", ("microbatches: 3 do not divide the global batch of 8", "nearest that do: 2")),
        (f"{PLAN} --microbatches 16", ("microbatches: 16 do not divide the global batch of 8", "nearest that do: 8")),
        (f"{PLAN} --microbatches few", ("workload.microbatches: should be", "got 'few'")),
        (f"{PLAN} -o layrs=3", ("unknown option 'layrs'",)),
        (f"{PLAN} -o recompute=some", ("recompute", "none")),
        (f"{PLAN} -o logical=2x2", ("logical: expected shapes of two dimensions",)),
        (f"{PLAN} -o logical=[[2,2,1]]", ("logical: expected shapes of two dimensions",)),
        (f"{PLAN} -o layers", ("--options: expected NAME=VALUE",)),
        (f"{PLAN} --rate 3", ("No such option: --rate",)),
        (f"{PLAN} --slo-ttft 3", ("No such option: --slo-ttft",)),
        (f"{PLAN} --out .", (".: expected a file to write (got a folder)",)),
        (f"{PLAN} --picture g.json/x.png", ("g.json",)),
        (PLAN.replace("alpa", "alpa,megatrn"), ("'megatrn' plans no training; did you mean 'megatron'?",)),
        (PLAN.replace("alpa", "alpa,alpa"), ("--planner: each once (got alpa,alpa)",)),
        (PLAN.replace("alpa", "alpaserve"), ("planner.name: 'alpaserve' plans no training",)),
        ("simulate plan.json --rate 3", ("No such option: --rate",)),
        ("simulate plan.json --engine fast", ("engine: should be 'compiled' or 'simpy' (got 'fast')",)),
        ("simulate plan.json --schedule 1f2b", ("schedule: schedule: unknown", "did you mean '1f1b'?",)),
        ("simulate plan.json --resharding mail", ("resharding: should be 'send_recv', 'scatter_gather' or",)),
        ("simulate plan.json sharing.json", ("sharing.json: is a plan of another world than plan.json",)),
        ("simulate plan.json g.json", ("g.json: not a Meshwright plan of",)),
        ("simulate plan.json two.json --png x.png", ("png: shows one plan (got 2)",)),
        ("simulate no.json --schedule gpipe", ("no.json: cannot read the plan",)),
        ("simulate g.json --schedule gpipe", ("g.json: not a Meshwright plan of",)),
        ("run plan.json --rate 3", ("No such option: --rate",)),
        ("run plan.json --iterations 0", ("iterations: should be greater than or equal to 1 (got 0)",)),
        ("run plan.json", ("unknown model 'toy'",)),
        ("run g.json --iterations 3", ("g.json: not a Meshwright plan of",)),
        ("compare plan.json --rate 3", ("No such option: --rate",)),
        ("compare plan.json --rounds 0", ("rounds: should be greater than or equal to 1 (got 0)",)),
        ("compare g.json --rounds 2", ("g.json: not a Meshwright plan of",)),
        ("compare plan.json g.json", ("g.json: not a Meshwright plan of",)),
        ("export plan.json --to torch", ("--out is missing",)),
        ("export plan.json --to tourch --out x", ("unknown target 'tourch'; did you mean 'torch'?",)),
        ("graph tiny-mlp --batch 0", ("--batch: expected a positive integer",)),
        ("graph --out x.json", ("--out: which model?",)),
    ],
)  # fmt: skip
def test_one_line_each(words: str, parts: tuple[str, ...], refused: Refused) -> None:
    refused(words, *parts)


def spoil(path: str, change: Callable[[Any], object]) -> None:
    data = json.loads(Path(path).read_text())
    change(data)
    Path(path).write_text(json.dumps(data, indent=1))


def test_files_that_are_wrong(refused: Refused) -> None:
    text = Path("plan.json").read_text()
    Path("cut.json").write_text(text[: len(text) // 2])
    refused("simulate cut.json", "cut.json:", "not JSON", "was it cut off?")
    Path("flat.json").write_text(text)
    spoil("flat.json", lambda d: d["stages"][0].update(logical=[2, 2, 1]))
    refused("simulate flat.json", "flat.json:", "stages[0].logical: a logical mesh is two-dimensional")
    Path("slow.json").write_text(text)
    spoil("slow.json", lambda d: d["cluster"]["device"].update(inter_node=[0.0, 1e-5]))
    refused(
        "simulate slow.json", "slow.json:", "cluster.device: LinkSpec.bandwidth_bytes_per_s: expected > 0 (got 0.0)"
    )
    spoil("g.json", lambda d: d["operators"][0].update(inputs=["layers.3", *d["operators"][0]["inputs"][1:]]))
    refused("graph g.json", "g.json: ", "cycle", "<- layers.0")
    refused("plan training --model g.json --devices 2 --global-batch 8", "g.json: ", "cycle")


def test_plans_for_other_graphs_and_machines(refused: Refused) -> None:
    Path("g.json").write_text(zoo_graph("tiny-mlp").to_json())
    text = Path("plan.json").read_text()
    Path("other.json").write_text(text)
    spoil("other.json", lambda d: d["model"].update(graph="g.json"))
    refused("run other.json", "stages[0].operators: 'embed' is none of its operators in 'tiny-mlp'")
    spoil("other.json", lambda d: d["model"].update(digest="0" * 64))
    refused("export other.json --to torch --out x", "was made for another graph", "plan again")
    large = hand_plan(model=hand_plan().model.model_copy(update={"name": "tiny-mlp"}))
    count = len(zoo_graph("tiny-mlp").operators)
    meshes = [{"hosts": 8, "devices": 8, "first_host": 0, "first_device": 0}]
    data = json.loads(large.to_json())
    data["cluster"] = json.loads(cluster_entry(Cluster(8, 8)).model_dump_json())
    data["meshes"], data["transfers"] = meshes, []
    data["stages"] = [data["stages"][0] | {
        "logical": [8, 8], "first": 0, "last": count, "operators": {}, "parameters": {},
    }]  # fmt: skip
    Path("large.json").write_text(json.dumps(data))
    refused("run large.json", "8 node(s) x 8 v100-16gb", "64 processes", "plan for this machine")
    data["meshes"], data["stages"][0]["logical"] = [{"hosts": 1, "devices": 4}], [2, 2]
    data["stages"][0]["state_bytes"] = 1e15
    Path("large.json").write_text(json.dumps(data))
    refused("run large.json", "GiB, this machine has", "--to torch")


def test_what_fits_nowhere_says_what_would(refused: Refused) -> None:
    err = refused(
        "plan training --model gpt3-39b --devices 1 --device v100-16gb --global-batch 8 --microbatches 8", code=3
    )
    state = 16 * zoo_graph("gpt3-39b").params  # bytes: float16 weights and gradients, three float32 of Adam's
    assert f"{state / 2**30:.1f} GiB" in err
    assert f"use at least {math.ceil(state / (0.9 * 16 * 2**30))} such devices" in err
