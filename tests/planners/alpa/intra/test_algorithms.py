"""Parallel algorithms: the paper's Table 3 comes out of derivation, and each algorithm computes what it should."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from meshwright.planners.alpa.intra import collectives_of, derive, follow
from meshwright.planners.alpa.intra.sharding.specs import ShardingSpec
from meshwright.profiles.graph import Loop, Operator
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import LogicalMesh, Mesh


def mesh(shape: tuple[int, int]) -> LogicalMesh:
    return Mesh(Cluster(shape[0], shape[1], "v100-16gb"), *shape).view(shape)


def operator(kind: str, formula: str, sizes: dict[str, int], split: dict[str, str] | None = None, **more) -> Operator:
    inputs = tuple(f"x{k}" for k in range(len(formula.split("->")[0].split(","))))
    loops = tuple(Loop(n, s, split=(split or {}).get(n, "free")) for n, s in sizes.items())
    return Operator("op", kind, formula, inputs, loops, **more)


# mapping of axes 0 and 1, output spec, input specs, all-reduces as (share of the output M, axes)
TABLE_3 = [
    (("i", "j"), "RS0S1", ("RS0R", "RRS1"), []),
    (("i", "k"), "RS0R", ("RS0S1", "RS1R"), [("n0", (1,))]),
    (("j", "k"), "RRS0", ("RRS1", "RS1S0"), [("n0", (1,))]),
    (("b", "i"), "S0S1R", ("S0S1R", "S0RR"), []),
    (("b", "k"), "S0RR", ("S0RS1", "S0S1R"), [("n0", (1,))]),
    (("i", "i"), "RS01R", ("RS01R", "RRR"), []),
    (("k", "k"), "RRR", ("RRS01", "RS01R"), [("1", (0, 1))]),
]


@pytest.mark.parametrize(("axes", "output", "inputs", "reduces"), TABLE_3)
@pytest.mark.parametrize("shape", [(2, 2), (2, 4)])
def test_table_3(axes, output, inputs, reduces, shape):
    op = operator("contraction", "b i k, b k j -> b i j", {"b": 8, "i": 16, "j": 32, "k": 64})
    found = {a.axes: a for a in derive(op, mesh(shape))}
    a = found[axes]
    assert (str(a.result), tuple(map(str, a.operands))) == (output, inputs)
    share = {"1": 1, "n0": shape[0]}
    forward = [(c.collective, c.n_bytes, c.axes) for c in collectives_of(op, a, mesh(shape)) if c.phase == "forward"]
    assert forward == [("all_reduce", 8 * 16 * 32 * 2 / share[of], along) for of, along in reduces]


def test_all_mappings_of_a_batched_matmul():
    op = operator("contraction", "b i k, b k j -> b i j", {"b": 8, "i": 16, "j": 32, "k": 64})
    assert {a.axes for a in derive(op, mesh((2, 4)))} == set(itertools.product("bijk", repeat=2))


def test_work_is_repeated_only_if_nothing_divides():
    op = operator("contraction", "b h, h f -> b f", {"b": 6, "h": 6, "f": 9})
    assert {a.axes for a in derive(op, mesh((2, 3)))} == set(itertools.product("bh", "bhf"))
    assert {a.axes for a in derive(op, mesh((4, 3)))} == {("", x) for x in "bhf"}
    assert {a.axes for a in derive(op, mesh((5, 7)))} == {("", "")}
    assert ("", "") in {a.axes for a in derive(op, mesh((2, 3)), repeat=True)}


def test_megatron():
    """Column parallel then row parallel: one all-reduce forward (of the second's result), one backward (of the first's
    operand), and no resharding between."""
    m = mesh((2, 4))
    up = operator("contraction", "b s h, h f -> b s f", {"b": 8, "s": 4, "h": 16, "f": 32})
    down = operator("contraction", "b s f, f h -> b s h", {"b": 8, "s": 4, "h": 16, "f": 32})
    column = next(a for a in derive(up, m) if a.axes == ("b", "f"))
    row = next(a for a in derive(down, m) if a.axes == ("b", "f"))
    assert column.result == row.operands[0]
    assert (str(column.operands[1]), str(row.operands[1])) == ("RS1", "S1R")
    size = 8 * 4 * 16 * 2 / 2
    weight = 16 * 32 * 2 / 4
    of_column = collectives_of(up, column, m, parameters=[1])
    of_row = collectives_of(down, row, m, parameters=[1])
    assert [(c.phase, c.collective, c.n_bytes, c.axes, c.operand) for c in of_column] == [
        ("backward", "all_reduce", size, (1,), 0),
        ("reduce", "all_reduce", weight, (0,), 1),
    ]
    assert [(c.phase, c.collective, c.n_bytes, c.axes, c.operand) for c in of_row] == [
        ("forward", "all_reduce", size, (1,), -1),
        ("reduce", "all_reduce", weight, (0,), 1),
    ]


def test_sequence_parallelism_scatters_the_sum():
    m = mesh((2, 4))
    down = operator("contraction", "b s f, f h -> b s h", {"b": 8, "s": 4, "h": 16, "f": 32})
    found = [a for a in derive(down, m, scatter=True) if a.axes == ("b", "f")]
    assert {str(a.result) for a in found} == {"S0RR", "S01RR", "S0S1R", "S0RS1"}
    a = next(a for a in found if str(a.result) == "S0S1R")
    size = 8 * 4 * 16 * 2 / 2
    assert [(c.phase, c.collective, c.n_bytes, c.axes) for c in collectives_of(down, a, m, parameters=[1])[:2]] == [
        ("forward", "reduce_scatter", size, (1,)),
        ("backward", "all_gather", size, (1,)),
    ]
    assert set(derive(down, m)) < set(derive(down, m, scatter=True))


def test_vocabulary_parallel_embedding():
    m = mesh((2, 4))
    op = operator("embedding", "v h, b s -> b s h", {"v": 64, "h": 16, "b": 8, "s": 4})
    a = next(a for a in derive(op, m) if a.axes == ("b", "v"))
    assert (str(a.operands[0]), str(a.operands[1]), str(a.result)) == ("S1R", "S0R", "S0RR")
    forward = [c for c in collectives_of(op, a, m) if c.phase == "forward"]
    assert [(c.collective, c.axes) for c in forward] == [("all_reduce", (1,))]


def test_experts():
    """Expert parallelism: experts dealt to an axis, each with its own weights, whose gradients nobody sums."""
    m = mesh((2, 4))
    op = operator("contraction", "e g c m, e m h -> e g c h", {"e": 8, "g": 4, "c": 4, "m": 16, "h": 32})
    a = next(a for a in derive(op, m) if a.axes == ("e", "e"))
    assert (str(a.operands[0]), str(a.operands[1]), str(a.result)) == ("S01RRR", "S01RR", "S01RRR")
    assert collectives_of(op, a, m, parameters=[1]) == ()
    dispatch = operator("dispatch", "g s e c, g s m -> e g c m", {"g": 8, "s": 8, "e": 8, "c": 4, "m": 16})
    by_group = next(a for a in derive(dispatch, m) if a.axes == ("g", "g"))
    assert str(by_group.result) == "RS01RR"  # an all-to-all away from the experts' S01RRR
    assert collectives_of(dispatch, by_group, m) == ()


def test_convolution():
    m = mesh((2, 4))
    sizes = {"b": 8, "c": 16, "y": 4, "x": 4, "k": 32, "p": 3, "q": 3, "i": 4, "j": 4}
    whole = dict.fromkeys("yxpqij", "whole")
    op = operator("convolution", "b c i j, k c p q -> b k y x", sizes, whole)
    found = {a.axes: a for a in derive(op, m)}
    assert set(found) == set(itertools.product("bck", repeat=2))
    assert str(found["b", "k"].result) == "S0S1RR"
    assert str(found["b", "c"].operands[1]) == "RS1RR"
    assert found["b", "c"].sums == (1,)


@pytest.mark.parametrize(
    ("kind", "formula", "split", "values"),
    [
        ("norm", "b s h, h, h -> b s h", {"h": "statistic"}, 8 * 4),
        ("softmax", "b s h -> b s h", {"h": "statistic"}, 8 * 4),
        ("norm", "b s h, s, s -> b s h", {"b": "statistic", "h": "statistic"}, 4),
    ],
)
def test_statistics(kind, formula, split, values):
    """Cutting a normalised loop costs an all-reduce of one value per other loop, forward and backward."""
    m = mesh((1, 4))
    op = operator(kind, formula, {"b": 8, "s": 4, "h": 16}, split)
    a = next(a for a in derive(op, m) if a.axes == ("", "h"))
    found = [(c.phase, c.collective, c.n_bytes) for c in collectives_of(op, a, m) if c.operand < 0]
    assert found == [("forward", "all_reduce", values * 2.0), ("backward", "all_reduce", values * 2.0)]


def test_a_loss_exchanges_its_statistics_forward_only():
    """Softmax minus one-hot: with the rows' sums, each device has the gradient of its own logits."""
    m = mesh((2, 4))
    op = operator("loss", "b s v, b s ->", {"b": 8, "s": 4, "v": 16}, {"v": "statistic"}, dtype="float32")
    a = next(a for a in derive(op, m) if a.axes == ("b", "v"))
    assert [(c.phase, c.collective, c.n_bytes, c.axes) for c in collectives_of(op, a, m) if c.operand < 0] == [
        ("forward", "all_reduce", 8 * 4 * 4 / 2, (1,)),
        ("forward", "all_reduce", 4.0, (0,)),
    ]


def test_fused_attention_with_cut_keys_adds_up_its_result():
    m = mesh((2, 4))
    sizes = {"b": 8, "s": 16, "n": 8, "d": 4, "t": 16}
    split = {"t": "statistic", "d": "whole"}
    op = operator("attention", "b s n d, b t n d, b t n d -> b s n d", sizes, split)
    a = next(a for a in derive(op, m) if a.axes == ("b", "t"))
    rows, whole = 8 * 16 * 8 * 2 / 2, 8 * 16 * 8 * 4 * 2 / 2
    assert (str(a.result), str(a.operands[1])) == ("S0RRR", "S0S1RR")
    assert [(c.phase, c.collective, c.n_bytes, c.axes, c.operand) for c in collectives_of(op, a, m)] == [
        ("forward", "all_reduce", rows, (1,), -1),
        ("backward", "all_reduce", rows, (1,), -1),
        ("forward", "all_reduce", whole, (1,), -1),
        ("backward", "all_reduce", whole, (1,), 0),
    ]


def test_fused_attention():
    m = mesh((2, 4))
    sizes = {"b": 8, "s": 16, "n": 8, "d": 4, "t": 16}
    op = operator("attention", "b s n d, b t n d, b t n d -> b s n d", sizes, {"t": "whole", "d": "whole"})
    found = {a.axes: a for a in derive(op, m)}
    a = found["b", "n"]
    assert str(a.result) == "S0RS1R" == str(a.operands[1])
    assert collectives_of(op, a, m) == ()
    assert {x for axes in found for x in axes} == {"b", "s", "n"}


def test_followers_take_the_cut_over():
    m = mesh((2, 4))
    split = operator("view", "b s (n d) -> b s n d", {"b": 8, "s": 4, "n": 8, "d": 4})
    a = follow(split, 0, ShardingSpec.parse("S0RS1"), m)
    assert (str(a.operands[0]), str(a.result)) == ("S0RS1", "S0RS1R")
    few = operator("view", "b s (n d) -> b s n d", {"b": 8, "s": 4, "n": 2, "d": 16})
    a = follow(few, 0, ShardingSpec.parse("RRS01"), m)  # 8 pieces of 2 heads: only axis 0 fits
    assert (str(a.operands[0]), str(a.result)) == ("RRS0", "RRS0R")
    merge = operator("view", "b s n d -> b s (n d)", {"b": 8, "s": 4, "n": 8, "d": 4})
    a = follow(merge, 0, ShardingSpec.parse("S0RRS1"), m)  # inside a head: cannot stay cut
    assert (str(a.operands[0]), str(a.result)) == ("S0RRR", "S0RR")
    bias = operator("elementwise", "b s h, h -> b s h", {"b": 8, "s": 4, "h": 8})
    a = follow(bias, 0, ShardingSpec.parse("S0RS1"), m)
    assert str(a.operands[1]) == "S1"
    assert a.partial == ((), (0,))  # the bias is the same for all samples: its gradient is summed


FORMULAS = [
    ("b i k, b k j -> b i j", {"b": 4, "i": 8, "j": 8, "k": 8}),
    ("b s h, h n d -> b s n d", {"b": 4, "s": 4, "h": 8, "n": 8, "d": 2}),
    ("b s n d, n d h -> b s h", {"b": 4, "s": 4, "h": 8, "n": 8, "d": 4}),
    ("g s e c, g s m -> e g c m", {"g": 4, "s": 4, "e": 8, "c": 4, "m": 4}),
]


@pytest.mark.parametrize(("formula", "sizes"), FORMULAS)
@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (1, 4)])
def test_every_algorithm_computes_the_result_and_the_gradients(formula, sizes, shape):
    """Each device multiplies its slices; sums along the algorithm's axes give its slice of the result, and of the
    gradient of each operand."""
    m = mesh(shape)
    op = operator("contraction", formula, sizes)
    rng = np.random.default_rng(0)
    parsed = op.parsed
    letters = dict(zip(sizes, "abcdefgh", strict=False))
    names = ["".join(letters[g[0]] for g in dims) for dims in (parsed.result, *parsed.operands)]
    shapes = [op.shape_of(dims) for dims in (parsed.result, *parsed.operands)]
    d_result, *operands = [rng.integers(-5, 5, s) for s in shapes]
    result = np.einsum(f"{names[1]},{names[2]}->{names[0]}", *operands)
    gradients = [
        np.einsum(f"{names[0]},{names[2]}->{names[1]}", d_result, operands[1]),
        np.einsum(f"{names[0]},{names[1]}->{names[2]}", d_result, operands[0]),
    ]
    for a in derive(op, m):
        local = {}
        for at in np.ndindex(*shape):
            x, y = (v[s.slices(v.shape, shape, at)] for v, s in zip(operands, a.operands, strict=True))
            dz = d_result[a.result.slices(d_result.shape, shape, at)]
            local[at] = (
                np.einsum(f"{names[1]},{names[2]}->{names[0]}", x, y),
                np.einsum(f"{names[0]},{names[2]}->{names[1]}", dz, y),
                np.einsum(f"{names[0]},{names[1]}->{names[2]}", dz, x),
            )
        whole = [(result, a.result, a.sums), *zip(gradients, a.operands, a.partial, strict=True)]
        for which, (values, spec, axes) in enumerate(whole):
            for at in np.ndindex(*shape):
                group = [p for p in local if all(p[i] == at[i] for i in (0, 1) if i not in axes)]
                total = sum(local[p][which] for p in group)
                assert (total == values[spec.slices(values.shape, shape, at)]).all(), (str(a), which)
