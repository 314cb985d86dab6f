"""The contract of every verb: exit codes, one line per error, tracebacks only when asked for, light help."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from meshwright.cli import diagnosis, run
from meshwright.cli import main as cli
from meshwright.cli.verbs import COMMANDS, GROUPS, VERBS
from meshwright.errors import InfeasibleError, InputError, MeshwrightError, OutOfProfileError, RunError
from meshwright.worlds.door import DOORS
from meshwright.worlds.need import Need
from meshwright.worlds.registry import WORLDS, names, open_world, titles

HEAVY = ("pandas", "matplotlib", "scipy", "ortools", "numba", "torch", "simpy", "yaml")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/plan.json"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_imports_nothing_heavy() -> None:
    """Of the whole command and of every verb, and neither does a typo."""
    lines = [["--help"], ["--version"], ["plam"], *([verb, "--help"] for verb in VERBS)]
    program = (
        "import sys\nfrom meshwright.cli import run\n"
        f"for words in {lines!r}:\n"
        "    run(words)\n"
        f"    print('after', words, [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = [line for line in done.stderr.splitlines() if line.startswith("after ")]
    assert found == [f"after {words} []" for words in lines]


def test_help_of_a_world_does_not_load_numba() -> None:
    """Fields are told without what simulates them: numba and what it takes along is a second of a processor."""
    program = (
        "import sys\nfrom meshwright.cli import run\n"
        f"for world in {list(names())!r}:\n"
        "    run(['plan', world, '--help'])\n"
        "    print('after', world, [m for m in ('numba', 'torch') if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = [line for line in done.stderr.splitlines() if line.startswith("after ")]
    assert found == [f"after {world} []" for world in names()]


def test_help_lists_every_verb_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "--help")
    assert code == 0
    assert err == ""
    for verb, what in VERBS.items():
        assert any(line.split()[:1] == [verb] and what.split()[0] in line for line in out.splitlines()), verb
    assert "Exit codes: 0 success" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, verb, "--help")
    assert code == 0
    assert out.startswith(f"Usage: meshwright {verb}")
    assert "--help" in out


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_refuses_an_unknown_option_in_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, verb, "--no-such-option")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"meshwright {verb}: ")
    assert err.endswith(f"see 'meshwright {verb} --help'\n")


@pytest.mark.parametrize("verb", DOORS)
def test_a_verb_of_worlds_says_which_there_are(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, verb, "--help")
    assert (code, err) == (0, "")
    for name in names():
        assert (name in titles(verb)) == any(line.split()[:1] == [name] for line in out.splitlines()), name
    assert out.count(f"  meshwright {verb}") + out.count("  meshwright new") >= 2
    assert said(capsys, verb) == (2, "", out)


@pytest.mark.parametrize("verb", DOORS)
def test_a_verb_of_worlds_refuses_options_before_its_first_word(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As they were said before there were cases: the line shows how it is said now."""
    code, out, err = said(capsys, verb, "--planner", "alpaserve", "--cluster", "1x4")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"meshwright {verb} WORLD --planner alpaserve … (WORLD: {', '.join(titles(verb))};" in err


def test_worlds_say_their_doors_where_help_reads_them() -> None:
    for name in WORLDS:
        world = open_world(name)
        assert titles()[name] == world.title
        assert {verb for verb in DOORS if name in titles(verb)} == set(world.doors)


@pytest.mark.parametrize("verb", GROUPS)
def test_every_group_names_its_verbs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, verb, "no-such-verb")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_typo_of_a_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "simulat") == (2, "", "meshwright: no verb 'simulat'; did you mean 'simulate'?\n")
    assert f"the verbs are {', '.join(VERBS)}" in said(capsys, "xyzzy")[2]


def test_no_arguments_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys)
    assert code == 2
    assert "Verbs:" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x.csv:3: arrival: expected seconds (got 'y'); mend it"), 2),
        (OutOfProfileError("no entry for batch 3; profiled batches: 1, 2"), 2),
        (InfeasibleError("needs 14 GiB, 13 are usable; one device more would do"), 3),
        (RunError("worker 0 died"), 1),
        (MeshwrightError("a comparison failed"), 1),
    ],
)
def test_our_errors_are_one_line_and_a_code(
    error: MeshwrightError, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, error)
    assert said(capsys, "doctor") == (code, "", f"meshwright: {error}\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (FileNotFoundError(2, "No such file or directory", "t.csv"), 2, "t.csv: No such file or directory"),
        (PermissionError(13, "Permission denied", "/x"), 2, "/x: Permission denied"),
        (OSError(28, "No space left on device"), 1, "[Errno 28] No space left on device"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 2, "pip install -e '.[torch]'"),
        (ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow"), 2, "pip install -e '.[parquet]'"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 130, "interrupted"),
        (ZeroDivisionError("division by zero"), 1, "internal error: ZeroDivisionError: division by zero"),
    ],
)
def test_other_errors_are_one_line_too(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, error)
    got, out, err = said(capsys, "doctor")
    assert (got, out) == (code, "")
    assert err.startswith("meshwright: ")
    assert line in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_traceback(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, InputError("wrong"))
    with pytest.raises(InputError, match="wrong"):
        run(words)


def test_debug_by_environment_and_not_for_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, InputError("wrong"))
    with monkeypatch.context() as patch:
        patch.setenv(cli.DEBUG, "1")
        with pytest.raises(InputError):
            run(["doctor"])
    assert said(capsys, "doctor")[0] == 2


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have `doctor` raise."""

    def diagnose() -> None:
        raise error

    monkeypatch.setattr("meshwright.cli.diagnosis.diagnose", diagnose)


def test_debug_prints_a_traceback_and_without_it_there_is_none(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "meshwright", "export", str(tmp_path / "no.json"), "--to", "k8s", "--out", "x"]
    plain = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert plain.returncode == 2
    assert plain.stderr == f"meshwright: {tmp_path}/no.json: cannot read the plan: No such file or directory\n"
    shown = subprocess.run([*words, "--debug"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.returncode == 1
    assert "Traceback (most recent call last)" in shown.stderr
    assert not list(tmp_path.iterdir()), "nothing is half-written"


def test_nobody_reads_the_output(tmp_path: Path) -> None:
    """``meshwright … | head -0``: no traceback, no message at exit either."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "meshwright", "new", "serving", "--plan-schema"],
        stdout=writer, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_control_c_is_one_line_and_130(tmp_path: Path) -> None:
    """A real SIGINT while a verb works."""
    program = (
        "import time, sys\nimport meshwright.cli.diagnosis as d\nfrom meshwright.cli import run\n"
        "def diagnose():\n    print('working', flush=True)\n    time.sleep(60)\n"
        "d.diagnose = diagnose\nsys.exit(run(['doctor']))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"working\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"meshwright: interrupted\n")


def test_doctor_says_what_works(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = diagnosis.diagnose()
    monkeypatch.setattr(diagnosis, "diagnose", lambda: found)
    code, out, _ = said(capsys, "doctor", "--json")
    assert code == 0
    assert json.loads(out) == found
    assert found["ok"] is True
    assert found["works"]["plans"].startswith("yes, written and read back")
    assert found["works"]["simulation"].startswith("yes, both engines agree")
    assert found["libraries"]["numpy"]
    code, out, _ = said(capsys, "doctor")
    assert code == 0
    for word in ("meshwright:", "libraries:", "machine:", "cores", "gpus", "works:", "simulation"):
        assert word in out


def test_doctor_fails_where_simulation_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise RuntimeError("numba is broken\nin two lines")

    monkeypatch.setattr(diagnosis, "_needs", lambda: [Need("simulation", broken, must=True)])
    code, out, _ = said(capsys, "doctor")
    assert code == 1
    assert "no: RuntimeError: numba is broken" in out


def test_export_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x"
    code, text, err = said(capsys, "export", str(EXAMPLE), "--to", "k8s", "--out", str(out), "--json")
    assert (code, err) == (0, "")
    files = json.loads(text)["files"]
    assert sorted(files) == sorted(str(p) for p in out.iterdir())
    code, text, err = said(capsys, "export", str(EXAMPLE), "--to", "torchrun", "--out", str(out))
    assert code == 0
    assert "launch-node-0.sh" in text
    (out / "mine").write_text("x")
    code, text, err = said(capsys, "export", str(EXAMPLE), "--to", "torchrun", "--out", str(out))
    assert (code, text) == (2, "")
    assert "--force" in err
    assert said(capsys, "export", str(EXAMPLE), "--to", "torchrun", "--out", str(out), "--force")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "k8s"], "the first word says what about: meshwright export WORLD --to k8s"),
        ([str(EXAMPLE), "--out", "x"], "--to is missing; expected one of torchrun, k8s, ray-serve, triton, vllm"),
        ([str(EXAMPLE), "--to", "k8s"], "--out is missing"),
        ([str(EXAMPLE), "--to", "k9s", "--out", "x"], "did you mean 'k8s'?"),
        ([str(EXAMPLE), "--to", "vllm", "--out", "x", "--model-source", "a"], "--model-source: expected NAME=VALUE"),
        ([str(EXAMPLE), "--to", "vllm", "--out", "x", "--on", "cuda"], "is an encoder"),
    ],
)
def test_export_verb_bad_input(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, "export", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_new_prints_the_schema_of_plans(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "new", "serving", "--plan-schema")
    assert code == 0
    assert json.loads(out)["$defs"]["GroupEntry"]["additionalProperties"] is False
    for world in names():
        assert said(capsys, "new", world, "--plan-schema")[0] == 0
