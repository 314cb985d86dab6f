"""Two stages with their own microbatches, pass by pass: what Table 3.2 claims is counted, not computed."""

from __future__ import annotations


def kfkb(n: int, warmup: int, k: int) -> str:
    """Passes of a stage: warm-up forwards, then k backwards and k forwards in turn, then what is left."""
    done = {"F": min(warmup, n), "B": 0}
    passes = "F" * done["F"]
    while done["B"] < n:
        b = min(k, n - done["B"], done["F"] - done["B"])
        f = min(k, n - done["F"])
        passes += "B" * b + "F" * f
        done["B"] += b
        done["F"] += f
    return passes


def finish(samples: int, bx: int, x: str, by: int, y: str, forward: float, backward: float) -> float | None:
    """When the last pass of both stages ends; seconds are per sample. None: they wait for each other for ever."""
    ends = {(s, op): [0.0] * (samples // b) for s, b in (("x", bx), ("y", by)) for op in "FB"}
    done = dict.fromkeys(ends, 0)
    at, clock = {"x": 0, "y": 0}, {"x": 0.0, "y": 0.0}
    size, order, other = {"x": bx, "y": by}, {"x": x, "y": y}, {"x": "y", "y": "x"}
    moved = True
    while moved:
        moved = False
        for s in "xy":
            while at[s] < len(order[s]):
                op, b, far = order[s][at[s]], size[s], other[s]
                j = done[s, op]
                ready = clock[s]
                if (s, op) in (("x", "B"), ("y", "F")):  # it needs the other stage's passes over these samples
                    last = ((j + 1) * b - 1) // size[far]
                    if last >= done[far, op]:
                        break
                    ready = max(ready, ends[far, op][last])
                ends[s, op][j] = clock[s] = ready + b * (forward if op == "F" else backward)
                done[s, op] += 1
                at[s] += 1
                moved = True
    return max(clock.values()) if all(at[s] == len(order[s]) for s in "xy") else None


def fewest(samples: int, kx: int, bx: int, ky: int, by: int, forward: float, backward: float) -> int:
    """Fewest warm-up microbatches of x with which both stages end as early as with any, y being a last stage."""
    y = kfkb(samples // by, ky, ky)
    ends = {
        w: finish(samples, bx, kfkb(samples // bx, w, kx), by, y, forward, backward)
        for w in range(1, samples // bx + 1)
    }
    best = min(t for t in ends.values() if t is not None)
    return min(w for w, t in ends.items() if t is not None and t <= best + 1e-9)
