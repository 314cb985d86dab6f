"""`Trace`: what it accepts, what it refuses and how it says so, and what is derived from it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.traces import Trace, merge

MODELS = ("a", "b")


@pytest.fixture
def trace() -> Trace:
    return Trace(arrival=[0.0, 1.0, 1.0, 4.0], model=["a", "b", "a", "b"], models=MODELS, slo=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("arrival", "message"),
    [
        ([1.0, 0.5, 2.0, 1.0], r"must not decrease \(2 row\(s\), first at index 1, 3, got 0.5 after 1.0\)"),
        ([-1.0, 0.0], r"must be >= 0 seconds \(1 row\(s\), first at index 0, got -1.0\)"),
        ([0.0, -1.0], r"must be >= 0"),
        ([0.0, float("nan"), 1.0], r"must be finite seconds \(1 row\(s\), first at index 1, got nan\)"),
        ([0.0, float("inf")], r"must be finite"),
        ([float("-inf"), 0.0], r"must be finite"),
        ([float("nan")], r"must be finite"),
        ([], "the trace is empty"),
        ([[0.0]], "one dimension"),
        (["soon"], "expected numbers"),
    ],
)
def test_bad_arrivals_are_named(arrival: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Trace(arrival, np.zeros(len(arrival), dtype=int), MODELS)


@pytest.mark.parametrize(
    ("model", "models", "message"),
    [
        ([0, 2], MODELS, "unknown model index 2"),
        ([0, -1], MODELS, "unknown model index -1"),
        (["a", "bb"], ("a", "b"), "unknown model 'bb'; did you mean 'b'"),
        (["a", "zzz"], MODELS, "known models: a, b"),
        ([0], MODELS, "expected 2 entries"),
        ([0.0, 1.0], MODELS, "integers or names"),
        ([0, 0], (), "at least one model name"),
        ([0, 0], ("a", "a"), "distinct"),
        ([0, 0], ("a", ""), "must not be empty"),
        ([0, 0], "ab", "sequence of names"),
    ],
)
def test_bad_models_are_named(model: list, models: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Trace([0.0, 1.0], model, models)


@pytest.mark.parametrize("slo", [0.0, -1.0, float("nan"), [1.0, 2.0, 3.0], {"a": 1.0}, {"a": 1.0, "b": 0.0}, "fast"])
def test_bad_slos_are_refused(slo: object) -> None:
    with pytest.raises(InputError, match=r"Trace\.slo"):
        Trace([0.0, 1.0, 1.5, 2.0], [0, 1, 0, 1], MODELS, slo)


@pytest.mark.parametrize(
    ("slo", "expected"),
    [(2.0, [2, 2, 2]), ({"a": 1.0, "b": 3.0}, [1, 3, 1]), ([1.0, 3.0], [1, 3, 1]), ([4.0, 5.0, 6.0], [4, 5, 6])],
)
def test_slo_for_all_by_model_or_by_request(slo: object, expected: list[float]) -> None:
    assert Trace([0.0, 1.0, 2.0], [0, 1, 0], MODELS, slo).slo.tolist() == expected


@pytest.mark.parametrize("tokens", [[0, 1], [1.5, 2], [-3, 1], [1], [float("nan"), 1], [3e9, 1]])
def test_bad_token_counts_are_refused(tokens: list[float]) -> None:
    with pytest.raises(InputError, match=r"Trace\.prompt_tokens"):
        Trace([0.0, 1.0], [0, 1], MODELS, prompt_tokens=tokens)


def test_columns_are_read_only_also_after_pickling(trace: Trace) -> None:
    for copy in (trace, pickle.loads(pickle.dumps(trace))):
        assert copy == trace
        for column in (copy.arrival, copy.model, copy.slo):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 0


def test_the_caller_keeps_his_array() -> None:
    arrival = np.array([0.0, 1.0])
    held = Trace(arrival, [0, 1], MODELS)
    arrival[0] = 7.0
    assert held.arrival[0] == 0.0


def test_rate_duration_counts(trace: Trace) -> None:
    assert (len(trace), trace.duration, trace.rate, trace.counts().tolist()) == (4, 4.0, 1.0, [2, 2])


def test_select_slice_and_slo_scale(trace: Trace) -> None:
    only = trace.select(["b"])
    assert (only.arrival.tolist(), only.models, only.model.tolist(), only.slo.tolist()) == (
        [1.0, 4.0],
        ("b",),
        [0, 0],
        [2.0, 4.0],
    )
    part = trace.slice(1.0, 4.0)
    assert (part.arrival.tolist(), part.slo.tolist(), part.models) == ([0.0, 0.0], [2.0, 3.0], MODELS)
    assert trace.slice(1.0, 4.0, rebase=False).arrival.tolist() == [1.0, 1.0]
    assert trace.with_slo_scale(5.0, {"a": 0.1, "b": 0.2}).slo.tolist() == [0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.select(["c"]),
        lambda t: t.select([]),
        lambda t: t.slice(5.0, 6.0),
        lambda t: t.slice(2.0, 1.0),
        lambda t: t.slice(-1.0, 1.0),
        lambda t: t.slice(float("nan"), 1.0),
        lambda t: t.with_slo_scale(5.0, {"a": 0.1}),
        lambda t: t.with_slo_scale(0.0, {"a": 0.1, "b": 0.1}),
    ],
)
def test_derived_traces_refuse_nonsense(trace: Trace, call) -> None:
    with pytest.raises(InputError):
        call(trace)


def test_optional_columns_follow_the_rows() -> None:
    trace = Trace(
        [0.0, 1.0, 2.0], [0, 1, 0], MODELS, prompt_tokens=[5, 6, 7], output_tokens=[1, 2, 3], prefix=[9, 9, 8]
    )
    part = trace.select(["a"])
    assert part.prompt_tokens.tolist() == [5, 7]
    assert trace.slice(1.0, 9.0).prefix.tolist() == [9, 8]
    assert trace.with_slo(1.0).output_tokens.tolist() == [1, 2, 3]
    assert part != Trace(part.arrival, part.model, part.models)


def test_to_frame_holds_names(trace: Trace) -> None:
    frame = trace.to_frame()
    assert frame["model"].tolist() == ["a", "b", "a", "b"]
    assert list(frame.columns) == ["arrival", "model", "slo"]


def test_merge_is_stable_and_joins_models() -> None:
    left = Trace([0.0, 2.0], ["a", "b"], ("a", "b"), 1.0)
    right = Trace([0.0, 1.0], ["c", "a"], ("c", "a"), 2.0)
    both = merge(left, right)
    assert both.models == ("a", "b", "c")
    assert [both.models[i] for i in both.model] == ["a", "c", "a", "b"]
    assert both.slo.tolist() == [1.0, 2.0, 2.0, 1.0]
    with pytest.raises(InputError, match="some traces have the column 'prefix'"):
        merge(left, Trace([0.0], [0], ("a",), prefix=[1]))


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2)), min_size=1, max_size=40))
def test_arrivals_by_model_partition_the_trace(rows: list[tuple[float, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    trace = Trace([t for t, _ in rows], [m for _, m in rows], ("a", "b", "c"))
    expected = [[t for t, m in rows if m == k] for k in range(3)]
    assert [part.tolist() for part in trace.arrivals_by_model()] == expected
