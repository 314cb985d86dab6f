"""TeraPipe's tables and figures: made, the same bytes twice, and judged by their rules."""

from __future__ import annotations

import json

import pytest
from meshwright.reproduce import FIGURES, reproduce
from meshwright.reproduce.terapipe import fig03, fig05, fig06, fig07, table1
from meshwright.reproduce.terapipe.latencies import expected, judged, rows_of
from meshwright.reproduce.terapipe.points import latencies
from meshwright.reproduce.terapipe.tables import ROWS, SPEEDUPS, row

NAMES = [name for name in FIGURES if name.startswith("terapipe/")]


@pytest.mark.parametrize("name", NAMES)
def test_is_made(name, tmp_path):
    report = reproduce(name, fast=True, out=tmp_path)
    more = ["_sensitivity.png"] if report.sensitivity else []
    more += ["-readings.csv"] if name == "terapipe/fig06" else []
    assert set(report.files) == {tmp_path / f"{name}{end}" for end in (".csv", ".png", ".json", *more)}
    claims = json.loads((tmp_path / f"{name}.json").read_text())["claims"]
    assert len(claims) == len(report.claims) > 1
    assert all(c["value"] is not None for c in claims)
    assert all(c["why"] for c in claims if c["verdict"] != "holds")


@pytest.mark.parametrize("name", ["terapipe/table1", "terapipe/fig03"])
def test_twice_the_same_bytes(name, tmp_path):
    first, second = (reproduce(name, fast=fast, out=tmp_path / str(fast)) for fast in (True, False))
    for a, b in zip(first.files, second.files, strict=True):
        if a.suffix != ".json":
            assert a.read_bytes() == b.read_bytes()


def test_tables_have_the_papers_rows():
    assert [len(rows_of(t)) for t in ("2", "3", "4")] == [18, 13, 8]
    assert {r.key for t in ("2", "3", "4") for r in rows_of(t)} == {r.key for r in ROWS}


def test_latencies_far_off_do_not_hold():
    claims = expected("3")
    frame = latencies(rows_of("3"))
    verdicts = [c.verdict for c in judged(frame, claims)]
    assert verdicts[0] == "holds"
    for column in ("error", "left_out_error"):
        frame[column] = frame[column] + 0.5
    assert [c.verdict for c in judged(frame, claims)][:3] == ["does not hold"] * 3
    frame["tflops"] *= 1.02
    assert judged(frame, claims)[3].verdict == "does not hold"


def test_counts_that_see_all_replicas_do_not_hold():
    frame = latencies(rows_of("2"))
    held = {c.text: c.verdict for c in judged(frame, expected("2"))}
    text = expected("2")["replicas"].text
    assert held[text] == "holds"
    frame["tflops"] = frame.tflops_counted
    assert {c.text: c.verdict for c in judged(frame, expected("2"))}[text] == "does not hold"


def test_speedups_are_judged_by_the_papers():
    import pandas as pd

    def made(off):
        points = [
            {"setting": k, "tokens": n, "model": table1.SETTINGS[k].model,
             "paper": row(k, n, "w/o").seconds / row(k, n).seconds}
            for k, n in SPEEDUPS
        ]  # fmt: skip
        frame = pd.DataFrame(points)
        for way in ("own", "scheme"):
            frame[way] = frame[f"left_out_{way}"] = frame.paper * off
            frame[f"left_out_{way}_error"] = off - 1
        return frame

    assert {c.verdict for c in fig05.judged(made(1.0))} == {"holds"}
    off = fig05.judged(made(1.3))
    assert [c.verdict for c in off if "speed-up, planned" in c.text] == ["beyond"] * 8
    assert [c.verdict for c in fig05.judged(made(0.8)) if "speed-up, planned" in c.text] == ["does not hold"] * 8
    assert [c.verdict for c in off[-4:]] == ["does not hold"] * 4
    five = made(1.0)
    assert {c.verdict for c in fig07.judged(five[five.setting == 5])} == {"holds"}
    late = made(1.4)
    assert {c.verdict for c in fig07.judged(late[late.setting == 5])} == {"holds", "beyond", "does not hold"}


def test_uniform_slices_of_the_paper_itself_hold():
    frame = fig06.measured()
    frame["ours_s"] = frame.paper_s
    held = {c.text: c.verdict for c in fig06.judged(frame)}
    for key in ("44B", "175B", "fine", "coarse", "best"):
        assert held[fig06.EXPECTED[key].text] == "holds", key


def test_tiles_fill_waves_by_hand():
    """256 rows of 2048 wide in tiles of 128: 96, 32, 128 and 32 tiles on 80 multiprocessors, in 2, 1, 2 and 1 waves."""
    by_hand = (3 * 160 / 96 + 80 / 32 + 4 * 160 / 128 + 4 * 80 / 32) / 12
    assert fig03.waves(256, (128, 128)) == pytest.approx(by_hand)
    assert fig03.waves(80 * 128, (128, 128)) == pytest.approx(1.0)


def test_a_layer_that_is_not_flat_does_not_hold():
    frame = fig03.curve()
    frame["milliseconds"] = frame.tokens * 1.0
    frame["tokens_per_ms"] = 1.0
    held = {c.text: c.verdict for c in fig03.judged(frame)}
    assert held[fig03.EXPECTED["flat"].text] == "does not hold"
    assert held[fig03.EXPECTED["throughput"].text] == "does not hold"


def test_settings_that_do_not_multiply_do_not_hold():
    frame = table1.rows()
    assert [c.verdict for c in table1.judged(frame)] == ["holds"] * 3
    frame.loc[0, "gpus"] += 1
    assert table1.judged(frame)[0].verdict == "does not hold"
