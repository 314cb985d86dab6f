"""What all targets share: the folder, the names, the options, and names that are code elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.runtime.export import TARGETS, ExportOptions, export
from meshwright.runtime.export.names import dns_names, file_names
from meshwright.simulator import Group, ParallelConfig, Plan

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = Plan.load(ROOT / "examples/plan.json")


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def options_for(target: str, plan: Plan) -> dict[str, object]:
    sources = dict.fromkeys(plan.placement.models, "org/model")
    return {"device": "cuda", "model_source": sources} if target == "vllm" else {}


@pytest.mark.parametrize("target", TARGETS)
def test_same_plan_same_bytes_and_the_plan_is_in_it(
    target: str, make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    plan = make_plan([Group(ParallelConfig(1, 2), ["m", "n"])])
    paths = export(plan, target, tmp_path / "x", **options_for(target, plan))
    export(plan, target, tmp_path / "y", **options_for(target, plan))
    assert tree(tmp_path / "x") == tree(tmp_path / "y")
    assert sorted(paths) == sorted(p for p in (tmp_path / "x").rglob("*") if p.is_file())
    if target != "k8s":  # there it is in the ConfigMap
        assert Plan.load(tmp_path / "x" / "plan.json") == plan
    assert not list(tmp_path.rglob(".*")), "temporary files are left behind"


def test_scripts_are_executable_and_the_rest_is_not(tmp_path: Path) -> None:
    for path in export(EXAMPLE, "torchrun", tmp_path / "x"):
        assert os.access(path, os.X_OK) == path.name.startswith("launch"), path


def test_folder_with_other_files_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(notes\.txt\).*--force"):
        export(EXAMPLE, "torchrun", tmp_path)
    assert tree(tmp_path) == {"notes.txt": b"mine"}
    export(EXAMPLE, "torchrun", tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "launch-node-0.sh").exists()


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(InputError, match="expected a folder"):
        export(EXAMPLE, "torchrun", tmp_path / "x", force=True)


def test_exporting_again_replaces_the_earlier_export(tmp_path: Path) -> None:
    export(EXAMPLE, "torchrun", tmp_path)
    export(EXAMPLE, "k8s", tmp_path)
    assert not (tmp_path / "launch-node-0.sh").exists()
    assert (tmp_path / "router.yaml").exists()


def test_edited_export_is_not_overwritten_in_silence(tmp_path: Path) -> None:
    export(EXAMPLE, "torchrun", tmp_path)
    (tmp_path / "env.sh").write_text("PYTHON=/opt/python\n")
    with pytest.raises(InputError, match=r"changed since the export \(env\.sh\)"):
        export(EXAMPLE, "torchrun", tmp_path)
    assert (tmp_path / "env.sh").read_text() == "PYTHON=/opt/python\n"


def test_manifest_cannot_delete_outside_the_folder(tmp_path: Path) -> None:
    """A manifest is a stranger's file too."""
    (tmp_path / "precious").write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / "meshwright-export.json").write_text(json.dumps({"files": {"../precious": "0"}}))
    export(EXAMPLE, "torchrun", out)
    assert (tmp_path / "precious").read_text() == "mine"


def test_unknown_target_and_option_name_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'ray-serve'"):
        export(EXAMPLE, "ray_serve", tmp_path / "x")
    with pytest.raises(InputError, match="did you mean 'namespace'"):
        export(EXAMPLE, "k8s", tmp_path / "x", name_space="y")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": "a image; rm"}, "image"),
        ({"image": "$(x)"}, "image"),
        ({"namespace": "Not_DNS"}, "namespace"),
        ({"hosts": ("ok", "bad host")}, "hosts"),
        ({"hosts": ("-oProxyCommand=x",)}, "hosts"),
        ({"hosts": ("a;b",)}, "hosts"),
        ({"port": 80}, "port"),
        ({"port": True}, "port"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"export: {message}: expected"):
        ExportOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["torchrun", "k8s"])
def test_plan_without_stage_latencies_cannot_be_routed(
    target: str, make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["m"])])
    bare = plan.model_copy(update={"models": tuple(m.model_copy(update={"stages": {}}) for m in plan.models)})
    with pytest.raises(InputError, match="no stage latencies for op1pp1"):
        export(bare, target, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("target", ["torchrun", "k8s", "ray-serve", "triton"])
def test_model_that_cannot_be_built_is_named(target: str, make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["mystery"])], architecture="no-such")
    with pytest.raises(InputError, match=r"model 'mystery': cannot be built, its architecture 'no-such'"):
        export(plan, target, tmp_path / "x")


def test_dns_names_are_labels_and_unique(hostile: tuple[str, ...]) -> None:
    names = dns_names(hostile)
    assert set(names) == set(hostile)
    assert len(set(names.values())) == len(hostile)
    for label in names.values():
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", label), label
        assert len(label) <= 50
    assert names["a"] == "a"
    assert dns_names(["bert-1.3b"])["bert-1.3b"].startswith("bert-1-3b-")


def test_file_names_are_safe_and_unique_without_case(hostile: tuple[str, ...]) -> None:
    names = file_names(hostile)
    assert len({n.lower() for n in names.values()}) == len(hostile)
    for name in names.values():
        assert re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", name), name
    assert file_names(["bert-1.3b-0"]) == {"bert-1.3b-0": "bert-1.3b-0"}


def test_names_do_not_depend_on_their_order(hostile: tuple[str, ...]) -> None:
    assert dns_names(hostile) == dns_names(hostile[::-1])


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_names_stay_below_the_folder(
    target: str, make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path
) -> None:
    plan = make_plan([Group(ParallelConfig(1, 2), hostile)])
    paths = export(plan, target, tmp_path / "x", **options_for(target, plan))
    for path in paths:
        assert path.resolve().is_relative_to((tmp_path / "x").resolve())
        assert all(part == part.strip() and part.isprintable() for part in path.parts)
