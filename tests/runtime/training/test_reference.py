"""The interpreter on one device, against torch modules of the same models and torch's own optimiser."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from meshwright.errors import InputError  # noqa: E402
from meshwright.profiles.graph import parameter_bytes, zoo_graph, zoo_module  # noqa: E402
from meshwright.profiles.graph.compute.loops import Local  # noqa: E402
from meshwright.profiles.graph.compute.operators import compute, contraction_gradient  # noqa: E402
from meshwright.profiles.graph.models.builder import Builder  # noqa: E402
from meshwright.runtime.training.optimizer import Optimizer  # noqa: E402
from meshwright.runtime.training.single import evaluate, make_input, make_parameter, single_device  # noqa: E402


@pytest.mark.parametrize(
    ("name", "attention"),
    [("tiny-gpt", "matmuls"), ("tiny-gpt", "fused"), ("tiny-moe", "matmuls"), ("tiny-resnet", ""), ("tiny-mlp", "")],
)
@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-11), ("float32", 1e-5)])
def test_loss_and_every_gradient_are_the_modules(name, attention, dtype, near):
    options = {"attention": attention} if attention else {}
    graph = zoo_graph(name, 3, **options)
    module = zoo_module(name, **options).to(getattr(torch, dtype))
    parameters = {p.name: make_parameter(graph, p.name, 0, dtype).requires_grad_() for p in graph.parameters}
    with torch.no_grad():
        for key, p in module.named_parameters():
            p.copy_(parameters[key])
    inputs = {x.name: make_input(graph, x.name, 0, 0, 0, dtype) for x in graph.inputs}
    expected = module(*(inputs[x.name] for x in graph.inputs))
    expected.backward()
    loss = evaluate(graph.operators, {**parameters, **inputs})[graph.operators[-1].name]
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=near)
    found = dict(module.named_parameters())
    largest = max(float(p.grad.abs().max()) for p in found.values())
    for key, p in found.items():
        size = float(p.grad.abs().max())
        scale = size if size > 1e-6 * largest else largest  # a key's bias has no gradient but rounding
        assert float((parameters[key].grad - p.grad).abs().max()) <= near * scale


def test_the_gradient_of_a_contraction_is_autograds():
    b = Builder("g")
    b.parameter("x", 4, 6, 5)
    b.parameter("w", 5, 2, 3)
    b.add("y", "contraction", "b s h, h n d -> b s (n d)", "x", "w", scale=0.5)
    op = b.operators[0]
    xs = [torch.randn(4, 6, 5, dtype=torch.float64), torch.randn(5, 2, 3, dtype=torch.float64)]
    leaves = [x.clone().requires_grad_() for x in xs]
    y = compute(Local.of(op), leaves)
    gradient = torch.randn_like(y)
    for k, expected in enumerate(torch.autograd.grad(y, leaves, gradient)):
        assert torch.allclose(contraction_gradient(Local.of(op), xs, k, gradient), expected, rtol=1e-12)


THEIRS = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "adafactor": getattr(torch.optim, "Adafactor", None),  # torch ≥ 2.5
}


@pytest.mark.parametrize("shape", [(7, 3), (2, 5, 4), (6,), (1,)])
@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_optimizers_are_torchs(name, shape, scale):
    """Adafactor's small weights count as 1e-3; its updates are clipped where a gradient grows."""
    if THEIRS[name] is None:
        pytest.skip("this torch has no Adafactor")
    value = scale * torch.randn(shape, dtype=torch.float64)
    reference = value.clone().requires_grad_()
    optimizer = THEIRS[name]([reference], lr=0.01)
    mine = Optimizer(name, 0.01)
    state = mine.state(value)
    for iteration in range(4):
        gradient = 10**iteration * torch.randn_like(value)
        reference.grad = gradient.clone()
        optimizer.step()
        mine.apply(value, gradient, state, iteration)
    assert torch.allclose(value, reference.detach(), rtol=1e-12, atol=0)


def test_an_optimizers_state_takes_the_bytes_that_are_planned():
    for name in THEIRS:
        for shape in [(8, 6), (2, 5, 4), (6,)]:
            value = torch.zeros(shape, dtype=torch.float32)
            kept = sum(x.nbytes for x in Optimizer(name).state(value))
            assert kept == pytest.approx(value.numel() * parameter_bytes("float32", name, shape)[2])


def test_microbatches_average_as_one_large_batch_does():
    """Dense models: the gradient of the mean over all samples is the mean over microbatches."""
    one = single_device(zoo_graph("tiny-mlp", 4), seed=3, microbatches=2, dtype="float64")
    graph = zoo_graph("tiny-mlp", 8)
    inputs = {
        x.name: torch.cat([make_input(zoo_graph("tiny-mlp", 4), x.name, 3, 0, m, "float64") for m in range(2)])
        for x in graph.inputs
    }
    parameters = {p.name: make_parameter(graph, p.name, 3, "float64").requires_grad_() for p in graph.parameters}
    evaluate(graph.operators, {**parameters, **inputs})[graph.operators[-1].name].backward()
    for name, gradient in one.gradients.items():
        assert torch.allclose(parameters[name].grad, gradient, rtol=1e-10, atol=1e-14)


def test_an_unknown_function_is_one_line():
    b = Builder("g")
    b.parameter("x", 4)
    b.add("y", "elementwise", "a -> a", "x", fn="wobble")
    with pytest.raises(InputError, match="operator 'y': cannot run the function 'wobble'; known: "):
        compute(Local.of(b.operators[0]), [torch.zeros(4)])
