"""Which rows of a message belong to which microbatch, against sets of samples; parcels against whole arrays."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import zoo_graph
from meshwright.runtime.training.graphs.microbatch_parts import check_separable, moved, parts_of, rows_of
from meshwright.runtime.training.graphs.parcel import GraphParcel, Sized
from meshwright.runtime.training.wires.edges import Edge
from meshwright.runtime.training.wires.messages import Place, region

SIZES = [(a, b) for a in (1, 2, 4, 8) for b in (1, 2, 4, 8)] + [(3, 6), (6, 2), (5, 5)]


@pytest.mark.parametrize(("samples", "of_reader"), SIZES)
def test_parts_are_the_samples_that_two_microbatches_share(samples: int, of_reader: int) -> None:
    for turn in range(6):
        mine = set(range(turn * samples, (turn + 1) * samples))
        found = {part.turn: part.ahead for part in parts_of(turn, samples, of_reader)}
        for other in range(60):
            theirs = set(range(other * of_reader, (other + 1) * of_reader))
            assert (other in found) == bool(mine & theirs)
            if other in found:  # sample n is row n - turn * samples of the message
                assert found[other] == turn * samples - other * of_reader


def test_a_region_moved_is_clipped_or_empty() -> None:
    assert moved(((0, 3), (2, 6)), 1, 4, 4) == ((0, 3), (0, 2))
    assert moved(((0, 3), (2, 4)), 1, 4, 4) == ((0, 3), (0, 0))
    assert moved(((5, 8),), 0, -2, 20) == ((7, 10),)


LAYOUTS = [((), (), ()), ((0,), (), ()), ((0, 1), (), ()), ((), (), (1,)), ((0,), (1,), ())]


@pytest.mark.parametrize(("samples", "of_reader"), [(1, 4), (2, 4), (4, 4), (8, 4), (8, 2), (8, 1)])
def test_every_reader_gets_its_rows_of_every_message(samples: int, of_reader: int) -> None:
    # Each sample has two rows of the first dimension. Senders are ranks 0-3, readers 4-7, on meshes of 2 x 2.
    batch, rest = 8, (4, 6)
    everything = torch.arange(2 * batch * 24).reshape(2 * batch, *rest)
    for here, there in itertools.product(LAYOUTS, LAYOUTS):
        source, target = (Sized(n, (2 * n, *rest)) for n in (samples, of_reader))
        if any(2 * n < 4 and cut == (0, 1) for n, cut in ((samples, here[0]), (of_reader, there[0]))):
            continue  # no device would have a whole row
        edge = Edge(0, 1, "x", source.full, Place((0, 1, 2, 3), (2, 2), here), Place((4, 5, 6, 7), (2, 2), there))
        ranks = {rank: GraphParcel(10, edge, source, target, 0, rank) for rank in range(8)}
        assert len({tuple(p.parcel.number for p in ranks[r].pieces(0)) for r in ranks}) == 1
        kept: dict[tuple[int, int], torch.Tensor] = {}
        for turn in range(batch // samples):
            whole = everything[2 * turn * samples : 2 * (turn + 1) * samples]
            under_way: dict[tuple[int, int, int], torch.Tensor] = {}
            for rank in range(4):
                own = whole[tuple(slice(a, b) for a, b in region(source.full, edge.made, rank))]
                for piece in ranks[rank].pieces(turn):
                    for i, message in piece.parcel.outgoing:
                        assert message.target not in (0, 1, 2, 3)
                        key = piece.parcel.tag(turn, i, 8), rank, message.target
                        assert key not in under_way
                        under_way[key] = piece.parcel.cut(own, message)
            for rank in range(4, 8):
                for piece in ranks[rank].pieces(turn):
                    part = torch.full(piece.parcel.shape, -1)
                    for i, message in piece.parcel.incoming:
                        key = piece.parcel.tag(turn, i, 8), message.source, rank
                        piece.parcel.put(part, message, under_way.pop(key))
                    lies = kept.setdefault((rank, piece.turn), torch.full(ranks[rank].whole, -1))
                    lies[piece.where] = part
            assert not under_way  # all that was sent was taken
        for (rank, turn), got in kept.items():
            whole = everything[2 * turn * of_reader : 2 * (turn + 1) * of_reader]
            assert torch.equal(got, whole[tuple(slice(a, b) for a, b in region(target.full, edge.read, rank - 4))])
        assert len(kept) == 4 * batch // of_reader


def test_the_dimension_of_samples_is_found_or_refused() -> None:
    graph = zoo_graph("tiny-mmt", 2)
    scores = graph.operators[graph.index["branches.0.layers.0.attention.scores"]]
    assert rows_of(scores, "here") == 0
    loss = graph.operators[-1]
    with pytest.raises(InputError, match=r"here: 'loss' of 'b c, b ->' is not cut by samples"):
        rows_of(loss, "here")
    swapped = replace(scores, formula="b s n d, b t n d -> n s t b")
    assert rows_of(swapped, "here") == 3
    behind = replace(scores, formula="b s n d, b t n d -> n s (t b)")
    with pytest.raises(InputError, match="give both stages microbatches of one size"):
        rows_of(behind, "here")


@pytest.mark.parametrize("name", ["tiny-mmt", "tiny-dlrm", "tiny-uno", "tiny-gpt", "tiny-moe"])
def test_graphs_whose_samples_do_not_meet_before_the_loss(name: str) -> None:
    check_separable(zoo_graph(name, 2))


def test_graphs_whose_samples_meet_are_refused() -> None:
    with pytest.raises(InputError, match=r"'stem.norm' \(norm\) brings the samples of a microbatch together"):
        check_separable(zoo_graph("tiny-resnet", 2))
    graph = zoo_graph("tiny-uno", 2)
    summed = replace(graph.operators[-1], attributes={**graph.operators[-1].attributes, "reduction": "sum"})
    with pytest.raises(InputError, match=r"'loss' \(loss\) brings"):
        check_separable(replace(graph, operators=(*graph.operators[:-1], summed)))
