"""Measuring: what is wrong, raises, crashes or hangs is refused, everything else is priced, and nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.profiles.backends import is_op, load_kept, wildcard  # noqa: E402
from meshwright.runtime.backends import MeasureOptions, TorchOneDnn, capture, profile  # noqa: E402
from torch import nn  # noqa: E402

QUICK = MeasureOptions(least_rounds=2, most_rounds=3, limit_s=10)

PLANTED = '''
"""Backends that go wrong at the operator of their name."""

import os, time
from meshwright.profiles.backends import Backend, SingleRule


def flat(subgraph):
    from meshwright.runtime.backends import flat
    return flat(subgraph)


class Planted(Backend):
    rule = SingleRule()

    def __init__(self, how, op, kind="operator library"):
        self.name, self.how, self.op, self.kind = how, how, op, kind
        self.calls = 0

    def compile(self, subgraph, example):
        run, wrong = flat(subgraph), any(
            self.op in str(node.target) for node in subgraph.graph.nodes if node.op == "call_function"
        )
        if not wrong:
            return run
        if self.how == "crashes":
            os.abort()
        if self.how == "raises":
            raise NotImplementedError("no such kernel\\nand more")
        if self.how == "hangs":
            time.sleep(1000)
        if self.how == "wrong":
            return lambda *given: tuple(one * 1.01 for one in run(*given))

        def later(*given):
            self.calls += 1
            if self.calls > 3 and self.how == "crashes later":
                os.kill(os.getpid(), 11)
            if self.calls > 3 and self.how == "raises later":
                raise MemoryError("full")
            return run(*given)

        return later
'''


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of the user's, in a folder of his own."""
    (tmp_path / "planted_backends.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    import planted_backends

    return planted_backends.Planted


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Tanh())
    return capture(module.eval(), [torch.randn(2, 3, 8, 8)])


def test_a_table(tiny, tmp_path) -> None:
    """Every operator has a price on torch; a graph library has one for the whole; the second time nothing is done."""
    kept = tmp_path / "kept.json"
    table = profile(tiny, ["torch-onednn", "torch-jit"], model="tiny", options=QUICK, kept=kept)
    counted = Counter(match.backend for match in table.matches)
    assert counted["torch-onednn"] == len(tiny.graph.nodes) == 6
    assert "torch-jit" in table.whole()
    assert all(match.cost_ms > 0 and match.error <= 1e-4 and 2 <= match.rounds <= 3 for match in table.matches)
    assert table.provenance.model == "tiny"
    assert table.provenance.batch == 2
    assert table.provenance.cpu_s > 0
    assert {(one.shape, one.to) for one in table.conversions} >= {((2, 4, 6, 6), "channels_last")}
    again = profile(tiny, ["torch-onednn", "torch-jit"], model="tiny", options=QUICK, kept=kept)
    assert (again.matches, again.used, again.conversions) == (table.matches, table.used, table.conversions)
    assert (again.provenance.measured, again.provenance.cpu_s) == (0, 0)
    assert again.provenance.kept == table.provenance.measured


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("wrong", "wrong: it differs from eager by 0.01 of the largest value"),
        ("raises", "raised NotImplementedError: no such kernel"),
        ("crashes", "crashes: killed by SIGABRT"),
        ("crashes later", "crashes: killed by SIGSEGV"),
        ("raises later", "raised MemoryError: full"),
        ("hangs", "hangs: nothing for 3 s; it was ended"),
    ],
)
def test_who_goes_wrong_is_refused_and_the_rest_goes_on(planted, tiny, how, reason) -> None:
    """Both convolutions are lost to the backend, and go to another; its other operators stay."""
    options = MeasureOptions(least_rounds=2, most_rounds=3, limit_s=3 if how == "hangs" else 60)
    table = profile(tiny, [planted(how, "conv2d"), TorchOneDnn()], options=options)
    refused = {one.nodes: one.reason for one in table.refused}
    assert set(refused) == {("conv2d",), ("conv2d_1",)}
    assert all(said.startswith(reason) for said in refused.values()), refused
    assert all(one.error is not None for one in table.refused) == (how == "wrong")
    counted = Counter(match.backend for match in table.matches)
    assert counted == {how: 4, "torch-onednn": 6}


def test_whoever_crashes_three_times_is_asked_no_more(planted, tiny) -> None:
    table = profile(tiny, [planted("crashes", ""), TorchOneDnn()], options=QUICK)
    reasons = Counter(one.reason.split(":")[0] for one in table.refused)
    assert reasons["not tried"] > 0
    assert {match.backend for match in table.matches} == {"torch-onednn"}


def test_an_operator_that_nobody_can_run(planted, tiny) -> None:
    with pytest.raises(InputError, match=r"takes operator 'conv2d' \(conv2d\) \(raises: raised NotImpl"):
        profile(tiny, [planted("raises", "conv2d")], options=QUICK)


def test_measuring_goes_on_after_a_kill(tiny, tmp_path, monkeypatch) -> None:
    """What was known when it ended is not measured again."""
    kept, seen = tmp_path / "kept.json", list[int]()

    class Killed(BaseException):
        pass

    def progress(line: str) -> None:
        seen.append(int(line.split(", ")[1].split()[0]))
        if seen[-1] >= 2:
            raise Killed

    options = MeasureOptions(least_rounds=2, most_rounds=30, spread=0.05)
    with pytest.raises(Killed):
        profile(tiny, ["torch-onednn"], options=options, kept=kept, progress=progress)
    known = len(load_kept(kept))
    assert known >= 2
    table = profile(tiny, ["torch-onednn"], options=options, kept=kept)
    assert table.provenance.kept >= 2
    assert table.provenance.kept + table.provenance.measured == 6


def test_a_damaged_cache(tiny, tmp_path) -> None:
    (tmp_path / "kept.json").write_text('{"format": "meshwright-kept')
    with pytest.raises(InputError, match="damaged: not JSON"):
        profile(tiny, ["torch-onednn"], kept=tmp_path / "kept.json")


class Local(TorchOneDnn):
    """Cannot be sent: pickle finds no such class."""

    __qualname__ = "nowhere"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ([], "at least one of torch-onednn"),
        (["torch-onednn", TorchOneDnn()], "is named twice"),
        ([Local()], "define its class at the top of a module"),
    ],
)
def test_backends_that_cannot_be_measured(tiny, chosen, words) -> None:
    with pytest.raises(InputError, match=words):
        profile(tiny, chosen, options=QUICK)


@pytest.mark.parametrize(
    "wrong", [{"least_rounds": 0}, {"most_rounds": 2}, {"limit_s": 0}, {"spread": float("nan")}, {"core": 9999}]
)
def test_options(wrong) -> None:
    with pytest.raises(InputError, match="measure: "):
        MeasureOptions(**wrong)


def test_a_pattern_is_one_line(tiny) -> None:
    two = is_op("relu")(is_op("conv2d")(wildcard()))
    table = profile(tiny, ["torch-onednn"], options=QUICK, added={"torch-onednn": [two]})
    assert [match.nodes for match in table.matches if len(match.nodes) == 2] == [
        ("conv2d", "relu"),
        ("conv2d_1", "relu_1"),
    ]
