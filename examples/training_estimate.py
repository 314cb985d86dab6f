"""The fastest way to train GPT-3 on 64 A100s, among every combination of the usual means."""

from itertools import product

import numpy as np
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate, estimate_many

gpt3 = TransformerShape(layers=96, hidden=12288, heads=96, vocab=51200, seq=2048)
cluster = Cluster(nodes=8, devices_per_node=8, device="a100-80gb")

powers = [1, 2, 4, 8, 16, 32, 64]
degrees = [(tp, pp, 64 // (tp * pp)) for tp, pp in product(powers, powers) if tp * pp <= 64]
rows = [
    (*degree, b, v, words, parallel, zero)
    for degree, b, v, words, parallel, zero in product(
        degrees, powers, range(1, 97), ("none", "selective", "full"), (False, True), range(4)
    )
]
tp, pp, dp, b, v, words, parallel, zero = (np.array(column) for column in zip(*rows, strict=True))
many = estimate_many(
    gpt3, cluster, tp=tp, pp=pp, dp=dp, microbatch=b, global_batch=64, interleave=v, recompute=words,
    sequence_parallel=parallel, zero=zero, stack=CORE,
)  # fmt: skip

best = many.best
assert best is not None, "nothing fits"
print(f"{len(many)} combinations, {int((many.problem == 0).sum())} possible, {int(many.fits.sum())} fit")
r = estimate(gpt3, cluster, *rows[best][:4], 64, *rows[best][4:], stack=CORE)
print("tp {} pp {} dp {} microbatch {} interleave {} recompute {} sequence parallel {} ZeRO {}".format(*rows[best]))
print(r.explain())
