"""A plan of the configuration search is run, and exported as a program that needs torch alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.megatron import search
from meshwright.planners.megatron.emit import training_plan
from meshwright.runtime.export.training import export_training
from meshwright.runtime.training.configured import config_of, is_configured, run_configured
from meshwright.simulator import Cluster
from meshwright.simulator.training import TrainingPlan, TransformerShape
from meshwright.simulator.training.configuration.mixture.parts import Experts, Latent

torch = pytest.importorskip("torch")
from meshwright.runtime.training.decoder.model import Chunk  # noqa: E402

GPT = TransformerShape(4, 32, 4, vocab=64, seq=16)
MIXTURE = TransformerShape(
    4, 32, 4, 2, 64, 64, 16, gated=True, experts=Experts(4, 2, 32, shared_ffn=16, dense_layers=1)
)
CLUSTER = Cluster(1, 2, "a100-80gb")


def test_a_plan_says_what_its_decoder_needs(tmp_path: Path) -> None:
    plan = training_plan(
        MIXTURE, Cluster(1, 8, "a100-80gb"), 8, tp=1, pp=2, dp=4, microbatch=1, ep=2, zero=3, shard=2, recompute="full"
    )
    plan.save(tmp_path / "plan.json")
    config = config_of(TrainingPlan.load(tmp_path / "plan.json"))
    assert is_configured(plan)
    assert (config.way.shard, config.way.reshard, config.way.ep, config.way.layers) == (2, True, 2, (2, 2))
    assert (config.shape.experts, config.shape.dense, config.shape.shared_ffn) == (4, (0,), 16)


def test_what_the_decoder_does_not_do_is_refused() -> None:
    latent = TransformerShape(4, 32, 4, vocab=64, seq=16, gated=True, head_dim=12, latent=Latent(8, 4, 8))
    plan = training_plan(latent, CLUSTER, 4, tp=1, pp=2, dp=1, microbatch=1)
    with pytest.raises(InputError, match="does not do latent attention"):
        config_of(plan)


def test_a_run_is_held_against_one_process() -> None:
    plan = training_plan(GPT, CLUSTER, 4, tp=1, pp=1, dp=2, microbatch=1, zero=1)
    found = run_configured(plan, steps=2)
    assert found.apart is not None
    assert found.apart < 1e-10, found.worst
    assert len(found.losses) == len(found.seconds) == 2
    assert "2 processes" in repr(found)


def test_the_search_s_zb_v_runs() -> None:
    """Two chunks on each of two processes, in a V; torch's own schedule."""
    fixed = {"tp": 1, "pp": 2, "dp": 1, "microbatch": 1, "zero": 0, "recompute": "none"}
    best = search(GPT, CLUSTER, 4, schedule="zb-v", interleave=2, **fixed).best[0]
    found = run_configured(training_plan(GPT, CLUSTER, 4, **best.settings), steps=2)
    assert found.config.way.schedule == "zb_v"
    assert found.apart is not None
    assert found.apart < 1e-10, found.worst


DATA = """
import torch
def batches():
    generator = torch.Generator().manual_seed(3)
    start = torch.randint(64, (4, 1), generator=generator)
    for _ in range(30):
        yield (start + torch.arange(17)) % 64          # the next token is one more
"""


def test_the_exported_program_learns_from_data_without_meshwright(tmp_path: Path) -> None:
    """Two processes of torchrun, in which importing Meshwright fails; the weights that it saves go on elsewhere."""
    plan = training_plan(GPT, CLUSTER, 4, tp=2, pp=1, dp=1, microbatch=1)
    out = tmp_path / "out"
    export_training(plan, "torch", out)
    (out / "data.py").write_text(DATA, encoding="utf-8")
    (out / "start.py").write_text(
        "import sys\nsys.modules['meshwright'] = None\nfrom decoder.train import main\nmain()\n", encoding="utf-8"
    )
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}

    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "start.py", "--dtype", "float32", "--lr", "0.01",
        "--data", "data.py:batches", "--steps", "20", "--save", "weights.pt",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(line.split()[3].rstrip(",")) for line in done.stdout.splitlines() if line.startswith("step")]
    assert losses[-1] < losses[0] - 1.0
    values = torch.load(out / "weights.pt", weights_only=True)
    assert sum(x.numel() for x in values.values()) == GPT.params
    whole = Chunk(config_of(plan).shape, range(GPT.layers))
    assert whole.load_state_dict(values, strict=False).missing_keys == ["output.weight"]  # tied
    tokens = (torch.arange(17) + 5).unsqueeze(0) % 64
    logits = whole(tokens[:, :-1])
    assert float(torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:])) < losses[0] - 1.0
    assert json.loads((out / "config.json").read_text())["way"]["tp"] == 2


def test_the_command_line_runs_it_and_refuses_what_it_does_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = training_plan(GPT, CLUSTER, 4, tp=1, pp=2, dp=1, microbatch=1)
    path = tmp_path / "plan.json"
    plan.save(path)
    assert run(["run", str(path), "--data", "data.py:batches"]) == 2
    assert "data: a plan of planner search runs here on drawn tokens" in capsys.readouterr().err
    assert run(["run", str(path), "--iterations", "1", "--out", str(tmp_path / "rows.csv")]) == 0
    said = capsys.readouterr().out
    assert "2 processes (pp 2)" in said
    assert "against one process: equal" in said
    assert (tmp_path / "rows.csv").read_text().startswith("iteration,loss,norm,seconds\n0,")
