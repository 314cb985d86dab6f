"""What a recorded run leaves open: prefix caching by the version, and a link that is given, measured, or said first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles import LinkSpec, device
from meshwright.profiles.llm import Iteration, KernelTables, decoder, iteration_cost
from meshwright.runtime.llm import compare_vllm_run
from meshwright.runtime.llm.defaults import prefix_caching


def crowded(folder: Path, *, version: str = "0.19.0", tokens: str = "", same: bool = False) -> None:
    """Twelve requests at once, which a small pool cannot hold to their ends: some are preempted."""
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"vllm_version": version}))
    lines = []
    for i in range(12):
        at = 100.0 + 1e-3 * i
        line = {
            "input_toks": 64, "output_toks": 90, "arrival_time": at, "queued_ts": at, "first_token_ts": at + 0.1,
            "last_token_ts": at + 2.0,
        }  # fmt: skip
        if tokens:
            line[tokens] = [0 if same else i] * 64
        lines.append(line)
    (folder / "requests.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (folder / "timeseries.csv").unlink()


def last_token(found) -> float:
    return float(found.simulated["e2e"].mean())


POOL = {"num_gpu_blocks_override": 60, "max_num_seqs": 16, "max_num_batched_tokens": 512}


def test_who_was_preempted_finds_its_own_blocks(tmp_path, write_layer_tables, write_run):
    """Caching was off whatever the run said, "since it says nothing of the prompts' text"."""
    found = {}
    for said in (None, True, False):
        where = tmp_path / str(said)
        where.mkdir()
        folder = write_run(where, **POOL, **({} if said is None else {"enable_prefix_caching": said}))
        write_layer_tables(folder)
        crowded(folder)
        found[said] = compare_vllm_run(folder)
        assert found[said].config["enable_prefix_caching"] is (said is not False)
    assert last_token(found[None]) == last_token(found[True])
    assert last_token(found[True]) < last_token(found[False])  # what its blocks still hold is not computed again
    assert any("prefix caching on: the default of vLLM 0.19.0" in note for note in found[None].notes)
    assert any("prefix caching off: as the run says" in note for note in found[False].notes)


@pytest.mark.parametrize(
    ("version", "on"), [("0.19.0", True), ("0.8.0", True), ("0.7.3", False), ("0.6.1.post2", False), ("", True)]
)
def test_versions_before_v1_do_not_cache_unless_told(version, on, tmp_path, write_layer_tables, write_run):
    assert prefix_caching(version) is on
    folder = write_run(tmp_path, **POOL)
    write_layer_tables(folder)
    crowded(folder, version=version)
    assert compare_vllm_run(folder).config["enable_prefix_caching"] is on


@pytest.mark.parametrize("name", ["prompt_token_ids", "input_tok_ids"])
def test_prompts_that_begin_alike_share_blocks(name, tmp_path, write_layer_tables, write_run):
    took = []
    for same in (False, True):
        (tmp_path / str(same)).mkdir()
        folder = write_run(tmp_path / str(same), max_num_seqs=2, max_num_batched_tokens=512)
        write_layer_tables(folder)
        crowded(folder, tokens=name, same=same)
        found = compare_vllm_run(folder)
        assert any("what their tokens in requests.jsonl share" in note for note in found.notes)
        took.append(float(np.mean(found.simulated["ttft"])))
    assert took[1] < took[0]
    lines = (folder / "requests.jsonl").read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {name: [1, 2, 3]})
    (folder / "requests.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match=f"line 4: {name}: expected the ids of the prompt's 64 tokens"):
        compare_vllm_run(folder)


def two_gpus(tmp_path, write_layer_tables, write_run, **arguments) -> Path:
    folder = write_run(tmp_path, tensor_parallel_size=2, **arguments)
    tables = write_layer_tables(folder)
    (tables / "tp2").mkdir()
    for name in ("dense", "attention", "per_sequence"):
        (tables / f"{name}.csv").rename(tables / "tp2" / f"{name}.csv")
    return folder


def test_an_assumed_link_is_said_first_with_what_rests_on_it(tmp_path, write_layer_tables, write_run, capsys):
    folder = two_gpus(tmp_path, write_layer_tables, write_run)
    found = compare_vllm_run(folder)
    first = str(found).splitlines()[0]
    assert first == found.notes[0] == found.to_dict()["notes"][0]
    assert first.startswith("ASSUMED: the link between devices")
    assert "36.5 GB/s and 14 us" in first
    assert "% of a step of 1 decodes, and of TPOT, rest on it; give --link" in first
    assert run(["compare", "llm", "--vllm-run", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("ASSUMED")


def test_a_link_that_is_given_or_measured_is_not_assumed(tmp_path, write_layer_tables, write_run, capsys):
    folder = two_gpus(tmp_path, write_layer_tables, write_run)
    assumed = compare_vllm_run(folder)
    given = compare_vllm_run(folder, link=LinkSpec(450e9, 2e-6))
    assert "ASSUMED" not in str(given)
    assert "collectives: 2 us + bytes / 450.0 GB/s (as given)" in given.notes
    assert given.simulated["tpot"].mean() < assumed.simulated["tpot"].mean()
    said = "collectives: 2 us + bytes / 450.0 GB/s (as given)", "all-reduces: vLLM's own over NVLink"
    for words, line in zip(("450,2", "h100-80gb"), said, strict=True):
        assert run(["compare", "llm", "--vllm-run", str(folder), "--link", words]) == 0
        shown = capsys.readouterr().out
        assert line in shown
        assert "ASSUMED" not in shown
    samples = [{"collective": "all_reduce", "bytes": n, "us": 5 + n / 100e3} for n in (1024, 2**20)]
    (folder / "hardware.yaml").write_text(json.dumps({"measured": {"interconnect": {"samples": samples}}}))
    assert "ASSUMED" not in str(compare_vllm_run(folder))


def test_a_link_that_nothing_crosses_is_said_to_change_nothing(tmp_path, write_layer_tables, write_run):
    folder = write_run(tmp_path)
    write_layer_tables(folder)
    slow, plain = compare_vllm_run(folder, link=LinkSpec(1e6, 1.0)), compare_vllm_run(folder)
    assert slow.simulated["tpot"].mean() == plain.simulated["tpot"].mean()
    assert [note for note in slow.notes if note not in plain.notes] == [
        "link: given, and no figure rests on it: each engine of this run is one device"
    ]


@pytest.mark.parametrize("words", ["", "fast", "1", "1,2,3", "0,14", "0,0", "-1,2", "nan,1", "inf,1", "1e400,1", "a,b"])
def test_wrong_links_are_one_error(words, tmp_path, write_layer_tables, write_run, capsys):
    folder = two_gpus(tmp_path, write_layer_tables, write_run)
    assert run(["compare", "llm", "--vllm-run", str(folder), "--link", words]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_costs_say_an_assumed_link_first_and_only_where_it_counts(tmp_path, write_layer_tables):
    step, model = Iteration((), 4, 400, 4), decoder("Llama-3.2-1B")
    one = KernelTables.load(write_layer_tables(tmp_path))
    assert "ASSUMED" not in iteration_cost(model, one).report(step)  # one device sends nothing
    piped = iteration_cost(model, one, pp=2)
    assert piped.report(step).startswith("ASSUMED")
    assert "ASSUMED" not in iteration_cost(model, one, pp=2, link=device("h100-80gb").intra_node).report(step)
    assert sum(part.seconds for part in piped.explain(step)) == pytest.approx(piped.seconds(step))
