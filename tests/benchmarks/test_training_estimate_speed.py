"""Speed of `estimate_many` on 666,368 possible configurations, and its ratio to `estimate`; printed, not asserted."""

import time
from itertools import product

import numpy as np
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate, estimate_many

GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
CLUSTER = Cluster(8, 8, "a100-80gb")
ROWS = 666_368  # as many as calculon's search of this model on 64 devices


def columns():
    powers = [1, 2, 4, 8, 16, 32, 64]
    rows = [
        (tp, pp, 64 // (tp * pp), b, v, again, sp, zero)
        for tp, pp, b, v, again, sp, zero in product(
            powers, powers, powers, range(1, 97), range(3), (False, True), range(4)
        )
        if tp * pp <= 64
    ]
    names = ("tp", "pp", "dp", "microbatch", "interleave", "recompute", "sequence_parallel", "zero")
    return dict(zip(names, (np.array(column) for column in zip(*rows, strict=True)), strict=True))


def test_configurations_per_second(benchmark):
    every = columns()
    possible = estimate_many(GPT3, CLUSTER, global_batch=64, stack=CORE, **every).problem == 0
    good = {name: np.resize(column[possible], ROWS) for name, column in every.items()}

    def run():
        begin = time.thread_time()
        many = estimate_many(GPT3, CLUSTER, global_batch=64, stack=CORE, **good)
        return time.thread_time() - begin, many

    seconds = min(run()[0] for _ in range(3))
    begin = time.thread_time()
    for _ in range(50):
        estimate(GPT3, CLUSTER, 8, 8, 1, 1, 64, 3, "full")
    one = (time.thread_time() - begin) / 50
    print(
        f"\n{ROWS} possible configurations in {seconds:.2f} CPU s, {ROWS / seconds:,.0f}/s; "
        f"one estimate {one * 1e3:.2f} ms, {one * ROWS / seconds:,.0f} times as long per configuration"
    )
    benchmark.pedantic(run, rounds=1)
