"""Figure 11 (Collage; thesis 2.11): throughput as backends are added one by one."""

from __future__ import annotations

import math
from pathlib import Path

from ..claims import Claim, Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas
from .campaign.parts import Part
from .campaign.records import Campaign, Steps
from .picture import grouped, signed
from .shown import notes, of_figure
from .systems import COLOURS, NETWORKS, TITLES

EXPECTED = {
    "monotone": Expectation(
        "performance improves monotonically as backends are added (the lowest throughput of a step over the step "
        "before, all networks)", "§2.5.4, Fig. 2.11", "at least 1", at_least(0.97, partly=0.9), "{:.3f}", timed=True,
    ),
    "consistent": Expectation(
        "BERT and DCGAN gain from each backend (the least gain of a step)", "§2.5.4, Fig. 2.11", "above 1",
        at_least(1.03, partly=1.0), "{:.3f}", timed=True,
    ),
    "one": Expectation(
        "NasNet-A, ResNeXt50 and 3D-ResNet50 owe the majority to one backend (its share of the whole gain, the least "
        "of the three; there TVM, TVM and cuDNN)", "§2.5.4, Fig. 2.11", "more than half",
        at_least(0.5, partly=0.4), "{:.0%}", timed=True,
    ),
}  # fmt: skip


def steps(campaign: Campaign) -> dict[str, Steps]:
    """Network -> its steps."""
    by_name = {one.model: one for one in campaign.steps}
    return {name: by_name[name] for name in NETWORKS if name in by_name}


def throughput(found: dict[str, Steps]) -> Frame:
    """Columns group (network), series (the backend added), ms, normalised (throughput over the last step's), gain."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for name, one in found.items():
        last = one.ways[-1]
        for k, (added, way) in enumerate(zip(one.added, one.ways, strict=True)):
            predicted = math.nan if way.predicted_ms is None else way.predicted_ms
            rows.append({
                "group": name, "series": _label(one, k), "added": added, "ms": way.median,
                "normalised": last.median / way.median, "gain": one.gain(k), "groups": way.groups,
                "uses": "+".join(way.backends), "predicted_ms": predicted,
            })  # fmt: skip
    return pd.DataFrame(rows)


def share(one: Steps) -> tuple[str, float]:
    """The backend whose step gains most, and its part of the logarithm of the whole gain; 0 where nothing is gained."""
    gains = [math.log(one.gain(k)) for k in range(1, len(one.ways))]
    whole = sum(gains)
    best = max(range(len(gains)), key=gains.__getitem__)
    return one.added[best + 1], gains[best] / whole if whole > math.log(1.03) else 0.0


def judged(found: dict[str, Steps]) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    gains = {(name, k): one.gain(k) for name, one in found.items() for k in range(1, len(one.ways))}
    lowest = min(gains, key=lambda key: gains[key])
    both = {key: gain for key, gain in gains.items() if key[0] in ("bert-base", "dcgan")}
    least = min(both, key=lambda key: both[key])
    idle = [f"{TITLES[n]} +{found[n].added[k]} {gain:.2f}×" for (n, k), gain in both.items() if gain < 1.03]
    shares = {name: share(found[name]) for name in ("nasnet-a", "resnext-50", "resnet3d-50") if name in found}
    few = min(shares, key=lambda name: shares[name][1])
    owed = ", ".join(f"{TITLES[name]} {part:.0%} to {who}" for name, (who, part) in shares.items())
    return [
        EXPECTED["monotone"].judge(gains[lowest], why=_falls(found[lowest[0]], lowest[1])),
        EXPECTED["consistent"].judge(both[least], why=f"of no use there: {', '.join(idle)}"),
        EXPECTED["one"].judge(shares[few][1], why=owed),
    ]


def _falls(one: Steps, k: int) -> str:
    """Why a step may be slower: predicted and measured, before and after."""
    before, after = one.ways[k - 1], one.ways[k]
    said = [f"{way.predicted_ms:.4g}" if way.predicted_ms is not None else "none" for way in (before, after)]
    return (
        f"{TITLES[one.model]}, {one.added[k]} added: predicted {said[0]} then {said[1]} ms, measured "
        f"{before.median:.4g} then {after.median:.4g} ms, {before.groups} then {after.groups} groups: costs are each "
        "group's own, and cutting costs more than they say. `meshwright plan` measures again and keeps what is faster"
    )


def _label(one: Steps, k: int) -> str:
    return one.added[0] if k == 0 else f"+ {one.added[k]}"


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    session = Session("collage/fig11", fast, out, seed)
    campaign = of_figure(fast, out, [Part("steps", name) for name in NETWORKS], progress)
    found = steps(campaign)
    frame = session.table(throughput(found))
    with canvas(1, 1, width=6.6, height=3.0) as (figure, axes):
        ax = axes[0, 0]
        first = next(iter(found.values()))
        colours = {_label(first, k): COLOURS[name] for k, name in enumerate(first.added)}
        grouped(frame, ax, list(found), colours, value="normalised", labels=[TITLES[name] for name in found])
        ax.set(ylabel="throughput over that with all")
        signed(figure, ax, campaign, fast, columns=3)
        session.figure(figure)
    more = (
        "op-level placements, a whole network on one library among the groups, as they are planned: nothing falls back "
        "to what was measured faster; steps that come to the same placement were timed once"
    )
    return session.finish(judged(found), [*notes(campaign, fast), more])


if __name__ == "__main__":
    main("collage/fig11")
