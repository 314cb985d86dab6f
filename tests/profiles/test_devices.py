"""Shipped devices against their data sheets, and devices of one's own from files."""

from __future__ import annotations

import json

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles import DEVICES, LinkSpec, device
from meshwright.profiles.devices import MIB
from meshwright.profiles.llm.tables.kernels import Peaks
from meshwright.simulator.cluster import Cluster

OWN = """\
like: l40s-48gb
memory_bytes: 24e9          # YAML takes such a number for text
memory_bandwidth_bytes_per_s: 500e9
intra_node: {bandwidth_bytes_per_s: 16e9}
price_per_hour: 0.5
"""
WHOLE = {
    "memory_bytes": 24 * 2**30, "peak_flops": 1e14, "memory_bandwidth_bytes_per_s": 1e12,
    "intra_node": {"bandwidth_bytes_per_s": 3e10, "latency_s": 1e-5},
    "inter_node": {"bandwidth_bytes_per_s": 1e10, "latency_s": 3e-5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "pflops", "devices", "tb_per_s"),
    [
        # Systems as their makers advertise them: fp8 without sparsity (PFLOP/s), accelerators, TB/s of memory.
        ("h100-80gb", 32 / 2, 8, 27),  # DGX H100: 32 PFLOP/s sparse
        ("h200-141gb", 32 / 2, 8, 38.4),
        ("b200-180gb", 72 / 2, 8, 64),  # DGX B200: 72 PFLOP/s sparse, 64 TB/s
        ("gb200-186gb", 720 / 2, 72, 576),  # GB200 NVL72: 720 PFLOP/s sparse, 576 TB/s
        ("mi300x-192gb", 20.9, 8, 42.4),  # MI300X platform
        ("mi325x-256gb", 20.9, 8, 48),
        ("l40s-48gb", 1.466 / 2, 1, 0.864),
        ("l4-24gb", 0.485 / 2, 1, 0.300),
    ],
)
def test_systems_of_shipped_devices_are_what_is_advertised(name, pflops, devices, tb_per_s):
    spec = device(name)
    assert devices * spec.fp8_flops / 1e15 == pytest.approx(pflops, rel=0.015)
    assert devices * spec.memory_bandwidth_bytes_per_s / 1e12 == pytest.approx(tb_per_s, rel=0.01)
    assert Peaks.of(spec).fp8_flops == spec.fp8_flops
    assert device("h200").memory_bytes == 143771 * MIB


def test_what_is_printed_on_the_box_is_about_what_the_driver_reports():
    for spec in DEVICES.values():
        gigabytes = next((part for part in spec.name.split("-")[::-1] if part.endswith("gb")), "4gb")
        assert 0.93 < spec.memory_bytes / 2**30 / float(gigabytes.removesuffix("gb")) <= 1.06, spec.name
        assert spec.usable_memory_bytes < spec.memory_bytes
        assert spec.name == "cpu-core" or (spec.watts and spec.source)


@pytest.mark.parametrize(
    ("said", "name"),
    [("H100_SXM", "h100-80gb"), ("l40s", "l40s-48gb"), ("l4", "l4-24gb"), ("mi300x", "mi300x-192gb")],
)
def test_other_spellings(said, name):
    assert device(said) is DEVICES[name]
    assert Cluster.of(2, said).device == name


def test_a_file_says_what_differs_from_a_shipped_device(tmp_path):
    path = tmp_path / "my-gpu.yaml"
    path.write_text(OWN)
    found, like = device(str(path)), device("l40s-48gb")
    assert (found.name, found.memory_bytes, found.price_per_hour) == ("my-gpu", 24 * 10**9, 0.5)
    assert found.intra_node == LinkSpec(16e9, like.intra_node.latency_s)
    assert (found.peak_flops, found.inter_node, found.watts) == (like.peak_flops, like.inter_node, like.watts)
    assert Cluster.of(2, str(path)).spec == found
    path = tmp_path / "own.json"
    path.write_text(json.dumps(WHOLE | {"name": "mine"}))
    assert device(str(path)).name == "mine"
    assert Peaks.of(device(str(path))).fp8_flops == 1e14


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("memory: 3", "unknown field 'memory'; known: like, name, memory_bytes"),
        ("like: l40", "did you mean 'l40s-48gb'"),
        ("memory_bytes: 1e10", "missing peak_flops, memory_bandwidth_bytes_per_s, intra_node, inter_node"),
        ("like: h100\nmemory_bytes: 80 GB", "memory_bytes: expected a number .got '80 GB'"),
        ("like: h100\nmemory_bytes: true", "memory_bytes: expected a number"),
        ("like: h100\nmemory_bytes: -1", "expected 0 < usable_memory_bytes"),
        ("like: h100\nwatts: -1", "watts: expected a finite number >= 0"),
        ("like: h100\nintra_node: 5", "intra_node: expected bandwidth_bytes_per_s and latency_s"),
        ("like: h100\nintra_node: {bandwidth_bytes_per_s: 0}", "bandwidth_bytes_per_s: expected > 0"),
        ("like: h100\nintra_node: {rate: 1}", "intra_node: unknown field 'rate'"),
        ("- 1", "expected fields of a device"),
        ("a: [", "cannot be read"),
    ],
)
def test_bad_files_are_one_line(text, says, tmp_path):
    path = tmp_path / "gpu.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        device(str(path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_unknown_names():
    with pytest.raises(InputError, match=r"several begin so: a100-40gb, a100-80gb"):
        device("a100")
    with pytest.raises(InputError, match=r"did you mean 'h200-141gb'.*my-gpu\.yaml"):
        device("h200-14gb")


def test_a_case_plans_on_a_device_of_its_own(tmp_path, capsys):
    (tmp_path / "my-gpu.yaml").write_text(OWN)
    plan = tmp_path / "plan.json"
    asked = ["llm", "--model", "Llama-3.1-8B", "--rate", "1", "--requests", "20"]
    device_said = ["--devices", "1", "--device", str(tmp_path / "my-gpu.yaml"), "--planner", "fixed"]
    assert run(["plan", *asked, *device_said, "--out", str(plan)]) == 0, capsys.readouterr()
    assert json.loads(plan.read_text())["cluster"]["device"]["memory_bytes"] == 24 * 10**9
    assert run(["simulate", str(plan), "--requests", "20"]) == 0, capsys.readouterr()
