"""Figure 8 (AlpaServe; thesis 4.8): where the overhead of inter-op and intra-op parallelism comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles import ParallelConfig, auto_partition, equal_layers
from ...profiles.alpaserve.shipped import comm_model, layer_table
from ..claims import Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import COLOURS, canvas, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL = "bert-2.6b"
DEVICES = (1, 2, 4, 8)
PARTS = ("computation", "communication", "uneven partition")

EXPECTED = {
    "uneven": Expectation(
        "inter-op, eight devices: most of the overhead is uneven partition (its share)",
        "§3.3, Fig. 8a",
        "most",
        at_least(0.5),
        "{:.0%}",
    ),
    "always": Expectation(
        "inter-op: uneven partition outweighs communication at two, four and eight devices (least ratio)",
        "§3.3, Fig. 8a",
        "> 1",
        at_least(1.0),
        "{:.2f}",
    ),
    "intra": Expectation(
        "eight devices: intra-op communicates much more than inter-op (ratio, as shares of the computation)",
        "§3.3, Fig. 8b",
        "much higher",
        at_least(3.0, partly=1.0),
        "{:.1f}×",
    ),
}


def overheads(model: str = MODEL) -> Frame:
    """Decomposition of the effective latency.

    Inter-op: pp times the slowest stage = computation + communication + uneven partition, under the manual partition
    of §3.2. Intra-op: the latency = computation / op + communication.

    Returns
    -------
    DataFrame
        Columns parallelism ("inter-op" or "intra-op"), devices, part, seconds.
    """
    import pandas as pd

    table, comm = layer_table(model), comm_model(model)
    rows = []
    for n in DEVICES:
        for parallelism, cut in (
            ("inter-op", equal_layers(table, ParallelConfig(1, n), comm)),
            ("intra-op", auto_partition(table, ParallelConfig(n, 1), comm)),
        ):
            seconds = (cut.computation_s, cut.communication_s, cut.uneven_s)
            rows += [
                {"parallelism": parallelism, "devices": n, "part": part, "seconds": s}
                for part, s in zip(PARTS, seconds, strict=True)
            ]
    return pd.DataFrame(rows)


def draw(frame: Frame, parallelism: str, ax: Axes) -> Axes:
    """Draw the stacked bars of one kind of parallelism."""
    mine = frame[frame.parallelism == parallelism]
    wide = mine.pivot(index="devices", columns="part", values="seconds")
    bottom = 0.0 * wide[PARTS[0]]
    for part in PARTS:
        if parallelism == "intra-op" and part == PARTS[2]:
            continue
        ax.bar(range(len(wide)), 1e3 * wide[part], bottom=1e3 * bottom, width=0.6, color=COLOURS[part], label=part)
        bottom = bottom + wide[part]
    ax.set_xticks(range(len(wide)), [str(n) for n in wide.index])
    what = "effective latency (ms)" if parallelism == "inter-op" else "latency (ms)"
    title = f"{'a' if parallelism == 'inter-op' else 'b'}: {parallelism}"
    ax.set(xlabel="devices", ylabel=what, title=title)
    ax.grid(False, axis="x")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("alpaserve/fig08", fast, out, seed)
    frame = session.table(overheads())
    with canvas(1, 2, height=2.8) as (figure, axes):
        draw(frame, "inter-op", axes[0, 0])
        draw(frame, "intra-op", axes[0, 1])
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    wide = frame.pivot(index=["parallelism", "devices"], columns="part", values="seconds")
    inter, intra = wide.loc["inter-op"], wide.loc["intra-op"]
    overhead = inter.communication + inter["uneven partition"]
    ratio = inter["uneven partition"] / inter.communication
    share = {name: part.communication / part.computation for name, part in (("inter", inter), ("intra", intra))}
    return session.finish(
        [
            EXPECTED["uneven"].judge(inter["uneven partition"][8] / overhead[8]),
            EXPECTED["always"].judge(ratio[[2, 4, 8]].min()),
            EXPECTED["intra"].judge(share["intra"][8] / share["inter"][8]),
        ],
        notes=[
            "layers and communication from the shipped V100 model; equally many Transformer layers per stage, the "
            "embedding and the head with the first and the last"
        ],
    )


if __name__ == "__main__":
    main("alpaserve/fig08")
