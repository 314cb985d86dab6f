"""`search`: equal to full enumeration one by one, and to `estimate_many` over the whole space; its counts add up."""

import csv
from itertools import pairwise, product

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.batches import divisors
from meshwright.planners.megatron import search
from meshwright.planners.megatron.space import Space
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape, estimate, estimate_many
from meshwright.simulator.training.configuration.columns import RECOMPUTE

SHAPE = TransformerShape(4, 1024, 8, vocab=8192, seq=512)
LLAMA = TransformerShape(8, 2048, 16, 4, 5632, 32000, 2048, gated=True)
GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
GIB = 2**30


def enumerated(shape, cluster, batch, stack, limit):
    """Every combination through `estimate`, one by one: (seconds, peak) of all that fit, and how many are possible."""
    n = cluster.n_devices
    by_device = [d for d in range(1, n + 1) if n % d == 0]
    rows, possible = [], 0
    for tp, pp, dp, b, v, again, sp, zero in product(
        by_device, by_device, by_device, range(1, batch + 1), range(1, shape.layers + 3), RECOMPUTE[:3], (False, True),
        range(4),
    ):  # fmt: skip
        if tp * pp * dp != n or batch % b or (shape.layers % v and (shape.layers + 2) % v):
            continue
        try:
            r = estimate(shape, cluster, tp, pp, dp, b, batch, v, again, sp, zero, stack=stack, check_memory=False)
        except InputError:
            continue
        possible += 1
        if r.breakdown.memory.device <= limit:
            rows.append((r.seconds, r.peak_bytes))
    return rows, possible


@pytest.mark.parametrize(
    ("shape", "cluster", "batch", "stack", "memory"),
    [
        (SHAPE, Cluster(1, 4, "a100-80gb"), 6, CORE, 80 * GIB),
        (SHAPE, Cluster(2, 1, "v100-16gb"), 4, MEGATRON_2022, 3.5 * GIB),
        (LLAMA, Cluster(1, 4, "h100-80gb"), 2, CORE, 6 * GIB),
    ],
)
def test_equal_to_enumeration_one_by_one(shape, cluster, batch, stack, memory):
    rows, possible = enumerated(shape, cluster, batch, stack, memory)
    assert rows
    result = search(shape, cluster, batch, stack=stack, memory=memory, top=5)
    assert result.best[0].seconds == pytest.approx(min(rows)[0], rel=1e-12)
    assert (result.best[0].seconds, result.best[0].peak_bytes) == pytest.approx(min(rows), rel=1e-12)
    assert result.evaluated + result.repeats == possible
    # The front: no possible configuration is better in one and no worse in the other.
    ours = [(one.seconds, one.peak_bytes) for one in result.front]
    theirs = []
    for row in sorted(rows):
        if not theirs or row[1] < theirs[-1][1]:
            theirs.append(row)
    assert np.allclose(ours, theirs, rtol=1e-12)


def whole(shape, cluster, batch, stack):
    n = cluster.n_devices
    chunks = sorted({*divisors(shape.layers), *divisors(shape.layers + 2)})
    triples = [(t, p, n // (t * p)) for t in divisors(n) for p in divisors(n) if n % (t * p) == 0]
    rows = [
        (*degrees, *rest)
        for degrees in triples
        for rest in product(divisors(batch), chunks, range(3), (False, True), range(4))
    ]
    names = ("tp", "pp", "dp", "microbatch", "interleave", "recompute", "sequence_parallel", "zero")
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
    return estimate_many(shape, cluster, global_batch=batch, stack=stack, **columns), columns


def test_equal_to_estimate_many_over_the_whole_space():
    cluster = Cluster(8, 8, "a100-80gb")
    many, _ = whole(GPT3, cluster, 64, CORE)
    result = search(GPT3, cluster, 64, top=1)
    assert result.combinations == len(many)
    assert result.evaluated + result.repeats == (many.problem == 0).sum()
    assert sum(result.impossible.values()) == (many.problem > 0).sum()
    assert many.best is not None
    assert result.best[0].seconds == pytest.approx(many.seconds[many.best], rel=1e-12)
    least = many.peak_bytes[many.fits].min()
    assert result.front[-1].peak_bytes == least
    assert result.smallest is not None
    assert result.smallest.peak_bytes == many.peak_bytes[many.problem == 0].min()


def test_repeats_cost_what_the_plain_combination_costs():
    cluster = Cluster(1, 4, "a100-80gb")
    for stack in (CORE, MEGATRON_2022):
        many, columns = whole(SHAPE, cluster, 4, stack)
        at = {tuple(column[row].item() for column in columns.values()): row for row in range(len(many))}
        checked = 0
        for key, row in at.items():
            tp, pp, dp, b, v, again, sp, zero = key
            plain = (tp, pp, dp, b, v, 0 if stack.flash and again == 1 else again, sp and tp > 1, zero if dp > 1 else 0)
            if many.problem[row] or plain == key:
                continue
            assert many.seconds[row] == pytest.approx(many.seconds[at[plain]], rel=1e-12)
            assert many.peak_bytes[row] >= many.peak_bytes[at[plain]]  # ZeRO 3 counts gathered layers
            checked += 1
        assert checked > 50


def test_best_is_sorted_and_everything_adds_up(tmp_path):
    cluster = Cluster(2, 4, "a100-40gb")
    result = search(LLAMA, cluster, 16, memory=20 * GIB, top=7)
    seconds = [one.seconds for one in result.best]
    assert len(seconds) == 7
    assert seconds == sorted(seconds)
    assert result.combinations == result.evaluated + result.pruned
    assert result.evaluated == result.fit + result.out_of_memory == len(result.table["seconds"])
    for one in result.best:
        again = estimate(LLAMA, cluster, global_batch=16, stack=CORE, **one.settings)
        assert (again.seconds, again.peak_bytes) == (one.seconds, one.peak_bytes)
        assert one.breakdown.memory.device <= 20 * GIB
        assert one.devices == 8
    front = [(one.seconds, one.peak_bytes) for one in result.front]
    assert front[0][0] == seconds[0]
    assert all(a[0] <= b[0] and a[1] > b[1] for a, b in pairwise(front))
    rows = result.rows()
    assert len(rows) == result.evaluated
    with result.to_csv(tmp_path / "all.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows)
    assert float(read[3]["seconds"]) == rows[3]["seconds"]
    assert {row["recompute"] for row in read} <= set(RECOMPUTE)
    assert "evaluated" in result.explain()
    assert str(result.best[0]) in result.explain()


def test_choices_restrict_the_space():
    cluster = Cluster(1, 8, "a100-80gb")
    free = search(LLAMA, cluster, 16)
    held = search(LLAMA, cluster, 16, tp=[2, 4], pp=2, microbatch=(1, 2), recompute="full", zero=1,
                  sequence_parallel=True, interleave=1)  # fmt: skip
    assert held.combinations == 4
    assert held.best[0].seconds >= free.best[0].seconds
    assert {one.recompute for one in held.best} == {"full"}
    assert {one.zero for one in held.best} == {1}
    assert len(held.best) == 4
    lonely = search(LLAMA, cluster, 16, tp=1, pp=1, zero=[1, 3], recompute="selective", sequence_parallel=True)
    assert {one.recompute for one in lonely.best} == {"selective"}  # nothing plain to repeat


def test_uneven_stages_are_tried():
    """30 layers in 8 stages of 4 chunks: one layer in each but the first and the last."""
    shape = TransformerShape(30, 1024, 16, vocab=8192, seq=512)
    result = search(shape, Cluster(1, 8, "a100-80gb"), 16, tp=1, pp=8)
    assert {1, 2, 4} <= set(result.table["interleave"].tolist())
    assert result.fit > 0


def test_several_stacks_are_all_tried():
    cluster = Cluster(1, 8, "a100-80gb")
    both = search(LLAMA, cluster, 16, stack=(MEGATRON_2022, CORE), top=3)
    each = [search(LLAMA, cluster, 16, stack=one, top=3) for one in (MEGATRON_2022, CORE)]
    assert both.combinations == sum(one.combinations for one in each)
    assert both.best[0].seconds == min(one.best[0].seconds for one in each)
    assert both.evaluated == sum(one.evaluated for one in each)
    assert both.best[0].stack == CORE.name  # overlaps more


def test_more_choice_and_more_memory_never_hurt():
    cluster = Cluster(2, 4, "a100-80gb")
    by_memory = [search(LLAMA, cluster, 16, memory=m * GIB).best[0].seconds for m in (8, 16, 32, 80)]
    assert by_memory == sorted(by_memory, reverse=True)
    wider = [search(LLAMA, cluster, 16, zero=z).best[0].seconds for z in (0, (0, 1), (0, 1, 2), None)]
    assert wider == sorted(wider, reverse=True)


def test_order_of_the_space():
    space = Space.of(4, 2, 3, stack=(CORE, MEGATRON_2022))
    chunks = list(space.chunks(size=7))
    assert sum(len(c["tp"]) for _, c in chunks) == len(space) == 2 * 6 * 2 * 3 * 3 * 2 * 4  # interleave 1, 3, 5
    assert all((c["tp"] * c["pp"] * c["dp"] == 4).all() for _, c in chunks)
    first = chunks[0][1]
    assert [first[name][0] for name in ("tp", "pp", "dp", "zero")] == [1, 1, 4, 0]
    keys = {(s.name, *(c[name][i].item() for name in c)) for s, c in chunks for i in range(len(c["tp"]))}
    assert len(keys) == len(space)
    assert divisors(36) == (1, 2, 3, 4, 6, 9, 12, 18, 36)


def test_nothing_fits_and_what_would():
    with pytest.raises(InfeasibleError, match=r"174\.6 B parameters fits into 80\.0 GiB on 8 x a100") as caught:
        search(GPT3, Cluster(1, 8, "a100-80gb"), 64)
    said = str(caught.value)
    assert "\n" not in said
    larger = int(said.split("; ")[-1].split()[0])
    assert search(GPT3, Cluster(larger // 8, 8, "a100-80gb"), 64).fit > 0
    empty = search(GPT3, Cluster(larger // 16, 8, "a100-80gb"), 64, must_fit=False)  # half is too few
    assert empty.best == empty.front == ()
    assert empty.smallest is not None
    assert empty.fit == 0
    with pytest.raises(InfeasibleError, match="allow more of tp, pp"):
        search(GPT3, Cluster(1, 8, "a100-80gb"), 64, tp=8, pp=1, dp=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 3}, r"no product of tp \{3\}, pp \{1, 2, 4, 8\}.* is the number of devices, 8"),
        ({"tp": 0}, r"tp: expected a positive integer, or several \(got 0\)"),
        ({"pp": 1.5}, r"pp: expected a positive integer"),
        ({"dp": True}, "dp: expected a positive integer"),
        ({"microbatch": []}, "microbatch: expected at least one choice"),
        ({"microbatch": 5}, "none of .* combinations is possible; what comes closest breaks: global_batch"),
        ({"interleave": "2"}, "interleave: expected a positive integer"),
        ({"zero": 4}, "zero: expected 0, 1, 2 or 3"),
        ({"recompute": "some"}, r"recompute: expected some of none, selective, full, chosen \(got 'some'\)"),
        ({"sequence_parallel": 1}, r"sequence_parallel: expected True, False or both \(got 1\)"),
        ({"stack": "core"}, "stack: expected a Stack"),
        ({"stack": ()}, "stack: expected a Stack"),
        ({"top": 0}, "top: expected a positive integer"),
        ({"memory": 0}, "memory: expected bytes > 0"),
        ({"memory": "80 GiB"}, "memory: expected bytes > 0"),
        ({"memory": float("nan")}, "memory: expected bytes > 0"),
        ({"dtype": "int8"}, "dtype: expected one of"),
        ({"cluster": "a100"}, "cluster: expected a simulator.Cluster"),
        ({"global_batch": 0}, "global_batch: expected a positive integer"),
        ({"global_batch": 2.0}, "global_batch: expected a positive integer"),
    ],
)
def test_bad_choices(change, message):
    said = {"model": LLAMA, "cluster": Cluster(1, 8, "a100-80gb"), "global_batch": 16, **change}
    with pytest.raises(InputError, match=message) as caught:
        search(said.pop("model"), said.pop("cluster"), said.pop("global_batch"), **said)
    assert "\n" not in str(caught.value)
