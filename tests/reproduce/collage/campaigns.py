"""Campaigns made by hand: what every way takes is said, and nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.reproduce.collage.campaign.records import (
    Campaign,
    Contest,
    Made,
    Planning,
    Profiled,
    Search,
    Steps,
    Unit,
    Way,
)
from meshwright.reproduce.collage.systems import BATCHES, FRAMEWORKS, NETWORKS, STEPS

ROUNDS = 4
MADE = Made("a processor", 1, (("torch", "2.13.0+cpu"),), (("inductor", "no C++ compiler"),), "2026-11-28", 15, 240.0)


def way(name: str, ms: float, backends: Sequence[str] = ("torch-onednn",), groups: int = 1, wave: float = 0.0) -> Way:
    """A way whose rounds go up and down by `wave` around `ms`."""
    return Way(name, tuple(backends), groups, ms, tuple(ms * (1 + wave * (-1) ** k) for k in range(ROUNDS)))


def search(gain: float = 1.15, end: float = 200.0, late: float = 1.0) -> Search:
    """A search that finds `gain` in its first quarter, and `late` times as much at its end."""
    ratios = (1.0, 1 / gain, 1.2, None, 1 / (gain * late))
    return Search("onnxruntime", 9, 10.0, (0.0, end / 5, end / 4, end / 3, end), ratios, end)


def contest(
    model: str, batch: int = 1, *, collage: float = 5.0, frameworks: Mapping[str, float] | None = None,
    op_level: float = 6.0, found: float | None = None, units: Sequence[Unit] = (), of: Search | None = None,
    wave: float = 0.0,
) -> Contest:  # fmt: skip
    """Frameworks take 10 ms if nobody says otherwise."""
    ms = dict.fromkeys(FRAMEWORKS, 10.0) | dict(frameworks or {})
    ways = [way(name, taken, (name,), wave=wave) for name, taken in ms.items()]
    ways += [
        way("control", ms["torch-onednn"], wave=wave),
        way("Collage, op level", op_level, ("torch-native", "onnxruntime"), 7),
        way("Collage, graph level", op_level if found is None else found, ("onnxruntime",), 3),
        way("Collage", collage),
    ]
    units = units or (Unit("onnxruntime", ("conv2d", "relu"), 1.0),)
    profiled = Profiled(("torch-onednn",), 20, 1, 30.0)
    return Contest(model, batch, 30, 99, profiled, tuple(ways), "alone: onnxruntime", tuple(units), of, "2026-11-28")


def steps(model: str, ms: Sequence[float] = (10.0, 9.0, 6.0, 4.0, 3.0)) -> Steps:
    """Placements of five backends, one added after the other."""
    return Steps(model, STEPS, tuple(way(name, taken) for name, taken in zip(STEPS, ms, strict=True)))


def campaign(**changed: Contest) -> Campaign:
    """All that the six figures need. `changed` replaces contests: ``dcgan=…``, ``batch4=…``."""
    own = {name: contest(name, of=search(), found=5.2) for name in NETWORKS}
    own |= {f"batch{n}": contest("resnext-50", n) for n in BATCHES if n > 1}
    assert set(changed) <= set(own) | {name.replace("-", "_") for name in own}
    own |= {name.replace("_", "-") if name not in own else name: one for name, one in changed.items()}
    plannings = tuple(Planning(name, ("torch-onednn",), 40, 70.0, 30.0, 1.0, 0.5) for name in NETWORKS)
    return Campaign(MADE, tuple(own.values()), plannings, tuple(steps(name) for name in NETWORKS))
