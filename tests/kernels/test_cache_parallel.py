"""Attention over shares of a cache in several processes against attention over the whole in one."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
from forked import ranks
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from meshwright.kernels.llm import kernels_for  # noqa: E402
from meshwright.kernels.llm.cache_parallel import Share, local_partial  # noqa: E402

WORKER = Path(__file__).with_name("shares_worker.py")
HEADS, KV_HEADS, WIDTH = 4, 2, 16


@dataclass(frozen=True)
class Shared:
    """Requests with their contexts, how many are whose, and how their tokens are dealt to processes."""

    size: int
    lens: tuple[int, ...]
    counts: tuple[int, ...]
    width: int


CASES = [
    Shared(2, (37, 1, 12, 2, 64), (3, 2), 1),  # a context of 1: the second share is empty
    Shared(2, (37, 1, 12), (0, 3), 1000),  # all on the first process, and no request of its own there
    Shared(2, (5, 9, 3, 8), (2, 2), 1),
    Shared(4, (3, 50, 1, 17), (1, 1, 1, 1), 4),  # three processes hold nothing of the shortest
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of each case what all processes found, and the attention of each query over its whole sequence in fp64."""
    folder, processes = tmp_path_factory.mktemp("shares"), 4
    random = np.random.default_rng(1)
    expected = []
    for index, case in enumerate(CASES):
        q = random.standard_normal((len(case.lens), HEADS, WIDTH)).astype(np.float32)
        k, v = random.standard_normal((2, len(case.lens), max(case.lens), KV_HEADS, WIDTH)).astype(np.float32)
        numbers = {**asdict(case), "lens": np.asarray(case.lens, np.int32)}
        np.savez(folder / f"case-{index}.npz", q=q, k=k, v=v, **numbers)
        expected.append(whole(q, k, v, case.lens))
    ranks(WORKER, processes, [str(folder)], timeout_s=200)
    return [
        ([np.load(folder / f"case-{index}-{rank}.result.npz") for rank in range(case.size)], expected[index])
        for index, case in enumerate(CASES)
    ]


def whole(q, k, v, lens):
    out = np.zeros(q.shape)
    for row, length in enumerate(lens):
        for head in range(HEADS):
            at = head // (HEADS // KV_HEADS)
            score = 0.25 * k[row, :length, at].astype(float) @ q[row, head].astype(float)
            weight = np.exp(score - score.max())
            out[row, head] = weight @ v[row, :length, at].astype(float) / weight.sum()
    return out


@pytest.mark.parametrize("index", range(len(CASES)))
def test_shares_together_give_the_whole(results, index):
    case, (found, expected) = CASES[index], results[index]
    assert tuple(sum(part["held"] for part in found)) == case.lens
    first = 0
    for part, count in zip(found, case.counts, strict=True):
        assert np.array_equal(part["everything"], found[0]["everything"])  # the same everywhere, bit by bit
        assert np.abs(part["everything"] - expected).max() < 1e-5
        assert part["own"].shape == (count, HEADS, WIDTH)
        assert np.abs(part["own"] - expected[first : first + count]).max(initial=0) < 1e-5
        assert "requests must count" in str(part["refused"])
        first += count


def test_some_shares_are_empty(results):
    assert sum(0 in part["held"] for found, _ in results for part in found) >= 3


@pytest.mark.parametrize("index", [2, 3])
def test_what_is_sent_is_what_the_cost_model_says(results, index):
    """Requests spread evenly: an all-gather of queries and an all-to-all of partial results (exchange "q")."""
    from dataclasses import replace

    from meshwright.profiles.llm import decoder
    from meshwright.profiles.llm.parallel.layer import Parallel, Widths, collectives

    case, (found, _) = CASES[index], results[index]
    model = replace(decoder("Llama-3.1-8B"), hidden=HEADS * WIDTH, heads=HEADS, kv_heads=KV_HEADS, head_dim=WIDTH)
    widths = Widths(activation=4, partial=4, statistic=4, statistics=2)
    layout = Parallel(cp=case.size, exchange="q")
    said = {each.name: each.sent_bytes for each in collectives(model, len(case.lens), layout, widths)}
    for part in found:
        assert int(part["sent"]) == said["queries"] + said["partial results"]


@given(
    length=st.integers(0, 200), position=st.integers(0, 199), size=st.integers(1, 6), width=st.sampled_from([1, 3, 500])
)
def test_every_token_has_one_place(length, position, size, width):
    shares = [Share(rank, size, width) for rank in range(size)]
    lens = torch.tensor([length], dtype=torch.int32)
    assert sum(int(share.lens(lens)) for share in shares) == length
    at = torch.arange(length)
    for share in shares:
        here = at[share.holds(at)]
        assert len(here) == int(share.lens(lens))
        assert torch.equal(share.place(here), torch.arange(len(here)))


@settings(max_examples=20, deadline=None)
@given(lens=st.lists(st.integers(0, 40), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_the_local_part_is_one_piece(make_case, lens, seed):
    case = make_case(lens, seed=seed)
    arguments = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in case.arguments()]
    found = local_partial(*arguments, kernels_for("cpu", "torch"))
    for mine, whole in zip(found, case.pieces(1), strict=True):
        assert np.allclose(mine.numpy(), whole[:, :, 0], atol=1e-4)


@pytest.mark.parametrize("wrong", [(2, 2, 1), (0, 0, 1), (0, 1, 0)])
def test_shares_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="expected 0 <= rank < size"):
        Share(*wrong)
