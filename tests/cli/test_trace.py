"""`meshwright trace`: the verbs, their JSON, and one line and an exit code for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright import traces
from meshwright.cli import run


def meshwright(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = run(["trace", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "t.csv"
    code, out, _ = meshwright(
        capsys, "generate", path, "--rate", 20, "--cv", 4, "--duration", 300, "--models", 4, "--slo", 0.5,
        "--split", "power_law:0.5", "--seed", 3,
    )  # fmt: skip
    assert code == 0
    assert "requests of 4 models" in out
    return path


def test_generate_makes_what_the_library_makes(made: Path) -> None:
    models = [f"model-{i}" for i in range(4)]
    assert traces.read(made) == traces.gamma(20.0, 4.0, 300.0, models, {"power_law": 0.5}, 0.5, 3)


@pytest.mark.parametrize("process", ["poisson", "maf1-like", "maf2-like"])
def test_other_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str], process: str) -> None:
    path = tmp_path / "t.csv"
    assert meshwright(capsys, "generate", path, "--process", process, "--models", "a,b", "--duration", 120)[0] == 0
    assert traces.read(path).models == ("a", "b")


def test_info_as_table_json_and_picture(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = meshwright(capsys, "info", made, "--png", tmp_path / "r.png")
    assert code == 0
    assert "peak_to_mean" in out
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = meshwright(capsys, "info", made, "--json", "--window", 30)
    value = json.loads(out)
    assert value["requests"] == len(traces.read(made)) == sum(row["requests"] for row in value["report"][:-1])


def test_convert_there_and_back(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "t.csv.gz"
    assert meshwright(capsys, "convert", made, "-o", packed, "--start", 60, "--stop", 120)[0] == 0
    assert traces.read(packed) == traces.read(made).slice(60.0, 120.0)


def test_fit_and_resample(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, table = tmp_path / "r.csv", tmp_path / "w.csv"
    code, out, _ = meshwright(
        capsys, "fit", made, "--rate", 2, "--resample", drawn, "--table", table, "--seed", 1, "--json"
    )
    assert code == 0
    assert json.loads(out)["requests"] == len(traces.read(drawn))
    assert traces.read(drawn) == traces.fit_gamma(traces.read(made)).scale(rate=2.0).resample(1)
    assert table.read_text().startswith("window,start,stop,model,count,rate,cv,cv_source\n0,0.0,60.0,model-0,")
    code, out, _ = meshwright(capsys, "fit", made)
    assert "CV from the window's own gaps in" in out


def test_warnings_are_a_line_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival,model\n0.1,a\n0.2,b\n")
    code, out, err = meshwright(capsys, "info", path, "--models", "a,c", "--ignore-unknown", "--json")
    assert code == 0
    assert json.loads(out)["requests"] == 1
    assert err.startswith("warning: ")
    assert "left out 1 of 2 requests" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["info", "nothing.csv"], 2, "nothing.csv: no such file"),
        (["info", "{bad}"], 2, "bad.csv:3: column 'arrival' is earlier than the line before"),
        (["info", "{bad}", "--format", "xml"], 2, "unknown format 'xml'"),
        (["info", "{bad}", "--spread", "even"], 2, "format 'csv' has no option 'spread'"),
        (["convert", "{bad}", "-o", "x.csv", "--models", "b"], 2, "is no known model"),
        (["generate", "x.csv", "--rate", "-1"], 2, "rate"),
        (["generate", "x.csv", "--process", "fractal"], 2, "unknown process 'fractal'"),
        (["generate", "x.csv", "--split", "half"], 2, "--split"),
        (["generate", "x.csv", "--process", "poisson", "--cv", "3"], 2, "--cv"),
        (["generate", "x.csv", "--models", "0"], 2, "--models"),
        (["generate", "x.txt"], 2, "ends in .csv"),
        (["fetch", "maf9"], 2, "unknown trace 'maf9'"),
        (["inform"], 2, "inform"),
    ],
)
def test_errors_are_short_and_have_their_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.csv"
    bad.write_text("arrival,model\n5,a\n2,b\n")
    found, out, err = meshwright(capsys, *(word.format(bad=bad) for word in words))
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]  # nothing half-written


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys; from meshwright.cli import run; run(['trace', '--help']);"
        "print(); print({'pandas', 'matplotlib', 'scipy', 'pyarrow', 'torch', 'numba'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.rstrip().endswith("set()")
