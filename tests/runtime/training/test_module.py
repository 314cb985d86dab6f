"""A run is held against the user's own module, over its first iteration; what is planted is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forked import FIRST  # noqa: E402
from meshwright.errors import InputError, RunError  # noqa: E402
from meshwright.profiles.graph import Graph, from_torch  # noqa: E402
from meshwright.profiles.graph.module_loss import ModuleLoss  # noqa: E402
from meshwright.runtime.training import Own, RunOptions, TrainingSession, run_training  # noqa: E402
from meshwright.runtime.training.hand_plan import hand_plan  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

LABELS = torch.zeros(4, dtype=torch.int64)
WITHIN = 1e-9


class Block(nn.Module):
    """Of a resnet18: two convolutions and their norms, and a way past them."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(channels, out, 3, 2, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(out) for _ in range(3))
        self.past = nn.Conv2d(channels, out, 1, 2, bias=False)

    def forward(self, x: Any) -> Any:
        y = self.norms[1](self.two(F.relu(self.norms[0](self.one(x)))))
        return F.relu(y + self.norms[2](self.past(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.blocks, self.head = nn.Sequential(Block(8, 16), Block(16, 16)), nn.Linear(16, 6)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 6)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x).mean(1))


class Attention(nn.Module):
    """Over flattened positions, with a buffer and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Conv2d(8, 24, 1), nn.Linear(8, 6)
        self.register_buffer("table", torch.linspace(0.5, 2.0, 8))

    def forward(self, x: Any) -> Any:
        q, k, v = (t.flatten(2).mT for t in self.qkv(x).chunk(3, 1))
        y = (q @ k.mT).softmax(-1) @ v * self.table + torch.tensor([0.0, 1, 2, 3, 4, 5, 6, 7])
        return self.head(y.square().mean(1))


MODELS = {
    "residual": (Residual, (4, 3, 8, 8)), "encoder": (Encoder, (4, 6, 16)), "attention": (Attention, (4, 8, 4, 4)),
}  # fmt: skip


def made(name: str) -> tuple[Graph, ModuleLoss]:
    torch.manual_seed(0)
    kind, shape = MODELS[name]
    module = ModuleLoss(kind(), (torch.zeros(shape),), "cross_entropy", LABELS)
    return from_torch(module.module, module.inputs, loss=module.loss, labels=module.labels, name=name), module


@pytest.fixture(scope="module")
def session():
    with TrainingSession(2, timeout_s=120.0) as started:
        yield started


@pytest.mark.parametrize("shape", [[(2, 1)], [(1, 1)] * 2], ids=["data", "pipeline"])
@pytest.mark.parametrize("name", MODELS)
def test_the_first_iteration_is_the_modules(session, name, shape):
    """In float64, although five steps of Adam in float32 have gone before where others looked."""
    graph, module = made(name)
    plan = hand_plan(graph, meshes=shape, global_batch=8, microbatches=2)
    run = run_training(
        plan,
        graph,
        iterations=2,
        compare=True,
        own=Own(module=module),
        options=RunOptions(against="m.py:m"),
        session=session,
    )
    assert run.difference.against == "m.py:m"
    assert run.difference.largest < WITHIN, run.difference
    assert len(run.losses) == 2


def swapped(graph: Graph) -> Graph:
    """The softmax over the axis before."""
    found = next(op for op in graph.operators if op.kind == "softmax")
    last, before = found.parsed.result[-1], found.parsed.result[-2]
    loops = tuple(
        replace(x, split="statistic" if x.name in before else "free" if x.name in last else x.split)
        for x in found.loops
    )
    wrong = replace(found, loops=loops)
    return replace(graph, operators=tuple(wrong if op is found else op for op in graph.operators))


def test_a_graph_that_is_wrong_is_found(session):
    """Held against itself, it is right: only the module tells."""
    graph, module = made("attention")
    wrong = swapped(graph)
    plan = hand_plan(wrong, meshes=[(2, 1)], global_batch=8, microbatches=2)
    alone = run_training(plan, wrong, compare=True, session=session)
    assert alone.difference.largest < WITHIN
    assert alone.difference.against == "the graph on one device"
    held = run_training(plan, wrong, compare=True, own=Own(module=module), session=session)
    assert held.difference.gradient > 1e-3


FAULT = """
import torch.distributed as dist
from meshwright.runtime.training.stage import precision as stage
right = stage.compute

def wrong(local, operands):
    made = right(local, operands)
    if dist.is_initialized() and dist.get_rank() == 1 and local.op.kind == "contraction" and made.requires_grad:
        made.register_hook(lambda g: g * (1 + 1e-4))
    return made

stage.compute = wrong
"""


@pytest.mark.parametrize("shape", [[(1, 1)] * 2, [(2, 1)]], ids=["pipeline", "data"])
def test_a_wrong_gradient_on_one_rank_is_found(shape: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that is alone with its weights is found by the module; one of two by the other, too."""
    (tmp_path / "fault.py").write_text(FAULT)
    monkeypatch.setenv(FIRST, str(tmp_path / "fault.py"))
    graph, module = made("attention")
    plan = hand_plan(graph, meshes=shape, global_batch=8, microbatches=2)
    assert found_wrong(plan, graph, module)


def found_wrong(plan: Any, graph: Graph, module: ModuleLoss) -> bool:
    """Whether the ranks disagree, or the module and they."""
    try:
        run = run_training(plan, graph, compare=True, own=Own(module=module), options=RunOptions(timeout_s=120.0))
    except RunError as error:
        return "ranks disagree on the gradient of" in str(error)
    return 1e-6 < run.difference.gradient < 1e-2


def test_a_module_that_was_changed_since_is_said(session):
    graph, _ = made("encoder")
    plan = hand_plan(graph, meshes=[(2, 1)], global_batch=8, microbatches=2)
    other = ModuleLoss(nn.Linear(16, 6), (torch.zeros(4, 16),), "cross_entropy", LABELS)
    with pytest.raises(InputError, match=r"the module has no parameter 'encoder\.layers\.0.*plan again"):
        run_training(plan, graph, compare=True, own=Own(module=other), session=session)
