"""The networks have the parameters that are published of them, the same from the same seed, and sane activations."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from meshwright.kernels.networks import NETWORKS, network, network_spec, skeleton

PARAMETERS = {
    "resnet-18": 11_689_512,  # torchvision 0.15, documentation of ResNet18_Weights
    "resnet-50": 25_557_032,  # ResNet50_Weights
    "resnext-50": 25_028_904,  # ResNeXt50_32X4D_Weights
    "resnet3d-50": 46_198_976 + 400 * 2049,  # Hara et al.'s 46.2 M before the head, and 400 classes
    "mobilenet-v2": 3_504_872,  # MobileNet_V2_Weights
    "nasnet-a": 5_289_978,  # trainable parameters of keras.applications.NASNetMobile; "5.3 M" in the paper's Table 2
    "dcgan": 3_576_704,  # PyTorch's DCGAN example: 100·512·16 + 512·256·16 + 256·128·16 + 128·64·16 + 64·3·16 + norms
    "bert-base": 12 * 7_087_872,  # 12 layers of 4 (768² + 768) + 2 · 4 · 768² + 5 · 768 + 4 · 768, two layer norms
}

SMALL = ("resnet-18-image32-base8", "resnet-50-image32-base8", "resnext-50-image32-base32",
         "resnet3d-50-image16-frames8-base8", "mobilenet-v2-image32", "nasnet-a-image64-cells1-filters8",
         "dcgan-filters8", "bert-base-layers2-hidden32-heads2-seq8")  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert skeleton(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", SMALL)
def test_runs_at_any_batch_with_sane_numbers(name: str) -> None:
    net = network(name)
    assert not any(part.training for part in net.module.modules())
    with torch.no_grad():
        for batch in (1, 3):
            (x,) = net.inputs(batch)
            y = net.module(x)
            assert tuple(x.shape) == (batch, *net.spec.sample())
            assert y.shape[0] == batch
            assert bool(y.isfinite().all())
            # Neither vanished nor blown up, and not the same whatever comes in (clipped or dead units).
            assert 1e-2 < float(y.std()) < 1e2
            assert not torch.allclose(net.module(net.inputs(batch, seed=1)[0]), y, rtol=1e-2, atol=1e-2)
        one = net.module(net.inputs(3)[0][1:2])
    assert torch.allclose(one, y[1:2], rtol=1e-4, atol=1e-4)  # samples do not know of each other


def test_the_same_seed_gives_the_same_bytes() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (network("dcgan-filters8", seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(*(net.module.state_dict().values() for net in (first, again, other)), strict=True):
        assert torch.equal(a, b)
        assert a.numel() == 1 or not torch.equal(a, c)
    assert torch.equal(first.inputs(2)[0], again.inputs(2)[0])


def test_nasnet_is_wired_as_published() -> None:
    """Filters of every cell (44, 88, 176; stem 11 and 22), and what comes out: 6 and 4 times as many; 1056 at last."""
    module = skeleton("nasnet-a").module
    shapes = []
    hooks = [cell.register_forward_hook(lambda *a: shapes.append(tuple(a[2].shape[1:]))) for cell in module.cells]
    module(torch.empty(1, 3, 224, 224, device="meta"))
    for hook in hooks:
        hook.remove()
    stage = [(6 * 44, 28, 28)] * 4 + [(4 * 88, 14, 14)] + [(6 * 88, 14, 14)] * 4 + [(4 * 176, 7, 7)]
    assert shapes == [(44, 56, 56), (88, 28, 28), *stage, *[(1056, 7, 7)] * 4]


def test_tokens_are_read_where_there_is_a_vocabulary() -> None:
    net = network("bert-base-layers1-hidden32-heads2-seq8-vocab50")
    (ids,) = net.inputs(2)
    assert ids.dtype == torch.int64
    assert 0 <= int(ids.min()) <= int(ids.max()) < 50
    assert tuple(net.module(ids).shape) == (2, 8, 32)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50", r"unknown name 'resnet50'; did you mean resnet-50\? known: resnet-18, resnet-50, "),
        ("bert-base-layer2", "'layer2' is no size of bert-base, said once; its sizes are layers12, hidden768, "),
        ("bert-base-layers0", "'layers0' is no size of bert-base"),
        ("bert-base-layers2-layers3", "'layers3' is no size of bert-base, said once"),
        ("nasnet-a-filters10", r"filters: expected a multiple of 4 \(got 10\)"),
        ("bert-base-hidden10", r"heads: expected a divisor of hidden, 10 \(got 12\)"),
    ],
)
def test_unknown_names_are_one_line(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        network(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("batch", [0, True, 1.5])
def test_a_batch_is_a_positive_integer(batch: object) -> None:
    with pytest.raises(ValueError, match="batch: expected a positive integer"):
        skeleton("dcgan").inputs(batch)  # type: ignore[arg-type]


def test_names_and_sizes_need_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from meshwright.kernels.networks import network, network_spec\n"
        "assert network_spec('bert-base-layers2').sample() == (128, 768)\n"
        "try: network('dcgan')\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "network 'dcgan': needs torch; pip install -e '.[torch]' in Meshwright's folder"


def test_every_network_says_what_it_is() -> None:
    for name in NETWORKS:
        assert "et al." in network_spec(name).description
    assert repr(skeleton("dcgan")).endswith("(Radford et al. 2016, Fig. 1), 3.577 M parameters)")
