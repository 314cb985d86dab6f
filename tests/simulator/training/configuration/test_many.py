"""`estimate_many` gives what `estimate` gives, row by row, and NaN with a reason where it refuses."""

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate, estimate_many

SHAPE = TransformerShape(12, 1536, 12, 4, 4096, 32000, 1024, gated=True)
CLUSTER = Cluster(2, 4, "a100-40gb")
NAMES = ("tp", "pp", "dp", "microbatch", "interleave", "recompute", "sequence_parallel", "zero")


def table():
    rows = [
        (tp, pp, dp, b, v, again, sp, zero)
        for tp, pp, dp in itertools.product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
        if tp * pp * dp in (4, 8)
        for b, v, again, sp, zero in itertools.product((1, 2), (1, 3), range(3), (False, True), range(4))
    ]
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(NAMES)}


@pytest.mark.parametrize("options", [{}, {"stack": CORE, "dtype": "fp16"}])
def test_rows_are_those_of_estimate(options):
    columns = table()
    many = estimate_many(SHAPE, CLUSTER, global_batch=48, **columns, **options)
    assert len(many) == len(columns["tp"])
    rng = np.random.default_rng(7)
    checked = {"good": 0, "bad": 0}
    for row in rng.choice(len(many), 250, replace=False):
        said = {name: column[row].item() for name, column in columns.items()}
        said["recompute"] = ("none", "selective", "full")[said["recompute"]]
        if many.problem[row]:
            with pytest.raises(InputError) as caught:
                estimate(SHAPE, CLUSTER, global_batch=48, **said, **options)
            assert many.why(row).split(":")[0] in str(caught.value)
            assert np.isnan(many.seconds[row])
            assert (many.peak_bytes[row], many.fits[row]) == (-1, False)
            checked["bad"] += 1
        else:
            one = estimate(SHAPE, CLUSTER, global_batch=48, check_memory=False, **said, **options)
            assert many.seconds[row] == pytest.approx(one.seconds, rel=1e-12)
            assert many.mfu[row] == pytest.approx(one.mfu, rel=1e-12)
            assert many.peak_bytes[row] == one.peak_bytes
            assert many.device_bytes[row] == one.breakdown.memory.device
            assert many.fits[row] == one.fits
            checked["good"] += 1
    assert min(checked.values()) > 20


def test_best_is_the_fastest_that_fits():
    many = estimate_many(SHAPE, CLUSTER, global_batch=48, **table())
    best = many.best
    assert best is not None
    assert many.fits[best]
    assert many.seconds[best] == min(s for s, ok in zip(many.seconds, many.fits, strict=True) if ok)
    huge = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
    none = estimate_many(huge, CLUSTER, tp=4, pp=2, dp=1, microbatch=[1, 2], global_batch=8)
    assert none.best is None
    assert not none.problem.any()


def test_words_and_scalars():
    words = estimate_many(SHAPE, CLUSTER, tp=2, pp=2, dp=2, microbatch=1, global_batch=8,
                          recompute=["none", "selective", "full"])  # fmt: skip
    codes = estimate_many(SHAPE, CLUSTER, tp=2, pp=2, dp=2, microbatch=1, global_batch=8, recompute=[0, 1, 2])
    assert np.array_equal(words.seconds, codes.seconds)
    assert len(estimate_many(SHAPE, CLUSTER, tp=2, pp=2, dp=2, microbatch=1, global_batch=8)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": [2, 2], "pp": [2, 2, 2]}, "columns of one length .got tp 2, pp 3"),
        ({"recompute": ["none", "half"]}, "recompute: expected one of .*got 'half'"),
        ({"recompute": [0, 4]}, "recompute"),
        ({"dp": 2.0}, "dp: expected an integer"),
    ],
)
def test_bad_columns(change, message):
    said = {"tp": 2, "pp": 2, "dp": 2, "microbatch": 1, "global_batch": 8, **change}
    with pytest.raises(InputError, match=message):
        estimate_many(SHAPE, CLUSTER, **said)


def test_the_example_runs(capsys):
    runpy.run_path(str(Path(__file__).parents[4] / "examples/training_estimate.py"))
    said = capsys.readouterr().out
    assert "451584 combinations" in said
    assert "s per iteration, MFU" in said
