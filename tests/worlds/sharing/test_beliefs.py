"""What a case says of agents' beliefs is what is simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run

CASE = """world: sharing
cluster: {machines: [{gpus: 2, rack: 0}, {gpus: 2, rack: 1}]}
apps:
  - {name: near, jobs: [{work: 4000, gpus: 2}], slowdown: {rack: 1, cluster: 1}}
  - {name: far, jobs: [{work: 9000, gpus: 4}], slowdown: {rack: 1.8, cluster: 1.8}}
planners: [themis]
"""


@pytest.mark.parametrize("belief", ["known", "assumed", "learned"])
def test_engines_agree_on_a_case(belief: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    words = ["simulate", str(tmp_path / "case.yaml"), "--slowdown", belief, "--spread", "6 %", "--out"]
    said: list[object] = []
    for engine in ("simpy", "compiled"):
        out = tmp_path / f"{engine}.json"
        assert run([*words, str(out), "--engine", engine]) == 0
        said.append(json.loads(out.read_text())["policies"])
    capsys.readouterr()
    assert said[0] == said[1]
