"""Every backend on real operators: it agrees with eager, on views too, and leaves flags as they were."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.profiles.backends import offers  # noqa: E402
from meshwright.runtime.backends import available, backend, backends, capture, flat, names, subgraph  # noqa: E402
from meshwright.runtime.backends.capture import recorded  # noqa: E402
from meshwright.runtime.backends.measure.agreement import Wrong, disagreement, drawn  # noqa: E402
from torch import nn  # noqa: E402

SLOW = ("openvino", "onnxruntime-dynamo", "inductor")
"""Take a second and more for a unit: `make test` has one of them compile, in `test_a_view_is_no_garbage`."""


def usable(name: str):
    """A backend, or a skip that says what is missing."""
    reason = available()[name]
    if reason:
        pytest.skip(f"{name}: {reason}")
    return backend(name)


class Net(nn.Module):
    """Convolutions, a depthwise one, a transposed one, pooling, a sum, and attention with transposed views."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.up = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ConvTranspose2d(8, 4, 2, 2)
        self.layer, self.out = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.relu(self.depthwise(x) + x)
        x = torch.tanh(self.up(nn.functional.max_pool2d(x, 2)))  # 1, 4, 8, 8
        rows = x.flatten(2).reshape(1, 16, 16)
        heads = rows.view(1, 16, 4, 4).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(1, 16, 16)
        return nn.functional.gelu(self.out(self.layer(mixed + rows))).softmax(-1)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    module, x = Net().eval(), torch.randn(1, 3, 8, 8)
    captured = capture(module, [x])
    return captured, recorded(captured.module, [x])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names()],
)
@torch.inference_mode()
def test_agrees_with_eager(name, net) -> None:
    """On what it offers: what does not agree would be refused, and here nothing is."""
    captured, values = net
    one, graph = usable(name), net[0].graph
    flags = torch.backends.mkldnn.enabled, torch.jit.onednn_fusion_enabled()
    offered = offers(graph, [one])
    assert offered
    longest = sorted(offered, key=lambda offer: -len(offer.nodes))
    rest = longest[1::16] if name in SLOW else longest[1::4]
    for offer in longest[:1] + rest:
        part = subgraph(captured, offer.nodes)
        real = [values[read] for read in graph.reads(graph.bits(offer.nodes))]
        with one.held():
            run = one.compile(part, real)
            assert disagreement(run, flat(part), real, 0) <= 1e-5, offer
    assert (torch.backends.mkldnn.enabled, torch.jit.onednn_fusion_enabled()) == flags


@pytest.mark.parametrize(
    "name",
    [
        *("torch-jit", "torch-jit-optimized", "onnxruntime", "openvino"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("onnxruntime-dynamo", "inductor")),
    ],
)
@torch.inference_mode()
def test_a_view_is_no_garbage(name) -> None:
    """Its pointer alone, or strides other than at compilation, give plausible numbers and no exception."""
    one, module = usable(name), nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()).eval()
    dense, view = torch.randn(1, 4, 6, 6), torch.randn(1, 4, 6, 6).transpose(2, 3)
    captured = capture(module, [dense])
    run = one.compile(subgraph(captured, [node.id for node in captured.graph.nodes]), captured.example)
    torch.testing.assert_close(run(view)[0], module(view), rtol=1e-5, atol=1e-6)
    first = run(dense)[0]
    kept = first.clone()
    run(view)
    assert torch.equal(first, kept), "what was given stays as it was"


def test_openvino_tells_nobody(monkeypatch) -> None:
    """Its own `convert_model` reports over the network what it converts (openvino_telemetry)."""
    one = usable("openvino")
    telemetry = pytest.importorskip("openvino_telemetry")
    sent = list[object]()
    monkeypatch.setattr(telemetry.Telemetry, "send_event", lambda *said, **more: sent.append(said))
    monkeypatch.setattr(telemetry.Telemetry, "start_session", lambda *said, **more: sent.append(said))
    captured = capture(nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()).eval(), [torch.randn(1, 2, 3, 3)])
    with torch.inference_mode():
        run = one.compile(subgraph(captured, [node.id for node in captured.graph.nodes]), captured.example)
        assert run(*captured.example)[0].shape == (1, 2, 3, 3)
    assert not sent


def test_inductor_says_why_not(monkeypatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match="backend 'inductor': no C"):
        backend("inductor")


def test_unknown_and_missing_backends(monkeypatch) -> None:
    with pytest.raises(InputError, match="backend 'tensorrt': unknown; expected one of torch-onednn, "):
        backend("tensorrt")
    with pytest.raises(InputError, match="at least one of"):
        backends([])
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found(name) if name == "torch" else None)
    for name in ("onnxruntime", "openvino"):
        with pytest.raises(InputError, match=r"is not installed: pip install -e '.\[backends\]'"):
            backend(name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"torch is not installed: pip install -e '.\[torch\]'"):
        backend("torch-jit")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x: x.relu(), "it gives Tensor, expected a tuple of 1"),
        (lambda x: (x.relu(), x), "it gives 2 results"),
        (lambda x: (x.relu()[:1],), r"a result is \(1, 3\) torch.float32, expected \(4, 3\)"),
        (lambda x: (x.relu().double(),), r"torch.float64, expected \(4, 3\) torch.float32"),
        (lambda x: (x.relu_(),), "it changes its inputs"),
    ],
)
def test_what_is_no_result(run, words) -> None:
    with pytest.raises(Wrong, match=words):
        disagreement(run, lambda x: (x.relu(),), [torch.randn(4, 3)], 0)


def test_results_in_one_buffer_are_refused() -> None:
    buffer = torch.empty(4, 3)
    with pytest.raises(Wrong, match="a later call changes the results of an earlier one"):
        disagreement(lambda x: (buffer.copy_(x.relu()),), _relu, [_real()], 0)


def test_how_far_apart() -> None:
    assert disagreement(_relu, _relu, [_real()], 0) == 0
    off = disagreement(lambda x: (x.relu() * 1.001,), _relu, [_real()], 0)
    assert 0.0009 < off < 0.0011
    assert disagreement(lambda x: (x * float("nan"),), _relu, [_real()], 0) == float("inf")
    assert disagreement(lambda x: (x.argmax(1) * 0,), lambda x: (x.argmax(1),), [_real()], 0) == float("inf")
    nothing = torch.zeros(4, 3)
    assert disagreement(_relu, _relu, [nothing], 0) == 0
    assert disagreement(lambda x: (x + 1e-9,), _relu, [nothing], 0) == float("inf")


def test_random_inputs_are_like_real_ones() -> None:
    """Whole numbers stay in their range, strides stay, and one draw is a view."""
    generator, ids = torch.Generator().manual_seed(0), torch.tensor([[3, 7], [7, 3]])
    assert set(drawn(ids, generator, view=False).flatten().tolist()) <= {3, 7}
    turned = torch.randn(3, 5).t()
    assert drawn(turned, generator, view=False).stride() == turned.stride()
    assert drawn(torch.randn(3, 5), generator, view=True).stride() == (1, 3)
    assert drawn(torch.randn(1, 5).expand(4, 5), generator, view=False).stride() == (5, 1)


def _relu(x):
    return (x.relu(),)


def _real():
    return torch.linspace(-1, 1, 12).reshape(4, 3)
