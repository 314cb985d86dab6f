"""A small study of every world, through the verb to the finished output; names that a world may not have."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import meshwright
import pytest
from finished_study import check_finished
from meshwright import studies
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.studies import Outcome
from meshwright.worlds import WORLDS, Case, world
from meshwright.worlds.fields import paths
from meshwright.worlds.names import RESERVED
from pydantic import BaseModel

COSTS = Path(meshwright.__file__).parent / "examples" / "dcgan-costs.json"
STUDIES = {
    "serving": """study: 1
world: serving
cluster: {devices: 4}
models: {bert-1.3b: 4}
workload: {rate: 10, cv: 4, duration: 30, slo_scale: 3}
planners: [selective-replication, round-robin]
axes: {devices: [4, 8], dispatch: [shortest_queue, earliest_free], rate: [8, 16]}
replications: 3
""",
    "llm": """study: 1
world: llm
cluster: {devices: 2}
workload: {rate: 8, cv: 2, requests: 60, lengths: alpaca, slo_ttft: 1.0, slo_tpot: 0.05}
planners: [fixed]
axes: {max_num_seqs: [16, 64], devices: [1, 2], requests: [40, 60]}
replications: 3
""",
    "sharing": """study: 1
world: sharing
cluster: {machines: [{gpus: 2, count: 2}]}
workload: {kind: themis-1, apps: 4, scale: 0.01}
planners: [fifo, {name: tiresias, label: las}]
axes: {lease: [5 min, 20 min], options.placement: [near, blind], error: [0, 0.1]}
replications: 3
""",
    "training": """study: 1
world: training
cluster: {devices: 2}
model: tiny-gpt
workload: {global_batch: 8, slo: 0.01, run_samples: 1000000, deadline: 1 d}
planners: [data, {name: megatron, label: tensor}]
axes: {devices: [1, 2], global_batch: [8, 16], memory: [1 GiB, 16 GiB]}
replications: 3
""",
    "inference": f"""study: 1
world: inference
model: dcgan
costs: {COSTS}
workload: {{slo: 0.008}}
planners: [collage-op, {{name: rule-based, label: by-list}}]
axes:
  backends: ["torch-onednn,torch-native", "torch-onednn,torch-jit"]
  slo: [0.007, 0.009]
  slo_scale: [1, 1.5]
replications: 3
""",
}
"""Of each world a study whose axes have the names that are easiest to mistake for a metric or a column."""


@pytest.mark.parametrize("name", WORLDS)
def test_a_study_of_every_world_is_finished(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDIES[name])
    assert run(["study", "s.yaml", "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    study = studies.load("s.yaml")
    summary = check_finished(study, tmp_path / "s-out", printed)
    assert len(summary) == 8 * len(study.planners)
    for axis in study.axes:
        told = {json.dumps(value) if isinstance(value, list) else value for value in axis.values}
        assert set(summary[axis.path]) == told
    assert run(["study", "s.yaml", "--workers", "1", "--no-report", "--out", "bare"]) == 0
    bare = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("written")]
    assert bare == [line for line in printed.splitlines() if not line.startswith("written")], "the same table"


@pytest.mark.parametrize("name", WORLDS)
def test_metrics_fields_and_columns_have_names_of_their_own(name: str) -> None:
    found = world(name)
    fields = {word for path in paths(found.case) for word in (path, path.rpartition(".")[2])}
    assert not set(found.metrics) & (fields | set(RESERVED))
    assert all(said for said in found.metrics.values())


class Who(BaseModel):
    name: str = "a"


class Part(BaseModel):
    depth: int = 1


class Fields(Case):
    part: Part = Part()
    place: str = "near"
    planner: Who = Who()


class Notes(Fields):
    notes: str = ""


class Name(Fields):
    name: str = ""


def _world(case: type[Case] = Fields, metrics: Any = ("attainment",), gives: str = "attainment") -> Any:
    found = SimpleNamespace(
        name="odd", case=case, metrics=dict.fromkeys(metrics, "figure"), share=lambda *_: None, panels=lambda *_: (),
        digests=lambda *_: {}, evaluate=lambda *_: Outcome(metrics={gives: 1.0}),
    )  # fmt: skip
    return found


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def put(found: Any) -> None:
        module = ModuleType("odd_world")
        module.WORLD = found  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "odd_world", module)
        monkeypatch.setitem(WORLDS, "odd", "odd_world")

    return put


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_world(metrics=("attainment", "place")), "metric 'place' has the name of the field 'place'"),
        (_world(metrics=("depth",)), "metric 'depth' has the name of the field 'part.depth'"),
        (_world(metrics=("seed",)), "metric 'seed' has the name of the field 'seed'"),
        (_world(metrics=("failed",)), "metric 'failed' is a column"),
        (_world(metrics=("replications",)), "metric 'replications' is a column"),
        (_world(metrics=("a_half_width",)), "'a_half_width': expected a plain name"),
        (_world(metrics=("a.b",)), "'a.b': expected a plain name"),
        (_world(metrics=()), "declares no metrics"),
        (_world(case=Notes), "field 'notes' is a column"),
        (_world(case=Name), "field 'name' is a key of every study file"),
    ],
)
def test_a_world_whose_names_clash_is_refused_when_it_registers(
    made: Any, said: str, register: Callable[[Any], None], tmp_path: Path
) -> None:
    register(made)
    with pytest.raises(InputError, match=said) as caught:
        world("odd")
    assert "'odd'" in str(caught.value)
    (tmp_path / "s.yaml").write_text("study: 1\nworld: odd\nplanners: [a]\n")
    with pytest.raises(InputError, match=said):
        studies.load(tmp_path / "s.yaml")


def test_a_metric_that_a_world_does_not_declare_is_said(register: Callable[[Any], None]) -> None:
    register(_world(gives="place"))
    frame = studies.Study.from_dict({"study": 1, "world": "odd", "planners": ["a"]}).run()
    assert list(frame["status"]) == ["failed"]
    assert "gave the metric 'place', which it does not declare" in frame["error"][0]


def test_nobody_tells_a_metric_with_the_name_of_a_field(register: Callable[[Any], None]) -> None:
    register(_world())
    study = studies.Study.from_dict({"study": 1, "world": "odd", "planners": ["a"]})
    with studies.Session.open(study) as session:
        point = session.ask()
        assert point is not None
        with pytest.raises(InputError, match="metric 'place' has the name of the field"):
            session.tell(point, Outcome(metrics={"place": 1.0}))
        session.tell(point, Outcome(metrics={"attainment": 1.0}))
