"""CSV: exact round trips, and every bad input answered by file, line and column."""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces import Trace, TraceWarning
from meshwright.traces.files import csv as csv_module

GOOD = "arrival,model,slo\n0.5,a,1.0\n1.5,b,2.0\n3.25,a,inf\n"
EXPECTED = Trace([0.5, 1.5, 3.25], ["a", "b", "a"], ("a", "b"), [1.0, 2.0, np.inf])


@pytest.fixture
def file(tmp_path: Path):
    def write(content: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        GOOD.rstrip("\n"),
        GOOD + "\n\n",
        "# a comment\n# another\n" + GOOD,
        GOOD.replace("arrival,model,slo", " arrival , model,slo "),
        GOOD.replace("0.5,", " 0.5 ,"),
        "slo,model,extra,arrival\n1.0,a,x,0.5\n2.0,b,,1.5\ninf,a,y,3.25\n",
        '"arrival","model","slo"\n"0.5","a","1.0"\n1.5,b,2.0\n3.25,a,inf\n',
    ],
)
def test_variants_of_the_same_file_read_the_same(file, content: str) -> None:
    assert traces.read(file(content)) == EXPECTED
    assert traces.read(file(gzip.compress(content.encode()), "t.csv.gz")) == EXPECTED
    assert traces.read(file(gzip.compress(content.encode()), "no-ending")) == EXPECTED


# Names that CSV has to quote, numbers that need all their digits, models that nobody asked for.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=6)
TRACES = st.builds(
    lambda models, rows, slo, tokens: Trace(
        np.cumsum([gap for gap, _ in rows]),
        [m % len(models) for _, m in rows],
        models,
        slo,
        prompt_tokens=[1 + m for _, m in rows] if tokens else None,
        prefix=[m - 2**40 for _, m in rows] if tokens else None,
    ),
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.floats(0, 1e7, allow_subnormal=True), st.integers(0, 1000)), min_size=1, max_size=20),
    st.one_of(st.just(np.inf), st.floats(1e-300, 1e9)),
    st.booleans(),
)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@given(trace=TRACES)
@settings(
    max_examples=examples(20, anew=40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_round_trip_is_exact(tmp_path: Path, ending: str, trace: Trace) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"t{ending}"
    traces.write(trace, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        assert traces.read(path) == trace


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = traces.gamma(20.0, 2.0, 30.0, ["a", "b"], slo=0.5, seed=1)
    for ending in (".csv", ".csv.gz"):
        first = traces.write(trace, tmp_path / f"1{ending}").read_bytes()
        assert traces.write(trace, tmp_path / f"2{ending}").read_bytes() == first


def test_chunks_join_seamlessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traces.gamma(50.0, 2.0, 30.0, ["b", "a", "c"], slo=[0.1, 0.2, 0.3], seed=1)
    traces.write(trace, tmp_path / "whole.csv")
    monkeypatch.setattr(csv_module, "CHUNK", 7)
    traces.write(trace, tmp_path / "pieces.csv")
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert traces.read(tmp_path / "pieces.csv") == trace


def test_models_without_requests_and_their_order_are_kept(tmp_path: Path) -> None:
    trace = Trace([1.0, 4.0], ["c", "a"], ("a", "b", "c"))
    path = traces.write(trace, tmp_path / "t.csv")
    assert path.read_text().startswith('# meshwright models: ["a", "b", "c"]\n')
    assert traces.read(path) == trace


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv: the file is empty; expected a header line"),
        ("\n\n", "t.csv: the file is empty"),
        ("arrival,model\n", "t.csv: holds a header and no request"),
        ("time,model\n1,a\n", r"t.csv:1: missing column 'arrival'; found: time, model; expected: arrival, model"),
        ("# x\n\ntime,name\n", r"t.csv:3: missing columns 'arrival', 'model'; found: time, name"),
        ("arrival;model\n1;a\n", r"t.csv:1: columns look separated by semicolons .*expected commas.*delimiter=';'"),
        ("arrival\tmodel\n1\ta\n", r"t.csv:1: columns look separated by tabs"),
        ("arrival,model,model\n1,a,b\n", "t.csv:1: column 'model' appears twice"),
        ("arrival,model\n1,a\nsoon,b\n", r"t.csv:3: column 'arrival' is not a number \(got 'soon'\)"),
        ("arrival,model\n1,a\n,b\n", r"t.csv:3: column 'arrival' is empty"),
        ("arrival,model\n1,a\n2,\n", r"t.csv:3: column 'model' is empty"),
        ("arrival,model\n1,a\n2\n", r"t.csv:3: column 'model' is missing \(the line has 1 columns\)"),
        ("arrival,model\n1,a\n2,b,9\n", r"t.csv:3: expected 2 columns \(got 3\)"),
        ("arrival,model\n1,a,9\n2,b,9\n", r"t.csv:2: expected 2 columns \(got 3\)"),
        ("arrival,model\n1,a\nnan,b\n", r"t.csv:3: column 'arrival' must be finite \(got 'nan'\)"),
        ("arrival,model\n1,a\ninf,b\n", r"t.csv:3: column 'arrival' must be finite"),
        ("arrival,model\n-1,a\n2,b\n", r"t.csv:2: column 'arrival' must be >= 0 \(got '-1'\)"),
        (
            "arrival,model\n\n5,a\n2,b\n",
            r"t.csv:4: column 'arrival' is earlier than .* before, 5 .*\n.*sort=True",
        ),
        ("arrival,model,slo\n1,a,0\n", r"t.csv:2: column 'slo' must be > 0"),
        ("arrival,model,slo\n1,a,\n", r"t.csv:2: column 'slo' is empty"),
        ("arrival,model,prompt_tokens\n1,a,0\n", r"t.csv:2: column 'prompt_tokens' must be an integer >= 1"),
        ("arrival,model,output_tokens\n1,a,2.5\n", r"t.csv:2: column 'output_tokens' must be an integer"),
        ("arrival,model,prefix\n1,a,1\n1,a,inf\n", r"t.csv:3: column 'prefix' must be an integer"),
        ("arrival,model,prefix\n1,a,1\n1,a,99999999999999999999\n", r"t.csv:3: column 'prefix' must be an integer"),
        ("arrival,model,id\n1,a,x\n3,a,y\n4,b,x\n", r"t.csv:4: column 'id' was given before; ids must be distinct"),
        ('arrival,model\n1,"a\n2,b\n', r"t.csv"),
        (b"arrival,model\n1,\xff\xfe\n", r"t.csv: is not UTF-8 text"),
        (b"\xff\xfea\x00r\x00", r"t.csv: is not UTF-8 text"),
        ('# meshwright models: ["a",\narrival,model\n1,a\n', r"t.csv:1: the list of models is no JSON"),
        ('# meshwright models: "a"\narrival,model\n1,a\n', r"t.csv:1: expected a JSON list"),
        ('# meshwright models: ["a"]\narrival,model\n1,b\n', r"t.csv:3: column 'model' is no known model"),
    ],
)
def test_bad_files_are_answered_by_line_and_column(file, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        traces.read(file(content))
    assert isinstance(caught.value, ValueError)
    packed = gzip.compress(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        traces.read(file(packed, "t.csv"))


def test_first_five_offending_lines_and_their_number(file) -> None:
    lines = [f"{-i if i % 2 else i},a" for i in range(1, 41)]
    with pytest.raises(InputError) as caught:
        traces.read(file("arrival,model\n" + "\n".join(lines)))
    message = str(caught.value)
    assert re.findall(r":(\d+): column", message) == ["2", "4", "6", "8", "10"]
    assert "20 problems in all, the first 5 shown" in message


def test_problems_of_several_columns_come_together(file) -> None:
    with pytest.raises(InputError) as caught:
        traces.read(file("arrival,model,slo\nx,a,1\n2,,1\n3,b,-1\n"))
    assert re.findall(r":(\d+): column '(\w+)'", str(caught.value)) == [("2", "arrival"), ("3", "model"), ("4", "slo")]


@pytest.mark.parametrize("cut", [30, 200, -9, -1])
def test_truncated_gzip_is_said_with_the_lines_that_were_whole(tmp_path: Path, cut: int) -> None:
    path = traces.write(traces.poisson(50.0, 20.0, ["a", "b"], seed=1), tmp_path / "t.csv.gz")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"t\.csv\.gz: the gzip file is truncated or damaged after \d+ whole lines"):
        traces.read(path)


def test_damaged_gzip_is_said(tmp_path: Path) -> None:
    path = traces.write(traces.poisson(50.0, 20.0, ["a", "b"], seed=1), tmp_path / "t.csv.gz")
    data = bytearray(path.read_bytes())
    data[-8:] = b"\x00" * 8
    path.write_bytes(data)
    with pytest.raises(InputError, match="truncated or damaged"):
        traces.read(path)


def test_missing_file_folder_and_unknown_format(tmp_path: Path, file) -> None:
    with pytest.raises(InputError, match="no such file"):
        traces.read(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="is a folder"):
        traces.read(tmp_path, format="csv")
    with pytest.raises(InputError, match="unknown format 'xml'; expected one of csv, parquet"):
        traces.read(file(GOOD), format="xml")
    with pytest.raises(InputError, match="has no option 'sorted'; options: models, slo, sort"):
        traces.read(file(GOOD), sorted=True)
    with pytest.raises(InputError, match="at least one file"):
        traces.read([])


def test_sort_is_for_order_only(file) -> None:
    path = file("arrival,model\n5,a\n2,b\n5,c\n")
    trace = traces.read(path, sort=True)
    assert trace.arrival.tolist() == [2.0, 5.0, 5.0]
    assert [trace.models[i] for i in trace.model] == ["b", "a", "c"]
    with pytest.raises(InputError, match="must be finite"):
        traces.read(file("arrival,model\n5,a\nnan,b\n"), sort=True)


def test_unknown_models_are_named_or_counted(file) -> None:
    path = file("arrival,model\n1,a\n2,x\n3,b\n4,y\n5,x\n")
    with pytest.raises(InputError) as caught:
        traces.read(path, models=["a", "b"])
    message = str(caught.value)
    assert re.findall(r":(\d+): column 'model' is no known model", message) == ["3", "5", "6"]
    assert "known models: a, b" in message
    with pytest.warns(TraceWarning, match=r"left out 3 of 5 requests, of 2 unknown model\(s\): x, y"):
        trace = traces.read(path, models=["b", "a"], ignore_unknown=True)
    assert (trace.models, trace.arrival.tolist(), trace.model.tolist()) == (("b", "a"), [1.0, 3.0], [1, 0])
    with pytest.raises(InputError, match="no request is of a known model"):
        traces.read(path, models=["q"], ignore_unknown=True)


def test_units_and_the_warning_about_them(file) -> None:
    path = file("arrival,model\n1000,a\n2500,b\n")
    assert traces.read(path, unit="ms").arrival.tolist() == [1.0, 2.5]
    with pytest.warns(TraceWarning, match=r"times look like another unit than 's': 2 requests within 0.5 s"):
        traces.read(file("arrival,model\n0.1,a\n0.6,b\n", "short.csv"))
    with pytest.warns(TraceWarning, match="times look like another unit than 'us'"):
        traces.read(path, unit="us")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(traces.read(file("arrival,model\n0.5,a\n", "one.csv"))) == 1  # one request has no rate
        assert len(traces.read(path)) == 2
    with pytest.raises(InputError, match="unknown unit 'h'; expected one of s, ms, us, ns"):
        traces.read(path, unit="h")


def test_other_names_other_delimiter_one_model(file) -> None:
    path = file("when;what\n1;a\n2;b\n")
    assert traces.read(path, columns={"arrival": "when", "model": "what"}, delimiter=";").arrival.tolist() == [1.0, 2.0]
    assert traces.read(file("arrival\n1\n2\n", "one.csv"), models=["only"]).models == ("only",)
    with pytest.raises(InputError, match="'speed' is no field of a trace"):
        traces.read(path, columns={"speed": "when"}, delimiter=";")
    with pytest.raises(InputError, match="missing column 'when2'"):
        traces.read(path, columns={"arrival": "when2", "model": "what"}, delimiter=";")


def test_slo_given_replaces_the_files_own(file) -> None:
    assert traces.read(file(GOOD), slo={"a": 7.0, "b": 8.0}).slo.tolist() == [7.0, 8.0, 7.0]


def test_slices_are_rebased(file) -> None:
    trace = traces.read(file(GOOD), start=1.0, stop=3.0)
    assert trace.arrival.tolist() == [0.5]
    for start, stop in ((-1.0, None), (float("nan"), None), (5.0, 5.0), (2.0, float("nan"))):
        with pytest.raises(InputError, match=r"start|stop"):
            traces.read(file(GOOD), start=start, stop=stop)


def test_writing_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")
    monkeypatch.setattr(csv_module, "_write_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        traces.write(EXPECTED, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
    with pytest.raises(InputError, match=r"ends in \.csv"):
        traces.write(EXPECTED, tmp_path / "t.json")


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    path = traces.write(traces.poisson(100.0, 50.0, ["a"]), tmp_path / "t.csv.gz")
    seen: list[tuple[int, int]] = []
    traces.read(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


CELLS = st.sampled_from(["1", "2.5", "-1", "nan", "inf", "", "a", " 3", "1e400", "0x1", '"', "\x00", "9" * 25])
HEADERS = ["arrival,model", "arrival,model,slo", "model,prompt_tokens,arrival", "arrival,model,prefix", "id,x"]


@given(st.lists(st.lists(CELLS, max_size=4), max_size=6), st.sampled_from(HEADERS))
@settings(
    max_examples=examples(80, anew=300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_gives_a_trace_or_an_input_error(tmp_path: Path, rows: list[list[str]], header: str) -> None:
    path = tmp_path / "fuzz.csv"
    path.write_text(header + "\n" + "\n".join(",".join(row) for row in rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        try:
            trace = traces.read(path)
        except InputError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
        else:
            Trace(trace.arrival, trace.model, trace.models, trace.slo)  # it holds what a Trace promises


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_a_trace_is_the_same_in_every_unit(file, unit: str, per_second: int) -> None:
    rows = "".join(f"{k * per_second},a\n" for k in range(1, 40))
    assert traces.read(file(f"arrival,model\n{rows}"), unit=unit).arrival.tolist() == list(range(1, 40))
