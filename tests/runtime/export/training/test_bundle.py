"""The executor in an exported folder: nothing but torch beside it, and it reads plans as Meshwright does."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import meshwright
import pytest
from alone import alone
from meshwright.profiles.graph import from_torch, zoo_graph
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.export.training import export_training
from meshwright.runtime.training.hand_graph_plan import branch_stages, stage_graph_plan
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.wires.edges import crossing, edges_of
from meshwright.simulator.training.plan.graph import in_plan_order

torch = pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = Path(meshwright.__file__).parent / "examples/training/letters.py"
BESIDE = {"torch", "numpy", "yaml"}
"""numpy: torch.distributed itself asks for it to send objects. yaml: to read device files, which no program does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = hand_plan(zoo_graph("tiny-gpt"), meshes=[(1, 1)] * 2, global_batch=8, microbatches=2)
    path = tmp_path_factory.mktemp("program")
    export_training(plan, "torch", path, graph=zoo_graph("tiny-gpt"))
    return path


@pytest.fixture
def executor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(folder))
    yield "executor"
    for name in [name for name in sys.modules if name.partition(".")[0] == "executor"]:
        del sys.modules[name]


def test_its_files_import_each_other_the_library_and_torch(folder: Path) -> None:
    files = list((folder / "executor").rglob("*.py"))
    assert len(files) > 50
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                assert top in sys.stdlib_module_names or top in BESIDE, f"{path}: {name}"


def test_every_name_that_a_file_imports_is_there(folder: Path, executor: str) -> None:
    for path in sorted((folder / "executor").rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        module = importlib.import_module(".".join(parts if parts[-1] != "__init__" else parts[:-1]))
        for name in getattr(module, "_NAMES", {}):
            assert getattr(module, name) is not None


PLANS: dict[str, Any] = {
    "two meshes": lambda: (zoo_graph("tiny-gpt"), {"meshes": [(2, 1), (1, 2)], "rule": "tp"}),
    "interleaved": lambda: (
        zoo_graph("tiny-gpt"), {"meshes": [(1, 1)] * 2, "stages_per_mesh": 2, "schedule": "interleaved_1f1b"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*PLANS, "branches"])
def test_the_plan_is_read_as_meshwright_reads_it(name: str, tmp_path: Path, executor: str) -> None:
    if name == "branches":
        graph = zoo_graph("tiny-mmt")
        plan = stage_graph_plan(
            graph, list(branch_stages(graph)), meshes=[(1, 1)] * 3, global_batch=8, samples=[4, 1, 2]
        )
    else:
        graph, words = PLANS[name]()
        plan = hand_plan(graph, **words, global_batch=8, microbatches=2)
    export_training(plan, "torch", tmp_path, graph=graph)
    job = json.loads((tmp_path / "job.json").read_text())
    theirs = importlib.import_module(f"{executor}.simulator.training.plan.file").TrainingPlan(job["plan"])
    for field in ("microbatch", "microbatches_of", "global_batch", "microbatches", "schedule", "resharding"):
        assert getattr(theirs, field) == getattr(plan, field), field
    for number, stage in enumerate(plan.stages):
        assert theirs.microbatch_of(number) == plan.microbatch_of(number)
        assert theirs.mesh(number).device_ids == plan.mesh(number).device_ids
        for field in ("logical", "first", "last", "recompute", "parameters", "optimizer_states", "k", "order"):
            assert getattr(theirs.stages[number], field) == getattr(stage, field), field
        for op, how in stage.operators.items():
            assert vars(theirs.stages[number].operators[op])["operands"] == how.operands
    edges = importlib.import_module(f"{executor}.runtime.training.wires.edges")
    small = in_plan_order(plan, graph.with_batch(plan.microbatch))
    text = json.dumps(job["graph"])
    read = importlib.import_module(f"{executor}.profiles.graph.document").from_json(text).with_batch(plan.microbatch)
    for mine, other in zip(edges_of(plan, small), edges.edges_of(theirs, read), strict=True):
        assert (mine.name, mine.full, mine.source, mine.target) == (other.name, other.full, other.source, other.target)
        for back in (False, True):
            ways, others = crossing(plan, mine, 4, back=back), edges.crossing(theirs, other, 4, back=back)
            assert [[repr(m) for m in way] for way in ways] == [[repr(m) for m in way] for way in others]


@pytest.mark.slow
@pytest.mark.parametrize("words", [{"meshes": [(1, 1)] * 2}, {"meshes": [(2, 1)], "zero": 2}], ids=["stages", "zero"])
def test_own_data_and_weights_without_meshwright(words: dict[str, Any], tmp_path: Path) -> None:
    """Two processes of the exported program, a run here, and the user's loop on one device: three steps, one result."""
    from meshwright.runtime.training import Own, run_training
    from meshwright.runtime.training.own.weights import load_weights, save_weights
    from meshwright.runtime.training.own.words import optimizer_of

    spec = importlib.util.spec_from_file_location("letters", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    letters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(letters)
    made = letters.build()
    graph, whole = from_torch(**made, name="letters"), ModuleLoss(**made)
    module = whole.module.double()
    plan = hand_plan(graph, **words, global_batch=16, microbatches=2)
    program = tmp_path / "program"
    export_training(plan, "torch", program, graph=graph, module=whole)
    save_weights(tmp_path / "in.safetensors", module.state_dict())
    said = alone(
        program, tmp_path,
        ["--data", f"{EXAMPLE}:batches", "--weights", "in.safetensors", "--save", "out.safetensors", "--optimizer",
         "adamw:lr=1e-2,weight_decay=0.1", "--groups", "*norm*:weight_decay=0", "--clip-norm", "0.5", "--iterations",
         "3", "--dtype", "float64"],
    )  # fmt: skip
    found = [float(x) for x in re.findall(r"loss (\S+),", said)]
    optimizer = optimizer_of("adamw:lr=1e-2,weight_decay=0.1", None, ["*norm*:weight_decay=0"], 0.5)
    own = Own(letters.batches(), module.state_dict(), optimizer, whole)
    run = run_training(plan, graph, iterations=3, dtype="float64", own=own)
    norms = {id(p) for name, p in module.named_parameters() if "norm" in name}
    groups = [{"params": [p for p in module.parameters() if id(p) not in norms]},
              {"params": [p for p in module.parameters() if id(p) in norms], "weight_decay": 0.0}]  # fmt: skip
    theirs = torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.1)
    losses: list[float] = []
    for _, batch in zip(range(3), letters.batches(), strict=False):
        theirs.zero_grad()
        result = module(batch["letters"]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(result, batch["labels"].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        theirs.step()
        losses.append(float(loss.detach()))
    assert run.losses == pytest.approx(losses, rel=1e-10)
    assert found == pytest.approx(losses, rel=1e-8)  # ten digits are printed
    exported = load_weights(tmp_path / "out.safetensors")
    for state in (exported, run.state_dict()):
        assert list(state) == list(module.state_dict())
        for key, x in module.state_dict().items():
            assert float((state[key] - x).abs().max()) < 1e-10, key


@pytest.mark.slow
def test_half_precision_of_an_exported_program_is_that_of_a_run(tmp_path: Path) -> None:
    from meshwright.runtime.training import RunOptions, run_training

    spec = importlib.util.spec_from_file_location("letters", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    letters = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(letters)
    graph = from_torch(**letters.build(), name="letters")
    plan = hand_plan(graph, meshes=[(2, 1)], zero=2, global_batch=16, microbatches=2)
    export_training(plan, "torch", tmp_path / "program", graph=graph)
    words = ["--iterations", "2", "--precision", "bf16", "--seed", "0"]
    found = [float(x) for x in re.findall(r"loss (\S+),", alone(tmp_path / "program", tmp_path, words))]
    half, full = (run_training(plan, graph, iterations=2, options=RunOptions(precision=x)) for x in ("bf16", "full"))
    assert found == pytest.approx(half.losses, rel=1e-6)
    assert found != pytest.approx(full.losses, rel=1e-6)
