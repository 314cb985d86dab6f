"""What does not go together is said in one line, before any process starts where that can be known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from language import SEQ, VOCAB, batches, made  # noqa: E402
from meshwright.errors import InputError  # noqa: E402
from meshwright.runtime.training import (  # noqa: E402
    Group,
    Own,
    Schedule,
    TorchOptimizer,
    TrainingSession,
    run_training,
)
from meshwright.runtime.training.hand_plan import hand_plan  # noqa: E402
from meshwright.runtime.training.own.batches import global_batches  # noqa: E402
from meshwright.runtime.training.own.brought import Ready  # noqa: E402


@pytest.fixture(scope="module")
def language() -> Any:
    graph, module = made()
    return hand_plan(graph, meshes=[(2, 1)], global_batch=8, microbatches=2), graph, module


def refused(language: Any, iterations: int = 1, **own: Any) -> str:
    plan, graph, _ = language
    with pytest.raises(InputError) as error:
        Ready.of(Own(**own), plan, graph.with_batch(4), iterations, 1e-3)
    text = str(error.value)
    assert "\n" not in text
    return text


def changed(**inputs: Any) -> list[dict[str, Any]]:
    return [{k: x for k, x in {**batches(1, 8)[0], **inputs}.items() if x is not None}]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (changed(labels=None), "item 0: has no 'labels'; the model reads tokens, labels"),
        (changed(mask=torch.ones(8)), "has 'mask', which the model does not read"),
        (changed(tokens=torch.zeros(8, SEQ)), "'tokens': expected integer values (got float32)"),
        (changed(tokens=torch.zeros(8, SEQ + 1, dtype=torch.int64)), "has shape (8, 9); expected (n, 8) for n samples"),
        (changed(tokens=torch.full((8, SEQ), VOCAB)), f"'tokens': expected indices below {VOCAB} (got {VOCAB})"),
        (changed(tokens=torch.zeros(4, SEQ, dtype=torch.int64)), "different numbers of samples"),
        (batches(1, 12), "12 samples, and the plan's global batch of 8"),
        (batches(2, 3), "2 items of 3 samples are too few"),
        (iter(batches(3, 3)), "3 samples, and the plan's global batch of 8"),
        ([(1, 2, 3)], "expected a mapping or tuple of the model's inputs, tokens, labels (got a tuple of 3)"),
        (7, "expected an iterable"),
        (iter([]), "ended after 0 of 1 iterations"),
    ],
)
def test_data(language: Any, data: Any, said: str) -> None:
    assert said in refused(language, data=data)


def test_data_that_are_too_few_are_known_before(language: Any) -> None:
    assert "3 items of 8 samples are too few for 4 iterations" in refused(language, 4, data=batches(3, 8))


def test_weights(language: Any) -> None:
    _, _, module = language
    state = module.module.state_dict()
    own = {"module": module}
    assert "has no 'positions' and 34 more" in refused(language, state={"x": torch.ones(1)}, **own)
    assert "has an unknown 'more'" in refused(language, state={**state, "more": torch.ones(1)}, **own)
    wrong = {**state, "norm.weight": torch.ones(3)}
    assert "'norm.weight' has shape (3,), the model's has (16,)" in refused(language, state=wrong, **own)
    loose = {**state, "head.weight": state["head.weight"] + 1}
    assert "'head.weight' is tied to 'embedding.weight'" in refused(language, state=loose, **own)


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (("LBFGS", {}), "LBFGS is not element-wise"),
        (("adamww", {}), "torch.optim has no 'adamww'; it has ASGD"),
        (("AdamW", {"lr": -1.0}), "AdamW: Invalid learning rate: -1.0"),
        (("AdamW", {"momentum": 0.9}), "AdamW: AdamW.__init__() got an unexpected keyword argument 'momentum'"),
        (("AdamW", {}, (Group(("*nrom*",), {"weight_decay": 0.0}),)), "no trained parameter is called '*nrom*'"),
        (("Adafactor", {"maximize": True}), "Adafactor on shards takes no 'maximize'"),
    ],
)
def test_optimizers(language: Any, optimizer: Any, said: str) -> None:
    assert said in refused(language, optimizer=TorchOptimizer(*optimizer))


def test_muon_is_not_element_wise(language: Any) -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    assert "Muon is not element-wise" in refused(language, optimizer=TorchOptimizer("Muon"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"decay": "cos"}, "expected one of constant, linear, cosine"),
        ({"decay": "linear", "warmup": 4, "until": 4}, "until: expected the iteration at which the linear decay ends"),
        ({"factors": (1.0, -0.5)}, "finite numbers >= 0"),
        ({"factors": (1.0,), "warmup": 2}, "leave decay and warmup out"),
    ],
)
def test_schedules(fields: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        Schedule(**fields)
    assert said in str(error.value)


def ends() -> Iterator[Any]:
    yield from batches(2, 8)


def fails() -> Iterator[Any]:
    yield from batches(1, 8)
    raise ValueError("the disk is gone")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (ends, "ended after 2 of 4 iterations"),
        pytest.param(fails, "item 1: ValueError: the disk is gone", marks=pytest.mark.slow),
    ],
)
def test_data_that_end_or_fail_while_ranks_train(language: Any, data: Any, said: str) -> None:
    plan, graph, _ = language
    with TrainingSession(2, timeout_s=60.0) as session, pytest.raises(InputError) as error:
        run_training(plan, graph, iterations=4, session=session, own=Own(data=data()))
    assert said in str(error.value)


def test_items_of_any_size_make_the_same_batches(language: Any) -> None:
    """Samples, small batches, large ones, a map-style dataset and arrays of all: the same global batches."""
    _, graph, _ = language
    whole = batches(4, 8)
    every = {key: torch.cat([x[key] for x in whole]) for key in whole[0]}

    class Dataset:
        def __len__(self) -> int:
            return 32

        def __getitem__(self, i: int) -> Any:
            return every["tokens"][i], every["labels"][i].numpy()

    ways: list[Any] = [
        whole, every, Dataset(), [{k: x[i : i + 2] for k, x in every.items()} for i in range(0, 32, 2)],
        torch.utils.data.DataLoader(Dataset(), batch_size=4),  # type: ignore[arg-type]
        ({k: x[i : i + 16] for k, x in every.items()} for i in (0, 16)),
    ]  # fmt: skip
    for data in ways:
        found = [next(walk) for walk in [global_batches(data, graph, 8, 4)] for _ in range(4)]
        for mine, theirs in zip(found, whole, strict=True):
            assert all(torch.equal(mine[key], theirs[key]) for key in theirs)
