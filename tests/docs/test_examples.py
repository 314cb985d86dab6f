"""Every file of examples/ runs to its finished output: scripts as users start them, plans and worlds by the verb.

Study files run in tests/cli/study/test_examples.py, net.py where modules are traced, planner-gate.yml in
tests/gate.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.cli import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SLOW = pytest.mark.slow
SCRIPTS = {
    "ask_tell.py": ("cheapest: ", SLOW),
    "capacity.py": ("tightest SLO scale", SLOW),
    "decoding_methods.py": ("Orca (Oracle): ", None),
    "engine_failure.py": ("and autoscaled", SLOW),
    "llm_engine.py": ("tiny-llama says: ", SLOW),
    "llm_plan.py": ("at 90/s: ", None),
    "own_llm_policy.py": ("short-prompts-first: admitted 20 tokens, 40 tokens, 60 tokens", SLOW),
    "own_planner.py": ("the trivial plan attains", None),
    "own_sharing_policy.py": ("rho", SLOW),
    "training/letters.py": ("the module itself, with the trained weights", SLOW),
    "pool_ratio.py": ("2:2", SLOW),
    "stage_graphs.py": ("", SLOW),
    "study_in_python.py": ("mean attainment", SLOW),
    "terapipe.py": ("s an iteration, devices idle", None),
    "training_estimate.py": ("", None),
    "two_models.py": ("Gamma, CV 3", None),
}
"""What each says, in a process of its own; those that take more than about 3 seconds of CPU are slow."""
ELSEWHERE = {
    "breaks-first.yaml", "capacity-study.yaml", "headroom.yaml", "llm-capacity.yaml", "sharing-study.yaml",
    "sweep.yaml", "training-study.yaml", "net.py", "own_backend.py", "planner-gate.yml",
    "dcgan-costs.json", "dcgan-profiles.json", "test_own_planner.py", "training-deepseek-v3.yaml",
    "training-llama-4-maverick.yaml", "training-llama-3-405b.yaml", "training-llama-3-70b.yaml",
    "training-mixtral-8x7b.yaml", "training-mixtral-8x22b.yaml",
}  # fmt: skip
HERE = {"plan.json", "sharing.yaml", "sharing-here.yaml"}


def test_no_example_is_forgotten() -> None:
    every = (path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file())
    found = {path.as_posix() for path in every if "__pycache__" not in path.parts}
    assert found == {*SCRIPTS, *ELSEWHERE, *HERE}
    tests = [path.read_text(encoding="utf-8") for path in (EXAMPLES.parent / "tests").rglob("test_*.py")]
    for name in ELSEWHERE - {
        "breaks-first.yaml",
        "capacity-study.yaml",
        "headroom.yaml",
        "sharing-study.yaml",
        "sweep.yaml",
        "training-study.yaml",
    }:
        assert sum(name in text for text in tests) > 1, name  # studies are taken from the folder, all of them


@pytest.mark.parametrize(
    ("name", "said"),
    [pytest.param(name, said, id=name, marks=[mark] if mark else []) for name, (said, mark) in SCRIPTS.items()],
)
def test_the_script_runs(name: str, said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert len(done.stdout) > 40
    assert "Traceback" not in done.stderr


def test_the_plan_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(EXAMPLES / "plan.json"), "--rate", "40", "--cv", "2", "--duration", "20"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"attain", said)
    assert "%" in said


@pytest.mark.parametrize("name", ["sharing-here.yaml", pytest.param("sharing.yaml", marks=SLOW)])
def test_the_world_is_shared(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(EXAMPLES / name), "--out", str(tmp_path / "out.json")]) == 0
    said = capsys.readouterr().out
    assert "themis" in said
    assert "tiresias" in said
    assert (tmp_path / "out.json").stat().st_size > 100
