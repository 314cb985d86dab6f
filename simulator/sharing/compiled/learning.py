"""Slowdowns that agents learn, compiled: see `learning.SlowdownLearner`, of which this is the same in arrays."""

from __future__ import annotations

import math

import numpy as np

from ....jit import inner
from ..policy.learning import NORMAL, Z
from .lots import lot_kernel
from .view import left_of

__all__ = ["FIELDS", "measure"]

FIELDS = 6
"""Of each level: iterations, mean, sums of n σ² within batches and of n (mean of the batch − mean)², batches, believed
value."""

LEVELS = 4
NORMALS = np.array(NORMAL)


@inner
def _observe(row, slowdown, iterations, deviation, least):  # type: ignore[no-untyped-def]
    """`SlowdownLearner.observe`."""
    row[4] += 1
    row[0] += iterations
    before = slowdown - row[1]
    row[1] += before * (iterations / row[0])
    row[3] += iterations * before * (slowdown - row[1])
    row[2] += iterations * deviation * deviation
    variance = row[2] / row[0]
    if row[4] > 1:
        variance = max(variance, row[3] / (row[4] - 1))
    if row[0] >= least and abs(row[1] - row[5]) > Z * math.sqrt(variance / row[0]):
        row[5] = row[1]


@inner
def _in_order(rows, least, out):  # type: ignore[no-untyped-def]
    """`SlowdownLearner._in_order`."""
    value, weight, size = np.empty(LEVELS), np.empty(LEVELS), np.empty(LEVELS, np.int64)
    blocks = 0
    for level in range(LEVELS):
        value[blocks], size[blocks] = rows[level, 5], 1
        weight[blocks] = rows[level, 0] if rows[level, 0] >= least else 0.0
        blocks += 1
        while blocks > 1 and value[blocks - 2] > value[blocks - 1]:
            a, b = blocks - 2, blocks - 1
            total = weight[a] + weight[b]
            if total > 0:
                value[a] = (value[a] * weight[a] + value[b] * weight[b]) / total
            weight[a] = total
            size[a] += size[b]
            blocks -= 1
    level = 0
    for k in range(blocks):
        for _ in range(size[k]):
            out[level] = max(value[k], 1.0)
            level += 1


@inner
def measure(w, s, a, now):  # type: ignore[no-untyped-def]
    """An app's agent times the iterations that its jobs have done since it last did, and mends what it believes."""
    seen, p = False, w.phases[a] + s.phase[a]
    for e in range(w.entries[p], w.entries[p + 1]):
        if not s.alive[e] or s.gpus[e] == 0 or now <= (s.timed_at[e] if w.varies else s.resumes[e]):
            continue
        left = left_of(s, e, now)
        work = s.whole[e] - left if w.varies else (now - s.resumes[e]) * s.rate[e]
        done = math.floor(work / w.iteration_s[e])
        new = done - s.timed[e]
        if new < 1:
            continue
        s.timed[e] = done
        true = w.slowdown[a, s.near[e]]
        if w.varies:
            true *= s.nominal[e] * (now - s.timed_at[e]) / (s.timed_left[e] - left)
            s.timed_at[e], s.timed_left[e] = now, left
        z = NORMALS[np.int64(lot_kernel(w.noise_seed, s.batches[a], a) % np.uint64(NORMALS.shape[0]))]
        found = true * max(1.0 + w.noise * z / math.sqrt(new), 0.5)
        s.batches[a] += 1
        _observe(s.learned[a, s.near[e]], found, new, w.noise * true, w.least)
        seen = True
    if seen:
        _in_order(s.learned[a], w.least, w.believed_slowdown[a])
