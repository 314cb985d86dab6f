"""PipeDream's and Piper's own input files from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.cli import run

Say = Callable[..., str]

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
    out = say("plan --planner pipedream --profile graph.txt --cluster 1x2 --out staged.txt")
    assert "a minibatch every 60 ms: 2x one device" in out
    lines = Path("staged.txt").read_text().splitlines()
    assert [line.rpartition("-- ")[2] for line in lines if "stage_id" in line] == [
        "stage_id=0", "stage_id=0", "stage_id=1",
    ]  # fmt: skip
    again = json.loads(say("plan --planner pipedream --profile staged.txt --cluster 1x2 --json"))
    assert [stage["layers"] for stage in again["stages"]] == [["node1", "node2"], ["node3"]]
    assert again["seconds"] == pytest.approx(0.060)


def test_levels_are_the_clusters(say: Say):
    """Two nodes of two: machines of two levels, at the speed of NVLink and of the network."""
    found = json.loads(say("plan --planner pipedream --profile graph.txt --cluster 2x2:v100-16gb --json"))
    assert found["options"]["machines"] == [2, 2]
    assert found["options"]["bandwidths"] == [150e9, 3.1e9]
    given = json.loads(
        say("plan --planner pipedream --profile graph.txt --cluster 1x2 -o machines=[3] -o bandwidths=[1e9] --json")
    )
    assert given["options"]["machines"] == [3]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--profile no.txt --cluster 1x2", ("no.txt: cannot read the profile",)),
        ("--profile graph.txt", ("--cluster, --devices: give one",)),
        ("--profile graph.txt --cluster 1x2 -o strait=true", ("'strait'", "did you mean 'straight'?")),
        ("--profile graph.txt --cluster 1x2 -o straight=3", ("straight: expected true or false",)),
        ("--profile graph.txt --cluster 1x2 -o machines=3", ("machines: expected a list",)),
        ("--profile graph.txt --cluster 1x2 -o memory_bytes=-1", ("memory_bytes: expected a positive number",)),
        ("--profile graph.txt --cluster 1x2 --global-batch 4", ("--global-batch: is for training plans",)),
        ("--profile graph.txt --cluster 1x2 --models tiny-mmt", ("--models: does not go with --planner pipedream",)),
        ("--profile bad.txt --cluster 1x2", ("bad.txt, line 6: edge: no layer 'node9' above it",)),
    ],
)
def test_one_line_each(say: Say, words: str, parts: tuple[str, ...]):
    Path("bad.txt").write_text(graph_text().replace("\tnode1 -- node2", "\tnode1 -- node9"))
    lines = say(f"plan --planner pipedream {words}", code=2).splitlines()
    assert len(lines) == 1, lines
    for part in parts:
        assert part in lines[0], lines
