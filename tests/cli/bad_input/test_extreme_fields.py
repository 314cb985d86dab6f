"""Every number of a case, in every world of studies, at values that nobody means: it ends, or one line refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import meshwright
import pytest
import yaml
from extremes import called
from meshwright.cli import run
from meshwright.worlds import WORLDS, world
from meshwright.worlds.fields import paths, place, steps

COSTS = str(Path(meshwright.__file__).parent / "examples" / "dcgan-costs.json")

LLM = {"rate": 8, "requests": 4, "lengths": "alpaca", "slo_ttft": 1.0, "slo_tpot": 1.0}
BASES: dict[str, list[dict[str, Any]]] = {
    "serving": [
        {
            "cluster": {"devices": 2}, "models": {"bert-1.3b": 1}, "workload": {"rate": 4, "duration": 5, "slo": 5},
            "planners": ["selective-replication"],
        },
        {
            "cluster": {"devices": 2}, "models": ["a", "b"], "profile": "p.json", "planners": ["selective-replication"],
            "workload": {"trace": "t.csv", "resample": True, "window": 5, "slo": 5},
        },
    ],
    "llm": [{"cluster": {"devices": 1}, "planners": ["fixed"], "workload": LLM}],
    "sharing": [
        {"cluster": {"devices": 2}, "workload": {"kind": kind, "apps": 1, "scale": 0.01}, "planners": [policy]}
        for kind, policy in (("themis-1", "tiresias"), ("themis-2", "themis"))
    ],
    "training": [
        {
            "cluster": {"devices": 2}, "model": "tiny-gpt", "planners": ["data"],
            "workload": {"global_batch": 8, "slo": 0.01, "run_samples": 1000, "deadline": 60},
        },
        {"cluster": {"devices": 2}, "model": "gpt3-350m", "planners": ["search"], "workload": {"global_batch": 8}},
    ],
    "inference": [
        {"model": "dcgan", "costs": COSTS, "backends": ["torch-onednn"], "planners": ["collage-op"],
         "workload": {"slo": 0.01}},
    ],
}  # fmt: skip


def numbers(model: Any) -> list[str]:
    """Paths of the fields that hold a number."""

    def kinds(annotation: Any) -> set[Any]:
        inner = get_args(annotation)
        return set().union(*map(kinds, inner)) if inner else {annotation}

    found: list[str] = []
    for path in paths(model):
        inner: Any = model
        for step in steps(model, path):
            sections = [kind for kind in kinds(inner) if hasattr(kind, "model_fields")] or [inner]
            inner = sections[0].model_fields[step].annotation
        if kinds(inner) & {int, float} and path != "seed":
            found.append(path)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [(n, k) for n in WORLDS for k in range(len(BASES[n]))])
def test_a_number_that_nobody_means_ends_soon(name: str, number: int, world_folder: Path) -> None:
    said = {"study": 1, "world": name, **BASES[name][number]}
    case, file = world(name).case, world_folder / "s.yaml"
    words = ["study", "s.yaml", "--no-report", "--workers", "1", "--out"]
    file.write_text(yaml.safe_dump(said))
    assert run([*words, "right"]) == 0  # here: what it loads and compiles, the forks have
    wrong: list[str] = []
    found = numbers(case)
    assert {"cluster.devices", f"workload.{'slo_scale' if name == 'training' else 'rate_scale'}"} <= set(found)
    for path in found:
        for value in (10**9, 10**18, 1e-18):
            file.write_text(yaml.safe_dump(place(said, steps(case, path), value)))
            ended = called([*words, f"{path}-{value:g}"], world_folder)
            if ended.complaint:
                wrong.append(f"{path}: {value:g}: {ended.complaint}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(name="world_folder")
def _folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue("world").folder
