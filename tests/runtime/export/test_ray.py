"""Ray Serve config: by Ray's own schema where Ray is installed, always by the JSON Schema that Ray 2.60 publishes."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from meshwright.runtime.export import export
from meshwright.simulator import Group, ParallelConfig, Plan

SCHEMA = json.loads((Path(__file__).parent / "schemas/ray-serve-2.60.json").read_text())


def config_of(plan: Plan, folder: Path, **options: Any) -> dict[str, Any]:
    export(plan, "ray-serve", folder, **options)
    return yaml.safe_load((folder / "serve-config.yaml").read_text())


def check(config: dict[str, Any]) -> None:
    """By the published schema, and by its field names too: Ray takes unknown fields in silence."""
    jsonschema.validate(config, SCHEMA)
    definitions = SCHEMA["$defs"]
    assert set(config) <= set(SCHEMA["properties"])
    assert set(config["http_options"]) <= set(definitions["HTTPOptionsSchema"]["properties"])
    for application in config["applications"]:
        assert set(application) <= set(definitions["ServeApplicationSchema"]["properties"])
        for deployment in application["deployments"]:
            assert set(deployment) <= set(definitions["DeploymentSchema"]["properties"])
            options = deployment.get("ray_actor_options", {})
            assert set(options) <= set(definitions["RayActorOptionsSchema"]["properties"])


def test_check_of_this_test_refuses_nonsense(pipelines: Plan, tmp_path: Path) -> None:
    good = config_of(pipelines, tmp_path / "x")
    check(good)
    with pytest.raises(jsonschema.ValidationError):
        check({**good, "applications": "x"})
    with pytest.raises(AssertionError):
        check({**good, "aplications": []})


def test_published_schema_accepts(pipelines: Plan, tmp_path: Path) -> None:
    config = config_of(pipelines, tmp_path / "x", port=9000)
    check(config)
    assert config["http_options"]["port"] == 9000
    (application,) = config["applications"]
    deployments = {d["name"]: d for d in application["deployments"]}
    assert list(deployments) == ["ingress", "group-0", "group-2", "group-3"]
    pipeline, split, single = (deployments[f"group-{g}"] for g in (0, 2, 3))
    assert pipeline["num_replicas"] == 2, "equal groups are replicas"
    assert pipeline["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 1.0}] * 2
    assert pipeline["placement_group_strategy"] == "STRICT_PACK"
    assert split["num_replicas"] == 1
    assert "placement_group_bundles" not in single
    assert all(d["ray_actor_options"]["num_gpus"] == 1 for d in (pipeline, split, single))
    assert Plan.from_json(application["args"]["plan"]) == pipelines


def test_group_over_nodes_may_spread(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(2, 4), ["m"])], nodes=2, device="a100-80gb")
    config = config_of(plan, tmp_path / "x")
    check(config)
    entry = config["applications"][0]["deployments"][1]
    assert entry["placement_group_strategy"] == "PACK"
    assert len(entry["placement_group_bundles"]) == 8


def test_app_module_is_there_and_imports_ours(pipelines: Plan, tmp_path: Path) -> None:
    config = config_of(pipelines, tmp_path / "x")
    module, name = config["applications"][0]["import_path"].split(":")
    source = ast.parse((tmp_path / "x" / f"{module}.py").read_text())
    imported = {(n.module, a.name) for n in source.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert imported == {("meshwright.runtime.service.ray_app", name)}
    import meshwright.runtime.service as service

    ours = ast.parse((Path(service.__file__).parent / "ray_app.py").read_text())
    functions = {n.name for n in ours.body if isinstance(n, ast.FunctionDef)}
    assert name in functions


def test_hostile_names_are_data(make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), hostile)])
    config = config_of(plan, tmp_path / "x")
    check(config)
    assert [d["name"] for d in config["applications"][0]["deployments"]] == ["ingress", "group-0"]
    assert Plan.from_json(config["applications"][0]["args"]["plan"]) == plan
    assert "pwned" not in (tmp_path / "x" / "meshwright_app.py").read_text()


def test_rays_own_schema_accepts(pipelines: Plan, tmp_path: Path) -> None:
    schema = pytest.importorskip("ray.serve.schema", reason="ray[serve] is not installed (its schema is checked above)")
    config = config_of(pipelines, tmp_path / "x")
    read = schema.ServeDeploySchema.model_validate(config)
    assert read.applications[0].deployments[1].num_replicas == 2


def test_rays_application_has_the_configs_deployments(pipelines: Plan, tmp_path: Path) -> None:
    pytest.importorskip("ray.serve", reason="ray[serve] is not installed")
    from meshwright.runtime.service.ray_app import build

    args = config_of(pipelines, tmp_path / "x")["applications"][0]["args"]
    assert build(args)._bound_deployment.name == "ingress"
