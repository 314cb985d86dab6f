"""Routes that are run together: the same shards as each by itself, and no more collectives than buckets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from meshwright.runtime.training.wires import bundles
from meshwright.runtime.training.wires.bundles import run_bundled
from meshwright.runtime.training.wires.comm import MuteComm
from meshwright.runtime.training.wires.routes import Hop, Route

torch = pytest.importorskip("torch", reason="tensors")


class Counted(MuteComm):
    """Copies instead of communicating, and remembers what would have travelled."""

    def _send(self, collective, *tensors, group) -> None:
        super()._send(collective, *tensors, group=group)
        self.sent = [*getattr(self, "sent", []), (collective.__name__, group, max(x.numel() for x in tensors))]


def comm() -> Counted:
    return Counted((0, 1, 2, 3), (2, 2), 1)


ROUTES = [
    Route((Hop("all_reduce", (0,)), Hop("slice", (1,), 0))),
    Route((Hop("reduce_scatter", (0,), 1),)),
    Route((Hop("reduce_scatter", (0,), 0), Hop("all_gather", (1,), 1))),
    Route(),
    Route((Hop("all_to_all", (1,), 0, 1),)),
    Route((Hop("all_reduce", (0,)), Hop("reduce_scatter", (0, 1), 1))),
]


def tensors(dtypes: Sequence[torch.dtype] = (torch.float32,)) -> list[torch.Tensor]:
    drawn = torch.Generator().manual_seed(3)
    return [
        torch.randn(4, 8, generator=drawn).to(dtypes[i % len(dtypes)]).t().contiguous().t() for i in range(len(ROUTES))
    ]


@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float32, torch.float64)])
def test_shards_are_those_of_each_route_by_itself(dtypes):
    together = run_bundled(comm(), ROUTES, tensors(dtypes))
    alone = [route.run(comm(), x) for route, x in zip(ROUTES, tensors(dtypes), strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_one_kind_and_group_is_one_collective_until_a_bucket_is_full(monkeypatch):
    reduce = Route((Hop("all_reduce", (0,)),))
    xs = [torch.ones(4, 8) for _ in range(5)]
    one = comm()
    run_bundled(one, [reduce] * 5, xs)
    assert one.sent == [("all_reduce", (0,), 160)]
    assert one.counts == {".all_reduce": 5}  # tensors, as plans count
    assert sum(one.calls.values()) == 1
    monkeypatch.setattr(bundles, "BUCKET_BYTES", 2 * xs[0].nbytes)
    several = comm()
    run_bundled(several, [reduce] * 5, xs)
    assert [n for _, _, n in several.sent] == [64, 64, 32]
    assert run_bundled(comm(), [], []) == []
