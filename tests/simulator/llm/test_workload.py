"""Workloads of language models: columns, what is drawn, and public files."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.llm import (
    LLMRequest,
    LLMTrace,
    conversations,
    draw,
    read_azure_llm,
    read_lengths,
    read_mooncake,
    renewal_times,
)
from meshwright.traces import Trace
from sample_data import SAMPLES, measured


def test_columns_are_checked_and_locked():
    trace = LLMTrace([0, 1.5], [4, 5], [1, 2], priority=[1, -1])
    assert trace.prompt_tokens.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        trace.arrival[0] = 3
    request = trace.request(1)
    assert (request.id, request.prompt, request.output, request.arrival, request.priority) == (1, 5, 2, 1.5, -1)
    assert trace.request(1, 9.0).arrival == 9
    assert "2 requests over 1.5 s" in repr(trace)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (([], [], []), "no request at all"),
        (([0, -1], [1, 1], [1, 1]), "row 1, got -1"),
        (([1, 0], [1, 1], [1, 1]), "must not decrease"),
        (([0, float("nan")], [1, 1], [1, 1]), "finite"),
        (([0], [0], [1]), "prompt_tokens: expected integers >= 1 .row 0, got 0."),
        (([0], [1], [0]), "output_tokens: expected integers >= 1"),
        (([0], [1.5], [1]), "whole numbers"),
        (([0, 1], [1], [1, 1]), "expected 2 entries"),
        (([0], ["a"], [1]), "expected numbers"),
    ],
)
def test_bad_columns(columns, says):
    with pytest.raises(InputError, match=says):
        LLMTrace(*columns)


def test_bad_optional_columns():
    for more, says in (
        ({"best_of": [0]}, "best_of"),
        ({"after": [0]}, "only an earlier row"),
        ({"think_s": [-1]}, "think_s"),
        ({"prefix_ids": [[1, 2]], "prefix_block": 4}, "one id for each 4 prompt tokens"),
        ({"prefix_ids": [[1]], "prefix_block": 0}, "prefix_block"),
        ({"prefix_ids": []}, "prefix_ids: expected 1 entries"),
    ):
        with pytest.raises(InputError, match=says):
            LLMTrace([0], [4], [1], **more)


def test_a_column_that_there_is_not():
    with pytest.raises(InputError, match="has no column 'prioritty'; it may have best_of, beam, priority, after"):
        LLMTrace([0.0], [1], [1], prioritty=[1])


def test_classes_of_requests():
    trace = LLMTrace([0, 1, 2], [4, 5, 6], [1, 1, 1], kind=[1, 0, 1], classes=("chat", "batch"))
    assert trace.of_class("batch").tolist() == [True, False, True]
    assert trace.of_class("").all()
    assert not trace.of_class("none").any()
    assert trace.select(slice(1, 3)).of_class("batch").tolist() == [False, True]
    assert trace.at([3, 4, 5]).classes == trace.classes
    assert trace.dealt(np.array([1, 0, 2])).of_class("chat").tolist() == [True, False, False]
    for more, says in (
        ({"kind": [0, 1, 2], "classes": ("a", "b")}, "kind: expected an index into 2 classes"),
        ({"classes": ("a",)}, "need a column kind"),
        ({"kind": [0, 0, 0], "classes": ("a", "a")}, "distinct names"),
    ):
        with pytest.raises(InputError, match=says):
            LLMTrace([0, 1, 2], [4, 5, 6], [1, 1, 1], **more)


def test_tokens_of_prefix_blocks():
    trace = LLMTrace([0, 1], [6, 5], [1, 1], prefix_ids=[[0, 1], [0, 7]], prefix_block=4)
    assert trace.tokens(0) == (0, 1, 2, 3, 4, 5)
    assert trace.tokens(1) == (0, 1, 2, 3, 28)
    assert LLMTrace([0], [2], [1], prefix_ids=[[5, 6]], prefix_block=1).tokens(0) == (5, 6)
    assert LLMTrace([0], [2], [1]).tokens(0) is None


def test_from_traces_and_requests():
    trace = Trace([0.0, 1.0], [0, 0], ["m"], prompt_tokens=[3, 4], output_tokens=[5, 6])
    assert LLMTrace.of(trace).output_tokens.tolist() == [5, 6]
    with pytest.raises(InputError, match="no column 'prompt_tokens'"):
        LLMTrace.of(Trace([0.0], [0], ["m"]))
    rows = [LLMRequest("b", 2, 1, 3.0, tokens=(1, 2)), LLMRequest("a", 1, 4, 1.0, best_of=2, tokens=(9,))]
    trace = LLMTrace.of(rows)
    assert trace.arrival.tolist() == [1, 3]
    assert trace.best_of.tolist() == [2, 1]
    assert trace.tokens(1) == (1, 2)
    assert LLMTrace.of(trace) is trace


def test_turns_are_one_text_and_stay_together():
    trace = LLMTrace([0, 1, 2, 3], [1, 1, 5, 9], [1] * 4, after=[-1, -1, 1, 2])
    assert [trace.request(i).text for i in range(4)] == [0, 1, 1, 1]
    assert trace.select(slice(1, 4)).after.tolist() == [-1, 0, 1]
    with pytest.raises(InputError, match="a turn of a conversation is left out"):
        trace.select([0, 2, 3])


def test_arrivals_have_the_rate_and_the_variation_that_was_asked():
    for cv in (0.0, 0.5, 1.0, 3.0):
        gaps = np.diff(renewal_times(5.0, 40_000, cv=cv, seed=1))
        # Standard error of the mean gap: cv / rate / sqrt(n).
        assert abs(gaps.mean() - 0.2) <= 4 * cv * 0.2 / 200 + 1e-12
        assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06, abs=1e-9)


def test_drawing_lengths_does_not_move_arrivals():
    p, o = np.arange(1, 100), np.arange(1, 100)
    one, two = draw(p, o, 50, rate=2.0, seed=3), draw(p + 1, o, 50, rate=2.0, seed=3)
    assert np.array_equal(one.arrival, two.arrival)
    assert np.array_equal(one.prompt_tokens + 1, two.prompt_tokens)
    assert not np.array_equal(one.arrival, draw(p, o, 50, rate=2.0, seed=4).arrival)
    assert draw(p, o, max_model_len=10).prompt_tokens.tolist() == [1, 2, 3, 4, 5]
    assert draw(p, o).arrival.max() == 0
    for bad in ({"n": 0}, {"max_model_len": 1}, {"rate": 0.0}, {"rate": 1.0, "cv": -1}):
        with pytest.raises(InputError):
            draw(p, o, **bad)
    with pytest.raises(InputError, match="pairs"):
        draw(p, o[1:])


def test_conversations_repeat_what_was_said():
    p, o = np.array([10, 20]), np.array([5, 7])
    trace = conversations(p, o, 400, rate=1.0, turns=3.0, think_s=2.0, max_model_len=100_000, seed=2)
    later = np.flatnonzero(trace.after >= 0)
    history = (trace.prompt_tokens + trace.output_tokens)[trace.after[later]]
    assert set((trace.prompt_tokens[later] - history).tolist()) == {10, 20}
    assert (trace.arrival[trace.after[later]] <= trace.arrival[later]).all()
    turns = len(trace) / 400  # geometric: variance mean (mean - 1)
    assert abs(turns - 3) < 4 * np.sqrt(6 / 400)
    assert abs(trace.think_s[later].mean() - 2) < 4 * 2 / np.sqrt(len(later))
    short = conversations(p, o, 400, rate=1.0, turns=9.0, max_model_len=100, seed=2)
    assert (short.prompt_tokens + short.output_tokens).max() <= 100


@measured
def test_azure_files(data):
    conv = read_azure_llm(data / "traces" / "AzureLLMInferenceTrace_conv.csv")
    assert len(conv) == (100 if data == SAMPLES else 19_366)
    assert conv.arrival[0] == 0
    assert (conv.prompt_tokens[0], conv.output_tokens[0]) == (374, 44)
    some = read_azure_llm(data / "traces" / "AzureLLMInferenceTrace_code.csv", start=100, stop=200)
    assert some.arrival[0] >= 0
    assert some.arrival[-1] < 100
    with pytest.raises(InputError, match="no request arrives"):
        read_azure_llm(data / "traces" / "AzureLLMInferenceTrace_code.csv", start=1e6)


def test_mooncake_counts_in_milliseconds(tmp_path):
    path = tmp_path / "trace.jsonl"
    row = '{"timestamp": %d, "input_length": 600, "output_length": 7, "hash_ids": [1, 2]}\n'
    path.write_text("".join(row % t for t in (0, 1500, 27000)))
    trace = read_mooncake(path)
    assert trace.arrival.tolist() == [0.0, 1.5, 27.0]
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ([600] * 3, [7] * 3)


@measured
def test_mooncake_file(data):
    trace = read_mooncake(data / "traces" / "mooncake_conversation_trace.jsonl")
    assert len(trace) == (40 if data == SAMPLES else 12_031)
    a, b = trace.tokens(0), trace.tokens(1)
    assert len(a) == 6758
    assert a[:512] == b[:512]
    assert a[512:] != b[512:]


@measured
def test_lengths_file(data):
    prompts, outputs = read_lengths(data / "traces" / "arxiv_summarization_lengths.csv")
    assert len(prompts) == len(outputs) == (60 if data == SAMPLES else 28_257)
    assert (prompts[0], outputs[0]) == (3772, 54)


def test_bad_files(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text)
        return path

    for read, text, says in (
        (read_azure_llm, "TIMESTAMP,ContextTokens\n2023-11-16 18:00:00,1\n", "missing column 'GeneratedTokens'"),
        (read_azure_llm, "TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,1\n", "file:2: column .* date and time"),
        (read_azure_llm, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,-1,1\n", "integer >= 0"),
        (read_azure_llm, "TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no request"),
        (read_mooncake, '{"timestamp": 0}\n', "file:1: .*no field 'input_length'"),
        (read_mooncake, "x\n", "file:1: expected an object"),
        (read_mooncake, "\n", "holds no request"),
        (
            read_mooncake,
            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}\n',
            "one id for each 512",
        ),
        (read_lengths, "a,b\n1,2\n", "missing columns 'prompt_tokens', 'output_tokens'"),
        (read_lengths, "prompt_tokens,output_tokens\n3,nan\n", "file:2: column 'output_tokens' must be an integer"),
    ):
        with pytest.raises(InputError, match=says):
            read(write(text))
    with pytest.raises(InputError, match="no such file"):
        read_mooncake(tmp_path / "none")
