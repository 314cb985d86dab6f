"""The Azure Functions traces: counts kept, functions dealt as the paper says, bad files answered, memory bounded."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces import TraceWarning
from meshwright.traces.azure import maf1 as maf1_module
from sample_data import SAMPLES, measured

HEAD = "HashOwner,HashApp,HashFunction,Trigger,"


def day(path: Path, rows: dict[str, list[int]], minutes: int = 4) -> Path:
    """A small MAF1 file: function -> calls per minute."""
    lines = [HEAD + ",".join(str(i + 1) for i in range(minutes))]
    lines += [f"o,p,{name},http,{','.join(map(str, counts))}" for name, counts in rows.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def maf1(tmp_path: Path) -> Path:
    rows = {"f0": [3, 0, 0, 1], "f1": [0, 0, 0, 0], "f2": [1, 2, 0, 0], "f3": [0, 0, 5, 0]}
    return day(tmp_path / "invocations_per_function_md.anon.d01.csv", rows)


def test_every_call_arrives_in_its_minute(maf1: Path) -> None:
    for spread in ("random", "even"):
        trace = traces.read(maf1, spread=spread)
        assert trace.models == ("f0", "f2", "f3")
        per_minute = [np.bincount((t / 60).astype(int), minlength=4).tolist() for t in trace.arrivals_by_model()]
        assert per_minute == [[3, 0, 0, 1], [1, 2, 0, 0], [0, 0, 5, 0]]
    assert trace.select(["f0"]).arrival.tolist() == [10.0, 30.0, 50.0, 210.0]


def test_silent_functions_do_not_count_when_dealing(maf1: Path) -> None:
    trace = traces.read(maf1, models=["x", "y"])  # f0 -> x, f2 -> y, f3 -> x
    assert trace.counts().tolist() == [9, 3]
    part = traces.read(maf1, models=["x", "y"], start=120.0, stop=180.0)  # only f3 is called, so it is the first
    assert part.counts().tolist() == [5, 0]
    assert part.duration < 60.0


def test_hash_assignment_is_seeded_and_independent_of_the_slice(tmp_path: Path) -> None:
    rows = {f"f{i}": [1, 1 if i % 2 else 0, 0, 0] for i in range(200)}
    path = day(tmp_path / "a.csv", rows)
    models = ["x", "y", "z"]
    named = traces.read(path)
    dealt = {seed: traces.read(path, models=models, assign="hash", seed=seed) for seed in (0, 1)}
    assert all(40 < count < 180 for count in dealt[0].counts())
    assert dealt[0].counts().tolist() != dealt[1].counts().tolist()
    assert len(named.models) == 200
    second = traces.read(path, models=models, assign="hash", seed=0, start=60.0, stop=120.0)
    odd = {name: counts for name, counts in rows.items() if counts[1]}
    alone = traces.read(day(tmp_path / "b.csv", odd), models=models, assign="hash", seed=0, start=60.0, stop=120.0)
    assert second.counts().tolist() == alone.counts().tolist()
    with pytest.raises(InputError, match="unknown way 'best'; expected one of stripe, hash"):
        traces.read(path, models=models, assign="best")


def test_a_minute_is_the_same_in_every_slice(maf1: Path) -> None:
    whole = traces.read(maf1, seed=7).slice(60.0, 180.0)
    part = traces.read(maf1, seed=7, start=60.0, stop=180.0)
    assert np.allclose(whole.arrival, part.arrival, rtol=0, atol=1e-9)
    assert traces.read(maf1, seed=7) == traces.read(maf1, seed=7) != traces.read(maf1, seed=8)


def test_days_follow_each_other(tmp_path: Path) -> None:
    for number, rows in ((2, {"f0": [1, 0, 0, 0]}), (3, {"f9": [0, 1, 0, 0], "f0": [0, 0, 1, 0]})):
        day(tmp_path / f"invocations_per_function_md.anon.d{number:02d}.csv", rows)
    trace = traces.read(tmp_path, spread="even")
    assert trace.arrival.tolist() == [30.0, 86_400 + 90.0, 86_400 + 150.0]
    assert trace.models == ("f0", "f9")
    assert trace.counts().tolist() == [2, 1]
    late = traces.read(tmp_path, spread="even", start=86_400.0)
    assert late.arrival.tolist() == [90.0, 150.0]
    files = sorted(tmp_path.glob("*.csv"))
    assert traces.read(files, "maf1", spread="even") == trace
    with pytest.raises(InputError, match="two files of day 02"):
        traces.read([files[0], files[0]])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="the folder holds no invocations_per_function"):
        traces.read(tmp_path / "empty")


def test_random_spread_is_uniform_and_thinning_is_binomial(tmp_path: Path) -> None:
    n = 20_000
    path = day(tmp_path / "a.csv", {"f0": [n, 0, 0, 0], "f1": [n, 0, 0, 0]})
    trace = traces.read(path, seed=1)
    for times in trace.arrivals_by_model():
        assert abs(times.mean() - 30.0) < 4 * 60 / np.sqrt(12 * n)
        assert abs(times.std() - 60 / np.sqrt(12)) < 4 * 60 / np.sqrt(12) * np.sqrt(0.2 / n)
    thin = traces.read(path, seed=1, thin=0.25)
    assert (abs(thin.counts() - n / 4) < 4 * np.sqrt(n * 0.25 * 0.75)).all()
    for bad in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="thin"):
            traces.read(path, thin=bad)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + "1,2\no,p,f,http,1,x\n", r"d.csv:2: column '2' is not a number \(got 'x'\)"),
        (HEAD + "1,2\no,p,f,http,1,-4\n", r"d.csv:2: column '2' must be an integer >= 0"),
        (HEAD + "1,2\no,p,f,http,1,1.5\n", r"d.csv:2: column '2' must be an integer"),
        (HEAD + "1,2\no,p,f,http,1\n", r"d.csv:2: column '2' is missing"),
        (HEAD + "1,2\no,p,f,http,1,2,3\n", r"d.csv:2: expected 6 columns \(got 7\)"),
        (HEAD + "1,2\no,p,,http,1,2\n", r"d.csv:2: column 'HashFunction' is empty"),
        (HEAD + "1,3\no,p,f,http,1,2\n", r"d.csv:1: missing column '2'"),
        ("HashOwner,HashApp,Trigger,1,2\no,p,http,1,2\n", r"d.csv:1: missing column 'HashFunction'"),
        ("HashOwner,HashApp,HashFunction,Average,Count\no,p,f,1,2\n", r"d.csv:1: missing columns '1', '2'"),
        (HEAD + "1,2\no,p,f,http,0,0\n", r"d.csv: no call between 0 and 86400 s"),
        (HEAD + "1,2\n", r"d.csv: no call"),
        (HEAD + "1,1441\no,p,f,http,0,0\n", r"column 1441 is no minute of a day"),
    ],
)
def test_bad_maf1_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        traces.read(path)


def test_maf1_options_out_of_range(maf1: Path) -> None:
    for options, message in (
        ({"start": 30.0}, "multiples of 60"),
        ({"spread": "poisson"}, "unknown way 'poisson'; expected one of random, even"),
        ({"start": 60.0, "stop": 60.0}, "stop"),
        ({"start": 86_340.0}, "no call between 86340 and 86400"),
        ({"sort": True}, "format 'azure2019' has no option 'sort'"),
    ):
        with pytest.raises(InputError, match=message):
            traces.read(maf1, **options)


def test_too_many_calls_are_refused_before_memory_is_taken(maf1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maf1_module, "MAX_REQUESTS", 11)
    with pytest.raises(InputError, match=r"12 calls between 0 and 86400 s; expected at most 11; .*\(thin\)"):
        traces.read(maf1)
    assert len(traces.read(maf1, stop=180.0)) == 11


def test_truncated_maf1(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = day(tmp_path / "a.csv", {f"f{i}": rng.integers(0, 9, 60).tolist() for i in range(300)}, 60)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(whole.read_bytes())[:-500])
    with pytest.raises(InputError, match="truncated or damaged after"):
        traces.read(packed)
    whole.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a.csv:301: column '\d+' is missing"):
        traces.read(whole)


def test_maf1_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maf1_module, "CHUNK", 100)
    peaks = []
    for functions in (200, 2000):
        path = day(tmp_path / f"{functions}.csv", {f"f{i}": [1 if i == 0 else 0] * 60 for i in range(functions)}, 60)
        traces.read(path, models=["x", "y"])
        tracemalloc.start()
        traces.read(path, models=["x", "y"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # ten times the file


def maf2(path: Path, *rows: tuple[str, str, float, float]) -> Path:
    path.write_text("app,func,end_timestamp,duration\n" + "".join(f"{a},{f},{e!r},{d!r}\n" for a, f, e, d in rows))
    return path


def test_arrival_is_end_minus_duration_in_order(tmp_path: Path) -> None:
    path = maf2(tmp_path / "t.txt", ("p", "f", 10.0, 9.0), ("p", "g", 2.5, 2.0), ("q", "h", 4.0, 0.0))
    trace = traces.read(path)
    assert trace.models == ("f", "g", "h")  # in order of first appearance in the file
    assert (trace.arrival.tolist(), trace.model.tolist()) == ([0.5, 1.0, 4.0], [1, 0, 2])
    assert traces.read(path, models=["x", "y"], slo=0.5).model.tolist() == [1, 0, 0]


def test_functions_of_one_name_in_two_applications_are_two(tmp_path: Path) -> None:
    path = maf2(tmp_path / "t.txt", ("p", "f", 1.0, 0.0), ("q", "f", 2.0, 0.0), ("p", "f", 3.0, 0.0))
    trace = traces.read(path)
    assert trace.models == ("p/f", "q/f")
    assert trace.counts().tolist() == [2, 1]


def test_calls_from_before_time_zero_are_left_out_and_said(tmp_path: Path) -> None:
    path = maf2(tmp_path / "t.txt", ("p", "f", 1.0, 5.0), ("p", "g", 3.0, 1.0), ("p", "h", 2.0, 3.0))
    with pytest.warns(TraceWarning, match="left out 2 calls that arrived before time 0"):
        trace = traces.read(path, models=["x", "y"])
    assert (trace.arrival.tolist(), trace.model.tolist()) == ([2.0], [0])


def test_slices_of_maf2(tmp_path: Path) -> None:
    path = maf2(tmp_path / "t.txt", *(("p", f"f{i}", float(i), 0.0) for i in range(10)))
    trace = traces.read(path, "maf2", models=["x", "y"], start=3.0, stop=6.0)
    assert (trace.arrival.tolist(), trace.model.tolist()) == ([0.0, 1.0, 2.0], [0, 1, 0])
    with pytest.raises(InputError, match="no call arrives between 50 and inf s"):
        traces.read(path, start=50.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("app,func,end_timestamp\np,f,1\n", r"t.txt:1: missing column 'duration'; found: app, func, end_timestamp"),
        ("app;func;end_timestamp;duration\n", r"t.txt:1: "),
        ("app,func,end_timestamp,duration\n", r"t.txt: no call"),
        ("app,func,end_timestamp,duration\np,f,1,0\np,f,later,0\n", r"t.txt:3: column 'end_timestamp' is not a number"),
        ("app,func,end_timestamp,duration\np,f,1,-2\n", r"t.txt:2: column 'duration' must be >= 0"),
        ("app,func,end_timestamp,duration\np,f,nan,0\n", r"t.txt:2: column 'end_timestamp' must be finite"),
        ("app,func,end_timestamp,duration\np,f,1\n", r"t.txt:2: column 'duration' is missing"),
        ("app,func,end_timestamp,duration\np,,1,0\n", r"t.txt:2: column 'func' is empty"),
    ],
)
def test_bad_maf2_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        traces.read(path)


@measured
def test_real_maf1_sample(data: Path) -> None:
    path = (
        data / "traces" / "azure_functions_2019_invocations_sample.csv"
    )  # calls end in minute 230, in the excerpt, too
    trace = traces.read(path, models=["a", "b", "c"], seed=1)
    assert len(trace) == 1150 + 3 * 1125
    assert trace.counts().tolist() == [1150 + 1125, 1125, 1125]  # stripe: functions 0 and 3, 1, 2
    assert 13_740 < trace.duration < 13_800  # the sample's last call is in minute 230
    hour = traces.read(path, stop=3600.0, spread="even")
    assert hour.duration < 3600.0
    assert len(hour.models) == 4


@measured
def test_real_maf2_sample(data: Path) -> None:
    path = data / "traces" / "azure_functions_2021_sample200.csv"
    trace = traces.read(path)
    assert (len(trace), len(trace.models)) == ((60, 28) if data == SAMPLES else (199, 31))
    assert trace.arrival[0] == pytest.approx(0.0014909, abs=1e-6)
    assert data == SAMPLES or trace.duration == pytest.approx(1200.0148, abs=1e-3)
    assert traces.read(path, models=[f"m{i}" for i in range(4)]).counts().sum() == len(trace)
