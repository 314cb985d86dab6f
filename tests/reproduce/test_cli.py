"""`meshwright reproduce`."""

import json

import pytest
from meshwright.cli import run


def test_list_names_every_figure(capsys):
    from meshwright.reproduce import FIGURES

    assert run(["reproduce", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in FIGURES)


def test_writes_and_prints_verdicts(tmp_path, capsys):
    assert run(["reproduce", "alpaserve/fig01", "alpaserve/table1", "--fast", "--out", str(tmp_path), "--strict"]) == 0
    out = capsys.readouterr().out
    assert "holds" in out
    assert "findings: 0 of 0 hold, 7 not counted" in out
    assert (tmp_path / "alpaserve/fig01.png").exists()


def test_json_is_one_document(tmp_path, capsys):
    assert run(["reproduce", "alpaserve/fig01", "--fast", "--out", str(tmp_path), "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["name"] == "alpaserve/fig01"
    assert [c["verdict"] for c in report["claims"]] == ["holds", "holds"]


def test_strict_fails_when_a_claim_does(tmp_path, monkeypatch):
    from meshwright.reproduce import Expectation, at_least
    from meshwright.reproduce.alpaserve import fig01

    never = Expectation("never", "§0", "1", at_least(1e9))
    monkeypatch.setitem(fig01.EXPECTED, "simple", never)
    arguments = ["reproduce", "alpaserve/fig01", "--fast", "--out", str(tmp_path)]
    assert run(arguments) == 0
    assert run([*arguments, "--strict"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vlm/fig12"], "did you mean 'vllm/fig12'"),
        (["fig14"], "say of which paper: alpaserve/fig14, vllm/fig14, themis/fig14"),
        (["vllm/4.12"], "did you mean 'vllm/5.12'"),
        (["vllm/12"], "did you mean"),
        (["vllm/fig99"], "did you mean"),
        (["figure5_12"], "did you mean 'vllm/fig12'"),
        (["nothing of the kind"], "--list shows them"),
        ([], "name a figure"),
        (["alpaserve/fig01", "--seed", "-1"], "seed"),
        (["accuracy", "vllm/fig12"], "made by itself"),
        (["accuracy", "--fast"], "are of figures"),
        (["accuracy", "--silicon", "nowhere.csv"], "silicon: expected a file"),
        (["accuracy", "--seed", "-1"], "seed"),
        (["vllm/fig12", "--no-here"], "go with accuracy"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, arguments, said):
    assert run(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("vllm/fig1", [f"vllm/fig{k}" for k in range(11, 20)]),
        ("alpa/t", ["alpa/table5", "alpa/table3.5"]),
        ("a", ["all", "alpaserve", "alpa", "accuracy"]),
        ("figure", []),
    ],
)
def test_completion_offers_names(typed, offered):
    import typer
    from meshwright.cli.reproduce_cmd import reproduce

    app = typer.Typer(add_completion=False)
    app.command()(reproduce)
    command = typer.main.get_command(app)
    argument = next(parameter for parameter in command.params if parameter.name == "names")
    found = argument.shell_complete(command.make_context("reproduce", [], resilient_parsing=True), typed)
    words = [item.value for item in found]
    assert [word for word in words if typed != "a" or "/" not in word] == offered
