"""What an export starts listens on loopback, or asks for a token or key that the export refers to and does not hold."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright.runtime.export import export
from meshwright.runtime.service.http import OPEN_PATHS
from servers import plan_of_one


def containers(folder: Path) -> list[dict[str, Any]]:
    documents = [d for path in folder.glob("*.yaml") for d in yaml.safe_load_all(path.read_text())]
    found = [
        d["spec"]["template"]["spec"]["containers"] for d in documents if d["kind"] in ("StatefulSet", "Deployment")
    ]
    return [container for listed in found for container in listed]


def test_kubernetes_passes_the_token_by_reference_and_probes_do_without(tmp_path: Path) -> None:
    export(plan_of_one(), "k8s", tmp_path / "x")
    found = containers(tmp_path / "x")
    assert {c["name"] for c in found} == {"group", "router"}
    for container in found:
        assert "0.0.0.0" in container["command"]
        variables = {v["name"]: v for v in container["env"]}
        told = variables["MESHWRIGHT_TOKEN"]
        assert told == {
            "name": "MESHWRIGHT_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": "meshwright-token", "key": "token"}},
        }
        for probe in ("readinessProbe", "startupProbe"):
            assert container.get(probe, container["readinessProbe"])["httpGet"]["path"] in OPEN_PATHS


@pytest.mark.parametrize("target", ["torchrun", "ray-serve", "triton"])
def test_one_machine_listens_on_loopback(target: str, tmp_path: Path) -> None:
    export(plan_of_one(), target, tmp_path / "x")
    for path in (p for p in (tmp_path / "x").rglob("*") if p.is_file() and p.suffix in (".sh", ".yaml", ".json")):
        assert "0.0.0.0" not in path.read_text(), path


def test_the_launch_script_hands_over_the_token_file(tmp_path: Path) -> None:
    export(plan_of_one(), "torchrun", tmp_path / "x")
    said = 'source ./env.sh; printf "%s" "${MESHWRIGHT_TOKEN_FILE-none} $BIND"'

    def settings() -> str:
        return subprocess.run(
            ["bash", "-euc", said], cwd=tmp_path / "x", capture_output=True, text=True, check=True, env={"PATH": "/bin"}
        ).stdout

    assert settings() == "none 127.0.0.1"
    (tmp_path / "x/token").write_text("secret")
    assert re.fullmatch(r".*/x/token 127\.0\.0\.1", settings())
