"""Completion in bash, through the installed command and the variables that typer's script sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.cli.verbs import VERBS
from meshwright.worlds.registry import names, open_world, titles

COMMAND = Path(sys.executable).parent / "meshwright"


def offered(line: str, folder: Path) -> list[str]:
    """What stands for choice after a line; its last word is what is typed so far."""
    asked = {"_MESHWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [COMMAND], env={**os.environ, **asked}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_verbs(tmp_path: Path) -> None:
    assert set(offered("meshwright ", tmp_path)) == set(VERBS)
    assert offered("meshwright sim", tmp_path) == ["simulate"]


@pytest.mark.parametrize("verb", ["plan", "compare"])
def test_worlds(verb: str, tmp_path: Path) -> None:
    assert offered(f"meshwright {verb} ", tmp_path) == list(titles(verb))
    assert offered("meshwright new s", tmp_path) == [name for name in names() if name.startswith("s")]


def test_fields_of_a_world(tmp_path: Path) -> None:
    assert {"--rate", "--rate-scale"} <= set(offered("meshwright plan serving --ra", tmp_path))
    assert "--slo-ttft" in offered("meshwright plan llm --slo", tmp_path)
    assert "--slo-ttft" not in offered("meshwright plan serving --slo", tmp_path)


def test_values_of_fields(tmp_path: Path) -> None:
    planners = set(open_world("serving").planners())
    assert set(offered("meshwright plan serving --planner ", tmp_path)) == planners | {"all"}
    assert "h100-80gb" in offered("meshwright plan serving --device h", tmp_path)
    assert "bert-1.3b" in offered("meshwright plan serving --models bert", tmp_path)
    assert offered("meshwright plan serving --dispatch shortest", tmp_path) == ["shortest_queue"]


def test_a_case_file_and_a_plan_say_their_world(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("world: serving\n")
    (tmp_path / "plan.json").write_text('{"format": "meshwright-plan"}')
    assert "--slo-scale" in offered("meshwright plan case.yaml --slo", tmp_path)
    assert "--slo-scale" in offered("meshwright simulate plan.json --slo", tmp_path)
    assert "--devices" not in offered("meshwright simulate plan.json --dev", tmp_path)


@pytest.mark.parametrize("line", ["meshwright plan nonsense --", "meshwright plan no.json --", "meshwright plan --ra"])
def test_what_is_wrong_offers_nothing_but_help(line: str, tmp_path: Path) -> None:
    """And no message, which the shell would print into what is being typed."""
    assert set(offered(line, tmp_path)) <= {"--help"}


def test_a_typo_of_a_verb_is_no_error_while_it_is_typed(tmp_path: Path) -> None:
    assert "--rate" not in offered("meshwright plam ", tmp_path)


def test_the_script_that_a_shell_reads(tmp_path: Path) -> None:
    asked = {**os.environ, "_MESHWRIGHT_COMPLETE": "source_bash"}
    done = subprocess.run([COMMAND], env=asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "complete" in done.stdout
    assert "meshwright" in done.stdout
