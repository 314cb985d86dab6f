"""Input that would never end: devices, pipes and folders where files are expected, and counts that no machine holds."""

from __future__ import annotations

import ast
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright import studies
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles import load
from meshwright.simulator import Cluster
from meshwright.worlds import WORLDS, world
from meshwright.worlds.fields import holds_whole_numbers, paths, place, steps

ROOT = Path(studies.__file__).parents[1]
SOON_S = 60
"""Only so that a test that hangs fails; nothing here takes a second of work."""


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    def over(*_: Any) -> None:
        raise TimeoutError("it does not end")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(SOON_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


VERBS = {
    "study": "study {}",
    "study, trace": "study trace.yaml",
    "trace report": "trace report {}",
    "trace fit": "trace fit {}",
    "trace convert": "trace convert {} out.csv",
    "plan, trace": "plan serving --devices 2 --models bert-1.3b=1 --trace {} --slo 1",
    "plan, profile": "plan serving --devices 2 --rate 1 --profile {}",
    "plan, config.json": "plan llm --devices 1 --rate 1 --slo-ttft 1 --model {}.json",
    "plan, slice profile": (
        "plan training --planner terapipe --model gpt3-350m --devices 2 --global-batch 2 -o slice_profile={}"
    ),
    "simulate": "simulate {} --rate 1",
    "simulate, trace": "simulate plan.json --trace {}",
    "simulate, profile": "simulate plan.json --rate 1 --profile {}",
    "simulate, bids": "simulate sharing --bids {}",
    "regress": "regress {}",
    "run": "run {}",
    "export": "export {} --to vllm --out out",
    "compare": "compare {} --rate 1",
    "compare, silicon": "compare llm --silicon {} --kernels kernels",
    "graph": "graph {}",
}


@pytest.fixture
def folder(world: Any) -> Path:
    """Things that are no files, under two names each: as they are, and ending in ``.json``."""
    for name in ("pipe", "pipe.json"):
        os.mkfifo(world.folder / name)
    for name in ("folder", "folder.json"):
        (world.folder / name).mkdir()
    for name in ("zero", "zero.json"):
        (world.folder / name).symlink_to("/dev/zero")
    return world.folder


@pytest.mark.parametrize("what", ["zero", "pipe", "folder"])
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_file_is_one_line(verb: str, what: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trace.yaml").write_text(
        f"study: 1\ncluster: {{devices: 2}}\nmodels: [a]\nprofile: p.json\nworkload: {{trace: {what}, slo: 2}}\n"
    )
    code = run(VERBS[verb].format(what).split())
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert code == 2, err
    assert len(err) == 1, err
    assert "Traceback" not in err[0]
    assert "internal error" not in err[0]


OPENS = {"open", "read_text", "read_bytes", "read_csv", "read_parquet", "ParquetFile", "read_table"}


def test_every_reader_of_a_users_file_asks_first() -> None:
    """Of the packages that read what users name: each call that opens a path has `readable` in it, or says why not."""
    found: list[str] = []
    for folder in ("traces", "studies", "gate", "profiles/llm", "simulator", "planners"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = text.splitlines()
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call):
                    continue
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                said = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                if name in OPENS and "readable(" not in said and not _harmless(path, said, text):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {said.strip()}")
    assert not found, "\n".join(found)


def _harmless(path: Path, said: str, text: str) -> bool:
    """What is no user's file: files of the package, our own results, what was asked for before, and what is written."""
    ours = {"download", "fetch", "on_ray", "store_seal", "installed", "fresh"}
    if path.stem in ours:
        return True  # what we fetched ourselves, our own sources, notes and stores
    words = ("__file__", "files(", "shipped", '"wb"', "temporary", "Session.open", "open_bytes", "_open", "stream,")
    asked = ("is_file()", "readable(path)", "readable(file)", "check_target")
    return any(word in said for word in words) or any(word in text for word in asked)


BASES: dict[str, dict[str, Any]] = {
    "serving": {
        "cluster": {"devices": 2}, "models": {"bert-1.3b": 1}, "workload": {"rate": 1, "duration": 2, "slo_scale": 5},
        "planners": ["selective-replication"],
    },
    "llm": {
        "cluster": {"devices": 1}, "planners": ["fixed"],
        "workload": {"rate": 8, "requests": 4, "lengths": "alpaca", "slo_ttft": 1.0},
    },
    "sharing": {
        "cluster": {"devices": 2}, "workload": {"kind": "themis-1", "apps": 1, "scale": 0.01}, "planners": ["fifo"],
    },
    "training": {
        "cluster": {"devices": 2}, "model": "tiny-gpt", "workload": {"global_batch": 8}, "planners": ["data"],
    },
    "inference": {"model": "dcgan", "costs": "costs.json", "backends": ["torch-onednn"], "planners": ["collage-op"]},
}  # fmt: skip
SIZES = {
    "serving": {"cluster.devices", "cluster.devices_per_node", "serving.draws", "scaling.least"},
    "llm": {
        "cluster.devices", "cluster.devices_per_node", "workload.requests", "workload.clients.concurrency",
        "engine.tensor_parallel_size",
        "engine.pipeline_parallel_size", "engine.decode_context_parallel_size", "engine.block_size",
        "engine.max_num_batched_tokens", "engine.max_num_seqs", "engine.decode_engines", "draws",
        "engine.data_parallel_size", "engine.speculative_config.num_speculative_tokens", "failures.max_retries",
        "scaling.least",
    },
    "sharing": {"cluster.devices", "cluster.devices_per_node", "cluster.racks", "cluster.contention", "workload.apps",
                "beliefs.least", "draws"},
    "training": {
        "cluster.devices", "cluster.devices_per_node", "cluster.rack_nodes", "workload.global_batch",
        "workload.microbatches", "workload.sequence", "shape.layers", "shape.hidden", "shape.heads", "shape.kv_heads",
        "shape.ffn", "shape.vocab", "shape.experts", "failures.spares", "failures.draws",
        "failures.replicas", "failures.least_replicas",
    },
    "inference": {"workload.batch"},
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_every_count_of_a_case_is_bounded(name: str) -> None:
    case = world(name).case
    for path in paths(case):
        unsized = ("seed", "cluster.memory", "loading.cache", "warmup", "workload.run_samples")  # they make no work
        if holds_whole_numbers(case, path) is not True or path in unsized:
            continue
        if path.startswith("planner."):
            continue
        assert path in SIZES[name] | {"serving.max_batch"}, f"{path}: is it a count that sizes work? then it is bounded"
        said = place({"study": 1, "world": name, **BASES[name]}, steps(case, path), 10**9)
        with pytest.raises(InputError, match=r"less than or equal to|at most"):
            studies.Study.from_dict(said)


def test_counts_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="at most 100,000 in all"):
        Cluster.of(10**9)
    with pytest.raises(InputError, match="at most 100,000 in all"):
        load("alpaserve-v100").instances({"bert-1.3b": 10**8})
    told = {
        "models: {bert-1.3b: 100000000}": "models",
        "workload: {rate: 1.0e+9, duration: 100}": "requests are drawn; expected at most",
        "workload: {rate: 1, duration: 1.0e+9}": "requests are drawn; expected at most",
        "workload: {rate: 1, duration: 1.0e+18}": "duration: should be less than or equal to 10000000000",
    }
    for line, expected in told.items():
        said = {"study": 1, **BASES["serving"], **yaml.safe_load(line)}
        Path("s.yaml").write_text(yaml.safe_dump(said))
        assert run(["study", "s.yaml", "--no-report"]) == 2
        err = capsys.readouterr().err.splitlines()
        assert len(err) == 1, err
        assert expected in err[0], err
    for words in (
        "plan serving --devices 1000000000 --models bert-1.3b=1 --rate 1 --slo 1",
        "plan serving --devices 2 --models bert-1.3b=100000000 --rate 1 --slo 1",
        "plan llm --devices 1000000000 --model llama-3.1-8b --lengths alpaca --rate 1 --slo-ttft 1",
        "plan serving --devices 2 --models bert-1.3b=1 --rate 1e18 --slo 1",
        "trace generate t.csv --rate 1e18 --duration 10 --models 2",
        "trace generate t.csv --rate 1 --duration 1e18 --models 2",
        "trace generate t.csv --rate 1 --duration 10 --models 1000000000",
    ):
        assert run(words.split()) == 2, words
        assert len(capsys.readouterr().err.splitlines()) == 1, words
