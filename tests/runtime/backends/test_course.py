"""Placements end to end: timed by turns, held against eager, and refused where a unit crashes or is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.runtime.backends import Course, MeasureOptions, TorchOneDnn, capture  # noqa: E402
from torch import nn  # noqa: E402

PLANTED = """
import os
from meshwright.runtime.backends import TorchOneDnn


class Breaks(TorchOneDnn):
    def __init__(self, name):
        self.name = name

    def compile(self, subgraph, example):
        run = super().compile(subgraph, example)
        if self.name == "crashes":
            return lambda *given: os.abort()
        return lambda *given: tuple(one + 1 for one in run(*given))
"""


@pytest.fixture
def breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "breaking_backends.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    import breaking_backends

    return breaking_backends.Breaks


def test_placements_are_timed_by_turns(breaks) -> None:
    """One that crashes or is wrong says so; the others are timed all the same, later ones too."""
    torch.manual_seed(0)
    captured = capture(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Tanh()).eval(), [torch.randn(1, 3, 8, 8)])
    conv, relu, tanh = (node.id for node in captured.graph.nodes)
    options = MeasureOptions(least_rounds=3, most_rounds=4)
    given = [TorchOneDnn(), "torch-jit", breaks("crashes"), breaks("wrong")]
    with Course(captured, given, options) as course:
        found = course.times(
            {
                "whole": [("torch-jit", (conv, relu, tanh))],
                "crashes": [("torch-onednn", (conv,)), ("crashes", (relu, tanh))],
                "mixed": [("torch-onednn", (tanh,)), ("torch-jit", (conv, relu))],
                "wrong": [("torch-onednn", (conv, relu)), ("wrong", (tanh,))],
            }
        )
        assert list(found) == ["whole", "crashes", "mixed", "wrong"]
        assert found["crashes"].reason == "crashes: killed by SIGABRT"
        assert found["wrong"].reason.startswith("wrong: it differs from eager by")
        for name in ("whole", "mixed"):
            timing = found[name]
            assert timing.ms > 0
            assert timing.same_bits
            assert timing.error < 1e-5
            assert 3 <= len(timing.samples_ms) <= 4
        assert [(one.backend, one.nodes) for one in found["mixed"].groups] == [
            ("torch-jit", (conv, relu)),
            ("torch-onednn", (tanh,)),
        ]
        assert all(one.ms > 0 for one in found["mixed"].groups)
        assert len(found["whole"].samples_ms) == len(found["mixed"].samples_ms)
        with pytest.raises(InputError, match="backend 'other': expected one of torch-onednn, torch-jit"):
            course.times({"no": [("other", (conv, relu, tanh))]})
        with pytest.raises(InputError, match="node 'tanh' is in no group"):
            course.times({"no": [("torch-jit", (conv, relu))]})
