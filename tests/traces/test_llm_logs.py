"""Published logs of language-model requests: read as published, taken for what they are, and refused in one line."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.simulator.llm import read_lengths, read_requests
from meshwright.traces import TraceWarning
from meshwright.traces.llm import read_log, sniff_log
from sample_data import SAMPLES, measured

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 00:00:00.003097+00:00,2162,5
2024-05-12 00:00:00+00:00,2399,6
2024-05-12 00:00:01.500000+00:00,76,15
"""
BURST_1 = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,API log
"""
BURST_3 = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
0.5,9b1c,1.25,GPT-4,100,20,120,Conversation log
2.5,,2.0,ChatGPT,30,40,70,API log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1024, "output_length": 9, "hash_ids": [0, 4]}
"""
BENCH: dict[str, Any] = {
    "date": "20261127-101112", "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 3,
    "request_rate": 2.0, "burstiness": 1.0, "max_concurrency": None, "duration": 9.5, "completed": 3, "failed": 0,
    "total_input_tokens": 60, "total_output_tokens": 9, "input_lens": [10, 20, 30], "output_lens": [2, 3, 4],
    "ttfts": [0.1, 0.1, 0.1], "itls": [[0.01], [0.01, 0.01], [0.01, 0.01, 0.01]],
    "start_times": [1000.0, 1002.0, 1001.5], "generated_texts": ["", "", ""], "errors": ["", "", ""],
}  # fmt: skip


def written(folder: Path, text: str, name: str = "log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "format", "arrival", "prompts", "outputs"),
    [
        (AZURE_2023, "azure-llm", [0.0, 4.314579], [374, 396], [44, 109]),
        (BURST_1, "burstgpt", [0.0, 40.0, 113.0], [472, 1087, 417], [18, 230, 276]),
        (BURST_3, "burstgpt", [0.0, 2.0], [100, 30], [20, 40]),
        (MOONCAKE, "mooncake", [0.0, 1.5], [600, 1024], [7, 9]),
        (json.dumps(BENCH), "vllm-bench", [0.0, 1.5, 2.0], [10, 30, 20], [2, 4, 3]),
        (json.dumps(BENCH, indent=2), "vllm-bench", [0.0, 1.5, 2.0], [10, 30, 20], [2, 4, 3]),
    ],
)
def test_a_log_is_known_by_its_content_and_read_the_same_everywhere(
    tmp_path: Path, text: str, format: str, arrival: list[float], prompts: list[int], outputs: list[int]
) -> None:
    path = written(tmp_path, text)
    assert sniff_log(path) == format
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    for file in (path, packed):
        (found,) = read_requests(file).values()
        trace = traces.read(file)
        for columns in (found, trace):
            assert columns.arrival == pytest.approx(arrival, abs=1e-9)
            assert columns.prompt_tokens is not None
            assert columns.output_tokens is not None
            assert (columns.prompt_tokens.tolist(), columns.output_tokens.tolist()) == (prompts, outputs)
    lengths = read_lengths(path)
    assert (lengths[0].tolist(), lengths[1].tolist()) == (prompts, outputs)


def test_azure_of_2024_has_zones_and_whole_seconds(tmp_path: Path) -> None:
    path = written(tmp_path, AZURE_2024)
    with pytest.raises(InputError, match=r"log:3: column 'TIMESTAMP' is earlier than the line before"):
        read_requests(path)
    assert traces.read(path, sort=True).arrival == pytest.approx([0.0, 0.003097, 1.5])


def test_what_a_log_says_of_models_and_classes(tmp_path: Path) -> None:
    path = written(tmp_path, BURST_1)
    (found,) = read_requests(path).values()
    assert found.classes == ("conversation", "api")
    assert found.of_class("api").tolist() == [False, False, True]
    assert traces.read(path).models == ("ChatGPT", "GPT-4")
    assert traces.read(path, models=["mine"]).models == ("mine",)
    with pytest.raises(InputError, match="read for one model"):
        traces.read(path, models=["a", "b"])


def test_prefix_hashes_are_kept(tmp_path: Path) -> None:
    (found,) = read_requests(written(tmp_path, MOONCAKE)).values()
    assert (list(found.prefix_ids or ()), found.prefix_block) == ([(0, 1), (0, 4)], 512)
    assert traces.read(tmp_path / "log").prefix.tolist() == [0, 0]  # type: ignore[union-attr]


def test_requests_that_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, BURST_1 + "200,GPT-4,12,0,12,API log\n")
    with pytest.warns(TraceWarning, match="left out 1 of 4 requests"):
        assert len(read_log(path)) == 3
    path = written(tmp_path, json.dumps({**BENCH, "errors": ["", "timed out", ""]}))
    with pytest.warns(TraceWarning, match="left out 1 of 3 requests"):
        assert read_log(path).prompt_tokens.tolist() == [10, 30]


def test_an_interval(tmp_path: Path) -> None:
    path = written(tmp_path, MOONCAKE)
    (found,) = read_requests(path, start=1.0).values()
    assert (found.arrival.tolist(), list(found.prefix_ids or ())) == ([0.5], [(0, 4)])
    with pytest.raises(InputError, match=r"no request arrives in \[9, inf\) s; the last one at 1.5 s"):
        read_log(path, start=9)


def test_a_result_without_times_of_sending(tmp_path: Path) -> None:
    """All at once where the rate was unlimited; else nobody knows."""
    old = {name: value for name, value in BENCH.items() if name != "start_times"}
    path = written(tmp_path, json.dumps({**old, "request_rate": "inf", "max_concurrency": 2}))
    with pytest.warns(TraceWarning, match=r"at most 2 at a time: say workload\.clients\.concurrency 2"):
        assert read_log(path).arrival.tolist() == [0, 0, 0]
    with pytest.raises(InputError, match=r"request_rate is 2\.0: nobody knows when requests were sent"):
        read_log(written(tmp_path, json.dumps(old)))


AZURE_HEAD, MORE = AZURE_2023.splitlines()[0] + "\n", "read as azure-llm: TIMESTAMP, ContextTokens, GeneratedTokens"
BURST_HEAD = BURST_1.splitlines()[0] + "\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            AZURE_2023 + "2023-11-16 18:15:51.0,-5,44\n",
            f"log:4: column 'ContextTokens' must be an integer >= 0 (got '-5'); {MORE}",
        ),
        (AZURE_2023 + "2023-11-16 18:15:46.0,5,44\n", "log:4: column 'TIMESTAMP' is earlier than the line before"),
        (AZURE_2023 + "soon,5,44\n", "log:4: column 'TIMESTAMP' must be a date and time (got 'soon')"),
        (AZURE_2023 + "2023-11-16 18:15:51.0,5.5,44\n", "log:4: column 'ContextTokens' must be an integer"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,3\n", "log:1: missing column 'GeneratedTokens'"),
        (AZURE_HEAD, "holds no request"),
        (BURST_1 + "119,GPT-4,3,-4,9,API log\n", "log:5: column 'Response tokens' must be an integer >= 0 (got '-4')"),
        (BURST_1 + "1,GPT-4,3,4,9,API log\n", "log:5: column 'Timestamp' is earlier than the line before"),
        (BURST_1 + "119,GPT-4,3,4,9,\n", "log:5: column 'Log Type' is empty"),
        ("Timestamp,Model,Request tokens\n1,a,3\n", "log:1: missing columns 'Response tokens', 'Log Type'"),
        (BURST_HEAD + "1,a,0,0,0,API log\n", "holds no request: all 1 rows have 0 tokens"),
        (
            MOONCAKE + '{"timestamp": 1600, "input_length": -600, "output_length": 1, "hash_ids": []}',
            "log:3: input_length: must be an integer >= 0 (got -600); read as mooncake",
        ),
        (
            MOONCAKE + '{"timestamp": 100, "input_length": 1, "output_length": 1, "hash_ids": [1]}',
            "log:3: timestamp is earlier than the line before, 1500 (got 100)",
        ),
        (MOONCAKE + '{"timestamp": 1600, "input_length": 600, "hash_ids": [1, 2]}', "log:3: no field 'output_length'"),
        (
            MOONCAKE + '{"timestamp": 1600, "input_length": 600, "output_length": 1, "hash_ids": [1]}',
            "log:3: hash_ids: expected one id for each 512 of 600 tokens (got 1)",
        ),
        (MOONCAKE + "[]", "log:3: expected an object with timestamp"),
        (
            json.dumps({**BENCH, "input_lens": [10, -2, 30]}),
            "log: input_lens[1]: must be an integer >= 0 (got -2); read as vllm-bench",
        ),
        (json.dumps({**BENCH, "output_lens": [1, 2]}), "output_lens: expected 3 entries"),
        (json.dumps({**BENCH, "start_times": [1, "x", 3]}), "start_times[1]: must be a finite number >= 0 (got 'x')"),
        (json.dumps({"input_lens": [1]}), "no list 'output_lens'; was the result written with --save-detailed?"),
        (json.dumps(BENCH)[:-1], "log:1: is no JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_log_is_said_in_a_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    for read in (read_requests, traces.read):
        with pytest.raises(InputError) as raised:
            read(path)
        assert says in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    with pytest.raises(InputError, match=r"is no log of language-model requests; known: azure-llm \(TIMESTAMP, "):
        read_log(path)
    with pytest.raises(InputError, match="missing columns 'arrival', 'model'"):
        read_requests(path)
    with pytest.raises(InputError, match="is a log of functions"):
        read_requests(written(tmp_path, "app,func,end_timestamp,duration\na,f,3,1\n"))


def test_classes_of_a_table(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "arrival,model,class,prompt_tokens,output_tokens\n0,a,chat,5,6\n1,a,batch,7,8\n2,b,chat,9,1\n",
        "t.csv",
    )  # fmt: skip
    found = read_requests(path)
    assert [trace.classes for trace in found.values()] == [("batch", "chat")] * 2
    assert found["a"].of_class("batch").tolist() == [False, True]
    assert found["b"].of_class("").tolist() == [True]
    later = read_requests(path, start=1)
    assert (later["a"].arrival.tolist(), later["a"].of_class("batch").tolist()) == ([0.0], [True])
    written(tmp_path, "arrival,model,class,prompt_tokens,output_tokens\n0,a,,5,6\n", "t.csv")
    with pytest.raises(InputError, match=r"t\.csv:2: column 'class' is empty"):
        read_requests(path)


def test_data_sets_of_prompts_are_lengths(tmp_path: Path) -> None:
    """Of ShareGPT the first message and its answer, of lengths that vLLM takes; of custom every line."""
    talks: list[Any] = [
        {"id": "a", "conversations": [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]},
        {"id": "b", "conversations": [{"from": "human", "value": "x" * 5000}, {"from": "gpt", "value": "y" * 80}]},
        {"id": "c", "conversations": [{"from": "human", "value": "x"}]},
    ]
    with pytest.warns(TraceWarning, match="4 characters a token, a guess"):
        prompts, outputs = read_lengths(written(tmp_path, json.dumps(talks)))
    assert (prompts.tolist(), outputs.tolist()) == ([100], [20])
    with pytest.warns(TraceWarning):
        prompts, outputs = read_lengths(written(tmp_path, '{"prompt": "12345678", "output_tokens": 7}\n'))
    assert (prompts.tolist(), outputs.tolist()) == ([2], [7])
    with warnings.catch_warnings(), pytest.raises(InputError, match=r"log:1: output_tokens: must be an integer >= 1"):
        read_lengths(written(tmp_path, '{"prompt": "12345678"}\n'))
    with pytest.raises(InputError, match=r"\[0\]: expected an object with a list 'conversations'"):
        read_lengths(written(tmp_path, "[1]"))


@measured
def test_the_published_files_are_read_whole(data: Path) -> None:
    folder = data / "traces"
    for name, format, many in (
        ("AzureLLMInferenceTrace_conv.csv", "azure-llm", 19_366),
        ("AzureLLMInferenceTrace_code.csv", "azure-llm", 8_819),
        ("mooncake_conversation_trace.jsonl", "mooncake", 12_031),
    ):  # fmt: skip
        assert sniff_log(folder / name) == format
        log = read_log(folder / name)
        assert data == SAMPLES or len(log) == many
        assert np.diff(log.arrival).min() >= 0
