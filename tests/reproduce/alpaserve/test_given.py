"""MAF figures on the user's own files: told apart by content, dealt and scaled, refused where they do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.reproduce import reproduce
from meshwright.reproduce.alpaserve import fig12, fig14
from meshwright.reproduce.alpaserve.experiments.given import Given

MODELS = [f"m{i}" for i in range(4)]


def maf1(folder: Path, minutes: int = 1440) -> Path:
    """A day of eight functions: k is called 200 (k + 1) times a minute, in the second half twice as often."""
    head = ["HashOwner", "HashApp", "HashFunction", "Trigger", *map(str, range(1, minutes + 1))]
    rows = [
        [f"o{k}", f"a{k}", f"f{k}", "http", *(str(200 * (k + 1) * (1 + (m >= minutes // 2))) for m in range(minutes))]
        for k in range(8)
    ]
    path = folder / "invocations_per_function_md.anon.d01.csv"
    path.write_text("\n".join(map(",".join, [head, *rows])) + "\n")
    return path


def maf2(folder: Path) -> Path:
    """Day 13 of six functions, called at random, one of them ten times as often."""
    rng = np.random.default_rng(0)
    rows = [
        (12 * 86400 + t, f"a,f{k},{12 * 86400 + t:.3f},0.0")
        for k in range(6)
        for t in rng.uniform(1, 4 * 5400 - 1, 3000 if k == 0 else 300)
    ]
    path = folder / "AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt"
    path.write_text("\n".join(["app,func,end_timestamp,duration", *(line for _, line in sorted(rows))]) + "\n")
    return path


def test_files_are_told_apart_by_their_content(tmp_path):
    one, two = maf1(tmp_path, 10), maf2(tmp_path)
    assert Given.of([two, one]) == Given(one, two)
    assert not Given.of([])
    with pytest.raises(InputError, match="MAF1 was given already"):
        Given.of([one, tmp_path])
    other = tmp_path / "other.csv"
    other.write_text("arrival,model\n0.1,a\n")
    with pytest.raises(InputError, match="expected a file or folder of Azure"):
        Given.of([other])


def test_traffic_has_the_files_shares_at_the_figures_rate(tmp_path):
    traffic = Given.of([maf1(tmp_path, 20)]).traffic("MAF1", MODELS, 20.0, 20, 60.0, 0)
    rates = traffic.windows.rate / traffic.fine
    assert rates.sum(axis=1).mean() == pytest.approx(20.0, rel=0.01)
    # Functions k and k + 4 are model k's: 1 + 5, 2 + 6, 3 + 7, 4 + 8 of 36 parts.
    assert rates.sum(axis=0) / rates.sum() == pytest.approx(np.array([6, 8, 10, 12]) / 36, rel=0.03)
    assert rates[10:].sum() / rates[:10].sum() == pytest.approx(2.0, rel=0.03)


def test_a_day_that_is_large_is_thinned(tmp_path, monkeypatch):
    path = maf1(tmp_path, 20)
    whole = Given.of([path]).traffic("MAF1", MODELS, 20.0, 20, 60.0, 0)
    monkeypatch.setattr("meshwright.reproduce.alpaserve.experiments.given.WHOLE_BYTES", 10.0)
    thinned = Given.of([path]).traffic("MAF1", MODELS, 20.0, 20, 60.0, 0)
    assert thinned.fine == pytest.approx(0.05 * whole.fine, rel=0.03)
    assert (thinned.windows.rate / thinned.fine).mean() == pytest.approx(5.0, rel=0.01)


def test_windows_of_maf2_are_of_its_thirteenth_day(tmp_path):
    given = Given.of([maf2(tmp_path)])
    traffic = given.traffic("MAF2", MODELS, 26.0, 4, 15.0, 0)
    rates = traffic.windows.rate / traffic.fine
    assert rates.shape == (4, 4)
    assert rates.sum(axis=1).mean() == pytest.approx(26.0, rel=0.02)
    # Functions 0 and 4 are model 0's: 3,300 of 4,500 calls.
    assert rates[:, 0].sum() / rates.sum() == pytest.approx(3300 / 4500, rel=0.02)
    assert traffic.window_s == 15.0
    with pytest.raises(InputError, match="no file of MAF1"):
        given.traffic("MAF1", MODELS, 20.0, 2, 60.0, 0)


def test_fig12_makes_the_columns_of_what_is_given(tmp_path, monkeypatch):
    monkeypatch.setattr(fig12, "FAST", fig12.Effort({"MAF1": 1, "MAF2": 2}, {"MAF1": 5.0, "MAF2": 4.0}, 2, 1))
    monkeypatch.setattr(fig12, "COLUMNS", (fig12.COLUMNS[0], fig12.COLUMNS[3]))
    report = reproduce("alpaserve/fig12", fast=True, out=tmp_path, trace=[maf2(tmp_path)])
    assert set(report.tables["alpaserve/fig12"].column) == {"S1@MAF2"}
    assert "the traces themselves" in report.notes[0]
    assert fig12.EXPECTED["below"].text not in {c.text for c in report.claims}


def test_fig14_is_of_maf1_alone(tmp_path):
    with pytest.raises(InputError, match="of 2019"):
        fig14.run(True, tmp_path, 0, trace=[maf2(tmp_path)])
    frame = fig14.attainments(2, 1, 2, 1, 0, given=Given.of([maf1(tmp_path, 120)]))
    assert frame.attainment.between(0, 1).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alpaserve/fig17"], "alpaserve/fig17: takes no --trace; figures of the Azure traces are alpaserve/fig12, "),
        (["alpaserve"], "alpaserve/fig01 and 14 more: takes no --trace"),
        (["alpaserve/fig12", "--remember"], "--trace: what is kept"),
        (["accuracy"], "are of figures"),
        (["alpaserve/fig12"], "no such file"),
    ],
)
def test_errors_are_one_line(arguments, said, capsys, tmp_path):
    assert run(["reproduce", *arguments, "--trace", str(tmp_path / "nowhere.csv"), "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
