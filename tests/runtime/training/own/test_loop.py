"""A run with the user's data, weights and optimiser is the user's loop on one device."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from language import batches, loop, made  # noqa: E402
from meshwright.runtime.training import Group, Own, Schedule, TorchOptimizer, run_training  # noqa: E402
from meshwright.runtime.training.hand_plan import hand_plan  # noqa: E402

STEPS = 5
PLANS: dict[str, dict[str, Any]] = {
    "data": {"meshes": [(2, 1)]},
    "tensor": {"meshes": [(1, 2)], "rule": "tp"},
    "pipeline": {"meshes": [(1, 1)] * 2},
    "zero 2 and tensor": {"meshes": [(2, 2)], "rule": "tp", "zero": 2},
}
LONGER: dict[str, dict[str, Any]] = {
    "zero 3": {"meshes": [(2, 2)], "zero": 3},
    "interleaved": {"meshes": [(1, 1)] * 2, "stages_per_mesh": 2, "schedule": "interleaved_1f1b"},
}
ADAMW = {"lr": 3e-2, "weight_decay": 0.1, "betas": (0.9, 0.95)}


@pytest.fixture(scope="module")
def language() -> Any:
    return made()


def apart(state: Any, module: Any) -> float:
    own = module.state_dict()
    assert list(state) == list(own)
    return max(float((state[key].double() - x.double()).abs().max()) for key, x in own.items())


@pytest.mark.parametrize("name", [*PLANS, *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER)])
def test_adamw_groups_schedule_and_clipping_are_the_users_loop(session: Any, language: Any, name: str) -> None:
    graph, whole = language
    module, data = copy.deepcopy(whole.module), batches(STEPS, 8)
    plan = hand_plan(graph, **(PLANS | LONGER)[name], global_batch=8, microbatches=2)
    optimizer = TorchOptimizer(
        "adamw", ADAMW, (Group(("*norm*", "*.bias"), {"weight_decay": 0.0, "lr": 1e-2}),),
        Schedule("cosine", warmup=2, until=6, least=0.1), clip_norm=0.3,
    )  # fmt: skip
    run = run_training(
        plan, graph, iterations=STEPS, dtype="float64", session=session,
        own=Own(data=data, state=module.state_dict(), optimizer=optimizer, module=whole),
    )  # fmt: skip
    plain = [p for n, p in module.named_parameters() if "norm" in n or n.endswith(".bias")]
    rest = [p for p in module.parameters() if all(p is not q for q in plain)]
    theirs = torch.optim.AdamW([{"params": rest}, {"params": plain, "weight_decay": 0.0, "lr": 1e-2}], **ADAMW)
    factor = torch.optim.lr_scheduler.LambdaLR(theirs, optimizer.schedule.at)
    losses = loop(module, data, theirs, 0.3, factor)
    assert run.losses == pytest.approx(losses, rel=1e-10)
    assert apart(run.state_dict(), module) < 1e-10
    again = copy.deepcopy(whole.module)
    again.load_state_dict(run.state_dict(), strict=True)
    assert again.head.weight is again.embedding.weight


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.5, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        pytest.param("RMSprop", {"lr": 1e-2}, marks=pytest.mark.slow),
        ("Adafactor", {"lr": 3e-2, "weight_decay": 0.1}),
        pytest.param(torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}, marks=pytest.mark.slow),
    ],
)
def test_other_classes_of_torch_are_too(session: Any, language: Any, name: Any, options: Any) -> None:
    graph, whole = language
    module, data = copy.deepcopy(whole.module), batches(3, 8)
    plan = hand_plan(graph, meshes=[(2, 2)], rule="tp", zero=2, global_batch=8, microbatches=1)
    own = Own(data, module.state_dict(), TorchOptimizer(name, options), whole)
    run = run_training(plan, graph, iterations=3, dtype="float64", session=session, own=own)
    kind = name if isinstance(name, type) else getattr(torch.optim, name)
    assert run.losses == pytest.approx(loop(module, data, kind(module.parameters(), **options), None), rel=1e-10)
    assert apart(run.state_dict(), module) < 1e-10


def test_the_comparison_sees_the_same_data_and_weights(session: Any, language: Any) -> None:
    graph, whole = language
    plan = hand_plan(graph, meshes=[(2, 1)], global_batch=8, microbatches=2)
    optimizer = TorchOptimizer("AdamW", ADAMW, clip_norm=0.3)
    for module in (whole, None):
        own = Own(batches(3, 8), whole.module.state_dict() if module else None, optimizer, module)
        run = run_training(plan, graph, iterations=3, dtype="float64", compare=True, session=session, own=own)
        assert run.difference.largest < 1e-10, run.difference
