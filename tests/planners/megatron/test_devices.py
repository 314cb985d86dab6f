"""Searching over cluster sizes."""

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.megatron import devices_for, search, sweep_devices
from meshwright.simulator import Cluster
from meshwright.simulator.training import TransformerShape

LLAMA = TransformerShape(8, 2048, 16, 4, 5632, 32000, 2048, gated=True)
NODE = Cluster(1, 4, "a100-80gb")
DAY = 86_400


def test_each_size_is_searched():
    found = sweep_devices(LLAMA, NODE, 16, [1, 2, 4, 8, 12, 16])
    assert list(found) == [1, 2, 4, 8, 12, 16]
    eight = found[8]
    assert eight is not None
    assert eight.best[0].seconds == search(LLAMA, Cluster(2, 4, "a100-80gb"), 16).best[0].seconds
    assert eight.cluster.nodes == 2
    assert found[12] is None  # three divides neither layers, heads nor batch


def test_the_fewest_that_do():
    sizes = [1, 2, 4, 8, 16, 32]
    by_size = {n: r.best[0].seconds for n, r in sweep_devices(LLAMA, NODE, 64, sizes).items() if r and r.best}
    for days in (0.4, 1.0, 3.0):
        enough = [n for n, seconds in by_size.items() if 10_000 * seconds <= days * DAY]
        found = devices_for(LLAMA, NODE, 64, days=days, iterations=10_000, devices=sizes)
        assert found.devices == min(enough)
        assert found.days == pytest.approx(10_000 * by_size[found.devices] / DAY)
        assert found.days <= days
        assert found.price == pytest.approx(found.days * 24 * found.devices * 5.1)
        for size, took in found.tried.items():  # nothing that was left out would have done
            assert took is None or took > days or size == found.devices
        assert all(by_size[n] * 10_000 > days * DAY for n in sizes if n < found.devices)


def test_tokens_are_whole_iterations():
    found = devices_for(LLAMA, NODE, 64, days=30, tokens=1e9)
    assert found.iterations == -(-(10**9) // (64 * 2048))


def test_no_size_will_do():
    with pytest.raises(InfeasibleError, match=r"no size of .* trains 10,000 iterations in 0\.001 days") as caught:
        devices_for(LLAMA, NODE, 64, days=0.001, iterations=10_000, devices=[4, 1024])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"days": 0}, "days: expected a number > 0"),
        ({"days": True}, "days: expected a number > 0"),
        ({"tokens": 1e9}, "tokens, iterations: give one of the two"),
        ({"iterations": None}, "tokens, iterations: give one of the two"),
        ({"iterations": -1}, "iterations: expected a number > 0"),
        ({"devices": [6]}, "devices: expected full nodes of 4, or less than one .got 6"),
        ({"devices": [0]}, "devices: expected positive integers"),
        ({"devices": [2.5]}, "devices: expected positive integers"),
        ({"zero": 9}, "zero: expected 0, 1, 2 or 3"),
    ],
)
def test_bad_questions(change, message):
    said = {"days": 3, "iterations": 100, **change}
    with pytest.raises(InputError, match=message):
        devices_for(LLAMA, NODE, 16, **said)
