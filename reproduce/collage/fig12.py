"""Figure 12 (Collage; thesis 2.12): which backend gets which operators of BERT and ResNeXt50, at the op level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas
from .campaign.parts import Part
from .campaign.records import Campaign, Unit
from .picture import origin
from .shown import notes, of_figure
from .systems import BACKENDS, COLOURS, GRAPH_LIBRARIES, TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BERT, RESNEXT = "bert-base", "resnext-50"
PRODUCTS = ("matmul", "bmm", "scaled_dot_product_attention")
"""Operators of aten that hold BERT's batch matrix products: the two of attention, apart or as one operator."""
CONV = "conv2d"

EXPECTED = {
    "products": Expectation(
        "BERT: batch matrix products are assigned to different backends", "§2.5.5, Fig. 2.12", "2 (cuBLAS, TVM)",
        between(2, 2, beyond="above"), "{:.0f}", timed=True,
    ),
    "convolutions": Expectation(
        "ResNeXt50: convolutions are assigned to different backends", "§2.5.5, Fig. 2.12",
        "3 (cuDNN, TVM, TensorRT)", between(3, 3, partly=(2, 3), beyond="above"), "{:.0f}", timed=True,
    ),
    "same pattern": Expectation(
        "ResNeXt50: the identical fusion pattern Conv+ReLU goes to different backends (backends of the pattern that "
        "goes to the most)", "§2.5.5, Fig. 2.12", "several", at_least(2), "{:.0f}", timed=True,
    ),
    "single": Expectation(
        "ResNeXt50: a graph library is chosen even for a single operator (such convolutions)", "§2.5.5, Fig. 2.12",
        "some", at_least(1), "{:.0f}", timed=True,
    ),
    "large": Expectation(
        "patterns of more than ten operators are chosen (operators of the largest)", "§2.5.5", "more than 10",
        at_least(11, partly=8), "{:.0f}", timed=True,
    ),
}  # fmt: skip


def placements(campaign: Campaign) -> dict[str, tuple[Unit, ...]]:
    """Network -> its op-level placement."""
    found = {name: campaign.contest(name) for name in (BERT, RESNEXT)}
    return {name: one.op_level for name, one in found.items() if one is not None}


def listed(found: dict[str, tuple[Unit, ...]]) -> Frame:
    """Columns network, group, backend, operators, ops (as a pattern), cost_ms."""
    import pandas as pd

    rows: list[dict[str, object]] = [
        {
            "network": name, "group": k, "backend": unit.backend, "operators": len(unit.ops), "ops": pattern(unit),
            "cost_ms": unit.cost_ms,
        }
        for name, units in found.items()
        for k, unit in enumerate(units)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def pattern(unit: Unit) -> str:
    """Its operators, such as conv2d+batch_norm+relu."""
    return "+".join(unit.ops)


def having(units: Iterable[Unit], ops: Sequence[str]) -> Counter[str]:
    """Backend -> its units that hold one of some operators."""
    return Counter(unit.backend for unit in units if set(ops) & set(unit.ops))


def judged(found: dict[str, tuple[Unit, ...]]) -> list[Claim]:
    """Judge the placements against every claim of the paper."""
    bert, resnext = found[BERT], found[RESNEXT]
    fused: dict[tuple[str, ...], Counter[str]] = {}
    for unit in resnext:
        if CONV in unit.ops and "relu" in unit.ops:
            fused.setdefault(unit.ops, Counter()).update([unit.backend])
    most = max(fused.values(), key=len, default=Counter[str]())
    alone = [unit for unit in resnext if unit.ops == (CONV,) and unit.backend in GRAPH_LIBRARIES]
    largest = max((unit for units in found.values() for unit in units), key=lambda unit: len(unit.ops))
    sizes = Counter(len(unit.ops) for unit in resnext)
    products, convolutions = having(bert, PRODUCTS), having(resnext, (CONV,))
    return [
        EXPECTED["products"].judge(len(products), why=_counted(products)),
        EXPECTED["convolutions"].judge(len(convolutions), why=_counted(convolutions)),
        EXPECTED["same pattern"].judge(len(most), why=f"fused with ReLU: {_counted(most)}"),
        EXPECTED["single"].judge(
            len(alone), why=f"convolutions are fused: groups of ResNeXt50 by size {dict(sorted(sizes.items()))}"
        ),
        EXPECTED["large"].judge(len(largest.ops), why=f"{pattern(largest)} on {largest.backend}"),
    ]


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.most_common()) or "none"


ROWS = 6
"""Rows in which a placement is drawn, like lines of text."""


def draw(units: Sequence[Unit], ax: Axes, title: str) -> None:
    """Groups one after another, as wide as they have operators, in the colours of their backends."""
    total = sum(len(unit.ops) for unit in units)
    width = -(-total // ROWS)
    at = 0
    for unit in units:
        left, end = at, at + len(unit.ops)
        while left < end:
            row = left // width
            stop = min(end, (row + 1) * width)
            ax.barh(-row, stop - left, left=left - row * width, height=0.8, color=COLOURS[unit.backend],
                    edgecolor="white", linewidth=0.6)  # fmt: skip
            if set(unit.ops) & {CONV, *PRODUCTS}:
                ax.plot(left - row * width + 0.5, -row, ".", color="white", markersize=2.5)
            left = stop
        at = end
    ms = sum(unit.cost_ms for unit in units)
    ax.set(
        yticks=[],
        xticks=[],
        xlim=(0, width),
        title=f"{title}: {len(units)} groups of {total} operators, costs {ms:.4g} ms",
    )
    ax.grid(visible=False)


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    from matplotlib.patches import Patch

    session = Session("collage/fig12", fast, out, seed)
    campaign = of_figure(fast, out, [Part("contest", BERT), Part("contest", RESNEXT)], progress)
    found = placements(campaign)
    session.table(listed(found))
    with canvas(len(found), 1, width=7.6, height=2.1) as (figure, axes):
        for ax, (name, units) in zip(axes[:, 0], found.items(), strict=True):
            draw(units, ax, TITLES[name])
        axes[-1, 0].set_xlabel("operators, in the order in which groups run (dot: convolution or batch product)")
        used = [name for name in BACKENDS if any(unit.backend == name for units in found.values() for unit in units)]
        patches = [Patch(color=COLOURS[name], label=name) for name in used]
        figure.legend(handles=patches, loc="outside upper center", ncols=len(used), fontsize=7.5)
        origin(figure, campaign, fast)
        session.figure(figure)
    more = "the placement is the op level's; where Collage's plan falls back to one backend, all operators are its own"
    return session.finish(judged(found), [*notes(campaign, fast), more])


if __name__ == "__main__":
    main("collage/fig12")
