"""What GPUs that vary make of the speed of a job, compiled: see `varying.Speeds`, of which this is the same in arrays.

While a job runs, `State.left`, `resumes` and `rate` are those of the window that it is in: all that asks what is left
of a job goes on as if nothing varied.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner

__all__ = ["catch_up", "set_off"]


@inner
def _factor(w, gpus, window):  # type: ignore[no-untyped-def]
    """`Speeds.factor`."""
    path, top = window % w.slow.shape[1], 0.0
    for g in gpus:
        top = max(top, w.slow[g, path])
    cells = w.share.shape[0] - 1
    if cells == 0:
        return top * w.low
    total = 0.0
    for k in range(cells):
        factor, below = w.low + (k + 0.5) * w.step, 1.0
        for g in gpus:
            place = (factor * top / w.slow[g, path] - w.low) / w.step
            if place < cells:
                edge = np.int64(place)
                below *= w.share[edge] + (w.share[edge + 1] - w.share[edge]) * (place - edge)
        total += 1.0 - below
    return top * (w.low + total * w.step)


@inner
def _end(w, window):  # type: ignore[no-untyped-def]
    """`Speeds.end`."""
    return (window + 1) * w.window if w.slow.shape[1] > 1 else np.inf


@inner
def set_off(w, s, e, gpus):  # type: ignore[no-untyped-def]
    """A job will go on with these GPUs; returns when it will be done, as `Speeds.finish`."""
    for k in range(gpus.shape[0]):
        s.members[e, k] = gpus[k]
    at, left, rate = s.resumes[e], s.left[e], s.rate[e]
    s.nominal[e] = rate
    s.timed_at[e], s.timed_left[e], s.whole[e] = at, left, left
    window = np.int64(at / w.window) if w.slow.shape[1] > 1 else np.int64(0)
    s.window[e], s.until[e] = window, _end(w, window)
    s.rate[e] = pace = rate / _factor(w, gpus, window)
    while True:
        end = _end(w, window)
        if left <= (end - at) * pace:
            return at + left / pace
        left -= (end - at) * pace
        at, window = end, window + 1
        pace = rate / _factor(w, gpus, window)


@inner
def catch_up(w, s, now):  # type: ignore[no-untyped-def]
    """Bring all jobs that run into the window of an instant."""
    for i in range(s.number[0]):
        e = s.queue[i]
        while s.until[e] <= now:
            s.left[e] -= (s.until[e] - s.resumes[e]) * s.rate[e]
            s.resumes[e] = s.until[e]
            s.window[e] += 1
            s.until[e] = _end(w, s.window[e])
            s.rate[e] = s.nominal[e] / _factor(w, s.members[e, : s.gpus[e]], s.window[e])
