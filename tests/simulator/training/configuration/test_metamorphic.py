"""What must hold between estimates of related configurations, on a few thousand random ones of random models."""

from dataclasses import replace

import numpy as np
import pytest
from meshwright.profiles.hardware import LinkSpec, device
from meshwright.seeds import generator
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape, estimate_many

NAMES = ("tp", "pp", "dp", "microbatch", "interleave", "recompute", "sequence_parallel", "zero")
SLACK = 1 + 1e-12


def models():
    rng = generator(5, "shapes of the metamorphic tests")
    for _ in range(4):
        heads = int(rng.choice([8, 16, 32]))
        kv = int(rng.choice([h for h in (8, 16, 32) if heads % h == 0]))
        layers, hidden = int(rng.choice([12, 16, 24, 30])), heads * int(rng.choice([64, 128]))
        vocab, seq = int(rng.choice([32000, 51200, 128256])), int(rng.choice([1024, 4096]))
        yield TransformerShape(layers, hidden, heads, kv, vocab=vocab, seq=seq, gated=bool(rng.integers(2)))


def configurations(devices=16, rows=800):
    rng = generator(6, "configurations of the metamorphic tests")
    powers = [d for d in (1, 2, 4, 8, 16) if devices % d == 0]
    tp = rng.choice(powers[:4], rows)
    pp = np.array([rng.choice([p for p in powers if devices % (p * t) == 0]) for t in tp])
    columns = (
        tp, pp, devices // (tp * pp), rng.choice([1, 2, 4], rows), rng.choice([1, 1, 2, 3], rows),
        rng.integers(0, 3, rows), rng.integers(0, 2, rows).astype(bool), rng.integers(0, 4, rows),
    )  # fmt: skip
    return dict(zip(NAMES, columns, strict=True))


MODELS = list(models())
SPEC = device("a100-80gb")


def ask(shape, spec=SPEC, stack=CORE, batch=192, **change):
    columns = {**configurations(), **change}
    return estimate_many(shape, Cluster(2, 8, spec), global_batch=batch, stack=stack, **columns)


def both(a, b):
    """Rows that are possible in both, enough of them."""
    rows = (a.problem == 0) & (b.problem == 0)
    assert rows.sum() > 30
    return rows


@pytest.mark.parametrize("shape", MODELS, ids=str)
@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022], ids=lambda s: s.name)
@pytest.mark.parametrize(
    "change",
    [
        {"intra_node": LinkSpec(2 * SPEC.intra_node.bandwidth_bytes_per_s, SPEC.intra_node.latency_s)},
        {"inter_node": LinkSpec(2 * SPEC.inter_node.bandwidth_bytes_per_s, SPEC.inter_node.latency_s)},
        {"intra_node": LinkSpec(SPEC.intra_node.bandwidth_bytes_per_s, 0.0)},
        {"inter_node": LinkSpec(SPEC.inter_node.bandwidth_bytes_per_s, 0.0)},
        {"memory_bandwidth_bytes_per_s": 2 * SPEC.memory_bandwidth_bytes_per_s},
        {"peak_flops": 2 * SPEC.peak_flops},
    ],
    ids=lambda c: next(iter(c)),
)
def test_better_hardware_is_never_slower(shape, stack, change):
    plain, better = ask(shape, stack=stack), ask(shape, replace(SPEC, **change), stack=stack)
    rows = both(plain, better)
    assert (better.seconds[rows] <= plain.seconds[rows] * SLACK).all()
    assert (better.seconds[rows] < plain.seconds[rows]).any()
    assert (better.peak_bytes[rows] == plain.peak_bytes[rows]).all()


@pytest.mark.parametrize("shape", MODELS, ids=str)
@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022], ids=lambda s: s.name)
def test_more_work_is_never_faster(shape, stack):
    plain = ask(shape, stack=stack)
    for more in (
        ask(replace(shape, layers=2 * shape.layers), stack=stack),
        ask(replace(shape, vocab=2 * shape.vocab), stack=stack),
        ask(shape, stack=stack, batch=384),
    ):
        rows = both(plain, more)
        assert (more.seconds[rows] > plain.seconds[rows]).all()
        assert (more.peak_bytes[rows] >= plain.peak_bytes[rows]).all()


@pytest.mark.parametrize("shape", MODELS, ids=str)
@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022], ids=lambda s: s.name)
def test_means_that_save_memory_save_it(shape, stack):
    levels = [ask(shape, stack=stack, zero=z) for z in range(4)]
    for level in (1, 3):  # 2 keeps a bucket of gradients that are not sharded yet
        rows = both(levels[0], levels[level])
        assert (levels[level].peak_bytes[rows] <= levels[0].peak_bytes[rows] + _buffers(shape)).all()
    again = [ask(shape, stack=stack, recompute=code) for code in range(3)]
    rows = both(again[0], again[2])
    assert (again[1].peak_bytes[rows] <= again[0].peak_bytes[rows]).all()
    assert (again[1].seconds[rows] >= again[0].seconds[rows] / SLACK).all()
    assert (again[2].seconds[rows] >= again[1].seconds[rows] / SLACK).all()
    split, whole = (ask(shape, stack=stack, sequence_parallel=flag) for flag in (True, False))
    rows = both(split, whole)
    assert (split.peak_bytes[rows] <= whole.peak_bytes[rows]).all()


def _buffers(shape):
    """Gathered weights of two layers, and a layer's gradients: what sharding keeps for a moment."""
    return (2 * 2 + 4) * shape.layer_matrix_params


@pytest.mark.parametrize("shape", MODELS, ids=str)
def test_mfu_is_flops_over_time(shape):
    r = ask(shape)
    rows = r.problem == 0
    expected = shape.model_flops(192) / (r.seconds[rows] * 16 * SPEC.peak_flops)
    assert np.allclose(r.mfu[rows], expected, rtol=1e-12)
    assert (r.mfu[rows] < 0.9).all()
    assert np.isnan(r.seconds[~rows]).all()


@pytest.mark.parametrize("shape", MODELS, ids=str)
def test_order_of_rows_does_not_matter(shape):
    columns = configurations()
    order = generator(7, "shuffle").permutation(len(columns["tp"]))
    plain = ask(shape)
    mixed = ask(shape, **{name: column[order] for name, column in columns.items()})
    assert np.array_equal(plain.seconds[order], mixed.seconds, equal_nan=True)
    assert np.array_equal(plain.peak_bytes[order], mixed.peak_bytes)
