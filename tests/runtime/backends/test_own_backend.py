"""The example of docs/backends.md, brought by a package's entry point: found, checked, measured beside torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.runtime.backends import MeasureOptions, available, backend, capture, profile  # noqa: E402
from torch import nn  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/own_backend.py"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, dist: str, code: str, *rows: str) -> None:
    """A distribution with entry points, in a folder of its own."""
    info = folder / dist / f"{dist}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(["[meshwright.backends]", *rows]))
    (folder / dist / f"{dist}.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder / dist))


def test_a_backend_by_entry_point(tmp_path, monkeypatch) -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 100
    install(tmp_path, monkeypatch, "own_backend", code, "numpy = own_backend:NumPy")
    assert available()["numpy"] == ""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Softmax(-1))
    captured = capture(module.eval(), [torch.randn(4, 8)])
    table = profile(captured, ["torch-onednn", "numpy"], options=MeasureOptions(least_rounds=2, most_rounds=2))
    groups = {match.nodes: match.error for match in table.matches if match.backend == "numpy"}
    assert set(groups) == {("linear",), ("linear", "relu"), ("linear_1",), ("linear_1", "tanh")}
    assert max(groups.values()) < 1e-5
    assert table.refused == ()


@pytest.mark.parametrize(
    ("dist", "code", "words"),
    [
        ("no_backend", "made = 3", "expected a subclass of meshwright.profiles.backends.Backend"),
        ("raises", "raise OSError('no licence')", "cannot be loaded: OSError: no licence; mend or reinstall"),
        ("empty_one", "", "cannot be loaded: AttributeError"),
    ],
)
def test_broken_entry_points(tmp_path, monkeypatch, dist, code, words) -> None:
    install(tmp_path, monkeypatch, dist, code, f"broken = {dist}:made")
    assert words in available()["broken"]
    with pytest.raises(InputError, match=f"backend 'broken'.* of {dist} 1"):
        backend("broken")


def test_two_of_one_name(tmp_path, monkeypatch) -> None:
    for dist in ("first_one", "second_one"):
        install(tmp_path, monkeypatch, dist, "", f"twice = {dist}:made")
    with pytest.raises(InputError, match="two installed packages bring one of this name"):
        backend("twice")
