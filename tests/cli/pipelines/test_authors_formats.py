"""PipeDream's and Piper's own input files from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.cli import run

Say = Callable[..., str]
PIPEDREAM = "plan training --planner pipedream"
PIPER = "plan training --planner piper"

LAYERS = ((0.0, 0.0, 0.0), (30.0, 1e6, 1e3), (30.0, 1e6, 1e3), (60.0, 1e3, 1e6))
"""Milliseconds forward and backward together, bytes of the result, bytes of the weights: an input and three layers."""


def graph_text() -> str:
    lines = [
        f"node{k} -- {'Input0' if not ms else 'Linear'} -- forward_compute_time={ms / 3:.3f}, "
        f"backward_compute_time={2 * ms / 3:.3f}, activation_size={result}, parameter_size={weights}"
        for k, (ms, result, weights) in enumerate(LAYERS)
    ]
    return "\n".join(lines + [f"\tnode{k} -- node{k + 1}" for k in range(len(LAYERS) - 1)]) + "\n"


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.txt").write_text(graph_text())

    def check(words: str, code: int = 0) -> str:
        capsys.readouterr()
        found = run(words.split())
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured.out if code == 0 else captured.err

    return check


def test_pipedream_cuts_its_profile(say: Say):
    """Two devices: 60 ms on each, cut before the last layer; the file comes back with stages."""
    out = say(f"{PIPEDREAM} --authors graph.txt --devices 2 --out staged.txt")
    assert "a minibatch every 60 ms: 2x one device" in out
    lines = Path("staged.txt").read_text().splitlines()
    assert [line.rpartition("-- ")[2] for line in lines if "stage_id" in line] == [
        "stage_id=0", "stage_id=0", "stage_id=1",
    ]  # fmt: skip
    again = json.loads(say(f"{PIPEDREAM} --authors staged.txt --devices 2 --json"))
    assert [stage["layers"] for stage in again["stages"]] == [["node1", "node2"], ["node3"]]
    assert again["seconds"] == pytest.approx(0.060)


def test_levels_are_the_clusters(say: Say):
    """Two nodes of two: machines of two levels, at the speed of NVLink and of the network."""
    found = json.loads(say(f"{PIPEDREAM} --authors graph.txt --devices 4 --devices-per-node 2 --json"))
    assert found["options"]["machines"] == [2, 2]
    assert found["options"]["bandwidths"] == [150e9, 3.1e9]
    given = json.loads(say(f"{PIPEDREAM} --authors graph.txt --devices 2 -o machines=[3] -o bandwidths=[1e9] --json"))
    assert given["options"]["machines"] == [3]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--authors no.txt --devices 2", ("no.txt: cannot read the profile",)),
        ("--authors graph.txt", ("cluster.devices: is missing",)),
        ("--authors graph.txt --devices 2 -o strait=true", ("'strait'", "did you mean 'straight'?")),
        ("--authors graph.txt --devices 2 -o straight=3", ("straight: expected true or false",)),
        ("--authors graph.txt --devices 2 -o machines=true", ("expected positive machines and bandwidths",)),
        ("--authors graph.txt --devices 2 -o memory_bytes=-1", ("memory_bytes: expected a positive number",)),
        ("--authors graph.txt --devices 2 --explain", ("explain: does not go with authors",)),
        ("--authors graph.txt --devices 2 --microbatches 1", ("workload.microbatches: does not go with authors",)),
        ("--authors graph.txt --devices 2 --global-batch 1", ("workload.global_batch: does not go with authors",)),
        ("--authors graph.txt --devices 2 -s global_batch=1", ("workload.global_batch: does not go with authors",)),
        ("--authors graph.txt --devices 2 --model tiny-gpt", ("model: does not go with authors",)),
        ("--authors bad.txt --devices 2", ("bad.txt, line 6: edge: no layer 'node9' above it",)),
    ],
)
def test_one_line_each(say: Say, words: str, parts: tuple[str, ...]):
    Path("bad.txt").write_text(graph_text().replace("\tnode1 -- node2", "\tnode1 -- node9"))
    lines = say(f"{PIPEDREAM} {words}", code=2).splitlines()
    assert len(lines) == 1, lines
    for part in parts:
        assert part in lines[0], lines


def instance() -> dict[str, object]:
    """Two nodes of 0.2 s each, without weights or messages, for two devices."""
    sync = ({}, {"2": 0}), ({"1": 0}, {})
    nodes = [
        {
            "id": k + 1,
            "name": "Layer",
            "TMPCs": {"1": [{
                "id": "vanilla", "timePerSample": 0.2, "parameterSize": 0, "memoryUsageA": 1, "memoryUsageB": 0,
                "syncTimeFw": sync[k][0], "syncTimeBw": sync[k][1],
            }]},
        }
        for k in range(2)
    ]  # fmt: skip
    edges = [{"sourceId": 1, "destId": 2, "communicationCost": 0}]
    return {
        "maxMemoryPerDevice": 100, "maxDevices": 2, "bandwidth": 1e9, "mbsInBatch": 8, "nodes": nodes, "edges": edges,
    }  # fmt: skip


def test_piper_plans_its_instance(say: Say):
    """Two devices halve 0.4 s, as two stages or by data parallelism; one device takes all of it."""
    Path("piper.json").write_text(json.dumps(instance()))
    assert "a microbatch every 200 ms" in say(f"{PIPER} --authors piper.json --devices 2")
    found = json.loads(say(f"{PIPER} --authors piper.json --devices 1 --json"))
    assert found["seconds"] == pytest.approx(0.4)
    assert [stage["nodes"] for stage in found["stages"]] == [[1, 2]]
    two = json.loads(say(f"{PIPER} --authors piper.json --devices 2 -o data_parallel=false --json"))
    assert [stage["nodes"] for stage in two["stages"]] == [[1], [2]]


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        ("--authors piper.json --devices 2 --out x.json", 2, ("out: does not go with the authors' file of piper",)),
        ("--authors piper.json -o recompute=some", 2, ("recompute: expected any, never or always",)),
        ("--authors piper.json -o max_downsets=2.5", 2, ("max_downsets: expected a positive integer",)),
        ("--authors piper.json -o microbatchs=3", 2, ("'microbatchs'; did you mean 'microbatches'?",)),
        ("--authors piper.json -o max_downsets=2", 1, ("our limit of 2", "-o max_downsets=")),
        ("--authors piper.json -o memory_bytes=0.5", 3, ("nothing fits",)),
        ("--authors graph.txt", 2, ("graph.txt: not JSON",)),
        ("--authors circle.json", 2, ("circle.json: edges: nodes 1, 2 wait for each other in a circle",)),
    ],
)
def test_piper_one_line_each(say: Say, words: str, code: int, parts: tuple[str, ...]):
    data = instance()
    Path("piper.json").write_text(json.dumps(data))
    back = {"sourceId": 2, "destId": 1, "communicationCost": 0}
    for node, into in zip(data["nodes"], ({"2": 0}, {"1": 0}), strict=True):  # type: ignore[call-overload]
        node["TMPCs"]["1"][0].update(syncTimeFw=into, syncTimeBw=into)
    Path("circle.json").write_text(json.dumps(data | {"edges": [*data["edges"], back]}))  # type: ignore[misc]
    words = words if "--devices" in words else f"{words} --devices 2"
    lines = say(f"{PIPER} {words}", code=code).splitlines()
    lines = [line for line in lines if not line.startswith("planning: ")]
    assert len(lines) == 1, lines
    for part in parts:
        assert part in lines[0], lines
