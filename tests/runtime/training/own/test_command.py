"""The command line: own data, weights, optimiser; the weights come back to the module."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import meshwright
import pytest

torch = pytest.importorskip("torch")

from meshwright.cli import run  # noqa: E402
from meshwright.runtime.training.own.weights import load_weights  # noqa: E402

EXAMPLE = Path(meshwright.__file__).parent / "examples/training/letters.py"


@pytest.fixture(scope="module")
def letters() -> Any:
    spec = importlib.util.spec_from_file_location("letters", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("letters") / "letters.json"
    words = ["--planner", "alpa", "--devices", "2", "--device", "cpu-core", "--global-batch", "16"]
    made = ["plan", "training", "--model", f"{EXAMPLE}:build", *words, "--microbatches", "2", "--out", str(path)]
    assert run(made) == 0
    return path


@pytest.mark.slow
def test_twenty_steps_then_the_modules_own_loss_is_the_runs_next(
    letters: Any, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, again = tmp_path / "letters.safetensors", tmp_path / "next.py"
    optimizer = ["--optimizer", "adamw:lr=1e-2,weight_decay=0.1,betas=0.9/0.95", "--schedule",
                 "cosine:warmup=2,until=30",
                 "--groups", "*norm*:weight_decay=0,*.bias:weight_decay=0", "--clip-norm", "1"]  # fmt: skip
    words = ["run", str(plan), "--data", f"{EXAMPLE}:batches", "--weights", "module", "--save", str(saved),
             "--iterations", "20", *optimizer, "--json"]  # fmt: skip
    assert run(words) == 0
    document = json.loads(capsys.readouterr().out)
    losses = document["losses"]
    assert len(losses) == 20
    assert losses[-1] < 0.85 * losses[0]
    assert document["difference"]["loss"] < 1e-10
    again.write_text(
        f"import sys\nsys.path.insert(0, {str(EXAMPLE.parent)!r})\nfrom itertools import islice\n"
        "import letters\n\ndef batches():\n    return islice(letters.batches(), 20, None)\n"
    )
    words = [
        "run",
        str(plan),
        "--data",
        f"{again}:batches",
        "--weights",
        str(saved),
        "--iterations",
        "1",
        "--no-compare",
    ]
    assert run([*words, "--json"]) == 0
    next_loss = json.loads(capsys.readouterr().out)["losses"][0]
    module = letters.build()["module"]
    module.load_state_dict(load_weights(saved), strict=True)
    walk = letters.batches()
    batch = [next(walk) for _ in range(21)][-1]
    result = module(batch["letters"]).flatten(0, 1)
    assert next_loss == pytest.approx(
        float(torch.nn.functional.cross_entropy(result, batch["labels"].flatten()).detach()), abs=1e-6
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "lbfgs"], "LBFGS is not element-wise"),
        (["--optimizer", "adamw:lr"], "optimizer: expected OPTION=VALUE (got 'lr')"),
        (["--schedule", "cosine"], "schedule: goes with optimizer alone"),
        (["--optimizer", "sgd:lr=1", "--schedule", "cosine:steps=3"], "schedule: has no 'steps'; it has warmup"),
        (["--data", "none.py:batches"], "data: none.py: no such file"),
        (["--data", f"{EXAMPLE}:letters"], "has no 'letters'; it has "),
        (["--weights", "none.pt"], "weights: none.pt: no such file"),
        (["--save", "x.npz"], "save: x.npz: expected a file that ends in .safetensors"),
        (["--data", f"{EXAMPLE}:batches", "--checkpoint-every", "2"], "data: goes without checkpoint_every"),
    ],
)
def test_what_says_nothing(plan: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(plan), *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert re.search(re.escape(said), lines[0]), lines[0]
