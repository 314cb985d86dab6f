"""Traces that are wrong: each through the library and through the command line."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
from meshwright import planners, traces
from meshwright.errors import InputError
from meshwright.simulator import Cluster, Group, ParallelConfig, Placement, simulate

HEADER = "arrival,model,slo\n"

ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "unsorted": ({"arrival": [2.0, 1.0]}, "Trace.arrival: times must not decrease"),
    "negative": ({"arrival": [-1.0, 1.0]}, "Trace.arrival: times must be >= 0 seconds"),
    "NaN": ({"arrival": [0.0, math.nan]}, "Trace.arrival: times must be finite seconds"),
    "infinite": ({"arrival": [0.0, math.inf]}, "Trace.arrival: times must be finite seconds"),
    "no numbers": ({"arrival": ["x", "y"]}, "Trace.arrival: expected numbers"),
    "empty": ({"arrival": [], "model": []}, "the trace is empty"),
    "unknown model": ({"model": ["a", "zz"]}, "unknown model 'zz'"),
    "unknown index": ({"model": [0, 7]}, "unknown model index 7"),
    "no models": ({"models": ()}, "expected at least one model name"),
    "a model twice": ({"models": ("a", "a")}, "names must be distinct (got 'a' twice)"),
    "lengths differ": ({"model": [0]}, "Trace.model: expected 2 entries"),
    "SLO zero": ({"slo": 0.0}, "Trace.slo: SLOs must be > 0 seconds"),
    "SLO NaN": ({"slo": math.nan}, "Trace.slo: SLOs must be > 0 seconds"),
    "no tokens": ({"prompt_tokens": [1, 0]}, "prompt_tokens"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(case: str, raises: Callable[..., str]) -> None:
    given, part = ARRAYS[case]
    right: dict[str, Any] = {"arrival": [0.0, 1.0], "model": [0, 1], "models": ("a", "b"), "slo": 1.0}
    raises(InputError, lambda: traces.Trace(**{**right, **given}), part)


GZIPPED = gzip.compress((HEADER + "1,a,1\n" * 5000).encode())

FILES: dict[str, tuple[str, str | bytes, str]] = {
    "unsorted": ("x.csv", HEADER + "2,a,1\n1,b,1\n", "x.csv:3: column 'arrival' is earlier than the line before"),
    "negative": ("x.csv", HEADER + "-1,a,1\n", "x.csv:2: column 'arrival' must be >= 0 (got '-1')"),
    "NaN": ("x.csv", HEADER + "nan,a,1\n", "x.csv:2: column 'arrival' must be finite (got 'nan')"),
    "infinite": ("x.csv", HEADER + "inf,a,1\n", "x.csv:2: column 'arrival' must be finite (got 'inf')"),
    "huge number": ("x.csv", HEADER + "9" * 400 + ",a,1\n", "x.csv:2: column 'arrival' must be finite (got '999"),
    "SLO zero": ("x.csv", HEADER + "1,a,0\n", "x.csv:2: column 'slo' must be > 0 (got '0')"),
    "empty": ("x.csv", "", "x.csv: the file is empty; expected a header line"),
    "no request": ("x.csv", HEADER, "x.csv: holds a header and no request"),
    "missing column": ("x.csv", "arrival,slo\n1,1\n", "missing column 'model'; found: arrival, slo; expected: arrival"),
    "delimiter": ("x.csv", "arrival;model\n1;a\n", "columns look separated by semicolons"),
    "column twice": ("x.csv", "arrival,model,model\n1,a,a\n", "x.csv:1: column 'model' appears twice"),
    "cut line": ("x.csv", HEADER + "1,a,1\n2,b", "x.csv:3: column 'slo' is missing (the line has 2 columns)"),
    "open quote": ("x.csv", HEADER + '1,"a\n2,b,1\n', "x.csv:"),
    "binary": ("x.csv", b"\x80\x04\x95\x00\xff\xfe" * 50, "x.csv: is not UTF-8 text"),
    "cut gzip": ("x.csv.gz", GZIPPED[: len(GZIPPED) // 2], "x.csv.gz: the gzip file is truncated or damaged"),
    "no gzip": ("x.csv.gz", b"\x1f\x8b garbage", "x.csv.gz: the gzip file is truncated or damaged"),
}


@pytest.mark.parametrize("case", FILES)
def test_files(case: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    name, content, part = FILES[case]
    path = world.write(name, content)
    raises(InputError, lambda: traces.read(path), part)
    lines = 2 if case == "unsorted" else 1  # the second line says that --sort would mend it
    refused(f"simulate plan.json --trace {name}", part, lines=lines)
    refused(f"plan serving --devices 2 --profile p.json --models a,b --trace {name} --out o.json", part)
    refused(f"trace convert {name} -o o.csv", part, lines=lines)


def test_truncated_parquet(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    whole = traces.write(traces.read("t.csv"), "t.parquet").read_bytes()
    world.write("x.parquet", whole[: len(whole) // 2])
    raises(InputError, lambda: traces.read("x.parquet"), "x.parquet: is no whole Parquet file")
    refused("simulate plan.json --trace x.parquet", "x.parquet: is no whole Parquet file")


@pytest.mark.parametrize("name", ["nothing.csv", "folder"])
def test_no_file(name: str, world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    (world.folder / "folder").mkdir()
    raises(InputError, lambda: traces.read(name), name)
    refused(f"simulate plan.json --trace {name}", name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    world.write("x.csv", HEADER).chmod(0)
    raises(InputError, lambda: traces.read("x.csv"), "x.csv")
    refused("simulate plan.json --trace x.csv", "x.csv")


def test_every_bad_line_is_told(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    world.write("x.csv", HEADER + "-1,a,1\nnan,a,1\n1,a,1\n2,a,-3\n")
    raises(InputError, lambda: traces.read("x.csv"), "x.csv:2:", "x.csv:3:", "x.csv:5:")
    refused("trace info x.csv", "x.csv:2:", "x.csv:3:", "x.csv:5:", lines=3)


def test_model_that_nobody_knows(world: Any, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    world.write("x.csv", HEADER + "1,aa,1\n")
    raises(InputError, lambda: traces.read("x.csv", models=["a", "b"]), "x.csv:2", "'aa'")
    trace = traces.read("x.csv")
    raises(
        InputError,
        lambda: planners.alpaserve.plan(Cluster(1, 2), ["a", "b"], trace, world.profiles),
        "asks for 'aa', which is not among the models to place (a, b)",
    )
    of_plan = "workload.trace: x.csv: unknown model 'aa'; did you mean 'a'? known models: a, b"
    refused("plan serving --devices 2 --profile p.json --models a,b --trace x.csv --out o.json", of_plan)
    refused("simulate plan.json --trace x.csv", "x.csv: unknown model 'aa'; did you mean 'a'? known models: a, b")


def test_model_without_a_profile(raises: Callable[..., str]) -> None:
    trace = traces.Trace(arrival=[0.0], model=[0], models=("x",), slo=1.0)
    placement = Placement([Group(ParallelConfig(1, 1), ["x"])])
    raises(InputError, lambda: simulate(placement, trace, {}), "no profile for model 'x'")


RATE, CV = "rate: expected positive and finite", "cv: expected a number in (0, 1000]"
DURATION = "duration: expected positive and finite seconds"
GENERATED: dict[str, tuple[dict[str, Any], str, str, str]] = {  # what the library says, and what is said of the field
    "rate 0": ({"rate": 0.0}, "--rate 0", RATE, "workload.rate: should be greater than 0"),
    "rate negative": ({"rate": -1.0}, "--rate=-1", RATE, "workload.rate: should be greater than 0"),
    "rate NaN": ({"rate": math.nan}, "--rate nan", RATE, "workload.rate: should be a number (got 'nan')"),
    "rate infinite": ({"rate": math.inf}, "--rate inf", RATE, "workload.rate: should be a number (got 'inf')"),
    "rate absurd": (
        {"rate": 1e30},
        "--rate 1e30",
        "expected at most 1e+08",
        "workload.rate: should be less than or equal to",
    ),
    "CV 0": ({"cv": 0.0}, "--cv 0", CV, "workload.cv: should be greater than or equal to 0.000001"),
    "CV negative": ({"cv": -1.0}, "--cv=-1", CV, "workload.cv: should be greater than or equal to 0.000001"),
    "CV NaN": ({"cv": math.nan}, "--cv nan", CV, "workload.cv: should be a number (got 'nan')"),
    "CV infinite": ({"cv": math.inf}, "--cv inf", CV, "workload.cv: should be a number (got 'inf')"),
    "duration 0": ({"duration": 0.0}, "--duration 0", DURATION, "workload.duration: should be greater than 0"),
    "duration NaN": ({"duration": math.nan}, "--duration nan", DURATION, "workload.duration: should be a number"),
    "split too long": (
        {"split": [1, 1, 1]},
        "--split 1,1,1",
        "split: expected 2 shares, one per model (got 3)",
        "split: expected 2 shares",
    ),
    "split negative": (
        {"split": [-1, 2]},
        "--split=-1,2",
        "split: shares must be finite and >= 0",
        "split: shares must be finite and >= 0",
    ),
    "split NaN": (
        {"split": [math.nan, 1]},
        "--split nan,1",
        "split: shares must be finite and >= 0",
        "workload.split[0]: should be a number",
    ),
    "split of nothing": (
        {"split": [0, 0]},
        "--split 0,0",
        "split: at least one share must be > 0",
        "split: at least one share must be > 0",
    ),
    "power law": (
        {"split": {"power_law": math.nan}},
        "--split power_law:nan",
        "exponent of a power law must be",
        "workload.split: ",
    ),
    "seed negative": (
        {"seed": -1},
        "--seed=-1",
        "seed: expected an integer >= 0 (got -1)",
        "seed: should be greater than or equal to 0 (got -1)",
    ),
    "SLO 0": ({"slo": 0.0}, "--slo 0", "Trace.slo: SLOs must be > 0 seconds", "workload.slo: should be greater than 0"),
    "models twice": ({"models": ["a", "a"]}, "--models a,a", "'a'", "models: "),
}


@pytest.mark.parametrize("case", GENERATED)
def test_generated_traffic(case: str, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    given, words, part, of_case = GENERATED[case]
    right: dict[str, Any] = {"rate": 2.0, "cv": 1.0, "duration": 20.0, "models": ["a", "b"]}
    raises(InputError, lambda: traces.gamma(**{**right, **given}), part)
    refused(f"trace generate o.csv --rate 2 --duration 20 --models a,b {words}", part)
    refused(
        f"plan serving --devices 2 --profile p.json --models a,b --rate 2 --duration 20 --out o.json {words}", of_case
    )


def test_split_that_does_not_sum_to_one_is_weights() -> None:
    """By design shares are divided by their sum, so that 3,1 and 0.75,0.25 mean the same."""
    given = {"rate": 5.0, "duration": 50.0, "models": ["a", "b"]}
    assert traces.poisson(**given, split=[3, 1]) == traces.poisson(**given, split=[0.75, 0.25])


@pytest.mark.parametrize("window", ["0", "-1", "nan", "inf", "1e-12"])
def test_windows(window: str, raises: Callable[..., str], refused: Callable[..., str]) -> None:
    trace = traces.read("t.csv")
    raises(InputError, lambda: traces.report(trace, float(window)), "window")
    raises(InputError, lambda: traces.fit_gamma(trace, float(window)), "window")
    refused(f"trace info t.csv --window={window}", "window")
    refused(f"trace fit t.csv --window={window} --resample o.csv", "window")


@pytest.mark.parametrize("models", ["0", "99999999", ",", "99999999999999999999999999"])
def test_number_of_models(models: str, refused: Callable[..., str]) -> None:
    refused(f"trace generate o.csv --models {models}")


def test_endings_that_no_trace_has(raises: Callable[..., str], refused: Callable[..., str]) -> None:
    trace = traces.read("t.csv")
    raises(InputError, lambda: traces.write(trace, "o.txt"), "o.txt: expected a name that ends in .csv")
    refused("trace convert t.csv -o o.txt", "o.txt: expected a name that ends in .csv")
