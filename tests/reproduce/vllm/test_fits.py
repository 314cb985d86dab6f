"""`reproduce --fits`: somebody's fitted iteration times in place of the modelled cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.llm import FittedCost, Iteration, TableCost
from meshwright.reproduce import FIGURES
from meshwright.reproduce.vllm import fig13
from meshwright.reproduce.vllm.servers import HOST, LLAMA, MODELLED, SERVERS, Costs

LINE = {
    "decoding_large_small_bs_threshold": 95,
    "prefill": [20.0, 0.1, 1e-5],
    "decoding_smallbs": [10.0, 1e-3, 0.5],
    "decoding_largebs": [5.0, 2e-3, 0.25],
}


def fits(folder: Path, **models: dict[str, object]) -> Path:
    path = folder / "fits.json"
    path.write_text(json.dumps({f"facebook/{name.replace('_', '-')}": said for name, said in models.items()}))
    return path


def test_what_is_fitted_costs_what_the_line_says_and_the_rest_is_modelled(tmp_path: Path) -> None:
    costs = Costs(fits(tmp_path, opt_13b={"1": LINE, "2": LINE}, opt_66b={"2": LINE}))
    decode = Iteration((), 10, 1000, 10)
    for server in (SERVERS["OPT-13B"], LLAMA):
        assert isinstance(costs.of(server), FittedCost)
        assert costs.of(server).seconds(decode) == pytest.approx(1e-3 * (10 + 1 + 5))
    for name in ("OPT-66B", "OPT-175B"):  # 66B was not fitted at the degree of its server, four
        assert costs.of(SERVERS[name]).seconds(decode) == SERVERS[name].cost().seconds(decode)
    assert costs.told() == (
        "iterations of OPT-13B take what the fits in fits.json say; OPT-66B, OPT-175B, of which it has none, on "
        "roofline and host time"
    )
    assert isinstance(MODELLED.of(SERVERS["OPT-13B"]), TableCost)
    assert f"{1e3 * HOST.sequence_s:.3f} ms a sequence" in MODELLED.told()


def test_with_fits_nothing_is_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fig13.WORKLOADS, "ShareGPT", (fig13.WORKLOADS["ShareGPT"][0], 2.0, 120.0))
    monkeypatch.setitem(fig13.WORKLOADS, "Alpaca", (fig13.WORKLOADS["Alpaca"][0], 30.0, 20.0))
    monkeypatch.setattr(fig13, "held", lambda system, workload, seed: 7.0)
    report = fig13.run(True, tmp_path, 0, fits=fits(tmp_path, opt_13b={"1": LINE}))
    assert {claim.kind for claim in report.claims} == {"finding"}
    assert not any("calibrated" in claim.text for claim in report.claims)
    assert set(report.tables["vllm/fig13"].role) == {"predicted", "later released"}
    assert report.notes[0].startswith("iterations of OPT-13B take what the fits in fits.json say")
    assert report.sensitivity == ()


def test_figures_12_to_17_take_fits() -> None:
    assert {name for name, figure in FIGURES.items() if figure.takes_fits} == {f"vllm/fig{n}" for n in range(12, 18)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vllm/fig02"], "vllm/fig02: takes no --fits; figures whose iterations may be fitted ones are vllm/fig12, "),
        (["vllm"], "vllm/fig02 and 4 more: takes no --fits"),
        (["vllm/fig12", "--remember"], "--fits: what is kept"),
        (["vllm/fig12", "--gallery", "out"], "--fits: what is kept"),
        (["accuracy"], "are of figures"),
        (["vllm/fig12"], "cannot be read"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["reproduce", *arguments, "--fits", str(tmp_path / "none.json"), "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "expected a table of models"),
        ('{"opt-13b": 3}', "expected models, each with a fit"),
        ('{"opt-13b": {"one": {}}}', "expected models, each with a fit"),
        ('{"opt-13b": {"2": {}}}', "expected a fit of opt-13b at tp 1, opt-66b at tp 4, opt-175b at tp 8"),
    ],
)
def test_a_file_that_is_none_of_fits_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fits.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Costs(path)
